# SPDX-License-Identifier: GPL-2.0-only
"""The netlink family: its specification, header, driver, client and guide agree."""

import glob
import os
import re

import yaml

from lib import ksft_eq, ksft_in, ksft_true
from common import ROOT
from lib.genl import nl

BOOT = "host"

SPEC = os.path.join(ROOT, "Documentation", "netlink", "specs", "ipoib.yaml")
HEADER = os.path.join(ROOT, "include", "uapi", "linux", "ipoib.h")
GUIDE = os.path.join(ROOT, "Documentation", "guide", "troubleshooting.rst")
CLIENT = {"cause": nl.CAUSES, "dev-mode": nl.DEV_MODE,
          "dev-engine": nl.DEV_ENGINE, "path-status": nl.PATH_STATUS,
          "link-status": nl.LINK_STATUS, "group-status": nl.GROUP_STATUS,
          "conn-status": nl.CONN_STATUS}
SETS = {"dev": nl.DEV, "neigh": nl.NEIGH, "group": nl.GROUP, "conn": nl.CONN}
READ_BY = {"u8": "number", "u16": "number", "u32": "number", "uint": "number",
           "s32": "signed", "string": "text", "flag": "flag"}


def text_of(path):
    """A file."""
    with open(path, encoding="utf-8") as file:
        return file.read()


def spec():
    """The specification."""
    return yaml.safe_load(text_of(SPEC))


def in_c(*words):
    """A name as C has it."""
    return "_".join(("ipoib", *words)).replace("-", "_").upper()


def enums():
    """The enumerations of the header, each as {name: value}."""
    found = []
    for body in re.findall(r"enum \w*\s*{(.*?)}", text_of(HEADER), re.S):
        values, value = {}, -1
        for name, given in re.findall(r"(\w+)(?: = (\d+))?,", body):
            value = int(given) if given else value + 1
            values[name] = value
        found.append(values)
    return found


def test_header():
    """Numbers of enumerations, attributes and commands are those of the spec."""
    text = spec()
    wanted = [{in_c(each["name"], entry["name"]): place
               for place, entry in enumerate(each["entries"])}
              for each in text["definitions"]]
    for each in text["attribute-sets"]:
        wanted.append({in_c("a", each["name"], attr["name"]): place
                       for place, attr in enumerate(each["attributes"], 1)})
    wanted.append({in_c("cmd", each["name"]): place for place, each in
                   enumerate(text["operations"]["list"], 1)})
    here = [{name: value for name, value in each.items()
             if not name.startswith("__")} for each in enums()]
    ksft_eq(here, wanted)
    for name in (text["name"], *(each["name"] for each in
                                 text["mcast-groups"]["list"])):
        ksft_in(f'"{name}"', text_of(HEADER))


def test_client():
    """ipoibctl's client has the same names, in the same order, read rightly."""
    text = spec()
    ksft_eq({each["name"]: tuple(entry["name"] for entry in each["entries"])
             for each in text["definitions"]}, CLIENT)
    for each in text["attribute-sets"]:
        table = SETS[each["name"]]
        ksft_eq([name for name, _ in table],
                [attr["name"] for attr in each["attributes"]])
        for attr, (name, reader) in zip(each["attributes"], table):
            if "enum" in attr:
                ksft_eq(reader(bytes(4)), CLIENT[attr["enum"]][0], name)
            elif attr["type"] == "binary":
                ksft_eq(reader.__name__, {16: "gid", 20: "lladdr"}[
                    attr["checks"]["exact-len"]], name)
            else:
                ksft_eq(reader.__name__, READ_BY[attr["type"]], name)
    ksft_eq([name for name, _ in nl.COMMANDS],
            [each["name"] for each in text["operations"]["list"]])


def test_driver():
    """The driver writes each attribute, as its type says, and sends each command."""
    code = "".join(text_of(path) for path in
                   glob.glob(os.path.join(ROOT, "ipoib_*.c")))
    put = {"uint": r"(?:nla_put_uint|ipoib_msg_put_ms)", "binary": "nla_put"}
    for each in spec()["attribute-sets"]:
        for attr in each["attributes"]:
            # One attribute of all messages, see ipoib_msg.c
            name = in_c("a", "dev" if attr["name"] == "ifindex" else each["name"],
                        attr["name"])
            function = put.get(attr["type"], f"nla_put_{attr['type']}")
            ksft_true(re.search(rf"\b{function}\(skb,\s*{name}\b", code), name)
    for each in spec()["operations"]["list"]:
        ksft_in(in_c("cmd", each["name"]), code)


def test_operations():
    """What an operation tells are attributes of its set; each is told somewhere."""
    text = spec()
    names = {each["name"]: {attr["name"] for attr in each["attributes"]}
             for each in text["attribute-sets"]}
    told = {name: set() for name in names}
    for each in text["operations"]["list"]:
        found = set(each.get("event", {}).get("attributes", ()))
        for kind in ("do", "dump"):
            part = each.get(kind)
            if part:
                ksft_eq(part["request"]["attributes"], ["ifindex"], each["name"])
                found |= set(part["reply"]["attributes"])
        told[each.get("attribute-set", "dev")] |= found
    ksft_eq(told, names)


def test_man_page():
    """The manual page has each command and option of ipoibctl."""
    page = text_of(os.path.join(ROOT, "tools", "ipoibctl", "ipoibctl.8"))
    page = page.replace("\\-", "-")
    program = text_of(os.path.join(ROOT, "tools", "ipoibctl", "ipoibctl"))
    words = re.findall(r'add_parser\(\s*"(\w+)"', program) + \
        re.findall(r'\("(\w+)", "\w+-get"', program) + \
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
