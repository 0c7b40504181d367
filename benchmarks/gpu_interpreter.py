"""``python -m benchmarks.gpu_interpreter [photos]``: interpreter time of the pipelines of ``benchmarks.gpu``, without a GPU.

CUDA and nvJPEG are stubs in C++ (``cuda_stub.cpp``). All other code is the code that drives a GPU: the driver with its commands,
the binding of nvJPEG, tables, pools, streams, threads. The remaining functions of CuPy are called through ctypes here. A call takes 0.3 to
0.6 us; in CuPy it takes 0.1 to 0.2 us. A batch on the engines takes `--pace` milliseconds, so threads sleep and wake up as they do beside
a GPU.

The first figure per sample is the processor time of all threads, minus the time in compiled code and in nvJPEG
(asyncdali.tooling.interpreter). It is an upper bound of the time that the lock is held, because it includes system calls. The next figures
are the same by thread, per batch. `--profile` lists functions by their own time, which the profiler makes two to three times as long.
"""

from __future__ import annotations

import argparse
import cProfile
import ctypes
import gc
import math
import os
import pstats
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from .gpu import BATCH, decoded, rotated, training, two_views
from .gpu_operators import OPERATORS, pipeline

_PIPELINES = (decoded, training, rotated, two_views)
_ROLES = ("nvjpeg", "loop", "cpu", "mixed", "gpu", "device", "worker", "Main")
_STRETCHES = 5
"""Number of measurements in a row. On a shared machine processor time varies, and the minimum is nearest to the truth."""
_SOURCE = Path(__file__).with_name("cuda_stub.cpp")


def _built_stub(folder: str) -> Any:
    """The stub as a loaded library. It has the name of CUDA's library, so every request to the loader for CUDA gives the stub."""
    path = f"{folder}/libcuda.so.1"
    subprocess.run(["g++", "-std=c++17", "-O2", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o", path, str(_SOURCE)], check=True)
    return ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)


class _Array:
    """An array of the stub's memory, with the part of CuPy's interface that the driver uses. Its properties take the time of CuPy's."""

    __slots__ = ("_c_contiguous", "_shape", "data", "dtype", "nbytes", "size")

    def __init__(self, address: int, shape: tuple[int, ...], dtype: np.dtype):
        self._c_contiguous = True
        self.data, self._shape, self.dtype = SimpleNamespace(ptr=address, device_id=0), shape, dtype
        self.size = math.prod(shape)
        self.nbytes = self.size * dtype.itemsize

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self._shape)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        place = self.data.ptr, False
        return {"shape": self._shape, "typestr": self.dtype.str, "data": place, "version": 3, "strides": None, "stream": 1}


def _cupy(stub: Any) -> Any:
    """The part of CuPy's interface that the driver uses, over the stub."""

    def function(name: str, count: int, result: Any = ctypes.c_int64) -> Any:
        # CuPy keeps the interpreter lock while it calls these.
        kind = ctypes.PYFUNCTYPE if name in ("set_device", "query", "elapsed", "create", "destroy", "record") else ctypes.CFUNCTYPE
        return kind(result, *[ctypes.c_int64] * count)((f"stub_{name}", stub))

    runtime = SimpleNamespace(
        setDevice=function("set_device", 1), free=function("free", 1), freeHost=function("free", 1), malloc=function("malloc", 1),
        hostAlloc=function("host_alloc", 2), hostRegister=lambda address, size, flags: None, hostUnregister=lambda address: None,
        streamCreateWithFlags=function("create", 1), streamDestroy=function("destroy", 1),
        deviceSynchronize=lambda: None, streamSynchronize=function("synchronize_stream", 1),
        eventCreateWithFlags=function("create", 1), eventRecord=function("record", 2),
        eventDestroy=function("destroy", 1),
        eventSynchronize=function("synchronize", 1), eventQuery=function("query", 1),
        eventElapsedTime=function("elapsed", 2, ctypes.c_double),
        getDeviceCount=lambda: 1, CUDARuntimeError=RuntimeError,
    )  # fmt: skip
    default = SimpleNamespace(ptr=0)
    return SimpleNamespace(cuda=SimpleNamespace(runtime=runtime, get_current_stream=lambda: default), ndarray=_Array)


def use_stub(folder: str, pace: float, event: float = -1) -> Any:
    """Make the stub this process's GPU. A batch of JPEGs takes `pace` milliseconds, and all work before an event takes `event` milliseconds
    (negative: `pace`)."""
    stub = _built_stub(folder)
    stub.stub_pace(ctypes.c_int64(int(pace * 1e6)))
    stub.stub_event_pace(ctypes.c_int64(int(event * 1e6)))
    stub.stub_calls.restype = stub.stub_allocations.restype = ctypes.c_int64
    sys.modules["cupy"] = _cupy(stub)
    os.environ["ASYNCDALI_DEVICE"], os.environ["CUDA_DEVICE_MAX_CONNECTIONS"] = "cuda", "32"
    from asyncdali.device import select
    from asyncdali.device.cuda import nvjpeg_library
    from asyncdali.device.cuda.driver import CupyDriver

    class Driver(CupyDriver):
        def load(self, kernel: Any) -> Any:
            return SimpleNamespace(ptr=1)

    library = nvjpeg_library.Library(f"{folder}/libcuda.so.1")
    nvjpeg_library.load = lambda: library  # type: ignore[assignment]
    select._driver = Driver()
    return stub


def report(make: Any, photos: str, threads: int, depth: int, iterations: int, stub: Any) -> None:
    """Print the line of one pipeline and the lines of its threads."""
    import asyncdali
    from asyncdali.tooling.interpreter import interpreter_time

    pipe = make(asyncdali, photos, threads, depth)
    pipe.build()
    for _ in range(3 * depth):
        pipe.run()
    calls, memory = stub.stub_calls(), stub.stub_allocations()
    began = resource.getrusage(resource.RUSAGE_SELF)
    stretches = []
    for _ in range(_STRETCHES):
        with interpreter_time() as used:
            for _ in range(iterations):
                pipe.run()
        stretches.append(used)
    ended, batches = resource.getrusage(resource.RUSAGE_SELF), _STRETCHES * iterations
    calls, memory = stub.stub_calls() - calls, stub.stub_allocations() - memory
    stretches.sort(key=lambda used: used.seconds)
    best, median = (used.seconds / (iterations * BATCH) * 1e6 for used in (stretches[0], stretches[_STRETCHES // 2]))
    print(
        f"{make.__name__:9} {threads} threads, depth {depth}: {best:.1f} us per sample at best, median {median:.1f}; {calls / batches:.0f} "
        f"calls of CUDA and nvJPEG per batch, {memory} of them for memory in {batches} batches",
        flush=True,
    )
    by_role: dict[str, float] = defaultdict(float)
    for name, seconds in stretches[0].threads:
        by_role[next((role for role in _ROLES if role in name), name)] += seconds
    parts = sorted(by_role.items(), key=lambda item: -item[1])
    print("          " + ", ".join(f"{role} {seconds / iterations * 1e6:.0f}" for role, seconds in parts) + " us per batch", flush=True)
    system, switches = ended.ru_stime - began.ru_stime, ended.ru_nvcsw + ended.ru_nivcsw - began.ru_nvcsw - began.ru_nivcsw
    print(f"          the whole process: {system / batches * 1e6:.0f} us in the system, {switches / batches:.0f} switches per batch")
    pipe.close()


def operators(make: Any, photos: str, threads: int, depth: int, iterations: int) -> None:
    """Print the interpreter time of each operator's planning and launches, in microseconds of processor time per batch.

    Compiled calls that release the lock are included; planning on a GPU makes almost none. Two clock readings per call add 1 us.
    """
    import asyncdali

    pipe = make(asyncdali, photos, threads, depth)
    pipe.build()
    spent: dict[str, list[int]] = {}

    def timed(function: Any, where: list[int], place: int) -> Any:
        def call(*args: Any, **named: Any) -> Any:
            began = time.thread_time_ns()
            try:
                return function(*args, **named)
            finally:
                where[place] += time.thread_time_ns() - began

        return call

    def watched(plan: Any, where: list[int]) -> Any:
        measured = timed(plan, where, 0)

        def call(*args: Any) -> Any:
            planned = measured(*args)
            where[2] += 1
            for step in planned.steps:
                if step.launches is not None:
                    step.launches = timed(step.launches, where, 1)
            return planned

        return call

    for built in pipe._core.session.operators:
        where = spent[f"{built.planned.spec.name} {built.planned.spec.schema.name} ({built.planned.spec.device})"] = [0, 0, 0]
        built.operator.plan = watched(built.operator.plan, where)
    for _ in range(3 * depth):
        pipe.run()
    for where in spent.values():
        where[:] = [0, 0, 0]
    for _ in range(iterations):
        pipe.run()
    print(f"{make.__name__}: us per batch in plan() and in launches()")
    for name, (planning, launching, count) in spent.items():
        print(f"  {name:56} {planning / 1e3 / max(count, 1):8.1f} {launching / 1e3 / max(count, 1):8.1f}", flush=True)
    pipe.close()


def _fed(stub: Any, large: bool, batches: int) -> list[list[_Array]]:
    """Batches of arrays with the shapes of the pictures of ``benchmarks.gpu operators``."""
    stub.stub_malloc.restype = ctypes.c_int64
    made = []
    for k in range(batches):
        rng = np.random.default_rng(3 + k)
        shapes = [(1080, 1920, 3)] * 32 if large else [(*rng.integers(300, 601, 2).tolist(), 3) for _ in range(64)]
        made.append([_Array(stub.stub_malloc(ctypes.c_int64(math.prod(shape))), shape, np.dtype(np.uint8)) for shape in shapes])
    return made


def fed_operators(names: Sequence[str], iterations: int, stub: Any, batches: int) -> None:
    """Print the time per batch of single operators on pictures that are fed from GPU memory, as in ``benchmarks.gpu operators``."""
    import asyncdali

    for large in (False, True):
        fed = _fed(stub, large, batches)
        print(f"{'32 pictures of 1920 x 1080' if large else '64 pictures with sides of 300 to 600'}: us per batch (best of {_STRETCHES})")
        print(f"  {'operator':24} {'wall':>8} {'all threads':>12} {'calling thread':>15}")
        sums = []
        for name in names:
            pipe = pipeline(asyncdali, name, fed)
            for _ in range(12):
                pipe.run()
            found = []
            for _ in range(_STRETCHES):
                clocks = time.perf_counter, time.process_time, time.thread_time
                began = [clock() for clock in clocks]
                for _ in range(iterations):
                    pipe.run()
                found.append([(clock() - start) / iterations * 1e6 for clock, start in zip(clocks, began)])
            best = np.min(found, 0)
            sums.append(best)
            print(f"  {name:24} {best[0]:8.0f} {best[1]:12.0f} {best[2]:15.0f}", flush=True)
            pipe.close()
        mean = np.exp(np.mean(np.log(sums), 0))
        print(f"  {'geometric mean':24} {mean[0]:8.0f} {mean[1]:12.0f} {mean[2]:15.0f}", flush=True)


def profile_fed(name: str, iterations: int, lines: int, order: str, stub: Any, batches: int) -> None:
    """Print functions of a fed operator by their own processor time, on all threads."""
    import asyncdali

    _profiled(lambda: pipeline(asyncdali, name, _fed(stub, False, batches)), 2, iterations, lines, order)


def profile(make: Any, photos: str, threads: int, depth: int, iterations: int, lines: int, order: str) -> None:
    """Print functions of all threads by their own processor time."""
    import asyncdali

    _profiled(lambda: make(asyncdali, photos, threads, depth), depth, iterations, lines, order)


def _profiled(make: Callable[[], Any], depth: int, iterations: int, lines: int, order: str) -> None:
    profiles: list[cProfile.Profile] = []

    def begin(*_: Any) -> None:
        found = cProfile.Profile(time.thread_time)
        profiles.append(found)
        found.enable()

    threading.setprofile(begin)
    begin()
    try:
        pipe = make()
        pipe.build()
        for _ in range(3 * depth):
            pipe.run()
        for found in profiles:  # drop the samples taken while the pipeline was built
            found.clear()
        for _ in range(iterations):
            pipe.run()
        pipe.close()
    finally:
        threading.setprofile(None)  # type: ignore[arg-type]
        profiles[0].disable()
    stats = pstats.Stats(profiles[0])
    for other in profiles[1:]:
        if other.getstats():
            stats.add(other)
    stats.sort_stats(order).print_stats(lines)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("photos", nargs="?", default="../shared/data/photos")
    parser.add_argument("--iterations", type=int, default=30)
    parser.add_argument("--threads", type=int, default=10)
    parser.add_argument("--depth", type=int, default=6)
    parser.add_argument("--pace", type=float, default=6.0, help="milliseconds that a batch takes on the engines")
    parser.add_argument("--only", choices=tuple(make.__name__ for make in _PIPELINES))
    parser.add_argument("--operators", action="store_true", help="a table of operators")
    parser.add_argument("--fed", nargs="*", metavar="OPERATOR", help="single operators on pictures in GPU memory; default: all")
    parser.add_argument("--batches", type=int, default=1, help="of --fed: different batches that are fed in turn")
    parser.add_argument("--profile", type=int, default=0, metavar="LINES")
    parser.add_argument("--order", default="tottime", help="of the profile's lines")
    options = parser.parse_args()
    makers = [make for make in _PIPELINES if options.only in (None, make.__name__)]
    with tempfile.TemporaryDirectory() as folder:
        stub = use_stub(folder, options.pace)
        if options.fed is not None:
            names = options.fed or list(OPERATORS)
            if options.profile:
                profile_fed(names[0], options.iterations, options.profile, options.order, stub, options.batches)
            else:
                fed_operators(names, options.iterations, stub, options.batches)
            return
        for make in makers:
            if options.operators:
                operators(make, options.photos, options.threads, options.depth, options.iterations)
            elif options.profile:
                profile(make, options.photos, options.threads, options.depth, options.iterations, options.profile, options.order)
            else:
                report(make, options.photos, options.threads, options.depth, options.iterations, stub)
            gc.collect()


if __name__ == "__main__":
    main()
