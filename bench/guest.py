# SPDX-License-Identifier: BSD-2-Clause
"""What scripts that run inside the guest have in common: perftest's two ends, and what the client printed."""
import os
import re
import subprocess
import sys
import time

MIB = 1 << 20


def shell(command):
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    if done.returncode:
        sys.exit("%s: %s: %s" % (os.path.basename(sys.argv[0]), command, done.stderr))
    return done.stdout


def verbatim(namespace, *command):
    return ["ip", "netns", "exec", namespace, os.environ["VERBATIM_COMMAND"], "run", "--", *command]


def find_gid(namespace, address):
    """Device and index, as `ibv_devinfo -v` of Verbatim has it."""
    device = None
    for line in shell(" ".join(verbatim(namespace, "ibv_devinfo", "-v"))).splitlines():
        if line.startswith("hca_id:"):
            device = line.split()[1]
        found = re.search(r"GID\[\s*(\d+)\]:\s*::ffff:([\d.]+)", line)
        if found and found[2] == address:
            return device, found[1]
    sys.exit("%s: Verbatim has no device of %s" % (os.path.basename(sys.argv[0]), address))


def is_listening(port, pid="self"):
    """In the network namespace of this process, or of another one that stays in its own."""
    for table in ("tcp", "tcp6"):
        try:
            for line in open("/proc/%s/net/%s" % (pid, table), encoding="ascii"):
                columns = line.split()
                if columns[1].endswith(":%04X" % port) and columns[3] == "0A":
                    return True
        except OSError:
            pass
    return False


def pair(server, client, is_ready, settings, limit):
    """Both ends of perftest. What the client printed, and why it is no good, if it isn't."""
    environment = dict(os.environ, **settings)
    limited = ["timeout", "-k", "2", str(limit)]
    with subprocess.Popen(limited + server, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment) as first:
        until = time.monotonic() + 10
        while time.monotonic() < until and first.poll() is None and not is_ready():
            time.sleep(.01)
        second = subprocess.run(limited + client, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)
        if second.returncode:
            first.terminate()
        first.communicate()
    words = [line.strip() for line in second.stdout.splitlines() if re.search(r"[a-z] [a-z]|\d +\d", line)]
    why = "client %d, server %d: %s" % (second.returncode, first.returncode, " / ".join(words[-4:]))
    return second.stdout, why, second.returncode or first.returncode


def third_column(printed, size):
    """Of the table's line for that size; None if there is no such number."""
    found = re.search(r"^ *%d +\d+ +(.*)" % size, printed, re.M)
    try:
        value = float(found[1].split()[2])
    except (TypeError, ValueError, IndexError):
        return None
    return value if 0 < value < float("inf") else None
