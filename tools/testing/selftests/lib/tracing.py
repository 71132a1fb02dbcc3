# SPDX-License-Identifier: GPL-2.0-only
"""Trace events, in a tracing instance of the case's own."""

import collections
import glob
import os
import re

from .utils import exists, read, write

TRACING = "/sys/kernel/tracing"


class Tracer:
    """Records events while in a block."""

    def __init__(self, *events, name="ipoib-test", size_kb=4096):
        """
        @events: "system:event", "system:*", or with a filter a pair;
        @size_kb: room for what each CPU records.
        """
        self.dir = f"{TRACING}/instances/{name}"
        self.events = events
        self.size_kb = size_kb

    def __enter__(self):
        if exists(self.dir):
            os.rmdir(self.dir)
        os.mkdir(self.dir)
        write(f"{self.dir}/buffer_size_kb", self.size_kb)
        for event in self.events:
            event, rule = event if isinstance(event, tuple) else (event, None)
            where = f"{self.dir}/events/" + \
                event.replace(":*", "").replace(":", "/")
            if rule:
                write(f"{where}/filter", rule)
            write(f"{where}/enable", 1)
        return self

    def lines(self):
        return [line for line in read(f"{self.dir}/trace").splitlines()
                if line and not line.startswith("#")]

    def overruns(self):
        """Events that found no room, by CPU."""
        return [int(re.search(r"^overrun: (\d+)", read(path), re.M).group(1))
                for path in glob.glob(f"{self.dir}/per_cpu/cpu*/stats")]

    def clear(self):
        # Truncating it is what empties the buffer.
        with open(f"{self.dir}/trace", "w", encoding="ascii"):
            pass

    def __exit__(self, *_exc):
        write(f"{self.dir}/events/enable", 0)
        os.rmdir(self.dir)


def events_of(system):
    """The names of a system's events."""
    base = f"{TRACING}/events/{system}"
    if not exists(base):
        return []
    return sorted(name for name in os.listdir(base)
                  if os.path.isdir(f"{base}/{name}"))


Call = collections.namedtuple("Call", "name calls")


def traceable(*names):
    """Those of some functions that this kernel has and can trace."""
    pattern = re.compile(f"^({'|'.join(names)})(?: |$)", re.M)
    return sorted(set(pattern.findall(
        read(f"{TRACING}/available_filter_functions"))))


class Graph:
    """
    Records, while in a block, which functions call which: those that fit
    @patterns (as set_ftrace_filter has them), below each call of one of
    @roots.  What interrupts do meanwhile is left out.  Uses the tracer that
    all instances share.
    """
    LINE = re.compile(r"(?:.*\|)?\s*(?:([\w.]+)(?: \[\w+\])?\(\)( \{|;)|(\}))")
    OPTIONS = {"funcgraph-irqs": 0, "funcgraph-overhead": 0,
               "funcgraph-duration": 0, "funcgraph-cpu": 0}

    def __init__(self, roots, patterns, size_kb=8192):
        self.roots = roots
        self.patterns = patterns
        self.size_kb = size_kb
        self.before = {}

    def __enter__(self):
        self.set("current_tracer", "nop")
        for name in ("buffer_size_kb", *map("options/{}".format, self.OPTIONS)):
            self.before[name] = read(f"{TRACING}/{name}").split()[0]
        self.set("buffer_size_kb", self.size_kb)
        for name, value in self.OPTIONS.items():
            self.set(f"options/{name}", value)
        self.choose("set_ftrace_filter", self.patterns)
        self.choose("set_graph_function", self.roots)
        self.set("current_tracer", "function_graph")
        return self

    @staticmethod
    def set(name, value):
        write(f"{TRACING}/{name}", value)

    @staticmethod
    def choose(name, words):
        """A file that takes a word at a time, and forgets when it is opened."""
        with open(f"{TRACING}/{name}", "wb", buffering=0) as file:
            for word in words:
                file.write(f"{word}\n".encode("ascii"))

    def stop(self):
        """Record no more; list of what each call of a root led to."""
        self.set("tracing_on", 0)
        found = []
        for path in sorted(glob.glob(f"{TRACING}/per_cpu/cpu*/trace")):
            found += self.trees(read(path).splitlines())
        return found

    def trees(self, lines):
        """Calls of roots that ended, as trees."""
        found, stack = [], []
        for line in lines:
            match = self.LINE.fullmatch(line.split("/*")[0].rstrip())
            if line.startswith("#") or not match:
                continue
            name, leaf, end = match.groups()
            if end:
                if stack:
                    stack.pop()
                continue
            # The compiler names its own variants of a function.
            call = Call(name.partition(".")[0], [])
            if stack:
                stack[-1].calls.append(call)
            elif call.name in self.roots:
                found.append(call)
            else:
                continue        # the beginning was overwritten
            if leaf != ";":
                stack.append(call)
        return found[:-1] if stack else found

    def __exit__(self, *_exc):
        self.set("current_tracer", "nop")
        for name in ("set_graph_function", "set_ftrace_filter"):
            self.set(name, "")
        for name, value in self.before.items():
            self.set(name, value)
        self.set("tracing_on", 1)
