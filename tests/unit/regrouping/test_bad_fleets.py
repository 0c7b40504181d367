"""Bad samples of ranks, and of engines on other machines: all ranks replace by one rule, and no rank waits for another."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from helpers.fleets import TOKEN, actors

from asyncdali import fn, pipeline_def
from asyncdali.fleet import loader, near

BATCH, COUNT, RUNS = 6, 40, 9
BROKEN = (2, 9, 10, 15, 31)
"""Files that are no arrays."""
RAISES = (4, 13, 26)
"""Indices for which the source raises."""


def numbered(info):
    if info.idx_in_epoch in RAISES:
        raise KeyError(info.idx_in_epoch)
    return np.int32([info.idx_in_epoch])


@pytest.fixture(scope="module")
def train(tmp_path_factory):
    folder = tmp_path_factory.mktemp("arrays")
    names = [str(folder / f"{k}.npy") for k in range(COUNT)]
    for k, name in enumerate(names):
        np.save(name, np.int32([k]))
    for k in BROKEN:
        (folder / f"{k}.npy").write_bytes(b"nothing")

    @pipeline_def(batch_size=BATCH, num_threads=2, seed=5, device_id=None)
    def train():
        data = fn.readers.numpy(files=names, name="reader", random_shuffle=True)
        return data, fn.external_source(source=numbered, batch=False, name="numbers"), fn.random.uniform()

    return train


@pytest.fixture(scope="module")
def addresses(train):
    with actors(train, 2) as found:
        yield [actor.address for actor in found]


def stream(pipe, runs=RUNS):
    found = []
    for _ in range(runs):
        columns = [[np.asarray(item).ravel().tolist() for item in column] for column in pipe.run()]
        found.append([tuple(value for (value,) in sample) for sample in zip(*columns, strict=True)])
    return found


@pytest.fixture(scope="module", params=["replace", "drop"])
def wanted(train, request):
    pipe = train(on_error=request.param)
    pipe.build()
    made = stream(pipe)
    assert {entry.index for entry in pipe.quarantine() if entry.reader == "reader"} == set(BROKEN)
    assert {entry.index for entry in pipe.quarantine() if entry.reader == "numbers"} >= set(RAISES)
    pipe.close()
    return request.param, made


def ranks_of(train, count, on_error, engines=0, **options):
    options = options if isinstance(engines, int) else {"token": TOKEN, **options}
    return [loader(train, rank=r, world_size=count, engines=engines, on_error=on_error, **options) for r in range(count)]


def together(parts):
    return [list(itertools.chain(*samples)) for samples in zip(*parts, strict=True)]


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("remote", [False, True])
def test_the_ranks_make_the_stream_of_one_process(train, addresses, wanted, count, remote):
    on_error, expected = wanted
    ranks = ranks_of(train, count, on_error, addresses if remote else 0)
    parts = [stream(rank.pipeline) for rank in ranks]
    assert together(parts) == expected
    if on_error == "replace":
        assert {len(batch) for part in parts for batch in part} == {BATCH // count}
    for rank in ranks:
        rank.close()


def test_batches_that_come_by_tcp(train, addresses, wanted, monkeypatch):
    monkeypatch.setattr(near, "connect", lambda place, timeout: None)
    ranks = ranks_of(train, 2, wanted[0], addresses)
    assert together([stream(rank.pipeline) for rank in ranks]) == wanted[1]
    for rank in ranks:
        rank.close()


def test_ranks_restart_in_any_number(train, addresses, wanted):
    on_error, expected = wanted
    before = ranks_of(train, 2, on_error, addresses)
    assert together([stream(rank.pipeline, 4) for rank in before]) == expected[:4]
    saved = before[0].checkpoint()
    for rank in before:
        rank.close()
    after = ranks_of(train, 3, on_error, checkpoint=saved)
    assert together([stream(rank.pipeline, RUNS - 4) for rank in after]) == expected[4:]
    for rank in after:
        rank.close()


@pytest.mark.parametrize("on_error", ["replace", "drop"])
def test_a_rank_that_makes_all_samples(train, on_error, tmp_path):
    names = [str(tmp_path / f"{k}.npy") for k in range(2 * BATCH)]
    for k, name in enumerate(names):
        np.save(name, np.int32([k]))
    (tmp_path / "7.npy").write_bytes(b"nothing")

    @pipeline_def(batch_size=BATCH, num_threads=2, seed=5, device_id=None)
    def define():
        data = fn.readers.numpy(files=names, name="reader")
        numbers = fn.external_source(source=lambda info: np.int32([info.idx_in_epoch]), batch=False)
        order = fn.batch_permutation()  # needs the whole batch
        return fn.permute_batch(data, indices=order), data, numbers

    pipe = define(on_error=on_error)
    pipe.build()
    expected = stream(pipe, 2)
    pipe.close()
    assert [len(batch) for batch in expected] == ([6, 5] if on_error == "drop" else [6, 6])
    ranks = ranks_of(define, 2, on_error)
    parts = [stream(rank.pipeline, 2) for rank in ranks]
    assert ranks[0].made_whole
    assert together(parts) == expected
    for rank in ranks:
        rank.close()
