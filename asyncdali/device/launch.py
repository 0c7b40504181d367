"""What operators and GPU devices agree on: a step of the plan as kernel launches.

A compiled step is ``step(context, sample, thread)`` over a table of integers and addresses; a kernel is ``kernel(context)`` over a
table of the same kind. So one plan serves both: the operator decides a batch once, and its ``Step`` carries, beside the compiled
function, how the same tables are launched. The kernel's source is a ``.cu`` file beside the operator's compiled steps, plain CUDA C++
without library headers, which the tests also compile for the host (docs/gpu.md).
"""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TypeAlias

import numpy as np

from ..compiled.tables import Table

BLOCK = 256
"""Threads of a block, unless a launch says otherwise."""
LINE, LINES_AT_ONCE = 16, 4
"""Bytes of a line, and lines that a thread moves at a time (lines.cuh)."""
PACK = 4
"""Neighbouring elements that a thread makes (kernel.cuh)."""
_MAX_BLOCKS = 4096
_TURNS = 2  # of a block's threads: what a block looks up first is used more than once
_MAX_SAMPLES = 65535  # of a grid's second dimension; kernels go on with stride gridDim.y


@dataclass(frozen=True)
class Kernel:
    """What is compiled once: a function `entry` of the file `source`, with macros `defines` as (name, value)."""

    source: Path
    entry: str
    defines: tuple[tuple[str, str | int], ...] = ()


@dataclass(frozen=True)
class Code:
    """A kernel that another compiler has made: PTX, and the function `entry` in it."""

    ptx: str
    entry: str


@dataclass(eq=False)
class Scratch:
    """`size` bytes of device memory for the launches that name this object; contents undefined at first."""

    size: int


Entry: TypeAlias = "int | np.ndarray | Scratch"


@dataclass
class Pixels:
    """Pixels that a kernel can compute where they are read, instead of reading what another kernel has stored.

    what      which kind: the consumer's kernel must know it
    target    the address array of the batch that would be stored
    context   entries to be added to the consumer's table;  defines  macros to be added to its own
    """

    what: str
    target: np.ndarray
    context: Sequence[Entry]
    defines: tuple[tuple[str, str | int], ...]


@dataclass
class Launch:
    """One launch.

    context   entries of the table that the kernel reads as ``const int64 *``: integers as they are; arrays (structured or plain,
              C-contiguous) as the address of a copy in device memory, aligned to 16 bytes; scratch as its address
    grid      blocks in x (work of one sample) and y (samples)
    shared    bytes of dynamic shared memory
    offers    how a consumer's kernel can compute this launch's pixels itself
    takes     gives this launch with its input's pixels computed in place, or None where that cannot be
    """

    kernel: Kernel | Code
    context: Sequence[Entry]
    grid: tuple[int, int]
    block: int = BLOCK
    shared: int = 0
    offers: Pixels | None = None
    takes: Callable[[Pixels], Launch | None] | None = None


@dataclass
class LaunchPerSample(Launch):
    """One launch for every sample, of a kernel that takes its arguments by value and reads no table.

    context    address arrays of the batches that it reads: nobody else may leave them out
    arguments  int64[samples, words]: the arguments of each launch, 8 bytes each
    blocks, threads  of each launch, in x, y and z
    """

    arguments: np.ndarray = field(default_factory=lambda: np.empty((0, 0), np.int64))
    blocks: tuple[int, int, int] = (1, 1, 1)
    threads: tuple[int, int, int] = (1, 1, 1)


def grid_of(largest: int, samples: int, block: int = BLOCK) -> tuple[int, int]:
    """A grid for samples of at most `largest` work items: kernels stride over what it does not cover."""
    return max(1, min(-(-int(largest) // block), _MAX_BLOCKS)), max(1, min(samples, _MAX_SAMPLES))


def row_grid(rows: int, width: int, samples: int) -> tuple[int, int]:
    """A grid for kernels that go row by row (FOR_ROWS): samples of at most `rows` rows of `width` positions."""
    lanes = next((lanes for lanes in (32, 64, 128) if width <= 4 * lanes), BLOCK)
    return grid_of(-(-int(rows) * lanes // _TURNS), samples)


_TYPES = {"bool": "boolean"}


@cache
def element_type(dtype: np.dtype | str) -> str:
    """The name that kernels (kernel.cuh) give an element type."""
    name = np.dtype(dtype).name
    return _TYPES.get(name, name)


HEADER = Path(__file__).with_name("kernel.cuh")


_INCLUDE = re.compile(r'^#include "((?:[a-z0-9_.]+/)*[a-z0-9_]+\.(?:cuh|py))"(?:  //.*)?$', re.MULTILINE)
_PACKAGE = Path(__file__).parent.parent


def _macros(module: Path) -> str:
    """The words of all tables that a module of declarations has, as macros."""
    loaded: ModuleType | None
    if module.is_relative_to(_PACKAGE):
        loaded = importlib.import_module(".".join((_PACKAGE.name, *module.relative_to(_PACKAGE).with_suffix("").parts)))
    else:  # an operator of another package: who launches its kernel has imported the declarations
        loaded = next((known for known in list(sys.modules.values()) if getattr(known, "__file__", None) == str(module)), None)
        if loaded is None:
            raise RuntimeError(f"the declarations {module} that a kernel includes must be imported by the operator's compiled steps")
    tables = {value.name: value for value in vars(loaded).values() if isinstance(value, Table)}
    return "\n".join(f"#define {name} {index}" for table in tables.values() for name, index in table.defines())


@cache
def _text(path: Path) -> str:
    """A file with what it includes: headers and declarations of tables (``flip_tables.py``), relative to the file, else to this folder."""

    def header(found: re.Match[str]) -> str:
        beside = Path(os.path.normpath(path.parent / found[1]))
        if beside.suffix == ".py":
            return _macros(beside)
        return _text(beside if beside.exists() else HEADER.with_name(found[1]))

    return _INCLUDE.sub(header, path.read_text())


def source_of(kernel: Kernel) -> str:
    """The whole translation unit: macros, the kernel's file and what it includes."""
    defines = "".join(f"#define {name} {value}\n" for name, value in kernel.defines)
    return f"{defines}{_text(kernel.source)}"


COMPILE_OPTIONS = ("-fmad=false", "--std=c++17")
"""What kernels rely on: a product and a sum are rounded each, as in compiled steps; where one operation is meant, they say fmaf."""
