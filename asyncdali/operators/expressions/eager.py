"""Base of expressions and subscripts: results that are known after planning, if inputs are known or the results are requested."""

from __future__ import annotations

from collections.abc import Generator

from ...batch import Batch
from ..base import NOTHING, Arg, Arguments, CompiledJob, Environment, Iteration, Operator, Planned, Preparation, Spec

SMALL = 8192
"""Most elements of a batch that is computed during planning."""

EAGER = Arg("eager", "bool", False, "In a plan: the contents are wanted while the segment is planned.")


class EagerOperator(Operator):
    """An operator that computes small known batches while planning, and larger ones in `prepare` if ``peephole.contents`` requests it.

    Derived classes decide which batches are small (`_dense`) and make outputs: `_nothing` of empty batches, `_now` with contents, `_later`
    with the steps that compute the contents.
    """

    repeatable = True

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        # Data from a GPU is never known during planning.
        self._wanted: bool = spec.constant("eager") and (environment.gpu is None or spec.device == "cpu")

    @classmethod
    def prepares(cls, spec: Spec) -> bool:
        return bool(spec.constant("eager"))

    def prepare(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Preparation:
        """Compute now batches that are too large for one thread, or that need more than a slice of one array. Returns the output."""
        return self._computed(inputs, arguments) if self._wanted else NOTHING

    def _computed(self, inputs: list[Batch], arguments: Arguments) -> Generator[CompiledJob, None, Batch | None]:
        if not len(inputs[0]) or self._dense(inputs):
            return None
        planned = self._later(inputs, arguments)
        output = planned.outputs[0]
        if planned.steps:
            output.reserve(lambda size: self.environment.allocate(max(1, size)))
            yield CompiledJob(len(output), planned.steps)
        return output

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        if iteration.prepared is not None:
            return Planned([iteration.prepared])
        if not len(inputs[0]):
            return Planned([self._nothing(inputs)])
        return Planned([self._now(inputs)]) if self._dense(inputs) else self._later(inputs, arguments)

    def _dense(self, inputs: list[Batch]) -> bool:
        """Whether the batches have samples, their contents are few and known, and all samples have the same treatment."""
        raise TypeError("abstract")

    def _nothing(self, inputs: list[Batch]) -> Batch:
        """The result for empty batches, whose types and dimensions may be unknown."""
        raise TypeError("abstract")

    def _now(self, inputs: list[Batch]) -> Batch:
        """The output with its contents."""
        raise TypeError("abstract")

    def _later(self, inputs: list[Batch], arguments: Arguments) -> Planned:
        """The output without contents, and the steps that compute them."""
        raise TypeError("abstract")
