/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A branch: what an XRC_RECV QP of another process is here, where SRQs of its domain are. While it
 * has the QP's responder it is as good as the QP: it takes packets in, places data, completes, and
 * sends answers to the peer by itself. Only that packets come by way of the QP's home.
 *
 * Who opens a line here is a process of our own user (mail says so), and it names the domain by its
 * file. What it sends is checked as if it came from the network.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "device/adapter.h"
#include "device/xrcd.h"
#include "engine/line.h"
#include "engine/progress.h"
#include "engine/state.h"
#include "engine/steer.h"
#include "link/samehost.h"
#include "transport/ledger.h"
#include "wire/headers.h"

enum { ORPHAN_NS = 2000000000 };

/* ---- opening ---- */

static struct xrc_domain *find_domain(struct adapter *adapter, const struct meeting *meeting,
				      size_t length)
{
	struct xrcd_file file;

	if (!adapter || length < sizeof(file))
		return NULL;
	memcpy(&file, meeting + 1, sizeof(file));
	return xrc_domain_find(adapter, &file);
}

bool branch_take_seat(struct lane *lane, struct qp *qp)
{
	struct seat *seat = seat_make(lane, qp);

	if (!seat)
		return false;
	if (lane_add_seat(lane, seat)) {
		seat_free(seat);
		return false;
	}
	qp->lane = (uint8_t)lane->index;
	qp->seat = seat;
	return true;
}

/* Under the lane's lock. NULL, and then nothing has been taken over. */
static struct line *make(struct lane *lane, struct adapter *adapter, struct xrc_domain *domain,
			 const struct meeting *meeting, int fd, struct ledger *ledger)
{
	struct qp *qp = transport_create_branch(adapter, domain, meeting->question, ledger);
	struct line *line = qp ? line_make(lane, qp, meeting->slot) : NULL;

	if (line && branch_take_seat(lane, qp)) {
		if (line_attach(line, fd, ledger) == 0) {
			line->is_branch = true;
			line->state = LINE_OPEN;
			qp->line = line;
			cds_list_add_tail(&line->node, &lane->branches);
			return line;
		}
		lane_remove_seat(lane, qp->seat);
		seat_free(qp->seat);
	}
	pool_give(&lane->engine->pool, line);
	if (qp) {
		qp->domain = NULL; /* still the caller's */
		transport_free_qp(qp);
	}
	return NULL;
}

/* The next home's: what was begun here goes on. */
static bool reattach(struct line *line, const struct meeting *meeting, int fd,
		     struct ledger *ledger)
{
	struct ledger *old = line->ledger;

	if (line_attach(line, fd, ledger))
		return false;
	munmap(old, sizeof(*old));
	line->qp->ledger = ledger;
	line->slot = meeting->slot;
	line->orphan_until = 0;
	line->is_recalled = line->has_failed = false;
	return true;
}

static bool open_line(struct engine *engine, struct adapter *adapter, struct xrc_domain *domain,
		      const struct meeting *meeting, const struct mail *mail)
{
	struct lane *lane = engine->lanes[steer_lane(meeting->question, engine->lane_count)];
	struct line *line = NULL;
	uint64_t id;
	struct ledger *ledger = ledger_take(mail->fds[1], &id);

	if (!ledger)
		return false;
	lane_lock(lane);
	line = branch_find(lane, adapter, meeting->question);
	if (line && line->ledger_id == id) {
		line = reattach(line, meeting, mail->fds[0], ledger) ? line : NULL;
		if (line)
			xrc_domain_put(adapter, domain); /* it has a reference */
	} else {
		if (line)
			branch_close(line, IBV_QPS_ERR);
		line = make(lane, adapter, domain, meeting, mail->fds[0], ledger);
	}
	if (line) {
		line->ledger_id = id;
		line_say(line, LINE_READY, line->has_responder);
		branch_ran(line->qp);
	}
	lane_unlock(lane);
	if (!line)
		munmap(ledger, sizeof(*ledger));
	return line;
}

void branch_open(struct engine *engine, const struct meeting *meeting, size_t length,
		 struct mail *mail)
{
	const struct line_message no = {.type = LINE_NO};
	struct xrc_domain *domain;
	struct adapter *adapter;
	bool is_open = false;

	if (mail->fd_count != 2 || meeting->slot >= QPN_SLOTS)
		return;
	pthread_mutex_lock(&engine->stations_lock);
	adapter = engine_find_adapter(engine, &meeting->gid, meeting->scope);
	domain = find_domain(adapter, meeting, length);
	if (domain)
		is_open = open_line(engine, adapter, domain, meeting, mail);
	if (is_open)
		mail->fds[0] = -1;
	else if (domain)
		xrc_domain_put(adapter, domain);
	pthread_mutex_unlock(&engine->stations_lock);
	if (!is_open)
		send(mail->fds[0], &no, sizeof(no), MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* ---- serving ---- */

static struct outbox *outbox_of(const struct line *line)
{
	return samehost_outbox(line->lane->samehost);
}

static void retime(const struct qp *qp)
{
	timer_set(&qp->seat->lane->timers, &qp->seat->timer, transport_deadline(qp));
}

static void take_packet(struct line *line, const struct line_message *message, size_t length,
			uint64_t now)
{
	struct packet packet = {
	    .bth = (const uint8_t *)(message + 1),
	    .length = length,
	    .sgid = message->packet.sgid,
	    .dgid = message->packet.dgid,
	    .flow_label = message->packet.flow_label,
	    .source_port = message->packet.source_port,
	    .traffic_class = message->packet.traffic_class,
	    .hop_limit = message->packet.hop_limit,
	    .lane = (uint8_t)line->lane->index,
	};

	if (length < BTH_BYTES || bth_dest_qp(packet.bth) != line->qp->number)
		return;
	transport_receive_for(line->qp, &packet, now, outbox_of(line));
	retime(line->qp);
}

bool branch_hears(struct line *line, const struct line_message *message, size_t length,
		  uint64_t now)
{
	struct qp *qp = line->qp;

	switch (message->type) {
	case LINE_SERVE:
	case LINE_TERMS:
		if (!transport_set_terms(qp, &message->terms)) {
			branch_close(line, IBV_QPS_ERR);
			return false;
		}
		if (message->type == LINE_SERVE && !line->has_responder) {
			ledger_read(qp, line->ledger, false);
			line->has_responder = true;
		}
		break;
	case LINE_PACKET:
		take_packet(line, message, length, now);
		break;
	case LINE_RECALL:
		line->is_recalled = line->has_responder;
		break;
	case LINE_END:
		branch_close(line, (enum ibv_qp_state)message->value);
		return false;
	default:
		break;
	}
	branch_ran(qp);
	return true;
}

void branch_ran(struct qp *qp)
{
	struct line *line = qp->line;

	if (atomic_load_explicit(&qp->state, memory_order_relaxed) == IBV_QPS_ERR) {
		if (!line->has_failed)
			line->has_failed = line_say(line, LINE_FAILED, 0) == 0;
		return;
	}
	if (!line->is_recalled || transport_owes(qp))
		return;
	ledger_write(qp, line->ledger);
	line->is_recalled = line_say(line, LINE_RETURN, 0) != 0;
	line->has_responder = line->is_recalled;
}

void branch_event(struct qp *qp, enum ibv_event_type type)
{
	line_say(qp->line, LINE_EVENT, type);
}

/* ---- the end ---- */

/* ERR: a receive that was begun is flushed. Otherwise what it owes the peer goes out. */
void branch_close(struct line *line, enum ibv_qp_state state)
{
	struct lane *lane = line->lane;
	struct qp *qp = line->qp;
	struct seat *seat = qp->seat;

	if (state == IBV_QPS_ERR) {
		transport_fail(qp, lane_now());
	} else {
		transport_run(qp, lane_now(), outbox_of(line));
		transport_part(qp, outbox_of(line));
	}
	lane_remove_seat(lane, seat);
	seat_free(seat);
	qp->seat = NULL;
	line_close(line);
	transport_free_qp(qp);
}

static void expect_home(struct line *line)
{
	line->orphan_until = lane_now() + ORPHAN_NS;
	atomic_fetch_add(&line->lane->engine->orphans, 1);
	openings_wake(line->lane->engine);
}

/* The home is gone. Where others have the QP open one of them is the next; what has begun here
 * waits for it. */
void branch_lost(struct line *line)
{
	if (!atomic_load(&line->ledger->is_opened)) {
		branch_close(line, IBV_QPS_ERR);
		return;
	}
	line_detach(line);
	expect_home(line);
}

struct line *branch_find(struct lane *lane, const struct adapter *adapter, uint32_t number)
{
	struct line *line, *found = NULL;

	cds_list_for_each_entry (line, &lane->branches, node)
		if (line->qp->number == number && line->qp->adapter == adapter)
			found = line;
	if (!found)
		return NULL;
	while (found->source.fd >= 0 && line_receive(found, lane_now()))
		if (found->state == LINE_CLOSED)
			return NULL;
	line_detach(found);
	if (!found->orphan_until)
		expect_home(found);
	return found;
}

struct qp *branch_promote(struct line *line)
{
	struct qp *qp = line->qp;

	qp->line = NULL;
	line_close(line);
	return qp;
}

static bool expire(struct lane *lane, uint64_t now)
{
	struct line *line, *next;
	bool are_left = false;

	lane_lock(lane);
	cds_list_for_each_entry_safe (line, next, &lane->branches, node) {
		if (line->orphan_until && line->orphan_until <= now)
			branch_close(line, IBV_QPS_ERR);
		else
			are_left |= line->orphan_until != 0;
	}
	lane_unlock(lane);
	return are_left;
}

bool branches_expire(struct engine *engine)
{
	bool are_left = false;

	if (!atomic_exchange(&engine->orphans, 0))
		return false;
	for (uint32_t i = 0; i < engine->lane_count; i++)
		are_left |= expire(engine->lanes[i], lane_now());
	if (are_left)
		atomic_fetch_add(&engine->orphans, 1);
	return are_left;
}

void branches_close(struct lane *lane, const struct adapter *adapter)
{
	struct line *line, *next;

	cds_list_for_each_entry_safe (line, next, &lane->branches, node)
		if (line->qp->adapter == adapter)
			branch_close(line, IBV_QPS_RESET);
	lines_bury(lane);
}
