"""Dropping the last reference to a pipeline ends its threads and workers immediately, without the garbage collector, after any history.

A kept exception keeps the frames of its traceback alive, and so the pipeline. These tests try every place that keeps an exception.
"""

from __future__ import annotations

import gc
import weakref

import pytest
from helpers.marks import slow
from helpers.warm import run_warm

from asyncdali.system.deadlocks import DeadlockWait

PROGRAM = """
    import asyncio, gc, re, sys, threading, weakref
    gc.disable()
    import numpy as np
    from asyncdali import Pipeline, fn
    from helpers.processes import children, wait_until, wait_until_gone

    SAMPLES = np.zeros((4, 3), np.uint8)

    class Ending:
        def __init__(self, error=StopIteration):
            self.error = error
        def __call__(self, k):
            if (k if isinstance(k, int) else k.iteration) >= 3:
                raise self.error("the end")
            return SAMPLES if isinstance(k, int) else SAMPLES[0]

    def batches():
        yield from [SAMPLES] * 3

    async def awaited(k):
        return Ending()(k)

    async def awaited_failing(k):
        return Ending(ValueError)(k)

    async def awaited_sample(info):
        return Ending(ValueError)(info)

    async def awaited_batches():
        for batch in batches():
            yield batch

    def failing(sample):
        raise ValueError("no")

    def source(*args, **options):
        return lambda: fn.external_source(*args, **options)

    GRAPHS = {
        "called": source(Ending()),
        "called-failing": source(Ending(ValueError)),
        "generator": source(batches),
        "parallel": source(Ending(), parallel=True),
        "parallel-samples": source(Ending(), parallel=True, batch=False),
        "parallel-failing": source(Ending(ValueError), parallel=True),
        "parallel-generator": source(batches, parallel=True),
        "awaited": source(awaited),
        "awaited-failing": source(awaited_failing),
        "awaited-samples": source(awaited_sample, batch=False),
        "awaited-generator": source(awaited_batches),
        "pushed": source(name="data"),
        "function": lambda: fn.python_function(fn.external_source(Ending()), function=failing),
        "operator": lambda: fn.reshape(fn.external_source(Ending()), shape=[7]),
    }

    def times(count, step):
        for _ in range(count):
            try:
                step()
            except Exception:
                pass

    def run(pipe):
        times(5, pipe.run)

    def run_until_an_error_waits(pipe):
        times(3, pipe.run)

    def run_twice_through(pipe):
        run(pipe)
        pipe.reset()
        run(pipe)

    def scheduled(pipe):
        times(5, lambda: (pipe.schedule_run(), pipe.outputs()))

    def only_scheduled(pipe):
        times(6, pipe.schedule_run)

    def epoch(pipe):
        times(1, lambda: [None for _ in pipe.epoch()])

    def fed_wrongly(pipe):
        times(1, lambda: pipe.feed_input("data", [np.zeros(3, np.uint8)] * 4))
        times(1, lambda: pipe.feed_input("data", [np.zeros((2, 2), np.float32)] * 4))
        times(1, lambda: pipe.feed_input("data", [np.zeros(3, np.uint8)] * 40))

    def awaited_runs(pipe):
        async def all_of_them():
            for _ in range(5):
                try:
                    await pipe.run_async()
                except Exception:
                    pass
        asyncio.run(all_of_them())

    def interrupted(pipe):
        pipe.build()
        def interrupt():
            raise KeyboardInterrupt
        pipe.iter_setup = interrupt
        for _ in range(3):
            try:
                pipe.run()
            except KeyboardInterrupt:
                pass

    EVENTS = [
        Pipeline.build, run, run_until_an_error_waits, run_twice_through, scheduled, only_scheduled, epoch, fed_wrongly, awaited_runs,
        interrupted,
    ]

    def remaining():
        return [thread for thread in threading.enumerate() if re.match("asyncdali-[0-9a-f]+-", thread.name)]

    for name in sys.argv[2:]:
        for number, event in enumerate(EVENTS):
            for checkpointing in (False, True) if sys.argv[1] == "both" else (number % 2 == 0,):
                pipe = Pipeline(batch_size=4, num_threads=2, py_num_workers=2, enable_checkpointing=checkpointing)
                with pipe:
                    pipe.set_outputs(GRAPHS[name]())
                event(pipe)
                gone = weakref.ref(pipe)
                pipe.iter_setup = None
                del pipe
                print(name, getattr(event, "__name__", event), "checkpointing", checkpointing, file=sys.stderr)
                wait_until_gone(gone)
                for thread in remaining():
                    thread.join(300)
                assert not remaining(), remaining()
                wait_until(lambda: not children())
    print("all gone")
"""

CASES = [
    "called called-failing generator pushed",
    "parallel parallel-samples",
    "parallel-failing parallel-generator",
    "awaited awaited-failing awaited-samples awaited-generator",
    "function operator",
]


@pytest.mark.parametrize("checkpointing", ["in turns", *slow("both")])
@pytest.mark.parametrize("names", CASES)
def test_kept_errors_do_not_keep_the_pipeline_alive(names, checkpointing):
    done = run_warm(PROGRAM, checkpointing, *names.split(), timeout=300)
    assert done.stdout == "all gone\n", done.stderr


ITERATORS = """
    import gc, sys, weakref
    gc.disable()
    import numpy as np
    from asyncdali import Pipeline, fn
    from asyncdali.plugin.pytorch import DALIGenericIterator
    from helpers.processes import children, wait_until, wait_until_gone

    def failing(k):
        if k == 2:
            raise ValueError("no")
        return np.zeros((4, 3), np.uint8) if k < 4 else [][0]

    def broken(sample):
        raise ValueError("no")

    def called():
        return fn.python_function(fn.external_source(failing), function=broken)

    for graph in (lambda: fn.external_source(failing, parallel=True), called):
        pipe = Pipeline(batch_size=4, num_threads=2, py_num_workers=1)
        with pipe:
            pipe.set_outputs(graph())
        gone = weakref.ref(pipe)
        try:
            batches = DALIGenericIterator(pipe, ["data"])
            for _ in range(6):
                try:
                    next(batches)
                except Exception:
                    pass
        except Exception:
            batches = None
        del pipe, batches
        wait_until_gone(gone)
        wait_until(lambda: not children())
    print("all gone")
"""


def test_no_iterator_holds_the_pipeline_after_errors():
    pytest.importorskip("torch")
    done = run_warm(ITERATORS, timeout=300)
    assert done.stdout == "all gone\n", done.stderr


ANY_FRAMEWORK = """
    import gc, sys, threading, weakref
    gc.disable()
    import numpy as np
    from asyncdali import fn, pipeline_def
    from asyncdali.plugin.base_iterator import BaseIterator
    from helpers.processes import children, wait_until, wait_until_gone

    class Arrays(BaseIterator):
        def _converted(self, outputs, keep):
            return [np.array(output.as_tensor()) for output in outputs]

    def source(info):
        if info.iteration >= 3:
            raise StopIteration
        if event == "source" and info.iteration == 1:
            raise ValueError("bad")
        return np.int32([info.idx_in_epoch])

    def wrong(array):
        raise ZeroDivisionError("wrong")

    def use(parallel, prepared):
        @pipeline_def(batch_size=2, num_threads=1, device_id=None, py_num_workers=1, enable_checkpointing=True)
        def graph():
            numbers = fn.external_source(source, batch=False, parallel=parallel)
            return fn.python_function(numbers, function=wrong) if event == "operator" else numbers

        pipe = graph()
        found = weakref.ref(pipe)
        try:
            iterator = Arrays([pipe], ["x"], prepare_first_batch=prepared)
            for _ in range(6):
                try:
                    next(iterator)
                except (StopIteration, RuntimeError, ValueError):
                    pass
        except RuntimeError:
            pass
        return found

    for event in ("end", "source", "operator"):
        for parallel in (False, True):
            for prepared in (True, False):
                print(event, "parallel", parallel, "prepared", prepared, file=sys.stderr)
                wait_until_gone(use(parallel, prepared))
                wait_until(lambda: not children())
    print("all gone")
"""


def test_no_iterator_of_any_framework_is_in_a_cycle():
    """Iterators are freed without the collector: after the end, and after errors of sources and operators in constructor and `next`."""
    done = run_warm(ANY_FRAMEWORK, timeout=300)
    assert done.stdout == "all gone\n", done.stderr


IMPORTING = """
    import gc, os, signal, sys, threading, weakref
    gc.disable()
    sys.path.insert(0, sys.argv[2])
    os.environ["PYTHONPATH"] = os.pathsep.join([os.environ["PYTHONPATH"], sys.argv[2]])
    import slow_import
    from asyncdali import Pipeline, fn
    from helpers.processes import children, wait_until, wait_until_gone

    method, folder, when = sys.argv[1:4]
    open(os.path.join(folder, "workers-import-slowly"), "w").close() if when == "start" else None
    pipe = Pipeline(batch_size=4, num_threads=2, py_num_workers=2, py_start_method=method)
    with pipe:
        pipe.set_outputs(fn.external_source(slow_import.dying if when == "replacement" else slow_import.batch, parallel=True))

    def importing():
        return os.path.exists(os.path.join(folder, "importing"))

    if when == "start":
        def interrupt():
            wait_until(importing)
            os.kill(os.getpid(), signal.SIGINT)
        threading.Thread(target=interrupt).start()
        try:
            pipe.build()
        except KeyboardInterrupt:
            pass
        else:
            raise AssertionError("not interrupted")
    else:
        pipe.build()
        open(os.path.join(folder, "workers-import-slowly"), "w").close()
        for _ in range(3):
            pipe.run()
        wait_until(importing)
    gone = weakref.ref(pipe)
    del pipe
    wait_until_gone(gone)
    wait_until(lambda: not children())
    print("all gone")
"""

SLOW_IMPORT = '''
import os, time
import numpy as np
FOLDER = os.path.dirname(os.path.abspath(__file__))
if os.path.exists(os.path.join(FOLDER, "workers-import-slowly")):
    open(os.path.join(FOLDER, "importing"), "w").close()
    time.sleep(600)

def batch(k):
    return np.zeros((4, 3), np.uint8)

def dying(k):
    if k == 2:
        try:
            os.close(os.open(os.path.join(FOLDER, "died"), os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            pass
        else:
            os._exit(3)
    return batch(k)
'''


@pytest.mark.parametrize("method, when", [("spawn", "start"), ("spawn", "replacement"), ("forkserver", "start")])
def test_workers_that_still_import_end_with_the_last_reference(method, when, tmp_path):
    """A replacement by the forkserver is forked and imports nothing."""
    (tmp_path / "slow_import.py").write_text(SLOW_IMPORT)
    done = run_warm(IMPORTING, method, tmp_path, when, timeout=300)
    assert done.stdout == "all gone\n", done.stderr


def test_reading_stacks_keeps_no_frame_alive():
    """A call that waits for more than 50 ms inspects the stacks of all threads, also of its own thread."""

    class Thing:
        pass

    def waits():
        thing = Thing()
        DeadlockWait(lambda frame: False).look()
        return weakref.ref(thing)

    gc.disable()
    try:
        assert waits()() is None
    finally:
        gc.enable()
