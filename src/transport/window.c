/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The congestion window, as window.h describes it.
 */
#include "transport/window.h"
#include "wire/psn.h"

static uint32_t at_least(uint32_t value, uint32_t least)
{
	return value > least ? value : least;
}

void window_init(struct window *window, uint32_t mtu)
{
	uint32_t max = WINDOW_MAX_BYTES / mtu;

	*window = (struct window){
	    .packets = at_least(WINDOW_START_BYTES / mtu, 1),
	    .max = max < WINDOW_MAX_PACKETS ? max : WINDOW_MAX_PACKETS,
	    .smalls = at_least(mtu / WINDOW_SMALL_BYTES, 1),
	};
	window->threshold = window->max;
}

void window_acknowledged(struct window *window, uint32_t packets, uint32_t una)
{
	if (window->is_recovering && psn_compare(una, window->recover) >= 0)
		window->is_recovering = false;
	if (window->packets < window->threshold) {
		window->packets += packets;
	} else {
		window->grown += packets;
		if (window->grown >= window->packets) {
			window->grown = 0;
			window->packets++;
		}
	}
	if (window->packets > window->max)
		window->packets = window->max;
}

static void window_shrink(struct window *window, uint32_t packets, uint32_t end)
{
	window->threshold = at_least(window->packets / 2, 2);
	window->packets = packets;
	window->grown = 0;
	window->recover = end;
	window->is_recovering = true;
}

void window_lost(struct window *window, uint32_t end)
{
	if (!window->is_recovering)
		window_shrink(window, at_least(window->packets / 2, 1), end);
}

void window_timed_out(struct window *window, uint32_t end)
{
	window_shrink(window, 1, end);
}
