"""ssd_random_crop: crop images, with their boxes and labels, as in the training of single-shot detectors."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...batch import Batch
from ...compiled.addresses import address_of
from ...compiled.tables import SAMPLES, Field, Table
from ...sampling.random_streams import StreamPosition
from ...sampling.stream_tables import POSITION, position_words
from ...types import DALIDataType
from ..accepts import ELEMENTS, Input, Output, at_least, of_input
from ..base import Arg, Arguments, Environment, Iteration, Planned, Schema, Spec, refuse_where, register
from ..moves.pieces import Pieces, dense_strides, like
from ..random.random import StreamOperator
from .rows import all_rows, first_rows, rows_batch, taken_rows

SSD_CROP = Table(
    "SSD_CROP",
    POSITION,
    SAMPLES,
    Field("boxes", "float32[all, 4]", "left, top, right, bottom of all samples' boxes"),
    Field("firsts", "int64[samples + 1]", "first box of each sample"),
    Field("attempts", "int64", "proposals for each choice"),
    Field("images", "int64[samples, 3]", "shapes of the images, HWC"),
    Field("itemsize", "int64", "bytes of an element of an image"),
    Field("shapes", "int64[samples, 3]", "of the cropped images; written by the kernel"),
    Field("offsets", "int64[samples]", "bytes before the first pixel of the window; written by the kernel"),
    Field("kept", "int64[samples]", "boxes that are left; written by the kernel"),
    Field("indices", "int32[all]", "numbers of these boxes in their samples; written by the kernel"),
    Field("moved", "float32[all, 4]", "these boxes in their windows; written by the kernel"),
)


@register
class SSDRandomCrop(StreamOperator):
    reads = (1, 2)
    schema = Schema(
        name="ssd_random_crop",
        graphs_only=True,
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
        from ..moves import pieces_kernels
        from . import rows_kernels, ssd_random_crop_kernels

        self._copy: Any = pieces_kernels.copy_step
        self._draw: Any = ssd_random_crop_kernels.draw_ssd_crops
        self._draw.compile()
        self._gather: Any = rows_kernels.gather_rows
        self._gather.compile()

    def infer(self, dtypes: list[DALIDataType | None]) -> list[DALIDataType | None]:
        self._copy.compile()
        return [dtypes[0], DALIDataType.FLOAT, dtypes[2]]

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        images, boxes, labels = inputs
        refuse_where(boxes.shapes[:, 1] != 4, lambda i: f"boxes must be of shape [n, 4], got {boxes.shapes[i].tolist()}")
        counts = boxes.shapes[:, 0]
        refuse_where(labels.shapes[:, 0] != counts, lambda i: f"{int(labels.shapes[i, 0])} labels for {int(counts[i])} boxes")
        firsts, rows = first_rows(counts), np.ascontiguousarray(all_rows(boxes).reshape(-1, 4))
        shapes, offsets, kept, indices, moved = self._windows(rows, firsts, images, iteration.position)
        pieces, strides = Pieces(like(images, shapes)), dense_strides(images.shapes, images.itemsize)
        pieces.add(images, shapes, strides, offsets)
        left = taken_rows(all_rows(labels), firsts, kept, indices, self._gather)
        outputs = [
            pieces.output,
            rows_batch(moved, firsts, kept, DALIDataType.FLOAT, boxes.layout),
            rows_batch(left, firsts, kept, labels.dtype, labels.layout),
        ]
        return Planned(outputs, [pieces.step(self._copy)])

    def _windows(
        self, rows: np.ndarray, firsts: np.ndarray, images: Batch, position: StreamPosition
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Shapes int64[samples, 3] and offsets in bytes of the windows, the number of boxes that each keeps, their indices, and the boxes
        in their windows."""
        count = len(firsts) - 1
        shapes, offsets, kept = np.empty((count, 3), np.int64), np.empty(count, np.int64), np.empty(count, np.int64)
        indices, moved = np.empty(len(rows), np.int32), np.empty_like(rows)
        table, keep = SSD_CROP.make(
            **position_words(position), samples=count, boxes=rows, firsts=firsts, attempts=self.spec.constant("num_attempts"),
            images=np.ascontiguousarray(images.shapes), itemsize=images.itemsize, shapes=shapes, offsets=offsets, kept=kept,
            indices=indices, moved=moved,
        )  # fmt: skip
        self._draw(address_of(table))
        del keep
        return shapes, offsets, kept, indices, moved
