"""The provenance of one step: files and records, epochs and shards, draws and windows. Each part is computed when it is asked for."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .positions import StepPositions, positions_at

if TYPE_CHECKING:
    from ..batch import Batch
    from ..readers.base import ReaderOperator
    from ..runtime.order.moments import Moment, OriginsInParts
    from ..runtime.session import Session
    from ..runtime.work.dry_runs import DryRun
    from ..sampling.order import ShardRun

MOST_VALUES = 64
"""A draw with more numbers per sample is shown by its shape."""


class Taken(NamedTuple):
    """A sample of a reader: its number in the data set, its file, and the epoch and shard in which it was read.

    `offset` and `size` (bytes) are set for records. `part` names what else chooses the sample: a component of an archive, the first frame
    of a sequence. `padding`: the sample only fills the batch up.
    """

    number: int
    file: str
    offset: int | None
    size: int | None
    part: str
    epoch: int
    shard: int
    padding: bool


class TakenSamples(Sequence[Taken]):
    """The samples of a reader in one iteration. Names of files are made on demand: those of 64 samples take 0.3 ms."""

    def __init__(self, reader: ReaderOperator, numbers: np.ndarray, runs: Sequence[ShardRun], places: range):
        self.numbers = numbers[places.start : places.stop]
        """Numbers of the samples in the data set, int64[samples]."""
        self._reader, self._runs, self._places = reader, runs, places

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[k] for k in range(*index.indices(len(self)))]
        place, number = self._places[index], int(self.numbers[index])
        for run in self._runs:
            if place < run.samples:
                break
            place -= run.samples
        origin = self._reader.origin_of(number)
        return Taken(number, origin.file, origin.offset, origin.size, origin.part, run.epoch, run.shard, run.padding)


class Provenance:
    """The origin of the samples of one iteration.

    Attributes:
        step: number of the iteration, from 0. Pipelines whose sources end epochs count from the beginning of the epoch.
        epoch: number of the epoch, as sources count it.
        samples: number of samples.
    """

    def __init__(
        self, session: Session, positions: StepPositions, samples: int, handed: tuple[int, int],
        origins: Mapping[str, OriginsInParts] | None = None,
    ):  # fmt: skip
        self._origins = origins or {}
        self._session = session
        self._at = positions
        self._whole = samples
        self._handed = handed
        self.step, self.epoch = positions.step, positions.epoch
        self.samples = handed[1] - handed[0]

    @functools.cached_property
    def positions(self) -> dict[str, Any]:
        """The positions of the stateful operators before the iteration, as checkpoints have them, by the operator's name."""
        stateful, at = self._session.stateful, self._at.operators
        return {name: stateful[name].save(position) for name, position in at.items()}

    @functools.cached_property
    def readers(self) -> dict[str, TakenSamples]:
        """The samples of each reader, by the reader's name. No file is opened."""
        return {name: self._taken(reader) for name, reader in self._session.readers().items()}

    def _taken(self, reader: ReaderOperator) -> TakenSamples:
        indices, _ = reader.order.take(self._at.operators[reader.spec.name], self._whole)
        runs = reader.order.runs(self._at.operators[reader.spec.name], self._whole)
        return TakenSamples(reader, indices, runs, range(*self._handed))

    @functools.cached_property
    def bad(self) -> dict[str, dict[int, str]]:
        """Samples in the quarantine: per reader, the place in the batch and "replace" or "drop". The outputs do not have these samples."""
        repairs = self._session.repairs
        known = {} if repairs is None else {(entry.reader, entry.index): entry.action for entry in repairs.quarantine.entries()}
        return {
            name: {place: known[name, number] for place, number in enumerate(taken.numbers.tolist()) if (name, number) in known}
            for name, taken in self.readers.items()
        }

    @functools.cached_property
    def replaced(self) -> dict[str, dict[int, dict[str, object]]]:
        """The samples in the place of those in the quarantine: per reader, the place in the batch, and number, file, offset, size and
        part of the other sample, as :class:`Taken` has them."""
        found: dict[str, dict[int, dict[str, object]]] = {}
        for name, places in self.bad.items():
            reader, position = self._readers[name], self._at.operators[name]
            found[name] = {}
            if places and reader.replacing is not None:
                numbers = reader.replacing.applied(position, reader.order.take(position, self._whole)[0])
                for place in (place for place, action in places.items() if action == "replace"):
                    number = int(numbers[place + self._handed[0]])
                    found[name][place] = {"number": number, **reader.origin_of(number)._asdict()}
        return found

    @functools.cached_property
    def sources(self) -> dict[str, dict[str, int]]:
        """For each source from Python: the epoch and the iteration for which it is called."""
        place = {"epoch": self.epoch, "iteration": self.step}
        return {name: place for puller in self._session.producer.sources.pullers for name in puller.group.nodes}

    @functools.cached_property
    def _planned(self) -> DryRun:
        session = self._session
        drawing = [
            item.planned.spec.name for item in session.operators
            if item.operator.stateful and not item.operator.places_position and item.planned.spec.name not in self._readers
        ]  # fmt: skip
        return session.dry_runs.run(drawing, self._at.operators, self._whole, self.step)

    @property
    def _readers(self) -> dict[str, ReaderOperator]:
        return self._session.readers()

    @functools.cached_property
    def draws(self) -> dict[str, list[Any]]:
        """The outputs of random operators: per operator a value for each sample, or a list of values for an operator with several outputs.

        Files are read if a draw depends on them. A draw of more than 64 numbers is a text that says its shape. Operators that draw for each
        pixel (noise) are not here; see :attr:`positions`.
        """
        planned, found = self._planned, {}
        for item in self._session.operators:
            name = item.planned.spec.name
            if not item.operator.stateful or name in self._readers or not all(edge in planned.known for edge in item.outputs):
                continue
            columns = [self._column(planned.edges[edge]) for edge in item.outputs]
            found[name] = columns[0] if len(columns) == 1 else [list(row) for row in zip(*columns, strict=True)]
        return found

    def _column(self, batch: Batch) -> list[Any]:
        """The values of a batch's samples; None for samples that are not in the batch of a branch."""
        first, stop = self._handed
        rows = range(len(batch)) if batch.rows is None else batch.rows.tolist()
        return [None if row < 0 else _shown(batch.sample(row)) for row in list(rows)[first:stop]]

    @functools.cached_property
    def windows(self) -> dict[str, list[dict[str, list[int]]]]:
        """The windows of decoders and crops that draw them, in pixels: per operator, for each sample the `anchor` (first row and column)
        and the `shape` (height and width). Headers of files are read."""
        first, stop = self._handed
        return {
            name: [
                {"anchor": anchor, "shape": shape}
                for anchor, shape in zip(found["anchor"].tolist()[first:stop], found["shape"].tolist()[first:stop], strict=True)
            ]
            for name, found in self._planned.windows.items() if found
        }  # fmt: skip

    @functools.cached_property
    def unknown(self) -> dict[str, str]:
        """Random operators about which nothing is known before pixels are computed, and the reasons."""
        return {**self._at.unknown, **self._planned.failures}

    def sample(self, index: int) -> dict[str, Any]:
        """Everything about one sample."""
        if not 0 <= index < self.samples:
            raise IndexError(f"sample {index} of {self.samples}")
        return {
            "step": self.step,
            "sample": index + self._handed[0],
            "readers": {name: taken[index]._asdict() for name, taken in self.readers.items()},
            "bad": {name: places[index] for name, places in self.bad.items() if index in places},
            "replaced": {name: places[index] for name, places in self.replaced.items() if index in places},
            "sources": {name: {**place, "sample": index + self._handed[0]} for name, place in self.sources.items()},
            "draws": {name: values[index] for name, values in self.draws.items()},
            "windows": {name: windows[index] for name, windows in self.windows.items()},
            "regrouped": {name: _regrouped(origins, index + self._handed[0]) for name, origins in self._origins.items()},
        }

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON data."""
        return {
            "step": self.step,
            "epoch": self.epoch,
            "positions": self.positions,
            "samples": [self.sample(k) for k in range(self.samples)],
            "unknown": self.unknown,
        }

    def digest(self) -> str:
        """A digest of the samples' origins, and of the positions, which determine all draws. No file is opened."""
        origins = {name: [taken[:5] for taken in column] for name, column in self.readers.items()}
        streams = {name: position for name, position in self.positions.items() if name not in origins}
        data = json.dumps([origins, streams, self.sources, self.samples], sort_keys=True)
        return hashlib.sha256(data.encode("utf-8", "surrogateescape")).hexdigest()[:16]

    def __str__(self) -> str:
        """A table: one line per sample."""
        lines = [f"step {self.step}, epoch {self.epoch}, {self.samples} samples"]
        for k in range(self.samples):
            about = self.sample(k)
            parts = _places(about)
            parts += [f"{name}: this sample is bad ({action})" for name, action in about["bad"].items()]
            parts += [f"{name}[{by['number']}] {by['file']} stands in its place" for name, by in about["replaced"].items()]
            parts += [f"{name} epoch {place['epoch']} iteration {place['iteration']}" for name, place in about["sources"].items()]
            parts += [f"{name} {value}" for name, value in about["draws"].items()]
            parts += [f"{name} window {window['anchor']}+{window['shape']}" for name, window in about["windows"].items()]
            lines.append(f"  {about['sample']}: {'; '.join(parts)}")
        lines += [f"  {name}: {reason}" for name, reason in self.unknown.items()]
        return "\n".join(lines)

    __repr__ = __str__


def _regrouped(origins: OriginsInParts, sample: int) -> dict[str, Any]:
    """The part of a regrouped sample, and everything about the sample there."""
    part, moment, place = origins.of(sample)
    told: Any = moment.provenance()
    return {"part": part, **told.sample(place)}


def _places(about: Mapping[str, Any]) -> list[str]:
    """The origins of one sample as text, those before a regrouping first."""
    parts = [text for regrouped in about["regrouped"].values() for text in (f"part {regrouped['part']}", *_places(regrouped))]
    for name, taken in about["readers"].items():
        record = "" if taken["offset"] is None else f" bytes {taken['offset']} to {taken['offset'] + taken['size']}"
        part = f" ({taken['part']})" if taken["part"] else ""
        padding = ", padding" if taken["padding"] else ""
        where = f"epoch {taken['epoch']} shard {taken['shard']}{padding}"
        parts.append(f"{name}[{taken['number']}] {taken['file']}{record}{part} {where}")
    return parts


def _shown(value: np.ndarray) -> object:
    return value.tolist() if value.size <= MOST_VALUES else f"{value.dtype} of shape {tuple(value.shape)}"


def provenance_at(session: Session, step: int) -> Provenance:
    """The provenance of iteration `step`, past or future. See :func:`positions_at` for what is raised."""
    samples = int(session.options.batch_size)
    handed = (0, samples) if session.part is None else session.part.of(samples)
    return Provenance(session, positions_at(session, step), samples, handed)


def provenance_of(session: Session, moment: Moment) -> Provenance:
    """The provenance of an iteration that was returned."""
    operators = {item.planned.spec.name for item in session.operators}
    known: Mapping[str, Any] = {name: position for name, position in moment.positions.items() if name in operators}
    return Provenance(session, StepPositions(moment.step, moment.epoch, known, {}), moment.samples, moment.handed, moment.origins)
