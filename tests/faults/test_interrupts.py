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
        "engines": drawn,
        "fed_engines": lambda: fn.external_source(Positions(1 << 40), batch=False) * 1,
    }

    def expected(kind):
        if kind not in ("random", "engines"):
            yield from map(batch, itertools.count())
        reference = pipeline_of(drawn, batch_size=4)
        while True:
            reference.schedule_run()  # not `run`, which is interrupted
            yield reference.outputs()[0].as_array()

    def rain_on(kind, depth):
        engines = 2 if kind.endswith("engines") else 0
        pipe = pipeline_of(
            GRAPHS[kind], batch_size=4, prefetch_queue_depth=depth, enable_checkpointing=kind in ("random", "engines"), engines=engines
        )
        pipe.build()
        batches, raised, delivered = expected(kind), interrupts.raised, 0
        limit = time.monotonic() + SECONDS
        interrupts.rain(0.0003)
        while time.monotonic() < limit:
            try:
                outputs = pipe.run()
            except KeyboardInterrupt:
                if kind in ("random", "engines"):
                    pipe.checkpoint()
                continue
            np.testing.assert_array_equal(outputs[0].as_array(), next(batches), err_msg=f"{kind}, batch {delivered}")
            delivered += 1
            assert len(pipe._core.session.in_flight) < depth
        interrupts.rain(0)
        assert interrupts.raised - raised > 50 * SECONDS and delivered > 50 * SECONDS, (kind, interrupts.raised - raised, delivered)
        for _ in range(3):
            np.testing.assert_array_equal(pipe.run()[0].as_array(), next(batches), err_msg=kind)
        assert len(pipe._core.session.in_flight) == depth - 1
        if kind in ("random", "engines"):
            restored = pipeline_of(drawn, batch_size=4, enable_checkpointing=True, checkpoint=pipe.checkpoint())
            np.testing.assert_array_equal(restored.run()[0].as_array(), next(batches))

    for case in sys.argv[2:]:
        kind, depth = case.split("-")
        rain_on(kind, int(depth))
    print("nothing lost")
"""

CASES = ["random-1", "random-3", "called-2", "parallel-2", "iterator-2", "awaited-2", "stream-3", "engines-3", "fed_engines-2"]


@pytest.mark.parametrize("seconds", [0.3, pytest.param(20, marks=pytest.mark.slow)])
def test_interrupts_at_any_instant_of_run(seconds):
    done = run_script(RAIN, seconds, *CASES, timeout=60 + len(CASES) * seconds)
    assert done.stdout == "nothing lost\n", done.stderr


BUILDS = """
    import re, sys, threading, time
    import numpy as np
    from pathlib import Path
    from helpers.images import encode, picture
    from helpers.interrupts import Interrupts
    from helpers.pipelines import pipeline_of
    from helpers.processes import children, descriptors
    from helpers.sources import Positions
    from asyncdali import Pipeline, fn

    folder, seconds, name = sys.argv[1], float(sys.argv[2]), sys.argv[3]
    interrupts = Interrupts(Pipeline.build)
    files = [str(Path(folder) / f"{k}.jpg") for k in range(8)]
    for k, file in enumerate(files):
        Path(file).write_bytes(encode(picture(20, 30, seed=k), "JPEG"))

    def batches():
        while True:
            yield np.zeros((4, 2), np.float32)

    async def awaited(k):
        return np.zeros((4, 2), np.float32)

    def decoded():
        data, labels = fn.readers.file(files=files)
        return fn.resize(fn.decoders.image(data), size=[8, 8]), labels

    def called():
        return fn.external_source(lambda k: np.zeros((4, 2), np.float32))

    GRAPHS = {
        "random": lambda: fn.random.uniform(range=(0, 1), shape=[2]),
        "called": called,
        "awaited": lambda: fn.external_source(awaited),
        "decoded": decoded,
        "fork": lambda: fn.external_source(Positions(1 << 40), batch=False, parallel=True),
        "spawn": lambda: fn.external_source(Positions(1 << 40), batch=False, parallel=True),
        "forkserver": lambda: fn.external_source(Positions(1 << 40), batch=False, parallel=True),
        "iterator": lambda: fn.external_source(batches, parallel=True),
        "engines": decoded,
        "spawned_engines": decoded,
    }

    def threads():
        return sorted(thread.name for thread in threading.enumerate() if re.match("asyncdali-[0-9a-f]+-", thread.name))

    def loops():
        return sum(thread.name.endswith("loop") for thread in threading.enumerate())

    def made():
        method = name if name in ("spawn", "forkserver") else "fork"
        workers = 1 if name == "iterator" else 2
        engines = {"engines": ("fork", 2), "spawned_engines": ("spawn", 1)}.get(name, ("fork", 0))
        return pipeline_of(
            GRAPHS[name], batch_size=4, py_num_workers=workers, py_start_method=method, engine_start_method=engines[0], engines=engines[1]
        )

    began = time.monotonic()
    for _ in range(2):  # what is there once in a process comes now
        pipe = made()
        began = time.monotonic()
        pipe.build()
        duration = time.monotonic() - began
        pipe.run()
        pipe.close()
        del pipe
    before, open_before = threads(), descriptors()
    assert not before and not children()
    limit, step, interrupted, rounds = time.monotonic() + seconds, 0, 0, 0
    while time.monotonic() < limit:
        step, rounds = (step + 1) % 97, rounds + 1
        pipe = made()
        interrupts.after(max(1e-6, 1.2 * duration * step / 97))
        try:
            pipe.build()
            interrupts.rain(0)
        except KeyboardInterrupt:
            interrupted += 1
            interrupts.rain(0)
            if pipe._core.session is None:  # else the build was over
                assert not children(), (step, children())
                assert threads() == before, (step, threads())
                assert descriptors().keys() == open_before.keys(), (step, descriptors(), open_before)
            if rounds % 8 == 0:
                pipe.run()
        pipe.close()
        assert not children() and threads() == before, (step, children(), threads())
        del pipe
    assert descriptors().keys() == open_before.keys(), (descriptors(), open_before)
    assert loops() <= 2
    assert interrupted > rounds // 20, (interrupted, rounds)  # builds become faster than those that were timed
    print("nothing left")
    print(name, interrupted, "interrupts in", rounds, "builds", file=sys.stderr)
"""


BUILT = ["random", "called", "awaited", "decoded", "fork", "iterator", "forkserver", "spawn", "engines", "spawned_engines"]


@pytest.mark.parametrize("name", BUILT)
@pytest.mark.parametrize("seconds", [1.5, pytest.param(20, marks=pytest.mark.slow)])
def test_interrupts_at_any_instant_of_build(name, seconds, tmp_path):
    done = run_script(BUILDS, tmp_path, seconds, name, timeout=90 + 2 * seconds, PYTHONWARNINGS="ignore")
    assert done.stdout == "nothing left\n", done.stderr
    print(done.stderr)
