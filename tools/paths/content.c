/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the tree contains: the files that the kernel's InfiniBand core has for an adapter, written
 * from what the library says of its devices, in the kernel's spelling (Documentation/ABI/stable/
 * sysfs-class-infiniband of Linux). What we cannot tell is left out, not invented.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "paths.h"

enum {
	UVERBS_ABI = 6,	    /* of the core's own interface, what libraries look for */
	CAP_MASK = 1 << 16, /* IB_PORT_CM_SUP */
};

/* Where the writing goes on, and the first error, after which nothing more is written. */
struct writer {
	const char *root;
	int rc;
};

static int make_parents(char *path)
{
	for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		if (mkdir(path, 0755) && errno != EEXIST)
			return -errno;
		*slash = '/';
	}
	return 0;
}

static bool place(struct writer *writer, char *path, const char *format, va_list values)
{
	int length;

	if (writer->rc)
		return false;
	length = snprintf(path, PATH_MAX, "%s/", writer->root);
	length += vsnprintf(path + length, PATH_MAX - (size_t)length, format, values);
	if (length >= PATH_MAX)
		writer->rc = -ENAMETOOLONG;
	return !writer->rc;
}

/* One file with `text` and a newline. */
static __attribute__((format(printf, 3, 4))) void put(struct writer *writer, const char *text,
						      const char *format, ...)
{
	char path[PATH_MAX];
	va_list values;
	FILE *file;
	bool placed;

	va_start(values, format);
	placed = place(writer, path, format, values);
	va_end(values);
	if (!placed)
		return;
	/* Most files come after another of the same directory. */
	file = fopen(path, "we");
	if (!file && errno == ENOENT && !(writer->rc = make_parents(path)))
		file = fopen(path, "we");
	if (!file) {
		if (!writer->rc)
			writer->rc = -errno;
		return;
	}
	if (fprintf(file, "%s\n", text) < 0)
		writer->rc = -EIO;
	if (fclose(file) && !writer->rc)
		writer->rc = -errno;
}

static __attribute__((format(printf, 3, 4))) void
put_link(struct writer *writer, const char *target, const char *format, ...)
{
	char path[PATH_MAX];
	va_list values;
	bool placed;

	va_start(values, format);
	placed = place(writer, path, format, values);
	va_end(values);
	if (!placed)
		return;
	writer->rc = make_parents(path);
	if (!writer->rc && symlink(target, path))
		writer->rc = -errno;
}

static __attribute__((format(printf, 2, 3))) void put_directory(struct writer *writer,
								const char *format, ...)
{
	char path[PATH_MAX];
	va_list values;
	bool placed;

	va_start(values, format);
	placed = place(writer, path, format, values);
	va_end(values);
	if (!placed)
		return;
	writer->rc = make_parents(path);
	if (!writer->rc && mkdir(path, 0755) && errno != EEXIST)
		writer->rc = -errno;
}

static void guid_text(uint64_t guid, char *text, size_t size)
{
	uint64_t host = be64toh(guid);

	snprintf(text, size, "%04x:%04x:%04x:%04x", (unsigned int)(host >> 48),
		 (unsigned int)(host >> 32 & 0xffff), (unsigned int)(host >> 16 & 0xffff),
		 (unsigned int)(host & 0xffff));
}

static void gid_text(const union ibv_gid *gid, char *text)
{
	for (int i = 0; i < 16; i += 2)
		text += sprintf(text, "%s%02x%02x", i ? ":" : "", gid->raw[i], gid->raw[i + 1]);
}

static bool is_empty(const union ibv_gid *gid)
{
	return !gid->global.subnet_prefix && !gid->global.interface_id;
}

static void rate_text(const struct ibv_port_attr *port, char *text, size_t size)
{
	static const struct {
		int speed;
		const char *name;
		unsigned int tenths; /* Gb/s of one lane, times ten */
	} speeds[] = {
	    {1, " SDR", 25},   {2, " DDR", 50},	  {4, " QDR", 100},  {8, " FDR10", 100},
	    {16, " FDR", 140}, {32, " EDR", 250}, {64, " HDR", 500}, {128, " NDR", 1000},
	};
	unsigned int width = port->active_width == 2	? 4
			     : port->active_width == 4	? 8
			     : port->active_width == 8	? 12
			     : port->active_width == 16 ? 2
							: 1;
	unsigned int rate = 25 * width;
	const char *name = " SDR";

	for (size_t i = 0; i < sizeof(speeds) / sizeof(speeds[0]); i++)
		if (speeds[i].speed == port->active_speed) {
			rate = speeds[i].tenths * width;
			name = speeds[i].name;
		}
	if (rate % 10)
		snprintf(text, size, "%u.%u Gb/sec (%uX%s)", rate / 10, rate % 10, width, name);
	else
		snprintf(text, size, "%u Gb/sec (%uX%s)", rate / 10, width, name);
}

static const char *state_text(enum ibv_port_state state)
{
	static const char *const names[] = {
	    [IBV_PORT_NOP] = "0: NOP",	     [IBV_PORT_DOWN] = "1: DOWN",
	    [IBV_PORT_INIT] = "2: INIT",     [IBV_PORT_ARMED] = "3: ARMED",
	    [IBV_PORT_ACTIVE] = "4: ACTIVE", [IBV_PORT_ACTIVE_DEFER] = "5: ACTIVE_DEFER",
	};

	return (unsigned int)state < sizeof(names) / sizeof(names[0]) ? names[state] : names[0];
}

static const char *phys_state_text(int state)
{
	static const char *const names[] = {"0: <unknown>",
					    "1: Sleep",
					    "2: Polling",
					    "3: Disabled",
					    "4: PortConfigurationTraining",
					    "5: LinkUp",
					    "6: LinkErrorRecovery",
					    "7: Phy Test"};

	return state >= 0 && state < 8 ? names[state] : names[0];
}

static void write_gids(struct writer *writer, const char *port, const struct view_device *device)
{
	char text[48];

	for (int i = 0; i < device->port.gid_tbl_len && i < VIEW_GIDS; i++) {
		gid_text(&device->gids[i], text);
		put(writer, text, "%s/gids/%d", port, i);
		if (is_empty(&device->gids[i]))
			continue;
		put(writer, "RoCE v2", "%s/gid_attrs/types/%d", port, i);
		put(writer, device->netdev, "%s/gid_attrs/ndevs/%d", port, i);
	}
}

static void write_port(struct writer *writer, const char *base, const struct view_device *device)
{
	const struct ibv_port_attr *attr = &device->port;
	char port[PATH_MAX / 2], text[64];

	snprintf(port, sizeof(port), "%s/ports/1", base);
	put(writer, state_text(attr->state), "%s/state", port);
	put(writer, phys_state_text(attr->phys_state), "%s/phys_state", port);
	put(writer, attr->link_layer == IBV_LINK_LAYER_INFINIBAND ? "InfiniBand" : "Ethernet",
	    "%s/link_layer", port);
	rate_text(attr, text, sizeof(text));
	put(writer, text, "%s/rate", port);
	snprintf(text, sizeof(text), "0x%x", attr->lid);
	put(writer, text, "%s/lid", port);
	snprintf(text, sizeof(text), "0x%x", attr->sm_lid);
	put(writer, text, "%s/sm_lid", port);
	snprintf(text, sizeof(text), "%u", attr->lmc);
	put(writer, text, "%s/lid_mask_count", port);
	snprintf(text, sizeof(text), "%u", attr->sm_sl);
	put(writer, text, "%s/sm_sl", port);
	snprintf(text, sizeof(text), "0x%08x",
		 attr->port_cap_flags ? attr->port_cap_flags : CAP_MASK);
	put(writer, text, "%s/cap_mask", port);
	for (int i = 0; i < device->port.pkey_tbl_len && i < VIEW_PKEYS; i++) {
		snprintf(text, sizeof(text), "0x%04x", device->pkeys[i]);
		put(writer, text, "%s/pkeys/%d", port, i);
	}
	put_directory(writer, "%s/counters", port);
	put_directory(writer, "%s/hw_counters", port);
	write_gids(writer, port, device);
}

/* The first line of a real file, without its newline. */
static bool read_line(const char *path, char *text, size_t size)
{
	FILE *file = fopen(path, "re");
	bool is_read = file && fgets(text, (int)size, file);

	if (file)
		fclose(file);
	if (is_read)
		text[strcspn(text, "\n")] = '\0';
	return is_read;
}

/*
 * device/: of an interface on a PCI function this is that function's directory, so that programs
 * find the PCI path. A virtual one, and one behind virtio, gets a directory with what its
 * device or the nearest device above it has, and the attributes of no particular node else.
 */
static void write_device(struct writer *writer, const char *base, const struct view_device *device)
{
	static const struct {
		const char *name, *otherwise;
	} attributes[] = {
	    {"vendor", "0xffff"},	{"device", "0xffff"}, {"subsystem_vendor", NULL},
	    {"subsystem_device", NULL}, {"class", NULL},      {"revision", NULL},
	    {"numa_node", "-1"},	{"local_cpus", NULL}, {"local_cpulist", NULL},
	};
	char real[PATH_MAX], path[PATH_MAX + 32], line[512], *slash;
	bool is_backed, is_found;
	ssize_t length;

	snprintf(path, sizeof(path), "/sys/class/net/%s/device", device->netdev);
	is_backed = realpath(path, real) != NULL;
	snprintf(path, sizeof(path), "%s/subsystem", is_backed ? real : "");
	length = is_backed ? readlink(path, line, sizeof(line) - 1) : -1;
	if (length >= 4 && !memcmp(line + length - 4, "/pci", 4)) {
		put_link(writer, real, "%s/device", base);
		return;
	}
	for (size_t i = 0; i < sizeof(attributes) / sizeof(attributes[0]); i++) {
		char up[PATH_MAX];

		snprintf(up, sizeof(up), "%s", is_backed ? real : "");
		is_found = false;
		while (!is_found && strlen(up) > strlen("/sys/devices")) {
			snprintf(path, sizeof(path), "%.*s/%s", PATH_MAX, up, attributes[i].name);
			is_found = read_line(path, line, sizeof(line));
			slash = strrchr(up, '/');
			*slash = '\0';
		}
		if (!is_found && !strncmp(attributes[i].name, "local_cpu", 9))
			is_found = read_line(!strcmp(attributes[i].name, "local_cpus")
						 ? "/sys/devices/system/node/node0/cpumap"
						 : "/sys/devices/system/cpu/online",
					     line, sizeof(line));
		if (is_found || attributes[i].otherwise)
			put(writer, is_found ? line : attributes[i].otherwise, "%s/device/%s", base,
			    attributes[i].name);
	}
	snprintf(path, sizeof(path), "/sys/class/net/%s", device->netdev);
	put_link(writer, path, "%s/device/net/%s", base, device->netdev);
}

static void write_uverbs(struct writer *writer, const struct view_device *device)
{
	static const char verbs[] = "sys/devices/virtual/infiniband_verbs";
	const char *name = device->dev_name;
	char text[128], target[PATH_MAX];
	int minor = NODE_UVERBS_0 + (strncmp(name, "uverbs", 6) ? 0 : atoi(name + 6));

	put(writer, device->name, "%s/%s/ibdev", verbs, name);
	put(writer, "1", "%s/%s/abi_version", verbs, name);
	snprintf(text, sizeof(text), "%d:%d", NODE_MAJOR, minor);
	put(writer, text, "%s/%s/dev", verbs, name);
	snprintf(text, sizeof(text), "MAJOR=%d\nMINOR=%d\nDEVNAME=infiniband/%s", NODE_MAJOR, minor,
		 name);
	put(writer, text, "%s/%s/uevent", verbs, name);
	snprintf(target, sizeof(target), "../../infiniband/%s/device", device->name);
	put_link(writer, target, "%s/%s/device", verbs, name);
	snprintf(target, sizeof(target), "../../devices/virtual/infiniband_verbs/%s", name);
	put_link(writer, target, "sys/class/infiniband_verbs/%s", name);
	put_link(writer, "/dev/null", "dev/infiniband/%s", name);
}

static void write_device_files(struct writer *writer, const struct view_device *device)
{
	char base[PATH_MAX / 4], text[PATH_MAX];

	snprintf(base, sizeof(base), "sys/devices/virtual/infiniband/%s", device->name);
	guid_text(device->guid, text, sizeof(text));
	put(writer, text, "%s/node_guid", base);
	put(writer, text, "%s/sys_image_guid", base);
	put(writer, "1: CA", "%s/node_type", base);
	put(writer, device->name, "%s/node_desc", base);
	put(writer, device->fw_version, "%s/fw_ver", base);
	put(writer, "Verbatim", "%s/hca_type", base);
	put(writer, "Verbatim", "%s/board_id", base);
	put(writer, "0x0", "%s/hw_rev", base);
	put(writer, device->netdev, "%s/parent", base);
	write_port(writer, base, device);
	write_device(writer, base, device);
	snprintf(text, sizeof(text), "../../devices/virtual/infiniband/%s", device->name);
	put_link(writer, text, "sys/class/infiniband/%s", device->name);
	snprintf(text, sizeof(text), "../../../../../devices/virtual/infiniband/%s", device->name);
	put_link(writer, text, "sys/class/net/%s/device/infiniband/%s", device->netdev,
		 device->name);
	write_uverbs(writer, device);
}

int content_write(const char *root, const struct view_device *devices, int count)
{
	struct writer writer = {.root = root};
	char text[16];

	put_directory(&writer, "sys/class/infiniband");
	put_directory(&writer, "sys/devices/virtual/infiniband");
	put_directory(&writer, "sys/devices/virtual/infiniband_verbs");
	put_directory(&writer, "dev/infiniband");
	snprintf(text, sizeof(text), "%d", UVERBS_ABI);
	put(&writer, text, "sys/class/infiniband_verbs/abi_version");
	for (int i = 0; i < count; i++)
		write_device_files(&writer, &devices[i]);
	return writer.rc;
}

/*
 * In place, since programs keep such a file open, go back to its beginning and read again, as one
 * does with the kernel's.
 */
static void put_counter(struct writer *writer, uint64_t value, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void put_counter(struct writer *writer, uint64_t value, const char *format, ...)
{
	char path[PATH_MAX], text[32];
	int length = snprintf(text, sizeof(text), "%llu\n", (unsigned long long)value), fd;
	va_list values;
	bool placed;

	va_start(values, format);
	placed = place(writer, path, format, values);
	va_end(values);
	if (!placed)
		return;
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	if (fd < 0 || pwrite(fd, text, (size_t)length, 0) != length || ftruncate(fd, length))
		writer->rc = -errno;
	if (fd >= 0)
		close(fd);
}

int content_write_counters(const char *root, const char *device,
			   const struct view_counter *counters, int count)
{
	struct writer writer = {.root = root};

	for (int i = 0; i < count; i++)
		put_counter(&writer, counters[i].value,
			    "sys/devices/virtual/infiniband/%s/ports/1/%s/%s", device,
			    counters[i].group, counters[i].name);
	return writer.rc;
}
