"""The text of Tensors and Batches."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..tensors.rendering import sheet
from .values import Batch, DynamicValue, Tensor

_INDENT = "    "
_EDGES = 2
_FEW_SAMPLES, _FEW_ELEMENTS = 5, 1000
_FEW_SHAPES, _FEW_EXTENTS, _WIDTH = 16, 100, 75
_ONE_A_LINE = ", \n" + " " * len(f"{_INDENT}shape=[")


def described(value: DynamicValue) -> str:
    """Name, values, type, layout, device and shape of a value. It waits for the values."""
    kind = "Batch" if isinstance(value, Batch) else "Tensor"
    lines = [_values(value), f"dtype={value.dtype}"]
    if value.layout:
        lines.append(f'layout="{value.layout}"')
    lines.append(f'device="{value.device}"')
    if isinstance(value, Batch):
        lines.append(f"num_samples={value.batch_size}")
        lines.append(f"shape={_shapes(value.shape)}")
    else:
        assert isinstance(value, Tensor)
        lines.append(f"shape={value.shape}")
    return f"{kind}(\n{_INDENT}" + f",\n{_INDENT}".join(lines) + ")"


def shown(value: DynamicValue) -> str:
    """The value for notebooks, as HTML: pictures as a contact sheet, sound as a waveform, other data with range and histogram."""
    samples = value.cpu()._samples()
    count = len(samples)
    facts = f"Batch: {count} samples on {value.device}" if isinstance(value, Batch) else f"Tensor on {value.device}"
    return sheet(facts, count, samples.sample, value.dtype, samples.layout)


def _values(value: DynamicValue) -> str:
    samples = value.cpu()._samples()
    if isinstance(value, Tensor):
        return _text(samples.sample(0), value)
    count = len(samples)
    total = int(np.maximum(samples.sizes() // samples.itemsize, 1).sum())  # as in DALI, an empty sample counts as one element
    chosen: list[Any] = list(range(count))
    if count > _FEW_SAMPLES and total > _FEW_ELEMENTS:
        chosen = [0, 1, None, count - 2, count - 1]
    texts = ["..." if k is None else _text(samples.sample(k), value) for k in chosen]
    newlines = "\n" * samples.ndim
    separator = f",{newlines}{_INDENT}" if newlines else ", "
    return f"[{separator.join(texts)}]"


def _text(array: np.ndarray, value: DynamicValue) -> str:
    from ..types.enums import ENUM_KINDS

    for kind, number in ENUM_KINDS.items():
        if number == value.dtype.type_id:
            return str([kind(int(item)).name for item in array.reshape(-1)]) if array.ndim else str(kind(int(array)))
    return np.array2string(array, prefix=_INDENT, edgeitems=_EDGES, threshold=_FEW_ELEMENTS)


def _shapes(shapes: list[tuple[int, ...]]) -> str:
    texts = [str(shape) for shape in shapes]
    extents = sum(map(len, shapes))
    if len(texts) > _FEW_SHAPES or (len(texts) > _FEW_SAMPLES and extents > _FEW_EXTENTS):
        texts = [*texts[:_EDGES], "...", *texts[-_EDGES:]]
    line = ", ".join(texts)
    return f"[{line}]" if len(line) <= _WIDTH else f"[{_ONE_A_LINE.join(texts)}]"
