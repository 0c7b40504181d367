"""Exceptions that signals' handlers raise in short epochs: no batch and no end of an epoch is lost or repeated.

Every kind of source and several calls that consume epochs. Slow: all cases, and more exceptions.
"""

from __future__ import annotations

import pytest
from helpers.warm import run_warm

EPOCHS = """
    import asyncio, functools, itertools, os, signal, sys, tempfile
    import numpy as np
    from asyncdali import Pipeline, fn
    from asyncdali.fleet import LastBatchPolicy, loader, ranks
    from asyncdali.pipeline.epochs import Epoch
    from asyncdali.pipeline.running import Running
    from asyncdali.plugin.base_iterator import BaseIterator
    from helpers.storms import Late, Later, Storm

    SIZE, COUNT = 4, 5

    def batch(k):
        return np.array([[SIZE * k + j] for j in range(SIZE)], np.int64)

    def counted():
        for k in range(COUNT):
            yield batch(k)

    async def stream():
        for k in range(COUNT):
            yield batch(k)

    class Iterable:
        def __iter__(self):
            return counted()

    class Rewinding:
        '''An iterator that rewinds itself at its end, as in DALI's examples.'''
        k = 0
        def __iter__(self):
            return self
        def __next__(self):
            if self.k == COUNT:
                self.k = 0
                raise StopIteration
            self.k += 1
            return batch(self.k - 1)
        def __call__(self):
            return next(self)

    class Samples(Rewinding):
        def __next__(self):
            if self.k == COUNT * SIZE:
                self.k = 0
                raise StopIteration
            self.k += 1
            return np.int64([self.k - 1])

    def position(info):
        if info.idx_in_epoch >= SIZE * COUNT:
            raise StopIteration
        return np.int64([info.idx_in_epoch])

    def of_batch(k):
        if k == COUNT:
            raise StopIteration
        return batch(k)

    async def awaited(k):
        return of_batch(k)

    class Hooked(Pipeline):
        '''Feeds two inputs, which must stay in step.'''
        data = None
        def iter_setup(self):
            if self.data is None:
                self.data = Rewinding()
            found = next(self.data)
            self.feed_input("left", found)
            self.feed_input("right", found * 3)

    folder = tempfile.mkdtemp()
    for k in range(SIZE * COUNT):
        np.save(os.path.join(folder, f"{k:03d}.npy"), np.int64([k]))

    longer = tempfile.mkdtemp()  # the samples of a last batch that is dropped
    for k in range(SIZE * COUNT + 2):
        np.save(os.path.join(longer, f"{k:03d}.npy"), np.int64([k]))

    SOURCES = {
        "generator": lambda: fn.external_source(counted, cycle="raise"),
        "iterable": lambda: fn.external_source(Iterable(), cycle="raise"),
        "rewinding": lambda: fn.external_source(Rewinding()),
        "called": lambda: fn.external_source(Rewinding().__call__),
        "samples": lambda: fn.external_source(Samples().__call__, batch=False),
        "position": lambda: fn.external_source(position, batch=False),
        "of batch": lambda: fn.external_source(of_batch),
        "async": lambda: fn.external_source(awaited),
        "async generator": lambda: fn.external_source(stream, cycle="raise"),
        "parallel": lambda: fn.external_source(position, batch=False, parallel=True),
        "parallel generator": lambda: fn.external_source(counted, parallel=True, cycle="raise"),
        "parallel iterable": lambda: fn.external_source(Iterable(), parallel=True, cycle="raise"),
        "hook": lambda: fn.external_source(name="right") - 2 * fn.external_source(name="left"),
        "reader": lambda: fn.readers.numpy(file_root=folder, name="reader"),
        "longer reader": lambda: fn.readers.numpy(file_root=longer, name="reader", pad_last_batch=True),
    }

    def built(source, engines=0, **options):
        kind = Hooked if source == "hook" else Pipeline
        pipe = kind(SIZE, 2, seed=5, engines=engines, py_num_workers=1, prefetch_queue_depth=2, **options)
        with pipe:
            node = SOURCES[source]()
            pipe.set_outputs(node + 0 if engines else node)
        if not options:
            pipe.build()
        return pipe

    class Numpy(BaseIterator):
        def _converted(self, outputs, keep):
            return np.array(outputs[0].as_array())
        def _collected(self, batches):
            return batches[0] if len(batches) == 1 else np.stack(batches)

    END = object()

    class Loop:
        '''Calls that may raise an exception of a handler are repeated.'''

        def __init__(self, source, engines, use):
            self.source = source
            if use == "rank":
                self.rank = loader(functools.partial(built, source), engines=engines, last_batch_policy=LastBatchPolicy.DROP)
                self.rank.__enter__()
                self.pipes = [self.rank.pipeline]
            else:
                self.pipes = [built(source, engines) for _ in range(2 if use == "two" else 1)]
            self.pipe = self.pipes[0]
            self.inside = {
                "run": (Pipeline.run, Pipeline.reset), "outputs": (Pipeline.schedule_run, Pipeline.outputs, Pipeline.reset),
                "epoch": (Epoch.__next__,), "anext": (Running._run_async,), "rank": (ranks._EpochOfRank.__next__,),
            }.get(use, (BaseIterator.__next__, BaseIterator.reset))
            self.resets = use in ("run", "outputs", "manual")
            self.epoch, self.ended = None, False
            if use in ("next", "manual", "two"):
                size = {"reader_name": "reader"} if source == "reader" else {"size": 2 * SIZE * COUNT} if use == "two" else {}
                self.iterator = Numpy(self.pipes, ["x"], auto_reset=use != "manual", **size)
            if use == "anext":
                self.loop = asyncio.new_event_loop()
            self.call = getattr(self, f"_{use}")

        def step(self):
            if self.ended:
                (self.iterator if hasattr(self, "iterator") else self.pipe).reset()
                self.ended = False
            try:
                return self.call()
            except (StopIteration, StopAsyncIteration):
                self.ended, self.epoch = self.resets, None
                return END

        def _run(self):
            return self.pipe.run()[0].as_array()

        def _outputs(self):
            if len(self.pipe._core.session.in_flight) < 2:
                self.pipe.schedule_run()
            return self.pipe.outputs()[0].as_array()

        def _epoch(self):
            self.epoch = self.epoch or self.pipe.epoch()
            return next(self.epoch)[0].as_array()

        def _rank(self):
            self.epoch = self.epoch or iter(self.rank)
            return next(self.epoch)[0].as_array()

        def _anext(self):
            self.epoch = self.epoch or self.pipe.__aiter__()
            return self.loop.run_until_complete(self.epoch.__anext__())[0].as_array()

        def _next(self):
            return next(self.iterator)

        _manual = _two = _next

    def main(source, engines, kind, use, wanted):
        number, raised = {
            "int": (signal.SIGINT, KeyboardInterrupt), "alarm": (signal.SIGALRM, Late), "base": (signal.SIGALRM, Later),
        }[kind]
        loop = Loop(source, engines, use)
        storm, done = Storm(number, raised, *loop.inside), 0
        following = itertools.cycle([*map(batch, range(COUNT)), END])
        if source == "reader" and use in ("run", "outputs"):  # these calls do not end the epochs of readers
            following = itertools.cycle(map(batch, range(COUNT)))
        storm.begin()
        while storm.count < wanted:
            try:
                found = loop.step()
            except raised:
                assert storm.on
                continue
            expected, where = next(following), f"{source}/{engines}/{kind}/{use}: step {done}, {storm.count} exceptions"
            assert (found is END) == (expected is END), f"{where}: {found} instead of {expected}"
            if found is not END:
                parts = found if use == "two" else [found]
                for part in parts:
                    np.testing.assert_array_equal(part, expected, err_msg=where)
            done += 1
        storm.end()
        print(source, engines, kind, use, storm.count, "exceptions", done, "batches and ends", file=sys.stderr)
        for pipe in loop.pipes:
            pipe.close()

    for case in sys.argv[2:]:
        source, engines, kind, use = case.split("/")
        main(source, int(engines), kind, use, int(sys.argv[1]))
    print("nothing lost")
"""

SOURCES = (
    "generator", "iterable", "rewinding", "called", "samples", "position", "of batch", "async", "async generator", "parallel",
    "parallel generator", "parallel iterable", "hook", "reader",
)  # fmt: skip
USES = "run", "outputs", "epoch", "anext", "next", "manual", "two"
CASES = [f"{source}/{engines}/{kind}/{use}" for source in SOURCES for engines in (0, 2) for kind in ("int", "alarm") for use in USES]
RANKS = [f"{source}/{engines}/{kind}/rank" for source in ("reader", "longer reader") for engines in (0, 2) for kind in ("int", "alarm")]
FEW = [
    "generator/0/alarm/next", "rewinding/0/alarm/epoch", "called/0/alarm/run", "samples/0/int/manual", "position/2/alarm/two",
    "async/0/alarm/outputs", "async generator/0/int/anext", "parallel generator/0/alarm/run", "parallel/0/base/next",
    "hook/0/alarm/run", "hook/0/int/outputs", "reader/0/alarm/two", "longer reader/0/alarm/rank",
]  # fmt: skip


def storm(count, cases, timeout):
    done = run_warm(EPOCHS, count, *cases, timeout=timeout)
    print(done.stderr)
    assert done.stdout == "nothing lost\n", done.stderr[-6000:]


def test_some_exceptions_lose_no_batch_and_no_end():
    storm(50, FEW, 600)


@pytest.mark.slow
def test_exceptions_in_epochs_of_ranks():
    storm(500, RANKS, 3600)


@pytest.mark.slow
@pytest.mark.parametrize("source", SOURCES)
def test_exceptions_in_epochs_of_every_source(source):
    storm(500, [case for case in CASES if case.startswith(f"{source}/")], 3600)
