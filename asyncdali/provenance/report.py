"""The provenance of one step: files and records, epochs and shards, draws and windows. Each part is computed when it is asked for."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .positions import StepPositions, positions_at

if TYPE_CHECKING:
    from ..batch import Batch
    from ..readers.base import ReaderOperator
    from ..runtime.order.moments import Moment, OriginsInParts
    from ..runtime.session import Session
    from ..runtime.work.dry_runs import DryRun
    from ..runtime.work.segments import BuiltOperator
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


def _place(taken: Taken) -> str:
    """The file, the bytes of a record, the epoch and the shard, as a text."""
    record = "" if taken.offset is None or taken.size is None else f" bytes {taken.offset} to {taken.offset + taken.size}"
    part = f" ({taken.part})" if taken.part else ""
    return f"{taken.file}{record}{part} epoch {taken.epoch} shard {taken.shard}{', padding' if taken.padding else ''}"


class TakenSamples(Sequence[Taken]):
    """The samples of a reader in one iteration. Names of files are made when the first sample is asked for."""

    def __init__(self, reader: ReaderOperator, numbers: np.ndarray, runs: Sequence[ShardRun], places: range):
        self.numbers = numbers[places.start : places.stop]
        """Numbers of the samples in the data set, int64[samples]."""
        self._reader, self._runs, self._places = reader, runs, places

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, index: Any) -> Any:
        return self._all[index]

    def __iter__(self) -> Iterator[Taken]:
        return iter(self._all)

    @functools.cached_property
    def _all(self) -> list[Taken]:
        runs = [(run.epoch, run.shard, run.padding) for run in self._runs for _ in range(run.samples)]
        numbers = self.numbers.tolist()
        origins = self._reader.origins_of(numbers)
        return [
            Taken(number, *origin, *run)
            for number, origin, run in zip(numbers, origins, runs[self._places.start : self._places.stop], strict=True)
        ]


class Provenance:
    """The origin of the samples of one iteration.

    Attributes:
        step: number of the iteration, from 0. Pipelines whose sources end epochs count from the beginning of the epoch.
        epoch: number of the epoch, as sources count it.
        samples: number of samples.
        engine: for a batch that was returned: the process that made a part of it. Empty without engines, and for other steps.
        returned: whether a batch of this step was returned. No process has made it otherwise.
    """

    def __init__(
        self, session: Session, positions: StepPositions, samples: int, handed: tuple[int, int],
        moment: Moment | None = None,
    ):  # fmt: skip
        """`moment`: of an iteration that was returned; None for another step."""
        self._origins: Mapping[str, OriginsInParts] = {} if moment is None else moment.origins
        self._kept: Mapping[str, Any] = {} if moment is None else moment.choices
        self._fed: Callable[[], Mapping[int, Batch]] = dict
        self._ran_in: Mapping[str, Sequence[tuple[int, int, int]]] = {} if moment is None else moment.workers
        self.engine = "" if moment is None else moment.engine
        self.returned = moment is not None
        self._session = session
        self._at = positions
        self._whole = samples
        self._handed = handed
        self.step, self.epoch = positions.step, positions.epoch
        self.samples = handed[1] - handed[0]

    @property
    def regrouped(self) -> Mapping[str, OriginsInParts]:
        """For select, mix and batch_by, by name: where each sample of the whole batch comes from."""
        return self._origins

    def regroup(self, origins: Mapping[str, OriginsInParts], fed: Callable[[], Mapping[int, Batch]]) -> None:
        """Set the origins of an iteration that was not returned. To be called before anything is asked.

        `fed` makes the regrouped batches that are known before pixels are computed, by the edge of the external input.
        """
        self._origins, self._fed = origins, functools.cache(fed)

    def keep(self, choices: Mapping[str, object]) -> None:
        """Windows and draws that a run of the iteration has kept; to be called before they are asked for."""
        self._kept = choices

    @functools.cached_property
    def positions(self) -> dict[str, object]:
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
    def workers(self) -> dict[str, list[str]]:
        """For each source that worker processes or engines call: the process that has computed each sample.

        After the death of a worker, the worker that has answered. Results do not depend on it, so it is not part of the digest.
        """
        first, stop = self._handed
        found = {}
        for puller in self._session.producer.sources.pullers:
            if not puller.elsewhere:
                continue
            ran_in = self._ran_in.get(puller.group.name)
            if not self.returned:
                column = ["no worker has run"] * self.samples
            elif ran_in is None:
                column = [self.engine or "this process"] * self.samples
            else:
                texts = [f"worker {number} (process {pid})" for _, number, pid in ran_in]
                stretches = np.searchsorted([begin for begin, _, _ in ran_in], np.arange(first, stop), "right") - 1
                column = [texts[stretch] for stretch in stretches.tolist()]
            found.update(dict.fromkeys(puller.group.nodes, column))
        return found

    @functools.cached_property
    def _drawn(self) -> DryRun:
        """Plans of the operators whose draws this iteration has not kept."""
        return self._planned([item for item in self._session.operators if item.draws and item.planned.spec.name not in self._kept])

    @functools.cached_property
    def _windowed(self) -> DryRun:
        """Plans of the operators whose windows this iteration has not kept."""
        return self._planned([item for item in self._choosing if item.planned.spec.name not in self._kept])

    @functools.cached_property
    def _choosing(self) -> list[BuiltOperator]:
        return [item for item in self._session.operators if item.operator.chooses_windows]

    def _planned(self, operators: Sequence[BuiltOperator]) -> DryRun:
        names = tuple([item.planned.spec.name for item in operators])
        return self._session.dry_runs.run(names, self._at.operators, self._whole, self.step, self._fed() if names else {})

    @property
    def _readers(self) -> dict[str, ReaderOperator]:
        return self._session.readers()

    @functools.cached_property
    def draws(self) -> dict[str, list[Any]]:
        """The outputs of random operators: per operator a value for each sample, or a list of values for an operator with several outputs.

        Files are read if a draw depends on them. A draw of more than 64 numbers is a text that says its shape. Operators that draw for each
        pixel (noise) are not here; see :attr:`positions`.
        """
        planned, found = self._drawn, {}
        for item in self._session.operators:
            name = item.planned.spec.name
            if not item.draws:
                continue
            if (kept := self._kept.get(name)) is not None:
                rows = kept.rows_of(range(*self._handed))
                columns = [_column(values, rows) for values in kept.outputs]
            elif all(edge in planned.known for edge in item.outputs):
                columns = [self._planned_column(planned.edges[edge]) for edge in item.outputs]
            else:
                continue
            found[name] = columns[0] if len(columns) == 1 else [list(row) for row in zip(*columns, strict=True)]
        return found

    def _planned_column(self, batch: Batch) -> list[object]:
        first, stop = self._handed
        rows = range(first, stop) if batch.rows is None else batch.rows[first:stop].tolist()
        return [None if row < 0 else _shown(batch.sample(row)) for row in rows]

    @functools.cached_property
    def windows(self) -> dict[str, list[dict[str, list[int]] | None]]:
        """The windows of decoders and crops, in pixels: per operator, for each sample the `anchor` (first row and column) and the `shape`
        (height and width). None for samples that are not in the operator's branch.

        Known for batches that were returned. For other steps, headers of files are read.
        """
        names = [item.planned.spec.name for item in self._choosing]
        chosen = {**self._windowed.windows, **self._kept}
        return {name: chosen[name].of(range(*self._handed)) for name in names if name in chosen}

    @functools.cached_property
    def unknown(self) -> dict[str, str]:
        """Random operators about which nothing is known before pixels are computed, and the reasons."""
        return {**self._at.unknown, **self._drawn.failures, **self._windowed.failures}

    def sample(self, index: int) -> dict[str, Any]:
        """Everything about one sample."""
        if not 0 <= index < self.samples:
            raise IndexError(f"sample {index} of {self.samples}")
        return self._told(range(index, index + 1))[0]

    def _told(self, places: range) -> list[dict[str, object]]:
        """Everything about these samples of the batch."""
        first, step = self._handed[0], self.step
        told: list[dict[str, Any]] = [
            {
                "step": step, "sample": k + first, "readers": {}, "bad": {}, "replaced": {}, "sources": {}, "workers": {}, "draws": {},
                "windows": {}, "regrouped": {},
            }
            for k in places
        ]  # fmt: skip
        for name, taken in self.readers.items():
            for about, one in zip(told, taken[places.start : places.stop], strict=True):
                about["readers"][name] = one._asdict()
        for part, columns in (("workers", self.workers), ("draws", self.draws), ("windows", self.windows)):
            for name, column in columns.items():
                for about, value in zip(told, column[places.start : places.stop], strict=True):
                    about[part][name] = value
        for part, marks in (("bad", self.bad), ("replaced", self.replaced)):
            for name, marked in marks.items():
                for k in marked.keys() & set(places) if marked else ():
                    told[k - places.start][part][name] = marked[k]
        for name, place in self.sources.items():
            for about in told:
                about["sources"][name] = {**place, "sample": about["sample"]}
        for name, origins in self._origins.items():
            for about in told:
                about["regrouped"][name] = _regrouped(origins, about["sample"])
        return told

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON data."""
        return {
            "step": self.step,
            "epoch": self.epoch,
            "positions": self.positions,
            "samples": self._told(range(self.samples)),
            "unknown": self.unknown,
            "engine": self.engine,
        }

    def digest(self) -> str:
        """A digest of the samples' origins, and of the positions, which determine all draws. No file is opened."""
        origins = {name: [taken[:5] for taken in column] for name, column in self.readers.items()}
        streams = {name: position for name, position in self.positions.items() if name not in origins}
        facts: list[Any] = [origins, streams, self.sources, self.samples]
        for name, known in self._origins.items():
            pieces: list[tuple[int, Any, Any]] = [(part, moment.provenance(), places) for part, moment, places in known.pieces]
            facts.append([name, [[part, told.digest(), places.tolist()] for part, told, places in pieces]])
        data = json.dumps(facts, sort_keys=True)
        return hashlib.sha256(data.encode("utf-8", "surrogateescape")).hexdigest()[:16]

    def __str__(self) -> str:
        """A table: one line per sample."""
        rows, first = range(self.samples), self._handed[0]
        columns = [["; ".join(_part(_regrouped(origins, k + first))) for k in rows] for origins in self._origins.values()]
        columns += [[f"{name}[{taken.number}] {_place(taken)}" for taken in samples] for name, samples in self.readers.items()]
        columns += [
            [f"{name}: this sample is bad ({marked[k]})" if k in marked else "" for k in rows]
            for name, marked in self.bad.items() if marked
        ]  # fmt: skip
        columns += [
            [f"{name}[{marked[k]['number']}] {marked[k]['file']} stands in its place" if k in marked else "" for k in rows]
            for name, marked in self.replaced.items() if marked
        ]  # fmt: skip
        columns += [
            [f"{name} epoch {place['epoch']} iteration {place['iteration']}"] * self.samples for name, place in self.sources.items()
        ]
        columns += [[f"{name} by {worker}" for worker in workers] for name, workers in self.workers.items() if self.returned]
        columns += [[f"{name} {value}" for value in values] for name, values in self.draws.items()]
        columns += [
            [f"{name} window {window['anchor']}+{window['shape']}" if window else "" for window in windows]
            for name, windows in self.windows.items()
        ]
        made = f", made by {self.engine}" if self.engine else ""
        made += ", not returned: no worker has run" if self.workers and not self.returned else ""
        lines = [f"step {self.step}, epoch {self.epoch}, {self.samples} samples{made}"]
        texts = ["; ".join(filter(None, parts)) for parts in zip(*columns, strict=True)] or [""] * self.samples
        lines += [f"  {k + first}: {text}" for k, text in enumerate(texts)]
        lines += [f"  {name}: {reason}" for name, reason in self.unknown.items()]
        return "\n".join(lines)

    __repr__ = __str__


def _regrouped(origins: OriginsInParts, sample: int) -> dict[str, object]:
    """The part of a regrouped sample, and everything about the sample there."""
    part, moment, place = origins.of(sample)
    told: Any = moment.provenance()
    return {"part": part, **told.sample(place)}


def _part(about: Mapping[str, object]) -> list[str]:
    """The part of a regrouped sample, its place there, and its origins, as texts."""
    return [f"part {about['part']}, its step {about['step']}, sample {about['sample']}", *_places(about)]


def _places(about: Mapping[str, Any]) -> list[str]:
    """The origins of one sample as text, those before a regrouping first."""
    parts = [text for regrouped in about["regrouped"].values() for text in _part(regrouped)]
    return parts + [f"{name}[{taken['number']}] {_place(Taken(**taken))}" for name, taken in about["readers"].items()]


def _column(values: np.ndarray, rows: Sequence[int]) -> list[object]:
    """The values of some rows; None for the row -1."""
    if values[:1].size > MOST_VALUES:
        return [None if row < 0 else _shown(values[row]) for row in rows]
    listed = values.tolist()
    return [None if row < 0 else listed[row] for row in rows]


def _shown(value: np.ndarray) -> object:
    return value.tolist() if value.size <= MOST_VALUES else f"{value.dtype} of shape {tuple(value.shape)}"


def provenance_at(session: Session, step: int) -> Provenance:
    """The provenance of iteration `step`, past or future. See :func:`positions_at` for what is raised."""
    samples = int(session.options.batch_size)
    handed = (0, samples) if session.part is None else session.part.of(samples)
    return Provenance(session, positions_at(session, step), samples, handed)


def provenance_of(session: Session, moment: Moment) -> Provenance:
    """The provenance of an iteration that was returned."""
    operators = {item.planned.spec.name for item in session.operators if item.operator.stateful}
    known: Mapping[str, Any] = {name: position for name, position in moment.positions.items() if name in operators}
    return Provenance(session, StepPositions(moment.step, moment.epoch, known, {}), moment.samples, moment.handed, moment)
