"""Evaluation contexts: which device and threads the calls of a thread use, and the checkpoint that belongs to them."""

from __future__ import annotations

import operator
import os
import threading
import weakref
from typing import TYPE_CHECKING, Any

from ..system import forks
from ..system.entered import Entered, EnteredContext, Leave
from .devices import Device, current_number, entered_devices, initial_number
from .engine import CallEngine, ThreadCrew, thread_state
from .loops import entered_loops
from .modes import entered_modes
from .spellings import spelled
from .streams import Stream, as_stream, stream_of

if TYPE_CHECKING:
    from .checkpoints import Checkpoint

_MOST_PER_CPU = 100


def _usable_cpus() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _checked_threads(number: object, what: str = "num_threads", fewest: int = 1) -> int:
    if isinstance(number, bool) or not hasattr(number, "__index__"):
        raise TypeError(f"{what} is a number of threads, got {number!r}")
    count = operator.index(number)
    most = _MOST_PER_CPU * (os.cpu_count() or 1)
    if not fewest <= count <= most:
        raise ValueError(f"{what} is {count}; possible are {fewest} to {most} ({_MOST_PER_CPU} for each processor)")
    return count


class _Defaults:
    """The default pool of the process."""

    threads: int | None = None
    crew: ThreadCrew | None = None
    pid = 0


def get_num_threads() -> int:
    """Number of threads of the default pool: that of :func:`set_num_threads`, of DALI_NUM_THREADS, or of the usable processors."""
    if _Defaults.threads is not None:
        return _Defaults.threads
    wish = os.environ.get("DALI_NUM_THREADS", "")
    if wish:
        try:
            return _checked_threads(int(wish), "DALI_NUM_THREADS")
        except ValueError:
            raise ValueError(f"DALI_NUM_THREADS={wish!r} is not a number of threads") from None
    return _usable_cpus()


def set_num_threads(n: int | None) -> None:
    """Set the size of the default pool, which contexts without threads of their own use. None: the default size.

    Raises:
        TypeError: `n` is no integer.
        ValueError: `n` is less than 1, or more than 100 for each processor.
    """
    _Defaults.threads = None if n is None else _checked_threads(n, "n")
    _Defaults.crew = None


def _default_crew() -> ThreadCrew:
    crew = _Defaults.crew
    if crew is None or _Defaults.pid != forks.pid:
        crew = _Defaults.crew = ThreadCrew(get_num_threads())
        _Defaults.pid = forks.pid
    return crew


class ThreadPool:
    """Worker threads that several contexts may share.

    Args:
        num_threads: 0 and 1 mean that the calling thread works alone; by default as many as the default pool has.
        device_id: the GPU that the threads work for, or None for none; by default the current one.

    Raises:
        TypeError, ValueError: as :func:`set_num_threads`; a GPU that does not exist.
    """

    def __init__(self, num_threads: int | None = None, *, device_id: object = -1):
        self._num_threads = get_num_threads() if num_threads is None else _checked_threads(num_threads, fewest=0)
        if device_id == -1:
            device_id = Device.current().device_id
        elif device_id is not None:
            device_id = _gpu_number(device_id)
        self._device_id = device_id
        self._crew: ThreadCrew | None = None
        self._pid = 0

    @property
    def num_threads(self) -> int:
        """Number of threads, the calling one among them."""
        return self._num_threads

    @property
    def device_id(self) -> int | None:
        """The GPU that they work for, or None."""
        return self._device_id

    def _workers(self) -> ThreadCrew:
        if self._crew is None or self._pid != forks.pid:
            self._crew, self._pid = ThreadCrew(self._num_threads), forks.pid
        return self._crew


def _gpu_number(device_id: Any) -> int:
    """A checked number of a GPU; ValueError if it does not exist."""
    try:
        number = Device("gpu", device_id).device_id
    except RuntimeError as error:
        raise ValueError(f"there is no GPU number {device_id}: {error}") from None
    assert number is not None
    return number


class _OwnContexts(threading.local):
    def __init__(self) -> None:
        self.contexts: dict[int | None, EvalContext] = {}


_own = _OwnContexts()
_contexts = Entered()


class EvalContext:
    """Device, threads, stream and checkpoint of the calls of a thread. As a context manager it is the thread's current one.

    Calls that wait to be computed (mode `deferred`) are computed when the context is left. If one fails whose result was never read, the
    first such error is raised there.

    Args:
        num_threads: threads of its own; by default it shares the process's default pool.
        device_id: the GPU of its calls; by default the current one.
        cuda_stream: the stream of its GPU work: a :class:`Stream`, or what :func:`stream` takes.
        thread_pool: threads to share, instead of `num_threads`.

    Raises:
        ValueError: `num_threads` with `thread_pool`, a pool of another device, a GPU that does not exist, or a wrong number of threads.
    """

    @spelled(device="give device_id=number, or use `with ndd.Device(name):`", stream="use cuda_stream", threads="use num_threads")
    def __init__(
        self, *, num_threads: int | None = None, device_id: int | None = None, cuda_stream: object = None,
        thread_pool: ThreadPool | None = None,
    ):  # fmt: skip
        if num_threads is not None and thread_pool is not None:
            raise ValueError("give num_threads or thread_pool, not both: a pool has its threads")
        if thread_pool is not None and not isinstance(thread_pool, ThreadPool):
            raise TypeError(f"thread_pool is a ThreadPool, got {type(thread_pool).__name__}")
        self._device_id = Device.current().device_id if device_id is None else _gpu_number(device_id)
        if thread_pool is not None and thread_pool.device_id not in (None, self._device_id):
            raise ValueError(f"the threads of the pool work for GPU {thread_pool.device_id}, the context is for {self._device_id}")
        self._pool = thread_pool
        if num_threads is not None:
            self._pool = ThreadPool(num_threads, device_id=self._device_id)
        self._stream = None if cuda_stream is None else as_stream(cuda_stream, self._device_id)
        self._engine: CallEngine | None = None
        self._checkpoint: Checkpoint | None = None
        self._thread: int | None = None
        self._entries: list[EnteredContext] = []
        self._waiting: list[Any] = []

    @staticmethod
    def current() -> EvalContext:
        """The calling thread's context: the innermost ``with EvalContext(...)``, else its default one."""
        return (_contexts.innermost() or EvalContext.default()) if _contexts.entries else EvalContext.default()

    @staticmethod
    def default() -> EvalContext:
        """The calling thread's default context for the current device."""
        number = current_number()
        found = _own.contexts.get(number)
        if found is None:
            found = _own.contexts[number] = EvalContext(device_id=number)
        return found

    @property
    def device_id(self) -> int | None:
        """The GPU's number; None: calls run on the CPU."""
        return self._device_id

    @property
    def num_threads(self) -> int:
        """Number of threads that long work is shared among."""
        return get_num_threads() if self._pool is None else self._pool.num_threads

    @property
    def thread_pool(self) -> ThreadPool:
        """The threads. Contexts without threads of their own have a view of the default pool."""
        return ThreadPool(device_id=self._device_id) if self._pool is None else self._pool

    @property
    def cuda_stream(self) -> Stream | None:
        """The stream of its GPU work; None without a GPU."""
        if self._stream is None and self._device_id is not None:
            return stream_of(self._device_id)
        return self._stream

    @property
    def checkpoint(self) -> Checkpoint:
        """The states that belong to this context."""
        if self._checkpoint is None:
            from .checkpoints import Checkpoint

            self._checkpoint = Checkpoint()
        return self._checkpoint

    @property
    def engine(self) -> CallEngine:
        """Memory, threads and bricks of its calls."""
        found = self._engine
        if found is not None and self._pool is None and found.crew is _Defaults.crew and _Defaults.pid == forks.pid:
            return found  # nearly always
        crew = _default_crew() if self._pool is None else self._pool._workers()
        if found is None or found.crew is not crew:
            found = self._engine = crew.engine(self._device_id)
        return found

    def cached_results(self, *args: object) -> None:
        """Reserved, as in DALI: nothing is cached between calls."""

    def cache_results(self, *args: object) -> None:
        """Reserved, as in DALI: nothing is cached between calls."""

    def evaluate_all(self) -> None:
        """Compute the calls of this context that wait (mode `deferred`). Raises the first error; the other calls are computed, too."""
        waiting, self._waiting = self._waiting, []
        failure: BaseException | None = None
        for reference in waiting:
            work = reference()
            if work is None or work.is_done:
                continue
            try:
                work.batches()
            except Exception as error:
                failure = error if failure is None else failure
        if failure is not None:
            try:
                raise failure
            finally:
                del failure

    def waits(self, work: object) -> None:
        """A call of mode `deferred` belongs to this context."""
        self._waiting.append(weakref.ref(work))
        if len(self._waiting) > 256:
            self._waiting = [item for item in self._waiting if item() is not None and not item().is_done]

    def __enter__(self) -> EvalContext:
        me = threading.get_ident()
        entries = self._entered()
        if entries and self._thread != me:
            raise RuntimeError("the context is active in another thread; make one context for each thread")
        self._thread = me
        self._entries = entries
        entries.append(_contexts.enter(self))
        return self

    def _entered(self) -> list[EnteredContext]:
        """Its entries that are not over; also asked by other threads. No generator: an interrupt while Python closes one is lost."""
        return [entry for entry in self._entries if entry.owner() is not None]

    def _left(self, kind: object) -> None:
        if kind is None and self._waiting and not self._entered():
            self.evaluate_all()

    __exit__ = Leave(_contexts, _left)


class CallingThread:
    """The state of a thread that each call needs.

    contexts, devices, modes, loops  entries of the thread, also those that are over
    state                            its memory for compiled code
    """

    __slots__ = ("contexts", "devices", "loops", "modes", "state")

    def __init__(self) -> None:
        self.contexts, self.devices, self.modes, self.loops = _contexts.entries, entered_devices(), entered_modes(), entered_loops()
        self.state = thread_state()

    def engine(self) -> CallEngine:
        """The engine of the current context."""
        if self.contexts or self.devices:
            return EvalContext.current().engine
        crew = _Defaults.crew
        if crew is None or _Defaults.pid != forks.pid:
            crew = _default_crew()
        return crew.engine(initial_number())


class _Calling(threading.local):
    def __init__(self) -> None:
        self.thread = CallingThread()


calling = _Calling()
"""``calling.thread`` is the calling thread. One look at what belongs to a thread takes as long as ten at what belongs to an object."""


def current_checkpoint() -> Checkpoint:
    """The checkpoint of the calling thread's current context."""
    return EvalContext.current().checkpoint
