# SPDX-License-Identifier: GPL-2.0-only
"""Connected mode: switching to it, and what is known of connections."""

from .ipoib import ends
from .ksft import Failed, defer
from .traffic import neigh_flush, ping
from .utils import ip, read, slow, wait_until, write

MTU = 65520


def mode(end):
    return end.read("mode")


def set_mode(end, name):
    """By sysfs; the file may say to try again."""
    if name == "connected":
        end.need_verbs("connected mode")
    write(end.sys("mode"), name + "\n")
    if mode(end) != name:
        raise Failed(f"{end}: mode is {mode(end)} after {name} was written")


def netlink_mode(end, name, fail=True):
    """By rtnetlink, as ip link does it."""
    if fail and name == "connected":
        end.need_verbs("connected mode")
    return ip(["link", "set", "dev", end.ifname, "type",
               end.kind or "ipoib", "mode", name], ns=end.ns, fail=fail)


def counters(end):
    """What ethtool -S says."""
    found = {}
    for line in end.ethtool("-S").stdout.splitlines()[1:]:
        key, _, value = line.strip().rpartition(": ")
        found[key] = int(value)
    # What the driver counts of an HCA's own interface
    for key, value in end.state().items():
        if value.isdigit():
            found.setdefault(key, int(value))
    return found


def counter(end, name):
    return counters(end)[name]


def debugfs(end):
    root = end.kind or "ipoib"
    return f"/sys/kernel/debug/{root}/{end.ifname}_conn"


def conns(end, by=None):
    """Connections of an interface: list of dictionaries."""
    found = []
    for block in read(debugfs(end)).split("\n\n"):
        words = dict(line.strip().split(": ", 1) for line in
                     block.splitlines() if ": " in line)
        words = {key: value.strip() for key, value in words.items()}
        if words and (by is None or words["opened_by"] == by):
            found.append(words)
    return found


def gid_of(end):
    """The GID of an end as conns() has it."""
    return end.address()[4:].hex(":", 2)


def established(end, by=None):
    return [c for c in conns(end, by) if c["state"] in ("up", "answered")]


def wait_connected(src, dst, limit=15, address=None):
    """Send until @src has a connection to @dst that is up."""
    def there():
        ping(src.ns, address or dst.v4, limit=0.3)
        gid = gid_of(dst)
        return any(conn["GID"] == gid for conn in established(src, "us"))

    wait_until(there, limit, f"a connection from {src} to {dst}",
               interval=0.1)


def both_connected(pair, connect=True):
    """Both ends in connected mode until the case ends."""
    for end in pair:
        defer(to_datagram, end)
        set_mode(end, "connected")
    for end in pair:
        neigh_flush(end)
    pair.wait_ping(slow(10))
    if connect:
        wait_connected(pair.a, pair.b)
        wait_connected(pair.b, pair.a)
    return pair


def to_datagram(end):
    if end.present() and mode(end) != "datagram":
        set_mode(end, "datagram")


def connected_ends(first=0, second=1, connect=True):
    """Hosts as ends() makes them, in connected mode."""
    return both_connected(ends(first, second), connect)
