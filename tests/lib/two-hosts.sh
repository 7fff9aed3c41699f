# SPDX-License-Identifier: BSD-2-Clause
# Sourced after common.sh: two hosts, as two network namespaces of this machine with a veth pair between them. Needs root.
# two_hosts MTU makes them, and sees to it that they go with the script. Host A ($in_a COMMAND) has the interface veth-a
# with 10.99.0.1 and fd99::1, host B ($in_b COMMAND) veth-b with 10.99.0.2 and fd99::2; both have their loopback.
[ "$(id -u)" = 0 ] || {
	[ "${VERBATIM_SKIP_HOSTS:-}" != 1 ] || { echo "skipped: VERBATIM_SKIP_HOSTS=1"; exit 77; }
	die "two hosts are two network namespaces, which needs root (VERBATIM_SKIP_HOSTS=1 leaves these tests out)"
}
ns_a=verbatim-a-$$ ns_b=verbatim-b-$$
in_a="ip netns exec $ns_a" in_b="ip netns exec $ns_b"
tmp=$(mktemp -d)

hosts_end() {
	local ns p
	for ns in "$ns_a" "$ns_b"; do
		[ -e "/run/netns/$ns" ] || continue
		for p in $(ip netns pids "$ns"); do kill -KILL "$p" 2>/dev/null; done
		ip netns del "$ns"
	done
	rm -rf "$tmp"
}

two_hosts() {
	trap hosts_end EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM
	ip netns add "$ns_a" && ip netns add "$ns_b" || die "cannot make network namespaces"
	ip link add veth-a mtu "$1" netns "$ns_a" type veth peer veth-b mtu "$1" netns "$ns_b" || die "cannot make a veth pair"
	host_up "$ns_a" veth-a 1
	host_up "$ns_b" veth-b 2
	# IPv6 neighbours and routes settle with the first packet
	$in_a ping -q -c 1 -W 5 fd99::2 >/dev/null || die "the hosts do not reach each other over IPv6"
	$in_a ping -q -c 1 -W 5 10.99.0.2 >/dev/null || die "the hosts do not reach each other over IPv4"
}

host_up() { # host_up NAMESPACE INTERFACE NUMBER
	$(printf 'ip netns exec %s' "$1") sysctl -qw "net.ipv6.conf.$2.accept_dad=0"
	ip -n "$1" link set lo up
	ip -n "$1" link set "$2" up
	ip -n "$1" addr add "10.99.0.$3/24" dev "$2"
	ip -n "$1" addr add "fd99::$3/64" dev "$2" nodad
}

# one_packet_each: no segmentation by the receiver's leave, so that each packet crosses the link, and can be lost, alone
one_packet_each() {
	$in_a ethtool -K veth-a tx-udp-segmentation off >/dev/null
	$in_b ethtool -K veth-b tx-udp-segmentation off >/dev/null
}

# lose PERCENT: each host loses so many of the RoCE packets that come in, each on its own
lose() {
	lose_by "random mod 1000 < $(($1 * 10))"
}

# lose_one_of NUMBER: so far apart that what is done where nothing was lost lately goes on
lose_one_of() {
	lose_by "inc mod $1 == 0"
}

lose_by() { # lose_by NUMGEN
	local in
	one_packet_each
	for in in "$in_a" "$in_b"; do
		$in nft -f - <<-NFT || die "nft cannot lose packets here"
			table inet lossy {
				chain come {
					type filter hook prerouting priority raw; policy accept;
					udp dport 4791 numgen $1 counter drop
				}
			}
		NFT
	done
}

# lost: how many packets the hosts have lost
lost() {
	local in
	for in in "$in_a" "$in_b"; do $in nft list table inet lossy; done | awk '/packets/ { for (i = 1; i < NF; i++) if ($i == "packets") n += $(i + 1) } END { print n + 0 }'
}
