/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The exchange itself: a QP sends again when its last send completed and the answer came, `iters`
 * times in all. Then the time is told.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "pingpong.h"

enum { BATCH = 16 };

/* Clock cycles between receive completions, with -t. */
struct intervals {
	uint64_t last, most, least, total;
	int count;
};

static void note_time(const struct pingpong *pp, struct intervals *intervals, uint64_t stamp)
{
	uint64_t cycles = (stamp - intervals->last) & pp->timestamp_mask;

	if (intervals->count++) {
		intervals->total += cycles;
		if (cycles > intervals->most)
			intervals->most = cycles;
		if (cycles < intervals->least)
			intervals->least = cycles;
	}
	intervals->last = stamp;
}

static int find_qp(const struct pingpong *pp, uint32_t qpn)
{
	for (int i = 0; i < pp->options.num_qp; i++)
		if (pp->qps[i]->qp_num == qpn)
			return i;
	return -1;
}

static int send_next(struct pingpong *pp, int qp)
{
	if (pp_post_send(pp, qp)) {
		fprintf(stderr, "Couldn't post send\n");
		return 1;
	}
	pp->pending[qp] = PP_RECV | PP_SEND;
	return 0;
}

static int refill(struct pingpong *pp, int qp)
{
	int low = pp->srq ? pp->options.num_qp : 1;

	if (--pp->posted_receives > low)
		return 0;
	pp->posted_receives += pp_post_receives(pp, qp, pp->options.rx_depth - pp->posted_receives);
	if (pp->posted_receives >= pp->options.rx_depth)
		return 0;
	fprintf(stderr, "Couldn't post receive (%d)\n", pp->posted_receives);
	return 1;
}

static int take_completion(struct pingpong *pp, enum ibv_wc_status status, uint64_t wr_id,
			   uint32_t qpn)
{
	int qp = find_qp(pp, qpn);

	if (status != IBV_WC_SUCCESS) {
		fprintf(stderr, "Failed status %s (%d) for wr_id %d\n", ibv_wc_status_str(status),
			status, (int)wr_id);
		return 1;
	}
	if (qp < 0) {
		fprintf(stderr, "Couldn't find QPN %06x\n", qpn);
		return 1;
	}
	if (wr_id == PP_SEND) {
		pp->sent++;
	} else if (wr_id == PP_RECV) {
		if (refill(pp, qp))
			return 1;
		pp->received++;
	} else {
		fprintf(stderr, "Completion for unknown wr_id %d\n", (int)wr_id);
		return 1;
	}
	pp->pending[qp] &= ~(int)wr_id;
	return pp->sent < pp->options.iters && !pp->pending[qp] ? send_next(pp, qp) : 0;
}

/* Takes what is there: the number of completions, -1 after the error was printed. */
static int poll_plain(struct pingpong *pp)
{
	struct ibv_wc wc[BATCH];
	int count = ibv_poll_cq(pp->cq, BATCH, wc);

	if (count < 0)
		fprintf(stderr, "poll CQ failed %d\n", count);
	for (int i = 0; i < count; i++)
		if (take_completion(pp, wc[i].status, wc[i].wr_id, wc[i].qp_num))
			return -1;
	return count;
}

static int poll_with_times(struct pingpong *pp, struct intervals *intervals)
{
	struct ibv_poll_cq_attr attr = {0};
	int count = 0, rc = ibv_start_poll(pp->cq_ex, &attr), bad = 0;

	if (rc == ENOENT)
		return 0;
	if (rc) {
		fprintf(stderr, "poll CQ failed %d\n", rc);
		return -1;
	}
	while (!rc && !bad) {
		if (ibv_wc_read_opcode(pp->cq_ex) == IBV_WC_RECV &&
		    pp->cq_ex->status == IBV_WC_SUCCESS)
			note_time(pp, intervals, ibv_wc_read_completion_ts(pp->cq_ex));
		bad = take_completion(pp, pp->cq_ex->status, pp->cq_ex->wr_id,
				      ibv_wc_read_qp_num(pp->cq_ex));
		count++;
		rc = bad ? 0 : ibv_next_poll(pp->cq_ex);
	}
	ibv_end_poll(pp->cq_ex);
	if (rc && rc != ENOENT) {
		fprintf(stderr, "poll CQ failed %d\n", rc);
		return -1;
	}
	return bad ? -1 : count;
}

static int wait_for_event(struct pingpong *pp)
{
	struct ibv_cq *cq;
	void *data;

	if (ibv_get_cq_event(pp->channel, &cq, &data)) {
		fprintf(stderr, "Failed to get cq_event\n");
		return 1;
	}
	pp->cq_events++;
	if (cq != pp->cq) {
		fprintf(stderr, "CQ event for unknown CQ %p\n", (void *)cq);
		return 1;
	}
	/* Armed before looking: what comes in between is found by the poll or raises an event. */
	if (ibv_req_notify_cq(pp->cq, 0)) {
		fprintf(stderr, "Couldn't request CQ notification\n");
		return 1;
	}
	return 0;
}

static int play(struct pingpong *pp, struct intervals *intervals)
{
	const int iters = pp->options.iters;
	int count;

	for (int i = 0; i < pp->options.num_qp; i++) {
		pp->pending[i] = PP_RECV;
		if (pp->options.server && send_next(pp, i))
			return 1;
	}
	while (pp->received < iters || pp->sent < iters) {
		if (pp->options.events && wait_for_event(pp))
			return 1;
		do {
			count = pp->cq_ex ? poll_with_times(pp, intervals) : poll_plain(pp);
			if (count < 0)
				return 1;
		} while (pp->options.events && count);
	}
	return 0;
}

/*
 * With -c the client's message is PP_FILL, with a zero at the head of each page (where the original
 * programs look), and goes to and fro in the same buffers; so it is what both have in the end. The
 * original ibv_srq_pingpong sends zeros all over.
 */
static void stamp_pages(struct pingpong *pp)
{
	const uint32_t page = (uint32_t)sysconf(_SC_PAGESIZE);

	for (uint64_t i = 0; i < pp->options.size; i += page)
		pp->buffer[pp->header + i] = 0;
}

static int check_pages(const struct pingpong *pp)
{
	const long page_size = sysconf(_SC_PAGESIZE);
	const uint32_t page = page_size > 0 ? (uint32_t)page_size : 4096;
	int bad = 0;

	for (uint64_t at = 0; at < pp->options.size; at += page) {
		const char *data = pp->buffer + pp->header + at;
		uint64_t length = pp->options.size - at < page ? pp->options.size - at : page,
			 i = 1;

		while (i < length && data[i] == data[1])
			i++;
		if (data[0] || i < length || (i > 1 && data[1] && data[1] != PP_FILL)) {
			printf("invalid data in page %d\n", (int)(at / page));
			bad = 1;
		}
	}
	return bad;
}

static int fill_device_memory(struct pingpong *pp)
{
	if (!pp->dm || !ibv_memcpy_to_dm(pp->dm, 0, pp->buffer, pp->header + pp->options.size))
		return 0;
	fprintf(stderr, "Copy to dm buffer failed\n");
	return 1;
}

static int check(struct pingpong *pp)
{
	if (!pp->options.check || pp->options.server)
		return 0;
	if (pp->dm && ibv_memcpy_from_dm(pp->buffer, pp->dm, 0, pp->header + pp->options.size)) {
		fprintf(stderr, "Copy from DM buffer failed\n");
		return 1;
	}
	return check_pages(pp);
}

static void tell(const struct pingpong *pp, const struct timespec *start,
		 const struct timespec *end, const struct intervals *intervals)
{
	double usec = (double)(end->tv_sec - start->tv_sec) * 1e6 +
		      (double)(end->tv_nsec - start->tv_nsec) / 1e3;
	long long bytes = (long long)pp->options.size * pp->options.iters * 2;

	printf("%lld bytes in %.2f seconds = %.2f Mbit/sec\n", bytes, usec / 1e6,
	       (double)bytes * 8 / usec);
	printf("%d iters in %.2f seconds = %.2f usec/iter\n", pp->options.iters, usec / 1e6,
	       usec / pp->options.iters);
	if (intervals->count > 1) {
		printf("Max receive completion clock cycles = %llu\n",
		       (unsigned long long)intervals->most);
		printf("Min receive completion clock cycles = %llu\n",
		       (unsigned long long)intervals->least);
		printf("Average receive completion clock cycles = %f\n",
		       (double)intervals->total / (intervals->count - 1));
	}
}

static void print_address(const struct pingpong *pp, const char *whose,
			  const struct pp_address *address)
{
	char gid[INET6_ADDRSTRLEN];

	inet_ntop(AF_INET6, &address->gid, gid, sizeof(gid));
	printf("  %s address: %sLID 0x%04x, QPN 0x%06x, PSN 0x%06x%s GID %s\n", whose,
	       *whose == 'l' ? " " : "", address->lid, address->qpn, address->psn,
	       pp->kind->type == IBV_QPT_UD && *whose == 'l' ? ":" : ",", gid);
}

static int fill_local(struct pingpong *pp)
{
	union ibv_gid gid;

	if (pp->port.link_layer != IBV_LINK_LAYER_ETHERNET && !pp->port.lid) {
		fprintf(stderr, "Couldn't get local LID\n");
		return 1;
	}
	if (pp_choose_gid(pp, &gid))
		return 1;
	srand48((long)getpid() * time(NULL));
	for (int i = 0; i < pp->options.num_qp; i++) {
		pp->local[i] = (struct pp_address){
		    .lid = pp->port.lid,
		    .qpn = pp->qps[i]->qp_num,
		    .psn = (uint32_t)lrand48() & 0xffffff,
		    .gid = gid,
		};
		print_address(pp, "local", &pp->local[i]);
	}
	return 0;
}

static int connect_server(void *data, const struct pp_address *remote)
{
	return pp_connect_qps(data, remote);
}

static int meet(struct pingpong *pp)
{
	int count = pp->kind->has_srq ? PP_MAX_QPS : 1, rc;

	if (pp->options.server)
		rc = pp_exchange_as_client(&pp->options, pp->local, count, pp->remote);
	else
		rc = pp_exchange_as_server(&pp->options, pp->local, count, connect_server, pp,
					   pp->remote);
	if (rc)
		return rc;
	for (int i = 0; i < pp->options.num_qp; i++)
		print_address(pp, "remote", &pp->remote[i]);
	return pp->options.server ? pp_connect_qps(pp, pp->remote) : 0;
}

static int prepare(struct pingpong *pp)
{
	if (pp->options.server && pp->options.check)
		stamp_pages(pp);
	if (fill_device_memory(pp))
		return 1;
	pp->posted_receives = pp_post_receives(pp, 0, pp->options.rx_depth);
	if (pp->posted_receives < pp->options.rx_depth) {
		fprintf(stderr, "Couldn't post receive (%d)\n", pp->posted_receives);
		return 1;
	}
	if (pp->options.events && ibv_req_notify_cq(pp->cq, 0)) {
		fprintf(stderr, "Couldn't request CQ notification\n");
		return 1;
	}
	return 0;
}

static int run(struct pingpong *pp)
{
	struct intervals intervals = {.least = UINT64_MAX};
	struct timespec start, end;

	if (pp_open(pp) || prepare(pp) || fill_local(pp))
		return 1;
	fflush(stdout); /* whoever waits for the server reads this first */
	if (meet(pp))
		return 1;
	clock_gettime(CLOCK_MONOTONIC, &start);
	if (play(pp, &intervals))
		return 1;
	clock_gettime(CLOCK_MONOTONIC, &end);
	tell(pp, &start, &end, &intervals);
	return check(pp);
}

int pp_main(const struct pp_kind *kind, int argc, char **argv)
{
	struct pingpong pp = {.kind = kind};
	int rc = pp_parse(kind, argc, argv, &pp.options);

	if (rc)
		return rc;
	rc = run(&pp);
	if (pp.cq && pp.cq_events)
		ibv_ack_cq_events(pp.cq, (unsigned int)pp.cq_events);
	return pp_close(&pp) || rc;
}
