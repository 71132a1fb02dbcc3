# SPDX-License-Identifier: GPL-2.0-only
"""A host whose network is looked after by the programs of its distribution."""

import json
import os
import re

from common import ROOT as TREE
from .fabric import port
from .ipoib import End, iface_of
from .ksft import Failed, case_failed, defer, ksft_eq, ksft_pr
from .netns import ROOT
from .traffic import Stream
from .utils import cmd, ip, slow, wait_until


# Of the host, where a case gives it addresses, and of a child; the recipes have them
V4, V6 = "10.0.0.1", "fd00::1"
CHILD_V4 = "10.1.7.1"
RECIPES = os.path.join(TREE, "Documentation", "guide", "recipes")


def recipe(name, words=None):
    """
    A recipe of the guide, as people copy it; @words has those that are to be
    others here: {word of the recipe: another one}.
    """
    with open(os.path.join(RECIPES, name), encoding="utf-8") as file:
        text = file.read()
    for word in words or ():
        if word not in text:
            raise Failed(f"recipe {name} has no {word!r}")
    # All at once: the one that is put in may be another one's word.
    return re.sub("|".join(map(re.escape, words)), lambda found: words[found[0]],
                  text) if words else text


def peer(number=None, net=0):
    """
    A host in a namespace, at the last HCA or @number, until the end of the case.
    Its address ends with 9.
    """
    end = End("peer", port(number if number is not None else 1), 9, net)
    end.setup()
    defer(end.drop)
    end.wait_carrier()
    return end


def name_of(number):
    """The interface of an HCA, in the first network namespace."""
    return wait_until(lambda: (iface_of(port(number)) or (0, None))[1], 20,
                      f"the interface of HCA {number}")


def host():
    """The peer, and the host's interface with its addresses, until the case ends."""
    there, here = peer(), name_of(0)
    ROOT.sysctl("net.ipv4.ping_group_range", "0 2147483647")
    for address in (f"{V4}/24", f"{V6}/64 nodad"):
        ip(f"addr add {address} dev {here}")
    ip(f"link set {here} up")
    defer(ip, f"addr flush dev {here} scope global")
    for address in (there.v4, there.v6):
        answers(address)
    return there, here


def service(name, limit=60):
    """
    A service runs until the end of the case, by its own unit.  If the case fails,
    what the service wrote is printed.
    """
    def tell():
        if case_failed():
            ksft_pr(cmd(["journalctl", "-u", name, "-n", "30", "--no-pager",
                         "-o", "short-monotonic"], fail=False,
                        timeout=slow(30)).stdout)

    cmd(["systemctl", "start", name], timeout=slow(limit))
    stop = defer(cmd, ["systemctl", "stop", name], fail=False,
                 timeout=slow(limit))
    # Before it; what goes wrong here does not leave the service running.
    defer(tell)
    return stop


def link(name):
    """What ip(8) says of an interface; None if it is not there."""
    done = ip(f"-j -d link show dev {name}", fail=False)
    return None if done.ret else json.loads(done.stdout)[0]


def kind(name):
    """(P_Key, mode, MTU) of an IPoIB interface."""
    found = link(name)
    data = found["linkinfo"]["info_data"]
    key = data.get("key", data.get("pkey"))
    return int(str(key), 0), data["mode"], found["mtu"]


def addresses(name):
    """Those that programs or people gave to an interface."""
    done = ip(f"-j addr show dev {name} scope global", fail=False)
    if done.ret:
        return set()
    return {entry["local"] for each in json.loads(done.stdout)
            for entry in each.get("addr_info", ()) if entry}


def answers(target, limit=30):
    """An address answers to the host."""
    wait_until(lambda: cmd(["ping", "-c", "1", "-W", "1", target],
                           fail=False).ret == 0, limit, f"a reply of {target}")


def file(path, text, mode=0o644):
    """A configuration file until the end of the case."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as out:
        out.write(text)
    os.chmod(path, mode)
    return defer(lambda: os.path.exists(path) and os.unlink(path))


def dnsmasq(there, *options):
    """A DHCP server at the peer; the addresses that it gives to anybody."""
    file("/run/dnsmasq.test.conf", recipe("dnsmasq.conf", {"ib0": there.ifname}))
    cmd(["ip", "netns", "exec", there.ns.name, "dnsmasq",
         "--conf-file=/run/dnsmasq.test.conf", "--leasefile-ro",
         "--pid-file=/run/dnsmasq.test", *options])
    defer(cmd, "kill $(cat /run/dnsmasq.test)", fail=False)
    return {f"10.0.0.{last}" for last in range(100, 121)}


def restarted(daemon, there, here, taken_over, limit=40):
    """A daemon is restarted: addresses of the host and a stream stay."""
    answers(there.v4)
    stream = Stream(None, there, rate=1 << 20, src_ns=ROOT)
    cmd(["systemctl", "restart", daemon], timeout=slow(60))
    wait_until(taken_over, limit, f"{here}, taken over")
    ksft_eq(addresses(here), {V4, V6})
    stream.wait_progress()
    stream.finish()


def ssh_server(there):
    """sshd at the peer, until the end of the case: "ssh peer" logs in."""
    key = "/run/users.key"
    cmd(f"ssh-keygen -A && mkdir -p /run/sshd /root/.ssh && rm -f {key}* && "
        f"ssh-keygen -q -t ed25519 -N '' -f {key} && cp {key}.pub {key}.known && "
        f"chmod 600 {key}.known", timeout=slow(60))
    file("/root/.ssh/config", f"""
Host peer
    HostName {there.v4}
    Port 2222
    User root
    IdentityFile {key}
    StrictHostKeyChecking no
    UserKnownHostsFile /dev/null
    LogLevel ERROR
""", 0o600)
    cmd(["/usr/sbin/sshd", "-p", "2222", "-o", "StrictModes no", "-o",
         f"AuthorizedKeysFile {key}.known", "-o", "PidFile /run/users.sshd"],
        ns=there.ns)
    defer(cmd, "kill $(cat /run/users.sshd)", fail=False)
