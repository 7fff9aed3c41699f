/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * No verb of the data path allocates: not where a packet was lost, comes out of its turn or on
 * another lane, nor when an event is raised. A verb may be interrupted by a signal whose handler
 * allocates, as perftest's with -D does, and would hang if it was in malloc() itself.
 *
 * malloc() and the like are this program's own here, and so are sendmsg() and sendmmsg(), which
 * lose some of what goes to the network. Once more with other settings: see CMakeLists.txt.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "live.h"

enum {
	MESSAGES = 1600,
	RECEIVES = 16,
	UNDER_WAY = 12,
	SLOT = 4096,
	LONG = 3000,
	GRH = 40,
	SENDS_AT = RECEIVES * SLOT,
	TARGET_AT = SENDS_AT + RECEIVES * SLOT,
	WORD_AT = TARGET_AT + RECEIVES * SLOT,
	ROOM = WORD_AT + SLOT,
	LOSS = 16, /* one send in so many */
	QKEY = 0x1234567,
};

/* ---- who allocates ---- */

static __thread const char *in_verb;
static atomic_uint allocations;
static const char *first_verb = "", *first_function = "";
static void *first_caller;

#define VERB(call)                                                                                 \
	({                                                                                         \
		in_verb = #call;                                                                   \
		__auto_type result_ = (call);                                                      \
		in_verb = NULL;                                                                    \
		result_;                                                                           \
	})

static void assert_none(void)
{
	if (atomic_load(&allocations))
		fail_msg("%u times, first %s() from %p in %s", atomic_load(&allocations),
			 first_function, first_caller, first_verb);
}

/* AddressSanitizer and ThreadSanitizer have malloc() themselves. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { IS_WATCHED = false };
#else
enum { IS_WATCHED = true };

static void note(const char *function, void *caller)
{
	if (!in_verb || atomic_fetch_add(&allocations, 1))
		return;
	first_verb = in_verb;
	first_function = function;
	first_caller = caller;
}

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void __libc_free(void *memory);

void *malloc(size_t size)
{
	note("malloc", __builtin_return_address(0));
	return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
	note("calloc", __builtin_return_address(0));
	return __libc_calloc(count, size);
}

void *realloc(void *memory, size_t size)
{
	note("realloc", __builtin_return_address(0));
	return __libc_realloc(memory, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
	note("aligned_alloc", __builtin_return_address(0));
	return __libc_memalign(alignment, size);
}

int posix_memalign(void **memory, size_t alignment, size_t size)
{
	note("posix_memalign", __builtin_return_address(0));
	*memory = __libc_memalign(alignment, size);
	return *memory ? 0 : ENOMEM;
}

void free(void *memory)
{
	if (memory)
		note("free", __builtin_return_address(0));
	__libc_free(memory);
}
#endif

/* ---- the network ---- */

static atomic_bool is_losing;
static atomic_uint sends;

static bool is_lost(int fd)
{
	int domain = 0;
	socklen_t length = sizeof(domain);
	uint32_t dice = atomic_fetch_add(&sends, 1) * 0x9e3779b9;

	return atomic_load(&is_losing) && (dice ^ dice >> 15) * 0x85ebca6b >> 16 < 65536 / LOSS &&
	       !getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &length) && domain == AF_INET;
}

static ssize_t size_of(const struct msghdr *message)
{
	size_t size = 0;

	for (size_t i = 0; i < message->msg_iovlen; i++)
		size += message->msg_iov[i].iov_len;
	return (ssize_t)size;
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
	if (is_lost(fd))
		return size_of(message);
	return syscall(SYS_sendmsg, fd, message, flags);
}

int sendmmsg(int fd, struct mmsghdr *messages, unsigned int count, int flags)
{
	if (!is_lost(fd))
		return (int)syscall(SYS_sendmmsg, fd, messages, count, flags);
	messages->msg_len = (unsigned int)size_of(&messages->msg_hdr);
	return 1;
}

/* ---- a side ---- */

struct address {
	uint32_t qpn, rkey;
	uint64_t start;
};

struct side {
	struct end end;
	struct ibv_qp_ex *qp_ex;
	struct ibv_cq_ex *cq_ex;
	struct ibv_ah *ah;
	struct address peer;
	uint32_t posted, done, received;
};

static const enum ibv_wr_opcode kinds[] = {
    IBV_WR_SEND,
    IBV_WR_RDMA_WRITE,
    IBV_WR_SEND, /* inline */
    IBV_WR_RDMA_READ,
    IBV_WR_SEND_WITH_IMM, /* long */
    IBV_WR_ATOMIC_FETCH_AND_ADD,
    IBV_WR_RDMA_WRITE_WITH_IMM,
    IBV_WR_ATOMIC_CMP_AND_SWP,
};
enum { KINDS = sizeof(kinds) / sizeof(kinds[0]), RECEIVES_OF_KINDS = 4 };

static enum ibv_wr_opcode kind_of(const struct side *side)
{
	enum ibv_wr_opcode kind = kinds[side->posted % KINDS];

	switch (side->end.qp->qp_type) {
	case IBV_QPT_UD:
		return IBV_WR_SEND;
	case IBV_QPT_UC:
		return kind == IBV_WR_SEND_WITH_IMM || kind == IBV_WR_RDMA_WRITE_WITH_IMM
			   ? kind
			   : IBV_WR_SEND;
	default:
		return kind;
	}
}

static void side_receive(struct side *side, uint64_t slot)
{
	struct ibv_sge sge = end_sge(&side->end, slot * SLOT, SLOT);
	struct ibv_recv_wr wr = {.wr_id = slot, .sg_list = &sge, .num_sge = 1}, *bad;

	assert_int_equal(VERB(ibv_post_recv(side->end.qp, &wr, &bad)), 0);
}

static void side_create(struct side *side, enum ibv_qp_type type)
{
	struct ibv_cq_init_attr_ex cq = {.cqe = CQE};
	struct ibv_qp_init_attr_ex attr = {
	    .cap = {.max_send_wr = 16,
		    .max_recv_wr = RECEIVES,
		    .max_send_sge = 1,
		    .max_recv_sge = 1,
		    .max_inline_data = 64},
	    .qp_type = type,
	    .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
	    .send_ops_flags = IBV_QP_EX_WITH_SEND,
	    .pd = pd,
	};

	*side = (struct side){.posted = 0};
	side->end.buffer = calloc(1, ROOM);
	assert_non_null(side->end.buffer);
	side->end.mr = ibv_reg_mr(pd, side->end.buffer, ROOM, live_access);
	assert_non_null(side->end.mr);
	side->cq_ex = ibv_create_cq_ex(context, &cq);
	assert_non_null(side->cq_ex);
	side->end.cq = ibv_cq_ex_to_cq(side->cq_ex);
	attr.send_cq = attr.recv_cq = side->end.cq;
	side->end.qp = ibv_create_qp_ex(context, &attr);
	assert_non_null(side->end.qp);
	side->qp_ex = ibv_qp_to_qp_ex(side->end.qp);
	qp_init(side->end.qp, live_access);
	for (uint64_t i = 0; i < RECEIVES; i++)
		side_receive(side, i);
}

static struct address side_address(const struct side *side)
{
	return (struct address){side->end.qp->qp_num, side->end.mr->rkey,
				(uintptr_t)side->end.buffer};
}

static void side_connect(struct side *side, struct address peer)
{
	struct ibv_qp_attr rts = rts_attr();
	struct ibv_ah_attr ah = rtr_attr(0).ah_attr;

	side->peer = peer;
	rts.timeout = 14;
	rts.retry_cnt = rts.rnr_retry = 7;
	qp_connect_as(side->end.qp, peer.qpn, rts);
	if (side->end.qp->qp_type != IBV_QPT_UD)
		return;
	side->ah = ibv_create_ah(pd, &ah);
	assert_non_null(side->ah);
}

static void side_destroy(struct side *side)
{
	if (side->ah)
		assert_int_equal(ibv_destroy_ah(side->ah), 0);
	end_destroy(&side->end);
}

static void side_build(struct side *side, struct ibv_sge sge)
{
	ibv_wr_start(side->qp_ex);
	side->qp_ex->wr_id = UINT64_MAX;
	side->qp_ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send(side->qp_ex);
	if (side->ah)
		ibv_wr_set_ud_addr(side->qp_ex, side->ah, side->peer.qpn, QKEY);
	ibv_wr_set_sge(side->qp_ex, sge.lkey, sge.addr, sge.length);
}

static void side_send(struct side *side)
{
	enum ibv_wr_opcode opcode = kind_of(side);
	bool is_atomic =
	    opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
	bool is_long = opcode == IBV_WR_SEND_WITH_IMM || opcode == IBV_WR_RDMA_READ;
	uint32_t slot = side->posted % RECEIVES;
	struct ibv_sge sge = end_sge(&side->end, SENDS_AT + (size_t)slot * SLOT,
				     is_atomic ? 8
				     : is_long ? LONG
					       : 16);
	struct ibv_send_wr wr = make_send(opcode, &sge), *bad;

	side->posted++;
	if (opcode == IBV_WR_SEND && side->posted % 3 == 0) {
		in_verb = "ibv_wr_start()";
		side_build(side, sge);
		in_verb = NULL;
		assert_int_equal(VERB(ibv_wr_complete(side->qp_ex)), 0);
		return;
	}
	wr.wr_id = UINT64_MAX;
	if (opcode == IBV_WR_SEND && side->posted % 3 == 1)
		wr.send_flags |= IBV_SEND_INLINE;
	if (is_atomic) {
		wr.wr.atomic.remote_addr = side->peer.start + WORD_AT;
		wr.wr.atomic.rkey = side->peer.rkey;
	} else if (side->ah) {
		wr.wr.ud.ah = side->ah;
		wr.wr.ud.remote_qpn = side->peer.qpn;
		wr.wr.ud.remote_qkey = QKEY;
	} else {
		wr.wr.rdma.remote_addr = side->peer.start + TARGET_AT + (size_t)slot * SLOT;
		wr.wr.rdma.rkey = side->peer.rkey;
	}
	assert_int_equal(VERB(ibv_post_send(side->end.qp, &wr, &bad)), 0);
}

static void side_took(struct side *side, uint64_t wr_id, enum ibv_wc_status status)
{
	if (status != IBV_WC_SUCCESS)
		fail_msg("%s", ibv_wc_status_str(status));
	if (wr_id == UINT64_MAX) {
		side->done++;
		return;
	}
	side->received++;
	side_receive(side, wr_id);
}

static void side_poll_ex(struct side *side)
{
	struct ibv_poll_cq_attr none = {.comp_mask = 0};
	struct {
		uint64_t wr_id;
		enum ibv_wc_status status;
	} taken[4];
	int count = 0;

	if (VERB(ibv_start_poll(side->cq_ex, &none)))
		return;
	do {
		taken[count].wr_id = side->cq_ex->wr_id;
		taken[count++].status = side->cq_ex->status;
	} while (count < 4 && !VERB(ibv_next_poll(side->cq_ex)));
	in_verb = "ibv_end_poll()";
	ibv_end_poll(side->cq_ex);
	in_verb = NULL;
	for (int i = 0; i < count; i++)
		side_took(side, taken[i].wr_id, taken[i].status);
}

static void side_step(struct side *side)
{
	struct ibv_wc wc[4];
	int count;

	while (side->posted < MESSAGES && side->posted - side->done < UNDER_WAY)
		side_send(side);
	if (side->done / 64 % 2) {
		side_poll_ex(side);
		return;
	}
	count = VERB(ibv_poll_cq(side->end.cq, 4, wc));
	for (int i = 0; i < count; i++)
		side_took(side, wc[i].wr_id, wc[i].status);
	if (side->done % 16 == 0)
		assert_int_equal(VERB(ibv_req_notify_cq(side->end.cq, 0)), 0);
}

static bool side_is_done(const struct side *side)
{
	return side->done == MESSAGES && (side->end.qp->qp_type != IBV_QPT_RC ||
					  side->received == MESSAGES / KINDS * RECEIVES_OF_KINDS);
}

/* `every_us`: an alarm so often while verbs of the data path are called, 0: none. */
static void alarm_each(suseconds_t every_us)
{
	struct itimerval timer = {{0, every_us}, {0, every_us}};

	assert_int_equal(setitimer(ITIMER_REAL, &timer, NULL), 0);
}

/* (What creates and destroys may allocate: no alarm there.) */
static void within_the_process(enum ibv_qp_type type, suseconds_t every_us)
{
	double end = seconds() + 6 * PATIENCE_S;
	struct side a, b;

	side_create(&a, type);
	side_create(&b, type);
	side_connect(&a, side_address(&b));
	side_connect(&b, side_address(&a));
	atomic_store(&is_losing, true);
	alarm_each(every_us);
	while (!side_is_done(&a) || !side_is_done(&b)) {
		side_step(&a);
		side_step(&b);
		assert_true(seconds() < end);
	}
	alarm_each(0);
	atomic_store(&is_losing, false);
	assert_none();
	side_destroy(&a);
	side_destroy(&b);
}

static void within_the_process_by_rc(void **state)
{
	within_the_process(IBV_QPT_RC, 0);
}

static void within_the_process_by_uc(void **state)
{
	within_the_process(IBV_QPT_UC, 0);
}

static void within_the_process_by_ud(void **state)
{
	within_the_process(IBV_QPT_UD, 0);
}

/* ---- two processes ---- */

static void tell(int line, const void *what, size_t size)
{
	assert_int_equal(write(line, what, size), (ssize_t)size);
}

static void speak(int line)
{
	double end = seconds() + 6 * PATIENCE_S;
	struct address address;
	struct side side;
	bool has_said = false;
	char done = 'd';

	context = open_loopback();
	assert_non_null(context);
	assert_true(find_ipv4());
	pd = ibv_alloc_pd(context);
	assert_non_null(pd);
	side_create(&side, IBV_QPT_RC);
	address = side_address(&side);
	tell(line, &address, sizeof(address));
	assert_int_equal(recv(line, &address, sizeof(address), MSG_WAITALL), sizeof(address));
	side_connect(&side, address);
	tell(line, &done, 1);
	assert_int_equal(recv(line, &done, 1, MSG_WAITALL), 1); /* both can receive */
	atomic_store(&is_losing, true);
	while (!has_said || recv(line, &done, 1, MSG_DONTWAIT) != 1) {
		side_step(&side);
		if (!has_said && side_is_done(&side)) {
			tell(line, &done, 1);
			has_said = true;
		}
		assert_true(seconds() < end);
	}
	atomic_store(&is_losing, false);
	assert_none();
	side_destroy(&side);
	assert_int_equal(ibv_dealloc_pd(pd) || ibv_close_device(context), 0);
}

static void speak_in_the_child(void **state)
{
	speak(*(int *)*state);
}

/* (before the device is open here) */
static void between_processes(void **state)
{
	int line[2], status;
	pid_t child;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, line), 0);
	child = fork();
	assert_true(child >= 0);
	if (!child) {
		const struct CMUnitTest tests[] = {
		    cmocka_unit_test_prestate(speak_in_the_child, &line[1])};

		close(line[0]);
		_exit(cmocka_run_group_tests(tests, NULL, NULL));
	}
	close(line[1]);
	speak(line[0]);
	close(line[0]);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

/* ---- a handler that allocates ---- */

static void *last;

static void on_alarm(int signal_number)
{
	const char *before = in_verb;

	in_verb = NULL;
	free(last);
	last = malloc(1 + (size_t)rand() % 2000);
	in_verb = before;
}

static void a_handler_may_allocate(void **state)
{
	signal(SIGALRM, on_alarm);
	within_the_process(IBV_QPT_RC, 200);
}

int main(void)
{
	const struct CMUnitTest alone[] = {
	    cmocka_unit_test(within_the_process_by_rc),
	    cmocka_unit_test(within_the_process_by_uc),
	    cmocka_unit_test(within_the_process_by_ud),
	    cmocka_unit_test(a_handler_may_allocate),
	};
	const struct CMUnitTest two[] = {cmocka_unit_test(between_processes)};

	if (!IS_WATCHED || !own_network())
		return OWN_NETWORK_NONE;
	if (interface_up("lo") < 0)
		return 1;
	return cmocka_run_group_tests(two, NULL, NULL) |
	       cmocka_run_group_tests(alone, live_open, live_close);
}
