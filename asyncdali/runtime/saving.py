"""Saving and restoring the state of a built pipeline: checkpoints of asyncdali and of DALI.

A checkpoint is made of a :class:`~.order.delivery.Mark`, which is cheap to keep. Positions become JSON data only when it is saved.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from asyncdali_workers.exceptions import text_of

from .. import checkpoint as checkpoints
from ..dali_files import checkpoints as dali_checkpoints
from ..errors import CheckpointError, place
from ..graph.plan import Plan
from ..options import PipelineOptions
from ..sources.ports import Port
from ..sources.snapshots import Snapshots
from .order.delivery import Mark
from .order.producer import EpochPlace, Producer
from .work.segments import BuiltOperator

if TYPE_CHECKING:
    from .repairs.quarantine import Quarantine

log = logging.getLogger("asyncdali")


class Names(NamedTuple):
    """Names of operators: of all that were `defined`, and of those that DALI would run for the same graph."""

    defined: Collection[str]
    dali: list[str]


class Saving:
    """The state of one pipeline outside of the process.

    Attributes:
        quarantine: bad samples that the pipeline knows. Checkpoints tell their number and digest.
    """

    quarantine: Quarantine | None = None

    def __init__(
        self,
        plan: Plan,
        operators: Sequence[BuiltOperator],
        stateful: Mapping[str, BuiltOperator | Snapshots],
        producer: Producer,
        options: PipelineOptions,
        names: Names,
    ):
        self._plan, self._operators, self._stateful = plan, operators, stateful
        self._producer, self._options = producer, options
        self._names = names
        self._settings: dict[str, Any] = {}
        self._graph_json: str | None = None

    # --- saving

    def describe(self) -> dict[str, Any]:
        """The graph and the data sets, as a checkpoint keeps them and is compared with."""
        readers: dict[str, Any] = {item.planned.spec.name: item.operator for item in self._operators if hasattr(item.operator, "digest")}
        data = {name: (reader.meta()["epoch_size"], reader.digest()) for name, reader in readers.items()}
        parts = {puller.port.name: graphs for puller in self._producer.sources.pullers if (graphs := puller.graphs)}
        return checkpoints.describe_graph(self._plan, data, parts)

    def checkpoint(self, library: str, mark: Mark, iterator: object) -> bytes:
        """The state at `mark`, with the data of the `iterator` that consumes the pipeline, if there is one."""
        if self._graph_json is None:
            self._graph_json = checkpoints.graph_json(self.describe())
        return checkpoints.encode(self._graph_json, self.saved(mark)._replace(iterator=iterator), library)

    def saved(self, mark: Mark) -> checkpoints.State:
        """The state at `mark` as JSON data, without that of an iterator."""
        positions, place = mark
        states = {name: item.save(positions[name]) for name, item in self._stateful.items()}
        settings = {item.planned.spec.name: item.operator.settings() for item in self._operators}
        settings = {**self._settings, **{name: value for name, value in settings.items() if value is not None}}
        if self.quarantine is not None:
            settings["__quarantine__"] = {"count": len(self.quarantine), "digest": self.quarantine.digest()}
        ahead = {"ended": place.ended, "resets": place.resets, "more": place.more}
        ahead = {name: value for name, value in ahead.items() if value}
        return checkpoints.State(states, place.iteration, place.epoch, None, settings, ahead)

    def checkpoint_for_dali(self, mark: Mark) -> bytes:
        """The state at `mark`, as DALI 2.4 saves it. CheckpointError names what its format cannot hold."""
        positions, place = mark
        sources = [name for name, item in self._stateful.items() if not isinstance(item, BuiltOperator)]
        if sources:
            raise CheckpointError(f"the format of DALI's checkpoints has no state of Python sources: {', '.join(sources)}")
        if any(planned.backend != "cpu" for planned in self._plan.operators):
            raise CheckpointError("only CPU pipelines can be saved for DALI, because the names of its GPU operators are not known")
        if place.resets:
            raise CheckpointError("reset() was called before the end of the data was met; DALI's checkpoints cannot say that")
        states = {name: item.save(positions[name]) for name, item in self._stateful.items()}
        return dali_checkpoints.written(states, self._names.dali, place.iteration, place.epoch)

    # --- restoring

    def restore(self, data: Any) -> object:
        """Go to the state of a checkpoint, before anything is queued. Returns the data of its iterator."""
        if dali_checkpoints.is_checkpoint(data):
            body, found = self._body_of_dali(data), []
        else:
            body = checkpoints.decode(data)
            found = checkpoints.differences(body.get("graph", {}), self.describe())
        if found:
            text = "\n  ".join(found)
            if self._options.strict:
                raise CheckpointError(
                    f"The checkpoint might come from another pipeline, it does not fit this one:\n  {text}\n"
                    "(strict=False restores the states that fit, and logs this text.)"
                )
            log.warning("the checkpoint does not fit this pipeline exactly:\n  %s", text)
        self._load_positions(body)
        self._load_settings(body)
        self._producer.restore(EpochPlace(body["epoch"], body["iteration"], {}, **body.get("ahead", {})))
        return body.get("iterator")

    def _body_of_dali(self, data: bytes) -> dict[str, Any]:
        """The body of a checkpoint that DALI made. CheckpointError names what cannot be restored."""
        saved = dali_checkpoints.parse(data)
        for name, state in saved.operators.items():
            if state and name not in self._stateful:
                if name in self._names.defined:
                    raise CheckpointError(f'the checkpoint of DALI has a state for operator "{name}", which has none in this pipeline')
                raise CheckpointError(
                    f'The pipeline doesn\'t recognize "{name}" as a name of an operator, and the checkpoint of DALI has a state for it. '
                    "The checkpoint might come from another pipeline."
                )
        for name, item in self._stateful.items():
            if self._options.strict and not isinstance(item, BuiltOperator):
                raise CheckpointError(
                    f"DALI saves no state of Python sources, so the state of {name!r} is not in its checkpoint. Pass strict=False to start "
                    "the source from its beginning."
                )
        states = {name: dali_checkpoints.state_of(name, saved.operators[name]) for name in self._stateful if saved.operators.get(name)}
        return {"operators": states, "iteration": saved.iteration, "epoch": saved.epoch, "iterator": saved.iterator}

    def _load_positions(self, body: dict[str, Any]) -> None:
        states = body.get("operators", {})
        for name, item in self._stateful.items():
            if name not in states:
                if self._options.strict:
                    raise _unfit(item, f'There\'s no checkpoint for operator "{name}".')
                continue
            try:
                item.position = item.load(states[name])
            except Exception as error:  # any exception: the position may be broken, and the user's source may raise anything
                what = text_of(error) if isinstance(error, (ValueError, TypeError)) else f"{type(error).__name__}: {text_of(error)}"
                message = f'the checkpoint of operator "{name}" cannot be restored: {what}'
                if self._options.strict:
                    raise _unfit(item, message) from error
                log.warning("%s; the operator keeps its present state", message)

    def _load_settings(self, body: dict[str, Any]) -> None:
        """Adopt the decisions that the saved pipeline made in ``build()``.

        Decisions without a meaning here (no GPU) are kept for later saves.
        """
        self._settings = body.get("settings", {})
        for item in self._operators:
            name = item.planned.spec.name
            try:
                item.operator.use_settings(self._settings.get(name))
            except ValueError as error:
                raise _unfit(item, f'the checkpoint of operator "{name}" cannot be restored: {error}') from error


def _unfit(item: BuiltOperator | Snapshots | Port, message: str) -> CheckpointError:
    """The error to raise for a checkpoint that does not fit a stateful operator or source."""
    error = CheckpointError(message)
    planned = getattr(item, "planned", None)
    if planned is not None:
        place(error, planned, None)
    return error
