"""ssd_random_crop: crop images, with their boxes and labels, as in the training of single-shot detectors."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...batch import Batch
from ...sampling.random_streams import StreamPosition
from ...sampling.stream_tables import position_words
from ...types import DALIDataType
from ..accepts import ELEMENTS, Input, Output, at_least, of_input
from ..base import Arg, Arguments, Environment, Iteration, Planned, SampleError, Schema, Spec, register
from ..moves.strided import Pieces, dense_strides, like
from ..random.random import StreamOperator
from .rows import all_rows, first_rows, rows_batch
from .ssd_crop_tables import SSD_CROP


@register
class SSDRandomCrop(StreamOperator):
    reads = (1, 2)
    schema = Schema(
        name="ssd_random_crop",
        doc="""Crops images at random so that boxes overlap the window enough; use `random_bbox_crop` in new programs.

        Inputs: images (HWC), boxes, FLOAT [n, 4], left, top, right, bottom, relative to the image; their labels [n, ...]. Outputs: the
        cropped images, the boxes whose centre is in the window, relative to it, and their labels. The least overlap (intersection
        over union) with all boxes is drawn from: any, 0.1, 0.3, 0.5, 0.7, 0.9; or the image is not cropped. Streams are DALI's, bit
        for bit, for the same seed.""",
        accepts=(
            Input(ELEMENTS, name="images", ranks=(3,)), Input((DALIDataType.FLOAT,), name="boxes", ranks=(2,)),
            Input(ELEMENTS, name="labels", ranks=at_least(1)),
        ),
        gives=(Output(), Output(of_input(1), of_input(1), of_input(1)), Output(of_input(2), of_input(2), of_input(2))),
        inputs=(3, 3),
        outputs=3,
        seeded=True,
        args=(Arg("num_attempts", "int", 1, "Windows that are tried for each overlap that is picked.", stream=True),),
    )

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        if spec.constant("num_attempts") < 0:
            raise ValueError(f"`num_attempts` must not be negative, got {spec.constant('num_attempts')}")
        from ..moves import strided_kernels
        from . import ssd_crop_kernels

        self._copy: Any = strided_kernels.copy_step
        self._draw: Any = ssd_crop_kernels.draw_ssd_crops
        self._draw.compile()

    def infer(self, dtypes: list[DALIDataType | None]) -> list[DALIDataType | None]:
        self._copy.compile()
        return [dtypes[0], DALIDataType.FLOAT, dtypes[2]]

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        images, boxes, labels = inputs
        wrong = boxes.shapes[:, 1] != 4
        if wrong.any():
            i = int(np.argmax(wrong))
            raise SampleError(i, f"boxes must be of shape [n, 4], got {boxes.shapes[i].tolist()}")
        counts = boxes.shapes[:, 0]
        wrong = labels.shapes[:, 0] != counts
        if wrong.any():
            i = int(np.argmax(wrong))
            raise SampleError(i, f"{int(labels.shapes[i, 0])} labels for {int(counts[i])} boxes")
        firsts, rows = first_rows(counts), np.ascontiguousarray(all_rows(boxes).reshape(-1, 4))
        windows, kept, chosen, cropped = self._windows(rows, firsts, iteration.position)
        left = first_rows(kept)
        moved = _moved(rows[chosen], np.repeat(windows, kept, axis=0), np.repeat(cropped, kept))
        pieces = self._pieces(images, windows)
        outputs = [
            pieces.output,
            rows_batch(moved, left, kept, DALIDataType.FLOAT, boxes.layout),
            rows_batch(all_rows(labels)[chosen], left, kept, labels.dtype, labels.layout),
        ]
        return Planned(outputs, [pieces.step(self._copy)])

    def _windows(
        self, rows: np.ndarray, firsts: np.ndarray, position: StreamPosition
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Windows float64[samples, 4], the number of boxes that each keeps, their indices (in all rows), and whether it is a crop."""
        count = len(firsts) - 1
        windows, kept, cropped = np.zeros((count, 4)), np.zeros(count, np.int64), np.zeros(count, np.int64)
        indices = np.zeros(len(rows), np.int32)
        table, _ = SSD_CROP.make(
            **position_words(position), samples=count, boxes=rows, firsts=firsts, attempts=self.spec.constant("num_attempts"),
            windows=windows, kept=kept, indices=indices, cropped=cropped,
        )  # fmt: skip
        self._draw(table.ctypes.data)
        own = np.arange(len(rows)) - np.repeat(firsts[:-1], np.diff(firsts)) < np.repeat(kept, np.diff(firsts))
        chosen = (indices + np.repeat(firsts[:-1], np.diff(firsts)))[own]
        return windows, kept, chosen, cropped != 0

    @staticmethod
    def _pieces(images: Batch, windows: np.ndarray) -> Pieces:
        """The images in their windows."""
        extents = images.shapes[:, [1, 0, 1, 0]]
        pixels = np.floor(windows * extents + 0.5).astype(np.int64)
        shapes = images.shapes.copy()
        shapes[:, 0], shapes[:, 1] = pixels[:, 3] - pixels[:, 1], pixels[:, 2] - pixels[:, 0]
        pieces, strides = Pieces(like(images, shapes)), dense_strides(images.shapes, images.itemsize)
        pieces.add(images, shapes, strides, pixels[:, 1] * strides[:, 0] + pixels[:, 0] * strides[:, 1])
        return pieces


def _moved(boxes: np.ndarray, windows: np.ndarray, cropped: np.ndarray) -> np.ndarray:
    """Boxes float32[n, 4] relative to their windows and clipped to them. Boxes of images that are not cropped stay unchanged."""
    low, high = windows[:, :2].astype(np.float32), windows[:, 2:].astype(np.float32)
    extents = high - low
    begin, end = np.maximum(boxes[:, :2], low), np.minimum(boxes[:, 2:], high)
    return np.where(cropped[:, None], np.concatenate([(begin - low) / extents, (end - low) / extents], axis=1), boxes)
