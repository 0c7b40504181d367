"""gaussian_blur: separable gaussian windows."""

from __future__ import annotations

from typing import NoReturn

import numpy as np

from ...batch import Batch
from ...compiled.addresses import address_of
from ...compiled.tables import table_of
from ...types import DALIDataType
from ..accepts import NUMBERS, Input, Output, argument
from ..base import Arg, Arguments, Environment, Planned, SampleError, Schema, Spec, register
from ..kernel_operator import KernelOperator, Kernels, Names
from ..sequences.per_frame_arguments import Frames
from .gaussian_blur_tables import GAUSSIANS, WINDOWS
from .planes import DATA_LAYOUTS, DataAxes, data_axes, plane_kernel, plane_records
from .windows import FilterWindows


class SeparableFilter(KernelOperator):
    """Base of filters that are sums of separable filters. The output has the input's shape, layout and type, or FLOAT."""

    kernel_module = "gaussian_blur_kernels"

    def kernels_for(self, inputs: Names, outputs: Names) -> Kernels:
        from . import gaussian_blur_survey_kernels

        yield plane_kernel()
        yield gaussian_blur_survey_kernels.most_scratch
        if self.environment.gpu is not None:
            yield from (kernel for kernel in vars(gaussian_blur_survey_kernels).values() if hasattr(kernel, "compile"))
        if outputs[0] in (inputs[0], "float32"):
            yield self.kernels.separable_step(inputs[0], outputs[0])

    def plan_samples(self, inputs: list[Batch], arguments: Arguments, frames: Frames | None) -> Planned:
        source = inputs[0]
        axes = data_axes(source)
        given = self.spec.constant("dtype")
        dtype = source.dtype if given is None else given
        if dtype not in (source.dtype, DALIDataType.FLOAT):
            raise ValueError(f"Output data type must be same as input ({source.dtype.name}), FLOAT or skipped; got {dtype.name}")
        output = Batch(source.shapes, dtype, source.layout, device=source.device, source_info=source.source_info)
        windows, factors = self.windows(axes, arguments)
        step = self.kernels.make_separable_step(source, output, plane_records(source.shapes, axes), windows, factors, axes.number)
        return Planned([output], [step])

    def windows(self, axes: DataAxes, arguments: Arguments) -> tuple[FilterWindows, np.ndarray]:
        """The windows of each sample and term; factors float32[samples, terms]."""
        raise NotImplementedError


@register
class GaussianBlur(SeparableFilter):
    schema = Schema(
        name="gaussian_blur",
        doc="""Blurs images or volumes with a gaussian.

        Without `window_size` a window has ``2 * ceil(3 * sigma) + 1`` elements; without `sigma` it is
        ``((window_size - 1) / 2 - 1) * 0.3 + 0.8``. Give one value for all data axes, or one per axis from the outermost to the
        innermost. Values may be per frame. Outside, the image is reflected about its border pixels. Channels come first or last,
        frames first. Element types: all but BOOL; computed in FLOAT, rounded half away from zero.""",
        accepts=(Input(NUMBERS, DATA_LAYOUTS, "images"),),
        gives=(Output(type=argument("dtype")),),
        per_frame=("sigma", "window_size"),
        devices=("cpu", "gpu"),
        args=(
            Arg("dtype", "dtype", None, "Element type of the output: the input's (default) or FLOAT."),
            Arg("sigma", "float_list", [0.0], "Standard deviation in pixels; 0: it follows from the window.", tensor=True),
            Arg("window_size", "int_list", [0], "Elements of a window, odd; 0: they follow from `sigma`.", tensor=True),
        ),
    )

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        from . import gaussian_blur_window_kernels

        self._window_kernels = gaussian_blur_window_kernels
        gaussian_blur_window_kernels.lay_out_windows.compile()
        gaussian_blur_window_kernels.fill_windows.compile()

    def windows(self, axes: DataAxes, arguments: Arguments) -> tuple[FilterWindows, np.ndarray]:
        count, number = arguments.count, axes.number
        sigma, size = arguments.per_axis("sigma", number), arguments.per_axis("window_size", number, np.int64)
        sigmas, described = np.empty((count, number), np.float32), np.empty((count, WINDOWS.words), np.int64)
        table = table_of(GAUSSIANS.entries(
            rows=count, axes=number, given_sigmas=address_of(sigma), sigmas_step_row=sigma.strides[0], sigmas_step_axis=sigma.strides[1],
            given_sizes=address_of(size), sizes_step_row=size.strides[0], sizes_step_axis=size.strides[1], sigmas=address_of(sigmas),
            described=address_of(described), most=1, weights=0,
        ))  # fmt: skip
        total = self._window_kernels.lay_out_windows(address_of(table))
        if total < 0:
            sample, axis = divmod(-1 - total, number)
            self._refuse(sample, axis, sigma, size)
        weights = np.empty(total, np.float32)
        table[GAUSSIANS.word.weights] = address_of(weights)
        self._window_kernels.fill_windows(address_of(table))
        return FilterWindows(weights, described, int(table[GAUSSIANS.word.most])), np.ones((count, 1), np.float32)

    def _refuse(self, sample: int, axis: int, sigmas: np.ndarray, sizes: np.ndarray) -> NoReturn:
        """Raise the error for a pair of sigma and size that the kernel refused."""
        sigma, size = float(sigmas[sample, axis]), int(sizes[sample, axis])
        for name, value in (("sigma", sigma), ("window_size", size)):
            if not (np.isfinite(value) and value >= 0):
                raise SampleError(sample, f"`{name}` must have non-negative values, got {value} for axis {axis}")
        if sigma == 0 and size == 0:
            raise SampleError(sample, f"`sigma` and `window_size` shouldn't be 0 at the same time (axis {axis})")
        most = self._window_kernels.MOST_TAPS
        if size > most or size == 0:
            raise SampleError(sample, f"the window has more than {most} elements (axis {axis})")
        raise SampleError(sample, f"`window_size` must be odd (axis {axis})")
