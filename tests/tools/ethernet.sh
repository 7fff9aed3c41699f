# SPDX-License-Identifier: BSD-2-Clause
# Sourced in a network namespace of the test's own: loopback, and one interface with an address, as a computer has.
ip link set lo up
ip link add eth0 type veth peer name wire
ip link set eth0 addrgenmode none
ip link set wire addrgenmode none up
ip link set eth0 up
ip addr add 10.99.1.1/24 dev eth0
