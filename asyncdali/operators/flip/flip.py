"""flip: reverse the width, height or depth."""

from __future__ import annotations

import numpy as np

from ...batch import Batch
from ...compiled.tables import INPUTS, OUTPUTS, SAMPLES, Field, Table
from ...device.launch import Launch
from ..accepts import NUMBERS_AND_BOOL, Input, Output, listed
from ..base import Arg, Arguments, Iteration, Planned, Schema, register
from ..kernel_operator import KernelOperator, Kernels, Names
from ..moves.pieces import move_launch
from ..moves.pieces_tables import PIECE_HEAD

FLIP_RECORD = Table(
    "FLIP_RECORD",
    Field("outer", "int64", "frames times leading channels"),
    Field("depth", "int64", "planes"),
    Field("height", "int64", "rows"),
    Field("width", "int64", "pixels of a row"),
    Field("pixel", "int64", "bytes of a pixel"),
    Field("depthwise", "int64", "1: planes in reverse order"),
    Field("vertical", "int64", "1: rows in reverse order"),
    Field("horizontal", "int64", "1: pixels of a row in reverse order"),
)
FLIP = Table("FLIP", INPUTS, OUTPUTS, Field("records", "FLIP_RECORD[samples]", "what is reversed"), SAMPLES)

LAYOUTS = ("HWC", "FHWC", "DHWC", "FDHWC", "CHW", "FCHW", "CDHW", "FCDHW")


@register
class Flip(KernelOperator):
    repeatable = True
    on_cuda = True
    kernel_module = "flip_kernels"
    schema = Schema(
        name="flip",
        doc="Flips images, sequences and volumes along the axes whose argument is not zero. Layouts: [F][D]HWC, [F]C[D]HW.",
        accepts=(Input(NUMBERS_AND_BOOL, listed(*LAYOUTS), "images"),),
        gives=(Output(),),
        args=(
            Arg("depthwise", "int", 0, "Flip the depth.", tensor=True),
            Arg("horizontal", "int", 1, "Flip the width.", tensor=True),
            Arg("vertical", "int", 0, "Flip the height.", tensor=True),
        ),
        devices=("cpu", "gpu"),
    )

    def kernels_for(self, inputs: Names, outputs: Names) -> Kernels:
        return [self.kernels.flip_step]

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        source = inputs[0]
        layout = self.layout_of(source)
        output = self.output(source)
        first = layout.index("D") if "D" in layout else layout.index("H")
        height = layout.index("H")
        records, word = FLIP_RECORD.ones(len(source)), FLIP_RECORD.word
        records[:, word.outer] = source.shapes[:, :first].prod(axis=1)
        if "D" in layout:
            records[:, word.depth] = source.shapes[:, first]
        records[:, word.height] = source.shapes[:, height]
        records[:, word.width] = source.shapes[:, height + 1]
        records[:, word.pixel] = source.shapes[:, height + 2 :].prod(axis=1) * source.itemsize
        for name in ("depthwise", "vertical", "horizontal"):
            records[:, FLIP_RECORD.columns(name)] = arguments.scalars(name, np.int64) != 0
        entries = FLIP.entries(inputs=source.addresses, outputs=output.addresses, records=records, samples=len(records))
        step = self.step(self.kernels.flip_step, entries)
        step.launches = lambda: [_launch(source, output, records)]
        return Planned([output], [step])


_AXES = 5  # Frames and leading channels, depth, height, width, bytes of a pixel.


def _launch(source: Batch, output: Batch, records: np.ndarray) -> Launch:
    """The launch that moves pieces: a reversed axis starts at its last element and has a negative stride."""
    count, word = len(records), FLIP_RECORD.word
    bytes_at_once = 4 if not (records[:, word.pixel] % 4).any() else 1
    sides = [records[:, k] for k in (word.outer, word.depth, word.height, word.width)]
    turned = [np.zeros(count, np.int64), *(records[:, k] != 0 for k in (word.depthwise, word.vertical, word.horizontal))]
    pieces = np.zeros((count, 1, PIECE_HEAD.words + 3 * _AXES), np.int64)
    columns = pieces[:, 0, PIECE_HEAD.words :]
    extents, strides, targets = columns[:, :_AXES], columns[:, _AXES : 2 * _AXES], columns[:, 2 * _AXES :]
    extents[:, -1], strides[:, -1], targets[:, -1] = records[:, word.pixel] // bytes_at_once, bytes_at_once, bytes_at_once
    stride = records[:, word.pixel].copy()
    for axis in range(_AXES - 2, -1, -1):
        extents[:, axis], targets[:, axis] = sides[axis], stride
        strides[:, axis] = np.where(turned[axis], -stride, stride)
        pieces[:, 0, PIECE_HEAD.word.offset] += np.where(turned[axis], (sides[axis] - 1) * stride, 0)
        stride *= sides[axis]
    name = f"uint{8 * bytes_at_once}"
    types = ("IN", name), ("OUT", name)
    return move_launch(source.addresses, output.addresses, pieces, 0, types, (bytes_at_once, bytes_at_once))
