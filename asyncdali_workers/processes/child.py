"""Start and end of a process of the pool: the objects that it inherits, the descriptors that it closes, the signal that ends it."""

from __future__ import annotations

import ctypes
import faulthandler
import fcntl
import gc
import os
import random
import select
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.random  # numpy imports this module lazily; imported here, forked workers share it

from ..shared.libraries import loaded_libraries
from ..shared.system import Descriptors
from ..worker.worker import Worker, WorkerSetup
from . import signals
from .imports import forget_imports, no_imports

STACK_SIGNAL = signal.SIGRTMIN + 11
"""The signal that makes a worker write its stack and die."""

THREAD_VARIABLES = (
    "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS", "BLIS_NUM_THREADS", "OPENCV_FOR_THREADS_NUM",
)  # fmt: skip
_BLAS_SETTERS = tuple(prefix + "openblas_set_num_threads" + suffix for prefix in ("", "scipy_") for suffix in ("", "64_"))


def fork(descriptors: Descriptors, keep: frozenset[int], body: Callable[[], None]) -> int:
    """Fork a child that runs only `body`. Returns its process id.

    All signals are blocked in the child until it calls :func:`settle`.
    """
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()  # otherwise the child would print buffered text a second time
        except Exception:
            pass  # the stream is closed, or the user's own; it must not prevent the start of a worker
    descriptors.kept = keep
    try:
        with warnings.catch_warnings(), _opencv_without_threads():
            # The child runs only its own code, so threads of the parent do not matter. Python 3.12 warns about any fork beside threads.
            warnings.simplefilter("ignore", DeprecationWarning)
            with no_imports(), signals.blocked():
                pid = os.fork()
        if pid:
            return pid
        forget_imports()
        _live(descriptors, body)
        raise AssertionError  # unreachable
    finally:
        descriptors.kept = frozenset()


@contextmanager
def _opencv_without_threads() -> Iterator[None]:
    """A forked child has no OpenCV threads, so setting their number would wait for them forever.

    So the number is set here, before the fork, and reset after it."""
    cv2: Any = sys.modules.get("cv2")
    if not hasattr(cv2, "setNumThreads") or "OPENCV_FOR_THREADS_NUM" in os.environ or cv2.getNumThreads() == 1:
        yield
        return
    count, parent = cv2.getNumThreads(), os.getpid()
    cv2.setNumThreads(1)
    try:
        yield
    finally:
        if os.getpid() == parent:
            cv2.setNumThreads(count)


def _live(descriptors: Descriptors, body: Callable[[], None]) -> None:
    """Main function of a forked child. It never returns to the frames below."""
    code = 1
    try:
        gc.freeze()  # the child must not finalise the parent's garbage
        descriptors.kept = frozenset()  # a process that a callable forks keeps none of them
        body()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        leave(code)


def leave(code: int) -> None:
    """End without the parent's exit handlers, but flush what was printed."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BaseException:
            pass  # the process must end, whatever the stream does
    os._exit(code)


# ------------------------------------------------------------------------------------------------------------------ settling in


def settle(alive: int) -> None:
    """The first steps of every process of the pool."""
    signals.settle()
    die_with_parent(alive)


def die_with_parent(alive: int) -> None:
    """The kernel kills this process when the other end of `alive` is closed, whatever this process is doing."""
    # A separate open file description, because the owner (F_SETOWN) belongs to the description.
    own = os.open(f"/proc/self/fd/{alive}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    high = fcntl.fcntl(own, fcntl.F_DUPFD_CLOEXEC, alive)
    os.close(own)
    fcntl.fcntl(high, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(high, _F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(high, fcntl.F_SETFL, fcntl.fcntl(high, fcntl.F_GETFL) | os.O_ASYNC)
    poll = select.poll()
    poll.register(high, 0)
    if poll.poll(0):  # the parent ended before this function was called
        os._exit(1)


_F_SETSIG = 10


def run_worker(setup: WorkerSetup, index: int, incarnation: int, chosen: frozenset[str] | None = None) -> None:
    """A worker's life after its set-up."""
    show_lines_at_once()
    cap_threads(users_thread_variables() if chosen is None else chosen)
    seed_generators(setup.seed, index, incarnation)
    faulthandler.register(STACK_SIGNAL, file=setup.memory, all_threads=True, chain=True)
    Worker(setup, index, incarnation).serve()


def show_lines_at_once() -> None:
    """Output of callables is flushed after every line, so it is visible even if the worker is killed later."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            try:
                stream.reconfigure(line_buffering=True)
            except Exception:
                pass  # the stream is closed


def report_failure(setup: WorkerSetup, index: int, error: BaseException, what: str) -> None:
    """Report to the parent why the worker cannot start."""
    try:
        Worker(setup, index, 0).report_failure(error, what)
    except Exception:  # the parent sees the worker's end, and the reason is printed
        traceback.print_exc()


# ------------------------------------------------------------------------------------------------------------ random, threads


def seed_generators(seed: int, index: int, incarnation: int) -> None:
    """Give each worker distinct and reproducible streams of random numbers."""
    sequence = np.random.SeedSequence(seed, spawn_key=(index, incarnation))
    words = sequence.generate_state(8)
    random.seed(int.from_bytes(words[:4].tobytes(), "little"))
    np.random.seed(words[4:])
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.default_generator.manual_seed(int(words[4]) << 31 ^ int(words[5]))  # the CPU's generator; workers do not use others


def default_thread_variables(environment: Any) -> None:
    """Set one thread for libraries that are loaded later, unless the user has set a number."""
    for name in THREAD_VARIABLES:
        environment.setdefault(name, "1")


def users_thread_variables() -> frozenset[str]:
    """The variables that the user has set. They are kept."""
    return frozenset(name for name in THREAD_VARIABLES if name in os.environ)


def cap_threads(chosen: frozenset[str]) -> None:
    """Set one thread per worker for libraries that would use all cores, unless the user has `chosen` a number. OpenCV: see `fork`."""
    default_thread_variables(os.environ)
    if not chosen & {"OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"}:
        _cap_loaded_blas()
    torch = sys.modules.get("torch")
    if hasattr(torch, "set_num_threads") and "OMP_NUM_THREADS" not in chosen:
        torch.set_num_threads(1)  # type: ignore[union-attr]


def _cap_loaded_blas() -> None:
    for path in loaded_libraries("openblas"):
        try:
            library = ctypes.CDLL(path, os.RTLD_NOLOAD | os.RTLD_NOW)
        except OSError:
            continue
        for name in _BLAS_SETTERS:
            setter = getattr(library, name, None)
            if setter is not None:
                setter(1)
                break
