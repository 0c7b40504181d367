"""Kernels that came with the package.

There is one file for each level of x86-64, made when a release is built (``build_tools/kernels.py``). A kernel is found by the same digest
of code and sources as in the user's cache (:mod:`.kernel_keys`). So a kernel of other sources is never used: after an edit of the package,
or in another version of Python, its key is not found and it is compiled. Digests in the file find damaged contents. As with the package's
Python files, whoever can write the file runs code as the user who loads it.
"""

from __future__ import annotations

import functools
import hashlib
import json
import zlib
from pathlib import Path
from typing import Any, NamedTuple

from .target import LEVELS, chosen_level, target

FOLDER = Path(__file__).parent / "shipped"
SUFFIX = ".kernels"
_MAGIC = b"asyncdali shipped kernels 1\n"
_DIGEST = 16


class Shipped(NamedTuple):
    """The kernels of a file.

    places    of each kernel in the file, by its key in hexadecimal digits: begin, size, digest of its contents
    identity  a digest of all contents
    """

    path: Path
    places: dict[str, tuple[int, int, str]]
    size: int
    identity: str

    def load(self, key: str) -> bytes | None:
        """The contents of a kernel's file; None if there is none, or a damaged one."""
        place = self.places.get(key)
        if place is None:
            return None
        begin, size, digest = place
        try:
            with open(self.path, "rb") as file:
                file.seek(begin)
                found = file.read(size)
            if _digest(found).hex() == digest:
                return zlib.decompress(found)
        except (OSError, zlib.error):
            pass
        return None


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=_DIGEST).digest()


def packed(kernels: dict[str, bytes]) -> bytes:
    """The contents of a file of kernels, by their keys."""
    parts, places, at = [], {}, 0
    for key, contents in sorted(kernels.items()):
        part = zlib.compress(contents, 9)
        parts.append(part)
        places[key] = (at, len(part), _digest(part).hex())
        at += len(part)
    head = json.dumps(places, separators=(",", ":")).encode()
    return _MAGIC + len(head).to_bytes(8, "little") + _digest(head) + head + b"".join(parts)


def read(path: Path) -> Shipped:
    """A file of kernels. OSError if there is none, ValueError for a damaged file."""
    with open(path, "rb") as file:
        start = file.read(len(_MAGIC) + 8 + _DIGEST)
        length = int.from_bytes(start[len(_MAGIC) : len(_MAGIC) + 8], "little")
        size = file.seek(0, 2)
        if not start.startswith(_MAGIC) or length > size:
            raise ValueError(f"{path} is not a file of kernels of this version")
        file.seek(len(start))
        head = file.read(length)
    if _digest(head) != start[-_DIGEST:]:
        raise ValueError(f"{path} is damaged")
    first = len(start) + length
    places = {key: (first + begin, count, digest) for key, (begin, count, digest) in json.loads(head).items()}
    return Shipped(path, places, size, start[-_DIGEST:].hex())


@functools.cache
def shipped() -> Shipped | None:
    """The kernels for this process's target. None: there are none, or their file is damaged."""
    name = chosen_level()
    if name is None:
        return None
    try:
        return read(FOLDER / (name + SUFFIX))
    except (OSError, ValueError):
        return None


def described() -> dict[str, str]:
    """The target of kernels, and who compiled them, as texts that are equal in processes with equal kernels."""
    machine, processor, features = target()
    came = shipped()
    return {
        "kernels": "of this machine" if came is None else f"of the package, {came.identity}",
        "machine": machine, "name": processor, "features": ",".join(sorted(features.split(","))),
    }  # fmt: skip


def used_target() -> tuple[str | None, str]:
    """The level for which kernels are compiled (None: no level), and the name of the processor or level, for people."""
    name = chosen_level()
    return name, name or target().processor


def states() -> dict[str, Any]:
    """For each level that has a file: its :class:`Shipped`, or the error of a damaged file."""
    found: dict[str, Any] = {}
    for name in LEVELS:
        try:
            found[name] = read(FOLDER / (name + SUFFIX))
        except FileNotFoundError:
            pass
        except (OSError, ValueError) as error:
            found[name] = error
    return found
