#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# devices.sh BUILD: our ibv_devices and ibv_devinfo print what the system's programs print over the same library, character
# by character; the view of /sys says what they say; and ibv_asyncwatch tells an event that happens.
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

# The view of /sys says what the verbs say.
"$verbatim" run ibv_devinfo -v >"$work/verbs"
cat >"$work/compare.py" <<'EOF'
import ipaddress, re, sys
sysfs, seen, checked = "/sys/class/infiniband/", None, 0
def read(path):
    with open(sysfs + path) as file:
        return file.read().rstrip("\n")
for line in open(sys.argv[1]):
    key, _, value = line.strip().partition(":")
    value = value.strip()
    if key == "hca_id":
        device = value
    same = {
        "fw_ver": lambda: read(f"{device}/fw_ver") == value,
        "node_guid": lambda: read(f"{device}/node_guid") == value,
        "sys_image_guid": lambda: read(f"{device}/sys_image_guid") == value,
        "board_id": lambda: read(f"{device}/board_id") == value,
        "state": lambda: read(f"{device}/ports/1/state") == re.sub(r"PORT_(\w+) \((\d)\)", r"\2: \1", value),
        "link_layer": lambda: read(f"{device}/ports/1/link_layer") == value,
        "phys_state": lambda: read(f"{device}/ports/1/phys_state")[0] == value[-2],
        "port_lid": lambda: int(read(f"{device}/ports/1/lid"), 16) == int(value),
    }
    if key in same:
        assert same[key](), (device, line)
        checked += 1
    gid = re.match(r"GID\[ *(\d+)\]:\s*(\S+), RoCE v2", line.strip())
    if gid:
        assert ipaddress.ip_address(read(f"{device}/ports/1/gids/{gid[1]}")) == ipaddress.ip_address(gid[2]), line
        assert read(f"{device}/ports/1/gid_attrs/types/{gid[1]}") == "RoCE v2"
        assert read(f"{device}/ports/1/gid_attrs/ndevs/{gid[1]}") == read(f"{device}/parent")
        checked += 1
assert checked > 8, checked
EOF
"$verbatim" run python3 "$work/compare.py" "$work/verbs" || fail "the view of /sys says something else than the verbs"

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
