"""Selection of masks: find the polygons of each mask, and copy the selected ones. One call per batch."""

from __future__ import annotations

from ...compiled.intrinsics import copy_bytes, larger, load_i32, load_i64, store_i32, store_i64
from ...compiled.step import compiled, inlined
from .select_masks import SELECT_MASKS

at = SELECT_MASKS.at
TWICE, MISSING, OUT_OF_RANGE = 1, 2, 3
"""Reasons to refuse a sample: a repeated id, an id without a polygon, vertices that do not exist."""
CAUSES, PLACES = 4, 1 << 31
_EMPTY = -1


@inlined
def _slot(slots, mask, ids, id):
    """Address of the slot of `id`, or of the empty slot to insert it."""
    k = (id * 0x9E3779B1 >> 7) & mask
    while load_i64(slots + 8 * k) != _EMPTY and load_i32(ids + 4 * load_i64(slots + 8 * k)) != id:
        k = (k + 1) & mask
    return slots + 8 * k


@inlined
def _refused(sample, place, cause):
    return -1 - ((sample * PLACES + place) * CAUSES + cause)


@compiled(1, brief=True)
def measure(table):
    """Number the polygons of all samples; `table` is a SELECT_MASKS.

    Returns the largest number of ids of a sample, or -1 - the first sample whose polygons have not three columns.
    """
    firsts, shapes, most, polygons = load_i64(table + at.firsts), load_i64(table + at.polygon_shapes), 0, 0
    for i in range(load_i64(table + at.samples)):
        if load_i64(shapes + 16 * i + 8) != 3:
            return -1 - i
        store_i64(firsts + 8 * i, polygons)
        polygons += load_i64(shapes + 16 * i)
        most = larger(most, load_i64(load_i64(table + at.id_shapes) + 8 * i))
    store_i64(firsts + 8 * load_i64(table + at.samples), polygons)
    return most


@compiled(1, brief=True)
def choose(table):
    """Find the polygons of the ids, in the order of the ids; `table` is a SELECT_MASKS.

    Returns the bytes of the new vertices of all samples; or -1 - ((PLACES * sample + number of the id or polygon) * CAUSES + the cause) of
    the first sample that is refused.
    """
    size = 0
    slots, mask, begins = load_i64(table + at.slots), load_i64(table + at.slot_mask), load_i64(table + at.begins)
    for i in range(load_i64(table + at.samples)):
        ids, id_count = load_i64(load_i64(table + at.ids) + 8 * i), load_i64(load_i64(table + at.id_shapes) + 8 * i)
        polygons, count = load_i64(load_i64(table + at.polygons) + 8 * i), load_i64(load_i64(table + at.polygon_shapes) + 16 * i)
        available = load_i64(load_i64(table + at.vertex_shapes) + 16 * i)
        width = load_i64(load_i64(table + at.vertex_shapes) + 16 * i + 8)
        for k in range(mask + 1):
            store_i64(slots + 8 * k, _EMPTY)
        for k in range(id_count):
            slot = _slot(slots, mask, ids, load_i32(ids + 4 * k))
            if load_i64(slot) != _EMPTY:
                return _refused(i, k, TWICE)
            store_i64(slot, k)
            store_i64(begins + 8 * k, 0)
        total = 0
        for k in range(count):
            polygon = polygons + 12 * k
            index = load_i64(_slot(slots, mask, ids, load_i32(polygon)))
            if index != _EMPTY:
                begin, end = load_i32(polygon + 4), load_i32(polygon + 8)
                if begin < 0 or end < begin or end > available:
                    return _refused(i, k, OUT_OF_RANGE)
                store_i64(begins + 8 * index, load_i64(begins + 8 * index) + 1)
                total += end - begin
        kept = 0
        for k in range(id_count):
            own = load_i64(begins + 8 * k)
            if own == 0:
                return _refused(i, k, MISSING)
            store_i64(begins + 8 * k, kept)
            kept += own
        rows = load_i64(table + at.chosen) + 16 * load_i64(load_i64(table + at.firsts) + 8 * i)
        for k in range(count):
            index = load_i64(_slot(slots, mask, ids, load_i32(polygons + 12 * k)))
            if index != _EMPTY:
                place = load_i64(begins + 8 * index)
                store_i64(begins + 8 * index, place + 1)
                store_i64(rows + 16 * place, k)
                store_i64(rows + 16 * place + 8, index)
        store_i64(load_i64(table + at.kept) + 8 * i, kept)
        store_i64(load_i64(table + at.new_shapes) + 16 * i, total)
        store_i64(load_i64(table + at.new_shapes) + 16 * i + 8, width)
        store_i64(load_i64(table + at.new_vertices) + 8 * i, size)
        size += total * width * load_i64(table + at.itemsize)
    return size


@compiled(1)
def take(table):
    """Write the polygons that :func:`choose` found, and their vertices one after another."""
    for i in range(load_i64(table + at.samples)):
        first = load_i64(load_i64(table + at.firsts) + 8 * i)
        rows, made = load_i64(table + at.chosen) + 16 * first, load_i64(table + at.new_polygons) + 12 * first
        polygons, vertices = load_i64(load_i64(table + at.polygons) + 8 * i), load_i64(load_i64(table + at.vertices) + 8 * i)
        width = load_i64(load_i64(table + at.vertex_shapes) + 16 * i + 8) * load_i64(table + at.itemsize)
        target, before = load_i64(load_i64(table + at.new_vertices) + 8 * i), 0
        for k in range(load_i64(load_i64(table + at.kept) + 8 * i)):
            polygon = polygons + 12 * load_i64(rows + 16 * k)
            begin, end = load_i32(polygon + 4), load_i32(polygon + 8)
            store_i32(made + 12 * k, load_i64(rows + 16 * k + 8) if load_i64(table + at.reindex) != 0 else load_i32(polygon))
            store_i32(made + 12 * k + 4, before)
            before += end - begin
            store_i32(made + 12 * k + 8, before)
            copy_bytes(target, vertices + width * begin, width * (end - begin))
            target += width * (end - begin)
    return 0
