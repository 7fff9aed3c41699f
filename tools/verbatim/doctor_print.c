/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What doctor found, for people and for programs.
 */
#include <arpa/inet.h>
#include <endian.h>
#include <stdio.h>
#include <string.h>

#include "device/port.h"
#include "engine/holder.h"
#include "doctor.h"

static const char *use_text(enum port_use use)
{
	switch (use) {
	case PORT_FREE:
		return "free";
	case PORT_SHARED:
		return "shared";
	case PORT_TAKEN:
		return "taken";
	}
	return "";
}

static unsigned int path_mtu(const struct doctor_device *device)
{
	return 128U << port_mtu_of_netdev(device->info.mtu);
}

static void print_device(const struct doctor_device *device)
{
	char text[INET6_ADDRSTRLEN];

	printf("  %s on %s: %s, MTU %u (path MTU %u), GUID %016llx", device->info.name,
	       device->info.netdev, device->info.is_up ? "active" : "no carrier", device->info.mtu,
	       path_mtu(device), (unsigned long long)be64toh(device->info.guid));
	if (device->speed_mbps)
		printf(", %llu Mb/s", (unsigned long long)device->speed_mbps);
	putchar('\n');
	for (int i = 0; i < device->count; i++) {
		const struct doctor_address *address = &device->addresses[i];

		printf("    GID %-3d %-39s  port 4791 %s%s%s\n", i, gid_text(&address->gid, text),
		       address->use == PORT_TAKEN ? "TAKEN" : use_text(address->use),
		       address->holder[0] ? ": " : "", address->holder);
	}
	printf("    %s\n", device->reason ? "CANNOT BE OPENED, see below" : "can be opened");
}

static void print_host(const struct doctor_host *host)
{
	printf("  kernel            %s, user %u%s\n", host->kernel, host->uid,
	       host->has_rxe ? ", module rdma_rxe is loaded" : "");
	printf("  socket buffers    receive %d KiB, send %d KiB of %d KiB asked for",
	       host->rcvbuf_got / 1024, host->sndbuf_got / 1024, host->rcvbuf_asked / 1024);
	if (host->rmem_max >= 0)
		printf(" (rmem_max %ld, wmem_max %ld)", host->rmem_max, host->wmem_max);
	printf("\n  UDP offloads      segmentation %s, receive %s\n", host->has_gso ? "yes" : "NO",
	       host->has_gro ? "yes" : "NO");
	printf("  IPv6              %s\n", host->has_ipv6 ? "yes" : "no");
	if (host->ptrace_scope < 0)
		printf("  ptrace            not restricted by Yama\n");
	else
		printf("  ptrace            Yama's scope %d\n", host->ptrace_scope);
	if (host->memlock == UINT64_MAX)
		printf("  locked memory     no limit");
	else
		printf("  locked memory     %llu KiB", (unsigned long long)host->memlock / 1024);
	printf(" (Verbatim needs none)\n");
	printf("  open files        %llu\n", (unsigned long long)host->descriptors);
}

static void print_findings(const struct doctor *doctor, enum finding_level level, const char *title)
{
	bool is_titled = false;

	for (int i = 0; i < doctor->finding_count; i++) {
		const struct finding *finding = &doctor->findings[i];

		if (finding->level != level)
			continue;
		if (!is_titled)
			printf("\n%s\n", title);
		is_titled = true;
		printf("  * %s\n", finding->what);
		if (finding->advice[0])
			printf("    -> %s\n", finding->advice);
	}
}

void doctor_print(const struct doctor *doctor)
{
	printf("Devices: %d\n", doctor->device_count);
	for (int i = 0; i < doctor->device_count; i++)
		print_device(&doctor->devices[i]);
	printf("\nThis machine:\n");
	print_host(&doctor->host);
	print_findings(doctor, FINDING_PROBLEM, "What does not work:");
	print_findings(doctor, FINDING_NOTE, "What could be better:");
	if (doctor->is_usable)
		printf("\nVerbatim can be used here: verbatim run -- ibv_devinfo\n");
	else
		printf("\nVerbatim CANNOT be used here%s.\n",
		       doctor->finding_count ? ", see above" : "");
}

static void json_string(const char *name, const char *value)
{
	printf("\"%s\":\"", name);
	for (const unsigned char *at = (const unsigned char *)value; *at; at++) {
		if (*at == '"' || *at == '\\')
			printf("\\%c", *at);
		else if (*at < 0x20)
			printf("\\u%04x", *at);
		else
			putchar(*at);
	}
	putchar('"');
}

static void json_address(int index, const struct doctor_address *address)
{
	char text[INET6_ADDRSTRLEN];

	printf("{\"gid_index\":%d,", index);
	json_string("address", gid_text(&address->gid, text));
	putchar(',');
	json_string("gid", inet_ntop(AF_INET6, address->gid.raw, text, sizeof(text)));
	putchar(',');
	json_string("port", use_text(address->use));
	putchar(',');
	json_string("holder", address->holder);
	putchar('}');
}

static void json_device(const struct doctor_device *device)
{
	printf("{");
	json_string("name", device->info.name);
	putchar(',');
	json_string("interface", device->info.netdev);
	printf(",\"guid\":\"%016llx\",\"mtu\":%u,\"path_mtu\":%u,\"active\":%s,\"mbps\":%llu,",
	       (unsigned long long)be64toh(device->info.guid), device->info.mtu, path_mtu(device),
	       device->info.is_up ? "true" : "false", (unsigned long long)device->speed_mbps);
	printf("\"usable\":%s,\"reason\":%u,", device->reason ? "false" : "true", device->reason);
	json_string("detail", device->live);
	printf(",\"addresses\":[");
	for (int i = 0; i < device->count; i++) {
		if (i)
			putchar(',');
		json_address(i, &device->addresses[i]);
	}
	printf("]}");
}

static void json_host(const struct doctor_host *host)
{
	printf("{");
	json_string("kernel", host->kernel);
	printf(",\"uid\":%u,\"rmem_max\":%ld,\"wmem_max\":%ld,\"receive_buffer\":%d,\"send_"
	       "buffer\":%d,",
	       host->uid, host->rmem_max, host->wmem_max, host->rcvbuf_got, host->sndbuf_got);
	printf("\"gso\":%s,\"gro\":%s,\"ipv6\":%s,\"rdma_rxe\":%s,",
	       host->has_gso ? "true" : "false", host->has_gro ? "true" : "false",
	       host->has_ipv6 ? "true" : "false", host->has_rxe ? "true" : "false");
	printf("\"ptrace_scope\":%d,\"memlock\":", host->ptrace_scope);
	if (host->memlock == UINT64_MAX)
		printf("null");
	else
		printf("%llu", (unsigned long long)host->memlock);
	printf(",\"open_files\":%llu}", (unsigned long long)host->descriptors);
}

void doctor_print_json(const struct doctor *doctor)
{
	printf("{\"usable\":%s,\"devices\":[", doctor->is_usable ? "true" : "false");
	for (int i = 0; i < doctor->device_count; i++) {
		if (i)
			putchar(',');
		json_device(&doctor->devices[i]);
	}
	printf("],\"host\":");
	json_host(&doctor->host);
	printf(",\"findings\":[");
	for (int i = 0; i < doctor->finding_count; i++) {
		const struct finding *finding = &doctor->findings[i];

		printf("%s{\"level\":\"%s\",", i ? "," : "",
		       finding->level == FINDING_PROBLEM ? "problem" : "note");
		json_string("what", finding->what);
		putchar(',');
		json_string("advice", finding->advice);
		putchar('}');
	}
	printf("]}\n");
}
