"""Mixed decoders on a GPU: which samples its JPEG engines decode, which its multiprocessors, and which the CPU.

They differ, at coloured edges visibly (docs/gpu.md). So the lane of a sample depends on the files of its batch, its slot and a split
that is fixed when the pipeline is built, never on load: a run can be repeated and resumed exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...types import DALIDataType, DALIImageType
from ..base import Environment, Spec

if TYPE_CHECKING:
    from ...device.cuda.nvjpeg import BatchDecoder

DECODERS = ("", "hardware", "hybrid", "cpu")
_ENGINE_RATE, _HYBRID_RATE, _THREAD_RATE = 4.1, 11.0, 0.4
"""Pictures per millisecond that an engine, the multiprocessors and a CPU thread decode when all work (H200, 490 x 397; docs/gpu.md)."""
_FORMATS = {DALIImageType.RGB: "rgb", DALIImageType.ANY_DATA: "rgb", DALIImageType.BGR: "bgr"}


class Lane(NamedTuple):
    """A decoder of the GPU and the samples that it takes (bool[samples])."""

    decoder: BatchDecoder
    chosen: np.ndarray


@dataclass
class GpuImages:
    """The samples of a batch that decoders of the GPU take.

    lanes      who takes which;  chosen  bool[samples], those that anyone takes
    sources    addresses int64[samples] and `sizes` int64[samples] of the encoded data
    extents    int64[samples, 2], (height, width) of the whole images;  windows  int64[samples, 2, 2], (anchor, extents) as (y, x)
    targets    int64[samples], where the compiled step puts what the CPU decodes; filled in by the runtime
    """

    lanes: list[Lane]
    chosen: np.ndarray
    sources: np.ndarray
    sizes: np.ndarray
    extents: np.ndarray
    windows: np.ndarray
    targets: np.ndarray
    bgr: bool


class Lanes:
    """Chooses lanes for one decoder of a built pipeline."""

    def __init__(self, spec: Spec, environment: Environment):
        wish: str = spec.constant("decoder")
        load: float = spec.constant("hw_decoder_load")
        if not 0 <= load <= 1:
            raise ValueError(f"`hw_decoder_load` must be between 0 and 1, got {load:g}")
        output_type, dtype = spec.constant("output_type"), spec.constant("dtype")
        self._bgr = output_type == DALIImageType.BGR
        self.engines: BatchDecoder | None = None
        self.hybrid: BatchDecoder | None = None
        self._least = 1
        if wish == "cpu" or output_type not in _FORMATS or dtype != DALIDataType.UINT8:
            if wish not in ("", "cpu"):
                raise ValueError(f"decoder={wish!r} gives UINT8 in RGB or BGR only")
            return
        from ...device.cuda.nvjpeg import HYBRID_MINIMUM, DecoderOptions, batch_decoder

        assert environment.gpu is not None
        options = DecoderOptions(
            bool(spec.constant("jpeg_fancy_upsampling")), environment.batch_size,
            (int(spec.constant("preallocate_width_hint")), int(spec.constant("preallocate_height_hint"))),
            (int(spec.constant("device_memory_padding")), int(spec.constant("host_memory_padding"))),
        )  # fmt: skip
        if wish in ("", "hardware"):
            self.engines = batch_decoder(environment.gpu, options, wish == "hardware")
        if wish == "hybrid" or (wish == "" and environment.batch_size >= HYBRID_MINIMUM):
            self.hybrid = batch_decoder(environment.gpu, options, wish == "hybrid", hybrid=True)
            self._least = HYBRID_MINIMUM if wish == "" else 1
        engines = 0 if self.engines is None else self.engines.engines * _ENGINE_RATE
        hybrid = 0 if self.hybrid is None else _HYBRID_RATE
        others = hybrid + (0 if wish else environment.num_threads * _THREAD_RATE)
        part = load if spec.given("hw_decoder_load") and self.engines is not None and not wish else engines / max(engines + others, 1e-9)
        self._hybrid_part = (1 - part) * hybrid / max(others, 1e-9)
        self._engines_part = min(part / max(1 - self._hybrid_part, 1e-9), 1.0)  # of what the multiprocessors leave

    @property
    def any(self) -> bool:
        """Whether the GPU has a part in it at all."""
        return self.engines is not None or self.hybrid is not None

    def choose(
        self, addresses: np.ndarray, sizes: np.ndarray, headers: np.ndarray, anchors: np.ndarray, windows: np.ndarray
    ) -> GpuImages | None:
        """The samples for the GPU's decoders; None if there are none.

        The smallest files go to the multiprocessors, whose batch takes as long as its largest one, and of the others an evenly spread part
        to the engines.
        """
        if not self.any:
            return None
        from .jpeg_lane_kernels import eligible

        free = eligible(addresses, sizes, headers)
        lanes = []
        left = np.ones(len(sizes), bool)
        if self.hybrid is not None:
            count = round(self._hybrid_part * len(sizes))
            candidates = np.flatnonzero(free)
            smallest = candidates[np.argsort(sizes[candidates], kind="stable")[:count]]
            if len(smallest) >= self._least:
                chosen = np.zeros(len(sizes), bool)
                chosen[smallest] = True
                left &= ~chosen
                lanes.append(Lane(self.hybrid, chosen))
        if self.engines is not None:
            turn = np.diff(np.floor(np.arange(left.sum() + 1) * self._engines_part + 1e-9)) > 0
            chosen = np.zeros(len(sizes), bool)
            chosen[left] = turn
            chosen &= free
            if chosen.any():
                lanes.append(Lane(self.engines, chosen))
        if not lanes:
            return None
        places = np.stack([anchors, windows], axis=1).astype(np.int64)
        extents = np.ascontiguousarray(headers[:, 2:0:-1])
        taken = np.logical_or.reduce([lane.chosen for lane in lanes])
        return GpuImages(lanes, taken, addresses, sizes, extents, places, np.zeros(len(sizes), np.int64), self._bgr)
