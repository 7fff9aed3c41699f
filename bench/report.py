# SPDX-License-Identifier: BSD-2-Clause
"""What was measured, as a table with what each figure is compared to, as JSON, and as a picture."""
import json
import os
import shutil
import subprocess
from dataclasses import dataclass

import measure


@dataclass(frozen=True)
class Figure:
    item: measure.Item
    median: float
    least: float
    most: float
    count: int
    is_usual: bool  # taken in the placement that most were taken in


@dataclass(frozen=True)
class Comparison:
    ours: str
    other: str
    goal: float  # of ours over other's: at least, or of a time at most


@dataclass(frozen=True)
class Section:
    title: str
    comparisons: tuple


SECTIONS = (
    Section("within a process", (
        *(Comparison("inside-%s-bw/%d" % (operation, size), "memcpy/%d" % size, .9)
          for size in measure.WITHIN for operation in ("send", "write")),
    )),
    Section("between two processes of this host, through shared memory", (
        Comparison("send-lat/8", "ucx-am-lat", 1.2),
        Comparison("send-lat/8", "shm-lat", 1),
        Comparison("send-rate", "ucx-am-rate", 1),
        Comparison("shared-write-hop/8", "ucx-put-lat", 1.2),
        Comparison("write-bw/%d" % measure.MIB, "ucx-cma-bw", 1),
        Comparison("read-bw/%d" % measure.MIB, "ucx-cma-bw", 1),
        Comparison("both-write-bw/%d" % measure.MIB, "ucx-cma-bw", 1.6),
        Comparison("both-read-bw/%d" % measure.MIB, "ucx-cma-bw", 1.6),
        Comparison("send-bw/%d" % measure.MIB, "ucx-cma-bw", 1.6),
        Comparison("huge-write-bw/%d" % measure.MIB, "ucx-cma-bw", 1),
        Comparison("shared-write-bw/%d" % measure.MIB, "memcpy/%d" % measure.MIB, .9),
        Comparison("shared-write-bw/%d" % measure.MIB, "ucx-posix-bw", .9),
        Comparison("send-bw/%d" % measure.MIB, "ucx-am-bw", 1),
        *(Comparison("send-bw/%d" % size, "ucx-tag-bw/%d" % size, 1) for size in measure.SIZES[:-1]),
    )),
    Section("between two processes, over UDP as between hosts", (
        Comparison("udp-send-lat/8", "udp-lat/8", 1.25),
        Comparison("udp-send-lat/4096", "udp-lat/4096", 1.25),
        Comparison("udp-send-lat/8", "ucx-tcp-lat", 1),
        Comparison("udp-send-bw/1024", "udp-bw/1024", .8),
        Comparison("udp-send-bw/4096", "udp-bw/4096", .85),
        Comparison("udp-send-bw/1024", "udp-icrc-bw/1024", .8),
        Comparison("udp-send-bw/4096", "udp-icrc-bw/4096", .85),
        Comparison("udp-write-bw/4096", "udp-bw/4096", .85),
        Comparison("udp-read-bw/4096", "udp-bw/4096", .85),
        Comparison("udp-write-bw/4096", "tcp-bw", 1.7),
        Comparison("udp-send-rate", "udp-rate", .9),
    )),
    Section("between two hosts (network namespaces, a veth pair)", (
        Comparison("hosts-send-lat/8", "hosts-udp-lat/8", 1.25),
        Comparison("hosts-send-lat/4096", "hosts-udp-lat/4096", 1.25),
        Comparison("hosts-send-bw/1024", "hosts-udp-bw/1024", .8),
        Comparison("hosts-send-bw/4096", "hosts-udp-bw/4096", .85),
        Comparison("hosts-send-bw/4096", "hosts-udp-icrc-bw/4096", .85),
        Comparison("hosts-write-bw/4096", "hosts-udp-bw/4096", .85),
        Comparison("hosts-read-bw/4096", "hosts-udp-bw/4096", .85),
        Comparison("hosts-write-bw/4096", "hosts-tcp-bw", 1.7),
    )),
    Section("where both sleep until something comes", (
        Comparison("send-event-lat", "tcp-lat", 1),
        Comparison("udp-event-lat", "tcp-lat", 1),
    )),
)


def shown(figure):
    if figure is None:
        return "-"
    scale, unit = {"ns": (1e3, "us"), "B/s": (1e9, "GB/s"), "1/s": (1e6, "M/s")}[figure.item.unit]
    return "%.2f %s%s" % (figure.median / scale, unit, "" if figure.is_usual else "*")


def judge(found, comparison):
    """The ratio, and whether that is what we want; None where one of the two is missing."""
    ours, other = found.get(comparison.ours), found.get(comparison.other)
    if ours is None or other is None or not other.median:
        return None, None
    ratio = ours.median / other.median
    return ratio, ratio <= comparison.goal if ours.item.unit == "ns" else ratio >= comparison.goal


def row(found, comparison, titles):
    ratio, is_met = judge(found, comparison)
    sign = "<=" if titles[comparison.ours].unit == "ns" else ">="
    print("  %-48s %11s   %-38s %11s  %6s  %s %.2f%s" % (
        titles[comparison.ours].title, shown(found.get(comparison.ours)), titles[comparison.other].title,
        shown(found.get(comparison.other)), "-" if ratio is None else "%.2f" % ratio, sign, comparison.goal,
        {None: "", True: "  yes", False: "  no"}[is_met]))


def table(found, placements, usual, missing):
    titles = {item.name: item for item in measure.items(None)}
    told = set()
    for section in SECTIONS:
        rows = [c for c in section.comparisons if c.ours in found]
        if not rows:
            continue
        print("\n%-50s %11s   %-38s %11s  %6s  %s" % (section.title, "Verbatim", "compared with", "", "ratio", "wanted"))
        for comparison in rows:
            row(found, comparison, titles)
            told |= {comparison.ours, comparison.other}
    rest = [figure for name, figure in found.items() if name not in told]
    if rest:
        print("\nbesides")
    for figure in rest:
        print("  %-48s %11s" % (figure.item.title, shown(figure)))
    print("\nplacement of the two cores: %s; compared is what was measured %s%s" % (
        ", ".join("%s %d times" % pair for pair in placements.most_common()), usual,
        "" if all(f.is_usual for f in found.values()) else " (* but not this)"))
    if usual not in ("near", "far"):
        print("others were busy on this machine or on its cores: MISTRUST these figures")
    if missing:
        print("not compared with, for want of the package: %s" % ", ".join(sorted({m.package for m in missing})))


def comparisons(found):
    for section in SECTIONS:
        for comparison in section.comparisons:
            ratio, is_met = judge(found, comparison)
            if ratio is not None:
                yield {"section": section.title, "ours": comparison.ours, "other": comparison.other,
                       "ratio": round(ratio, 4), "wanted": comparison.goal, "is_met": is_met}


def picture(folder, found):
    """Bandwidth by size and latency, within the host and over UDP."""
    def bars(names):
        return " ".join("%g" % found[n].median if n in found else "-" for n in names)
    bandwidths = ["%s %s" % (measure.size_name(s).replace(" ", ""), bars("%s-bw/%d" % (o, s) for o in ("send", "write", "read")))
                  for s in measure.SIZES]
    latencies = ["%s %s" % (measure.size_name(s).replace(" ", ""),
                            bars(["send-lat/%d" % s, "write-lat/%d" % s, "read-lat/%d" % s, "udp-send-lat/%d" % s, "udp-lat/%d" % s]))
                 for s in (8, 4096)]
    script = ['set terminal svg size 960,420 font "sans,12"', 'set output "%s"' % (folder / "results.svg"),
              "$bandwidth << END", *bandwidths, "END", "$latency << END", *latencies, "END",
              "set multiplot layout 1,2", "set style data histograms", "set style fill solid 0.8 border -1",
              'set datafile missing "-"', "set yrange [0:*]", "set grid ytics", "set key top left",
              'set title "bandwidth within the host, GB/s"',
              'plot $bandwidth using ($2/1e9):xtic(1) title "send", "" using ($3/1e9) title "write", "" using ($4/1e9) title "read"',
              'set title "latency one way, microseconds"', "set logscale y", "set yrange [0.1:*]",
              'plot $latency using ($2/1e3):xtic(1) title "send", "" using ($3/1e3) title "write", "" using ($4/1e3) title "read", '
              '"" using ($5/1e3) title "send over UDP", "" using ($6/1e3) title "plain UDP"']
    return subprocess.run(["gnuplot"], input="\n".join(script) + "\n", text=True, capture_output=True).returncode == 0


def results(found, placements, usual):
    return {
        "placements": dict(placements), "compared": usual,
        "results": [{"name": name, "title": f.item.title, "unit": f.item.unit, "median": f.median, "least": f.least,
                     "most": f.most, "samples": f.count, "is_compared": f.is_usual} for name, f in found.items()],
        "comparisons": list(comparisons(found)),
    }


def write(folder, measured, found, machine, rounds):
    everything = {"kernel": os.uname().release, "processors": os.cpu_count(), "device": machine.device,
                  "address": machine.address, "rounds": rounds, **measured}
    with open(folder / "results.json", "w", encoding="utf-8") as out:
        json.dump(everything, out, indent=2)
        out.write("\n")
    print("\nwritten: %s" % (folder / "results.json"))
    has_drawn = any(name in found for name in ("send-bw/1024", "send-lat/8", "udp-send-lat/8"))
    if has_drawn and not shutil.which("gnuplot"):
        print("no picture: gnuplot is not installed (apt-get install gnuplot-nox)")
    elif has_drawn:
        print("written: %s" % (folder / "results.svg") if picture(folder, found) else "no picture: gnuplot could not draw it")
