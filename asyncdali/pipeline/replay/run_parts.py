"""Parts of regroupings whose condition is computed: the operators that it needs run, for at most `MOST_RAW` raw iterations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from ...batch import Batch
from ...errors import CheckpointError
from ...regrouping.part_streams import PartStream, Raw
from ...regrouping.regrouping import DeclaredPart
from ...runtime.session import Session
from .planned_parts import PlannedMoment, no_batches

if TYPE_CHECKING:
    from ...runtime.order.moments import Moment
    from ...runtime.order.record import Record

MOST_RAW = 1000
"""Raw iterations that are run at most, if the condition is not known before pixels are computed."""


class RunPart(PartStream):
    """A part whose condition is computed.

    Args:
        session: computes `leading` other outputs, the measures and the condition. It begins where the part begins.
        fill: queues an iteration of the session.
        explained: a session of the whole part, which explains raw iterations, and its positions there. None: `session` does.
        part, number, name: as for :class:`PlannedPart`.
    """

    def __init__(
        self, number: int, session: Session, fill: Callable[[Session], None], leading: int,
        explained: tuple[Session, Mapping[str, object]] | None, part: DeclaredPart, name: str,
    ):  # fmt: skip
        super().__init__(number, session, fill, part.where is not None, name)
        self._leading, self.explained, self._nodes = leading, explained, len(part.nodes)
        self.operator = name
        self._made_so_far = 0
        self._look()

    def _made(
        self, raw: Raw, moment: Moment, record: Record, batches: list[Batch], labels: np.ndarray, real: np.ndarray
    ) -> Raw:
        super()._made(raw, moment, record, batches, labels, real)
        raw.batches = [*no_batches(self._nodes), *raw.batches[self._leading :]]
        if self.explained is not None:
            session, positions = self.explained
            told = PlannedMoment(session, moment.step, moment.epoch, (moment.samples, positions))
            raw.moment = told  # type: ignore[assignment]  # it stands for one
        return raw

    def _keep(self, record: Record, result: object) -> None:
        super()._keep(record, result)
        if self.explained is not None:  # sources may end epochs, so positions are no formula of the step
            session, positions = self.explained
            samples = self.session.delivery.moment(record).samples
            operators = {item.planned.spec.name: item.operator for item in session.operators if item.operator.stateful}
            self.explained = session, {name: operator.after(positions[name], samples) for name, operator in operators.items()}

    def _more(self) -> None:
        if self._made_so_far >= MOST_RAW:
            raise CheckpointError(
                f"{self._name}: {MOST_RAW} raw iterations of part {self.number} were run, and the step is further away. Give a checkpoint "
                "of a later step."
            )
        super()._more()
        self._made_so_far += 1
