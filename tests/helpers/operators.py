"""Runs one operator on arrays, without a pipeline: for tests at the level of kernels and shape rules.

`run` and `run_all` call an operator's compiled steps one by one between guard bytes. `run_operator` uses the jobs of the runtime, so it
also prepares (decoders).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from asyncdali.batch import Batch
from asyncdali.device.threads import WorkerState
from asyncdali.extending.testing import batch_of, first_iteration, make, prepare, run_job, run_step
from asyncdali.operators.base import Arguments, CompiledJob, Gate, PythonJob
from asyncdali.runtime.work.jobs import CompiledSamples, PythonSamples
from asyncdali.types import DALIDataType

__all__ = ["batch_of", "first_iteration", "make", "prepare", "run_step", "run", "run_all", "run_compiled", "run_operator", "PerSample"]

_GUARD = 64


def run_compiled(job: Any) -> None:
    """Run a job of compiled steps."""
    assert isinstance(job, CompiledJob)
    run_job(job)


def run(
    name: str, samples: list[np.ndarray], layout: str = "", per_sample: dict[str, Any] | None = None, **constants: Any
) -> list[np.ndarray]:
    """First output of an operator. `per_sample` holds argument inputs as arrays [samples, ...]."""
    return run_all(name, samples, layout, per_sample, **constants)[0]


def run_all(
    name: str, samples: list[np.ndarray], layout: str = "", per_sample: dict[str, Any] | None = None, **constants: Any
) -> list[list[np.ndarray]]:
    """All outputs of an operator; checks that steps stay within their outputs and scratch."""
    source = batch_of(samples, layout)
    inputs = {key: Batch.from_values(np.asarray(value)) for key, value in (per_sample or {}).items()}
    operator = make(name, len(samples), constants, inputs)
    Gate(operator).check([source], inputs, len(samples))
    planned = operator.plan([source], Arguments(operator.spec, inputs, len(samples)), first_iteration(operator, len(samples)))
    memories = []
    for output in planned.outputs:
        if output.values is None and output.alias_of is None:
            memory = np.full(int(output.sizes().sum()) + 2 * _GUARD, 0xA5, np.uint8)
            output.place(memory[_GUARD:-_GUARD])
            memories.append(memory)
    for step in planned.steps:
        run_step(step, len(samples))
    for memory in memories:
        assert (memory[:_GUARD] == 0xA5).all() and (memory[-_GUARD:] == 0xA5).all(), "a step left its output"
    assert all(isinstance(output.dtype, DALIDataType) for output in planned.outputs)
    return [[np.array(output.sample(i)) for i in range(len(samples))] for output in planned.outputs]


class PerSample:
    """An argument input: one value per sample."""

    def __init__(self, samples) -> None:
        self.samples = samples

    def __repr__(self) -> str:
        return f"PerSample({self.samples!r})"  # part of the names of tests, which must be the same in every process


def run_operator(name: str, *inputs: list[Any], **arguments: Any) -> list[np.ndarray]:
    """The first output of operator `name` over a batch: the same prepare, plan and compiled steps as in a pipeline.

    Each input is a list of bytes or arrays, one per sample; a list given as an argument input is marked with :class:`PerSample`.
    """
    count, batches = len(inputs[0]), [_batch_of_data(samples) for samples in inputs]
    named = {key: _batch_of_data(value.samples) for key, value in arguments.items() if isinstance(value, PerSample)}
    constants = {key: value for key, value in arguments.items() if key not in named}
    operator = make(name, count, constants, named, len(inputs))
    bound, iteration, thread = Arguments(operator.spec, named, count), first_iteration(operator, count), WorkerState()

    def run_in_pipeline(job: PythonSamples | CompiledSamples) -> None:
        job.work(thread)
        job.raise_error()

    def do(job: PythonJob | CompiledJob) -> None:
        compiled = isinstance(job, CompiledJob)
        run_in_pipeline(CompiledSamples(job.count, [(None, step) for step in job.steps]) if compiled else PythonSamples(job))

    Gate(operator).check(batches, named, count)
    prepare(operator, batches, bound, iteration, do)
    planned = operator.plan(batches, bound, iteration)
    output = planned.outputs[0]
    if not output.is_placed:
        output.place(np.full(int(output.sizes().sum()), 0xA5, np.uint8))
    run_in_pipeline(CompiledSamples(count, [(None, step) for step in planned.steps]))
    return [output.sample(i) for i in range(count)]


def _batch_of_data(samples: list[Any]) -> Batch:
    """Like :func:`batch_of`, but samples may also be bytes."""
    return batch_of([np.frombuffer(sample, np.uint8) if isinstance(sample, bytes) else np.asarray(sample) for sample in samples])
