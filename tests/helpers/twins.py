"""One plan of an operator, run by its compiled steps and by its kernels (compiled for the host), for comparison."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import numpy as np

from asyncdali.batch import Batch
from asyncdali.operators.base import Arguments, PythonJob

from . import kernels
from .operators import batch_of, first_iteration, make, prepare, run_compiled, run_step

GUARD = 64


def both(
    name: str,
    samples: list[np.ndarray],
    layout: str = "",
    /,
    per_sample: dict[str, Any] | None = None,
    more: tuple[list[np.ndarray], ...] = (),
    **constants: Any,
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """First output by the compiled steps and by the kernels."""
    by_steps, by_kernels = (outputs_of(name, [samples, *more], layout, per_sample, gpu, **constants)[0] for gpu in (False, True))
    return by_steps, by_kernels


def outputs_of(
    name: str, inputs: list[list[np.ndarray]], layout: str, per_sample: dict[str, Any] | None, gpu: bool, /, **constants: Any
) -> list[list[np.ndarray]]:
    """All outputs of an operator over arrays, by compiled steps or by kernels. Checks that nothing around the outputs is overwritten.

    `layout` is that of the inputs that have as many dimensions.
    """
    count = len(inputs[0])
    named = {key: Batch.from_values(np.asarray(value)) for key, value in (per_sample or {}).items()}
    sources = [batch_of(samples, layout if np.ndim(samples[0]) == len(layout) else "") for samples in inputs]
    operator = make(name, count, constants, named, len(sources))
    if gpu:
        operator = type(operator)(replace(operator.spec, device="gpu"), replace(operator.environment, gpu=cast(Any, object())))
    arguments, iteration = Arguments(operator.spec, named, count), first_iteration(operator, count)
    prepare(operator, sources, arguments, iteration, _do)
    planned = operator.plan(sources, arguments, iteration)
    memories = []
    for output in planned.outputs:
        if output.is_placed:  # the jobs have filled the output
            continue
        memory = np.full(int(output.sizes().sum()) + 2 * GUARD, 0xA5, np.uint8)
        output.place(memory[GUARD:-GUARD])
        memories.append(memory)
    launches = []
    for step in planned.steps:
        if gpu:
            assert step.launches is not None
            launches += step.launches()
        else:
            run_step(step, count)
    kernels.run_launches(launches)
    for memory in memories:
        assert (memory[:GUARD] == 0xA5).all() and (memory[-GUARD:] == 0xA5).all(), "something left its output"
    return [[np.array(output.sample(i)) for i in range(count)] for output in planned.outputs]


def _do(job: Any) -> None:
    if isinstance(job, PythonJob):
        for sample in job.samples:
            job.work(sample)
    else:
        run_compiled(job)


def assert_near(expected: list[np.ndarray], found: list[np.ndarray], relative: float = 0.0, steps: int = 0) -> None:
    """Integers within `steps`; floats within `relative` to the largest of their sample, NaN and infinities in the same places."""
    for a, b in zip(expected, found, strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype
        if a.dtype.kind in "iub":
            assert np.abs(a.astype(np.float64) - b.astype(np.float64)).max(initial=0) <= steps
        else:
            largest = np.abs(a[np.isfinite(a)].astype(np.float64)).max(initial=0)
            np.testing.assert_allclose(b.astype(np.float64), a.astype(np.float64), rtol=relative, atol=relative * largest)
