"""LMDB databases as containers: finds the place of each value in the file.

The file format is parsed here, without LMDB's library, for two reasons. The library trusts the pages, so a damaged file can crash the
process. And it cannot tell the file offset of a value, so reading would take Python per sample. The state read is that of the last commit
before `build()`. No process should write to the database while it is read.
"""

from __future__ import annotations

import os
import struct
from typing import NamedTuple

import numpy as np

from ..base import Origin
from ..containers.compressed import named_compression
from ..containers.containers import ContainerReader, Containers, Records
from ..remote.remote import is_file, local_copy, read_part
from .lmdb_tables import ENTRY

_MAGIC = 0xBEEFC0DE
_META = struct.Struct("<II QQ I HH QQQQQ I HH QQQQQ Q Q")
"""magic, version, address, map size; free list and main database (pad, flags, depth, branches, leaves, overflows, entries, root);
last page, transaction."""
_EMPTY = 2**64 - 1
_PAGE_SIZES = {1 << k for k in range(8, 17)}


class Database(NamedTuple):
    """The contents of the newest of a file's two meta pages."""

    page_size: int
    pages: int
    flags: int
    entries: int
    root: int
    transaction: int


def _meta(file_path: str, data: bytes, size: int) -> Database | None:
    if len(data) < 16 + _META.size:
        return None
    fields = _META.unpack_from(data, 16)
    magic, version, page_size = fields[0], fields[1], fields[4]
    if magic != _MAGIC:
        return None
    if version != 1:
        raise RuntimeError(f"LMDB Error: {file_path} has format version {version}; version 1 is read")
    if page_size not in _PAGE_SIZES:
        return None
    return Database(page_size, size // page_size, fields[13], fields[18], fields[19], fields[21])


def read_meta(file_path: str, name: str = "") -> Database:
    """The last committed state. RuntimeError (which calls the file `name`) if the file is no LMDB database."""
    name = name or file_path
    try:
        with open(file_path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            first = _meta(name, file.read(256), size)
            found = [] if first is None else [first]
            if first is not None:
                file.seek(first.page_size)
                second = _meta(name, file.read(256), size)
                found += [] if second is None or second.page_size != first.page_size else [second]
    except OSError as error:
        raise RuntimeError(f"LMDB Error: {error.strerror}, with file: {name}") from error
    if not found:
        raise RuntimeError(f"LMDB Error: {name} is not an LMDB database{named_compression(file_path)}")
    return max(found, key=lambda database: database.transaction)


def explain(code: int) -> str:
    """The message for a status of the walk."""
    from ..containers.record_kernels import SHORT_READ
    from . import lmdb_kernels as kernels

    known = {
        kernels.BAD_PAGE: "a page has another kind than its place in the tree requires",
        kernels.TOO_DEEP: "the tree of pages has a cycle",
        kernels.TOO_MANY: "the database holds more records than its header declares",
        kernels.SUB_DATABASE: "the database holds named databases or several values per key, which this reader does not read",
        kernels.BAD_NODE: "a record lies outside its page or the file",
        SHORT_READ: "the file ends within a page",
    }
    return known.get(code) or os.strerror(code)


def locate(file_path: str, name: str = "") -> np.ndarray:
    """All records of the main database in key order, one ENTRY each.

    `name` is the file's name in messages, if it is not the path.
    """
    from . import lmdb_kernels as kernels

    name = name or file_path
    database = read_meta(file_path, name)
    if database.root == _EMPTY or database.entries == 0:
        return ENTRY.zeros(0)
    if database.entries > database.pages * database.page_size // 10:  # a record takes at least 10 bytes
        raise RuntimeError(f"LMDB Error: {name} is damaged: the header declares {database.entries} records, which do not fit into the file")
    table = np.empty((database.entries, ENTRY.words), np.int64)
    memory = np.empty(kernels.DEPTH * database.page_size, np.uint8)
    descriptor = os.open(file_path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        root = database.root if database.root < 2**62 else 0
        count = kernels.walk(
            descriptor, root, database.page_size, database.pages, memory.ctypes.data, table.ctypes.data, len(table)
        )  # fmt: skip
    finally:
        os.close(descriptor)
    if count < 0:
        raise RuntimeError(f"LMDB Error: {name} is damaged: {explain(-count)}")
    if count != database.entries:
        raise RuntimeError(f"LMDB Error: {name} is damaged: {count} records were found, the header declares {database.entries}")
    return table


def _located(path: str) -> np.ndarray:
    with local_copy(path) as local:
        return locate(local, path)


class LmdbReader(ContainerReader):
    """Base class of readers whose samples are the values of LMDB databases, in key order."""

    stays_together = False

    def container_paths(self) -> list[str]:
        return [path if is_file(path) else os.path.join(path, "data.mdb") for path in self.spec.constant("path")]

    def locate(self, containers: Containers) -> Records:
        tables = [_located(path) for path in containers.paths]
        whole = np.concatenate(tables)
        if not len(whole):
            raise RuntimeError(f"LMDB Error: no records in {', '.join(self.spec.constant('path'))}")
        self._keys = whole[:, ENTRY.columns("key")].copy()
        return Records(np.array([len(table) for table in tables], np.int64), *whole[:, ENTRY.columns("value")].T.copy())

    def key(self, index: int) -> bytes:
        """The key of a record."""
        offset, size = (int(value) for value in self._keys[index])
        try:
            return read_part(self.container_path(index), offset, size)
        except (OSError, RuntimeError):
            return b"?"

    def origin_of(self, index: int) -> Origin:
        return super().origin_of(index)._replace(part=f"key {self.key(index).decode('utf-8', 'replace')}")

    def origin(self, index: int) -> str:
        path = self.spec.constant("path")[int(self.records.files(np.array([index]))[0])]
        return f"{path} at key {self.key(index).decode('utf-8', 'replace')}"
