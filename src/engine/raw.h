/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Frames of raw packet QPs, to and from the interface itself: packet sockets, which need
 * CAP_NET_RAW. They are open while the device has such QPs.
 */
#ifndef ENGINE_RAW_H
#define ENGINE_RAW_H

#include <stddef.h>
#include <stdint.h>

struct adapter;
struct lane;
struct qp;
struct source;
struct station;

/* With the first raw packet QP, and the last. 0 or a positive errno (noted). */
int raw_open(struct station *station);
void raw_close(struct station *station);

/* The lane's, for a frame that is to be sent. */
uint8_t *raw_frame_room(struct qp *qp);

/* 0, -EAGAIN when the interface is busy, or another -errno. With a lane's lock held. */
int raw_send_frame(struct adapter *adapter, const void *frame, size_t length);

/* Takes in what there is, a batch at most: the number of frames. The lane's lock is held. */
unsigned int raw_receive(struct lane *lane, struct source *source, uint64_t now);

#endif
