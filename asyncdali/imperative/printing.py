"""The text of Tensors and Batches."""

from __future__ import annotations

from typing import Any

import numpy as np

from .values import Batch, DynamicValue, Tensor

_INDENT = "    "
_EDGES = 2
_FEW_SAMPLES, _FEW_ELEMENTS = 5, 1000
_FEW_SHAPES, _WIDTH = 16, 75


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


def _values(value: DynamicValue) -> str:
    samples = value.cpu()._samples()
    if isinstance(value, Tensor):
        return _text(samples.sample(0), value)
    count = len(samples)
    total = int(samples.sizes().sum()) // samples.itemsize
    chosen: list[Any] = list(range(count))
    if count > _FEW_SAMPLES and total > _FEW_ELEMENTS:
        chosen = [0, 1, None, count - 2, count - 1]
    texts = ["..." if k is None else _text(samples.sample(k), value) for k in chosen]
    separator = f",\n\n{_INDENT}" if samples.ndim > 1 else f",\n{_INDENT}" if samples.ndim else ", "
    return f"[{separator.join(texts)}]"


def _text(array: np.ndarray, value: DynamicValue) -> str:
    from ..types.enums import ENUM_KINDS

    for kind, number in ENUM_KINDS.items():
        if number == value.dtype.type_id:
            return str([kind(int(item)).name for item in array.reshape(-1)]) if array.ndim else str(kind(int(array)))
    return np.array2string(array, prefix=_INDENT, edgeitems=_EDGES, threshold=_FEW_ELEMENTS)


def _shapes(shapes: list[tuple[int, ...]]) -> str:
    texts = [str(shape) for shape in shapes]
    if len(texts) > _FEW_SHAPES:
        texts = [*texts[:2], "...", *texts[-2:]]
    line = f"[{', '.join(texts)}]"
    if len(line) + len("shape=") + len(_INDENT) <= _WIDTH:
        return line
    rows, row = [], ""
    for text in texts:
        if row and len(row) + len(text) + 2 + 11 > _WIDTH:
            rows.append(row)
            row = ""
        row = f"{row}, {text}" if row else text
    rows.append(row)
    return "[" + (",\n" + " " * 11).join(rows) + "]"
