"""The iterators with `peek`, at the same place as in DALI."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..epochs import LastBatchPolicy
from .factory import peekable_data_iterator
from .iterator import DALIGenericIterator, DALIGenericPeekableIterator


class ArraySpec(NamedTuple):
    """Shape and type of an array."""

    shape: tuple[int, ...]
    dtype: Any


def get_spec_for_array(array: Any) -> ArraySpec:
    """The shape and type of a jax array."""
    return ArraySpec(shape=tuple(array.shape), dtype=array.dtype)


__all__ = [
    "ArraySpec", "DALIGenericIterator", "DALIGenericPeekableIterator", "LastBatchPolicy", "get_spec_for_array", "peekable_data_iterator",
]  # fmt: skip
