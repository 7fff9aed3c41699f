#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# ucx.sh BUILD: UCX, unmodified, looks around the verbs more than others do: it wants a character device in
# /dev/infiniband, types and interfaces of GIDs in /sys, and the packet type in a datagram's completion. It must find the
# devices, and move messages over RC and UD.
set -uo pipefail
. "$(dirname "$0")/../lib/common.sh"
. "$(dirname "$0")/work.sh"
read -r device _ < <(find_gid "" 127.0.0.1)
export UCX_NET_DEVICES=$device:1

timeout 30 $WRAP ucx_info -d >"$work/info" 2>&1 || fail "ucx_info"
for transport in rc_verbs ud_verbs; do
	grep -A 1 "Transport: $transport" "$work/info" | grep -q "Device: $device:1" || fail "UCX does not see $transport on $device"
done

for transport in rc_v ud_v; do
	for test in "tag_lat -s 8 -n 200" "tag_bw -s 100000 -n 200" "ucp_am_lat -s 3000 -n 200"; do
		port=$(free_port)
		UCX_TLS=$transport,self timeout -k 2 40 $WRAP ucx_perftest -p "$port" >"$work/server" 2>&1 &
		server=$!
		wait_listening "$server" "$port" || fail "$transport: the server does not listen"
		# shellcheck disable=SC2086
		UCX_TLS=$transport,self timeout -k 2 40 $WRAP ucx_perftest -p "$port" 127.0.0.1 -t $test >"$work/client" 2>&1 ||
			fail "$transport $test: the client ended with $?"
		wait "$server" || fail "$transport $test: the server ended with $?"
		server=
		grep -q '^Final:  *200 ' "$work/client" || fail "$transport $test: no result"
	done
done
