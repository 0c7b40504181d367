"""Damage to files: accidental, as other writers make it, and as in an attack. And what readers may raise because of damaged files."""

from __future__ import annotations

import json
import struct
from typing import Any

import numpy as np

NUMBERS = [0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 60000, 511, 512, 4096]
TEXTS = [
    "", " ", "-1", "0", "1", "007", "1.5", "1e400", "nan", "inf", "NULL", "-9223372036854775808", "18446744073709551616", "9" * 5000,
    "x" * 300, "/", "..", ".", "../a", "/etc/hostname", "http://127.0.0.1:1/a", "a\tb", "\u00fc", "\u65e5\u672c", "\ufeff", "#", '"a"',
    "\u0663", "1_0", "+1",
    "\x00", "\x1f", "\x85", "\u2028",
]  # fmt: skip
VALUES = [
    None, True, False, 0, 1, -1, 1.5, -0.0, 2**31, -(2**31) - 1, 2**53 + 1, 2**63, 10**400, 1e39, 1e300, float("nan"),
    float("inf"), -float("inf"), "", "a", "1", "nan", "\ud800", "\u0000", "x" * 300, [], [[]], [1], [1, 2, 3, 4], [None] * 4, {},
    {"a": 1}, {"size": [1, 2]},
    [[1, 2, 3]], [["a", "b"]], [float("nan")] * 4,
]  # fmt: skip
"""Values of a JSON file that Python wrote."""

RAW = (
    OverflowError, KeyError, IndexError, TypeError, UnicodeError, AttributeError, AssertionError, ZeroDivisionError, RecursionError,
    StopIteration, struct.error, json.JSONDecodeError,
)  # fmt: skip
"""Errors that say nothing of the file."""


def damaged(data: bytes, rng: np.random.Generator) -> bytes:
    """`data` with one kind of damage: accidental, or as in an attack."""
    out = bytearray(data or b"\0")
    kind = rng.integers(7)
    if kind == 0:  # one bit anywhere
        out[rng.integers(len(out))] ^= 1 << int(rng.integers(8))
    elif kind == 1:  # some bytes
        for _ in range(int(rng.integers(1, 9))):
            out[rng.integers(len(out))] = int(rng.integers(256))
    elif kind == 2:  # truncation
        del out[int(rng.integers(len(out))) :]
    elif kind == 3 and len(out) > 8:  # a length or an offset
        at = int(rng.integers(len(out) - 8))
        width = "I" if rng.random() < 0.5 else "Q"
        packed = struct.pack(("<" if rng.random() < 0.7 else ">") + width, int(rng.choice(NUMBERS)))
        out[at : at + len(packed)] = packed
    elif kind == 4:  # a digit of a text
        digits = [k for k, byte in enumerate(out[:4096]) if 48 <= byte <= 57]
        if digits:
            out[int(rng.choice(digits))] = int(rng.choice(list(b"0179-x. \n")))
    elif kind == 5:  # a piece taken out, doubled or moved
        a, b = sorted(int(v) for v in rng.integers(0, len(out), 2))
        out = out[:a] + out[b:] if rng.random() < 0.5 else out[:b] + out[a:]
    else:  # a piece of zeros or of text
        at = int(rng.integers(len(out)))
        piece = rng.choice([b"\0" * 16, b"\xff" * 12, b"99999999999999999999", b"{}[]", b"%s%n"])
        out[at : at + len(piece)] = piece
    return bytes(out)


def damaged_lines(data: bytes, rng: np.random.Generator) -> bytes:
    """A text file with another word, another line, another encoding, or damage to its bytes."""
    lines = data.decode("utf-8", "surrogateescape").split("\n")
    kind, at = int(rng.integers(7)), int(rng.integers(len(lines)))
    other = TEXTS[int(rng.integers(len(TEXTS)))]
    if kind == 0:
        words = lines[at].split(" ")
        words[int(rng.integers(len(words)))] = other
        lines[at] = " ".join(words)
    elif kind == 1:
        lines.insert(at, other)
    elif kind == 2:
        lines[at] = lines[at] + " " + other
    elif kind == 3:
        del lines[at]
    elif kind == 4:
        lines[at] = "\t".join(reversed(lines[at].split(" ")))
    elif kind == 5:
        encoding = str(rng.choice(["utf-16", "utf-32", "utf-8-sig", "utf-16-le"]))
        return "\r\n".join(lines).encode(encoding, "surrogatepass")
    else:
        return damaged(data, rng)
    return "\n".join(lines).encode("utf-8", "surrogateescape")


def damaged_cards(data: bytes, rng: np.random.Generator) -> bytes:
    """A FITS file with another value or another keyword in a header, or with damage to its bytes."""
    cards = [k for k in range(0, len(data) - 79, 80) if data[k + 8 : k + 10] == b"= "]
    if not cards or rng.random() < 0.3:
        return damaged(data, rng)
    at = int(rng.choice(cards))
    keyword, value = data[at : at + 8], data[at + 10 : at + 80]
    if rng.random() < 0.8:
        value = str(rng.choice([*TEXTS, "1E999", "1.2.3", "9" * 18, "1D3", "T", "'IMAGE   '", "'BINTABLE'"])).encode("latin-1", "replace")
    else:
        keyword = rng.choice([b"NAXIS", b"NAXIS1", b"NAXIS3", b"BITPIX", b"GCOUNT", b"BSCALE", b"BLANK", b"XTENSION", b"END"])
    return data[:at] + keyword.ljust(8) + b"= " + value[:70].rjust(20).ljust(70) + data[at + 80 :]


def damaged_json(data: bytes, rng: np.random.Generator) -> bytes:
    """A JSON file with another value, a name less or a name more, somewhere; or damage to its bytes."""
    if rng.random() < 0.2:
        return damaged(data, rng)
    root = json.loads(data)
    for _ in range(1 + int(rng.random() < 0.3)):
        root = _with_another_value(root, rng)
    return json.dumps(root).encode()


def damaged_json_lines(data: bytes, rng: np.random.Generator) -> bytes:
    """The same for a file of one JSON text per line."""
    lines = data.split(b"\n")
    at = int(rng.integers(len(lines)))
    if not lines[at].strip() or rng.random() < 0.2:
        return damaged(data, rng)
    lines[at] = damaged_json(lines[at], rng)
    return b"\n".join(lines)


def _with_another_value(root: Any, rng: np.random.Generator) -> Any:
    places: list[tuple[Any, Any]] = []

    def walk(node: Any) -> None:
        keys = list(node) if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else []
        for key in keys:
            places.append((node, key))
            walk(node[key])

    walk(root)
    value = VALUES[int(rng.integers(len(VALUES)))]
    if not places or rng.random() < 0.02:
        return value
    node, key = places[int(rng.integers(len(places)))]
    kind = int(rng.integers(5))
    if kind == 0:
        del node[key]
    elif kind == 1 and isinstance(node, list):
        node.insert(key, node[key])
    elif kind == 2 and isinstance(node, list):
        node[key] = node[int(rng.integers(len(node)))]
    else:
        node[key] = value
    return root


def raw_cause(error: BaseException) -> BaseException | None:
    """The error of Python or numpy that a reader let through, as it is or as the cause of the reader's error; None if there is none."""
    found: BaseException | None = error
    while found is not None:
        if isinstance(found, RAW):
            return found
        found = found.__cause__
    return None
