# SPDX-License-Identifier: BSD-2-Clause
"""A long and lossy way between two hosts: what arrives of it, ours and TCP's, alone and two at a time on one line.

The way is a program between two network namespaces (path.c), with nothing but the seed at random: both see the same."""
import concurrent.futures
import os
import re
import subprocess

import hosts
import measure

RATE_MBIT, QUEUE_KIB, MARK_KIB = 1000, 4096, 256
ROUND_TRIPS_US = (100, 20000)
LOSSES_PPM = (0, 100, 1000, 10000, 50000)
SIZE, SECONDS, MARGIN = 65536, 4, 1
OPERATIONS = ("send", "write", "read")


class Path(hosts.Hosts):
    """Two hosts with that way between them."""

    def __init__(self, program):
        self.program = program
        super().__init__()

    def link(self):
        self.process = subprocess.Popen([self.program, *(name + ":path" for name in self.names)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.set(100, 0)
        for name in self.names:
            # what waits shall wait in the program's queue
            self.ip("-n", name, "link", "set", "path", "mtu", str(hosts.MTU), "txqueuelen", "20000")
        return "path", "path"

    def set(self, round_trip_us, loss_ppm, mark_kib=0, seed=1):
        """From now on. What the way to the first host (0) and to the second did until now."""
        try:
            self.process.stdin.write("%d %d %d %d %d %d\n" % (round_trip_us // 2, RATE_MBIT, QUEUE_KIB, mark_kib, loss_ppm, seed))
            self.process.stdin.flush()
            words = [int(word) for word in self.process.stdout.readline().split()]
        except OSError:
            words = []
        if len(words) != 10:
            raise measure.Unusable("group loss: no way between two network namespaces: is there a /dev/net/tun?")
        names = ("packets", "lost", "dropped", "marked", "queue")
        return dict(zip(names, words[5:])), dict(zip(names, words[:5]))

    def end(self):
        if self.process.poll() is None:
            self.process.stdin.close()
            self.process.wait(timeout=5)
        super().end()


def ours(machine, operation):
    """Bytes a second, without what comes before and after the margins."""
    columns = machine.perftest("ib_%s_bw" % operation, SIZE, None, "-D", str(SECONDS), "-f", str(MARGIN), between=True)
    return columns and measure.number(columns[3]) * measure.MIB


def tcp(machine, _):
    port = measure.free_port()
    printed = machine.pair(machine.hosts.on(0, ("iperf3", "-s", "-1", "-p", str(port))),
                           machine.hosts.on(1, ("iperf3", "-c", hosts.ADDRESSES[0], "-p", str(port), "-t", str(SECONDS - 2 * MARGIN),
                                                "-O", str(MARGIN), "-f", "k")), port)
    found = re.search(r"([\d.]+) Kbits/sec.*receiver", printed)
    return found and float(found[1]) * 1e3 / 8


def rows():
    for operation in OPERATIONS:
        yield operation.upper(), operation, ours
    control = open("/proc/sys/net/ipv4/tcp_congestion_control", encoding="ascii").read().strip()
    yield "TCP (%s)" % control, None, tcp


def shown(value):
    return "-" if value is None else "%.1f" % (value / 1e6) if value < 1e7 else "%.0f" % (value / 1e6)


def alone(machine, options):
    """One connection, at each round trip and loss."""
    path, results = machine.hosts, []
    print("\nMB/s of %.0f, messages of 64 KiB; lost of each way, in %%\n  %-24s" % (RATE_MBIT / 8, "") +
          "".join("%9g" % (ppm / 1e4) for ppm in LOSSES_PPM))
    for round_trip in ROUND_TRIPS_US:
        for title, operation, run in rows():
            title = "%s, %g ms" % (title, round_trip / 1e3)
            if not re.search(options.tests, title):
                continue
            print("  %-24s" % title, end="", flush=True)
            for ppm in LOSSES_PPM:
                path.set(round_trip, ppm)
                value = run(machine, operation)
                results.append({"test": title, "loss": ppm / 1e6, "value": value})
                print("%9s" % shown(value), end="", flush=True)
            print()
    return results


def together(machine, options):
    """Two connections over one line, with and without marks. Jain's index of fairness is 1 if each has the same."""
    path, results = machine.hosts, []
    print("\ntwo at a time on the line of %.0f MB/s, queue of %d KiB\n  %-32s %8s %8s %9s %10s %8s %8s" % (
        RATE_MBIT / 8, QUEUE_KIB, "", "MB/s", "MB/s", "fairness", "queue KiB", "dropped", "marked"))
    for round_trip in ROUND_TRIPS_US:
        for title, operation, run in rows():
            for mark in (0, MARK_KIB):
                name = "%s, %g ms%s" % (title, round_trip / 1e3, ", marks from %d KiB" % mark if mark else "")
                if not re.search(options.tests, name):
                    continue
                path.set(round_trip, 0, mark)
                with concurrent.futures.ThreadPoolExecutor() as pool:
                    both = list(pool.map(lambda _: run(machine, operation), range(2)))
                way = max(path.set(round_trip, 0), key=lambda way: way["queue"])
                fairness = None if None in both else sum(both) ** 2 / (2 * sum(value ** 2 for value in both) or 1)
                results.append({"test": name, "values": both, "fairness": fairness, **way})
                print("  %-32s %8s %8s %9s %10d %8d %8d" % (name, *map(shown, both), "-" if fairness is None else "%.3f" % fairness,
                                                            way["queue"], way["dropped"], way["marked"]), flush=True)
    return results


def run(machine, options):
    why = hosts.why_not()
    if why:
        raise measure.Unusable("group loss: " + why)
    needed = (measure.PERFTEST, measure.IPERF)
    missing = machine.missing([measure.Item("", "", "", (), None, need) for need in needed])
    if missing:
        raise measure.Unusable("group loss: not installed: apt-get install " + " ".join(need.package for need in missing))
    machine.use_hosts(Path(os.path.join(machine.here, "path")))
    return {"alone": alone(machine, options), "together": together(machine, options)}
