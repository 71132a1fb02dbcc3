#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Tests of floors: a tree that is right, each breach, the real sources."""

import glob
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

from common import ROOT, TESTING, load_program

floors = load_program(os.path.join(TESTING, "floors"))

TABLE = """\
sources x*.[ch]
prefix x_

floor surface
  top             what users see
  + top_more      more of it
floor middle
  left            calls right
  right           is called by left
floor ground
  low             what all use
  x               what all share

aside
  test            tests

opaque
  x_secret        right

pointers
  # pointer       filled by   called by   event
  x_ops.done      top         right       event: something is done
  x_ops.size      low         right
  x_walk(visit)   left        right       event: found one
  x_dev.work      top         left        event: look again
  x_attr.show     top         top

limits
  *.c             60
  x.h             40
  function        9
  50%             4
  95%             9

exceptions
"""

TREE = {
    "x.h": """\
#include <linux/workqueue.h>
struct x_secret;
struct x_dev {
	const struct x_ops *ops;
	struct work_struct work;
	struct x_secret *secret;
	struct { int up; } state;
};
""",
    "x_low.h": """\
int x_low(void);
static inline int x_low_inline(void)
{
	return x_low();
}
#define x_low_macro(dev)	(x_low() + (dev)->state.up)
#define x_low_plus(a)		((a) + 1)
#define x_low_both(dev)		(x_low_plus(x_low_macro(dev)))
""",
    "x_low.c": """\
#include "x.h"
#include "x_low.h"
int x_low(void)
{
	return 1;
}
""",
    "x_right.h": """\
struct x_ops {
	void (*done)(struct x_dev *dev);
	int (*size)(void);
};
void x_walk(struct x_dev *dev, void (*visit)(struct x_dev *));
int x_right(struct x_dev *dev);
""",
    "x_right.c": """\
#include "x.h"
#include "x_low.h"
#include "x_right.h"
struct x_secret {
	int value;
};
void x_walk(struct x_dev *dev, void (*visit)(struct x_dev *))
{
	visit(dev);
}
/* Not x_top(), which stands in a comment, and "x_top()" in a string. */
int x_right(struct x_dev *dev)
{
	struct x_secret *secret = dev->secret;
	const struct x_ops *ops = dev->ops;

	pr_debug("x_top()");
	ops->done(dev);
	return secret->value + READ_ONCE(dev->ops)->size();
}
""",
    "x_left.c": """\
#include "x.h"
#include "x_right.h"
static void x_left_visit(struct x_dev *dev)
{
	queue_work(system_wq, &dev->work);
}
int x_left(struct x_dev *dev)
{
	x_walk(dev, x_left_visit);
	return x_right(dev);
}
""",
    "x_top.c": """\
#include "x.h"
#include "x_low.h"
#include "x_right.h"
struct x_attr {
	const char *name;
	int (*show)(struct x_dev *dev);
};
static void x_top_done(struct x_dev *dev) { }
static int name_show(struct x_dev *dev)
{
	return x_low_macro(dev);
}
#define X_TOP(a)	((a) * 2)
#define X_ATTR(_name)	{ .name = #_name, .show = _name##_show }
static const struct x_attr x_attrs[] = { X_ATTR(name) };
struct x_ops x_top_ops __read_mostly = { .done = x_top_done, .size = x_low };
static void x_top_work(struct work_struct *work)
{
	struct x_dev *dev = container_of(work, struct x_dev, work);

	x_left(dev);
}
int x_top(struct x_dev *dev)
{
	INIT_WORK(&dev->work, x_top_work);
	dev->ops = &x_top_ops;
	return x_attrs[0].show(dev);
}
""",
    "x_top_more.h": "int x_top(struct x_dev *dev);\n",
    "x_test.c": '#include "x_right.c"\nint x_test(void) { return x_top(0); }\n',
}

# What is added to a file, and what has to be said then
CYCLE = ("x_right.c", "int x_back(void)\n{\n\treturn x_left(0);\n}\n", [
    "x_right.c:23: call in a cycle, right to left: x_back uses x_left",
    "x_left.c:9: call in a cycle, left to right: x_left uses x_walk",
    "x_left.c:10: call in a cycle, left to right: x_left uses x_right"])
BREACHES = {
    "a cycle": CYCLE,
    "an upward call": (
        "x_low.c", "int bad(void)\n{\n\treturn x_top(0);\n}\n",
        ["x_low.c:9: upward call, low to top: bad uses x_top"]),
    "an upward call in a header": (
        "x_low.h", "static inline int bad(void) { return x_top(0); }\n",
        ["x_low.h:9: upward call, low to top: bad uses x_top"]),
    "an upward call by a macro": (
        "x.h", "#define bad(dev)\tx_left(dev)\n",
        ["x.h:9: upward call, x to left: bad uses x_left"]),
    "a function passed from above": (
        "x_low.c", "int bad(void)\n{\n\treturn kernel_call(x_top);\n}\n",
        ["x_low.c:9: upward call, low to top: bad uses x_top"]),
    "operations of the floor above": (
        "x_right.c", "void bad(struct x_dev *dev)\n"
        "{\n\tdev->ops = &x_top_ops;\n}\n",
        ["x_right.c:23: upward call, right to top: bad uses x_top_ops"]),
    "a pointer that is not listed": (
        "x_top.c", "struct bad { void (*up)(void); };\n"
        "void bad_up(void) { }\n"
        "void bad_fill(struct bad *bad) { bad->up = bad_up; }\n",
        ["x_top.c:31: function pointer bad.up is not listed: "
         "filled by top, called by -"]),
    "a pointer without a filler": (
        "x.h", "struct bad { void (*up)(void); };\n",
        ["x.h:9: function pointer bad.up is not listed: "
         "filled by -, called by -"]),
    "another caller of a pointer": (
        "x_low.c", "int bad(struct x_ops *ops)\n{\n\treturn ops->size();\n}\n",
        ["table:23: function pointer x_ops.size is called by low, right"]),
    "another filler of a pointer": (
        "x_left.c", "const struct x_ops bad = { .size = x_left };\n",
        ["table:23: function pointer x_ops.size is filled by left, low",
         "x_right.c:19: call in a cycle, right to left: "
         "x_right uses *x_ops.size",
         "x_left.c:9: call in a cycle, left to right: x_left uses x_walk",
         "x_left.c:10: call in a cycle, left to right: x_left uses x_right"]),
    "the kernel's structure as a way up": (
        "x_top.c", "const struct net_device_ops bad = {\n"
        "\t.ndo_open = x_top,\n};\n",
        []),
    "a work item that is armed from below": (
        "x_low.c", "void bad(struct x_dev *dev)\n"
        "{\n\tmod_delayed_work(wq, &dev->work, 0);\n}\n",
        ["table:25: function pointer x_dev.work is called by left, low"]),
    "a global pointer": (
        "x_low.c", "int (*bad)(void);\n"
        "int bad_call(void)\n{\n\treturn bad();\n}\n",
        ["x_low.c:10: function pointer bad is not listed: "
         "filled by -, called by low"]),
    "a table of functions": (
        "x_low.c", "static int (*const bad[])(void) = { x_low };\n"
        "int bad_call(int i)\n{\n\treturn bad[i]();\n}\n",
        ["x_low.c:10: function pointer bad is not listed: "
         "filled by low, called by low"]),
    "an access to an opaque structure": (
        "x_left.c", "int bad(struct x_dev *dev)\n"
        "{\n\treturn dev->secret->value;\n}\n",
        ["x_left.c:14: access to the opaque struct x_secret of right: value"]),
    "an opaque structure in a header": (
        "x_right.h", "struct x_secret { int value; };\n",
        ["x_right.h:7: opaque struct x_secret of right is seen by "
         "x_left.c, x_top.c"]),
    "an opaque structure twice": (
        "x_left.c", "struct x_secret { int value; };\n",
        ["x_left.c:12: opaque struct x_secret is defined outside of right"]),
    "a file without a room": (
        "x_bad.c", "int bad;\n", ["x_bad.c: no room"]),
    "a use that is not understood": (
        "x_low.c", "static int bad_get(void) { return 1; }\n"
        "KERNEL_MACRO(bad);\n",
        ["x_low.c:7: no use of bad_get() is found; a macro that pastes names "
         "must be listed in csource.py"]),
    "a work item that is armed by another name": (
        "x_low.c", "void bad(struct x_dev *dev)\n{\n"
        "\tstruct work_struct *work = &dev->work;\n\n"
        "\tqueue_work(wq, work);\n}\n",
        ["x_low.c:11: bad arms a work item or timer that is not named as "
         "&type->member"]),
    "a brace too many": (
        "x_low.c", "int bad(void)\n{\n}}\n",
        ["x_low.c:9: } has no counterpart"]),
    "a long file": (
        "x_low.c", "\n" * 60, ["x_low.c: 66 lines, more than 60"]),
    "a long header": (
        "x.h", "\n" * 60, ["x.h: 68 lines, more than 40"]),
    "a long function": (
        "x_low.c", "int bad(void)\n{\n" + "\n" * 7 + "}\n",
        ["x_low.c:7: bad() has 10 lines",
         "table: 95% of the functions have at most 10 lines, not 9"]),
}

# The same for lines of the table: what, replaced by what
WRONG_TABLES = {
    "an event that is not said to be one": (
        "right       event: something is done", "right",
        ["x_right.c:18: upward call, right to top: "
         "x_right uses *x_ops.done"]),
    "a work item that is no event": (
        "left        event: look again", "left",
        ["x_left.c:5: upward call, left to top: "
         "x_left_visit uses *x_dev.work"]),
    "a parameter that is not listed": (
        "  x_walk(visit)   left        right       event: found one\n", "",
        ["x_right.c:9: function pointer x_walk(visit) is not listed: "
         "filled by left, called by right",
         "x_right.c:9: call in a cycle, right to left: "
         "x_walk uses *x_walk(visit)",
         "x_left.c:9: call in a cycle, left to right: x_left uses x_walk",
         "x_left.c:10: call in a cycle, left to right: x_left uses x_right"]),
    "an event that is none": (
        "  x_ops.size      low         right",
        "  x_ops.size      low         right       event: asked",
        ["table:23: function pointer x_ops.size is no event: "
         "nothing is carried upward"]),
    "a pointer that does not exist": (
        "  x_attr.show ", "  x_attr.gone     top         top\n  x_attr.show ",
        ["table:26: there is no function pointer x_attr.gone"]),
    "an opaque structure that does not exist": (
        "x_secret        right", "x_secret        right\n  x_gone  low",
        ["table: there is no opaque struct x_gone"]),
    "a room without files": (
        "floor ground\n", "floor ground\n  gone     nothing\n",
        ["table: no file of the room gone"]),
    "an exception": (
        "exceptions\n", "exceptions\n  x_low()     12      why not\n",
        ["table:36: x_low() needs no exception"]),
    "two rooms for a file": (
        "  x   ", "  left            twice\n  x   ",
        ["table:12: what is 'left            twice'?"]),
    "a room of two names": (
        "  left            calls right", "  left, other     calls right",
        ["table:8: what is 'left, other     calls right'?"]),
    "an event without a reason": (
        "event: look again", "event",
        ["table:25: what is 'x_dev.work      top         left        "
         "event'?"]),
}


class Tree(unittest.TestCase):
    """Sources in a temporary directory."""
    maxDiff = None

    def setUp(self):
        self.where = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.where)

    def write(self, name, text):
        """A file of the tree."""
        path = os.path.join(self.where, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def append(self, name, text):
        """More text for a file."""
        with open(os.path.join(self.where, name), "a",
                  encoding="utf-8") as file:
            file.write(text)

    def floors(self, *args):
        """What floors says, and its status."""
        done = subprocess.run(
            [sys.executable, floors.__file__, "--root", ".", *args], cwd=self.where,
            capture_output=True, text=True, check=False)
        self.assertNotIn("Traceback", done.stderr)
        return (done.stdout + done.stderr).splitlines(), done.returncode


class MadeUp(Tree):
    """A small tree."""

    def setUp(self):
        super().setUp()
        self.write("table", TABLE)
        for name, text in TREE.items():
            self.write(name, text)

    def test_good(self):
        """Nothing is said about a tree that keeps to its table."""
        self.assertEqual(self.floors("table"), ([], 0))

    def test_breaches(self):
        """Each breach is found, and nothing else."""
        for what, (name, text, expected) in BREACHES.items():
            with self.subTest(what):
                self.write(name, TREE.get(name, "") + text)
                found, status = self.floors("table")
                os.unlink(os.path.join(self.where, name))
                if name in TREE:
                    self.write(name, TREE[name])
                self.assertCountEqual(found, expected)
                self.assertIn(status, (1, 2) if expected else (0,))

    def test_way_through_the_kernel(self):
        """A member of the kernel's structure that is filled above and called
        below is a call upward."""
        self.append("x_top.c", "const struct net_device_ops bad = {\n"
                    "\t.ndo_open = x_top,\n};\n")
        self.append("x_low.c", "int bad_open(struct net_device *ndev)\n"
                    "{\n\treturn ndev->netdev_ops->ndo_open(ndev);\n}\n")
        self.assertCountEqual(self.floors("table")[0], [
            "x_low.c:9: upward call, low to top: "
            "bad_open uses *net_device_ops.ndo_open",
            "x_low.c:9: function pointer net_device_ops.ndo_open is not "
            "listed: filled by top, called by low"])

    def test_detours(self):
        """Functions are followed through variables and parameters."""
        self.append("x_low.c", """
static int (*bad_global)(void);
void bad_last(int (*last)(void))
{
	bad_global = last;
}
void bad_first(int (*first)(void))
{
	bad_last(first);
}
int bad_call(void)
{
	return bad_global();
}
""")
        self.append("x_top.c", """
void bad(void)
{
	int (*fn)(void) = x_top;

	bad_first(fn);
}
""")
        self.assertCountEqual(self.floors("table")[0], [
            "x_low.c:19: upward call, low to top: "
            "bad_call uses *bad_global",
            "x_low.c:19: function pointer bad_global is not listed: "
            "filled by top, called by low"])

    def test_wrapped_arming(self):
        """Who arms by way of another function is seen."""
        self.append("x_low.h", """
static inline void x_queue(struct work_struct *work)
{
	queue_work(system_wq, work);
}
""")
        self.append("x_right.c", """
void bad(struct x_dev *dev)
{
	x_queue(&dev->work);
}
""")
        self.assertCountEqual(self.floors("table")[0], [
            "table:25: function pointer x_dev.work is called by left, right"])

    def test_napi(self):
        """Scheduling NAPI calls the poll function, which is not put into the
        other things that are passed with it."""
        self.append("x.h", """
struct x_channel {
	struct net_device *ndev;
	struct napi_struct napi;
};
""")
        self.append("x_top.c", """
void bad(struct x_channel *ch)
{
	netif_napi_add(ch->ndev, &ch->napi, x_poll);
}
""")
        self.append("x_left.c", """
int x_poll(struct napi_struct *napi, int budget)
{
	return budget;
}
""")
        self.append("x_low.c", """
void bad_schedule(struct x_channel *ch)
{
	napi_schedule(&ch->napi);
}
""")
        self.assertCountEqual(self.floors("table")[0], [
            "x_low.c:10: upward call, low to left: "
            "bad_schedule uses *x_channel.napi",
            "x_low.c:10: function pointer x_channel.napi is not listed: "
            "filled by left, called by low"])

    def test_tables(self):
        """What is wrong with a table is found."""
        for what, (old, new, expected) in WRONG_TABLES.items():
            with self.subTest(what):
                self.assertEqual(TABLE.count(old), 1)
                self.write("table", TABLE.replace(old, new))
                found, status = self.floors("table")
                self.assertCountEqual(found, expected)
                self.assertIn(status, (1, 2))

    def test_exception(self):
        """What is excused is not said."""
        name, text, _ = BREACHES["a long file"]
        self.append(name, text)
        self.write("table", TABLE + "  x_low.c     66      a reason\n")
        self.assertEqual(self.floors("table"), ([], 0))

    def test_upward(self):
        """Calls that go up are listed by rooms."""
        self.append(*CYCLE[:2])
        self.assertEqual(self.floors("--upward", "table"), ([
            "left -> right  (in a cycle: 2)",
            "    x_left.c:9: x_left -> x_walk",
            "    x_left.c:10: x_left -> x_right",
            "right -> left  (in a cycle: 1)",
            "    x_right.c:23: x_back -> x_left",
            "3 calls, 2 pairs of rooms"], 0))


# What is added to rooms of the real sources: the lowest one that has a .c, the
# lowest header, the highest room, and two on one floor
BREACH_LOW = """
struct breach_secret {
	struct work_struct work;
};

int breach_upward(struct breach *breach, const struct breach_ops *ops)
{
	queue_work(system_wq, &breach->work);
	return breach_high() + ops->up();
}

int breach_long(void)
{
""" + "\n" * 100 + "}\n"
BREACH_HEADER = """
struct breach {
	struct work_struct work;
};

struct breach_ops {
	int (*up)(void);
};

static inline int breach_inline(void)
{
	return breach_high();
}
"""
BREACH_HIGH = """
int breach_high(void)
{
	return 0;
}

static void breach_work(struct work_struct *work) { }

int breach_reach(struct breach *breach, struct breach_secret *secret)
{
	INIT_WORK(&breach->work, breach_work);
	return secret->work.func == NULL;
}

const struct breach_ops breach_ops = { .up = breach_high };
""" + "\n" * 2000
BREACH_A = "\nint breach_a(void)\n{\n\treturn breach_b();\n}\n"
BREACH_B = "\nint breach_b(void)\n{\n\treturn breach_a();\n}\n"

# What has to be said then
BREACHED = """\
upward call, {low} to {high}: breach_upward uses breach_high
upward call, {header} to {high}: breach_inline uses breach_high
upward call, {low} to {high}: breach_upward uses *breach_ops.up
upward call, {low} to {high}: breach_upward uses *breach.work
function pointer breach_ops.up is not listed: filled by {high}, called by {low}
function pointer breach.work is not listed: filled by {high}, called by {low}
call in a cycle, {a} to {b}: breach_a uses breach_b
call in a cycle, {b} to {a}: breach_b uses breach_a
access to the opaque struct breach_secret of {low}: work
breach_long() has 103 lines
lines, more than
breach.c: no room
"""


class Real(Tree):
    """The real sources with breaches."""

    def breach(self, path):
        """Breach every rule in a copy of the sources of a table."""
        with open(os.path.join(ROOT, path), encoding="utf-8") as file:
            text = file.read()
        table = floors.Table(path, text)
        self.assertEqual(len(table.sources), 1)
        files = {}
        for name in glob.glob(table.sources[0], root_dir=ROOT):
            with open(os.path.join(ROOT, name), encoding="utf-8") as file:
                self.write(name, file.read())
            files[os.path.basename(name)] = name
        inside = os.path.dirname(table.sources[0])

        def there(suffix):
            rooms = [r for r in table.rooms if
                     files.get(table.prefix + r + suffix)]
            return sorted(rooms, key=lambda r: -table.rooms[r])

        code = there(".c")
        rooms = {"low": code[0], "high": code[-1],
                 "header": there(".h")[0]}
        rooms["a"], rooms["b"] = next(
            (a, b) for a, b in zip(code, code[1:])
            if table.rooms[a] == table.rooms[b])
        text += f"opaque\n  breach_secret  {rooms['low']}\n"
        self.write(path, text)
        before = set(self.floors(path)[0])
        for room, suffix, more in (
                ("low", ".c", BREACH_LOW), ("header", ".h", BREACH_HEADER),
                ("high", ".c", BREACH_HIGH), ("a", ".c", BREACH_A),
                ("b", ".c", BREACH_B)):
            name = files[table.prefix + rooms[room] + suffix]
            self.append(name, more)
        self.write(os.path.join(inside, table.prefix + "breach.c"), "")
        after = "\n".join(set(self.floors(path)[0]) - before)
        for expected in BREACHED.format(**rooms).splitlines():
            with self.subTest(expected):
                self.assertIn(expected, after)

    def test_driver(self):
        """Breaches in the driver are found."""
        self.breach(floors.TABLES[0])

    def test_fabric(self):
        """Breaches in the fabric are found."""
        self.breach(floors.TABLES[1])


if __name__ == "__main__":
    unittest.main()
