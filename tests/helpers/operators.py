"""Runs one operator on arrays, without a pipeline: for tests at the level of kernels and shape rules.

`run` and `run_all` call an operator's compiled steps one by one between guard bytes. `run_operator` uses the jobs of the runtime, so it
also prepares (decoders).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from asyncdali.batch import Batch, from_numpy_dtype
from asyncdali.device.threads import WorkerState
from asyncdali.operators import load_registry
from asyncdali.operators.base import Arguments, CompiledJob, Environment, Gate, Iteration, Operator, PythonJob, Spec, Step
from asyncdali.runtime.work.jobs import CompiledSamples, PythonSamples
from asyncdali.types import DALIDataType

_GUARD = 64


def batch_of(samples: list[np.ndarray], layout: str = "") -> Batch:
    """A batch over arrays of any shapes, each in its own memory."""
    samples = [np.ascontiguousarray(sample) for sample in samples]
    shapes = np.array([sample.shape for sample in samples], np.int64).reshape(len(samples), samples[0].ndim)
    addresses = np.array([sample.ctypes.data for sample in samples], np.int64)
    return Batch(shapes, from_numpy_dtype(samples[0].dtype), layout, addresses, samples)


def make(name: str, count: int, constants: dict[str, Any], named: dict[str, Batch], inputs: int = 1) -> Operator:
    """An instance of operator `name` with constant arguments and argument inputs (`named`)."""
    cls = load_registry()[name]
    constants = {key: cls.schema.by_name[key].convert(value) for key, value in constants.items()}
    outputs = cls.schema.output_count(constants, inputs)
    spec = Spec(cls.schema, name, "cpu", constants, tuple(named), inputs, outputs, constants.get("seed", 1))
    return cls(spec, Environment(count, 1, None, False, lambda size: np.empty(size, np.uint8)))


def run_step(step: Step, count: int) -> None:
    """Run a step over samples 0..count-1, with its scratch between guard bytes."""
    scratch = np.full(step.scratch_bytes + 64 + 2 * _GUARD, 0xA5, np.uint8)
    begin = (scratch.ctypes.data + _GUARD + 63) & -64
    thread = np.array([begin, step.scratch_bytes, 0, 0], np.int64)
    step.place_scratch(0)
    function = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 3)(step.function)
    for sample in range(count):
        status = function(step.context.ctypes.data, sample, thread.ctypes.data)
        assert status == 0, step.explain(status, "", sample)
    first = begin - scratch.ctypes.data
    assert (scratch[:first] == 0xA5).all() and (scratch[first + step.scratch_bytes :] == 0xA5).all(), "a step left its scratch"


def first_iteration(operator: Operator, count: int) -> Iteration:
    """The context of the first iteration of a fresh pipeline."""
    return Iteration(0, count, position=operator.start)


def prepare(operator: Operator, inputs: list[Batch], arguments: Arguments, iteration: Iteration, work: Callable[[Any], None]) -> None:
    """Prepare an iteration. `work` runs each job."""

    def jobs():
        iteration.prepared = yield from operator.prepare(inputs, arguments, iteration)

    for job in jobs():
        work(job)


def run_compiled(job: Any) -> None:
    """Run a job of compiled steps."""
    assert isinstance(job, CompiledJob)
    for step in job.steps:
        run_step(step, job.count)


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

    def run_job(job: PythonSamples | CompiledSamples) -> None:
        job.work(thread)
        job.raise_error()

    def do(job: PythonJob | CompiledJob) -> None:
        run_job(PythonSamples(job) if isinstance(job, PythonJob) else CompiledSamples(job.count, [(None, step) for step in job.steps]))

    Gate(operator).check(batches, named, count)
    prepare(operator, batches, bound, iteration, do)
    planned = operator.plan(batches, bound, iteration)
    output = planned.outputs[0]
    if not output.is_placed:
        output.place(np.full(int(output.sizes().sum()), 0xA5, np.uint8))
    run_job(CompiledSamples(count, [(None, step) for step in planned.steps]))
    return [output.sample(i) for i in range(count)]


def _batch_of_data(samples: list[Any]) -> Batch:
    """Like :func:`batch_of`, but samples may also be bytes."""
    return batch_of([np.frombuffer(sample, np.uint8) if isinstance(sample, bytes) else np.asarray(sample) for sample in samples])
