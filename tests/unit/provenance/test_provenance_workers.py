"""Provenance names the process that has computed each sample of a source: here each sample is the id of its process."""

from __future__ import annotations

import itertools
import os
import re
import signal
from contextlib import closing

import numpy as np
import pytest
from helpers.fleets import TOKEN, actors

from asyncdali import fn, pipeline_def
from asyncdali.fleet import loader

SIZE = 6
NAMED = re.compile(r"worker (\d+) \(process (\d+)\)")


def of_sample(info):
    return np.int64([os.getpid(), info.idx_in_epoch])


def of_batch(iteration):
    return np.full((SIZE, 1), os.getpid(), np.int64)


class Dying:
    """Ends its process at one sample, as long as a file is there."""

    def __init__(self, flag):
        self.flag = str(flag)

    def __call__(self, info):
        if info.idx_in_epoch == SIZE + 2:
            try:
                os.remove(self.flag)
            except FileNotFoundError:
                pass
            else:
                os.kill(os.getpid(), signal.SIGKILL)
        return of_sample(info)


class Refusing:
    """Fails at one sample."""

    def __call__(self, info):
        if info.idx_in_epoch == 3:
            raise ValueError("no such sample")
        return of_sample(info)


def generated():
    while True:
        yield of_batch(0)


@pipeline_def(batch_size=SIZE, num_threads=1, seed=3)
def reading(source, batch=False, parallel=True):
    return fn.external_source(source, batch=batch, parallel=parallel, name="S")


def pids(batch):
    return [int(np.asarray(batch.at(k)).reshape(-1)[0]) for k in range(len(batch))]


def told_pids(told):
    return [int(NAMED.fullmatch(text)[2]) for text in told.workers["S"]]


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_each_sample_names_its_worker(method):
    with closing(reading(of_sample, py_num_workers=2, py_start_method=method)) as pipe:
        seen = {}
        for _ in range(8):
            (batch,) = pipe.run()
            told = batch.provenance()
            assert told_pids(told) == pids(batch) and os.getpid() not in pids(batch)
            assert told.returned and told.sample(1)["workers"] == {"S": told.workers["S"][1]}
            assert f"S by {told.workers['S'][0]}" in str(told)
            seen.update({int(NAMED.fullmatch(text)[1]): int(NAMED.fullmatch(text)[2]) for text in told.workers["S"]})
        assert seen.keys() <= {0, 1} and len(set(seen.values())) == len(seen)


def test_ranks_of_a_fleet_name_their_workers_and_the_engine():
    @pipeline_def(batch_size=SIZE, num_threads=1, seed=3, py_num_workers=2)
    def train():
        return fn.external_source(of_sample, batch=False, parallel=True, name="S") * 1

    with actors(train, 1) as found:
        for rank in range(2):
            with loader(train, rank=rank, world_size=2, engines=[actor.address for actor in found], token=TOKEN) as batches:
                for (batch,) in itertools.islice(batches, 3):
                    told = batch.provenance()
                    assert told_pids(told) == pids(batch) and len(batch) == SIZE // 2
                    assert told.engine.startswith("engine 127.0.0.1:")


@pytest.mark.parametrize("source", [of_batch, generated])
def test_a_batch_has_one_worker(source):
    with closing(reading(source, batch=True, py_num_workers=1)) as pipe:
        for _ in range(4):
            (batch,) = pipe.run()
            told = batch.provenance()
            assert told_pids(told) == pids(batch) and len(set(told.workers["S"])) == 1


def test_a_step_that_was_not_returned_has_no_worker():
    with closing(reading(of_sample, py_num_workers=1)) as pipe:
        (batch,) = pipe.run()
        told, returned = pipe.provenance(0), batch.provenance()
        assert not told.returned and told.workers == {"S": ["no worker has run"] * SIZE}
        assert str(told).splitlines()[0] == f"step 0, epoch 0, {SIZE} samples, not returned: no worker has run"
        assert told.sample(0)["workers"] == {"S": "no worker has run"}
        assert told.digest() == returned.digest()


def test_sources_of_this_process_have_no_worker():
    with closing(reading(of_sample, parallel=False)) as pipe:
        (batch,) = pipe.run()
        assert batch.provenance().workers == {} and pids(batch) == [os.getpid()] * SIZE


def test_after_the_death_of_a_worker_the_one_that_answered_is_named(tmp_path):
    flag = tmp_path / "flag"
    flag.touch()
    with closing(reading(Dying(flag), py_num_workers=2, prefetch_queue_depth=2)) as pipe:
        seen = set()
        for step in range(6):
            (batch,) = pipe.run()
            assert [int(row[1]) for row in batch.as_array()] == list(range(step * SIZE, step * SIZE + SIZE))
            assert told_pids(batch.provenance()) == pids(batch)
            seen.update(pids(batch))
        assert not flag.exists()


def test_a_batch_that_this_process_has_asked_for_names_no_worker():
    """With `on_error`, a batch with a bad sample is asked for again in this process."""
    with closing(reading(Refusing(), py_num_workers=1, on_error="replace")) as pipe:
        (batch,) = pipe.run()
        assert pids(batch) == [os.getpid()] * SIZE
        assert batch.provenance().workers == {"S": ["this process"] * SIZE}
        (batch,) = pipe.run()
        assert told_pids(batch.provenance()) == pids(batch)


def test_sources_that_engines_call_name_the_engine():
    with closing(reading(of_sample, parallel=False, engines=2)) as pipe:
        for _ in range(4):
            (batch,) = pipe.run()
            told = batch.provenance()
            assert [text.partition("(process ")[2] for text in told.workers["S"]] == [f"{pid})" for pid in pids(batch)]
            assert set(told.workers["S"]) == {told.engine}
        assert pipe.provenance(2).workers == {"S": ["no worker has run"] * SIZE}


def test_workers_and_engines_together():
    @pipeline_def(batch_size=SIZE, num_threads=1, seed=3, engines=1, py_num_workers=1)
    def graph():
        return fn.external_source(of_sample, batch=False, parallel=True, name="S") * 1

    with closing(graph()) as pipe:
        for _ in range(3):
            (batch,) = pipe.run()
            told = batch.provenance()
            assert told_pids(told) == pids(batch) and told.engine.startswith("engine 0 (process ")
            assert int(told.engine.rpartition(" ")[2][:-1]) not in pids(batch)


def test_behind_a_selection_the_raw_sample_names_its_worker():
    @pipeline_def(batch_size=SIZE, num_threads=1, seed=3, py_num_workers=2)
    def graph():
        row = fn.external_source(of_sample, batch=False, parallel=True, name="S")
        return fn.experimental.select(row, where=row[1] % 2 == 1, name="odd")

    with closing(graph()) as pipe:
        for _ in range(4):
            (batch,) = pipe.run()
            told = batch.provenance()
            found = [told.sample(k)["regrouped"]["odd"]["workers"]["S"] for k in range(SIZE)]
            assert [int(NAMED.fullmatch(text)[2]) for text in found] == pids(batch)
