"""The shared part of hue, saturation, hsv and color_twist: one 3 x 3 matrix and one offset per sample.

Colours are converted to luma and two chroma axes (YIQ). The hue rotates the chroma plane, and the saturation scales it.
"""

from __future__ import annotations

import numpy as np

from ...batch import Batch
from ...compiled.addresses import address_of
from ...types import DALIDataType, DALIImageType
from ..accepts import Input, listed
from ..base import Arg, Arguments, Planned, SampleError
from ..sequences.per_frame_arguments import Frames
from .color import LAYOUTS, ElementwiseColor
from .color_tables import MATRIX_FACTORS, TWISTS

_TO_YIQ = np.array([[0.299, 0.587, 0.114], [0.596, -0.274, -0.321], [0.211, -0.523, 0.311]], np.float32)
# The inverse with the precision that DALI's results show; an inverse computed here would differ in the last bits.
_FROM_YIQ = np.array(
    [[0.99966437, 0.9565412, 0.6208617], [0.99962485, -0.27227446, -0.6474513], [1.0028123, -1.106848, 1.7054056]], np.float32
)

IMAGE_TYPE_ARG = Arg("image_type", "image_type", DALIImageType.RGB, "No effect, as in DALI.", inert=True)
HUE_ARG = Arg("hue", "float", 0.0, "Degrees by which to turn the hue.", tensor=True)
SATURATION_ARG = Arg("saturation", "float", 1.0, "Factor of the saturation; 0 gives grey.", tensor=True)

TYPES = (DALIDataType.UINT8, DALIDataType.INT16, DALIDataType.INT32, DALIDataType.FLOAT, DALIDataType.FLOAT16)
IMAGES = (Input(TYPES, listed(*LAYOUTS), "images"),)


class Matrix(ElementwiseColor):
    """``matrix @ colour + offset``. Arguments that an operator lacks have neutral values."""

    types = TYPES

    def compile(self, in_dtype: str, out_dtype: str) -> None:
        self._kernels.matrix_step(in_dtype, out_dtype).compile()
        self._kernels.plan_twists.compile()

    def plan_samples(self, inputs: list[Batch], arguments: Arguments, frames: Frames | None) -> Planned:
        source = inputs[0]
        output = self.output(source)
        half = 0.5 if source.dtype in (DALIDataType.FLOAT, DALIDataType.FLOAT16) else 128
        rows, pixels = np.empty((len(source), MATRIX_FACTORS.words), np.float32), np.empty(len(source), np.int64)
        table, keep = TWISTS.make(
            samples=len(source), hues=self._value("hue", arguments, 0.0), saturations=self._value("saturation", arguments),
            values=self._value("value", arguments), brightnesses=self._value("brightness", arguments),
            contrasts=self._value("contrast", arguments), half=int(np.float32(half).view(np.int32)), to_yiq=_TO_YIQ, from_yiq=_FROM_YIQ,
            rows=rows, shapes=np.ascontiguousarray(source.shapes, np.int64), ndim=source.ndim, pixels=pixels,
        )  # fmt: skip
        largest = self._kernels.plan_twists(address_of(table))
        del keep
        if largest < 0:
            i = -1 - largest
            raise SampleError(i, f"the operator works on three channels, got shape {tuple(source.shapes[i].tolist())}")
        return Planned([output], [self._kernels.make_matrix_step(source, output, rows, pixels, largest)])

    def _value(self, name: str, arguments: Arguments, default: float = 1.0) -> np.ndarray:
        if name in self.schema.by_name:
            return arguments.scalars(name)
        return np.full(arguments.count, default, np.float32)
