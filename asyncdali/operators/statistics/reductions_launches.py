"""Reductions on a GPU: the distribution of an output over threads and blocks, and the location of results."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...batch import storage_dtype
from ...device.launch import BLOCK, LINE, PACK, Entry, Kernel, Launch, Scratch, element_type, grid_of
from ...types import DALIDataType
from .place_tables import NOWHERE, Place, placed
from .reductions_tables import REDUCTION, REDUCTION_CUDA

_SOURCE, _CHANNELS, _PIXELS = (
    Path(__file__).with_name(f"reductions{name}_kernels.cu") for name in ("", "_channels", "_pixels")
)  # fmt: skip
_KINDS = {"value": 0, "square": 1, "deviation": 2, "largest": 3, "smallest": 4}
_FEW, _MANY = 64, 1 << 16
_PART, _MOST_PARTS = 8192, 256
_LEAST_BYTES, _PART_BYTES = 1024, 16384
"""Bytes of a channel: the least for a reduction by lines (eight times as many if there are many outputs), and the bytes of one part."""
_MANY_PARTS = 8
"""If there are more parts, several threads add them."""


@dataclass
class Reduction:
    """A reduction of a batch; see ``reductions_tables``.

    out      the location of results on a GPU;  means  the location of the means on a GPU
    records  for groups of `kept` and `reduced` axes
    kind     "value", "square", "deviation" (from means), "largest", "smallest"
    finish   one of FINISHES
    each     int64[samples]: whether there is a mean for each output
    no_axes  an empty list of axes was given
    """

    source: np.ndarray
    dtype: DALIDataType
    out: Place
    out_dtype: DALIDataType
    records: np.ndarray
    kept: int
    reduced: int
    kind: str
    finish: int = 0
    ddof: int = 0
    means: Place = NOWHERE
    each: Entry = 0
    no_axes: bool = False

    def table(self, out_addresses: Entry, mean_addresses: Entry) -> tuple[np.ndarray, list[object]]:
        """The compiled step's table, with the addresses of outputs and means in the host's memory; and the arrays to keep alive."""
        return REDUCTION.make(**self._values((out_addresses, 0, 0), (mean_addresses, 0, 0)))

    def launches(self) -> list[Launch]:
        """Two launches for large outputs (partial results, then final results), else one."""
        size = storage_dtype(self.dtype).itemsize
        count = len(self.records)
        outputs = self.records[:, : self.kept].prod(axis=1)
        volumes = self.records[:, 2 * self.kept : 2 * self.kept + self.reduced].prod(axis=1)
        most, largest = int(outputs.max(initial=0)), int(volumes.max(initial=0))
        many = outputs.sum() >= _MANY
        channels = self._channels(size) if largest * size >= _LEAST_BYTES * (8 if many else 1) else 0
        if channels:
            parts = min(-(-largest * size // _PART_BYTES), _MOST_PARTS)
            threads = next((threads for threads in (32, 64, 128) if largest * size <= LINE * threads), BLOCK)
            kernel = self._kernel("channels", _CHANNELS, (("CHANNELS", channels),))
            return self._in_parts(kernel, parts, threads, outputs, most // channels)
        pixel = self._pixel(size)
        if pixel:
            kernel = self._kernel("pixels", _PIXELS, (("CHANNELS", pixel),))
            return [Launch(kernel, self._context(0, 0, 1), grid_of(-(-most // PACK) + 1, count))]
        if largest <= _FEW or many:
            return [Launch(self._kernel("direct"), self._context(0, 0, 1), grid_of(most, count))]
        parts = min(-(-largest // _PART), _MOST_PARTS)
        threads = next((threads for threads in (32, 64, 128) if largest <= 16 * threads), BLOCK)
        return self._in_parts(self._kernel("partial"), parts, threads, outputs, most)

    def _in_parts(self, kernel: Kernel, parts: int, threads: int, outputs: np.ndarray, planes: int) -> list[Launch]:
        """Launches of `kernel`, a block for each part of at most `planes` planes of a sample, and of the kernel that adds the parts."""
        count, most = len(outputs), int(outputs.max())
        first = np.ascontiguousarray(outputs.cumsum() - outputs, np.int64)
        context = self._context(Scratch(8 * parts * int(outputs.sum())), first, parts)
        partial = Launch(kernel, context, grid_of(planes * parts, count, 1), threads)
        if parts > _MANY_PARTS:
            threads = next((threads for threads in (32, 64, 128) if parts <= threads), BLOCK)
            return [partial, Launch(self._kernel("finish_by_blocks"), context, grid_of(most, count, 1), threads)]
        return [partial, Launch(self._kernel("finish"), context, grid_of(most, count))]

    def _channels(self, size: int) -> int:
        """The number of channels, at most PACK, if pixels of every output are contiguous in memory except for the channels; else 0."""
        kept, reduced, records = self.kept, self.reduced, self.records
        if reduced != 1:
            return 0
        strides = records[:, 2 * kept + 1]
        if (strides == size).all():
            return 1
        if not kept:
            return 0
        channels, steps = records[:, kept - 1], records[:, 2 * kept - 1]
        found = int(channels[0])
        fits = 2 <= found <= PACK and (channels == found).all() and (steps == size).all() and (strides == size * found).all()
        return found if fits else 0

    def _pixel(self, size: int) -> int:
        """The number of elements of an output, at most PACK, if they and all outputs are contiguous in memory; else 0."""
        if self.kept != 1 or self.reduced != 1 or not len(self.records):
            return 0
        _, step, volume, stride = self.records.T
        found = int(volume[0])
        fits = 2 <= found <= PACK and (volume == found).all() and (stride == size).all() and (step == size * found).all()
        return found if fits else 0

    def _kernel(self, entry: str, source: Path = _SOURCE, more: tuple[tuple[str, str | int], ...] = ()) -> Kernel:
        integers = storage_dtype(self.dtype).kind != "f" and storage_dtype(self.out_dtype).kind != "f"
        names = element_type(storage_dtype(self.dtype)), element_type(storage_dtype(self.out_dtype))
        kind = ("KIND", _KINDS[self.kind]), ("WHOLE", int(integers))
        return Kernel(source, entry, (("IN", names[0]), ("OUT", names[1]), *kind, *more))

    def _context(self, partials: Entry, first: Entry, parts: int) -> tuple[Entry, ...]:
        more = {"samples": len(self.records), "partials": partials, "first": first, "parts": parts}
        return REDUCTION_CUDA.entries(**self._values(self.out, self.means), **more)

    def _values(self, out: Place, means: Place) -> dict[str, object]:
        """The entries that both tables share."""
        made = storage_dtype(self.out_dtype)
        return {
            "inputs": self.source, "records": self.records, "kept": self.kept, "reduced": self.reduced, "finish": self.finish,
            "ddof": self.ddof, "each": self.each, "integer": 0 if made.kind == "f" else made.itemsize, "signed": int(made.kind == "i"),
            "no_axes": int(self.no_axes), **placed("out", out), **placed("means", means),
        }  # fmt: skip
