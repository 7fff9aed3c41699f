#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# bench.sh BUILD: `verbatim bench` measures, compares and writes what it says; and says what it lacks. No figure is judged.
set -eu
verbatim=$1/bin/verbatim
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $*" >&2; exit 1; }

"$verbatim" bench --rounds 2 --only process --output "$work/out" >"$work/table" 2>"$work/progress" || fail "$(cat "$work/progress")"
[ "$(grep -v "^once more, as the cores had moved" "$work/progress")" = "round 1 of 2
round 2 of 2" ] || fail "the progress of two rounds: $(cat "$work/progress")"
grep -q "SEND 8 B within a process .* us" "$work/table" || fail "no latency: $(cat "$work/table")"
python3 - "$work/out/results.json" <<'END' || fail "$(cat "$work/out/results.json")"
import json, sys
results = json.load(open(sys.argv[1]))
median = {r["name"]: r["median"] for r in results["results"]}
sizes = 65536, 262144, 1048576
assert set(median) == {"inside-send-lat/8", "inside-write-lat/8", *(
    "%s/%d" % (what, size) for what in ("memcpy", "inside-send-bw", "inside-write-bw") for size in sizes)}, median
assert all(v > 0 for v in median.values()) and all(r["least"] <= r["median"] <= r["most"] for r in results["results"])
assert len(results["comparisons"]) == 6
for c in results["comparisons"]:
    assert abs(c["ratio"] - median[c["ours"]] / median[c["other"]]) < 1e-3 and c["is_met"] == (c["ratio"] >= c["wanted"]), c
assert 2 * len(median) <= sum(results["placements"].values()) <= 8 * len(median)
END

! "$verbatim" bench --only nonsense 2>"$work/error" || fail "a group that is none"
grep -q "nonsense" "$work/error" || fail "does not name the group: $(cat "$work/error")"
! "$verbatim" bench --rounds 0 2>"$work/error" || fail "no round"
! "$verbatim" bench --only process --address 192.0.2.77 --output "$work/out" 2>"$work/error" || fail "an address that is nobody's"
grep -q "192.0.2.77" "$work/error" || fail "does not name the address: $(cat "$work/error")"
! "$verbatim" bench --only process --output "$work/error" 2>"$work/error.file" || fail "a file for its directory"
grep -q "$work/error is a file" "$work/error.file" || fail "does not name the file: $(cat "$work/error.file")"
mkdir "$work/path"
ln -s /usr/bin/python3 "$work/path/python3"
! PATH=$work/path "$verbatim" bench --only host --output "$work/none" 2>"$work/error" || fail "it measures without perftest"
grep -q "apt-get install perftest" "$work/error" || fail "does not name the package: $(cat "$work/error")"
[ ! -e "$work/none" ] || fail "it wrote something"

# What the cores' moving left with too few figures in the placement that is compared is measured once more, and only that.
PYTHONDONTWRITEBYTECODE=1 python3 - "$(dirname "$0")/../../bench" <<'END' || fail "what is measured once more"
import collections, importlib.machinery, importlib.util, sys
sys.path.insert(0, sys.argv[1])
loader = importlib.machinery.SourceFileLoader("bench", sys.argv[1] + "/bench")
bench = importlib.util.module_from_spec(importlib.util.spec_from_loader("bench", loader))
loader.exec_module(bench)
Item = collections.namedtuple("Item", "name")
samples = {
    "enough": [(1., "near"), (1., "near"), (9., "far")],
    "moved": [(1., "near"), (9., "mixed"), (9., "far")],
    "failed once": [(1., "near"), (None, "near")],
    "cannot be": [(None, "near"), (None, "near")],
}
assert [i.name for i in bench.lacking([Item(n) for n in samples], samples, 2)] == ["moved", "failed once"]

# A core that is half another machine's is no placement to compare in, as long as there is another one.
import placement
assert [placement.placement(*probes) for probes in ((70, 500, 500), (180, 500, 500), (280, 550, 500), (280, 900, 500), (5000, 500, 500))] == [
    "near", "near", "far", "shared", "busy"]
assert placement.usual_of({"a": [(1., "shared"), (1., "shared"), (1., "mixed"), (2., "far")]})[1] == "far"
assert placement.usual_of({"a": [(1., "shared"), (1., "mixed"), (1., "mixed")]})[1] == "shared"

# What many queue pairs cost is compared with what few do while the cores stood alike.
import json, scale
times = {10: [50, 100, 104, 108] + 5 * [900] + 6 * [104], 1000: [900, 120, 124, 130] + 5 * [50] + 6 * [124], 1: [70, 90, 80]}
wheres = {10: ["mixed"] + 3 * ["far"] + 5 * ["shared"] + 6 * ["far"], 1000: ["near"] + 3 * ["far"] + 5 * ["shared"] + 6 * ["far"],
          1: 3 * ["near"]}
class Machine:
    here = ""
    def ours(self, *command):
        return command
    def output(self, command, limit):
        self.count = int(command[2])
        return json.dumps({"message_ns": times[self.count].pop(0), "end_ns": 5})
class Probe:
    def __init__(self, machine):
        self.machine = machine
    def sample(self, run):
        return run(), wheres[self.machine.count].pop(0)
placement.Probe = Probe
found, usual = scale.in_turn(Machine(), (1, 10, 1000), 3)
assert usual == "far" and [found[n]["message_ns"] for n in (1, 10, 1000)] == [70, 104, 124], (found, usual)
assert not times[10] and not times[1000]  # so many until nine of them stood alike, and no more
times, wheres = {10: 60 * [100], 1000: 60 * [200]}, {10: 60 * ["shared"], 1000: 60 * ["shared"]}
found, usual = scale.in_turn(Machine(), (10, 1000), 1)
assert usual == "shared" and found[1000]["message_ns"] == 200 and len(times[10]) == 60 - scale.PAIRED_MOST  # within reason
END

# Who measures between two hosts finds their ports up.
[ "$(id -u)" != 0 ] || PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$(dirname "$0")/../../bench python3 - >"$work/two" <<'END' || fail "two hosts: $(cat "$work/two")"
import hosts
two = hosts.Hosts()
states = [two.ip("-n", name, "-o", "link", "show", "dev", interface) for name, interface in zip(two.names, two.interfaces)]
print("\n".join(states))
assert all(" state UP " in state for state in states)
END
