"""Ctrl-C in `run()`: the next call returns the batch of the interrupted call. Ctrl-C in `build()` leaves nothing behind.

The interrupts come at fixed places of the program (by default at some of them; slow: at all), and at random instants (slow).
"""

from __future__ import annotations

import pytest
from helpers.warm import run_warm

RUNS = """
    import itertools, sys, time
    import numpy as np
    from helpers.interrupted_places import PlacedInterrupts
    from helpers.interrupts import Interrupts
    from helpers.pipelines import pipeline_of
    from helpers.sources import Positions
    from asyncdali import Pipeline, fn
    from asyncdali.runtime.order import executor

    executor.CLOSING = 300.0

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
        "computed": lambda: fn.external_source(Positions(1 << 40), batch=False) * 1,
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

    def built(kind, depth):
        pipe = pipeline_of(
            GRAPHS[kind], batch_size=4, prefetch_queue_depth=depth, enable_checkpointing=kind in ("random", "engines"),
            engines=2 if kind.endswith("engines") else 0, num_threads=1 if depth == 1 else 2,
        )
        pipe.build()
        return pipe

    def nothing_lost(kind, depth, pipe, batches, place=""):
        for _ in range(3):
            np.testing.assert_array_equal(pipe.run()[0].as_array(), next(batches), err_msg=f"{kind} {place}")
        assert len(pipe._core.session.in_flight) == depth - 1, (kind, str(place), len(pipe._core.session.in_flight))
        if kind in ("random", "engines"):
            restored = pipeline_of(drawn, batch_size=4, enable_checkpointing=True, checkpoint=pipe.checkpoint())
            np.testing.assert_array_equal(restored.run()[0].as_array(), next(batches))
"""

CASES = [
    "random-1", "random-3", "called-2", "computed-1", "parallel-2", "iterator-2", "awaited-2", "stream-3", "engines-3", "fed_engines-2",
]

CHOSEN_RUNS = """
    import gc

    gc.disable()
    interrupts = PlacedInterrupts(Pipeline.run)

    def interrupted(kind, depth, pipe, batches, place):
        def call():
            outputs[:] = pipe.run()

        outputs = []
        try:
            interrupts.at(place, call)
        except KeyboardInterrupt:
            assert interrupts.came and not outputs, str(place)
            if kind in ("random", "engines"):
                pipe.checkpoint()
            outputs = pipe.run()
        else:
            assert not interrupts.came, f"the interrupt was swallowed: {place}"
        np.testing.assert_array_equal(outputs[0].as_array(), next(batches), err_msg=f"{kind}, {place}")
        assert len(pipe._core.session.in_flight) < depth
        return interrupts.came

    parts = int(sys.argv[1])
    for case in sys.argv[2:]:
        kind, depth = case.split("-")
        depth = int(depth)
        warm = built(kind, depth)
        warm.run()
        warm.close()
        pipe = built(kind, depth)
        first = interrupts.chosen(pipe.run, 4 * parts if parts > 1 else 1)
        later = interrupts.chosen(pipe.run, parts)
        pipe.close()
        came = 0
        for place in first:
            pipe, batches = built(kind, depth), expected(kind)
            came += interrupted(kind, depth, pipe, batches, place)
            nothing_lost(kind, depth, pipe, batches, place)
            pipe.close()
        pipe, batches = built(kind, depth), expected(kind)
        np.testing.assert_array_equal(pipe.run()[0].as_array(), next(batches))
        for place in later:
            came += interrupted(kind, depth, pipe, batches, place)
        nothing_lost(kind, depth, pipe, batches)
        pipe.close()
        print(kind, depth, came, "interrupts at", len(first), "+", len(later), "places", file=sys.stderr)
        assert came  # how many come depends on timing: a batch that is ready is not waited for
        gc.collect()
    print("nothing lost")
"""


@pytest.mark.parametrize("parts", [16, pytest.param(1, marks=pytest.mark.slow)])
def test_interrupts_at_chosen_places_of_run(parts):
    done = run_warm(RUNS + CHOSEN_RUNS, parts, *CASES, timeout=600 if parts > 1 else 3600, ASYNCDALI_COMPILE_AHEAD="0")
    assert done.stdout == "nothing lost\n", done.stderr
    print(done.stderr)


AWAITED_RUNS = """
    import asyncio
    from asyncdali.pipeline.running import Running

    loop = asyncio.new_event_loop()

    def run(pipe):
        return loop.run_until_complete(pipe.run_async())
""" + CHOSEN_RUNS.replace("Pipeline.run)", "Running._run_async)").replace("(pipe.run,", "(lambda: run(pipe),").replace(
    "pipe.run()", "run(pipe)"
)


@pytest.mark.parametrize("parts", [16, pytest.param(1, marks=pytest.mark.slow)])
def test_interrupts_at_chosen_places_of_run_async(parts):
    """Also while a lock is taken that the source thread needs, and between the fetch and the end of the coroutine."""
    done = run_warm(RUNS + AWAITED_RUNS, parts, "random-2", "called-2", "stream-3", "engines-2", timeout=600 if parts > 1 else 3600)
    print(done.stderr)
    assert done.stdout == "nothing lost\n", done.stderr


RAIN = """
    SECONDS = float(sys.argv[1])
    interrupts = Interrupts(Pipeline.run)

    def rain_on(kind, depth):
        pipe = built(kind, depth)
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
        assert interrupts.raised - raised > 5 * SECONDS and delivered > 5 * SECONDS, (kind, interrupts.raised - raised, delivered)
        nothing_lost(kind, depth, pipe, batches)
        print(kind, interrupts.raised - raised, "interrupts", delivered, "batches", file=sys.stderr)

    for case in sys.argv[2:]:
        kind, depth = case.split("-")
        rain_on(kind, int(depth))
    print("nothing lost")
"""


@pytest.mark.slow
def test_interrupts_at_any_instant_of_run():
    done = run_warm(RUNS + RAIN, 20, *CASES, timeout=120 + 20 * len(CASES), ASYNCDALI_COMPILE_AHEAD="0")
    assert done.stdout == "nothing lost\n", done.stderr
    print(done.stderr)


BUILDS = """
    import re, sys, threading, time, warnings
    import numpy as np
    from pathlib import Path
    from helpers.images import encode, picture
    from helpers.interrupted_places import PlacedInterrupts
    from helpers.interrupts import Interrupts
    from helpers.pipelines import pipeline_of
    from helpers.processes import children, descriptors
    from helpers.sources import Positions
    from asyncdali import Pipeline, fn
    from asyncdali.runtime.order import executor

    warnings.simplefilter("ignore")
    executor.CLOSING = 300.0
    folder = sys.argv[1]
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

    def made(name):
        method = name if name in ("spawn", "forkserver") else "fork"
        workers = 1 if name == "iterator" else 2
        engines = {"engines": ("fork", 2), "spawned_engines": ("spawn", 1)}.get(name, ("fork", 0))
        return pipeline_of(
            GRAPHS[name], batch_size=4, py_num_workers=workers, py_start_method=method, engine_start_method=engines[0], engines=engines[1]
        )

    def seconds_of_builds(name):
        for _ in range(2):  # what is there once in a process comes now
            pipe = made(name)
            began = time.monotonic()
            pipe.build()
            duration = time.monotonic() - began
            pipe.run()
            pipe.close()
            del pipe
        return duration
"""

BUILT = ["random", "called", "awaited", "decoded", "fork", "iterator", "forkserver", "spawn", "engines", "spawned_engines"]

CHOSEN_BUILDS = """
    import gc

    gc.disable()
    interrupts = PlacedInterrupts(Pipeline.build)
    parts, tried = int(sys.argv[2]), set()
    for name in sys.argv[3:]:
        seconds_of_builds(name)
        pipe = made(name)
        places = [place for place in interrupts.chosen(pipe.build, parts) if parts == 1 or place.name not in tried]
        tried.update(place.name for place in places)
        pipe.close()
        before, open_before, came = threads(), descriptors(), 0
        assert not before and not children()
        for number, place in enumerate(places):
            pipe = made(name)
            try:
                interrupts.at(place, pipe.build)
            except KeyboardInterrupt:
                if pipe._core.session is None:  # else the build was over
                    assert not children(), (str(place), children())
                    assert threads() == before, (str(place), threads())
                    assert descriptors().keys() == open_before.keys(), (str(place), descriptors(), open_before)
                if number % 8 == 0:
                    pipe.run()
            else:
                assert not interrupts.came, f"the interrupt was swallowed: {place}"
            pipe.close()
            assert not children() and threads() == before, (str(place), children(), threads())
            assert descriptors().keys() == open_before.keys(), (str(place), descriptors(), open_before)
            came += interrupts.came
            del pipe
            if number % 50 == 49:
                gc.collect()
        assert loops() <= 2
        assert came or not places, name
        gc.collect()
        print(name, came, "interrupts at", len(places), "places", file=sys.stderr)
    print("nothing left")
"""

SOME = [(48, "random called awaited decoded"), (120, "fork iterator"), (120, "engines"), (800, "forkserver spawn spawned_engines")]
ALL = [pytest.param(1, name, marks=pytest.mark.slow) for name in BUILT]


@pytest.mark.parametrize("parts, names", [*SOME, *ALL])
def test_interrupts_at_chosen_places_of_build(parts, names, tmp_path):
    """`parts`: one place in `parts` is tried. 1: all places, and each also for the second and the last time."""
    environment = {"ASYNCDALI_COMPILE_AHEAD": "0"}  # processes that compile kernels would count as children
    limit = 7200 if parts == 1 else 600  # each place of spawned engines starts processes
    done = run_warm(BUILDS + CHOSEN_BUILDS, tmp_path, parts, *names.split(), timeout=limit, **environment)
    assert done.stdout == "nothing left\n", done.stderr
    print(done.stderr)


RAIN_ON_BUILDS = """
    seconds, name = float(sys.argv[2]), sys.argv[3]
    interrupts = Interrupts(Pipeline.build)
    duration = seconds_of_builds(name)
    before, open_before = threads(), descriptors()
    assert not before and not children()
    limit, step, interrupted, rounds = time.monotonic() + seconds, 0, 0, 0
    while time.monotonic() < limit:
        step, rounds = (step + 1) % 97, rounds + 1
        pipe = made(name)
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


@pytest.mark.slow
@pytest.mark.parametrize("name", BUILT)
def test_interrupts_at_any_instant_of_build(name, tmp_path):
    done = run_warm(BUILDS + RAIN_ON_BUILDS, tmp_path, 20, name, timeout=300, ASYNCDALI_COMPILE_AHEAD="0")
    assert done.stdout == "nothing left\n", done.stderr
    print(done.stderr)
