/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verbatim doctor: is there a device, and can a program open it? Each address's port 4791 is tried,
 * and each device opened as a program would and closed again; the verdict is that of the engine.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/holder.h"
#include "engine/netdev.h"
#include "explain/reason.h"
#include "link/udp.h"
#include "command.h"
#include "doctor.h"

/* Is this inode that of a slot's socket (see engine/slot.h)? */
static bool is_slot_inode(unsigned long wanted)
{
	char line[512], path[128];
	unsigned long inode;
	bool is_slot = false;
	FILE *file = fopen("/proc/net/unix", "re");

	while (file && !is_slot && fgets(line, sizeof(line), file))
		is_slot = sscanf(line, "%*s %*s %*s %*s %*s %*s %lu %127s", &inode, path) == 2 &&
			  inode == wanted && !strncmp(path, "@verbatim/", 10);
	if (file)
		fclose(file);
	return is_slot;
}

/* A process that holds a slot is one of Verbatim's. */
static bool is_verbatim_process(long pid)
{
	char path[64], target[64];
	struct dirent *entry;
	unsigned long inode;
	bool is_ours = false;
	DIR *fds;

	snprintf(path, sizeof(path), "/proc/%ld/fd", pid);
	fds = opendir(path);
	while (fds && !is_ours && (entry = readdir(fds))) {
		ssize_t length = readlinkat(dirfd(fds), entry->d_name, target, sizeof(target) - 1);

		if (length <= 0)
			continue;
		target[length] = '\0';
		is_ours = sscanf(target, "socket:[%lu]", &inode) == 1 && is_slot_inode(inode);
	}
	if (fds)
		closedir(fds);
	return is_ours;
}

static void describe_holder(struct doctor_address *address, const struct doctor_host *host)
{
	struct holder holder = {0};
	bool is_ours;

	address->use = PORT_TAKEN;
	if (!holder_find(&address->gid, &holder)) {
		snprintf(address->holder, sizeof(address->holder),
			 "something that /proc/net/udp does not show");
		return;
	}
	is_ours = holder.pid && is_verbatim_process(holder.pid);
	if (is_ours && holder.uid == geteuid())
		address->use = PORT_SHARED;
	if (holder.pid)
		snprintf(address->holder, sizeof(address->holder), "%sprocess %ld (%s) of user %u",
			 is_ours ? "Verbatim " : "", holder.pid, holder.command, holder.uid);
	else if (host->has_rxe && !holder.uid)
		snprintf(address->holder, sizeof(address->holder),
			 "the kernel's own RoCE device (module rdma_rxe is loaded)");
	else
		snprintf(address->holder, sizeof(address->holder),
			 "a process of user %u, which this user may not look into", holder.uid);
}

static void try_port(struct doctor_address *address, uint32_t ifindex,
		     const struct doctor_host *host)
{
	int fd = udp_socket_bind(&address->gid, ifindex, false);

	if (fd >= 0) {
		close(fd);
		return;
	}
	if (fd == -EADDRINUSE) {
		describe_holder(address, host);
		return;
	}
	address->use = PORT_TAKEN;
	snprintf(address->holder, sizeof(address->holder), "nobody, but the kernel refuses it: %s",
		 strerror(-fd));
}

static const char *advice_for(const struct doctor *doctor, const struct doctor_address *address)
{
	if (strstr(address->holder, "rdma_rxe"))
		return "as root: modprobe -r rdma_rxe; or use the kernel's device with the "
		       "system's own "
		       "libibverbs";
	if (strstr(address->holder, "Verbatim"))
		return "run as the same user, or in another network namespace, or give each user "
		       "an address of "
		       "their own";
	if (strstr(address->holder, "process"))
		return "stop that program, or let Verbatim use other interfaces: VERBATIM_DEVICES, "
		       "or "
		       "`verbatim run --devices`";
	return doctor->host.uid ? "`verbatim doctor` as root may be able to say more" : "";
}

/* As a program would: the engine says what is wrong, if something is. */
static void try_device(struct doctor *doctor, struct doctor_device *device)
{
	const struct reason_text *reason;
	struct adapter *adapter;
	const char *live = "";
	int error;

	reason_clear();
	error = engine_open(&device->info, &adapter);
	if (!error) {
		engine_close(adapter);
		doctor->is_usable = true;
		return;
	}
	device->reason = reason_last(&live);
	reason = reason_find(device->reason);
	snprintf(device->live, sizeof(device->live), "%s", live);
	doctor_find(doctor, FINDING_PROBLEM, reason ? reason->advice : "",
		    "%s cannot be opened: %s%s%s%s", device->info.name,
		    reason ? reason->line : strerror(error), *live ? " (" : "", live,
		    *live ? ")" : "");
}

static int fill_device(struct doctor *doctor, struct doctor_device *device,
		       const struct netdev *netdev)
{
	char text[INET6_ADDRSTRLEN];

	device->speed_mbps = netdev->speed_mbps;
	device->addresses = calloc((size_t)netdev->gid_count + 1, sizeof(*device->addresses));
	if (!device->addresses)
		return -ENOMEM;
	device->count = netdev->gid_count;
	for (int i = 0; i < device->count; i++) {
		struct doctor_address *address = &device->addresses[i];

		address->gid = netdev->gids[i];
		try_port(address, device->info.ifindex, &doctor->host);
		if (address->use == PORT_TAKEN)
			doctor_find(doctor, FINDING_PROBLEM, advice_for(doctor, address),
				    "%s: UDP port %d of %s is held by %s", device->info.name,
				    ROCE_PORT, gid_text(&address->gid, text), address->holder);
	}
	return 0;
}

static int look_at_devices(struct doctor *doctor)
{
	struct device_info *infos = NULL;
	struct netdev *netdevs = NULL;
	int netdev_count = netdev_list(&netdevs), rc = 0;

	doctor->device_count = engine_list_devices(&infos);
	if (doctor->device_count < 0 || netdev_count < 0) {
		rc = netdev_count < 0 ? netdev_count : doctor->device_count;
		doctor->device_count = 0;
		doctor_find(doctor, FINDING_PROBLEM, "", "the devices cannot be listed: %s",
			    strerror(-rc));
		goto out;
	}
	doctor->devices = calloc((size_t)doctor->device_count + 1, sizeof(*doctor->devices));
	if (!doctor->devices) {
		rc = -ENOMEM;
		goto out;
	}
	for (int i = 0; i < doctor->device_count && !rc; i++) {
		struct doctor_device *device = &doctor->devices[i];
		const struct netdev *netdev = netdev_find(netdevs, netdev_count, infos[i].ifindex);

		device->info = infos[i];
		if (netdev)
			rc = fill_device(doctor, device, netdev);
	}
	for (int i = 0; i < doctor->device_count && !rc; i++)
		try_device(doctor, &doctor->devices[i]);
	if (!doctor->device_count)
		doctor_explain_no_device(doctor);
out:
	free(netdevs);
	free(infos);
	return rc;
}

static void free_doctor(struct doctor *doctor)
{
	for (int i = 0; i < doctor->device_count; i++)
		free(doctor->devices[i].addresses);
	free(doctor->devices);
	free(doctor);
}

int command_doctor(int argc, char **argv)
{
	bool is_json = argc == 2 && !strcmp(argv[1], "--json");
	struct doctor *doctor;
	bool is_usable;

	if (argc > 1 && !is_json) {
		bool is_help = !strcmp(argv[1], "-h") || !strcmp(argv[1], "--help");

		fputs("Usage: verbatim doctor [--json]\n"
		      "Says which devices programs find here, whether they can open them, and if "
		      "not, why and "
		      "what to do.\n"
		      "Exit status: 0 if at least one device can be used, 1 if none.\n",
		      is_help ? stdout : stderr);
		return is_help ? 0 : EXIT_OWN_FAULT;
	}
	doctor = calloc(1, sizeof(*doctor));
	if (!doctor)
		return EXIT_OWN_FAULT;
	doctor_look_at_host(doctor);
	if (look_at_devices(doctor))
		doctor->is_usable = false;
	if (is_json)
		doctor_print_json(doctor);
	else
		doctor_print(doctor);
	is_usable = doctor->is_usable;
	free_doctor(doctor);
	return is_usable ? 0 : 1;
}
