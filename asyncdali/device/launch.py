"""Kernel launches: the interface between operators and GPU devices.

A compiled step is ``step(context, sample, thread)`` over a table of integers and addresses. A kernel is ``kernel(context)`` over a table of
the same kind. So one plan serves both: the operator decides a batch once, and its ``Step`` describes the compiled function and the launches
over the same tables. The kernel's source is a ``.cu`` file beside the operator's compiled steps. It is plain CUDA C++ without library
headers, which the tests also compile for the host (docs/gpu.md).
"""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from types import ModuleType
from typing import NamedTuple, TypeAlias

import numpy as np

from ..compiled.addresses import Within
from ..compiled.tables import Handle, Table

BLOCK = 256
"""Threads per block, unless a launch sets another number."""
LINE, LINES_AT_ONCE = 16, 4
"""Bytes of a line, and number of lines that a thread moves at a time (lines.cuh)."""
PACK = 4
"""Number of neighbouring elements that a thread computes (kernel.cuh)."""
_MAX_BLOCKS = 4096
_ALL_BLOCKS = 8192
"""Most blocks of a launch with several samples: about ten for each place on an H200. At the start of a sample, a block looks up the
sample's fields. This takes as long as a few turns of its threads. With more blocks of one turn each, it would take half of the time."""
_LEAST_BLOCKS = 32
"""Blocks that a sample may have in any case, because samples of a batch differ in size."""
_TURNS = 2  # each thread of a block works this many times, so that the block's look-ups are reused
_KEPT_GRIDS = 256
_MAX_SAMPLES = 65535  # limit of a grid's second dimension; kernels continue with stride gridDim.y


class Kernel(NamedTuple):
    """The unit of compilation: a function `entry` of the file `source`, with macros `defines` as (name, value)."""

    source: Path
    entry: str
    defines: tuple[tuple[str, str | int], ...] = ()


class Code(NamedTuple):
    """A kernel from another compiler: PTX, and its function `entry`."""

    ptx: str
    entry: str


@dataclass(eq=False)
class Scratch:
    """`size` uninitialised bytes of device memory for the launches that name this object."""

    size: int


Entry: TypeAlias = "int | np.ndarray | Scratch | Within | Handle"


@dataclass
class Unstored:
    """Pixels that a kernel can compute while reading, instead of reading another kernel's results.

    what      the kind, which the consumer's kernel must know
    target    the address array of the batch that would be stored
    context   entries to be added to the consumer's table;  defines  macros to be added to the consumer's
    """

    what: str
    target: np.ndarray
    context: Sequence[Entry]
    defines: tuple[tuple[str, str | int], ...]


@dataclass
class Launch:
    """One launch.

    context   entries of the table that the kernel reads as ``const int64 *``: integers; arrays (structured or plain, C-contiguous), which
              become the address of a copy in device memory, aligned to 16 bytes; scratch memory, which becomes its address. Kernels do
              not write to the table and the copies: later iterations may read the same ones
    grid      blocks in x (work of one sample) and y (samples)
    shared    bytes of dynamic shared memory
    offers    how a consumer's kernel can compute this launch's pixels itself
    takes     function that returns this launch with its input's pixels computed in place, or None if that is impossible
    """

    kernel: Kernel | Code
    context: Sequence[Entry]
    grid: tuple[int, int]
    block: int = BLOCK
    shared: int = 0
    offers: Unstored | None = None
    takes: Callable[[Unstored], Launch | None] | None = None


@dataclass
class LaunchPerSample(Launch):
    """One launch per sample, of a kernel that takes its arguments by value and reads no table.

    context    address arrays of the batches that it reads, so that no launch that makes them is left out
    arguments  int64[samples, words]: the arguments of each launch, 8 bytes each
    blocks, threads  of each launch, in x, y and z
    """

    arguments: np.ndarray = field(default_factory=lambda: np.empty((0, 0), np.int64))
    blocks: tuple[int, int, int] = (1, 1, 1)
    threads: tuple[int, int, int] = (1, 1, 1)


@lru_cache(_KEPT_GRIDS)
def grid_of(largest: int, samples: int, block: int = BLOCK) -> tuple[int, int]:
    """A grid for samples of at most `largest` work items. Kernels loop if the grid is smaller than the work."""
    most = min(_MAX_BLOCKS, max(_LEAST_BLOCKS, _ALL_BLOCKS // max(samples, 1)))
    return max(1, min(-(-int(largest) // block), most)), max(1, min(samples, _MAX_SAMPLES))


@lru_cache(_KEPT_GRIDS)
def row_grid(rows: int, width: int, samples: int) -> tuple[int, int]:
    """A grid for kernels that work row by row (FOR_ROWS), for samples of at most `rows` rows of `width` positions."""
    lanes = next((lanes for lanes in (32, 64, 128) if width <= 4 * lanes), BLOCK)
    return grid_of(-(-int(rows) * lanes // _TURNS), samples)


_TYPES = {"bool": "boolean"}


@cache
def element_type(dtype: np.dtype | str) -> str:
    """The name of an element type in kernels (kernel.cuh)."""
    name = np.dtype(dtype).name
    return _TYPES.get(name, name)


HEADER = Path(__file__).with_name("kernel.cuh")


_INCLUDE = re.compile(r'^#include "((?:[a-z0-9_.]+/)*[a-z0-9_]+\.(?:cuh|py))"(?:  //.*)?$', re.MULTILINE)
_PACKAGE = Path(__file__).parent.parent


def _macros(module: Path) -> str:
    """The words of all tables of a module of declarations, as macros."""
    loaded: ModuleType | None
    if module.is_relative_to(_PACKAGE):
        loaded = importlib.import_module(".".join((_PACKAGE.name, *module.relative_to(_PACKAGE).with_suffix("").parts)))
    else:  # an operator of another package, whose module has imported the declarations
        loaded = next((known for known in list(sys.modules.values()) if getattr(known, "__file__", None) == str(module)), None)
        if loaded is None:
            raise RuntimeError(f"the declarations {module} that a kernel includes must be imported by the operator's compiled steps")
    tables = {value.name: value for value in vars(loaded).values() if isinstance(value, Table)}
    return "\n".join(f"#define {name} {index}" for table in tables.values() for name, index in table.defines())


def _text(path: Path, included: set[Path]) -> str:
    """A file with its includes: headers and declarations of tables (``flip.py``), relative to the file or in this folder. Files that
    are `included` already are left out."""

    def header(found: re.Match[str]) -> str:
        beside = Path(os.path.normpath(path.parent / found[1]))
        if beside.suffix != ".py" and not beside.exists():
            beside = HEADER.with_name(found[1])
        if beside in included:
            return ""
        included.add(beside)
        return _macros(beside) if beside.suffix == ".py" else _text(beside, included)

    return _INCLUDE.sub(header, path.read_text())


@cache
def _unit(path: Path) -> str:
    return _text(path, set())


def source_of(kernel: Kernel) -> str:
    """The whole translation unit: macros, the kernel's file and its includes."""
    defines = "".join(f"#define {name} {value}\n" for name, value in kernel.defines)
    return f"{defines}{_unit(kernel.source)}"


COMPILE_OPTIONS = ("-fmad=false", "--std=c++17")
"""Kernels rely on these options: a product and a sum are rounded separately, as in compiled steps. For one operation they write fmaf."""
