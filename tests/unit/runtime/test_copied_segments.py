"""Copied segments (``runtime/templates``): conditions for copying a segment, and equal results of copies."""

from __future__ import annotations

import threading
from collections import Counter

import numpy as np
import pytest
from helpers.marks import slow
from helpers.pipelines import pipeline_of, values

from asyncdali import fn, types
from asyncdali.runtime.counting import counters
from asyncdali.runtime.counting.segment_counters import SegmentCounters
from asyncdali.runtime.work import jobs, segments
from asyncdali.runtime.work.jobs import Timed
from asyncdali.runtime.work.segments import SegmentRun

PLAIN = 12
"""Iterations: one that is planned, and then copied ones."""


class Source:
    """A source of batches with given sizes. The contents differ in every iteration."""

    def __init__(self, *counts, shape=(6, 5, 3), dtype=np.uint8):
        self.counts, self.shape, self.dtype = counts, shape, dtype

    def __call__(self, info):
        count = self.counts[info % len(self.counts)]
        return np.random.default_rng(info).integers(0, 200, (count, *self.shape)).astype(self.dtype)


def fed(*counts, layout="HWC", **options):
    return fn.external_source(source=Source(*counts, **options), batch=True, layout=layout)


def chain():
    first = fn.crop(fed(4), crop=[4, 4])
    second = fn.cast(first, dtype=types.INT16)
    third = fn.transpose(second, perm=[2, 0, 1])
    return third, fn.flip(first, vertical=1), fn.cast_like(third, fed(4, dtype=np.float32))


GRAPHS = {
    "one operator": lambda: fn.flip(fed(4), horizontal=1),
    "intermediates in scratch memory, and outputs that are read again": chain,
    "steps with scratch memory": lambda: fn.gaussian_blur(fn.gaussian_blur(fed(4), window_size=3), window_size=5),
    "an operator that is used twice": lambda: tuple(fn.cast(fn.flip(fed(4)), dtype=kind) for kind in (types.FLOAT, types.INT32)),
    "samples of the batch": lambda: fn.multi_paste(fed(4), in_ids=[3, 0], output_size=[8, 9], out_anchors=np.int32([[0, 0], [1, 2]])),
    "contents that are read": lambda: fn.slice(fed(4), np.float32([1, 2]), np.float32([3, 2]), axes=[0, 1], normalized_anchor=False,
                                               normalized_shape=False),
    "an expression": lambda: fed(4, shape=(60, 50, 3)) * 0.5 + fed(4, shape=(60, 50, 3), dtype=np.float32),
    "random streams": lambda: (fn.segmentation.random_mask_pixel(fed(4, dtype=np.int32), foreground=1, threshold=150, seed=4),
                               fn.noise.shot(fn.noise.gaussian(fn.flip(fed(4)), stddev=20, seed=5), factor=3, seed=6)),
    "a random stream of two and three samples": lambda: fn.jitter(fed(3, 3, 3, 2, 2), seed=7),
    "two and three samples": lambda: fn.cast(fn.flip(fed(3, 3, 3, 2, 2)), dtype=types.FLOAT),
}  # fmt: skip


@pytest.fixture
def copied(monkeypatch):
    """A list with one entry for each copied segment."""
    counts: Counter[str] = Counter()
    copies = SegmentRun._copied

    def counted(self, *args):
        found = copies(self, *args)
        if found:
            counts["copied"] += 1
        return found

    monkeypatch.setattr(SegmentRun, "_copied", counted)
    return counts


def results(graph, iterations=PLAIN, **options):
    with pipeline_of(graph, **{"batch_size": 4, "enable_statistics": False, **options}) as pipeline:
        return [values(pipeline.run()) for _ in range(iterations)]


@pytest.mark.parametrize("threads", [2, *slow(1)])
@pytest.mark.parametrize("name", GRAPHS)
def test_copies_compute_what_plans_compute(name, threads, copied, monkeypatch):
    repeated = results(GRAPHS[name], 30, num_threads=threads, prefetch_queue_depth=threads)
    assert copied["copied"] >= 12, name
    monkeypatch.setattr(segments, "segment_templates", lambda *_: None)
    assert repeated == results(GRAPHS[name], 30)


def test_a_copied_segment_moves_its_streams(copied):
    """Checkpoints of copied iterations continue the streams, also of a smaller batch."""
    graph = GRAPHS["a random stream of two and three samples"]
    options = {"batch_size": 4, "num_threads": 1, "prefetch_queue_depth": 1, "enable_checkpointing": True}
    expected = results(graph, 60, **options)
    with pipeline_of(graph, **options) as pipeline:
        for _ in range(43):
            pipeline.run()
        state = pipeline.checkpoint()
    assert copied["copied"] >= 12
    with pipeline_of(graph, **options, checkpoint=state) as pipeline:
        assert [values(pipeline.run()) for _ in range(17)] == expected[43:]


def test_large_intermediates_are_in_pooled_memory(copied, monkeypatch):
    monkeypatch.setattr(segments, "MAX_SCRATCH", 100)
    repeated = results(chain)
    assert copied["copied"]
    monkeypatch.setattr(segments, "segment_templates", lambda *_: None)
    assert repeated == results(chain)


def test_a_segment_with_draws_as_arguments_is_planned(copied):
    results(lambda: fn.brightness(fed(4), brightness=fn.random.uniform(range=[0.5, 1.5], seed=3)), 80)
    assert not copied


def test_an_iteration_with_other_shapes_is_planned(copied):
    results(lambda: fn.cast(fed(4, 3, 2, 1), dtype=types.FLOAT), 2)
    assert not copied


def failing_steps(monkeypatch, sample):
    """Lets the first step of every job report status 7 for one sample."""
    from asyncdali.compiled.step import step

    @step
    def fails(context, number, thread):
        return 7 if number == 2 else 0

    run = jobs.CompiledSamples._run

    def replaced(self, thread):
        self._block[self._places[0]] = fails.address
        run(self, thread)

    assert sample == 2
    monkeypatch.setattr(jobs.CompiledSamples, "_run", replaced)


def test_an_error_in_a_copied_segment_names_operator_and_sample(copied, monkeypatch):
    with pipeline_of(chain, batch_size=4, num_threads=1, prefetch_queue_depth=1, enable_statistics=False) as pipeline:
        for _ in range(PLAIN):
            pipeline.run()
        before = copied["copied"]
        with monkeypatch.context() as patch:
            failing_steps(patch, 2)
            with pytest.raises(RuntimeError, match=r"(?s)crop.*sample 2.*status 7|(?s:crop.*status 7.*sample 2)"):
                pipeline.run()
        assert copied["copied"] == before + 1
        pipeline.run()


def test_lack_of_memory_names_the_operator(copied, monkeypatch):
    from asyncdali_workers import limits

    with pipeline_of(chain, batch_size=4, num_threads=1, prefetch_queue_depth=1, enable_statistics=False) as pipeline:
        for _ in range(PLAIN):
            pipeline.run()

        def none_left(size):
            raise limits.TooLarge("no memory is left")

        executor = pipeline._core.session.executor
        with monkeypatch.context() as patch:
            patch.setattr(executor, "allocate", none_left)
            with pytest.raises(RuntimeError, match=r"(?s)no memory is left"):
                pipeline.run()
        expected = copied["copied"]
        assert expected
        pipeline.run()


def test_statistics_count_copied_segments(copied):
    def totals(iterations):
        with pipeline_of(chain, batch_size=4) as pipeline:
            for _ in range(iterations):
                pipeline.run()
            found = pipeline.statistics().operators
        assert all(operator.iterations >= iterations for operator in found)
        return [(operator.operator, operator.samples / operator.iterations, operator.bytes / operator.iterations) for operator in found]

    once = totals(1)
    assert not copied
    assert totals(100) == once
    assert copied


def test_one_timed_iteration_in_sixteen_measures_every_operator(monkeypatch):
    """Times of pixels stand for the iterations that are not timed. Other timed iterations are copied like those between them."""
    monkeypatch.setattr(counters, "SHORT", 1 << 40)
    timed: list[bool] = []
    planned, made, copies = SegmentRun._one, SegmentCounters.made, SegmentRun._copied
    every: list[int] = []

    def noted(self, built, steps, fresh, produced, lap):
        if lap is not None and built.operator.schema.name == "flip":
            every.append(self.record.index)
        yield from planned(self, built, steps, fresh, produced, lap)

    def copied(self, templates, steps, fresh, produced, lap):
        found = copies(self, templates, steps, fresh, produced, lap)
        if found:
            timed.append(lap is not None and lap.timed is not Timed.NO)
        return found

    def counted(self, job, owners, record, samples):
        before = self.pixels_busy
        made(self, job, owners, record, samples)
        assert (self.pixels_busy > before) == (record.weight > 0)

    monkeypatch.setattr(SegmentRun, "_one", noted)
    monkeypatch.setattr(SegmentRun, "_copied", copied)
    monkeypatch.setattr(SegmentCounters, "made", counted)
    with pipeline_of(chain, batch_size=4, num_threads=1, prefetch_queue_depth=1) as pipeline:
        for _ in range(1024):
            pipeline.run()
        found = pipeline.statistics()
    assert set(range(512, 1024, 256)) <= set(every) and not set(every) & set(range(513, 768))
    assert sum(timed) >= 1024 // 16 - 20
    (segment,) = [item for item in found.segments if item.pixels_seconds]
    assert segment.batches == 1024 and segment.samples == 4 * 1024
    operators = [item for item in found.operators if item.name in segment.operators]
    assert 0 < sum(item.planning_seconds for item in operators) <= 1.001 * segment.planning_seconds
    assert 0 < sum(item.steps_seconds for item in operators) <= 1.001 * segment.pixels_busy_seconds


class TestTheCallersThread:
    """With one iteration in flight and one thread, the thread that calls `run()` computes short segments."""

    @pytest.fixture
    def threads(self, monkeypatch):
        names: list[str] = []
        phases = SegmentRun.phases

        def noted(self):
            names.append(threading.current_thread().name)
            assert np.geterr()["invalid"] == "warn"
            yield from phases(self)

        monkeypatch.setattr(SegmentRun, "phases", noted)
        return names

    def run(self, iterations=PLAIN, **options):
        return results(chain, iterations, **{"num_threads": 1, "prefetch_queue_depth": 1, **options})

    def test_the_caller_computes_the_segment(self, threads):
        self.run()
        assert threads[-1] == threading.current_thread().name

    @pytest.mark.parametrize("options", [{"num_threads": 2}, {"prefetch_queue_depth": 2}, {"set_affinity": True}])
    def test_a_thread_that_may_work_at_the_same_time_computes_the_segment(self, threads, options):
        self.run(**options)
        assert threading.current_thread().name not in threads

    def test_scheduled_iterations_run_on_another_thread(self, threads):
        with pipeline_of(chain, batch_size=4, num_threads=1, prefetch_queue_depth=1) as pipeline:
            for _ in range(PLAIN):
                pipeline.schedule_run()
                pipeline.outputs()
        assert threading.current_thread().name not in threads

    def test_with_a_signal_handler_that_may_raise_another_thread_computes(self, threads):
        import signal

        before = signal.signal(signal.SIGUSR1, lambda *_: None)
        try:
            self.run()
        finally:
            signal.signal(signal.SIGUSR1, before)
        assert threading.current_thread().name not in threads

    def test_numpys_error_settings_of_the_caller_do_not_apply(self, threads):
        with np.errstate(all="raise"):
            self.run()
        assert threads[-1] == threading.current_thread().name

    def test_results_equal_those_of_other_threads(self):
        assert self.run(30) == results(chain, 30, num_threads=2)
