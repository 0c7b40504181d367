"""One operator on several inputs, by DALI and by us, and random samples for it.

`ours` plans the operator and runs its compiled steps between guard bytes; `theirs` builds a DALI pipeline of it. Both give :class:`Result`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncdali.batch import Batch, from_numpy_dtype
from asyncdali.errors import SampleError
from asyncdali.operators.base import Arguments, Gate

from . import operators as harness

_GUARD = 64
ALL_TYPES = ["uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "bool"]


@dataclass
class Result:
    """First output of an operator."""

    samples: list[np.ndarray]
    layout: str
    dtype: int

    def __repr__(self) -> str:
        return f"Result({[sample.shape for sample in self.samples]}, {self.layout!r}, {self.dtype})"


@dataclass
class Failed:
    """The operator refused the call, with this message."""

    message: str


def batch(samples: list[Any], layout: str = "") -> Batch:
    """A batch over arrays of any shapes, scalars included."""
    arrays = [_contiguous(sample) for sample in samples]
    shapes = np.array([array.shape for array in arrays], np.int64).reshape(len(arrays), arrays[0].ndim)
    addresses = np.array([array.ctypes.data for array in arrays], np.int64)
    return Batch(shapes, from_numpy_dtype(arrays[0].dtype), layout, addresses, arrays)


def _contiguous(sample: Any) -> np.ndarray:
    return np.ascontiguousarray(sample) if np.ndim(sample) else np.asarray(sample)


def plan(name: str, inputs: list[Batch], named: dict[str, Batch], constants: dict[str, Any], count: int | None = None) -> Any:
    """The operator's plan. Inputs may be made by hand."""
    count = len(inputs[0]) if inputs else len(next(iter(named.values()))) if named else count or 0
    operator = harness.make(name, count, constants, named, len(inputs))
    operator.infer([item.dtype for item in inputs])
    arguments, iteration = Arguments(operator.spec, named, count), harness.first_iteration(operator, count)
    Gate(operator).check(inputs, named, count)
    harness.prepare(operator, inputs, arguments, iteration, harness.run_compiled)
    return operator.plan(inputs, arguments, iteration)


def run_planned(planned: Any) -> Result:
    """Run the steps of a plan; checks that they stay within the outputs."""
    memories = []
    for output in planned.outputs:
        if output.owner is None and output.values is None and output.alias_of is None:
            memory = np.full(int(output.sizes().sum()) + 2 * _GUARD, 0xA5, np.uint8)
            output.place(memory[_GUARD : len(memory) - _GUARD])
            memories.append(memory)
    for step in planned.steps:
        harness.run_step(step, len(planned.outputs[0]))
    for memory in memories:
        assert (memory[:_GUARD] == 0xA5).all() and (memory[-_GUARD:] == 0xA5).all(), "a step left its output"
    output = planned.outputs[0]
    return Result([np.array(output.sample(i)) for i in range(len(output))], output.layout, int(output.dtype))


def ours(
    name: str,
    inputs: list[list[Any]],
    layouts: list[str] | None = None,
    named: dict[str, list[Any]] | None = None,
    count: int | None = None,
    **constants: Any,
) -> Result | Failed:
    """Our result for `inputs` (lists of samples) and argument inputs `named`."""
    layouts = layouts or [""] * len(inputs)
    try:
        batches = [batch(samples, layout) for samples, layout in zip(inputs, layouts)]
        return run_planned(plan(name, batches, {key: batch(value) for key, value in (named or {}).items()}, constants, count))
    except (SampleError, ValueError, TypeError, RuntimeError, IndexError) as error:
        return Failed(f"{type(error).__name__}: {error}")


def theirs(
    name: str,
    inputs: list[list[Any]],
    layouts: list[str] | None = None,
    named: dict[str, list[Any]] | None = None,
    count: int | None = None,
    **constants: Any,
) -> Result | Failed:
    """DALI's result on the CPU."""
    dali = importlib.import_module("nvidia.dali")
    layouts = layouts or [""] * len(inputs)
    fn = importlib.import_module("nvidia.dali.fn")
    operator = fn
    for part in name.split("."):
        operator = getattr(operator, part)
    samples = [*inputs, *(named or {}).values()]
    pipeline = dali.Pipeline(len(samples[0]) if samples else count, 1, None, prefetch_queue_depth=1, seed=1)
    try:
        with pipeline:
            nodes = [fn.external_source(_feeder(data), layout=layout or None) for data, layout in zip(inputs, layouts)]
            arguments = {key: fn.external_source(_feeder(value)) for key, value in (named or {}).items()}
            output = operator(*nodes, **arguments, **{key: _for_dali(value) for key, value in constants.items()})
            pipeline.set_outputs(output[0] if isinstance(output, (list, tuple)) else output)
        pipeline.build()
        (tensors,) = pipeline.run()
        return Result([np.array(tensors.at(i)) for i in range(len(tensors))], tensors.layout(), int(tensors.dtype))
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        return Failed(str(error).rpartition("encountered:")[2].strip())


def _feeder(samples: list[Any]) -> Any:
    arrays = [_contiguous(sample) for sample in samples]
    return lambda: arrays


def _for_dali(value: Any) -> Any:
    kind = type(value).__name__
    types = importlib.import_module("nvidia.dali.types")
    return getattr(types, kind)(int(value)) if kind in ("DALIDataType", "DALIInterpType") else value


def compare(
    name: str, inputs: list[list[Any]], *args: Any, close: float = 0.0, grey: int = 0, theirs_only: tuple[str, ...] = (), **kwargs: Any
) -> bool:
    """Assert that both give the same result, or that both refuse. Returns whether there was a result.

    close         tolerance for floats, relative and absolute
    grey          tolerance for integers
    theirs_only   messages of DALI's refusals of calls that asyncdali accepts
    """
    reference, result = theirs(name, inputs, *args, **kwargs), ours(name, inputs, *args, **kwargs)
    if isinstance(reference, Failed) and any(text in reference.message for text in theirs_only):
        return False
    if isinstance(reference, Failed) or isinstance(result, Failed):
        assert isinstance(reference, Failed) and isinstance(result, Failed), (reference, result)
        return False
    assert (result.layout, result.dtype) == (reference.layout, reference.dtype), (reference, result)
    assert [sample.shape for sample in result.samples] == [sample.shape for sample in reference.samples], (reference, result)
    for mine, yours in zip(result.samples, reference.samples):
        if close and mine.dtype.kind == "f":
            np.testing.assert_allclose(mine, yours, rtol=close, atol=close)
        elif grey:
            assert np.abs(mine.astype(np.int64) - yours.astype(np.int64)).max(initial=0) <= grey
        else:
            np.testing.assert_array_equal(mine, yours)
    return True


def random_array(rng: np.random.Generator, shape: Any, dtype: str) -> np.ndarray:
    """An array of values from the whole range of the type (floats: moderate)."""
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.startswith("float"):
        return rng.uniform(-300, 300, shape).astype(dtype)
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)


def random_batch(
    rng: np.random.Generator, ndim: int, dtype: str, *, count: int | None = None, largest: int = 6, empty: bool = True
) -> list:
    """Samples of random shapes, sometimes one without elements."""
    count = int(rng.integers(1, 5)) if count is None else count
    shapes = rng.integers(1, largest + 1, (count, ndim))
    if empty and ndim and rng.random() < 0.1:
        shapes[rng.integers(count), rng.integers(ndim)] = 0
    return [random_array(rng, tuple(shape), dtype) for shape in shapes]


def random_cases(check: Callable[[np.random.Generator], None], count: int) -> None:
    """Run `check` on `count` generators, always the same ones. The seed of a failing one is reported."""

    @settings(max_examples=count, deadline=None, derandomize=True, database=None, report_multiple_bugs=False)
    @given(st.integers(0, 2**32 - 1))
    def run(seed: int) -> None:
        check(np.random.default_rng(seed))

    run()
