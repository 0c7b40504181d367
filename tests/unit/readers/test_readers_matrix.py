"""All readers: the order of samples, and exact resumption from every kind of position."""

from __future__ import annotations

import itertools
import json
import os

import pytest
from helpers.orders import Cursor
from helpers.readers import COUNT, EVERY_KIND, MATRIX, PARTS, delivered, pipeline

BATCH = 4
MODES = [
    {}, {"random_shuffle": True, "initial_fill": 3}, {"random_shuffle": True}, {"shuffle_after_epoch": True},
    {"shuffle_after_epoch": True, "random_shuffle": True, "initial_fill": 5},
]  # fmt: skip
SHARDS = [{}, {"num_shards": 3, "shard_id": 1}]
CASES = list(itertools.product(range(len(MODES)), range(len(SHARDS)), (False, True), (False, True)))


@pytest.fixture(scope="module", params=sorted(MATRIX))
def data(request, tmp_path_factory):
    kind = EVERY_KIND[request.param]
    return kind, kind.write(tmp_path_factory.mktemp(kind.name.replace(".", "_")))


def arguments_of(kind, mode, shards, stick, pad):
    """The arguments of one combination; None if the reader refuses them."""
    arguments = {**MODES[mode], **SHARDS[shards], "stick_to_shard": stick, "pad_last_batch": pad}
    refused = not kind.after_epoch or stick or ("random_shuffle" in arguments and not kind.contained)
    return None if "shuffle_after_epoch" in arguments and refused else arguments


def expected(kind, arguments, batches):
    containers = PARTS if kind.contained and kind.after_epoch else None
    order = Cursor(COUNT, BATCH, seed=42, checkpointing=True, pre_permute=kind.pre_permute, containers=containers, **arguments)
    return [order.next_batch().tolist() for _ in range(batches)]


def check(data, case, depths=(1, 3), positions=(0, 1, 2, 3, 7, 9)):
    """Positions: the start, the middle, the last batch and the end of an epoch, and one in the third epoch."""
    kind, files = data
    arguments = arguments_of(kind, *case)
    if arguments is None:
        return
    runs = max(positions) + 6
    wanted = expected(kind, arguments, runs)
    first = pipeline(kind, {**files, **arguments, "seed": 42}, batch=BATCH, enable_checkpointing=True)
    saved = {}
    for k in range(runs):
        if k in positions:
            saved[k] = first.checkpoint()
        assert delivered(kind, first, 1) == [wanted[k]], (arguments, k)
    for position, depth in itertools.product(positions, depths):
        again = {**files, **arguments, "prefetch_queue_depth": depth, "seed": 9}
        options = {"enable_checkpointing": True, "checkpoint": saved[position], "prefetch_queue_depth": depth}
        second = pipeline(kind, again, batch=BATCH, **options)
        assert second.checkpoint() == saved[position]
        assert delivered(kind, second, 6) == wanted[position : position + 6], (arguments, position, depth)


def test_some_positions(data):
    for number, case in enumerate(CASES):
        if number % 9 == 0:
            check(data, case, (1 + 2 * (number & 1),), (number % 4, 9))


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_position(data, case):
    check(data, case)


def test_skipping_reads_nothing(data, monkeypatch):
    """A restored reader continues at its position without reading earlier samples."""
    from asyncdali.readers.base import ReaderOperator

    kind, files = data
    first = pipeline(kind, {**files, "random_shuffle": True}, enable_checkpointing=True)
    rest = delivered(kind, first, 9)
    state = pipeline(kind, {**files, "random_shuffle": True}, enable_checkpointing=True)
    delivered(kind, state, 7)
    saved = state.checkpoint()
    first.close(), state.close()  # no other operator draws from here on
    drawn = []
    real = ReaderOperator.draw
    monkeypatch.setattr(ReaderOperator, "draw", lambda self, *given: drawn.append(given) or real(self, *given))
    options = {"checkpoint": saved, "enable_checkpointing": True, "exec_pipelined": False, "exec_async": False}
    second = pipeline(kind, {**files, "random_shuffle": True}, **options)
    assert not drawn
    assert delivered(kind, second, 2) == rest[7:]


def test_metadata_and_lazy_discovery(data):
    kind, files = data
    pipe = pipeline(kind, {**files, "num_shards": 3, "shard_id": 2, "pad_last_batch": True, "lazy_init": True})
    sizes = {"epoch_size": COUNT, "epoch_size_padded": 12, "number_of_shards": 3, "shard_id": 2}
    assert pipe.reader_meta("R") == {**sizes, "pad_last_batch": 1, "stick_to_shard": 0}
    assert delivered(kind, pipe, 2) == [[6, 7, 8, 9], [0, 1, 2, 2]]


def test_hints_change_nothing(data):
    kind, files = data
    hints = {"prefetch_queue_depth": 3, "read_ahead": True, "dont_use_mmap": True, "tensor_init_bytes": 5, "bytes_per_sample_hint": 7}
    plain = delivered(kind, pipeline(kind, {**files, "random_shuffle": True}), 6)
    assert plain == delivered(kind, pipeline(kind, {**files, "random_shuffle": True, **hints}), 6)


def test_hints_reach_the_system(data, monkeypatch):
    """With `prefetch_queue_depth` the files of the next batches are announced to the system, and are read later."""
    from asyncdali.readers.base import ReaderOperator

    kind, files = data
    asked, drawn = [], []
    ahead, draw = ReaderOperator.ahead, ReaderOperator.draw
    monkeypatch.setattr(ReaderOperator, "ahead", lambda self, given: asked.append(ahead(self, given)) or asked[-1])
    monkeypatch.setattr(ReaderOperator, "draw", lambda self, *given: drawn.append(draw(self, *given)) or drawn[-1])
    options = {"exec_pipelined": False, "exec_async": False}
    pipe = pipeline(kind, {**files, "random_shuffle": True, "prefetch_queue_depth": 3, "read_ahead": True}, batch=2, **options)
    for _ in range(5):
        pipe.run()
    assert asked[0].tolist() == [*drawn[1].indices.tolist(), *drawn[2].indices.tolist()]
    assert [batch.tolist() for batch in asked[1:3]] == [draw.indices.tolist() for draw in drawn[3:5]]


def test_every_reader_says_what_it_reads(data):
    """A checkpoint contains a digest of the files that each reader reads."""
    kind, files = data
    saved = [pipeline(kind, files, enable_checkpointing=True).checkpoint() for _ in range(2)]
    entries = [json.loads(item)["body"]["graph"]["operators"]["R"] for item in saved]
    assert entries[0] == entries[1] and len(entries[0]["names"]) == 32


def test_provenance_names_the_files_and_records_that_are_read(data):
    kind, files = data
    pipe = pipeline(kind, {**files, "random_shuffle": True, "seed": 42}, batch=BATCH)
    for step in range(4):
        told = pipe.provenance(step)
        assert [taken.number for taken in told.readers["R"]] == delivered(kind, pipe, 1)[0]
        assert len({taken[1:5] for taken in told.readers["R"]}) == len({taken.number for taken in told.readers["R"]})
        for taken in told.readers["R"]:
            assert os.path.basename(taken.file) in {name for _, _, names in os.walk(root_of(files)) for name in names}, taken
            assert (taken.offset is None) == (taken.size is None)


def root_of(files):
    """The folder that contains all files of a data set."""
    values = [path for value in files.values() for path in (value if isinstance(value, list) else [value])]
    found = os.path.commonpath([path for path in values if isinstance(path, str) and os.sep in path])
    return found if os.path.isdir(found) else os.path.dirname(found)
