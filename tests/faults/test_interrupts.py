"""Ctrl-C at any instant of `run()`: the batch it was to return comes next, once, and nothing else changes."""

from __future__ import annotations

import pytest
from helpers.pipelines import run_script

RAIN = """
    import itertools, sys, time
    import numpy as np
    from helpers.interrupts import Interrupts
    from helpers.pipelines import pipeline_of
    from helpers.sources import Positions
    from asyncdali import Pipeline, fn

    SECONDS = float(sys.argv[1])
    interrupts = Interrupts(Pipeline.run)

    def batch(k):
        return np.array([[4 * k + j, j, k, 0] for j in range(4)])

    class Batches:
        k = -1
        def __iter__(self):
            return self
        def __next__(self):
            self.k += 1
            return batch(self.k)

    async def awaited(k):
        return batch(k)

    async def awaited_batches():
        for k in itertools.count():
            yield batch(k)

    def drawn():
        return fn.random.uniform(range=(0, 1), shape=[2])

    GRAPHS = {
        "random": drawn,
        "called": lambda: fn.external_source(Positions(1 << 40), batch=False),
        "parallel": lambda: fn.external_source(Positions(1 << 40), batch=False, parallel=True),
        "iterator": lambda: fn.external_source(Batches(), parallel=True),
        "awaited": lambda: fn.external_source(awaited),
        "stream": lambda: fn.external_source(awaited_batches),
    }

    def expected(kind):
        if kind != "random":
            yield from map(batch, itertools.count())
        reference = pipeline_of(drawn, batch_size=4)
        while True:
            reference.schedule_run()  # not `run`, which is interrupted
            yield reference.outputs()[0].as_array()

    def rain_on(kind, depth):
        pipe = pipeline_of(GRAPHS[kind], batch_size=4, prefetch_queue_depth=depth, enable_checkpointing=kind == "random")
        pipe.build()
        batches, raised, delivered = expected(kind), interrupts.raised, 0
        limit = time.monotonic() + SECONDS
        interrupts.rain(0.0003)
        while time.monotonic() < limit:
            try:
                outputs = pipe.run()
            except KeyboardInterrupt:
                if kind == "random":
                    pipe.checkpoint()
                continue
            np.testing.assert_array_equal(outputs[0].as_array(), next(batches), err_msg=f"{kind}, batch {delivered}")
            delivered += 1
            assert len(pipe._session.in_flight) < depth
        interrupts.rain(0)
        assert interrupts.raised - raised > 50 * SECONDS and delivered > 50 * SECONDS, (kind, interrupts.raised - raised, delivered)
        for _ in range(3):
            np.testing.assert_array_equal(pipe.run()[0].as_array(), next(batches), err_msg=kind)
        assert len(pipe._session.in_flight) == depth - 1
        if kind == "random":
            restored = pipeline_of(drawn, batch_size=4, enable_checkpointing=True, checkpoint=pipe.checkpoint())
            np.testing.assert_array_equal(restored.run()[0].as_array(), next(batches))

    for case in sys.argv[2:]:
        kind, depth = case.split("-")
        rain_on(kind, int(depth))
    print("nothing lost")
"""

CASES = ["random-1", "random-3", "called-2", "parallel-2", "iterator-2", "awaited-2", "stream-3"]


@pytest.mark.parametrize("seconds", [0.3, pytest.param(20, marks=pytest.mark.slow)])
def test_interrupts_at_any_instant_of_run(seconds):
    done = run_script(RAIN, seconds, *CASES, timeout=60 + len(CASES) * seconds)
    assert done.stdout == "nothing lost\n", done.stderr
