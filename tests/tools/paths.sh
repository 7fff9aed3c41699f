#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# paths.sh TEST_PATHS FAKE: runs the test program under the shim, then asks that nothing was left behind, neither by a
# program that ended nor by one that was killed, once the next has come.
set -eu
test_paths=$1 shim=$2/libverbatim-paths.so
XDG_RUNTIME_DIR=$(mktemp -d)
export XDG_RUNTIME_DIR
trap 'rm -rf "$XDG_RUNTIME_DIR"' EXIT
fail() { echo "FAILED: $*" >&2; exit 1; }
seen() { LD_PRELOAD=$shim "$@"; }
left() { find "$XDG_RUNTIME_DIR" -mindepth 1 -maxdepth 1 -name 'verbatim-*' | wc -l; }

LD_PRELOAD=$shim "$test_paths" "$XDG_RUNTIME_DIR"
[ "$(left)" = 0 ] || fail "the test program left its tree: $(ls "$XDG_RUNTIME_DIR")"

# As people look.
[ "$(seen ls /sys/class/infiniband)" = "fake0
fake1" ] || fail "ls"
[ "$(seen sh -c 'cat /sys/class/infiniband/*/node_guid' | uniq -c | tr -s ' ')" = " 2 0123:4567:89ab:cdef" ] || fail "sh, glob and cat"
seen sh -c '[ -c /dev/infiniband/uverbs1 ] && [ -r /dev/infiniband/uverbs1 ] && [ ! -L /dev/infiniband/uverbs1 ]' || fail "a node is a node"
[ "$(seen sh -c 'cd /sys/class/infiniband/fake0/ports/1 && cat state')" = "4: ACTIVE" ] || fail "cd and relative"
[ "$(seen find /sys/class/infiniband/fake1/ -name types | wc -l)" = 1 ] || fail "find"
seen ls -lR /sys/class/infiniband/fake0/ /dev/infiniband >/dev/null || fail "ls -lR"
[ "$(seen ls -l /dev/infiniband/uverbs1 | cut -c1)" = c ] || fail "ls -l shows a device"
[ "$(seen python3 -c 'import os, glob, pathlib
assert sorted(os.listdir("/sys/class/infiniband")) == ["fake0", "fake1"]
assert [e.name for e in os.scandir("/sys/class/infiniband/fake0/ports")] == ["1"]
assert str(pathlib.Path("/sys/class/infiniband/fake1").resolve()) == "/sys/devices/virtual/infiniband/fake1"
print(open(glob.glob("/sys/class/infiniband_verbs/*/ibdev")[0]).read()[:4])')" = fake ] || fail "python"
[ "$(left)" = 0 ] || fail "something was left: $(ls "$XDG_RUNTIME_DIR")"

# Killed in the middle: its tree stays, and goes when the next program looks.
seen sh -c '[ -d /sys/class/infiniband/fake0 ] && kill -9 $$' || :
[ "$(left)" = 1 ] || fail "a killed program should have left its tree"
seen ls /sys/class/infiniband >/dev/null
[ "$(left)" = 0 ] || fail "the tree of a killed program was not swept"

# One that lives is not swept.
mkfifo "$XDG_RUNTIME_DIR/go"
LD_PRELOAD=$shim sh -c 'read -r first </sys/class/infiniband/fake0/node_type; echo ready; read -r go
	read -r second </sys/class/infiniband/fake0/node_type; echo "$first $second"' \
	<"$XDG_RUNTIME_DIR/go" >"$XDG_RUNTIME_DIR/out" &
living=$!
exec 3>"$XDG_RUNTIME_DIR/go"
while ! grep -q ready "$XDG_RUNTIME_DIR/out"; do sleep 0.05; done
[ "$(left)" = 1 ] || fail "a living program has a tree"
seen ls /sys/class/infiniband >/dev/null
[ "$(left)" = 1 ] || fail "the tree of a living program was swept"
echo >&3
wait $living
grep -qx '1: CA 1: CA' "$XDG_RUNTIME_DIR/out" || fail "a living program looks twice"

# As an ordinary user with no place of their own.
if [ "$(id -u)" = 0 ]; then
	env -u XDG_RUNTIME_DIR setpriv --reuid 65534 --regid 65534 --clear-groups env LD_PRELOAD="$shim" \
		ls /sys/class/infiniband 2>&1 | grep -qx fake0 || fail "as nobody (is the build tree readable?)"
fi
echo "the view is complete and leaves nothing behind"
