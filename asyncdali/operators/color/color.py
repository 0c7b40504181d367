"""The shared part of brightness, contrast and brightness_contrast: one multiplication and one addition per element."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from ...batch import Batch
from ...types import DALIDataType
from ..base import Arg, Arguments, Environment, Spec
from ..elements import ElementOperator

LAYOUTS = ("HWC", "FHWC", "DHWC")
"""Layouts that colour operators accept. Unlabelled data gets the first layout of its length."""

_U8, _I16, _I32, _F32 = DALIDataType.UINT8, DALIDataType.INT16, DALIDataType.INT32, DALIDataType.FLOAT
RANGES = {_U8: 255.0, _I16: 32767.0, _I32: 2147483647.0, _F32: 1.0}
"""Supported types, and the largest positive value of each (1 for floats)."""
_CENTER = {_U8: 128.0, _I16: 16384.0, _I32: 1073741824.0, _F32: 0.5}
"""Middle of the positive range of each type: the default of `contrast_center`, the value that `contrast` leaves unchanged."""

BRIGHTNESS_ARGS = (
    Arg("brightness", "float", 1.0, "Factor of the brightness.", tensor=True),
    Arg("brightness_shift", "float", 0.0, "Added brightness; 1 is the largest positive value of the output type.", tensor=True),
)
CONTRAST_ARGS = (
    Arg("contrast", "float", 1.0, "Factor of the contrast; 0 gives uniform grey.", tensor=True),
    Arg("contrast_center", "float", None, "The value that does not change; by default half the input type's positive range.", tensor=True),
)
DTYPE = Arg("dtype", "dtype", None, "Element type of the output; by default the input's.")


class Color(ElementOperator):
    """Base of colour operators: the output has the type `dtype`, which must be one of `types`."""

    types: ClassVar[tuple[DALIDataType, ...]] = tuple(RANGES)

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        dtype = spec.constant("dtype")
        if dtype is not None and dtype not in self.types:
            allowed = ", ".join(kind.name for kind in self.types)
            raise ValueError(f"Unsupported output type: {dtype.name}; supported are {allowed}")

    def value(self, name: str, arguments: Arguments, default: float = 1.0) -> np.ndarray:
        """An argument, float32[samples]; `default` if the operator lacks it, or if it is not given."""
        if name in self.schema.by_name and (arguments.given(name) or self.schema.by_name[name].default is not None):
            return arguments.scalars(name)
        return np.full(arguments.count, default, np.float32)


class Linear(Color):
    """``shift * range + brightness * (center + contrast * (input - center))``. Arguments that an operator lacks have neutral values."""

    numbers = ("multiplier", "addend")
    entry, colored = "linear", 2

    @staticmethod
    def element(value: Any, numbers: Any) -> Any:
        return value * numbers[0] + numbers[1]

    def numbers_for(self, source: Batch, output: Batch, arguments: Arguments) -> np.ndarray:
        # DALI rounds to float32 in this order.
        shift = self.value("brightness_shift", arguments, 0.0) * np.float32(RANGES[output.dtype])
        brightness, contrast = self.value("brightness", arguments), self.value("contrast", arguments)
        center = self.value("contrast_center", arguments, _CENTER[source.dtype])
        return np.stack([brightness * contrast, shift + brightness * (center - contrast * center)], axis=1)
