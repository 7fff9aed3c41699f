#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# iser.sh BUILD: a disk over iSER, unmodified: tgtd serves it on all addresses of both families, libiscsi's programs log in
# by IPv4 and by IPv6, read it under load, and run that library's own tests of it.
set -uo pipefail
own="$(dirname "$0")"
. "$own/../lib/common.sh"
own_network "$0" "$@"
. "$own/work.sh"
. "$own/ethernet.sh"
ip addr add fd99::1/64 dev eth0 nodad

name=iqn.2026-01.org.example:disk
export TGT_IPC_SOCKET=$work/control
file=$(mktemp)
trap '[ -z "$server" ] || { kill -KILL "$server"; wait "$server"; } 2>/dev/null; rm -rf "$work" "$file"' EXIT
truncate -s 32M "$file"
$WRAP tgtd -f --iser pool_sz_mb=16 >"$work/tgtd" 2>&1 &
server=$!
wait_listening "$server" 3260 || fail "tgtd does not listen"
run() { "$@" >>"$work/out" 2>&1 || fail "$*"; }
run tgtadm --lld iser --mode target --op new --tid 1 -T "$name"
run tgtadm --lld iser --mode logicalunit --op new --tid 1 --lun 1 -b "$file"
run tgtadm --lld iser --mode target --op bind --tid 1 -I ALL
run tgtadm --lld iser --mode target --op bind --tid 1 -Q iqn.initiator

for address in 10.99.1.1 '[fd99::1]'; do
	disk=iser://$address:3260/$name/1
	timeout -k 2 30 $WRAP iscsi-readcapacity16 -i iqn.initiator "$disk" >"$work/capacity" 2>&1 &&
		grep -q '^Total size:33554432$' "$work/capacity" || fail "capacity, $address"
	timeout -k 2 30 $WRAP iscsi-perf -i iqn.initiator -t 2 -m 8 -b 64 "$disk" >"$work/perf" 2>&1 &&
		grep -q 'iops average [1-9]' "$work/perf" || fail "reads, $address"
done
# (not those that post more at once than libiscsi has descriptors for: it crashes then)
for what in Read10.Simple Write10.Simple Write16.Simple; do
	timeout -k 2 60 $WRAP iscsi-test-cu -i iqn.initiator --dataloss --test="SCSI.$what" "$disk" >"$work/tests" 2>&1 &&
		grep -q '^  Test: Simple ...passed$' "$work/tests" || fail "$what"
done
[ -n "$(tr -d '\0' <"$file" | head -c 1)" ] || fail "nothing was written"
