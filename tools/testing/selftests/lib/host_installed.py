# SPDX-License-Identifier: GPL-2.0-only
"""
What happens on a host with the packages installed, from one start to the next.
host_install.py has it run: cases that do not clean up.
"""

import os

from .child import child_by_ip
from .fabric import port
from .ipoib import End
from .ksft import defer, ksft_eq, ksft_false, ksft_in, ksft_pr, ksft_true, timeout
from .users import CHILD_V4, V4, V6, addresses, answers, kind, link, name_of, recipe
from .utils import cmd, read, slow, wait_until

MODULE = "/sys/module/ib_ipoib"
RELEASE = os.uname().release
OURS = f"/lib/modules/{RELEASE}/updates/dkms/ib_ipoib.ko"
KERNELS = f"/lib/modules/{RELEASE}/kernel/"
NETWORK = "/etc/systemd/network"
# NetworkManager looks after the first HCA, networkd after the second one.
HERE, THERE, PEER = 0, 1, 2
OTHER_V4, OTHER_CHILD_V4 = "10.0.5.1", "10.1.8.1"


def runs(path):
    """A file of the module is the one that modprobe takes, and that runs."""
    found = cmd(["modinfo", "-n", "ib_ipoib"]).stdout.strip()
    ksft_true(found.startswith(path), f"modinfo -n: {found}")
    wait_until(lambda: os.path.isdir(MODULE), 30, "the module")
    ksft_eq("O" in read(f"{MODULE}/taint"), path == OURS, "from outside the kernel")
    # Debian's kernels have none for their own modules, in the file neither.
    version = f"{MODULE}/srcversion"
    ksft_eq(cmd(["modinfo", "-F", "srcversion", "ib_ipoib"]).stdout.strip(),
            read(version) if os.path.exists(version) else "", "srcversion")


def keep(path, text):
    """A file that stays."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def enable(*services):
    cmd(["systemctl", "enable", "--now", *services], timeout=slow(60))


@timeout(200)
def test_configure():
    """The first start: the administrator writes profiles and enables services."""
    # rdma-core has this done for HCAs that it knows.
    keep("/etc/modules-load.d/infiniband.conf", "ib_ipoib\n")
    cmd(["modprobe", "ib_ipoib"], timeout=slow(60))
    runs(OURS)
    here, there = name_of(HERE), name_of(THERE)
    keep("/etc/NetworkManager/conf.d/networkd.conf",
         f"[keyfile]\nunmanaged-devices=interface-name:{there};interface-name:ibchild\n")
    enable("NetworkManager")
    wait_until(lambda: "running" in cmd("nmcli -t -f running general",
                                        fail=False).stdout, 30, "NetworkManager")
    for name in ("nmcli-port", "nmcli-child"):
        cmd(recipe(name, {"ib0": here}), timeout=slow(60))
    keep(f"{NETWORK}/10-ibchild.netdev",
         recipe("10-ibchild.netdev", {"0x0001": "0x8001"}))
    keep(f"{NETWORK}/20-ib0.network",
         recipe("20-ib0.network", {"Name=ib0": f"Name={there}", V4: OTHER_V4}))
    keep(f"{NETWORK}/30-ibchild.network",
         recipe("30-ibchild.network", {CHILD_V4: OTHER_CHILD_V4}))
    enable("systemd-networkd")
    comes_up()


def comes_up():
    """All profiles, with nobody's help."""
    here, there = name_of(HERE), name_of(THERE)
    child = f"{here}.8001"
    for name, wanted in ((here, {V4, V6}), (child, {CHILD_V4}), (there, {OTHER_V4}),
                         ("ibchild", {OTHER_CHILD_V4})):
        wait_until(lambda n=name, w=wanted: addresses(n) == w, 60,
                   f"addresses of {name}")
    ksft_eq(kind(here), (0xffff, "connected", 65520))
    ksft_eq(kind(child)[:2], (0x8001, "datagram"))
    ksft_eq(kind("ibchild")[:2], (0x8001, "connected"))


def peer():
    """A host that has addresses in all networks, until the end of the case."""
    end = End("peer", port(PEER), 9, 0)
    end.setup()
    defer(end.drop)
    end.wait_carrier()
    child = child_by_ip(end, 0x8001, 7)
    child.up()
    for dev, net in ((end, "10.0.5"), (child, "10.1.8")):
        end.ns.ip(f"addr add {net}.9/24 dev {dev.ifname}")
    return (end.v4, end.v6, child.v4, "10.0.5.9", "10.1.8.9")


def works():
    """All profiles are there, and packets pass."""
    comes_up()
    for address in peer():
        answers(address)


@timeout(200)
def test_profiles():
    """After a start everything comes up by itself, with our module."""
    runs(OURS)
    works()


@timeout(700)
def test_swap():
    """The modules are exchanged, by the command of the guide, and back."""
    done = peer()
    for path in (KERNELS, OURS):
        said = cmd(["ipoibctl", "swap", "--confirm-within", "0"], timeout=slow(300))
        ksft_pr(said.stdout)
        ksft_in(f"to   {path}", said.stdout)
        ksft_eq("O" in read(f"{MODULE}/taint"), path == OURS)
        comes_up()
        for address in done:
            answers(address)


@timeout(200)
def test_reload():
    """Unloaded and loaded: the services set everything up again."""
    cmd(["modprobe", "-r", "ib_ipoib"], timeout=slow(60))
    ksft_false(link("ibchild"), "a child without the module")
    cmd(["modprobe", "ib_ipoib"], timeout=slow(60))
    runs(OURS)
    works()


@timeout(500)
def test_remove():
    """The package goes; what runs is left alone."""
    cmd("dpkg --purge ib-ipoib-dkms", timeout=slow(400))
    ksft_in(KERNELS, cmd(["modinfo", "-n", "ib_ipoib"]).stdout)
    ksft_in("O", read(f"{MODULE}/taint"))
    works()


@timeout(600)
def test_kernels():
    """
    After the next start, the kernel's own module has all of it; and it is exchanged for
    a copy of itself, as for ours, whatever GUIDs networkd has made.
    """
    runs(KERNELS)
    comes_up()
    found = peer()
    for address in found:
        answers(address)
    copy = "/run/ib_ipoib.ko"
    cmd(f"xz -dc $(modinfo -n ib_ipoib) > {copy}")
    said = cmd(["ipoibctl", "swap", copy, "--confirm-within", "0"],
               timeout=slow(300)).stdout
    ksft_pr(said)
    comes_up()
    for address in found:
        answers(address)
