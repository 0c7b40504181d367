"""``python -m benchmarks.interpreter_entries [two_views ...]``: number of interpreter entries per iteration, by thread.

Beside a thread that runs pure Python, each entry may cost a switch interval (5 ms). So the number of entries counts, not the work in
between. ``interpreter_entries.cpp`` counts in a separate process, over the stubs of CUDA and nvJPEG.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import functools
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace

_SOURCE = Path(__file__).with_suffix(".cpp")
_ROLES = ("nvjpeg", "loop", "cpu", "mixed", "gpu", "device", "worker", "wait", "engines", "MainThread")


def available() -> bool:
    """Whether this Python calls its library through symbols that can be replaced."""
    import sysconfig

    return bool(sysconfig.get_config_var("Py_ENABLE_SHARED"))


def measure(
    pipeline: str, photos: str, *, iterations: int = 40, threads: int = 2, depth: int = 6, pace: float = 6.0, trace: bool = False,
    engines: int = 0, busy: bool = False, kernels: float = -1,
) -> dict[str, float]:  # fmt: skip
    """Entries per iteration by the role of the thread, for a pipeline of ``benchmarks.gpu``. `engines`: of the pipeline.

    `busy`: while another thread runs pure Python. The entries of this thread are not counted. `kernels`: milliseconds before an event
    (negative: `pace`).
    """
    with tempfile.TemporaryDirectory() as folder:
        library = f"{folder}/entries.so"
        subprocess.run(["g++", "-std=c++17", "-O2", "-shared", "-fPIC", "-o", library, str(_SOURCE), "-ldl"], check=True)
        given = json.dumps([pipeline, photos, iterations, threads, depth, pace, trace, engines, busy, kernels])
        environment = {**os.environ, "LD_PRELOAD": library}
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.interpreter_entries", "--child", given], env=environment, stdout=subprocess.PIPE, text=True,
            cwd=Path(__file__).parent.parent, check=True,
        )  # fmt: skip
        return json.loads(done.stdout.splitlines()[-1])


def _child(
    pipeline: str, photos: str, iterations: int, threads: int, depth: int, pace: float, trace: bool, engines: int, busy: bool,
    kernels: float,
) -> None:  # fmt: skip
    import asyncdali

    from . import gpu
    from .gpu_interpreter import use_stub
    from .gpu_training import busy_thread

    library = ctypes.PyDLL(None)  # does not release the interpreter lock
    for name in ("entries_threads", "entries_id", "entries_count"):
        getattr(library, name).restype = ctypes.c_long
    library.entries_id.argtypes = library.entries_count.argtypes = [ctypes.c_long]

    def counts() -> dict[int, int]:
        return {library.entries_id(k): library.entries_count(k) for k in range(library.entries_threads())}

    define = functools.partial(asyncdali.pipeline_def, engines=engines)
    package = SimpleNamespace(fn=asyncdali.fn, types=asyncdali.types, pipeline_def=define)
    with tempfile.TemporaryDirectory() as folder:
        pipe = getattr(gpu, pipeline)(package, photos, threads, depth)
        pipe.start_py_workers()  # engines are forked before the process has a GPU
        use_stub(folder, pace, kernels)
        pipe.build()
        for _ in range(10 * depth):
            pipe.run()
        names = {thread.native_id: thread.name for thread in threading.enumerate()}
        with busy_thread() if busy else contextlib.nullcontext():
            if busy:
                names.update({thread.native_id: "" for thread in threading.enumerate() if thread.native_id not in names})
            before = counts()
            library.entries_trace(trace)
            for _ in range(iterations):
                pipe.run()
            library.entries_trace(False)
            after = counts()
        pipe.close()
    found: dict[str, float] = defaultdict(float)
    for thread, number in after.items():
        name = names.get(thread, "other")
        if not name:  # the busy thread
            continue
        role = next((role for role in _ROLES if role in name), name)
        found[role] += (number - before.get(thread, 0)) / iterations
        if trace:
            print(f"THREAD {thread} {name}", file=sys.stderr)
    print(json.dumps(found))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("pipelines", nargs="*", default=["decoded", "training", "two_views"])
    parser.add_argument("--photos", default="../shared/data/photos")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--depth", type=int, default=6)
    parser.add_argument("--engines", type=int, default=0, help="processes that make the CPU's part")
    parser.add_argument("--busy", action="store_true", help="beside a thread that runs pure Python")
    parser.add_argument("--kernels", type=float, default=-1, help="milliseconds from the launches to the event behind them")
    parser.add_argument("--trace", action="store_true", help="who entered, one line each, on the standard error")
    parser.add_argument("--child", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        _child(*json.loads(options.child))
        return
    for pipeline in options.pipelines:
        found = measure(
            pipeline, options.photos, threads=options.threads, depth=options.depth, trace=options.trace, engines=options.engines,
            busy=options.busy, kernels=options.kernels,
        )  # fmt: skip
        parts = ", ".join(f"{role} {number:.1f}" for role, number in sorted(found.items(), key=lambda item: -item[1]) if number)
        print(f"{pipeline:10} {sum(found.values()):6.1f} entries per iteration: {parts}", flush=True)


if __name__ == "__main__":
    main()
