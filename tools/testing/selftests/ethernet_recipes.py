# SPDX-License-Identifier: GPL-2.0-only
"""The guide's recipes for Ethernet, as they stand there: libvirt, Podman, ifupdown."""

import os
import shutil
import socket

from lib import (Failed, cmd, defer, ip, ksft_eq, ksft_in, need_modules, ping, ping_ok,
                 read, slow, timeout, wait_until)
from lib.ethernet import Bridged, Ethernet, Guest, Lower, guide_blocks, load, reach
from lib.ksft import Skip
from lib.nested import FILES, Shell, Talk
from lib.users import addresses, file, link, name_of, peer, service
from ethernet_nested import from_machine, to_machine

BOOT = {"hcas": 3, "image": True, "mem": 3072, "needs": "ethernet iproute2 nested",
        "seconds": 200}
GROUPS = ("ethernet",)

MIB = 1 << 20


def host():
    """The peer, and the host's interface under the guide's name, without addresses."""
    there, below = peer(), Lower(name_of(0))
    load()
    below.rename("ib0")
    ip("link set ib0 up")
    return there, below


# ---- libvirt ------------------------------------------------------------------------

HOME = "/run/libvirt.test"
BOOTED = "/var/lib/libvirt/boot"
# What a guest has besides a card
DOMAIN = f"""<domain type='kvm'>
  <name>guest</name>
  <memory unit='MiB'>96</memory>
  <os>
    <type arch='x86_64' machine='pc'>hvm</type>
    <kernel>{BOOTED}/vmlinuz</kernel>
    <initrd>{BOOTED}/initramfs</initrd>
    <cmdline>console=ttyS0 panic=-1 nokaslr mitigations=off quiet</cmdline>
  </os>
  <cpu mode='host-passthrough'/>
  <devices>
    <emulator>/usr/bin/qemu-system-x86_64</emulator>
    <controller type='usb' model='none'/>
    <serial type='file'><source path='{HOME}/console'/><target port='0'/></serial>
    <serial type='unix'>
      <source mode='bind' path='{HOME}/talk'/><target port='1'/>
    </serial>
    <memballoon model='none'/>
  </devices>
</domain>
"""


def virsh(words):
    """A command as one types it in the directory of the files."""
    return cmd(["sh", "-c", f"cd {HOME} && {words}"], timeout=slow(60)).stdout


def libvirt():
    """libvirt, with the guest and files of the guide."""
    need_modules("kvm_amd", "vhost_net", "tun", "macvtap")
    files = guide_blocks("libvirt", "xml") + guide_blocks("macvtap for QEMU", "xml")
    for name, text in zip(("infiniband.xml", "nic.xml", "direct.xml"), files,
                          strict=True):
        file(f"{HOME}/{name}", text)
    file(f"{HOME}/domain.xml", DOMAIN)
    for name in ("vmlinuz", "initramfs"):
        os.makedirs(BOOTED, exist_ok=True)
        shutil.copy(os.path.join(FILES, name), BOOTED)
    file("/etc/libvirt/qemu.conf", 'security_driver = "none"\n'
         'user = "root"\ngroup = "root"\n')
    for unit in ("virtlogd", "libvirtd"):
        service(unit, 90)
    virsh("virsh define domain.xml")
    defer(virsh, "virsh destroy guest; virsh undefine guest")


def started():
    """The guest runs, has addresses, and is talked to."""
    virsh("virsh start guest")
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(f"{HOME}/talk")
    machine = Shell(Talk(sock), f"{HOME}/console", "10.0.0.40", "fd00::40")
    machine.boot()
    pid = read("/run/libvirt/qemu/guest.pid")
    ksft_in("vhost", read(f"/proc/{pid}/cmdline"))
    return machine


def talks(machine, there):
    """With a peer, both ways."""
    for address in (there.v4, there.v6):
        machine.run(f"ping -c 3 -W 5 {address}", 40)
    ping_ok(there.ns, machine.v6, limit=10)
    to_machine(there, machine, machine.v4, MIB)
    from_machine(machine, there, there.v6, MIB)


@timeout(500)
def test_libvirt():
    """A guest of libvirt's on a network of it, and on a macvtap that libvirt makes."""
    there, below = host()
    ethernet = Ethernet(below)
    libvirt()
    for line in guide_blocks("libvirt")[0].split("\n\n")[0].splitlines():
        virsh(line.replace("GUEST", "guest"))
    defer(virsh, "virsh net-destroy infiniband; virsh net-undefine infiniband")
    machine = started()
    ksft_eq(read("/sys/class/net/vnet0/mtu"), "2044")
    ksft_in(" mtu 2044 ", machine.run("ip link show eth0"))
    talks(machine, there)
    virsh("virsh destroy guest")
    virsh("virsh detach-device guest nic.xml --config")
    ip(f"link set {ethernet.ifname} nomaster")
    virsh("virsh attach-device guest direct.xml --config")
    talks(started(), there)


# ---- Podman -------------------------------------------------------------------------


def podman(*words, limit=60):
    """Containers as they are made by hand, on a file system that is one of layers."""
    return cmd(["podman", "--storage-driver", "vfs", *words], timeout=slow(limit)).stdout


def image():
    """An image with busybox."""
    top = "/run/podman.test"
    os.makedirs(f"{top}/bin", exist_ok=True)
    shutil.copy("/bin/busybox", f"{top}/bin/busybox")
    for name in ("sh", "ping", "ip", "wget"):
        if not os.path.lexists(f"{top}/bin/{name}"):
            os.symlink("busybox", f"{top}/bin/{name}")
    cmd(f"tar -C {top} -c . | podman --storage-driver vfs import - busybox",
        timeout=slow(60))


@timeout(300)
def test_podman():
    """Containers on a network of macvlans, by the guide's command."""
    if "-ipoib-" in os.uname().release:
        raise Skip("netavark cannot read the release of a kernel of our own")
    there, below = host()
    Ethernet(below, bridge=None)
    image()
    typed = guide_blocks("macvlan for containers")[1]
    ksft_in("podman network create", typed)
    cmd(["sh", "-c", typed], timeout=slow(60))
    defer(cmd, ["podman", "network", "rm", "-f", "ibnet"], fail=False,
          timeout=slow(60))
    said = podman("run", "--rm", "--cap-add", "NET_RAW", "--network", "ibnet",
                  "busybox", "sh", "-c",
                  f"ip addr show eth0; ping -c 3 -W 5 {there.v4}")
    ksft_in("10.0.0.1", said)
    ksft_in("3 packets received", said)


# ---- ifupdown ----------------------------------------------------------------------


@timeout(200)
def test_ifupdown():
    """The guide's /etc/network/interfaces: ifup and ifdown."""
    there, below = host()
    ip("link set ib0 down")
    file("/etc/network/interfaces", guide_blocks("A bridge with ifupdown")[0])
    names = ["ib0", "eib0", "vmbr0"]
    cmd(["ifup", *names], timeout=slow(60))
    down = defer(cmd, ["ifdown", *reversed(names)], timeout=slow(60))
    wait_until(lambda: addresses("vmbr0") == {"10.0.0.1", "fd00::1"}, 20,
               "the bridge's addresses")
    guest = Guest(Bridged(below, "vmbr0"), 41)
    defer(guest.drop)
    reach(guest, there)
    wait_until(lambda: ping(there.ns, "10.0.0.1", limit=1), 15, "an answer")
    guest.drop()
    down.exec()
    if link("vmbr0") or link("eib0"):
        raise Failed("ifdown leaves what ifup has made")
