# SPDX-License-Identifier: GPL-2.0-only
"""Storage of the kernel on the fabric: every byte comes back as it was."""

import glob
import hashlib
import os
import re

from lib import (Stream, cmd, defer, ends, exists, ksft_eq, ksft_in, ksft_le,
                 ksft_pr, need_modules, port, read, slow, timeout, wait_until,
                 write)
from lib.fabric import Crossed
from lib.one_net import OneNet
from lib.trouble import Trouble

BOOT = {"hcas": 2, "needs": "verbs-tools", "mem": 2048, "seconds": 110}
GROUPS = ("verbs",)

CONFIGFS = "/sys/kernel/config"
MIB = 1 << 20
SERVICE = 0x0002c90300abcdef


def configfs():
    """What LIO and nvmet are set up with."""
    cmd(["modprobe", "configfs"])
    if not os.path.ismount(CONFIGFS):
        cmd(["mount", "-t", "configfs", "none", CONFIGFS])


def make(path, **values):
    """A directory of configfs, and what to write to its files."""
    os.mkdir(path)
    defer(os.rmdir, path)
    for name, value in values.items():
        write(f"{path}/{name}", value)
    return path


def link(target, path):
    os.symlink(target, path)
    defer(os.unlink, path)


def tree(where, megabytes):
    """Files of many sizes; their digests by name."""
    digests = {}
    for number, size in enumerate((0, 1, 4095, 4096, 65537, MIB,
                                   megabytes * MIB)):
        data = os.urandom(size)
        name = f"file{number}"
        with open(f"{where}/{name}", "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        digests[name] = hashlib.sha256(data).hexdigest()
    return digests


def digests_of(where):
    found = {}
    for path in glob.glob(f"{where}/file*"):
        with open(path, "rb") as file:
            found[os.path.basename(path)] = \
                hashlib.sha256(file.read()).hexdigest()
    return found


def inside(host, *args, **how):
    """
    A command in a host's network.  What it mounts stays, which it does not
    with "ip netns exec".
    """
    return cmd(["nsenter", f"--net=/run/netns/{host.ns.name}", *args], **how)


def available():
    """MiB of memory that can be had."""
    found = re.search(r"MemAvailable: *(\d+)", read("/proc/meminfo"))
    return int(found.group(1)) >> 10


def little_memory(left):
    """All but so many MiB are taken, by a file that cannot be swapped out."""
    where = "/run/hog"
    os.makedirs(where, exist_ok=True)
    cmd(["mount", "-t", "tmpfs", "-o", "size=100%", "hog", where])
    hog = defer(cmd, ["umount", where])
    with open(f"{where}/hog", "wb") as file:
        while available() > left:
            file.write(bytes(MIB))
    return hog


def trouble(where, stream):
    """fio that verifies, while cables are pulled and the SM changes."""
    rounds = Trouble(port(0), port(1), stream).beside(lambda: cmd(
        ["fio", "--name=trouble", f"--directory={where}", "--size=4M",
         "--rw=randwrite", "--bsrange=512-128k", "--verify=crc32c",
         "--ioengine=psync", "--direct=1", "--end_fsync=1"],
        timeout=slow(120)))
    ksft_pr(f"{rounds} rounds of fio")


def file_system(device, megabytes, stream):
    """A file system on a device of the fabric, and fio that verifies."""
    start = Crossed()
    cmd(["mkfs.ext4", "-q", "-F", device], timeout=slow(60))
    where = "/run/mnt"
    os.makedirs(where, exist_ok=True)
    cmd(["mount", device, where])
    mounted = defer(cmd, ["umount", where])
    digests = tree(where, megabytes)
    cmd(["fio", "--name=verify", f"--directory={where}", "--size=8M",
         "--rw=randrw", "--bsrange=512-128k", "--verify=crc32c",
         "--ioengine=psync", "--numjobs=2", "--fsync=16", "--end_fsync=1",
         "--group_reporting"], timeout=slow(120))
    trouble(where, stream)
    mounted.exec()
    write("/proc/sys/vm/drop_caches", "3")
    cmd(["mount", "-o", "ro", device, where])
    mounted = defer(cmd, ["umount", where])
    ksft_eq(digests_of(where), digests)
    mounted.exec()
    start.check(megabytes * MIB)


def ramdisk(megabytes):
    """A disk of LIO in memory."""
    need_modules("target_core_mod")
    configfs()
    if not exists(f"{CONFIGFS}/target/core/rd_mcp_0"):
        make(f"{CONFIGFS}/target/core/rd_mcp_0")
    return make(f"{CONFIGFS}/target/core/rd_mcp_0/disk",
                control=f"rd_pages={megabytes * MIB // 4096}", enable="1")


def hexgid(where):
    return "0x" + where.gid().replace(":", "")


@timeout(240)
def test_srp():
    """SRP: a disk of one port, a file system on it at the other one."""
    # By default the node GUID, but the CM keeps 0x02... for itself.
    need_modules(f"ib_srpt srpt_service_guid={SERVICE:#x}", "ib_srp", "sd_mod")
    pair = ends()
    target, initiator = pair.a.port, pair.b.port
    disk = ramdisk(64)
    if not exists(f"{CONFIGFS}/target/srpt"):
        make(f"{CONFIGFS}/target/srpt")
    make(f"{CONFIGFS}/target/srpt/{hexgid(target)}")
    tpg = make(f"{CONFIGFS}/target/srpt/{hexgid(target)}/tpgt_1")
    lun = make(f"{tpg}/lun/lun_0")
    link(disk, f"{lun}/disk")
    acl = make(f"{tpg}/acls/0x{0:016x}{initiator.guid():016x}")
    link(lun, f"{make(f'{acl}/lun_0')}/lun")
    write(f"{tpg}/enable", "1")
    defer(write, f"{tpg}/enable", "0")

    host = f"/sys/class/infiniband_srp/srp-{initiator.hca.name}-1"
    wait_until(lambda: exists(host), 5, "an initiator")
    write(f"{host}/add_target",
          f"id_ext={SERVICE:016x},ioc_guid={SERVICE:016x},"
          f"dgid={hexgid(target)[2:]},pkey=ffff,service_id={SERVICE:016x}")
    rport = wait_until(lambda: glob.glob("/sys/class/srp_remote_ports/port-*"),
                       5, "a remote port")[0]
    defer(write, f"{rport}/delete", "1")
    device = wait_until(lambda: block_device("LIO-ORG"), 10, "a disk")
    file_system(device, 16, Stream(pair.a, pair.b, rate=MIB))


def block_device(vendor):
    """The SCSI disk of this vendor."""
    for path in glob.glob("/sys/block/sd*"):
        if read(f"{path}/device/vendor").startswith(vendor):
            name = f"/dev/{os.path.basename(path)}"
            return name if exists(name) else None
    return None


@timeout(240)
def test_nvme():
    """NVMe over fabrics: a file system on a disk behind the fabric."""
    need_modules("nvmet-rdma", "nvme-rdma",
                 "null_blk nr_devices=1 gb=1 memory_backed=1")
    configfs()
    net = OneNet()
    top = f"{CONFIGFS}/nvmet"
    subsystem = make(f"{top}/subsystems/test", attr_allow_any_host="1")
    make(f"{subsystem}/namespaces/1", device_path="/dev/nullb0", enable="1")
    where = make(f"{top}/ports/1", addr_trtype="rdma", addr_adrfam="ipv4",
                 addr_traddr=net.addresses[1], addr_trsvcid="4420")
    link(subsystem, f"{where}/subsystems/test")
    write("/dev/nvme-fabrics",
          f"transport=rdma,traddr={net.addresses[1]},trsvcid=4420,"
          f"host_traddr={net.addresses[0]},nqn=test,nr_io_queues=2")
    controller = wait_until(lambda: glob.glob("/sys/class/nvme/nvme*"), 5,
                            "a controller")[0]
    defer(write, f"{controller}/delete_controller", "1")
    device = f"/dev/{os.path.basename(controller)}n1"
    wait_until(lambda: exists(device), 10, "a disk")
    file_system(device, 16, net.stream(rate=MIB))


@timeout(240)
def test_nfs():
    """NFS over RDMA: a tree is copied there and back, with little memory."""
    need_modules("rpcrdma", "nfsd", "nfs")
    pair = ends()
    start = Crossed(pair.a.port, pair.b.port)
    export = "/run/export"
    os.makedirs(export, exist_ok=True)
    cmd(["mount", "-t", "tmpfs", "-o", "size=200m", "export", export])
    defer(cmd, ["umount", export])
    server = f"""
        set -e
        mount -t nfsd nfsd /proc/fs/nfsd
        mkdir -p /var/lib/nfs/v4recovery
        echo 10 > /proc/fs/nfsd/nfsv4leasetime
        echo 10 > /proc/fs/nfsd/nfsv4gracetime
        exportfs -o rw,no_root_squash,fsid=0,insecure,no_subtree_check,async \
            '*:{export}'
        rpc.mountd --no-udp -N 3
        rpc.nfsd --no-udp -N 3 --rdma=20049 4
    """
    inside(pair.b, "sh", "-c", server, timeout=slow(30))
    defer(inside, pair.b, "sh", "-c",
          "rpc.nfsd 0; exportfs -ua; pkill rpc.mountd; umount /proc/fs/nfsd",
          fail=False)
    where = "/run/mnt"
    os.makedirs(where, exist_ok=True)
    mount = ["mount", "-t", "nfs4", "-o",
             "rdma,port=20049,vers=4.2,rsize=262144,wsize=262144",
             f"{pair.b.v4}:/", where]
    inside(pair.a, *mount, timeout=slow(30))
    mounted = defer(cmd, ["umount", "-l", where])
    ksft_in("proto=rdma", read("/proc/mounts"))
    hog = little_memory(128)
    digests = tree(where, 32)
    trouble(where, Stream(pair.a, pair.b, rate=MIB))
    mounted.exec()
    ksft_eq(digests_of(export), digests, "at the server")
    write("/proc/sys/vm/drop_caches", "3")
    inside(pair.a, *mount, timeout=slow(30))
    defer(cmd, ["umount", "-l", where])
    ksft_eq(digests_of(where), digests, "read back")
    ksft_le(available(), 192, "MiB of memory")
    hog.exec()
    start.check(32 * MIB)
