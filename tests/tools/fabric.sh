#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# fabric.sh BUILD: libfabric's verbs provider, unmodified. It asks which devices there are by an id that it binds to
# "localhost", and takes connections on an interface's address; over those go messages (RC), on which ofi_rxm builds datagrams
# that arrive. Without connections: UD. (Not ofi_rxd on it: whose peer is gone before the last ACK came waits for ever.)
set -uo pipefail
own="$(dirname "$0")"
. "$own/../lib/common.sh"
own_network "$0" "$@"
. "$own/work.sh"
. "$own/ethernet.sh"

timeout 30 $WRAP fi_info -p verbs >"$work/info" 2>&1 || fail "fi_info"
for type in FI_EP_MSG FI_EP_DGRAM; do
	grep -q "type: $type" "$work/info" || fail "libfabric sees no verbs endpoints of $type"
done

pingpong() { timeout -k 2 40 $WRAP fi_pingpong -p "$1" -e "$2" -I 50 "${@:3}"; }

while read -r provider type; do
	port=$(free_port)
	pingpong "$provider" "$type" -B "$port" >"$work/server" 2>&1 &
	server=$!
	wait_listening "$server" "$port" || fail "$provider $type: the server does not listen"
	pingpong "$provider" "$type" -P "$port" 10.99.1.1 >"$work/client" 2>&1 || fail "$provider $type: the client ended with $?"
	wait "$server" || fail "$provider $type: the server ended with $?"
	server=
	[ "$(grep -cE ' 50 +=50 ' "$work/client")" -ge 3 ] || fail "$provider $type: no result"
done <<'END'
verbs msg
verbs;ofi_rxm rdm
verbs dgram
END
