"""Tests of operators without a pipeline and without a GPU.

:func:`check_kernels` runs one plan of an operator twice: by its compiled steps, and by its CUDA kernels, which the system's C++ compiler
compiles for the host. A kernel that computes something else, or that writes beside its memory, is found::

    check_kernels("acme.threshold", [np.uint8([[1, 200]]), np.uint8([[7]])], level=100.0)

Needs a C++ compiler (g++ or clang++). The host runs one block at a time, so races between threads of a GPU are not found.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import re
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from ..batch import Batch, from_numpy_dtype
from ..device.launch import Kernel, Launch, Scratch, source_of
from ..operators import load_registry
from ..operators.base import Arguments, CompiledJob, Environment, Iteration, Operator, PythonJob, Spec, Step
from ..operators.extensions import find

__all__ = ["check_kernels", "outputs_of"]

GUARD = 64
"""Bytes before and after each output, whose contents must stay."""
COMPILER = shutil.which("g++") or shutil.which("clang++") or shutil.which("c++")
_SHIM = Path(__file__).with_name("kernel_shim.cuh")
_FLAGS = ("-std=c++17", "-O0", "-shared", "-fPIC", "-ffp-contract=off", "-Wno-unknown-pragmas", "-DHOST_BUILD")
_MORE_FLAGS = tuple(os.environ.get("ASYNCDALI_KERNEL_FLAGS", "").split())
_SHARED = re.compile(r"^ *__shared__ [^;]*?\b(\w+)(?:\[[^;]*)?;", re.MULTILINE)
"""A declaration of shared memory. On a GPU its content is what earlier kernels left; here each block finds NaN."""
_ENTRIES = re.compile(r"^(#(?:if|else|elif|endif).*)|^KERNEL(?:_OF\(\d\))? (\w+)\(", re.MULTILINE)


# --- kernels on the host


@functools.cache
def _folder() -> Path:
    """Compiled kernels are kept between runs. Their names are digests of their contents."""
    folder = Path(tempfile.gettempdir()) / f"asyncdali-host-kernels-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise PermissionError(f"{folder} belongs to another user, or others may write to it: its libraries are not loaded")
    return folder


@functools.cache
def host_kernel(kernel: Kernel) -> Any:
    """The entry point ``run(context, grid_x, grid_y, block, shared)`` of a kernel compiled for the host."""
    function = getattr(_library(kernel._replace(entry="")), f"run_{kernel.entry}")
    function.argtypes = [ctypes.c_void_p, *[ctypes.c_int64] * 4]
    return function


@functools.cache
def _library(kernel: Kernel) -> ctypes.CDLL:
    """All kernels of a source with some macros."""
    if COMPILER is None:
        raise RuntimeError("no C++ compiler is installed; g++ or clang++ is needed to run CUDA kernels on the host")
    source = source_of(kernel)
    lines = _ENTRIES.findall(source)  # with the conditions around them, because some macros leave kernels out
    entries = "".join(f"HOST_ENTRY({entry})\n" if entry else f"{condition}\n" for condition, entry in lines)
    waits = "#define USES_BARRIER\n" if "__syncthreads" in source else ""
    poisoned = _SHARED.sub(r"\g<0> POISON(\1)", source)
    text = f'{waits}#include "{_SHIM}"\n{poisoned}\n{entries}'
    digest = hashlib.sha256("\0".join([text, _SHIM.read_text(), *_FLAGS, *_MORE_FLAGS]).encode()).hexdigest()[:24]
    library = _folder() / f"{kernel.source.stem}-{digest}.so"
    if not library.exists():
        written, part = library.with_suffix(f".{os.getpid()}.cpp"), library.with_suffix(f".{os.getpid()}.part")
        written.write_text(text)
        subprocess.run([COMPILER, *_FLAGS, *_MORE_FLAGS, "-o", str(part), str(written)], check=True)
        written.unlink()
        part.replace(library)
    return ctypes.CDLL(str(library))


def resolve(launch: Launch, copies: dict[int, np.ndarray]) -> np.ndarray:
    """The launch's table with addresses. `copies` keeps the arrays alive, by the identity of the entry."""
    table = np.empty(len(launch.context), np.int64)
    for k, entry in enumerate(launch.context):
        if isinstance(entry, (np.ndarray, Scratch)):
            if id(entry) not in copies:
                copies[id(entry)] = entry.copy() if isinstance(entry, np.ndarray) else np.full(entry.size + GUARD, 0xA5, np.uint8)
            table[k] = copies[id(entry)].ctypes.data
        else:
            table[k] = int(cast(Any, entry))
    return table


def run_launches(launches: Sequence[Launch]) -> None:
    """Run launches in order; addresses in their tables are host memory. AssertionError if scratch is exceeded."""
    copies: dict[int, np.ndarray] = {}
    scratches = {id(entry): entry for launch in launches for entry in launch.context if isinstance(entry, Scratch)}
    for launch in launches:
        table, kernel = resolve(launch, copies), cast(Kernel, launch.kernel)
        host_kernel(kernel)(table.ctypes.data, launch.grid[0], launch.grid[1], launch.block, launch.shared)
    for key, scratch in scratches.items():
        assert (copies[key][scratch.size :] == 0xA5).all(), "a kernel left its scratch"


# --- operators


def batch_of(samples: Sequence[np.ndarray], layout: str = "") -> Batch:
    """A batch over arrays of any shapes, each in its own memory."""
    samples = [np.ascontiguousarray(sample) for sample in samples]
    shapes = np.array([sample.shape for sample in samples], np.int64).reshape(len(samples), samples[0].ndim)
    addresses = np.array([sample.ctypes.data for sample in samples], np.int64)
    return Batch(shapes, from_numpy_dtype(samples[0].dtype), layout, addresses, samples)


def make(name: str, count: int, constants: Mapping[str, object], named: Mapping[str, Batch], inputs: int = 1) -> Operator:
    """An instance of operator `name` with constant arguments and argument inputs (`named`)."""
    load_registry()
    cls = find(name)
    if cls is None:
        raise LookupError(f"there is no operator {name!r}; `register` makes an operator of a program known")
    given = {key: cls.schema.by_name[key].convert(value) for key, value in constants.items()}
    outputs = cls.schema.output_count(given, inputs)
    spec = Spec(cls.schema, name, "cpu", given, tuple(named), inputs, outputs, given.get("seed", 1))
    return cls(spec, Environment(count, 1, None, False, lambda size: np.empty(size, np.uint8)))


def run_step(step: Step, count: int) -> None:
    """Run a step over samples 0..count-1, with its scratch between guard bytes."""
    scratch = np.full(step.scratch_bytes + 64 + 2 * GUARD, 0xA5, np.uint8)
    begin = (scratch.ctypes.data + GUARD + 63) & -64
    thread = np.array([begin, step.scratch_bytes, 0, 0], np.int64)
    step.place_scratch(0)
    function = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 3)(step.function)
    for sample in range(count):
        status = function(step.context.ctypes.data, sample, thread.ctypes.data)
        assert status == 0, step.explain(status, "", sample)
    first = begin - scratch.ctypes.data
    assert (scratch[:first] == 0xA5).all() and (scratch[first + step.scratch_bytes :] == 0xA5).all(), "a step left its scratch"


def first_iteration(operator: Operator, count: int) -> Iteration:
    """The context of the first iteration of a fresh pipeline."""
    return Iteration(0, count, position=operator.start)


def prepare(
    operator: Operator, inputs: list[Batch], arguments: Arguments, iteration: Iteration, work: Callable[[Any], None]
) -> None:
    """Prepare an iteration. `work` runs each job."""

    def jobs() -> Any:
        iteration.prepared = yield from operator.prepare(inputs, arguments, iteration)

    for job in jobs():
        work(job)


def run_job(job: PythonJob | CompiledJob) -> None:
    """Run a job that :meth:`Operator.prepare` yields."""
    if isinstance(job, PythonJob):
        for sample in job.samples:
            job.work(sample)
        return
    for step in job.steps:
        run_step(step, job.count)


def outputs_of(
    name: str, inputs: Sequence[Sequence[np.ndarray]], layout: str, per_sample: Mapping[str, object] | None, gpu: bool, /,
    **constants: object,
) -> list[list[np.ndarray]]:
    """All outputs of an operator over arrays, by compiled steps or (`gpu`) by kernels. Checks that nothing around them is overwritten.

    inputs       for each input the arrays of its samples
    layout       of the inputs that have as many dimensions
    per_sample   argument inputs, as arrays [samples, ...]
    """
    count = len(inputs[0])
    named = {key: Batch.from_values(np.asarray(value)) for key, value in (per_sample or {}).items()}
    sources = [batch_of(samples, layout if np.ndim(samples[0]) == len(layout) else "") for samples in inputs]
    operator = make(name, count, constants, named, len(sources))
    if gpu:
        operator = type(operator)(replace(operator.spec, device="gpu"), replace(operator.environment, gpu=cast(Any, object())))
    arguments, iteration = Arguments(operator.spec, named, count), first_iteration(operator, count)
    prepare(operator, sources, arguments, iteration, run_job)
    planned = operator.plan(sources, arguments, iteration)
    memories = []
    for output in planned.outputs:
        if output.is_placed:  # the jobs have filled the output
            continue
        memory = np.full(int(output.sizes().sum()) + 2 * GUARD, 0xA5, np.uint8)
        output.place(memory[GUARD:-GUARD])
        memories.append(memory)
    launches: list[Launch] = []
    for step in planned.steps:
        if gpu:
            assert step.launches is not None, f"a step of {name} has no launches"
            launches += step.launches()
        else:
            run_step(step, count)
    run_launches(launches)
    for memory in memories:
        assert (memory[:GUARD] == 0xA5).all() and (memory[-GUARD:] == 0xA5).all(), "something left its output"
    return [[np.array(output.sample(i)) for i in range(count)] for output in planned.outputs]


def check_kernels(
    name: str, samples: Sequence[np.ndarray], layout: str = "", /, per_sample: Mapping[str, object] | None = None,
    more: Sequence[Sequence[np.ndarray]] = (), **constants: object,
) -> list[np.ndarray]:  # fmt: skip
    """Compare the CUDA kernels of an operator with its compiled steps; returns the first output of the steps.

    Arguments are as in :func:`outputs_of`; `more` are further inputs. AssertionError for results that differ in a bit.
    """
    steps, kernels = (outputs_of(name, [samples, *more], layout, per_sample, gpu, **constants) for gpu in (False, True))
    for output, (wanted, made) in enumerate(zip(steps, kernels, strict=True)):
        for i, (step, kernel) in enumerate(zip(wanted, made, strict=True)):
            np.testing.assert_array_equal(kernel, step, err_msg=f"{name}: kernel and step differ (output {output}, sample {i})")
    return steps[0]
