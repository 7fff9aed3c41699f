/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Open devices: what ibv_open_device() gives, with the tables that the headers' inline functions
 * call through, and what an open device tells of itself.
 */
#include <stdlib.h>
#include <unistd.h>

#include "verbs/face.h"
#include "verbs/fault.h"
#include "verbs/share.h"
#include "verbs/unsupported.h"

static const struct engine_face face = {
    .cq_event = channel_cq_event,
    .async_event = async_event,
    .visit_qp = shared_qp_visit,
    .leave_qp = shared_qp_leave,
};

static void set_face(void)
{
	engine_set_face(&face);
}

static void set_ops(struct verbs_context *verbs)
{
	unsupported_ops(verbs);
	context_set_device_ops(verbs);
	context_set_port_ops(verbs);
	context_set_pd_ops(verbs);
	context_set_mr_ops(verbs);
	context_set_mw_ops(verbs);
	context_set_buf_ops(verbs);
	context_set_dm_ops(verbs);
	context_set_dmah_ops(verbs);
	context_set_advise_ops(verbs);
	context_set_cq_ops(verbs);
	context_set_cq_ex_ops(verbs);
	context_set_qp_ops(verbs);
	context_set_srq_ops(verbs);
	context_set_xrcd_ops(verbs);
	context_set_open_qp_ops(verbs);
	context_set_raw_ops(verbs);
	context_set_qp_option_ops(verbs);
}

static struct context *context_create(struct device *device)
{
	struct context *context = calloc(1, sizeof(*context));

	if (!context) {
		errno = refuse(REASON_NO_MEMORY, "for a context of %s", device->ibv.name);
		return NULL;
	}
	set_ops(&context->verbs);
	context->device = device;
	context->verbs.context.device = &device->ibv;
	context->verbs.context.num_comp_vectors = MAX_COMP_VECTORS;
	pthread_mutex_init(&context->verbs.context.mutex, NULL);
	device_get(device);
	return context;
}

static void context_destroy(struct context *context)
{
	device_put(context->device);
	pthread_mutex_destroy(&context->verbs.context.mutex);
	free(context);
}

static void set_face_once(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, set_face);
}

struct context *context_open(struct device *device, struct share *share, int cmd_fd)
{
	struct context *context = context_create(device);
	struct device_info info = device_info(device);
	int ret;

	if (!context)
		return NULL;
	set_face_once();
	fault_guard();
	context->share = share;
	context->verbs.context.cmd_fd = cmd_fd;
	ret = engine_open(&info, &context->adapter);
	if (ret)
		goto destroy;
	ret = async_open(context);
	if (ret)
		goto close_engine;
	return context;

close_engine:
	engine_close(context->adapter);
destroy:
	context_destroy(context);
	errno = ret;
	return NULL;
}

static void let_go(struct share *share, int cmd_fd)
{
	share_put(share);
	if (cmd_fd >= 0)
		close(cmd_fd);
}

/* There is no kernel behind cmd_fd: it takes the flags which programs set, and refuses every
 * command. */
struct ibv_context *ibv_open_device(struct ibv_device *ibv)
{
	UNCANCELLED;
	int cmd_fd;
	struct share *share = share_create(ibv->name, (uint32_t)ibv_get_device_index(ibv), &cmd_fd);
	struct context *context = context_open(device_of(ibv), share, cmd_fd);
	int error = errno;

	if (context)
		return &context->verbs.context;
	let_go(share, cmd_fd);
	errno = error;
	return NULL;
}

/*
 * Never fails, as programs count on. The kernel would destroy what is left; here it stays as it is,
 * since the program still holds the pointers, and the device stays open under it until the process
 * ends.
 */
int ibv_close_device(struct ibv_context *ibv)
{
	UNCANCELLED;
	struct context *context = context_of(ibv);
	unsigned int objects = atomic_load(&context->objects);

	if (objects) {
		refuse(REASON_CLOSE_WITH_OBJECTS, "%s: %u PDs, CQs or channels are left",
		       ibv->device->name, objects);
		return 0;
	}
	async_close(context);
	engine_close(context->adapter);
	let_go(context->share, ibv->cmd_fd);
	context_destroy(context);
	return 0;
}

/* ---- what it tells ---- */

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	struct ibv_device_attr_ex full;

	adapter_describe(context_of(context)->adapter, &full);
	*attr = full.orig_attr;
	return 0;
}

static int query_device_ex(struct ibv_context *context,
			   const struct ibv_query_device_ex_input *input,
			   struct ibv_device_attr_ex *attr, size_t attr_size)
{
	struct ibv_device_attr_ex full;

	if (input && input->comp_mask)
		return verb_result(
		    refuse(REASON_COMP_MASK, "input->comp_mask is %#x", input->comp_mask));
	adapter_describe(context_of(context)->adapter, &full);
	memset(attr, 0, attr_size);
	memcpy(attr, &full, attr_size < sizeof(full) ? attr_size : sizeof(full));
	return 0;
}

/* The clock of completion timestamps, now: nanoseconds, as `hca_core_clock` says. */
static int query_rt_values(struct ibv_context *context, struct ibv_values_ex *values)
{
	uint64_t now = engine_now();

	if (values->comp_mask & ~(uint32_t)IBV_VALUES_MASK_RAW_CLOCK)
		return verb_result(
		    refuse(REASON_COMP_MASK, "values->comp_mask is %#x", values->comp_mask));
	if (values->comp_mask & IBV_VALUES_MASK_RAW_CLOCK) {
		values->raw_clock.tv_sec = 0;
		values->raw_clock.tv_nsec = (long)now;
	}
	return 0;
}

static int compat_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	return ibv_query_device(context, attr);
}

void context_set_device_ops(struct verbs_context *verbs)
{
	verbs->context.ops._compat_query_device = compat_query_device;
	verbs->query_device_ex = query_device_ex;
	verbs->query_rt_values = query_rt_values;
}
