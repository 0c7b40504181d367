"""SystemExit and KeyboardInterrupt that leave a source come out of the call that asks it, and the pipeline continues."""

import asyncio
import threading

import numpy as np
import pytest

from asyncdali import fn, pipeline_def
from asyncdali.sources.awaited import source_loop

EXITS = [SystemExit, KeyboardInterrupt]
LIMIT = 30


class Once:
    """Raises an exit at the first request of batch 3."""

    def __init__(self, kind):
        self.kind, self.left = kind, True

    def check(self, number):
        if number == 3 and self.left:
            self.left = False
            raise self.kind(7)


def batch_of(number):
    return [np.int32([number])] * 2


def sources(once):
    async def batch(info):
        once.check(info.iteration)
        return batch_of(info.iteration)

    async def nested(info):
        async def inner():
            once.check(info.iteration)

        await asyncio.gather(asyncio.ensure_future(inner()), asyncio.sleep(0))
        return batch_of(info.iteration)

    async def sample(info):
        once.check(info.iteration if info.idx_in_batch == 1 else -1)
        return np.int32([info.iteration])

    class Items:
        number = -1

        def __aiter__(self):
            return self

        async def __anext__(self):
            once.check(self.number + 1)
            self.number += 1
            return batch_of(self.number)

    def called(info):
        once.check(info.iteration)
        return batch_of(info.iteration)

    return {
        "batch": lambda: fn.external_source(batch, batch_info=True),
        "nested": lambda: fn.external_source(nested, batch_info=True),
        "sample": lambda: fn.external_source(sample, batch=False),
        "items": lambda: fn.external_source(Items()),
        "called": lambda: fn.external_source(called, batch_info=True),
    }


def number(outputs):
    return int(np.asarray(outputs[0].as_tensor()).ravel()[0])


@pytest.mark.parametrize("exit_kind", EXITS)
@pytest.mark.parametrize("source", ["batch", "nested", "sample", "items", "called"])
@pytest.mark.parametrize("awaited", [False, True])
def test_an_exit_comes_out_of_the_call(source, awaited, exit_kind):
    @pipeline_def(batch_size=2, num_threads=1, prefetch_queue_depth=2)
    def graph():
        return sources(Once(exit_kind))[source]()

    pipe = graph()
    found = []

    def collect():
        for _ in range(7):
            try:
                outputs = asyncio.run(asyncio.wait_for(pipe.run_async(), LIMIT)) if awaited else pipe.run()
                found.append(number(outputs))
            except exit_kind as error:
                found.append(error.args)

    thread = threading.Thread(target=collect, daemon=True)
    thread.start()
    thread.join(LIMIT)
    pipe.close()
    assert found == [0, 1, (7,), 2, 3, 4, 5] and source_loop().thread.is_alive()


def test_the_loop_outlives_a_task_without_a_waiter():
    """A source starts a task, which exits, and does not wait for the task."""
    once = Once(SystemExit)

    async def batch(info):
        async def inner():
            once.check(info.iteration)

        task = asyncio.ensure_future(inner())
        await asyncio.wait([task])
        if task.exception() is not None:
            assert task.exception().code == 7
        return batch_of(info.iteration)

    @pipeline_def(batch_size=2, num_threads=1)
    def graph():
        return fn.external_source(batch, batch_info=True)

    pipe, found = graph(), []
    thread = threading.Thread(target=lambda: found.extend(number(pipe.run()) for _ in range(6)), daemon=True)
    thread.start()
    thread.join(LIMIT)
    pipe.close()
    assert found == list(range(6)) and not once.left
