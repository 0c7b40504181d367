"""Contents of the files that two data sets have under the same names.

Digests of data sets have names of samples, and sizes of records, because contents would have to be read. Here they are read: the files of
both sides in pieces, by a few threads, and only where the sides do not have the very same file.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from ..readers.base import Origin, ReaderOperator

_THREADS = 8
_PIECE = 1 << 20


class OtherContents(NamedTuple):
    """The result of a comparison.

    Attributes:
        samples: numbers of the samples whose files or records differ, ascending, int64[n].
        first: a text about the first of them; "" if there is none.
        arguments: texts about files that arguments name, such as lists of labels.
        remote: number of samples in remote files, which are not compared.
    """

    samples: np.ndarray
    first: str
    arguments: Sequence[str]
    remote: int


def other_contents(first: ReaderOperator, second: ReaderOperator, samples: np.ndarray, labels: tuple[str, str]) -> OtherContents:
    """The samples with these numbers, which have the same names on both sides, whose contents differ. OSError: a file cannot be read."""
    pairs: dict[tuple[str, str], list[int]] = {}
    remote = 0
    stretches: dict[int, list[tuple[Origin, Origin]]] = {}
    for number in samples.tolist():
        found = list(zip(first.stretches(number), second.stretches(number)))
        far = any("://" in one.file for pair in found for one in pair)
        remote += far
        for one, two in () if far else found:
            pairs.setdefault((one.file, two.file), []).append(number)
        stretches[number] = found
    with ThreadPoolExecutor(_THREADS) as threads:
        differ = [pair for pair, other in zip(pairs, threads.map(_differ, pairs)) if other]
        files = set(differ)
        suspects = sorted({number for pair in differ for number in pairs[pair]})
        others = threads.map(lambda number: _records_differ(stretches[number], files), suspects)
        wrong = [number for number, other in zip(suspects, others) if other]
        arguments = list(_arguments(first, second, labels, threads))
    text = ""
    if wrong:
        one, two = next(pair for pair in stretches[wrong[0]] if (pair[0].file, pair[1].file) in files)
        text = f"sample {wrong[0]}, {_named(one)} in {labels[0]} and {_named(two)} in {labels[1]}"
    return OtherContents(np.array(wrong, np.int64), text, arguments, remote)


def _named(origin: Origin) -> str:
    return origin.file if origin.offset is None else f"{origin.file} bytes {origin.offset} to {origin.offset + (origin.size or 0)}"


def _differ(pair: tuple[str, str]) -> bool:
    """Whether two files, or two folders of files, have other contents."""
    one, two = pair
    if os.path.isdir(one) and os.path.isdir(two):
        names = sorted(os.listdir(one))
        return names != sorted(os.listdir(two)) or any(_differ((os.path.join(one, name), os.path.join(two, name))) for name in names)
    with open(one, "rb") as left, open(two, "rb") as right:
        facts, others = os.fstat(left.fileno()), os.fstat(right.fileno())
        if (facts.st_dev, facts.st_ino) == (others.st_dev, others.st_ino):
            return False
        if facts.st_size != others.st_size:
            return True
        while piece := left.read(_PIECE):
            if piece != right.read(_PIECE):
                return True
    return False


def _records_differ(pairs: Iterable[tuple[Origin, Origin]], files: set[tuple[str, str]]) -> bool:
    """Whether a sample differs, one of whose files does."""
    for one, two in pairs:
        if (one.file, two.file) in files:
            if one.offset is None or two.offset is None or one.size != two.size:
                return True
            if _read(one) != _read(two):
                return True
    return False


def _read(record: Origin) -> bytes:
    with open(record.file, "rb") as file:
        return os.pread(file.fileno(), record.size or 0, record.offset or 0)


def _arguments(first: ReaderOperator, second: ReaderOperator, labels: tuple[str, str], threads: ThreadPoolExecutor) -> Iterator[str]:
    """Texts about arguments that name other files than samples: lists of files and labels, annotations, indices."""
    data = {origin.file for reader in (first, second) for origin in (reader.stretches(0) if reader.order.count else ())}
    found: list[tuple[str, tuple[str, str]]] = []
    for name in (arg.name for arg in first.schema.args if arg.path):
        if not all(name in reader.spec.constants for reader in (first, second)):
            continue
        mine, others = (_paths(reader.spec.constants[name]) for reader in (first, second))
        if len(mine) == len(others):
            found += [(name, pair) for pair in zip(mine, others) if data.isdisjoint(pair)]
    for (name, (one, two)), other in zip(found, threads.map(lambda item: _differ(item[1]), found)):
        if other:
            yield f"argument {name}: {one} in {labels[0]} and {two} in {labels[1]} have other contents"


def _paths(value: object) -> list[str]:
    """The files that the value of an argument names."""
    values = [value] if isinstance(value, str) else value if isinstance(value, (list, tuple)) else []
    return [one for one in values if isinstance(one, str) and os.path.isfile(one)]
