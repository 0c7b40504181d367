"""Runs kernels on the host: the same ``.cu`` files, compiled by the system's C++ compiler, over the same launches."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from asyncdali.device.launch import Kernel, Launch, Scratch, source_of

_SHIM = Path(__file__).with_name("kernel_shim.h")
COMPILER = shutil.which("g++") or shutil.which("clang++") or shutil.which("c++")
_FLAGS = ("-std=c++17", "-O0", "-shared", "-fPIC", "-ffp-contract=off", "-Wno-unknown-pragmas", "-DHOST_BUILD")
GUARD = 64


@functools.cache
def _folder() -> Path:
    """Compiled kernels are kept between runs. Their names are digests of their contents."""
    folder = Path(tempfile.gettempdir()) / f"asyncdali-host-kernels-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


_SHARED = re.compile(r"^ *__shared__ [^;]*?\b(\w+)(?:\[[^;]*)?;", re.MULTILINE)
"""A declaration of shared memory. On a GPU its content is what earlier kernels left; here each block finds NaN."""

_ENTRIES = re.compile(r"^(#(?:if|else|elif|endif).*)|^KERNEL (\w+)\(", re.MULTILINE)

EXTRA_FLAGS = tuple(os.environ.get("ASYNCDALI_KERNEL_FLAGS", "").split())


@functools.cache
def host_kernel(kernel: Kernel) -> Any:
    """The entry point ``run(context, grid_x, grid_y, block, shared)`` of a kernel compiled for the host."""
    function = getattr(_library(kernel._replace(entry="")), f"run_{kernel.entry}")
    function.argtypes = [ctypes.c_void_p, *[ctypes.c_int64] * 4]
    return function


@functools.cache
def _library(kernel: Kernel) -> ctypes.CDLL:
    """All kernels of a source with some macros."""
    source = source_of(kernel)
    lines = _ENTRIES.findall(source)  # with the conditions around them, because some macros leave kernels out
    entries = "".join(f"HOST_ENTRY({entry})\n" if entry else f"{condition}\n" for condition, entry in lines)
    waits = "#define USES_BARRIER\n" if "__syncthreads" in source else ""
    source = _SHARED.sub(r"\g<0> POISON(\1)", source)
    text = f'{waits}#include "{_SHIM}"\n{source}\n{entries}'
    digest = hashlib.sha256("\0".join([text, _SHIM.read_text(), *_FLAGS, *EXTRA_FLAGS]).encode()).hexdigest()[:24]
    library = _folder() / f"{kernel.source.stem}-{digest}.so"
    if not library.exists():
        written = library.with_suffix(f".{os.getpid()}.cpp")
        written.write_text(text)
        part = library.with_suffix(f".{os.getpid()}.part")
        subprocess.run([COMPILER, *_FLAGS, *EXTRA_FLAGS, "-o", str(part), str(written)], check=True)
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
            table[k] = int(entry)
    return table


def run_launches(launches: list[Launch]) -> None:
    """Run launches in order; addresses in their tables are host memory. Checks that scratch is not exceeded."""
    copies: dict[int, np.ndarray] = {}
    scratches = {id(entry): entry for launch in launches for entry in launch.context if isinstance(entry, Scratch)}
    for launch in launches:
        table = resolve(launch, copies)
        host_kernel(launch.kernel)(table.ctypes.data, launch.grid[0], launch.grid[1], launch.block, launch.shared)
    for key, scratch in scratches.items():
        assert (copies[key][scratch.size :] == 0xA5).all(), "a kernel left its scratch"


def overrun() -> None:
    """Let a kernel write behind its memory, which a sanitizer must report."""
    from asyncdali.operators.moves.copy_kernels import make_copy_step

    source, target = np.zeros(5000, np.uint8), np.zeros(4999, np.uint8)
    addresses = [np.array([memory.ctypes.data], np.int64) for memory in (source, target)]
    step = make_copy_step(*addresses, np.array([5000], np.int64))
    assert step.launches is not None
    run_launches(step.launches())
