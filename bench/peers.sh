# SPDX-License-Identifier: BSD-2-Clause
# Sourced by run: other ways between two processes of this host, in the same rounds as ours. UCX over shared memory (posix, cma), which is the one to
# beat; libfabric's shm; TCP. Each function prints one number, or nothing when the peer is missing or failed.

# ucx TEST SIZE COUNT: the line of figures of ucx_perftest
ucx() {
	local port
	port=$(free_port)
	UCX_TLS=posix,cma,self UCX_LOG_LEVEL=error timeout 20 ucx_perftest -p "$port" >/dev/null 2>&1 &
	peer=$!
	wait_listening "$peer" "$port" 30 &&
		UCX_TLS=posix,cma,self UCX_LOG_LEVEL=error timeout 20 ucx_perftest 127.0.0.1 -p "$port" -t "$1" -s "$2" -n "$3" -f 2>/dev/null | tail -n 1
	wait "$peer" 2>/dev/null
	peer=
}
ucx_ns() { ucx "$@" | awk 'NF >= 8 { printf "%.0f", $2 * 1000 }'; }        # half of a round trip, median
ucx_bytes() { ucx "$@" | awk 'NF >= 8 { printf "%.0f", $6 * 1048576 }'; } # a second
ucx_rate() { ucx "$@" | awk 'NF >= 8 { print $8 }'; }                     # messages a second

fabric_ns() { # libfabric over shared memory, one way
	local port
	port=$(free_port)
	timeout 20 fi_pingpong -p shm -e rdm -B "$port" -I 20000 -S "$1" >/dev/null 2>&1 &
	peer=$!
	wait_listening "$peer" "$port" 30 &&
		timeout 20 fi_pingpong -p shm -e rdm -P "$port" -I 20000 -S "$1" 127.0.0.1 2>/dev/null | awk '$1 == "'"$1"'" { printf "%.0f", $7 * 1000 }'
	kill "$peer" 2>/dev/null
	wait "$peer" 2>/dev/null
	peer=
}

tcp_ns() { # qperf's tcp_lat: both sides sleep
	local port
	port=$(free_port)
	timeout 20 qperf -lp "$port" >/dev/null 2>&1 &
	peer=$!
	wait_listening "$peer" "$port" 30 && timeout 20 qperf -lp "$port" -t 1 -uu 127.0.0.1 tcp_lat | awk '/latency/ { print $3 }'
	kill "$peer" 2>/dev/null
	wait "$peer" 2>/dev/null
	peer=
}

peers_round() {
	record ucx-am-lat/8 "$(ucx_ns ucp_am_lat 8 50000)"
	record ucx-am-rate/8 "$(ucx_rate ucp_am_bw 8 500000)"
	record ucx-am-bw/1048576 "$(ucx_bytes ucp_am_bw 1048576 1000)"
	record ucx-put-bw/1048576 "$(ucx_bytes ucp_put_bw 1048576 1000)"
	record shm-lat/64 "$(fabric_ns 64)"
	record tcp-lat "$(tcp_ns)"
	record send-rate/8 "$(perftest ib_send_bw 8 200000 | awk 'NF { printf "%.0f", $5 * 1e6 }')"
	record send-event-lat "$(SHOW=1 LIMIT=20 "$root/tests/lib/pair" ib_send_lat -e -s 8 -n 5000 2>/dev/null | awk '$1 == 8 && NF >= 5 { printf "%.0f", $5 * 1000 }')"
}

# compare WHAT OURS PEER-NAME THEIRS UNIT [less]: a line, and who is ahead; `less` is better for times
compare() {
	awk -v what="$1" -v a="$2" -v name="$3" -v b="$4" -v unit="$5" -v scale="$6" 'BEGIN {
		if (a <= 0 || b <= 0) { printf "%-34s %12s   %-26s %12s %8s\n", what, "-", name, "-", "-"; exit }
		printf "%-34s %9.2f %s   %-26s %9.2f %s %6.2f\n", what, a / scale, unit, name, b / scale, unit, unit == "us" ? b / a : a / b }'
}

peers_table() {
	printf '\n%-34s %12s   %-26s %12s %8s\n' 'between two processes of this host' 'Verbatim' 'peer' '' 'ahead'
	compare 'SEND 8 B, one way, both poll' "$(median send-lat/8)" 'UCX active message' "$(median ucx-am-lat/8)" us 1e3
	compare '' "$(median send-lat/8)" 'libfabric shm, 64 B' "$(median shm-lat/64)" us 1e3
	compare 'SEND 8 B, one way, both sleep' "$(median send-event-lat)" 'TCP (qperf)' "$(median tcp-lat)" us 1e3
	compare 'SEND 8 B, messages a second' "$(median send-rate/8)" 'UCX active message' "$(median ucx-am-rate/8)" 'M ' 1e6
	compare 'SEND 1 MiB' "$(median send-bw/1048576)" 'UCX active message' "$(median ucx-am-bw/1048576)" GB 1e9
	compare 'WRITE 1 MiB, target passive' "$(median write-bw/1048576)" 'UCX put' "$(median ucx-put-bw/1048576)" GB 1e9
	compare 'READ 1 MiB, target passive' "$(median read-bw/1048576)" 'UCX put' "$(median ucx-put-bw/1048576)" GB 1e9
}
