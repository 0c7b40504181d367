"""The executor: overlap, order, failures, asynchronous use, forks and the exit of the interpreter."""

from __future__ import annotations

import asyncio
import itertools
import os
import select
import signal
import threading

import numpy as np
import pytest
from helpers.pipelines import pipeline_of, values
from helpers.probes import BarrierProbe, CounterProbe, PairProbe, Probe, SampleProbe, StepProbe, call, fail_at
from helpers.warm import run_warm

from asyncdali import OperatorConcurrency, Pipeline, StreamPolicy, fn
from asyncdali.device.threads import WorkerThreads
from asyncdali.operators.base import SampleError, Step
from asyncdali.runtime.work.jobs import CompiledSamples, Timed

# --- overlap


@pytest.mark.parametrize("num_threads", [1, 3])
@pytest.mark.parametrize("concurrency", [OperatorConcurrency.BACKEND, OperatorConcurrency.FULL])
def test_cpu_mixed_and_gpu_of_three_iterations_run_at_once(num_threads, concurrency):
    """The cpu step of iteration k+2, the mixed step of k+1 and the gpu step of k meet at a barrier, or the test fails."""
    meeting = threading.Barrier(3, timeout=300)
    last = 6
    met = []

    def hook(lag):
        def meet(index, count):
            if lag <= index <= last - 2 + lag:  # the first and the last iterations have no partners at the barrier
                meeting.wait()
                met.append((lag, index))

        return meet

    def graph():
        a = call(BarrierProbe, hook=hook(2))
        b = call(BarrierProbe, a, device="mixed", hook=hook(1))
        return call(BarrierProbe, b, hook=hook(0))

    pipeline = pipeline_of(graph, num_threads=num_threads, prefetch_queue_depth=3, concurrency=concurrency)
    for _ in range(last - 1):
        pipeline.schedule_run()
    got = [values(pipeline.outputs())[0][0] for _ in range(last + 1)]
    assert got == list(range(last + 1))
    assert len(met) == 3 * (last - 1)


def test_pixels_overlap_with_the_next_plan():
    """An operator plans its next iteration while a later operator still computes samples of the current one."""
    planned = [threading.Event() for _ in range(3)]

    def consume(index, sample):
        if index < 2:
            assert planned[index + 1].wait(300)

    graph = lambda: call(SampleProbe, call(BarrierProbe, hook=lambda k, n: planned[k].set() if k < 3 else None).gpu(), work=consume)  # noqa: E731
    pipeline = pipeline_of(graph, prefetch_queue_depth=3)
    assert [values(pipeline.run())[0][0] for _ in range(3)] == [0, 1, 2]


@pytest.mark.parametrize("concurrency", list(OperatorConcurrency))
def test_no_operator_runs_two_iterations_at_once(concurrency):
    busy = [threading.Lock() for _ in range(3)]
    order = [[] for _ in range(3)]

    def hook(which):
        def check(index, count):
            assert busy[which].acquire(blocking=False), "two iterations of one operator at once"
            order[which].append(index)
            for _ in range(50):
                os.sched_yield()
            busy[which].release()

        return check

    def graph():
        a = call(BarrierProbe, hook=hook(0))
        return call(BarrierProbe, a.gpu(), hook=hook(1)), call(SampleProbe, a, hook=hook(2), work=lambda k, i: os.sched_yield())

    pipeline = pipeline_of(graph, prefetch_queue_depth=5, concurrency=concurrency)
    for _ in range(30):
        pipeline.run()
    pipeline.close()
    assert all(indices == list(range(len(indices))) for indices in order)


def test_concurrency_none_runs_one_segment_at_a_time():
    busy = threading.Lock()

    def alone(index, count):
        assert busy.acquire(blocking=False)
        os.sched_yield()
        busy.release()

    def graph():
        a, b = call(BarrierProbe, hook=alone), call(BarrierProbe, hook=alone, device="gpu")
        return call(BarrierProbe, a.gpu(), b, hook=alone)

    pipeline = pipeline_of(graph, prefetch_queue_depth=4, concurrency=OperatorConcurrency.NONE)
    for _ in range(10):
        pipeline.run()


def mixed_graph():
    """A graph that goes from CPU to GPU, back, and to GPU again, with draws, pixels, Python functions and argument inputs."""
    a = fn.random.uniform(shape=[3])
    b = fn.copy(a.gpu())
    c = fn.copy(b.cpu())
    d = call(BarrierProbe, c)
    size = fn.random.uniform(range=[1, 5], dtype=3, shape=[1])
    e = fn.reshape(fn.copy(fn.random.normal(shape=size)).gpu(), layout="X")
    return a, b, c, d, fn.copy(e), size, call(CounterProbe), call(StepProbe, c, factor=3), call(StepProbe, b, factor=2)


def test_all_policies_and_flags_give_the_same():
    wanted = None
    for policy, concurrency in itertools.product(StreamPolicy, OperatorConcurrency):
        pipeline = pipeline_of(mixed_graph, stream_policy=policy, concurrency=concurrency)
        got = [values(pipeline.run()) for _ in range(4)]
        wanted = wanted or got
        assert got == wanted, (policy, concurrency)
    for options in ({"exec_pipelined": False}, {"exec_async": False}, {"exec_async": False, "exec_pipelined": False},
                    {"num_threads": 1}, {"num_threads": 7, "prefetch_queue_depth": 6}):  # fmt: skip
        pipeline = pipeline_of(mixed_graph, exec_dynamic=True, **options)
        assert [values(pipeline.run()) for _ in range(4)] == wanted, options


def test_stream_assignment():
    """PER_OPERATOR opens as many streams as the graph has independent branches."""
    def graph():
        a = call(BarrierProbe, device="gpu")
        b, c = call(BarrierProbe, a), call(BarrierProbe, a, name="c")
        return call(BarrierProbe, b, c), call(BarrierProbe, device="mixed")

    def streams(policy):
        pipeline = pipeline_of(graph, stream_policy=policy)
        pipeline.build()
        return len({id(segment.stream) for segment in pipeline._core.session.executor._program.segments})

    assert streams(StreamPolicy.SINGLE) == 1
    assert streams(StreamPolicy.PER_BACKEND) == 2
    assert streams(StreamPolicy.PER_OPERATOR) == 3


# --- failures


def phases():
    """Graphs that fail in iterations 1 and 3. Each graph fails in another phase or operator."""
    fail = fail_at(1, 3)

    def work(index, sample):
        if index in (1, 3) and sample == 2:
            raise KeyError(f"planned failure {index}")

    return {
        "plan": lambda: call(Probe, hook=fail),
        "prepare": lambda: call(SampleProbe, work=work),
        "barrier": lambda: call(BarrierProbe, hook=fail),
        "gpu": lambda: call(BarrierProbe, call(CounterProbe).gpu(), hook=fail),
        "mixed": lambda: call(Probe, call(CounterProbe), hook=fail, device="mixed"),
        "before others": lambda: fn.copy(call(BarrierProbe, call(BarrierProbe, call(Probe, hook=fail)).gpu())),
        "beside others": lambda: (fn.copy(call(Probe, hook=fail)), fn.copy(call(Probe, device="gpu"))),
        "preserved": lambda: (call(Probe), call(Probe, hook=fail, preserve=True))[0],
    }


@pytest.mark.parametrize("phase", list(phases()))
@pytest.mark.parametrize("options", [{}, {"exec_async": False}, {"exec_pipelined": False}, {"prefetch_queue_depth": 5},
                                     {"concurrency": OperatorConcurrency.NONE}], ids=str)  # fmt: skip
def test_a_failure_affects_only_its_iteration(phase, options):
    def graph():
        made = phases()[phase]()
        return (call(CounterProbe), fn.random.uniform(), *(made if isinstance(made, tuple) else (made,)))

    clean = pipeline_of(lambda: (call(CounterProbe), fn.random.uniform()))
    wanted = [values(clean.run()) for _ in range(6)]
    pipeline = pipeline_of(graph, **options)
    for k in range(6):
        if k in (1, 3):
            with pytest.raises((RuntimeError, KeyError), match=f"planned failure {k}"):
                pipeline.run()
        else:
            assert values(pipeline.run()[:2]) == wanted[k]  # the positions have advanced as without the failure


def test_compiled_failures_name_operator_line_iteration_and_sample():
    def graph():
        return call(StepProbe, bad=1, name="Broken")

    pipeline = pipeline_of(graph)
    for k in range(3):
        with pytest.raises(RuntimeError) as caught:
            pipeline.run()
        text = str(caught.value)
        for part in ("test_step_probe", "Broken", f"iteration {k}", "sample 1", "failed with 42", __file__, "in graph", "call(StepProbe"):
            assert part in text
        assert isinstance(caught.value.__cause__, SampleError)


def test_error_types_and_causes():
    class Odd(Exception):
        pass

    def hook_raising(error):
        def hook(index, count):
            raise error

        return hook

    kept = [kind(kind.__name__) for kind in (ValueError, IndexError, KeyError, TypeError, OverflowError, MemoryError)]
    turned = [Odd("odd"), StopIteration(), AssertionError("a"), ZeroDivisionError("z"), OSError(5, "io")]
    for error, kind in [*((error, type(error)) for error in kept), *((error, RuntimeError) for error in turned)]:
        pipeline = pipeline_of(lambda error=error: call(BarrierProbe, hook=hook_raising(error)))
        with pytest.raises(kind, match=r"test_barrier_probe") as caught:
            pipeline.run()
        cause = caught.value.__cause__
        while cause is not None and cause is not error:
            cause = cause.__cause__
        assert cause is error


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, asyncio.CancelledError, GeneratorExit])
def test_unusual_exceptions_do_not_hang_or_end_threads(error):
    def hook(index, count):
        if index == 1:
            raise error

    pipeline = pipeline_of(lambda: call(Probe, hook=hook))
    pipeline.run()
    with pytest.raises((RuntimeError, error)):
        pipeline.run()
    assert values(pipeline.run())[0][0] == 2


@pytest.mark.parametrize("depth", [1, 2, 5])
def test_a_bug_in_a_decision_ends_all_waiting(depth, monkeypatch, caplog):
    """With a depth of 1 the error occurs when an iteration is queued. With larger depths it may also occur when an iteration ends."""
    pipeline = pipeline_of(lambda: call(Probe), prefetch_queue_depth=depth)
    pipeline.run()

    def broken(*args):
        raise KeyError("a bug")

    monkeypatch.setattr(pipeline._core.session.executor.placement, "begin", broken)
    with pytest.raises((KeyError, RuntimeError)):  # the error of the waiting iteration, or of queueing the next one
        for _ in range(depth + 3):  # some iterations may be complete already
            pipeline.run()
    with pytest.raises(RuntimeError, match=r"executor failed") as caught:
        pipeline.run()
    assert isinstance(caught.value.__cause__, KeyError)
    assert "unexpected error in the executor's scheduling" in caplog.text
    pipeline.close()


def test_the_error_names_the_first_failed_sample():
    def work(index, sample):
        if sample in (1, 2):
            raise ValueError(f"sample {sample} is bad")

    pipeline = pipeline_of(lambda: call(SampleProbe, work=work), num_threads=3)
    with pytest.raises(ValueError, match=r"sample 1 is bad"):
        pipeline.run()


def test_failure_with_a_thousand_segments():
    def graph():
        node = call(BarrierProbe, hook=fail_at(0))
        for _ in range(1000):
            node = call(BarrierProbe, node)
        return node

    pipeline = pipeline_of(graph)
    with pytest.raises(RuntimeError, match=r"planned failure 0"):
        pipeline.run()
    assert values(pipeline.run())[0][0] == 1


def test_two_outputs_and_none_used():
    pipeline = pipeline_of(lambda: call(PairProbe)[1])
    pipeline.run()
    assert values(pipeline.run())[0] == [-1, -1, -1]


def test_batch_size_one_and_more_threads_than_samples():
    pipeline = pipeline_of(mixed_graph, batch_size=1, num_threads=6)
    assert all(len(batch) == 1 for batch in pipeline.run())


# --- asynchronous use


def test_run_async_and_run_give_the_same():
    wanted = pipeline_of(mixed_graph)
    wanted = [values(wanted.run()) for _ in range(5)]

    async def main():
        pipeline = pipeline_of(mixed_graph)
        return [values(await pipeline.run_async()) for _ in range(5)]

    assert asyncio.run(main()) == wanted


def test_run_inside_a_running_loop():
    async def main():
        pipeline = pipeline_of(lambda: call(Probe))
        return [values(pipeline.run())[0][0] for _ in range(4)]

    assert asyncio.run(main()) == [0, 1, 2, 3]


def test_other_tasks_run_while_a_batch_is_awaited():
    gate = threading.Event()

    async def main():
        pipeline = pipeline_of(lambda: call(BarrierProbe, hook=lambda k, n: gate.wait(300)))
        waiting = asyncio.ensure_future(pipeline.run_async())
        await asyncio.sleep(0)
        assert not waiting.done()
        gate.set()  # a blocked loop would not get here
        return values(await waiting)[0][0]

    assert asyncio.run(main()) == 0


@pytest.mark.parametrize("depth", [1, 2, 4])
def test_cancellation_loses_no_batch(depth):
    gates = [threading.Event() for _ in range(40)]

    async def main():
        pipeline = pipeline_of(lambda: call(BarrierProbe, hook=lambda k, n: gates[k].wait(300)), prefetch_queue_depth=depth)
        got = []
        for k in range(8):
            for _ in range(k % 3):
                task = asyncio.ensure_future(pipeline.run_async())
                await asyncio.sleep(0)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(pipeline.run_async(), 0.001)
            gates[k].set()
            got.append(values(await pipeline.run_async())[0][0])
        assert len(pipeline._core.session.in_flight) == depth - 1  # cancelled calls did not make the queue longer
        for gate in gates:
            gate.set()
        return got

    assert asyncio.run(main()) == list(range(8))


def test_several_tasks_are_served_in_turn():
    async def main():
        pipeline = pipeline_of(lambda: call(Probe))
        return [values(batch)[0][0] for batch in await asyncio.gather(*(pipeline.run_async() for _ in range(7)))]

    assert asyncio.run(main()) == list(range(7))


def test_errors_and_the_end_in_async_use():
    class Ending(Pipeline):
        left = 4

        def iter_setup(self):
            if not self.left:
                raise StopIteration
            self.left -= 1

    async def main():
        pipeline = Ending(batch_size=3, num_threads=2, seed=1)
        with pipeline:
            pipeline.set_outputs(call(Probe, hook=fail_at(1)))
        assert values(await pipeline.run_async())[0][0] == 0
        with pytest.raises(RuntimeError, match=r"planned failure 1"):
            await pipeline.run_async()
        assert [values(await pipeline.run_async())[0][0] for _ in range(2)] == [2, 3]
        for _ in range(2):
            with pytest.raises(StopAsyncIteration):
                await pipeline.run_async()
        pipeline.reset()
        pipeline.left = 3
        assert [values(batch)[0][0] async for batch in pipeline] == [4, 5, 6]
        pipeline.left = 2
        assert [values(batch)[0][0] async for batch in pipeline] == [7, 8]

    asyncio.run(main())


def test_async_context_manager_closes():
    async def main():
        async with pipeline_of(lambda: call(Probe)) as pipeline:
            await pipeline.run_async()
        with pytest.raises(RuntimeError, match=r"closed"):
            await pipeline.run_async()

    asyncio.run(main())


def test_closing_wakes_an_awaiting_task():
    gate = threading.Event()

    def open_while_closing(executor):
        while not executor.closed:
            os.sched_yield()
        gate.set()

    async def main():
        pipeline = pipeline_of(lambda: call(BarrierProbe, hook=lambda k, n: gate.wait(300)))
        task = asyncio.ensure_future(pipeline.run_async())
        await asyncio.sleep(0)
        opener = threading.Thread(target=open_while_closing, args=(pipeline._core.session.executor,))
        opener.start()
        pipeline.close()
        with pytest.raises(RuntimeError, match=r"closed"):
            await task
        opener.join(300)

    asyncio.run(main())


def test_a_closed_user_loop_does_not_stop_the_pipeline():
    gate = threading.Event()
    pipeline = pipeline_of(lambda: call(BarrierProbe, hook=lambda k, n: gate.wait(300)))
    loop = asyncio.new_event_loop()
    task = loop.create_task(pipeline.run_async())
    loop.run_until_complete(asyncio.sleep(0))
    task._log_destroy_pending = False
    loop.close()
    gate.set()
    pipeline._core.session.wait_all()
    assert values(pipeline.run())[0][0] == 0
    del task


# --- processes

SCRIPT = """
import asyncio, os, signal, sys, threading
os.environ["ASYNCDALI_DOCTOR"] = "0"  # no advice about this machine on stderr
from asyncdali import Pipeline, fn
from helpers.pipelines import pipeline_of, values
from helpers.probes import BarrierProbe, Probe, call
def make(graph=lambda: fn.copy(fn.random.uniform(shape=[1000])), **options):
    return pipeline_of(graph, **options)
"""


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_loops(loop):
    if loop == "uvloop":
        pytest.importorskip("uvloop")
    done = run_warm(
        SCRIPT + """
pipeline = make()
first = values(pipeline.run())
assert asyncio.run(make().run_async()) is not None
from asyncdali.runtime.order.loop import shared_loop
print(type(shared_loop().loop).__module__.split(".")[0], sum(sum(row) for row in first[0]))
""", ASYNCDALI_LOOP=loop)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[0] == ("uvloop" if loop == "uvloop" else "asyncio") and done.stderr == ""


FULL = """
import resource
pipeline = make()
taken = []
resource.setrlimit(resource.RLIMIT_NOFILE, (256, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
for free in map(int, sys.argv[1:]):
    while True:
        try:
            taken.append(os.dup(0))
        except OSError:
            break
    for _ in range(free):
        os.close(taken.pop())
    try:
        pipeline.build()
        print("built")
    except RuntimeError as error:
        print(error)
    while taken:
        os.close(taken.pop())
print(len(pipeline.run()), len(make().run()))
"""


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_loop_without_descriptors(loop):
    """uvloop aborts the process if it cannot open the descriptors that it needs."""
    done = run_warm(SCRIPT + FULL, 1, 3, 15, 16, ASYNCDALI_LOOP=loop)
    assert done.returncode == 0, done.stderr
    *said, built, later = done.stdout.splitlines()
    for free, line in zip((1, 3, 15), said, strict=True):
        assert line.startswith(f"the event loop cannot be started: {free} file descriptors are free, at least 16 are needed (this process ")
        assert "256" in line and "ulimit -n" in line
    assert (built, later) == ("built", "1 1")  # 16 descriptors suffice, also after these errors


def test_an_async_source_without_descriptors(monkeypatch):
    from asyncdali.sources import awaited

    def fail():
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(awaited, "LOOP_DESCRIPTORS", 1 << 20)
    monkeypatch.setattr(select, "epoll", fail)
    with pytest.raises(RuntimeError, match=r"`async def` sources cannot be started: 0 file descriptors are free, at least 1048576 are"):
        awaited.SourceLoop()


def test_an_unknown_loop_is_refused():
    done = run_warm(SCRIPT + "make().run()", ASYNCDALI_LOOP="twisted")
    assert done.returncode == 1 and "ASYNCDALI_LOOP='twisted'" in done.stderr


OTHER_WAYS = [pytest.param(way, marks=pytest.mark.slow) for way in ("sys.exit(3)", "pipeline.close()", "del pipeline")]


@pytest.mark.parametrize("loop", [pytest.param("asyncio", marks=pytest.mark.slow), "uvloop"])
@pytest.mark.parametrize("leave", ["pass", "raise ValueError('bye')", *OTHER_WAYS])
def test_leaving_the_interpreter(leave, loop):
    done = run_warm(SCRIPT + f"pipeline = make(prefetch_queue_depth=5)\nkept = pipeline.run()\n{leave}", timeout=300, ASYNCDALI_LOOP=loop)
    wanted = {"sys.exit(3)": 3, "raise ValueError('bye')": 1}.get(leave, 0)
    assert done.returncode == wanted, done.stderr
    assert ("bye" in done.stderr) if wanted == 1 else done.stderr == ""


def test_leaving_with_stuck_user_code_does_not_hang():
    done = run_warm(
        SCRIPT + "pipeline = make(lambda: call(BarrierProbe, hook=lambda k, n: threading.Event().wait(600)))\npipeline.schedule_run()",
        timeout=300,
    )
    assert done.returncode == 0 and done.stderr == ""


def test_interrupt_ends_quickly():
    """Ctrl-C while `run()` waits raises KeyboardInterrupt, with one traceback and without losing a batch. Other places: test_interrupts."""
    done = run_warm(
        SCRIPT + """
gate = threading.Event()
def interrupt():
    while sys._current_frames()[threading.main_thread().ident].f_code.co_name != "wait":
        os.sched_yield()
    os.kill(os.getpid(), signal.SIGINT)
    gate.wait(300)
def hook(k, n):
    if k == 1:
        interrupt()
pipeline = make(lambda: call(BarrierProbe, hook=hook), prefetch_queue_depth=1)
got = [values(pipeline.run())[0][0]]
try:
    pipeline.run()
    raise SystemExit("not interrupted")
except KeyboardInterrupt:
    gate.set()
got += [values(pipeline.run())[0][0] for _ in range(3)]
assert got == [0, 1, 2, 3], got
assert len(pipeline._core.session.in_flight) == 0
gate.clear()
make(lambda: call(BarrierProbe, hook=lambda k, n: interrupt())).run()
""", timeout=300)  # fmt: skip
    assert done.returncode in (-signal.SIGINT, 130, 1), done.stderr
    assert done.stderr.count("Traceback") == 1 and done.stderr.rstrip().endswith("KeyboardInterrupt"), done.stderr


def test_fork_while_a_pipeline_runs():
    """The child cannot use the parent's pipeline, but it can build and run another one. The parent continues."""
    done = run_warm(
        SCRIPT + """
parent = make(prefetch_queue_depth=3)
wanted = [values(parent.run()) for _ in range(6)]
parent = make(prefetch_queue_depth=3)
kept = parent.run()
for _ in range(5):
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            try:
                parent.run()
            except RuntimeError as error:
                assert "forked child" in str(error)
            assert values(kept) == wanted[0]
            own = make()
            assert [values(own.run()) for _ in range(3)] == wanted[:3]
            own.close()
            parent.close()
            del parent, kept
            code = 0
        finally:
            sys.stderr.flush()
            os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0
    values(parent.run())
assert values(kept) == wanted[0]
print("parent", sum(1 for t in threading.enumerate()))
""", timeout=300)  # fmt: skip
    assert done.returncode == 0 and done.stdout.startswith("parent") and "Traceback" not in done.stderr, done.stderr


def test_a_forked_child_may_exit_normally():
    done = run_warm(
        SCRIPT + """
import multiprocessing
parent = make()
parent.run()
def work():
    values(make().run())
for _ in range(2):
    process = multiprocessing.get_context("fork").Process(target=work)
    process.start()
    process.join(300)
    assert process.exitcode == 0
if os.fork() == 0:
    values(make().run())
    sys.exit(0)
assert os.wait()[1] == 0
values(parent.run())
""", timeout=300)  # fmt: skip
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr


def test_many_pipelines_at_once_from_many_threads():
    wanted = pipeline_of(mixed_graph)
    wanted = [values(wanted.run()) for _ in range(5)]
    results = {}

    def work(k):
        pipeline = pipeline_of(mixed_graph, num_threads=1 + k % 3)
        results[k] = [values(pipeline.run()) for _ in range(5)]
        if k % 2:
            pipeline.close()

    threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    assert all(results[k] == wanted for k in range(6))


def test_two_threads_on_one_pipeline_get_every_batch_once():
    pipeline = pipeline_of(lambda: call(Probe))
    got = []

    def work():
        for _ in range(100):
            got.append(values(pipeline.run())[0][0])

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    assert sorted(got) == list(range(300))


def test_callbacks_may_run_other_pipelines_and_may_not_close_their_own():
    inner = []

    def nested(index, count):
        other = pipeline_of(lambda: call(Probe))
        inner.append(values(other.run())[0][0])
        other.close()

    pipeline_of(lambda: call(BarrierProbe, hook=nested), exec_pipelined=False).run()
    assert inner == [0]
    pipeline = pipeline_of(lambda: call(BarrierProbe, hook=lambda k, n: pipeline.close()))
    with pytest.raises(RuntimeError, match=r"close\(\) was called from a function that the same pipeline calls"):
        pipeline.run()
    pipeline.close()


def test_two_pipelines_interleaved():
    one, two = pipeline_of(mixed_graph), pipeline_of(mixed_graph)
    for _ in range(5):
        assert values(one.run()) == values(two.run())


def test_set_affinity(monkeypatch):
    monkeypatch.setenv("DALI_AFFINITY_MASK", "0")
    seen = set()
    graph = lambda: call(SampleProbe, work=lambda k, i: seen.add(tuple(os.sched_getaffinity(0))))  # noqa: E731
    pipeline_of(graph, set_affinity=True, num_threads=1).run()
    assert seen == {(0,)}
    monkeypatch.setenv("DALI_AFFINITY_MASK", "zero")
    with pytest.raises(ValueError, match=r"DALI_AFFINITY_MASK"):
        pipeline_of(lambda: call(Probe), set_affinity=True).build()


@pytest.mark.slow
def test_endurance():
    pipeline = pipeline_of(mixed_graph, prefetch_queue_depth=4)
    reference = pipeline_of(mixed_graph, num_threads=1, exec_pipelined=False, exec_dynamic=True)
    for _ in range(2000):
        for one, two in zip(pipeline.run(), reference.run(), strict=True):
            for k in range(len(one)):
                np.testing.assert_array_equal(np.asarray(one.as_cpu()[k]), np.asarray(two.as_cpu()[k]))


def test_waiting_tasks_are_served_in_the_order_of_their_calls():
    """The task that waits longest is served first, also if the batch is ready before the task runs again."""

    async def main():
        for _ in range(40):
            pipeline = pipeline_of(lambda: call(Probe), prefetch_queue_depth=3)
            tasks = [asyncio.create_task(pipeline.run_async()) for _ in range(9)]
            await asyncio.sleep(0)
            cancelled = tasks[4].cancel()  # unless the task has its batch already
            served = await asyncio.gather(*tasks, return_exceptions=True)
            assert isinstance(served[4], asyncio.CancelledError) == cancelled
            got = [values(batch)[0][0] for batch in served if not isinstance(batch, asyncio.CancelledError)]
            assert got == list(range(len(got)))
            pipeline.close()

    asyncio.run(main())


def test_a_stopped_job_needs_no_memory_of_its_threads():
    """A job may be stopped before a worker thread takes part. Then the thread has no memory for its times, and must not need any."""
    context = np.zeros(1, np.int64)
    step = Step(1, context, lambda code, text, sample: text)  # a call of this address would crash
    job = CompiledSamples(4, [(None, step)], timed=Timed.YES)
    done = threading.Event()
    job.finished = done.set
    job.stop()
    workers = WorkerThreads(1, "test")
    workers.submit(job, 4)
    assert done.wait(300)
    workers.close()
    assert workers.join(300)
