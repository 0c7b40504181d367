"""Assignment of samples to decoders in mixed decoders: a GPU's JPEG engines, its multiprocessors, or the CPU.

The decoders' results differ, visibly at coloured edges (docs/gpu.md). So the lane of a sample does not depend on load. It depends on the
files of its batch, on its slot, and on a split. The split is fixed when the pipeline is built, and stored in checkpoints. A run can be
repeated and resumed exactly. Only `decoder="dynamic"` shares by load (lane_balance.py).

By default the CPU decodes everything if its threads are many (`_ENOUGH`), because the engines cost a training step about 1 % of its speed.
Otherwise the engines help.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...codecs.jpeg.jpeg_tables import CPU, ENGINES, FEW_HEADERS, HYBRID, JPEG_SPLIT, KEPT
from ...compiled.addresses import address_of
from ...compiled.tables import WORD, table_of
from ...device.cuda.gather_tables import GATHER_WINDOW
from ...device.cuda.nvjpeg_tables import NVJPEG_IMAGE
from ...types import DALIDataType, DALIImageType
from ..base import Environment, Spec
from .lane_balance import Balance

if TYPE_CHECKING:
    from ...codecs.jpeg.jpeg_kernels import Windows
    from ...device.cuda.nvjpeg import BatchDecoder
    from .image_cache import KeptPictures

log = logging.getLogger("asyncdali")

DECODERS = ("", "cpu", "shared", "hardware", "hybrid", "all", "dynamic")
_ENGINE_RATE, _HYBRID_RATE, _THREAD_RATE, _WINDOW_RATE = 4.1, 14.0, 1.0, 2.4
"""Pictures per millisecond of an engine, the multiprocessors, and a CPU thread that decodes whole pictures or windows of them, when all
work (H200, 490 x 397; docs/gpu.md). The GPU's decoders always decode whole pictures."""
_ENOUGH = 28.0
"""Pictures per millisecond. By default a GPU's engines decode only if the CPU's threads are slower than this, which is what DALI gives with
engines. The rule counts `num_threads`, so that the same program has the same pixels on every machine."""
_FANCY_RATE = 0.25
"""The part of its speed that an engine keeps with smooth chroma."""
_HYBRID_DEPTH = 5
"""With fewer iterations in flight all decoders wait for the multiprocessors, whose part takes two or three times as long as the others."""
word = JPEG_SPLIT.word
_FORMATS = {DALIImageType.RGB: "rgb", DALIImageType.ANY_DATA: "rgb", DALIImageType.BGR: "bgr"}


@functools.cache
def _kernels() -> ModuleType:
    """The compiled functions, imported at the first call.

    They are imported late, because few programs need them. The cache avoids several import statements per batch.
    """
    from . import image_decoder_kernels

    return image_decoder_kernels


class Lane(NamedTuple):
    """A decoder of the GPU, its number (ENGINES or HYBRID) and the number of samples it takes."""

    decoder: BatchDecoder
    number: int
    samples: int


class LaneSplit(NamedTuple):
    """Parts of a batch. The CPU takes the rest."""

    engines: float
    multiprocessors: float

    @property
    def text(self) -> str:
        """The decoders and their parts, for people."""
        parts = {"the GPU's engines": self.engines, "its multiprocessors": self.multiprocessors, "the CPU": 1 - sum(self)}
        used = {name: part for name, part in parts.items() if part > 1e-6}
        return ", ".join(name if len(used) == 1 else f"{name} ({part:.0%})" for name, part in used.items())


class Encoded(NamedTuple):
    """A batch of files: their addresses and sizes, int64[samples] each, and JPEG_HEADER[samples].

    marks    int64[samples], of ``scan_file_for_gpu``; None if the files were not scanned when they were read
    mapped   the files are mapped, so their pages may be missing
    """

    addresses: np.ndarray
    sizes: np.ndarray
    headers: np.ndarray
    marks: np.ndarray | None = None
    mapped: bool = False


class GpuImages:
    """A batch that decoders of the GPU, the cache of decoded pictures and the CPU's step share. One table describes it (JPEG_SPLIT).

    lanes      the decoders that take samples;  lane_of  int64[samples], the number of the lane of each; CPU: the CPU's step takes it
    targets    int64[samples], where that step writes its pictures; filled in by the runtime
    balance    called when the engines and the CPU have finished, if they share by load
    kept       the pictures to copy from the cache and into it
    counts     int64[3], counts pictures by what became of them: `LaneChooser.counted`
    """

    __slots__ = ("_at", "_keep", "_table", "balance", "bgr", "counts", "kept", "lane_of", "lanes", "samples", "targets")

    def __init__(
        self, files: Encoded, windows: Windows, outputs: np.ndarray, split: LaneSplit, least: int = 1, bgr: bool = False,
        balance: Balance | None = None,
    ):  # fmt: skip
        """`outputs`: addresses of the output's samples, filled in later. `least`: files that the multiprocessors take at least, if any."""
        kernels = _kernels()

        count = self.samples = len(files.sizes)
        memory = np.empty(4 * count, np.int64)
        at, stride = address_of(memory), WORD * count
        self.lane_of, self.targets = memory[:count], memory[count : 2 * count]
        addresses, sizes, headers, marks, mapped = files
        self._table = table = table_of(JPEG_SPLIT.entries(
            samples=count, addresses=address_of(addresses), sizes=address_of(sizes), headers=address_of(headers),
            marks=at + 3 * stride if marks is None else address_of(marks), windows=address_of(windows.records),
            shapes=address_of(windows.shapes), outputs=address_of(outputs), lanes=at, targets=at + stride, keys=at + 2 * stride,
            hybrid=round(split.multiprocessors * count), least=least, part=0, taken_engines=0, taken_hybrid=0, left=0, whole_bytes=0,
            most_rows=0, most_row_bytes=0,
        ))  # fmt: skip
        table.view(np.float64)[word.part] = split.engines
        self._at = address_of(table)
        self._keep = files, windows, outputs
        self.lanes: list[Lane] = []
        self.bgr, self.balance = bgr, balance
        self.counts = np.zeros(3, np.int64)
        self.kept: KeptPictures | None = None
        if marks is None and (split.engines or split.multiprocessors):
            find_eligible = kernels.find_eligible if mapped or count > FEW_HEADERS else kernels.find_eligible.held
            find_eligible(self._at)
        kernels.share_out(self._at)

    def give(self, decoder: BatchDecoder | None, number: int) -> None:
        """Have the samples of a lane decoded by `decoder`."""
        samples = int(self._table[word.taken_engines if number == ENGINES else word.taken_hybrid])
        if samples:
            assert decoder is not None
            self.lanes.append(Lane(decoder, number, samples))

    def give_up(self) -> None:
        """Let the CPU decode all samples except those in the cache."""
        self.lane_of[:] = CPU
        if self.kept is not None:
            self.lane_of[self.kept.sources != 0] = KEPT

    def count(self, lane: Lane) -> None:
        """The decoder of `lane` has decoded its pictures."""
        self.counts[0 if lane.number == ENGINES else 1] += lane.samples

    def count_refused(self, pictures: int) -> None:
        """A decoder of the GPU has not decoded `pictures`, so the CPU did."""
        self.counts[2] += pictures

    def use_kept(self, kept: KeptPictures) -> None:
        """Take cached samples from the cache."""
        self.kept = kept
        self.lane_of[kept.sources != 0] = KEPT

    def show_kept(self, moved_by: int) -> None:
        """Treat cached pictures as outputs of the CPU. Call this before :meth:`moves`."""
        if self.kept is not None:
            there = self.kept.sources != 0
            self.lane_of[there] = CPU
            self.targets[there] = self.kept.sources[there] - moved_by

    def files(self, lane: Lane) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, int]:
        """The input of the decoder of `lane`, when the outputs have memory: addresses and sizes of files, places of the last rows of their
        images, int64[files] each; images (as nvjpegImage_t); and the bytes of memory for whole images. If these are 0, images lie in the
        outputs; otherwise, images and places are offsets in that memory."""
        count = lane.samples
        memory = np.empty(count * (3 + NVJPEG_IMAGE.words), np.int64)
        _kernels().describe_files(self._at, lane.number, count, address_of(memory))
        data, lengths, rows = memory[:count], memory[count : 2 * count], memory[2 * count : 3 * count]
        return data, lengths, rows, memory[3 * count :], int(self._table[word.whole_bytes])

    def rest(self) -> tuple[int, int]:
        """The number of samples of the CPU, and the total bytes of their outputs. `targets` become offsets in that memory."""
        size = _kernels().place_rest(self._at)
        return int(self._table[word.left]), size

    def moves(self, moved_by: int, elsewhere: Sequence[tuple[Lane, np.ndarray]]) -> tuple[np.ndarray, tuple[int, int]]:
        """The copies that move outputs into the batch, GATHER_WINDOW[windows]; the largest number of rows, and the largest bytes of a row.

        moved_by    offset from `targets` to the CPU's outputs in device memory
        elsewhere   lanes whose images are not in the outputs, and these images (nvjpegImage_t)
        """
        images = {lane.number: address_of(found) for lane, found in elsewhere}
        memory = np.empty((self.samples, GATHER_WINDOW.words), np.int64)
        moved = _kernels().find_moves(self._at, images.get(ENGINES, 0), images.get(HYBRID, 0), moved_by, address_of(memory))
        rows, row_bytes = self._table[JPEG_SPLIT.span("most_rows", "most_row_bytes")].tolist()
        return memory[:moved], (rows, row_bytes)


def without_lanes(files: Encoded, windows: Windows, outputs: np.ndarray) -> GpuImages:
    """No lanes: the CPU's threads decode all samples that are not in the cache of decoded pictures."""
    return GpuImages(files, windows, outputs, LaneSplit(0.0, 0.0))


def _saved_split(data: Any) -> LaneSplit:
    """The split in `data`, which :meth:`LaneChooser.save` made. ValueError for other data."""
    try:
        split = LaneSplit(float(data["engines"]), float(data["multiprocessors"]))
        data["decoder"], data["hw_decoder_load"]
    except (TypeError, KeyError, ValueError) as error:
        raise ValueError(f"{data!r} does not say how JPEGs are split between decoders") from error
    if not (min(split) >= 0 and sum(split) <= 1 + 1e-6):  # Written this way, the test refuses NaN, too.
        raise ValueError(f"{data!r} does not say how JPEGs are split between decoders: parts are from 0 to 1")
    return split


def tell_of_host(data: object) -> None:
    """Warn if a pipeline on the host device continues one whose JPEGs were decoded by a GPU. `data`: of :meth:`LaneChooser.save`."""
    split = LaneSplit(0.0, 0.0) if data is None else _saved_split(data)
    if any(split):
        log.warning(
            "the checkpoint's pipeline decoded JPEGs with %s: not available on the host device, so the pixels differ from here on",
            split.text,
        )  # fmt: skip


class LaneChooser:
    """Chooses lanes for one decoder of a built pipeline. `windows`: the decoder decides windows, so the CPU decodes only these."""

    def __init__(self, spec: Spec, environment: Environment, windows: bool):
        wish: str = spec.constant("decoder")
        load: float = spec.constant("hw_decoder_load")
        if not 0 <= load <= 1:
            raise ValueError(f"`hw_decoder_load` must be between 0 and 1, got {load:g}")
        output_type, dtype = spec.constant("output_type"), spec.constant("dtype")
        if not wish and spec.given("cache_size") and spec.constant("cache_size"):
            wish = "cpu"  # The decoder of a cached picture must not depend on the picture's place in a batch.
        self._asked = {"decoder": wish, "hw_decoder_load": load if spec.given("hw_decoder_load") else None}
        if not wish:
            enough = environment.num_threads * (_WINDOW_RATE if windows else _THREAD_RATE) >= _ENOUGH
            wish = "cpu" if enough and not spec.given("hw_decoder_load") else "shared"
        shared = wish in ("shared", "all", "dynamic")
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
        self._engine_lane: Callable[[], BatchDecoder | None] | None = None
        self._least = 1
        self._split = LaneSplit(0.0, 0.0)
        self._counts = np.zeros(3, np.int64)
        if output_type not in _FORMATS or dtype != DALIDataType.UINT8:
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
        self._engine_lane = functools.partial(batch_decoder, environment.gpu, options, wish == "hardware")
        self._hybrid_lane = functools.partial(batch_decoder, environment.gpu, options, wish == "hybrid", hybrid=True)
        if wish == "cpu":
            return
        if shared or wish == "hardware":
            self.engines = self._engine_lane()
        enough = environment.batch_size >= HYBRID_MINIMUM and environment.depth >= _HYBRID_DEPTH
        if wish == "hybrid" or (wish == "all" and enough):
            self.hybrid = self._hybrid_lane()
        self._least = HYBRID_MINIMUM if shared else 1
        engines = 0 if self.engines is None else self.engines.engines * _ENGINE_RATE * (_FANCY_RATE if options.fancy else 1)
        hybrid = 0 if self.hybrid is None else _HYBRID_RATE
        threads = environment.num_threads * (_WINDOW_RATE if windows else _THREAD_RATE) if shared else 0
        part = engines / max(engines + hybrid + threads, 1e-9)
        if spec.given("hw_decoder_load") and self.engines is not None and shared:
            part = load
        self._split = LaneSplit(part, (1 - part) * hybrid / max(hybrid + threads, 1e-9))
        if wish == "dynamic" and self.engines is not None:
            self._balance = Balance(engines, threads)

    # --- the split, in checkpoints

    def save(self) -> dict[str, object]:
        """The split as JSON data."""
        return {**self._asked, **self._split._asdict()}

    def load(self, data: Any) -> None:
        """Use a saved split, unless `decoder` or `hw_decoder_load` have changed since. ValueError if the data is not a split.

        None: the saved pipeline decoded with the CPU. If other lanes decode from here on, a warning says so.
        """
        split = LaneSplit(0.0, 0.0) if data is None else _saved_split(data)
        if data is None or {name: data[name] for name in self._asked} != self._asked:
            if split != self._split:
                log.warning(
                    "the checkpoint's pipeline decoded JPEGs with %s, this pipeline decodes them with %s: the pixels differ from here on. "
                    "The same `decoder` and `hw_decoder_load` as before continue with the same pixels", split.text, self._split.text,
                )  # fmt: skip
            return
        # The present machine, or `num_threads`, may not use these lanes by default.
        if split.engines and self.engines is None and self._engine_lane is not None:
            self.engines = self._engine_lane()
        if split.multiprocessors and self.hybrid is None and self._hybrid_lane is not None:
            self.hybrid = self._hybrid_lane()
        lanes = (("JPEG engines", self.engines, split.engines), ("nvJPEG's hybrid decoder", self.hybrid, split.multiprocessors))
        missing = [name for name, decoder, part in lanes if part and decoder is None]
        if missing:
            log.warning(
                "the checkpoint's pipeline used %s: not available on this machine, so the pixels may differ from here "
                "on", " and ".join(missing),
            )
        self._split = split

    def counted(self) -> tuple[tuple[str, int], ...]:
        """Numbers for statistics, if a decoder of the GPU has been in use."""
        if not self.any:
            return ()
        names = "JPEGs decoded by engines", "JPEGs decoded by multiprocessors", "JPEGs refused by the GPU"
        return tuple(zip(names, self._counts.tolist(), strict=True))

    @property
    def any(self) -> bool:
        """Whether the GPU decodes any samples."""
        return self.engines is not None or self.hybrid is not None

    def choose(self, files: Encoded, windows: Windows, outputs: np.ndarray) -> GpuImages | None:
        """The samples for the GPU's decoders; None if there are none. `outputs`: addresses of the output's samples, filled in later.

        The smallest files go to the multiprocessors, because their batch takes as long as its largest file. An evenly spread part of the
        other files goes to the engines.
        """
        if not self.any:
            return None
        engines, hybrid = self._split
        # The engines' part is one of the samples that the multiprocessors leave.
        part = 0.0 if self.engines is None else min(engines / max(1 - hybrid, 1e-9), 1.0)
        if self._balance is not None:
            part = self._balance.part(len(files.sizes))
        split = LaneSplit(part, hybrid if self.hybrid is not None else 0.0)
        images = GpuImages(files, windows, outputs, split, self._least, self._bgr, self._balance)
        images.counts = self._counts
        images.give(self.hybrid, HYBRID)
        images.give(self.engines, ENGINES)
        return images if images.lanes else None
