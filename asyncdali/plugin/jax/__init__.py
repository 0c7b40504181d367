"""Pipelines in JAX: iterators that return (sharded) arrays, and jax functions in the graph. Needs jax (``pip install asyncdali[jax]``)."""

from __future__ import annotations

from ..base_iterator import LastBatchPolicy
from . import clu, fn
from .factory import data_iterator, peekable_data_iterator
from .iterator import DALIGenericIterator, DALIGenericPeekableIterator

__all__ = [
    "DALIGenericIterator", "DALIGenericPeekableIterator", "LastBatchPolicy", "clu", "data_iterator", "fn", "peekable_data_iterator",
]  # fmt: skip
