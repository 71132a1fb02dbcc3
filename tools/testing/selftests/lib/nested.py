# SPDX-License-Identifier: GPL-2.0-only
"""
Real guests: QEMU and KVM in the test's machine, with virtio's network card behind a tap
or a macvtap.  What a guest runs it is told over a serial port.

The test's machine is emulated, and with it the means of an AMD CPU for KVM.  So a guest
is emulated as fast as its host; by TCG within TCG it takes minutes to boot.
"""

import json
import os
import socket
import subprocess
import time

from common import ROOT as TREE
from .ksft import Failed, defer, ksft_eq
from .tap import macvtap, tap
from .utils import ip, need_modules, read, slow, wait_until

QEMU = "qemu-system-x86_64"
FILES = os.path.join(TREE, "build", "nested")
MEMORY = 96
BOOT = 200
TENTATIVE, DADFAILED = 0x40, 0x08


class Talk:
    """A socket of QEMU's, line by line; one that is there, or one of a pair."""

    def __init__(self, sock=None):
        self.theirs = None
        if sock:
            self.sock = sock
        else:
            self.sock, self.theirs = socket.socketpair()
        self.data = b""

    def send(self, text):
        self.sock.sendall(text.encode() + b"\n")

    def until(self, end, limit):
        """What comes until a line that @end tells by."""
        stop, found = time.monotonic() + slow(limit), []
        while True:
            while b"\n" not in self.data:
                self.sock.settimeout(max(0.1, stop - time.monotonic()))
                try:
                    more = self.sock.recv(65536)
                except TimeoutError:
                    more = b""
                if not more:
                    raise Failed(f"no end of {found} {self.data}")
                self.data += more
            line, self.data = self.data.split(b"\n", 1)
            found.append(line.decode(errors="replace").rstrip("\r"))
            if end(found[-1]):
                return found


class Shell:
    """What a machine runs, told over a serial port: @talk is QEMU's end of that."""

    def __init__(self, talk, console, v4, v6):
        self.talk, self.console, self.commands = talk, console, 0
        self.v4, self.v6 = v4, v6

    def hear(self, end, limit):
        """What it says until a line that @end tells by."""
        try:
            return self.talk.until(end, limit)
        except Failed as error:
            raise Failed(f"{error}\n{read(self.console)[-2000:]}") from error

    def boot(self, mtu=None):
        """Wait until it runs, and give it its addresses."""
        self.hear(lambda line: line == "ready", BOOT)
        if mtu:
            self.run(f"ip link set eth0 mtu {mtu}")
        self.run("ip link set eth0 up")
        self.run(f"ip addr add {self.v4}/24 dev eth0")
        self.run(f"ip addr add {self.v6}/64 dev eth0")
        wait_until(self.has_v6, 20, f"{self.v6}, not tentative")

    def has_v6(self):
        """Its address is there, and nobody else had it."""
        for line in self.run("cat /proc/net/if_inet6").splitlines():
            address, _, _, _, flags, name = line.split()
            if name == "eth0" and not int(flags, 16) & (TENTATIVE | DADFAILED) and \
               socket.inet_pton(socket.AF_INET6, self.v6).hex() == address:
                return True
        return False

    def begin(self, line):
        """Let it run a command; the number of that."""
        self.commands += 1
        self.talk.send(f"{self.commands} {line}")
        return self.commands

    def end(self, number, limit=30, fail=True):
        """What a command has said."""
        said = self.hear(lambda line: line.startswith(f"{number} "), limit)
        status = said.pop().split()[1]
        text = "\n".join(said).strip()
        if fail:
            ksft_eq(status, "0", text)
        return text

    def run(self, line, limit=30, fail=True):
        """Run a command there; what it says."""
        return self.end(self.begin(line), limit, fail)


class Nested(Shell):
    """
    A machine with an address each of both families, until the case ends.  Its card is
    behind a tap in the bridge, or behind a macvtap.  An @incoming one is what another
    one of that number is going to be.
    """

    def __init__(self, ethernet, number, kind="tap", incoming=False):
        end = ethernet.end
        self.ethernet, self.kind, self.port = ethernet, kind, f"q{number}"
        super().__init__(Talk(), f"/run/{self.port}.{ethernet.ns.name}.console",
                         end.v4.rsplit(".", 1)[0] + f".{number}",
                         end.v6.rsplit(":", 1)[0] + f":{number}")
        self.mac = f"52:54:00:00:00:{number:02x}"
        self.monitor = Talk()
        self.incoming = incoming and f"unix:/run/{self.port}.incoming"
        need_modules("kvm_amd")
        file = self.plug()
        self.proc = self.start(file)
        os.close(file)
        defer(self.drop)
        self.qmp("qmp_capabilities")
        if not incoming:
            self.boot()

    def __repr__(self):
        return f"machine {self.port}"

    def plug(self):
        """The file of its port."""
        space = self.ethernet.ns
        if self.kind == "macvtap":
            file = macvtap(self.ethernet, self.port)
            self.mac = read(space.sys(f"class/net/{self.port}/address"))
            return file
        file = tap(space, self.port)
        ip(f"link set {self.port} mtu {self.ethernet.mtu()} "
           f"master {self.ethernet.bridge} up", ns=space)
        return file

    def start(self, file):
        words = [QEMU, "-nodefaults", "-no-user-config", "-no-reboot", "-display",
                 "none", "-machine", "pc,usb=off,vmport=off", "-accel",
                 "kvm", "-cpu", "host", "-m", str(MEMORY), "-kernel", f"{FILES}/vmlinuz",
                 "-initrd", f"{FILES}/initramfs", "-append",
                 "console=ttyS0 panic=-1 nokaslr mitigations=off quiet",
                 "-netdev", f"tap,id=net,fd={file}", "-device",
                 f"virtio-net-pci,netdev=net,mac={self.mac},romfile=,"
                 f"host_mtu={self.ethernet.mtu()}",
                 "-serial", f"file:{self.console}"]
        for name, talk, use in (("talk", self.talk, ("-serial", "chardev:talk")),
                                ("qmp", self.monitor,
                                 ("-mon", "chardev=qmp,mode=control"))):
            words += ["-chardev", f"socket,id={name},fd={talk.theirs.fileno()}", *use]
        if self.incoming:
            words += ["-incoming", self.incoming]
        fds = [file, self.talk.theirs.fileno(), self.monitor.theirs.fileno()]
        with self.ethernet.ns.inside():
            # pylint: disable-next=consider-using-with
            proc = subprocess.Popen(words, pass_fds=fds, stdin=subprocess.DEVNULL)
        for talk in (self.talk, self.monitor):
            talk.theirs.close()
        return proc

    def qmp(self, command, **arguments):
        """A command for QEMU itself; what that returns."""
        self.monitor.send(json.dumps({"execute": command, "arguments": arguments}))
        said = json.loads(self.monitor.until(
            lambda line: "return" in json.loads(line) or "error" in json.loads(line),
            20)[-1])
        if "error" in said:
            raise Failed(f"{command}: {said['error']}")
        return said["return"]

    def migrate(self, other):
        """Go on as @other, which waits for it; milliseconds that it stood still."""
        self.qmp("migrate", uri=other.incoming)

        def over():
            found = self.qmp("query-migrate")
            if found.get("status") in ("failed", "cancelled"):
                raise Failed(f"migration: {found}")
            return found.get("status") == "completed" and found
        other.commands = self.commands
        return wait_until(over, 60, "a migration")["downtime"]

    def drop(self):
        if self.proc.poll() is None:
            self.proc.kill()
        self.proc.wait()
