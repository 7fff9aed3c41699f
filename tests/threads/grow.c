// SPDX-License-Identifier: BSD-2-Clause
/*
 * A program that lives long: all kinds of objects made, used and destroyed a thousand times on an
 * open device, and the device opened and closed some hundred times. After the first rounds there
 * are as many descriptors, threads and bytes in use as at the end. (The C library's caches of freed
 * memory, which it counts as in use, have to be off.)
 */
#include <dirent.h>
#include <malloc.h>
#include <string.h>
#include <unistd.h>

#include "rig.h"

enum {
	ROUNDS = 1000,
	OPENINGS = 100, /* each leaves the kernel a steering program to free, later and in one go */
	WARM_UP = 50,	/* tables and the C library's own caches come to their size */
};

struct use {
	int descriptors, threads;
	size_t bytes;
};

static int entries(const char *path)
{
	DIR *directory = opendir(path);
	int count = 0;

	CHECK(directory);
	while (readdir(directory))
		count++;
	closedir(directory);
	return count;
}

static struct use use_now(void)
{
	struct mallinfo2 heap = mallinfo2();

	return (struct use){entries("/proc/self/fd"), entries("/proc/self/task"),
			    heap.uordblks + heap.hblkhd};
}

static void message(struct ibv_qp *qp, struct ibv_mr *mr, struct ibv_comp_channel *channel)
{
	struct ibv_sge sge = {(uintptr_t)mr->addr, 64, mr->lkey};
	struct ibv_send_wr wr = {
	    .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
	struct ibv_send_wr *bad;
	struct ibv_cq *cq;
	struct ibv_wc wc;
	void *context;
	int left = 2;

	CHECK(!ibv_req_notify_cq(qp->send_cq, 0));
	CHECK(!ibv_post_send(qp, &wr, &bad));
	CHECK(!ibv_get_cq_event(channel, &cq, &context));
	ibv_ack_cq_events(cq, 1);
	while (left) {
		int count = ibv_poll_cq(cq, 1, &wc);

		CHECK(count >= 0);
		CHECK(!count || wc.status == IBV_WC_SUCCESS);
		left -= count;
	}
}

/* A datagram's QP in a group, and an address handle. */
static void datagram(struct rig *rig, struct ibv_pd *pd, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr init = {
	    .send_cq = cq, .recv_cq = cq, .cap = {1, 1, 1, 1, 0}, .qp_type = IBV_QPT_UD};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 1};
	struct ibv_ah_attr path = {
	    .grh = {.dgid = rig->gid, .sgid_index = rig->gid_index}, .is_global = 1, .port_num = 1};
	union ibv_gid group = {.raw = {[10] = 0xff, 0xff, 224, 1, 2, 3}};
	struct ibv_qp *qp = ibv_create_qp(pd, &init);
	struct ibv_ah *ah = ibv_create_ah(pd, &path);

	CHECK(qp && ah);
	CHECK(!ibv_modify_qp(qp, &attr,
			     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY));
	CHECK(!ibv_attach_mcast(qp, &group, 0));
	CHECK(!ibv_detach_mcast(qp, &group, 0));
	CHECK(!ibv_destroy_ah(ah));
	CHECK(!ibv_destroy_qp(qp));
}

static void objects(struct rig *rig)
{
	static char bytes[4096];
	struct ibv_pd *pd = ibv_alloc_pd(rig->context);
	struct ibv_comp_channel *channel = ibv_create_comp_channel(rig->context);
	struct ibv_cq *cq = ibv_create_cq(rig->context, 16, NULL, channel, 0);
	struct ibv_mr *mr = ibv_reg_mr(pd, bytes, sizeof(bytes), IBV_ACCESS_LOCAL_WRITE);
	struct ibv_srq_init_attr srq_attr = {.attr = {.max_wr = 8, .max_sge = 1}};
	struct ibv_srq *srq = ibv_create_srq(pd, &srq_attr);
	struct ibv_qp_init_attr init = {
	    .send_cq = cq, .recv_cq = cq, .srq = srq, .cap = {4, 0, 1, 0, 0}};
	struct ibv_sge sge = {(uintptr_t)bytes, 64, 0};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;
	struct ibv_qp *qp;

	init.qp_type = IBV_QPT_RC;
	qp = ibv_create_qp(pd, &init);
	CHECK(pd && channel && cq && mr && srq && qp);
	sge.lkey = mr->lkey;
	CHECK(!ibv_resize_cq(cq, 32));
	for (int i = 0; i < 4; i++) /* more than the message takes */
		CHECK(!ibv_post_srq_recv(srq, &wr, &bad));
	rig_init(qp);
	rig_connect(rig, qp, qp->qp_num);
	message(qp, mr, channel);
	datagram(rig, pd, cq);
	CHECK(!ibv_destroy_qp(qp));
	CHECK(!ibv_destroy_srq(srq));
	CHECK(!ibv_dereg_mr(mr));
	CHECK(!ibv_destroy_cq(cq));
	CHECK(!ibv_destroy_comp_channel(channel));
	CHECK(!ibv_dealloc_pd(pd));
}

/* Tables of numbers grow to their full size and go with the device, so bytes are counted after it.
 */
static void many_objects(int rounds)
{
	struct rig rig;

	rig_open(&rig);
	while (rounds--)
		objects(&rig);
	rig_close(&rig);
}

static void many_devices(int rounds)
{
	while (rounds--)
		many_objects(1);
}

static void keeps_its_size(const char *what, void (*run)(int rounds), int rounds)
{
	struct use before, after;

	run(WARM_UP);
	before = use_now();
	run(rounds);
	after = use_now();
	printf("%s: descriptors %d to %d, threads %d to %d, bytes %zu to %zu\n", what,
	       before.descriptors, after.descriptors, before.threads, after.threads, before.bytes,
	       after.bytes);
	CHECK(after.descriptors == before.descriptors);
	CHECK(after.threads == before.threads);
	/* less than the smallest thing lost every round */
	CHECK(after.bytes <= before.bytes + 8 * (size_t)rounds);
}

/* What an open device holds does not grow with what was made on it, once each lane has sent. */
static void open_device_keeps_its_size(void)
{
	struct use before, after;
	struct rig rig;

	rig_open(&rig);
	for (int i = 0; i < WARM_UP; i++)
		objects(&rig);
	before = use_now();
	for (int i = 0; i < ROUNDS; i++)
		objects(&rig);
	after = use_now();
	CHECK(after.descriptors == before.descriptors);
	CHECK(after.threads == before.threads);
	rig_close(&rig);
}

int main(void)
{
	rig_watchdog(110);
	keeps_its_size("objects", many_objects, ROUNDS);
	keeps_its_size("devices", many_devices, OPENINGS);
	open_device_keeps_its_size();
	return 0;
}
