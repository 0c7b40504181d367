"""Pipelines in JAX: iterators that return (sharded) arrays, and jax functions in the graph. Needs jax (``pip install asyncdali[jax]``).

    fn/             `jax_function`, at the same place as in DALI
    arrays.py       Batches of pipelines as jax arrays
    clu.py          The iterators with `peek`, at the same place as in DALI
    factory.py      Decorators that turn graph functions into functions that return iterators
    function.py     Jax functions as operators
    integration.py  DALI's module for conversions to jax
    iterator.py     Iterators that return jax arrays
    operator.py     The operator behind `jax_function`

May import what `plugin` may.
"""

from __future__ import annotations

from ...messages.extras import need

need("jax", "jax", "asyncdali.plugin.jax")

from ..epochs import LastBatchPolicy  # noqa: E402
from . import clu, fn  # noqa: E402
from .factory import data_iterator, peekable_data_iterator  # noqa: E402
from .iterator import DALIGenericIterator, DALIGenericPeekableIterator  # noqa: E402

__all__ = [
    "DALIGenericIterator", "DALIGenericPeekableIterator", "LastBatchPolicy", "clu", "data_iterator", "fn", "peekable_data_iterator",
]  # fmt: skip
