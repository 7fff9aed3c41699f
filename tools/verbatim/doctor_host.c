/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the machine gives: socket buffers, offloads, limits; and its interfaces when none of them
 * carries a device. All of it by asking the kernel for the thing itself where that can be done.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "doctor.h"

enum {
	WANTED_BUFFER = 8 << 20, /* what the link asks for */
	MODEST_BUFFER = 1 << 20, /* below it bulk transfers feel the window */
};

void doctor_find(struct doctor *doctor, enum finding_level level, const char *advice,
		 const char *format, ...)
{
	struct finding *finding;
	va_list values;

	if (doctor->finding_count == MAX_FINDINGS)
		return;
	finding = &doctor->findings[doctor->finding_count++];
	finding->level = level;
	va_start(values, format);
	vsnprintf(finding->what, sizeof(finding->what), format, values);
	va_end(values);
	snprintf(finding->advice, sizeof(finding->advice), "%s", advice);
}

static long read_number(const char *path)
{
	FILE *file = fopen(path, "re");
	long number = -1;

	if (!file)
		return -1;
	if (fscanf(file, "%ld", &number) != 1)
		number = -1;
	fclose(file);
	return number;
}

static bool is_loaded(const char *module)
{
	char line[256], name[64];
	bool is_there = false;
	FILE *file = fopen("/proc/modules", "re");

	if (file) {
		while (!is_there && fgets(line, sizeof(line), file))
			is_there = sscanf(line, "%63s", name) == 1 && !strcmp(name, module);
		fclose(file);
	}
	if (!is_there) {
		snprintf(line, sizeof(line), "/sys/module/%s", module);
		is_there = !access(line, F_OK);
	}
	return is_there;
}

/* What SO_RCVBUF or SO_SNDBUF grants: the kernel reports the double, its own overhead included. */
static int granted(int fd, int option)
{
	int size = WANTED_BUFFER;
	socklen_t length = sizeof(size);

	setsockopt(fd, SOL_SOCKET, option, &size, sizeof(size));
	return getsockopt(fd, SOL_SOCKET, option, &size, &length) ? -1 : size / 2;
}

static void look_at_sockets(struct doctor_host *host)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), value = 1024, one = 1;

	host->rcvbuf_asked = WANTED_BUFFER;
	if (fd >= 0) {
		host->rcvbuf_got = granted(fd, SO_RCVBUF);
		host->sndbuf_got = granted(fd, SO_SNDBUF);
		host->has_gso = !setsockopt(fd, IPPROTO_UDP, UDP_SEGMENT, &value, sizeof(value));
		host->has_gro = !setsockopt(fd, IPPROTO_UDP, UDP_GRO, &one, sizeof(one));
		close(fd);
	}
	fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	host->has_ipv6 = fd >= 0 && !access("/proc/net/if_inet6", F_OK);
	if (fd >= 0)
		close(fd);
}

static uint64_t limit_of(int resource)
{
	struct rlimit limit;

	if (getrlimit((__rlimit_resource_t)resource, &limit))
		return 0;
	return limit.rlim_cur == RLIM_INFINITY ? UINT64_MAX : limit.rlim_cur;
}

static void advise_on_host(struct doctor *doctor)
{
	const struct doctor_host *host = &doctor->host;

	if (host->rcvbuf_got < MODEST_BUFFER)
		doctor_find(
		    doctor, FINDING_NOTE,
		    "as root: sysctl -w net.core.rmem_max=8388608 net.core.wmem_max=8388608",
		    "the kernel gives sockets %d KiB of receive buffer (net.core.rmem_max): "
		    "large transfers will be slower than they could be",
		    host->rcvbuf_got / 1024);
	if (!host->has_gso || !host->has_gro)
		doctor_find(
		    doctor, FINDING_NOTE, "Linux 5.0 and later have both",
		    "this kernel has no UDP %s: bulk transfers take a system call for every few "
		    "packets",
		    !host->has_gso ? "segmentation (UDP_SEGMENT)" : "receive offload (UDP_GRO)");
	if (!host->has_ipv6)
		doctor_find(
		    doctor, FINDING_NOTE,
		    "programs that want GID index 0 to be a link-local one need IPv6",
		    "there is no IPv6 here (a container or net.ipv6.conf.*.disable_ipv6): devices "
		    "have IPv4 addresses only");
	if (host->ptrace_scope > 1)
		doctor_find(
		    doctor, FINDING_NOTE, "as root: sysctl -w kernel.yama.ptrace_scope=1",
		    "Yama forbids that processes copy from each other (ptrace_scope %d): large "
		    "messages between processes of this host are copied twice",
		    host->ptrace_scope);
	if (host->descriptors < 1024)
		doctor_find(
		    doctor, FINDING_NOTE, "ulimit -n 4096",
		    "only %llu open files are allowed: programs with many completion channels may "
		    "run out",
		    (unsigned long long)host->descriptors);
}

void doctor_look_at_host(struct doctor *doctor)
{
	struct doctor_host *host = &doctor->host;
	struct utsname name;

	if (!uname(&name))
		snprintf(host->kernel, sizeof(host->kernel), "%.48s %.64s", name.sysname,
			 name.release);
	host->uid = geteuid();
	host->rmem_max = read_number("/proc/sys/net/core/rmem_max");
	host->wmem_max = read_number("/proc/sys/net/core/wmem_max");
	host->ptrace_scope = (int)read_number("/proc/sys/kernel/yama/ptrace_scope");
	host->has_rxe = is_loaded("rdma_rxe");
	host->memlock = limit_of(RLIMIT_MEMLOCK);
	host->descriptors = limit_of(RLIMIT_NOFILE);
	look_at_sockets(host);
	advise_on_host(doctor);
}

/* One entry of getifaddrs() for the interface itself, and whether others give it an address. */
static void explain_interface(struct doctor *doctor, const struct ifaddrs *list,
			      const struct ifaddrs *link)
{
	char advice[192];
	int addresses = 0;

	for (const struct ifaddrs *at = list; at; at = at->ifa_next)
		if (!strcmp(at->ifa_name, link->ifa_name) && at->ifa_addr &&
		    (at->ifa_addr->sa_family == AF_INET || at->ifa_addr->sa_family == AF_INET6))
			addresses++;
	if (!(link->ifa_flags & IFF_UP)) {
		snprintf(advice, sizeof(advice), "as root: ip link set %s up", link->ifa_name);
		doctor_find(doctor, FINDING_PROBLEM, advice, "interface %s is down",
			    link->ifa_name);
	} else if (!addresses) {
		snprintf(advice, sizeof(advice), "as root: ip address add ADDRESS/PREFIX dev %s",
			 link->ifa_name);
		doctor_find(doctor, FINDING_PROBLEM, advice,
			    "interface %s is up but has no address", link->ifa_name);
	} else {
		doctor_find(doctor, FINDING_PROBLEM,
			    "unset VERBATIM_DEVICES, or name this interface in it",
			    "interface %s is up and has %d address%s, but carries no device",
			    link->ifa_name, addresses, addresses == 1 ? "" : "es");
	}
}

void doctor_explain_no_device(struct doctor *doctor)
{
	const char *wanted = getenv("VERBATIM_DEVICES");
	struct ifaddrs *list, *link;
	int count = 0;

	if (wanted)
		doctor_find(doctor, FINDING_PROBLEM,
			    "NAME=INTERFACE,... of interfaces that `ip address` shows up",
			    "VERBATIM_DEVICES is set to '%s', and only that is looked for", wanted);
	if (getifaddrs(&list)) {
		doctor_find(doctor, FINDING_PROBLEM, "", "the interfaces cannot be listed: %s",
			    strerror(errno));
		return;
	}
	/* Each interface comes once with its link-layer address (AF_PACKET), whatever its state. */
	for (link = list; link; link = link->ifa_next)
		if (link->ifa_addr && link->ifa_addr->sa_family == AF_PACKET) {
			explain_interface(doctor, list, link);
			count++;
		}
	if (!count)
		doctor_find(doctor, FINDING_PROBLEM, "", "there is no network interface at all");
	freeifaddrs(list);
}
