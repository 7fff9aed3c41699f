#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# devices.sh BUILD: our ibv_devices and ibv_devinfo print what the system's programs print over the same library, character
# by character; and ibv_asyncwatch tells an event that happens.
set -uo pipefail
build=$(realpath "$1") verbatim=$build/bin/verbatim
work=$(mktemp -d)
watcher=
trap '[ -z "$watcher" ] || kill "$watcher" 2>/dev/null; rm -rf "$work"' EXIT
fail() { echo "FAILED: $*" >&2; exit 1; }

both() { # both PROGRAM ARGS...: the same output, on stdout and stderr, but for the program's own name
	local program=$1
	shift
	"$verbatim" run "/usr/bin/$program" "$@" >"$work/theirs" 2>&1 && theirs=well || theirs=badly
	"$verbatim" run "$build/bin/$program" "$@" >"$work/ours" 2>&1 && ours=well || ours=badly
	diff <(sed "s|/usr/bin/||" "$work/theirs") <(sed "s|$build/bin/||" "$work/ours") || fail "$program $* prints something else"
	[ "$ours" = "$theirs" ] || fail "$program $* ends $ours, the system's ends $theirs"
}
both ibv_devices
for arguments in "" -v -l "-d nonesuch" "-i 2" "-i 300" -x; do
	# shellcheck disable=SC2086
	both ibv_devinfo $arguments
done
device=$("$verbatim" run ibv_devinfo -l | sed -n '2s/[[:space:]]//gp')
both ibv_devinfo -d "$device" -i 1 -v
[ -n "$device" ] || fail "no device to look at"

# Without `verbatim run` ours finds its library by itself.
"$build/bin/ibv_devinfo" -l | cmp - <("$verbatim" run ibv_devinfo -l) || fail "ibv_devinfo without verbatim run"

unshare=(unshare -n)
[ "$(id -u)" = 0 ] || unshare=(unshare -rn)
if ! "${unshare[@]}" true; then
	echo "SKIPPED in part: this user may not make network namespaces, so no event can be made"
	exit 77
fi
# shellcheck disable=SC2016
"${unshare[@]}" sh -c 'ip link set lo up
	"$1/bin/ibv_asyncwatch" -d rxe0 >"$2" & watcher=$!
	trap "kill $watcher" EXIT
	i=0; until grep -q "async event FD" "$2" || [ $i -gt 100 ]; do i=$((i + 1)); sleep 0.05; done
	ip address add 127.0.0.77/8 dev lo
	i=0; until grep -q event_type "$2" || [ $i -gt 100 ]; do i=$((i + 1)); sleep 0.05; done' - "$build" "$work/watch"
grep -q '^rxe0: async event FD [0-9]*$' "$work/watch" || fail "ibv_asyncwatch says: $(cat "$work/watch")"
grep -q '^  event_type IBV_EVENT_GID_CHANGE (18), port 1$' "$work/watch" || fail "ibv_asyncwatch says: $(cat "$work/watch")"
echo "the same as the system's"
