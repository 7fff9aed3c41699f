/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The home of an XRC_RECV QP: the process that has its number, and so gets its packets. Each names
 * an SRQ, and the SRQ's number says whose it is; there the QP's responder has to be. So packets
 * pass through here in order: as long as they name SRQs of one process they go to it, and when one
 * names another's, it and all behind it wait until the responder has come back and gone on.
 *
 * What is here, one at a time: `at` is NULL and the responder is ours; or it is the line to the
 * process that has it. `first` are the packets that wait.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "device/adapter.h"
#include "device/xrcd.h"
#include "engine/domain.h"
#include "engine/line.h"
#include "engine/progress.h"
#include "engine/state.h"
#include "engine/steer.h"
#include "link/samehost.h"
#include "transport/ledger.h"

enum {
	PARKED_BYTES = 1 << 20, /* what is beyond is lost, as on a network */
	LATE_MAX = 4,
};

struct parked {
	struct parked *next;
	uint32_t slot;
	struct packet packet;
	uint8_t bytes[];
};

struct home {
	struct cds_list_head lines;
	struct line *at;
	bool is_recalled;
	bool is_taking; /* a packet that waited is taken in here */
	struct parked *first, **end;
	size_t parked_bytes;
	struct ledger *ledger; /* NULL: nobody else has had to do with it yet */
	int place;	       /* of its descriptor, among the held */
	enum ibv_event_type late[LATE_MAX];
	int late_count; /* events of an error, to be told when the state says so */
};

static struct pool *pool_of(const struct qp *qp)
{
	return &qp->seat->lane->engine->pool;
}

/* ---- packets that wait ---- */

static void park(struct qp *qp, const struct packet *packet, uint32_t slot)
{
	struct home *home = qp->home;
	struct parked *parked;

	if (home->parked_bytes + packet->length > PARKED_BYTES)
		return;
	parked = pool_take(pool_of(qp), sizeof(*parked) + packet->length);
	if (!parked)
		return;
	parked->next = NULL;
	parked->slot = slot;
	parked->packet = *packet;
	parked->packet.bth = parked->bytes;
	memcpy(parked->bytes, packet->bth, packet->length);
	*home->end = parked;
	home->end = &parked->next;
	home->parked_bytes += packet->length;
}

static void unpark(struct qp *qp)
{
	struct home *home = qp->home;
	struct parked *parked = home->first;

	home->first = parked->next;
	if (!home->first)
		home->end = &home->first;
	home->parked_bytes -= parked->packet.length;
	pool_give(pool_of(qp), parked);
}

/* ---- lines ---- */

static struct home *home_make(struct qp *qp)
{
	struct home *home = pool_take(pool_of(qp), sizeof(*home));

	if (!home)
		return NULL;
	memset(home, 0, sizeof(*home));
	CDS_INIT_LIST_HEAD(&home->lines);
	home->end = &home->first;
	qp->home = home;
	return home;
}

/* The mail thread makes it: descriptors are not to be in hand when somebody forks. */
static void ask(struct line *line)
{
	struct engine *engine = line->lane->engine;
	const struct qp *qp = line->qp;
	struct meeting meeting;
	struct iovec iov = {&meeting, sizeof(meeting)};
	struct mail_address self;

	meeting_head(&meeting, MEETING_LINE);
	meeting.gid = qp->av.sgid;
	meeting.scope = gid_scope(&qp->av.sgid, station_of(qp->adapter)->info.ifindex);
	meeting.question = qp->number;
	meeting.slot = line->slot;
	mail_address_of_slot(engine->slot.number, &self);
	if (mail_send(engine->slot.fd, &self, &iov, 1, NULL, 0) == 0)
		line->state = LINE_ASKED;
}

/* ---- the ledger ---- */

static struct engine *engine_of(const struct qp *qp)
{
	return station_of(qp->adapter)->engine;
}

/* What the next home has to know, as long as the responder is here. */
static void note(struct qp *qp)
{
	struct home *home = qp->home;

	if (!home->ledger)
		return;
	ledger_write_terms(qp, home->ledger);
	if (!home->at)
		ledger_write(qp, home->ledger);
}

/* 0 or -errno. */
static int obtain_ledger(struct qp *qp)
{
	struct home *home = qp->home;
	int fd;

	if (home->ledger)
		return 0;
	fd = ledger_make(&home->ledger);
	if (fd < 0)
		return fd;
	home->place = held_add(&engine_of(qp)->held, fd);
	if (home->place < 0) {
		munmap(home->ledger, sizeof(*home->ledger));
		home->ledger = NULL;
		close(fd);
		return -EMFILE;
	}
	qp->ledger = home->ledger;
	note(qp);
	return 0;
}

static void release_ledger(struct qp *qp)
{
	struct home *home = qp->home;

	qp->ledger = NULL;
	if (!home->ledger)
		return;
	munmap(home->ledger, sizeof(*home->ledger));
	held_close(&engine_of(qp)->held, home->place);
	home->ledger = NULL;
}

static int ledger_fd(const struct qp *qp)
{
	return atomic_load(&engine_of(qp)->held.fds[qp->home->place]) - 1;
}

/* ---- lines that are there ---- */

static struct line *find(const struct home *home, uint32_t slot)
{
	struct line *line;

	cds_list_for_each_entry (line, &home->lines, node)
		if (line->slot == slot)
			return line;
	return NULL;
}

/* NULL without memory. */
static struct line *line_to(struct qp *qp, uint32_t slot)
{
	struct line *line = find(qp->home, slot);

	if (!line) {
		line = line_make(qp->seat->lane, qp, slot);
		if (line)
			cds_list_add_tail(&line->node, &qp->home->lines);
	}
	if (line && line->state == LINE_NEW)
		ask(line);
	return line;
}

/* Who said no once may have opened the domain by the time of the next message. */
static void forget_refusals(struct home *home)
{
	struct line *line, *next;

	cds_list_for_each_entry_safe (line, next, &home->lines, node)
		if (line->state == LINE_REFUSED)
			line_close(line);
}

/* ---- the switch ---- */

/* The responder is here, owes nothing, and goes to the line's other end. */
static bool hand_over(struct qp *qp, struct line *line)
{
	ledger_write(qp, line->ledger);
	atomic_store(&qp->home->ledger->holder, line->slot + 1);
	if (line_say_terms(line, LINE_SERVE)) {
		atomic_store(&qp->home->ledger->holder, 0);
		return false;
	}
	qp->home->at = line;
	qp->home->is_recalled = false;
	return true;
}

static void take_here(struct qp *qp, const struct packet *packet)
{
	struct lane *lane = qp->seat->lane;

	qp->home->is_taking = true;
	transport_receive_for(qp, packet, lane_now(), samehost_outbox(lane->samehost));
	qp->home->is_taking = false;
}

/* False: the first of those that wait has to wait on. */
static bool take_first(struct qp *qp)
{
	struct home *home = qp->home;
	const struct parked *parked = home->first;
	struct line *line = NULL;

	if (parked->slot != qp->adapter->slot) {
		line = line_to(qp, parked->slot);
		if (!line || line->state == LINE_NEW || line->state == LINE_ASKED)
			return false;
		if (line->state == LINE_REFUSED)
			line = NULL; /* to be refused, where the PSN is known */
	}
	if (home->at && home->at != line) {
		/* one that we took over: what is not open yet has not said whether it is there */
		if (!home->is_recalled && home->at->state == LINE_OPEN)
			home->is_recalled = line_say(home->at, LINE_RECALL, 0) == 0;
		return false;
	}
	if (line && !home->at) {
		if (transport_owes(qp)) {
			qp->adapter->host->schedule(qp->adapter, qp);
			return false;
		}
		if (!hand_over(qp, line))
			return false;
	}
	if (line)
		line_pass(line, &parked->packet);
	else
		take_here(qp, &parked->packet);
	return true;
}

static void go_on(struct qp *qp)
{
	struct home *home = qp->home;

	if (home->is_taking)
		return;
	if (home->at && home->at->state == LINE_NEW)
		ask(home->at); /* the mail was full */
	while (home->first && take_first(qp))
		unpark(qp);
	if (!home->first)
		forget_refusals(home);
}

bool home_pass_on(struct qp *qp, const struct packet *packet, uint32_t srqn)
{
	uint32_t slot = srqn >> QPN_SLOT_SHIFT;
	bool is_ours = slot == qp->adapter->slot;
	struct home *home = qp->home;

	if (home ? home->is_taking : is_ours || qp->domain->is_private)
		return false;
	if (!home)
		home = home_make(qp);
	if (!home)
		return false;
	if (!home->first && !home->at && is_ours)
		return false;
	if (!home->first && home->at && home->at->slot == slot && home->at->state == LINE_OPEN) {
		/* where there is no room it is lost, as on a network */
		line_pass(home->at, packet);
		return true;
	}
	park(qp, packet, slot);
	go_on(qp);
	return true;
}

void home_ran(struct qp *qp)
{
	if (atomic_load_explicit(&qp->state, memory_order_relaxed) == IBV_QPS_ERR)
		home_end(qp, IBV_QPS_ERR);
	else if (qp->home->first)
		go_on(qp);
}

/* ---- what branches say ---- */

static void tell_late(struct qp *qp)
{
	struct home *home = qp->home;

	for (int i = 0; i < home->late_count; i++)
		qp_event(qp, home->late[i]);
	home->late_count = 0;
}

static void come_back(struct qp *qp, bool is_left)
{
	ledger_read(qp, qp->home->ledger, is_left);
	atomic_store(&qp->home->ledger->holder, 0);
	qp->home->at = NULL;
	qp->home->is_recalled = false;
}

/* What it was doing is to be done here. */
static void come_back_left(struct qp *qp)
{
	come_back(qp, true);
	transport_ask_again(qp);
}

/* Who hears of an error finds the QP in it: the branch tells before its NAK, and fails behind it.
 */
static void hear_event(struct qp *qp, const struct line *line, enum ibv_event_type type)
{
	struct home *home = qp->home;
	bool is_error = type == IBV_EVENT_QP_REQ_ERR || type == IBV_EVENT_QP_ACCESS_ERR ||
			type == IBV_EVENT_QP_FATAL;

	if (is_error && home->at == line && home->late_count < LATE_MAX)
		home->late[home->late_count++] = type;
	else
		qp_event(qp, type);
}

static void become_ready(struct line *line, bool has_responder)
{
	if (line->state != LINE_ASKED)
		return;
	line->state = LINE_OPEN;
	/* a predecessor thought so */
	if (line->qp->home->at == line && !has_responder)
		come_back_left(line->qp);
}

bool home_hears(struct line *line, const struct line_message *message)
{
	struct qp *qp = line->qp;

	switch (message->type) {
	case LINE_READY:
		become_ready(line, message->value);
		break;
	case LINE_NO:
		if (line->state == LINE_ASKED)
			line->state = LINE_REFUSED;
		if (qp->home->at == line)
			come_back_left(qp);
		break;
	case LINE_RETURN:
		if (qp->home->at == line && qp->home->is_recalled)
			come_back(qp, false);
		break;
	case LINE_EVENT:
		hear_event(qp, line, (enum ibv_event_type)message->value);
		return true;
	case LINE_FAILED:
		if (qp->home->at != line)
			return true;
		come_back(qp, true);
		transport_fail(qp, lane_now());
		home_end(qp, IBV_QPS_ERR);
		return false;
	default:
		return true;
	}
	go_on(qp);
	return true;
}

/* Its process is gone. What it had acknowledged stands; what was on its way to it does not, and
 * comes again: then it names an SRQ that is no more. */
void home_lost(struct line *line)
{
	struct qp *qp = line->qp;

	if (qp->home->at == line)
		come_back_left(qp);
	tell_late(qp);
	if (line->state == LINE_ASKED) { /* whose packets still wait */
		struct line *refused = line_make(line->lane, qp, line->slot);

		if (refused) {
			refused->state = LINE_REFUSED;
			cds_list_add_tail(&refused->node, &qp->home->lines);
		}
	}
	line_close(line);
	go_on(qp);
}

/* ---- what the program does ---- */

void home_changed(struct qp *qp)
{
	struct line *line;

	cds_list_for_each_entry (line, &qp->home->lines, node)
		if (line->state == LINE_OPEN)
			line_say_terms(line, LINE_TERMS);
	note(qp);
}

void home_end(struct qp *qp, enum ibv_qp_state state)
{
	struct home *home = qp->home;
	struct line *line, *next;

	while (home->first)
		unpark(qp);
	cds_list_for_each_entry_safe (line, next, &home->lines, node) {
		line_say(line, LINE_END, state);
		line_close(line);
	}
	home->at = NULL;
	home->is_recalled = false;
	if (home->ledger) {
		atomic_store(&home->ledger->holder, 0);
		ledger_write_terms(qp, home->ledger);
	}
	tell_late(qp);
}

/* As one that was killed: the ledger and the branches are the next home's. */
static void depart(struct qp *qp)
{
	struct home *home = qp->home;
	struct line *line, *next;

	while (home->first)
		unpark(qp);
	cds_list_for_each_entry_safe (line, next, &home->lines, node)
		line_close(line);
	home->at = NULL;
	tell_late(qp);
}

/* Of who took a QP over nobody knows whether others who have it open have found it yet. */
void home_free(struct qp *qp)
{
	if (qp->stand_in)
		depart(qp);
	else
		home_end(qp, IBV_QPS_RESET);
	release_ledger(qp);
	pool_give(pool_of(qp), qp->home);
	qp->home = NULL;
}

uint32_t home_psn(const struct qp *qp)
{
	const struct home *home = qp->home;

	return home && home->at ? atomic_load(&home->ledger->psn) & PSN_MASK : qp->responder->psn;
}

int home_share(struct qp *qp)
{
	int error = 0;

	if (!qp->home && !home_make(qp))
		return -ENOMEM;
	error = obtain_ledger(qp);
	if (error)
		return error;
	atomic_store(&qp->home->ledger->is_opened, true);
	return ledger_fd(qp);
}

bool home_is_away(const struct qp *qp)
{
	return qp->home->at;
}

void home_unshare(struct qp *qp)
{
	if (qp->home && qp->home->ledger)
		atomic_store(&qp->home->ledger->is_opened, false);
}

/* The responder may be in a third process, which is asked; else it is here. */
bool home_inherit(struct qp *qp, struct ledger *ledger, int place)
{
	uint32_t holder = atomic_load(&ledger->holder);
	struct home *home = home_make(qp);

	if (!home)
		return false;
	home->ledger = qp->ledger = ledger;
	home->place = place;
	if (!holder || holder - 1 >= QPN_SLOTS || holder - 1 == qp->adapter->slot) {
		atomic_store(&ledger->holder, 0);
		return true;
	}
	home->at = line_to(qp, holder - 1);
	return true;
}

/* ---- the mail thread's ---- */

/* The other process's end and the ledger's descriptor into its mail. */
static int send_request(struct engine *engine, const struct line *line, int fd, int ledger)
{
	const struct qp *qp = line->qp;
	struct xrcd_file file = qp->domain->file;
	struct meeting meeting;
	struct iovec iov[2] = {{&meeting, sizeof(meeting)}, {&file, sizeof(file)}};
	struct mail_address to;

	meeting_head(&meeting, MEETING_BRANCH);
	meeting.gid = qp->av.sgid;
	meeting.scope = gid_scope(&qp->av.sgid, station_of(qp->adapter)->info.ifindex);
	meeting.question = qp->number;
	meeting.slot = engine->slot.number;
	mail_address_of_slot(line->slot, &to);
	return mail_send(engine->slot.fd, &to, iov, 2, (int[]){fd, ledger}, 2);
}

/* -EAGAIN: the mailbox is full; the peer's next try is ours. Who has not the domain is not even
 * asked: it may be anybody, and not run. */
static int connect_line(struct engine *engine, struct line *line)
{
	struct ledger *ledger;
	int ends[2], error;

	if (!domain_is_of(line->qp->adapter, line->slot, &line->qp->domain->file))
		return -ENOENT;
	error = obtain_ledger(line->qp);
	if (error)
		return error;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return -errno;
	ledger = ledger_take(ledger_fd(line->qp), &line->ledger_id);
	error = ledger ? line_attach(line, ends[0], ledger) : -ENOMEM;
	if (error) {
		close(ends[0]);
		if (ledger)
			munmap(ledger, sizeof(*ledger));
	} else {
		error = send_request(engine, line, ends[1], ledger_fd(line->qp));
	}
	close(ends[1]);
	return error;
}

/* With another one: what the lane looks at now may name this one. */
static void start_again(struct line *line, int error)
{
	struct line *next = line_make(line->lane, line->qp, line->slot);
	struct qp *qp = line->qp;

	if (next) {
		next->state = error == -EAGAIN ? LINE_NEW : LINE_REFUSED;
		cds_list_add_tail(&next->node, &qp->home->lines);
	}
	if (qp->home->at == line && error == -EAGAIN && next)
		qp->home->at = next;
	else if (qp->home->at == line)
		come_back_left(qp);
	line_close(line);
}

void home_connect(struct engine *engine, const struct meeting *meeting)
{
	struct lane *lane = engine->lanes[steer_lane(meeting->question, engine->lane_count)];
	struct adapter *adapter;
	struct line *line = NULL;
	struct qp *qp = NULL;

	pthread_mutex_lock(&engine->stations_lock);
	lane_lock(lane);
	adapter = engine_find_adapter(engine, &meeting->gid, meeting->scope);
	if (adapter)
		qp = adapter_find_qp(adapter, meeting->question);
	if (qp && qp->home)
		line = find(qp->home, meeting->slot);
	if (line && line->state == LINE_ASKED && line->source.fd < 0) {
		int error = connect_line(engine, line);

		if (error)
			start_again(line, error);
		if (error && error != -EAGAIN)
			go_on(qp);
	}
	lane_unlock(lane);
	pthread_mutex_unlock(&engine->stations_lock);
}
