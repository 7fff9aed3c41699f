#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# pair.sh NAME [ARGS...]: our ibv_NAME_pingpong and the system's, in all four ways of serving and calling, with these
# arguments; over loopback. Each side must end well, both must tell the same addresses, and what ours prints must look as
# what the system's prints, number for number.
set -euo pipefail
. "$(dirname "$0")/../lib/common.sh"
name=ibv_$1_pingpong
shift
ours=$BUILD/bin/$name theirs=/usr/bin/$name
work=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null; rm -rf "$work"' EXIT
read -r device gid < <(find_gid "" 127.0.0.1)

# started WHICH: how that one is started; ours finds the library by itself, and a GID as well
started() {
	[ "$1" = ours ] && echo "$ours" || echo "$WRAP $theirs -g $gid"
}
fail() {
	echo "FAILED: $*" >&2
	tail -n +1 "$work"/*.* >&2
	exit 1
}
# Figures may differ. A message that comes and goes within the system's program's microsecond makes an infinite rate.
form() { sed -E 's/[0-9]+\.[0-9]+/N/g; s/= inf /= N /; s/(QPN|PSN|RECV|SEND|SRQN) (0x)?[0-9a-f]{6}/\1 N/g; s/cycles = [0-9]+/cycles = N/' "$1"; }
# The addresses that one side calls its own, the other calls remote.
addresses() { sed -nE "s/^ +$2( address)?: +//p" "$1" | sed 's/: GID/, GID/'; }

for pair in ours:ours ours:theirs theirs:ours theirs:theirs; do
	which=${pair%:*}
	port=$(free_port)
	# shellcheck disable=SC2046
	timeout -k 2 40 $(started "$which") -d "$device" -p "$port" "$@" >"$work/server.$which" 2>&1 &
	server=$!
	wait_listening "$server" "$port" || fail "the server ($which) does not listen"
	status=0
	# shellcheck disable=SC2046
	timeout -k 2 40 $(started "${pair#*:}") -d "$device" -p "$port" "$@" 127.0.0.1 >"$work/client.${pair#*:}" 2>&1 || status=$?
	[ "$status" = 0 ] || fail "$pair: the client ended with $status"
	wait "$server" || fail "$pair: the server ended with $?"
	server=
	[ "$(addresses "$work/server.$which" local)" = "$(addresses "$work/client.${pair#*:}" remote)" ] &&
		[ "$(addresses "$work/server.$which" remote)" = "$(addresses "$work/client.${pair#*:}" local)" ] ||
		fail "$pair: the two sides tell different addresses"
	grep -qE ' iters in |^success$' "$work/server.$which" || fail "$pair: no result"
	! grep -q 'invalid data' "$work"/*.* || fail "$pair: the data is not what was sent"
done
for side in server client; do
	[ "$(form "$work/$side.ours")" = "$(form "$work/$side.theirs")" ] || fail "the $side prints in another form"
done
