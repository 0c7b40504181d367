"""Captured loops: calls in the body of a loop are computed one step ahead, on threads in the background.

A loop records the operators that a step calls, and where their inputs come from: the item of the step, results of earlier calls, and small
constants. While the body runs, the next item is read and the recorded calls are computed for it, as a prediction. A call of the next step
takes a prediction only if brick, inputs and the position of its random stream are the same; otherwise it is computed at the call. So
results, errors and the states of readers and generators are those of the loop without capture, whatever the body does, and the worst case
is work in vain. Nothing moves ahead but predictions: readers and generators move when the loop does.

An input counts as the same if the program has not got its memory: values that were read, viewed or handed to another library are
computed with at the call, because they may have been changed. Operators that read or write files are called at the call.

Two threads plan in turns, so that a step is planned while the threads of the context compute the pixels of the step before.

A loop that did not ask for it (mode `eager`, a body with long calls) is computed ahead only while two steps in a row are alike, and no
more after :data:`_MOST_WASTED` steps whose predictions were not all taken.
"""

from __future__ import annotations

import contextlib
import functools
import operator
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from asyncdali_workers.interrupts import uninterrupted

from ..batch import Batch as Samples
from ..device.threads import OrderedThread
from ..errors import set_aside
from ..messages.notices import warn
from ..sampling.random_streams import drawn_position
from . import loops
from .bricks import Brick
from .calls import finished
from .contexts import EvalContext
from .engine import CallEngine
from .fused import FusedCall, FusedOutputs, FusedProgram, can_be_fused
from .loops import LoopCall
from .rng import RNG, Place
from .values import DynamicValue, Tensor, copied, relabelled, repeated_part, untouched
from .work import DelayedCall, KnownOutput, Reads

_SMALL = 4096
"""Bytes of an input that is compared by its contents. Larger ones that do not come from the step are never predicted."""
_MOST_BUILDS = 16
"""Graphs that are built for a loop; one whose calls change in each step is computed call by call."""
_MOST_CALLS = 2048
"""Calls of a step that are recorded."""
_MOST_WASTED = 3
"""Steps with work in vain of a loop that did not ask to be captured."""
_LANES = 2
"""Steps that are computed at a time."""
_COUNTER_MASK = (1 << 128) - 1
_WORDS_PER_CALL = 7

_Key = tuple[object, ...]
_Given = Sequence["tuple[_InputSource, DelayedCall | None]"]


class _InputSource(NamedTuple):
    """Where an input comes from: an output of the step's item (`call` is -1) or of an earlier call; or constant data."""

    call: int
    number: int
    layout: str | None
    data: Samples | None
    key: _Key
    is_tensor: bool

    def samples(self, work: DelayedCall | None) -> Samples:
        """The input in a step. `work`: the item or the call that it is an output of; None: it is constant."""
        if work is None:
            assert self.data is not None
            return self.data
        made = work.batches()[self.number]
        return made if self.layout is None else relabelled(made, self.layout)


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

    def place(self, words: int) -> Place:
        """The place of a call that begins `words` words later."""
        counter, phase = divmod(self.words + words, 4)
        return self.key, counter & _COUNTER_MASK, phase


def _start_of(rng: RNG) -> _Start:
    key, counter, phase = rng._at
    return _Start(rng, key, counter * 4 + phase)


def known(samples: Sequence[Samples]) -> list[KnownOutput]:
    """All about outputs that are computed."""
    return [KnownOutput(item.dtype, item.ndim, item.layout, item.device, item.shapes) for item in samples]


def already_made(samples: Sequence[Samples]) -> DelayedCall:
    """A call that is computed."""
    return DelayedCall(lambda: samples, known(samples), "")


def entered(context: EvalContext | None) -> contextlib.AbstractContextManager[EvalContext]:
    """Enter a context while something is read; None: the thread's current one stays."""
    return contextlib.nullcontext(EvalContext.current()) if context is None else context


class _FusedStep:
    """The fused calls of one step. Whoever asks first computes all; an error belongs to each call that asks."""

    def __init__(self, compute: Callable[[], list[FusedOutputs] | None]):
        self._compute: Callable[[], list[FusedOutputs] | None] | None = compute
        self._made: list[FusedOutputs] | None = None
        self._error: Exception | None = None
        self._lock = threading.Lock()

    def result(self, number: int) -> FusedOutputs | None:
        """The outputs of a call. None: these calls are not one graph, so each is computed alone."""
        with self._lock:
            if self._compute is not None:
                try:
                    self._made = self._compute()
                except Exception as error:
                    self._error = set_aside(error)
                self._compute = None
        if self._error is not None:
            raise self._error
        return None if self._made is None else self._made[number]


class _Computation:
    """The computation of a call of the next step: alone, or as a part of a graph. It does not refer to its own result.

    `works`: for each input the call that it is an output of; None: it is constant.
    """

    __slots__ = ("call", "fused", "place", "works")

    def __init__(self, call: _Recorded, works: Sequence[DelayedCall | None], place: Place | None):
        self.call, self.works, self.place = call, works, place
        self.fused: tuple[_FusedStep, int] | None = None

    @property
    def position(self) -> object:
        """The position of the random stream."""
        return None if self.place is None else drawn_position(*self.place)

    def fused_result(self) -> FusedOutputs | None:
        """Its outputs in a graph; None: it is computed alone."""
        return None if self.fused is None else self.fused[0].result(self.fused[1])

    def __call__(self) -> Sequence[Samples]:
        made = self.fused_result()
        if made is not None and made.have_contents:
            return made.outputs
        inputs = zip(self.call.sources or (), self.works, strict=True)
        return _computed(self.call, [(source.samples(work), source.is_tensor) for source, work in inputs], self.position)


class _Prediction:
    """A call of the next step: call `number` of the program."""

    __slots__ = ("__weakref__", "call", "computation", "number", "work")

    def __init__(self, number: int, computation: _Computation):
        self.call, self.computation, self.number = computation.call, computation, number
        self.work = DelayedCall(computation, [], "a step that was computed ahead")

    def compute(self) -> None:
        """Compute it ahead."""
        if self.computation.fused_result() is None:
            self.work.batches()

    def prepare(self) -> None:
        """Compute it, or all that is known without contents. Raises the operator's error."""
        made = self.computation.fused_result()
        if made is None or made.have_contents:
            self.work.declared = known(self.work.batches())
            return
        self.work.declared = known(made.outputs)
        for source, work in zip(self.call.sources or (), self.computation.works, strict=True):
            if work is not None:  # it may be changed as soon as the program gets its memory
                work.dependents.setdefault(source.number, []).append(weakref.ref(self.work))


class _StepGraph:
    """Calls of a program that are computed as one graph.

    members  their numbers in the program;  given: for each input of the graph the place among the members, and the number of the input
    engine, size  of the calls;  key: what two equal graphs have in common
    """

    def __init__(self, program: Sequence[_Recorded], members: Sequence[int], size: int, wanted: set[int]):
        """`wanted`: the calls whose results others need."""
        places = {k: number for number, k in enumerate(members)}
        self.members, self.size, self.engine = members, size, program[members[0]].engine
        self.calls: list[FusedCall] = []
        self.given: list[tuple[int, int]] = []
        for k in members:
            inputs = []
            for number, source in enumerate(program[k].sources or ()):
                if source.data is None and source.call in places:
                    inputs.append((places[source.call], source.number))
                else:
                    inputs.append((-1, 0))
                    self.given.append((places[k], number))
            self.calls.append(FusedCall(program[k].brick, tuple(inputs), k in wanted))
        self.key = (size, *((id(call.brick), call.inputs, call.wanted) for call in self.calls))


class _Programs:
    """The graphs of a loop, by the calls that they have."""

    def __init__(self) -> None:
        self._known: dict[_Key, FusedProgram | None] = {}
        self._lock = threading.Lock()
        self._builds = 0
        weakref.finalize(self, _close, self._known)

    def find(self, graph: _StepGraph, lane: int) -> FusedProgram | None:
        """The built graph; None if there is none, or if each step has another one. Steps of different lanes share nothing."""
        key, engine = (lane, *graph.key), graph.engine
        with self._lock:
            if key not in self._known:
                self._builds += 1
                if self._builds > _LANES * _MOST_BUILDS:
                    return None
                self._known[key] = FusedProgram.of(graph.calls, graph.size, engine.num_threads, engine.crew)
            return self._known[key]

    def run(self, graph: _StepGraph, lane: int, given: _Given, calls: Sequence[_Computation]) -> list[FusedOutputs] | None:
        """The outputs of each call of a graph; None if it is not built."""
        program = self.find(graph, lane)
        if program is None:
            return None
        size = graph.size
        batches = [repeated_part(source.samples(work), size) if source.is_tensor else source.samples(work) for source, work in given]
        _check_sizes(batches, size)
        return program.run(batches, [call.position for call in calls])


def _end(lanes: list[OrderedThread]) -> None:
    """End the threads when they have computed what they were given."""
    while lanes:
        lanes.pop().close()


def _close(programs: dict[_Key, FusedProgram | None]) -> None:
    while programs:
        _, program = programs.popitem()
        if program is not None:
            program.close()


class CapturedLoop:
    """The calls of a loop over a reader or a source; see the module."""

    def __init__(self, asked: bool = True) -> None:
        """`asked`: the program wants it."""
        self.ended = True
        self._left = False
        """No prediction is needed any more."""
        self.asked = asked
        self._owner = 0
        """The thread of the loop."""
        self._wasted = 0
        self._lanes: list[OrderedThread] = []
        """The threads that compute ahead, each every other step."""
        weakref.finalize(self, _end, self._lanes).atexit = False
        self._program: list[_Recorded] = []
        self._calls: list[_Recorded] = []
        self._places: dict[int, int] = {}
        self._made: list[tuple[weakref.ReferenceType[DelayedCall], Reads]] = []
        """The item and the calls of the step. The program decides how long results live."""
        self._starts: dict[int, _Start] = {}
        self._reads: list[int] = []
        self._stock: dict[int, list[_Prediction]] = {}
        """The predictions of the step that were not taken, by the id of their brick."""
        self._next_stock: dict[int, list[_Prediction]] = {}
        self._repeats = True
        """Whether all calls of the step until now were predicted, in this order, or never are."""
        self._graphs: tuple[object, list[_StepGraph]] = None, []
        """The graphs of the program, and what they depend on besides."""
        self._programs = _Programs()
        self._next_item: DelayedCall | None = None
        self._steps = 0
        self.served = 0
        """Number of calls that took a prediction."""

    # --- the loop

    def begin(self, item: DelayedCall, following: DelayedCall | None, reader: Brick | None = None) -> None:
        """A step begins. `item`: its outputs; `following`: those of the next step, to be computed ahead; `reader` makes both."""
        self._steps += 1
        self._left = False
        if self.asked and self._steps == 2 and not any(call.sources is not None for call in self._calls):
            warn("capture: the first step of the loop called no operator that could be computed ahead", UserWarning)
        self._owner = threading.get_ident()
        self._wasted += any(self._stock.values())
        before = self._program
        if self._steps > 1 and not (len(self._calls) == len(before) and all(map(operator.is_, self._calls, before))):
            found = self._stable(self._calls)
            if not _are_alike(before, found) or any(old.rng is not new.rng for old, new in zip(before, found, strict=True)):
                self._program, self._graphs = found, (None, [])
        if self._steps == 2 and reader is not None:
            for call in self._program:
                if call.sources and call.sources[0].call < 0 and not call.sources[0].number:
                    reader.reads_for(call.brick)
        self._stock = self._next_stock if item is self._next_item else {}
        self._note_reads()
        self._calls, self._made, self._repeats = [], [(weakref.ref(item), item.reads)], True
        self._places = {id(item): -1}
        starts, self._starts = self._starts, {}
        predicted: dict[int, _Start] = {}
        used = {id(call.rng) for call in self._program}
        for number, old in starts.items():
            if number not in used:
                continue
            start = _start_of(old.rng)
            self._starts[number] = start
            if start.key == old.key and start.words >= old.words:
                predicted[number] = start._replace(words=2 * start.words - old.words)
        self._next_item, self._next_stock = following, {}
        if following is not None and (self.asked or (before and _are_alike(before, self._program))):
            self._compute_ahead(following, predicted)
        self.ended = False
        loops.enter(self)

    @property
    def is_possible(self) -> bool:
        """Whether the calling thread may go on with a loop that did not ask to be captured: steps are alike, no other thread is in it."""
        return self._wasted <= _MOST_WASTED + self._steps // 16 and (self.ended or self._owner == threading.get_ident())

    def pause(self) -> None:
        """An epoch is over. What is computed for the first step of the next one is kept."""
        if self.ended:
            return
        self.ended = True
        if threading.get_ident() == self._owner:  # else its thread may be in a call
            self._stock = {}
            self._note_reads()
            self._made, self._places = [], {}
        with uninterrupted():
            _end(self._lanes)

    def end(self) -> None:
        """The loop is left. Predictions are dropped; what was recorded serves the next loop over the same data."""
        self._left = True
        self.pause()
        if threading.get_ident() == self._owner:
            self._next_stock, self._next_item = {}, None

    def _note_reads(self) -> None:
        """Note which results of the step the program has read: they will be needed in the next one, too."""
        if self._made:
            self._reads = [reads.bits for _, reads in self._made[1:]]

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
        made: list[_Prediction | None] = []
        for call in self._program:
            found = self._predicted(call, item, made, starts)
            made.append(found)
            if found is not None:
                self._next_stock.setdefault(id(call.brick), []).append(found)
        self._fuse(made)
        if not self._lanes:
            self._lanes += [OrderedThread("asyncdali-capture") for _ in range(_LANES)]
        predictions = [weakref.ref(found) for found in made if found is not None]
        self._lanes[self._steps % _LANES].submit(functools.partial(self._compute_all, item, predictions))

    def _compute_all(self, item: DelayedCall, predictions: Sequence[weakref.ref[_Prediction]], _: object) -> None:
        """Compute predictions in order, on a thread in the background. Their errors are raised by the calls that they belong to.

        Nothing is kept: the program decides how long results live, and may have taken and dropped them before this begins.
        """
        with contextlib.suppress(Exception):
            item.batches()
        for reference in predictions:
            if self._left:
                return
            _compute(reference())

    def _predicted(
        self, call: _Recorded, item: DelayedCall, made: Sequence[_Prediction | None], starts: dict[int, _Start]
    ) -> _Prediction | None:
        """The call in the next step; None if it cannot be predicted."""
        if call.sources is None or call.brick.is_outside:
            return None
        place = None
        if call.rng is not None:
            start = starts.get(id(call.rng))
            if start is None:
                return None
            place = start.place(call.words)
        works: list[DelayedCall | None] = []
        for source in call.sources:
            if source.data is not None:
                works.append(None)
                continue
            before = None if source.call < 0 else made[source.call]
            if before is None and source.call >= 0:
                return None
            works.append(item if before is None else before.work)
        return _Prediction(len(made), _Computation(call, works, place))

    def _fuse(self, made: Sequence[_Prediction | None]) -> None:
        """Let calls of whole batches be computed as graphs. Results that only calls of a graph read get no memory, as in pipelines."""
        depends = self._reads, [found is not None for found in made]
        if self._graphs[0] != depends:
            calls = [None if found is None else found.call for found in made]
            self._graphs = depends, _graphs_of(self._program, calls, self._reads)
        for graph in self._graphs[1]:
            found = [item.computation for item in (made[k] for k in graph.members) if item is not None]
            given = []
            for place, number in graph.given:
                given.append(((found[place].call.sources or ())[number], found[place].works[number]))
            step = _FusedStep(functools.partial(self._programs.run, graph, self._steps % _LANES, given, found))
            for number, computation in enumerate(found):
                computation.fused = step, number

    # --- calls

    def expected(self, brick: Brick, data: Sequence[object], batch_size: object, rng: object) -> _Prediction | None:
        """The prediction of the next call of the program, if that is a call of `brick` with these arguments.

        A call that is as expected is checked here in a third of the steps that a new one takes."""
        waiting = self._stock.get(id(brick))
        if not waiting or not self._repeats:
            return None
        found = waiting[0]
        call, works = found.call, found.computation.works
        sources = call.sources or ()
        if found.number != len(self._calls) or len(data) != len(works) or call.rng is not rng:
            return None
        if batch_size is None:
            if call.is_batch and all(source.is_tensor for source in sources):
                return None
        elif batch_size.__class__ is not int or batch_size != call.samples or not call.is_batch:
            return None
        for source, work, value in zip(sources, works, data, strict=True):
            if not isinstance(value, DynamicValue) or not self._is_input(source, work, value):
                return None
        return found

    def take(self, found: _Prediction, place: Place | None) -> DelayedCall | None:
        """The outputs of an expected call that draws from `place`. None: it has to be computed."""
        if found.computation.place != place:
            return None
        del self._stock[id(found.call.brick)][0]
        if not self._prepared(found):
            return None
        self._note_call(found.work, found.call)
        return found.work

    def call(self, given: LoopCall) -> DelayedCall:
        """The outputs of a call: a prediction that fits, or the call computed now. Raises the operator's error."""
        found = self._prediction_of(given)
        if found is not None and self._prepared(found):
            work = found.work
        else:
            inputs = [(untouched(value), isinstance(value, Tensor)) for value in given.data]
            work, found = already_made(_computed(given, inputs, given.position)), None
        if len(self._calls) < _MOST_CALLS:
            self._note_call(work, self._recorded(given, found))
        return work

    def _prepared(self, found: _Prediction) -> bool:
        """Prepare a prediction that is taken. False: there is an error, which the call itself raises."""
        try:
            found.prepare()
        except Exception:
            return False
        self.served += 1
        return True

    def _note_call(self, work: DelayedCall, recorded: _Recorded) -> None:
        """A call of the step is over."""
        self._places[id(work)] = len(self._calls)
        self._made.append((weakref.ref(work), work.reads))
        self._calls.append(recorded)

    def _prediction_of(self, given: LoopCall) -> _Prediction | None:
        """The prediction of a call. No other call may take it."""
        waiting = self._stock.get(id(given.brick), [])
        for k, found in enumerate(waiting):
            call, computation = found.call, found.computation
            if (
                call.samples == given.samples
                and call.is_batch == given.is_batch
                and computation.place == given.place
                and all(map(self._is_input, call.sources or (), computation.works, given.data))
            ):
                del waiting[k]
                return found
        return None

    def _is_input(self, source: _InputSource, work: DelayedCall | None, value: DynamicValue) -> bool:
        """Whether a value is the predicted input."""
        if work is None:
            found = self._source(value)
            return found is not None and found.data is not None and found.key == source.key
        return (
            value._work is work
            and value._held is None
            and value._number == source.number
            and value._view_layout == source.layout
            and not work.reads.bits >> source.number & 1
            and isinstance(value, Tensor) == source.is_tensor
        )

    def _recorded(self, given: LoopCall, found: _Prediction | None) -> _Recorded:
        """A call as a part of the program. `found`: the prediction that it took."""
        number = len(self._calls)
        if self._repeats and found is not None and found.number == number and found.call.rng is given.rng:
            return found.call
        sources: list[_InputSource | None] = [self._source(value) for value in given.data]
        complete = None if None in sources else tuple(item for item in sources if item is not None)
        words = 0
        if given.rng is not None:
            now = _start_of(given.rng)
            begin = now._replace(words=now.words - _WORDS_PER_CALL)
            start = self._starts.setdefault(id(given.rng), begin)
            words = begin.words - start.words
            if start.key != now.key:
                complete = None
        made = _Recorded(given.brick, given.engine, complete, given.samples, given.is_batch, given.rng, words)
        if self._repeats and complete is None and number < len(self._program) and self._program[number] == made:
            return self._program[number]
        self._repeats = False
        return made

    def _source(self, value: DynamicValue) -> _InputSource | None:
        """Where an input comes from; None: it cannot be known before."""
        work, is_tensor = value._work, isinstance(value, Tensor)
        if value._held is None and work is not None:
            place = self._places.get(id(work))
            is_ours = place is not None and self._made[place + 1][0]() is work  # an id may be used again
            if place is not None and is_ours and not work.reads.bits >> value._number & 1:
                return _InputSource(place, value._number, value._view_layout, None, (), is_tensor)
        samples = untouched(value)
        if samples.device != "cpu":
            return None
        size = int(samples.shapes.prod(axis=1).sum()) * samples.itemsize if len(samples) else 0
        if size > _SMALL:
            return None
        content = b"".join(np.ascontiguousarray(samples.sample(k)).tobytes() for k in range(len(samples)))
        key = (int(samples.dtype), samples.layout, samples.shapes.shape, samples.shapes.tobytes(), content, is_tensor)
        return _InputSource(0, 0, None, copied(samples), key, is_tensor)


def _compute(prediction: _Prediction | None) -> None:
    if prediction is not None:
        with contextlib.suppress(Exception):
            prediction.compute()


def _outline(calls: Sequence[_Recorded]) -> list[object]:
    """The part of a program in which two steps that are alike are equal."""
    return [
        (
            call.brick,
            call.engine,
            call.samples,
            call.is_batch,
            call.words,
            None if call.sources is None else [item._replace(data=None) for item in call.sources],
        )
        for call in calls
    ]


def _are_alike(before: Sequence[_Recorded], after: Sequence[_Recorded]) -> bool:
    """Whether two steps are alike."""
    return before is after or _outline(before) == _outline(after)


def _fits(call: _Recorded, size: int) -> bool:
    """Whether a call may be a part of the graph for batches of `size`."""
    return (
        call.is_batch
        and call.samples == size
        and can_be_fused(call.brick)
        and not any(item.layout is not None for item in call.sources or ())
    )


def _check_sizes(given: Sequence[Samples], size: int) -> None:
    """ValueError for a prediction that does not fit, because the next item has another number of samples. Compiled code checks no sizes."""
    if any(len(samples.shapes) != size for samples in given):
        raise ValueError(f"the step was predicted for {size} samples, and the item has another number")


def _graphs_of(program: Sequence[_Recorded], calls: Sequence[_Recorded | None], reads: Sequence[int]) -> list[_StepGraph]:
    """The graphs of a program. `calls`: None for those that are not predicted; `reads`: the outputs of each call that the program reads."""
    sizes = [call.samples for call in calls if call is not None and call.is_batch]
    if not sizes:
        return []
    size = max(set(sizes), key=sizes.count)
    readers: dict[int, set[int]] = {}  # by call: the graphs of the calls that read its results
    graph_of = _numbered_graphs(calls, size)
    graphs: dict[int, list[int]] = {}
    for k, call in enumerate(calls):
        if call is None:
            continue
        if graph_of[k] >= 0:
            graphs.setdefault(graph_of[k], []).append(k)
        for source in call.sources or ():
            if source.data is None and source.call >= 0:
                readers.setdefault(source.call, set()).add(graph_of[k])
    return [
        _StepGraph(program, members, size, {k for k in members if readers.get(k) != {graph} or reads[k]})
        for graph, members in graphs.items()
        if any(graph in readers.get(k, ()) for k in members)
    ]


def _numbered_graphs(calls: Sequence[_Recorded | None], size: int) -> list[int]:
    """The graph of each call, -1 for a call that is computed alone.

    A call behind a single call behind a graph is in a later graph, because a graph needs all its inputs when it begins.
    """
    graphs: list[int] = []
    behind: list[int] = []
    """The last graph that a call is in, or depends on."""
    for call in calls:
        first = 0
        sources = [source.call for source in (() if call is None else call.sources or ()) if source.data is None and source.call >= 0]
        for k in sources:
            first = max(first, behind[k] + (graphs[k] < 0))
        fits = call is not None and _fits(call, size)
        graphs.append(first if fits else -1)
        behind.append(first if fits else max((behind[k] for k in sources), default=-1))
    return graphs


def _computed(call: LoopCall | _Recorded, inputs: Sequence[tuple[Samples, bool]], position: object) -> Sequence[Samples]:
    """The outputs of a call. `inputs`: samples, each with whether they are a Tensor."""
    count = call.samples
    given = [repeated_part(samples, count) if call.is_batch and is_tensor else samples for samples, is_tensor in inputs]
    _check_sizes(given, count)
    return finished(call.brick, call.brick.run(call.engine, given, count, position))
