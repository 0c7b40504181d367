"""A decoder and the operator that reads its pictures as one graph, so that rows of pixels stay in the cache.

A decoded batch of photographs is larger than the cache. A pipeline never stores such a batch where a resize or a crop reads rows or windows
while they are decoded. Here a call of a decoder whose work was long before is not computed at once, if its input is the unread item of a
reader. The next call that may take rows computes both, and the pictures are never stored. Another use decodes the pictures.

Results do not depend on it: random numbers are drawn and inputs are kept at the call, and bytes that the program gets hold of are decoded
before. A program that uses pictures twice would decode twice. So after the first such use the brick decodes at the call.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from ..batch import Batch as Samples
from ..errors import set_aside
from .bricks import Brick
from .engine import CallEngine
from .values import DynamicValue, untouched
from .work import DelayedCall, KnownOutput, users_line

log = logging.getLogger("asyncdali")

Finish: TypeAlias = Callable[[Brick, list[Samples]], list[Samples]]
"""Gives outputs memory of their own (``calls.finished``)."""


class PairGraph(Protocol):
    """A decoder and its reader as one graph."""

    def run(self, given: Sequence[Samples], positions: Sequence[object]) -> Sequence[GraphOutputs]:
        """The outputs of both. `given`: the inputs that are no outputs; `positions`: of the random streams."""


class GraphOutputs(Protocol):
    """The outputs of a call in a graph."""

    @property
    def outputs(self) -> list[Samples]: ...


class DecodingToCome:
    """A call of a decoder that may be computed together with the call that reads its pictures.

    taken    such a call has computed it, without storing the pictures
    """

    __slots__ = ("brick", "count", "engine", "position", "samples", "taken")

    def __init__(self, brick: Brick, engine: CallEngine, samples: Samples, count: int, position: object):
        self.brick, self.engine, self.samples, self.count, self.position = brick, engine, samples, count, position
        self.taken = False


class PairGraphs(Protocol):
    """Makes the graphs; modules above this one have them."""

    def find(self, engine: CallEngine, first: Brick, second: Brick, arguments: int, count: int) -> PairGraph | None:
        """The graph of a decoder and a reader with `arguments` other inputs, for `count` samples; None: they are no graph."""


graphs: PairGraphs | None = None
"""Set when readers are imported. Without a reader no call is postponed."""


def postponed(
    brick: Brick, engine: CallEngine, data: Sequence[DynamicValue], count: int, position: object, known: Sequence[KnownOutput],
    finish: Finish,
) -> DelayedCall | None:  # fmt: skip
    """A call of a decoder for later; None: it is computed now."""
    item = data[0]._work
    if len(data) != 1 or not brick.is_long or brick.is_shared or item is None or data[0]._held is not None:
        return None
    coming = DecodingToCome(brick, engine, untouched(data[0]), count, position)

    def compute() -> Sequence[Samples]:
        if coming.taken:
            brick.is_shared = True
        return finish(brick, brick.run(engine, [coming.samples], count, position))

    work = DelayedCall(compute, known, users_line(), coming)
    item.dependents.setdefault(data[0]._number, []).append(weakref.ref(work))
    return work


def together(
    brick: Brick, engine: CallEngine, data: Sequence[DynamicValue], others: Sequence[Samples], count: int, position: object
) -> list[Samples] | None:
    """The outputs of a call that reads pictures which are not decoded yet; None: it is computed with decoded pictures."""
    work = data[0]._work
    coming = None if work is None else work.coming
    if work is None or not isinstance(coming, DecodingToCome) or not work.is_waiting or data[0]._view_layout is not None:
        return None
    if coming.engine is not engine or coming.count != count:
        return None
    if coming.taken:
        coming.brick.is_shared = True
        return None
    program = None if graphs is None else graphs.find(engine, coming.brick, brick, len(others), count)
    if program is None:
        return None
    try:
        made = program.run([coming.samples, *others], [coming.position, position])
    except Exception as error:  # the calls raise their own errors, one after the other
        log.debug("a decoder and its reader failed together", exc_info=set_aside(error))
        return None
    coming.taken = True
    return made[1].outputs
