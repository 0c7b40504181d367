"""The regular files of a tar archive, and their grouping into samples by WebDataset's rules."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from ..containers.containers import open_descriptor
from .tar_tables import MEMBER

word = MEMBER.word

_CHUNK = 4096
BLOCK_SIZE = 512
_REGULAR = (ord("0"), 0, ord("7"))
_LONGEST_NAME = 1 << 16


class Member(NamedTuple):
    """A regular file: its name, and the offset and size of its data."""

    name: str
    offset: int
    size: int


def scan(path: str) -> Iterator[Member]:
    """The regular files of an archive in order. RuntimeError gives the offset of a damaged header."""
    from . import tar_kernels as kernels

    with open_descriptor(path) as (descriptor, size):
        at, total = 0, 0
        if size == 0:
            raise RuntimeError(f"Corrupted tar file at {path}: the file is empty")
        members = np.empty(MEMBER.words * _CHUNK + 1, np.int64)
        names = np.zeros((_CHUNK, kernels.NAME_BYTES), np.uint8)
        while at >= 0:
            count = kernels.scan_tar(descriptor, at, size, members.ctypes.data, names.ctypes.data, _CHUNK)
            at = int(members[-1])
            if count < 0:
                raise RuntimeError(f"Corrupted tar file at {path}: offset {at}: {explain(-count)}")
            total += count
            yield from _named(descriptor, members[:-1].reshape(_CHUNK, -1)[:count], names[:count], path)
        if total == 0:
            raise RuntimeError(f"Corrupted tar file at {path}: the archive has no members")


def _named(descriptor: int, members: np.ndarray, names: np.ndarray, path: str) -> Iterator[Member]:
    rows = names.tobytes()
    width = names.shape[1] if len(names) else 0
    for k, member in enumerate(members.tolist()):
        if member[word.kind] not in _REGULAR:
            continue
        long_at, long_length = member[word.name_offset], member[word.name_length]
        if long_length > _LONGEST_NAME:
            raise RuntimeError(f"Corrupted tar file at {path}: offset {long_at}: a name of {long_length} bytes")
        raw = os.pread(descriptor, long_length, long_at) if long_length else rows[k * width : (k + 1) * width]
        yield Member(os.fsdecode(raw.split(b"\0", 1)[0]), member[word.data_offset], member[word.data_length])


def explain(code: int) -> str:
    """The message for a status of the kernel."""
    from . import tar_kernels as kernels

    known = {
        kernels.BAD_SUM: "the checksum of a header is wrong (not a tar file, or damaged)",
        kernels.BAD_SIZE: "the size of a member is not a number",
        kernels.TRUNCATED: "the file ends within a member",
        kernels.BAD_PAX: "the pax attributes of a member are broken",
    }
    return known.get(code) or os.strerror(code)


def split_name(name: str) -> tuple[str, str]:
    """Base and extension, split at the first dot after the last slash. A name without a dot is an extension."""
    dot = name.find(".", name.rfind("/") + 1)
    return name[:dot], name[dot + 1 :]


class Component(NamedTuple):
    """One file of a sample."""

    extension: str
    offset: int
    size: int
    name: str


def grouped(members: Iterable[Member]) -> Iterator[list[Component]]:
    """Samples: consecutive files with the same base. Hidden files (an empty base) are skipped."""
    sample: list[Component] = []
    current = None
    for name, offset, size in members:
        base, extension = split_name(name)
        if not base or base.endswith("/"):
            continue
        if base != current and sample:
            yield sample
            sample = []
        current = base
        sample.append(Component(extension, offset, size, name))
    if sample:
        yield sample
