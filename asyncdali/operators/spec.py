"""What an operator instance is given: its arguments and surroundings in ``build()``, and its place in each iteration."""

from __future__ import annotations

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
    """What the graph knows about one operator instance when it is made in ``build()``."""

    schema: Schema
    name: str
    device: str
    constants: dict[str, Any]
    argument_inputs: tuple[str, ...]
    input_count: int
    output_count: int
    seed: int | None = None
    constant_rows: dict[tuple[Any, ...], np.ndarray] = field(init=False, repr=False, compare=False, default_factory=dict)
    """What :meth:`Arguments.vectors` has made of constants."""

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
    """What a built pipeline offers its operators."""

    batch_size: int
    num_threads: int
    device_id: int | None
    checkpointing: bool
    allocate: Callable[[int], np.ndarray]
    """``allocate(bytes) -> uint8 array`` of pooled memory; it returns to the pool when the last view is dropped."""
    calling: Callable[[], AbstractContextManager[None]] = nullcontext
    """``with calling():`` around calls of the user's functions."""
    gpu: CudaDevice | None = None
    """The GPU that mixed and gpu operators run on; None on the host device."""
    depth: int = 1
    """Iterations kept in flight."""
    access: Access = EVERYTHING
    """What the operators may open."""
    noting: Callable[[int], None] | None = None
    """Called with the sample for which a function of the user is about to be called: it may end the process. None: nobody wants to know."""
    pictures: list[Any] = field(default_factory=list)
    """Of each image decoder its cache of decoded pictures (operators/decode/picture_cache.py), or None."""


def check_access(spec: Spec, access: Access) -> None:
    """RuntimeError for an argument that names a file or directory which the pipeline may not open."""
    for arg in spec.schema.args:
        if not arg.path or not spec.given(arg.name):
            continue
        value = spec.constant(arg.name)
        for path in value if isinstance(value, list) else [value]:
            if path:
                check = access.check_read if arg.path == "read" else access.check_write
                check(path, f"argument `{arg.name}`")


@dataclass(slots=True)  # not frozen: there is one for every iteration, and a frozen one takes three times as long to make
class Iteration:
    """What one operator may know about the iteration it plans.

    index       number of the iteration, from 0
    batch_size  samples of the whole batch
    fed         external input -> its batch, or the error to raise in its place
    stream      the GPU's stream that the operator's work is queued on
    position    where a stateful operator is before this iteration (of a part: where the part begins, see :meth:`Operator.part_at`)
    prepared    what :meth:`Operator.prepare` returned
    first       where only a part of the samples is made: the number of its first sample
    whole       samples of the whole iteration, whose part `batch_size` samples are; 0: all are made
    """

    index: int
    batch_size: int
    fed: Mapping[str, Any] = field(default_factory=dict)
    stream: CudaStream | None = None
    position: Any = None
    prepared: Any = None
    first: int = 0
    whole: int = 0

    def taken(self, name: str) -> Any:
        """What the external input `name` was fed for these samples: a batch, or an error to raise."""
        fed = self.fed[name]
        if self.whole and isinstance(fed, Batch) and len(fed) > self.batch_size:
            return fed.part(self.first, self.first + self.batch_size)
        return fed
