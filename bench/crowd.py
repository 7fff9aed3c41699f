# SPDX-License-Identifier: BSD-2-Clause
"""Machines that are not idle: pairs of perftest programs share two cores with each other and with programs that compute.

What is wanted is that a pair gets its share: beside others it may be as much slower as there are more programs than
cores. The worst case is stated."""
import os
import re
import subprocess
import time

import measure

CORES = 2
LIMIT_S = 30
COLLAPSE = 10  # times the share


class Pair:
    """A perftest pair on some cores."""

    def __init__(self, machine, program, options, server_core=None, client_core=None):
        self.machine, self.port = machine, measure.free_port()
        self.command = machine.ours(program, "-d", machine.device, "-x", machine.gid, "-p", str(self.port), "-F", *options)
        self.cores = server_core, client_core
        self.server = self.client = None

    def start_server(self):
        self.server = subprocess.Popen(self.on(self.cores[0]) + self.command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return measure.wait_listening(self.server, self.port)

    def start_client(self):
        self.client = subprocess.Popen(self.on(self.cores[1]) + self.command + (self.machine.address,),
                                       stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    @staticmethod
    def on(core):
        return ("taskset", "-c", "0-%d" % (CORES - 1) if core is None else str(core))

    def columns(self):
        """Of the line of figures; None if it took too long or failed."""
        try:
            printed, _ = self.client.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            printed = ""
        for process in (self.client, self.server):
            if process.poll() is None:
                try:
                    process.wait(timeout=1)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
        found = re.findall(r"^ *\d+ +\d+ +[\d.]+.*$", printed, re.M)
        return found[-1].split() if found else None


class Hogs:
    """Programs that compute and do nothing else, one on each of these cores: the scheduler would put them together."""

    def __init__(self, cores):
        self.cores, self.processes = cores, []

    def __enter__(self):
        self.processes = [subprocess.Popen(["taskset", "-c", str(core), "sh", "-c", "while :; do :; done"]) for core in self.cores]

    def __exit__(self, *_):
        for process in self.processes:
            process.kill()
            process.wait()


# name, program, its options: of a latency p50, p99 and the longest; of a bandwidth the average
TESTS = (
    ("send_lat 8 B", "ib_send_lat", ("-s", "8", "-n", "5000")),
    ("write_lat 8 B", "ib_write_lat", ("-s", "8", "-n", "5000")),
    ("read_lat 8 B; target sleeps", "ib_read_lat", ("-s", "8", "-n", "5000")),
    ("send_bw 8 B", "ib_send_bw", ("-s", "8", "-n", "300000")),
    ("send_bw 64 KiB", "ib_send_bw", ("-s", "65536", "-n", "10000")),
    ("write_bw 64 KiB; target sleeps", "ib_write_bw", ("-s", "65536", "-n", "10000")),
)

SPINS_ON_MEMORY = "ib_write_lat"  # and calls no verb meanwhile: on one core each end waits for the other's time to be over

# name, pairs, cores of those that compute, cores of server and client; programs a core, which is how much slower it may be
CROWDS = (
    ("alone", 1, (), (None, None), 1),
    ("two pairs", 2, (), (None, None), 2),
    ("four pairs", 4, (), (None, None), 4),
    ("one computes on each core", 1, (0, 1), (None, None), 2),
    ("both ends on one core", 1, (), (0, 0), 2),
    ("and one computes there", 1, (0,), (0, 0), 3),
)


def crowds_of(program):
    return [crowd for crowd in CROWDS if program != SPINS_ON_MEMORY or crowd[3] == (None, None)]


def measured(machine, program, options, crowd):
    """Figures of each pair; None for one that failed."""
    _, count, hogs, cores, _ = crowd
    pairs = [Pair(machine, program, options, *cores) for _ in range(count)]
    with Hogs(hogs):
        if not all([pair.start_server() for pair in pairs]):
            return [None]
        time.sleep(.05)
        for pair in pairs:
            pair.start_client()
        return [pair.columns() for pair in pairs]


def figures(program, all_columns):
    """Of the slowest pair. Nanoseconds, or bytes a second."""
    if any(columns is None for columns in all_columns):
        return None
    if program.endswith("_lat"):  # size, iterations, least, most, typical, average, deviation, 99 %, 99.9 %
        worst = max(all_columns, key=lambda c: float(c[5]))
        return {"p50": float(worst[4]) * 1e3, "p99": float(worst[7]) * 1e3, "max": float(worst[3]) * 1e3, "mean": float(worst[5]) * 1e3}
    return {"all": sum(float(c[3]) for c in all_columns) * measure.MIB, "least": min(float(c[3]) for c in all_columns) * measure.MIB}


def better(program, a, b):
    if a is None or b is None:
        return a or b
    key = "mean" if program.endswith("_lat") else "all"
    return min(a, b, key=lambda f: f[key]) if program.endswith("_lat") else max(a, b, key=lambda f: f[key])


def slower(program, found, alone):
    """How many times: of a latency the mean, as a pair alone has it; of a bandwidth the slowest pair's."""
    if not found or not alone:
        return None
    return found["mean"] / alone["mean"] if program.endswith("_lat") else alone["all"] / found["least"]


def row(name, crowd, program, found, times):
    share = crowd[4]
    if found is None:
        text = "no figure: it failed, or took more than %d s" % LIMIT_S
    elif program.endswith("_lat"):
        text = "p50 %8.1f  p99 %8.1f  max %8.0f  mean %8.1f us" % tuple(found[k] / 1e3 for k in ("p50", "p99", "max", "mean"))
    else:
        text = "all pairs %8.1f, the slowest %8.1f MB/s" % (found["all"] / 1e6, found["least"] / 1e6)
    print("  %-32s %-32s %-62s %s" % (name, crowd[0], text, "" if times is None else "%.1f times slower, share %d" % (times, share)))


def run(machine, options):
    if os.cpu_count() < CORES:
        raise measure.Unusable("group crowd: needs %d processors" % CORES)
    missing = machine.missing([measure.Item("", "", "", (), None, measure.PERFTEST)])
    if missing:
        raise measure.Unusable("group crowd: not installed: apt-get install " + missing[0].package)
    best = {}
    for _ in range(options.rounds):
        for name, program, arguments in TESTS:
            for crowd in crowds_of(program):
                found = figures(program, measured(machine, program, arguments, crowd))
                best[name, crowd[0]] = better(program, best.get((name, crowd[0])), found)
    print("\npairs of programs on %d cores; the slowest pair of each crowd" % CORES)
    results, worst = [], (0, "")
    for name, program, _ in TESTS:
        for crowd in crowds_of(program):
            found = best[name, crowd[0]]
            times = slower(program, found, best[name, "alone"])
            row(name, crowd, program, found, times)
            results.append({"test": name, "crowd": crowd[0], "share": crowd[4], "figures": found, "times_slower": times})
            worst = max(worst, ((times or 0) / crowd[4], "%s, %s" % (name, crowd[0])))
    print("  worst: %.1f times its share (%s)%s" % (*worst, "; a collapse" if worst[0] > COLLAPSE else ""))
    return results
