/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One device and its ports, in the words and columns that scripts know from the original program.
 */
#include <arpa/inet.h>
#include <endian.h>
#include <stdio.h>
#include <string.h>

#include "devinfo.h"

/* Names of a run of values from `first`; anything else is `otherwise`. */
struct names {
	int first, count;
	const char *const *names;
	const char *otherwise;
};

static const char *name_of(const struct names *names, int value)
{
	int at = value - names->first;

	return at >= 0 && at < names->count && names->names[at] ? names->names[at]
								: names->otherwise;
}

#define NAMES(start, unknown, ...)                                                                 \
	((const struct names){.first = (start),                                                    \
			      .count =                                                             \
				  sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *),     \
			      .names = (const char *const[]){__VA_ARGS__},                         \
			      .otherwise = (unknown)})

static const char *transport_name(int transport)
{
	return name_of(&NAMES(0, "invalid transport", "InfiniBand", "iWARP", "usNIC", "usNIC UDP",
			      "unspecified"),
		       transport);
}

static const char *state_name(int state)
{
	return name_of(
	    &NAMES(1, "invalid state", "PORT_DOWN", "PORT_INIT", "PORT_ARMED", "PORT_ACTIVE"),
	    state);
}

static const char *mtu_name(int mtu)
{
	return name_of(&NAMES(1, "invalid MTU", "256", "512", "1024", "2048", "4096"), mtu);
}

static const char *link_name(int link)
{
	return name_of(&NAMES(0, "Unknown", "Unspecified", "InfiniBand", "Ethernet"), link);
}

static const char *phys_state_name(int state)
{
	return name_of(&NAMES(1, "invalid physical state", "SLEEP", "POLLING", "DISABLED",
			      "PORT_CONFIGURATION TRAINNING", "LINK_UP", "LINK_ERROR_RECOVERY",
			      "PHY TEST"),
		       state);
}

/* Widths, speeds and virtual lanes come as bits. */
static const char *width_name(int width)
{
	return width == 1    ? "1"
	       : width == 2  ? "4"
	       : width == 4  ? "8"
	       : width == 8  ? "12"
	       : width == 16 ? "2"
			     : "invalid width";
}

static const char *speed_name(int speed)
{
	switch (speed) {
	case 1:
		return "2.5 Gbps";
	case 2:
		return "5.0 Gbps";
	case 4:
	case 8:
		return "10.0 Gbps";
	case 16:
		return "14.0 Gbps";
	case 32:
		return "25.0 Gbps";
	case 64:
		return "50.0 Gbps";
	case 128:
		return "100.0 Gbps";
	}
	return "invalid speed";
}

static const char *lanes_name(int lanes)
{
	return name_of(&NAMES(1, "invalid value", "1", "2", "4", "8", "15"), lanes);
}

static const char *guid_text(uint64_t guid, char text[24])
{
	uint64_t host = be64toh(guid);

	snprintf(text, 24, "%04x:%04x:%04x:%04x", (unsigned int)(host >> 48 & 0xffff),
		 (unsigned int)(host >> 32 & 0xffff), (unsigned int)(host >> 16 & 0xffff),
		 (unsigned int)(host & 0xffff));
	return text;
}

/*
 * RoCE v2 addresses are IP addresses and printed so; others as eight groups. Empty entries of the
 * table are passed over.
 */
static int print_gids(struct ibv_context *context, const struct ibv_port_attr *port,
		      unsigned int number)
{
	for (int i = 0; i < port->gid_tbl_len; i++) {
		char text[INET6_ADDRSTRLEN];
		struct ibv_gid_entry entry;
		union ibv_gid gid;
		int rc;

		rc = ibv_query_gid_ex(context, number, (uint32_t)i, &entry, 0);
		if (rc && !ibv_query_gid(context, (uint8_t)number, i, &gid) &&
		    !gid.global.subnet_prefix && !gid.global.interface_id)
			continue;
		if (rc) {
			fprintf(stderr, "Failed to query gid to port %u, index %d\n", number, i);
			return 1;
		}
		gid = entry.gid;
		if (!gid.global.subnet_prefix && !gid.global.interface_id)
			continue;
		if (entry.gid_type == IBV_GID_TYPE_ROCE_V2) {
			inet_ntop(AF_INET6, gid.raw, text, sizeof(text));
			printf("\t\t\tGID[%3d]:\t\t%s, RoCE v2\n", i, text);
			continue;
		}
		printf("\t\t\tGID[%3d]:\t\t", i);
		for (int k = 0; k < 16; k += 2)
			printf("%s%02x%02x", k ? ":" : "", gid.raw[k], gid.raw[k + 1]);
		printf("%s\n", entry.gid_type == IBV_GID_TYPE_ROCE_V1 ? ", RoCE v1" : "");
	}
	return 0;
}

static void print_port_details(const struct ibv_port_attr *port)
{
	printf("\t\t\tmax_msg_sz:\t\t0x%x\n", port->max_msg_sz);
	printf("\t\t\tport_cap_flags:\t\t0x%08x\n", port->port_cap_flags);
	printf("\t\t\tport_cap_flags2:\t0x%04x\n", port->port_cap_flags2);
	printf("\t\t\tmax_vl_num:\t\t%s (%d)\n", lanes_name(port->max_vl_num), port->max_vl_num);
	printf("\t\t\tbad_pkey_cntr:\t\t0x%x\n", port->bad_pkey_cntr);
	printf("\t\t\tqkey_viol_cntr:\t\t0x%x\n", port->qkey_viol_cntr);
	printf("\t\t\tsm_sl:\t\t\t%d\n", port->sm_sl);
	printf("\t\t\tpkey_tbl_len:\t\t%d\n", port->pkey_tbl_len);
	printf("\t\t\tgid_tbl_len:\t\t%d\n", port->gid_tbl_len);
	printf("\t\t\tsubnet_timeout:\t\t%d\n", port->subnet_timeout);
	printf("\t\t\tinit_type_reply:\t%d\n", port->init_type_reply);
	printf("\t\t\tactive_width:\t\t%sX (%d)\n", width_name(port->active_width),
	       port->active_width);
	printf("\t\t\tactive_speed:\t\t%s (%d)\n", speed_name(port->active_speed),
	       port->active_speed);
	if (port->phys_state)
		printf("\t\t\tphys_state:\t\t%s (%d)\n", phys_state_name(port->phys_state),
		       port->phys_state);
}

static int print_port(struct ibv_context *context, unsigned int number, bool is_verbose)
{
	struct ibv_port_attr port;

	if (ibv_query_port(context, (uint8_t)number, &port)) {
		fprintf(stderr, "Failed to query port %u props\n", number);
		return 1;
	}
	printf("\t\tport:\t%u\n", number);
	printf("\t\t\tstate:\t\t\t%s (%d)\n", state_name((int)port.state), port.state);
	printf("\t\t\tmax_mtu:\t\t%s (%d)\n", mtu_name((int)port.max_mtu), port.max_mtu);
	printf("\t\t\tactive_mtu:\t\t%s (%d)\n", mtu_name((int)port.active_mtu), port.active_mtu);
	printf("\t\t\tsm_lid:\t\t\t%d\n", port.sm_lid);
	printf("\t\t\tport_lid:\t\t%d\n", port.lid);
	printf("\t\t\tport_lmc:\t\t0x%02x\n", port.lmc);
	printf("\t\t\tlink_layer:\t\t%s\n", link_name(port.link_layer));
	if (!is_verbose)
		return 0;
	print_port_details(&port);
	return print_gids(context, &port, number);
}

/* Not told by any verb: it is a file beside the device. */
static void print_board(const struct ibv_device *device)
{
	char path[IBV_SYSFS_PATH_MAX + 16], text[128];
	FILE *file;

	snprintf(path, sizeof(path), "%s/board_id", device->ibdev_path);
	file = fopen(path, "re");
	if (!file)
		return;
	if (fgets(text, sizeof(text), file))
		printf("\tboard_id:\t\t\t%.*s\n", (int)strcspn(text, "\n"), text);
	fclose(file);
}

static void print_identity(struct ibv_device *device, const struct ibv_device_attr *attr)
{
	char text[256];

	printf("hca_id:\t%s\n", ibv_get_device_name(device));
	printf("\ttransport:\t\t\t%s (%d)\n", transport_name(device->transport_type),
	       device->transport_type);
	if (attr->fw_ver[0])
		printf("\tfw_ver:\t\t\t\t%s\n", attr->fw_ver);
	printf("\tnode_guid:\t\t\t%s\n", guid_text(attr->node_guid, text));
	printf("\tsys_image_guid:\t\t\t%s\n", guid_text(attr->sys_image_guid, text));
	printf("\tvendor_id:\t\t\t0x%04x\n", attr->vendor_id);
	printf("\tvendor_part_id:\t\t\t%u\n", attr->vendor_part_id);
	printf("\thw_ver:\t\t\t\t0x%X\n", attr->hw_ver);
	print_board(device);
	printf("\tphys_port_cnt:\t\t\t%d\n", attr->phys_port_cnt);
}

int devinfo_print(struct ibv_device *device, unsigned int port, bool is_verbose)
{
	struct ibv_context *context = ibv_open_device(device);
	struct ibv_device_attr_ex attr;
	unsigned int first = port ? port : 1, last;
	int rc = 1;

	if (!context) {
		fprintf(stderr, "Failed to open device\n");
		return 1;
	}
	if (ibv_query_device_ex(context, NULL, &attr)) {
		fprintf(stderr, "Failed to query device props\n");
		goto out;
	}
	if (port > attr.orig_attr.phys_port_cnt) {
		fprintf(stderr, "Invalid port requested for device\n");
		goto out;
	}
	print_identity(device, &attr.orig_attr);
	if (is_verbose) {
		devinfo_print_limits(&attr);
		printf("\tnum_comp_vectors:\t\t%d\n", context->num_comp_vectors);
	}
	last = port ? port : attr.orig_attr.phys_port_cnt;
	rc = 0;
	for (unsigned int i = first; i <= last && !rc; i++)
		rc = print_port(context, i, is_verbose);
	printf("\n");
out:
	if (ibv_close_device(context)) {
		fprintf(stderr, "Failed to close device\n");
		rc = 1;
	}
	return rc;
}
