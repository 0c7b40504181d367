"""Epochs of ranks: last-batch policies, checkpoints near the end of an epoch, sources with a state, and samples that fail.

The oracle is an iterator over the pipeline alone.
"""

from __future__ import annotations

import hashlib
import itertools
import random
from pathlib import Path

import numpy as np
import pytest
from helpers.iterators import numbered_files

import asyncdali
from asyncdali import fn, pipeline_def
from asyncdali.errors import CheckpointError
from asyncdali.fleet import LastBatchPolicy, loader
from asyncdali.plugin.base_iterator import BaseIterator

BATCH = 6
FILES = 17
POLICIES = list(LastBatchPolicy)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return numbered_files(tmp_path_factory.mktemp("files"), FILES)


def train_of(files, **reader):
    @pipeline_def(batch_size=BATCH, num_threads=1, seed=5, enable_checkpointing=True)
    def train():
        _, numbers = fn.readers.file(files=files, labels=list(range(len(files))), name="reader", random_shuffle=True, **reader)
        return numbers, fn.random.uniform(range=[0, 1])

    return train


def values(outputs):
    """The samples of each output."""
    return [[np.asarray(sample).item() for sample in output] for output in outputs]


class Alone(BaseIterator):
    """The iterator over the pipeline alone."""

    def _converted(self, outputs, keep):
        return values(output if keep is None else output[:keep] for output in outputs)

    def _collected(self, converted):
        return converted[0]


def alone(train, policy, checkpoint=None):
    return Alone([train(checkpoint=checkpoint)], ["number", "draw"], reader_name="reader", last_batch_policy=policy)


def epochs_alone(iterator, count):
    return [list(iterator) for _ in range(count)]


class Fleet:
    """All ranks of a training."""

    def __init__(self, train, policy, count, checkpoint=None, **options):
        self.ranks = [
            loader(train, rank=r, world_size=count, checkpoint=checkpoint, last_batch_policy=policy, uneven=True, **options)
            for r in range(count)
        ]

    def epoch(self, most=None):
        """The concatenated batches of an epoch, but at most the next `most` batches."""
        each = [[values(batch) for batch in itertools.islice(rank, most)] for rank in self.ranks]
        assert len({len(batches) for batches in each}) == 1
        return [[list(itertools.chain(*parts)) for parts in zip(*batch)] for batch in zip(*each)]

    def checkpoint(self):
        saved = {rank.checkpoint() for rank in self.ranks}
        assert len(saved) == 1
        return saved.pop()

    def close(self):
        for rank in self.ranks:
            rank.close()


READERS = [
    {},
    {"pad_last_batch": True},
    {"num_shards": 3, "shard_id": 1},
    {"num_shards": 3, "pad_last_batch": True},
    {"num_shards": 2, "shard_id": 1, "stick_to_shard": True},
    {"num_shards": 2, "stick_to_shard": True, "pad_last_batch": True},
]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("reader", READERS, ids=str)
def test_last_batches_are_those_of_an_iterator_over_the_pipeline(files, policy, reader):
    """The last batches are also correct after a restore inside an epoch, with another number of ranks."""
    shard = FILES // reader.get("num_shards", 1)
    if policy is LastBatchPolicy.DROP and shard < BATCH:
        with pytest.raises(ValueError, match="an epoch has no batch"):
            next(iter(loader(train_of(files, **reader), last_batch_policy=policy)))
        return
    train = train_of(files, **reader)
    iterator = alone(train, policy)
    wanted = epochs_alone(iterator, 4)
    before, after = Fleet(train, policy, 3), Fleet(train, policy, 4)
    assert [before.epoch() for _ in range(2)] == wanted[:2]
    assert [after.epoch() for _ in range(2)] == wanted[:2]
    saved = before.checkpoint()
    assert saved == after.checkpoint()
    part = before.epoch(1)
    inside = before.checkpoint()
    for fleet in (before, after):
        fleet.close()
    for data, first in ((saved, []), (inside, part)):
        fleet = Fleet(train, policy, 2, data)
        third = first + fleet.epoch() if len(first) < len(wanted[2]) else first
        assert [third, fleet.epoch()] == wanted[2:]
        fleet.close()


@pytest.mark.parametrize("policy", POLICIES)
def test_a_checkpoint_of_ranks_restores_an_iterator_and_the_other_way(files, policy):
    train = train_of(files)
    wanted = epochs_alone(alone(train, policy), 3)
    fleet = Fleet(train, policy, 2)
    assert [fleet.epoch(), *[fleet.epoch(1)]] == [wanted[0], wanted[1][:1]]
    restored = alone(train, policy, fleet.checkpoint())
    fleet.close()
    assert list(restored) == wanted[1][1:]
    again = Fleet(train, policy, 3, restored.checkpoints()[0])
    assert again.epoch() == wanted[2]
    again.close()


@pytest.mark.parametrize("policy", POLICIES)
def test_a_checkpoint_of_the_pipeline_has_a_place_in_the_epoch(files, policy):
    """The pipeline alone has no last-batch policy. The place in the epoch follows from the number of its iterations."""
    train = train_of(files)
    iterator = alone(train, policy)
    wanted = epochs_alone(iterator, 4)
    for iterations in (1, 3, 4):
        pipe = train()
        for _ in range(iterations):
            pipe.run()
        fleet = Fleet(train, policy, 2, pipe.checkpoint())
        pipe.close()
        done = iterations
        found = [batch for _ in range(2) for batch in fleet.epoch()]
        fleet.close()
        stream = [batch for epoch in wanted for batch in epoch]
        if policy is LastBatchPolicy.DROP:  # an epoch has two batches and one that is discarded
            done = min(iterations % 3, 2) + iterations // 3 * 2
        assert found == stream[done : done + len(found)], iterations


def test_after_a_break_the_next_loop_continues(files):
    train = train_of(files)
    fleet = Fleet(train, LastBatchPolicy.PARTIAL, 2)
    wanted = epochs_alone(alone(train, LastBatchPolicy.PARTIAL), 1)[0]
    assert fleet.epoch(2) + fleet.epoch() == wanted
    assert [len(numbers) for numbers, _ in wanted] == [6, 6, 5]
    fleet.close()


@pytest.mark.parametrize("engines", [0, 1])
def test_a_failing_sample_fails_its_rank(files, engines):
    """The other ranks continue. The next batches and checkpoints of all ranks are those of the pipeline alone."""

    def fails(number):
        if number == 7:
            raise ValueError("seven")
        return number

    @pipeline_def(batch_size=BATCH, num_threads=1, seed=5)
    def train():
        _, numbers = fn.readers.file(files=files, labels=list(range(len(files))), name="reader", pad_last_batch=True)
        return fn.python_function(numbers, function=fails)

    outcomes, saved = [], set()
    for rank in range(3):
        with loader(train, rank=rank, world_size=3, engines=engines, last_batch_policy=LastBatchPolicy.PARTIAL) as batches:
            outcome = []
            while len(outcome) < 6:
                try:
                    for batch in batches:
                        outcome.append(values(batch)[0])
                except RuntimeError as error:
                    assert "seven" in str(error) and error.sample == 1 and error.iteration % 3 == 1
                    outcome.append("failed")
            outcomes.append(outcome)
            saved.add(batches.checkpoint())
    assert outcomes == [
        [[0, 1], "failed", [12, 13], [0, 1], "failed", [12, 13]], [[2, 3], [8, 9], [14, 15]] * 2, [[4, 5], [10, 11], [16]] * 2
    ]  # fmt: skip
    assert len(saved) == 1


class Walk:
    """A source with a state: a random walk."""

    def __init__(self, length=4):
        self.length, self.count, self.rng = length, 0, random.Random(1)

    def __iter__(self):
        self.count = 0
        return self

    def __next__(self):
        if self.count == self.length:
            raise StopIteration
        self.count += 1
        return np.array([self.rng.random() for _ in range(BATCH if self.count < self.length else 2)])

    def state_dict(self):
        return {"count": self.count, "rng": list(self.rng.getstate()[1])}

    def load_state_dict(self, state):
        self.count = state["count"]
        self.rng.setstate((3, tuple(state["rng"]), None))


@pipeline_def(batch_size=BATCH, num_threads=1, seed=5, prefetch_queue_depth=3)
def walking():
    steps = fn.external_source(source=Walk(), name="walk")
    return steps, steps + fn.random.uniform(range=[0, 1])


@pytest.mark.parametrize("place", [2, 4])
def test_a_source_with_a_state_resumes_under_other_ranks(place):
    """At the checkpoint the end of the epoch is in the queue, or directly behind the last batch."""
    whole = Fleet(walking, None, 1)
    wanted = [whole.epoch() for _ in range(3)]
    whole.close()
    assert [len(batch[0]) for batch in wanted[0]] == [6, 6, 6, 2]
    before = Fleet(walking, None, 2)
    assert [before.epoch(), before.epoch(place)] == [wanted[0], wanted[1][:place]]
    after = Fleet(walking, None, 3, before.checkpoint(), engines=1)
    before.close()
    assert [after.epoch(), after.epoch()] == [wanted[1][place:], wanted[2]]
    after.close()


# --- pictures


@pipeline_def(batch_size=12, num_threads=1, seed=7)
def pictures():
    jpegs, labels = fn.readers.file(
        file_root=str(Path(asyncdali.__file__).parent / "data" / "pictures"), random_shuffle=True, name="reader", num_shards=3
    )
    draws = fn.random.uniform(range=[0.5, 1.5])
    return labels, draws, fn.brightness(fn.resize(fn.decoders.image_random_crop(jpegs), size=[20, 20]), brightness=draws)


def digests(policy, count, engines, steps, checkpoint=None):
    """(digests of number, draw and pixels of each sample of the next `steps` global batches, in order; the checkpoint)."""
    ranks = [
        loader(pictures, rank=r, world_size=count, engines=engines, checkpoint=checkpoint, last_batch_policy=policy) for r in range(count)
    ]
    each = []
    for rank in ranks:
        found = []
        while len(found) < steps:
            for batch in itertools.islice(rank, steps - len(found)):
                found.append([b"".join(np.asarray(part).tobytes() for part in sample) for sample in zip(*batch)])
        each.append(found)
    saved = {rank.checkpoint() for rank in ranks}
    for rank in ranks:
        rank.close()
    assert len(saved) == 1
    found = [hashlib.sha256(b"".join(itertools.chain(*parts))).hexdigest() for parts in zip(*each)]
    return found, saved.pop()


def check_resumed(policy, wanted, place, before, after):
    first, saved = digests(policy, *before, place)
    second, _ = digests(policy, *after, len(wanted) - place, saved)
    assert first + second == wanted, (policy, place, before, after)
    return saved


def test_pictures_resume_under_other_ranks_and_engines():
    """A shard of 21 samples gives one or two batches, so place 2 is the end of an epoch."""
    cases = [(2, (6, 0), (2, 2)), (3, (1, 2), (3, 0)), (1, (4, 0), (6, 0))]
    for policy, case in zip(POLICIES, cases):
        wanted, _ = digests(policy, 1, 0, 5)
        assert len(check_resumed(policy, wanted, *case)) <= 8192


@pytest.mark.slow
def test_two_hundred_places_of_pictures():
    streams = {policy: digests(policy, 1, 0, 12)[0] for policy in POLICIES}
    for number in range(200):
        choose = random.Random(number)
        policy = choose.choice(POLICIES)
        before, after = [(choose.choice([1, 2, 3, 4, 6]), choose.choice([0, 0, 0, 2])) for _ in range(2)]
        check_resumed(policy, streams[policy], choose.randint(0, 12), before, after)


# --- refusals


def test_a_policy_needs_a_reader_that_counts(files):
    with pytest.raises(ValueError, match="this pipeline has none: its sources end the epoch"):
        loader(walking, last_batch_policy=LastBatchPolicy.DROP).__enter__()
    with pytest.raises(ValueError, match=r"reader_name='other' is no reader of this pipeline. Readers: reader"):
        loader(train_of(files), last_batch_policy=LastBatchPolicy.DROP, reader_name="other").__enter__()
    with pytest.raises(ValueError, match="has no effect without `last_batch_policy`"):
        loader(train_of(files), reader_name="reader")
    with pytest.raises(TypeError, match=r"must be a LastBatchPolicy or None, got str 'drop'"):
        loader(train_of(files), last_batch_policy="drop")


def test_a_checkpoint_of_other_shards_is_refused(files):
    fleet = Fleet(train_of(files), LastBatchPolicy.FILL, 1)
    fleet.epoch(1)
    saved = fleet.checkpoint()
    fleet.close()
    with pytest.raises(CheckpointError, match="taken with other arguments of the loader"):
        Fleet(train_of(files, num_shards=2), LastBatchPolicy.FILL, 1, saved, strict=False).epoch()
