/* SPDX-License-Identifier: BSD-2-Clause */
/* ibv_asyncwatch: prints the asynchronous events of a device until it is stopped. */
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include <infiniband/verbs.h>

static const char *event_name(enum ibv_event_type type)
{
	static const char *const names[] = {
	    [IBV_EVENT_CQ_ERR] = "IBV_EVENT_CQ_ERR",
	    [IBV_EVENT_QP_FATAL] = "IBV_EVENT_QP_FATAL",
	    [IBV_EVENT_QP_REQ_ERR] = "IBV_EVENT_QP_REQ_ERR",
	    [IBV_EVENT_QP_ACCESS_ERR] = "IBV_EVENT_QP_ACCESS_ERR",
	    [IBV_EVENT_COMM_EST] = "IBV_EVENT_COMM_EST",
	    [IBV_EVENT_SQ_DRAINED] = "IBV_EVENT_SQ_DRAINED",
	    [IBV_EVENT_PATH_MIG] = "IBV_EVENT_PATH_MIG",
	    [IBV_EVENT_PATH_MIG_ERR] = "IBV_EVENT_PATH_MIG_ERR",
	    [IBV_EVENT_DEVICE_FATAL] = "IBV_EVENT_DEVICE_FATAL",
	    [IBV_EVENT_PORT_ACTIVE] = "IBV_EVENT_PORT_ACTIVE",
	    [IBV_EVENT_PORT_ERR] = "IBV_EVENT_PORT_ERR",
	    [IBV_EVENT_LID_CHANGE] = "IBV_EVENT_LID_CHANGE",
	    [IBV_EVENT_PKEY_CHANGE] = "IBV_EVENT_PKEY_CHANGE",
	    [IBV_EVENT_SM_CHANGE] = "IBV_EVENT_SM_CHANGE",
	    [IBV_EVENT_SRQ_ERR] = "IBV_EVENT_SRQ_ERR",
	    [IBV_EVENT_SRQ_LIMIT_REACHED] = "IBV_EVENT_SRQ_LIMIT_REACHED",
	    [IBV_EVENT_QP_LAST_WQE_REACHED] = "IBV_EVENT_QP_LAST_WQE_REACHED",
	    [IBV_EVENT_CLIENT_REREGISTER] = "IBV_EVENT_CLIENT_REREGISTER",
	    [IBV_EVENT_GID_CHANGE] = "IBV_EVENT_GID_CHANGE",
	    [IBV_EVENT_WQ_FATAL] = "IBV_EVENT_WQ_FATAL",
	};

	if ((size_t)type >= sizeof(names) / sizeof(names[0]) || !names[type])
		return "unexpected";
	return names[type];
}

static void usage(const char *program)
{
	printf("Usage:\n"
	       "  %s            start an asyncwatch process\n\nOptions:\n"
	       "  -d, --ib-dev=<dev>     use IB device <dev> (default first device found)\n"
	       "  -h, --help             print a help text and exit\n",
	       program);
}

static struct ibv_context *open_device(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context;
	int i = 0;

	if (!list) {
		perror("Failed to get IB devices list");
		return NULL;
	}
	while (name && list[i] && strcmp(ibv_get_device_name(list[i]), name))
		i++;
	if (!list[i]) {
		fprintf(stderr, "IB device %s not found\n", name ? name : "");
		ibv_free_device_list(list);
		return NULL;
	}
	context = ibv_open_device(list[i]);
	if (!context)
		fprintf(stderr, "Couldn't get context for %s\n", ibv_get_device_name(list[i]));
	ibv_free_device_list(list);
	return context;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
	    {"ib-dev", required_argument, NULL, 'd'},
	    {"help", no_argument, NULL, 'h'},
	    {NULL, 0, NULL, 0},
	};
	const char *name = NULL;
	struct ibv_async_event event;
	struct ibv_context *context;
	int option;

	setvbuf(stdout, NULL, _IOLBF, 0);
	while ((option = getopt_long(argc, argv, "d:h", options, NULL)) != -1) {
		if (option != 'd') {
			usage(argv[0]);
			return option == 'h' ? 0 : 1;
		}
		name = optarg;
	}
	context = open_device(name);
	if (!context)
		return 1;
	printf("%s: async event FD %d\n", ibv_get_device_name(context->device), context->async_fd);
	while (!ibv_get_async_event(context, &event)) {
		/* A port's events name the port; the others name an object of this very process. */
		printf("  event_type %s (%d), port %d\n", event_name(event.event_type),
		       event.event_type, event.element.port_num);
		ibv_ack_async_event(&event);
	}
	return 1;
}
