"""The order of readers: tables and traces recorded from DALI 2.4, and a naive reader that moves samples one by one."""

import json
import random
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from helpers.orders import Cursor, order_of

from asyncdali.sampling.order import OrderPosition, SampleOrder, engine_from_seed


def batches(text):
    """ "0,1 · 2,3" as lists."""
    return [[int(index) for index in batch.split(",")] for batch in text.split(" · ")]


# ----- a naive reader: lists of samples, a buffer that never crosses a shard's end, one sample at a time


class NaiveReader:
    """The documented behaviour, sample by sample. `lists(epoch)` gives the permuted list of each epoch of a shard."""

    def __init__(self, lists, count, batch, num_shards=1, shard_id=0, stick=False, pad=False, fill=None, seed=0):
        self.lists, self.count, self.batch, self.shards, self.shard_id = lists, count, batch, num_shards, shard_id
        self.stick, self.pad, self.fill = stick, pad, fill
        self.x, self.epoch, self.last = engine_from_seed(seed), 0, None
        self.open_shard()

    def open_shard(self):
        shard = self.shard_id if self.stick else (self.shard_id + self.epoch) % self.shards
        self.waiting = self.lists(self.epoch)[self.count * shard // self.shards : self.count * (shard + 1) // self.shards]
        self.buffer = []
        self.delivered = 0

    def below(self, m):
        quotient = 2147483645 // m
        while True:
            self.x = self.x * 16807 % 2147483647
            if self.x - 1 < quotient * m:
                return (self.x - 1) // quotient

    def draw(self):
        while self.waiting and len(self.buffer) < (self.fill or 1):
            self.buffer.append(self.waiting.pop(0))
        if self.fill:
            k = self.below(len(self.buffer))
            self.buffer[0], self.buffer[k] = self.buffer[k], self.buffer[0]
        return self.buffer.pop(0)

    def next_batch(self):
        out = []
        for i in range(self.batch):
            if not self.waiting and not self.buffer:
                if self.pad and (i > 0 or self.delivered < -(-self.count // self.shards)):
                    self.delivered += 1
                    out.append(self.last)
                    continue
                self.epoch += 1
                self.open_shard()
            self.last = self.draw()
            self.delivered += 1
            out.append(self.last)
        return out


def permuted(count):
    """The fixed permutation of shuffled readers. NumPy's legacy generator is the same Mersenne Twister (init_genrand)."""
    words = np.random.MT19937()
    words._legacy_seeding(524287)

    def below(m):
        while True:
            product = int(words.random_raw()) * m
            if product & 0xFFFFFFFF >= 2**32 % m:
                return product >> 32

    items = list(range(count))
    if count % 2 == 0:
        k = below(2)
        items[1], items[k] = items[k], items[1]
    for i in range(2 if count % 2 == 0 else 1, count, 2):
        j, k = divmod(below((i + 1) * (i + 2)), i + 2)
        items[i], items[j] = items[j], items[i]
        items[i + 1], items[k] = items[k], items[i + 1]
    return items


# ----- golden tables without shuffling


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        # count / num_shards / batch, stick, pad, shard
        ((10, 3, 4, 0, 0, 0), "0,1,2,3 · 4,5,6,7 · 8,9,0,1 · 2,3,4,5 · 6,7,8,9 · 0,1,2,3 · 4,5,6,7"),
        ((10, 3, 4, 0, 0, 1), "3,4,5,6 · 7,8,9,0 · 1,2,3,4 · 5,6,7,8 · 9,0,1,2 · 3,4,5,6 · 7,8,9,0"),
        ((10, 3, 4, 0, 1, 0), "0,1,2,2 · 3,4,5,5 · 6,7,8,9 · 0,1,2,2 · 3,4,5,5 · 6,7,8,9 · 0,1,2,2"),
        ((10, 3, 4, 0, 1, 1), "3,4,5,5 · 6,7,8,9 · 0,1,2,2 · 3,4,5,5 · 6,7,8,9 · 0,1,2,2 · 3,4,5,5"),
        ((10, 3, 4, 1, 0, 0), "0,1,2,0 · 1,2,0,1 · 2,0,1,2 · 0,1,2,0 · 1,2,0,1 · 2,0,1,2 · 0,1,2,0"),
        ((10, 3, 4, 1, 0, 2), "6,7,8,9 · 6,7,8,9 · 6,7,8,9"),
        ((10, 3, 4, 1, 1, 1), "3,4,5,5 · 3,4,5,5 · 3,4,5,5"),
        ((9, 2, 4, 0, 0, 1), "4,5,6,7 · 8,0,1,2 · 3,4,5,6 · 7,8,0,1 · 2,3,4,5 · 6,7,8,0"),
        ((9, 2, 4, 0, 1, 0), "0,1,2,3 · 3,3,3,3 · 4,5,6,7 · 8,8,8,8 · 0,1,2,3 · 3,3,3,3"),
        ((9, 2, 4, 1, 0, 1), "4,5,6,7 · 8,4,5,6 · 7,8,4,5 · 6,7,8,4 · 5,6,7,8 · 4,5,6,7"),
        ((9, 2, 4, 1, 1, 1), "4,5,6,7 · 8,8,8,8 · 4,5,6,7 · 8,8,8,8"),
        ((10, 3, 3, 0, 1, 0), "0,1,2 · 2,2,2 · 3,4,5 · 5,5,5 · 6,7,8 · 9,9,9 · 0,1,2"),
        ((10, 3, 3, 1, 0, 2), "6,7,8 · 9,6,7 · 8,9,6 · 7,8,9 · 6,7,8 · 9,6,7 · 8,9,6"),
        ((7, 1, 3, 0, 0, 0), "0,1,2 · 3,4,5 · 6,0,1 · 2,3,4 · 5,6,0 · 1,2,3"),
        ((7, 1, 3, 0, 1, 0), "0,1,2 · 3,4,5 · 6,6,6 · 0,1,2 · 3,4,5 · 6,6,6"),
        ((10, 3, 8, 0, 1, 0), "0,1,2,2,2,2,2,2 · 3,4,5,5,5,5,5,5 · 6,7,8,9,9,9,9,9 · 0,1,2,2,2,2,2,2"),
        ((10, 3, 8, 1, 0, 0), "0,1,2,0,1,2,0,1 · 2,0,1,2,0,1,2,0 · 1,2,0,1,2,0,1,2"),
        ((11, 4, 2, 0, 1, 3), "8,9 · 10,10 · 0,1 · 1,1 · 2,3 · 4,4"),
        ((11, 4, 2, 1, 0, 1), "2,3 · 4,2 · 3,4 · 2,3 · 4,2 · 3,4"),
        ((6, 4, 4, 0, 0, 2), "3,4,5,0 · 1,2,3,4 · 5,0,1,2 · 3,4,5,0 · 1,2,3,4"),
        ((6, 4, 4, 0, 1, 0), "0,0,0,0 · 1,2,2,2 · 3,3,3,3 · 4,5,5,5 · 0,0,0,0"),
        ((6, 4, 4, 1, 0, 0), "0,0,0,0 · 0,0,0,0"),
        ((5, 5, 2, 0, 0, 3), "3,4 · 0,1 · 2,3 · 4,0 · 1,2 · 3,4"),
        ((5, 5, 2, 0, 1, 3), "3,3 · 4,4 · 0,0 · 1,1 · 2,2 · 3,3"),
    ],
)
def test_golden_tables(config, expected):
    count, shards, batch, stick, pad, shard = config
    order = Cursor(count, batch, shards, shard, stick_to_shard=bool(stick), pad_last_batch=bool(pad))
    assert [order.next_batch().tolist() for _ in batches(expected)] == batches(expected)


# ----- golden values with shuffling


@pytest.mark.parametrize(("seed", "state"), [(0, 532167439), (1, 1649374289), (42, 980519533), (-1, 537413182), (42 + 2**32, 980519533)])
def test_engine_seeds(seed, state):
    assert engine_from_seed(seed) == state


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (10, [5, 9, 1, 6, 7, 2, 0, 4, 8, 3]),
        (12, [5, 9, 1, 10, 7, 2, 0, 11, 8, 3, 6, 4]),
        (5, [3, 0, 2, 4, 1]),
        (70000, [14022, 67989, 4767, 37944, 42924]),  # beyond 65535 elements there is one draw per element
    ],
)
def test_golden_permutation(count, expected):
    order = Cursor(count, 5, random_shuffle=True, initial_fill=1)
    assert order.take(len(expected)).tolist() == expected


@pytest.mark.parametrize(
    ("fill", "expected"),
    [
        (1, "5,9,1,6,7 · 2,0,4,8,3 · 5,9,1,6,7 · 2,0,4,8,3"),
        (2, "9,1,6,5,2 · 7,0,4,3,8 · 9,1,5,7,6 · 2,4,8,3,0"),
        (4, "6,5,7,9,4 · 2,0,1,3,8 · 6,5,1,2,9 · 7,8,3,4,0"),
        (1024, "3,0,4,7,8 · 2,9,1,5,6 · 3,0,1,4,9 · 2,8,5,6,7"),
    ],
)
def test_golden_shuffle(fill, expected):
    order = Cursor(10, 5, random_shuffle=True, initial_fill=fill, seed=42)
    assert [order.next_batch().tolist() for _ in range(4)] == batches(expected)


@pytest.mark.parametrize(
    ("pad", "expected"),
    [
        (True, "1,5,9,9 · 6,2,7,7 · 0,4,3,8 · 1,5,9,9 · 2,7,6,6 · 8,3,4,0"),
        (False, "1,5,9,6 · 2,7,0,4 · 3,8,1,5 · 9,2,7,6"),
    ],
)
def test_golden_shuffled_shards(pad, expected):
    order = Cursor(10, 4, 3, 0, pad_last_batch=pad, random_shuffle=True, seed=42)
    assert [order.next_batch().tolist() for _ in batches(expected)] == batches(expected)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"checkpointing": True}, "9,6,0,5,4,2,8,1,7,3 · 8,7,4,3,6,1,2,5,9,0 · 2,3,9,4,8,1,6,5,0,7"),
        ({"checkpointing": False}, "9,6,0,5,4,2,8,1,7,3 · 7,1,4,5,8,6,0,2,3,9 · 4,5,9,8,3,1,0,6,7,2"),
        (
            {"checkpointing": True, "shuffle_after_epoch_seed": 5},
            "1,4,6,2,5,8,0,9,7,3 · 9,7,6,5,8,2,3,4,1,0 · 2,0,3,6,8,7,1,5,9,4",
        ),
    ],
)
def test_golden_shuffle_after_epoch(options, expected):
    order = Cursor(10, 10, shuffle_after_epoch=True, **options)
    assert [order.next_batch().tolist() for _ in range(3)] == batches(expected)


def test_golden_containers():
    order = Cursor(12, 12, shuffle_after_epoch=True, containers=[3, 3, 3, 3], pre_permute=False)
    for files in ([3, 1, 0, 2], [0, 1, 2, 3], [2, 3, 1, 0]):
        assert order.next_batch().tolist() == [3 * file + k for file in files for k in range(3)]


def test_containers_may_be_empty_or_differ_in_size():
    sizes = [2, 0, 5, 1]
    order = Cursor(8, 8, shuffle_after_epoch=True, containers=sizes, pre_permute=False)
    records = [[0, 1], [], [2, 3, 4, 5, 6], [7]]
    for files in ([3, 1, 0, 2], [0, 1, 2, 3], [2, 3, 1, 0]):
        assert order.next_batch().tolist() == [index for file in files for index in records[file]]


# ----- snapshots


@pytest.mark.parametrize(
    ("arguments", "trace"),
    [
        ({"count": 10, "batch_size": 4}, [(0, 0), (0, 4), (0, 8), (1, 2), (1, 6), (2, 0), (2, 4), (2, 8), (3, 2)]),
        (
            {"count": 10, "batch_size": 4, "pad_last_batch": True},
            [(0, 0), (0, 4), (0, 8), (1, 0), (1, 4), (1, 8), (2, 0), (2, 4), (2, 8)],
        ),
        ({"count": 12, "batch_size": 4, "pad_last_batch": True}, [(0, 0), (0, 4), (0, 8), (1, 0), (1, 4)]),
        ({"count": 12, "batch_size": 4}, [(0, 0), (0, 4), (0, 8), (1, 0), (1, 4)]),
        (
            {"count": 9, "batch_size": 4, "num_shards": 2, "pad_last_batch": True},
            [(0, 0), (0, 4), (1, 0), (1, 4), (2, 0), (2, 4), (3, 0)],
        ),
        (
            {"count": 10, "batch_size": 4, "num_shards": 3, "shard_id": 1},
            [(0, 0), (1, 1), (2, 1), (3, 2), (4, 3), (6, 0), (7, 1), (8, 1), (9, 2)],
        ),
        (
            {"count": 10, "batch_size": 4, "num_shards": 3, "shard_id": 1, "stick_to_shard": True},
            [(0, 0), (1, 1), (2, 2), (4, 0), (5, 1), (6, 2), (8, 0), (9, 1), (10, 2)],
        ),
        ({"count": 3, "batch_size": 8}, [(0, 0), (2, 2), (5, 1), (8, 0), (10, 2), (13, 1), (16, 0)]),
        ({"count": 3, "batch_size": 8, "pad_last_batch": True}, [(0, 0), (1, 0), (2, 0), (3, 0)]),
    ],
)
@pytest.mark.parametrize("shuffle", [False, True])
def test_golden_positions(arguments, trace, shuffle):
    order = Cursor(**arguments, random_shuffle=shuffle, seed=42)
    seen = []
    for _ in trace:
        seen.append(tuple(order.position)[1:])
        order.next_batch()
    assert seen == trace


def test_the_engine_of_a_position_is_that_of_the_shard_epochs_start():
    order = Cursor(10, 5, random_shuffle=True, seed=42)
    first = order.position.engine
    order.next_batch()
    assert first == order.position.engine == 980519533
    order.next_batch()
    assert order.position.epoch == 1
    assert order.position.engine not in (0, first)


def random_arguments(rng):
    """Arguments of any kind of reader, as keyword arguments of SampleOrder."""
    sizes = [rng.randint(1, 6) for _ in range(rng.randint(1, 6))] if rng.random() < 0.3 else None
    count = sum(sizes) if sizes else rng.randint(1, 60)
    shards = rng.randint(1, min(count, 6))
    arguments = {
        "count": count, "batch_size": rng.randint(1, 9), "num_shards": shards, "shard_id": rng.randrange(shards),
        "stick_to_shard": rng.random() < 0.4, "pad_last_batch": rng.random() < 0.5, "containers": sizes,
        "pre_permute": sizes is None and rng.random() < 0.7, "checkpointing": rng.random() < 0.5,
    }  # fmt: skip
    if rng.random() < 0.3:
        arguments.update(shuffle_after_epoch=True, stick_to_shard=False, shuffle_after_epoch_seed=rng.choice([None, rng.getrandbits(40)]))
    if rng.random() < 0.5 and not (arguments.get("shuffle_after_epoch") and sizes is None):
        arguments.update(random_shuffle=True, initial_fill=rng.choice([1, 2, 3, 5, 8, 40, 1024]), seed=rng.getrandbits(33))
    return arguments


def test_agrees_with_the_naive_reader():
    rng = random.Random(1)
    for _ in range(400):
        arguments = random_arguments(rng)
        arguments.update(shuffle_after_epoch=False, containers=None)
        shuffled = arguments.get("random_shuffle", False)
        count = arguments["count"]
        listed = permuted(count) if shuffled and arguments["pre_permute"] else list(range(count))
        naive = NaiveReader(
            lambda epoch, listed=listed: list(listed), count, arguments["batch_size"], arguments["num_shards"], arguments["shard_id"],
            arguments["stick_to_shard"], arguments["pad_last_batch"], arguments.get("initial_fill"), arguments.get("seed", 0),
        )  # fmt: skip
        order = Cursor(**arguments)
        for _ in range(rng.randint(1, 12)):
            assert order.next_batch().tolist() == naive.next_batch(), arguments


def test_every_position_restores():
    """The position after every batch is stored as JSON. A new order and a used one continue from it with the same batches."""
    rng = random.Random(2)
    for _ in range(120):
        arguments = random_arguments(rng)
        order, positions, seen = Cursor(**arguments), [], []
        for _ in range(8):
            positions.append(order.position)
            seen.append(order.next_batch().tolist())
        used = Cursor(**{**arguments, "seed": 99})
        for k in rng.sample(range(8), 8):
            saved = json.loads(json.dumps(positions[k]))
            fresh = Cursor(**arguments)
            for restored in (fresh, used):
                restored.restore(saved)
                assert restored.position == positions[k]
                assert [restored.next_batch().tolist() for _ in range(8 - k)] == seen[k:], (arguments, k)


def test_reading_position_changes_nothing():
    one, two = (Cursor(7, 3, random_shuffle=True, initial_fill=3, seed=1) for _ in range(2))
    for _ in range(9):
        assert two.position == two.position
        assert one.next_batch().tolist() == two.next_batch().tolist()


def test_batch_sizes_may_vary():
    rng = random.Random(3)
    for _ in range(60):
        arguments = random_arguments(rng)
        arguments["pad_last_batch"] = False
        whole = Cursor(**arguments).take(60).tolist()
        parts, order = [], Cursor(**arguments)
        while len(parts) < 60:
            parts += order.take(min(rng.randint(0, 9), 60 - len(parts))).tolist()
        assert parts == whole
        resumed = Cursor(**arguments)
        resumed.take(17)
        later = Cursor(**arguments)
        later.restore(resumed.position)
        assert later.take(43).tolist() == whole[17:]


def test_padding_fills_the_requested_batch():
    order = Cursor(5, 2, pad_last_batch=True)
    assert order.take(4).tolist() == [0, 1, 2, 3]
    assert order.take(3).tolist() == [4, 4, 4]
    assert order.position[1:] == (1, 0)
    assert order.take(0).tolist() == []
    assert order.take(2).tolist() == [0, 1]


# ----- invariants


def test_a_shard_epoch_delivers_its_shard_once():
    rng = random.Random(4)
    for _ in range(60):
        count = rng.randint(2, 300)
        shards = rng.randint(1, min(count, 5))
        fill = rng.choice([1, 3, 20, 1000])
        cursors = [Cursor(count, 1, shards, s, random_shuffle=True, initial_fill=fill, seed=s) for s in range(shards)]
        owned = [[] for _ in range(shards)]
        for _ in range(shards):  # after one epoch per shard, each reader has read all samples once
            together = []
            for s, cursor in enumerate(cursors):
                size = len(range(*cursor.order._shard_bounds(cursor.position.epoch)))
                part = cursor.take(size).tolist()
                owned[s] += part
                together += part
            assert sorted(together) == list(range(count))  # in an epoch no two readers read the same sample
        assert all(sorted(seen) == list(range(count)) for seen in owned)


def test_a_shuffle_buffer_advances_samples_by_less_than_its_size():
    listed = permuted(200)
    for fill in (1, 4, 30):
        mixed = Cursor(200, 200, random_shuffle=True, initial_fill=fill, seed=5).next_batch().tolist()
        place = {index: k for k, index in enumerate(mixed)}
        assert all(place[index] >= j - fill + 1 for j, index in enumerate(listed))


# ----- positions are values


SETTINGS = [
    {},
    {"num_shards": 3, "shard_id": 1, "pad_last_batch": True},
    {"random_shuffle": True, "initial_fill": 7, "num_shards": 2, "pad_last_batch": True},
    {"shuffle_after_epoch": True},
    {"shuffle_after_epoch": True, "checkpointing": True, "num_shards": 2},
    {"containers": [5, 9, 3, 12], "shuffle_after_epoch": True, "random_shuffle": True, "initial_fill": 4},
]


@pytest.mark.parametrize("options", SETTINGS)
def test_any_batch_can_be_asked_for_at_any_time(options):
    """A position gives the same indices and the same next position, in any order of calls, repeatedly, and on several threads."""
    order = order_of(29, seed=5, **options)
    sizes = [random.Random(1).choice([1, 4, 5, 11]) for _ in range(40)]
    expected, position = [], order.start
    for size in sizes:
        before = position
        indices, position = order.take(position, size)
        expected.append((before, size, indices.tolist(), position))

    def ask(seed):
        for before, size, indices, behind in random.Random(seed).sample(expected * 2, 80):
            found, after = order.take(before, size)
            assert (found.tolist(), after) == (indices, behind)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(ask, range(4)))


@pytest.mark.parametrize("options", SETTINGS)
def test_the_position_behind_a_batch_needs_no_indices(options):
    asked, other = order_of(29, seed=5, **options), order_of(29, seed=5, **options)
    position, rng = asked.start, random.Random(2)
    for _ in range(60):
        size = rng.choice([0, 1, 4, 5, 30, 61])
        behind = other.after(position, size)
        assert behind == other.after(position, size) == asked.take(position, size)[1]
        position = behind


# ----- arguments


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_shards": 0}, "num_shards is 0"),
        ({"shard_id": -1}, "shard_id is -1; with num_shards=1 it must be from 0 to 0"),
        ({"num_shards": 3, "shard_id": 3}, "shard_id is 3; with num_shards=3 it must be from 0 to 2"),
        ({"num_shards": 11}, "the data set has 10 samples, fewer than num_shards=11"),
        ({"count": 0}, "the data set has 0 samples"),
        ({"initial_fill": 0}, "initial_fill is 0"),
        ({"shuffle_after_epoch": True, "stick_to_shard": True}, "shuffle_after_epoch and stick_to_shard cannot both be true"),
        ({"shuffle_after_epoch": True, "random_shuffle": True}, "shuffle_after_epoch and random_shuffle cannot both be true"),
        ({"containers": [3, 3]}, "hold 6 samples in all, the smallest 3; they must hold 10"),
        ({"containers": [11, -1]}, "the smallest -1; they must hold"),
        ({"containers": []}, "hold 0 samples"),
    ],
)
def test_wrong_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        Cursor(**{"count": 10, "batch_size": 2, **arguments})


@pytest.mark.parametrize(
    ("position", "message"),
    [
        ((0, 0, 0), "engine state of the reader's position is 0"),
        ((2**31 - 1, 0, 0), "engine state"),
        ((5, -1, 0), "epoch of the reader's position is -1"),
        ((5, 0, -1), "is -1 samples into a shard of 3"),
        ((5, 0, 4), "is 4 samples into a shard of 3; it was saved with another data set"),
        ((5, 0), "expected three integers: engine, epoch, age"),
        ("abc", "expected three integers"),
        (None, "expected three integers"),
        ((5, None, 1), "expected three integers"),
    ],
)
def test_positions_of_other_readers_are_refused_and_change_nothing(position, message):
    order = Cursor(10, 2, 3, random_shuffle=True, seed=1)
    order.next_batch()
    before = order.position
    with pytest.raises(ValueError, match=message):
        order.restore(position)
    assert order.position == before


def test_a_position_at_a_shards_end_starts_the_next():
    """Such a position comes from a padded reader. Without padding the shard has no samples left, so the next epoch starts."""
    order = Cursor(10, 4)
    order.restore((5, 0, 10))
    assert order.position[1:] == (1, 0)


def test_negative_batches_are_refused():
    with pytest.raises(ValueError, match="the batch size is -1"):
        Cursor(10, 2).take(-1)


def test_meta():
    order = Cursor(10, 4, 3, 1, pad_last_batch=True)
    assert order.meta() == {
        "epoch_size": 10, "epoch_size_padded": 12, "number_of_shards": 3, "shard_id": 1, "pad_last_batch": 1, "stick_to_shard": 0,
    }  # fmt: skip
    order.next_batch()
    assert order.meta()["shard_id"] == 1
    assert Cursor(10, 4, 3, shuffle_after_epoch=True).meta()["stick_to_shard"] == 1
    assert Cursor(10, 4, 3).meta()["epoch_size_padded"] == 10


def test_positions_are_immutable():
    position = Cursor(10, 4).position
    assert isinstance(position, OrderPosition)
    with pytest.raises(AttributeError):
        position.age = 3


# ----- cost


@pytest.mark.parametrize(("samples", "together"), [(3, 16), (300, 13), (5000, 1)])
def test_batches_that_follow_one_another_are_drawn_together(monkeypatch, samples, together):
    """They are the batches that are drawn one by one, also at the ends of epochs. A batch that was drawn is given again without a replay.

    Large batches are drawn one by one."""
    made = order_of(700, random_shuffle=True, initial_fill=64, pad_last_batch=True)
    position, taken = made.start, []
    for _ in range(40):
        batch, behind = made.take(position, samples)
        taken.append((position, batch, behind))
        position = behind
    walks = []
    monkeypatch.setattr(SampleOrder, "_walk", lambda self, *given: walks.append(given))
    for begin, batch, behind in taken[-together:] if together > 1 else ():
        assert made.take(begin, samples)[0] is batch
        assert made.after(begin, samples) == behind
    assert walks == []
    monkeypatch.undo()
    for begin, batch, behind in taken:
        assert not batch.flags.writeable
        alone, end = order_of(700, random_shuffle=True, initial_fill=64, pad_last_batch=True).take(begin, samples)
        assert (alone.tolist(), end) == (batch.tolist(), behind)


def test_orders_without_shuffling_do_not_import_numba():
    code = (
        "import sys; from asyncdali.sampling.order import SampleOrder; from asyncdali.sampling.sharding import Sharding; "
        "o = SampleOrder(10, Sharding(2, pad_last_batch=True)); "
        "_, p = o.take(o.start, 4); o.take(o.checked(p), 4); assert 'numba' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def best_of(runs, action):
    """The shortest of several runs, in seconds of processor time, because other programs may be busy."""
    times = []
    for _ in range(runs):
        start = time.thread_time()
        action()
        times.append(time.thread_time() - start)
    return min(times)


@pytest.mark.slow  # measures processor time
def test_restoring_is_cheap():
    """A reader of the size of ImageNet at the end of its epoch. Measured: 0.005 ms and 25 ms. The bounds are what the docs promise."""
    far = (980519533, 7, 1_281_000)
    plain = Cursor(1_281_167, 256)
    assert best_of(5, lambda: plain.restore(far)) < 0.001

    def shuffled():
        Cursor(1_281_167, 256, random_shuffle=True).restore(far)

    shuffled()
    assert best_of(5, shuffled) < 0.1
