"""The regular files of a tar archive, and their grouping into samples by WebDataset's rules."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from ...messages.notices import warn
from ..containers.compressed import named_compression
from ..containers.containers import open_descriptor
from .webdataset_tables import MEMBER

word = MEMBER.word

_CHUNK = 4096
BLOCK_SIZE = 512
_OLD_REGULAR, _HARD_LINK, _SYMBOLIC_LINK = 0, ord("1"), ord("2")
_REGULAR = (ord("0"), _OLD_REGULAR, ord("7"))
_LONGEST_NAME = 1 << 16
_MOST_HOPS = 40
"""Links that lead to links, as in Linux."""


class TarMember(NamedTuple):
    """A regular file: its name, and the offset and size of its data."""

    name: str
    offset: int
    size: int


class TarLink(NamedTuple):
    """A link: its name, its target, and whether it is a hard link, whose target is a name as the archive has it."""

    name: str
    target: str
    hard: bool


def scan(path: str) -> Iterator[TarMember]:
    """The regular files of an archive in order, and links to them. RuntimeError gives the offset of a damaged header.

    A link has the data of the file that it leads to. A link that leads out of the archive is skipped, as folders are.
    """
    targets: _Targets | None = None
    for entry in _entries(path):
        if isinstance(entry, TarMember):
            yield entry
            continue
        if targets is None:
            targets = _Targets(path)
        found = targets.follow(entry)
        if found is not None:
            yield TarMember(entry.name, found.offset, found.size)
        elif entry.hard:
            warn(f"{path}: {entry.name!r} is a hard link to {entry.target!r}, which the archive lacks; the link is skipped", UserWarning)


class _Targets:
    """The targets of the links of an archive. Few archives have links, so this is only made for the first link."""

    def __init__(self, path: str):
        self._entries: dict[str, TarMember | TarLink] = {posixpath.normpath(entry.name): entry for entry in _entries(path)}

    def follow(self, link: TarLink) -> TarMember | None:
        entry: TarMember | TarLink | None = link
        for _ in range(_MOST_HOPS):
            if entry is None or isinstance(entry, TarMember):
                return entry
            folder = "" if entry.hard else posixpath.dirname(entry.name)
            entry = self._entries.get(posixpath.normpath(posixpath.join(folder, entry.target)))
        return None


def check_places(path: str, places: Iterable[int]) -> int | None:
    """The first of these offsets within an archive that has no header in front of it, so no data begin there; None: all have one."""
    from . import webdataset_kernels as kernels

    with open_descriptor(path) as (descriptor, size):
        return next((at for at in places if at <= size and not kernels.is_header(descriptor, at - BLOCK_SIZE)), None)


def _entries(path: str) -> Iterator[TarMember | TarLink]:
    """The regular files and the links of an archive in order."""
    from . import webdataset_kernels as kernels

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
                hint = "" if at else named_compression(path)
                raise RuntimeError(f"Corrupted tar file at {path}: offset {at}: {explain(-count)}{hint}")
            total += count
            yield from _named(descriptor, members[:-1].reshape(_CHUNK, -1)[:count], names[:count], path)
        if total == 0:
            raise RuntimeError(f"Corrupted tar file at {path}: the archive has no members")
        if at == kernels.ENDED_BEFORE_OTHER_BYTES:
            warn(f"{path}: the bytes behind the end of the archive are no members and are not read", UserWarning)


def _named(descriptor: int, members: np.ndarray, names: np.ndarray, path: str) -> Iterator[TarMember | TarLink]:
    def text(at: int, length: int) -> str:
        if length > _LONGEST_NAME:
            raise RuntimeError(f"Corrupted tar file at {path}: offset {at}: a name of {length} bytes")
        return os.fsdecode(os.pread(descriptor, length, at).split(b"\0", 1)[0])

    rows = names.tobytes()
    width = names.shape[1] if len(names) else 0
    for k, member in enumerate(members.tolist()):
        kind = member[word.kind]
        link = kind in (_HARD_LINK, _SYMBOLIC_LINK)
        if not link and kind not in _REGULAR:
            continue
        long_at, long_length = member[word.name_offset], member[word.name_length]
        short = rows[k * width : (k + 1) * width].split(b"\0", 1)[0]
        name = text(long_at, long_length) if long_length else os.fsdecode(short)
        if link:
            yield TarLink(name, text(member[word.link_offset], member[word.link_length]), kind == _HARD_LINK)
        elif kind != _OLD_REGULAR or not name.endswith("/"):  # the oldest archives mark folders by a slash
            yield TarMember(name, member[word.data_offset], member[word.data_length])


def explain(code: int) -> str:
    """The message for a status of the kernel."""
    from . import webdataset_kernels as kernels

    known = {
        kernels.BAD_SUM: "the checksum of a header is wrong (not a tar file, or damaged)",
        kernels.BAD_SIZE: "the size of a member is not a number",
        kernels.TRUNCATED: "the file ends within a member",
        kernels.BAD_PAX: "the pax attributes of a member are broken",
        kernels.SPARSE: "a sparse member, whose data are not in one piece; pack the archive without --sparse",
    }
    return known.get(code) or os.strerror(code)


def split_name(name: str) -> tuple[str, str]:
    """Base and extension, split at the first dot after the last slash. A name without a dot is both, as in DALI."""
    dot = name.find(".", name.rfind("/") + 1)
    return (name, name) if dot < 0 else (name[:dot], name[dot + 1 :])


class Component(NamedTuple):
    """One file of a sample."""

    extension: str
    offset: int
    size: int
    name: str


def grouped(members: Iterable[TarMember]) -> Iterator[list[Component]]:
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
