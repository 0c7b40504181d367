"""Inputs of an operator instance: its arguments and environment in ``build()``, and its position in each iteration."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ..access import EVERYTHING, Access
from ..batch import Batch
from .schema import Schema

if TYPE_CHECKING:
    from ..device.cuda.device import CudaDevice, CudaStream


@dataclass(frozen=True)
class Spec:
    """The graph's description of one operator instance when it is made in ``build()``."""

    schema: Schema
    name: str
    device: str
    constants: dict[str, Any]
    argument_inputs: tuple[str, ...]
    input_count: int
    output_count: int
    seed: int | None = None
    constant_rows: dict[tuple[Any, ...], np.ndarray] = field(init=False, repr=False, compare=False, default_factory=dict)
    """Cached results of :meth:`Arguments.vectors` for constants."""

    def constant(self, name: str) -> Any:
        """Constant value of an argument, or its declared default."""
        if name in self.constants:
            return self.constants[name]
        return self.schema.by_name[name].default

    def given(self, name: str) -> bool:
        """Whether the user gave the argument (as a constant or as a node)."""
        return name in self.constants or name in self.argument_inputs


@dataclass(frozen=True)
class Environment:
    """Services of a built pipeline for its operators."""

    batch_size: int
    num_threads: int
    device_id: int | None
    checkpointing: bool
    allocate: Callable[[int], np.ndarray]
    """``allocate(bytes) -> uint8 array`` of pooled memory. The memory returns to the pool when the last view is dropped."""
    calling: Callable[[], AbstractContextManager[None]] = nullcontext
    """``with calling():`` encloses calls of the user's functions."""
    gpu: CudaDevice | None = None
    """The GPU that mixed and gpu operators run on; None on the host device."""
    depth: int = 1
    """Number of iterations kept in flight."""
    access: Access = EVERYTHING
    """The files that operators may open."""
    noting: Callable[[int], None] | None = None
    """Called with the sample for which a user function is about to be called, because the function may end the process.

    None: not needed.
    """
    pictures: list[Any] = field(default_factory=list)
    """For each image decoder its cache of decoded pictures (operators/decode/image_cache.py), or None."""

    def mapped(self, size: int) -> np.ndarray:
        """`size` uninitialised bytes of host memory that kernels can write to: uint8[size], pinned if there is a GPU.

        Small results of :attr:`allocate` are not pinned.
        """
        return self.allocate(size) if self.gpu is None else self.gpu.staging.allocate(size)


def _check_name(path: str, name: str) -> None:
    """Raise ValueError for a text that the system cannot take for a name."""
    if "\0" in path:
        raise ValueError(f"argument `{name}` is not a path: {ascii(path)[:200]} has a NUL character")
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        raise ValueError(f"argument `{name}` is not a path: {ascii(path)[:200]} has half a surrogate pair") from None


def check_access(spec: Spec, access: Access) -> None:
    """Raise RuntimeError for an argument that names a file or directory which the pipeline may not open, ValueError for no name at all."""
    for arg in spec.schema.args:
        if not arg.path or not spec.given(arg.name):
            continue
        value = spec.constant(arg.name)
        for path in value if isinstance(value, list) else [value]:
            if path:
                _check_name(path, arg.name)
                check = access.check_read if arg.path == "read" else access.check_write
                check(path, f"argument `{arg.name}`")


@dataclass(slots=True)  # Not frozen: one is made for every iteration, and making a frozen one takes three times as long.
class Iteration:
    """The facts about an iteration that an operator may use while it plans.

    index       number of the iteration, from 0
    batch_size  samples of the whole batch
    fed         external input -> its batch, or the error to raise instead
    stream      the GPU's stream for the operator's work
    position    the position of a stateful operator before this iteration; for a part, before the part (see :meth:`Operator.part_at`)
    prepared    the return value of :meth:`Operator.prepare`
    first       for a part of the samples: the number of its first sample
    whole       for a part: samples of the whole iteration, of which `batch_size` are computed; 0: all are computed
    following   for an operator that reads files of several iterations together: the number of later iterations to read
    windows     the windows that the operator has chosen (:meth:`note_windows`): anchors and sizes; None: no windows
    """

    index: int
    batch_size: int
    fed: Mapping[str, Any] = field(default_factory=dict)
    stream: CudaStream | None = None
    position: Any = None
    prepared: Any = None
    first: int = 0
    whole: int = 0
    following: int = 0
    windows: tuple[np.ndarray, np.ndarray] | None = None

    def note_windows(self, anchors: np.ndarray, sizes: np.ndarray) -> None:
        """Note the first pixel and the extents (height, width) of each sample's window; integers [samples, 2] each, which stay as they
        are. Batches keep them for their provenance."""
        self.windows = anchors, sizes

    def taken(self, name: str) -> Any:
        """The data that was fed to the external input `name` for these samples: a batch, or an error to raise."""
        fed = self.fed[name]
        return fed.handed(self.first, self.batch_size) if self.whole and isinstance(fed, Batch) else fed
