# SPDX-License-Identifier: BSD-2-Clause
"""Kernel rxe and Verbatim in one guest: Debian's kernel in QEMU, perftest unmodified, both ends in the guest, in turn.

The guest is emulated, so its figures are nobody's speed; only the ratios of one guest mean something."""
import json
import os
import shutil
import statistics
import subprocess

import measure

SIZES = (2, 1024, 65536, measure.MIB)
ALL_SIZES = tuple(1 << n for n in range(1, 21))
LIMIT_S = 7200
# what rxe-lab needs, which would install it by itself: not behind the user's back
NEEDS = (("qemu-system-x86_64", "qemu-system-x86"), ("cpio", "cpio"), ("busybox", "busybox-static"), ("depmod", "kmod"),
         ("ip", "iproute2"), ("ib_send_bw", "perftest"))
SHOWN = {"rxe": "kernel rxe", "verbatim": "Verbatim", "udp": "over UDP"}


def setup(machine):
    """The script that boots guests, and whether it can."""
    path = os.environ["PATH"] + ":/usr/sbin:/sbin"
    lacking = [package for program, package in NEEDS if not shutil.which(program, path=path)]
    if lacking:
        raise measure.Unusable("group rxe: not installed: apt-get install " + " ".join(lacking))
    if os.geteuid():
        raise measure.Unusable("group rxe: needs root, for QEMU's share of the file system")
    lab = os.path.join(machine.here, "rxe-lab")
    done = subprocess.run([lab, "setup"], capture_output=True, text=True)
    if done.returncode:
        raise measure.Unusable("group rxe: Debian's kernel can't be had (`apt-get download linux-image-amd64`): " + done.stderr.strip()[-300:])
    return lab


def guest(machine, script, settings, **lab_settings):
    """What the script prints in a guest: a dictionary for each figure."""
    lab = setup(machine)
    settings = dict(settings, VERBATIM_COMMAND=os.path.realpath(machine.verbatim))
    # an emulated processor's TSC is right, but Linux does not trust it, and the clock it takes instead costs 2 us a look
    environment = dict(os.environ, **settings, RXELAB_ENV=" ".join(settings), RXELAB_TIMEOUT=str(LIMIT_S),
                       RXELAB_APPEND="tsc=reliable", **lab_settings)
    with subprocess.Popen([lab, "run", os.path.realpath(os.path.join(machine.here, script))], env=environment,
                          stdout=subprocess.PIPE, text=True) as process:
        is_done = False
        for line in process.stdout:
            if line.startswith("{"):
                yield json.loads(line)
            is_done |= line == "done\n"
    if not is_done:
        raise measure.Unusable("%s: the guest ended early (status %d)" % (script, process.returncode))


def samples(machine, options):
    sizes = options.sizes or (ALL_SIZES if options.all_sizes else SIZES)
    return guest(machine, "rxe-guest", {"RXE_ROUNDS": str(options.rounds), "RXE_SIZES": ",".join(map(str, sizes)),
                                        "RXE_TESTS": options.tests})


def wanted(test, size):
    """Of ours over rxe's: of a bandwidth at least, of a latency at most."""
    return 1 if "lat" in test else 2 if size == 65536 else 1


def shown(test, value):
    if value is None:
        return "-"
    return "%.1f us" % (value / 1e3) if "lat" in test else "%.3f MB/s" % (value / 1e6) if value < 1e7 else "%.0f MB/s" % (value / 1e6)


def table(results):
    heading = "kernel rxe and Verbatim, both ends in one emulated guest"
    print("\n%-40s %14s %14s %6s  %-12s %14s %6s" % (heading[:40], "kernel rxe", "Verbatim", "ratio", "wanted", "over UDP", "ratio"))
    for r in results:
        sign = "<=" if "lat" in r["test"] else ">="
        verdict = "" if r["ratio"] is None else "yes" if r["is_met"] else "NO"
        print("  %-38s %14s %14s %6s  %s %-3g %-6s %14s %6s" % (
            "%s %s" % (r["test"], measure.size_name(r["size"])), shown(r["test"], r["rxe"]), shown(r["test"], r["verbatim"]),
            "-" if r["ratio"] is None else "%.2f" % r["ratio"], sign, r["wanted"], verdict, shown(r["test"], r["udp"]),
            "-" if not (r["udp"] and r["rxe"]) else "%.2f" % (r["udp"] / r["rxe"])))
    met = [r for r in results if r["is_met"]]
    print("  as wanted: %d of %d; an emulated guest: only ratios mean something" % (len(met), len(results)))
    for r in results:
        for why in r["failures"]:
            print("  no figure: " + why)


def run(machine, options):
    values, failures = {}, {}
    for s in samples(machine, options):
        key = s["test"], s["size"]
        values.setdefault(key, {}).setdefault(s["stack"], [])
        if s["value"] is None:
            failures.setdefault(key, []).append("%s %d, %s: %s" % (s["test"], s["size"], SHOWN[s["stack"]], s["why"]))
        else:
            values[key][s["stack"]].append(s["value"])
    results = []
    for (test, size), stacks in values.items():
        median = {name: statistics.median(stacks[name]) if stacks.get(name) else None for name in SHOWN}
        ratio = median["verbatim"] / median["rxe"] if median["verbatim"] and median["rxe"] else None
        goal = wanted(test, size)
        results.append({"test": test, "size": size, **median, "ratio": ratio, "wanted": goal,
                        "is_met": ratio is not None and (ratio <= goal if "lat" in test else ratio >= goal),
                        "failures": failures.get((test, size), [])})
    table(results)
    return results
