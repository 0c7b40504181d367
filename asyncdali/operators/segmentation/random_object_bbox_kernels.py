"""Random selection of objects of labelled masks: connected regions, their boxes, and the draw."""

from __future__ import annotations

from functools import cache

import numpy as np

from ...compiled import kinds
from ...compiled.convert_kernels import view
from ...compiled.intrinsics import c_function, larger, load_f32, load_i64, local_array, smaller, store_f32, store_i32, store_i64, view_i32
from ...compiled.job_tables import THREAD
from ...compiled.step import Compiled, inlined, step_variant
from ...sampling.random_distributions_kernels import canonical64, new_stream, up_to
from ...sampling.stream_kernels import open_sample
from .random_object_bbox import OBJECT, OBJECT_BBOX

_U, _F = np.uint64, np.float32
MOST_AXES = 6
OUT_OF_MEMORY = 1

at, object_at, record_at = OBJECT_BBOX.at, OBJECT.at, THREAD.at

_axes_array = local_array(np.int64, MOST_AXES)
# The number of objects is only known after the search. Memory for the worst case (every pixel an object) would be too large to reserve.
_allocate = c_function("malloc", kinds.int64, kinds.int64)
_release = c_function("free", kinds.int64, kinds.int64)

_HEAD = OBJECT.words
"""Words of an object's record before its box: start, then end, int64[axes] each."""


@inlined
def _root(parents, i):
    while parents[i] != i:
        parents[i] = parents[parents[i]]
        i = parents[i]
    return i


@inlined
def _next_row(coordinates, shape, axes):
    """Advance to the coordinates of the next row in memory."""
    k = axes - 2
    if k >= 0:
        coordinates[k] += 1
    while k > 0 and coordinates[k] == load_i64(shape + 8 * k):
        coordinates[k] = 0
        k -= 1
        coordinates[k] += 1


@inlined
def _number(parents, count):
    """Number the regions by their first element. Parents become -1 (none) or -2 - number. Returns the number of regions."""
    found = 0
    for i in range(count):
        parent = parents[i]
        if parent == i:
            parents[i] = -2 - found
            found += 1
        elif parent >= 0:
            parents[i] = parents[parent]
    return found


@inlined
def _fits(record, axes, least):
    if least != 0:
        for k in range(axes):
            if load_i64(record + 8 * (_HEAD + axes + k)) - load_i64(record + 8 * (_HEAD + k)) < load_i64(least + 8 * k):
                return False
    return True


@inlined
def _volume(record, axes):
    volume = 1
    for k in range(axes):
        volume *= load_i64(record + 8 * (_HEAD + axes + k)) - load_i64(record + 8 * (_HEAD + k))
    return volume


@inlined
def _counts(record, axes, any_class, label, least):
    """Whether an object may be picked."""
    return (any_class or load_i64(record + object_at.label) == label) and _fits(record, axes, least)


@inlined
def _pick(stream, objects, number, axes, any_class, label, least, largest):
    """Address of the record drawn among the selectable objects, or among the `largest` ones (0: all); 0 if there is none."""
    size, able = 8 * (_HEAD + 2 * axes), 0
    for k in range(number):
        able += 1 if _counts(objects + size * k, axes, any_class, label, least) else 0
    if able == 0:
        return 0
    if not 0 < largest < able:
        left, k = up_to(stream, able - 1), -1
        while left >= 0:
            k += 1
            left -= 1 if _counts(objects + size * k, axes, any_class, label, least) else 0
        return objects + size * k
    rank = up_to(stream, largest - 1)
    last, last_volume = -1, -1
    for _ in range(rank + 1):  # The next largest object; of equal ones the first.
        best, best_volume = -1, -1
        for k in range(number):
            record = objects + size * k
            if _counts(record, axes, any_class, label, least):
                volume = _volume(record, axes)
                behind = last < 0 or volume < last_volume or (volume == last_volume and k > last)
                if behind and volume > best_volume:
                    best, best_volume = k, volume
        last, last_volume = best, best_volume
    return objects + size * last


@inlined
def _sift(values, first, count):
    """Restore the heap order of int64 at address `values` below `first`."""
    while 2 * first + 1 < count:
        child = 2 * first + 1
        if child + 1 < count and load_i64(values + 8 * child) < load_i64(values + 8 * child + 8):
            child += 1
        above, below_it = load_i64(values + 8 * first), load_i64(values + 8 * child)
        if above >= below_it:
            return
        store_i64(values + 8 * first, below_it)
        store_i64(values + 8 * child, above)
        first = child


@inlined
def _classes_found(objects, number, axes, classes):
    """Write the classes of all objects, sorted and unique, into int64 at `classes`; returns their number."""
    size = 8 * (_HEAD + 2 * axes)
    for k in range(number):
        store_i64(classes + 8 * k, load_i64(objects + size * k + object_at.label))
    for k in range(number // 2 - 1, -1, -1):
        _sift(classes, k, number)
    for end in range(number - 1, 0, -1):
        last = load_i64(classes + 8 * end)
        store_i64(classes + 8 * end, load_i64(classes))
        store_i64(classes, last)
        _sift(classes, 0, end)
    kept = 0
    for k in range(number):
        value = load_i64(classes + 8 * k)
        if kept == 0 or load_i64(classes + 8 * kept - 8) != value:
            store_i64(classes + 8 * kept, value)
            kept += 1
    return kept


@inlined
def _is_there(objects, number, axes, label):
    size, there = 8 * (_HEAD + 2 * axes), False
    for k in range(number):
        there = there or load_i64(objects + size * k + object_at.label) == label
    return there


@inlined
def _pick_class(stream, objects, number, axes, classes, weights, count, least, largest):
    """Draw classes by weight until one has a selectable object; returns that object's record, or 0. Weights are consumed."""
    while True:
        total = 0.0
        for k in range(count):
            total += np.float64(load_f32(weights + 4 * k))
        if not total > 0.0:
            return 0
        position, sum_before = canonical64(stream) * np.float64(_F(total)), 0.0
        chosen = -1
        for k in range(count):
            sum_before += np.float64(load_f32(weights + 4 * k))
            if np.float64(_F(sum_before)) >= position and load_f32(weights + 4 * k) != _F(0):
                chosen = k
                break
        if chosen < 0:
            return 0
        found = _pick(stream, objects, number, axes, False, load_i64(classes + 8 * chosen), least, largest)
        if found != 0:
            return found
        store_f32(weights + 4 * chosen, _F(0))


@inlined
def _draw(context, sample, stream, objects, number, classes, weights):
    """The record of the object that is drawn, or 0. `classes` and `weights` have room for all possible classes."""
    axes, largest, least = load_i64(context + at.axes), load_i64(context + at.largest), load_i64(context + at.least)
    least = least + 8 * axes * sample if least != 0 else 0
    if load_i64(context + at.any_class) != 0:
        return _pick(stream, objects, number, axes, True, 0, least, largest)
    if load_i64(context + at.classes) == 0:
        count = _classes_found(objects, number, axes, classes)
        for k in range(count):
            store_f32(weights + 4 * k, _F(1))
    else:
        first = load_i64(load_i64(context + at.firsts) + 8 * sample)
        count = load_i64(load_i64(context + at.firsts) + 8 * sample + 8) - first
        for k in range(count):
            label = load_i64(load_i64(context + at.classes) + 8 * (first + k))
            store_i64(classes + 8 * k, label)
            there = _is_there(objects, number, axes, label)
            store_f32(weights + 4 * k, load_f32(load_i64(context + at.weights) + 4 * (first + k)) if there else _F(0))
    return _pick_class(stream, objects, number, axes, classes, weights, count, least, largest)


@inlined
def _write(context, sample, shape, record):
    """The box of a record, or of the whole mask (0)."""
    axes, extents = load_i64(context + at.axes), load_i64(context + at.extents) != 0
    begins = load_i64(load_i64(context + at.begins) + 8 * sample)
    ends = begins + 4 * axes if load_i64(context + at.ends) == 0 else load_i64(load_i64(context + at.ends) + 8 * sample)
    for k in range(axes):
        begin, end = np.int64(0), load_i64(shape + 8 * k)
        if record != 0:
            begin, end = load_i64(record + 8 * (_HEAD + k)), load_i64(record + 8 * (_HEAD + axes + k))
        store_i32(begins + 4 * k, np.int32(begin))
        store_i32(ends + 4 * k, np.int32(end - begin if extents else end))
    if load_i64(context + at.labels) != 0:
        label = load_i64(record + object_at.label) if record != 0 else load_i64(load_i64(context + at.backgrounds) + 8 * sample)
        store_i32(load_i64(load_i64(context + at.labels) + 8 * sample), np.int32(label))


@cache
def object_bbox_step(dtype: str) -> Compiled:
    """The step for the NumPy name of a mask's dtype."""
    elements = view(dtype)

    @inlined
    def regions(mask, parents, count, shape, axes, background):
        """Elements of equal value that share a face get one root, the first of them. The root is -1 for elements equal to `background`."""
        coordinates, strides = _axes_array(), _axes_array()
        stride = np.int64(1)
        for k in range(axes - 1, -1, -1):
            coordinates[k], strides[k] = 0, stride
            stride *= load_i64(shape + 8 * k)
        width = load_i64(shape + 8 * (axes - 1))
        for row in range(0, count, width):
            for i in range(row, row + width):
                value = mask[i]
                if np.int64(value) == background:
                    parents[i] = -1
                    continue
                run = i > row and mask[i - 1] == value
                parents[i] = parents[i - 1] if run else i
                for k in range(axes - 1):
                    above = i - strides[k]
                    # If the previous elements of both rows also have the value, the regions are already joined.
                    if coordinates[k] > 0 and mask[above] == value and not (run and mask[above - 1] == value):
                        a, b = _root(parents, i), _root(parents, above)
                        parents[larger(a, b)] = smaller(a, b)
            _next_row(coordinates, shape, axes)

    @inlined
    def collect(mask, numbers, count, shape, axes, objects):
        """Build the table of objects; `numbers` come from :func:`_number`."""
        coordinates, size = _axes_array(), 8 * (_HEAD + 2 * axes)
        for k in range(axes):
            coordinates[k] = 0
        found, width = 0, load_i64(shape + 8 * (axes - 1))
        for row in range(0, count, width):
            i, end = row, row + width
            while i < end:
                number, begin = -2 - np.int64(numbers[i]), i
                i += 1
                while i < end and -2 - np.int64(numbers[i]) == number:
                    i += 1
                if number < 0:
                    continue
                record = objects + size * number
                if number == found:
                    found += 1
                    store_i64(record + object_at.label, np.int64(mask[begin]))
                    for k in range(axes):
                        store_i64(record + 8 * (_HEAD + k), coordinates[k])
                        store_i64(record + 8 * (_HEAD + axes + k), coordinates[k] + 1)
                    store_i64(record + 8 * (_HEAD + axes - 1), begin - row)
                    store_i64(record + 8 * (_HEAD + 2 * axes - 1), i - row)
                else:
                    for k in range(axes):
                        first = begin - row if k == axes - 1 else coordinates[k]
                        last = i - row if k == axes - 1 else coordinates[k] + 1
                        store_i64(record + 8 * (_HEAD + k), smaller(load_i64(record + 8 * (_HEAD + k)), first))
                        store_i64(record + 8 * (_HEAD + axes + k), larger(load_i64(record + 8 * (_HEAD + axes + k)), last))
            _next_row(coordinates, shape, axes)

    @step_variant("object_bbox", dtype)
    def object_bbox(context, sample, thread):
        axes = load_i64(context + at.axes)
        shape = load_i64(context + at.shapes) + 8 * axes * sample
        stream = new_stream()
        open_sample(stream, context + at.position_key, sample)
        count = np.int64(1)
        for k in range(axes):
            count *= load_i64(shape + 8 * k)
        if not canonical64(stream) < np.float64(load_f32(load_i64(context + at.foreground) + 4 * sample)) or count == 0:
            _write(context, sample, shape, 0)
            return 0
        mask = elements(load_i64(load_i64(context + at.inputs) + 8 * sample), count)
        numbers = view_i32(load_i64(thread + record_at.scratch) + load_i64(context + at.scratch), count)
        regions(mask, numbers, count, shape, axes, load_i64(load_i64(context + at.backgrounds) + 8 * sample))
        number = _number(numbers, count)
        given = np.int64(0)
        if load_i64(context + at.classes) != 0:
            given = load_i64(load_i64(context + at.firsts) + 8 * sample + 8) - load_i64(load_i64(context + at.firsts) + 8 * sample)
        most, size = larger(number, given), 8 * (_HEAD + 2 * axes)
        objects = _allocate(size * number + 12 * most + 8)
        if objects == 0:
            return OUT_OF_MEMORY
        collect(mask, numbers, count, shape, axes, objects)
        classes = objects + size * number
        _write(context, sample, shape, _draw(context, sample, stream, objects, number, classes, classes + 8 * most))
        _release(objects)
        return 0

    return object_bbox
