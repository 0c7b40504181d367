"""The position of a random stream in a table."""

from __future__ import annotations

import numpy as np

from ..compiled.tables import Field, Table
from .random_streams import StreamPosition

POSITION = Field("position", "uint64", "of the random stream at the first sample", ("key", "hi", "lo", "phase"))
STREAM = Table("STREAM", POSITION)
"""A position as a table of its own, for compiled code that reads one in another table."""


def position_words(position: StreamPosition) -> dict[str, int]:
    """The words of POSITION by name."""
    words = np.array([position.key, position.hi, position.lo, position.phase], np.uint64).view(np.int64).tolist()
    return dict(zip(POSITION.words, words, strict=True))
