"""Layouts of inputs: which one is meant, and where its axes are."""

from __future__ import annotations

from collections.abc import Sequence

from ..batch import Batch


def input_layout(batch: Batch, allowed: Sequence[str], position: int = 0) -> str:
    """The layout of an input, which must be one of `allowed`; the first one of the same length if the input has none.

    Raises ValueError naming what is allowed.
    """
    if batch.layout:
        if batch.layout in allowed:
            return batch.layout
        given = f'The layout "{batch.layout}"'
    else:
        for layout in allowed:
            if len(layout) == batch.ndim:
                return layout
        given = f"The number of dimensions {batch.ndim}"
    raise ValueError(f"{given} does not match any of the allowed layouts for input {position}. Valid layouts are: {', '.join(allowed)}")
