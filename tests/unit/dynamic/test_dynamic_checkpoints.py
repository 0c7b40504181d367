"""Checkpoints of dynamic mode: states of readers and generators, by name, as text and as files; programs that are resumed in mid-epoch."""

import json
import os
import random

import numpy as np
import pytest

import asyncdali.dynamic as ndd
from asyncdali.dynamic.checkpoint import Checkpoint, current
from asyncdali.dynamic.random import RNG


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Eleven files; file k has k + 1 bytes k."""
    root = tmp_path_factory.mktemp("files")
    paths = []
    for k in range(11):
        (root / f"{k:02d}").write_bytes(bytes([k]) * (k + 1))
        paths.append(str(root / f"{k:02d}"))
    return paths


@pytest.fixture
def reader(files):
    return lambda **arguments: ndd.readers.File(files=files[:10], **arguments)


def numbers(item):
    return [int(t.item()) for t in item[1].tensors]


def rest(made, size=5, **arguments):
    return [numbers(item) for item in made.next_epoch(batch_size=size, **arguments)]


# --- C1


def test_C1_a_state_is_an_object_with_a_text(reader):
    made = reader(enable_checkpointing=True)
    beginning = made.get_state()
    items = made.next_epoch(batch_size=5)
    next(items)
    state = made.get_state(cuda_stream=None)
    text = str(state)
    assert isinstance(text, str) and len(text) >= 24
    assert state == text and state != beginning and hash(state) == hash(made.get_state()) and state == made.get_state()
    for given in (state, text, text.encode()):
        other = reader()
        other.set_state(given)
        assert other.get_state() == state
        assert rest(other) == [[5, 6, 7, 8, 9]]
    other = reader()
    other.set_state(str(beginning))
    assert rest(other) == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]


def test_C1_states_that_cannot_be_taken_or_set(reader):
    with pytest.raises(RuntimeError, match="enable_checkpointing"):
        reader().get_state()
    made = reader(enable_checkpointing=True)
    state = made.get_state()
    next(made.next_epoch(batch_size=5))
    with pytest.raises(RuntimeError, match="first item"):
        made.set_state(state)
    for wrong in (3, None, ["a"]):
        with pytest.raises(TypeError):
            reader().set_state(wrong)
    text = str(state)
    damaged = text[:30] + ("A" if text[30] != "A" else "B") + text[31:]
    for wrong in ("", "x", "no base64 !", damaged, text[:-8], "bmRyMQ==", b"\xff\xfe"):
        fresh = reader()
        with pytest.raises(ValueError, match="not the state of a reader"):
            fresh.set_state(wrong)
        assert rest(fresh)[0] == [0, 1, 2, 3, 4]


# --- C2


def test_C2_states_of_other_data_or_orders_are_refused(files, reader):
    mine = {"random_shuffle": True, "seed": 3, "num_shards": 2}
    state = reader(**mine, enable_checkpointing=True).get_state()
    reader(**mine).set_state(state)
    for other in (
        {"seed": 4}, {"num_shards": 1}, {"shard_id": 1}, {"pad_last_batch": True}, {"stick_to_shard": True}, {"random_shuffle": False},
        {"initial_fill": 5}, {"files": files}, {"files": files[1:]}, {"files": files[9::-1]},
    ):  # fmt: skip
        made = ndd.readers.File(**{"files": files[:10], **mine, **other})
        with pytest.raises(ValueError, match="another reader"):
            made.set_state(state)
        assert not made.keeps_states
    ndd.random.set_seed(1)
    unseeded = reader(random_shuffle=True, enable_checkpointing=True)
    ndd.random.set_seed(2)
    other = reader(random_shuffle=True)
    other.set_state(unseeded.get_state())
    assert rest(other) == rest(unseeded)


# --- C3


def test_C3_an_interrupted_epoch_is_continued(reader):
    for taken, size, resumed in ((1, 4, 4), (2, 4, 4), (1, 4, 3), (1, 3, 5)):
        made = reader(enable_checkpointing=True)
        items = made.next_epoch(batch_size=size)
        for _ in range(taken):
            next(items)
        other = reader()
        other.set_state(str(made.get_state()))
        found = rest(other, resumed)
        left = 10 - taken * size
        assert len(found) == -(-left // resumed)
        assert found[0][0] == taken * size
        following = rest(other, resumed)
        assert len(following) == -(-10 // resumed)
        assert following[0][0] == (found[-1][-1] + 1) % 10
    made = reader(enable_checkpointing=True)
    rest(made)
    other = reader()
    other.set_state(made.get_state())
    assert len(rest(other)) == 2


@pytest.mark.parametrize("last", ["wrap", "partial", "drop"])
def test_C3_every_place_of_two_epochs_can_be_continued(reader, last):
    def run(made, epoch, stop=None):
        found = []
        for number in range(epoch, 3):
            for item in made.next_epoch(batch_size=4, last_batch=last):
                found.append(numbers(item))
                if stop is not None and len(found) == stop:
                    return found, number, str(made.get_state())
        return found, 3, None

    arguments = {"random_shuffle": True, "seed": 9, "num_shards": 3, "initial_fill": 3}
    whole, _, _ = run(reader(**arguments), 0)
    for stop in range(1, len(whole)):
        start, epoch, state = run(reader(**arguments, enable_checkpointing=True), 0, stop)
        other = reader(**arguments)
        other.set_state(state)
        assert start + run(other, epoch)[0] == whole


# --- C4


def test_C4_names(reader):
    found, first, second = Checkpoint(), RNG(1), RNG(2)
    assert [found.register(first), found.register(first), found.register(second, "n"), found.register(second)] == [
        "__op_0",
        "__op_0",
        "n",
        "n",
    ]
    assert found.register(RNG(3)) == "__op_2"
    with pytest.raises(RuntimeError, match="'n'"):
        found.register(second, "k")
    for name in ("", "__op_7"):
        with pytest.raises(ValueError):
            found.register(RNG(3), name)
    assert found.register(RNG(4), "n") == "n"
    with pytest.raises(TypeError, match="RNG"):
        found.register(reader(), "n")
    for wrong in (3, None, [], object()):
        with pytest.raises(TypeError, match="readers and"):
            found.register(wrong, "w")
    with pytest.raises(TypeError):
        found.register(RNG(1), 3)
    assert found.names == ("__op_0", "n", "__op_2") and len(found) == 3 and "n" in found and "w" not in found


def test_only_readers_and_generators_are_registered():
    class Other:
        def get_state(self):
            return "x"

        def set_state(self, value):
            raise AssertionError

    with pytest.raises(TypeError, match="readers and"):
        Checkpoint().register(Other(), "n")


def test_an_object_of_the_same_class_replaces_one_of_the_same_name():
    found = Checkpoint()
    for seed in (1, 4):
        found.register(RNG(seed), "n")
    found.collect()
    assert found.get_state("n") == RNG(4).state


def test_collecting_ends_that_a_checkpoint_is_loaded():
    source, found = Checkpoint(), Checkpoint()
    source.register(RNG(1), "n")
    source.collect()
    found.deserialize(source.serialize())
    found.register(RNG(2), "n")
    assert (found.is_loaded, found.is_complete) == (True, False)
    found.collect()
    assert (found.is_loaded, found.is_complete) == (False, True)


def test_C4_readers_are_switched_to_checkpointing(reader):
    found, made = Checkpoint(), reader()
    found.register(made, "r")
    assert made.keeps_states
    used = reader()
    next(used.next_epoch(batch_size=5))
    with pytest.raises(RuntimeError, match="enable_checkpointing"):
        found.register(used, "used")
    assert found.names == ("r",)


# --- C5


def test_C5_collecting(reader):
    found, rng, made = Checkpoint(), RNG(1), reader()
    found.register(rng)
    found.register(made, "r")
    assert not found.is_complete
    found.collect()
    assert found.is_complete and not found.is_loaded
    assert found.get_state("r") == made.get_state()
    with pytest.raises(RuntimeError, match="clear"):
        found.register(RNG(2))
    with pytest.raises(RuntimeError, match="clear"):
        found.register(RNG(2), "new")
    before = found.serialize()
    rng()
    next(made.next_epoch(batch_size=5))
    assert found.serialize() == before
    found.collect()
    assert found.serialize() != before
    found.clear()
    assert (len(found), found.names, found.is_complete) == (0, (), False)
    loaded = Checkpoint()
    loaded.deserialize(before)
    with pytest.raises(RuntimeError, match="'__op_0', 'r'"):
        loaded.collect()


# --- C6


def test_C6_loaded_states_are_applied_when_objects_are_registered(reader):
    source, rng, made = Checkpoint(), RNG(1), reader()
    source.register(rng, "rng")
    source.register(made, "r")
    rng.advance(5)
    items = made.next_epoch(batch_size=5)
    next(items)
    source.collect()
    text = source.serialize()

    found = Checkpoint()
    found.deserialize(text)
    assert found.is_loaded and not found.is_complete and len(found) == 0
    with pytest.raises(KeyError, match="unknown"):
        found.register(RNG(0), "unknown")
    with pytest.raises(TypeError, match="class File"):
        found.register(RNG(0), "r")
    assert found.names == ()
    with pytest.raises(RuntimeError, match="'rng', 'r'"):
        found.restore()
    other, again = RNG(0), reader()
    found.register(other, "rng")
    found.register(again, "r")
    assert other.state == rng.state and rest(again) == [[5, 6, 7, 8, 9]]
    next(items)
    with pytest.raises(RuntimeError, match="first item"):
        found.restore()


def test_C6_restore_applies_what_waits(reader):
    found, rng, made = Checkpoint(), RNG(1), reader()
    found.restore()
    found.register(rng, "rng")
    found.restore()
    found.register(made, "r")
    source = Checkpoint()
    source.register(RNG(7), "rng")
    source.register(reader(), "r")
    source.collect()
    found.deserialize(source.serialize())
    assert rng.state == RNG(1).state
    found.restore()
    assert rng.state == RNG(7).state
    found.restore()
    found = Checkpoint()
    found.register(RNG(1), "rng")
    found.register(RNG(1), "more")
    found.deserialize(source.serialize())
    with pytest.raises(RuntimeError, match="'r'"):
        found.restore()


def test_C6_nothing_is_restored_if_one_state_does_not_fit(files, reader):
    source = Checkpoint()
    source.register(RNG(7), "rng")
    source.register(reader(), "r")
    source.collect()
    found, rng = Checkpoint(), RNG(1)
    found.register(rng, "rng")
    found.register(ndd.readers.File(files=files), "r")
    found.deserialize(source.serialize())
    with pytest.raises(ValueError, match="another reader"):
        found.restore()
    assert rng.state == RNG(1).state


def test_C6_states_can_be_put_by_hand():
    for kind in (None, RNG, "RNG"):
        found, rng = Checkpoint(), RNG(0)
        found.set_state("k", str(RNG(5).state), kind)
        assert len(found) == 0
        found.register(rng, "k")
        assert rng.state == RNG(5).state
    found.set_state("k", RNG(6).state)
    found.restore()
    assert rng.state == RNG(6).state
    other = Checkpoint()
    other.set_state("k", RNG(6).state, "File")
    with pytest.raises(TypeError, match="File"):
        other.register(RNG(0), "k")
    for name, value, error in (("", "x", ValueError), (3, "x", TypeError), ("k", 3, TypeError)):
        with pytest.raises(error):
            found.set_state(name, value)


# --- C7


def test_C7_the_text_is_json():
    found = Checkpoint()
    with pytest.raises(RuntimeError, match="collect"):
        found.serialize()
    found.register(RNG(1))
    with pytest.raises(RuntimeError, match="collect"):
        found.serialize()
    found.collect()
    expected = {"version": 2, "states": {"__op_0": {"state": str(RNG(1).state), "type": "RNG"}}}
    assert json.loads(found.serialize()) == expected
    for wrong in (
        "", "x", "{}", "[]", "3", '{"version": 2}', '{"version": 1, "states": {}}',
        '{"version": "2", "states": {}}', '{"version": 2, "states": []}',
        '{"version": 2, "states": {"a": 3}}',
        '{"version": 2, "states": {"a": {"state": 3}}}', '{"version": 2, "states": {"a": {"state": "", "type": 3}}}',
    ):  # fmt: skip
        other = Checkpoint()
        with pytest.raises(ValueError):
            other.deserialize(wrong)
        assert not other.is_loaded
    other = Checkpoint()
    other.deserialize('{"version": 2, "states": {"a": {"state": "x"}}}')
    assert other.is_loaded


# --- C8


def test_C8_files_have_numbers(tmp_path):
    found = Checkpoint()
    with pytest.raises(RuntimeError, match="collect"):
        found.save(tmp_path / "{seq}")
    with pytest.raises(ValueError, match="seq"):
        found.save(tmp_path / "c.json")  # the pattern comes first, as in DALI
    found.register(RNG(1), "r")
    found.collect()
    pattern = str(tmp_path / "deep" / "a_{seq:04d}.json")
    assert [os.path.basename(found.save(pattern)) for _ in range(2)] == ["a_0000.json", "a_0001.json"]
    (tmp_path / "deep" / "a_0007.json").write_text(found.serialize())
    (tmp_path / "deep" / "a_x.json").write_text("other")
    (tmp_path / "deep" / "a_9.json").write_text("other")
    assert os.path.basename(found.save(tmp_path / "deep" / "a_{seq:04d}.json")) == "a_0008.json"
    assert os.path.basename(found.save(str(tmp_path / "b{seq}"))) == "b0"
    assert os.path.basename(found.save(str(tmp_path / "{{x}}[*]{seq:x}"))) == "{x}[*]0"
    assert found.save(str(tmp_path / "{seq}" / "f")).endswith(f"{os.sep}0{os.sep}f")
    other = Checkpoint()
    assert other.load(pattern).endswith("a_0008.json")
    rng = RNG(0)
    other.register(rng, "r")
    assert rng.state == RNG(1).state
    assert sorted(os.listdir(tmp_path / "deep")) == ["a_0000.json", "a_0001.json", "a_0007.json", "a_0008.json", "a_9.json", "a_x.json"]
    with pytest.raises(FileNotFoundError, match="none"):
        other.load(tmp_path / "none_{seq}")
    for wrong in ("c.json", "{seq}_{seq}", "{foo}_{seq}", "{}", "{seq", "{seq!r}", "{seq:zz}", "{seq:.2f}"):
        with pytest.raises(ValueError, match="seq"):
            found.save(str(tmp_path / wrong))
        with pytest.raises(ValueError, match="seq"):
            found.load(str(tmp_path / wrong))
    for wrong in (3, b"{seq}"):
        with pytest.raises(TypeError):
            found.save(wrong)
    for wrong in (3, {}, None):
        with pytest.raises(TypeError):
            found.deserialize(wrong)
    found.deserialize(found.serialize().encode())


# --- C9


def test_C9_a_context_has_a_checkpoint():
    assert current() is ndd.EvalContext.current().checkpoint
    with ndd.EvalContext() as context:
        assert current() is context.checkpoint
    assert current() is not context.checkpoint
    found = Checkpoint()
    found.register(RNG(1), "r")
    assert found.get_state("r") is None
    with pytest.raises(KeyError, match="other"):
        found.get_state("other")
    found.collect()
    assert found.get_state("r") == RNG(1).state
    other = Checkpoint()
    other.deserialize(found.serialize())
    other.register(RNG(2), "r")
    assert other.get_state("r") == str(RNG(1).state)


# --- programs that are killed and resumed


class Program:
    """A random loop: a reader, operators that draw, and the loop's kind. All of it follows from `seed`."""

    def __init__(self, seed, files):
        draw = random.Random(seed)
        shards = draw.choice([1, 1, 2, 3])
        self.arguments = {"num_shards": shards, "shard_id": draw.randrange(shards), "pad_last_batch": draw.random() < 0.3}
        if draw.random() < 0.6:
            self.arguments |= {"random_shuffle": True, "initial_fill": draw.choice([1, 3, 20])}
            if draw.random() < 0.7:
                self.arguments["seed"] = draw.randrange(100)
        elif draw.random() < 0.5:
            self.arguments["shuffle_after_epoch"] = True
        self.files = files[: draw.randrange(4, 12)]
        self.size, self.last = draw.choice([1, 2, 3, 4, 7]), draw.choice(["wrap", "partial", "drop"])
        self.capture = draw.random() < 0.5
        self.steps = [draw.choice(["flip", "uniform", "noise", "sometimes", "reseed", "plain"]) for _ in range(draw.randrange(1, 5))]
        self.epochs = draw.choice([1, 2, 3])
        self.length = draw.random()

    def step(self, k, item, rng):
        """The results of the loop for an item, as bytes."""
        content, label = item
        found = [*label.tensors]
        for name in self.steps:
            if name == "uniform":
                found += [*ndd.random.uniform(range=[0.0, 1.0], batch_size=label.batch_size, rng=rng).tensors]
            elif name == "noise":
                found += [*ndd.noise.gaussian(ndd.reshape(content, shape=[-1, 1, 1]), stddev=9.0, rng=rng).tensors]
            elif name == "flip":
                mirror = ndd.random.coin_flip(batch_size=label.batch_size, rng=rng)
                found += [*ndd.flip(ndd.reshape(content, shape=[1, -1, 1], layout="HWC"), horizontal=mirror).tensors]
            elif name == "sometimes" and k % 3 == 1:
                found += [*(ndd.cast(content, dtype=ndd.int32) + label).tensors]
            elif name == "reseed" and k % 4 == 3:
                rng.seed = k
        return b"|".join(np.asarray(t).tobytes() for t in found)

    def run(self, checkpoint=None, stop=None):
        """The bytes of all steps; with `stop` those before, and a checkpoint's text."""
        ndd.random.set_seed(5)
        reader, rng = ndd.readers.File(files=self.files, **self.arguments, enable_checkpointing=True), RNG(3)
        states, begin, number = Checkpoint(), 0, 0
        if checkpoint is not None:
            text, begin, number = checkpoint
            states.deserialize(text)
        states.register(reader, "reader")
        states.register(rng, "rng")
        found = []
        for epoch in range(begin, self.epochs):
            for item in reader.next_epoch(batch_size=self.size, capture=self.capture, last_batch=self.last):
                found.append(self.step(number, item, rng))
                number += 1
                if stop is not None and len(found) == stop:
                    states.collect()
                    return found, (states.serialize(), epoch, number)
        return found, str(rng.state)


def resumed_equals_whole(seed, files):
    """Compare a program that runs through with one that is stopped and resumed."""
    program = Program(seed, files)
    whole, end = program.run()
    if not whole:
        return
    stop = 1 + int(program.length * len(whole))
    stop = min(stop, len(whole))
    start, checkpoint = program.run(stop=stop)
    rest, state = program.run(checkpoint)
    assert start + rest == whole, (seed, stop, vars(program))
    assert state == end, (seed, stop)


@pytest.mark.filterwarnings("ignore:capture")
@pytest.mark.parametrize("seed", range(12))
def test_resumed_programs_have_equal_bits(files, seed):
    resumed_equals_whole(seed, files)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:capture")
def test_two_hundred_resumed_programs_have_equal_bits(files):
    for seed in range(1000, 1200):
        resumed_equals_whole(seed, files)
