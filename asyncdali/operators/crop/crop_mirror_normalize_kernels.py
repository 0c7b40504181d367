"""Compiled step of ``crop_mirror_normalize``: window, mirror, ``(x - mean) * multiplier``, type and layout in one pass.

A sample is addressed with five axes (frames, depth, height, width, channels). Each axis has a byte stride in the input and in the output,
so one code serves all layouts on either side. Common layouts have specialised inner loops: three interleaved channels to planes or to
interleaved, and planes to planes. DALI folds `shift` into the mean: ``(x - (mean - shift / multiplier)) * multiplier`` in float32, with
multiplier = scale / std. The caller passes the folded mean and the multiplier per channel.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ...compiled.addresses import products
from ...compiled.convert_kernels import converter, load_value, storage, view
from ...compiled.intrinsics import larger, load_i64, smaller, view_f32, view_i64
from ...compiled.step import Compiled, inlined, pasted, step_variant
from ...compiled.vectors import prefetch
from ...device.launch import Entry, Kernel, Launch, Unstored, element_type, row_grid
from ..base import Step, TableStep, no_explanation
from ..resize.image_resampling import tile_grid
from .crop_tables import AXES, NORMALIZE, WINDOW

at, word = NORMALIZE.at, WINDOW.word
_1, _2 = np.uint64(1), np.uint64(2)
_SOURCE, _PLANES = Path(__file__).with_suffix(".cu"), Path(__file__).with_name("crop_mirror_normalize_planes_kernels.cu")


@cache
def _three_to_planes(in_dtype: str, out_dtype: str) -> Any:
    """``rows(source, count, out, plane, mirror, mean, factor)``: a row of three interleaved channels to three planes."""
    view_in, view_out = view(in_dtype), view(out_dtype)
    value, convert = load_value(in_dtype), converter("float32", out_dtype)

    @inlined
    def rows(source, count, out, plane, mirror, mean, factor):
        s = view_in(source, 3 * count)
        a = view_out(out, count)
        b = view_out(out + plane, count)
        c = view_out(out + 2 * plane, count)
        m0, m1, m2 = mean[0], mean[1], mean[2]
        k0, k1, k2 = factor[0], factor[1], factor[2]
        if mirror:
            # Unsigned indices need no wrap-around, which would prevent vectorisation.
            for i in range(count):
                first = np.uint64(3 * (count - 1 - i))
                a[i] = convert((np.float32(value(s[first])) - m0) * k0)
                b[i] = convert((np.float32(value(s[first + _1])) - m1) * k1)
                c[i] = convert((np.float32(value(s[first + _2])) - m2) * k2)
            return
        for i in range(count):
            a[i] = convert((np.float32(value(s[3 * i])) - m0) * k0)
            b[i] = convert((np.float32(value(s[3 * i + 1])) - m1) * k1)
            c[i] = convert((np.float32(value(s[3 * i + 2])) - m2) * k2)

    return rows


@cache
def _three_to_three(in_dtype: str, out_dtype: str) -> Any:
    """Like :func:`_three_to_planes`, with an interleaved output (`plane` is not used)."""
    view_in, view_out = view(in_dtype), view(out_dtype)
    value, convert = load_value(in_dtype), converter("float32", out_dtype)

    @inlined
    def rows(source, count, out, plane, mirror, mean, factor):
        s = view_in(source, 3 * count)
        o = view_out(out, 3 * count)
        m0, m1, m2 = mean[0], mean[1], mean[2]
        k0, k1, k2 = factor[0], factor[1], factor[2]
        if mirror:
            for i in range(count):
                first = np.uint64(3 * (count - 1 - i))
                o[3 * i] = convert((np.float32(value(s[first])) - m0) * k0)
                o[3 * i + 1] = convert((np.float32(value(s[first + _1])) - m1) * k1)
                o[3 * i + 2] = convert((np.float32(value(s[first + _2])) - m2) * k2)
            return
        for i in range(count):
            o[3 * i] = convert((np.float32(value(s[3 * i])) - m0) * k0)
            o[3 * i + 1] = convert((np.float32(value(s[3 * i + 1])) - m1) * k1)
            o[3 * i + 2] = convert((np.float32(value(s[3 * i + 2])) - m2) * k2)

    return rows


@cache
def _strided(in_dtype: str, out_dtype: str) -> Any:
    """One channel of one row, with any strides in elements; the output's stride may be negative."""
    view_in, view_out = view(in_dtype), view(out_dtype)
    value, convert = load_value(in_dtype), converter("float32", out_dtype)

    @inlined
    def channel(source, source_step, out, out_step, count, mean, factor):
        s = view_in(source, (count - 1) * source_step + 1)
        if source_step == 1 and out_step == 1:
            o = view_out(out, count)
            for i in range(count):
                o[i] = convert((np.float32(value(s[i])) - mean) * factor)
            return
        if source_step == 1 and out_step == -1:
            o = view_out(out - (count - 1) * storage_size, count)
            for i in range(count):
                o[i] = convert((np.float32(value(s[np.uint64(count - 1 - i)])) - mean) * factor)
            return
        # The view begins at its lowest address.
        last = (count - 1) * out_step
        o = view_out(out + smaller(last, 0) * storage_size, abs(last) + 1)
        base = -smaller(last, 0)
        for i in range(count):
            o[base + i * out_step] = convert((np.float32(value(s[i * source_step])) - mean) * factor)

    storage_size = storage(out_dtype).itemsize
    return channel


@cache
def _filler(out_dtype: str) -> Any:
    """``fill(out, out_step, count, value)``: store one element many times (step in bytes, positive)."""
    view_out = view(out_dtype)
    size = storage(out_dtype).itemsize

    @inlined
    def fill(out, out_step, count, element):
        if count <= 0:
            return
        if out_step == size:
            o = view_out(out, count)
            for i in range(count):
                o[i] = element
            return
        step_elements = out_step // size
        o = view_out(out, (count - 1) * step_elements + 1)
        for i in range(count):
            o[i * step_elements] = element

    return fill


@cache
def normalize_step(in_dtype: str, out_dtype: str, planes: bool) -> Compiled:
    """The step for an input and an output dtype (NumPy names). `planes` selects the fast loop."""
    three = _three_to_planes(in_dtype, out_dtype) if planes else _three_to_three(in_dtype, out_dtype)
    channel, fill = _strided(in_dtype, out_dtype), _filler(out_dtype)
    fast_step = storage(out_dtype).itemsize * (1 if planes else 3)
    view_out = view(out_dtype)
    in_size, out_size = storage(in_dtype).itemsize, storage(out_dtype).itemsize

    @pasted
    def row(source, out, r, mirror, mean, factor, fills):
        """One row inside the input: `source` is at the row's first column, `out` at the output row.

        A mirrored row is read backwards and written forwards. Writing backwards into memory that has left the cache takes 2.7 times as
        long. The processor does not prefetch rows that are read backwards, so the next row is prefetched here.
        """
        in_step, in_channel, out_step, out_channel = r[word.in_stride_w], r[word.in_stride_c], r[word.out_stride_w], r[word.out_stride_c]
        channels, width, out_channels = r[word.in_extent_c], r[word.out_extent_w], r[word.out_extent_c]
        begin = smaller(larger(-r[word.anchor_w], 0), width)
        end = larger(smaller(r[word.in_extent_w] - r[word.anchor_w], width), begin)
        count = end - begin
        first = width - end if mirror else begin
        for c in range(out_channels if count < width else 0):
            fill(out + c * out_channel, out_step, first, fills[c])
            fill(out + c * out_channel + (first + count) * out_step, out_step, width - first - count, fills[c])
        for c in range(channels, out_channels):
            fill(out + c * out_channel, out_step, width, fills[c])
        if count == 0:
            return
        source += (r[word.anchor_w] + begin) * in_step
        out += first * out_step
        if mirror:
            for k in range(0, count * in_step, 64):
                prefetch(source + r[word.in_stride_h] + k)
        packed = in_channel == in_size and in_step == 3 * in_size
        if channels == 3 and packed and out_step == fast_step and (planes or out_channel == out_size):
            three(source, count, out, out_channel, mirror, mean, factor)
            return
        turn = -(out_step // out_size) if mirror else out_step // out_size
        begin_at = out + (count - 1) * out_step if mirror else out
        for c in range(channels):
            channel(source + c * in_channel, in_step // in_size, begin_at + c * out_channel, turn, count, mean[c], factor[c])

    @step_variant(in_dtype, out_dtype, planes)
    def crop_mirror_normalize(context, sample, thread):
        r = view_i64(load_i64(context + at.records) + 8 * load_i64(context + at.step) * sample, word.words)
        source = load_i64(load_i64(context + at.inputs) + 8 * sample)
        out = load_i64(load_i64(context + at.outputs) + 8 * sample)
        mirror = load_i64(load_i64(context + at.mirrors) + 8 * sample) != 0
        per_row = load_i64(context + at.channels)
        mean = view_f32(load_i64(context + at.means) + 4 * per_row * r[word.row], per_row)
        factor = view_f32(load_i64(context + at.multipliers) + 4 * per_row * r[word.row], per_row)
        fills = view_out(load_i64(context + at.fills), r[word.out_extent_c])
        if r[word.out_extent_w] == 0:
            return 0
        for f in range(r[word.out_extent_f]):
            from_f = f + r[word.anchor_f]
            for z in range(r[word.out_extent_d]):
                from_z = z + r[word.anchor_d]
                for y in range(r[word.out_extent_h]):
                    from_y = y + r[word.anchor_h]
                    to = out + f * r[word.out_stride_f] + z * r[word.out_stride_d] + y * r[word.out_stride_h]
                    if 0 <= from_f < r[word.in_extent_f] and 0 <= from_z < r[word.in_extent_d] and 0 <= from_y < r[word.in_extent_h]:
                        start = source + from_f * r[word.in_stride_f] + from_z * r[word.in_stride_d] + from_y * r[word.in_stride_h]
                        row(start, to, r, mirror, mean, factor, fills)
                    else:
                        for c in range(r[word.out_extent_c]):
                            fill(to + c * r[word.out_stride_c], r[word.out_stride_w], r[word.out_extent_w], fills[c])
        return 0

    return crop_mirror_normalize


def strides_of(shapes: np.ndarray, layout: str, itemsize: int) -> np.ndarray:
    """Byte strides int64[samples, 5] along :data:`AXES` of dense samples; 0 for axes that `layout` lacks."""
    steps = np.empty_like(shapes)
    steps[:, -1] = itemsize
    for k in range(shapes.shape[1] - 2, -1, -1):
        steps[:, k] = steps[:, k + 1] * shapes[:, k + 1]
    out = np.zeros((len(shapes), 5), np.int64)
    for column, axis in enumerate(AXES):
        if axis in layout:
            out[:, column] = steps[:, layout.index(axis)]
    return out


def along_axes(values: np.ndarray, layout: str, missing: int) -> np.ndarray:
    """`values` int64[samples, ndim] reordered to :data:`AXES`: int64[samples, 5], with `missing` where `layout` lacks the axis."""
    out = np.full((len(values), 5), missing, np.int64)
    for column, axis in enumerate(AXES):
        if axis in layout:
            out[:, column] = values[:, layout.index(axis)]
    return out


def make_records(
    shapes: np.ndarray,
    layout: str,
    in_size: int,
    anchors: np.ndarray,
    out_shapes: np.ndarray,
    out_layout: str,
    out_size: int,
) -> np.ndarray:
    """Records of a batch. Shapes and anchors are int64[samples, ndim] in `layout`, out_shapes in `out_layout`."""
    records = WINDOW.zeros(len(shapes))
    records[:, WINDOW.columns("in_stride")] = strides_of(shapes, layout, in_size)
    records[:, WINDOW.columns("out_stride")] = strides_of(out_shapes, out_layout, out_size)
    records[:, WINDOW.columns("in_extent")] = along_axes(shapes, layout, 1)
    records[:, WINDOW.columns("anchor")] = along_axes(anchors, layout, 0)
    records[:, WINDOW.columns("out_extent")] = along_axes(out_shapes, out_layout, 1)
    return records


class Normalisation:
    """The data that the steps of all batches of equal shapes share.

    records             from :func:`make_records`, with their field `row` set
    mean, multiplier    float32[rows, channels]; shift already folded into the mean
    fills               out_dtype[output channels], fill values outside the input and for added channels
    """

    def __init__(
        self, records: np.ndarray, in_dtype: np.dtype, out_dtype: np.dtype, mean: np.ndarray, multiplier: np.ndarray, fills: np.ndarray
    ):
        # Whether the rows of the output are planes, in which the width advances by one element.
        planes = bool(len(records) == 0 or records[0, word.out_stride_w] == np.dtype(out_dtype).itemsize)
        self._compiled = normalize_step(np.dtype(in_dtype).name, np.dtype(out_dtype).name, planes)
        self._count = len(records)
        if len(records) > 1 and (records == records[0]).all():
            records = records[0].reshape(1, -1).copy()  # usual behind a resize; a GPU gets the records in every iteration
        self._records, self._step = records, WINDOW.words if len(records) == self._count else 0
        mean, multiplier = np.ascontiguousarray(mean, np.float32), np.ascontiguousarray(multiplier, np.float32)
        fills = np.ascontiguousarray(fills, out_dtype)
        self._arrays = mean, multiplier, fills
        types = ("IN", element_type(in_dtype)), ("OUT", element_type(out_dtype))
        self._in_size = np.dtype(in_dtype).itemsize
        self._kernel = Kernel(_SOURCE, "crop_mirror_normalize", (*types, ("RESIZED", 0)))
        self._rows = int(products(records[:, word.out_extent_f : word.out_extent_w]).max(initial=0))
        self._width = int(records[:, word.out_extent_w].max(initial=0))
        channels = int(records[0, word.in_extent_c]) if len(records) else 0
        strides = records[:, (word.in_extent_c, word.in_stride_c, word.in_stride_w)]
        interleaved = bool((strides == (channels, self._in_size, channels * self._in_size)).all())
        self._interleaved = channels if interleaved else -1
        usual = planes and self._interleaved == 3 and in_dtype == np.uint8  # The most common case has its own kernel.
        self._planes = Kernel(_PLANES, "normalize_planes", types[1:]) if usual else None

    def step(self, in_addresses: np.ndarray, out_addresses: np.ndarray, mirror: np.ndarray) -> Step:
        """The step for a batch; `mirror` int64[samples]: samples with a number other than 0 are mirrored."""
        entries = self._entries(in_addresses, out_addresses, mirror)
        step = TableStep(self._compiled.address, entries, no_explanation)
        step.launches = lambda: [self._launch(entries, in_addresses, len(mirror))]
        return step

    def _entries(self, in_addresses: np.ndarray, out_addresses: np.ndarray, mirror: np.ndarray) -> tuple[Any, ...]:
        """The words of the table."""
        mean, multiplier, fills = self._arrays
        return NORMALIZE.entries(
            inputs=in_addresses, outputs=out_addresses, records=self._records, step=self._step, mirrors=mirror, means=mean,
            multipliers=multiplier, fills=fills, channels=mean.shape[1], samples=self._count,
        )  # fmt: skip

    def _launch(self, context: tuple[Entry, ...], in_addresses: np.ndarray, count: int) -> Launch:
        """The launch for a GPU, over the entries of the step's table. Pictures that are resized or coloured only for this operator are
        resized or coloured here."""
        # The kernel for planes computes four elements at a time, so blocks have twice as many rows.
        grid = row_grid(-(-self._rows // 2) if self._planes else self._rows, self._width, count)

        def taken(pixels: Unstored) -> Launch | None:
            """The launch that resizes pictures, or changes their colours, while reading them."""
            if pixels.target is not in_addresses:
                return None
            if pixels.what == "colored" and self._planes is not None:
                kernel = self._planes._replace(defines=(*self._planes.defines, *pixels.defines))
                return Launch(kernel, (*context, *pixels.context), grid)
            if pixels.what == "resized" and self._interleaved == dict(pixels.defines)["CHANNELS"]:
                kernel = self._kernel._replace(defines=(*self._kernel.defines[:2], ("RESIZED", 1), *pixels.defines))
                return Launch(kernel, (*context, *pixels.context), tile_grid(self._rows, count))
            return None

        return Launch(self._planes or self._kernel, context, grid, takes=taken)
