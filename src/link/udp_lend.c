/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Lent pages: what a stream stages is not copied into the kernel's send, but handed over as the
 * pages that it lies in. A copy costs twice what it seems to: the kernel gives its pages again as
 * soon as they are read, so each line of them is still in the other core's cache when it is written
 * anew. So the stage of a stream moves on through a ring of pages, and comes back to a page when
 * its lines have long left that cache.
 *
 * The kernel refers to the pages until the receiver has read them (in another name space of this
 * host) or the device has sent them, and does not say when that was. A page is written again when a
 * ring's worth has left since, which is more than is under way: only QPs with a bounded window lend
 * (`lends` in device/av.h), and few of them at a time. Where a page is written too early all the
 * same, as its receiver was stopped, the packets in it are others or broken: the ICRC tells, and
 * what was lost goes again. So that nobody sees then what is for another, a ring has nothing but
 * what is for one place, a lane of a process of a peer, and who follows has a ring of his own.
 *
 * Where the processor copies fast, that is faster all the same, by up to twice: which one it is
 * shows by a trial (lend_trial.h).
 *
 * The way into a socket is by a pipe, and only on a path, as splice() knows no address. From Linux
 * 6.5 on it makes one packet of what it is given. sendfile() from a memfd is one call instead of
 * two and yet slower, but for huge pages; and these it has only where madvise(MADV_COLLAPSE) waits
 * for a thread of the kernel's on each core, for ever if a core does not let it run.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <netinet/udp.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/utsname.h>

#include "base/populate.h"
#include "link/clock.h"
#include "link/udp_link.h"

enum {
	PAGES_MAX = 16,	  /* that the kernel takes in one packet */
	LEND_AFTER = 32,  /* runs */
	REFUSALS_MAX = 4, /* in a row */
	KERNEL_MAJOR = 6,
	KERNEL_MINOR = 5,
	HUGE_PAGE = 2 << 20,
};

bool udp_kernel_lends(void)
{
	struct utsname name;
	unsigned int major, minor;

	return uname(&name) == 0 && sscanf(name.release, "%u.%u", &major, &minor) == 2 &&
	       (major > KERNEL_MAJOR || (major == KERNEL_MAJOR && minor >= KERNEL_MINOR));
}

static uint32_t page_up(uint32_t bytes)
{
	return (bytes + LEND_PAGE - 1) / LEND_PAGE * LEND_PAGE;
}

/* Address space for the ring, from the beginning of a huge page on. NULL if there is none. */
static uint8_t *reserve_space(void)
{
	size_t bytes = LEND_RING_BYTES + HUGE_PAGE;
	uint8_t *space = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *ring;
	size_t before;

	if (space == MAP_FAILED)
		return NULL;
	before = -(uintptr_t)space % HUGE_PAGE;
	ring = space + before;
	if (before)
		munmap(space, before);
	munmap(ring + LEND_RING_BYTES, HUGE_PAGE - before);
	return ring;
}

/* Of huge pages where the kernel has some: the stores look at fewer page tables. A child of fork()
 * has no ring: what its parent stores next would go to a copy. With memory behind all of it:
 * without, a store could find that there is none. */
static bool fill(uint8_t *ring)
{
	if (mmap(ring, LEND_RING_BYTES, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED ||
	    madvise(ring, LEND_RING_BYTES, MADV_DONTFORK) < 0)
		return false;
	madvise(ring, LEND_RING_BYTES, MADV_HUGEPAGE);
	return madvise(ring, LEND_RING_BYTES, MADV_POPULATE_WRITE) == 0;
}

static void close_pipe(struct udp_lender *lender)
{
	for (int i = 0; i < 2; i++)
		if (lender->pipe[i] >= 0)
			close(lender->pipe[i]);
	lender->pipe[0] = lender->pipe[1] = -1;
}

/* A user who has many pipes gets short ones. */
static bool open_pipe(struct udp_lender *lender)
{
	if (pipe2(lender->pipe, O_CLOEXEC | O_NONBLOCK) < 0) {
		lender->pipe[0] = lender->pipe[1] = -1;
		return false;
	}
	if (fcntl(lender->pipe[1], F_GETPIPE_SZ) >= PAGES_MAX * LEND_PAGE)
		return true;
	close_pipe(lender);
	return false;
}

static void drop_ring(struct udp_link *link)
{
	struct udp_lender *lender = &link->lender;

	if (!lender->ring)
		return;
	munmap(lender->ring, LEND_RING_BYTES);
	close_pipe(lender);
	if (lender->is_staging)
		link->stage = lender->plain;
	lender->is_staging = false;
	lender->ring = NULL;
}

/* Nothing is staged. */
static void make_ring(struct udp_link *link)
{
	struct udp_lender *lender = &link->lender;
	uint8_t *ring;

	drop_ring(link);
	lender->is_off = true;
	if (!udp_kernel_lends())
		return;
	ring = reserve_space();
	if (!ring)
		return;
	if (!fill(ring) || !open_pipe(lender)) {
		munmap(ring, LEND_RING_BYTES);
		return;
	}
	lender->is_off = false;
	lender->ring = lender->next = ring;
	lender->plain = link->stage;
	lender->to = lender->asking;
	lender->asked = lender->count = lender->windows = 0;
}

void udp_lender_fini(struct udp_link *link)
{
	drop_ring(link);
	free(link->stage);
}

void udp_lender_abandon(struct udp_link *link)
{
	if (link->lender.ring)
		close_pipe(&link->lender);
}

static struct udp_borrower borrower_of(const struct av *av, uint32_t dest_qp)
{
	return (struct udp_borrower){av->sgid, av->dgid, dest_qp & PLACE_PART};
}

static bool is_same_borrower(const struct udp_borrower *a, const struct udp_borrower *b)
{
	return a->part == b->part && gid_is_same(&a->to, &b->to) && gid_is_same(&a->from, &b->from);
}

bool udp_lender_stage(struct udp_link *link, const struct av *av, uint32_t dest_qp)
{
	struct udp_lender *lender = &link->lender;
	struct udp_borrower to;
	bool is_for_ring;

	if (!lender->ring)
		return true;
	to = borrower_of(av, dest_qp);
	is_for_ring = is_same_borrower(&to, &lender->to) && lend_trial_lends(&lender->trial);
	if (is_for_ring == lender->is_staging)
		return true;
	if (!udp_link_flush(link))
		return false;
	if (!is_for_ring)
		lender->next = link->stage;
	link->stage = is_for_ring ? lender->next : lender->plain;
	lender->is_staging = is_for_ring;
	return true;
}

/* Of those whose packets lie in the ring; a new one, and more of an old one, only where they are
 * few. */
static bool is_admitted(struct udp_lender *lender, uint32_t qpn, uint8_t windows)
{
	uint8_t more = windows;
	uint32_t i = 0;

	while (i < lender->count && lender->qps[i] != qpn)
		i++;
	if (i < lender->count)
		more = windows > lender->granted[i] ? windows - lender->granted[i] : 0;
	if (lender->windows + more > LEND_WINDOWS)
		return false;
	if (i == lender->count) {
		lender->qps[lender->count++] = qpn;
		lender->granted[i] = 0;
	}
	lender->windows += more;
	lender->granted[i] += more;
	return true;
}

/* Not from the ring: it is another's, or there is none yet. */
static void ask(struct udp_lender *lender, const struct udp_run *run)
{
	struct udp_borrower to = borrower_of(&run->av, run->dest_qp);

	if (!is_same_borrower(&to, &lender->asking))
		lender->asked = 0;
	lender->asking = to;
	lender->asked++;
}

static bool can_be_lent(const struct udp_lender *lender, const struct udp_run *run)
{
	return run->av.lends && udp_run_bytes(run) >= LEND_BYTES_MIN && !lender->is_off &&
	       run->path && !run->path->is_dead && run->count > 1 &&
	       (!run->av.hop_limit || run->av.hop_limit == HOP_LIMIT_DEFAULT);
}

bool udp_lends(struct udp_link *link, const struct udp_run *run)
{
	struct udp_lender *lender = &link->lender;
	uint32_t bytes = udp_run_bytes(run);

	if (!can_be_lent(lender, run))
		return false;
	if (lender->ring &&
	    !lend_trial_lends(&lender->trial)) { /* whoever it is: he needs no ring */
		lender->tried += bytes;
		return false;
	}
	if (!lender->is_staging) {
		ask(lender, run);
		return false;
	}
	lender->asked = 0;
	return run->offset % LEND_PAGE + bytes <= PAGES_MAX * LEND_PAGE &&
	       is_admitted(lender, run->dest_qp, run->av.lends);
}

void udp_way_cut(struct udp_way *way, uint16_t segment)
{
	int value = segment;

	if (way->segment != segment &&
	    setsockopt(way->fd, IPPROTO_UDP, UDP_SEGMENT, &value, sizeof(value)) == 0)
		way->segment = segment;
}

static ssize_t into_pipe(const struct udp_lender *lender, const struct iovec *pages)
{
	ssize_t bytes;

	do
		bytes = vmsplice(lender->pipe[1], pages, 1, SPLICE_F_NONBLOCK);
	while (bytes < 0 && errno == EINTR);
	return bytes;
}

static ssize_t into_socket(const struct udp_lender *lender, int fd, size_t bytes)
{
	ssize_t sent;

	do
		sent = splice(lender->pipe[0], NULL, fd, NULL, bytes, SPLICE_F_NONBLOCK);
	while (sent < 0 && errno == EINTR);
	return sent;
}

/* The pages stay in the pipe if the socket does not take them. */
static void empty_pipe(struct udp_lender *lender)
{
	close_pipe(lender);
	lender->is_off |= !open_pipe(lender);
}

/* Maybe of the network, and maybe of the kernel for ever. */
static int refused(struct udp_lender *lender, int error)
{
	empty_pipe(lender);
	if (error != EAGAIN && ++lender->refusals == REFUSALS_MAX)
		lender->is_off = true;
	return -error;
}

int udp_lend(struct udp_link *link, const struct udp_run *run)
{
	struct udp_lender *lender = &link->lender;
	struct udp_way *way = &run->path->way;
	struct iovec pages = {link->stage + run->offset, udp_run_bytes(run)};
	ssize_t bytes = pages.iov_len, sent;

	udp_way_cut(way, run->segment);
	way->singles = 0;
	if (way->segment != run->segment || into_pipe(lender, &pages) != bytes) {
		lender->is_off = true;
		return 0;
	}
	lender->has_lent = true;
	sent = into_socket(lender, way->fd, bytes);
	if (sent != bytes)
		return refused(lender, sent < 0 ? errno : EIO);
	lender->refusals = 0;
	lender->tried += bytes;
	return 1;
}

/* The QPs of the lap that ends may have packets in the ring during the next one. */
static void begin_lap(struct udp_link *link)
{
	link->stage = link->lender.ring;
	link->lender.count = link->lender.windows = 0;
}

void udp_lender_move_on(struct udp_link *link)
{
	struct udp_lender *lender = &link->lender;

	if (lender->tried && lend_trial_count(&lender->trial, lender->tried))
		lend_trial_time(&lender->trial, clock_ns());
	lender->tried = 0;
	if (lender->has_lent) {
		link->stage += page_up(link->used);
		if (link->stage + STAGE_BYTES > lender->ring + LEND_RING_BYTES)
			begin_lap(link);
		lender->has_lent = false;
	} else if (lender->asked >= LEND_AFTER && !lender->is_off) {
		make_ring(link);
	}
}

uint32_t udp_lender_begin(const struct udp_link *link, uint32_t bytes)
{
	const struct udp_run *last = link->runs + link->run_count - 1;
	uint32_t at = page_up(link->used);

	if (!link->lender.is_staging || !link->run_count || !link->reserved_av.lends ||
	    udp_run_bytes(last) < LEND_BYTES_MIN || at + bytes > STAGE_BYTES)
		return link->used;
	return at;
}
