"""crop_mirror_normalize: window, mirror, normalisation, type and layout in one pass."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...batch import Batch, storage_dtype
from ...types import DALIDataType
from ..accepts import LIKE, Input, Output, argument, listed
from ..base import Arg, Arguments, Environment, Iteration, Planned, Schema, Spec, Trait, refuse_where, register
from . import crop_rules as rules
from .crop import WINDOW_ARGS, WINDOW_DEPRECATED, WindowOperator
from .crop_tables import WINDOW

_INPUTS = (
    DALIDataType.UINT8, DALIDataType.UINT16, DALIDataType.INT16, DALIDataType.INT32, DALIDataType.FLOAT16, DALIDataType.FLOAT,
)  # fmt: skip
_OUTPUTS = (DALIDataType.FLOAT, DALIDataType.FLOAT16, DALIDataType.UINT8, DALIDataType.INT8)


class _BatchPlan(NamedTuple):
    """Decisions about a batch, except for the mirror flags. `normalisation` is a ``normalize_kernels.Normalisation``; `windows` are the
    anchors and shapes of windows in the `input_layout`."""

    shapes: np.ndarray
    layout: str
    normalisation: Any
    input_layout: str
    windows: tuple[np.ndarray, np.ndarray]


@register
class CropMirrorNormalize(WindowOperator):
    repeatable = True
    on_cuda = True
    traits = Trait.WIDENS
    schema = Schema(
        name="crop_mirror_normalize",
        doc="""Crops, mirrors, normalises and changes layout and type: ``scale * (input - mean) / std + shift``.

        Layouts: HWC, CHW, DHWC, CDHW and these with frames; integer outputs are rounded half away from zero and saturated.""",
        accepts=(Input(_INPUTS, listed(*rules.LAYOUTS), "images"),),
        gives=(Output(argument("dtype"), LIKE, argument("output_layout")),),
        args=(
            *WINDOW_ARGS,
            Arg("dtype", "dtype", DALIDataType.FLOAT, "Element type of the output: FLOAT, FLOAT16, INT8 or UINT8."),
            Arg("mean", "float_list", [0.0], "Mean to subtract: one, or one per channel.", tensor=True),
            Arg("mirror", "int", 0, "If not zero, the image is flipped horizontally.", tensor=True),
            Arg("output_layout", "layout", "CHW", "Layout of the output, a permutation of the input's."),
            Arg("pad_output", "bool", False, "Add channels up to the next power of two, filled with `fill_values`."),
            Arg("scale", "float", 1.0, "Factor applied to the normalised value."),
            Arg("shift", "float", 0.0, "Number added after scaling."),
            Arg("std", "float_list", [1.0], "Standard deviation to divide by: one, or one per channel.", tensor=True),
        ),
        devices=("cpu", "gpu"),
        deprecated=WINDOW_DEPRECATED,
    )

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        self._dtype = spec.constant("dtype")
        if self._dtype not in _OUTPUTS:
            raise ValueError(f"Not supported output type: {self._dtype.name}; supported are {', '.join(kind.name for kind in _OUTPUTS)}")
        from . import crop_mirror_normalize_kernels

        self._kernels = crop_mirror_normalize_kernels
        changing = [name for name in spec.argument_inputs if name != "mirror"]
        self._layouts: dict[tuple[bytes, str, DALIDataType], _BatchPlan] | None = None if changing else {}

    def infer(self, dtypes: list[DALIDataType | None]) -> list[DALIDataType | None]:
        source = DALIDataType.UINT8 if dtypes[0] is None else dtypes[0]
        planes = not self.spec.constant("output_layout").endswith("C") and self.spec.constant("output_layout") != ""
        if source in _INPUTS:
            self._kernels.normalize_step(storage_dtype(source).name, storage_dtype(self._dtype).name, planes).compile()
        return [self._dtype]

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        source = inputs[0]
        plan = self._batch_plan(source, arguments)
        self.note(iteration, plan.input_layout, *plan.windows)
        output = Batch(plan.shapes, self._dtype, plan.layout, device=source.device, source_info=source.source_info)
        mirror = arguments.scalars("mirror", np.int64)
        return Planned([output], [plan.normalisation.step(source.addresses, output.addresses, mirror)])

    def _batch_plan(self, source: Batch, arguments: Arguments) -> _BatchPlan:
        """Everything that depends on shapes and constants.

        The result is cached as long as only `mirror` changes and the shapes are equal.
        """
        if self._layouts is None:
            return self._decide(source, arguments)
        key = (source.shapes.tobytes(), source.layout, source.dtype)
        plan = self._layouts.get(key)
        if plan is None:
            plan = self._decide(source, arguments)
            self._layouts = {key: plan}  # Only the last one is kept: batches of changing shapes would fill the memory.
        return plan

    def _decide(self, source: Batch, arguments: Arguments) -> _BatchPlan:
        layout = self.layout_of(source)
        out_layout = self._output_layout(layout, arguments)
        anchors, windows = self.window(source.shapes, layout, arguments)
        channels = source.shapes[:, layout.index("C")]
        out_channels = _power_of_two(channels) if self.spec.constant("pad_output") else channels
        padded = windows.copy()
        padded[:, layout.index("C")] = out_channels
        shapes = np.ascontiguousarray(padded[:, [layout.index(axis) for axis in out_layout]])
        in_dtype, out_dtype = storage_dtype(source.dtype), storage_dtype(self._dtype)
        records = self._kernels.make_records(source.shapes, layout, in_dtype.itemsize, anchors, shapes, out_layout, out_dtype.itemsize)
        mean, factor, given = self._normalisation(channels, out_channels, arguments, layout)
        records[:, WINDOW.word.row] = np.arange(len(source)) if len(mean) > 1 else 0
        fills = self._fill_elements(channels, out_channels, given, out_dtype)
        normalisation = self._kernels.Normalisation(records, in_dtype, out_dtype, mean, factor, fills)
        return _BatchPlan(shapes, out_layout, normalisation, layout, (anchors, windows))

    def _output_layout(self, layout: str, arguments: Arguments) -> str:
        wanted: str | None = self.spec.constant("output_layout")
        if not wanted:
            return layout
        if sorted(wanted) != sorted(layout):
            if not arguments.given("output_layout"):
                # The default, CHW, means channels first: the other axes of sequences and volumes keep their order.
                raise ValueError(f'The default output layout "CHW" is not a permutation of input layout "{layout}"; give `output_layout`.')
            raise ValueError(f'The requested output layout "{wanted}" is not a permutation of input layout "{layout}".')
        return wanted

    def _normalisation(
        self, channels: np.ndarray, out_channels: np.ndarray, arguments: Arguments, layout: str
    ) -> tuple[np.ndarray, np.ndarray, int]:
        """(mean with the shift folded in, multiplier), float32[1 or samples, channels], and how many values were given.

        Values are given per channel of the image, or per channel of the output with its padding. Missing values become 0. `layout` is
        that of the input, for errors.
        """
        mean, std = arguments.vectors("mean"), arguments.vectors("std")
        if not (arguments.is_input("mean") or arguments.is_input("std")):
            mean, std = mean[:1], std[:1]
        lengths = {mean.shape[1], std.shape[1]}
        if len(lengths - {1}) > 1 or 0 in lengths:
            raise ValueError(
                "`mean` and `std` must either be of the same size, be scalars, or one of them can be a vector and the other a scalar; "
                f"they have {mean.shape[1]} and {std.shape[1]} values"
            )
        length = max(lengths)
        wrong = out_channels < length if self.spec.constant("pad_output") else channels != length
        if length > 1:
            text = f"`mean` and `std` have {length} values; the output slice has"
            refuse_where(wrong, lambda i: f"{text} {int(out_channels[i])} channels (the input is taken as {layout})")
        width = max(int(channels.max(initial=1)), 1)
        with np.errstate(divide="ignore", invalid="ignore"):
            factor = np.float32(self.spec.constant("scale")) / std
            shifted = mean - np.float32(self.spec.constant("shift")) / factor
        shifted, factor = np.broadcast_arrays(shifted, factor)
        return _widened(shifted, width), _widened(factor, width), length

    def _fill_elements(self, channels: np.ndarray, out_channels: np.ndarray, given: int, dtype: np.dtype) -> np.ndarray:
        """Fill values for the outside and for added channels. If there is one per channel of the image, added channels are 0.

        `given`: the number of values that `mean` and `std` have. As in DALI, with the policy "pad" one fill value per channel of the image
        needs one mean or deviation per channel.
        """
        most = int(out_channels.max(initial=1))
        values = np.asarray(self.spec.constant("fill_values"), np.float64)
        fills = np.zeros(most)
        if self.pads or (out_channels > channels).any():
            if len(values) not in (1, most) and (len(values) != channels.max(initial=1) or (self.pads and given == 1)):
                raise ValueError(
                    "The number of per-channel arguments should match the number of channels in the output slice "
                    f"(`fill_values` has {len(values)}, the output {most} channels)"
                )
            fills[: len(values) if len(values) > 1 else most] = values
        if dtype.kind in "iu":
            info = np.iinfo(dtype)
            fills = np.clip(np.trunc(fills), info.min, info.max)
        return fills.astype(dtype)


def _power_of_two(values: np.ndarray) -> np.ndarray:
    """For each of `values` (int64), the smallest power of two that is not less."""
    power: np.ndarray = 1 << np.ceil(np.log2(np.maximum(values, 1))).astype(np.int64)
    return power


def _widened(values: np.ndarray, width: int) -> np.ndarray:
    """A single value applies to all channels. Missing values become 0."""
    if values.shape[1] == 1:
        return np.ascontiguousarray(np.repeat(values, width, axis=1), np.float32)
    wide = np.zeros((len(values), max(width, values.shape[1])), np.float32)
    wide[:, : values.shape[1]] = values
    return wide
