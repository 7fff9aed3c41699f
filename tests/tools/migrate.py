# SPDX-License-Identifier: BSD-2-Clause
"""migrate.py SOCKETS DUMPS MIB PIN: have the machine at SOCKETS/source.qmp migrate to the one at target.qmp, then dump the memory of both."""
import json
import os
import socket
import sys
import time

sockets, dumps, mib, pin = sys.argv[1:]


def machine(name):
    """A function that has the machine of this name execute a command, and returns the answer."""
    path = os.path.join(sockets, name + ".qmp")
    line = socket.socket(socket.AF_UNIX)
    for _ in range(500):
        try:
            line.connect(path)
            break
        except OSError:
            time.sleep(0.02)
    lines = line.makefile("rw")
    lines.readline()

    def execute(command, **arguments):
        lines.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
        lines.flush()
        while True:
            answer = json.loads(lines.readline())
            if "return" in answer:
                return answer["return"]
            if "error" in answer:
                sys.exit(f"{name}: {command}: {answer['error']}")

    execute("qmp_capabilities")
    execute("migrate-set-capabilities", capabilities=[{"capability": "rdma-pin-all", "state": pin == "true"}])
    execute("migrate-set-parameters", **{"max-bandwidth": 10**10})
    return execute


source, target = machine("source"), machine("target")
source("migrate", uri="rdma:10.99.1.1:4444")
status = {}
for _ in range(600):
    status = source("query-migrate")
    if status.get("status") in ("completed", "failed"):
        break
    time.sleep(0.1)
print(status)
if status.get("status") != "completed":
    sys.exit(1)
for _ in range(100):
    if target("query-status")["status"] != "inmigrate":
        break
    time.sleep(0.1)
for name, execute in ("source", source), ("target", target):
    execute("pmemsave", val=0, size=int(mib) << 20, filename=os.path.join(dumps, name + ".ram"))
    execute("quit")
