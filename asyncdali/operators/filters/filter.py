"""filter: correlation of images or volumes with filters of any shape."""

from __future__ import annotations

import numpy as np

from ...batch import Batch, storage_name
from ...compiled.tables import INPUTS, OUTPUTS, SAMPLES, Field, Table
from ...device.launch import PACK
from ...messages.notices import warn
from ...types import DALIDataType
from ..accepts import ANY_RANK, CHOSEN, Input, Output, argument
from ..base import Arg, Arguments, Environment, Planned, SampleError, Schema, Spec, refuse_where, register
from ..kernel_operator import Cuda, KernelOperator, Kernels, Names, ThreadScratch, types_of
from ..sequences.per_frame_arguments import Frames
from .planes import DATA_LAYOUTS, DataAxes, data_axes, plane_kernel, plane_records
from .planes_tables import AXES, PLANES

CORRELATE_RECORD = Table(
    "CORRELATE_RECORD",
    *PLANES.fields,
    Field("out", "int64", "extents of the output", AXES),
    Field("filter", "int64", "extents of the filter", AXES),
    Field("anchor", "int64", "the position in the filter that lies on the output's pixel", AXES),
)

CORRELATE = Table(
    "CORRELATE",
    INPUTS,
    Field("filters", "addresses", "of the samples' filters, float32"),
    Field("fills", "addresses", "of the samples' fill values; 0: the fill value is 0"),
    OUTPUTS,
    Field("records", "CORRELATE_RECORD[samples]", "extents and anchors"),
    Field("border", "int64", "values outside the input: index in filter.BORDERS"),
    Field("scratch", "int64", "offset of the step's scratch in the thread's"),
    SAMPLES,
)

_TYPES = (
    DALIDataType.UINT8, DALIDataType.INT8, DALIDataType.UINT16, DALIDataType.INT16, DALIDataType.FLOAT16, DALIDataType.FLOAT,
)  # fmt: skip
_MODES = ("same", "valid")
_SPAN = 32
"""Most bytes between the first and the last tap of a row, for loops that are unrolled on a GPU."""
BORDERS = ("reflect_101", "reflect_1001", "wrap", "clamp", "constant")
_OTHER_NAMES = {
    "101": "reflect_101", "1001": "reflect_1001", "reflect": "reflect_1001", "edge": "clamp", "pad": "constant", "fill": "constant",
}  # fmt: skip


@register
class Filter(KernelOperator):
    kernel_module = "filter_kernels"
    late_inputs = True
    schema = Schema(
        name="filter",
        aliases=("experimental.filter",),
        doc="""Correlates each sample with its own filter.

        Inputs: images or volumes (channels first or last, frames first; UINT8, INT8, UINT16, INT16, FLOAT16, FLOAT); filters (FLOAT, as
        many dimensions as there are data axes); optionally what is outside with ``border="constant"`` (one scalar of the input's type).
        Filters, fill values and `anchor` may be per frame.
        Computed in FLOAT; integers are rounded half away from zero and saturated.""",
        accepts=(
            Input(_TYPES, DATA_LAYOUTS, "images"), Input((DALIDataType.FLOAT,), name="filters", ranks=(1, 2, 3, 4)),
            Input(_TYPES, name="fill value", ranks=ANY_RANK, like=("type",)),
        ),
        gives=(Output(argument("dtype"), CHOSEN, CHOSEN),),  # Filters per frame turn images into sequences.
        per_frame=("anchor",),
        inputs=(2, 3),
        input_names=("data", "filter", "fill_value"),
        moved_inputs=(1, 2),
        devices=("cpu", "gpu"),
        args=(
            Arg(
                "anchor", "int_list", [-1],
                "Element of the filter that lies on the output's pixel: one number, or one per axis; -1: the middle.", tensor=True,
            ),
            Arg("border", "str", "reflect_101", f"Values outside the input: {', '.join(BORDERS)}."),
            Arg("dtype", "dtype", None, "Element type of the output: the input's (default) or FLOAT."),
            Arg("mode", "str", "same", '"same" (extents are kept) or "valid" (only positions where the whole filter is inside).',
                choices=_MODES),
        ),
    )

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        given = spec.constant("border").lower()
        self._border = _OTHER_NAMES.get(given, given)
        if self._border not in BORDERS:
            names = ", ".join((*BORDERS, *(f"{other} ({name})" for other, name in _OTHER_NAMES.items())))
            raise ValueError(f"Unknown `border` {spec.constant('border')!r}; supported are {names}")
        if spec.constant("mode") not in _MODES:
            raise ValueError(f'Unknown `mode` {spec.constant("mode")!r}; supported are "same" and "valid"')
        if spec.input_count == 3 and self._border != "constant":
            warn(f'filter: the third input, the fill value, has no effect with border="{self._border}"; it is for "constant"', UserWarning)

    def kernels_for(self, inputs: Names, outputs: Names) -> Kernels:
        return [plane_kernel(), *([self.kernels.filter_step(inputs[0], outputs[0])] if outputs[0] in (inputs[0], "float32") else [])]

    def plan_samples(self, inputs: list[Batch], arguments: Arguments, frames: Frames | None) -> Planned:
        source, filters = inputs[:2]
        axes = data_axes(source)
        self._check(source, filters, axes, inputs)
        given = self.spec.constant("dtype")
        dtype = source.dtype if given is None else given
        if dtype not in (source.dtype, DALIDataType.FLOAT):
            raise ValueError(f"Output data type must be same as input ({source.dtype.name}) or FLOAT; got {dtype.name}")
        anchors = arguments.vectors("anchor", axes.number, np.int64)
        wrong = ((anchors < -1) | (anchors >= filters.shapes)).any(axis=1)
        refuse_where(wrong, lambda i: f"Anchor must lie within the filter of {filters.shapes[i].tolist()}, got {anchors[i].tolist()}")
        anchors = np.where(anchors == -1, filters.shapes // 2, anchors)
        shapes = source.shapes.copy()
        if self.spec.constant("mode") == "valid":
            shapes[:, axes.first : axes.first + axes.number] -= filters.shapes - 1
            anchors = np.zeros_like(anchors)
            short = (shapes <= 0).any(axis=1)
            if short.any():
                i = int(np.argmax(short))
                raise SampleError(i, f"the filter of {filters.shapes[i].tolist()} is larger than the input of {source.shapes[i].tolist()}")
        output = Batch(shapes, dtype, source.layout, device=source.device, source_info=source.source_info)
        border = BORDERS.index(self._border)
        records = CORRELATE_RECORD.zeros(len(source))
        records[:, : PLANES.words] = plane_records(source.shapes, axes)
        records[:, CORRELATE_RECORD.columns("out")] = plane_records(shapes, axes)[:, PLANES.columns("in")]
        records[:, CORRELATE_RECORD.columns("filter")] = _three(filters.shapes, 1)
        records[:, CORRELATE_RECORD.columns("anchor")] = _three(anchors, 0)
        entries = CORRELATE.entries(
            inputs=source.addresses, filters=filters.addresses, fills=inputs[2].addresses if len(inputs) == 3 else 0,
            outputs=output.addresses, records=records, border=border, scratch=0, samples=len(records),
        )  # fmt: skip
        elements = records[:, PLANES.word.planes] * records[:, PLANES.word.channels] * plane_records(shapes, axes)[:, 1:4].prod(axis=1)
        function = self.kernels.filter_step(storage_name(source.dtype), storage_name(dtype))
        types: tuple[tuple[str, str | int], ...] = (*types_of(source, output), *_constants(source, records))
        cuda, scratch = Cuda("correlate", elements, each=PACK, types=types), self.kernels.scratch_of(records)
        return Planned([output], [self.step(function, entries, lambda: cuda, ThreadScratch(scratch, CORRELATE.word.scratch))])

    @staticmethod
    def _check(source: Batch, filters: Batch, axes: DataAxes, inputs: list[Batch]) -> None:
        if "F" in source.layout[1:]:
            raise ValueError(f"the frames must be the outermost dimension, got the layout {source.layout}")
        if filters.ndim != axes.number:
            raise ValueError(
                "Filter dimensionality must match the number of spatial dimensions in the input samples. "
                f"Got {axes.number} spatial dimensions but the filter is {filters.ndim} dimensional"
            )
        refuse_where(filters.shapes < 1, lambda _: "the filter is empty")
        if len(inputs) == 3 and (inputs[2].shapes.prod(axis=1) != 1).any():
            raise ValueError("the fill value must be a scalar for each sample")


def _three(values: np.ndarray, missing: int) -> np.ndarray:
    """Extend values of one to three axes to depth, height and width."""
    padding = np.full((len(values), 3 - values.shape[1]), missing, np.int64)
    return np.concatenate([padding, values], axis=1)


def _constants(source: Batch, records: np.ndarray) -> tuple[tuple[str, int], ...]:
    """Macros for bytes if all filters have the same width, and all samples the same number of channels: the loops are unrolled then."""
    words = CORRELATE_RECORD.word
    values = records[:, [CORRELATE_RECORD.span("filter", "filter").stop - 1, words.channels]]
    if source.dtype != DALIDataType.UINT8 or not len(values) or (values != values[0]).any():
        return ()
    wide, channels = values[0].tolist()
    return (("WIDE", wide), ("CHANNELS", channels)) if 0 < (wide - 1) * channels <= _SPAN else ()
