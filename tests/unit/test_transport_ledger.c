/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A responder that goes from one process to another and back, by its ledger, as packets name the
 * SRQs of either: over a link that loses and doubles packets each message is received once and in
 * order, each atomic done once. And what is left of one whose process died.
 */
#include "transport_pair.h"

#include "transport/ledger.h"

enum { ROUNDS = 25, EACH = 8, LONG = 3000, COUNTER = 1 << 19, RESULTS = 1 << 18 };

static struct adapter_host host;
static struct pair_options options;
static struct qp *branch, *at; /* `at` has the responder */
static struct srq *branch_srq;
static struct ledger ledger;
static int moves;

static void run_out(struct pair *pair, struct qp *qp)
{
	while (transport_run(qp, pair->now, &pair->b.outbox) || transport_owes(qp))
		continue;
}

/* It owes nothing any more where it was. */
static void move(struct pair *pair, struct qp *to)
{
	struct qp_terms terms;

	if (at == to)
		return;
	run_out(pair, at);
	ledger_write(at, &ledger);
	transport_get_terms(pair->b.qp, &terms);
	if (to == branch)
		assert_true(transport_set_terms(branch, &terms));
	ledger_read(to, &ledger, false);
	at = to;
	moves++;
}

static bool pass_on(struct qp *qp, const struct packet *packet, uint32_t srqn)
{
	struct pair *pair = side_of(qp->adapter)->pair;

	move(pair, srqn == srq_wire_number(branch_srq) ? branch : qp);
	if (at == qp)
		return false;
	transport_receive_for(branch, packet, pair->now, &pair->b.outbox);
	run_out(pair, branch);
	return true;
}

static int set_up(void **state)
{
	struct pair *pair;

	host = pair_host;
	host.pass_on = pass_on;
	options = default_options;
	options.type = IBV_QPT_XRC_SEND;
	pair = pair_connected(&options);
	pair->b.adapter.host = &host;
	branch_srq = side_create_xrc_srq(&pair->b);
	xrc_domain_get(&pair->b.adapter, pair->b.xrcd->domain);
	branch = transport_create_branch(&pair->b.adapter, pair->b.xrcd->domain, pair->b.qp->number,
					 &ledger);
	assert_non_null(branch);
	branch->line = (struct line *)&ledger; /* it has one */
	at = pair->b.qp;
	moves = 0;
	*state = pair;
	return 0;
}

static int tear_down(void **state)
{
	srq_destroy(branch_srq);
	transport_free_qp(branch);
	pair_free(*state);
	return 0;
}

#define LEDGER_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

/* Every seventh packet is lost, every fifth comes twice. */
static int lose_and_double(struct pair *pair, struct side *from, struct flying *packet)
{
	return pair->passed % 7 == 3 ? 0 : pair->passed % 5 == 1 ? 2 : 1;
}

static void post_recv(struct pair *pair, struct srq *srq, uint64_t wr_id)
{
	struct ibv_sge sge = side_sge(&pair->b, (wr_id % 16) * LONG, LONG);
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad;

	assert_int_equal(recv_queue_post(&srq->queue, &wr, &bad), 0);
}

static void request(struct pair *pair, enum ibv_wr_opcode opcode, bool is_for_branch,
		    uint64_t wr_id, struct ibv_sge sge)
{
	const struct srq *srq = is_for_branch ? branch_srq : pair->b.srq;
	struct ibv_send_wr wr = {.wr_id = wr_id,
				 .opcode = opcode,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .qp_type.xrc.remote_srqn = srq_wire_number(srq)};

	if (opcode == IBV_WR_RDMA_READ) {
		wr.wr.rdma.remote_addr = (uintptr_t)pair->b.memory;
		wr.wr.rdma.rkey = pair->b.mr->rkey;
	} else {
		wr.wr.atomic.remote_addr = (uintptr_t)pair->b.memory + COUNTER;
		wr.wr.atomic.rkey = pair->b.mr->rkey;
		wr.wr.atomic.compare_add = 1;
	}
	side_post(&pair->a, &wr);
}

/* Which of two SRQs message n is for: by turns, and now and then several in a row. */
static bool is_for_branch(unsigned int n)
{
	return n % 2 || n % 11 == 4;
}

static void each_message_is_received_once_and_in_order(void **state)
{
	struct pair *pair = *state;
	unsigned int sent = 0, received[2] = {0};

	pair->meddle = lose_and_double;
	for (int round = 0; round < ROUNDS; round++) {
		for (unsigned int n = sent; n < sent + EACH; n++) {
			bool to_branch = is_for_branch(n);

			post_recv(pair, to_branch ? branch_srq : pair->b.srq, n);
			fill(pair->a.memory + (n % EACH) * LONG, LONG, n);
			request(pair, IBV_WR_SEND, to_branch, n,
				side_sge(&pair->a, (n % EACH) * LONG, LONG));
		}
		pair_run_out(pair);
		for (unsigned int n = sent; n < sent + EACH; n++) {
			struct ibv_wc wc = side_expect(&pair->b, n, IBV_WC_SUCCESS);

			assert_int_equal(wc.byte_len, LONG);
			assert_memory_equal(pair->b.memory + (n % 16) * LONG,
					    pair->a.memory + (n % EACH) * LONG, LONG);
			received[is_for_branch(n)]++;
			side_expect(&pair->a, n, IBV_WC_SUCCESS);
		}
		side_expect_none(&pair->b);
		sent += EACH;
	}
	assert_int_equal(received[0] + received[1], ROUNDS * EACH);
	assert_true(moves > ROUNDS * EACH / 2);
}

static void each_atomic_is_done_once_wherever_its_duplicate_comes(void **state)
{
	struct pair *pair = *state;
	uint64_t *results = (uint64_t *)(pair->a.memory + RESULTS);

	pair->meddle = lose_and_double;
	for (unsigned int n = 0; n < ROUNDS * EACH; n++) {
		request(pair, IBV_WR_ATOMIC_FETCH_AND_ADD, is_for_branch(n), n,
			side_sge(&pair->a, RESULTS + 8 * (size_t)n, 8));
		if (n % EACH == EACH - 1)
			pair_run_out(pair);
	}
	for (unsigned int n = 0; n < ROUNDS * EACH; n++) {
		side_expect(&pair->a, n, IBV_WC_SUCCESS);
		assert_int_equal(results[n], n);
	}
	assert_int_equal(*(uint64_t *)(pair->b.memory + COUNTER), ROUNDS * EACH);
	assert_true(moves > ROUNDS * EACH / 2);
}

/* What was done stands, with its PSN; a READ that nobody answered is to be asked for again. */
static void what_died_with_a_process_is_asked_for_again(void **state)
{
	struct pair *pair = *state;
	struct ibv_sge sge = side_sge(&pair->a, 0, LONG);
	uint32_t before;

	post_recv(pair, branch_srq, 1);
	request(pair, IBV_WR_SEND, true, 1, side_sge(&pair->a, 0, 8));
	pair_run(pair);
	before = atomic_load(&ledger.psn);
	assert_int_equal(psn_diff(before, pair->a.psn), 1);
	assert_int_equal(atomic_load(&ledger.unanswered), before);

	host.pass_on = NULL;
	request(pair, IBV_WR_RDMA_READ, true, 2, sge);
	while (!pair->count)
		side_turn(&pair->a);
	{ /* the request arrives, and the process dies */
		const struct flying *flying = &pair->packets[pair->first];
		struct packet packet = {.bth = flying->bytes,
					.length = flying->size,
					.sgid = flying->av.sgid,
					.dgid = flying->av.dgid};

		transport_receive_for(branch, &packet, pair->now, &pair->b.outbox);
	}
	assert_int_equal(psn_diff(atomic_load(&ledger.psn), before), 3);
	assert_int_equal(atomic_load(&ledger.unanswered), before);
	ledger_read(pair->b.qp, &ledger, true);
	assert_int_equal(pair->b.qp->responder->psn, before);
	ledger_read(pair->b.qp, &ledger, false);
	assert_int_equal(psn_diff(pair->b.qp->responder->psn, before), 3);
}

/* Another process wrote it. */
static void nonsense_in_a_ledger_does_no_harm(void **state)
{
	struct pair *pair = *state;
	const struct responder *responder = pair->b.qp->responder;

	memset(&ledger, 0xff, sizeof(ledger));
	ledger_read(pair->b.qp, &ledger, true);
	assert_int_equal(responder->psn, PSN_MASK);
	assert_int_equal(responder->msn, PSN_MASK);
	assert_int_equal(responder->message, MESSAGE_NONE);
	assert_int_equal(responder->received, 0);
	for (uint32_t i = 0; i < responder->saved_room; i++)
		assert_false(responder->saved[i].is_used);
	assert_true(responder->saved_next < responder->saved_room);
	memset(&ledger, 0, sizeof(ledger));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    LEDGER_TEST(each_message_is_received_once_and_in_order),
	    LEDGER_TEST(each_atomic_is_done_once_wherever_its_duplicate_comes),
	    LEDGER_TEST(what_died_with_a_process_is_asked_for_again),
	    LEDGER_TEST(nonsense_in_a_ledger_does_no_harm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
