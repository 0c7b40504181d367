"""segmentation.select_masks: the polygons of some masks."""

from __future__ import annotations

import numpy as np

from ...batch import Batch
from ...compiled.addresses import address_of
from ...types import DALIDataType
from ..accepts import ELEMENTS, Input, Output, of_input
from ..base import Arg, Arguments, Environment, Iteration, Operator, Planned, SampleError, Schema, Spec, register
from ..detection.rows import first_rows, rows_batch
from .select_masks_tables import SELECT_MASKS


@register
class SelectMasks(Operator):
    reads = (0, 1, 2)
    eager = True
    schema = Schema(
        name="segmentation.select_masks",
        doc="""The polygons of the given masks, in the order of the given ids, and their vertices.

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

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        from . import select_masks_kernels

        self._kernels = select_masks_kernels
        self._kernels.choose.compile()
        self._kernels.take.compile()

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        ids, polygons, vertices = inputs
        self._check_columns(polygons)
        count, id_counts, polygon_counts = len(ids), np.ascontiguousarray(ids.shapes[:, 0]), np.ascontiguousarray(polygons.shapes[:, 0])
        firsts, most = first_rows(polygon_counts), int(id_counts.max(initial=0))
        kept, totals = np.empty((2, count), np.int64)
        made = np.empty((int(firsts[-1]), 3), np.int32)
        points = Batch(np.empty((count, 2), np.int64), vertices.dtype, vertices.layout)
        slots = 1 << (2 * most).bit_length()
        table, keep = SELECT_MASKS.make(
            samples=count, ids=ids.addresses, id_counts=id_counts, polygons=polygons.addresses, polygon_counts=polygon_counts,
            vertices=vertices.addresses, vertex_shapes=np.ascontiguousarray(vertices.shapes), itemsize=vertices.itemsize,
            reindex=self.spec.constant("reindex_masks"), slots=np.empty(slots, np.int64), slot_mask=slots - 1,
            begins=np.empty(most + 1, np.int64), firsts=firsts, chosen=np.empty((len(made), 2), np.int64), kept=kept, totals=totals,
            new_polygons=made, new_vertices=points.addresses,
        )  # fmt: skip
        refused = self._kernels.choose(address_of(table))
        if refused:
            self._refuse(refused, ids, polygons, vertices)
        points.shapes[:, 0], points.shapes[:, 1] = totals, vertices.shapes[:, 1]
        points.reserve(lambda size: np.empty(size, np.uint8))
        self._kernels.take(address_of(table))
        del keep
        return Planned([rows_batch(made, firsts, kept, DALIDataType.INT32, polygons.layout), points])

    @staticmethod
    def _check_columns(polygons: Batch) -> None:
        wrong = polygons.shapes[:, 1] != 3
        if wrong.any():
            i = int(np.argmax(wrong))
            raise SampleError(i, f"polygons must have 3 columns (mask id, first vertex, end), got {int(polygons.shapes[i, 1])}")

    def _refuse(self, refused: int, ids: Batch, polygons: Batch, vertices: Batch) -> None:
        where, cause = divmod(refused, self._kernels.CAUSES)
        i, k = divmod(where, self._kernels.PLACES)
        if cause == self._kernels.OUT_OF_RANGE:
            mask, begin, end = polygons.sample(i)[k].tolist()
            available = int(vertices.shapes[i, 0])
            raise SampleError(i, f"the polygon of mask {mask} refers to vertices {begin} to {end}; the sample has {available} vertices")
        twice = cause == self._kernels.TWICE
        what = "is selected twice" if twice else "is selected, but has no polygon"
        raise SampleError(i, f"the mask {int(ids.sample(i)[k])} {what}")
