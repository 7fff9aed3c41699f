# SPDX-License-Identifier: BSD-2-Clause
"""What grows with the number of queue pairs, regions, processes and threads; bench/scale.c does the work.

Each figure is the best of some rounds: what grows is the library's, what is added to it by chance is the machine's. But
what a message costs with so many queue pairs is compared: that is the median of what was taken in turn, and while the
cores stood alike, of as many as it takes within reason."""
import json
import os
import statistics

import measure
import placement

QPS = (1, 10, 100, 1000, 10000)
QUEUES = ((1, 1), (64, 64), (1024, 1024))  # send and receive work requests
REGIONS = (1, 1000, 100000)
PROCESSES = (2, 8, 64)
FLAT = 1.2  # 1,000 queue pairs to 10
FEW, MANY = 10, 1000
PAIRED = 3  # times as many rounds, of those two: so many that count,
PAIRED_MOST = 12  # of so many in all
LIMIT_S = 60  # 64 processes on two cores take 20 s of a slow machine


def once(machine, *arguments):
    printed = machine.output(machine.ours(os.path.join(machine.here, "scale"), *map(str, arguments)), limit=LIMIT_S)
    return json.loads(printed) if printed else None


def best_of(runs):
    """The least of each figure, but the most of a rate."""
    found = {}
    for run in filter(None, runs):
        for name, value in run.items():
            found[name] = (max if name == "rate" else min)(value, found.get(name, value))
    return found or None


def is_enough(samples, rounds):
    """So many of both were taken in the placement that is compared."""
    _, usual = placement.usual_of(samples)
    return usual in placement.UNDISTURBED and all(
        sum(where == usual for _, where in samples[count]) >= rounds for count in samples)


def in_turn(machine, counts, rounds):
    """Of so many queue pairs each; a message's time is what it is in the placement that most were taken in."""
    probe, samples = placement.Probe(machine), {count: [] for count in counts}
    for number in range(PAIRED_MOST * rounds):
        if number >= PAIRED * rounds and is_enough({count: samples[count] for count in (FEW, MANY)}, PAIRED * rounds):
            break
        for count in counts:
            if number < rounds or count in (FEW, MANY):
                samples[count].append(probe.sample(lambda: once(machine, "qps", count, 64, 0)))
    _, usual = placement.usual_of({count: samples[count] for count in (FEW, MANY)})
    found = {count: best_of(run for run, _ in samples[count]) for count in counts}
    for count in counts:
        alike = [run["message_ns"] for run, where in samples[count] if run and where == usual]
        if alike:
            found[count]["message_ns"] = statistics.median(alike)
        elif count in (FEW, MANY):
            found[count] = None
    return found, usual


def line(title, found, *cells):
    print("  %-34s %s" % (title, "no figure" if found is None else "  ".join(
        "%s %s" % (text % (found[name] / scale), what) for name, text, scale, what in cells)))


def run(machine, options):
    rounds, results = options.rounds, {}

    def measured(key, *arguments, count=rounds):
        results[key] = best_of(once(machine, *arguments) for _ in range(count))
        return results[key]

    print("\nqueue pairs between two processes, SEND of 8 B on each in turn, 64 under way in all")
    counts, usual = in_turn(machine, QPS, rounds)
    for count in QPS:
        results["qps/%d" % count] = counts[count]
        line("%d" % count, counts[count],
             ("message_ns", "%6.0f", 1, "ns a message"), ("make_ns", "%6.1f", 1e3, "us to make and connect"),
             ("end_ns", "%6.1f", 1e3, "us to destroy"))
    few, many = counts[FEW], counts[MANY]
    if few and many:
        ratio = many["message_ns"] / few["message_ns"]
        print("  1,000 to 10, cores %s: %.2f, wanted <= %.1f: %s" % (usual, ratio, FLAT, "yes" if ratio <= FLAT else "NO"))
    print("\nmemory of a queue pair (resident, 1000 of them), by its queues")
    for sends, receives in QUEUES:
        line("%d sends, %d receives" % (sends, receives),
             measured("queues/%d" % sends, "qps", 1000, sends, receives, count=1), ("bytes", "%8.0f", 1, "B"))
    print("\nmemory regions, WRITE of 8 B within a process from any to any")
    for count in REGIONS:
        line("%d" % count, measured("regions/%d" % count, "regions", count), ("message_ns", "%6.0f", 1, "ns a message"),
             ("make_ns", "%6.0f", 1, "ns to register"), ("end_ns", "%6.0f", 1, "ns to deregister"), ("bytes", "%6.0f", 1, "B each"))
    print("\nprocesses, each connected to each other one, SEND of 8 B to all in turn")
    for count in PROCESSES:
        line("%d" % count, measured("processes/%d" % count, "processes", count, count=rounds if count < 64 else 1),
             ("connect_s", "%6.2f", 1, "s to open and connect"), ("message_ns", "%6.0f", 1, "ns a message, of all"),
             ("bytes", "%5.1f", 1 << 20, "MiB each"), ("descriptors", "%4.0f", 1, "descriptors each"))
    print("\nthreads with queue pairs of their own, SEND of 8 B; as many processes to compare with")
    for count in (1, min(2, os.cpu_count()), min(4, os.cpu_count())):
        if "threads/%d" % count not in results:
            line("%d threads" % count, measured("threads/%d" % count, "threads", count), ("rate", "%6.2f", 1e6, "M messages a second"))
            line("%d processes" % count, measured("copies/%d" % count, "copies", count), ("rate", "%6.2f", 1e6, "M messages a second"))
    return results
