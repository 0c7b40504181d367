"""``Pipeline.statistics()``: counts and times in every mode, and no counting if it is switched off."""

from __future__ import annotations

import asyncio
import dataclasses
import gc
import json
import sys
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.clocks import CountedClock
from helpers.pipelines import pipeline_of, values
from helpers.probe_kernels import number_step
from helpers.probe_tables import NUMBER
from helpers.processes import wait_until

from asyncdali import fn, pipeline_def, types
from asyncdali.batch import Batch
from asyncdali.device.buffers import BlockOwner
from asyncdali.device.threads import WorkerState
from asyncdali.operators.base import Step, no_explanation
from asyncdali.runtime.counting import counters as counting
from asyncdali.runtime.counting.counters import PipelineCounters
from asyncdali.runtime.counting.segment_counters import Estimate, SegmentCounters
from asyncdali.runtime.work.jobs import CompiledSamples, Timed


def ragged(count):
    return [np.full((k % 3 + 1, 5), k, np.float32) for k in range(count)]


def sums():
    """A graph with a source, two operators with pixels, and a draw."""
    data = fn.external_source(lambda i: ragged(6), name="numbers")
    return fn.pad(data * 2.0, name="pad"), fn.random.uniform(name="draw")


def make(**options):
    return pipeline_of(sums, batch_size=6, **options)


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still unless the test moves it."""
    return CountedClock(monkeypatch)


def settled(pipe):
    """The statistics when no iteration is in flight. Iterations run ahead of the consumer, and their counters change together."""
    pipe.build()
    pipe._core.session.wait_all()
    return pipe.statistics()


def test_everything_is_counted():
    pipe = make()
    produced = 0
    for _ in range(5):
        outputs = pipe.run()
        produced += sum(tensor.nbytes for tensor in (np.asarray(sample) for sample in outputs[0]))
    found = settled(pipe)
    assert (found.consumer.iterations, found.consumer.samples, found.consumer.failed) == (5, 30, 0)
    assert found.batch_size == 6 and found.queue.depth == 2
    pad = found.operator("pad")
    assert pad.operator == "pad" and pad.backend == "cpu"
    assert pad.samples == 6 * pad.iterations >= 30
    assert pad.bytes * 5 == produced * pad.iterations  # every batch has the same size
    assert pad.planning_seconds > 0 and pad.steps_seconds > 0 and pad.prepare_seconds == 0
    assert found.operator("draw").bytes == 4 * found.operator("draw").samples
    with pytest.raises(KeyError, match="no operator 'other'.*pad"):
        found.operator("other")
    segment = next(item for item in found.segments if "pad" in item.operators)
    assert segment.batches >= 5 and segment.samples == 6 * segment.batches
    assert segment.iterations >= segment.batches
    assert segment.pixels_busy_seconds > 0 and segment.slowest_sample is not None
    steps = sum(found.operator(name).steps_seconds for name in segment.operators)
    assert steps == pytest.approx(segment.pixels_busy_seconds, rel=0.01)  # the steps' shares add up to the threads' time
    assert found.threads.count == 2
    assert found.threads.busy_seconds == pytest.approx(sum(item.pixels_busy_seconds for item in found.segments))
    assert found.consumer.latency_seconds > 0 and sum(found.queue.ready_on_arrival) == 5
    assert {name for item in found.segments for name in item.operators} == {item.name for item in found.operators}
    (source,) = found.sources
    assert (source.name, source.kind) == ("numbers", "called") and source.batches >= 5 and source.samples == 6 * source.batches
    assert sorted(index for stream in found.streams for index in stream.serves) == [item.index for item in found.segments]
    pipe.close()


def test_ragged_batches_count_their_bytes():
    sizes = iter([3, 1, 4, 1, 5, 9, 2, 6, 5, 3] * 20)
    pipe = pipeline_of(lambda: fn.copy(fn.external_source(lambda i: [np.zeros((next(sizes), 7), np.int16)] * 2), name="copy"), batch_size=2)
    total = sum(np.asarray(sample).nbytes for _ in range(80) for sample in pipe.run()[0])
    found = settled(pipe).operator("copy")  # two more iterations run or are complete
    extra = found.iterations - 80
    rows = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3] * 20
    assert 0 <= extra <= 2
    assert found.bytes == total + sum(2 * 14 * rows[80 + k] for k in range(extra))
    pipe.close()


def test_the_difference_of_two():
    pipe = make()
    pipe.run()
    first = settled(pipe)
    for _ in range(3):
        pipe.run()
    found = settled(pipe).since(first)
    assert (found.consumer.iterations, found.consumer.samples) == (3, 18)
    assert sum(found.queue.ready_on_arrival) == 3
    assert 0 < found.elapsed_seconds < first.elapsed_seconds + found.elapsed_seconds
    assert found.batch_size == 6 and found.threads.count == 2
    assert found.operator("pad").samples == 6 * found.operator("pad").iterations
    other = pipeline_of(lambda: fn.random.uniform(name="another"))
    other.run()
    with pytest.raises(ValueError, match="another pipeline"):
        settled(pipe).since(settled(other))
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.elapsed_seconds = 0
    assert json.loads(json.dumps(found.as_dict()))["consumer"]["samples"] == 18
    for item in (pipe, other):
        item.close()


def test_the_search_for_the_slowest_sample_restarts():
    pipe = make()
    for _ in range(4):
        pipe.run()
    assert any(item.slowest_sample for item in settled(pipe).segments)
    pipe._core.session.counters.forget_slowest()
    assert not any(item.slowest_sample for item in settled(pipe).segments)
    for _ in range(20):  # only one iteration in sixteen searches
        pipe.run()
    assert any(item.slowest_sample[1] >= 16 for item in settled(pipe).segments if item.slowest_sample)
    pipe.close()


def test_the_scheduled_calls_count():
    pipe = make()
    pipe.schedule_run()
    for _ in range(3):
        pipe.outputs()
        pipe.schedule_run()
    assert pipe.statistics().consumer.iterations == 3
    pipe.close()


def test_lanes_of_several_threads_lose_no_count():
    """Lanes plan iterations of one segment on several threads (fn.experimental.ready). The threads switch at every bytecode."""
    counters = SegmentCounters(SimpleNamespace(index=0, backend="cpu", instant=True, producers=()), [])
    record = SimpleNamespace(weight=1, edges={}, admitted=0, done_at={})

    def switch(frame, event, argument):
        frame.f_trace_opcodes = True
        time.sleep(0)
        return switch

    def plan():
        sys.settrace(switch)
        try:
            for _ in range(25):
                counters.planned(record, 0, 0)
        finally:
            sys.settrace(None)

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(plan) for _ in range(4)]:
            done.result()
    assert counters.iterations == 4 * 25


def test_awaited_batches_count():
    async def consume():
        async with make() as pipe:
            for _ in range(3):
                await pipe.run_async()
            return pipe.statistics()

    found = asyncio.run(consume())
    assert found.consumer.samples == 18 and found.sources[0].batches >= 3


@pytest.mark.parametrize("options", [{"exec_dynamic": False}, {"exec_async": False, "exec_pipelined": False}, {"prefetch_queue_depth": 1}])
def test_other_executors_count(options):
    pipe = make(**options)
    for _ in range(3):
        pipe.run()
    assert pipe.statistics().consumer.iterations == 3
    pipe.close()


def test_debug_mode_counts():
    @pipeline_def(batch_size=3, num_threads=2, debug=True, device_id=None)
    def graph():
        return fn.random.uniform(name="draw") * 2

    pipe = graph()
    for _ in range(4):
        pipe.run()
    found = pipe.statistics()
    assert (found.consumer.iterations, found.consumer.samples) == (4, 12)
    assert found.operator("draw").samples == 12
    assert sum(item.planning_seconds for item in found.segments) > 0
    assert not any(item.name.startswith("__input_") for item in found.operators)
    pipe.close()


def test_mixed_and_gpu_operators_count():
    pipe = pipeline_of(lambda: fn.random.uniform(device="cpu").gpu() + 1, device_id=0)
    for _ in range(3):
        pipe.run()
    found = settled(pipe)
    assert {item.backend for item in found.segments} >= {"gpu"}
    assert {stream.name for stream in found.streams} >= {"gpu"}
    pipe.close()


def test_errors_count_as_iterations():
    def source(i):
        return [np.zeros((2 if i == 1 else 4,), np.float32)] * 2

    pipe = pipeline_of(lambda: fn.reshape(fn.external_source(source), shape=[2, 2]), batch_size=2)
    pipe.run()
    with pytest.raises(RuntimeError, match="reshape"):
        pipe.run()
    pipe.run()
    found = settled(pipe).consumer
    assert (found.iterations, found.samples, found.failed) == (3, 4, 1)
    pipe.close()


def test_instant_operators_share_the_planning_time_of_their_segment():
    """The times of the operators are measured in one iteration of sixteen. The time of the segment is measured in all iterations."""
    pipe = pipeline_of(lambda: (fn.random.uniform(name="one"), fn.random.normal(name="two")), batch_size=4)
    for count in (40, 100):
        before = settled(pipe)
        for _ in range(count):
            pipe.run()
        found = settled(pipe).since(before)
        (segment,) = found.segments
        assert segment.stream == "loop" and abs(segment.iterations - count) <= 2  # prefetched iterations count, too
        times = [item.planning_seconds for item in found.operators]
        assert min(times) > 0 and sum(times) <= segment.planning_seconds
        assert 0 < segment.planning_processor_seconds <= 2 * segment.planning_seconds
        assert found.consumer.iterations == count and [item.samples for item in found.operators] == [4 * segment.iterations] * 2
    pipe.close()


def test_without_statistics_there_is_no_report():
    on, off = make(), make(enable_statistics=False)
    assert values(on.run()) == values(off.run())
    with pytest.raises(RuntimeError, match="enable_statistics=True"):
        off.statistics()
    session = off._core.session
    assert session.counters is None and not session.producer.sources.counters
    assert all(item.counters is None for item in session.operators)
    with pytest.raises(TypeError, match="enable_statistics must be True or False"):
        make(enable_statistics=["no"])
    for item in (on, off):
        item.close()


def exactly(seconds):
    return pytest.approx(seconds, rel=1e-9)


def test_a_wait_for_a_source_is_the_consumers_wait(clock):
    """A source sleeps most of its time. The time counts as the consumer's wait for the source, not as time away."""

    def ask(i):
        clock.passes(10, processor=3)
        return [np.float32([1])] * 3

    pipe = pipeline_of(lambda: fn.external_source(ask, name="slow"), prefetch_queue_depth=1)
    for _ in range(5):
        pipe.run()
    found = settled(pipe)
    (source,) = found.sources
    assert source.batches >= 5
    assert source.wait_seconds == exactly(0.01 * source.batches)
    assert source.processor_seconds == exactly(0.003 * source.batches)
    assert found.consumer.away_seconds == 0
    pipe.close()


def test_time_away_of_a_slow_consumer(clock):
    pipe = pipeline_of(lambda: fn.random.uniform(name="quick"), prefetch_queue_depth=1)
    for _ in range(5):
        pipe.run()
        settled(pipe)
        clock.passes(10)
    found = settled(pipe)
    assert found.consumer.away_seconds == exactly(0.04) and found.consumer.wait_seconds == 0
    assert found.segments[0].wait_output_seconds == exactly(0.04)  # the segment could have continued
    assert found.segments[0].wait_input_seconds == found.segments[0].wait_turn_seconds == 0
    pipe.close()


def test_a_stage_waits_for_its_input(clock):
    def slow(sample):
        clock.passes(5, processor=1)
        return sample

    def graph():
        return fn.python_function(fn.random.uniform(name="draw"), function=slow, name="slow") + 1

    pipe = pipeline_of(graph, batch_size=2, prefetch_queue_depth=1)
    for _ in range(4):
        pipe.run()
    found = settled(pipe)
    last = found.segments[-1]
    assert "slow" not in last.operators
    assert last.wait_input_seconds == exactly(0.01 * 3)  # before the first iteration no stage waits
    assert last.wait_turn_seconds == last.wait_output_seconds == 0
    assert found.operator("slow").planning_seconds == exactly(0.01 * 4)
    function = next(item for item in found.segments if "slow" in item.operators)
    assert function.planning_seconds == exactly(0.01 * 4)
    assert function.planning_processor_seconds == exactly(0.002 * 4)  # the rest of the time the function sleeps
    assert found.consumer.latency_seconds == exactly(0.01 * 4)
    pipe.close()


def test_buffers_that_the_user_holds():
    pipe = pipeline_of(lambda: fn.zeros(shape=[200, 200], dtype=types.FLOAT) + 1.0, batch_size=4)
    kept = [pipe.run() for _ in range(3)]
    found = pipe.statistics().buffers
    assert found.held_blocks == 3 and found.held_bytes >= 3 * 4 * 160_000
    assert found.allocated_bytes >= found.held_bytes + found.free_bytes
    kept.pop()
    gc.collect()
    wait_until(lambda: pipe.statistics().buffers.held_blocks == 2)  # a thread that has delivered may refer to its work until it runs again
    pipe.close()


def test_memory_of_unknown_owners_is_not_counted():
    """Memory of an owner that is no array, such as a GPU's, is not counted."""
    data = np.frombuffer(bytes(range(64)) * 4096, np.uint8).reshape(4, 65536)
    pipe = pipeline_of(lambda: fn.external_source(lambda i: data, no_copy=True), batch_size=4)
    kept = [pipe.run() for _ in range(3)]
    assert np.asarray(kept[0][0].as_tensor()).tobytes() == data.tobytes()
    wait_until(lambda: pipe.statistics().buffers.held_blocks <= 1)
    pipe.close()


class OnAGpu(BlockOwner):
    """Simulates the owner of GPU memory. tests/gpu has the test with a GPU."""

    nbytes = 1000


def test_memory_of_a_gpu_that_the_user_holds():
    counters = PipelineCounters()
    kept = [OnAGpu(), OnAGpu()]
    for owner in (*kept, OnAGpu(), np.frombuffer(bytes(8), np.uint8)):  # the owner of the last output is no array
        batch = Batch(np.full((1, 1), 1000, np.int64), types.UINT8, "", np.zeros(1, np.int64))
        batch.owner = owner
        counters.note_held([batch])
    del owner, batch
    assert counters.held() == (2, 2000)


def test_a_user_who_keeps_everything(monkeypatch):
    monkeypatch.setattr(counting, "MEDIUM", 0)
    monkeypatch.setattr(counting, "SHORT", 0)
    pipe = pipeline_of(lambda: fn.random.uniform(name="draw"))
    kept = [pipe.run() for _ in range(600)]
    assert pipe.statistics().buffers.held_blocks == 600
    assert pipe._core.session.counters._crowded >= 600  # the list of held blocks is cleaned after many batches only
    kept.clear()
    gc.collect()
    wait_until(lambda: pipe.statistics().buffers.held_blocks == 0)
    pipe.close()


def test_statistics_of_short_iterations(monkeypatch):
    """Held images are counted in every iteration, held numbers only in timed iterations."""
    monkeypatch.setattr(counting, "SHORT", 1 << 40)
    image = types.Constant(np.zeros((4, 4, 3), np.uint8), layout="HWC")
    pipe = pipeline_of(lambda: (fn.flip(image, horizontal=1), fn.random.uniform()))
    for _ in range(320):
        pipe.run()
    gc.collect()
    images, numbers = zip(*[pipe.run() for _ in range(160)])
    wait_until(lambda: 160 + 10 <= pipe.statistics().buffers.held_blocks <= 160 + 11)
    del images
    gc.collect()
    wait_until(lambda: 10 <= pipe.statistics().buffers.held_blocks <= 11)
    assert len(numbers) == 160
    pipe.close()


class Positions:
    def __call__(self, info):
        return np.int64([info.idx_in_epoch])


def test_worker_processes_count():
    pipe = pipeline_of(lambda: fn.external_source(Positions(), batch=False, parallel=True, name="numbers"), py_num_workers=2, batch_size=4)
    for _ in range(4):
        pipe.run()
    found = settled(pipe)
    assert found.workers.count == 2 and found.workers.samples >= 16 and found.workers.tasks >= 4
    assert found.sources[0].kind == "parallel" and found.sources[0].batches >= 4
    pipe.close()


@pytest.mark.parametrize(("short", "medium", "stride"), [(1 << 40, 0, 16), (0, 1 << 40, 4), (0, 0, 1)])
def test_short_iterations_are_timed_now_and_then(short, medium, stride, monkeypatch):
    """Counts stay exact. A timed iteration represents the iterations up to the next timed one."""
    monkeypatch.setattr(counting, "SHORT", short)
    monkeypatch.setattr(counting, "MEDIUM", medium)
    calls, planned = [], SegmentCounters.planned
    monkeypatch.setattr(SegmentCounters, "planned", lambda self, *args: calls.append(1) or planned(self, *args))
    pipe = pipeline_of(lambda: (fn.random.uniform(name="draw"), fn.copy(fn.random.coin_flip(), name="copy")), batch_size=3)
    for _ in range(1024):
        pipe.run()
    pipe._core.session.wait_all()
    found = pipe.statistics()
    segments = len(found.segments)
    if stride > 1:  # the first 16 iterations and those in flight are all timed, later one in `stride`
        assert (16 + 1008 // stride) * segments <= len(calls) <= (60 + 1008 // stride) * segments
    else:
        assert len(calls) >= 1024 * segments
    assert found.consumer.iterations == 1024 and found.consumer.samples == 3 * 1024
    assert abs(sum(found.queue.ready_on_arrival) - 1024) < 16
    assert all(item.iterations >= 1024 and item.samples == 3 * item.iterations for item in found.operators)
    assert all(item.batches >= 1024 or not item.pixels_seconds for item in found.segments)
    assert all(item.planning_seconds > 0 for item in found.segments)
    pipe.close()


@pytest.mark.parametrize("stride", [1, 4, 16])
def test_one_timed_iteration_represents_others(stride, monkeypatch):
    """If all iterations are equal, timing one in 16 gives the same statistics as timing each."""
    clock = [0]
    monkeypatch.setattr(counting, "now", lambda: clock[0])
    counters = PipelineCounters()
    for k in range(161):
        record = SimpleNamespace(index=k, weight=0 if k % stride else stride, arrived=0, finished=True, admitted=10, finished_at=30)
        clock[0] = 1000 + 100 * k
        counters.arrives([record, SimpleNamespace(finished=False)])
        clock[0] += 40
        counters.fetched(record, [Batch.from_values(np.zeros(5), "", types.FLOAT64)])
    assert counters.iterations == 161 and counters.samples == 5 * 161
    last = stride - 1  # the last timed iteration also counts for later iterations
    assert (counters.wait, counters.latency) == (40 * (161 + last), 20 * (161 + last))
    assert counters.away == 60 * 160 and counters.ready == [0, 161 + last]


@pytest.mark.slow  # measures processor time
def test_counting_takes_microseconds():
    """Processor time per iteration of a pipeline with one instant operator, with and without counters: the best of several rounds."""
    pipes = [pipeline_of(lambda: fn.random.uniform(name="draw"), enable_statistics=on) for on in (True, False)]
    best = [1.0, 1.0]
    for _ in range(8):
        for which, pipe in enumerate(pipes):
            start = time.process_time()
            for _ in range(128):
                pipe.run()
            best[which] = min(best[which], (time.process_time() - start) / 128)
    assert best[0] - best[1] < 60e-6, best  # about 10 on an idle machine; this machine may be busy
    for pipe in pipes:
        pipe.close()


# ---------------------------------------------------------------------------------------------------------------------- the driver


def job_of(count, timed, steps=3):
    results = np.zeros((count, 100), np.int64)
    addresses = np.array([row.ctypes.data for row in results], np.int64)
    table, keep = NUMBER.make(outputs=addresses, elements=100, factor=7, bad=-1)
    step = Step(number_step.address, table, no_explanation, keep=[*keep, results])
    job = CompiledSamples(count, [(None, step)] * steps, timed=timed)
    job.work(WorkerState())
    job.raise_error()
    assert (results == 7 * np.arange(count)[:, None]).all()
    return job


def test_the_driver_divides_its_time_among_the_steps():
    begun = time.perf_counter_ns()
    times = job_of(50, Timed.YES).times()
    assert begun <= times.begun <= time.perf_counter_ns()
    assert times.busy > 0 and len(times.steps) == 3 and all(took >= 0 for took in times.steps)
    assert abs(sum(times.steps) - times.busy) <= 3  # rounding
    assert times.processor == -1 and times.slowest == 0
    times = job_of(50, Timed.PROCESSOR).times()
    assert times.processor >= 0 and times.slowest > 0 and 0 <= times.sample < 50


def test_without_measured_times_the_driver_reports_none():
    assert job_of(50, Timed.NO).times() is None
    assert job_of(0, Timed.YES).times().busy >= 0


def test_an_estimate_grows_by_the_share_last_measured():
    estimate = Estimate()
    estimate.measured(0, 100, 50)
    assert estimate.of(100) == pytest.approx(50)
    estimate.measured(200, 100, 10)  # the 100 iterations before were not measured
    assert estimate.of(300) == pytest.approx(50 + 50 + 10)
    assert estimate.of(500) == pytest.approx(50 + 50 + 10 + 20)
    estimate.measured(500, 0, 0)  # nothing was measured
    assert estimate.of(600) == pytest.approx(50 + 50 + 10 + 20)


class Queueing:
    """An iteration in flight. While it is looked at, another thread queues one, or takes the oldest."""

    weight, arrived = 1, 0

    def __init__(self, queue, taken):
        self.queue, self.taken = queue, taken

    @property
    def finished(self):
        if self.taken:
            self.queue.popleft()
        self.queue.append(SimpleNamespace(finished=False, arrived=0, weight=1))
        return True


@pytest.mark.parametrize("taken", [False, True])
def test_the_queue_may_change_while_a_consumer_comes(taken):
    counters, queue = PipelineCounters(), deque()
    first = Queueing(queue, taken)
    queue += [first, Queueing(queue, taken)]
    counters.arrives(queue)
    assert first.arrived and counters.ready == [0, 0, 1]
