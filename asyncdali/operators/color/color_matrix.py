"""The shared part of hue, saturation, hsv and color_twist: one 3 x 3 matrix and one offset per sample.

Colours are converted to luma and two chroma axes (YIQ). The hue rotates the chroma plane, and the saturation scales it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...batch import Batch
from ...compiled.addresses import address_of
from ...compiled.tables import table_of
from ...types import DALIDataType, DALIImageType
from ..accepts import Input, listed
from ..base import Arg, Arguments, refuse_where
from ..kernel_operator import Kernels, Names
from .color import LAYOUTS, Color
from .color_tables import MATRIX_FACTORS, TWISTS

_TO_YIQ = np.array([[0.299, 0.587, 0.114], [0.596, -0.274, -0.321], [0.211, -0.523, 0.311]], np.float32)
# The inverse with the precision that DALI's results show; an inverse computed here would differ in the last bits.
_FROM_YIQ = np.array(
    [[0.99966437, 0.9565412, 0.6208617], [0.99962485, -0.27227446, -0.6474513], [1.0028123, -1.106848, 1.7054056]], np.float32
)

_HALVES = {half: int(np.float32(half).view(np.int32)) for half in (0.5, 128)}
"""The bits of the middle of the range, as float32."""

IMAGE_TYPE_ARG = Arg("image_type", "image_type", DALIImageType.RGB, "No effect, as in DALI.", inert=True)
HUE_ARG = Arg("hue", "float", 0.0, "Degrees by which to turn the hue.", tensor=True)
SATURATION_ARG = Arg("saturation", "float", 1.0, "Factor of the saturation; 0 gives grey.", tensor=True)

TYPES = (DALIDataType.UINT8, DALIDataType.INT16, DALIDataType.INT32, DALIDataType.FLOAT, DALIDataType.FLOAT16)
IMAGES = (Input(TYPES, listed(*LAYOUTS), "images"),)


class Matrix(Color):
    """``matrix @ colour + offset``. Arguments that an operator lacks have neutral values."""

    kernel_module = "color_matrix_kernels"
    types = TYPES
    numbers = MATRIX_FACTORS.names
    group, entry, colored = 3, "matrix", 1

    @staticmethod
    def element(value: Any, numbers: Any) -> Any:
        a, b, c = value
        m0, m1, m2, m3, m4, m5, m6, m7, m8, offset = numbers
        return m0 * a + m1 * b + m2 * c + offset, m3 * a + m4 * b + m5 * c + offset, m6 * a + m7 * b + m8 * c + offset

    def kernels_for(self, inputs: Names, outputs: Names) -> Kernels:
        self.kernels.plan_twists.compile()
        return super().kernels_for(inputs, outputs)

    def numbers_for(self, source: Batch, output: Batch, arguments: Arguments) -> np.ndarray:
        wrong = source.shapes[:, -1] != 3
        refuse_where(wrong, lambda i: f"the operator works on three channels, got shape {tuple(source.shapes[i].tolist())}")
        half = 0.5 if source.dtype in (DALIDataType.FLOAT, DALIDataType.FLOAT16) else 128
        rows = np.empty((len(source), MATRIX_FACTORS.words), np.float32)
        hues, saturations, values = self.value("hue", arguments, 0.0), self.value("saturation", arguments), self.value("value", arguments)
        brightnesses, contrasts = self.value("brightness", arguments), self.value("contrast", arguments)
        table = table_of(TWISTS.entries(
            samples=len(source), hues=address_of(hues), saturations=address_of(saturations), values=address_of(values),
            brightnesses=address_of(brightnesses), contrasts=address_of(contrasts), half=_HALVES[half], to_yiq=address_of(_TO_YIQ),
            from_yiq=address_of(_FROM_YIQ), rows=address_of(rows),
        ))  # fmt: skip
        self.kernels.plan_twists(address_of(table))
        return rows
