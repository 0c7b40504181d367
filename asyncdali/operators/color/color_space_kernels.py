"""The compiled step of color_space_conversion: ``round(matrix @ (colour - before) + after)`` in float32."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np

from ...batch import Batch
from ...compiled.intrinsics import load_f32, load_i64, view_u8
from ...compiled.step import Compiled, step_variant
from ...device.launch import Kernel, Launch, grid_of
from ...types import DALIImageType
from ..arrays.convert_kernels import converter
from ..base import Step, context_table, no_explanation

# Context table: 0 input addresses, 1 output addresses, 2 pixels int64[samples], 3 coefficients float32[15]: 0-8 matrix, a row per output
# channel, 9-11 before, 12-14 after; 4 place of the input's first channel in its pixels: 2 for BGR, which is read as RGB (sums of three are
# rounded in that order).

_SOURCE = Path(__file__).with_name("color_space_kernels.cu")
_LUMA = np.array([9798, 19235, 3735]) / 32768  # 0.299, 0.587, 0.114 as OpenCV has them: 15 bits; sums of products are exact in float32
_EXACT = np.array([0.299, 0.587, 0.114])
_TO_YCBCR = np.stack(
    [
        _EXACT * 219 / 255,
        (np.array([0, 0, 1]) - _EXACT) / (1 - 0.114) * 112 / 255,
        (np.array([1, 0, 0]) - _EXACT) / (1 - 0.299) * 112 / 255,
    ]
)
_SCALE = 255 / 219
_FROM_YCBCR = np.linalg.inv(_TO_YCBCR)
_FROM_YCBCR[0, 1] = _FROM_YCBCR[2, 2] = 0  # exactly
_OFFSET = (16, 128, 128)
_NOTHING = (0, 0, 0)
_SWAPPED = [2, 1, 0]


def _coefficients(source: DALIImageType, target: DALIImageType) -> np.ndarray:
    """float32[15], see the context table; the colours of the source are in the order RGB."""
    bgr, grey, ycbcr = DALIImageType.BGR, DALIImageType.GRAY, DALIImageType.YCbCr
    matrix, before, after = np.eye(3), _NOTHING, _NOTHING
    if grey in (source, target):
        matrix = np.zeros((3, 3))
    if source == ycbcr and target == grey:
        matrix[0, 0], before = _SCALE, (16, 0, 0)
    elif target == grey:
        matrix[0] = (1, 0, 0) if source == grey else _LUMA
    elif source == grey:
        matrix[:, 0] = (1 / _SCALE, 0, 0) if target == ycbcr else (1, 1, 1)
        after = _OFFSET if target == ycbcr else _NOTHING
    elif ycbcr in (source, target) and source != target:
        matrix, before, after = (_FROM_YCBCR, _OFFSET, _NOTHING) if source == ycbcr else (_TO_YCBCR, _NOTHING, _OFFSET)
    if target == bgr and source != grey:
        matrix = matrix[_SWAPPED]
    return np.concatenate([matrix.reshape(9), before, after]).astype(np.float32)


@cache
def conversion_step(in_channels: int, out_channels: int) -> Compiled:
    """The step for pixels of 1 or 3 channels."""
    convert = converter("float32", "uint8")
    wide_in, wide_out = in_channels == 3, out_channels == 3

    @step_variant(in_channels, out_channels)
    def conversion(context, sample, thread):
        count = load_i64(load_i64(context + 16) + 8 * sample)
        f, first = load_i64(context + 24), load_i64(context + 32)
        m0, m1, m2 = load_f32(f), load_f32(f + 4), load_f32(f + 8)
        m3, m4, m5 = load_f32(f + 12), load_f32(f + 16), load_f32(f + 20)
        m6, m7, m8 = load_f32(f + 24), load_f32(f + 28), load_f32(f + 32)
        b0, b1, b2 = load_f32(f + 36), load_f32(f + 40), load_f32(f + 44)
        a0, a1, a2 = load_f32(f + 48), load_f32(f + 52), load_f32(f + 56)
        source = view_u8(load_i64(load_i64(context) + 8 * sample), in_channels * count)
        out = view_u8(load_i64(load_i64(context + 8) + 8 * sample), out_channels * count)
        for i in range(count):
            x = np.float32(source[in_channels * i + first]) - b0
            y, z = np.float32(0), np.float32(0)
            if wide_in:
                y, z = np.float32(source[3 * i + 1]) - b1, np.float32(source[3 * i + 2 - first]) - b2
            out[out_channels * i] = convert(m0 * x + m1 * y + m2 * z + a0)
            if wide_out:
                out[3 * i + 1] = convert(m3 * x + m4 * y + m5 * z + a1)
                out[3 * i + 2] = convert(m6 * x + m7 * y + m8 * z + a2)
        return 0

    return conversion


def make_conversion_step(source: Batch, output: Batch, from_type: DALIImageType, to_type: DALIImageType) -> Step:
    """The step for a batch of uint8 images of `from_type`."""
    compiled_step = conversion_step(3 if from_type != DALIImageType.GRAY else 1, 3 if to_type != DALIImageType.GRAY else 1)
    counts = np.ascontiguousarray(source.shapes[:, :-1].prod(axis=1), np.int64)
    first = 2 if from_type == DALIImageType.BGR else 0
    values = (source.addresses, output.addresses, counts, _coefficients(from_type, to_type), first)
    table, keep = context_table(values)
    channels = ("FROM", 3 if from_type != DALIImageType.GRAY else 1), ("TO", 3 if to_type != DALIImageType.GRAY else 1)

    def launches() -> list[Launch]:
        grid = grid_of(int(counts.max(initial=0)), len(counts))
        return [Launch(Kernel(_SOURCE, "conversion", channels), (*values, len(counts)), grid)]

    return Step(compiled_step.address, table, no_explanation, keep=keep, launches=launches)
