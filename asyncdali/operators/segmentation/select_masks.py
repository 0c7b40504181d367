"""segmentation.select_masks: the polygons of some masks."""

from __future__ import annotations

import numpy as np
from asyncdali_workers import limits

from ...batch import Batch
from ...compiled.addresses import address_of
from ...compiled.tables import SAMPLES, Field, Table
from ...types import DALIDataType
from ..accepts import ELEMENTS, Input, Output, of_input
from ..base import Arg, Arguments, Environment, Iteration, Operator, Planned, SampleError, Schema, Spec, register
from ..detection.rows import rows_batch

SELECT_MASKS = Table(
    "SELECT_MASKS",
    SAMPLES,
    Field("ids", "addresses", "of the samples' ids"),
    Field("id_shapes", "int64[samples, 1]", "ids of each sample"),
    Field("polygons", "addresses", "of the samples' polygons"),
    Field("polygon_shapes", "int64[samples, 2]", "polygons of each sample, and 3"),
    Field("vertices", "addresses", "of the samples' vertices"),
    Field("vertex_shapes", "int64[samples, 2]", "vertices of each sample, coordinates of a vertex"),
    Field("itemsize", "int64", "bytes of a coordinate"),
    Field("reindex", "int64", "1: ids become their indices; 0: they stay"),
    Field("slots", "int64[most slots]", "scratch: a hash table of a sample's ids"),
    Field("slot_mask", "int64", "slots - 1; slots are a power of two, twice as many as ids or more"),
    Field("begins", "int64[most ids + 1]", "scratch: where the polygons of each id begin"),
    Field("firsts", "int64[samples + 1]", "first row in `chosen`; a sample has as many rows as polygons; written by `measure`"),
    Field("chosen", "int64[all, 2]", "number of the polygon, index of its id; written by `choose`"),
    Field("kept", "int64[samples]", "polygons that are selected; written by `choose`"),
    Field("new_shapes", "int64[samples, 2]", "vertices that are selected, coordinates of a vertex; written by `choose`"),
    Field("new_polygons", "int32[all, 3]", "in rows as `chosen`; written by `take`"),
    Field("new_vertices", "addresses", "of the samples' new vertices, written by `take`; `choose` writes their offsets"),
)


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
        input_names=("mask_ids", "polygons", "vertices"),
        outputs=2,
        args=(Arg("reindex_masks", "bool", False, "Output polygons name a mask by its index in the first input, not by its id."),),
    )

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        from ...compiled.step import compile_all
        from . import select_masks_kernels

        self._kernels = select_masks_kernels
        compile_all(select_masks_kernels)

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        ids, polygons, vertices = inputs
        count, itemsize = len(ids), vertices.itemsize
        firsts, kept = np.empty(count + 1, np.int64), np.empty(count, np.int64)
        shapes, addresses = np.empty((count, 2), np.int64), np.empty(count, np.int64)
        table, keep = SELECT_MASKS.make(
            samples=count, ids=ids.addresses, id_shapes=np.ascontiguousarray(ids.shapes), polygons=polygons.addresses,
            polygon_shapes=np.ascontiguousarray(polygons.shapes), vertices=vertices.addresses,
            vertex_shapes=np.ascontiguousarray(vertices.shapes), itemsize=itemsize, reindex=self.spec.constant("reindex_masks"), slots=0,
            slot_mask=0, begins=0, firsts=firsts, chosen=0, kept=kept, new_shapes=shapes, new_polygons=0, new_vertices=addresses,
        )  # fmt: skip
        at, word = address_of(table), SELECT_MASKS.word
        most = self._kernels.measure(at)
        if most < 0:
            i = -1 - most
            raise SampleError(i, f"polygons must have 3 columns (mask id, first vertex, end), got {int(polygons.shapes[i, 1])}")
        slots, every = 1 << (2 * most).bit_length(), int(firsts[-1])
        made, scratch = np.empty((every, 3), np.int32), np.empty(slots + most + 1 + 2 * every, np.int64)
        table[word.new_polygons], table[word.slot_mask] = address_of(made), slots - 1
        table[word.slots] = free = address_of(scratch)
        table[word.begins] = free + 8 * slots
        table[word.chosen] = free + 8 * (slots + most + 1)
        size = self._kernels.choose(at)
        if size < 0:
            self._refuse(-1 - size, ids, polygons, vertices)
        points = Batch(shapes, vertices.dtype, vertices.layout, addresses, contiguous=True)
        if size >= limits.CHECKED:
            points.check_memory()
        points.owner = memory = np.empty(size, np.uint8)
        addresses += address_of(memory)
        self._kernels.take(at)
        del keep
        return Planned([rows_batch(made, firsts, kept, DALIDataType.INT32, polygons.layout), points])

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
