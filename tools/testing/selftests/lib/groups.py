# SPDX-License-Identifier: GPL-2.0-only
"""The groups of test files, what each may cost, and who belongs to which.

T=@NAME of tools/testing/check selects a group.  A file is in the groups that
it names itself:

    GROUPS = ("core", "life")

or else in those of the longest prefix of its name in BY_PREFIX.  A case may
name its own with @in_groups("scale").
"""

import collections

import slowness

# What a budget is for: machines at a time, and seconds to build first.
AT_ONCE = 2
BUILD_SECONDS = 60
# What files state is what they take at most; of the sum, a run of everything on
# two CPUs took so much ("check --times" says it of each file).
TAKEN = 0.62

Group = collections.namedtuple("Group", "minutes slower about")

# minutes: the budget, on 2 CPUs; slower: of a kernel so many times slower
GROUPS = {
    "core": Group(20, 1, "what every change has to pass: make check"),
    "life": Group(35, slowness.DEBUG_RUNS, "life cycle, teardown, faults: DEBUG=1"),
    "fabric": Group(10, 1, "the simulated fabric itself"),
    "routes": Group(15, 1, "fabrics of several switches, and OpenSM's routing "
                    "engines"),
    "verbs": Group(15, 1, "programs and the kernel's protocols that use the "
                   "fabric's verbs"),
    "users": Group(20, 1, "the programs with which IPoIB is used and looked after"),
    "packages": Group(20, 1, "packages, and patches for a kernel tree: built, installed, "
                      "booted, removed"),
    "analysis": Group(20, 1, "analysers read all C; other architectures"),
    "enhanced": Group(20, 1, "HCAs with an interface of their own for IPoIB"),
    "ethernet": Group(15, 1, "Ethernet on a partition: bridges, guests, eth_ipoib"),
    "sites": Group(15, 1, "each call of the modules that can fail does"),
    "misbehave": Group(20, 1, "an HCA and a fabric that misbehave, with a hundred "
                       "children"),
    "hcas": Group(15, 1, "combinations of what HCAs can and cannot do"),
    "stress": Group(32, slowness.DEBUG_RUNS, "everything at once, for as long as "
                    "one likes: make stress"),
    "scale": Group(30, 1, "many HCAs, peers, children; long random sequences; "
                   "leaks"),
    "offload": Group(15, 1, "checksums, segmentation, who forwards them"),
    "wire": Group(10, 1, "packets that no decent peer sends"),
    "interop": Group(15, 1, "beside and against the distribution's module"),
    "children": Group(30, 1, "child interfaces"),
    "connected": Group(30, 1, "connected mode"),
    "datagram": Group(20, 1, "datagram mode"),
    "tools": Group(10, 1, "the test tools themselves, and unit tests"),
}
DEFAULT = "core"
# Those that look for what nobody knows, each time elsewhere: what they find is not
# the fault of the change that is tried, so that CI does not run them.  The core has a
# sample of the sites and a minute of the fuzzer that begin at the same place each time.
EXPLORE = ("sites", "stress")
# Those that run the same whatever the kernel and the module are
ANY_KERNEL = ("packages", "analysis")
ALL = "all"         # T=@all: every case

# Of files for which the core has no room, cases that are worth most are in it all the
# same: @in_groups().
BY_PREFIX = {
    "bench": ("tools",),
    "children": ("core", "children"),
    "children_limits": ("children", "scale"),
    "children_pkeys": ("children",),
    "children_random": ("scale", "children"),
    "children_scale": ("scale", "children"),
    "connected": ("core", "connected"),
    "connected_forged": ("core", "connected", "wire"),
    "connected_hcas": ("connected", "hcas"),
    "connected_load": ("connected", "scale"),
    "connected_many": ("connected", "scale"),
    "connected_offload": ("core", "connected", "offload"),
    "datagram": ("core", "datagram"),
    "datagram_caps": ("datagram", "hcas"),
    "datagram_tso": ("core", "datagram", "offload"),
    "defects": ("interop",),
    "enhanced": ("enhanced",),
    "ethernet": ("ethernet",),
    "events": ("core",),
    "events_device": ("core", "life"),
    "fabric": ("fabric",),
    "fabric_netdev": ("enhanced",),
    "fabric_routes": ("routes",),
    "faults": ("core", "life"),
    # The kernel of the core has no fault injection.
    "faults_memory": ("life",),
    "faults_verbs": ("life",),
    "flood": ("scale",),
    "hcas": ("hcas",),
    "host": ("core", "tools"),
    "interop": ("core", "interop"),
    "kunit": ("core", "tools", "life"),
    # On the debug kernel each teardown looks for leaks.
    "leaks": ("scale",),
    "life": ("life",),
    "misbehave": ("misbehave",),
    "offload": ("offload",),
    "queues": ("core", "datagram"),
    "sites": ("sites",),
    "sites_sample": ("core",),
    "stress": ("stress",),
    "users": ("users",),
    "verbs": ("verbs",),
    "wire": ("core", "wire"),
}


# Groups in which a case that is skipped has failed, since what it is about has to
# run; those that may be skipped, by "file.case", with the reason.
NO_SKIPS = ("verbs", "users", "ethernet")
MAY_SKIP = {
    f"verbs_rds.{case}": "on kernels with lockdep: a report of net/rds itself, "
                         "which would end lockdep's checks for all others"
    for case in ("test_ping", "test_stress", "test_link_flap", "test_rdma")}
MAY_SKIP.update((f"ethernet_faults.{case}", "Debian's kernels have no fault injection")
                for case in ("test_load", "test_links", "test_tables", "test_traffic",
                             "test_unasked"))
MAY_SKIP["ethernet_recipes.test_podman"] = \
    "on the debug kernel: netavark finds its release to be an invalid version number"


class UnknownGroup(ValueError):
    """Nobody knows a group of that name."""


def check(names, where):
    """@names as a tuple, if all of them are groups."""
    for name in names:
        if name not in GROUPS:
            raise UnknownGroup(f"{where}: there is no group '{name}', but "
                               + ", ".join(GROUPS))
    return tuple(names)


def of_file(name):
    """The groups of a file that names none: by the longest prefix, or none."""
    fitting = [prefix for prefix in BY_PREFIX
               if name == prefix or name.startswith(prefix + "_")]
    return BY_PREFIX[max(fitting, key=len)] if fitting else ()


def must_run(name, of_case):
    """A case of the groups @of_case must not be skipped."""
    return bool(set(of_case) & set(NO_SKIPS)) and name not in MAY_SKIP


def makespan(jobs, at_once=AT_ONCE):
    """Seconds until the last of the jobs ends, longest first."""
    ends = [0.0] * at_once
    for job in sorted(jobs, key=lambda j: (not j.host, -j.seconds())):
        ends[ends.index(min(ends))] += job.seconds()
    return max(ends)


def estimate(jobs, group, at_once=AT_ONCE):
    """Seconds that jobs of a group take on the kernel its budget is for."""
    return BUILD_SECONDS + \
        TAKEN * GROUPS[group].slower * makespan(jobs, at_once)
