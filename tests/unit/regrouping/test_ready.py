"""fn.experimental.ready: batches in the order in which they are finished, within a window, noted and repeatable."""

from __future__ import annotations

import asyncio
import base64
import gc
import random
import signal
import subprocess
import sys
import threading
from array import array

import numpy as np
import pytest
from helpers.gated import Gate
from helpers.interrupted_places import PlacedInterrupts

from asyncdali import Pipeline, fn, pipeline_def, types
from asyncdali.errors import CheckpointError, PipelineClosed
from asyncdali.operators.base import PythonJob
from asyncdali.plugin.base_iterator import BaseIterator, LastBatchPolicy
from asyncdali.readers.files.contents import FileContentsReader
from asyncdali.regrouping.ready import Readying, ReadyState, read_notes, written_notes

COUNT, BATCH = 50, 4


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("numbers")
    names = []
    for k in range(COUNT):
        (folder / f"{k:03}.bin").write_bytes(bytes([k]) * (k % 7 + 1))
        names.append(str(folder / f"{k:03}.bin"))
    return names


def make(files, window=3, replay=None, **options):
    names = ("num_shards", "shard_id", "random_shuffle", "pad_last_batch", "stick_to_shard")
    reader = {key: options.pop(key) for key in names if key in options}

    @pipeline_def(batch_size=BATCH, device_id=None, seed=3)
    def define():
        data, label = fn.readers.file(files=files, labels=list(range(len(files))), name="reader", seed=5, **reader)
        data, label, draw = fn.experimental.ready(data, label, fn.random.uniform(), window=window, replay=replay, name="batches")
        return data, label, draw, label * 2

    pipe = define(**{"num_threads": 2, **options})
    pipe.build()
    return pipe


def gate(monkeypatch, pipe, slow):
    return Gate(monkeypatch, pipe._core.processes.streams.cores()[0], slow)


def batch(pipe):
    data, label, draw, doubled = pipe.run()
    rows = []
    for k in range(len(label)):
        number = int(np.asarray(label[k]).item())
        assert np.asarray(data[k]).tolist() == [number] * (number % 7 + 1)
        assert int(np.asarray(doubled[k]).item()) == number * 2
        rows.append((number, float(np.asarray(draw[k]))))
    return tuple(rows)


def events(pipe, count):
    """Batches and ends of epochs, as a list."""
    found = []
    for _ in range(count):
        try:
            found.append(batch(pipe))
        except StopIteration:
            found.append("end")
            pipe.reset()
    return found


def epochs(found):
    """The batches of each epoch that has ended, as sorted lists."""
    made, own = [], []
    for item in found:
        if item == "end":
            made.append(sorted(own))
            own = []
        else:
            own.append(item)
    return made


@pytest.mark.parametrize("reader", [{}, {"random_shuffle": True}, {"num_shards": 3, "shard_id": 1}, {"pad_last_batch": True}])
def test_batches_and_draws_are_those_of_the_order(files, monkeypatch, reader):
    ordered = events(make(files, 0, **reader), 45)
    pipe = make(files, 3, **reader)
    gate(monkeypatch, pipe, lambda number: number % 5 == 1)
    found = events(pipe, 45)
    assert found != ordered
    assert epochs(found) == epochs(ordered)
    assert [k for k, item in enumerate(found) if item == "end"] == [k for k, item in enumerate(ordered) if item == "end"]


def lateness(found, ordered):
    """By how many batches each batch was overtaken."""
    places = {item: k for k, item in enumerate(ordered)}
    numbers = [places[item] for item in found]
    return [sum(other > number for other in numbers[:k]) for k, number in enumerate(numbers)]


@pytest.mark.parametrize("window", [0, 1, 2, 5])
@pytest.mark.parametrize("depth", [1, 2, 4])
def test_no_batch_is_later_than_the_window(files, monkeypatch, window, depth):
    ordered = [item for item in events(make(files, 0), 13) if item != "end"]
    pipe = make(files, window, prefetch_queue_depth=depth)
    held = gate(monkeypatch, pipe, lambda number: number in (2, 9))
    found = [item for item in events(pipe, 13) if item != "end"]
    late = lateness(found, ordered)
    assert max(late) == (0 if window == 0 else window)  # a held batch comes when nothing else may come
    assert sorted(found) == sorted(ordered)
    assert held.most_held >= 1


@pytest.mark.parametrize("window", [1, 4])
def test_a_run_is_repeated(files, monkeypatch, window):
    pipe = make(files, window, random_shuffle=True)
    gate(monkeypatch, pipe, lambda number: number % 4 == 1)
    found = events(pipe, 60)
    notes = pipe.delivered()
    assert found != events(make(files, 0, random_shuffle=True), 60)
    for options in ({}, {"num_threads": 4}, {"prefetch_queue_depth": 5}):
        assert events(make(files, window, notes, random_shuffle=True, **options), 60) == found
    other = make(files, window, notes, random_shuffle=True)
    gate(monkeypatch, other, lambda number: number % 3 == 0)
    assert events(other, 60) == found


def test_a_run_continues_from_any_checkpoint(files, monkeypatch):
    chosen = random.Random(5)
    for _ in range(6):
        slow, step = chosen.randrange(2, 5), chosen.randrange(1, 40)
        pipe = make(files, 3, random_shuffle=True, enable_checkpointing=True)
        gate(monkeypatch, pipe, lambda number, slow=slow: number % slow == 1)
        before = events(pipe, step)
        saved = pipe.checkpoint()
        rest = events(pipe, 60 - step)
        notes = pipe.delivered()
        ordered = events(make(files, 0, random_shuffle=True), 60)
        # Timing decides the order of a continued run; no batch is lost and none comes twice.
        other = make(files, 3, random_shuffle=True, enable_checkpointing=True, checkpoint=saved)
        gate(monkeypatch, other, lambda number: number % 3 == 1)
        after = events(other, 60 - step)
        assert epochs(before + after) == epochs(ordered)
        # The noted order of the whole run, from its beginning.
        both = other.delivered()
        assert events(make(files, 3, both, random_shuffle=True), 60) == before + after
        # With the notes of the killed run it continues as that run did.
        again = make(files, 3, notes, random_shuffle=True, enable_checkpointing=True, checkpoint=saved)
        assert events(again, 60 - step) == rest
        assert len(saved) < 8192


def test_a_file_that_comes_late_delays_only_its_batch(files, monkeypatch):
    """Not even planning of the others waits for it."""
    opened, usual = threading.Event(), FileContentsReader.read_contents

    def wait(sample):
        assert opened.wait(30)

    def read_contents(self, draw):
        if 9 in draw.indices:
            yield PythonJob([1], wait)
        return (yield from usual(self, draw))

    monkeypatch.setattr(FileContentsReader, "read_contents", read_contents)
    pipe = make(files, 5, prefetch_queue_depth=1)
    found = [batch(pipe)[0][0] for _ in range(7)]
    assert sorted(found) == [0, 4, 12, 16, 20, 24, 28]
    opened.set()
    assert batch(pipe)[0][0] == 8
    pipe.close()


def test_programs_with_functions_keep_their_calls_apart(files):
    """Functions of the program are called for one batch at a time."""
    inside, most = [], []

    def watched(value):
        inside.append(value)
        most.append(len(inside))
        inside.pop()
        return value

    @pipeline_def(batch_size=BATCH, num_threads=4, device_id=None, seed=3)
    def define():
        label = fn.readers.file(files=files, labels=list(range(COUNT)))[1]
        return fn.experimental.ready(fn.python_function(label, function=watched), window=4)

    pipe = define()
    for _ in range(COUNT // BATCH):
        pipe.run()
    pipe.close()
    assert max(most) == 1


@pytest.mark.parametrize("engines", [1, 2])
def test_engines(files, engines):
    ordered = events(make(files, 0, random_shuffle=True), 40)
    pipe = make(files, 3, random_shuffle=True, engines=engines, prefetch_queue_depth=4)
    found = events(pipe, 40)
    notes = pipe.delivered()
    pipe.close()
    assert epochs(found) == epochs(ordered)
    again = make(files, 3, notes, random_shuffle=True, engines=engines)
    assert events(again, 40) == found
    again.close()


@pytest.mark.parametrize("parallel", [False, True])
def test_sources_by_position(parallel, monkeypatch):
    @pipeline_def(batch_size=BATCH, num_threads=2, device_id=None, seed=3, py_num_workers=2, enable_checkpointing=True)
    def define(window, replay=None):
        number = fn.external_source(by_position, batch=False, parallel=parallel, dtype=types.INT32)
        return tuple(fn.experimental.ready(number, fn.random.uniform(), window=window, replay=replay, name="batches"))

    def run(pipe):
        found = []
        for _ in range(20):
            try:
                number, draw = pipe.run()
                found.append(tuple((int(np.asarray(number[k])[0]), float(np.asarray(draw[k]))) for k in range(len(number))))
            except StopIteration:
                found.append("end")
                pipe.reset()
        notes = pipe.delivered()
        pipe.close()
        return found, notes

    ordered, _ = run(define(0))
    pipe = define(3)
    pipe.build()
    gate(monkeypatch, pipe, lambda number: number % 3 == 1)
    found, notes = run(pipe)
    assert found != ordered and epochs(found) == epochs(ordered)
    assert run(define(3, notes))[0] == found


def by_position(info):
    if info.iteration >= 6:
        raise StopIteration
    return np.array([info.idx_in_epoch], np.int32)


class Lists(BaseIterator):
    """Batches as lists of numbers."""

    def _collected(self, converted):
        return converted[0]

    def _converted(self, outputs, keep):
        numbers = outputs[1]
        return [int(np.asarray(numbers[k]).item()) for k in range(len(numbers) if keep is None else keep)]


@pytest.mark.parametrize("policy", list(LastBatchPolicy))
def test_iterators(files, monkeypatch, policy):
    pipe = make(files, 3)
    gate(monkeypatch, pipe, lambda number: number % 4 == 1)
    iterator = Lists(pipe, ["data", "number", "draw", "doubled"], auto_reset=True, last_batch_policy=policy)
    for _ in range(3):
        batches = list(iterator)
        numbers = sorted(number for one in batches for number in one)
        assert numbers == (list(range(COUNT)) if policy is not LastBatchPolicy.DROP else numbers)
        assert len(numbers) >= COUNT - BATCH
    pipe.close()


def test_asynchronous_calls(files, monkeypatch):
    pipe = make(files, 3)
    gate(monkeypatch, pipe, lambda number: number % 4 == 1)

    async def run():
        return [np.asarray((await pipe.run_async())[1].as_array()).ravel().tolist() for _ in range(12)]

    found = asyncio.run(run())
    assert found != sorted(found) and sorted(found) == [list(range(k, k + 4)) for k in range(0, 48, 4)]
    pipe.close()


KILLED = """
import os, signal, sys
import numpy as np
from asyncdali import fn, pipeline_def

@pipeline_def(batch_size=4, num_threads=4, device_id=None, seed=3, enable_checkpointing=True)
def define(names):
    data, label = fn.readers.file(files=names, labels=list(range(len(names))), random_shuffle=True, seed=5)
    return tuple(fn.experimental.ready(label, fn.random.uniform(), window=3, name="batches"))

names = sys.argv[2:]
pipe = define(names)
for step in range(30):
    try:
        label, draw = pipe.run()
        print(step, np.asarray(label.as_array()).ravel().tolist(), flush=True)
    except StopIteration:
        pipe.reset()
        print(step, "end", flush=True)
    if step == 16:
        with open(sys.argv[1], "wb") as file:
            file.write(pipe.checkpoint())
    if step == 20:
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_run_continues(files, tmp_path):
    """No sample is lost, and the noted order of both processes together is repeated."""
    saved = tmp_path / "saved"
    killed = subprocess.run([sys.executable, "-c", KILLED, saved, *files], capture_output=True, text=True, timeout=120, check=False)
    assert killed.returncode == -9, killed.stderr
    before = [line.partition(" ")[2] for line in killed.stdout.splitlines()][:17]

    @pipeline_def(batch_size=4, num_threads=4, device_id=None, seed=3, enable_checkpointing=True)
    def define(replay=None):
        label = fn.readers.file(files=files, labels=list(range(len(files))), random_shuffle=True, seed=5)[1]
        return tuple(fn.experimental.ready(label, fn.random.uniform(), window=3, replay=replay, name="batches"))

    def texts(pipe, count):
        found = []
        for _ in range(count):
            try:
                found.append(str(np.asarray(pipe.run()[0].as_array()).ravel().tolist()))
            except StopIteration:
                pipe.reset()
                found.append("end")
        return found

    continued = define(checkpoint=saved.read_bytes())
    after = texts(continued, 23)
    notes = continued.delivered()
    ordered = texts(define(), 40)
    assert epochs(before + after) == epochs(ordered)
    assert texts(define(notes), 40) == before + after


class Consumer:
    """Takes batches. A step that was interrupted is repeated."""

    def __init__(self, files, monkeypatch):
        self.pipe, self.found, self.ended = make(files, 3, random_shuffle=True, prefetch_queue_depth=1), [], False
        gate(monkeypatch, self.pipe, lambda number: number % 4 == 1)

    def step(self):
        if self.ended:
            self.pipe.reset()
            self.ended = False
        try:
            outputs = self.pipe.run()
        except StopIteration:
            self.ended = True
            self.found.append("end")
            return
        self.found.append(outputs)

    def numbers(self):
        return [item if item == "end" else tuple(int(np.asarray(one).item()) for one in item[1]) for item in self.found]


def test_interrupts_lose_and_repeat_nothing(files, monkeypatch):
    handler = signal.getsignal(signal.SIGINT)
    gc.disable()  # a finalizer that runs by chance would swallow an interrupt
    try:
        consumer = Consumer(files, monkeypatch)
        consumer.step()
        interrupts = PlacedInterrupts(Consumer.step)
        rooms = ("regrouping/", "runtime/session", "runtime/order/delivery", "runtime/order/producer", "runtime/order/record")
        found = interrupts.chosen(consumer.step, 5)
        places = [place for place in found if place.code.co_filename.rpartition("asyncdali/")[2].startswith(rooms)]
        came = 0
        for place in places:
            try:
                interrupts.at(place, consumer.step)
            except KeyboardInterrupt:
                came += 1
                consumer.step()
        assert came > 30
        numbers, notes = [item for item in consumer.numbers() if item != "end"], consumer.pipe.delivered()
        consumer.pipe.close()
        again = make(files, 3, notes, random_shuffle=True)
        expected = [tuple(number for number, _ in item) for item in events(again, len(numbers) + 10) if item != "end"]
        assert numbers == expected[: len(numbers)]
        again.close()
    finally:
        gc.enable()
        signal.signal(signal.SIGINT, handler)


# --- arguments and checkpoints


def test_states_of_checkpoints_are_checked():
    rule = Readying(3, b"")
    rule._notes.extend([2, 6, -2])
    state = ReadyState(3, (0, 2), -1)
    saved = rule.save(state)
    other = Readying(3, b"")
    assert other.load(saved) == state and list(other._notes) == [2, 6, -2]
    damaged = base64.b64encode(base64.b64decode(saved["notes"])[:-1]).decode()
    wrong = [
        None, {}, {**saved, "step": -1}, {**saved, "step": 4}, {**saved, "ahead": [2, 1]}, {**saved, "ahead": ["a"]},
        {**saved, "last": 0.5}, {**saved, "notes": "a"}, {**saved, "notes": damaged},
    ]  # fmt: skip
    for data in wrong:
        with pytest.raises(ValueError, match="is not the state of fn.experimental.ready"):
            other.load(data)


def test_long_orders_are_short_notes():
    chosen = random.Random(3)
    order = [2] * 100_000
    assert len(written_notes(array("i", order))) < 500
    for k in chosen.sample(range(100_000), 1000):
        order[k] = chosen.randrange(-8, 16) * 2
    notes = written_notes(array("i", order))
    assert len(notes) < 10_000 and list(read_notes(notes)) == order


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"window": 2.5}, TypeError, "`window` is an int"),
        ({"window": -1}, ValueError, "`window` must be from 0 to 1,024 batches"),
        ({"window": 5000}, ValueError, "`window` must be from 0 to 1,024 batches"),
        ({"replay": "order"}, TypeError, r"`replay` is what pipe.delivered\(\) returns"),
        ({"replay": b"order"}, ValueError, r"the bytes are not an order of pipe.delivered\(\)"),
    ],
    ids=["half", "negative", "large", "text", "bytes"],
)
def test_wrong_arguments(files, arguments, error, text):
    with pytest.raises(error, match=text):
        make(files, **arguments)


def test_an_argument_of_the_pipeline_names_the_call():
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'deliver'\. For .* fn\.experimental\.ready\(\*nodes, window=8\)"):
        Pipeline(2, 1, None, deliver="ready")
    with pytest.raises(TypeError, match=r"fn\.experimental\.ready"):
        pipeline_def(lambda: fn.random.uniform(), batch_size=2)(deliver="ready")


def test_the_order_of_another_pipeline_is_refused(files, monkeypatch):
    pipe = make(files, 3)
    gate(monkeypatch, pipe, lambda number: number % 4 == 1)
    events(pipe, 12)
    other = make(files[:6], 3, pipe.delivered())
    with pytest.raises(ValueError, match="does not fit"):
        events(other, 12)


def test_pipelines_without_ready_have_no_order(files):
    pipe = pipeline_def(lambda: fn.readers.file(files=files)[1], batch_size=2, num_threads=1, device_id=None)()
    with pytest.raises(RuntimeError, match="whose order could be noted"):
        pipe.delivered()


def test_provenance(files):
    """Batches that were returned have their origins; other steps depend on the time."""
    pipe = make(files, 3)
    outputs = pipe.run()
    told = outputs[1].provenance()
    number = int(np.asarray(outputs[1][0]).item())
    (origin,) = told.sample(0)["regrouped"].values()
    assert origin["readers"]["reader"]["file"] == files[number]
    with pytest.raises(CheckpointError, match=r"steps behind 'batches\[0\]' cannot be computed"):
        pipe.provenance(4)
    with pytest.raises(CheckpointError, match="gives batches as they are finished"):
        pipe.show(4)
    pipe.close()


def test_closing_ends_a_wait(files, monkeypatch):
    opened, began, usual = threading.Event(), threading.Event(), FileContentsReader.read_contents

    def wait(sample):
        began.set()
        assert opened.wait(60)

    def read_contents(self, draw):
        if 9 in draw.indices:
            yield PythonJob([1], wait)
        return (yield from usual(self, draw))

    monkeypatch.setattr(FileContentsReader, "read_contents", read_contents)
    pipe, found = make(files, 3), []

    def consume():
        try:
            for _ in range(30):
                batch(pipe)
        except PipelineClosed as error:
            found.append(error)

    consumer = threading.Thread(target=consume)
    consumer.start()
    assert began.wait(30)
    pipe.close()
    consumer.join(30)
    opened.set()
    assert not consumer.is_alive() and len(found) == 1
