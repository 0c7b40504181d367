"""equalize: histogram equalisation of images."""

from __future__ import annotations

import numpy as np

from ...batch import Batch
from ...device.launch import Kernel, Launch, Scratch, grid_of
from ...types import DALIDataType
from ..accepts import Input, Output, listed
from ..base import Arguments, Iteration, Planned, Schema, register
from ..kernel_operator import KernelOperator, Kernels, Names
from .color_tables import EQUALIZE, EQUALIZE_GPU, EQUALIZE_RECORD

word = EQUALIZE_RECORD.word
_VALUES = 256
_PART_BYTES, _MOST_PARTS = 1 << 16, 64
"""Bytes of a picture for a block of threads on a GPU, and the most blocks for a picture."""

_LAYOUTS = ("HW", "HWC", "CHW", "FHW", "FHWC", "FCHW")


@register
class Equalize(KernelOperator):
    repeatable = True
    kernel_module = "equalize_kernels"
    schema = Schema(
        name="equalize",
        aliases=("experimental.equalize",),
        doc="""Equalizes the histogram of each channel: its values are spread evenly over 0 to 255.

        Layouts HW, HWC, CHW, FHW, FHWC, FCHW (each frame by itself), UINT8. A channel with a single value does not change.""",
        accepts=(Input((DALIDataType.UINT8,), listed(*_LAYOUTS), "images"),),
        gives=(Output(),),
        devices=("cpu", "gpu"),
    )

    def kernels_for(self, inputs: Names, outputs: Names) -> Kernels:
        return [self.kernels.equalize_step]

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        source = inputs[0]
        layout = self.layout_of(source)
        output = self.output(source)
        total, pixels = source.shapes.prod(axis=1), source.shapes[:, [layout.index("H"), layout.index("W")]].prod(axis=1)
        planes = source.shapes[:, -1] if layout.endswith("C") else np.ones(len(source), np.int64)
        groups = total // np.maximum(pixels * planes, 1)
        records = EQUALIZE_RECORD.zeros(len(source))
        records[:, word.groups], records[:, word.planes], records[:, word.pixels] = groups, planes, pixels
        records[:, word.first] = (groups * planes).cumsum() - groups * planes
        entries = EQUALIZE.entries(inputs=source.addresses, outputs=output.addresses, records=records, samples=len(records))
        made = self.made(source, output, entries)
        made.steps[0].launches = lambda: self._launches(source, output, records)
        return made

    def _launches(self, source: Batch, output: Batch, records: np.ndarray) -> list[Launch]:
        """Several blocks of threads count the values of a picture; then tables are computed; several blocks look the values up."""
        count, most = len(records), int((records[:, word.planes] * records[:, word.pixels]).max(initial=0))
        if not most:
            return []
        groups, planes = records[:, word.groups], records[:, word.groups] * records[:, word.planes]
        parts, total = max(1, min(-(-most // _PART_BYTES), _MOST_PARTS)), int(planes.sum())
        entries = EQUALIZE_GPU.entries(
            inputs=source.addresses, outputs=output.addresses, records=records, parts=parts,
            histograms=Scratch(4 * _VALUES * parts * total), tables=Scratch(_VALUES * total), samples=count,
        )  # fmt: skip
        grids = {"count_values": int(groups.max()) * parts, "fill_tables": int(planes.max()), "equalize": int(groups.max()) * parts}
        return [Launch(Kernel(self.cuda_source, name), entries, grid_of(blocks, count, 1)) for name, blocks in grids.items()]
