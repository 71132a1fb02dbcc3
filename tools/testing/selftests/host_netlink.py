# SPDX-License-Identifier: GPL-2.0-only
"""The netlink families: specification, header, driver, client and guide agree."""

import glob
import os
import re

import yaml

from lib import ksft_eq, ksft_in, ksft_true
from common import ROOT
from lib.genl import nl

BOOT = "host"

GUIDE = os.path.join(ROOT, "Documentation", "guide", "troubleshooting.rst")


class Family:
    """A family: what there is of it in the tree."""

    def __init__(self, name, sources, commands, sets, **enums_of):
        self.name, self.commands, self.sets = name, commands, sets
        self.enums = {key.replace("_", "-"): value for key, value in enums_of.items()}
        self.spec = yaml.safe_load(text_of(os.path.join(
            ROOT, "Documentation", "netlink", "specs", f"{name}.yaml")))
        self.header = text_of(os.path.join(ROOT, "include", "uapi", "linux",
                                           f"{name}.h"))
        self.code = "".join(text_of(path) for path in
                            glob.glob(os.path.join(ROOT, sources)))

    def in_c(self, *words):
        """A name as C has it."""
        return "_".join((self.name, *words)).replace("-", "_").upper()

    def header_enums(self):
        """The enumerations of the header, each as {name: value}."""
        found = []
        for body in re.findall(r"enum \w*\s*{(.*?)}", self.header, re.S):
            values, value = {}, -1
            for name, given in re.findall(r"(\w+)(?: = (\d+))?,", body):
                value = int(given) if given else value + 1
                values[name] = value
            found.append(values)
        return found


READ_BY = {"u8": "number", "u16": "number", "u32": "number", "uint": "number",
           "s32": "signed", "string": "text", "flag": "flag"}


def text_of(path):
    """A file."""
    with open(path, encoding="utf-8") as file:
        return file.read()


def families():
    """Of the driver, and of eth_ipoib"""
    return (
        Family("ipoib", "ipoib_*.c", nl.COMMANDS,
               {"dev": nl.DEV, "neigh": nl.NEIGH, "group": nl.GROUP,
                "conn": nl.CONN},
               cause=nl.CAUSES, dev_mode=nl.DEV_MODE, dev_engine=nl.DEV_ENGINE,
               path_status=nl.PATH_STATUS, link_status=nl.LINK_STATUS,
               group_status=nl.GROUP_STATUS, conn_status=nl.CONN_STATUS),
        Family("eipoib", "eth_ipoib/eipoib_*.c", nl.ETHERNET_COMMANDS,
               {"guest": nl.GUEST, "peer": nl.PEER, "group": nl.GUEST_GROUP},
               guest_status=nl.GUEST_STATUS, peer_status=nl.PEER_STATUS))


def groups_of(spec):
    """The multicast groups of a specification."""
    return spec.get("mcast-groups", {}).get("list", ())


def test_header():
    """Numbers of enumerations, attributes and commands are those of the spec."""
    for family in families():
        spec, in_c = family.spec, family.in_c
        wanted = [{in_c(each["name"], entry["name"]): place
                   for place, entry in enumerate(each["entries"])}
                  for each in spec["definitions"]]
        for each in spec["attribute-sets"]:
            wanted.append({in_c("a", each["name"], attr["name"]): place
                           for place, attr in enumerate(each["attributes"], 1)})
        wanted.append({in_c("cmd", each["name"]): place for place, each in
                       enumerate(spec["operations"]["list"], 1)})
        here = [{name: value for name, value in each.items()
                 if not name.startswith("__")} for each in family.header_enums()]
        ksft_eq(here, wanted)
        for name in (spec["name"], *(each["name"] for each in groups_of(spec))):
            ksft_in(f'"{name}"', family.header)


def check_reader(family, attr, reader):
    """The client reads an attribute as its type says."""
    if "enum" in attr:
        ksft_eq(reader(bytes(4)), family.enums[attr["enum"]][0], attr["name"])
    elif attr["type"] == "binary":
        size = attr.get("checks", {}).get("exact-len")
        ksft_eq(reader.__name__, {None: "address", 6: "mac", 16: "gid",
                                  20: "lladdr"}[size], attr["name"])
    else:
        ksft_eq(reader.__name__, READ_BY[attr["type"]], attr["name"])


def test_client():
    """ipoibctl's client has the same names, in the same order, read rightly."""
    for family in families():
        spec = family.spec
        ksft_eq({each["name"]: tuple(entry["name"] for entry in each["entries"])
                 for each in spec["definitions"]}, family.enums)
        for each in spec["attribute-sets"]:
            table = family.sets[each["name"]]
            ksft_eq([name for name, _ in table],
                    [attr["name"] for attr in each["attributes"]])
            for attr, (_, reader) in zip(each["attributes"], table):
                check_reader(family, attr, reader)
        ksft_eq([name for name, _ in family.commands],
                [each["name"] for each in spec["operations"]["list"]])
        for each, (name, table) in zip(spec["operations"]["list"], family.commands):
            if "attribute-set" in each:
                ksft_true(table is family.sets[each["attribute-set"]], name)


def test_driver():
    """The modules write each attribute, as its type says, and know each command."""
    put = {"uint": r"(?:nla_put_uint|e?ipoib_msg_put_ms)",
           "binary": r"(?:nla_put|eipoib_msg_put_ip)"}
    for family in families():
        spec, in_c = family.spec, family.in_c
        for each in spec["attribute-sets"]:
            for attr in each["attributes"]:
                # One attribute of all messages, of which the first set's name is used
                name = in_c("a", spec["attribute-sets"][0]["name"]
                            if attr["name"] == "ifindex" else each["name"],
                            attr["name"])
                function = put.get(attr["type"], f"nla_put_{attr['type']}")
                ksft_true(re.search(rf"\b{function}\((?:dump->)?skb,\s*{name}\b",
                                    family.code), name)
        for each in spec["operations"]["list"]:
            ksft_in(in_c("cmd", each["name"]), family.code)


def test_operations():
    """What an operation tells are attributes of its set; each is told somewhere."""
    for family in families():
        spec = family.spec
        names = {each["name"]: {attr["name"] for attr in each["attributes"]}
                 for each in spec["attribute-sets"]}
        told = {name: set() for name in names}
        for each in spec["operations"]["list"]:
            found = set(each.get("event", {}).get("attributes", ()))
            for kind in ("do", "dump"):
                part = each.get(kind)
                if part and "reply" in part:
                    ksft_eq(part["request"]["attributes"], ["ifindex"],
                            each["name"])
                    found |= set(part["reply"]["attributes"])
                elif part:
                    found |= set(part["request"]["attributes"])
            told[each.get("attribute-set", "dev")] |= found
        ksft_eq(told, names)


def test_man_page():
    """The manual page has each command and option of ipoibctl."""
    page = text_of(os.path.join(ROOT, "tools", "ipoibctl", "ipoibctl.8"))
    page = page.replace("\\-", "-")
    program = text_of(os.path.join(ROOT, "tools", "ipoibctl", "ipoibctl"))
    words = re.findall(r'commands\.add\(\s*"(\w+)"', program) + \
        re.findall(r'\("(\w+)", "\w+-get"', program) + ["add", "del"] + \
        re.findall(r'"(--\w+)"', program)
    ksft_in("show", words)
    ksft_in("groups", words)
    for word in words:
        ksft_true(re.search(rf"^\.(B|BR|BI|RB|TP|IR).*{word}\b", page, re.M),
                  word)


def test_guide():
    """The guide has each cause."""
    guide = text_of(GUIDE)
    for name in nl.CAUSES[1:]:
        ksft_true(re.search(rf"^{name} +\S", guide, re.M), name)
