"""Ranks of a fleet with select, mix and batch_by: together the stream of one process, for any number of ranks, and after a restart."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from helpers.fleets import TOKEN, actors
from helpers.marks import slow

from asyncdali import fn, pipeline_def
from asyncdali.fleet import loader

COUNT, BATCH, EVENTS = 40, 6, 18
BROKEN = (5, 12, 33)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("numbers")
    names = [str(folder / f"{k:02}.npy") for k in range(COUNT)]
    for k, name in enumerate(names):
        np.save(name, np.int32([k]))
    for k in BROKEN:
        (folder / f"bad{k:02}.npy").write_bytes(b"nothing")
    return names


def refuse(value):
    if value[0] % 17 == 4:
        raise ValueError("bad")
    return value


def selected(files, broken):
    number = fn.readers.numpy(files=files, random_shuffle=True)
    return fn.experimental.select(number, fn.random.uniform(), where=number[0] % 3 != 1)


def mixed(files, broken):
    parts = []
    for k in range(2):
        number = fn.readers.numpy(files=files[k * 15 : k * 15 + 20], random_shuffle=True)
        parts.append(((number, fn.random.uniform()), k + 1))
    return fn.experimental.mix(parts, per="sample", stop="last")


def by_length(files, broken):
    number = fn.readers.numpy(files=files, random_shuffle=True)
    return fn.experimental.batch_by(number, fn.random.uniform(), length=number[0] + 1, budget=200, window=16)


def repaired(files, broken):
    names = [broken.get(k, name) for k, name in enumerate(files)]
    number = fn.readers.numpy(files=names, random_shuffle=True)
    number, draw = fn.experimental.select(number, fn.random.uniform(), where=number[0] % 3 != 1)
    return fn.python_function(number, function=refuse), draw


GRAPHS = {"select": (selected, {}), "mix": (mixed, {}), "batch_by": (by_length, {}), "replace": (repaired, {"on_error": "replace"})}


def program(files, name, **options):
    graph, more = GRAPHS[name]
    broken = {k: files[0].replace("00.npy", f"bad{k:02}.npy") for k in BROKEN}

    @pipeline_def(batch_size=BATCH, num_threads=2, device_id=None, seed=1, enable_checkpointing=True, **{**more, **options})
    def train():
        number, draw = graph(files, broken)
        return number, draw, fn.random.uniform()

    return train


def samples(outputs):
    return [tuple(float(np.ravel(column[k])[0]) for column in outputs) for k in range(len(outputs[0]))]


def events(batches, count):
    """The next batches of this rank, and ends of epochs."""
    found = []
    while len(found) < count:
        try:
            found.append(samples(batches.pipeline.run()))
        except StopIteration:
            batches.pipeline.reset()
            found.append("end")
    return found


def ranks(train, world, count, **options):
    """The events of all ranks together, and a checkpoint in between, which is the same on all ranks."""
    parts, saved = [], []
    for rank in range(world):
        with loader(train, rank=rank, world_size=world, **options) as batches:
            first = events(batches, count // 2)
            saved.append(batches.checkpoint())
            parts.append(first + events(batches, count - count // 2))
        on_error = batches.pipeline._core.options.on_error
    assert len(set(saved)) == 1 or on_error != "raise"  # a checkpoint has the number of bad samples that a rank has found
    return ["end" if each[0] == "end" else list(itertools.chain(*each)) for each in zip(*parts, strict=True)], saved[0]


@pytest.mark.parametrize("changes", [{2: [3], 3: [1]}, *slow({2: [1, 2, 3], 3: [1, 2, 3]})], ids=["some", "all"])
@pytest.mark.parametrize("name", GRAPHS)
def test_the_ranks_make_the_stream_of_one_process(files, name, changes):
    """`changes`: numbers of ranks after a checkpoint, by the number before."""
    train = program(files, name)
    wanted, _ = ranks(train, 1, EVENTS)
    assert "end" in wanted
    pipe = train()
    alone = []
    while len(alone) < EVENTS:
        try:
            alone.append(samples(pipe.run()))
        except StopIteration:
            pipe.reset()
            alone.append("end")
    pipe.close()
    assert wanted == alone
    for world, others in changes.items():
        found, saved = ranks(train, world, EVENTS)
        assert found == wanted
        for other in others:
            again, _ = ranks(train, other, EVENTS - EVENTS // 2, checkpoint=saved)
            assert again == wanted[EVENTS // 2 :], (world, other)


def test_engines_of_this_machine(files):
    train = program(files, "select")
    wanted, _ = ranks(train, 1, EVENTS)
    found, _ = ranks(train, 2, EVENTS, engines=2)
    assert found == wanted


def test_epochs_of_a_loader(files):
    train = program(files, "select")
    for rank in range(2):
        with loader(train, rank=rank, world_size=2) as batches:
            sizes = [[len(batch[0]) for batch in batches] for _ in range(2)]
        passing = sum(k % 3 != 1 for k in range(COUNT))
        assert [len(epoch) for epoch in sizes] == [-(-passing // BATCH)] * 2


def test_engines_on_other_machines_are_refused(files):
    train = program(files, "select")
    with actors(program_without(files), 1) as found:
        batches = loader(train, rank=0, world_size=1, engines=[found[0].address], token=TOKEN)
        with pytest.raises(RuntimeError, match=r"does not run with engines on other machines.*Use engines of this machine"):
            batches.__enter__()


def program_without(files):
    @pipeline_def(batch_size=BATCH, num_threads=1, device_id=None, seed=1)
    def train():
        return fn.readers.numpy(files=files)

    return train


@pytest.mark.parametrize("nested", [False, True])
def test_an_order_that_depends_on_time_is_refused(files, nested):
    @pipeline_def(batch_size=BATCH, num_threads=1, device_id=None, seed=1)
    def train():
        number = fn.experimental.ready(fn.readers.numpy(files=files), name="soon")
        return fn.experimental.select(number, where=number[0] > 3) if nested else number

    batches = loader(train, rank=0, world_size=2)
    with pytest.raises(RuntimeError, match=r"'soon' gives batches as they are finished, so ranks"):
        batches.__enter__()
