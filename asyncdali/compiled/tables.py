"""Declarations of the tables that kernels read.

A compiled step and a CUDA kernel get their arguments as a table: consecutive 64-bit words with integers and addresses. A *record* is a
table of one sample; the records of a batch are an array ``int64[samples, words]``. Each table is declared once::

    FLIP = Table(
        "FLIP",
        Field("inputs", "addresses", "of the samples"),
        Field("outputs", "addresses", "of the samples"),
        Field("records", "FLIP_RECORD[samples]", "axes to reverse"),
    )

All users of the table take its fields by name from the declaration:

- ``FLIP.make(inputs=..., outputs=..., records=...)`` makes the table for a compiled step. The step reads it with ``at = FLIP.at`` and
  ``load_i64(context + at.inputs)``;
- ``FLIP_RECORD.zeros(samples)`` makes records. ``records[:, FLIP_RECORD.columns("width")]`` is a field of all of them. Compiled code reads
  ``view_i64(address + word.size * sample, word.words)[word.width]`` with ``word = FLIP_RECORD.word``;
  A value is a word; an array (its address); a tuple (the address of a table of these values); or :class:`~.addresses.Within`;
- ``FLIP.entries(inputs=..., ...)`` gives the words of a ``Launch``. ``#include "flip.py"`` in a CUDA source defines ``FLIP_INPUTS``,
  ``FLIP_RECORD_WIDTH`` and ``FLIP_RECORD_WORDS``.

``at`` and ``word`` are named tuples, whose fields are constants for Numba, so names cost nothing in compiled code.

A record of float32 elements is declared in the same way. Its ``word`` and ``words`` then count elements, and ``at`` has no meaning.
"""

from __future__ import annotations

import functools
from collections import namedtuple
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeAlias

import numpy as np

from .addresses import words_of

WORD = 8
"""Bytes of a word."""

_named: Any = namedtuple  # mypy requires literal fields for namedtuple

Offsets: TypeAlias = Any
"""A named tuple of integers, one for each word of a table."""


@dataclass(frozen=True)
class Field:
    """One field of a table: a word, or one word for each of `parts`.

    name     lower case; the field's words are called ``name``, or ``name_part`` for each of `parts`
    kind     the type in words: "int64", "addresses" (int64[samples], one per sample), "float32[rows, channels]", a record's name
    meaning  the meaning of the value, with its unit
    parts    names of the words of a field with several words ("fdhwc": one per axis)
    """

    name: str
    kind: str
    meaning: str
    parts: tuple[str, ...] | str = ()

    @property
    def words(self) -> list[str]:
        """The names of the field's words."""
        return [f"{self.name}_{part}" for part in self.parts] if self.parts else [self.name]


class Table:
    """The declaration of a table or of a record; see the module docstring.

    names   names of the words;  words  number of words;  size  number of bytes
    """

    def __init__(self, name: str, *fields: Field):
        self.name = name
        self.fields = fields
        names = [word for field in fields for word in field.words]
        if len({*names, "words", "size"}) != len(names) + 2:
            raise ValueError(f"table {name} declares a word twice, or one called 'words' or 'size': {', '.join(sorted(names))}")
        self.words = len(names)
        self.size = WORD * self.words
        self.names = tuple(names)
        self._columns: dict[str, slice] = {}
        begin = 0
        for field in fields:
            self._columns[field.name] = slice(begin, begin + len(field.words))
            begin += len(field.words)

    # A program uses a tenth of all tables. Named tuples are made of program text, which takes 0.1 ms each.

    @functools.cached_property
    def _offsets(self) -> Any:
        return _named(self.name, [*self.names, "words", "size"])

    @functools.cached_property
    def word(self) -> Offsets:
        """Named tuple for compiled code: the index of each word, and `words`, `size` of the whole."""
        return self._offsets(*range(self.words), self.words, self.size)

    @functools.cached_property
    def at(self) -> Offsets:
        """Named tuple for compiled code: the byte offset of each word, and `words`, `size` of the whole."""
        return self._offsets(*range(0, self.size, WORD), self.words, self.size)

    @functools.cached_property
    def entries(self) -> Callable[..., tuple[Any, ...]]:
        """Function that returns the words in order, from values by name. It raises TypeError unless each word is given exactly once."""
        return _entries_of(self.name, self.names)

    def records(self, **columns: Iterable[int]) -> Iterator[int]:
        """The words of records one after another, from a column for each word. Raises as :attr:`entries`."""
        return chain.from_iterable(zip(*self.entries(**columns), strict=True))

    def __repr__(self) -> str:
        return f"Table({self.name}: {', '.join(self.names)})"

    def extended(self, *fields: Field) -> Table:
        """The same table with more fields at its end, for values that only a CUDA kernel needs."""
        return Table(self.name, *self.fields, *fields)

    def __contains__(self, name: str) -> bool:
        return name in self.names

    # ------------------------------------------------------------------------------------------------------------- values

    def make(self, **values: Any) -> tuple[np.ndarray, list[object]]:
        """The table for a compiled step as int64[words], and the arrays to keep alive while it is used. Raises as :meth:`entries`."""
        return laid_out(self.entries(**values))

    def zeros(self, samples: int) -> np.ndarray:
        """Records of 0, int64[samples, words]."""
        return np.zeros((samples, self.words), np.int64)

    def ones(self, samples: int) -> np.ndarray:
        """Records of 1, int64[samples, words]."""
        return np.ones((samples, self.words), np.int64)

    def columns(self, name: str) -> slice | int:
        """The place of a field in a record: the index of its word, or the slice of its words if it has parts."""
        place = self._columns[name]
        return place if place.stop - place.start > 1 else place.start

    def span(self, first: str, last: str) -> slice:
        """The words of a record from the field `first` to the field `last`, inclusive."""
        return slice(self._columns[first].start, self._columns[last].stop)

    # --------------------------------------------------------------------------------------------------------------- CUDA

    def defines(self) -> tuple[tuple[str, int], ...]:
        """Macros with the index of each word, and the number of words: ``FLIP_INPUTS``, ..., ``FLIP_WORDS``."""
        words = [(f"{self.name}_{name}".upper(), index) for index, name in enumerate(self.names)]
        return (*words, (f"{self.name}_WORDS".upper(), self.words))


def _entries_of(table: str, names: Sequence[str]) -> Callable[..., tuple[Any, ...]]:
    """The function :attr:`Table.entries`: the constructor of a named tuple, which makes a plain tuple here.

    Python binds named arguments in a third of the time that looking them up in a dictionary takes, and a batch on a GPU makes 60 tables.
    """
    constructor = namedtuple(table, names).__new__
    constructor.__qualname__ = f"{table}.entries"  # Python's TypeErrors begin with this name
    return functools.partial(constructor, tuple)


class Handle:
    """Stands for a value that is not known yet, while a plan is made as a template (``runtime/templates``).

    `of` names the value: the edge whose samples' addresses are meant, or an operator whose position. It has no number, so nothing can be
    computed from it; a table takes it like an array or a word. `len` is the number of samples. An index of some samples gives their handle.
    """

    __slots__ = ("count", "of", "samples")

    def __init__(self, of: Any, count: int = 0, samples: np.ndarray | None = None):
        self.of, self.count, self.samples = of, count, samples

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, samples: np.ndarray) -> Handle:
        if self.samples is not None or not isinstance(samples, np.ndarray):
            raise TypeError("a handle takes the numbers of samples")
        return Handle(self.of, len(samples), samples)

    @property
    def nbytes(self) -> int:
        """Bytes of the address array."""
        return WORD * self.count


class Declared:
    """A table with handles among its values, which has no words yet. `entries`: its values. Compiled code cannot read it."""

    __slots__ = ("entries",)

    def __init__(self, entries: tuple[object, ...]):
        self.entries = entries


class Kept(list[Any]):
    """The arrays that a table needs, with the table, its words, and its values, which declare the words that are addresses."""

    __slots__ = ("entries", "table", "words")

    def __init__(self, arrays: Iterable[Any], table: Any, words: list[Any], entries: Sequence[Any]):
        super().__init__(arrays)
        self.table, self.words, self.entries = table, words, entries


def laid_out(entries: Sequence[Any]) -> tuple[np.ndarray, list[object]]:
    """int64[words] of integers and of arrays (as addresses), and the arrays to keep alive. A tuple is a table itself: its address.

    With a :class:`Handle` among the values the table is :class:`Declared`."""
    try:
        words, arrays = words_of(entries)
        table = table_of(words)
    except (TypeError, ValueError):  # ValueError: NumPy 1
        if not _has_handles(entries):
            raise
        return Declared(tuple(entries)), []  # type: ignore[return-value]  # plans treat it as a table
    return table, Kept(arrays, table, words, entries)


def _has_handles(entries: Iterable[object]) -> bool:
    return any(isinstance(value, (Handle, Declared)) or (isinstance(value, tuple) and _has_handles(value)) for value in entries)


def table_of(words: Sequence[int]) -> np.ndarray:
    """int64[words] of integers. ``np.array`` would look for nested sequences first, and takes 1.4 times as long."""
    return np.fromiter(words, np.int64, len(words))


INPUTS = Field("inputs", "addresses", "of the input's samples")
OUTPUTS = Field("outputs", "addresses", "of the output's samples")
SAMPLES = Field("samples", "int64", "samples of the batch, for kernels of a GPU")
