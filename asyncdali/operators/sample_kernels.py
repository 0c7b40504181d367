"""Compiled step of the operators that compute every sample by a function of arrays; see ``samples.py``."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ..batch import Batch, storage_dtype
from ..compiled.convert_kernels import converter, view
from ..compiled.intrinsics import load_i64, view_f32, view_i64
from ..compiled.sample_tables import sample_table
from ..compiled.step import Compiled, inlined, step_variant
from ..compiled.tables import laid_out
from ..device.launch import Kernel, Launch, element_type, grid_of
from .base import Step, no_explanation
from .samples import bound


@inlined
def _no_values(context, sample):
    return ()


def _with_array(before: Any, dtype: str, addresses: int, count: int, arrays: int, counts: int) -> Any:
    """``values(context, sample)``: the values of `before`, and the array whose addresses are at `addresses` in the table."""
    view_elements = view(dtype)

    @inlined
    def values(context, sample):
        elements = load_i64(load_i64(context + counts) + 8 * (arrays * sample + count))
        array = view_elements(load_i64(load_i64(context + addresses) + 8 * sample), elements)
        return before(context, sample) + (array,)  # noqa: RUF005, because Numba does not know (*a, b)

    return values


@cache
def samples_step(function: Callable[..., None], inputs: tuple[str, ...], outputs: tuple[str, ...]) -> Compiled:
    """The step that calls `function` for every sample. `inputs` and `outputs` are numpy dtypes."""
    at = sample_table(len(inputs), len(outputs)).at
    values, arrays = _no_values, len(inputs) + len(outputs)
    words = [*(f"input_{k}" for k in range(len(inputs))), *(f"output_{k}" for k in range(len(outputs)))]
    for count, (word, dtype) in enumerate(zip(words, (*inputs, *outputs), strict=True)):
        values = _with_array(values, dtype, getattr(at, word), count, arrays, at.counts)
    compute = inlined(bound(function, converter("float32", outputs[0])))

    @step_variant(function.__module__, function.__qualname__, inputs, outputs)
    def samples(context, sample, thread):
        length, width = load_i64(context + at.length), load_i64(context + at.width)
        record = view_i64(load_i64(context + at.records) + 8 * length * sample, length)
        numbers = view_f32(load_i64(context + at.numbers) + 4 * width * sample, width)
        compute(*values(context, sample), record, numbers)
        return 0

    return samples


def make_samples_step(
    step: Compiled, cuda_source: Path, inputs: list[Batch], outputs: list[Batch], records: np.ndarray, numbers: np.ndarray,
    items: np.ndarray | None,
) -> Step:  # fmt: skip
    """The step for a batch. `records` are int64[samples, words], `numbers` float32[samples, arguments], `items` int64[samples]."""
    samples, width = numbers.shape
    batches = [*inputs, *outputs]
    counts = np.empty((samples, len(batches)), np.int64)
    for column, batch in enumerate(batches):
        same = column and batch.shapes is batches[column - 1].shapes
        counts[:, column] = counts[:, column - 1] if same else batch.shapes.prod(axis=1)
    work = np.ascontiguousarray(counts[:, len(inputs)] if items is None else items)
    entries = sample_table(len(inputs), len(outputs)).entries(
        records=records, length=records.shape[1], numbers=numbers, width=width, counts=counts, items=work, samples=samples,
        **{f"input_{k}": batch.addresses for k, batch in enumerate(inputs)},
        **{f"output_{k}": batch.addresses for k, batch in enumerate(outputs)},
    )  # fmt: skip
    table, keep = laid_out(entries)

    def launches() -> list[Launch]:
        types = [(f"{kind}{k}", element_type(storage_dtype(batch.dtype)))
                 for kind, group in (("IN", inputs), ("OUT", outputs)) for k, batch in enumerate(group)]  # fmt: skip
        kernel = Kernel(cuda_source, "samples", (("INPUTS", len(inputs)), *types))
        return [Launch(kernel, entries, grid_of(int(work.max(initial=0)), samples))]

    return Step(step.address, table, no_explanation, keep=keep, launches=launches)
