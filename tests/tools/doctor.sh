#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# doctor.sh BUILD: `verbatim doctor` is right about what works and what does not: each case is made in a network
# namespace of its own, the doctor must name it, and a program must fare as the doctor says.
set -eu
build=$(realpath "$1") verbatim=$build/bin/verbatim
work=$(mktemp -d)
chmod 755 "$work"
holder=
cleanup() {
	[ -z "$holder" ] || kill -KILL "$holder" 2>/dev/null || :
	rm -rf "$work"
}
trap cleanup EXIT
fail() {
	echo "FAILED: $*" >&2
	cat "$work/out" >&2 || :
	exit 1
}
# An ordinary user makes the namespace within one of users.
unshare="unshare -n"
[ "$(id -u)" = 0 ] || unshare="unshare -rn"
if ! $unshare true; then
	echo "SKIPPED: this user may not make network namespaces"
	exit 77
fi

# in_ns SETUP COMMAND...: runs the command in a new network namespace, after the setup.
in_ns() { $unshare sh -ec "$1"'; shift; exec "$@"' - "$@"; }
# doctor STATUS SETUP [COMMAND...]: the doctor there, as text and as JSON, must end with that status.
doctor() {
	local status=0 expected=$1
	shift
	in_ns "$@" "$verbatim" doctor >"$work/out" 2>&1 || status=$?
	[ "$status" = "$expected" ] || fail "the doctor ended with $status, not $expected, after: $1"
	status=0
	in_ns "$@" "$verbatim" doctor --json >"$work/json" 2>&1 || status=$?
	[ "$status" = "$expected" ] || fail "the doctor --json ended with $status, not $expected, after: $1"
	python3 -c 'import json, sys; json.load(open(sys.argv[1]))' "$work/json" || fail "no JSON: $(cat "$work/json")"
}
# json EXPRESSION: of the last one, as d.
json() { python3 -c 'import json, sys; d = json.load(open(sys.argv[1])); print(eval(sys.argv[2]))' "$work/json" "$1"; }
says() { grep -qF -- "$1" "$work/out" || fail "the doctor does not say: $1"; }
up='ip link set lo up'
nobody='setpriv --reuid 65534 --regid 65534 --clear-groups'
# A program that holds the port of an address, in the background of the namespace's shell, until it is killed.
hold='python3 -c "
import socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind((sys.argv[1], 4791)); print(0, flush=True); time.sleep(60)
"'

# Nothing to work with.
doctor 1 :
says "Devices: 0"
says "interface lo is down"
says "ip link set lo up"
says "CANNOT be used"
[ "$(json 'd["usable"], d["devices"]')" = "(False, [])" ] || fail "JSON of an empty namespace"
in_ns : "$verbatim" run ibv_devinfo >"$work/out" 2>&1 && fail "a program found a device where the doctor found none"

doctor 1 'ip link add bare type veth peer name other; ip link set bare addrgenmode none; ip link set bare up'
says "interface bare is up but has no address"

# Loopback alone.
doctor 0 "$up"
says "Devices: 1"
says "rxe0 on lo: active"
grep -q '127.0.0.1  *port 4791 free' "$work/out" || fail "127.0.0.1 should be free"
says "can be opened"
[ "$(json 'd["devices"][0]["addresses"][0]["port"]')" = free ] || fail "JSON of loopback"
in_ns "$up" "$verbatim" run ibv_devinfo >"$work/out" 2>&1 || fail "a program cannot use what the doctor found good"
if [ "$(id -u)" = 0 ]; then
	doctor 0 "$up" $nobody
	says "user 65534"
fi

# No IPv6, as in many containers.
doctor 0 "$up; sysctl -qw net.ipv6.conf.all.disable_ipv6=1"
grep -q '::1' "$work/out" && fail "IPv6 is off, and the doctor still sees ::1"

# A setting that names no interface.
doctor 1 "$up; export VERBATIM_DEVICES=a=nonesuch"
says "VERBATIM_DEVICES is set to 'a=nonesuch'"

# Another program has the port: of this user, and of another, seen by root and by nobody.
held="$up; $hold 127.0.0.1 >ready & while ! [ -s ready ]; do sleep 0.05; done; echo \$! >pid; rm -f ready; trap 'kill \$(cat pid)' EXIT; \"\$@\"; exit \$?"
cd "$work"
held_doctor() {
	local status=0 expected=$1
	shift
	$unshare sh -c "$held" - "$@" "$verbatim" doctor >"$work/out" 2>&1 || status=$?
	[ "$status" = "$expected" ] || fail "the doctor ended with $status, not $expected, with the port taken"
}
held_doctor 1
says "port 4791 TAKEN: process $(cat pid) (python3) of user"
says "rxe0 cannot be opened"
says "stop that program"
held=${held/127.0.0.1/0.0.0.0}
held_doctor 1
grep -q '127.0.0.1 .*TAKEN: process' "$work/out" || fail "the port of all addresses is taken"
held=${held/0.0.0.0/127.0.0.1}
if [ "$(id -u)" = 0 ]; then
	# shellcheck disable=SC2086
	held_doctor 1 $nobody
	says "of user 0, which this user may not look into"
fi

# Verbatim itself, of this user: shared. Of another: not.
run_held() {
	local status=0 expected=$1 first=$2
	shift 2
	rm -f port pid
	$unshare sh -c "$up"'; first=$1; shift
		$first "'"$verbatim"'" run ibv_rc_pingpong -d rxe0 -g 0 >port 2>&1 & echo $! >pid
		while ! grep -q ":12B7 " /proc/net/udp && kill -0 $(cat pid) 2>/dev/null; do sleep 0.05; done
		rc=0; "$@" || rc=$?; kill $(cat pid); exit $rc' - "$first" "$@" "$verbatim" doctor >"$work/out" 2>&1 || status=$?
	[ "$status" = "$expected" ] || fail "the doctor ended with $status, not $expected, beside a Verbatim process"
}
touch port pid && chmod 666 port pid
run_held 0 ""
says "shared: Verbatim process $(cat pid)"
if [ "$(id -u)" = 0 ]; then
	run_held 1 "$nobody"
	grep -q 'TAKEN: Verbatim process [0-9]* (ibv_rc_pingpong) of user 65534' "$work/out" || fail "another user's Verbatim"
fi
echo "the doctor is right"
