"""The templates of an operator or of a segment, by the key of their inputs."""

from __future__ import annotations

import logging
from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

from ...batch import Batch
from ...compiled.tables import Handle
from ...operators.base import Trait
from ..work.built import Built
from ..work.jobs import Timed
from .brief import BriefTemplate, BriefView
from .host import HostTemplate
from .keys import edges_of, edges_read, has_key, key_of
from .outlines import Outline, outlined
from .whole import SegmentTemplate

log = logging.getLogger("asyncdali")

class Limits(NamedTuple):
    """Limits of a table of templates.

    most      templates that are kept, and keys that are remembered
    trials    iterations after which contents that were new each time have no key any more; None: no such number
    replaces  whether a new template replaces the one that was not used for longest. If not, iterations with further keys are planned
    """

    most: int
    trials: int | None
    replaces: bool


PIPELINE = Limits(4, 64, False)
"""A pipeline's iterations are alike: whole batches, and a smaller last one."""
CALLS = Limits(64, None, True)
"""Calls of dynamic mode come from many places of a program."""


class Templates:
    """The templates of consecutive operators. Segments plan one iteration at a time, so there is no lock.

    heads  operators of the segment that are planned in every iteration, and first;  rest  the operators of the templates
    """

    __slots__ = ("_contents", "_copies", "_edges", "_known", "_limits", "_moving", "_on_gpu", "_seen", "_trials", "heads", "rest")

    heads: Sequence[Any]
    rest: Sequence[Any]

    def __init__(self, rest: Sequence[Built], heads: Sequence[Built] = (), on_gpu: bool = False, limits: Limits | None = None):
        from ...compiled.relocation import relocate

        relocate.compile()  # in build(), not in an iteration
        self.heads, self.rest, self._on_gpu = heads, rest, on_gpu
        self._copies: Mapping[int, int] = {}  # by output: the input that an operator views, where the output becomes a copy
        made = {edge for built in rest for edge in built.outputs}
        self._edges = list(dict.fromkeys(edge for built in rest for edge in edges_of(built) if edge not in made))
        read = {edge for built in rest for edge in edges_read(built, on_gpu)}
        self._contents = [k for k, edge in enumerate(self._edges) if edge in read]
        self._moving = [built for built in rest if built.operator.stateful]
        self._limits = limits = limits or PIPELINE
        self._trials = 0 if read & made else limits.trials or 1
        self._seen: dict[Hashable, None] = {}
        self._known: dict[Hashable, Any] = {}  # None: plans with this key are not copied

    def find(self, edges: Sequence[Any], batch_size: int) -> Any:
        """The template for the batches on `edges`. It is made when a key occurs for the second time. None: plan the iteration."""
        if not self._trials:
            return None
        key = key_of([edges[edge] for edge in self._edges], self._contents)
        if key is None:
            return None
        key = key, batch_size
        known, limits = self._known, self._limits
        if key in known:
            found = known[key]
            if limits.replaces and len(known) > limits.most // 2:
                known[key] = known.pop(key)  # the last one used
            return found
        if len(known) >= limits.most and not limits.replaces:
            return None
        if key in self._seen:
            del self._seen[key]
            known[key] = made = self._made(edges, batch_size)
            if len(known) > limits.most:
                del known[next(iter(known))]
            return made
        self._seen[key] = None
        if len(self._seen) > limits.most:
            del self._seen[next(iter(self._seen))]
        if self._contents and not known and limits.trials is not None:
            self._trials -= 1
        return None

    def positions(self) -> dict[tuple[str, int, int], int]:
        """The words of the operators' positions, by what their handles name."""
        return {} if not self._moving else {
            ("position", id(built), k): word for built in self._moving for k, word in enumerate(built.operator.words_of(built.position))
        }

    def _made(self, edges: Sequence[Any], batch_size: int) -> object:
        positions = {id(built): built.operator.placed(_handles(built)) for built in self._moving}
        outline = outlined(self.rest, edges, batch_size, positions, self._on_gpu, self._copies)
        try:
            return None if outline is None else self._template(outline)
        except Exception as error:
            log.debug("plans of %s are not copied: %s", self.rest[0].planned.spec.name, error)
            return None

    def _template(self, outline: Outline) -> object:
        return HostTemplate(outline)


def _handles(built: Built) -> list[Handle]:
    """Handles in place of the words of a position, for a template."""
    return [Handle(("position", id(built), k)) for k in range(len(built.operator.words_of(built.operator.start)))]


class SegmentTemplates(Templates):
    """The templates of a segment of the host. `kept`: edges that other segments read."""

    __slots__ = ("_kept", "_most_scratch")

    def __init__(
        self, rest: Sequence[Built], heads: Sequence[Built], kept: Collection[int], most_scratch: int, limits: Limits | None = None
    ):  # fmt: skip
        super().__init__(rest, heads, limits=limits)
        self._kept, self._most_scratch = kept, most_scratch

    def _template(self, outline: Outline) -> object:
        timed = Timed.NO if self.rest[0].counters is None else Timed.YES
        return SegmentTemplate(outline, self._kept, self._most_scratch, timed)


class CallTemplates(SegmentTemplates):
    """The templates of one operator's calls. A call with wrong inputs may be repeated, so inputs are checked before a template is made."""

    __slots__ = ()

    def __init__(self, built: Built, kept: Collection[int], most_scratch: int):
        super().__init__([built], [], kept, most_scratch, CALLS)

    def brief(
        self, inputs: Sequence[Batch], edges: Sequence[int], batch_size: int, most_ns: int
    ) -> BriefTemplate | BriefView | None:  # fmt: skip
        """The template for such inputs on `edges`, if it depends on no contents, and took at most `most_ns`; else None."""
        if self._contents or self._edges != edges:
            return None
        (built,) = self.rest
        if Trait.VIEWS in built.operator.traits:
            return BriefView.of(built, inputs[0], batch_size) if len(inputs) == 1 else None
        found: Any = self._known.get((key_of(inputs, ()), batch_size))
        if found is None or not 0 < found.took <= most_ns:
            return None
        job = found.as_copy()
        return None if job is None else BriefTemplate(found, job, edges)

    def _made(self, edges: Sequence[Any], batch_size: int) -> Any:
        (built,) = self.rest
        inputs, named = [edges[edge] for edge in built.inputs], {name: edges[edge] for name, edge in built.arguments}
        try:
            built.gate.check(inputs, named, len(inputs[0]))
        except Exception:
            return None  # the call is planned, and raises the error
        return super()._made(edges, batch_size)


def call_templates(built: Built, kept: Collection[int], most_scratch: int) -> CallTemplates | None:
    """The templates of calls of an operator in dynamic mode. None if each call must be planned. `kept`, `most_scratch`: see below."""
    return CallTemplates(built, kept, most_scratch) if has_key(built, False) else None


def operator_templates(built: Built) -> Templates | None:
    """The templates of one operator of the host. None if it must be planned in every iteration."""
    return Templates([built]) if has_key(built, False) else None


def segment_templates(operators: Sequence[Built], kept: Collection[int], most_scratch: int) -> Templates | None:
    """The templates of a segment of the host. None if an operator with inputs must be planned in every iteration.

    kept: edges that other segments read;  most_scratch: bytes of the scratch memory of a thread
    """
    heads = [built for built in operators if not built.sources and built.operator.instant]
    rest = [built for built in operators if built not in heads]
    return SegmentTemplates(rest, heads, kept, most_scratch) if rest and all(has_key(built, False) for built in rest) else None
