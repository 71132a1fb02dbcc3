# SPDX-License-Identifier: GPL-2.0-only
"""Memory that modules have allocated and still hold, by call site."""

import re

from .tracing import Tracer
from .utils import Failed, write

MODULES = ("ib_ipoib", "ib_core", "ib_cm", "ibdevsim")
MADE = ("kmalloc", "kmem_cache_alloc", "mm_page_alloc")
FREED = ("kfree", "kmem_cache_free", "mm_page_free", "mm_page_free_batched")
HEAD = re.compile(r"\s*\S.*-\d+\s+\[(\d+)\].*?\d+\.\d+: (\S+) ?(.*)")
FIELD = re.compile(r"(\w+)=(\S+)")
FRAME = re.compile(r" => ([^\s+]+)(?:\+\S+)?(?: \[(\w+)\])?")
# Pages of slab objects, whose events come by themselves.
SLAB = {"allocate_slab", "new_slab", "___slab_alloc", "___kmalloc_large_node",
        "___kmalloc_large_node_noprof"}
PAGE = 4096


class Allocations(Tracer):
    """
    What the modules allocate within the block and has not been freed at its
    end: slab objects as large as they are, and pages, those of vmalloc() and
    of page pools too.
    """

    def __init__(self, modules=MODULES):
        # Pages of processes (__GFP_MOVABLE) are many, and not wanted.
        pages = ("kmem:mm_page_alloc", "!(gfp_flags & 8)")
        super().__init__("kmem:kmalloc", "kmem:kmem_cache_alloc", pages,
                         *(f"kmem:{name}" for name in FREED), name="ipoib-allocs",
                         size_kb=48 << 10)
        self.modules = modules
        self.live = {}

    def __enter__(self):
        super().__enter__()
        # With offsets it also says which module.
        write(f"{self.dir}/options/sym-offset", 1)
        for name in MADE:
            write(f"{self.dir}/events/kmem/{name}/trigger", "stacktrace")
        return self

    def __exit__(self, *exc):
        write(f"{self.dir}/tracing_on", 0)
        lost = sum(self.overruns())
        self.read()
        for name in MADE:
            write(f"{self.dir}/events/kmem/{name}/trigger", "!stacktrace")
        super().__exit__(*exc)
        if lost:
            raise Failed(f"{lost} allocations were not seen")

    @staticmethod
    def event(fields):
        """(identity, bytes) of what an event is about."""
        if "pfn" in fields:
            return ("page", fields["pfn"]), PAGE << int(fields.get("order", 0))
        return ("object", fields["ptr"]), int(fields.get("bytes_alloc", 0))

    def site(self, frames):
        """The innermost function of the modules, or None."""
        if any(name in SLAB for name, _ in frames):
            return None
        return next((f"{name} [{module}]" for name, module in frames
                     if module in self.modules), None)

    def read(self):
        """Follow the events from the first to the last."""
        stacks = {}                     # by CPU: events whose stack is to come
        current = None                  # (event, frames)
        for line in self.lines():
            frame = FRAME.match(line)
            if frame and current:
                current[1].append(frame.groups())
                continue
            self.made(current)
            current = None
            head = HEAD.match(line)
            if not head:
                continue
            cpu, name, rest = head.groups()
            if name == "<stack":
                waiting = stacks.get(cpu)
                current = waiting and (waiting.pop(), [])
                continue
            name = name.rstrip(":")
            if name not in MADE + FREED:
                continue
            found = self.event(dict(FIELD.findall(rest)))
            # Whoever had it before has freed it, seen or not.
            self.live.pop(found[0], None)
            if name in MADE:
                stacks.setdefault(cpu, []).append(found)
        self.made(current)

    def made(self, current):
        """An event and its stack are complete."""
        if not current:
            return
        (identity, octets), frames = current
        site = self.site(frames)
        if site and identity[1] not in ("(nil)", "0x0"):
            self.live[identity] = octets, site

    def by_site(self):
        """{site: (objects, bytes)}"""
        sites = {}
        for octets, site in self.live.values():
            number, total = sites.get(site, (0, 0))
            sites[site] = number + 1, total + octets
        return sites

    def octets(self):
        """All of it."""
        return sum(octets for octets, _ in self.live.values())
