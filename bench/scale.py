# SPDX-License-Identifier: BSD-2-Clause
"""What grows with the number of queue pairs, regions, processes and threads; bench/scale.c does the work.

Each figure is the best of some rounds: what grows is the library's, what is added to it by chance is the machine's."""
import json
import os

import measure

QPS = (1, 10, 100, 1000, 10000)
QUEUES = ((1, 1), (64, 64), (1024, 1024))  # send and receive work requests
REGIONS = (1, 1000, 100000)
PROCESSES = (2, 8, 64)
FLAT = 1.2  # 1,000 queue pairs to 10


def best(machine, rounds, *arguments):
    """The least of each figure, but the most of a rate."""
    found = {}
    for _ in range(rounds):
        printed = machine.output(machine.ours(os.path.join(machine.here, "scale"), *map(str, arguments)))
        for name, value in (json.loads(printed) if printed else {}).items():
            found[name] = (max if name == "rate" else min)(value, found.get(name, value))
    return found or None


def line(title, found, *cells):
    print("  %-34s %s" % (title, "no figure" if found is None else "  ".join(
        "%s %s" % (text % (found[name] / scale), what) for name, text, scale, what in cells)))


def run(machine, options):
    rounds, results = options.rounds, {}

    def measured(key, *arguments, count=rounds):
        results[key] = best(machine, count, *arguments)
        return results[key]

    print("\nqueue pairs between two processes, SEND of 8 B on each in turn, 64 under way in all")
    for count in QPS:
        line("%d" % count, measured("qps/%d" % count, "qps", count, 64, 0, count=rounds if count < 10000 else 1),
             ("message_ns", "%6.0f", 1, "ns a message"), ("make_ns", "%6.1f", 1e3, "us to make and connect"),
             ("end_ns", "%6.1f", 1e3, "us to destroy"))
    few, many = results["qps/10"], results["qps/1000"]
    if few and many:
        ratio = many["message_ns"] / few["message_ns"]
        print("  1,000 to 10: %.2f, wanted <= %.1f: %s" % (ratio, FLAT, "yes" if ratio <= FLAT else "NO"))
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
