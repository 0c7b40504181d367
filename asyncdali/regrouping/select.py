"""experimental.select: the samples of its only part, batch by batch. The part leaves out the samples that fail the condition."""

from __future__ import annotations

from collections.abc import Sequence

from ..operators.base import Arg, Role, Schema, register
from .contract import EndOfEpoch, Reading, Rows
from .regrouping import RegroupedInput


class Selecting:
    """Fills each batch with the next samples. Without `refill`, a batch has the samples of one raw iteration.

    The cursor of the part is the whole state.
    """

    start = None

    def __init__(self, refill: bool):
        self._refill = refill

    def form(self, parts: Sequence[Reading], state: None, size: int) -> tuple[list[Rows], None]:
        part, found, missing = parts[0], list[Rows](), size
        while missing and (rows := part.rows(missing)) is not None:
            found.append(rows)
            missing = missing - len(rows) if self._refill else 0
        if not found:
            part.next_epoch()
            raise EndOfEpoch(None)
        return found, None

    def save(self, state: None) -> None:
        return None

    def load(self, data: object) -> None:
        if data is not None:
            raise ValueError(f"select has no state, the checkpoint has {data!r}")


@register
class Select(RegroupedInput):
    schema = Schema(
        name="experimental.select",
        doc="""Leaves out samples that fail a condition.

        See :func:`asyncdali.fn.experimental.select`, and docs/bad_data.md for what to choose when.""",
        inputs=(0, 0),
        hand_written="regrouping.calls",
        role=Role.INPUT,
        calls_python=True,
        args=(Arg("refill", "bool", True, "Fill batches with the next samples that pass.", stream=True),),
    )
