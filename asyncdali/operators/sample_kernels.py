"""Compiled step of the operators that compute every sample by a function of arrays; see ``samples.py``."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..batch import Batch, storage_dtype
from ..compiled.addresses import products
from ..compiled.convert_kernels import converter, view
from ..compiled.intrinsics import load_i64, view_f32, view_i64
from ..compiled.job_tables import THREAD
from ..compiled.sample_tables import sample_table
from ..compiled.step import Compiled, fused, inlined, step_variant
from ..device.launch import Kernel, Launch, Scratch, element_type, grid_of
from ..sampling.random_streams_kernels import word as random_word
from ..sampling.stream_tables import STREAM
from .base import Step, TableStep, no_explanation
from .samples import bound

thread_at, stream = THREAD.at, STREAM.word


@inlined
def drawn(record, number):
    """See :func:`asyncdali.operators.samples.uniform`."""
    key, hi, lo = np.uint64(record[stream.position_key]), np.uint64(record[stream.position_hi]), np.uint64(record[stream.position_lo])
    bits = random_word(key, hi, lo, np.uint64(record[stream.position_phase]) + np.uint64(number))
    return np.float32(bits >> np.uint64(8)) * np.float32(2.0**-24)


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
def samples_step(function: Callable[..., None], inputs: tuple[str, ...], outputs: tuple[str, ...], uses_scratch: bool = False) -> Compiled:
    """The step that calls `function` for every sample. `inputs` and `outputs` are numpy dtypes."""
    at = sample_table(len(inputs), len(outputs)).at
    values, arrays = _no_values, len(inputs) + len(outputs)
    words = [*(f"input_{k}" for k in range(len(inputs))), *(f"output_{k}" for k in range(len(outputs)))]
    for count, (word, dtype) in enumerate(zip(words, (*inputs, *outputs), strict=True)):
        values = _with_array(values, dtype, getattr(at, word), count, arrays, at.counts)
    compute = fused(bound(function, converter("float32", outputs[0]), drawn, fused))

    @inlined
    def declared(context, sample):
        length, width = load_i64(context + at.length), load_i64(context + at.width)
        record = view_i64(load_i64(context + at.records) + 8 * length * sample, length)
        return record, view_f32(load_i64(context + at.numbers) + 4 * width * sample, width)

    @step_variant(function.__module__, function.__qualname__, inputs, outputs)
    def samples(context, sample, thread):
        compute(*values(context, sample), *declared(context, sample))
        return 0

    @step_variant(function.__module__, function.__qualname__, inputs, outputs, "scratch")
    def samples_with_scratch(context, sample, thread):
        memory = load_i64(thread + thread_at.scratch) + load_i64(context + at.scratch)
        scratch = view_f32(memory, load_i64(load_i64(context + at.scratch_sizes) + 8 * sample))
        compute(*values(context, sample), *declared(context, sample), scratch)
        return 0

    return samples_with_scratch if uses_scratch else samples


class SampleNumbers(NamedTuple):
    """Numbers of each sample of a batch.

    records          int64[samples, words]
    numbers          float32[samples, arguments]
    items, scratch   int64[samples]; see :meth:`asyncdali.operators.samples.SampleOperator.planned`
    """

    records: np.ndarray
    numbers: np.ndarray
    items: np.ndarray | None
    scratch: np.ndarray | None


def make_samples_step(step: Compiled, cuda_source: Path, inputs: list[Batch], outputs: list[Batch], given: SampleNumbers) -> Step:
    """The step for a batch."""
    records, numbers, items, scratch = given
    samples, width = numbers.shape
    batches = [*inputs, *outputs]
    counts = np.empty((samples, len(batches)), np.int64)
    for column, batch in enumerate(batches):
        same = column and batch.shapes is batches[column - 1].shapes
        counts[:, column] = counts[:, column - 1] if same else products(batch.shapes)
    work = np.ascontiguousarray(counts[:, len(inputs)] if items is None else items)
    sizes = None if scratch is None else np.ascontiguousarray(scratch, np.int64)
    table_type = sample_table(len(inputs), len(outputs))
    entries = table_type.entries(
        records=records, length=records.shape[1], numbers=numbers, width=width, counts=counts, items=work, samples=samples,
        scratch=0, scratch_sizes=0 if sizes is None else sizes, scratch_starts=0 if sizes is None else np.cumsum(sizes) - sizes,
        **{f"input_{k}": batch.addresses for k, batch in enumerate(inputs)},
        **{f"output_{k}": batch.addresses for k, batch in enumerate(outputs)},
    )  # fmt: skip

    def launches() -> list[Launch]:
        types = [(f"{kind}{k}", element_type(storage_dtype(batch.dtype)))
                 for kind, group in (("IN", inputs), ("OUT", outputs)) for k, batch in enumerate(group)]  # fmt: skip
        kernel = Kernel(cuda_source, "samples", (("INPUTS", len(inputs)), *types))
        on_gpu = list(entries)
        if sizes is not None:
            on_gpu[table_type.word.scratch] = Scratch(4 * int(sizes.sum()))
        return [Launch(kernel, tuple(on_gpu), grid_of(int(work.max(initial=0)), samples))]

    most, field = (0, None) if sizes is None else (4 * int(sizes.max(initial=0)), table_type.word.scratch)
    return TableStep(step.address, entries, no_explanation, most, field, launches=launches)
