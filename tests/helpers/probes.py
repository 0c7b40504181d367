"""Operators for tests of the runtime. They call back into the test, or fail on demand; one is compiled."""

from __future__ import annotations

from typing import Any

import numpy as np

from asyncdali.batch import Batch
from asyncdali.graph.node import make
from asyncdali.operators.accepts import ANYTHING
from asyncdali.operators.base import Arg, Operator, Planned, PythonJob, SampleError, Schema, Step, register
from asyncdali.types import DALIDataType

from .probe_tables import NUMBER

_DEVICES = ("cpu", "mixed", "gpu")
_HOOK = Arg("hook", "any", None, "Called with (iteration, samples) while planning.")


def _schema(name: str, **more: Any) -> Schema:
    args = (_HOOK, *more.pop("args", ()))
    return Schema(name=name, doc="For tests.", inputs=(0, 2), accepts=(ANYTHING,), devices=_DEVICES, args=args, **more)


class _Probe(Operator):
    """Base of the test operators. The output is the iteration's index, an INT64 scalar per sample."""

    eager = True

    def plan(self, inputs, arguments, iteration):
        hook = self.spec.constant("hook")
        if hook is not None:
            hook(iteration.index, arguments.count)
        return Planned([Batch.from_values(np.full(arguments.count, iteration.index, np.int64))])


@register
class Probe(_Probe):
    schema = _schema("_test_probe")


@register
class BarrierProbe(_Probe):
    schema = _schema("_test_barrier_probe")
    barrier = True


@register
class SinkProbe(_Probe):
    schema = _schema("_test_sink_probe", no_prune=True)
    barrier = True


@register
class PairProbe(_Probe):
    """Two outputs."""

    schema = _schema("_test_pair_probe", outputs=2)

    def plan(self, inputs, arguments, iteration):
        (first,) = super().plan(inputs, arguments, iteration).outputs
        return Planned([first, Batch.from_values(np.full(arguments.count, -iteration.index, np.int64))])


@register
class SampleProbe(_Probe):
    """Calls ``work(iteration, sample)`` on the worker threads before planning."""

    schema = _schema("_test_sample_probe", args=(Arg("work", "any"),))

    def prepare(self, inputs, arguments, iteration):
        work = self.spec.constant("work")
        yield PythonJob(range(arguments.count), lambda sample: work(iteration.index, sample))


@register
class CounterProbe(Operator):
    """A stateful operator: the number of samples produced so far."""

    schema = _schema("_test_counter_probe")
    eager = True
    stateful = True

    start = 0

    def after(self, position, samples):
        return position + samples

    def save(self, position):
        return position

    def load(self, data):
        if type(data) is not int:
            raise ValueError(f"{data!r} is not a count")
        return data

    def plan(self, inputs, arguments, iteration):
        hook = self.spec.constant("hook")
        if hook is not None:
            hook(iteration.index, arguments.count)
        return Planned([Batch.from_values(iteration.position + np.arange(arguments.count))])


@register
class StepProbe(Operator):
    """Compiled: writes the sample's number times `factor`; fails on sample `bad` (none by default)."""

    schema = _schema("_test_step_probe", args=(Arg("factor", "int", 1), Arg("bad", "int", -1), Arg("elements", "int", 1)))

    def plan(self, inputs, arguments, iteration):
        from .probe_kernels import number_step

        hook = self.spec.constant("hook")
        if hook is not None:
            hook(iteration.index, arguments.count)
        elements = arguments.constant("elements")
        out = Batch(np.full((arguments.count, 1), elements, np.int64), DALIDataType.INT64)
        bad, factor = arguments.constant("bad"), arguments.constant("factor")
        context, keep = NUMBER.make(outputs=out.addresses, elements=elements, factor=factor, bad=bad)
        step = Step(number_step.address, context, lambda code, text, sample: f"sample {sample} failed with {code}", keep=keep)
        return Planned([out], [step])


def call(kind: type[Operator], *inputs: Any, **arguments: Any) -> Any:
    """An operator call in the graph being defined."""
    return make(kind.schema, inputs, arguments)


def fail_at(*iterations: int, error: type[Exception] = RuntimeError, sample: int | None = None):
    """A hook that raises in the given iterations."""

    def hook(index: int, count: int) -> None:
        if index in iterations:
            if sample is not None:
                raise SampleError(sample, f"planned failure {index}")
            raise error(f"planned failure {index}")

    return hook
