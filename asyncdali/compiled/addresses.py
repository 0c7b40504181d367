"""Addresses of arrays, for the tables that compiled steps read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from ctypes import c_int64
from typing import Any

import numpy as np

_DATA = object.__basicsize__
"""Offset of the element address in numpy's array object: right after its head (PyArrayObject_fields, against which other libraries are
compiled)."""
_word_at = c_int64.from_address
_array = np.ndarray
_probe = np.empty(1, np.int64)
_KNOWN = _word_at(id(_probe) + _DATA).value == _probe.ctypes.data


def zero_words(count: int) -> np.ndarray:
    """int64[count] of zeros. ``np.zeros`` releases the interpreter lock where there are more than 500."""
    return np.frombuffer(bytearray(8 * count), np.int64)


def clear(words: np.ndarray, begin: int, end: int) -> None:
    """Set words[begin:end] to 0, in parts: for more than 500 elements numpy releases the interpreter lock."""
    for at in range(begin, end, 500):
        words[at : min(at + 500, end)] = 0


def products(rows: np.ndarray) -> np.ndarray:
    """The product of each row of integers[rows, columns], column by column: ``prod`` releases the interpreter lock for many numbers."""
    if not rows.shape[1]:
        return np.ones(len(rows), rows.dtype)
    made: np.ndarray = rows[:, 0].copy()
    for column in range(1, rows.shape[1]):
        made *= rows[:, column]
    return made


def _address_in_head(array: Any) -> int:
    """Address of the elements of a C-contiguous numpy array. A sixth of the time of ``array.ctypes.data``; a batch calls it 70 times."""
    return _word_at(id(array) + _DATA).value if type(array) is _array else int(array.ctypes.data)


def _address_by_numpy(array: Any) -> int:
    """Address of the elements of a C-contiguous numpy array, for a numpy whose array objects have another head."""
    return int(array.ctypes.data)


address_of = _address_in_head if _KNOWN else _address_by_numpy


def pointers_to(arrays: Sequence[np.ndarray]) -> tuple[np.ndarray, object]:
    """int64[arrays]: where the address of the elements of each array stands in memory. And an object that must live as long."""
    if _KNOWN:
        return np.fromiter(map(_DATA.__add__, map(id, arrays)), np.int64, len(arrays)), arrays
    addresses = np.array([array.ctypes.data for array in arrays], np.int64)
    return address_of(addresses) + 8 * np.arange(len(arrays)), addresses


class Within:
    """An array of which some words are addresses of elements of `base`, for tables. The array has the elements' indices (int64[...],
    C-contiguous) instead.

    words   the words of the last axis that are addresses, from one on; by default all
    """

    __slots__ = ("base", "indices", "words")

    def __init__(self, indices: np.ndarray, base: np.ndarray, words: slice = slice(None)):
        self.indices, self.base, self.words = indices, base, words

    def placed(self, address: int) -> np.ndarray:
        """The array for a `base` at `address`."""
        from .places import to_elements

        indices = self.indices
        made, words = np.empty_like(indices), indices.shape[-1]
        first, _, step = self.words.indices(words)
        rows = indices.size // max(words, 1)
        to_elements(address_of(indices), rows, words, first, step, self.base.itemsize, address, address_of(made))
        return made


def words_of(entries: Iterable[Any]) -> tuple[list[Any], list[Any]]:
    """The words of a table, with addresses in place of arrays, of tuples (which are tables), and of :class:`Within`; and the arrays.

    A plan of three operators has 60 words, so the loop calls nothing: it takes half the time of a comprehension for each result.
    """
    words: list[Any] = []
    arrays: list[Any] = []
    for value in entries:
        kind = type(value)
        if kind is int:
            words.append(value)
        elif kind is _array and _KNOWN:
            arrays.append(value)
            words.append(_word_at(id(value) + _DATA).value)
        elif isinstance(value, _array):
            arrays.append(value)
            words.append(int(value.ctypes.data))
        elif kind is tuple:
            inner, more = words_of(value)
            table = np.fromiter(inner, np.int64, len(inner))
            arrays += (table, *more)
            words.append(address_of(table))
        elif kind is Within:
            placed = value.placed(address_of(value.base))
            arrays += (placed, value.base)
            words.append(address_of(placed))
        else:
            words.append(value)
    return words, arrays
