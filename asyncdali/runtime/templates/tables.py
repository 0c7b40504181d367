"""The templates of an operator or of a segment, by the key of their inputs."""

from __future__ import annotations

import logging
from collections.abc import Collection, Hashable, Sequence
from typing import Any

from ...compiled.tables import Handle
from ..work.built import Built
from ..work.jobs import Timed
from .host import HostTemplate
from .keys import edges_of, edges_read, has_key, key_of
from .outlines import Outline, outlined
from .whole import SegmentTemplate

log = logging.getLogger("asyncdali")

_MOST = 4
"""Number of templates that are kept: one for whole batches, one for a smaller last batch; and of keys that are remembered."""
_TRIALS = 64
"""Number of iterations after which contents that were new each time have no key any more."""


class Templates:
    """The templates of consecutive operators. Segments plan one iteration at a time, so there is no lock.

    heads  operators of the segment that are planned in every iteration, and first;  rest  the operators of the templates
    """

    __slots__ = ("_contents", "_edges", "_known", "_moving", "_on_gpu", "_seen", "_trials", "heads", "rest")

    heads: Sequence[Any]
    rest: Sequence[Any]

    def __init__(self, rest: Sequence[Built], heads: Sequence[Built] = (), on_gpu: bool = False):
        from ...compiled.relocation import relocate

        relocate.compile()  # in build(), not in an iteration
        self.heads, self.rest, self._on_gpu = heads, rest, on_gpu
        made = {edge for built in rest for edge in built.outputs}
        self._edges = list(dict.fromkeys(edge for built in rest for edge in edges_of(built) if edge not in made))
        read = {edge for built in rest for edge in edges_read(built, on_gpu)}
        self._contents = [k for k, edge in enumerate(self._edges) if edge in read]
        self._moving = [built for built in rest if built.operator.stateful]
        self._trials = 0 if read & made else _TRIALS
        self._seen: dict[Hashable, None] = {}
        self._known: dict[Hashable, Any] = {}  # None: plans with this key are not copied

    def find(self, edges: Sequence[Any], batch_size: int) -> Any:
        """The template for the batches on `edges`. It is made when a key occurs for the second time. None: plan the iteration."""
        if not self._trials:
            return None
        key = key_of([edges[edge] for edge in self._edges], self._contents)
        if key is None:
            return None
        key = key, batch_size, *[built.operator.split(built.position)[0] for built in self._moving]
        if key in self._known:
            return self._known[key]
        if len(self._known) >= _MOST:
            return None
        if key in self._seen:
            self._known[key] = made = self._made(edges, batch_size)
            return made
        self._seen[key] = None
        if len(self._seen) > _MOST:
            del self._seen[next(iter(self._seen))]
        if self._contents and not self._known:
            self._trials -= 1
        return None

    def positions(self) -> dict[Any, int]:
        """The words of the operators' positions that move, by what their handles name."""
        return {("position", id(built)): built.operator.split(built.position)[1] for built in self._moving}

    def _made(self, edges: Sequence[Any], batch_size: int) -> Any:
        positions = {id(built): built.operator.placed(built.position, Handle(("position", id(built)))) for built in self._moving}
        outline = outlined(self.rest, edges, batch_size, positions, self._on_gpu)
        try:
            return None if outline is None else self._template(outline)
        except Exception as error:
            log.debug("plans of %s are not copied: %s", self.rest[0].planned.spec.name, error)
            return None

    def _template(self, outline: Outline) -> Any:
        return HostTemplate(outline)


class SegmentTemplates(Templates):
    """The templates of a segment of the host. `kept`: edges that other segments read."""

    __slots__ = ("_kept", "_most_scratch")

    def __init__(self, rest: Sequence[Built], heads: Sequence[Built], kept: Collection[int], most_scratch: int):
        super().__init__(rest, heads)
        self._kept, self._most_scratch = kept, most_scratch

    def _template(self, outline: Outline) -> Any:
        timed = Timed.NO if self.rest[0].counters is None else Timed.YES
        return SegmentTemplate(outline, self._kept, self._most_scratch, timed)


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
