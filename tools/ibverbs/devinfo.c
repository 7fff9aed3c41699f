/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ibv_devinfo: its options, and which devices it prints.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "devinfo.h"

static void usage(const char *program)
{
	printf("Usage: %s             print the ca attributes\n\nOptions:\n"
	       "  -d, --ib-dev=<dev>     use IB device <dev> (default first device found)\n"
	       "  -i, --ib-port=<port>   use port <port> of IB device (default all ports)\n"
	       "  -l, --list             print only the IB devices names\n"
	       "  -v, --verbose          print all the attributes of the IB device(s)\n",
	       program);
}

static void print_names(struct ibv_device **list, int count)
{
	printf("%d HCA%s found:\n", count, count == 1 ? "" : "s");
	for (int i = 0; i < count; i++)
		printf("\t%s\n", ibv_get_device_name(list[i]));
	printf("\n");
}

static int print_devices(struct ibv_device **list, const char *name, unsigned int port,
			 bool is_verbose)
{
	int rc = 0, printed = 0;

	for (int i = 0; list[i]; i++)
		if (!name || !strcmp(ibv_get_device_name(list[i]), name)) {
			rc |= devinfo_print(list[i], port, is_verbose);
			printed++;
		}
	if (printed)
		return rc;
	if (name)
		fprintf(stderr, "IB device '%s' wasn't found\n", name);
	else
		fprintf(stderr, "No IB devices found\n");
	return 255;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
	    {"ib-dev", required_argument, NULL, 'd'},
	    {"ib-port", required_argument, NULL, 'i'},
	    {"list", no_argument, NULL, 'l'},
	    {"verbose", no_argument, NULL, 'v'},
	    {NULL, 0, NULL, 0},
	};
	struct ibv_device **list;
	const char *name = NULL;
	unsigned int port = 0;
	bool is_list = false, is_verbose = false;
	int option, count, rc = 0;

	while ((option = getopt_long(argc, argv, "d:i:lv", options, NULL)) != -1)
		switch (option) {
		case 'd':
			name = optarg;
			break;
		case 'i':
			port = (unsigned int)strtoul(optarg, NULL, 0);
			if ((int)port >= 1)
				break;
			usage(argv[0]);
			return 1;
		case 'l':
			is_list = true;
			break;
		case 'v':
			is_verbose = true;
			break;
		default:
			usage(argv[0]);
			return 255;
		}
	list = ibv_get_device_list(&count);
	if (!list) {
		perror("Failed to get IB devices list");
		return 255;
	}
	if (is_list)
		print_names(list, count);
	else
		rc = print_devices(list, name, port, is_verbose);
	ibv_free_device_list(list);
	return rc;
}
