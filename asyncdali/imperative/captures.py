"""Captured loops: what the body of a loop calls is computed one step ahead, on a thread in the background.

A loop records the operators that a step calls, and where their inputs come from: the item of the step, results of earlier calls, and small
constants. While the body runs, the next item is read and the recorded calls are computed for it, as a prediction. A call of the next step
takes a prediction only if brick, inputs and the position of its random stream are the same; otherwise it is computed at the call. So
results, errors and the states of readers and generators are those of the loop without capture, whatever the body does, and the worst case
is work in vain. Nothing moves ahead but predictions: readers and generators move when the loop does.

An input counts as the same if nobody has got at its memory: values that were read, viewed or handed to another library are computed with
at the call, because they may have been changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import NamedTuple

import numpy as np

from .._notices import warn
from ..batch import Batch as Samples
from ..sampling.random_streams import StreamPosition
from . import loops
from .bricks import Brick
from .calls import finished
from .contexts import EvalContext
from .engine import CallEngine
from .loops import LoopCall
from .rng import RNG, RNGState
from .values import DynamicValue, Tensor, copied, relabelled, repeated_part
from .work import DelayedCall, KnownOutput

_SMALL = 4096
"""Bytes of an input that is compared by its contents. Larger ones that do not come from the step are never predicted."""
_MOST_CALLS = 2048
"""Calls of a step that are recorded."""
_WORD_MASK = (1 << 64) - 1
_WORDS_PER_CALL = 7

_Key = tuple[object, ...]


class _InputSource(NamedTuple):
    """Where an input comes from: an output of the step's item (`call` is -1) or of an earlier call; or constant data."""

    call: int
    number: int
    layout: str | None
    data: Samples | None
    key: _Key
    is_tensor: bool


class _Recorded(NamedTuple):
    """A call of a step. `sources`: None if an input cannot be predicted. `words`: where the generator was, from the start of the step."""

    brick: Brick
    engine: CallEngine
    sources: tuple[_InputSource, ...] | None
    samples: int
    is_batch: bool
    rng: RNG | None
    words: int


class _Start(NamedTuple):
    """A generator at the start of a step: its key and the number of its next word."""

    rng: RNG
    key: int
    words: int


def _start_of(rng: RNG) -> _Start:
    found = rng.get_state().position
    return _Start(rng, found.key, (found.hi << 64 | found.lo) * 4 + found.phase)


def known(samples: Sequence[Samples]) -> list[KnownOutput]:
    """All about outputs that are computed."""
    return [KnownOutput(item.dtype, item.ndim, item.layout, item.device, item.shapes) for item in samples]


def already_made(samples: Sequence[Samples]) -> DelayedCall:
    """A call that is computed."""
    return DelayedCall(lambda: samples, known(samples), "")


def _untouched(value: DynamicValue) -> Samples:
    """The samples of a value, without noting that they were read: operators do not change them."""
    held, work = value._held, value._work
    if held is None and work is not None:
        held = work.batches()[value._number]
        if value._view_layout is not None:
            held = relabelled(held, value._view_layout)
    return value._samples() if held is None else held


class EnteredContext:
    """A context is entered only while something is read; None: the thread's current one stays."""

    def __init__(self, context: EvalContext | None):
        self._context = context

    def __enter__(self) -> EvalContext:
        return EvalContext.current() if self._context is None else self._context.__enter__()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._context is not None:
            self._context.__exit__(kind, error, trace)


class CapturedLoop:
    """The calls of a loop over a reader or a source; see the module."""

    def __init__(self) -> None:
        self.ended = True
        self._thread: ThreadPoolExecutor | None = None
        self._program: list[_Recorded] = []
        self._calls: list[_Recorded] = []
        self._places: dict[int, int] = {}
        self._kept: list[DelayedCall] = []
        self._starts: dict[int, _Start] = {}
        self._stock: dict[_Key, list[DelayedCall]] = {}
        self._next_stock: dict[_Key, list[DelayedCall]] = {}
        self._next_item: DelayedCall | None = None
        self._steps = 0
        self.served = 0
        """Number of calls that took a prediction."""

    # --- the loop

    def begin(self, item: DelayedCall, following: DelayedCall | None) -> None:
        """A step begins. `item`: its outputs; `following`: those of the next step, to be computed ahead."""
        if self._steps == 1 and not any(call.sources is not None for call in self._calls):
            warn("capture: the first step of the loop called no operator that could be computed ahead", UserWarning)
        self._steps += 1
        if self._steps > 1:
            self._program = self._stable(self._calls)
        self._stock = self._next_stock if item is self._next_item else {}
        self._calls, self._kept = [], [item]
        self._places = {id(item): -1}
        before, self._starts = self._starts, {}
        predicted: dict[int, _Start] = {}
        used = {id(call.rng) for call in self._program}
        for number, old in before.items():
            if number not in used:
                continue
            start = _start_of(old.rng)
            self._starts[number] = start
            if start.key == old.key and start.words >= old.words:
                predicted[number] = start._replace(words=2 * start.words - old.words)
        self._next_item, self._next_stock = following, {}
        if following is not None:
            self._compute_ahead(following, predicted)
        self.ended = False
        loops.enter(self)

    def end(self) -> None:
        """The loop is left. Predictions are dropped; what was recorded serves the next loop over the same data."""
        if self.ended:
            return
        self.ended = True
        self._stock, self._next_stock, self._next_item = {}, {}, None
        self._kept, self._places = [], {}
        if self._thread is not None:
            self._thread.shutdown(wait=False, cancel_futures=True)
            self._thread = None

    def _stable(self, calls: list[_Recorded]) -> list[_Recorded]:
        """The program for the next step. Inputs whose contents have changed since the step before are not predicted."""
        before, made = self._program, []
        for k, call in enumerate(calls):
            sources = call.sources
            if sources is not None and k < len(before) and before[k].brick is call.brick:
                old = before[k].sources
                same = old is not None and [item.key for item in old if item.data is not None] == [
                    item.key for item in sources if item.data is not None
                ]
                if not same and any(item.data is not None for item in sources):
                    call = call._replace(sources=None)
            made.append(call)
        return made

    # --- predictions

    def _compute_ahead(self, item: DelayedCall, starts: dict[int, _Start]) -> None:
        """Queue the recorded calls for the next item."""
        works: list[DelayedCall | None] = []
        for call in self._program:
            found = self._predicted(call, item, works, starts)
            works.append(None if found is None else found[1])
            if found is not None:
                self._next_stock.setdefault(found[0], []).append(found[1])
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "asyncdali-capture")
        self._thread.submit(_compute_all, [item, *(work for work in works if work is not None)])

    def _predicted(
        self, call: _Recorded, item: DelayedCall, works: Sequence[DelayedCall | None], starts: dict[int, _Start]
    ) -> tuple[_Key, DelayedCall] | None:
        """The key and the work of a call in the next step; None if it cannot be predicted."""
        if call.sources is None:
            return None
        position = None
        if call.rng is not None:
            start = starts.get(id(call.rng))
            if start is None:
                return None
            position = _stream_at(start, call.words)
        inputs: list[tuple[Callable[[], Samples], bool]] = []
        keys = []
        for source in call.sources:
            if source.data is not None:
                inputs.append((lambda data=source.data: data, source.is_tensor))  # type: ignore[misc]
                keys.append(source.key)
                continue
            work = item if source.call < 0 else works[source.call]
            if work is None:
                return None
            inputs.append((_output(work, source.number, source.layout), source.is_tensor))
            keys.append((id(work), source.number, source.layout))
        made = DelayedCall(_run(call, inputs, position), [], "a step that was computed ahead")
        return _key(call.brick, keys, call.samples, call.is_batch, position), made

    # --- calls

    def call(self, given: LoopCall) -> DelayedCall:
        """The outputs of a call: a prediction that fits, or the call computed now. Raises the operator's error."""
        sources = [self._source(value) for value in given.data]
        complete = None if None in sources else tuple(item for item in sources if item is not None)
        work = None
        if complete is not None and self._stock:
            keys = [item.key if item.data is not None else self._made_key(item) for item in complete]
            waiting = self._stock.get(_key(given.brick, keys, given.samples, given.is_batch, given.position))
            if waiting:
                work = waiting.pop(0)
        if work is not None:
            try:
                work.declared = known(work.batches())
                self.served += 1
            except Exception:  # it is raised by the call itself
                work = None
        if work is None:
            inputs = [(lambda value=value: _untouched(value), isinstance(value, Tensor)) for value in given.data]
            work = already_made(_run(given, inputs, given.position)())
        self._record(given, complete, work)
        return work

    def _record(self, given: LoopCall, sources: tuple[_InputSource, ...] | None, work: DelayedCall) -> None:
        if len(self._calls) >= _MOST_CALLS:
            return
        words = 0
        if given.rng is not None:
            now = _start_of(given.rng)
            begin = now._replace(words=now.words - _WORDS_PER_CALL)
            start = self._starts.setdefault(id(given.rng), begin)
            words = begin.words - start.words
            if start.key != now.key:
                sources = None
        self._places[id(work)] = len(self._calls)
        self._kept.append(work)
        self._calls.append(_Recorded(given.brick, given.engine, sources, given.samples, given.is_batch, given.rng, words))

    def _made_key(self, source: _InputSource) -> _Key:
        return id(self._kept[source.call + 1]), source.number, source.layout

    def _source(self, value: DynamicValue) -> _InputSource | None:
        """Where an input comes from; None: nobody can know it before."""
        work, is_tensor = value._work, isinstance(value, Tensor)
        if value._held is None and work is not None:
            place = self._places.get(id(work))
            if place is not None and not work.read >> value._number & 1:
                return _InputSource(place, value._number, value._view_layout, None, (), is_tensor)
        samples = _untouched(value)
        if samples.device != "cpu":
            return None
        size = int(samples.shapes.prod(axis=1).sum()) * samples.itemsize if len(samples) else 0
        if size > _SMALL:
            return None
        content = b"".join(np.ascontiguousarray(samples.sample(k)).tobytes() for k in range(len(samples)))
        key = (int(samples.dtype), samples.layout, samples.shapes.shape, samples.shapes.tobytes(), content, is_tensor)
        return _InputSource(0, 0, None, copied(samples), key, is_tensor)


def _key(brick: Brick, keys: Sequence[_Key], count: int, is_batch: bool, position: object) -> _Key:
    return id(brick), tuple(keys), count, is_batch, position


def _output(work: DelayedCall, number: int, layout: str | None) -> Callable[[], Samples]:
    def made() -> Samples:
        samples = work.batches()[number]
        return samples if layout is None else relabelled(samples, layout)

    return made


def _run(
    call: LoopCall | _Recorded, inputs: Sequence[tuple[Callable[[], Samples], bool]], position: object
) -> Callable[[], Sequence[Samples]]:
    """The computation of a call. `inputs`: for each one its samples, and whether it is a Tensor."""
    brick, engine, count, is_batch = call.brick, call.engine, call.samples, call.is_batch

    def compute() -> Sequence[Samples]:
        given = [repeated_part(found(), count) if is_batch and is_tensor else found() for found, is_tensor in inputs]
        return finished(brick.run(engine, given, count, position))

    return compute


def _stream_at(start: _Start, words: int) -> StreamPosition:
    """The stream that a call gets which begins `words` words behind `start`."""
    counter, phase = divmod(start.words + words, 4)
    return RNG(state=RNGState(StreamPosition(start.key, counter >> 64 & _WORD_MASK, counter & _WORD_MASK, phase)))._call()


def _compute_all(works: Sequence[DelayedCall]) -> None:
    """Compute predictions in order. Their errors are raised by the calls that they belong to."""
    for work in works:
        try:
            work.batches()
        except Exception:
            work.told = True
