# SPDX-License-Identifier: BSD-2-Clause
# Sourced by the tests that run real programs. Settings (environment) and what they default to:
#   WRAP          what every program is started through: this tree's `verbatim run --`; empty: the system's own libibverbs
#   BUILD         the build directory: build/ of this tree
# The device and the GID index of an address are looked up as a person would: in what `ibv_devinfo -v` prints.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
BUILD=${BUILD:-$root/build}
WRAP=${WRAP-$BUILD/bin/verbatim run --}

die() { echo "${0##*/}: $*" >&2; exit 1; }

# gid_of ADDRESS: an IPv4 address as the GID that carries it, anything else unchanged
gid_of() { case $1 in *:*) echo "$1" ;; *) echo "::ffff:$1" ;; esac; }

# find_gid PREFIX ADDRESS: print "DEVICE INDEX" of the RoCE v2 entry for ADDRESS, as seen by programs started with PREFIX
find_gid() {
	local info
	info=$($1 timeout -k 2 20 $WRAP ibv_devinfo -v 2>&1) || { echo "$info" >&2; die "ibv_devinfo -v failed"; }
	awk -v want="$(gid_of "$2")" '
		/^hca_id:/ { dev = $2 }
		/GID\[/ && !/RoCE v1/ {
			index_ = $0; sub(/.*\[ */, "", index_); sub(/\].*/, "", index_)
			gid = $0; sub(/.*\]:[ \t]*/, "", gid); sub(/,.*/, "", gid)
			if (gid == want) { print dev, index_; found = 1; exit }
		}
		END { exit !found }' <<<"$info" ||
		{ echo "$info" >&2; die "no device has the GID $(gid_of "$2")"; }
}

# listening PID PORT: does a TCP socket listen on PORT in the network namespace of PID?
listening() {
	local port
	port=$(printf %04X "$2")
	grep -qsE "^ *[0-9]+: [0-9A-F]+:$port [0-9A-F:]+ 0A " "/proc/$1/net/tcp" "/proc/$1/net/tcp6"
}

# wait_listening PID PORT [TENTHS]: until it listens; fails when PID ends first or the time is over
wait_listening() {
	local i
	for ((i = 0; i < ${3:-100} * 5; i++)); do
		! listening "$1" "$2" || return 0
		kill -0 "$1" 2>/dev/null || return 1
		sleep .02
	done
	return 1
}

# rests PID: does what `timeout` runs under this number wait for something? (Of a server whose name is seen: for requests. Some
# never rest.)
rests() {
	local program=$1 children
	while children=$(cat "/proc/$program/task/$program/children" 2>/dev/null) && [ -n "$children" ]; do program=${children%% *}; done
	grep -qs "^State:.S" "/proc/$program/status"
}

# free_port: a TCP port nobody listens on, different for runs at the same time
free_port() {
	local p
	for p in {1..200}; do
		p=$((19000 + RANDOM % 8000))
		listening self "$p" || { echo "$p"; return; }
	done
	die "no free TCP port"
}

# own_network "$0" "$@": go on in a network namespace of our own, all down; skipped where an ordinary user can't have one
own_network() {
	local own=(unshare -n)
	[ -z "${VERBATIM_IN_NAMESPACE:-}" ] || return 0
	[ "$(id -u)" = 0 ] || own=(unshare -rn)
	"${own[@]}" true || { echo "SKIPPED: needs a network namespace of its own, so root or user namespaces"; exit 77; }
	VERBATIM_IN_NAMESPACE=1 exec "${own[@]}" "$@"
}
