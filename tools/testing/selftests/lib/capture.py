# SPDX-License-Identifier: GPL-2.0-only
"""Looking at packets: on an interface, and on the simulated wire."""

import socket
import struct
import threading
import time

from .utils import cmd, slow

ETH_P_ALL = 3
PKTTYPE = {0: "host", 1: "broadcast", 2: "multicast", 3: "otherhost",
           4: "outgoing"}


class Packet:
    """One packet of an interface."""

    def __init__(self, proto, kind, data):
        self.proto, self.kind, self.data = proto, kind, data

    def __repr__(self):
        return f"<{self.kind} {self.proto:#06x} {len(self.data)} bytes>"


class Capture:
    """Packets of an interface, from the network header on, while in a block.

    Taken by a packet socket: what GRO has merged counts as one.
    """

    def __init__(self, end, proto=ETH_P_ALL, outgoing=False):
        self.packets = []
        self.outgoing = outgoing
        self.sock = end.ns.socket(socket.AF_PACKET, socket.SOCK_DGRAM,
                                  socket.htons(proto))
        self.sock.setsockopt(socket.SOL_SOCKET, 33, 32 << 20)
        with end.ns.inside():
            self.sock.bind((end.ifname, proto))
        self.sock.settimeout(0.1)
        self._stop = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        quiet = False
        while not (self._stop and quiet):
            try:
                data, where = self.sock.recvfrom(1 << 17)
            except TimeoutError:
                quiet = True
                continue
            except OSError:
                return
            quiet = False
            kind = PKTTYPE.get(where[2], str(where[2]))
            if kind == "outgoing" and not self.outgoing:
                continue
            self.packets.append(Packet(where[1], kind, data))

    def stop(self):
        self._stop = True
        self._thread.join(5)
        self.sock.close()
        return self.packets

    def of(self, proto):
        return [p for p in self.packets if p.proto == proto]

    def wait(self, check, limit=5):
        """Wait until a packet passes @check, and return it; None if late."""
        end = time.monotonic() + limit
        while time.monotonic() < end:
            for packet in list(self.packets):
                if check(packet):
                    return packet
            time.sleep(0.02)
        return None

    def __enter__(self):
        return self

    def __exit__(self, *_exc):
        self.stop()


class IbPacket:
    """A packet of the fabric's mirror, headers taken apart."""

    def __init__(self, data):
        self.raw = data
        lrh = struct.unpack(">BBHHH", data[:8])
        self.sl = lrh[1] >> 4
        self.lnh = lrh[1] & 3
        self.dlid, self.length, self.slid = lrh[2], lrh[3] & 0x7ff, lrh[4]
        at = 8
        self.grh = None
        if self.lnh == 3:
            self.grh = data[at:at + 40]
            self.sgid, self.dgid = self.grh[8:24], self.grh[24:40]
            at += 40
        bth = struct.unpack(">BBHII", data[at:at + 12])
        self.opcode, self.pkey = bth[0], bth[2]
        self.dqpn, self.psn = bth[3] & 0xffffff, bth[4] & 0xffffff
        self.pad = bth[1] >> 4 & 3
        at += 12
        self.qkey = self.sqpn = None
        if self.opcode >> 5 == 3:
            self.qkey, self.sqpn = struct.unpack(">II", data[at:at + 8])
            at += 8
        self.payload = data[at:len(data) - 6]
        if self.pad:
            self.payload = self.payload[:-self.pad]

    def ipoib(self):
        """(ethertype, reserved, payload) if it is no management packet."""
        if self.dqpn in (0, 1) or len(self.payload) < 4:
            return None
        kind, reserved = struct.unpack(">HH", self.payload[:4])
        return kind, reserved, self.payload[4:]

    def __repr__(self):
        return (f"<IB slid {self.slid} dlid {self.dlid} dqpn {self.dqpn:#x} "
                f"{len(self.payload)} bytes>")


class Mirror:
    """Packets that pass an HCA's port, from the fabric's mirror."""

    def __init__(self, where):
        self.port = where
        self.data = b""

    def __enter__(self):
        self.port.set("mirror", 1)
        return self

    def __exit__(self, *_exc):
        if self.port.get("mirror") == "1":
            self.stop()

    def stop(self):
        """End it; the packets."""
        self.port.set("mirror", 0)
        with open(f"{self.port.dir}/pcap", "rb") as file:
            self.data = file.read()
        return ib_packets(self.data)

    def save(self, path):
        """Write what was captured, so that tshark can read it."""
        with open(path, "wb") as file:
            file.write(as_erf(self.data))


def dissect(path, rule, *fields):
    """tshark's answer: a list of lists of fields."""
    words = ["tshark", "-n", "-r", path, "-Y", rule, "-T", "fields"]
    for field in fields:
        words += ["-e", field]
    text = cmd(words, timeout=slow(90)).stdout
    return [line.split("\t") for line in text.splitlines()]


def pcap_records(data):
    """(link type, [(seconds, nanoseconds, bytes)]) of a pcap stream."""
    order = "<" if data[1:4] in (b"\xc3\xb2\xa1", b"\x3c\xb2\xa1") else ">"
    scale = 1 if b"\x3c\xb2" in data[:4] or b"\xb2\x3c" in data[:4] else 1000
    at, found = 24, []
    while at + 16 <= len(data):
        sec, part, kept, _ = struct.unpack(order + "IIII", data[at:at + 16])
        at += 16
        if at + kept > len(data):
            break
        found.append((sec, part * scale, data[at:at + kept]))
        at += kept
    return struct.unpack(order + "I", data[20:24])[0], found


LINKTYPE_ERF = 197
LINKTYPE_INFINIBAND = 247
ERF_INFINIBAND = 21


def ib_packets(data):
    """The packets of a pcap stream, of link type InfiniBand or ERF."""
    kind, records = pcap_records(data)
    skip = 16 if kind == LINKTYPE_ERF else 0
    return [IbPacket(packet[skip:]) for _, _, packet in records]


def as_erf(data):
    """
    The stream with each packet in a record of the Extensible Record Format,
    the only one in which Debian's tshark takes InfiniBand packets from a pcap.
    """
    kind, records = pcap_records(data)
    if kind == LINKTYPE_ERF:
        return data
    parts = [struct.pack("<IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 65535,
                         LINKTYPE_ERF)]
    for sec, nsec, packet in records:
        record = struct.pack("<II", (nsec << 32) // 10**9, sec) + \
            struct.pack(">BBHHH", ERF_INFINIBAND, 4, 16 + len(packet), 0,
                        len(packet)) + packet
        parts.append(struct.pack("<IIII", sec, nsec // 1000, len(record),
                                 len(record)) + record)
    return b"".join(parts)


def lrh(dlid, slid, words, grh=False, sl=0):
    """A local route header."""
    return struct.pack(">BBHHH", 0, sl << 4 | (3 if grh else 2), dlid, words,
                       slid)


def grh(sgid, dgid, length):
    """A global route header."""
    return struct.pack(">IHBB", 6 << 28, length, 0x1b, 1) + sgid + dgid


def bth(dqpn, pkey=0xffff, opcode=0x64, pad=0, psn=0):
    """A base transport header; the opcode is UD SEND only."""
    return struct.pack(">BBHII", opcode, pad << 4, pkey, dqpn, psn)


def deth(qkey, sqpn):
    """A datagram extended transport header."""
    return struct.pack(">II", qkey, sqpn)
