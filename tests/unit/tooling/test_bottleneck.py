"""The sentence that names the bottleneck, for constructed statistics: every kind, its numbers, and the thresholds between kinds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from asyncdali.operators import load_registry
from asyncdali.operators.python.python_function import PythonFunction
from asyncdali.runtime.counting.statistics import (
    BufferStatistics,
    ConsumerStatistics,
    EngineStatistics,
    OperatorStatistics,
    QueueStatistics,
    SegmentStatistics,
    SourceStatistics,
    Statistics,
    StreamStatistics,
    ThreadStatistics,
    WorkerStatistics,
)  # fmt: skip
from asyncdali.tooling import bottleneck
from asyncdali.tooling.bottleneck import find
from asyncdali.tooling.sharing import CONSUMER, STAGES, WORKERS, Sharing

READER = OperatorStatistics("reader", "readers.file", "cpu", 100, 3200, 10**8, 0.1, 0.4, 0.0, 0.35)
DECODE = OperatorStatistics("decode", "decoders.image", "cpu", 100, 3200, 10**9, 0.1, 0.0, 13.0, 0.0)
RESIZE = OperatorStatistics("resize", "resize", "cpu", 100, 3200, 10**9, 0.1, 0.0, 5.3, 0.0)
SEGMENT = SegmentStatistics(
    index=0, backend="cpu", stream="cpu", operators=("reader", "decode", "resize"), iterations=100, planning_seconds=0.3,
    planning_processor_seconds=0.3, batches=100, samples=3200, pixels_seconds=9.6, pixels_busy_seconds=18.3, pixels_processor_seconds=18.0,
    slowest_sample_seconds=0.9, slowest_sample=(0.02, 7, 3, "a/b.jpg"), wait_output_seconds=9.0, wait_input_seconds=0.0,
    wait_turn_seconds=0.0,
)  # fmt: skip
BUSY = Statistics(
    elapsed_seconds=10.0, batch_size=32, consumer=ConsumerStatistics(100, 3200, 0, 9.5, 0.4, 20.0), queue=QueueStatistics(2, 2, 0, (98, 2)),
    segments=(SEGMENT,), operators=(READER, DECODE, RESIZE), sources=(), threads=ThreadStatistics(2, 18.7, 18.3),
    streams=(StreamStatistics("cpu", (0,), 0.3, 0.0),), buffers=BufferStatistics(0, 0, 0, 0), workers=None,
)  # fmt: skip
"""Two threads that decode all the time, and a consumer that waits."""

IDLE = replace(
    BUSY,
    threads=ThreadStatistics(2, 1.0, 0.9),
    segments=(replace(SEGMENT, pixels_seconds=0.6, pixels_busy_seconds=1.0, pixels_processor_seconds=0.9, slowest_sample_seconds=0.04),),
    operators=(replace(READER, prepare_seconds=0.1), replace(DECODE, steps_seconds=0.7), replace(RESIZE, steps_seconds=0.2)),
)
"""As :data:`BUSY`, but the threads are idle."""


def test_busy_threads():
    found = find(BUSY, cores=8)
    assert found.kind == "threads" and found.what == "decode"
    assert found.finding == "decoders.image is 71 % of the pixels phase and both threads are busy (94 %)"
    assert found.advice == 'more threads (num_threads=8: 6 cores to spare) or device="mixed" on a machine with a GPU'
    assert found.sentence == f"{found.finding}: {found.advice}"
    assert found.share == pytest.approx(0.935)


def test_busy_threads_beside_idle_engines_of_a_gpu():
    lanes = {"decoder": "", "hw_decoder_load": None, "engines": 0.0, "multiprocessors": 0.0}

    def advice(**changes):
        decode = replace(DECODE, backend="mixed", settings={**lanes, **changes})
        return find(replace(BUSY, operators=(READER, decode, RESIZE)), cores=8).advice

    assert advice().endswith('or the GPU\'s JPEG engines, which take from a training step (decoder="shared")')
    assert "engines" not in advice(engines=0.5)


def test_busy_threads_on_all_cores():
    found = find(BUSY, cores=2)
    assert found.kind == "threads" and "every core is in use (2)" in found.advice and "num_threads" not in found.advice


def test_a_gpu_is_advised_for_decoders_only():
    slow = replace(BUSY, operators=(READER, replace(DECODE, steps_seconds=5.3), replace(RESIZE, steps_seconds=13.0)))
    found = find(slow, cores=8)
    assert found.what == "resize" and "mixed" not in found.advice and "resize is 71 %" in found.finding


def test_the_consumer():
    consumer = replace(IDLE, consumer=ConsumerStatistics(100, 3200, 0, 0.3, 9.6, 20.0))
    found = find(consumer, cores=8)
    assert found.kind == "consumer" and "96 % of the time for itself" in found.finding and "3 %" in found.finding


def source(**changes):
    made = SourceStatistics("numbers", "called", 1, 100, 3200, 7.1, 0.1)
    consumer = ConsumerStatistics(100, 3200, 0, 0.5, 2.0, 20.0)
    return replace(IDLE, sources=(replace(made, **changes),), consumer=consumer)


def test_a_source_that_waits():
    found = find(source(), cores=8)
    assert found.kind == "source" and "'numbers' takes 71 % of the time, mostly waiting" in found.finding and "async def" in found.advice


def test_a_source_that_computes():
    found = find(source(processor_seconds=6.8), cores=8)
    assert found.kind == "interpreter" and "holding the interpreter" in found.finding and "parallel=True" in found.advice


def test_a_source_that_engines_call():
    found = find(source(kind="engines"), cores=8)
    assert found.kind == "source" and "called in 0 engines" in found.finding and "engines=" in found.advice


def test_an_awaited_source():
    found = find(source(kind="awaited", prefetch=2), cores=8)
    assert found.kind == "source" and "with 2 batches asked for ahead" in found.finding and "max_concurrency" in found.advice


@pytest.mark.parametrize(
    ("asks", "away", "kind"), [(0.4, 9.4, "consumer"), (1.0, 8.8, "source"), (2.3, 7.4, "source"), (4.0, 5.7, "source")]
)
@pytest.mark.parametrize("ahead", ["awaited", "parallel"])
def test_a_source_that_is_a_little_slower_than_the_consumer(asks, away, kind, ahead):
    """A source of 20 ms beside a step of 15 ms: the consumer waits for the source in 23 % of the time, and the source is the limit."""
    slow = replace(
        source(kind=ahead, wait_seconds=asks), consumer=ConsumerStatistics(100, 3200, 0, 0.1, away, 20.0),
        workers=WorkerStatistics(2, 400, 3200, 9.0, 30.0, 10**6, 0, 2),
    )  # fmt: skip
    found = find(slow, cores=8)
    assert found.kind == kind
    assert kind != "consumer" or "waits for batches 5 %" in found.finding


def test_a_source_that_waits_less_than_other_parts_is_not_the_limit():
    busy = replace(BUSY, sources=(replace(source(kind="awaited", wait_seconds=1.0).sources[0]),))
    assert find(busy, cores=8).kind == "threads"


def test_calls_of_sources_beside_a_slow_consumer_are_named():
    found = find(replace(source(wait_seconds=2.0), consumer=ConsumerStatistics(100, 3200, 0, 0.1, 7.8, 20.0)), cores=8)
    assert found.finding == "the consumer takes 78 % of the time for itself, calls sources 20 %, and waits for batches 1 %"


def test_busy_workers():
    workers = WorkerStatistics(2, 400, 3200, 19.0, 30.0, 10**6, 0, 2)
    found = find(replace(source(kind="parallel"), workers=workers), cores=8)
    assert found.kind == "workers" and "its 2 workers are busy 95 %" in found.finding and "py_num_workers=4" in found.advice


def test_busy_workers_on_processors_that_are_all_in_use():
    """Workers that compute, as many as processors. Those that mostly wait use few processors, and more of them help."""
    workers = WorkerStatistics(2, 400, 3200, 19.0, 30.0, 10**6, 0, 2)
    statistics = replace(source(kind="parallel"), workers=workers)
    found = find(statistics, 2, replace(ALONE, own_seconds=19.0))
    assert found.kind == "workers" and "every core is in use (2)" in found.advice and "py_num_workers" not in found.advice
    assert "py_num_workers=4" in find(statistics, 2, replace(ALONE, own_seconds=9.0)).advice


def test_idle_workers():
    workers = WorkerStatistics(4, 400, 3200, 9.0, 0.1, 10**6, 0, 2)
    found = find(replace(source(kind="parallel"), workers=workers), cores=8)
    assert found.kind == "source" and "busy only 22 %" in found.finding and "prefetch_queue_depth" in found.advice


@pytest.mark.parametrize("processor, words", [(0.1, "waits"), (9.0, "computes in Python, holding the interpreter")])
def test_a_python_function(processor, words):
    function = OperatorStatistics("blend", "python_function", "cpu", 100, 3200, 0, 9.4, 0.0, 0.0, 0.0)
    segment = replace(SEGMENT, operators=("blend",), index=1, planning_seconds=9.4, planning_processor_seconds=processor)
    found = find(replace(IDLE, operators=(*IDLE.operators, function), segments=(*IDLE.segments, segment)), cores=8)
    assert found.kind == "python_function" and found.what == "blend" and words in found.finding and "94 %" in found.finding


def test_operators_of_other_packages_may_call_python(monkeypatch):
    class Mixed(PythonFunction):
        schema = replace(PythonFunction.schema, name="other.mix")

    monkeypatch.setitem(load_registry(), "other.mix", Mixed)
    function = OperatorStatistics("mix", "other.mix", "cpu", 100, 3200, 0, 9.4, 0.0, 0.0, 0.0)
    segment = replace(SEGMENT, operators=("mix",), index=1, planning_seconds=9.4, planning_processor_seconds=9.0)
    found = find(replace(IDLE, operators=(*IDLE.operators, function), segments=(*IDLE.segments, segment)), cores=8)
    assert found.kind == "python_function" and found.what == "mix"


def test_more_threads_than_cores():
    many = replace(BUSY, threads=ThreadStatistics(16, 140.0, 19.0))
    found = find(many, cores=2)
    assert found.kind == "oversubscribed" and "16 worker threads share 2 cores" in found.finding and "num_threads=2" in found.advice
    assert find(many, cores=16).kind != "oversubscribed"


def test_slow_storage():
    reader = replace(READER, prepare_seconds=17.0, prepare_processor_seconds=0.6)
    slow = replace(IDLE, operators=(reader, *IDLE.operators[1:]), threads=ThreadStatistics(2, 18.0, 1.5))
    found = find(slow, cores=2)
    assert found.kind == "storage" and "readers.file 'reader' waits for storage: 85 %" in found.finding and "num_threads=4" in found.advice
    quick = replace(slow, operators=(replace(reader, prepare_processor_seconds=16.0), *IDLE.operators[1:]))
    assert find(quick, cores=2).kind == "threads"  # the operator computes, for example checksums


def test_threads_that_wait_for_storage_are_not_too_many():
    reader = replace(READER, prepare_seconds=150.0, prepare_processor_seconds=1.0)
    slow = replace(IDLE, operators=(reader, *IDLE.operators[1:]), threads=ThreadStatistics(16, 152.0, 2.0))
    assert find(slow, cores=2).kind == "storage"


def test_one_slow_sample():
    segment = replace(
        SEGMENT, pixels_seconds=9.0, pixels_busy_seconds=10.0, pixels_processor_seconds=10.0, slowest_sample_seconds=8.6
    )
    found = find(replace(IDLE, segments=(segment,), threads=ThreadStatistics(2, 10.0, 9.9)), cores=8)
    assert found.kind == "sample" and "86 ms" in found.finding and "sample 3 of iteration 7 (a/b.jpg)" in found.finding
    assert "prefetch_queue_depth=4" in found.advice


@pytest.mark.parametrize("processor, kind", [(8.5, "planning"), (0.5, "interpreter")])
def test_planning(processor, kind):
    segment = replace(IDLE.segments[0], planning_seconds=9.0, planning_processor_seconds=processor)
    operators = (replace(READER, planning_seconds=7.0, prepare_seconds=0.1), *IDLE.operators[1:])
    found = find(replace(IDLE, segments=(segment,), operators=operators), cores=8)
    assert found.kind == kind and found.what == "reader" and "90 %" in found.finding and "larger batches" in found.advice


def test_a_short_queue():
    segment = replace(IDLE.segments[0], wait_output_seconds=4.0)
    short = replace(
        IDLE, segments=(segment,), queue=QueueStatistics(1, 1, 0, (99, 1)), consumer=ConsumerStatistics(100, 3200, 0, 4.5, 5.0, 5.0)
    )
    found = find(short, cores=8)
    assert found.kind == "queue" and "40 % and 45 % of the time, with 1 iteration in flight" in found.finding
    assert "prefetch_queue_depth=2" in found.advice


def test_a_machine_used_by_others():
    segment = replace(IDLE.segments[0], wait_output_seconds=0.0)
    found = find(replace(IDLE, segments=(segment,), threads=ThreadStatistics(2, 11.0, 4.0)), cores=2)
    assert found.kind == "machine" and "have a processor for 36 %" in found.finding


def test_without_a_busy_resource_the_bottleneck_is_unclear():
    segment = replace(IDLE.segments[0], wait_output_seconds=0.0)
    found = find(replace(IDLE, segments=(segment,)), cores=8)
    assert found.kind == "unclear" and found.what == "decode" and "--trace" in found.advice


def test_without_iterations_there_is_no_bottleneck():
    assert find(replace(BUSY, consumer=ConsumerStatistics(0, 0, 0, 0.0, 0.0, 0.0)), cores=8).kind == "idle"


# --- processors that other programs use

ALONE = Sharing(19.0, 0.1, 0.1, {WORKERS: 1.01, STAGES: 1.01, CONSUMER: 1.01})
CROWDED = Sharing(6.0, 13.0, 12.0, {WORKERS: 3.0, STAGES: 5.0, CONSUMER: 8.0})
"""Other programs have two thirds of the processor time that the pipeline asks for."""


def test_processors_that_are_all_ours_and_processors_that_others_use():
    assert "every core is in use (2)" in find(BUSY, 2, ALONE).advice and find(BUSY, 2, ALONE).kind == "threads"
    found = find(replace(BUSY, threads=ThreadStatistics(2, 18.7, 6.0)), 2, CROWDED)
    assert found.kind == "machine" and found.share == pytest.approx(2 / 3)
    assert "other programs have 67 % of the processor time that the pipeline asks for, and both threads are busy (94 %)" in found.finding
    assert "measure again while they rest" in found.advice and "every core is in use" not in found.advice


@pytest.mark.parametrize("sharing, kind", [(CROWDED, "machine"), (ALONE, "unclear"), (None, "unclear")])
def test_threads_that_wake_up_late_are_busy_for_half_of_the_time(sharing, kind):
    segment = replace(IDLE.segments[0], wait_output_seconds=0.0)
    found = find(replace(IDLE, segments=(segment,), threads=ThreadStatistics(2, 11.0, 10.0)), 2, sharing)
    assert found.kind == kind


def test_a_computing_function_that_gets_little_of_a_processor_does_not_wait():
    """It computed for 7 % of its time, and had to wait for a processor four times as long."""
    function = OperatorStatistics("blend", "python_function", "cpu", 100, 3200, 0, 9.4, 0.0, 0.0, 0.0)
    segment = replace(SEGMENT, operators=("blend",), index=1, planning_seconds=9.4, planning_processor_seconds=0.7)
    statistics = replace(IDLE, operators=(*IDLE.operators, function), segments=(*IDLE.segments, segment))
    assert "holding the interpreter" in find(statistics, 2, CROWDED).finding
    assert "waits" in find(statistics, 2, ALONE).finding and "waits" in find(statistics, 2).finding
    sleeping = replace(segment, planning_processor_seconds=0.05)
    assert "waits" in find(replace(statistics, segments=(*IDLE.segments, sleeping)), 2, CROWDED).finding


def test_a_computing_source_that_gets_little_of_a_processor_does_not_wait():
    assert find(source(processor_seconds=0.4), 8, CROWDED).kind == "interpreter"
    assert find(source(processor_seconds=0.4), 8, ALONE).kind == "source"


def test_readers_that_get_little_of_a_processor_do_not_wait_for_storage():
    reader = replace(READER, prepare_seconds=17.0, prepare_processor_seconds=3.0)
    slow = replace(IDLE, operators=(reader, *IDLE.operators[1:]), threads=ThreadStatistics(2, 18.0, 3.5))
    assert find(slow, 2, ALONE).kind == "storage"
    assert find(slow, 2, CROWDED).kind != "storage"


def test_threads_without_a_processor_that_no_other_program_has():
    """The quota of a container stops threads that wait in no queue."""
    segment = replace(IDLE.segments[0], wait_output_seconds=0.0)
    stopped = replace(IDLE, segments=(segment,), threads=ThreadStatistics(2, 11.0, 4.0))
    assert "no other program delays them" in find(stopped, 2, replace(ALONE, own_seconds=4.0, others_seconds=0.1)).advice
    assert "something else uses" in find(stopped, 2, replace(ALONE, is_estimated=True)).advice


def engines(*planning, pixels=0.0, depth=2):
    made = tuple(EngineStatistics(k, 100 + k, 50, 50, 0, share * 10, share * 10, share * 9, pixels, 0, 0, 1)
                 for k, share in enumerate(planning))  # fmt: skip
    return replace(IDLE, engines=made, queue=QueueStatistics(depth, 2, 0, (98, 2)))


def test_an_engine_that_plans_all_the_time():
    found = find(engines(0.72, 0.71, depth=4), cores=8)
    assert found.kind == "engines" and found.what == "engine 0" and found.share == pytest.approx(0.72)
    assert found.sentence == (
        "engine 0 planned 72 % of the time, most of it decoders.image 'decode': more engines: engines=3"
    )
    assert "prefetch_queue_depth=4" in find(engines(0.72, 0.71), cores=8).advice
    assert find(engines(0.9, 0.1), cores=8).advice.startswith("a deeper queue")
    assert find(engines(0.4, 0.3), cores=8).kind != "engines"


def test_threads_of_engines_that_are_not_busy_all_the_time():
    found = bottleneck._unclear(bottleneck._Case(engines(0.1, 0.1, pixels=8.0), 8))
    assert found.finding.endswith(", the worker threads of 2 engines are busy 40 %, those of this process 5 %")


def test_threads_of_engines():
    found = find(engines(0.1, 0.1, pixels=16.0), cores=8)
    assert found.kind == "engines" and "worker threads of engine 0 are busy 80 %" in found.finding and "num_threads=4" in found.advice
    assert "every core is in use (4)" in find(engines(0.1, 0.1, pixels=16.0), cores=4).advice
