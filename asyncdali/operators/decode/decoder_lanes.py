"""Mixed decoders on a GPU: which samples its JPEG engines decode, and which the CPU.

The two differ, at coloured edges visibly (docs/gpu.md). So the lane of a sample depends on its header, its slot in the batch and a split
that is fixed when the pipeline is built, never on load: a run can be repeated and resumed exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ...types import DALIDataType, DALIImageType
from ..base import Environment, Spec

if TYPE_CHECKING:
    from ...device.cuda.nvjpeg import HardwareDecoder

DECODERS = ("", "hardware", "cpu")
_ENGINE_RATE, _THREAD_RATE = 4.3, 0.35
"""Pictures per millisecond that an engine and a CPU thread decode when both lanes are at work (H200, 490 x 397; docs/gpu.md)."""
_FORMATS = {DALIImageType.RGB: "rgb", DALIImageType.ANY_DATA: "rgb", DALIImageType.BGR: "bgr"}


@dataclass
class HardwareImages:
    """The samples of a batch that the GPU's engines decode.

    chosen     bool[samples]
    sources    addresses int64[samples] and `sizes` int64[samples] of the encoded data
    extents    int64[samples, 2], (height, width) of the whole images;  windows  int64[samples, 2, 2], (anchor, extents) as (y, x)
    targets    int64[samples], where the compiled step puts what the CPU decodes; filled in by the runtime
    """

    decoder: HardwareDecoder
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
        self.hardware: HardwareDecoder | None = None
        self.load = 0.0
        if wish == "cpu" or output_type not in _FORMATS or dtype != DALIDataType.UINT8:
            if wish == "hardware":
                raise ValueError("decoder='hardware' gives UINT8 in RGB or BGR only")
            return
        from ...device.cuda.nvjpeg import hardware_decoder

        assert environment.gpu is not None
        sizes = tuple(int(spec.constant(name)) for name in ("preallocate_width_hint", "preallocate_height_hint"))
        paddings = int(spec.constant("device_memory_padding")), int(spec.constant("host_memory_padding"))
        self.hardware = hardware_decoder(
            environment.gpu, bool(spec.constant("jpeg_fancy_upsampling")), environment.batch_size, sizes, paddings, wish == "hardware"
        )
        if self.hardware is None:
            return
        engines, threads = self.hardware.engines * _ENGINE_RATE, environment.num_threads * _THREAD_RATE
        self.load = 1.0 if wish == "hardware" else load if spec.given("hw_decoder_load") else engines / (engines + threads)

    def choose(
        self, addresses: np.ndarray, sizes: np.ndarray, headers: np.ndarray, anchors: np.ndarray, windows: np.ndarray
    ) -> HardwareImages | None:
        """The samples for the engines, evenly spread over the slots; None if there are none."""
        if self.hardware is None or self.load == 0:
            return None
        from .jpeg_lane_kernels import eligible

        slots = np.arange(len(sizes) + 1)
        turn = np.diff(np.floor(slots * self.load + 1e-9)) > 0
        chosen = eligible(addresses, sizes, headers) & turn
        if not chosen.any():
            return None
        places = np.stack([anchors, windows], axis=1).astype(np.int64)
        extents = np.ascontiguousarray(headers[:, 2:0:-1])
        return HardwareImages(self.hardware, chosen, addresses, sizes, extents, places, np.zeros(len(sizes), np.int64), self._bgr)
