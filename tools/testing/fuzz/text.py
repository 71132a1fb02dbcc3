# SPDX-License-Identifier: GPL-2.0-only
"""Inputs of the fuzzer as text: a line for each call, its data in hexadecimal.

	# a comment
	packet 0x03 10007f00
	wait 4

The binary form is agent/input.c's.
"""

KINDS = ("packet", "cm", "sa", "link", "genl", "ethtool", "write", "read",
         "verbs", "send", "wait")
LONGEST_DATA = 512
MOST_CALLS = 24
WIDTH = 60
# Between the inputs of a file
SEPARATOR = "# then\n"


class Wrong(ValueError):
    """The text is not an input."""


def calls_of(data):
    """(kind, variant, data) of the calls in a binary input, as the agent reads it."""
    found = []
    while len(data) >= 4 and len(found) < MOST_CALLS:
        length = min(int.from_bytes(data[2:4], "big"), LONGEST_DATA,
                     len(data) - 4)
        found.append((KINDS[data[0] % len(KINDS)], data[1], data[4:4 + length]))
        data = data[4 + length:]
    return found


def of_calls(calls):
    """The binary input of calls, as calls_of() gives them."""
    return b"".join(bytes([KINDS.index(kind), variant]) +
                    len(body).to_bytes(2, "big") + body
                    for kind, variant, body in calls)


def read_file(path):
    """The binary inputs of a file in text form."""
    with open(path, encoding="utf-8") as file:
        return [to_binary(part) for part in file.read().split(SEPARATOR)]


def to_text(data, comment=""):
    """A binary input as text."""
    lines = [f"# {line}" for line in comment.splitlines()]
    for kind, variant, body in calls_of(data):
        text = body.hex()
        first = f"{kind} {variant:#04x}"
        pieces = [text[i:i + WIDTH] for i in range(0, len(text), WIDTH)]
        lines.append(" ".join([first, *pieces[:1]]) +
                     (" \\" if len(pieces) > 1 else ""))
        for number, piece in enumerate(pieces[1:], 2):
            lines.append("\t" + piece + (" \\" if number < len(pieces) else ""))
    return "\n".join(lines) + "\n"


def to_binary(text):
    """Text as a binary input; Wrong if it is none."""
    calls = []
    for line in text.replace("\\\n", " ").splitlines():
        words = line.split("#")[0].split()
        if not words:
            continue
        if words[0] not in KINDS or len(words) < 2:
            raise Wrong(f"{line!r}: not a kind of call and its variant")
        try:
            variant, body = int(words[1], 0), bytes.fromhex("".join(words[2:]))
        except ValueError as error:
            raise Wrong(f"{line!r}: {error}") from None
        if not 0 <= variant < 256 or len(body) > LONGEST_DATA:
            raise Wrong(f"{line!r}: variant or data out of bounds")
        calls.append((words[0], variant, body))
    return of_calls(calls)
