"""Tensors and tensor lists as text, as DALI prints them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from .tensor_list import TensorList

_INDENT = "    "
_EDGE = 2  # leading and trailing items that an abbreviation keeps


def described(name: str, fields: list[str]) -> str:
    return f"{name}(\n{_INDENT}" + f",\n{_INDENT}".join(fields) + ")"


def values_text(sample: np.ndarray) -> str:
    return np.array2string(sample, prefix=_INDENT, edgeitems=_EDGE)


def samples_text(tensors: TensorList) -> str:
    """Values of a list; of more than 5 samples with more than 1000 elements, the first and last two."""
    count, elements = len(tensors), int(tensors._batch.shapes.prod(axis=1).sum())
    if count > 5 and elements > 1000:
        texts = [values_text(tensors._host_sample(i)) for i in range(_EDGE)]
        texts += ["..."] + [values_text(tensors._host_sample(i)) for i in range(count - _EDGE, count)]
    else:
        texts = [values_text(tensors._host_sample(i)) for i in range(count)]
    between = ", " if tensors.ndim() == 0 else "," + "\n" * tensors.ndim() + _INDENT
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
