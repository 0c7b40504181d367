"""laplacian: the sum of second derivatives along all data axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..accepts import NUMBERS, Input, Output, argument
from ..base import Arg, Arguments, Environment, SampleError, Schema, Spec, register
from .gaussian_blur import SeparableFilter
from .planes import DATA_LAYOUTS, DataAxes
from .planes_tables import AXES
from .windows import FilterWindows, repeated, second_derivative_window, smoothing_window, together

LARGEST = 31
_SINGLE = np.ones(1, np.float32)


@register
class Laplacian(SeparableFilter):
    kernel_module = "laplacian_kernels"
    schema = Schema(
        name="laplacian",
        doc="""The Laplacian of images or volumes: the sum of second derivatives along the data axes.

        Each derivative is a separable filter: a derivative window along its axis, smoothing windows along the others. Outside, the
        image is reflected about its border pixels. Channels come first or last, frames first. Element types: all but BOOL; computed
        in FLOAT, rounded half away from zero and saturated. All argument inputs may be per frame.""",
        accepts=(Input(NUMBERS, DATA_LAYOUTS, "images"),),
        gives=(Output(type=argument("dtype")),),
        per_frame=("scale", "smoothing_size", "window_size"),
        devices=("cpu", "gpu"),
        args=(
            Arg("dtype", "dtype", None, "Element type of the output: the input's (default) or FLOAT."),
            Arg(
                "normalized_kernel", "bool", False,
                "Multiply each derivative by 2 ** (2 + axes - elements of its windows); not together with `scale`.",
            ),
            Arg("scale", "float_list", [1.0], "Factor of the derivatives: one, or one per axis.", tensor=True),
            Arg("smoothing_size", "int_list", None, "Elements of smoothing windows, odd, 1 to 31; default: the derivative's.", tensor=True),
            Arg("window_size", "int_list", [3], "Elements of derivative windows, odd, 3 to 31: one, or one per axis.", tensor=True),
        ),
    )  # fmt: skip

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        if spec.constant("normalized_kernel") and spec.given("scale"):
            raise ValueError("`scale` cannot be given when `normalized_kernel` is True")

    def windows(self, axes: DataAxes, arguments: Arguments) -> tuple[FilterWindows, np.ndarray]:
        sizes = arguments.vectors("window_size", axes.number, np.int64)
        self._check("window_size", sizes, 3)
        smoothing: list[Any] = [None] * len(sizes)
        if arguments.given("smoothing_size"):
            given = arguments.vectors("smoothing_size", axes.number, np.int64)
            self._check("smoothing_size", given, 1)
            smoothing = given.tolist()
        alike = not arguments.is_input("window_size") and not arguments.is_input("smoothing_size")
        if alike:
            sizes, smoothing = sizes[:1], smoothing[:1]
        windows, elements = [], np.empty((len(sizes), axes.number), np.int64)
        for i, (row, smooth) in enumerate(zip(sizes.tolist(), smoothing, strict=True)):
            for axis in range(axes.number):
                along = [row[axis] if k == axis or smooth is None else smooth[k] for k in range(axes.number)]
                elements[i, axis] = sum(along)
                chosen = [second_derivative_window(n) if k == axis else smoothing_window(n) for k, n in enumerate(along)]
                windows.append([_SINGLE] * (len(AXES) - axes.number) + chosen)
        found = repeated(together(windows), arguments.count) if alike else together(windows)
        if self.spec.constant("normalized_kernel"):
            elements = np.broadcast_to(elements, (arguments.count, axes.number))
            return found, np.exp2(2.0 + axes.number - elements).astype(np.float32)
        return found, arguments.vectors("scale", axes.number)

    @staticmethod
    def _check(name: str, sizes: np.ndarray, least: int) -> None:
        wrong = (sizes < least) | (sizes > LARGEST) | (sizes % 2 == 0)
        if wrong.any():
            i, axis = (int(k[0]) for k in np.nonzero(wrong))
            raise SampleError(i, f"`{name}` must be an odd number from {least} to {LARGEST}, got {sizes[i, axis]} for axis {axis}")
