"""Copies of outputs that lie in the user's memory.

A source with ``no_copy`` may change its memory after the iteration, but the user may keep outputs. So an output that is the source's
memory, or a view of it (reshape, squeeze, ...), is copied when it is returned.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...batch import Batch
from ...compiled.addresses import address_of
from ...device.buffers import BufferPool

STREAMED_FROM = 96 << 20
"""Size of a pool (bytes) from which on blocks have usually left the cache when they are used again. Copying 562,500 bytes, and copying and
reading them, on an idle machine, plain and streamed: with 36 MB in turns 40 and 42 us, 52 and 76 us; with 72 MB 54 and 42 us, 69 and 76 us;
with 144 MB 65 and 42 us, 79 and 76 us."""
_BRIEF = 1 << 16
"""Fewer bytes are copied in microseconds, so the interpreter lock is kept."""


class OutputCopies:
    """Makes the copies, in the memory of `pool`. None: in memory of the C library."""

    def __init__(self, pool: BufferPool | None):
        from ...compiled.copies import copy_samples

        self._pool = pool
        self._copy = copy_samples

    def compile(self) -> None:
        """Compile or load the code now, not at the first output."""
        self._copy.compile()

    def private(self, batch: Batch) -> Batch:
        """The batch if it owns its memory, else a copy; see :meth:`Batch.private`."""
        return batch.private(self._move) if self._pool is None else batch.private(self._move, self._pool.allocate)

    def _move(self, targets: np.ndarray, sources: np.ndarray, sizes: np.ndarray) -> None:
        streamed = self._pool is not None and self._pool.allocated_bytes >= STREAMED_FROM
        copy: Callable[..., int] = self._copy if sizes.sum() > _BRIEF else self._copy.held
        copy(address_of(targets), address_of(sources), address_of(sizes), len(sizes), int(streamed))
