"""Storms of exceptions that signals' handlers raise inside `run()` and `next()`: nothing is lost or repeated.

By default some hundred exceptions per case; slow: 20,000 for one engine with statistics, and more for the other cases.
"""

from __future__ import annotations

import pytest
from helpers.warm import run_warm

STORM = """
    import itertools, signal, sys
    import numpy as np
    from asyncdali import Pipeline, fn
    from asyncdali.plugin.base_iterator import BaseIterator
    from helpers.storms import Late, Later, Storm

    SIZE = 4

    def batch(k):
        return np.array([[SIZE * k + j] for j in range(SIZE)], np.int64)

    class Position:
        def __call__(self, info):
            return np.int64([info.idx_in_epoch])

    class Items:
        k = -1
        def __iter__(self):
            return self
        def __next__(self):
            self.k += 1
            return batch(self.k)

    def generator():
        for k in itertools.count():
            yield batch(k)

    async def awaited(k):
        return batch(k)

    async def stream():
        for k in itertools.count():
            yield batch(k)

    def drawn():
        return fn.random.uniform(range=(0, 1), shape=[2])

    SOURCES = {
        "callable": lambda: fn.external_source(Position(), batch=False),
        "batches": lambda: fn.external_source(batch),
        "generator": lambda: fn.external_source(generator),
        "iterable": lambda: fn.external_source(Items()),
        "async": lambda: fn.external_source(awaited),
        "async generator": lambda: fn.external_source(stream),
        "parallel": lambda: fn.external_source(Position(), batch=False, parallel=True),
        "parallel iterable": lambda: fn.external_source(Items(), parallel=True),
        "parallel generator": lambda: fn.external_source(generator, parallel=True),
        "drawn": drawn,
    }

    RESUMED = "drawn", "callable", "batches"

    def built(source, engines, checkpoint=None):
        pipe = Pipeline(
            SIZE, 2, seed=5, engines=engines, py_num_workers=1, enable_checkpointing=source in RESUMED, prefetch_queue_depth=2,
            checkpoint=checkpoint,
        )
        with pipe:
            node = SOURCES[source]()
            pipe.set_outputs(node + 0 if engines and source != "drawn" else node)
        pipe.build()
        return pipe

    def expected(source, use):
        if source != "drawn":
            yield from map(batch, itertools.count())
        reference = built("drawn", 0)
        while True:
            if use == "outputs":  # the exceptions come inside of the function that `use` names
                yield reference.run()[0].as_array()
            else:
                reference.schedule_run()
                yield reference.outputs()[0].as_array()

    class Numpy(BaseIterator):
        def _converted(self, outputs, keep):
            return np.array(outputs[0].as_array())
        def _collected(self, batches):
            return batches[0]

    def main(source, engines, kind, wanted, report, use):
        number, raised = {
            "int": (signal.SIGINT, KeyboardInterrupt), "alarm": (signal.SIGALRM, Late), "base": (signal.SIGALRM, Later),
        }[kind]
        pipe = built(source, engines)
        if use == "outputs":
            def call():
                if len(pipe._core.session.in_flight) < 2:
                    pipe.schedule_run()
                return pipe.share_outputs()[0].as_array()
            inside = Pipeline.share_outputs
        elif use == "epoch":
            from asyncdali.pipeline.epochs import Epoch
            epoch = pipe.epoch()
            call, inside = lambda: next(epoch)[0].as_array(), Epoch.__next__
        elif use in ("async", "anext"):
            import asyncio
            from asyncdali.pipeline.running import Running
            loop, inside, epoch = asyncio.new_event_loop(), Running._run_async, pipe.__aiter__()
            step = pipe.run_async if use == "async" else epoch.__anext__
            call = lambda: loop.run_until_complete(step())[0].as_array()
        elif use == "next":
            iterator = Numpy([pipe], ["x"])
            call, inside = lambda: next(iterator), BaseIterator.__next__
        else:
            call, inside = lambda: pipe.run()[0].as_array(), Pipeline.run
        storm, following, longest, done = Storm(number, raised, inside), expected(source, use), 0, 0
        storm.begin()
        while storm.count < wanted:
            try:
                found = call()
            except raised:
                assert storm.on
                continue
            np.testing.assert_array_equal(found, next(following), err_msg=str((source, engines, kind, done, storm.count)))
            done += 1
            longest = max(longest, len(pipe._core.session.in_flight))
            if use == "outputs":
                pipe.release_outputs()
            if report:
                pipe.statistics()
        storm.end()
        if source in RESUMED and use == "run":
            np.testing.assert_array_equal(built(source, engines, pipe.checkpoint()).run()[0].as_array(), next(following))
        assert longest <= 4, longest
        print(source, engines, kind, use, storm.count, "exceptions", done, "batches", "longest queue", longest, file=sys.stderr)
        pipe.close()

    count = int(sys.argv[1])
    for case in sys.argv[2:]:
        source, engines, kind, report, use = case.split("/")
        main(source, int(engines), kind, count, bool(int(report)), use)
    print("nothing lost")
"""

SOURCES = (
    "callable", "batches", "generator", "iterable", "async", "async generator", "parallel", "parallel iterable", "parallel generator",
    "drawn",
)  # fmt: skip
USES = "run", "next", "outputs", "epoch", "async", "anext"
CASES = [
    f"{source}/{engines}/{kind}/0/{use}"
    for source in SOURCES for engines in (0, 1, 2) for kind in ("int", "alarm", "base") for use in USES
]  # fmt: skip
FEW = [
    "drawn/1/int/1/run", "drawn/1/alarm/0/run", "drawn/2/alarm/0/next", "async/0/alarm/0/run", "async generator/0/alarm/0/run",
    "generator/0/alarm/0/run", "parallel iterable/0/alarm/0/run", "parallel generator/0/base/0/next", "callable/1/alarm/0/run",
    "iterable/2/int/0/run", "batches/0/alarm/0/next", "drawn/1/base/0/outputs", "generator/0/alarm/0/outputs", "drawn/0/alarm/0/epoch",
    "async generator/0/int/0/epoch", "drawn/0/alarm/0/async", "drawn/1/int/0/anext", "callable/0/base/0/anext", "generator/0/alarm/0/async",
]  # fmt: skip


def storm(count, cases, timeout):
    done = run_warm(STORM, count, *cases, timeout=timeout)
    print(done.stderr)
    assert done.stdout == "nothing lost\n", done.stderr[-6000:]


def test_some_exceptions_lose_nothing():
    storm(75, FEW, 600)


@pytest.mark.slow
def test_twenty_thousand_interrupts_with_one_engine_and_statistics():
    storm(20_000, ["drawn/1/int/1/run"], 3600)


@pytest.mark.slow
@pytest.mark.parametrize("source", SOURCES)
def test_exceptions_over_sources_and_placements(source):
    storm(1000, [case for case in CASES if case.startswith(f"{source}/")], 3600)


BLOCKED = """
    import signal, sys, time
    import numpy as np
    from asyncdali import Pipeline, fn

    class Late(Exception):
        pass

    def late(number, frame):
        raise Late

    def waits():
        time.sleep(600)
        yield np.zeros((1, 1))

    signal.signal(signal.SIGALRM, late)
    pipe = Pipeline(1, 1, seed=1)
    with pipe:
        pipe.set_outputs(fn.external_source(waits))
    pipe.build()
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    try:
        pipe.run()
    except Late:
        print("interrupted")
    pipe.close()
"""


def test_a_generator_that_blocks_is_interrupted_after_a_while():
    """Handlers are delayed while a generator is asked, but not longer than a second."""
    assert run_warm(BLOCKED, timeout=60).stdout == "interrupted\n"


STOPPED = """
    import os, signal, sys, time
    import numpy as np
    from asyncdali import Pipeline, fn

    class Late(Exception):
        pass

    def late(*_):
        raise Late

    def counts():
        signal.raise_signal(signal.SIGALRM)  # noted until the generator has given its batch
        parent, child = os.getpid(), os.fork()
        if not child:
            time.sleep(0.1)  # meanwhile the thread that ends the delay begins to wait
            os.kill(parent, signal.SIGSTOP)
            time.sleep(1.3)
            os.kill(parent, signal.SIGCONT)
            os._exit(0)
        os.waitpid(child, 0)
        end = time.monotonic() + 0.2
        while time.monotonic() < end:
            pass
        for k in range(3):
            yield np.full((1, 1), k)

    signal.signal(signal.SIGALRM, late)
    pipe = Pipeline(1, 1, seed=1, prefetch_queue_depth=1)
    with pipe:
        pipe.set_outputs(fn.external_source(counts))
    pipe.build()
    interrupts, found = 0, []
    while len(found) < 3:
        try:
            found.append(pipe.run()[0].as_array().item())
        except Late:
            interrupts += 1
    print(interrupts, found)
    pipe.close()
"""


def test_a_stop_of_the_process_does_not_count_as_a_generator_that_blocks():
    """A process may be stopped, or get no processor, for longer than the limit. The generator goes on afterwards."""
    assert run_warm(STOPPED, timeout=60).stdout == "1 [0, 1, 2]\n"
