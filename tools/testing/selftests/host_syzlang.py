# SPDX-License-Identifier: GPL-2.0-only
"""
syzkaller's descriptions of the tree's interfaces: they can be read, everything that
the code has is in them, and nothing else.
"""

import functools
import glob
import json
import os
import re

import yaml

from lib import ksft_eq, ksft_ge, ksft_in, ksft_pr, ksft_true, timeout
import syzlang
from common import ROOT, TESTING, kernels

BOOT = "host"
# The core has no room for it.
GROUPS = ("tools",)
SECONDS = 40

DIRECTORY = os.path.join(TESTING, "fuzz", "syzkaller")
SIM = "tools/testing/ibdevsim"
HEADERS = ("ipoib", "eipoib", "eth_ipoib")
# Constants that are younger than the kernel whose headers there always are
YOUNG = {"ETHTOOL_MSG_RSS_SET", "UVERBS_METHOD_REG_MR"} | {
    f"UVERBS_ATTR_REG_MR_{name}" for name in (
        "HANDLE", "PD_HANDLE", "IOVA", "ADDR", "LENGTH", "ACCESS_FLAGS", "RESP_LKEY",
        "RESP_RKEY")}
SERIES = "6.12"

# Files of the network core in /sys/class/net/IFACE that are described, too
NET_CORE = {"mtu", "tx_queue_len", "threaded", "flags", "gro_flush_timeout", "carrier",
            "dev_id", "dev_port", "address", "broadcast", "operstate", "speed"}
MODULES = {"ib_ipoib": ["ipoib_*.c"], "eth_ipoib": ["eth_ipoib/*.c"],
           "ibdevsim": [f"{SIM}/*.c"]}

# The command by which programs reach an operation of an HCA; none: only the kernel
# does
COMMANDS = {
    "alloc_ucontext": "GET_CONTEXT", "query_device": "QUERY_DEVICE",
    "query_port": "QUERY_PORT", "alloc_pd": "ALLOC_PD", "dealloc_pd": "DEALLOC_PD",
    "reg_user_mr": "REG_MR", "dereg_mr": "DEREG_MR", "create_ah": "CREATE_AH",
    "create_user_ah": "CREATE_AH", "destroy_ah": "DESTROY_AH",
    "create_cq": "CREATE_CQ", "create_user_cq": "CREATE_CQ",
    "resize_user_cq": "RESIZE_CQ", "destroy_cq": "DESTROY_CQ", "poll_cq": "POLL_CQ",
    "req_notify_cq": "REQ_NOTIFY_CQ", "create_qp": "CREATE_QP",
    "modify_qp": "MODIFY_QP", "query_qp": "QUERY_QP", "destroy_qp": "DESTROY_QP",
    "post_send": "POST_SEND", "post_recv": "POST_RECV",
    "attach_mcast": "ATTACH_MCAST", "detach_mcast": "DETACH_MCAST",
    "create_srq": "CREATE_SRQ", "modify_srq": "MODIFY_SRQ", "query_srq": "QUERY_SRQ",
    "destroy_srq": "DESTROY_SRQ", "post_srq_recv": "POST_SRQ_RECV",
    **dict.fromkeys((
        "modify_device", "alloc_hw_port_stats", "get_hw_stats", "modify_port",
        "get_port_immutable", "get_link_layer", "query_gid", "query_pkey",
        "process_mad", "get_dev_fw_str", "get_dma_mr", "alloc_mr", "map_mr_sg",
        "query_ah", "dealloc_ucontext", "disassociate_ucontext",
        "set_vf_link_state", "get_vf_config", "get_vf_stats", "get_vf_guid",
        "set_vf_guid", "rdma_netdev_get_params", "modify_cq")),
}

# What reaches an operation of ethtool: by netlink and by ioctl
ETHTOOL = {
    "get_drvinfo": ("GDRVINFO",), "get_link": ("MSG_LINKSTATE_GET", "GLINK"),
    "get_link_ksettings": ("MSG_LINKINFO_GET", "MSG_LINKMODES_GET", "GLINKSETTINGS"),
    "get_link_ext_state": ("MSG_LINKSTATE_GET",),
    "get_strings": ("MSG_STRSET_GET", "GSTRINGS"),
    "get_sset_count": ("MSG_STRSET_GET", "GSSET_INFO"),
    "get_ethtool_stats": ("GSTATS",),
    "get_channels": ("MSG_CHANNELS_GET", "GCHANNELS"),
    "set_channels": ("MSG_CHANNELS_SET", "SCHANNELS"),
    "get_ringparam": ("MSG_RINGS_GET", "GRINGPARAM"),
    "set_ringparam": ("MSG_RINGS_SET", "SRINGPARAM"),
    "get_coalesce": ("MSG_COALESCE_GET", "GCOALESCE"),
    "set_coalesce": ("MSG_COALESCE_SET", "SCOALESCE"),
    "get_priv_flags": ("MSG_PRIVFLAGS_GET", "GPFLAGS"),
    "set_priv_flags": ("MSG_PRIVFLAGS_SET", "SPFLAGS"),
    "get_ts_info": ("MSG_TSINFO_GET", "GET_TS_INFO"),
    "get_rxfh": ("MSG_RSS_GET", "GRSSH", "GRXFHINDIR"),
    "set_rxfh": ("MSG_RSS_SET", "SRSSH", "SRXFHINDIR"),
    "get_rxfh_indir_size": ("MSG_RSS_GET", "GRXFHINDIR"),
    "get_rxfh_key_size": ("MSG_RSS_GET", "GRSSH"),
    "get_rx_ring_count": ("GRXRINGS",),
}

# Names of new_device that are wrong on purpose
WRONG_PAIRS = {"mtu=9000", "csum=2", "nosuch=1", "mtu"}

# Structures whose names begin so are structures of C, with a suffix
LAYOUTS = re.compile(r"((?:ib_uverbs_|ethtool_|ib_mad_hdr|ib_rmpp_hdr|ib_sa_hdr|ib_grh"
                     r"|hwtstamp_config|ipoib_cm_private)\w*)_(?:ibds|ipoib)$")
# Several fields of a CM message that are one here
MERGED = {f"{path}_{name}": f"{path}_flow_rate" for path in ("primary", "alternate")
          for name in ("flow_label", "packet_rate")}


@functools.lru_cache(maxsize=None)
def text_of(path):
    """A file, by its path from the root."""
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


class Tree:
    """The sources, some of them with changes."""

    def __init__(self, changes=()):
        self.changes = dict(changes)

    def read(self, path):
        """A file, with its changes."""
        text = text_of(path)
        for old, new in self.changes.get(path, ()):
            if old not in text:
                raise ValueError(f"{path} has no {old!r}")
            text = text.replace(old, new, 1)
        return text

    def sources(self, *patterns):
        """Texts of files, by path."""
        return {path: self.read(path) for pattern in patterns
                for path in sorted(glob.glob(pattern, root_dir=ROOT))}


def texts():
    """The descriptions, by file, and their constants."""
    found = {}
    for path in glob.glob(os.path.join(DIRECTORY, "*.txt*")):
        with open(path, encoding="utf-8") as file:
            found[os.path.basename(path)] = file.read()
    return found


@functools.lru_cache
def real():
    """The descriptions and their constants."""
    return syzlang.read(DIRECTORY)


# ---- what the descriptions have --------------------------------------------


def strings(desc, name):
    """The strings of flags."""
    return [value.strip('"') for value in desc.named[name].values]


def all_consts(desc):
    """Constants of all files."""
    return set().union(*desc.consts.values())


def attributes(desc, name):
    """{attribute: type of its payload} of a policy."""
    found = {}
    for field in desc.named[name].fields:
        if field.type.name == "nlattr" and field.type.args[0].name == field.name:
            found[field.name] = field.type.args[1]
    return found


def paths_of(desc):
    """{path: (mode, how its content is called)} of files that are opened."""
    found = {}
    for call in desc.calls.values():
        if not call.name.startswith("openat$"):
            continue
        args = {arg.name: arg.type for arg in call.args}
        what = args["file"].args[1].args[0].name
        mode = args["flags"].args[0].name
        if args["flags"].name == "flags":
            mode = desc.named[mode].values[0]
        for path in ([what.strip('"')] if what.startswith('"')
                     else strings(desc, what)):
            found[path] = (mode, what)
        used = {other.name.partition("$")[0] for other in desc.calls.values()
                if other.args[0].type.name == call.result}
        wants = {"O_RDWR": {"read", "write"}, "O_WRONLY": {"write"},
                 "O_RDONLY": {"read"}}[mode]
        if not call.name == "openat$ibds_uverbs" and used != wants:
            raise syzlang.Wrong(f"{call.name}: used by {used}, opened for {wants}")
    return found


PLACES = (
    ("bus", r"/sys/bus/ibdevsim/(\w+)"),
    ("net", r"/sys/class/net/[\w.]+/(\w+)"),
    ("hca", r"/sys/class/infiniband/ibdevsim\d/(\w+)"),
    ("ib_ipoib", r"/sys/module/ib_ipoib/parameters/(\w+)"),
    ("eth_ipoib", r"/sys/module/eth_ipoib/parameters/(\w+)"),
    ("ibdevsim", r"/sys/module/ibdevsim/parameters/(\w+)"),
    ("debug ipoib", r"/sys/kernel/debug/ipoib/[\w.]+_(\w+)"),
    ("debug port", r"/sys/kernel/debug/ibdevsim/ibdevsim\d/port\d/(\w+)"),
    ("debug hca", r"/sys/kernel/debug/ibdevsim/ibdevsim\d/(\w+)"),
    ("debug switch", r"/sys/kernel/debug/ibdevsim/switch\d?/(\w+)"),
    ("debug root", r"/sys/kernel/debug/ibdevsim/(\w+)"),
)


def described_files(desc):
    """{(place, name): mode}; a path in no place that is known is a complaint."""
    found = {}
    for path, (mode, _) in paths_of(desc).items():
        if path.startswith("/dev/infiniband/uverbs"):
            continue
        for place, pattern in PLACES:
            match = re.fullmatch(pattern, path)
            if match:
                found[place, match[1]] = mode
                break
        else:
            raise syzlang.Wrong(f"{path}: in no place that has files of this tree")
    return found


# ---- what the code has -----------------------------------------------------

MODES = {"RW": "O_RDWR", "RO": "O_RDONLY", "WO": "O_WRONLY"}
ATTR_PLACES = (("bus", f"{SIM}/main.c", "BUS"), ("hca", f"{SIM}/", "DEVICE"),
               ("net", "ipoib_", "DEVICE"), ("net", "eth_ipoib/", "DEVICE"))


@functools.lru_cache(maxsize=None)
def attributes_in(text):
    """Attributes that macros of a source make, and other ways to make some."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    return (re.findall(r"\b(DEVICE|BUS|DRIVER|CLASS)_ATTR_(\w\w)\((\w+)\)", text),
            re.findall(r"\b(__ATTR\w*|BIN_ATTR\w*|DEVICE_\w*_ATTR\w*"
                       r"|sysfs_create_\w+|device_create_(?:bin_)?file"
                       r"|DEVICE_ATTR(?=\()|proc_create\w*)\b", text))


def sysfs_files(tree):
    """Attributes that macros make; other ways to make some are refused."""
    found = {}
    for path, text in tree.sources(*sum(MODULES.values(), [])).items():
        made, others = attributes_in(text)
        for kind, mode, name in made:
            for place, start, of in ATTR_PLACES:
                if path.startswith(start) and kind == of:
                    found[place, name] = MODES[mode]
                    break
            else:
                found[path, name] = MODES[mode]
        for word in others:
            found[path, word] = "made in a way that is not known here"
    return found


def param_files(tree):
    """Parameters of modules."""
    found = {}
    for module, patterns in MODULES.items():
        for text in tree.sources(*patterns).values():
            for rest in re.findall(r"\bmodule_param\w*\(([^;]*)\);", text):
                words = [word.strip() for word in rest.split(",")]
                found[module, words[0]] = {
                    "0644": "O_RDWR", "0444": "O_RDONLY"}[words[-1]]
    return found


def table(text, name):
    """The entries of an array."""
    return re.search(rf"\b{name}\[[^]]*\](?:\[\w+\])? = {{\n(.*?)\n}};", text,
                     re.S)[1]


def knob_files(tree):
    """What debugfs.c of the fabric makes, and what ipoib_fs.c does."""
    found = {}
    text = tree.read(f"{SIM}/debugfs.c")
    for place, name in (("port", "port_files"), ("hca", "dev_files"),
                        ("switch", "switch_files"), ("root", "root_files")):
        rows = table(text, name)
        for fault, _ in re.findall(r"IBDS_FAULT\((\w+), (\w+)\)", rows):
            found[f"debug {place}", fault] = "O_RDWR"
        for file, rest in re.findall(r'{ \.name = "(\w+)",(.*?)}', rows, re.S):
            show, store = ".show" in rest, ".store" in rest
            found[f"debug {place}", file] = \
                "O_RDWR" if show and store else "O_WRONLY" if store else "O_RDONLY"
    for file, mode, place in re.findall(
            r'debugfs_create_file\("(\w+)", (\d+), (port|ibds_root)', text):
        found["debug " + place.replace("ibds_root", "root"), file] = \
            {"0200": "O_WRONLY", "0400": "O_RDONLY"}[mode]
    for file in re.findall(r'ipoib_fs_file\(dev, prefix, "(\w+)"',
                           tree.read("ipoib_fs.c")):
        found["debug ipoib", file] = "O_RDONLY"
    known = {f"{SIM}/debugfs.c": 5, "ipoib_fs.c": 1}
    for path, source in tree.sources(*sum(MODULES.values(), [])).items():
        number = len(re.findall(r"\bdebugfs_create_(?!dir\b)\w+\(", source))
        if number != known.get(path, 0):
            found[path, "debugfs_create_file"] = "a call that is not known here"
    return found


# ---- complaints ------------------------------------------------------------


def compare(what, code, described):
    """Sets or dictionaries."""
    for name in sorted(set(code) - set(described), key=str):
        yield f"{what}: {name} is not described"
    for name in sorted(set(described) - set(code), key=str):
        yield f"{what}: {name} is described, but there is none"
    if isinstance(code, dict):
        for name in sorted(set(code) & set(described), key=str):
            if code[name] != described[name]:
                yield f"{what}: {name} is {code[name]}, not {described[name]}"


def check_files(desc, tree):
    """sysfs, parameters of modules, debugfs"""
    described = described_files(desc)
    core = {key for key in described if key[0] == "net" and key[1] in NET_CORE}
    code = {**sysfs_files(tree), **param_files(tree), **knob_files(tree)}
    yield from compare("file", code,
                       {key: mode for key, mode in described.items()
                        if key not in core})
    rows = table(tree.read(f"{SIM}/debugfs.c"), "port_files")
    kinds = dict(re.findall(r"IBDS_FAULT\((\w+), (\w+)\)", rows))
    for path, (_, flags) in paths_of(desc).items():
        name = path.rpartition("/")[2]
        if "/port1/" in path and name in kinds and \
                flags != f"ibdevsim_{kinds[name]}_files":
            yield f"file: {name} is of the kind {kinds[name]}, and among {flags}"


def check_keys(desc, tree):
    """Keys of new_device and their words"""
    text = tree.read(f"{SIM}/caps.c")
    rows = table(text, "ibds_keys")
    words = set(re.findall(r"IBDS_KEY_WORDS\((\w+),", rows))
    keys = words | set(re.findall(r"IBDS_KEY\((\w+),", rows)) | \
        set(re.findall(r'\.name = "(\w+)"', rows))
    pairs = set(strings(desc, "ibdevsim_pairs")) - WRONG_PAIRS
    numbers = {key.rstrip("=") for key in strings(desc, "ibdevsim_number_keys")}
    yield from compare("key", keys, numbers | {pair.split("=")[0] for pair in pairs})
    for key in sorted(words):
        values = re.findall(r'{ "(\w+)",', table(text, f"ibds_{key}_words"))
        yield from compare(f"value of {key}", set(values),
                           {pair.split("=")[1] for pair in pairs
                            if pair.split("=")[0] == key})


def check_words(desc, tree):
    """Words that knobs take"""
    text = tree.read(f"{SIM}/debugfs.c")
    yield from compare("event", set(re.findall(r'{ "(\w+)", IB_EVENT_', text)),
                       set(strings(desc, "ibdevsim_events")))
    text = tree.read(f"{SIM}/pma.c")
    yield from compare("counter", {"watchdog", *re.findall(
        r'\[IBDS_PMA_\w+\] = "(\w+)"', table(text, "ibds_pma_names"))},
        set(strings(desc, "ibdevsim_counters")))
    text = tree.read(f"{SIM}/call.c")
    yield from compare("call", {"any", *re.findall(
        r'\[IBDS_CALL_\w+\] = { "(\w+)", true }', text)},
        set(strings(desc, "ibdevsim_verbs")))


def check_header(desc, tree):
    """Enumerators of the headers for programs"""
    consts = all_consts(desc)
    names = set()
    for header in HEADERS:
        text = tree.read(f"include/uapi/linux/{header}.h")
        names |= {name for name in re.findall(
            r"^\t((?:E?IPOIB|IFLA_EIPOIB)_\w+)(?: = \w+)?,", text, re.M)
            if not name.endswith("_MAX")}
    ours = {name for name in consts if re.match(
        r"(E?IPOIB_(A|CMD|CAUSE|DEV|PATH|LINK|GROUP|CONN|GUEST|PEER)_|IFLA_EIPOIB_)",
        name)}
    yield from compare("constant", names, ours)


YNL_SIZES = {"u8": 1, "u16": 2, "u32": 4, "s32": 4, "u64": 8, "flag": 0}


def check_attribute(desc, spec, attr, kind):
    """One attribute has the type that the specification says."""
    name, size = attr["name"], desc.size(desc.calls["write$ipoib_mode"], kind, "in", ())
    wanted = attr.get("checks", {}).get("exact-len", YNL_SIZES.get(attr["type"]))
    if wanted is not None and size != wanted:
        yield f"{spec['name']}: {name} has {wanted} bytes, not {size}"
    if attr["type"] == "uint" and kind.name != "ipoib_uint" or \
            attr["type"] == "string" and kind.name != "string":
        yield f"{spec['name']}: {name} is of the type {attr['type']}, not {kind}"
    if "enum" not in attr:
        return
    enum = next(each for each in spec["definitions"] if each["name"] == attr["enum"])
    values = [in_c(spec, attr["enum"], entry["name"]) for entry in enum["entries"]]
    flags = kind.args and desc.named.get(kind.args[0].name)
    if not isinstance(flags, syzlang.Flags) or flags.values != values:
        yield f"{spec['name']}: {name} is not one of {values}"


def in_c(spec, *words):
    """A name as C has it."""
    return "_".join((spec["name"], *words)).replace("-", "_").upper()


def check_families(desc, tree):
    """Requests and attributes of the specifications of netlink families"""
    paths = glob.glob("Documentation/netlink/specs/*.yaml", root_dir=ROOT)
    for path in sorted(paths):
        spec = yaml.safe_load(tree.read(path))
        family = spec["name"]
        if f"syz_genetlink_get_family_id${family}" not in desc.calls:
            yield f"{family}: no call asks for the family"
            continue
        for each in spec["attribute-sets"]:
            policy = f"{family}_{each['name']}_attr"
            here = attributes(desc, policy) if policy in desc.named else {}
            named = {in_c(spec, "a", each["name"], attr["name"]): attr
                     for attr in each["attributes"]}
            yield from compare(policy, set(named), set(here))
            for name in sorted(set(named) & set(here)):
                yield from check_attribute(desc, spec, named[name], here[name])
        for each in spec["operations"]["list"]:
            yield from check_operation(desc, spec, each)


def check_operation(desc, spec, operation):
    """A request has a call with its command and policy, a notification none."""
    command = in_c(spec, "cmd", operation["name"])
    if "do" not in operation and "dump" not in operation:
        if command not in desc.named[f"{spec['name']}_ntf_cmds"].values:
            yield f"{spec['name']}: {command} is not among notifications"
        return
    call = desc.calls.get(f"sendmsg${command}")
    kinds = [kind for arg in call.args for kind in arg.type.walk()] if call else []
    policy = f"{spec['name']}_{operation['attribute-set']}_attr"
    if not any(kind.name == f"msghdr_{spec['name']}" and
               [arg.name for arg in kind.args] == [command, policy]
               for kind in kinds):
        yield f"{spec['name']}: no call sends {command} with {policy}"


def check_links(desc, tree):
    """Attributes of links, with their sizes"""
    for kind, path, policy in (
            ("ipoib", "ipoib_netlink.c", "ipoib_link_policy"),
            ("eipoib", "eth_ipoib/eipoib_link.c", "eipoib_policy")):
        rows = re.search(r"nla_policy \w+\[.*?{\n(.*?)\n};", tree.read(path), re.S)[1]
        code = {name: int(bits) // 8 for name, bits in
                re.findall(r"\[(IFLA_\w+)\]\s*=[^[]*?NLA_U(\d+)", rows)}
        here = {name: desc.size(desc.calls["write$ipoib_mode"], of, "in", ())
                for name, of in attributes(desc, policy).items()
                if not name.endswith("_UNSPEC")}
        yield from compare(f"attribute of {kind}", code, here)
        if code.keys() - set(re.findall(r"\[(IFLA_\w+)\]", rows)):
            yield f"{path}: a policy that can't be read"
    alias = desc.named["eipoib_info"].type
    if [arg.name for arg in alias.args] != ['"eipoib"', "eipoib_policy"]:
        yield "links of the kind eipoib are not described"
    alias = desc.named["ipoib_info"].type
    if [arg.name for arg in alias.args] != ['"ipoib"', "ipoib_link_policy"]:
        yield "links of the kind ipoib are not described"


def operations(tree, kind, *patterns):
    """Members that structures of a type are given."""
    found = set()
    for text in tree.sources(*patterns).values():
        for body in re.findall(rf"struct {kind} \w+ = {{\n(.*?)\n}};", text, re.S):
            found |= set(re.findall(r"^\t\.(\w+)\s*=\s*[a-z]\w*,$", body, re.M))
    return found


def check_verbs(desc, tree):
    """Operations of HCAs that programs reach"""
    ops = operations(tree, "ib_device_ops", f"{SIM}/verbs.c")
    yield from compare("operation", ops, set(COMMANDS))
    wanted = {f"IB_USER_VERBS_CMD_{COMMANDS[op]}" for op in ops & set(COMMANDS)
              if COMMANDS[op]} | {"IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL"}
    written = {kind.args[0].name for call in desc.calls.values()
               for arg in call.args for kind in arg.type.walk()
               if kind.name in ("write_ibds", "write_mute_ibds")}
    yield from compare("command", wanted, written)
    yield from compare("command of the ioctl", wanted,
                       set(desc.named["write_cmds_ibds"].values))


def check_ethtool(desc, tree):
    """Operations of ethtool"""
    patterns = ("ipoib_ethtool.c", "eth_ipoib/eipoib_ethtool.c", f"{SIM}/nethtool.c")
    ops = operations(tree, "ethtool_ops", *patterns) - {"op_needs_rtnl"}
    yield from compare("ethtool", ops, set(ETHTOOL))
    consts = desc.consts["ethtool_ipoib.txt"]
    for op in sorted(ops & set(ETHTOOL)):
        for name in ETHTOOL[op]:
            if f"ETHTOOL_{name}" not in consts:
                yield f"ethtool: nothing reaches {op} by ETHTOOL_{name}"
            if name.startswith("MSG_") and \
                    f"sendmsg$ipoib_ETHTOOL_{name}" not in desc.calls:
                yield f"ethtool: no call sends ETHTOOL_{name}"
    sources = tree.sources(*patterns)
    for text in sources.values():
        for body in re.findall(r"\.supported_coalesce_params = (.*?),\n", text, re.S):
            for name in re.findall(r"ETHTOOL_COALESCE_(\w+)", body):
                if f"ETHTOOL_A_COALESCE_{name}" not in \
                        attributes(desc, "ethnl_coalesce_ipoib"):
                    yield f"ethtool: {name} is not described"
    yield from compare("private flag", set(re.findall(
        r'"([\w-]+)"', table(sources["ipoib_ethtool.c"], "ipoib_flag_names"))),
        set(strings(desc, "ethtool_priv_flag_names_ipoib")))


def check_opcodes(desc, tree):
    """Opcodes that arriving packets may have"""
    names = set(re.findall(r"\b(IB_OPCODE_(?:UD|RC)_\w+)\b",
                           tree.read(f"{SIM}/inject.c") + tree.read(f"{SIM}/slow.c")))
    for name in sorted(names - all_consts(desc)):
        yield f"packet: {name} is not described"


CHECKS = (check_files, check_keys, check_words, check_header, check_families,
          check_links, check_verbs, check_ethtool, check_opcodes)


def complaints(desc, tree):
    """Of all checks."""
    for check in CHECKS:
        yield from check(desc, tree)


def says(desc, tree, what):
    """One of the complaints has these words."""
    return any(what in complaint for complaint in complaints(desc, tree))


# ---- cases -----------------------------------------------------------------


def test_grammar():
    """The descriptions can be read, and say what is where."""
    desc, _ = real()
    ksft_ge(len(desc.calls), 150)
    for name, parser in desc.files.items():
        ksft_eq(parser.options.get("arches"), ["amd64"], name)
    ksft_pr(f"{len(desc.calls)} calls, {len(desc.named)} names")


def test_names():
    """No name can be one of syzkaller's own."""
    desc, _ = real()
    ksft_eq([name for name in (*desc.calls, *desc.named)
             if not re.search(r"ipoib|ibds|ibdevsim", name, re.I)], [])


def test_manager():
    """The configuration for syz-manager lets it make each call."""
    with open(os.path.join(DIRECTORY, "manager.cfg"), encoding="utf-8") as file:
        patterns = json.load(file)["enable_syscalls"]
    unused = set(patterns) - {each for each in patterns
                              if each == "close" or "$inet" in each}
    for name in real()[0].calls:
        # As syz-manager does: a name, or how it begins
        fitting = [each for each in patterns if each == name or
                   each.endswith("*") and name.startswith(each[:-1])]
        ksft_true(fitting, name)
        unused -= set(fitting)
    ksft_eq(unused, set())


def test_complete():
    """What the code has is described, and what is described is there."""
    ksft_eq(list(complaints(real()[0], Tree())), [])


def layouts(desc):
    """(structure of C, its bytes here, {field: (offset, bytes)}) of each one here."""
    for name, struct in sorted(desc.of(syzlang.Struct).items()):
        match = LAYOUTS.match(name)
        if not match or struct.union:
            continue
        given = {}
        if struct.params:
            given = dict(zip(struct.params, next(desc.uses(name)).args))
        size, fields = desc.layout(struct, given)
        yield match[1], size, {field: place[:2] for field, place in fields.items()}


# Fields that have no counterpart: gather lists behind requests
EXTRA = {"sges"}
# What ends with more than the structure of C
LONGER = {"ethtool_rxnfc"}


def against_headers(desc, consts):
    """
    {what: (here, in C)} of constants, sizes and offsets that differ, None: there is
    none in C; and how many constants and how many others there are.
    """
    names, defines, includes, here = set(), {}, [], {}
    for name, parser in desc.files.items():
        names |= desc.consts[name]
        defines.update(parser.defines)
        includes += [each for each in parser.includes if each not in includes]
        here.update({const: value for const, value in consts[name + ".const"].items()
                     if const in desc.consts[name]})
    numbers = {name for name in names if name.startswith("__NR_")}
    sizes = dict(places(desc))
    kdir = kernels("kdir", SERIES)
    found = syzlang.evaluate(ROOT, kdir, includes, [*sorted(names - numbers), *sizes],
                             defines.items())
    found.update(syzlang.evaluate(ROOT, kdir, ["asm/unistd_64.h"], sorted(numbers)))
    wrong = {name: (here.get(name), found.get(name)) for name in names
             if (name in found or name not in YOUNG) and
             here.get(name) != found.get(name, -1) % (1 << 64)}
    wrong.update({what: (value, found.get(what)) for what, value in sizes.items()
                  if not fits(what, value, found.get(what))})
    return wrong, len(names), len(sizes)


def places(desc):
    """(expression of C, what it is here) of sizes and offsets."""
    for struct, size, fields in layouts(desc):
        sizes = [each for _, each in fields.values()]
        if struct in LONGER:
            fields = {name: place for name, place in fields.items() if name != "rest"}
        elif size is not None and None not in sizes:
            yield f"sizeof(struct {struct})", size
        for field, (offset, size) in fields.items():
            if field in EXTRA:
                continue
            yield f"offsetof(struct {struct}, {field})", offset
            if size is not None:
                yield f"sizeof(((struct {struct} *)0)->{field})", size


@timeout(300)
def test_headers():
    """Constants and structures are those of a kernel, and of the tree."""
    desc, consts = real()
    ksft_eq({name + ".const" for name in desc.files}, set(consts))
    for name in desc.files:
        ksft_eq(set(consts[name + ".const"]), desc.consts[name], name)
    wrong, names, sizes = against_headers(desc, consts)
    ksft_eq(wrong, {}, "here, and in C")
    ksft_ge(names, 600)
    ksft_ge(sizes, 700)
    ksft_pr(f"{names} constants, {sizes} sizes and offsets")


def fits(what, here, there):
    """A size or offset is that of C; what is flexible there has no size."""
    if there is None:
        return what.startswith("sizeof(((")
    if what.startswith("sizeof(struct"):
        # A flexible array at the end
        return here >= there
    return here == there


def test_private_data():
    """CM messages have their fields where the kernel has them."""
    desc, _ = real()
    headers = syzlang.common_headers(kernels("kdir", SERIES))
    with open(os.path.join(headers, "include", "rdma", "ibta_vol1_c12.h"),
              encoding="utf-8") as file:
        text = file.read().replace("\\\n", " ")
    count = 0
    for message in ("req", "mra", "rej", "rep", "rtu", "dreq", "drep"):
        _, fields = desc.layout(desc.named[f"ibds_cm_{message}"], {})
        for name, how, where in re.findall(
                rf"#define CM_{message.upper()}_(\w+)\s+CM_FIELD(\w*)_M?LOC"
                rf"\(struct cm_{message}_msg,\s*([^)]*)\)", text):
            numbers = [int(word) for word in re.findall(r"\b\d+\b", where)]
            check_cm_field(fields, f"{message} {name.lower()}", how, numbers)
            count += 1
        check_all_named(text, message, fields)
    ksft_ge(count, 40)


def check_cm_field(fields, name, how, numbers):
    """One field, of which the header says byte, bit and width."""
    field = name.split()[1]
    offset, size, bits = fields[MERGED.get(field, field)]
    if field in MERGED:
        return
    ksft_eq(offset, numbers[0], name)
    if bits:
        ksft_eq((bits[0], bits[1]), (numbers[1] if len(numbers) > 2 else 0,
                                     numbers[-1]), name)
    elif how == "64":
        ksft_eq(size, 8, name)
    else:
        ksft_eq(8 * size, numbers[1], name)


def check_all_named(text, message, fields):
    """Fields here that the header does not have are reserved."""
    names = {name.lower() for name in
             re.findall(rf"#define CM_{message.upper()}_(\w+)", text)}
    names |= set(MERGED.values())
    ksft_eq([field for field in fields
             if field not in names and not re.match(r"rsv\d", field)], [], message)


# A change of the sources, and what is said of it
ADDED = (
    ("Documentation/netlink/specs/ipoib.yaml",
     "        name: engine\n        type: u32",
     "        name: surprise\n        type: u32\n      -\n"
     "        name: engine\n        type: u32",
     "IPOIB_A_DEV_SURPRISE is not described"),
    ("Documentation/netlink/specs/ipoib.yaml", "name: conn-get", "name: conn-find",
     "no call sends IPOIB_CMD_CONN_FIND"),
    ("Documentation/netlink/specs/ipoib.yaml", "name: conn-ntf", "name: conn-told",
     "IPOIB_CMD_CONN_TOLD is not among notifications"),
    ("Documentation/netlink/specs/ipoib.yaml", "        name: limited-pkey",
     "        name: bad-luck", "IPOIB_CAUSE_BAD_LUCK"),
    ("Documentation/netlink/specs/eipoib.yaml", "exact-len: 20", "exact-len: 8",
     "contender has 8 bytes, not 20"),
    ("include/uapi/linux/ipoib.h", "\tIPOIB_A_CONN_IN_FLIGHT,",
     "\tIPOIB_A_CONN_IN_FLIGHT,\n\tIPOIB_A_CONN_LOST,",
     "IPOIB_A_CONN_LOST is not described"),
    ("include/uapi/linux/eth_ipoib.h", "\tIFLA_EIPOIB_GUARD,",
     "\tIFLA_EIPOIB_GUARD,\n\tIFLA_EIPOIB_GATE,", "IFLA_EIPOIB_GATE"),
    ("ipoib_netlink.c", "[IFLA_IPOIB_PKEY]\t= { .type = NLA_U16 }",
     "[IFLA_IPOIB_PKEY]\t= { .type = NLA_U32 }", "IFLA_IPOIB_PKEY is 4, not 2"),
    ("eth_ipoib/eipoib_link.c", "[IFLA_EIPOIB_GUARD]\t",
     "[IFLA_EIPOIB_GATE]\t= NLA_POLICY_MAX(NLA_U8, 1),\n\t[IFLA_EIPOIB_GUARD]\t",
     "IFLA_EIPOIB_GATE is not described"),
    ("ipoib_sysfs.c", "DEVICE_ATTR_RO(pkey);",
     "DEVICE_ATTR_RO(pkey);\nstatic DEVICE_ATTR_RW(colour);",
     "('net', 'colour') is not described"),
    ("ipoib_sysfs.c", "DEVICE_ATTR_RO(pkey);", "DEVICE_ATTR_RW(pkey);",
     "('net', 'pkey') is O_RDWR, not O_RDONLY"),
    ("ipoib_sysfs.c", "DEVICE_ATTR_RO(pkey);", "DEVICE_BOOL_ATTR(pkey);",
     "DEVICE_BOOL_ATTR"),
    ("ipoib_main.c", "module_param_named(send_queue_size,",
     "module_param_named(sendq,", "('ib_ipoib', 'sendq') is not described"),
    ("eth_ipoib/eipoib_main.c", "\nMODULE_LICENSE",
     "\nmodule_param(hidden, uint, 0644);\nMODULE_LICENSE",
     "('eth_ipoib', 'hidden') is not described"),
    (f"{SIM}/main.c", "BUS_ATTR_WO(unlink);",
     "BUS_ATTR_WO(unlink);\nstatic BUS_ATTR_WO(reset);",
     "('bus', 'reset') is not described"),
    (f"{SIM}/debugfs.c", "\tIBDS_FAULT(irq_ns, u32),",
     "\tIBDS_FAULT(irq_ns, u32),\n\tIBDS_FAULT(smoke, u32),",
     "('debug port', 'smoke') is not described"),
    (f"{SIM}/debugfs.c", "IBDS_FAULT(irq_ns, u32)", "IBDS_FAULT(irq_ns, bool)",
     "irq_ns is of the kind bool"),
    (f"{SIM}/debugfs.c", '{ .name = "set_lid",', '{ .name = "set_lids",',
     "('debug port', 'set_lids') is not described"),
    (f"{SIM}/debugfs.c", '{ "sm_change", IB_EVENT',
     '{ "sm_changed", IB_EVENT', "sm_changed is not described"),
    ("ipoib_fs.c", "dev->debugfs[1] = ",
     'ipoib_fs_file(dev, prefix, "queue", &path_fops);\n\tdev->debugfs[1] = ',
     "('debug ipoib', 'queue') is not described"),
    ("ipoib_dev.c", "\n/**", "\nvoid f(void) { debugfs_create_u32(1); }\n/**",
     "('ipoib_dev.c', 'debugfs_create_file') is not described"),
    (f"{SIM}/caps.c", "\tIBDS_KEY(lso,", "\tIBDS_KEY(tso, 0, 1, 1),\n\tIBDS_KEY(lso,",
     "tso is not described"),
    (f"{SIM}/caps.c", '{ "ndr", IB_SPEED_NDR }', '{ "xdr", IB_SPEED_NDR }',
     "xdr is not described"),
    (f"{SIM}/pma.c", '= "port_xmit_wait"', '= "port_xmit_waits"',
     "port_xmit_waits is not described"),
    (f"{SIM}/call.c", '{ "create_ah", true }', '{ "create_ah", false }',
     "create_ah is described, but there is none"),
    (f"{SIM}/verbs.c", "\t.query_ah = ibds_query_ah,",
     "\t.query_ah = ibds_query_ah,\n\t.rereg_user_mr = ibds_rereg_user_mr,",
     "rereg_user_mr is not described"),
    ("ipoib_ethtool.c", "\t.get_channels\t\t= ipoib_get_channels,",
     "\t.get_channels\t\t= ipoib_get_channels,\n"
     "\t.get_tunable\t\t= ipoib_get_tunable,", "get_tunable is not described"),
    ("ipoib_ethtool.c", '\t"connected-offload",', '\t"connected-offload", "turbo",',
     "turbo is not described"),
    ("ipoib_ethtool.c", "ETHTOOL_COALESCE_USE_ADAPTIVE_RX,",
     "ETHTOOL_COALESCE_USE_ADAPTIVE_RX | ETHTOOL_COALESCE_TX_USECS_IRQ,",
     "TX_USECS_IRQ is not described"),
    (f"{SIM}/slow.c", "IB_OPCODE_RC_SEND_ONLY ||", "IB_OPCODE_RC_FLUSH ||",
     "IB_OPCODE_RC_FLUSH is not described"),
)


def test_added_detected():
    """Each thing that is added to the code, and not here, fails test_complete."""
    desc, _ = real()
    for path, old, new, what in ADDED:
        ksft_true(says(desc, Tree({path: [(old, new)]}), what), f"{path}: {new}")


# A change of a description, and what is said of it
REMOVED = (
    ("ibdevsim.txt", '"/sys/kernel/debug/ibdevsim/ibdevsim1/port1/jitter_us", ', "",
     "('debug port', 'jitter_us') is not described"),
    ("ibdevsim.txt", '"mtu=512", ', "", "value of mtu: 512 is not described"),
    ("ibdevsim.txt", '"vfs=", ', "", "key: vfs is not described"),
    ("ibdevsim.txt", '"gid_change"', '"gid_changes"', "gid_changes is described"),
    ("ibdevsim.txt", '"watchdog"', '"watchdogs"', "watchdogs is described"),
    ("sysfs_ipoib.txt", '"/sys/class/net/ib0/umcast"', '"/sys/class/net/ib0/umcasts"',
     "('net', 'umcasts') is described"),
    ("sysfs_ipoib.txt", "/parameters/debug_level", "/parameters/debug_levels",
     "('ib_ipoib', 'debug_levels') is described"),
    ("socket_netlink_generic_ipoib.txt",
     "\tIPOIB_A_CONN_LID\tnlattr[IPOIB_A_CONN_LID, int32]\n", "",
     "IPOIB_A_CONN_LID is not described"),
    ("socket_netlink_generic_ipoib.txt", "nlattr[IPOIB_A_CONN_LID, int32]",
     "nlattr[IPOIB_A_CONN_LID, int16]", "lid has 4 bytes, not 2"),
    ("socket_netlink_generic_ipoib.txt", ", IPOIB_CAUSE_STARTING", "",
     "IPOIB_CAUSE_STARTING is not described"),
    ("socket_netlink_generic_ipoib.txt",
     "sendmsg$EIPOIB_CMD_PEER_GET(", "sendmsg$EIPOIB_CMD_PEER_FIND(",
     "no call sends EIPOIB_CMD_PEER_GET"),
    ("socket_netlink_route_ipoib.txt", "nlattr[IFLA_EIPOIB_GUARD, int8[0:2]]",
     "nlattr[IFLA_EIPOIB_GUARD, int16[0:2]]", "IFLA_EIPOIB_GUARD is 1, not 2"),
    ("dev_infiniband_ibdevsim.txt", "IB_USER_VERBS_CMD_QUERY_SRQ, IB_USER",
     "IB_USER", "command of the ioctl: IB_USER_VERBS_CMD_QUERY_SRQ"),
    ("ibdevsim_inject.txt", "const[IB_OPCODE_UD_SEND_ONLY_WITH_IMMEDIATE, int8]",
     "int8", "IB_OPCODE_UD_SEND_ONLY_WITH_IMMEDIATE is not described"),
)
# What can't be read, or used
REFUSED = (
    ("sysfs_ipoib.txt", "ptr[in, string[ipoib_mode_words]]",
     "ptr[in, string[ipoib_mode_word]]", "there are no flags ipoib_mode_word"),
    ("sysfs_ipoib.txt", "int32[ipoib_param_values]", "int32[ipoib_mode_words]",
     "of the other kind"),
    ("sysfs_ipoib.txt", "ipoib_param_values = 0, 1,", "ipoib_param_values = 0, 1\n,",
     "begins nothing"),
    ("sysfs_ipoib.txt", "len bytesize[buf])", "len bytesize[buff])",
     "no argument buff"),
    ("sysfs_ipoib.txt", "flags const[O_WRONLY], mode", "flags const[O_RDWR], mode",
     "opened for"),
    ("sysfs_ipoib.txt", '"/sys/class/net/ib0/pkey"', '"/sys/class/nett/ib0/pkey"',
     "in no place"),
    ("sysfs_ipoib.txt", "resource fd_ipoib_param[fd]", "resource fd_ipoib_param[fdd]",
     "fdd is no resource"),
    ("sysfs_ipoib.txt", "mode const[0]) fd_ipoib_mode\n", "mode const[0]) fd\n",
     "fd is no resource"),
    ("ibdevsim.txt", "write$ibdevsim_unlink(", "write$ibdevsim_link(",
     "another write$ibdevsim_link"),
    ("ibdevsim.txt", "\tblank\tconst[' ', int8]\n\tkeys", "\tid\tint8\n\tkeys",
     "two fields of one name"),
    ("ibdevsim.txt", "\tkeys\tarray[ibdevsim_key, 0:8]\n} [packed]",
     "\tkeys\tarray[ibdevsim_key, 0:8]\n\tend\tint32\n}", "not packed"),
    ("ibdevsim.txt", "fmt[hex, int32[2:5]]", "fmt[hexx, int32[2:5]]",
     "arguments of fmt"),
    ("ibdevsim.txt", "int32[0:37]", "int32[38:37]", "no such range"),
    ("ibdevsim.txt", "ibdevsim_key [\n", "ibdevsim_key (\n",
     "where word should be"),
    ("ibdevsim_inject.txt", "value[lrh:lnh]", "value[lrh:lnx]", "no field lnx"),
    ("ibdevsim_inject.txt", "\tvl\tint8:4\n", "", "bits are missing"),
    ("ibdevsim_inject.txt", "len[nd, int16be]", "len[ndd, int16be]", "no field ndd"),
    ("ibdevsim_inject.txt", "ibds_cm_t[CM_DREP_ATTR_ID, ibds_cm_drep]",
     "ibds_cm_t[CM_DREP_ATTR_ID]", "has not 2 arguments"),
    ("ibdevsim_inject.txt", "ibds_cm_t[CM_DREP_ATTR_ID, ibds_cm_drep]",
     "ibds_cm_t[CM_DREP_ATTR_ID, array[int8, 232]]", "not used: ibds_cm_drep"),
    ("dev_infiniband_ibdevsim.txt", "\tah_handle\tah_ibds\n}\n\nib_uverbs_ah_attr",
     "\tah_handle\tint32\n}\n\nib_uverbs_ah_attr", "nothing makes one"),
    ("dev_infiniband_ibdevsim.txt", "ptr[in, write_ibds[IB_USER_VERBS_CMD_GET",
     "ptr[ins, write_ibds[IB_USER_VERBS_CMD_GET", "arguments of ptr"),
    ("ethtool_ipoib.txt", "meta arches", "meta architectures", "meta architectures"),
)


def changed(*changes):
    """The descriptions with changes: (file, old, new)."""
    found = texts()
    for file, old, new in changes:
        if old not in found[file]:
            raise ValueError(f"{file} has no {old!r}")
        found[file] = found[file].replace(old, new, 1)
    desc = syzlang.Descriptions({name: text for name, text in found.items()
                                 if name.endswith(".txt")})
    desc.sizes.update(real()[0].sizes)
    desc.check()
    return desc


def test_removed_detected():
    """Each thing that is taken from here, or is not so, fails test_complete."""
    for file, old, new, what in REMOVED:
        ksft_true(says(changed((file, old, new)), Tree(), what), f"{file}: {new}")


def test_grammar_detected():
    """What is no description, or names what there is not, is refused."""
    for file, old, new, what in REFUSED:
        try:
            list(complaints(changed((file, old, new)), Tree()))
        except syzlang.Wrong as wrong:
            ksft_in(what, str(wrong), f"{file}: {new}")
        else:
            ksft_true(False, f"{file}: {new!r} is not refused")


@timeout(300)
def test_headers_detected():
    """A constant that there is not, or is another, and fields that are elsewhere."""
    desc = changed(
        ("sysfs_ipoib.txt", "const[O_WRONLY]", "const[O_WRITEONLY]"),
        ("dev_infiniband_ibdevsim.txt", "\tcq_handle\tcq_ibds\n\tne", "\tne"),
        ("ethtool_ipoib.txt", "\tother_count\tint32[0:1]",
         "\tother_count\tint16[0:1]"),
        ("ibdevsim_inject.txt", "\tmax_msg\t\tint32be[ibds_cm_max_msgs]\n\tmagic",
         "\tmax_len\t\tint32be[ibds_cm_max_msgs]\n\tmagic"))
    consts = {name: {**values} for name, values in real()[1].items()}
    consts["socket_netlink_generic_ipoib.txt.const"]["IPOIB_CMD_CONN_GET"] += 1
    wrong, _, _ = against_headers(desc, consts)
    for what, here, there in (
            ("O_WRITEONLY", None, None), ("IPOIB_CMD_CONN_GET", 9, 8),
            ("offsetof(struct ib_uverbs_poll_cq, ne)", 8, 12),
            ("sizeof(((struct ethtool_channels *)0)->other_count)", 2, 4),
            ("offsetof(struct ipoib_cm_private, max_len)", 4, None)):
        ksft_eq(wrong.get(what), (here, there), what)
