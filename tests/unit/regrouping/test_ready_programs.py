"""Random programs with fn.experimental.ready: the same batches as in order, repeatable, and exact checkpoints."""

from __future__ import annotations

import random

import numpy as np
import pytest
from helpers.gated import Gate

from asyncdali import fn, pipeline_def

EVENTS, COUNT = 40, 40
QUICK, SLOW = 4, 200


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("numbers")
    names = []
    for k in range(COUNT):
        names.append(str(folder / f"{k:02}.npy"))
        np.save(names[-1], np.int32([k]))
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
        return [np.array([(7 * self.next + k) % COUNT], np.int32) for k in range(self.size - self.next % 2)]

    def state_dict(self):
        return {"next": self.next}

    def load_state_dict(self, state):
        self.next = state["next"]


class ByPosition:
    def __init__(self, samples, bad):
        self.samples, self.bad = samples, bad

    def __call__(self, info):
        if info.idx_in_epoch >= self.samples:
            raise StopIteration
        if info.idx_in_epoch in self.bad:
            raise ValueError(f"{info.idx_in_epoch} is bad")
        return np.array([info.idx_in_epoch], np.int32)


def failing(bad):
    def check(number):
        if int(number[0]) in bad:
            raise ValueError(f"{int(number[0])} is bad")
        return number

    return check


class Program:
    """A random pipeline."""

    def __init__(self, seed, files):
        self.files, self.seed = files, seed
        choice = self.choice = random.Random(seed)
        self.size, self.window = choice.randint(1, 5), choice.choice([1, 1, 2, 4, 9])
        self.options = {"on_error": choice.choice(["raise", "replace", "drop"]), "replace_from": choice.choice(["shard", "data set"])}
        self.kind = choice.choice(["reader", "reader", "batches", "by position"])
        self.nested = choice.choice(["", "", "selected before", "selected behind", "mixed"])
        self.slow = choice.choice([2, 3, 5, 8])
        self.bad = choice.sample(range(COUNT), choice.choice([0, 3]))

    def part(self, choice):
        if self.kind == "batches":
            number = fn.external_source(Numbered(choice.randint(2, 9), self.size))
        elif self.kind == "by position":
            number = fn.external_source(ByPosition(self.size * choice.randint(2, 12), self.bad), batch=False)
        else:
            shards = choice.randint(1, 3)
            order = choice.choice([{}, {"random_shuffle": True, "initial_fill": 6}, {"shuffle_after_epoch": True}])
            stick = {} if "shuffle_after_epoch" in order else {"stick_to_shard": choice.random() < 0.5}
            number = fn.readers.numpy(
                files=self.files, num_shards=shards, shard_id=choice.randrange(shards), pad_last_batch=choice.random() < 0.4,
                **order, **stick,
            )  # fmt: skip
        if choice.random() < 0.6:
            number = fn.python_function(number, function=failing(self.bad))
        return number, fn.random.uniform()

    def make(self, window=None, replay=None, checkpoint=None, options=None):
        window = self.window if window is None else window
        choice = random.Random(self.seed + 1)

        @pipeline_def(
            batch_size=self.size, device_id=None, seed=self.seed, enable_checkpointing=True, checkpoint=checkpoint,
            **{"num_threads": 2, **self.options, **(options or {})},
        )  # fmt: skip
        def define():
            nodes = self.part(choice)
            if self.nested == "selected before":
                nodes = fn.experimental.select(*nodes, where=nodes[0] % 3 != 1)
            nodes = fn.experimental.ready(*nodes, window=window, replay=replay, name="ready")
            if self.nested == "selected behind":
                nodes = fn.experimental.select(*nodes, where=nodes[0] % 3 != 1, refill=False)
            if self.nested == "mixed":
                nodes = fn.experimental.mix([(nodes, 1)])
            number, draw = nodes
            return number, draw

        pipe = define()
        pipe.build()
        return pipe

    def gate(self, monkeypatch, pipe, slow):
        part = int(self.nested in ("selected behind", "mixed"))
        cores = pipe._core.processes.streams.cores()
        Gate(monkeypatch, cores[part], lambda number: number % slow == 1)

    def events(self, pipe, count):
        found = []
        for _ in range(count):
            try:
                outputs = pipe.run()
                found.append(tuple(tuple(float(np.ravel(output[k])[0]) for output in outputs) for k in range(len(outputs[0]))))
            except StopIteration:
                pipe.reset()
                found.append("end")
            except (RuntimeError, ValueError) as error:
                assert "is bad" in str(error), error
                found.append(str(error).partition(" is bad")[0][-3:])
        return found


def epochs(found, whole=True):
    """The events of each epoch that has ended, sorted: batches, or without `whole` samples."""
    made, own = [], []
    for item in found:
        if item == "end":
            made.append(sorted(own, key=repr))
            own = []
        else:
            own += item if isinstance(item, tuple) and not whole else [item]
    return made


def check(seed, files, monkeypatch):
    program = Program(seed, files)
    ordered = program.events(program.make(0), EVENTS)
    pipe = program.make()
    with monkeypatch.context() as patched:
        program.gate(patched, pipe, program.slow)
        at = program.choice.randrange(1, EVENTS)
        before = program.events(pipe, at)
        saved = pipe.checkpoint()
        rest = program.events(pipe, EVENTS - at)
        notes = pipe.delivered()
    pipe.close()
    what = (seed, program.__dict__)
    whole = program.nested != "mixed"  # which forms batches of samples
    assert epochs(before + rest, whole) == epochs(ordered, whole), what
    options = {"num_threads": program.choice.choice([1, 4]), "prefetch_queue_depth": program.choice.choice([1, 3])}
    assert program.events(program.make(replay=notes, options=options), EVENTS) == before + rest, what
    assert program.events(program.make(replay=notes, checkpoint=saved), EVENTS - at) == rest, what
    other = program.make(checkpoint=saved)
    with monkeypatch.context() as patched:
        program.gate(patched, other, program.slow + 1)
        after = program.events(other, EVENTS - at)
        both = other.delivered()
    assert epochs(before + after, whole) == epochs(ordered, whole), what
    assert program.events(program.make(replay=both), EVENTS) == before + after, what
    return ordered, before + rest


@pytest.mark.parametrize("seed", range(QUICK))
def test_random_programs(seed, files, monkeypatch):
    check(seed, files, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, SLOW, 50))
def test_many_random_programs(first, files, monkeypatch):
    found = [check(seed, files, monkeypatch) for seed in range(1000 + first, 1000 + first + 50)]
    assert sum(ordered != ready for ordered, ready in found) > 25
