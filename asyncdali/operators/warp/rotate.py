"""rotate: rotate images, sequences and volumes about their centre."""

from __future__ import annotations

import numpy as np

from ...batch import Batch, storage_name
from ...compiled.tables import INPUTS, OUTPUTS, SAMPLES, Field, Table
from ...types import DALIDataType, DALIInterpType
from ..accepts import CHOSEN, Input, Output, argument, listed
from ..base import REQUIRED, Arg, Arguments, Environment, Planned, Schema, Spec, refuse_where, register
from ..kernel_operator import KernelOperator, Kernels, Names
from ..sequences.per_frame_arguments import Frames
from . import rotate_rules as rules

ROTATE_RECORD = Table(
    "ROTATE_RECORD",
    Field("frames", "int64", "frames of the sequence; 1 without frames"),
    Field("in", "int64", "extents of the input", ("depth", "height", "width")),
    Field("channels", "int64", "channels of a pixel"),
    Field("out", "int64", "extents of the output", ("depth", "height", "width")),
    Field("map", "int64", "row of the sample's first map"),
    Field("map_step", "int64", "rows from a frame's map to the next one's: 0 or 1"),
)
ROTATE = Table(
    "ROTATE",
    INPUTS,
    OUTPUTS,
    Field("records", "ROTATE_RECORD[samples]", "extents and maps"),
    Field("maps", "float32[rows, 3, 4]", "source x, y, z from output x, y, z, 1; pixel centres at .5"),
    Field("fill", "float32[1]", "value outside the source"),
    Field("clamp", "int64", "1: the border is repeated instead"),
    Field("linear", "int64", "1: linear interpolation; 0: nearest"),
    SAMPLES,
)

_U8, _I16, _I32, _F32 = DALIDataType.UINT8, DALIDataType.INT16, DALIDataType.INT32, DALIDataType.FLOAT
_OUTPUTS = {_U8: (_U8, _F32), _I16: (_I16, _F32), _I32: (_I32, _F32), _F32: (_F32, _U8, _I16, _I32)}
"""Output types of each input type."""


@register
class Rotate(KernelOperator):
    kernel_module = "rotate_kernels"
    schema = Schema(
        name="rotate",
        doc="""Rotates images (counter-clockwise) or volumes (about `axis`) by an angle.

        The canvas grows to hold the rotated image, unless `size` or `keep_size` is given. Layouts: HWC, FHWC, DHWC, FDHWC.""",
        accepts=(Input(tuple(_OUTPUTS), listed(*rules.LAYOUTS), "images"),),
        per_frame=("angle", "axis", "size"),
        gives=(Output(argument("dtype"), CHOSEN, CHOSEN),),
        args=(
            Arg("angle", "float", REQUIRED, "Angle in degrees.", tensor=True),
            Arg("axis", "float_list", None, "Axis of rotation (x, y, z), for volumes only; of any length but 0.", tensor=True),
            Arg("dtype", "dtype", None, "Element type of the output; by default the input's."),
            Arg("fill_value", "float", None, "Value outside the input; by default its border is repeated."),
            Arg("interp_type", "interp", DALIInterpType.INTERP_LINEAR, "INTERP_LINEAR or INTERP_NN."),
            Arg("keep_size", "bool", False, "Keep the input's canvas size."),
            Arg("output_dtype", "dtype", None, "Deprecated name of `dtype`."),
            Arg("size", "float_list", [], "Output extents in tensor order, without frames and channels.", tensor=True),
        ),
        devices=("cpu", "gpu"),
        deprecated={"output_dtype": "dtype"},
    )

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        interpolation = spec.constant("interp_type")
        if interpolation not in (DALIInterpType.INTERP_NN, DALIInterpType.INTERP_LINEAR):
            raise ValueError(f"Only nearest and linear interpolation is supported, got {interpolation.name}")
        self._linear = interpolation == DALIInterpType.INTERP_LINEAR

    def kernels_for(self, inputs: Names, outputs: Names) -> Kernels:
        known = any(inputs[0] == storage_name(one) and outputs[0] in map(storage_name, made) for one, made in _OUTPUTS.items())
        return [self.kernels.image_step(inputs[0], outputs[0])] if known else []

    def plan_samples(self, inputs: list[Batch], arguments: Arguments, frames: Frames | None) -> Planned:
        source = inputs[0]
        layout = self.layout_of(source)
        axes = 3 if "D" in layout else 2
        spatial = source.shapes[:, -1 - axes : -1]
        matrix = self._matrix(axes, arguments)
        extents = self._extents(spatial, matrix, arguments, frames)
        return self._warped(source, layout, extents, rules.inverse_maps(spatial, extents, matrix))

    def _warped(self, source: Batch, layout: str, extents: np.ndarray, maps: np.ndarray) -> Planned:
        """The output with `extents` int64[samples, axes]; `maps` float32[samples, 3, 4] map its positions to positions in the input."""
        axes = extents.shape[1]
        dtype = self._output_type(source.dtype)
        shapes = source.shapes.copy()
        shapes[:, -1 - axes : -1] = extents
        output = Batch(shapes, dtype, layout, device=source.device, source_info=source.source_info)
        records, word = ROTATE_RECORD.ones(len(source)), ROTATE_RECORD.word
        records[:, word.frames] = source.shapes[:, : -1 - axes].prod(axis=1)
        records[:, ROTATE_RECORD.columns("in")][:, -axes:] = source.shapes[:, -1 - axes : -1]
        records[:, word.channels] = source.shapes[:, -1]
        records[:, ROTATE_RECORD.columns("out")][:, -axes:] = extents
        records[:, word.map], records[:, word.map_step] = np.arange(len(source)), 0
        step = self.kernels.make_rotate_step(
            source, output, records, maps, self.spec.constant("fill_value"), self._linear, axes == 3
        )
        return Planned([output], [step])

    def _output_type(self, source: DALIDataType) -> DALIDataType:
        wanted = self.spec.constant("dtype")
        wanted = source if wanted is None else wanted
        if wanted not in _OUTPUTS.get(source, ()):
            raise ValueError(f"Unsupported input/output types for the operator: {source.name} -> {wanted.name}.")
        return wanted

    def _matrix(self, axes: int, arguments: Arguments) -> np.ndarray:
        angle = arguments.scalars("angle")
        refuse_where(~np.isfinite(angle), lambda i: f"the angle must be finite, got {angle[i]}")
        if axes == 2:
            return rules.rotation_2d(angle)
        if not arguments.given("axis"):
            raise ValueError("Argument `axis` is required")
        axis = arguments.vectors("axis")
        if axis.shape[1] != 3:
            raise ValueError(f"Argument `axis` must be a 3D vector, got {axis.shape[1]} values")
        length = np.abs(axis).max(axis=1)
        # Without an angle nothing turns, so the axis needs no direction. Augmentations draw both, and draw zeros for "unchanged".
        still = (length == 0) & (arguments.scalars("angle") == 0)
        axis = np.where(still[:, None], np.array([0, 0, 1], np.float32), axis)
        wrong = ~(((length > 0) & (length < np.inf)) | still)
        refuse_where(wrong, lambda i: f"argument `axis` must have a length other than zero, got {axis[i].tolist()}")
        return rules.rotation_3d(angle, axis)

    def _extents(self, spatial: np.ndarray, matrix: np.ndarray, arguments: Arguments, frames: Frames | None) -> np.ndarray:
        """Output extents int64[n, axes]. All frames of a sequence have the same extents."""
        if arguments.is_input("size") or self.spec.constant("size"):
            size = arguments.vectors("size")
            if size.shape[1] != spatial.shape[1]:
                raise ValueError(
                    "`size` must specify same number of dimensions as the input (excluding channels): "
                    f"{spatial.shape[1]}, got {size.shape[1]}"
                )
            refuse_where(~((size > 0) & (size < 2**31)).all(axis=1), lambda i: f"Output size must be positive, got {size[i].tolist()}")
            if arguments.is_input("size"):  # As in DALI, only constants are rounded.
                given = np.maximum(size.astype(np.int64), 1)
                return given if frames is None else frames.largest(given)
            return np.floor(size.astype(np.float64) + 0.5).astype(np.int64)
        if self.spec.constant("keep_size"):
            return spatial.copy()
        return rules.canvas(spatial, matrix, frames)
