"""random_crop_generator: random crop windows, as random_resized_crop draws them."""

from __future__ import annotations

import numpy as np

from ...batch import Batch
from ...sampling import random_streams
from ...types import DALIDataType
from ..accepts import INTEGERS, Input, Output
from ..base import Arg, Arguments, Environment, Iteration, Planned, SampleError, Schema, Spec, register
from .random import StreamOperator


@register
class RandomCropGenerator(StreamOperator):
    reads = (0,)
    eager = True
    schema = Schema(
        name="random_crop_generator",
        doc="""Draws crop windows as ``random_resized_crop`` and ``decoders.image_random_crop`` do.

        Input: shapes of images, (height, width) or with channels, integers.
        Outputs: anchor (y, x) and shape (height, width) of the window, INT32.
        Windows are DALI's for the same seed.""",
        accepts=(Input(INTEGERS, name="shapes of images", ranks=(1,)),),
        gives=(Output(DALIDataType.INT32, 1, ""),),
        outputs=2,
        seeded=True,
        args=(
            Arg("num_attempts", "int", 10, "Tries before a window is clipped to fit.", stream=True),
            Arg("random_area", "float_list", [0.08, 1.0], "Range of the window's part of the area.", stream=True),
            Arg("random_aspect_ratio", "float_list", [0.75, 4 / 3], "Range of width / height of the window.", stream=True),
        ),
    )

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        aspect, area = spec.constant("random_aspect_ratio"), spec.constant("random_area")
        self._rules = (tuple(aspect), tuple(area), spec.constant("num_attempts"))
        random_streams.draw_windows(self.start, [], [], *self._rules)  # Refuses impossible rules.
        random_streams.load_kernels().draw_windows.compile()

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        sizes = _sizes(inputs[0])
        anchors, extents = random_streams.draw_windows(iteration.position, sizes[:, 0], sizes[:, 1], *self._rules)
        return Planned([Batch.from_values(anchors), Batch.from_values(extents)])


def _sizes(batch: Batch) -> np.ndarray:
    """(height, width) of a batch of image shapes, which may have trailing channels; int64[samples, 2]."""
    extents = batch.shapes.prod(axis=1)
    wrong = (extents < 2) | (extents > 3)
    if wrong.any():
        i = int(np.argmax(wrong))
        raise SampleError(i, f"expected shapes of images, (height, width) or with channels behind, got a sample of shape {batch.shapes[i]}")
    if batch.values is not None:
        return batch.values[:, :2].astype(np.int64)
    return np.array([batch.sample(i)[:2] for i in range(len(batch))], np.int64).reshape(-1, 2)
