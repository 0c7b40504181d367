"""The position of a random stream in a table."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..compiled.tables import Field, Table
from .random_streams import SAMPLE_STRIDE, StreamPosition

POSITION = Field("position", "uint64", "of the random stream at the first sample", ("key", "hi", "lo", "phase"))
STREAM = Table("STREAM", POSITION)
"""A position as a table of its own, for compiled code that reads one in another table."""


def position_words(position: StreamPosition) -> dict[str, int]:
    """The words of POSITION by name."""
    words = np.array([position.key, position.hi, position.lo, position.phase], np.uint64).view(np.int64).tolist()
    return dict(zip(POSITION.words, words, strict=True))


def sample_positions(position: StreamPosition, samples: int) -> dict[str, Any]:
    """The words of POSITION by name, for records of the samples of a batch: each sample has a stream of its own."""
    words: dict[str, Any] = dict(position_words(position))
    strides = np.arange(samples, dtype=np.uint64) * np.uint64(SAMPLE_STRIDE)
    words["position_hi"] = (np.uint64(position.hi) + strides).view(np.int64)
    return words
