/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The memory of the processes at the other ends of a lane's channels: reaching it, helping them
 * with long copies, and who is at ours.
 */
#include <unistd.h>

#include "link/samehost_link.h"

bool samehost_has_reach(const struct samehost *samehost, uint32_t qpn)
{
	const struct channel *channel = channel_to(samehost, qpn);

	return channel && channel->reach &&
	       atomic_load_explicit(&channel->their_side->is_watching, memory_order_acquire);
}

bool samehost_is_common(const struct samehost *samehost, uint32_t qpn, uint32_t rkey)
{
	const struct channel *channel = channel_to(samehost, qpn);

	return channel && channel->reach && reach_is_common(channel->reach, rkey);
}

/* For help with what is copied next. */
static void call(struct channel *channel)
{
	uint64_t one = 1;

	channel->assist.is_calling = false;
	if (channel->bell >= 0 && ring_wakes(&channel->out) &&
	    write(channel->bell, &one, sizeof(one)) < 0)
		return; /* EAGAIN: it rings as it is */
}

enum reach_result samehost_reach(struct samehost *samehost,
				 const struct directory_question *question,
				 const struct reach_op *op)
{
	struct channel *channel = channel_to(samehost, question->dest_qpn);
	enum reach_result result;

	if (!samehost_has_reach(samehost, question->dest_qpn))
		return REACH_REFUSED;
	if (op->is_fetch)
		samehost->copied += op->bytes;
	result = reach_do(channel->reach, &channel->side->hazard, &channel->assist, question, op);
	if (channel->assist.is_calling)
		call(channel);
	return result;
}

void samehost_forget_reach(struct samehost *samehost, uint32_t qpn)
{
	for (uint32_t i = 0; i < samehost->channel_count; i++)
		assist_forget(&samehost->channels[i]->assist, qpn);
}

enum reach_result samehost_reach_again(struct samehost *samehost, uint32_t qpn,
				       const struct samehost_memo *memo, const struct reach_op *op)
{
	const struct channel *channel = channel_to(samehost, qpn);

	if (!channel || channel->number != memo->channel)
		return REACH_REFUSED;
	return reach_again(channel->reach, &channel->side->hazard, &memo->reach, op);
}

void samehost_remember(const struct samehost *samehost, const struct directory_question *question,
		       struct samehost_memo *memo)
{
	const struct channel *channel = channel_to(samehost, question->dest_qpn);

	memo->channel = channel->number;
	reach_remember(channel->reach, question, &memo->reach);
}

bool samehost_assist(struct samehost *samehost, const struct directory *directory)
{
	bool did = false;

	for (uint32_t i = 0; i < samehost->channel_count; i++) {
		struct channel *channel = samehost->channels[i];

		if (assist_is_wanted(&channel->their_side->board) && channel->reach && directory &&
		    assist_help(&channel->their_side->board, channel->reach, &channel->side->hazard,
				directory)) {
			samehost->helped = channel;
			did = true;
		}
	}
	samehost->assists += did;
	return did;
}

bool samehost_is_asked_again(const struct samehost *samehost)
{
	return samehost->helped && assist_is_wanted(&samehost->helped->their_side->board);
}

static unsigned int calls(const struct channel *channel)
{
	return atomic_load_explicit(&channel->their_side->board.calls, memory_order_acquire);
}

static bool is_called(const struct channel *channel)
{
	return calls(channel) != channel->answered;
}

bool samehost_is_called(const struct samehost *samehost)
{
	for (uint32_t i = 0; i < samehost->channel_count; i++)
		if (is_called(samehost->channels[i]))
			return true;
	return false;
}

int samehost_callers_core(const struct samehost *samehost)
{
	for (uint32_t i = 0; i < samehost->channel_count; i++)
		if (is_called(samehost->channels[i]))
			return atomic_load_explicit(
			    &samehost->channels[i]->their_side->board.caller, memory_order_relaxed);
	return -1;
}

static bool is_reached(const struct channel *channel, unsigned int *hazard)
{
	*hazard = atomic_load_explicit(&channel->their_side->hazard, memory_order_acquire);
	return *hazard % 2;
}

bool samehost_is_caller_at_it(const struct samehost *samehost)
{
	unsigned int hazard;

	for (uint32_t i = 0; i < samehost->channel_count; i++)
		if (is_called(samehost->channels[i]) && is_reached(samehost->channels[i], &hazard))
			return true;
	return false;
}

void samehost_answer_calls(struct samehost *samehost, bool is_busy)
{
	for (uint32_t i = 0; i < samehost->channel_count; i++) {
		struct channel *channel = samehost->channels[i];

		if (is_busy && is_called(channel))
			atomic_fetch_add_explicit(&channel->their_side->board.busy, 1,
						  memory_order_relaxed);
		channel->answered = calls(channel);
	}
}

void samehost_attend(struct samehost *samehost, bool does)
{
	for (uint32_t i = 0; i < samehost->channel_count; i++)
		atomic_store_explicit(&samehost->channels[i]->their_side->board.is_attended, does,
				      memory_order_relaxed);
}

uint64_t samehost_assists(const struct samehost *samehost)
{
	return samehost->assists;
}

bool samehost_is_reached(const struct samehost *samehost, uint64_t *number, unsigned int *hazard)
{
	const struct channel *next = NULL;
	unsigned int seen;

	for (uint32_t i = 0; i < samehost->channel_count; i++) {
		const struct channel *channel = samehost->channels[i];

		if (channel->number > *number && (!next || channel->number < next->number) &&
		    is_reached(channel, &seen)) {
			next = channel;
			*hazard = seen;
		}
	}
	if (next)
		*number = next->number;
	return next;
}

bool samehost_is_still_reached(const struct samehost *samehost, uint64_t number,
			       unsigned int hazard)
{
	for (uint32_t i = 0; i < samehost->channel_count; i++) {
		const struct channel *channel = samehost->channels[i];
		unsigned int now;

		if (channel->number == number)
			return is_reached(channel, &now) && now == hazard &&
			       !reach_has_ended(channel->lifeline);
	}
	return false;
}
