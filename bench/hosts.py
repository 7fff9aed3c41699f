# SPDX-License-Identifier: BSD-2-Clause
"""Two hosts: two network namespaces of this machine with a veth pair between them, each with the programs of its side."""
import atexit
import os
import re
import shutil
import subprocess
import time

import measure

ADDRESSES = ("10.99.0.1", "10.99.0.2")
MTU = 9000
UP_S = 5  # until the kernel says of an interface that it is: a second, mostly


def why_not():
    """What keeps this user from having them; None if nothing does."""
    if os.geteuid():
        return "needs root, as two hosts are two network namespaces"
    if not shutil.which("ip"):
        return "not installed: apt-get install iproute2"
    return None


class Hosts:
    def __init__(self):
        self.names = ["verbatim-bench-%d-%s" % (os.getpid(), side) for side in "ab"]
        atexit.register(self.end)
        for name in self.names:
            self.ip("netns", "add", name)
        self.interfaces = self.link()
        for name, interface, address in zip(self.names, self.interfaces, ADDRESSES):
            # a link-local address would come some seconds later, and be the first GID then
            for words in (("link", "set", "lo", "up"), ("link", "set", interface, "addrgenmode", "none"),
                          ("addr", "add", address + "/24", "dev", interface), ("link", "set", interface, "up")):
                self.ip("-n", name, *words)
        self.wait_up()

    def wait_up(self):
        """A port is down as long as its interface is said to be."""
        until = time.monotonic() + UP_S
        for name, interface in zip(self.names, self.interfaces):
            while not re.search("state (UP|UNKNOWN)", self.ip("-n", name, "-o", "link", "show", "dev", interface)):
                if time.monotonic() > until:
                    raise measure.Unusable("group hosts: %s of %s does not come up" % (interface, name))
                time.sleep(.01)

    def link(self):
        """What lies between the two. The names of its ends."""
        self.ip("link", "add", "veth-a", "mtu", str(MTU), "netns", self.names[0], "type", "veth", "peer", "veth-b", "mtu", str(MTU),
                "netns", self.names[1])
        return "veth-a", "veth-b"

    @staticmethod
    def ip(*words):
        done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
        if done.returncode:
            raise measure.Unusable("group hosts: ip %s: %s" % (" ".join(words), done.stderr.strip()))
        return done.stdout

    def end(self):
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)

    def on(self, host, command):
        """The command, on the first host (0) or the second."""
        return ("ip", "netns", "exec", self.names[host]) + tuple(command)
