# SPDX-License-Identifier: BSD-2-Clause
"""What is measured, and how: a program is run, alone or as server and client, and one figure read from what it prints."""
import os
import random
import re
import shutil
import subprocess
import time
from dataclasses import dataclass
from typing import Callable, Optional

import hosts

GROUPS = ("process", "host", "udp", "hosts", "events")
LIMIT_S = 20  # a single run
MIB = 1 << 20


class Unusable(Exception):
    """There is nothing to measure on, and why."""


@dataclass(frozen=True)
class Need:
    """A program of others. Without one that is ours to measure with nothing goes; a peer is left out."""
    program: str
    package: str
    is_ours: bool = False


PERFTEST = Need("ib_send_bw", "perftest", True)
UCX = Need("ucx_perftest", "ucx-utils")
LIBFABRIC = Need("fi_pingpong", "libfabric-bin")
IPERF = Need("iperf3", "iperf3")
QPERF = Need("qperf", "qperf")


@dataclass(frozen=True)
class Item:
    name: str
    title: str
    unit: str  # "ns", "B/s" or "1/s"
    groups: tuple
    run: Callable
    needs: Optional[Need] = None
    is_ours: bool = True  # a failure is one of this library, or of the machine's own ceilings


class Machine:
    """Runs programs here, ours by way of `verbatim run`."""

    def __init__(self, address):
        self.address = address
        self.here = os.environ["VERBATIM_BENCH"]
        self.verbatim = os.environ["VERBATIM_COMMAND"]
        self.device, self.gid = self.find_gid(address)
        self.hosts = None

    def describe(self, rounds):
        return "device %s, GID %s (%s); %d processors, Linux %s; medians of %d rounds" % (
            self.device, self.gid, self.address, os.cpu_count(), os.uname().release, rounds)

    @staticmethod
    def missing(items):
        return sorted({i.needs for i in items if i.needs and not shutil.which(i.needs.program)}, key=lambda n: n.program)

    def output(self, command, limit=LIMIT_S, **settings):
        """What a program prints; nothing if it fails or takes too long."""
        try:
            done = subprocess.run(command, env=dict(os.environ, **settings), capture_output=True, text=True, timeout=limit)
        except (subprocess.TimeoutExpired, OSError):
            return ""
        return done.stdout if done.returncode == 0 else ""

    def ours(self, *command):
        return (self.verbatim, "run", "--") + command

    def find_gid(self, address, on=tuple):
        """Device and index of the RoCE v2 GID that is the address, from what a user would look at."""
        gid = address if ":" in address else "::ffff:" + address
        device = None
        command = self.ours(os.path.join(os.path.dirname(self.verbatim), "ibv_devinfo"), "-v")
        for line in self.output(on(command)).splitlines():
            if line.startswith("hca_id:"):
                device = line.split()[1]
            found = re.search(r"GID\[\s*(\d+)\]:\s*([^,\s]+)", line)
            if found and found[2] == gid and "RoCE v1" not in line:
                return device, found[1]
        raise Unusable("no device has the address %s; `verbatim doctor` tells which there are" % address)

    def make_hosts(self):
        """Two of them, for the group hosts."""
        why = hosts.why_not()
        if why:
            raise Unusable("group hosts: " + why)
        self.use_hosts(hosts.Hosts())

    def use_hosts(self, two):
        self.hosts = two
        self.gids = [self.find_gid(hosts.ADDRESSES[n], lambda command, n=n: self.hosts.on(n, command)) for n in (0, 1)]

    def hop(self):
        return self.ceiling("hop") or float("inf")

    def pace(self):
        return number(self.output([os.path.join(self.here, "pace")])) or float("inf")

    def ceiling(self, *arguments):
        return number(self.output([os.path.join(self.here, "ceiling"), *map(str, arguments)]))

    def inside(self, *arguments):
        return number(self.output([os.path.join(self.here, "inside"), *map(str, arguments)]))

    def between(self, *arguments):
        return number(self.output([os.path.join(self.here, "between"), *map(str, arguments)]))

    def pair(self, server, client, port, **settings):
        """What the client prints, of a server that listens at the port first."""
        environment = dict(os.environ, **settings)
        with subprocess.Popen(server, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            try:
                if not wait_listening(process, port):
                    return ""
                return self.output(client, **settings)
            finally:
                try:
                    process.wait(timeout=1)
                except subprocess.TimeoutExpired:
                    process.kill()

    def perftest(self, program, size, iterations, *options, **settings):
        """The columns of the line for this size."""
        port = free_port()

        def command(device, gid, *server):
            count = ("-n", str(iterations)) if iterations else ()
            return self.ours(program, "-d", device, "-x", gid, "-p", str(port), "-F", "-s", str(size), *count, *options, *server)
        if settings.pop("between", None):
            server = self.hosts.on(0, command(*self.gids[0]))
            client = self.hosts.on(1, command(*self.gids[1], hosts.ADDRESSES[0]))
        else:
            server, client = command(self.device, self.gid), command(self.device, self.gid, self.address)
        for line in reversed(self.pair(server, client, port, **settings).splitlines()):
            columns = line.split()
            if len(columns) >= 5 and columns[0] == str(size):
                return columns
        return None


def number(text):
    try:
        return float(text)
    except ValueError:
        return None


def is_listening(port, process="self"):
    """In that process's network."""
    wanted = ":%04X" % port
    for table in ("/proc/%s/net/tcp" % process, "/proc/%s/net/tcp6" % process):
        try:
            with open(table, encoding="ascii") as lines:
                if any(c[1].endswith(wanted) and c[3] == "0A" for c in map(str.split, lines)):
                    return True
        except OSError:
            pass
    return False


def wait_listening(process, port):
    until = time.monotonic() + 5
    while time.monotonic() < until and process.poll() is None:
        if is_listening(port, process.pid):
            return True
        time.sleep(.01)
    return False


def free_port():
    while True:
        port = random.randrange(19000, 27000)
        if not is_listening(port):
            return port


# ---- ours ----

def iterations(size, by_sockets=False):
    """perftest does not warm up, as UCX does for 10,000 messages: the first milliseconds of a process are to count for little.
    What is slower has fewer, so that a slow machine has a figure within the limit."""
    if size >= MIB:
        return 10000
    return 12000 if by_sockets and size >= 65536 else 100000


def latency(operation, size, *options, **settings):
    """Typical, in nanoseconds: one way, and there and back for a READ."""
    def run(machine):
        columns = machine.perftest("ib_%s_lat" % operation, size, 5000, *options, **settings)
        return columns and number(columns[4]) * 1000
    return run


def bandwidth(operation, size, *options, **settings):
    """Bytes a second; perftest's MB are 2^20."""
    def run(machine):
        columns = machine.perftest("ib_%s_bw" % operation, size, iterations(size, bool(settings)), *options, **settings)
        return columns and number(columns[3]) * MIB
    return run


SHORT, LONG = 200000, 2000000  # messages; within a host the short run is over in 16 ms, some of them both ends on one core


def rate(count, *options, **settings):
    def run(machine):
        columns = machine.perftest("ib_send_bw", 8, count, *options, **settings)
        return columns and number(columns[4]) * 1e6
    return run


def within(operation, size, count):
    return lambda machine: machine.inside(operation, size, count)


def within_bandwidth(operation, size, count):
    def run(machine):
        nanoseconds = machine.inside(operation, size, count)
        return nanoseconds and size / nanoseconds * 1e9
    return run


def between(operation, size, count, depth, options):
    return lambda machine: machine.between(operation, size, count, depth, options)


def between_bandwidth(operation, size, options):
    def run(machine):
        nanoseconds = machine.between(operation, size, iterations(size), 16, options)
        return nanoseconds and size / nanoseconds * 1e9
    return run


# ---- peers ----

def ucx(test, size, count, column, scale, transports="posix,cma,self", options=()):
    def run(machine):
        port = free_port()
        settings = {"UCX_TLS": transports, "UCX_LOG_LEVEL": "error"}
        printed = machine.pair(["ucx_perftest", "-p", str(port)],
                               ["ucx_perftest", "127.0.0.1", "-p", str(port), "-t", test, "-s", str(size), "-n", str(count), "-f",
                                *options], port, **settings)
        columns = printed.splitlines()[-1].split() if printed else []
        return number(columns[column]) * scale if len(columns) >= 8 else None
    return run


def fabric(size):
    def run(machine):
        port = free_port()
        command = ["fi_pingpong", "-p", "shm", "-e", "rdm", "-I", "20000", "-S", str(size)]
        printed = machine.pair(command + ["-B", str(port)], command + ["-P", str(port), "127.0.0.1"], port)
        for columns in map(str.split, printed.splitlines()):
            if columns and columns[0] == str(size):
                return number(columns[6]) * 1000
        return None
    return run


def plain_udp(test, size):
    """Between the two hosts."""
    def run(machine):
        program = os.path.join(machine.here, "ceiling")
        return number(machine.output(machine.hosts.on(0, (program, test, str(size), *hosts.ADDRESSES, machine.hosts.names[1]))))
    return run


def tcp_between(machine):
    port = free_port()
    printed = machine.pair(machine.hosts.on(0, ("iperf3", "-s", "-1", "-p", str(port))),
                           machine.hosts.on(1, ("iperf3", "-c", hosts.ADDRESSES[0], "-p", str(port), "-t", "1", "-f", "m")), port)
    found = re.search(r"([\d.]+) Mbits/sec.*receiver", printed)
    return found and float(found[1]) * 1e6 / 8


def tcp_latency(machine):
    port = free_port()
    printed = machine.pair(["qperf", "-lp", str(port)], ["qperf", "-lp", str(port), "-t", "1", "-uu", "127.0.0.1", "tcp_lat"], port)
    found = re.search(r"latency\s*=\s*([\d.]+)", printed)
    return found and float(found[1])


def tcp_bandwidth(machine):
    port = free_port()
    printed = machine.pair(["iperf3", "-s", "-1", "-p", str(port)],
                           ["iperf3", "-c", machine.address, "-p", str(port), "-t", "1", "-f", "m"], port)
    found = re.search(r"([\d.]+) Mbits/sec.*receiver", printed)
    return found and float(found[1]) * 1e6 / 8


# ---- all of it ----

UDP = {"VERBATIM_SAMEHOST": "off"}  # as between hosts, on the one path that every machine has
BETWEEN = {"between": "hosts"}  # each program in a network namespace of its own
SIZES = (1024, 4096, 65536, MIB)


def size_name(size):
    return "%d MiB" % (size // MIB) if size >= MIB else "%d KiB" % (size // 1024) if size >= 1024 else "%d B" % size


WITHIN = (65536, 262144, MIB)  # of a process
COPIED = 16 << 30  # bytes of a run there: 0.1 s and more


def ceilings():
    for size in WITHIN:
        yield Item("memcpy/%d" % size, "memcpy, " + size_name(size), "B/s", ("process", "host"),
                   lambda m, s=size: m.ceiling("memcpy", s))
    for size in (1024, 4096):
        yield Item("udp-bw/%d" % size, "plain UDP, packets of " + size_name(size), "B/s", ("udp",),
                   lambda m, s=size: m.ceiling("udp-bw", s))
        yield Item("udp-icrc-bw/%d" % size, "the same with an ICRC of each packet, packets of " + size_name(size), "B/s", ("udp",),
                   lambda m, s=size: m.ceiling("udp-icrc-bw", s))
        yield Item("hosts-udp-bw/%d" % size, "plain UDP between hosts, packets of " + size_name(size), "B/s", ("hosts",),
                   plain_udp("udp-bw", size))
        yield Item("hosts-udp-icrc-bw/%d" % size, "the same between hosts with an ICRC, packets of " + size_name(size), "B/s",
                   ("hosts",), plain_udp("udp-icrc-bw", size))
    yield Item("udp-rate", "plain UDP, 8 B, packets a second one by one", "1/s", ("udp",), lambda m: m.ceiling("udp-rate", 8))
    for size in (8, 4096):
        yield Item("udp-lat/%d" % size, "plain UDP, %s one way" % size_name(size), "ns", ("udp",),
                   lambda m, s=size: m.ceiling("udp-lat", s))
        yield Item("hosts-udp-lat/%d" % size, "plain UDP, %s one way between hosts" % size_name(size), "ns", ("hosts",),
                   plain_udp("udp-lat", size))


def of_ours():
    for operation in ("send", "write"):
        yield Item("inside-%s-lat/8" % operation, operation.upper() + " 8 B within a process", "ns", ("process",),
                   within(operation, 8, 2000000))
        for size in WITHIN:
            yield Item("inside-%s-bw/%d" % (operation, size), "%s %s within a process" % (operation.upper(), size_name(size)),
                       "B/s", ("process",), within_bandwidth(operation, size, COPIED // size))
    for operation in ("send", "write", "read"):
        for size in (8, 4096):
            title = "%s %s%s" % (operation.upper(), size_name(size), " there and back" if operation == "read" else " one way")
            yield Item("%s-lat/%d" % (operation, size), title, "ns", ("host",),
                       latency(operation, size), PERFTEST)
            yield Item("udp-%s-lat/%d" % (operation, size), title + " over UDP", "ns", ("udp",),
                       latency(operation, size, **UDP), PERFTEST)
            yield Item("hosts-%s-lat/%d" % (operation, size), title + " between hosts", "ns", ("hosts",),
                       latency(operation, size, **BETWEEN), PERFTEST)
        for size in SIZES:
            yield Item("%s-bw/%d" % (operation, size), "%s %s" % (operation.upper(), size_name(size)), "B/s", ("host",),
                       bandwidth(operation, size), PERFTEST)
        for mtu in (1024, 4096):
            yield Item("udp-%s-bw/%d" % (operation, mtu), "%s 64 KiB over UDP, path MTU %d" % (operation.upper(), mtu),
                       "B/s", ("udp",), bandwidth(operation, 65536, "-m", str(mtu), **UDP), PERFTEST)
            yield Item("hosts-%s-bw/%d" % (operation, mtu), "%s 64 KiB between hosts, path MTU %d" % (operation.upper(), mtu),
                       "B/s", ("hosts",), bandwidth(operation, 65536, "-m", str(mtu), **BETWEEN), PERFTEST)
    for operation in ("write", "read"):
        for letter, name, what in (("p", "both", "both poll"), ("h", "huge", "huge pages"), ("d", "shared", "device memory")):
            for size in (65536, MIB):
                yield Item("%s-%s-bw/%d" % (name, operation, size), "%s %s, %s" % (operation.upper(), size_name(size), what),
                           "B/s", ("host",), between_bandwidth(operation, size, letter))
        yield Item("shared-%s-lat/8" % operation, operation.upper() + " 8 B, device memory, with its completion", "ns", ("host",),
                   between(operation, 8, 20000, 1, "d"))
    yield Item("shared-write-hop/8", "WRITE 8 B into shared memory, one way", "ns", ("host",), between("write", 8, 100000, 1, "w"))
    yield Item("send-rate", "SEND 8 B, messages a second", "1/s", ("host",), rate(LONG), PERFTEST)
    yield Item("udp-send-rate", "SEND 8 B over UDP, messages a second", "1/s", ("udp",), rate(SHORT, **UDP), PERFTEST)
    yield Item("udp-list-rate", "SEND 8 B over UDP in lists of 32, messages a second", "1/s", ("udp",),
               rate(SHORT, "-l", "32", **UDP), PERFTEST)
    yield Item("hosts-send-rate", "SEND 8 B between hosts, messages a second", "1/s", ("hosts",), rate(SHORT, **BETWEEN), PERFTEST)
    yield Item("hosts-list-rate", "SEND 8 B between hosts in lists of 32, messages a second", "1/s", ("hosts",),
               rate(SHORT, "-l", "32", **BETWEEN), PERFTEST)
    yield Item("send-event-lat", "SEND 8 B, both sleep", "ns", ("events",), latency("send", 8, "-e"), PERFTEST)
    yield Item("udp-event-lat", "SEND 8 B over UDP, both sleep", "ns", ("events",), latency("send", 8, "-e", **UDP), PERFTEST)


def of_peers():
    def peer(*arguments):
        return Item(*arguments, is_ours=False)
    yield peer("ucx-am-lat", "UCX active message 8 B", "ns", ("host",), ucx("ucp_am_lat", 8, 50000, 1, 1000), UCX)
    # the mean, as shared-write-hop is one; its median, in the column before, leaves out what was slow
    yield peer("ucx-put-lat", "UCX put 8 B into shared memory", "ns", ("host",), ucx("ucp_put_lat", 8, 50000, 2, 1000), UCX)
    yield peer("ucx-am-rate", "UCX active message 8 B, messages a second", "1/s", ("host",), ucx("ucp_am_bw", 8, LONG, 7, 1), UCX)
    yield peer("ucx-am-bw", "UCX active message 1 MiB", "B/s", ("host",), ucx("ucp_am_bw", MIB, 1000, 5, MIB), UCX)
    # as SEND, into the receiver's buffer; an active message is looked at where it arrived
    for size in SIZES[:-1]:
        yield peer("ucx-tag-bw/%d" % size, "UCX tagged message " + size_name(size), "B/s", ("host",),
                   ucx("tag_bw", size, 50000, 5, MIB), UCX)
    # private memory of the other process, by process_vm_writev(), as strace shows; and memory that UCX made shared
    yield peer("ucx-cma-bw", "UCX put over cma, 1 MiB", "B/s", ("host",),
               ucx("put_bw", MIB, 2000, 5, MIB, options=("-d", "memory", "-x", "cma", "-D", "zcopy")), UCX)
    yield peer("ucx-posix-bw", "UCX put into shared memory, 1 MiB", "B/s", ("host",), ucx("ucp_put_bw", MIB, 1000, 5, MIB), UCX)
    yield peer("ucx-tcp-lat", "UCX over TCP 8 B", "ns", ("udp",), ucx("ucp_am_lat", 8, 5000, 1, 1000, "tcp,self"), UCX)
    yield peer("shm-lat", "libfabric shm 64 B", "ns", ("host",), fabric(64), LIBFABRIC)
    yield peer("tcp-lat", "TCP, both sleep (qperf)", "ns", ("events",), tcp_latency, QPERF)
    yield peer("tcp-bw", "TCP (iperf3)", "B/s", ("udp",), tcp_bandwidth, IPERF)
    yield peer("hosts-tcp-bw", "TCP between hosts (iperf3)", "B/s", ("hosts",), tcp_between, IPERF)


def items(only):
    groups = set(only or GROUPS)
    return [item for make in (ceilings, of_ours, of_peers) for item in make() if groups & set(item.groups)]
