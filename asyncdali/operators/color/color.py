"""The shared part of brightness, contrast and brightness_contrast: one multiplication and one addition per element."""

from __future__ import annotations

import numpy as np

from ...batch import Batch, storage_dtype
from ...types import DALIDataType
from ..base import Arg, Arguments, Environment, Planned, Spec
from ..sequences.per_frame_arguments import Frames, PerFrameArguments
from .color_tables import LINEAR_FACTORS

word = LINEAR_FACTORS.word
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


class ElementwiseColor(PerFrameArguments):
    """Base of colour operators: the output has the input's shape and layout, and the type `dtype`."""

    on_cuda = True
    types: tuple[DALIDataType, ...] = tuple(RANGES)

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        from . import color_kernels

        self._kernels = color_kernels
        self._dtype: DALIDataType | None = spec.constant("dtype")
        if self._dtype is not None and self._dtype not in self.types:
            allowed = ", ".join(kind.name for kind in self.types)
            raise ValueError(f"Unsupported output type: {self._dtype.name}; supported are {allowed}")

    def infer(self, dtypes: list[DALIDataType | None]) -> list[DALIDataType | None]:
        source = _U8 if dtypes[0] is None else dtypes[0]
        wanted = source if self._dtype is None else self._dtype
        if source in self.types:
            self.compile(storage_dtype(source).name, storage_dtype(wanted).name)
        return [dtypes[0] if self._dtype is None else self._dtype]

    def data_layout(self, source: Batch) -> str:
        return self.layout_of(source)

    def compile(self, in_dtype: str, out_dtype: str) -> None:
        """Compile the kernel that :meth:`plan` will use."""
        raise NotImplementedError

    def output(self, source: Batch) -> Batch:
        """The output batch, without memory yet."""
        layout = self.layout_of(source)
        dtype = source.dtype if self._dtype is None else self._dtype
        return Batch(source.shapes, dtype, layout, device=source.device, source_info=source.source_info)


class Linear(ElementwiseColor):
    """``shift * range + brightness * (center + contrast * (input - center))``. Arguments that an operator lacks have neutral values."""

    def compile(self, in_dtype: str, out_dtype: str) -> None:
        self._kernels.linear_step(in_dtype, out_dtype).compile()

    def plan_samples(self, inputs: list[Batch], arguments: Arguments, frames: Frames | None) -> Planned:
        source = inputs[0]
        output = self.output(source)
        # DALI rounds to float32 in this order.
        shift = self._value("brightness_shift", arguments, 0.0) * np.float32(RANGES[output.dtype])
        brightness, contrast = self._value("brightness", arguments, 1.0), self._value("contrast", arguments, 1.0)
        center = self._value("contrast_center", arguments, _CENTER[source.dtype])
        factors = np.empty((arguments.count, LINEAR_FACTORS.words), np.float32)
        factors[:, word.multiplier] = brightness * contrast
        factors[:, word.addend] = shift + brightness * (center - contrast * center)
        return Planned([output], [self._kernels.make_linear_step(source, output, factors)])

    def _value(self, name: str, arguments: Arguments, default: float) -> np.ndarray:
        if name in self.schema.by_name and arguments.given(name):
            return arguments.scalars(name)
        return np.full(arguments.count, default, np.float32)
