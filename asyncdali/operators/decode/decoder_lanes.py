"""Mixed decoders on a GPU: which samples its JPEG engines decode, which its multiprocessors, and which the CPU.

They differ, at coloured edges visibly (docs/gpu.md). So the lane of a sample depends on the files of its batch, its slot and a split
that is fixed when the pipeline is built and stored in checkpoints, never on load: a run can be repeated and resumed exactly. Only
`decoder="dynamic"` shares by load (lane_balance.py).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...types import DALIDataType, DALIImageType
from ..base import Environment, Spec
from .lane_balance import Balance

if TYPE_CHECKING:
    from ...device.cuda.nvjpeg import BatchDecoder

log = logging.getLogger("asyncdali")

DECODERS = ("", "dynamic", "hardware", "hybrid", "cpu")
_ENGINE_RATE, _HYBRID_RATE, _THREAD_RATE = 4.1, 14.0, 0.3
"""Pictures per millisecond that an engine, the multiprocessors and a CPU thread decode when all work (H200, 490 x 397; docs/gpu.md)."""
_HYBRID_DEPTH = 5
"""With fewer iterations in flight everybody waits for the multiprocessors: their part takes two or three times as long as others."""
_FORMATS = {DALIImageType.RGB: "rgb", DALIImageType.ANY_DATA: "rgb", DALIImageType.BGR: "bgr"}


class Lane(NamedTuple):
    """A decoder of the GPU and the samples that it takes (bool[samples])."""

    decoder: BatchDecoder
    chosen: np.ndarray


class Split(NamedTuple):
    """Parts of a batch, the rest is the CPU's."""

    engines: float
    multiprocessors: float


@dataclass
class GpuImages:
    """The samples of a batch that decoders of the GPU take.

    lanes      who takes which;  chosen  bool[samples], those that anyone takes
    sources    addresses int64[samples] and `sizes` int64[samples] of the encoded data
    extents    int64[samples, 2], (height, width) of the whole images;  windows  int64[samples, 2, 2], (anchor, extents) as (y, x)
    targets    int64[samples], where the compiled step puts what the CPU decodes; filled in by the runtime
    balance    is told when the engines and the CPU are through, if they share by load
    """

    lanes: list[Lane]
    chosen: np.ndarray
    sources: np.ndarray
    sizes: np.ndarray
    extents: np.ndarray
    windows: np.ndarray
    targets: np.ndarray
    bgr: bool
    balance: Balance | None = None


class Lanes:
    """Chooses lanes for one decoder of a built pipeline."""

    def __init__(self, spec: Spec, environment: Environment):
        wish: str = spec.constant("decoder")
        load: float = spec.constant("hw_decoder_load")
        if not 0 <= load <= 1:
            raise ValueError(f"`hw_decoder_load` must be between 0 and 1, got {load:g}")
        output_type, dtype = spec.constant("output_type"), spec.constant("dtype")
        shared = wish in ("", "dynamic")
        if wish == "dynamic" and environment.checkpointing:
            raise ValueError("decoder='dynamic' shares by load: a run cannot be repeated, so it does not go with `enable_checkpointing`")
        if wish == "dynamic" and spec.given("hw_decoder_load"):
            raise ValueError("`hw_decoder_load` fixes the part that decoder='dynamic' decides anew for every batch: give one of them")
        self._bgr = output_type == DALIImageType.BGR
        self.engines: BatchDecoder | None = None
        self.hybrid: BatchDecoder | None = None
        self._balance: Balance | None = None
        self._least = 1
        self._asked = {"decoder": wish, "hw_decoder_load": load if spec.given("hw_decoder_load") else None}
        self._split = Split(0.0, 0.0)
        if wish == "cpu" or output_type not in _FORMATS or dtype != DALIDataType.UINT8:
            if wish in ("hardware", "hybrid"):
                raise ValueError(f"decoder={wish!r} gives UINT8 in RGB or BGR only")
            return
        from ...device.cuda.nvjpeg import HYBRID_MINIMUM, DecoderOptions, batch_decoder

        assert environment.gpu is not None
        options = DecoderOptions(
            bool(spec.constant("jpeg_fancy_upsampling")), environment.batch_size,
            (int(spec.constant("preallocate_width_hint")), int(spec.constant("preallocate_height_hint"))),
            (int(spec.constant("device_memory_padding")), int(spec.constant("host_memory_padding"))),
        )  # fmt: skip
        if shared or wish == "hardware":
            self.engines = batch_decoder(environment.gpu, options, wish == "hardware")
        if wish == "hybrid" or (shared and environment.batch_size >= HYBRID_MINIMUM and environment.depth >= _HYBRID_DEPTH):
            self.hybrid = batch_decoder(environment.gpu, options, wish == "hybrid", hybrid=True)
            self._least = HYBRID_MINIMUM if shared else 1
        engines = 0 if self.engines is None else self.engines.engines * _ENGINE_RATE
        hybrid = 0 if self.hybrid is None else _HYBRID_RATE
        threads = environment.num_threads * _THREAD_RATE if shared else 0
        part = engines / max(engines + hybrid + threads, 1e-9)
        if spec.given("hw_decoder_load") and self.engines is not None and shared:
            part = load
        self._split = Split(part, (1 - part) * hybrid / max(hybrid + threads, 1e-9))
        if wish == "dynamic" and self.engines is not None:
            self._balance = Balance(engines, threads)

    # --- the split, in checkpoints

    def save(self) -> Any:
        """The split as JSON data; None where the GPU has no part in it."""
        return {**self._asked, **self._split._asdict()} if self.any else None

    def load(self, data: Any) -> None:
        """Take over a saved split, unless `decoder` or `hw_decoder_load` were others then; ValueError if it is not one."""
        try:
            asked, split = {name: data[name] for name in self._asked}, Split(float(data["engines"]), float(data["multiprocessors"]))
        except (TypeError, KeyError, ValueError) as error:
            raise ValueError(f"{data!r} does not say how JPEGs are split between decoders") from error
        if not (min(split) >= 0 and sum(split) <= 1 + 1e-6):  # so written, NaN is refused, too
            raise ValueError(f"{data!r} does not say how JPEGs are split between decoders: parts are from 0 to 1")
        if asked != self._asked:
            return
        lanes = (("JPEG engines", self.engines, split.engines), ("nvJPEG's hybrid decoder", self.hybrid, split.multiprocessors))
        missing = [name for name, decoder, part in lanes if part and decoder is None]
        if missing:
            log.warning("the checkpoint's pipeline used %s: not to be had here, so other pixels follow", " and ".join(missing))
        self._split = split

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
        engines, hybrid = self._split
        lanes = []
        left = np.ones(len(sizes), bool)
        if self.hybrid is not None:
            count = round(hybrid * len(sizes))
            candidates = np.flatnonzero(free)
            smallest = candidates[np.argsort(sizes[candidates], kind="stable")[:count]]
            if len(smallest) >= self._least:
                chosen = np.zeros(len(sizes), bool)
                chosen[smallest] = True
                left &= ~chosen
                lanes.append(Lane(self.hybrid, chosen))
        if self.engines is not None:
            part = min(engines / max(1 - hybrid, 1e-9), 1.0)  # of what the multiprocessors leave
            part = part if self._balance is None else self._balance.part(int(left.sum()))
            turn = np.diff(np.floor(np.arange(left.sum() + 1) * part + 1e-9)) > 0
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
        return GpuImages(lanes, taken, addresses, sizes, extents, places, np.zeros(len(sizes), np.int64), self._bgr, self._balance)
