"""experimental.remap: two maps give the source position of every pixel."""

from __future__ import annotations

import numpy as np

from ...batch import Batch, storage_dtype
from ...types import DALIDataType, DALIInterpType
from ..accepts import Input, Output, listed
from ..base import Arg, Arguments, Environment, Iteration, Operator, Planned, SampleError, Schema, Spec, register
from ..moves.strided import like
from .remap_tables import REMAP_RECORD

_TYPES = (DALIDataType.UINT8, DALIDataType.UINT16, DALIDataType.INT16, DALIDataType.FLOAT)
_MAP_LAYOUTS = ("HW", "HWC", "FHW", "FHWC")


@register
class Remap(Operator):
    repeatable = True
    on_cuda = True
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
        moved_inputs=(1, 2),
        devices=("cpu", "gpu"),
        args=(
            Arg("interp", "interp", DALIInterpType.INTERP_LINEAR, "INTERP_NN or INTERP_LINEAR."),
            Arg(
                "pixel_origin", "str", "corner", 'Position of 0 in a map: the "corner" of the first pixel, or its "center" (as in OpenCV).',
            ),
        ),
    )

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        if spec.constant("interp") not in (DALIInterpType.INTERP_NN, DALIInterpType.INTERP_LINEAR):
            raise ValueError(f"`interp` must be INTERP_NN or INTERP_LINEAR, got {spec.constant('interp').name}")
        if spec.constant("pixel_origin") not in ("corner", "center"):
            raise ValueError(f'`pixel_origin` must be "corner" or "center", got {spec.constant("pixel_origin")!r}')
        from . import remap_kernels

        self._kernels = remap_kernels

    def infer(self, dtypes: list[DALIDataType | None]) -> list[DALIDataType | None]:
        source = DALIDataType.UINT8 if dtypes[0] is None else dtypes[0]
        if source in _TYPES:
            self._kernels.remap_step(storage_dtype(source).name).compile()
        return [dtypes[0]]

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        source = inputs[0]
        layout = self.layout_of(source)
        records, word = REMAP_RECORD.ones(len(source)), REMAP_RECORD.word
        records[:, REMAP_RECORD.span("frames" if "F" in layout else "height", "channels")] = source.shapes
        for name, batch in (("mapx", inputs[1]), ("mapy", inputs[2])):
            step = _map_step(name, batch, records, "F" in layout)
            records[:, word.step_x if name == "mapx" else word.step_y] = step
        linear = self.spec.constant("interp") == DALIInterpType.INTERP_LINEAR
        corner = self.spec.constant("pixel_origin") == "corner"
        output = like(source, layout=layout)
        return Planned([output], [self._kernels.make_remap_step(inputs, output, records, linear, corner)])


def _map_step(name: str, batch: Batch, records: np.ndarray, frames: bool) -> np.ndarray:
    """Distance in elements between the maps of two frames, int64[samples]. Checks the maps of a batch."""
    word = REMAP_RECORD.word
    layout = batch.layout or ("HW", "FHW" if frames else "HWC", "FHWC")[batch.ndim - 2]
    if layout[0] == "F" and not frames:
        raise ValueError(f"`{name}` has frames (layout {layout}), the images have none")
    first = layout.index("H")
    wrong = (batch.shapes[:, first : first + 2] != records[:, REMAP_RECORD.span("height", "width")]).any(axis=1)
    wrong |= (batch.shapes[:, first + 2 :] != 1).any(axis=1)
    counts = batch.shapes[:, 0] if first else np.ones(len(batch), np.int64)
    wrong |= (counts != 1) & (counts != records[:, word.frames])
    if wrong.any():
        i = int(np.argmax(wrong))
        image = records[i, REMAP_RECORD.span("frames" if frames else "height", "width")]
        raise SampleError(i, f"`{name}` has the shape {batch.shapes[i].tolist()}; the image has {image.tolist()}")
    return np.where(counts == 1, 0, records[:, word.height] * records[:, word.width])
