"""Random programs of select, mix, replace and drop: every checkpoint continues as the uninterrupted run."""

from __future__ import annotations

import gc
import random
import signal

import numpy as np
import pytest
from helpers.interrupted_places import PlacedInterrupts

from asyncdali import fn, pipeline_def
from asyncdali.batch import Batch

EVENTS = 24
QUICK, SLOW = 10, 300


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("numbers")
    names = []
    for k in range(60):
        (folder / f"{k:02}.bin").write_bytes(bytes([k]))
        names.append(str(folder / f"{k:02}.bin"))
    return names


class Numbered:
    """A source of batches that ends its epochs, and that has a state."""

    def __init__(self, batches, size):
        self.batches, self.size, self.next = batches, size, 0

    def __iter__(self):
        return self

    def __next__(self):
        self.next += 1
        if self.next % (self.batches + 1) == 0:
            raise StopIteration
        return [np.array([(7 * self.next + k) % 60], np.int32) for k in range(self.size)]

    def state_dict(self):
        return {"next": self.next}

    def load_state_dict(self, state):
        self.next = state["next"]


def failing(numbers):
    def check(number):
        if int(number[0]) in numbers:
            raise ValueError(f"{int(number[0])} is bad")
        return number

    return check


class Program:
    """A random pipeline."""

    def __init__(self, seed, files):
        self.files, self.seed = files, seed
        choice = random.Random(seed)
        self.options = {
            "batch_size": choice.randint(1, 5), "num_threads": choice.randint(1, 2), "prefetch_queue_depth": choice.randint(1, 4),
            "on_error": choice.choice(["raise", "replace", "drop"]), "replace_from": choice.choice(["shard", "data set"]),
        }  # fmt: skip
        if choice.random() < 0.1:
            self.options["exec_pipelined"] = False
        self.shape = choice.randrange(5)
        self.changes = choice.random() < 0.5

    def part(self, choice):
        """The nodes of one data set: numbers, and perhaps a draw."""
        if choice.random() < 0.2:
            number = fn.external_source(Numbered(choice.randint(2, 6), choice.randint(1, self.options["batch_size"])))
        else:
            shards, count = choice.randint(1, 3), choice.randint(8, 60)
            order = choice.choice([{}, {"random_shuffle": True, "initial_fill": 6}, {"shuffle_after_epoch": True}])
            stick = {} if "shuffle_after_epoch" in order else {"stick_to_shard": choice.random() < 0.5}
            number = fn.readers.file(
                files=self.files[:count], labels=list(range(count)), num_shards=shards, shard_id=choice.randrange(shards),
                pad_last_batch=choice.random() < 0.4, **order, **stick,
            )[1]  # fmt: skip
        if choice.random() < 0.6:
            number = fn.python_function(number, function=failing(choice.sample(range(60), 3)))
        return number, fn.random.uniform()

    def selected(self, choice, nodes):
        rest = nodes[0] % choice.randint(2, 5)
        return fn.experimental.select(*nodes, where=rest == 0, refill=choice.random() < 0.7)

    def mixed(self, choice, parts):
        pairs = [(part, choice.randint(1, 9)) for part in parts]
        return fn.experimental.mix(pairs, per=choice.choice(["batch", "sample"]), stop=choice.choice(["first", "last", "never"]))

    def make(self, checkpoint=None):
        choice = random.Random(self.seed + 1)

        @pipeline_def(device_id=None, seed=self.seed, enable_checkpointing=True, checkpoint=checkpoint, **self.options)
        def define():
            if self.shape == 0:
                nodes = self.selected(choice, self.part(choice))
            elif self.shape == 1:
                nodes = self.mixed(choice, [self.part(choice) for _ in range(choice.randint(1, 3))])
            elif self.shape == 2:
                nodes = self.mixed(choice, [self.selected(choice, self.part(choice)) for _ in range(2)])
            elif self.shape == 3:
                nodes = self.selected(choice, self.mixed(choice, [self.part(choice) for _ in range(2)]))
            else:
                nodes = self.selected(choice, self.selected(choice, self.part(choice)))
            number, draw = nodes
            if choice.random() < 0.5:
                number = fn.python_function(number, function=failing(choice.sample(range(60), 4)))
            return number, draw, fn.random.uniform()

        return define()

    def event(self, pipe):
        try:
            outputs = pipe.run()
            return [tuple(float(np.ravel(output[k])[0]) for output in outputs) for k in range(len(outputs[0]))]
        except StopIteration:
            pipe.reset()
            return "end"
        except (RuntimeError, ValueError) as error:
            text = str(error).partition("encountered:")[2] or str(error)
            assert "is bad" in text or "no sample in" in text, error
            return text.partition(" is bad")[0][-3:]

    def change(self, pipe, number):
        """Change the weights at some events. Changes lie beyond all batches in flight."""
        if self.changes and self.shape in (1, 2) and number in (3, 9):
            weights = {1: lambda parts: list(range(1, parts + 1)), 2: lambda parts: [1, 3]}[self.shape]
            parts = next(len(puller.parts) for puller in pipe._core.session.producer.sources.pullers)
            pipe.set_weights(weights(parts), at=number + 12)


def run_once(seed, files):
    """The events of a program without restarts."""
    program = Program(seed, files)
    pipe = program.make()
    pipe.build()
    found = []
    for number in range(EVENTS):
        program.change(pipe, number)
        found.append(program.event(pipe))
    pipe.close()
    return found


def check(seed, files):
    program = Program(seed, files)
    pipe = program.make()
    pipe.build()
    saved, expected = [], []
    for number in range(EVENTS):
        program.change(pipe, number)
        saved.append(pipe.checkpoint())
        expected.append(program.event(pipe))
    pipe.close()
    assert max(map(len, saved)) <= 8192
    choice = random.Random(seed + 2)
    for k in [0, *choice.sample(range(1, EVENTS), 3)]:
        again = program.make(saved[k])
        again.build()
        found = []
        for number in range(k, EVENTS):
            if number > k:  # the checkpoint was made behind the change
                program.change(again, number)
            found.append(program.event(again))
        assert found == expected[k:], (seed, k)
        again.close()
    return expected


@pytest.mark.parametrize("seed", range(4))
def test_random_programs_continue(files, seed):
    check(seed, files)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, SLOW, 50))
def test_many_random_programs_continue(files, first):
    for seed in range(1000 + first, 1000 + first + 50):
        check(seed, files)


def test_random_programs_are_not_trivial(files):
    """Across a few programs: ends, errors, whole batches and smaller ones occur."""
    found = [item for seed in range(QUICK) for item in run_once(seed, files)]
    batches = [item for item in found if isinstance(item, list)]
    assert found.count("end") > 5 and len(batches) > 100 and len({len(item) for item in batches}) >= 3
    assert any(isinstance(item, str) and item != "end" for item in found)


class Consumer:
    """Takes batches. A step that was interrupted is repeated."""

    def __init__(self, files):
        @pipeline_def(batch_size=4, num_threads=2, device_id=None, seed=1, prefetch_queue_depth=1)
        def define():
            parts = []
            for k in range(2):
                number = fn.readers.file(files=files, labels=list(range(60)), random_shuffle=True)[1]
                parts.append((fn.experimental.select(number, fn.random.uniform(), where=number % 3 == k), k + 1))
            return (*fn.experimental.mix(parts, per="sample", stop="last"), fn.random.uniform())

        self.pipe, self.batches, self.ended = define(), [], False

    def step(self):
        if self.ended:
            self.pipe.reset()
            self.ended = False
        try:
            batch = self.pipe.run()
        except StopIteration:
            self.ended = True
            return
        self.batches.append(batch)

    def numbers(self):
        return [[[float(np.ravel(output[k])[0]) for output in batch] for k in range(len(batch[0]))] for batch in self.batches]


def test_interrupts_lose_and_repeat_nothing(files):
    handler = signal.getsignal(signal.SIGINT)
    gc.disable()  # a finalizer that runs by chance would swallow an interrupt
    try:
        consumer = Consumer(files)
        consumer.step()
        interrupts = PlacedInterrupts(Consumer.step)
        rooms = ("regrouping/", "runtime/session", "runtime/order/delivery", "runtime/order/producer", "sources/")
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
        expected = Consumer(files)
        while len(expected.batches) < len(consumer.batches):
            expected.step()
        assert consumer.numbers() == expected.numbers()
        consumer.pipe.close()
        expected.pipe.close()
    finally:
        gc.enable()
        signal.signal(signal.SIGINT, handler)


@pytest.mark.parametrize("seed", range(20))
def test_chosen_samples_of_a_batch(seed):
    """Known numbers, dense memory and parts of memory; origins; whether memory is used again."""
    source = np.random.default_rng(seed)
    count = int(source.integers(1, 9))
    values = source.integers(0, 9, (count, 2, 3)).astype(np.int16)
    batch = Batch.from_values(values, "HW")
    if seed % 3:
        batch = Batch(batch.shapes, batch.dtype, "HW", values.ctypes.data + values[0].nbytes * np.arange(count), values)
    samples, names = [batch.sample(k).copy() for k in range(count)], [f"file {k}" for k in range(count)]
    batch.source_info = names
    batch.reused = (False, True, source.random(count) < 0.5)[seed % 3]
    rows = source.integers(0, count, int(source.integers(0, 12)))
    chosen = batch.chosen(rows)
    assert [chosen.sample(k).tolist() for k in range(len(chosen))] == [samples[k].tolist() for k in rows]
    assert (chosen.dtype, chosen.layout, list(chosen.source_info or [])) == (batch.dtype, "HW", [names[k] for k in rows])
    assert chosen.reused_samples().tolist() == batch.reused_samples()[rows].tolist()
    again = chosen.chosen(np.arange(len(rows))[::-1])
    assert list(again.source_info or []) == [names[k] for k in rows[::-1]]
