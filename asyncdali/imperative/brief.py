"""Brief calls, found by their arguments and the kinds of their data.

A call whose template took at most :data:`_BRIEF_NS` is remembered. Later calls with equal arguments, and data of the same kinds, only look
it up, and run the template (``runtime/templates/brief.py``) on the calling thread. The result of each check is a function of the key.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from ..batch import Batch as Samples
from ..device.threads import WorkerState
from ..operators.base import Arguments
from ..operators.random.random import StreamOperator
from ..runtime.templates.keys import part_of
from . import bricks
from .bricks import Brick, results
from .rng import Place
from .values import Batch, DynamicValue, Tensor

_BRIEF_NS = 200_000


class Kind:
    """All that a plan may depend on of a value on the CPU, besides its contents; and whether it is a Tensor. Equal kinds are one object."""

    __slots__ = ("parts",)

    def __init__(self, parts: Hashable):
        self.parts = parts


class Kinds:
    """Kinds by their parts. A table that is full begins again: calls with kinds of the old one are remembered again."""

    def __init__(self) -> None:
        self.table: dict[Hashable, Kind] = {}

    def of(self, samples: Samples, is_batch: bool) -> Kind | None:
        """The kind of a Batch or Tensor of `samples` on the CPU. None: plans may treat them differently."""
        part = part_of(samples)
        if part is None:
            return None
        parts = is_batch, part
        found = self.table.get(parts)
        if found is None:
            if len(self.table) >= 4 * bricks.MOST:
                self.table = {}
            found = self.table.setdefault(parts, Kind(parts))
        return found


kinds_of_all = Kinds()


def kind_of(value: DynamicValue) -> Kind | None:
    """The kind of a value. None: it is not computed yet, on a GPU, or plans may treat it differently."""
    held = value._held
    if held is None or held.device != "cpu":
        return None
    found = value._kind = kinds_of_all.of(held, isinstance(value, Batch))
    return found


class _BriefCall:
    """A call as it is made again."""

    __slots__ = ("_brick", "_kinds", "_numbers", "_result", "_template")

    def __init__(self, brick: Brick, template: Any, numbers: list[tuple[int, Samples]], is_batch: bool, made: Sequence[Samples]):
        """`numbers`: the inputs that are no values of the program, by position."""
        self._brick, self._template, self._numbers = brick, template, numbers
        self._result: type[DynamicValue] = Batch if is_batch else Tensor
        self._kinds = [kinds_of_all.of(samples, is_batch) for samples in made]

    def made(self, held: list[Any], allocate: Callable[[int], np.ndarray], thread: WorkerState) -> Any:
        """The results; None: to be computed in the usual way, because of an error. `held`: the samples of the data."""
        for k, samples in self._numbers:
            held.insert(k, samples)
        outputs = self._template.run(held, allocate, thread)
        if outputs is None:
            return None
        result = self._result
        if self._brick.single:
            return result._of(outputs[0], self._kinds[0])
        return results(self._brick, [result._of(samples, kind) for samples, kind in zip(outputs, self._kinds, strict=True)])


class _DrawnCall:
    """A call of a random operator without inputs, as it is made again: the operator draws while it plans, and has no steps."""

    __slots__ = ("_brick", "_drawn", "_kind", "_result")

    def __init__(self, brick: Brick, operator: StreamOperator, count: int, is_batch: bool, made: Samples):
        self._brick, self._drawn = brick, operator.call_drawer(Arguments(brick.spec, {}, count))
        self._result: type[DynamicValue] = Batch if is_batch else Tensor
        self._kind = kinds_of_all.of(made, is_batch)

    def made(self, place: Place) -> Any:
        """The result for a place of the generator. Raises the operator's error."""
        try:
            samples = self._drawn(*place)
        except Exception as error:
            raise self._brick.failed(self._brick.operators[0], [], error) from error
        return self._result._of(samples, self._kind)


class BriefCalls:
    """The brief calls of an engine, at most ``bricks.MOST``. Threads share them."""

    def __init__(self, allocate: Callable[[int], np.ndarray]):
        self._allocate = allocate
        self._known: dict[Hashable, Any] = {}
        self._lock = threading.Lock()

    def made(
        self, name: Hashable, parts: Sequence[Any], inputs: Sequence[object], kinds: list[Kind], thread: WorkerState
    ) -> Any:  # fmt: skip
        """The results of a call that is remembered; None if it is not. Its key is the name, parts, and the kinds of the inputs.

        The kinds are put into `kinds`, which stays empty if an input has none."""
        found, held = [], []
        for value in inputs:
            if not isinstance(value, DynamicValue):
                return None
            kind = value._kind or kind_of(value)
            if kind is None:
                return None
            found.append(kind)
            held.append(value._held)
        try:
            call = self._known.get((name, *parts, *found))
        except TypeError:  # lists in lists have no hash
            return None
        if call is None:
            kinds += found
            return None
        return call.made(held, self._allocate, thread)

    def drawn(self, key: Hashable) -> _DrawnCall | None:
        """The call of a random operator without inputs, if it is remembered."""
        try:
            return self._known.get(key)
        except TypeError:
            return None

    def remember_draw(self, key: Hashable, brick: Brick, count: int, is_batch: bool, made: Sequence[Samples]) -> None:
        """A call of a random operator without inputs was computed."""
        if not brick.single or len(brick.operators) > 1 or brick.operators[0].prepares:
            return
        operator, (samples,) = brick.operators[0].operator, made
        if isinstance(operator, StreamOperator) and samples.values is not None and samples.reused_memory is False:
            self._keep(key, _DrawnCall(brick, operator, count, is_batch, samples))

    def _keep(self, key: Hashable, call: Any) -> None:
        with contextlib.suppress(TypeError), self._lock:  # lists in lists have no hash
            if len(self._known) >= bricks.MOST:
                self._known = {}
            self._known[key] = call

    def remember(
        self, key: Hashable, brick: Brick, values: Sequence[DynamicValue | None], given: Sequence[Samples], count: int, is_batch: bool,
        made: Sequence[Samples],
    ) -> None:  # fmt: skip
        """A call was computed. `values`: its data, None for numbers; `given`: the inputs of the brick; `made`: its outputs."""
        template = brick.brief(given, count, _BRIEF_NS)
        if template is None:
            return
        numbers = []
        for k, (value, samples) in enumerate(zip(values, given, strict=True)):
            if value is None:
                numbers.append((k, samples))
            elif value._held is not samples:
                return  # a Tensor beside a Batch
        self._keep(key, _BriefCall(brick, template, numbers, is_batch, made))
