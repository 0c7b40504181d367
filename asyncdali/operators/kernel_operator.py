"""Base class of operators whose compiled functions and CUDA kernels stand in files beside the operator's module.

Such an operator declares where its kernels are, and its `plan` returns steps made by :meth:`KernelOperator.step`. ``elements.py`` and
``samples.py`` are the short forms: there the step, the table and the launch follow from one function. docs/adding_an_operator.md shows all.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias

import numpy as np

from ..batch import Batch, storage_dtype, storage_name
from ..device.launch import BLOCK, Entry, Kernel, Launch, Unstored, element_type, grid_of
from .base import Arguments, Environment, Planned, Spec, Step, TableStep, no_explanation
from .sequences.per_frame_arguments import PerFrameArguments

if TYPE_CHECKING:
    from ..compiled.step import Compiled


Names: TypeAlias = tuple[str, ...]
"""Element types, as names of NumPy."""
Kernels: TypeAlias = "Iterable[Compiled]"


class Cuda(NamedTuple):
    """The launch of one kernel, for a batch.

    entry   the kernel's name
    items   int64[samples]: work items of each sample
    each    work items of a thread
    types   macros of the source: (name, value)
    block   work items of a block
    offers  how a consumer's kernel can compute the results itself
    """

    entry: str
    items: np.ndarray
    each: int = 1
    types: tuple[tuple[str, str | int], ...] = ()
    offers: Unstored | None = None
    block: int = BLOCK

    def launch(self, source: Path, entries: tuple[Entry, ...]) -> Launch:
        """The launch over the entries of a table."""
        largest = -(-int(self.items.max(initial=0)) // self.each)
        return Launch(Kernel(source, self.entry, self.types), entries, grid_of(largest, len(self.items), self.block), offers=self.offers)


class ThreadScratch(NamedTuple):
    """Scratch memory of a step: `size` bytes, whose offset is written to the word `field` of the table."""

    size: int
    field: int


def types_of(source: Batch, output: Batch) -> tuple[tuple[str, str], tuple[str, str]]:
    """The macros IN and OUT: element types of two batches."""
    return ("IN", element_type(storage_dtype(source.dtype))), ("OUT", element_type(storage_dtype(output.dtype)))


class KernelOperator(PerFrameArguments):
    """An operator with kernels. Arguments that ``Schema.per_frame`` names may have a value for each frame: then it has `plan_samples`.

    kernel_module  name of the module with its compiled functions, in the folder of the class that declares it. ``build()`` imports it as
                   ``self.kernels``
    cuda_source    the CUDA source: has the name of this module, or of the operator's module if there is none. A class without such a file
                   has that of its base class. If there is a source, the operator runs on GPUs. A class whose launches use other sources
                   sets `on_cuda`
    """

    kernel_module: ClassVar[str] = ""
    cuda_source: ClassVar[Path]
    _package: ClassVar[str]

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        if "kernel_module" in vars(cls) or not cls.kernel_module:
            path = Path(str(sys.modules[cls.__module__].__file__))
            own = path.with_name(f"{cls.kernel_module or path.stem}.cu")
            inherited = getattr(cls, "cuda_source", own)
            cls.cuda_source = own if own.exists() or not inherited.exists() else inherited
            cls._package = cls.__module__.rpartition(".")[0]
        if "on_cuda" not in vars(cls):
            cls.on_cuda = cls.cuda_source.exists()

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        self.kernels: Any = importlib.import_module(f".{self.kernel_module}", self._package) if self.kernel_module else None

    def output(self, source: Batch, shapes: np.ndarray | None = None, layout: str | None = None) -> Batch:
        """An output for the first input, of the type that the schema declares. By default it has the shapes and the layout of `source`."""
        dtype = self.schema.gives[0].known_type(self.spec, [source.dtype])
        assert dtype is not None, "the schema leaves the type open"
        shapes, layout = source.shapes if shapes is None else shapes, self.layout_of(source) if layout is None else layout
        return Batch(shapes, dtype, layout, device=source.device, source_info=source.source_info)

    def kernel(self, source: Batch, output: Batch) -> Compiled:
        """The first function of :meth:`kernels_for`, for two batches."""
        return next(iter(self.kernels_for((storage_name(source.dtype),), (storage_name(output.dtype),))))

    def made(
        self, source: Batch, output: Batch, entries: tuple[object, ...], cuda: Callable[[], Cuda] | None = None,
        scratch: ThreadScratch | None = None,
    ) -> Planned:  # fmt: skip
        """The plan with :meth:`kernel` as its only step; see :meth:`step`."""
        return Planned([output], [self.step(self.kernel(source, output), entries, cuda, scratch)])

    def step(
        self, function: Compiled, entries: tuple[Any, ...], cuda: Callable[[], Cuda] | None = None, scratch: ThreadScratch | None = None,
        explain: Callable[[int, str, int], str] = no_explanation,
    ) -> Step:  # fmt: skip
        """A step over a table with these `entries`. For a GPU, the launch that `cuda` returns reads the same entries."""
        made = TableStep(function.address, entries, explain, *(scratch or ()))
        if cuda is not None:
            made.launches = lambda: [cuda().launch(self.cuda_source, entries)]
        return made


class TwoFileOperator(KernelOperator):
    """The shared part of the short forms: an operator whose table, step, launch and tests follow from its declaration."""

    numbers: ClassVar[tuple[str, ...]] = ()
    """Names of the float arguments, in the order in which the function reads them."""

    def numbers_of(self, arguments: Arguments, samples: int) -> np.ndarray:
        """The values of the arguments in `numbers`, float32[samples, arguments]; one column of 0 if there are none."""
        table = np.zeros((samples, max(1, len(self.numbers))), np.float32)
        for column, name in enumerate(self.numbers):
            table[:, column] = arguments.scalars(name)
        return table
