"""grid_mask: black squares in a grid."""

from __future__ import annotations

import numpy as np

from ...batch import Batch
from ...compiled.tables import INPUTS, OUTPUTS, SAMPLES, Field, Table
from ...device.launch import LINE
from ...types import DALIDataType
from ..accepts import Input, Output, matching
from ..base import Arg, Arguments, Iteration, Planned, Schema, refuse_where, register
from ..kernel_operator import Cuda, KernelOperator, Kernels, Names, ThreadScratch, types_of

GEOMETRY = Table(
    "GEOMETRY",
    Field("planes", "int64", "frames, times channels that come first"),
    Field("height", "int64", "rows"),
    Field("width", "int64", "pixels of a row"),
    Field("channels", "int64", "channels that come last"),
)
"""Record of a sample."""

GRID = Table(
    "GRID",
    Field("cosine", "float32", "of the grid's angle, by the tile's side"),
    Field("sine", "float32", "of the grid's angle, by the tile's side"),
    Field("shift", "float32", "in tiles, after turning", "xy"),
    Field("ratio", "float32", "side of a black square by the tile's"),
)
"""Record of a sample, of float32."""

GRID_MASK = Table(
    "GRID_MASK",
    INPUTS,
    OUTPUTS,
    Field("geometry", "GEOMETRY[samples]", "extents of the images"),
    Field("grids", "GRID[samples]", "the grids"),
    SAMPLES,
    Field("scratch", "int64", "offset of the step's scratch in the thread's: uint8[width]; a GPU does not use it"),
)

shape = GEOMETRY.word
_TYPES = (DALIDataType.UINT8, DALIDataType.INT16, DALIDataType.INT32, DALIDataType.FLOAT)
_IMAGES = Input(
    _TYPES, matching("any axes, then HW or HWC", lambda layout: layout.endswith(("HW", "HWC")), {2: "HW", 3: "HWC"}.get), "images"
)


@register
class GridMask(KernelOperator):
    repeatable = True
    kernel_module = "grid_mask_kernels"
    schema = Schema(
        name="grid_mask",
        doc="""Sets pixels to zero in a grid of squares (https://arxiv.org/abs/2001.04086).

        The grid may be turned about the origin and moved. Channels come first or last; element types UINT8, INT16, INT32, FLOAT.""",
        accepts=(_IMAGES,),
        gives=(Output(),),
        devices=("cpu", "gpu"),
        args=(
            Arg("angle", "float", 0.0, "Angle of the grid in radians.", tensor=True),
            Arg("ratio", "float", 0.5, "Side of a black square by `tile`.", tensor=True),
            Arg("shift_x", "float", 0.0, "Horizontal shift in pixels, after turning.", tensor=True),
            Arg("shift_y", "float", 0.0, "Vertical shift in pixels, after turning.", tensor=True),
            Arg("tile", "int", 100, "Pixels from one square to the next, positive.", tensor=True),
        ),
    )

    def kernels_for(self, inputs: Names, outputs: Names) -> Kernels:
        return [self.kernels.grid_mask_step(inputs[0])]

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        source = inputs[0]
        geometry = self._geometry(source)
        tile = arguments.scalars("tile", np.int64)
        refuse_where(tile <= 0, lambda i: f"`tile` must be positive, got {tile[i]}")
        angle, size = arguments.scalars("angle").astype(np.float64), tile.astype(np.float32)
        grids, word = np.empty((len(source), GRID.words), np.float32), GRID.word
        grids[:, word.cosine] = np.cos(angle).astype(np.float32) / size
        grids[:, word.sine] = np.sin(angle).astype(np.float32) / size
        grids[:, word.shift_x] = -(arguments.scalars("shift_x") / size)
        grids[:, word.shift_y] = -(arguments.scalars("shift_y") / size)
        grids[:, word.ratio] = arguments.scalars("ratio")
        output = self.output(source, layout=source.layout)
        entries = GRID_MASK.entries(
            inputs=source.addresses, outputs=output.addresses, geometry=geometry, grids=grids, samples=len(source), scratch=0
        )
        row = int((geometry[:, shape.width] * (1 + geometry[:, shape.channels])).max(initial=0))

        def cuda() -> Cuda:
            by_lines = source.itemsize == 1 and bool((geometry[:, shape.channels] == 3).all())
            pixels = geometry[:, [shape.planes, shape.height, shape.width]].prod(axis=1)
            types = types_of(source, output)
            return Cuda("grid_mask_three_bytes", pixels + LINE, LINE, types) if by_lines else Cuda("grid_mask", pixels, types=types)

        return self.made(source, output, entries, cuda, ThreadScratch(row, GRID_MASK.word.scratch))

    @staticmethod
    def _geometry(source: Batch) -> np.ndarray:
        """GEOMETRY records of the samples."""
        height = _IMAGES.layout(source).index("H")
        records = GEOMETRY.zeros(len(source))
        records[:, shape.planes] = source.shapes[:, :height].prod(axis=1)
        records[:, shape.height], records[:, shape.width] = source.shapes[:, height], source.shapes[:, height + 1]
        records[:, shape.channels] = source.shapes[:, height + 2 :].prod(axis=1)
        return records
