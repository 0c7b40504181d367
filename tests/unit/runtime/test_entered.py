"""Contexts that a thread has entered: an interrupt at any step leaves them entered or as they were."""

from __future__ import annotations

import contextlib
import gc
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import asyncdali.dynamic as ndd
from asyncdali import Pipeline
from asyncdali.graph import context
from asyncdali.system.entered import Entered, Leave


class Interrupted(BaseException):
    pass


def states() -> tuple[object, ...]:
    return ndd.EvalMode.current(), ndd.Device.current(), ndd.EvalContext.current(), Pipeline.current()


class Stopped:
    """Raises an exception at step number `step` of the library's code; each bytecode is a step, as for a handler of a signal."""

    def __init__(self, step: int):
        self.left = step
        self.reached = False

    def __call__(self, frame, event, argument):
        if not frame.f_code.co_filename.endswith(("modes.py", "devices.py", "contexts.py", "context.py", "entered.py", "threading.py")):
            return None
        frame.f_trace_opcodes = True
        if event in ("opcode", "call"):
            self.left -= 1
            if self.left < 0 and not self.reached:
                self.reached = True
                raise Interrupted
        return self


def entered_modes() -> None:
    with ndd.EvalMode.sync_cpu, ndd.EvalMode.deferred:
        assert ndd.EvalMode.current() is ndd.EvalMode.deferred


def entered_devices() -> None:
    with ndd.Device("cpu"), ndd.Device("cpu") as device:
        assert ndd.Device.current() is device


CONTEXT = ndd.EvalContext(num_threads=1)


def entered_contexts() -> None:
    with CONTEXT, CONTEXT, ndd.EvalContext():
        assert ndd.EvalContext.current() is not CONTEXT


PIPELINE = Pipeline(batch_size=1, num_threads=1, device_id=None)


def entered_pipelines() -> None:
    with PIPELINE as pipeline, context.Defining(None, None):
        assert Pipeline.current() is None
    assert pipeline is PIPELINE


def after_an_error() -> None:
    with contextlib.suppress(ValueError), ndd.EvalMode.sync_cpu, CONTEXT:
        raise ValueError("in the block")


def in_a_generator() -> None:
    def items():
        with ndd.EvalMode.sync_full:
            yield ndd.EvalMode.current()

    for item in items():
        assert item is ndd.EvalMode.sync_full


@pytest.mark.parametrize("program", [entered_modes, entered_devices, entered_contexts, entered_pipelines, after_an_error, in_a_generator])
def test_an_interrupt_at_any_step(program) -> None:
    """In a thread of its own: an exception between two steps of a `with` can leave an exception in CPython's state of the thread."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(interrupted_at_all_steps, program).result(timeout=120)


def interrupted_at_all_steps(program) -> None:
    """The traceback is alive while the state is looked at, as in an `except` block and in a notebook."""
    before, steps = states(), 0
    while True:
        stopped, kept, tracing = Stopped(steps), None, sys.gettrace()
        sys.settrace(stopped)
        try:
            program()
        except Interrupted as error:
            kept = error
        finally:
            sys.settrace(tracing)
        assert states() == before, f"step {steps}"
        if not stopped.reached:
            break
        del kept
        steps += 1
    assert steps > 40
    failures: list[BaseException] = []

    def elsewhere() -> None:  # an interrupted entry does not keep a context in this thread
        try:
            entered_contexts()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join(60)
    assert not failures


def test_entering_without_a_with_statement() -> None:
    before = states()
    with contextlib.ExitStack() as stack:
        assert stack.enter_context(ndd.EvalMode.sync_cpu) is ndd.EvalMode.current() is ndd.EvalMode.sync_cpu
        assert stack.enter_context(CONTEXT) is ndd.EvalContext.current() is CONTEXT
        gc.collect()
        assert ndd.EvalMode.current() is ndd.EvalMode.sync_cpu
    assert states() == before
    ndd.EvalMode.deferred.__enter__()
    leave = ndd.EvalMode.sync_full.__exit__
    ndd.EvalMode.sync_full.__enter__()
    assert ndd.EvalMode.current() is ndd.EvalMode.sync_full
    leave(None, None, None)
    assert ndd.EvalMode.current() is ndd.EvalMode.deferred
    ndd.EvalMode.deferred.__exit__(None, None, None)
    assert states() == before
    with pytest.raises(RuntimeError, match="has not entered it"):
        ndd.EvalMode.deferred.__exit__(None, None, None)


def test_contexts_that_end_in_another_order() -> None:
    def within(mode):
        with mode:
            yield

    first, second = within(ndd.EvalMode.sync_cpu), within(ndd.EvalMode.sync_full)
    next(first)
    next(second)
    first.close()
    assert ndd.EvalMode.current() is ndd.EvalMode.sync_full
    second.close()
    assert ndd.EvalMode.current() is ndd.EvalMode.eager


def test_many_entries_leave_nothing() -> None:
    entered = Entered()

    class Context:
        def __enter__(self) -> None:
            entered.enter(self)

        __exit__ = Leave(entered)

    for _ in range(1000):
        with Context():
            pass
    assert len(entered.entries) <= 1 and entered.innermost() is None and not entered.entries
