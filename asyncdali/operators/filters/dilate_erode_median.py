"""experimental.dilate, experimental.erode, experimental.median_blur: the maximum, minimum or median of a rectangle of pixels."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ...batch import Batch
from ...compiled.tables import INPUTS, OUTPUTS, SAMPLES, Field, Table
from ...types import DALIDataType
from ..accepts import Input, Output, listed
from ..base import Arg, Arguments, Environment, Planned, Schema, Spec, Step, refuse_where, register
from ..kernel_operator import KernelOperator, Kernels, Names
from ..moves.pieces import like
from ..sequences.per_frame_arguments import Frames
from .filter import BORDERS as FILTER_BORDERS
from .planes import data_axes, plane_kernel, plane_records

RECTANGLE_RECORD = Table(
    "RECTANGLE_RECORD",
    Field("planes", "int64", "frames times leading channels"),
    Field("height", "int64", "rows of a plane"),
    Field("width", "int64", "pixels of a row"),
    Field("channels", "int64", "elements of a pixel"),
    Field("window", "int64", "extents of the rectangle, in pixels", ("height", "width")),
    Field("anchor", "int64", "the pixel of the rectangle that lies on the output's pixel", "yx"),
    Field("first", "int64", "elements of all samples before this one"),
)
RECTANGLE = Table(
    "RECTANGLE",
    INPUTS,
    OUTPUTS,
    Field("records", "RECTANGLE_RECORD[samples]", "planes and rectangles"),
    Field("border", "int64", "index in filter.BORDERS"),
    Field("iterations", "int64", "how often dilate and erode are repeated"),
    Field("scratch", "int64", "offset of this step's memory in the thread's scratch"),
)
RECTANGLE_LAUNCH = Table(
    "RECTANGLE_LAUNCH",
    INPUTS,
    OUTPUTS,
    Field("records", "RECTANGLE_RECORD[samples]", "planes and rectangles"),
    Field("border", "int64", "index in filter.BORDERS"),
    Field("between", "address", "elements between a pass along rows and one along columns"),
    SAMPLES,
)

LAYOUTS = ("HWC", "HW", "CHW", "FHWC", "FCHW", "FHW")
_TYPES = (DALIDataType.UINT8, DALIDataType.UINT16, DALIDataType.FLOAT)
_IMAGES = (Input(_TYPES, listed(*LAYOUTS), "images"),)
_MOST_CHANNELS = 4
_LARGEST = 1 << 15  # Limit of a window's extents.
BORDERS = {"constant": "constant", "replicate": "clamp", "reflect": "reflect_1001", "reflect_101": "reflect_101", "wrap": "wrap"}
"""Names of borders -> names in ``filter``."""


class RectangleOperator(KernelOperator):
    """Base of operators that select one element of the rectangle around each pixel. The output has the input's type and shape."""

    kernel_module = "dilate_erode_median_kernels"
    extents: ClassVar[str] = ""
    """The argument with the rectangle's width and height."""

    def plan_samples(self, inputs: list[Batch], arguments: Arguments, frames: Frames | None) -> Planned:
        source = inputs[0]
        layout = self.layout_of(source)
        if "C" in layout:
            channels = source.shapes[:, layout.index("C")]
            _refuse(channels > _MOST_CHANNELS, f"the input must have at most {_MOST_CHANNELS} channels", channels)
        labelled = source if source.layout == layout else Batch.alias(source, source.shapes, source.dtype, layout)
        planes = plane_records(source.shapes, data_axes(labelled))
        records = RECTANGLE_RECORD.zeros(len(source))
        for column, name in ((0, "planes"), (2, "height"), (3, "width"), (4, "channels")):
            records[:, RECTANGLE_RECORD.columns(name)] = planes[:, column]
        windows = arguments.vectors(self.extents, 2, np.int64)
        _refuse((windows < 1).any(axis=1) | (windows > _LARGEST).any(axis=1), f"`{self.extents}` must be 1 to {_LARGEST}", windows)
        records[:, RECTANGLE_RECORD.columns("window")] = windows[:, ::-1]
        records[:, RECTANGLE_RECORD.columns("anchor")] = self.anchors(windows, arguments)[:, ::-1]
        elements = source.shapes.prod(axis=1)
        records[:, RECTANGLE_RECORD.columns("first")] = np.cumsum(elements) - elements
        output = like(source, layout=layout)
        return Planned([output], [self.rectangles(source, output, records)])

    def anchors(self, windows: np.ndarray, arguments: Arguments) -> np.ndarray:
        """The anchors: the pixels of the rectangles that lie on the output pixels, (x, y) int64[samples, 2]."""
        return windows // 2

    def rectangles(self, source: Batch, output: Batch, records: np.ndarray) -> Step:
        """The step that fills `output`; records are RECTANGLE_RECORDs."""
        raise TypeError("abstract")


def _refuse(wrong: np.ndarray | np.bool_, message: str, values: np.ndarray) -> None:
    refuse_where(wrong, lambda i: f"{message}, got {values[i].tolist()}")


class Morphology(RectangleOperator):
    """Base of dilate and erode."""

    extents = "mask_size"
    greatest: ClassVar[bool] = True

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        if spec.constant("border_mode") not in BORDERS:
            raise ValueError(f"Unknown `border_mode` {spec.constant('border_mode')!r}; supported are {', '.join(BORDERS)}")
        if spec.constant("iterations") < 1:
            raise ValueError(f"`iterations` must be at least 1, got {spec.constant('iterations')}")

    def kernels_for(self, inputs: Names, outputs: Names) -> Kernels:
        return [plane_kernel(), self.kernels.extreme_step(self.greatest, inputs[0])]

    def anchors(self, windows: np.ndarray, arguments: Arguments) -> np.ndarray:
        anchors = arguments.vectors("anchor", 2, np.int64)
        _refuse((anchors >= windows).any(axis=1), "`anchor` must lie within the mask", anchors)
        return np.where(anchors < 0, windows // 2, anchors)

    def rectangles(self, source: Batch, output: Batch, records: np.ndarray) -> Step:
        border = FILTER_BORDERS.index(BORDERS[self.spec.constant("border_mode")])
        made: Step = self.kernels.make_extreme_step(source, output, records, border, self.spec.constant("iterations"), self.greatest)
        return made


_INPUT = "Layouts HWC, HW, CHW, FHWC, FCHW, FHW with at most 4 channels; UINT8, UINT16 or FLOAT. The output is like the input."


def _morphology_arguments(outside: str) -> tuple[Arg, ...]:
    text = ", ".join(f'"{name}"' for name in BORDERS)
    return (
        Arg("anchor", "int_list", [-1, -1], "The mask's pixel (x, y) at the output's pixel; negative: the middle.", tensor=True),
        Arg("border_mode", "str", "constant", f"Pixels outside the image: {text}; constant: {outside}.", choices=tuple(BORDERS)),
        Arg("iterations", "int", 1, "Number of times that the operation is applied."),
        Arg("mask_size", "int_list", [3, 3], "Width and height of the mask, in pixels.", tensor=True),
    )


@register
class Dilate(Morphology):
    schema = Schema(
        name="experimental.dilate",
        doc=f"""Makes bright regions larger: every pixel becomes the greatest one under a rectangular mask.

        {_INPUT}""",
        accepts=_IMAGES,
        per_frame=("anchor", "mask_size"),
        gives=(Output(),),
        devices=("cpu", "gpu"),
        args=_morphology_arguments("the least value, which changes nothing"),
    )


@register
class Erode(Morphology):
    greatest = False
    schema = Schema(
        name="experimental.erode",
        doc=f"""Makes bright regions smaller: every pixel becomes the least one under a rectangular mask.

        {_INPUT}""",
        accepts=_IMAGES,
        per_frame=("anchor", "mask_size"),
        gives=(Output(),),
        devices=("cpu", "gpu"),
        args=_morphology_arguments("the greatest value, which changes nothing"),
    )


@register
class MedianBlur(RectangleOperator):
    extents = "window_size"
    schema = Schema(
        name="experimental.median_blur",
        doc=f"""Every pixel becomes the median of the pixels in a window around it.

        Border pixels are repeated outside of the image. For an even number of pixels, it is the upper of the two middle values.
        {_INPUT}""",
        accepts=_IMAGES,
        per_frame=("window_size",),
        gives=(Output(),),
        devices=("cpu", "gpu"),
        args=(Arg("window_size", "int_list", [3, 3], "Width and height of the window, in pixels.", tensor=True),),
    )

    def kernels_for(self, inputs: Names, outputs: Names) -> Kernels:
        return [plane_kernel(), self.kernels.median_step(inputs[0])]

    def rectangles(self, source: Batch, output: Batch, records: np.ndarray) -> Step:
        window = records[:, RECTANGLE_RECORD.columns("window")]
        _refuse(window.prod(axis=1) > self.kernels.MOST_ELEMENTS, f"the window has more than {self.kernels.MOST_ELEMENTS} pixels", window)
        made: Step = self.kernels.make_median_step(source, output, records, FILTER_BORDERS.index("clamp"))
        return made
