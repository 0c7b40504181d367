"""segmentation.select_masks: the polygons of some masks."""

from __future__ import annotations

import numpy as np

from ...batch import Batch
from ...types import DALIDataType
from ..accepts import ELEMENTS, Input, Output, of_input
from ..base import Arg, Arguments, Iteration, Operator, Planned, SampleError, Schema, register
from .rows import all_rows, elements_batch, first_rows, rows_batch


@register
class SelectMasks(Operator):
    """See the schema."""

    reads = (0, 1, 2)
    eager = True
    schema = Schema(
        name="segmentation.select_masks",
        doc="""The polygons of the masks that are named, in the order of their names, and their vertices.

        Inputs: ids of masks, INT32 [m], none twice; polygons, INT32 [n, 3]: id of the mask, first vertex, end of the vertices; vertices
        [v, coordinates] of any type. Outputs: polygons and vertices as the inputs, of the selected masks only.""",
        accepts=(
            Input((DALIDataType.INT32,), name="ids", ranks=(1,)), Input((DALIDataType.INT32,), name="polygons", ranks=(2,)),
            Input(ELEMENTS, name="vertices", ranks=(2,)),
        ),
        gives=(Output(of_input(1), of_input(1), of_input(1)), Output(of_input(2), of_input(2), of_input(2))),
        inputs=(3, 3),
        outputs=2,
        args=(Arg("reindex_masks", "bool", False, "Ids become their indices among the ids that are selected."),),
    )

    def infer(self, dtypes: list[DALIDataType | None]) -> list[DALIDataType | None]:
        return [DALIDataType.INT32, dtypes[2]]

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        ids, polygons, vertices = inputs
        self._check_columns(polygons)
        rows, place = self._selected(ids, polygons)
        sample = rows[:, 0]
        widths, counts = vertices.shapes[:, 1], rows[:, 3] - rows[:, 2]
        self._check_ranges(rows, vertices.shapes[:, 0])
        # Vertices are taken as elements, for samples may differ in their coordinates.
        sizes = counts * widths[sample]
        begins = first_rows(vertices.shapes.prod(axis=1))[sample] + rows[:, 2] * widths[sample]
        ends = np.cumsum(sizes)
        elements = np.arange(int(sizes.sum())) - np.repeat(ends - sizes, sizes) + np.repeat(begins, sizes)
        taken = np.concatenate([vertices.sample(i).reshape(-1) for i in range(len(vertices))] or [np.zeros(0)])[elements]
        totals = np.bincount(sample, counts, len(ids)).astype(np.int64)
        before = np.cumsum(counts) - counts - (np.cumsum(totals) - totals)[sample]
        made = np.stack([place if self.spec.constant("reindex_masks") else rows[:, 1], before, before + counts], axis=1).astype(np.int32)
        kept = np.bincount(sample, minlength=len(ids))
        return Planned([
            rows_batch(made, first_rows(kept), kept, DALIDataType.INT32, polygons.layout),
            elements_batch(taken, np.stack([totals, widths], axis=1), vertices.dtype, vertices.layout),
        ])  # fmt: skip

    @staticmethod
    def _check_columns(polygons: Batch) -> None:
        wrong = polygons.shapes[:, 1] != 3
        if wrong.any():
            i = int(np.argmax(wrong))
            raise SampleError(i, f"polygons must have 3 columns (mask id, first vertex, end), got {int(polygons.shapes[i, 1])}")

    @staticmethod
    def _selected(ids: Batch, polygons: Batch) -> tuple[np.ndarray, np.ndarray]:
        """Rows (sample, id, first vertex, end), int64, of the polygons selected, in order; and the index of each one's id."""
        id_sample = np.repeat(np.arange(len(ids)), ids.shapes[:, 0])
        polygon_sample = np.repeat(np.arange(len(polygons)), polygons.shapes[:, 0])
        wanted, rows = all_rows(ids).astype(np.int64), all_rows(polygons).reshape(-1, 3).astype(np.int64)
        keys = (id_sample << 32) + wanted
        order = np.argsort(keys, kind="stable")
        ordered = keys[order]
        twice = ordered[1:] == ordered[:-1]
        if twice.any():
            k = int(order[1:][twice].min())
            raise SampleError(int(id_sample[k]), f"the mask {int(wanted[k])} is selected twice")
        has = (polygon_sample << 32) + rows[:, 0]
        at = np.minimum(np.searchsorted(ordered, has), len(ordered) - 1)
        chosen = np.flatnonzero(ordered[at] == has) if len(ordered) else np.zeros(0, np.int64)
        position = order[at[chosen]] if len(chosen) else np.zeros(0, np.int64)
        missing = np.setdiff1d(np.arange(len(wanted)), position)
        if len(missing):
            k = int(missing[0])
            raise SampleError(int(id_sample[k]), f"the mask {int(wanted[k])} is selected, but no polygon belongs to it")
        by_id = np.argsort(position, kind="stable")
        chosen, position = chosen[by_id], position[by_id]
        selected = np.concatenate([polygon_sample[chosen, None], rows[chosen]], axis=1)
        return selected, position - first_rows(ids.shapes[:, 0])[selected[:, 0]]

    @staticmethod
    def _check_ranges(rows: np.ndarray, available: np.ndarray) -> None:
        begin, end, most = rows[:, 2], rows[:, 3], available[rows[:, 0]]
        wrong = (begin < 0) | (end < begin) | (end > most)
        if wrong.any():
            k = int(np.argmax(wrong))
            message = f"a polygon of mask {rows[k, 1]} has the vertices {begin[k]} to {end[k]}; there are {most[k]}"
            raise SampleError(int(rows[k, 0]), message)
