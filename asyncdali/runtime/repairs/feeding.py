"""The samples from Python of one iteration, with others in the place of bad ones.

A sample has an index if all inputs of the pipeline are callables that are asked for single samples by their index. Its replacement is then
a sample of the same epoch, of this batch or of an earlier one, and all sources are asked for that index. Any other sample is replaced by
another one of its batch, in all inputs. In both cases the replacement is a function of (epoch, iteration, sample, attempt), and of which
samples are bad.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
from asyncdali_workers import SampleInfo
from asyncdali_workers.interrupts import raised_by_signal

from ...batch import Batch
from ...errors import set_aside
from ...sources.pullers import Puller
from ...sources.samples import SamplesFailed
from ...sources.sources import Sources
from ..order.record import Record
from .replacing import MOST_ATTEMPTS, NoReplacement, replacement


class FedSamples:
    """See the module.

    Args:
        record: the iteration.
        asking: entered while sources are asked, so that no other thread asks them.

    Attributes:
        size: number of samples of the whole iteration.
        indexed: whether the samples have an index.
        first: the index of the first sample. Samples without an index are numbered from 0.
        bad: the indices that are known to be bad.
    """

    def __init__(self, record: Record, sources: Sources, seed: int, asking: Callable[[], AbstractContextManager[None]]):
        self._record, self._sources, self._seed, self._asking = record, sources, seed, asking
        self._pullers = list(enumerate(sources.pullers))
        self.size = record.whole or record.batch_size
        self.indexed = indexed(sources)
        self.first = record.place[1] * sources.batch_size if self.indexed else 0
        self.bad: set[int] = set()
        self._instead: dict[int, int] = {}
        self._asked: dict[int, list[Any]] = {}  # index -> the sample of each source
        self._fed: dict[str, Any] = dict(record.fed)
        self._complete = False

    def failures(self) -> list[tuple[str, int, Exception]]:
        """The samples that the sources could not give: input, number in the iteration, the source's error."""
        found: list[tuple[str, int, Exception]] = []
        for _, puller in self._pullers:
            fed = next((self._fed[name] for name in puller.group.nodes if name in self._fed), None)
            if isinstance(fed, SamplesFailed):
                found += [(puller.port.name, k, error) for k, error in fed.errors.items()]
        return found

    def index(self, sample: int) -> int:
        """The index of what is at the place of a sample now."""
        return self._instead.get(sample, self.first + sample)

    def made(self, failed: Callable[[str, int, int, Exception], None]) -> dict[str, object]:
        """The batches by input. `failed(input, sample, index, error)` is called if a source fails for a replacement; it may raise.

        NoReplacement: all replacements of a sample are bad.
        """
        self._complete_batches()
        self._instead = {}
        for sample in range(self.size):
            if self.first + sample in self.bad:
                self._instead[sample] = self._replacement(sample, failed)
        if not self._instead:
            return self._fed
        made = {name: batch for name, batch in self._fed.items() if not isinstance(batch, (Batch, SamplesFailed))}
        pulled: set[str] = set()
        for number, puller in self._pullers:
            found = self._of_source(number, puller)
            made.update(found)
            pulled.update(found)
        rows = self._rows()
        made.update({name: batch.chosen(rows) for name, batch in self._fed.items() if name not in made})
        return made

    def _rows(self) -> np.ndarray:
        """For each sample the one of this batch that takes its place."""
        rows = np.arange(self.size)
        for sample, index in self._instead.items():
            rows[sample] = index - self.first
        return rows

    def _complete_batches(self) -> None:
        """Batches that lie in other processes are made again here."""
        if self._complete:
            return
        for number, puller in self._pullers:
            if puller.stands_in and any(isinstance(self._fed.get(name), Batch) for name in puller.group.nodes):
                epoch, iteration = self._record.place
                here = self._sources.here(number)
                here.index = self._record.number
                with self._asking():
                    self._fed.update(self._sources.checked(here.again(iteration, epoch), self._record.number))
        self._complete = True

    def _replacement(self, sample: int, failed: Callable[[str, int, int, Exception], None]) -> int:
        for attempt in range(1, MOST_ATTEMPTS + 1):
            index = replacement(self._seed, self._record.place, sample, attempt, self.first + self.size)
            if index in self.bad:
                continue
            if index >= self.first or index in self._asked or self._ask(sample, index, failed):
                return index
            self.bad.add(index)
        raise NoReplacement(f"{MOST_ATTEMPTS} samples in a row that were to replace sample {sample} are bad, too")

    def _ask(self, sample: int, index: int, failed: Callable[[str, int, int, Exception], None]) -> bool:
        """Ask all sources for the sample of an earlier batch. False if one of them fails."""
        size = self._sources.batch_size
        info = SampleInfo(index, index % size, index // size, self._record.place[0])
        found = []
        for number, puller in self._pullers:
            try:
                with self._asking():
                    found.append(self._sources.here(number).sample(info))
            except Exception as error:
                if raised_by_signal(error):
                    raise
                failed(puller.port.name, sample, index, set_aside(error))
                return False
        self._asked[index] = found
        return True

    def _of_source(self, number: int, puller: Puller) -> dict[str, Batch]:
        """The batches of one source, by input."""
        names = [name for name in puller.group.nodes if name in self._fed]
        fed = self._fed[names[0]]
        earlier = {sample: index for sample, index in self._instead.items() if index < self.first}
        if isinstance(fed, SamplesFailed):
            samples = list(fed.samples)
            for sample, index in self._instead.items():
                samples[sample] = self._asked[index][number] if index < self.first else fed.samples[index - self.first]
            return self._batches(number, samples)
        rows = self._rows()
        if not earlier:
            return {name: self._fed[name].chosen(rows) for name in names}
        rows[list(earlier)] = self.size + np.arange(len(earlier))
        others = self._batches(number, [self._asked[index][number] for index in earlier.values()])
        return {name: _joined(self._fed[name], others[name]).chosen(rows) for name in names}

    def _batches(self, number: int, samples: list[object]) -> dict[str, Batch]:
        here = self._sources.here(number)
        here.index = self._record.number
        return self._sources.checked(here.batches(samples), self._record.number)


def indexed(sources: Sources) -> bool:
    """Whether the samples of a pipeline's sources have an index."""
    return bool(sources.pullers) and not sources.pushed and all(puller.indexed for puller in sources.pullers)


def _joined(first: Batch, second: Batch) -> Batch:
    """The samples of two batches, over the memory of both."""
    made = Batch(
        np.concatenate([first.shapes, second.shapes]), first.dtype, first.layout, np.concatenate([first.addresses, second.addresses]),
        (first.memory_owner, second.memory_owner), device=first.device,
    )  # fmt: skip
    reused = [np.broadcast_to(np.asarray(batch.reused_memory), len(batch)) for batch in (first, second)]
    made.reused = np.concatenate(reused)
    return made

