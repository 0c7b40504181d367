"""Reductions on a GPU: the distribution of an output over threads and blocks, and the location of results."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...batch import storage_dtype
from ...device.launch import BLOCK, Entry, Kernel, Launch, Scratch, element_type, grid_of
from ...types import DALIDataType
from .place_tables import NOWHERE, Place, placed
from .reduction_tables import REDUCTION, REDUCTION_CUDA

_SOURCE = Path(__file__).with_name("reduction_kernels.cu")
_KINDS = {"value": 0, "square": 1, "deviation": 2, "largest": 3, "smallest": 4}
_FEW, _MANY = 64, 1 << 16
_PART, _MOST_PARTS = 8192, 256


@dataclass
class Reduction:
    """A reduction of a batch; see ``reduction_tables``.

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

    def table(self, out_addresses: np.ndarray, mean_addresses: Entry) -> tuple[np.ndarray, list[Any]]:
        """The compiled step's table, with the addresses of outputs and means in the host's memory; and the arrays to keep alive."""
        return REDUCTION.make(**self._values((out_addresses, 0, 0), (mean_addresses, 0, 0)))

    def launches(self) -> list[Launch]:
        """Two launches for large outputs (partial results, then final results), else one."""
        count = len(self.records)
        outputs = self.records[:, : self.kept].prod(axis=1)
        volumes = self.records[:, 2 * self.kept : 2 * self.kept + self.reduced].prod(axis=1)
        most, largest = int(outputs.max(initial=0)), int(volumes.max(initial=0))
        if largest <= _FEW or outputs.sum() >= _MANY:
            return [Launch(self._kernel("direct"), self._context(0, 0, 1), grid_of(most, count))]
        parts = min(-(-largest // _PART), _MOST_PARTS)
        first = np.ascontiguousarray(outputs.cumsum() - outputs, np.int64)
        context = self._context(Scratch(8 * parts * int(outputs.sum())), first, parts)
        threads = next((threads for threads in (32, 64, 128) if largest <= 16 * threads), BLOCK)
        partial = Launch(self._kernel("partial"), context, grid_of(most * parts, count, 1), threads)
        return [partial, Launch(self._kernel("finish"), context, grid_of(most, count))]

    def _kernel(self, entry: str) -> Kernel:
        integers = storage_dtype(self.dtype).kind != "f" and storage_dtype(self.out_dtype).kind != "f"
        names = element_type(storage_dtype(self.dtype)), element_type(storage_dtype(self.out_dtype))
        return Kernel(_SOURCE, entry, (("IN", names[0]), ("OUT", names[1]), ("KIND", _KINDS[self.kind]), ("WHOLE", int(integers))))

    def _context(self, partials: Entry, first: Entry, parts: int) -> tuple[Entry, ...]:
        more = {"samples": len(self.records), "partials": partials, "first": first, "parts": parts}
        return REDUCTION_CUDA.entries(**self._values(self.out, self.means), **more)

    def _values(self, out: Place, means: Place) -> dict[str, Any]:
        """The entries that both tables share."""
        made = storage_dtype(self.out_dtype)
        return {
            "inputs": self.source, "records": self.records, "kept": self.kept, "reduced": self.reduced, "finish": self.finish,
            "ddof": self.ddof, "each": self.each, "integer": 0 if made.kind == "f" else made.itemsize, "signed": int(made.kind == "i"),
            "no_axes": int(self.no_axes), **placed("out", out), **placed("means", means),
        }  # fmt: skip
