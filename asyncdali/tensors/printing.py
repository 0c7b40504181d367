"""Tensors and tensor lists as text, in DALI's format."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

_INDENT = "    "
_EDGE = 2  # number of leading and trailing items in an abbreviation


def described(name: str, fields: list[str]) -> str:
    """A class name and the object's properties, one per line."""
    return f"{name}(\n{_INDENT}" + f",\n{_INDENT}".join(fields) + ")"


def values_text(sample: np.ndarray) -> str:
    """Values of one sample, abbreviated as numpy does."""
    return np.array2string(sample, prefix=_INDENT, edgeitems=_EDGE)


def samples_text(sample: Callable[[int], np.ndarray], shapes: np.ndarray) -> str:
    """Values of a list of samples of `shapes` (int64[samples, ndim]).

    Of more than 5 samples with over 1000 elements, the first and last two.
    """
    count, ndim = shapes.shape
    if count > 5 and int(shapes.prod(axis=1).sum()) > 1000:
        texts = [values_text(sample(i)) for i in range(_EDGE)]
        texts += ["..."] + [values_text(sample(i)) for i in range(count - _EDGE, count)]
    else:
        texts = [values_text(sample(i)) for i in range(count)]
    between = ", " if ndim == 0 else "," + "\n" * ndim + _INDENT
    return f"[{between.join(texts)}]"


def shapes_text(shapes: list[tuple[int, ...]]) -> str:
    """Shapes of a list: on one line if they fit 75 characters, else one per line; abbreviated beyond 16 samples."""
    texts = [str(shape) for shape in shapes]
    if len(texts) > 16:
        texts = [*texts[:_EDGE], "...", *texts[-_EDGE:]]
    line = ", ".join(texts)
    if len(line) > 75:
        line = f", \n{_INDENT}       ".join(texts)
    return f"[{line}]"
