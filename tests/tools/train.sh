#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# train.sh PROFILE: the library was optimized by how messages went through it (scripts/train): by shared memory and by UDP, short
# and long, of every service.
set -eu
for part in core.dir/transport/plain core.dir/transport/burst core.dir/transport/shorts core.dir/transport/express \
	core.dir/transport/ud core.dir/transport/uc core.dir/transport/xrc core.dir/transport/recovery core.dir/device/srq \
	adapter.dir/link/udp_send adapter.dir/link/ring adapter.dir/engine/poller ibverbs.dir/verbs/cq; do
	counts=$1/src#CMakeFiles#$(echo $part | tr / '#').c.gcda
	[ -s "$counts" ] || { echo "not trained: $counts is missing" >&2; exit 1; }
done

# Who ends without writing what it counted trains nothing.
training=$1/../training/lib/bench
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for program in "between send 8 1000 16" "inside send 8 1000" "scale qps 40 8 0"; do
	GCOV_PREFIX=$work "$training/"$program >"$work/out" 2>&1 || { echo "$program: $(cat "$work/out")" >&2; exit 1; }
	gcov-dump -l "$(find "$work" -name '*#transport#express.c.gcda')" | grep -q 'COUNTERS arcs [0-9]* counts$' ||
		{ echo "$program counts nothing of what it sends" >&2; exit 1; }
	rm -rf "$work"/*
done
