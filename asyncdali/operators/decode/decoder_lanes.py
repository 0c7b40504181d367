"""Assignment of samples to decoders in mixed decoders: a GPU's JPEG engines, its multiprocessors, or the CPU.

The decoders' results differ, visibly at coloured edges (docs/gpu.md). So the lane of a sample does not depend on load. It depends on the
files of its batch, on its slot, and on a split. The split is fixed when the pipeline is built, and stored in checkpoints. A run can be
repeated and resumed exactly. Only `decoder="dynamic"` shares by load (lane_balance.py).
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...codecs.jpeg.jpeg_tables import DESCRIBE_FILES, FEW_HEADERS, FIND_ELIGIBLE, FIND_MOVES, PLACE_REST, TAKE_LANES
from ...compiled.addresses import address_of, zero_words
from ...device.cuda.nvjpeg_tables import NVJPEG_IMAGE
from ...types import DALIDataType, DALIImageType
from ..base import Environment, Spec
from .lane_balance import Balance

if TYPE_CHECKING:
    from ...batch import Batch
    from ...device.cuda.nvjpeg import BatchDecoder
    from .picture_cache import KeptPictures

log = logging.getLogger("asyncdali")

DECODERS = ("", "all", "dynamic", "hardware", "hybrid", "cpu")
_ENGINE_RATE, _HYBRID_RATE, _THREAD_RATE = 4.1, 14.0, 0.3
"""Pictures per millisecond of an engine, the multiprocessors and a CPU thread when all work (H200, 490 x 397; docs/gpu.md)."""
_HYBRID_DEPTH = 5
"""With fewer iterations in flight all decoders wait for the multiprocessors, whose part takes two or three times as long as the others."""
KEPT = 3
"""This value instead of a lane (see jpeg_lane_kernels): the cache of decoded pictures has the sample."""
_FORMATS = {DALIImageType.RGB: "rgb", DALIImageType.ANY_DATA: "rgb", DALIImageType.BGR: "bgr"}


@functools.cache
def _kernels() -> Any:
    """The compiled functions, imported at the first call.

    They import Numba, which is slow to import. The cache avoids several import statements per batch.
    """
    from . import jpeg_lane_kernels

    return jpeg_lane_kernels


class Lane(NamedTuple):
    """A decoder of the GPU, its number (see jpeg_lane_kernels) and the number of samples it takes."""

    decoder: BatchDecoder
    number: int
    samples: int


class Split(NamedTuple):
    """Parts of a batch. The CPU takes the rest."""

    engines: float
    multiprocessors: float


@dataclass
class GpuImages:
    """The samples of a batch that decoders of the GPU take.

    lanes      the decoders that take samples;  lane_of  int64[samples], the numbers of their lanes; 0: the CPU
    sources    addresses int64[samples] and `sizes` int64[samples] of the encoded data;  headers  JPEG_HEADER[samples] of the files
    anchors    int64[samples, 2] and `extents` int64[samples, 2] of the windows, as (y, x)
    targets    int64[samples], where the compiled step writes pictures that the CPU decodes; filled in by the runtime
    balance    called when the engines and the CPU have finished, if they share by load
    kept       the pictures to copy from the cache and into it
    """

    lanes: list[Lane]
    lane_of: np.ndarray
    sources: np.ndarray
    sizes: np.ndarray
    headers: np.ndarray
    anchors: np.ndarray
    extents: np.ndarray
    targets: np.ndarray
    bgr: bool
    balance: Balance | None = None
    kept: KeptPictures | None = None

    def __post_init__(self) -> None:
        arrays = (self.lane_of, self.sources, self.sizes, self.headers, self.anchors, self.extents, self.targets)
        self._places = [address_of(array) for array in arrays]  # computed once for all lanes

    @property
    def chosen(self) -> np.ndarray:
        """bool[samples]: the samples that a lane or the cache has."""
        chosen: np.ndarray = self.lane_of != 0
        return chosen

    def give_up(self) -> None:
        """Let the CPU decode all samples except those in the cache."""
        self.lane_of[:] = 0
        if self.kept is not None:
            self.lane_of[self.kept.sources != 0] = KEPT

    def use_kept(self, kept: KeptPictures) -> None:
        """Take cached samples from the cache."""
        self.kept = kept
        self.lane_of[kept.sources != 0] = KEPT

    def show_kept(self, moved_by: int) -> None:
        """Treat cached pictures as outputs of the CPU. Call this before :meth:`moves`."""
        if self.kept is not None:
            there = self.kept.sources != 0
            self.lane_of[there] = 0
            self.targets[there] = self.kept.sources[there] - moved_by

    def files(self, lane: Lane, addresses: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
        """The input of the decoder of `lane`, for outputs at `addresses`: addresses and sizes of files, int64[files] each; images (as
        nvjpegImage_t); and the bytes of memory for whole images. If these are 0, images lie in the outputs; otherwise, images are offsets
        in that memory."""
        kernels = _kernels()

        count = lane.samples
        lane_of, sources, sizes, headers, anchors, extents, _ = self._places
        memory = np.empty(count * (2 + NVJPEG_IMAGE.words), np.int64)
        at = address_of(memory)
        table, _ = DESCRIBE_FILES.make(
            samples=len(self.sizes), lanes=lane_of, lane=lane.number, addresses=sources, sizes=sizes, headers=headers, anchors=anchors,
            extents=extents, outputs=addresses, lane_addresses=at, lane_sizes=at + 8 * count, lane_images=at + 16 * count, whole_bytes=0,
        )  # fmt: skip
        kernels.describe_files(address_of(table))
        return memory[:count], memory[count : 2 * count], memory[2 * count :], int(table[DESCRIBE_FILES.word.whole_bytes])

    def rest(self, sizes: np.ndarray) -> tuple[np.ndarray | None, int]:
        """The CPU's samples, int64[samples] with -1 for other samples, or None if there are none; and the total bytes of their outputs.
        `sizes` are the output sizes of all samples. `targets` become offsets in that memory."""
        kernels = _kernels()

        rows = np.empty(len(sizes), np.int64)
        lanes, *_, places = self._places
        table, _ = PLACE_REST.make(samples=len(sizes), lanes=lanes, sizes=sizes, places=places, rows=rows, count=0)
        size = kernels.place_rest(address_of(table))
        return (rows if table[PLACE_REST.word.count] else None), size

    def moves(self, batch: Batch, moved_by: int, elsewhere: Sequence[tuple[Lane, np.ndarray]]) -> tuple[np.ndarray | None, tuple[int, int]]:
        """The copies that move outputs into `batch`: int64[5, windows] sources, pitches, rows, bytes of a row and targets, or None; and the
        largest number of rows, the largest bytes of a row.

        moved_by    offset from `targets` to the CPU's outputs in device memory
        elsewhere   lanes whose images are not in the outputs, and these images (nvjpegImage_t)
        """
        kernels = _kernels()

        count = len(self.sizes)
        images = {lane.number: address_of(found) for lane, found in elsewhere}
        shapes = np.ascontiguousarray(batch.shapes, np.int64)
        if batch.itemsize != 1:
            shapes = shapes * (1, 1, batch.itemsize)  # The last axis counts bytes of a pixel, not channels.
        memory = np.empty((5, count), np.int64)
        at = address_of(memory)
        lanes, _, _, _, anchors, _, places = self._places
        table, _ = FIND_MOVES.make(
            samples=count, lanes=lanes, anchors=anchors, shapes=shapes, outputs=batch.addresses, places=places,
            engine_images=images.get(kernels.ENGINES, 0), hybrid_images=images.get(kernels.HYBRID, 0), sources=at, pitches=at + 8 * count,
            rows=at + 16 * count, row_bytes=at + 24 * count, targets=at + 32 * count, most_rows=0, most_row_bytes=0, moved_by=moved_by,
        )  # fmt: skip
        moved = kernels.find_moves(address_of(table))
        rows, row_bytes = table[FIND_MOVES.span("most_rows", "most_row_bytes")].tolist()
        return (memory[:, :moved] if moved else None), (rows, row_bytes)


def without_lanes(
    addresses: np.ndarray, sizes: np.ndarray, headers: np.ndarray, anchors: np.ndarray, windows: np.ndarray
) -> GpuImages:
    """No lanes: the CPU's threads decode all samples that are not in the cache of decoded pictures."""
    lane_of, targets = np.zeros((2, len(sizes)), np.int64)
    anchors, windows = np.ascontiguousarray(anchors, np.int64), np.ascontiguousarray(windows, np.int64)
    return GpuImages([], lane_of, addresses, sizes, headers, anchors, windows, targets, False)


class Lanes:
    """Chooses lanes for one decoder of a built pipeline."""

    def __init__(self, spec: Spec, environment: Environment):
        wish: str = spec.constant("decoder")
        load: float = spec.constant("hw_decoder_load")
        if not 0 <= load <= 1:
            raise ValueError(f"`hw_decoder_load` must be between 0 and 1, got {load:g}")
        output_type, dtype = spec.constant("output_type"), spec.constant("dtype")
        if not wish and spec.given("cache_size") and spec.constant("cache_size"):
            wish = "cpu"  # The decoder of a cached picture must not depend on the picture's place in a batch.
        shared = wish in ("", "all", "dynamic")
        if wish == "dynamic" and environment.checkpointing:
            raise ValueError(
                "decoder='dynamic' divides batches by load, so no run can be repeated; it cannot be combined with `enable_checkpointing`"
            )
        if wish == "dynamic" and spec.given("hw_decoder_load"):
            raise ValueError(
                "`hw_decoder_load` fixes the part that decoder='dynamic' decides for every batch; give only one of the two arguments"
            )
        self._bgr = output_type == DALIImageType.BGR
        self.engines: BatchDecoder | None = None
        self.hybrid: BatchDecoder | None = None
        self._hybrid_lane: Callable[[], BatchDecoder | None] | None = None
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
        self._hybrid_lane = functools.partial(batch_decoder, environment.gpu, options, wish == "hybrid", hybrid=True)
        enough = environment.batch_size >= HYBRID_MINIMUM and environment.depth >= _HYBRID_DEPTH
        if wish == "hybrid" or (wish == "all" and enough):
            self.hybrid = self._hybrid_lane()
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
        """The split as JSON data; None if the GPU decodes nothing."""
        return {**self._asked, **self._split._asdict()} if self.any else None

    def load(self, data: Any) -> None:
        """Use a saved split, unless `decoder` or `hw_decoder_load` have changed since. ValueError if the data is not a split."""
        try:
            asked, split = {name: data[name] for name in self._asked}, Split(float(data["engines"]), float(data["multiprocessors"]))
        except (TypeError, KeyError, ValueError) as error:
            raise ValueError(f"{data!r} does not say how JPEGs are split between decoders") from error
        if not (min(split) >= 0 and sum(split) <= 1 + 1e-6):  # Written this way, the test refuses NaN, too.
            raise ValueError(f"{data!r} does not say how JPEGs are split between decoders: parts are from 0 to 1")
        if asked != self._asked:
            return
        if split.multiprocessors and self.hybrid is None and self._hybrid_lane is not None:
            self.hybrid = self._hybrid_lane()  # Saved by a version that used this lane by default.
        lanes = (("JPEG engines", self.engines, split.engines), ("nvJPEG's hybrid decoder", self.hybrid, split.multiprocessors))
        missing = [name for name, decoder, part in lanes if part and decoder is None]
        if missing:
            log.warning(
                "the checkpoint's pipeline used %s: not available on this machine, so the pixels may differ from here "
                "on", " and ".join(missing),
            )
        self._split = split

    @property
    def any(self) -> bool:
        """Whether the GPU decodes any samples."""
        return self.engines is not None or self.hybrid is not None

    def choose(
        self, addresses: np.ndarray, sizes: np.ndarray, headers: np.ndarray, anchors: np.ndarray, windows: np.ndarray,
        mapped: bool = False, marks: np.ndarray | None = None,
    ) -> GpuImages | None:  # fmt: skip
        """The samples for the GPU's decoders; None if there are none. `mapped`: the files are mapped, so their pages may be missing.
        `marks`: int64[samples] of ``scan_file_for_gpu``, if the files were scanned when they were read.

        The smallest files go to the multiprocessors, because their batch takes as long as its largest file. An evenly spread part of the
        other files goes to the engines.
        """
        if not self.any:
            return None
        kernels = _kernels()

        count = len(sizes)
        memory = zero_words(4 * count)
        at = address_of(memory)
        lane_of, targets = memory[:count], memory[count : 2 * count]
        eligible_at, room_at = at + 16 * count, at + 24 * count
        sizes_at = address_of(sizes)
        if marks is None:
            table, _ = FIND_ELIGIBLE.make(addresses=addresses, sizes=sizes_at, headers=headers, samples=count, eligible=eligible_at)
            find_eligible = kernels.find_eligible if mapped or count > FEW_HEADERS else kernels.find_eligible.held
            find_eligible(address_of(table))
        else:
            eligible_at = address_of(marks)
        engines, hybrid = self._split
        table, _ = TAKE_LANES.make(
            samples=count, sizes=sizes_at, eligible=eligible_at, lanes=at, hybrid=round(hybrid * count), least=self._least, keys=room_at,
            part=0,
        )  # fmt: skip
        table_at = address_of(table)
        lanes = []
        left = count
        if self.hybrid is not None:
            taken = kernels.take_smallest(table_at)
            left -= taken
            if taken:
                lanes.append(Lane(self.hybrid, kernels.HYBRID, taken))
        if self.engines is not None:
            part = min(engines / max(1 - hybrid, 1e-9), 1.0)  # the part of the samples that the multiprocessors leave
            table.view(np.float64)[TAKE_LANES.word.part] = part if self._balance is None else self._balance.part(left)
            taken = kernels.take_evenly(table_at)
            if taken:
                lanes.append(Lane(self.engines, kernels.ENGINES, taken))
        if not lanes:
            return None
        anchors, windows = np.ascontiguousarray(anchors, np.int64), np.ascontiguousarray(windows, np.int64)
        return GpuImages(lanes, lane_of, addresses, sizes, headers, anchors, windows, targets, self._bgr, self._balance)
