"""experimental.remap: two maps give the source position of every pixel."""

from __future__ import annotations

import numpy as np

from ...batch import Batch
from ...compiled.tables import Field, Table
from ...types import DALIDataType, DALIInterpType
from ..accepts import Input, Output, listed
from ..base import Arg, Arguments, Environment, Example, Iteration, Planned, Schema, Spec, refuse_where, register
from ..samples import SampleOperator, stored

REMAP = Table(
    "REMAP",
    Field("frames", "int64", "images one after another"),
    Field("height", "int64", "rows"),
    Field("width", "int64", "pixels of a row"),
    Field("channels", "int64", "elements of a pixel"),
    Field("step", "int64", "elements from one frame's map to the next, 0 if one is for all", "xy"),
    Field("linear", "int64", "1: linear interpolation, 0: nearest pixel"),
    Field("corner", "int64", "1: the centre of the first pixel is at 0.5, 0: at 0"),
)
word = REMAP.word
_F = np.float32

_TYPES = (DALIDataType.UINT8, DALIDataType.UINT16, DALIDataType.INT16, DALIDataType.FLOAT)
_LINEAR = DALIInterpType.INTERP_LINEAR
_MAP_LAYOUTS = ("HW", "HWC", "FHW", "FHWC")


@register
class Remap(SampleOperator):
    repeatable = True
    schema = Schema(
        name="experimental.remap",
        doc="""Moves the pixels of images: output pixel (y, x) is the input's pixel at column ``mapx[y, x]`` and row ``mapy[y, x]``.

        Inputs: images (HWC, FHWC; UINT8, UINT16, INT16 or FLOAT), maps of columns and of rows (FLOAT; HW, HWC with one channel, or with
        frames in front; as high and wide as the image). A map without frames, or with one frame, applies to all frames. Pixels
        outside of the image are 0.""",
        accepts=(
            Input(_TYPES, listed("HWC", "FHWC"), "images"), Input((DALIDataType.FLOAT,), listed(*_MAP_LAYOUTS), "mapx"),
            Input((DALIDataType.FLOAT,), listed(*_MAP_LAYOUTS), "mapy"),
        ),
        gives=(Output(),),
        inputs=(3, 3),
        input_names=("input", "mapx", "mapy"),
        moved_inputs=(1, 2),
        devices=("cpu", "gpu"),
        args=(
            Arg("interp", "interp", DALIInterpType.INTERP_LINEAR, "INTERP_NN or INTERP_LINEAR."),
            Arg(
                "pixel_origin", "str", "corner", 'Position of 0 in a map: the "corner" of the first pixel, or its "center" (as in OpenCV).',
            ),
        ),
        examples=(
            Example(
                ([[[10], [20]], [[30], [40]]], [[0.5, 1.0], [0.5, 1.5]], [[0.5, 0.5], [1.5, 9.0]]), ([[[10], [15]], [[30], [0]]],),
                layout="HWC",
            ),
        ),
    )  # fmt: skip
    record = REMAP

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        if spec.constant("interp") not in (DALIInterpType.INTERP_NN, DALIInterpType.INTERP_LINEAR):
            raise ValueError(f"`interp` must be INTERP_NN or INTERP_LINEAR, got {spec.constant('interp').name}")
        if spec.constant("pixel_origin") not in ("corner", "center"):
            raise ValueError(f'`pixel_origin` must be "corner" or "center", got {spec.constant("pixel_origin")!r}')

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        source, frames = inputs[0], "F" in self.layout_of(inputs[0])
        extents = np.ones((len(source), 4), np.int64)
        extents[:, -source.ndim :] = source.shapes
        steps = {f"step_{axis}": _map_step(f"map{axis}", batch, extents, frames) for axis, batch in zip("xy", inputs[1:], strict=True)}
        words = dict(zip(("frames", "height", "width", "channels"), extents.T, strict=True))
        linear, corner = (self.spec.constant(name) == value for name, value in (("interp", _LINEAR), ("pixel_origin", "corner")))
        pixels = extents[:, :3].prod(axis=1)
        return self.planned(inputs, [self.output(source)], arguments, pixels, linear=int(linear), corner=int(corner), **words, **steps)

    @staticmethod
    def sample(
        image: np.ndarray, xs: np.ndarray, ys: np.ndarray, out: np.ndarray, record: np.ndarray, numbers: np.ndarray
    ) -> None:
        height, width, channels = record[word.height], record[word.width], record[word.channels]
        extents = height, width, channels
        count, linear, shift = height * width, record[word.linear] != 0, _F(0.5) if record[word.corner] != 0 else _F(0)
        for frame in range(record[word.frames]):
            first, first_x, first_y = frame * count * channels, frame * record[word.step_x], frame * record[word.step_y]
            pixels, made = image[first : first + count * channels], out[first : first + count * channels]
            columns, rows = xs[first_x : first_x + count], ys[first_y : first_y + count]
            for i in range(count):
                x, y = _F(columns[i] - shift), _F(rows[i] - shift)
                # Written this way, NaN lies outside.
                if not (x > _F(-1) and x < _F(width) and y > _F(-1) and y < _F(height)):
                    for c in range(channels):
                        made[i * channels + c] = 0
                    continue
                if not linear:
                    column, row = int(np.floor(x + _F(0.5))), int(np.floor(y + _F(0.5)))
                    inside = 0 <= column < width and 0 <= row < height
                    for c in range(channels):
                        made[i * channels + c] = pixels[(row * width + column) * channels + c] if inside else 0
                    continue
                column, row = int(np.floor(x)), int(np.floor(y))
                fx, fy = _F(x - _F(column)), _F(y - _F(row))
                for c in range(channels):
                    a, b = _tap(pixels, row, column, c, extents), _tap(pixels, row, column + 1, c, extents)
                    upper = _F(a + _F(_F(b - a) * fx))
                    a, b = _tap(pixels, row + 1, column, c, extents), _tap(pixels, row + 1, column + 1, c, extents)
                    lower = _F(a + _F(_F(b - a) * fx))
                    made[i * channels + c] = stored(_F(upper + _F(_F(lower - upper) * fy)))


def _tap(pixels: np.ndarray, y: int, x: int, c: int, extents: tuple[int, int, int]) -> np.float32:
    """An element as float32; 0 outside."""
    height, width, channels = extents
    if 0 <= y < height and 0 <= x < width:
        return _F(pixels[(y * width + x) * channels + c])
    return _F(0)


def _map_step(name: str, batch: Batch, extents: np.ndarray, frames: bool) -> np.ndarray:
    """Distance in elements between the maps of two frames, int64[samples]. Checks the maps; `extents` of images are int64[samples, 4]."""
    layout = batch.layout or ("HW", "FHW" if frames else "HWC", "FHWC")[batch.ndim - 2]
    if layout[0] == "F" and not frames:
        raise ValueError(f"`{name}` has frames (layout {layout}), the images have none")
    first = layout.index("H")
    wrong = (batch.shapes[:, first : first + 2] != extents[:, 1:3]).any(axis=1)
    wrong |= (batch.shapes[:, first + 2 :] != 1).any(axis=1)
    counts = batch.shapes[:, 0] if first else np.ones(len(batch), np.int64)
    wrong |= (counts != 1) & (counts != extents[:, 0])
    images = extents[:, 0 if frames else 1 : 3]
    refuse_where(wrong, lambda i: f"`{name}` has the shape {batch.shapes[i].tolist()}; the image has {images[i].tolist()}")
    return np.where(counts == 1, 0, extents[:, 1] * extents[:, 2])
