"""Calls on a CUDA device: one engine per GPU, whose operators queue their work on one stream.

The engine and its bricks are those of debug mode (``runtime/work/immediate.py``). A lock orders the calls of several threads.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

from ..batch import Batch as Samples
from ..device.select import choose_gpu, cuda_may_be_used
from ..operators.base import REGISTRY, Schema, Trait
from ..options import PipelineOptions
from ..runtime.work.immediate import Engine, Immediate
from ..runtime.work.segments import BuiltOperator
from ..system import forks
from . import values
from .bricks import Bricks, CallGraph, graph_of_call
from .contexts import get_num_threads
from .devices import gpu_number
from .values import Batch, DynamicValue, Tensor

if TYPE_CHECKING:
    from ..tensors import TensorListCPU, TensorListGPU


class CudaEngine:
    """One GPU: memory, stream and bricks."""

    def __init__(self, number: int):
        options = PipelineOptions(batch_size=1, num_threads=get_num_threads(), device_id=number, enable_statistics=False)
        self.number = number
        self.engine = Engine(options, f"asyncdali-dynamic-{number}", lambda seed: nullcontext)
        self.gpu = self.engine.choose()
        self.bricks = Bricks()
        self.lock = threading.RLock()
        self._calls = 0
        self._copying: CudaBrick | None = None

    def brick(
        self, schema: Schema, device: str | None, constants: dict[str, Any], named: Sequence[str], places: Sequence[str], seed: int = 0
    ) -> CudaBrick:
        """See :class:`bricks.Brick`."""
        with self.lock:
            return CudaBrick(self.engine, graph_of_call(schema, device, constants, named, places), seed)

    def index(self) -> int:
        """The number of the next call."""
        self._calls += 1
        return self._calls

    def copied(self, samples: Samples) -> Samples:
        """A copy of samples on the GPU, there."""
        with self.lock:
            if self._copying is None:
                self._copying = self.brick(REGISTRY["copy"].schema, "gpu", {}, (), ["gpu"])
        (made,) = self._copying.run(self, [samples], len(samples))
        return made

    def moved(self, samples: Samples, place: str) -> Samples:
        """A copy of samples of the CPU on the GPU, or of samples of the GPU on the CPU. On the CPU it is complete."""
        with self.lock, self.engine.entered():
            if place == "cpu":
                self.engine.gpu.complete([samples])  # type: ignore[union-attr]
            made = self.engine.moved(samples, "gpu" if place != "cpu" else "cpu", self.index())
            self.engine.gpu.complete([made])  # type: ignore[union-attr]
        made.device = place
        return made


class GraphBrick:
    """A brick whose operators run on a GPU: a small graph with an engine of its own kind, ``runtime.work.immediate.Engine``."""

    def __init__(self, engine: Engine, graph: CallGraph, seed: int):
        self.graph = graph._replace(outputs=[], instances=[])
        self.schema, self.names, self.single = graph.schema, graph.names, graph.single
        self.output_device = "cpu" if graph.device == "cpu" else "gpu"
        self._immediate = Immediate(engine, graph.outputs, graph.instances, seed)
        self.plan = self._immediate.plan
        self.spec = self.plan.operators[-1].spec
        traits = self.plan.operators[-1].kind.traits
        self._views, self._hands_out = Trait.VIEWS in traits, Trait.HANDS_OUT_SAMPLES in traits

    @property
    def stateful(self) -> list[BuiltOperator]:
        """See :attr:`bricks.Brick.stateful`."""
        return self._immediate.with_positions()

    def run(self, engine: Any, inputs: Sequence[Samples], count: int, position: object = None, index: int = 0) -> list[Samples]:
        """See :meth:`bricks.Brick.run`. The outputs' memory is filled on the GPU's stream."""
        self._immediate.go_to(position)
        return self._immediate.run(dict(zip(self.graph.inputs, inputs, strict=True)), count, index)

    def shares(self, output: Samples) -> bool:
        """See :meth:`bricks.Brick.shares`."""
        return not self._views and (self._hands_out or output.alias_of is not None)

    def moved(self, position: object, size: int, made: Sequence[Samples] | None) -> Any:
        """The position behind the last run, which may have failed; the graph has moved it."""
        return self.stateful[0].position

    def close(self) -> None:
        """Release the operators' resources."""
        self._immediate.close()


class CudaBrick(GraphBrick):
    """A brick of dynamic mode on a GPU."""

    def run(self, engine: Any, inputs: Sequence[Samples], count: int, position: object = None, index: int = 0) -> list[Samples]:
        with engine.lock:
            made = super().run(engine, inputs, count, position, index or engine.index())
        if engine.number:
            for samples in made:
                if samples.device == "gpu":
                    samples.device = f"gpu:{engine.number}"
        return made


_engines: dict[int, CudaEngine] = {}
_lock = threading.Lock()


def gpu_engine(number: int) -> CudaEngine | None:
    """The engine of a GPU. None: the host device stands in for it."""
    found = _engines.get(number)
    if found is None and cuda_may_be_used() and choose_gpu(number, True) is not None:
        with _lock:
            found = _engines.get(number) or _engines.setdefault(number, CudaEngine(number))
    if found is not None and forks.pid != _made_in:
        raise RuntimeError("CUDA cannot be used in a child made by fork after its parent has used it; start the process by spawn")
    return found


_made_in = forks.pid


def is_real(value: DynamicValue) -> bool:
    """Whether a value is in the memory of a CUDA device, not of the host device."""
    return engine_at(value._place) is not None


def engine_at(place: str) -> CudaEngine | None:
    """The engine of the GPU with the memory of a stored batch. None: the CPU has its memory."""
    return None if place == "cpu" else gpu_engine(gpu_number(place))


def copied_on_gpu(samples: Samples) -> Samples | None:
    """A copy of samples in a GPU's memory, there. None: they are in the host's memory."""
    engine = engine_at(samples.device)
    return None if engine is None else engine.copied(samples)


def _list_of(value: DynamicValue) -> TensorListCPU | TensorListGPU:
    """The samples of a value as the TensorListGPU of a pipeline; complete."""
    home = gpu_engine(value.device.device_id or 0)
    assert home is not None
    with home.lock, home.engine.entered():
        return home.engine.tensors(value._samples())


def exported(value: Tensor) -> Any:
    """A tensor on a GPU as an object with DLPack and the CUDA array interface."""
    return _list_of(value)[0]


def imported(data: Any) -> Samples:
    """The samples of a foreign array in a GPU's memory: a copy."""
    number = int(data.__dlpack_device__()[1])
    home = gpu_engine(number)
    if home is None:
        raise TypeError(f"the data is on GPU {number}, which this process cannot use")
    with home.lock, home.engine.entered():
        made = home.engine.batch_of([data])
    made.device = "gpu" if not number else f"gpu:{number}"
    return made


def sliced_on_gpu(value: Tensor, key: Sequence[object]) -> Tensor:
    """``tensor[key]`` by way of the CPU."""
    return value.cpu()[tuple(key)].gpu(value.device.device_id)


def batch_sliced_on_gpu(batch: Batch, keys: Sequence[Any]) -> Batch:
    """The samples of ``batch.slice`` by way of the CPU; `keys`: of each sample."""
    host = batch.cpu()
    made = [np.asarray(host.tensors[k])[key] for k, key in enumerate(keys)]
    return values.language.make_batch(made, None, batch.device, None, copy=True)
