"""grid_mask: black squares in a grid."""

from __future__ import annotations

import numpy as np

from ...batch import Batch, storage_dtype
from ...types import DALIDataType
from ..accepts import Input, Output, matching
from ..base import Arg, Arguments, Environment, Iteration, Operator, Planned, SampleError, Schema, Spec, register
from .grid_mask_tables import GEOMETRY, GRID

_TYPES = (DALIDataType.UINT8, DALIDataType.INT16, DALIDataType.INT32, DALIDataType.FLOAT)
_IMAGES = Input(
    _TYPES, matching("any axes, then HW or HWC", lambda layout: layout.endswith(("HW", "HWC")), {2: "HW", 3: "HWC"}.get), "images"
)


@register
class GridMask(Operator):
    repeatable = True
    on_cuda = True
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

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        from . import grid_mask_kernels

        self._kernels = grid_mask_kernels

    def infer(self, dtypes: list[DALIDataType | None]) -> list[DALIDataType | None]:
        source = DALIDataType.UINT8 if dtypes[0] is None else dtypes[0]
        if source in _TYPES:
            self._kernels.grid_mask_step(storage_dtype(source).name).compile()
        return dtypes

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        source = inputs[0]
        geometry = self._geometry(source)
        tile = arguments.scalars("tile", np.int64)
        if (tile <= 0).any():
            i = int(np.flatnonzero(tile <= 0)[0])
            raise SampleError(i, f"`tile` must be positive, got {tile[i]}")
        angle, size = arguments.scalars("angle").astype(np.float64), tile.astype(np.float32)
        grids, word = np.empty((len(source), GRID.words), np.float32), GRID.word
        grids[:, word.cosine] = np.cos(angle).astype(np.float32) / size
        grids[:, word.sine] = np.sin(angle).astype(np.float32) / size
        grids[:, word.shift_x] = -(arguments.scalars("shift_x") / size)
        grids[:, word.shift_y] = -(arguments.scalars("shift_y") / size)
        grids[:, word.ratio] = arguments.scalars("ratio")
        output = Batch(source.shapes, source.dtype, source.layout, device=source.device, source_info=source.source_info)
        return Planned([output], [self._kernels.make_step(source, output, geometry, grids)])

    @staticmethod
    def _geometry(source: Batch) -> np.ndarray:
        """GEOMETRY records of the samples."""
        height = _IMAGES.layout(source).index("H")
        records, word = GEOMETRY.zeros(len(source)), GEOMETRY.word
        records[:, word.planes] = source.shapes[:, :height].prod(axis=1)
        records[:, word.height], records[:, word.width] = source.shapes[:, height], source.shapes[:, height + 1]
        records[:, word.channels] = source.shapes[:, height + 2 :].prod(axis=1)
        return records
