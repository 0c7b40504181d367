"""crop: a window of the input; and the window arguments that crop_mirror_normalize shares."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ...batch import Batch, storage_dtype
from ...types import DALIDataType
from ..accepts import NUMBERS_AND_BOOL, Input, Output, argument, listed
from ..base import Arg, Arguments, Environment, Iteration, Operator, Planned, SampleError, Schema, Spec, Trait, refuse_where, register
from . import crop_rules as rules

WINDOW_ARGS = (
    Arg("crop", "float_list", None, "Window extents (height, width) or (depth, height, width); 0 = whole axis.", tensor=True),
    Arg("crop_d", "float", 0.0, "Window depth; with `crop_w` and `crop_h`.", tensor=True),
    Arg("crop_h", "float", 0.0, "Window height; with `crop_w`.", tensor=True),
    Arg("crop_pos_x", "float", 0.5, "Horizontal position, 0 (left) to 1 (right).", tensor=True),
    Arg("crop_pos_y", "float", 0.5, "Vertical position, 0 (top) to 1 (bottom).", tensor=True),
    Arg("crop_pos_z", "float", 0.5, "Position along the depth, 0 to 1.", tensor=True),
    Arg("crop_w", "float", 0.0, "Window width; with `crop_h`.", tensor=True),
    Arg("fill_values", "float_list", [0.0], "Values outside the input: one, or one per channel."),
    Arg("image_type", "image_type", None, "Deprecated, no effect."),
    Arg(
        "out_of_bounds_policy", "str", "error",
        'Treatment of a window beyond the input: "error", "constant" or "pad" (filled with `fill_values`), "trim_to_shape" (cut).',
    ),
    Arg("output_dtype", "dtype", None, "Deprecated name of `dtype`."),
    Arg("rounding", "str", "round", 'How the window\'s start becomes an integer: "round" (half away from zero) or "truncate".',
        choices=rules.ROUNDINGS),
)  # fmt: skip
WINDOW_DEPRECATED: dict[str, str | None] = {"image_type": None, "output_dtype": "dtype"}


class WindowOperator(Operator):
    """Base of the operators with :data:`WINDOW_ARGS`."""

    policies: ClassVar[tuple[str, ...]] = rules.POLICIES

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        rules.check_window_arguments(spec)
        self._policy = spec.constant("out_of_bounds_policy")
        if self._policy not in self.policies:
            raise ValueError(f"Not supported out_of_bounds_policy: {self._policy}; supported are {', '.join(self.policies)}")

    @property
    def pads(self) -> bool:
        """Whether windows may extend beyond the input."""
        return self._policy in ("constant", "pad")

    @property
    def chooses_windows(self) -> bool:
        return any(map(self.spec.given, ("crop", "crop_w")))

    def note(self, iteration: Iteration, layout: str, anchors: np.ndarray, windows: np.ndarray) -> None:
        """Note the windows in images, for the provenance of the iteration."""
        axes = [layout.index(letter) for letter in "HW" if letter in layout]
        if len(axes) == 2 and self.chooses_windows:
            iteration.note_windows(anchors[:, axes], windows[:, axes])

    def window(self, shapes: np.ndarray, layout: str, arguments: Arguments) -> tuple[np.ndarray, np.ndarray]:
        """(anchors, window shapes), int64[samples, ndim] in the input's layout. SampleError for windows that are not allowed."""
        anchors, windows = np.zeros_like(shapes), shapes.copy()
        requested = self._requested(len(shapes), arguments)
        # If there is no depth, frames are cropped like depth.
        letters = ("D" if "D" in layout else "F", "H", "W")
        for column, letter, position in zip(range(3), letters, ("crop_pos_z", "crop_pos_y", "crop_pos_x"), strict=True):
            if letter not in layout:
                continue
            axis = layout.index(letter)
            windows[:, axis] = rules.window_shape(shapes[:, axis], requested[:, column])
            where = arguments.scalars(position)
            wrong = ~((where >= 0) & (where <= 1))
            if wrong.any():
                i = int(np.flatnonzero(wrong)[0])
                raise SampleError(i, f"`{position}`: Anchor for dimension {axis} ({where[i]:f}) is out of range [0.0, 1.0]")
            anchors[:, axis] = rules.window_anchor(shapes[:, axis], windows[:, axis], where, self.spec.constant("rounding"))
        return self._within(shapes, anchors, windows)

    def _requested(self, count: int, arguments: Arguments) -> np.ndarray:
        """Requested extents float32[samples, 3] (depth, height, width), 0 = whole axis."""
        out = np.zeros((count, 3), np.float32)
        if arguments.given("crop"):
            values = rules.two_or_three(arguments.vectors("crop"))
            out[:, 3 - values.shape[1] :] = values
        elif arguments.given("crop_w"):
            for column, name in enumerate(("crop_d", "crop_h", "crop_w")):
                out[:, column] = arguments.scalars(name)
        return out

    def _within(self, shapes: np.ndarray, anchors: np.ndarray, windows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if self._policy == "trim_to_shape":
            return rules.trimmed(shapes, anchors, windows)
        if self._policy == "error":
            refuse_where(
                rules.outside(shapes, anchors, windows),
                lambda i: "Slice can't be placed out of bounds with current policy. Got: "
                f"input_shape={_braced(shapes[i])}, slice_anchor={_braced(anchors[i])}, slice_shape={_braced(windows[i])}",
            )
        return anchors, windows

    def fills(self, channels: int, message: str) -> np.ndarray:
        """Fill values float64[channels]; ValueError with `message` when their number fits neither 1 nor `channels`."""
        values = np.asarray(self.spec.constant("fill_values"), np.float64)
        if not self.pads:
            return np.zeros(channels)
        if len(values) not in (1, channels):
            raise ValueError(f"{message} (`fill_values` has {len(values)}, the output {channels} channels)")
        return np.resize(values, channels)


def _braced(row: np.ndarray) -> str:
    return "{" + " x ".join(str(int(value)) for value in row) + "}"


@register
class Crop(WindowOperator):
    repeatable = True
    on_cuda = True
    traits = Trait.FEEDS | Trait.TAKES_FEED
    schema = Schema(
        name="crop",
        doc="""Crops images, sequences and volumes to a window of given extents and relative position.

        Layouts: HWC, CHW, DHWC, CDHW and these with frames. `dtype` may be the input's type, FLOAT, FLOAT16 or UINT8.
        `out_of_bounds_policy` may also be "edge" (or "clamp"), "wrap", "reflect" (or "reflect_1001") or "reflect_101", which extend
        the input.""",
        accepts=(Input(NUMBERS_AND_BOOL, listed(*rules.LAYOUTS), "images"),),
        gives=(Output(type=argument("dtype")),),
        args=(*WINDOW_ARGS, Arg("dtype", "dtype", None, "Element type of the output; by default the input's.")),
        devices=("cpu", "gpu"),
        deprecated=WINDOW_DEPRECATED,
    )

    policies = (*rules.POLICIES, *rules.BORDERS)

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        from . import crop_kernels, crop_mirror_normalize_kernels

        self._kernels, self._make_records = crop_kernels, crop_mirror_normalize_kernels.make_records

    def infer(self, dtypes: list[DALIDataType | None]) -> list[DALIDataType | None]:
        source = DALIDataType.UINT8 if dtypes[0] is None else dtypes[0]
        wanted = self.spec.constant("dtype")
        wanted = source if wanted is None else wanted
        if 0 <= source <= DALIDataType.BOOL and wanted in (source, DALIDataType.FLOAT, DALIDataType.FLOAT16, DALIDataType.UINT8):
            self._kernels.crop_step(storage_dtype(source).name, storage_dtype(wanted).name).compile()
        return [wanted if dtypes[0] is not None or self.spec.given("dtype") else None]

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        source = inputs[0]
        layout = self.layout_of(source)
        dtype = self._output_type(source.dtype)
        anchors, windows = self.window(source.shapes, layout, arguments)
        self.note(iteration, layout, anchors, windows)
        output = Batch(windows, dtype, layout, device=source.device, source_info=source.source_info)
        channels = source.shapes[:, layout.index("C")]
        fills = self.fills(int(channels.max(initial=1)), "Multi-channel fill value does not match the number of channels in the output")
        if rules.cut_early(source, output, anchors, feeds=self.neighbours.feeds):
            return Planned([output])
        in_dtype, out_dtype = storage_dtype(source.dtype), storage_dtype(dtype)
        records = self._make_records(source.shapes, layout, in_dtype.itemsize, anchors, windows, layout, out_dtype.itemsize)
        step = self._kernels.make_crop_step(
            source.addresses, output.addresses, records, in_dtype, out_dtype, fills, rules.BORDERS.get(self._policy, 0)
        )
        return Planned([output], [step])

    def _output_type(self, source: DALIDataType) -> DALIDataType:
        wanted = self.spec.constant("dtype")
        wanted = source if wanted is None else wanted
        if wanted not in (source, DALIDataType.FLOAT, DALIDataType.FLOAT16, DALIDataType.UINT8):
            raise ValueError(f"Not supported output type: {wanted.name}; {source.name} input gives {source.name}, FLOAT, FLOAT16 or UINT8")
        return wanted
