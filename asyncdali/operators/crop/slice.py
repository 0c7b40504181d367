"""slice: a window of N-d samples, by named arguments or by the inputs anchor and shape."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ...batch import Batch, storage_dtype
from ...compiled.addresses import products
from ...compiled.tables import INPUTS, OUTPUTS, SAMPLES, Field, Table
from ...device.launch import Kernel, Launch, grid_of
from ...types import DALIDataType
from ..accepts import ANY_RANK, DATA, Input, Output, argument
from ..base import (
    Arg,
    Arguments,
    Environment,
    Iteration,
    Operator,
    Planned,
    Schema,
    Spec,
    Step,
    TableStep,
    Trait,
    no_explanation,
    refuse_where,
    register,
)
from ..moves.pieces import Pieces, dense_strides, fill_values, moved_types, sized_name
from . import crop_rules
from .slice_rules import COORDINATES, SLICE_ARGS, check_slice, slice_windows

_DEFAULT_LAYOUTS = {2: "HW", 3: "HWC", 4: "DHWC"}
_POLICIES = (*crop_rules.POLICIES, *crop_rules.BORDERS)
_SOURCE = Path(__file__).with_name("slice_kernels.cu")

BORDERED = Table(
    "BORDERED",
    INPUTS,
    OUTPUTS,
    Field("records", "int64[samples, 4, axes]", "extents of the output, those of the input, where the window begins, strides of the input"),
    Field("axes", "int64", "axes of a sample"),
    Field("border", "int64", "extension of the input beyond its bounds (crop_rules.BORDERS)"),
    SAMPLES,
)


@register
class Slice(Operator):
    repeatable = True
    on_cuda = True
    traits = Trait.FEEDS | Trait.TAKES_FEED
    schema = Schema(
        name="slice",
        doc="""Cuts a window out of samples with any number of dimensions.

        The window is given for the axes named by `axes` or `axis_names`, the other axes stay whole: by named arguments (`start` or
        `rel_start`; `end`, `rel_end`, `shape` or `rel_shape`), or by two more inputs, anchor and shape (floats are relative unless
        `normalized_anchor`, `normalized_shape` say otherwise; integers are elements). Relative coordinates are rounded. `dtype` may
        be the input's type, FLOAT, FLOAT16 or UINT8; fractions of floats are dropped.""",
        accepts=(DATA, Input(COORDINATES, name="anchor", ranks=ANY_RANK), Input(COORDINATES, name="shape", ranks=ANY_RANK)),
        gives=(Output(type=argument("dtype")),),
        inputs=(1, 3),
        input_names=("data", "anchor", "shape_input"),
        devices=("cpu", "gpu"),
        cpu_inputs=(1, 2),
        moved_inputs=(1, 2),
        args=(
            *SLICE_ARGS,
            Arg("dtype", "dtype", None, "Element type of the output; by default the input's."),
            Arg("fill_values", "float_list", [0.0], "Values outside the input: one, or one per channel (axis C of the layout)."),
            Arg("image_type", "image_type", None, "Deprecated, no effect."),
            Arg(
                "out_of_bounds_policy", "str", "error",
                'Treatment of a window beyond the input: "error", "constant" or "pad" (filled with `fill_values`), "trim_to_shape" (cut), '
                '"edge" (or "clamp"), "wrap", "reflect" (or "reflect_1001"), "reflect_101": the input is extended beyond its bounds.',
                choices=_POLICIES,
            ),
            Arg("output_dtype", "dtype", None, "Deprecated name of `dtype`."),
        ),
        deprecated={"image_type": None, "output_dtype": "dtype"},
    )  # fmt: skip
    reads = (1, 2)

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        check_slice(spec)
        self._policy: str = spec.constant("out_of_bounds_policy")
        if self._policy not in _POLICIES:
            raise ValueError(f"`out_of_bounds_policy` {self._policy!r} is unknown; supported are {', '.join(_POLICIES)}")
        from . import slice_kernels

        self._kernels: Any = slice_kernels

    def infer(self, dtypes: list[DALIDataType | None]) -> list[DALIDataType | None]:
        wanted = self.spec.constant("dtype")
        if dtypes[0] is not None:
            self._step(dtypes[0], self._output_type(dtypes[0])).compile()
        elif wanted is None:
            self._step(DALIDataType.UINT8, DALIDataType.UINT8).compile()
        return [dtypes[0] if wanted is None else wanted]

    def _output_type(self, source: DALIDataType) -> DALIDataType:
        wanted: DALIDataType | None = self.spec.constant("dtype")
        if wanted is None:
            return source
        if wanted not in (source, DALIDataType.FLOAT, DALIDataType.FLOAT16, DALIDataType.UINT8):
            raise ValueError(f"`dtype` {wanted.name} is not supported; the input's type ({source.name}), FLOAT, FLOAT16 and UINT8 are")
        return wanted

    def _step(self, source: DALIDataType, target: DALIDataType) -> Any:
        names = storage_dtype(source).name, storage_dtype(target).name
        if self._policy in crop_rules.BORDERS:
            names = (sized_name(source),) * 2 if names[0] == names[1] else names
            return self._kernels.bordered_step(*names)
        return self._kernels.copy_step if names[0] == names[1] else self._kernels.converting_step(*names)

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        source = inputs[0]
        layout = source.layout or _DEFAULT_LAYOUTS.get(source.ndim, "")
        anchors, windows = slice_windows(self.spec, inputs[1:], arguments, source.shapes, layout)
        anchors, windows = self._within(source.shapes, anchors, windows)
        dtype = self._output_type(source.dtype)
        output = Batch(windows, dtype, source.layout, device=source.device, source_info=source.source_info)
        if crop_rules.cut_early(source, output, anchors, feeds=self.neighbours.feeds):
            return Planned([output])
        function = self._step(source.dtype, dtype)
        if self._policy in crop_rules.BORDERS:
            return Planned([output], [self._bordered(function, source, output, anchors)])
        return Planned([output], [self._cut(function, source, output, anchors, layout)])

    def _within(self, shapes: np.ndarray, anchors: np.ndarray, windows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if self._policy == "trim_to_shape":
            return crop_rules.trimmed(shapes, anchors, windows)
        if self._policy == "error":
            refuse_where(
                crop_rules.outside(shapes, anchors, windows),
                lambda i: f"the window at {tuple(anchors[i].tolist())} of shape {tuple(windows[i].tolist())} leaves the input of shape "
                f"{tuple(shapes[i].tolist())}; give another `out_of_bounds_policy` than 'error' to allow such windows",
            )
        return anchors, windows

    def _cut(self, function: object, source: Batch, output: Batch, anchors: np.ndarray, layout: str) -> Step:
        pieces = Pieces(output)
        begin = np.clip(anchors, 0, source.shapes)
        inside = np.clip(anchors + output.shapes, begin, source.shapes) - begin
        partly = (inside != output.shapes).any(axis=1)
        if partly.any():
            pieces.fill(*self._fills(output, layout), where=partly)
        inside = np.where((inside > 0).all(axis=1)[:, None], inside, 0)
        strides = dense_strides(source.shapes, source.itemsize)
        offset, target = (begin * strides).sum(axis=1), ((begin - anchors) * pieces.targets).sum(axis=1)
        pieces.add(source, inside, strides, offset, target_offset=np.where(inside.any(axis=1), target, 0))
        return pieces.step(function)

    def _fills(self, output: Batch, layout: str) -> tuple[np.ndarray, int | None]:
        """Fill values in the output's type, and their axis."""
        fills = fill_values(self.spec.constant("fill_values"), output.dtype)
        if len(fills) == 1:
            return fills, None
        if "C" not in layout:
            raise ValueError(f"`fill_values` has {len(fills)} values, but there is no axis C in the layout {layout!r}")
        axis = layout.index("C")
        wrong = output.shapes[:, axis] != len(fills)
        refuse_where(wrong, lambda i: f"`fill_values` has {len(fills)} values for {int(output.shapes[i, axis])} channels of the output")
        return fills, axis

    def _bordered(self, function: Any, source: Batch, output: Batch, anchors: np.ndarray) -> Step:
        records = np.stack([output.shapes, source.shapes, anchors, dense_strides(source.shapes, source.itemsize)], axis=1)
        entries = BORDERED.entries(
            inputs=source.addresses, outputs=output.addresses, records=np.ascontiguousarray(records), axes=source.ndim,
            border=crop_rules.BORDERS[self._policy], samples=len(output),
        )  # fmt: skip

        def launches() -> list[Launch]:
            kernel = Kernel(_SOURCE, "bordered", moved_types(source.dtype, output.dtype))
            return [Launch(kernel, entries, grid_of(int(products(output.shapes).max(initial=0)), len(output)))]

        return TableStep(function.address, entries, no_explanation, launches=launches)
