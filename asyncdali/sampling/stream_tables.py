"""The position of a random stream in a table."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..compiled.tables import Field, Handle, Table
from .random_streams import SAMPLE_STRIDE, StreamPosition

POSITION = Field("position", "uint64", "of the random stream at the first sample", ("key", "hi", "lo", "phase"))
STREAM = Table("STREAM", POSITION)
"""A position as a table of its own, for compiled code that reads one in another table."""


def position_words(position: StreamPosition) -> dict[str, object]:
    """The words of POSITION by name."""
    return {"position_key": signed(position.key), "position_hi": signed(position.hi), "position_lo": signed(position.lo),
            "position_phase": position.phase}  # fmt: skip


def signed(word: Any) -> Any:
    """A 64-bit word as the signed integer with the same bits. Four words take a third of the time of an array's view. A handle stays."""
    return word if isinstance(word, Handle) else word - ((word >> 63) << 64)


def sample_positions(position: StreamPosition, samples: int) -> dict[str, Any]:
    """The words of POSITION by name, for records of the samples of a batch: each sample has a stream of its own."""
    words: dict[str, Any] = dict(position_words(position))
    strides = np.arange(samples, dtype=np.uint64) * np.uint64(SAMPLE_STRIDE)
    words["position_hi"] = (np.uint64(position.hi) + strides).view(np.int64)
    return words
