# SPDX-License-Identifier: GPL-2.0-only
"""
The documentation: Sphinx makes pages of it, man finds nothing wrong, and each command
is run by a case, or it says why not.
"""

import glob
import os
import re
import tempfile

from lib import cmd, defer, ksft_eq, ksft_ge, ksft_in, ksft_true, timeout
from lib import marks
from common import ROOT

BOOT = "host"
SECONDS = 10

DOCS = os.path.join(ROOT, "Documentation")


def named(top, end):
    """Files below a directory whose names end so, relative and without that."""
    return {os.path.relpath(path, top).removesuffix(end) for path in
            glob.glob(os.path.join(top, "**", "*" + end), recursive=True)}


@timeout(120)
def test_sphinx():
    """What Sphinx warns of, and each reference to nowhere, fails it."""
    place = tempfile.TemporaryDirectory()
    defer(place.cleanup)
    done = cmd(["sphinx-build", "-q", "-W", "--keep-going", "-n", "-b", "html",
                DOCS, place.name], fail=False, timeout=100)
    ksft_eq((done.ret, done.stderr), (0, ""))
    pages = named(place.name, ".html")
    sources = named(DOCS, ".rst")
    ksft_eq(sources - pages, set())
    ksft_ge(len(sources), 6)


@timeout(60)
def test_manual():
    """groff has no warning about the manual page."""
    page = os.path.join(ROOT, "tools", "ipoibctl", "ipoibctl.8")
    done = cmd(["groff", "-man", "-ww", "-z", "-Tutf8", page], fail=False)
    ksft_eq((done.ret, done.stderr), (0, ""))
    ksft_true(os.path.getsize(page))


def marked(path):
    """The blocks of a page."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    return marks.blocks_of_markdown(text) if path.endswith(".md") else \
        marks.blocks_of_rst(text)


def test_commands():
    """Each block of commands or configuration says which case runs it, or why none."""
    pages = [os.path.join(ROOT, "README.md")]
    for place in ("guide", "reference"):
        pages += sorted(glob.glob(os.path.join(DOCS, place, "*.rst")))
    wrong, count, run = [], 0, set()
    for path in pages:
        blocks = marked(path)
        wrong += [f"{os.path.relpath(path, ROOT)}: {each}"
                  for each in marks.complaints(blocks)]
        count += len(blocks)
        run |= {os.path.basename(block.file) for block in blocks if block.file}
    ksft_eq(wrong, [])
    ksft_ge(count, 40)
    ksft_eq(run, set(os.listdir(os.path.join(DOCS, "guide", "recipes"))))


def test_fences():
    """The README's blocks are indented ones, which are those that are looked at."""
    with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as file:
        ksft_eq([line for line in file if line.startswith(("```", "~~~"))], [])


# A page, and what is to be said of its only block
GOOD = """
Text, and a block in a list:

* An item:

  .. run: users_nm.test_modes

  ::

      nmcli connection modify storage infiniband.mtu 1500

.. not run: shows output only

.. code-block:: console

   # ipoibctl show

.. run: users_nm.test_modes,
        users_nm.test_children

.. literalinclude:: recipes/nmcli-child
   :start-after: SPDX
"""
BAD = {
    "no mark": "Text::\n\n    ip link show\n",
    "no mark ": ".. run: users_nm.test_modes\n\nText::\n\n    nmcli device\n",
    "there is no case users_nm.test_nosuch":
        ".. run: users_nm.test_nosuch\n\n::\n\n    nmcli device\n",
    "the mark says nothing": ".. not run:\n\n::\n\n    nmcli device\n",
    "users_nm.test_modes has no frobnicate":
        ".. run: users_nm.test_modes\n\n::\n\n    frobnicate --all\n",
    "users_nm.test_modes has no hotspot":
        ".. run: users_nm.test_modes\n\n::\n\n    nmcli device hotspot\n",
    "queues_ethtool.test_moderation has no -x":
        ".. run: queues_ethtool.test_moderation\n\n::\n\n    ethtool -x ib0\n",
    "users_nm.test_modes has no nosuch":
        ".. run: users_nm.test_modes\n\n::\n\n"
        "    # nmcli device\n    output\n    # nosuch\n",
    "users_files.test_ifupdown has no recipes/nmcli-port":
        ".. run: users_files.test_ifupdown\n\n"
        ".. literalinclude:: recipes/nmcli-port\n",
    "no block behind the mark": ".. not run: because\n\nText.\n",
}


def test_commands_detected():
    """Blocks without a mark, with a case that is not there, or that runs other things."""
    good = marks.blocks_of_rst(GOOD)
    ksft_eq(len(good), 3)
    ksft_eq(list(marks.complaints(good)), [])
    for what, page in BAD.items():
        found = list(marks.complaints(marks.blocks_of_rst(page)))
        ksft_true(found, what)
        ksft_in(what.strip(), " ".join(found))
        if "literalinclude" in page:
            continue
        # The same in Markdown
        page = re.sub(r"^\.\. (.*run:.*)$", r"<!-- \1 -->", page, flags=re.M)
        found = list(marks.complaints(marks.blocks_of_markdown(
            page.replace("\n::\n", "\n"))))
        ksft_in(what.strip(), " ".join(found))
