#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# migrate.sh BUILD: QEMU, unmodified, moves a running machine to another QEMU by RDMA, with its memory registered piece by piece
# and all at once. The memory that arrives is that which was left.
set -uo pipefail
own="$(dirname "$0")"
. "$own/../lib/common.sh"
own_network "$0" "$@"
. "$own/work.sh"
. "$own/ethernet.sh"

ram=96 source= target=
dumps=$(mktemp -d)
trap 'kill $source $target 2>/dev/null; rm -rf "$work" "$dumps"' EXIT
head -c 32M /dev/urandom >"$dumps/noise"
machine() {
	timeout -k 2 80 $WRAP qemu-system-x86_64 -nodefaults -display none -machine pc,accel=tcg -m $ram "$@"
}

for pin in false true; do
	rm -f "$work"/*.qmp "$dumps"/*.ram
	machine -S -qmp "unix:$work/target.qmp,server=on,wait=off" -incoming rdma:10.99.1.1:4444 >"$work/target" 2>&1 &
	target=$!
	machine -device "loader,file=$dumps/noise,addr=0x2000000,force-raw=on" -qmp "unix:$work/source.qmp,server=on,wait=off" >"$work/source" 2>&1 &
	source=$!
	python3 "$own/migrate.py" "$work" "$dumps" $ram $pin >"$work/out" 2>&1 || fail "migration, all registered at once: $pin"
	wait $source && wait $target || fail "a machine ended with $?"
	cmp "$dumps/source.ram" "$dumps/target.ram" >>"$work/out" 2>&1 || fail "the memory differs"
	cmp -n $((32 << 20)) -i $((32 << 20)):0 "$dumps/target.ram" "$dumps/noise" >>"$work/out" 2>&1 || fail "the memory is not what it was"
done
