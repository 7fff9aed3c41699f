/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What single functions do and how they refuse, where no other test is about them: queries and
 * sizes, and what happens when descriptors or numbers run out. tests/tree/exercised says of each
 * exported function which test is about it.
 */
#define _GNU_SOURCE
#include <sys/resource.h>
#include <sys/wait.h>

#include "live.h"

/* ---- what they do ---- */

static void an_srq_tells_its_size(void **state)
{
	struct ibv_srq_init_attr init = {.attr = {.max_wr = 10, .max_sge = 2}};
	struct ibv_srq *srq = ibv_create_srq(pd, &init);
	struct ibv_srq_attr attr = {.srq_limit = 4};

	assert_non_null(srq);
	assert_int_equal(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT), 0);
	assert_int_equal(ibv_query_srq(srq, &attr), 0);
	assert_int_equal(attr.max_wr, init.attr.max_wr);
	assert_int_equal(attr.max_sge, init.attr.max_sge);
	assert_int_equal(attr.srq_limit, 4);
	assert_int_equal(ibv_destroy_srq(srq), 0);
}

static void an_srq_in_use_stays(void **state)
{
	struct ibv_srq_init_attr init = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_srq *srq = ibv_create_srq(pd, &init);
	struct ibv_cq *cq = ibv_create_cq(context, 4, NULL, NULL, 0);
	struct ibv_qp_init_attr attr = end_qp_attr(cq, IBV_QPT_RC);
	struct ibv_qp *qp;

	attr.srq = srq;
	qp = ibv_create_qp(pd, &attr);
	assert_non_null(qp);
	assert_refused(ibv_destroy_srq(srq), EBUSY, REASON_SRQ_BUSY, "1");
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
}

static void a_cq_keeps_its_completions_when_its_size_changes(void **state)
{
	struct end a, b;

	pair_create(&a, &b, IBV_QPT_RC);
	for (int i = 0; i < 3; i++) {
		struct ibv_sge sge = end_sge(&a, 0, 8);
		struct ibv_send_wr wr = make_send(IBV_WR_RDMA_WRITE, &sge);

		wr.wr_id = (uint64_t)i;
		wr.wr.rdma.remote_addr = (uintptr_t)b.buffer;
		wr.wr.rdma.rkey = b.mr->rkey;
		post_send_wr(&a, &wr);
	}
	/* a QP's completions come in order: with the last one all are there */
	for (double end = seconds() + PATIENCE_S; ibv_resize_cq(a.cq, 2) == 0 && seconds() < end;)
		assert_int_equal(ibv_resize_cq(a.cq, CQE), 0);
	assert_refused(ibv_resize_cq(a.cq, 2), EINVAL, REASON_CQ_RESIZE, "3 completions");
	assert_refused(ibv_resize_cq(a.cq, 0), EINVAL, REASON_CQ_SIZE, "0");
	assert_int_equal(ibv_resize_cq(a.cq, 3), 0);
	assert_int_equal(a.cq->cqe, 3);
	for (uint64_t i = 0; i < 3; i++)
		assert_wc(next_wc(a.cq), i, IBV_WC_SUCCESS);
	pair_destroy(&a, &b);
}

static void a_gid_entry_tells_its_type(void **state)
{
	struct ibv_gid_entry entry;

	assert_int_equal(ibv_query_gid_ex(context, 1, (uint32_t)gid_index, &entry, 0), 0);
	assert_memory_equal(&entry.gid, &gid, sizeof(gid));
	assert_int_equal(entry.gid_index, gid_index);
	assert_int_equal(entry.port_num, 1);
	assert_int_equal(entry.gid_type, IBV_GID_TYPE_ROCE_V2);
	assert_refused(ibv_query_gid_ex(context, 2, 0, &entry, 0), EINVAL, REASON_PORT_NUMBER, "2");
}

static void a_device_is_known_by_name_number_and_guid(void **state)
{
	int count;
	struct ibv_device **list = ibv_get_device_list(&count);
	struct ibv_device *own = context->device;

	assert_non_null(list);
	assert_true(count >= 1);
	assert_ptr_equal(list[count - 1], own);
	assert_null(list[count]);
	assert_true(*ibv_get_device_name(own));
	assert_true(ibv_get_device_index(own) > 0);
	assert_int_equal(ibv_get_device_guid(own), device_attr.node_guid);
	ibv_free_device_list(list);
	assert_true(*ibv_get_device_name(own)); /* the open context keeps it */
}

static void a_region_has_the_address_that_it_is_given(void **state)
{
	const uint64_t iova = 0x123450000;
	struct end a, b;
	struct ibv_sge sge;
	struct ibv_send_wr wr;
	struct ibv_mr *mr;

	pair_create(&a, &b, IBV_QPT_RC);
	mr = ibv_reg_mr_iova2(pd, b.buffer, BUFFER, iova, (unsigned int)live_access);
	assert_non_null(mr);
	strcpy(a.buffer, "given");
	sge = end_sge(&a, 0, 6);
	wr = make_send(IBV_WR_RDMA_WRITE, &sge);
	wr.wr.rdma.remote_addr = iova + 100;
	wr.wr.rdma.rkey = mr->rkey;
	post_send_wr(&a, &wr);
	assert_wc(next_wc(a.cq), 0x5e4d, IBV_WC_SUCCESS);
	assert_string_equal(b.buffer + 100, "given");
	assert_int_equal(ibv_dereg_mr(mr), 0);
	pair_destroy(&a, &b);
}

/* The way back: from where the datagram went to, to where it came from. */
static void an_address_is_made_of_a_completion(void **state)
{
	struct ibv_grh grh = {.version_tclass_flow = htobe32(6u << 28 | 3u << 20 | 5), .sgid = gid};
	struct ibv_wc wc = {.wc_flags = IBV_WC_GRH, .src_qp = 7};
	struct ibv_ah_attr attr;

	grh.dgid = gid;
	assert_int_equal(ibv_init_ah_from_wc(context, 1, &wc, &grh, &attr), 0);
	assert_int_equal(attr.is_global, 1);
	assert_int_equal(attr.port_num, 1);
	assert_memory_equal(&attr.grh.dgid, &gid, sizeof(gid));
	assert_int_equal(attr.grh.sgid_index, gid_index);
	assert_int_equal(attr.grh.traffic_class, 3);
	assert_int_equal(attr.grh.flow_label, 5);
}

static void a_speed_is_that_of_the_interface(void **state)
{
	struct ibv_device **list;
	struct ibv_context *wired;
	uint64_t speed = 0;

	if (!is_own_network ||
	    system("ip link add wire0 type veth peer name wire1 2>/dev/null && ip link set wire1 "
		   "up && "
		   "ip link set wire0 up && ip address add 192.0.2.9/24 dev wire0"))
		skip();
	list = ibv_get_device_list(NULL);
	assert_non_null(list);
	wired = ibv_open_device(list[0]);
	assert_non_null(wired);
	ibv_free_device_list(list);
	assert_int_equal(ibv_query_port_speed(wired, 1, &speed), 0);
	assert_int_equal(speed, 100); /* a veth says 10 Gbit/s */
	assert_int_equal(ibv_close_device(wired), 0);
	assert_int_equal(system("ip link del wire0"), 0);
}

/* ---- when something runs out ---- */

static struct rlimit descriptors;

/* Those of the program's own stay, and poll() goes by the limit as well. What others than this
 * thread open and close meanwhile does not make room. */
static void leave_no_descriptor(void)
{
	struct rlimit none;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &descriptors), 0);
	none = descriptors;
	none.rlim_cur = STDERR_FILENO + 1;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
}

static void give_descriptors_back(void)
{
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &descriptors), 0);
}

static void without_descriptors_nothing_is_opened(void **state)
{
	struct ibv_alloc_dm_attr dm_attr = {.length = 64};
	struct ibv_dm *dm = ibv_alloc_dm(context, &dm_attr);
	struct ibv_buf *buf, *other;
	bool is_refused[6];

	assert_non_null(dm);
	assert_non_null(ibv_alloc_buf(pd, 4096, &buf));
	leave_no_descriptor(); /* cmocka might want one, too: it is asked when there are some */
	is_refused[0] = !ibv_create_comp_channel(context) && errno == EMFILE;
	is_refused[1] = !ibv_open_device(context->device) && errno == EMFILE;
	is_refused[2] = !ibv_get_device_list(NULL) && errno == EIO;
	is_refused[3] = ibv_dm_export_dmabuf_fd(dm) == -1 && errno == EOPNOTSUPP;
	is_refused[4] = ibv_export_buf_dmabuf_fd(buf) == -1 && errno == EOPNOTSUPP;
	is_refused[5] = !ibv_alloc_buf(pd, 4096, &other) && errno == EMFILE;
	give_descriptors_back();
	for (int i = 0; i < 6; i++)
		assert_true(is_refused[i]);
	ibv_free_buf(buf);
	assert_int_equal(ibv_free_dm(dm), 0);
}

static void there_are_as_many_pds_as_the_device_says(void **state)
{
	struct ibv_pd **all = calloc((size_t)device_attr.max_pd, sizeof(*all));
	int count = 0;

	assert_non_null(all);
	while (count < device_attr.max_pd && (all[count] = ibv_alloc_pd(context)))
		count++;
	assert_int_equal(count, device_attr.max_pd - 1); /* and the test's */
	assert_refused_null(ibv_alloc_pd(context), ENOMEM, REASON_TOO_MANY_PDS, "rxe");
	while (count)
		assert_int_equal(ibv_dealloc_pd(all[--count]), 0);
	free(all);
}

static void there_are_as_many_regions_as_the_device_says(void **state)
{
#ifdef __SANITIZE_THREAD__
	skip(); /* half a million mutexes for its books, and one thread */
#else
	struct ibv_mr **all = calloc((size_t)device_attr.max_mr, sizeof(*all));
	int count = 0;

	assert_non_null(all);
	while (count < device_attr.max_mr && (all[count] = ibv_alloc_null_mr(pd)))
		count++;
	assert_int_equal(count, device_attr.max_mr);
	assert_refused_null(ibv_alloc_null_mr(pd), ENOMEM, REASON_TOO_MANY_MRS, "rxe");
	while (count)
		assert_int_equal(ibv_dereg_mr(all[--count]), 0);
	free(all);
#endif
}

static void a_child_of_fork_asks_in_vain(void **state)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct end end;
	int status;
	pid_t child;

	end_create(&end, IBV_QPT_RC);
	child = fork();
	if (!child)
		_exit(ibv_query_qp(end.qp, &attr, IBV_QP_STATE, &init) == EIO ? 0 : 1);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(ibv_query_qp(end.qp, &attr, IBV_QP_STATE, &init), 0);
	end_destroy(&end);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(an_srq_tells_its_size),
	    cmocka_unit_test(an_srq_in_use_stays),
	    cmocka_unit_test(a_cq_keeps_its_completions_when_its_size_changes),
	    cmocka_unit_test(a_gid_entry_tells_its_type),
	    cmocka_unit_test(a_device_is_known_by_name_number_and_guid),
	    cmocka_unit_test(a_region_has_the_address_that_it_is_given),
	    cmocka_unit_test(an_address_is_made_of_a_completion),
	    cmocka_unit_test(a_speed_is_that_of_the_interface),
	    cmocka_unit_test(without_descriptors_nothing_is_opened),
	    cmocka_unit_test(there_are_as_many_pds_as_the_device_says),
	    cmocka_unit_test(there_are_as_many_regions_as_the_device_says),
	    cmocka_unit_test(a_child_of_fork_asks_in_vain),
	};

	return cmocka_run_group_tests(tests, live_open, live_close);
}
