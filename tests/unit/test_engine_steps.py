"""Positions that count steps from a base position, and `run()` calls that receive the answers of engines themselves."""

from __future__ import annotations

import asyncio
import threading

import numpy as np
import pytest
from helpers.engines import data_files, pipeline, stream

from asyncdali import fn
from asyncdali.engines import handover, sending


@pytest.fixture
def files(tmp_path):
    return data_files(tmp_path)


def reading(files):
    def define():
        data, labels = fn.readers.file(files=files, name="reader", random_shuffle=True, initial_fill=5)
        return data, labels, fn.random.uniform(range=[0, 100])

    return define


def loader_of(pipe):
    pipe.build()
    return pipe._core.session.engines.loader


@pytest.mark.parametrize("engines, renewed", [(1, 3), (2, 1)])
def test_new_bases_do_not_change_batches(files, monkeypatch, engines, renewed):
    """Checkpoints are taken before and after each new base. They do not change later batches."""
    for module in (sending, handover):
        monkeypatch.setattr(module, "RENEWED", renewed)
    plain = pipeline(reading(files), 0)
    pipe = pipeline(reading(files), engines)
    saved = None
    for k in range(15):
        assert stream(pipe, 1) == stream(plain, 1)
        if k % 4 == 1:
            saved = plain.checkpoint()
            assert pipe.checkpoint() == saved
    assert loader_of(pipe)._bases > 2
    resumed = pipeline(reading(files), engines, checkpoint=pipe.checkpoint())
    assert stream(resumed, 5) == stream(plain, 5)
    for each in (plain, pipe, resumed):
        each.close()


def test_a_base_gives_positions_in_any_order(files):
    """Positions are values without side effects, so steps may be requested in any order."""
    pipe = pipeline(reading(files), 1)
    stream(pipe, 1)
    base = loader_of(pipe).base
    wanted = [base.data(steps) for steps in range(30)]
    assert [base.data(steps) for steps in reversed(range(30))] == wanted[::-1]
    assert len({str(item) for item in wanted}) == 30
    pipe.close()


def test_a_waiting_call_receives_the_answers(files):
    """If engines compute whole iterations, a waiting `run()` call receives the answers. The loop's thread receives at other times."""
    plain = pipeline(reading(files), 0)
    wanted = stream(plain, 12)
    pipe = pipeline(reading(files), 2)
    loader = loader_of(pipe)
    assert stream(pipe, 4) == wanted[:4] and loader.is_here
    assert [item.answered for item in pipe.statistics().engines] and loader.is_here

    async def later():
        return [list(map(digest, await pipe.run_async())) for _ in range(4)]

    def digest(output):
        return [bytes(output.at(k)) for k in range(len(output))]

    found = asyncio.run(later())
    assert not loader.is_here
    again = pipeline(reading(files), 0)
    assert found == [list(map(digest, again.run())) for _ in range(8)][4:]
    assert stream(pipe, 4) == wanted[8:]
    deep = pipeline(reading(files), 1, prefetch_queue_depth=5)
    assert not loader_of(deep).is_here and stream(deep, 12) == wanted
    for each in (plain, pipe, again, deep):
        each.close()


def test_threads_that_run_one_pipeline(files):
    """Several threads run one pipeline and receive in turn. Each iteration is returned once."""
    plain = pipeline(reading(files), 0)
    wanted = sorted(map(str, stream(plain, 24)))
    pipe = pipeline(reading(files), 2)
    found = []

    def run():
        for _ in range(8):
            found.append(str(stream(pipe, 1)[0]))

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    assert sorted(found) == wanted
    for each in (plain, pipe):
        each.close()


def test_batches_of_another_size_begin_a_new_base():
    sizes = [4, 4, 2, 4, 1, 1, 4]

    def define():
        fed = fn.external_source(lambda k: [np.float32(k)] * sizes[k % len(sizes)])
        return fed + 1, fn.random.uniform(fed, range=[0, 1])

    plain, pipe = pipeline(define, 0), pipeline(define, 2, engine_sources=False)
    assert stream(pipe, 14) == stream(plain, 14)
    assert pipe.checkpoint() == plain.checkpoint()
    plain.close()
    pipe.close()
