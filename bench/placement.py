# SPDX-License-Identifier: BSD-2-Clause
"""How the two cores of a virtual machine stand while something is measured.

They move: now two share a cache, now they don't, and everything between two processes is up to three times as fast or
slow; and now a virtual core has a real one, now it shares one with another machine's, and is half as fast. So each
measurement is enclosed by probes (a word bounced from core to core, and sums on both), and only those of one placement
are compared."""
import collections

NEAR_NS, FAR_NS = 200, 1000  # a hop from core to core, at most; beyond that others were busy there
UNDISTURBED = ("near", "far")  # placements in which the cores were this machine's alone
SHARED = 1.2  # times as long as at best a step takes where others have a part of the core


def placement(hop, pace, best):
    """How the two cores stand; `best` is the least that a step took in this run."""
    if pace > SHARED * best:
        return "shared"
    return "near" if hop < NEAR_NS else "far" if hop < FAR_NS else "busy"


class Probe:
    def __init__(self, machine):
        self.machine = machine
        self.best = min(machine.pace() for _ in range(20))

    def placement(self):
        pace = self.machine.pace()
        self.best = min(self.best, pace)
        return placement(self.machine.hop(), pace, self.best)

    def sample(self, run):
        """What it returns and the placement that was in; once more when that changed meanwhile, or the cores were others' too."""
        for _ in range(2):
            before = self.placement()
            value = run()
            after = self.placement()
            if before == after in UNDISTURBED or value is None:
                break
        return value, before if before == after else "mixed"


def usual_of(samples):
    """How often each placement was met, and the one that is compared: the most frequent of those where the cores were
    this machine's alone, if there is any such sample."""
    placements = collections.Counter(where for all_of_one in samples.values() for _, where in all_of_one)
    order = sorted(placements, key=lambda where: (where not in UNDISTURBED, where == "mixed", -placements[where]))
    return placements, order[0] if order else "mixed"
