"""gaussian_blur: separable gaussian windows."""

from __future__ import annotations

import numpy as np

from ...batch import Batch, storage_dtype
from ...types import DALIDataType
from ..accepts import NUMBERS, Input, Output, argument
from ..base import Arg, Arguments, Environment, Planned, SampleError, Schema, Spec, register
from ..unfolding import Frames, PerFrame
from .planes import DATA_LAYOUTS, DataAxes, data_axes, plane_records
from .windows import gaussian_window

MOST_TAPS = 1 << 20
_SINGLE = np.ones(1, np.float32)


class SeparableFilter(PerFrame):
    """Base of filters that are sums of separable ones: the output has the input's shape, layout and type, or FLOAT."""

    on_cuda = True

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        from . import separable_kernels

        self._kernels = separable_kernels

    def infer(self, dtypes: list[DALIDataType | None]) -> list[DALIDataType | None]:
        source = DALIDataType.UINT8 if dtypes[0] is None else dtypes[0]
        wanted = self.spec.constant("dtype") or source
        if source in NUMBERS and wanted in (source, DALIDataType.FLOAT):
            self._kernels.separable_step(storage_dtype(source).name, storage_dtype(wanted).name).compile()
        return [self.spec.constant("dtype") if self.spec.given("dtype") else dtypes[0]]

    def data_layout(self, source: Batch) -> str:
        return source.layout

    def plan_samples(self, inputs: list[Batch], arguments: Arguments, frames: Frames | None) -> Planned:
        source = inputs[0]
        axes = data_axes(source)
        given = self.spec.constant("dtype")
        dtype = source.dtype if given is None else given
        if dtype not in (source.dtype, DALIDataType.FLOAT):
            raise ValueError(f"Output data type must be same as input ({source.dtype.name}), FLOAT or skipped; got {dtype.name}")
        output = Batch(source.shapes, dtype, source.layout, device=source.device, source_info=source.source_info)
        windows, factors = self.windows(axes, arguments)
        step = self._kernels.make_separable_step(source, output, plane_records(source.shapes, axes), windows, factors)
        return Planned([output], [step])

    def windows(self, axes: DataAxes, arguments: Arguments) -> tuple[list[list[np.ndarray]], np.ndarray]:
        """For each sample and term the windows of depth, height and width; factors float32[samples, terms]."""
        raise NotImplementedError

    @staticmethod
    def padded(windows: list[np.ndarray]) -> list[np.ndarray]:
        """Windows of one to three data axes as three, along depth, height and width."""
        return [_SINGLE] * (3 - len(windows)) + windows


@register
class GaussianBlur(SeparableFilter):
    """See the schema."""

    schema = Schema(
        name="gaussian_blur",
        doc="""Blurs images or volumes with a gaussian.

        Without `window_size` a window has ``2 * ceil(3 * sigma) + 1`` elements; without `sigma` it is
        ``((window_size - 1) / 2 - 1) * 0.3 + 0.8``. Both are for all data axes or one for each, from the outermost to the innermost,
        and may be per frame. What is outside of the image is reflected about its border pixels. Channels come first or last, frames first.
        Element types: all but BOOL; computed in FLOAT, rounded half away from zero.""",
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

    def windows(self, axes: DataAxes, arguments: Arguments) -> tuple[list[list[np.ndarray]], np.ndarray]:
        sigmas, sizes = arguments.vectors("sigma", axes.number), arguments.vectors("window_size", axes.number, np.int64)
        for name, values in (("sigma", sigmas), ("window_size", sizes)):
            wrong = ~(np.isfinite(values) & (values >= 0))
            if wrong.any():
                i, axis = (int(k[0]) for k in np.nonzero(wrong))
                raise SampleError(i, f"`{name}` must have non-negative values, got {values[i, axis]} for axis {axis}")
        self._refuse((sigmas == 0) & (sizes == 0), "`sigma` and `window_size` shouldn't be 0 at the same time")
        with np.errstate(over="ignore"):
            sizes = np.where(sizes > 0, sizes, 2 * np.ceil(np.minimum(3 * sigmas, MOST_TAPS)).astype(np.int64) + 1)
        self._refuse(sizes > MOST_TAPS, f"the window has more than {MOST_TAPS} elements")
        self._refuse(sizes % 2 == 0, "`window_size` must be odd")
        default = (((sizes - 1) // 2 - 1) * 0.3 + 0.8).astype(np.float32)
        sigmas = np.where(sigmas > 0, sigmas, default)
        rows = zip(sigmas.tolist(), sizes.tolist(), strict=True)
        windows = [self.padded([gaussian_window(sigma, size) for sigma, size in zip(*row, strict=True)]) for row in rows]
        return windows, np.ones((len(windows), 1), np.float32)

    @staticmethod
    def _refuse(wrong: np.ndarray, message: str) -> None:
        if wrong.any():
            i, axis = (int(k[0]) for k in np.nonzero(wrong))
            raise SampleError(i, f"{message} (axis {axis})")
