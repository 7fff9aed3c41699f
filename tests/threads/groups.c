// SPDX-License-Identifier: BSD-2-Clause
/*
 * A multicast group whose members come and go in several threads: who has attached is in it, and so
 * is the host, whoever of the others is just the first or the last one.
 */
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "rig.h"

/* A group's first member opens sockets with a program, which must not be many (docs/engine.md). */
enum { MEMBERS = 2, ROUNDS = 60 };

static const union ibv_gid group = {
    .raw = {[10] = 0xff, [11] = 0xff, [12] = 239, [13] = 1, [14] = 2, [15] = 4}};
static const char group_hex[] = "040201EF"; /* as the kernel writes it */

static struct rig rig;
static struct ibv_cq *cq;
static atomic_uint arrived;
static int igmp; /* what the kernel says of groups */

/* What comes from other hosts comes only then. */
static bool is_host_in_group(void)
{
	char text[4096];
	ssize_t length = pread(igmp, text, sizeof(text) - 1, 0);

	CHECK(length > 0);
	text[length] = 0;
	return strstr(text, group_hex);
}

/* All at once, without a system call, but for the last ones being later each time. */
static void start_together(unsigned int round, unsigned int delay)
{
	atomic_fetch_add(&arrived, 1);
	while (atomic_load(&arrived) < (round + 1) * MEMBERS)
		;
	for (volatile unsigned int i = 0; i < delay * 100; i++)
		;
}

static void *come_and_go(void *is_later)
{
	struct ibv_qp_init_attr attr = {
	    .send_cq = cq,
	    .recv_cq = cq,
	    .cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
	    .qp_type = IBV_QPT_UD,
	};
	struct ibv_qp *qp = ibv_create_qp(rig.pd, &attr);

	CHECK(qp);
	for (unsigned int i = 0; i < ROUNDS; i++) {
		start_together(i, is_later ? i : 0);
		CHECK(!ibv_attach_mcast(qp, &group, 0));
		CHECK(is_host_in_group());
		CHECK(!ibv_detach_mcast(qp, &group, 0));
	}
	CHECK(!ibv_destroy_qp(qp));
	return NULL;
}

int main(void)
{
	pthread_t threads[MEMBERS];

	rig_watchdog(100);
	rig_open(&rig);
	cq = ibv_create_cq(rig.context, 8, NULL, NULL, 0);
	CHECK(cq);
	igmp = open("/proc/net/igmp", O_RDONLY);
	CHECK(igmp >= 0);
	for (int i = 0; i < MEMBERS; i++)
		CHECK(!pthread_create(&threads[i], NULL, come_and_go, i ? &igmp : NULL));
	for (int i = 0; i < MEMBERS; i++)
		CHECK(!pthread_join(threads[i], NULL));
	CHECK(!is_host_in_group());
	close(igmp);
	CHECK(!ibv_destroy_cq(cq));
	rig_close(&rig);
	return 0;
}
