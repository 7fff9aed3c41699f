# SPDX-License-Identifier: BSD-2-Clause
"""Kernel rxe and Verbatim over a line that loses packets, in one guest (rxe-loss-guest): what arrives of either."""
import os
import statistics

import rxe

STACKS = (("rxe", "kernel rxe"), ("verbatim", "Verbatim"))


def shown(values):
    values = [value for value in values if value]
    return "%.2f" % (statistics.median(values) / 1e6) if values else "-"


def table(losses, values):
    print("\nMB/s of 12.5, messages of 64 KiB, in an emulated guest; lost of each way, in %%\n  %-28s" % "" +
          "".join("%9g" % (loss * 100) for loss in losses))
    for test in dict.fromkeys(test for test, _ in values):
        for stack, title in STACKS:
            print("  %-28s" % (test + ", " + title) + "".join("%9s" % shown(values[test, loss][stack]) for loss in losses))


def run(machine, options):
    settings = {"LOSS_ROUNDS": str(options.rounds), "LOSS_TESTS": options.tests,
                "LOSS_PROGRAM": os.path.realpath(os.path.join(machine.here, "path"))}
    results, values, losses = [], {}, []
    for sample in rxe.guest(machine, "rxe-loss-guest", settings, RXELAB_MTU="9000"):
        results.append(sample)
        if sample["loss"] not in losses:
            losses.append(sample["loss"])
        values.setdefault((sample["test"], sample["loss"]), {stack: [] for stack, _ in STACKS})[sample["stack"]].append(sample["value"])
    table(losses, values)
    for sample in results:
        if sample["why"]:
            print("  no figure: %s, %g %%, %s: %s" % (sample["test"], sample["loss"] * 100, dict(STACKS)[sample["stack"]], sample["why"]))
    return results
