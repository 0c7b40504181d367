"""The PyTorch iterators beside DALI's: lengths of epochs, sizes of batches, and contents, bit for bit."""

from __future__ import annotations

import itertools
import random
import warnings

import numpy as np
import pytest
from helpers.iterators import epochs, numbered_files, numbers, reader_pipelines, source_pipeline, walk

import asyncdali

torch = pytest.importorskip("torch", reason="torch is not installed")
dali = pytest.importorskip("nvidia.dali", reason="DALI is not installed")
peer = pytest.importorskip("nvidia.dali.plugin.pytorch", reason="DALI has no PyTorch plugin here")
from asyncdali.plugin import pytorch as ours  # noqa: E402

LIBRARIES = ((dali, peer), (asyncdali, ours))


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def both(make):
    """The results of `make(library, plugin)` for DALI and for asyncdali. An error counts as a result."""
    found = []
    for lib, plugin in LIBRARIES:
        try:
            found.append(make(lib, plugin))
        except (AssertionError, ValueError, RuntimeError) as error:
            found.append("no data" if "no data" in str(error) else error)
    return found


def reader_case(files, batch, shards, ids, policy, pad, stick, count=4):
    def make(lib, plugin):
        pipes = reader_pipelines(files, batch, shards, ids, lib, random=True, pad_last_batch=pad, stick_to_shard=stick)
        iterator = plugin.DALIGenericIterator(
            pipes, ["number", "draw"], reader_name="reader", auto_reset=True, last_batch_policy=plugin.LastBatchPolicy[policy]
        )
        return epochs(iterator, count)

    return both(make)


def departs(samples, batch, shards, policy, pad):
    """Whether the libraries differ: with DROP and padded, unequal shards DALI returns padding as the next epoch (docs/differences.md)."""
    return policy == "DROP" and pad and (samples // shards) % batch == 0 and samples % shards != 0


PLACES = [(False, 1), (False, 2), (True, 2), (False, 3), (True, 3)]
CASES = [(policy, pad, *place) for policy, pad, place in itertools.product(["FILL", "DROP", "PARTIAL"], [False, True], PLACES)]


@pytest.mark.parametrize("policy, pad, stick, shards", CASES)
def test_reader_epochs(tmp_path, policy, pad, stick, shards):
    """One iterator over all shards, and one iterator over one shard."""
    for samples, batch, ids in ((10, 4, range(shards)), (7, 2, [shards - 1])):
        if not departs(samples, batch, shards, policy, pad):
            theirs, mine = reader_case(numbered_files(tmp_path, samples), batch, shards, list(ids), policy, pad, stick)
            assert mine == theirs, (samples, batch, ids)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_reader_epochs_of_any_shape(tmp_path, seed):
    choose = random.Random(seed)
    for _ in range(40):
        samples, batch = choose.randint(1, 14), choose.randint(1, 6)
        shards = choose.randint(1, min(4, samples))
        policy, pad, stick = choose.choice(["FILL", "DROP", "PARTIAL"]), choose.random() < 0.5, choose.random() < 0.5
        ids = list(range(shards)) if choose.random() < 0.5 else [choose.randrange(shards)]
        if departs(samples, batch, shards, policy, pad):
            continue
        theirs, mine = reader_case(numbered_files(tmp_path, samples), batch, shards, ids, policy, pad, stick)
        assert mine == theirs, (samples, batch, shards, ids, policy, pad, stick)


@pytest.mark.parametrize("policy", ["FILL", "DROP", "PARTIAL"])
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("pipelines", [1, 2])
def test_epochs_of_a_given_size(tmp_path, policy, padded, pipelines):
    for samples, batch, size in ((10, 4, 10), (7, 2, 7), (12, 3, 5), (6, 3, 13)):
        files = numbered_files(tmp_path, samples)

        def make(lib, plugin, files=files, batch=batch, size=size):
            pipes = reader_pipelines(files, batch, pipelines, range(pipelines), lib, pad_last_batch=padded)
            iterator = plugin.DALIGenericIterator(
                pipes, ["number"], size=size, auto_reset="yes", last_batch_padded=padded, last_batch_policy=plugin.LastBatchPolicy[policy]
            )
            return epochs(iterator, 4)

        theirs, mine = both(make)
        assert mine == theirs, (samples, batch, size)


@pytest.mark.parametrize("auto_reset", [False, None, "no", True, "yes"])
def test_epochs_ended_by_sources(auto_reset):
    def make(lib, plugin):
        iterator = plugin.DALIGenericIterator(
            source_pipeline(3, 4, lib, last=1), ["x"], auto_reset=auto_reset, last_batch_policy=plugin.LastBatchPolicy.PARTIAL
        )
        return [len(iterator), iterator.size, *([numbers(batch) for batch in iterator] for _ in range(3))]

    theirs, mine = both(make)
    assert mine == theirs and len(mine) == 5


@pytest.mark.parametrize("auto_reset", [False, True])
@pytest.mark.parametrize("prepare", [False, True])
def test_reset_and_iter(tmp_path, auto_reset, prepare):
    files = numbered_files(tmp_path, 10)
    moves = ["next", "iter", "reset", "rest", "length"]
    for seed in range(8):
        choose = random.Random(seed)
        plan = [choose.choice(moves) for _ in range(12)]

        def make(lib, plugin, plan=plan):
            iterator = plugin.DALIGenericIterator(
                reader_pipelines(files, 4, 1, [0], lib), ["x"], reader_name="reader", auto_reset=auto_reset, prepare_first_batch=prepare
            )
            found = []
            for move in plan:
                if move == "iter":
                    iter(iterator)
                elif move == "reset":
                    iterator.reset()
                elif move == "length":
                    found.append((len(iterator), iterator.size))
                else:
                    for _ in range(1 if move == "next" else 9):
                        try:
                            found.append(numbers(iterator.next()))
                        except StopIteration:
                            found.append("end")
                            break
            return found

        theirs, mine = both(make)
        assert mine == theirs, plan


@pytest.mark.parametrize("policy", ["FILL", "DROP", "PARTIAL"])
@pytest.mark.parametrize("pad", [False, True])
@pytest.mark.parametrize("prepare", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_restored_iterators_continue_as_in_dali(tmp_path, policy, pad, prepare):
    """Each library restores its own checkpoint.

    One case is left out: if the batch that is prepared after a restore is the end of an epoch, DALI loses this end.
    """
    files = numbered_files(tmp_path, 10)
    for stop in (0, 2, 3):
        def make(lib, plugin, stop=stop):
            def iterator(checkpoints=None):
                return plugin.DALIGenericIterator(
                    reader_pipelines(files, 4, 1, [0], lib, checkpoints, True, random_shuffle=True, initial_fill=4, pad_last_batch=pad),
                    ["x", "draw"], reader_name="reader", auto_reset=True, last_batch_policy=plugin.LastBatchPolicy[policy],
                    prepare_first_batch=prepare,
                )  # fmt: skip

            first = iterator()
            before = walk(first, stop)
            return before, walk(iterator(first.checkpoints()), 7), walk(first, 7)

        theirs, mine = both(make)
        assert mine[1] == mine[2] == theirs[2] and mine[0] == theirs[0]
        if theirs[1] == theirs[2]:
            assert mine[1] == theirs[1]


@pytest.mark.parametrize("tag", ["DENSE_TAG", "SPARSE_LIST_TAG", "SPARSE_COO_TAG"])
def test_ragged(tag):
    def make(lib, plugin):
        pipe = lib.Pipeline(batch_size=3, num_threads=1, device_id=None)
        with pipe:
            lengths = (2, 2, 2) if tag == "DENSE_TAG" else (2, 0, 3)
            pipe.set_outputs(lib.fn.external_source(lambda i: [np.arange(n, dtype=np.float32) + 10 * i for n in lengths]))
        kind = plugin.DALIRaggedIterator
        iterator = kind(pipe, ["x"], size=5, output_types=[getattr(kind, tag)])
        return [batch[0]["x"] for batch in iterator]

    theirs, mine = both(make)
    assert len(theirs) == len(mine) == 2
    for one, two in zip(theirs, mine, strict=True):
        if tag == "SPARSE_LIST_TAG":
            assert [tensor.tolist() for tensor in one] == [tensor.tolist() for tensor in two]
        else:
            assert one.is_sparse == two.is_sparse and one.shape == two.shape and one.dtype == two.dtype
            assert torch.equal(one.to_dense(), two.to_dense())


@pytest.mark.parametrize("arguments", [
    {"size": 0}, {"size": 3, "reader_name": "reader"}, {"last_batch_policy": "FILL"}, {"auto_reset": "maybe"}, {"reader_name": "other"},
    {"reader_name": "reader", "last_batch_padded": True},
])  # fmt: skip
def test_both_refuse(tmp_path, arguments):
    files = numbered_files(tmp_path, 4)
    theirs, mine = both(lambda lib, plugin: plugin.DALIGenericIterator(reader_pipelines(files, 2, 1, [0], lib), ["x"], **arguments))
    assert isinstance(theirs, Exception) and isinstance(mine, (ValueError, RuntimeError))
