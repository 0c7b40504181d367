"""Random programs of pipelines and iterators, saved after every event, restored, and compared with the uninterrupted run.

``python -m helpers.histories FILE`` restores the saved state in a separate process, and prints the following outcomes.
"""

from __future__ import annotations

import asyncio
import logging
import os
import pickle
import random
import sys
import tempfile
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from asyncdali import Pipeline, fn
from asyncdali.checkpoint import decode
from asyncdali.plugin.base_iterator import BaseIterator, LastBatchPolicy
from helpers import stateful

BATCH = 2


class SourceError(ValueError):
    """A source failed: its batch is requested again."""


# ------------------------------------------------------------------------------------------------------------------ sources


@dataclass(frozen=True)
class SourceSpec:
    """One external source. `kind` is a key of KINDS."""

    kind: str
    length: int
    cycle: str | None = None
    every: int = 1
    samples: bool = False
    parallel: bool = False
    ahead: int = 1

    @property
    def by_hand(self) -> bool:
        """Whether the user must position this source."""
        return self.kind in ("list", "function")

    def options(self, asked: int) -> dict[str, Any]:
        """Arguments of `external_source`. `asked`: the number of earlier requests, for sources that are positioned by hand."""
        given: dict[str, Any] = {"batch": not self.samples}
        source = self._source(asked)
        given["source"] = source
        if self.kind not in POSITIONED and self.kind != "called":
            given["cycle"] = self.cycle
        if self.kind in STATEFUL:
            given["snapshot_every"] = self.every
        if self.kind == "info":
            given["batch_info"] = True
        if self.parallel or self.kind.startswith("async"):
            given["prefetch_queue_depth"] = self.ahead
        return {**given, "parallel": self.parallel}

    def _source(self, asked: int) -> Any:
        if self.kind == "function":
            return Items(self, asked).generate
        if self.kind == "list":
            return Items(self, asked)
        return KINDS[self.kind](self)


def item(spec: SourceSpec, number: int) -> np.ndarray:
    """The result of a source: a sample, or a batch of equal samples."""
    return np.int32([number]) if spec.samples else np.full((BATCH, 1), number, np.int32)


class Items:
    """A source without a state: items 0, 1, ... of rounds. The first round begins after `asked` requests."""

    def __init__(self, spec: SourceSpec, asked: int):
        step = BATCH if spec.samples else 1
        batches = spec.length // step
        if spec.cycle == "quiet":
            self.start = step * (asked % batches)
        elif spec.cycle == "raise":
            self.start = step * (asked % (batches + 1))
        else:
            self.start = step * min(asked, batches)
        self.spec = spec

    def generate(self) -> Any:
        start, self.start = self.start, 0
        for number in range(start, self.spec.length):
            yield item(self.spec, number)

    def __iter__(self) -> Any:
        return self.generate()


class Positioned:
    """A source that is requested by position. It ends every epoch after `length` batches."""

    def __init__(self, spec: SourceSpec):
        self.spec = spec

    def __call__(self, position: Any) -> np.ndarray:
        if isinstance(position, int):
            iteration, number = position, position
        else:
            iteration = position.iteration
            number = 100 * position.epoch_idx + getattr(position, "idx_in_epoch", iteration)
        if iteration >= self.spec.length:
            raise StopIteration
        return item(self.spec, number)


class PositionedAsync(Positioned):
    async def __call__(self, position: Any) -> np.ndarray:
        await asyncio.sleep(0)
        try:
            return super().__call__(position)
        except StopIteration:
            raise StopAsyncIteration from None


def stateful_kind(base: type, *more: Any) -> Any:
    """A source of `helpers.stateful` that gives items of a spec."""

    def make(spec: SourceSpec) -> Any:
        made = base(0 if base is stateful.Endless else spec.length, *more)
        made.batch = Give(spec)
        return made

    return make


@dataclass
class Give:
    spec: SourceSpec

    def __call__(self, number: int) -> np.ndarray:
        return item(self.spec, number)


class Called(stateful.Numbers):
    """A callable without an argument that has a state."""

    __iter__ = None  # type: ignore[assignment]

    def __call__(self) -> np.ndarray:
        return self.__next__()


class Async(stateful.Numbers):
    """An asynchronous iterator with a state."""

    __iter__ = None  # type: ignore[assignment]

    def __aiter__(self) -> Any:
        return self

    async def __anext__(self) -> np.ndarray:
        await asyncio.sleep(0)
        try:
            return self.__next__()
        except StopIteration:
            raise StopAsyncIteration from None


class Captured(stateful.Counted):
    """Its iterators read the position when they are made, so the state must be loaded before ``__iter__``."""

    def __iter__(self) -> Any:
        return CapturedIterator(self, self.index)


class CapturedIterator:
    def __init__(self, owner: Captured, index: int):
        self.owner, self.index = owner, index

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> np.ndarray:
        if self.index >= self.owner.length:
            self.owner.index = 0
            raise StopIteration
        self.index += 1
        self.owner.index = self.index
        return self.owner.batch(self.index - 1)


POSITIONED = ("index", "info", "sample", "async_sample")
KINDS: dict[str, Any] = {
    "index": Positioned, "info": Positioned, "sample": Positioned, "async_sample": PositionedAsync,
    "counted": stateful_kind(stateful.Counted), "numbers": stateful_kind(stateful.Numbers),
    "rewinding": stateful_kind(stateful.Rewinding), "self_rewinding": stateful_kind(stateful.SelfRewinding),
    "endless": stateful_kind(stateful.Endless), "broken": stateful_kind(stateful.Broken, 2, False),
    "broken_generator": stateful_kind(stateful.Broken, 2, True), "called": stateful_kind(Called), "async": stateful_kind(Async),
    "captured": stateful_kind(Captured),
}  # fmt: skip
STATEFUL = tuple(kind for kind in KINDS if kind not in POSITIONED)


# ----------------------------------------------------------------------------------------------------------------- programs


@dataclass(frozen=True)
class IteratorSpec:
    size: int = -1
    reader: bool = False
    policy: str = "FILL"
    padded: bool = False
    auto_reset: bool = False
    prepare: bool = True
    load: bool = False  # restored by load_state_dict


@dataclass
class History:
    """A program: the pipeline to build, and the events."""

    number: int
    sources: list[SourceSpec]
    files: int = 0
    reader: dict[str, Any] = field(default_factory=dict)
    failing: tuple[int, int] | None = None  # an operator fails where output 0 is `remainder` modulo `divisor`
    depth: int = 2
    restored_depth: int = 2
    api: str = "run"
    pipes: int = 1
    iterator: IteratorSpec | None = None
    engines: int = 0
    method: str = "fork"
    drawn: bool = False  # user Python works on a draw
    events: list[str] = field(default_factory=list)

    # --- building

    def pipeline(self, shard: int, depth: int, checkpoint: Any = None, asked: int = 0) -> Pipeline:
        pipe = Pipeline(
            batch_size=BATCH, num_threads=1, seed=self.number, prefetch_queue_depth=depth, enable_checkpointing=True,
            checkpoint=checkpoint, enable_statistics=False, engines=self.engines, engine_start_method=self.method,
        )  # fmt: skip
        with pipe:
            outputs = [fn.external_source(**spec.options(asked)) for spec in self.sources]
            if self.files:
                _, labels = fn.readers.file(files=data_set(self.files), name="reader", **{**self.reader, "shard_id": shard})
                outputs += [labels, fn.random.uniform(range=[0, 1000], dtype=_int32())]
            if self.drawn:
                outputs += [fn.python_function(fn.random.uniform(range=[0, 1000], dtype=_int32()), function=Halved())]
            if self.failing is not None:
                outputs[0] = fn.python_function(outputs[0], function=Failing(*self.failing))
            pipe.set_outputs(*outputs)
        return pipe

    def subject(self, saved: list[bytes] | None = None, asked: int = 0) -> Subject:
        """The program's object: the pipeline, or an iterator over pipelines. It is restored if `saved` is given."""
        depth = self.depth if saved is None else self.restored_depth
        spec = self.iterator
        if spec is None:
            return PipelineSubject(self, [self.pipeline(0, depth, saved and saved[0], asked)])
        load = saved is not None and spec.load
        checkpoints = saved if saved is not None and not load else [None] * self.pipes
        pipes = [self.pipeline(k, depth, checkpoints[k]) for k in range(self.pipes)]
        made = IteratorSubject(self, pipes)
        if load:
            made.iterator.load_state_dict({"checkpoints": [data.decode() for data in saved]})
        return made


def _int32() -> Any:
    from asyncdali import types

    return types.INT32


class Failing:
    def __init__(self, divisor: int, remainder: int):
        self.divisor, self.remainder = divisor, remainder

    def __call__(self, value: np.ndarray) -> np.ndarray:
        if int(value.ravel()[0]) % self.divisor == self.remainder:
            raise ArithmeticError(f"{value} cannot be")
        return value


class Halved:
    def __call__(self, value: np.ndarray) -> np.ndarray:
        return value // 2


_folder: tempfile.TemporaryDirectory[str] | None = None


def data_set(count: int) -> list[str]:
    """Paths of `count` files, the same names in every process."""
    global _folder
    if _folder is None:
        _folder = tempfile.TemporaryDirectory(prefix="asyncdali-histories-")
        for k in range(40):
            (Path(_folder.name) / f"{k:03d}").write_bytes(b"x")
    return [os.path.join(_folder.name, f"{k:03d}") for k in range(count)]


class Subject:
    """The object that events act on."""

    def __init__(self, history: History, pipes: list[Pipeline]):
        self.history, self.pipes = history, pipes

    def perform(self, event: str) -> Any:
        """The event's outcome: numbers, "end", or the name of an error."""
        try:
            return getattr(self, event)()
        except (StopIteration, StopAsyncIteration):
            return "end"
        except Exception as error:
            names = [type(error).__name__, *(["failed"] if "cannot be" in str(error) else [])]
            return " ".join(names)

    def close(self) -> None:
        for pipe in self.pipes:
            pipe.close()


def numbers(outputs: Any) -> list[list[int]]:
    return [[int(np.asarray(sample).ravel()[0]) for sample in output] for output in outputs]


class PipelineSubject(Subject):
    def run(self) -> Any:
        pipe = self.pipes[0]
        if self.history.api == "run":
            return numbers(pipe.run())
        if self.history.api == "async":
            return numbers(asyncio.run(pipe.run_async()))
        pipe.schedule_run()
        return numbers(pipe.outputs())

    def reset(self) -> str:
        self.pipes[0].reset()
        return "reset"

    def save(self) -> list[bytes]:
        data = self.pipes[0].checkpoint()
        assert self.pipes[0].checkpoint() == data
        return [data]


class _Numbers(BaseIterator):
    def _converted(self, outputs: Any, keep: int | None) -> Any:
        return [output[:keep] for output in numbers(outputs)]


class IteratorSubject(Subject):
    def __init__(self, history: History, pipes: list[Pipeline]):
        super().__init__(history, pipes)
        spec = history.iterator
        assert spec is not None
        count = len(history.sources) + 2 * bool(history.files) + history.drawn
        self.iterator = _Numbers(
            pipes, [f"out{k}" for k in range(count)], size=spec.size, reader_name="reader" if spec.reader else None,
            auto_reset=spec.auto_reset, last_batch_padded=spec.padded, last_batch_policy=LastBatchPolicy[spec.policy],
            prepare_first_batch=spec.prepare,
        )  # fmt: skip

    def run(self) -> Any:
        return next(self.iterator)

    def reset(self) -> str:
        self.iterator.reset()
        return "reset"

    def loop(self) -> str:
        iter(self.iterator)
        return f"loop {len(self.iterator)} {self.iterator.size}"

    def save(self) -> list[bytes]:
        data = self.iterator.checkpoints()
        assert self.iterator.checkpoints() == data
        return data


# ------------------------------------------------------------------------------------------------------------------- making


def random_source(choose: random.Random, parallel: bool, full: bool) -> SourceSpec:
    """Any source. With `full` a source that never ends."""
    kinds = ["endless", "numbers", "counted", "captured"] if full else [*KINDS, "list", "function"]
    kind = choose.choice(kinds)
    if parallel and kind in ("called", "async"):
        kind = "numbers"
    cycle = choose.choice([None, "quiet", "raise", "raise"])
    if full and kind != "endless":
        cycle = "quiet"
    if kind in ("self_rewinding", "endless", "called", "async"):
        cycle = None
    samples = kind in ("sample", "async_sample") or (kind not in ("index", "info") and not parallel and choose.random() < 0.3)
    length = choose.randint(1, 5)
    if samples:
        length = BATCH * length + (0 if kind in ("list", "function") else choose.randint(0, 1))
    return SourceSpec(kind, length, cycle, choose.randint(1, 4), samples, parallel, choose.randint(1, 3))


def make(number: int, parallel: bool = False) -> History:
    """The history of this number, without events."""
    choose = random.Random(number)
    depth = choose.randint(1, 4)
    history = History(number, [], depth=depth, restored_depth=depth, api=choose.choice(["run", "run", "scheduled", "async"]))
    kind = choose.choice(["sources", "sources", "sources", "open", "open", "size", "reader"])
    full = kind in ("size", "reader")
    if kind == "reader":
        history.pipes = choose.randint(1, 2)
    elif kind == "size":
        history.pipes = choose.choice([1, 1, 2])
    if kind != "reader" or choose.random() < 0.3:
        history.sources = [random_source(choose, parallel and k == 0, full) for k in range(choose.randint(1, 3))]
    if kind == "reader" or choose.random() < 0.4:
        shards = choose.randint(history.pipes, 3)
        history.files = choose.randint(max(3, shards), 13)
        history.reader = {
            "num_shards": shards, "random_shuffle": choose.random() < 0.5, "pad_last_batch": choose.random() < 0.5,
            "stick_to_shard": choose.random() < 0.5, "initial_fill": choose.randint(1, 6),
        }  # fmt: skip
    if not full and choose.random() < 0.25:
        history.failing = (choose.randint(3, 5), choose.randint(0, 2))
    if kind != "sources":
        policy = choose.choice(["FILL", "DROP", "PARTIAL"])
        flags = [choose.random() < 0.5 for _ in range(4)]
        size = choose.randint(1, 14) if kind == "size" else -1
        padded = kind == "size" and flags[0]
        history.iterator = IteratorSpec(size, kind == "reader", policy, padded, flags[1], flags[2], flags[3])
    if any(spec.by_hand for spec in history.sources) and history.iterator is not None:
        history.sources = [spec if not spec.by_hand else SourceSpec("counted", spec.length, spec.cycle, 2) for spec in history.sources]
    return history


@dataclass
class Lived:
    """An uninterrupted run: outcomes, and the saved states before each event (and after the last one)."""

    history: History
    outcomes: list[Any]
    saved: list[list[bytes]]
    asked: list[int]  # of sources that are positioned by hand

    def check(self, place: int, found: list[Any]) -> None:
        """Raise AssertionError if a restored run differs. The text says where."""
        wanted = self.outcomes[place:]
        assert found == wanted, f"history {self.history.number} restored before event {place} of {self.history}:\n{found}\n!=\n{wanted}"


def live(history: History, length: int = 16) -> Lived | None:
    """Run a history and choose its events on the way. None if there is no data for an iterator."""
    choose = random.Random(-1 - history.number)
    try:
        subject = history.subject()
    except (RuntimeError, ValueError) as error:
        assert any(text in str(error) for text in ("no data", "cannot be", "batch 2")), error
        return None
    lived = Lived(history, [], [], [])
    returned = 0
    mid = False  # the effect of reset() in the middle of an epoch depends on the depth of the queue
    try:
        for _ in range(length):
            lived.saved.append(subject.save())
            lived.asked.append(asked_at(lived.saved[-1][0], returned))
            last = lived.outcomes[-1] if lived.outcomes else None
            event = "run"
            if last == "end" and choose.random() < 0.85:
                event = "reset"
            elif choose.random() < 0.12:
                event, mid = "reset", True
            if event == "reset" and history.iterator is not None and choose.random() < 0.5:
                event = "loop"
            history.events.append(event)
            lived.outcomes.append(subject.perform(event))
            outcome = lived.outcomes[-1]
            returned += isinstance(outcome, list) or outcome.endswith("failed")
        lived.saved.append(subject.save())
        lived.asked.append(asked_at(lived.saved[-1][0], returned))
    finally:
        subject.close()
    if not mid and history.iterator is None:
        history.restored_depth = choose.randint(1, 4)
    return lived


def asked_at(saved: bytes, returned: int) -> int:
    """The number of requests of each source: one for every returned iteration, and one at each end of an epoch."""
    body = decode(saved)
    return returned + body["epoch"] + (body.get("ahead", {}).get("ended") == "here")


def continued(history: History, saved: list[bytes], asked: int, place: int, chain: int | None = None) -> list[Any]:
    """The outcomes of a restored run from event `place` on. The run is saved and restored once more before event `chain`."""
    subject = history.subject(saved, asked)
    outcomes: list[Any] = []
    try:
        for k in range(place, len(history.events)):
            if k == chain and not any(spec.by_hand for spec in history.sources):
                again = subject.save()
                subject.close()
                subject = history.subject(again)
            outcomes.append(subject.perform(history.events[k]))
    finally:
        subject.close()
    return outcomes


def quiet() -> None:
    """Hide expected messages: warnings of sources without a state, and log lines of iterators that are reset in the middle of an epoch."""
    warnings.simplefilter("ignore")
    logging.getLogger("asyncdali").setLevel(logging.ERROR)


def main() -> None:
    quiet()
    with open(sys.argv[1], "rb") as file:
        saved = pickle.load(file)
    found = [continued(history, data, asked, place) for history, data, asked, place in saved]
    with open(sys.argv[1] + ".found", "wb") as file:
        pickle.dump(found, file)


if __name__ == "__main__":
    main()
