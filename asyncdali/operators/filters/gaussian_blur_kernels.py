"""The compiled step of separable filters: one window per data axis; also sums of several such filters.

Everything is float32. A plane is filtered along its width into scratch memory, then along its height, then along its depth. Rows and planes
outside are reflected about the border pixel. Sums are in the order of the taps, and each addition rounds once.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from ...batch import Batch, storage_name
from ...compiled.addresses import address_of
from ...compiled.convert_kernels import converter, load_value, storage, view
from ...compiled.intrinsics import load_f32, load_i64, smaller, store_i64, view_f32, view_i64
from ...compiled.job_tables import THREAD
from ...compiled.step import Compiled, inlined, step_variant
from ...compiled.vectors import lanes
from ..base import Step, TableStep, no_explanation
from . import gaussian_blur_survey_kernels
from .gaussian_blur_launches import gaussian_blur_launches
from .gaussian_blur_tables import SEPARABLE, WINDOW, WINDOWS
from .planes_tables import PLANES
from .windows import FilterWindows

at, word, _window, _windows, thread_at = SEPARABLE.at, PLANES.word, WINDOW.at, WINDOWS.at, THREAD.at


@inlined
def reflected(index, extent):
    """`index` reflected into 0..extent-1 about the border pixels, for any distance."""
    if extent == 1:
        return np.int64(0)
    period = 2 * (extent - 1)
    index = index % period
    index = index + period if index < 0 else index
    return period - index if index >= extent else index


_BLOCK = 64
"""Elements whose sums are in registers at the same time."""
_block = lanes("float32", _BLOCK)
_load, _store, _splat = _block.load, _block.store, _block.splat


@inlined
def weighted_sum(target, table, weights, taps, count):
    """float32 target[count] = sum of weights[k] * the `count` floats at address table[k], in order. `target` is none of them."""
    if count < _BLOCK:
        out = view_f32(target, count)
        for k in range(taps):
            a, wa = view_f32(load_i64(table + 8 * k), count), load_f32(weights + 4 * k)
            for i in range(count):
                out[i] = out[i] + wa * a[i] if k > 0 else wa * a[i]
        return
    done = 0
    while done < count:
        place = 4 * smaller(done, count - _BLOCK)  # The last block overlaps the one before.
        total = _splat(load_f32(weights)) * _load(load_i64(table) + place)
        for k in range(1, taps):
            total = total + _splat(load_f32(weights + 4 * k)) * _load(load_i64(table + 8 * k) + place)
        _store(target + place, total)
        done += _BLOCK


@inlined
def along_rows(target, first, stride, index, extent, ring, window, table, count):
    """target[count] = the window of rows about row `index` of `extent` rows.

    Row k is number k modulo `ring` of the rows at `first`, which are `stride` bytes apart.
    """
    weights, taps = load_i64(window + _window.weights), load_i64(window + _window.taps)
    for k in range(taps):
        store_i64(table + 8 * k, first + stride * (reflected(index + k - taps // 2, extent) % ring))
    weighted_sum(target, table, weights, taps, count)


@inlined
def along_width(target, padded, width, channels, window, table):
    """target[width * channels] = the window about every pixel of the row at `padded`, which has half a window before and behind."""
    weights, taps = load_i64(window + _window.weights), load_i64(window + _window.taps)
    for k in range(taps):
        store_i64(table + 8 * k, padded + 4 * channels * k)
    weighted_sum(target, table, weights, taps, width * channels)


@cache
def separable_step(in_dtype: str, out_dtype: str) -> Compiled:
    """The step for NumPy names of dtypes."""
    view_in, view_out = view(in_dtype), view(out_dtype)
    value, convert = load_value(in_dtype), converter("float32", out_dtype)
    in_bytes, out_bytes = storage(in_dtype).itemsize, storage(out_dtype).itemsize

    @inlined
    def load_padded(padded, address, width, channels, radius):
        source = view_in(address, width * channels)
        row = view_f32(padded, (width + 2 * radius) * channels)
        inner = view_f32(padded + 4 * radius * channels, width * channels)  # Indices with an offset become scatter instructions.
        for i in range(width * channels):
            inner[i] = np.float32(value(source[i]))
        for x in range(radius):
            left = (radius + reflected(x - radius, width)) * channels
            right = (radius + reflected(width + x, width)) * channels
            for c in range(channels):
                row[x * channels + c] = row[left + c]
                row[(width + radius + x) * channels + c] = row[right + c]

    @inlined
    def finish(target, acc, sums, count, term, terms, factor):
        """Add the row `acc` of one term to the sums of the others; with the last term, write the result."""
        row = view_f32(acc, count)
        if terms > 1:
            total = view_f32(sums, count)
            if term == 0:
                for i in range(count):
                    total[i] = row[i] * factor
            else:
                for i in range(count):
                    total[i] = total[i] + row[i] * factor
            row = total
        if term == terms - 1:
            out = view_out(target, count)
            if terms == 1 and factor != np.float32(1):
                for i in range(count):
                    row[i] = row[i] * factor
            for i in range(count):
                out[i] = convert(row[i])

    @step_variant(in_dtype, out_dtype)
    def separable(context, sample, thread):
        record = view_i64(load_i64(context + at.records) + word.size * sample, word.words)
        planes, channels = record[word.planes], record[word.channels]
        depth, height, width = record[word.in_depth], record[word.in_height], record[word.in_width]
        source, target = load_i64(load_i64(context + at.inputs) + 8 * sample), load_i64(load_i64(context + at.outputs) + 8 * sample)
        terms, most_taps = load_i64(context + at.terms), load_i64(context + at.most_taps)
        row, rows = width * channels, depth * height
        if planes * rows * row == 0:
            return 0
        volumes = load_i64(context + at.axes) == 3  # Their windows along the depth count in a single plane, too: sums need not be 1.
        table = load_i64(thread + thread_at.scratch) + load_i64(context + at.scratch)
        made = table + 8 * most_taps
        padded = made + 8 * terms
        acc = padded + 4 * (width + most_taps) * channels
        lines = acc + 4 * row
        factors, all_windows = load_i64(context + at.factors), load_i64(context + at.windows)
        for plane in range(planes):
            first = source + in_bytes * plane * rows * row
            last = target + out_bytes * plane * rows * row
            if not volumes:
                # Each term keeps the lines that the next rows need, in a ring. The ring stays in the cache.
                ring = smaller(most_taps, height)
                sums = lines + 4 * terms * ring * row
                for term in range(terms):
                    store_i64(made + 8 * term, 0)
                for y in range(height):
                    for term in range(terms):
                        windows = all_windows + _windows.size * (terms * sample + term)
                        factor = load_f32(factors + 4 * (terms * sample + term))
                        own = lines + 4 * term * ring * row
                        radius = load_i64(windows + _windows.width_taps) // 2
                        done = load_i64(made + 8 * term)
                        while done < smaller(y + load_i64(windows + _windows.height_taps) // 2 + 1, height):
                            load_padded(padded, first + in_bytes * done * row, width, channels, radius)
                            place = own + 4 * row * (done % ring)
                            along_width(place, padded, width, channels, windows + _windows.width_weights, table)
                            done += 1
                        store_i64(made + 8 * term, done)
                        along_rows(acc, own, 4 * row, y, height, ring, windows + _windows.height_weights, table, row)
                        finish(last + out_bytes * y * row, acc, sums, row, term, terms, factor)
                continue
            sheets = lines + 4 * rows * row
            sums = sheets + 4 * rows * row
            for term in range(terms):
                windows = all_windows + _windows.size * (terms * sample + term)
                factor = load_f32(factors + 4 * (terms * sample + term))
                radius = load_i64(windows + _windows.width_taps) // 2
                for y in range(rows):
                    load_padded(padded, first + in_bytes * y * row, width, channels, radius)
                    along_width(lines + 4 * y * row, padded, width, channels, windows + _windows.width_weights, table)
                for y in range(rows):
                    own = lines + 4 * row * height * (y // height)
                    high = windows + _windows.height_weights
                    along_rows(sheets + 4 * y * row, own, 4 * row, y % height, height, height, high, table, row)
                for y in range(rows):
                    own = sheets + 4 * row * (y % height)
                    along_rows(acc, own, 4 * row * height, y // height, depth, depth, windows + _windows.depth_weights, table, row)
                    finish(last + out_bytes * y * row, acc, sums + 4 * y * row, row, term, terms, factor)
        return 0

    return separable


def make_separable_step(source: Batch, output: Batch, records: np.ndarray, windows: FilterWindows, factors: np.ndarray, axes: int) -> Step:
    """The step for a batch.

    records   PLANES of the samples
    windows   of each sample and term
    factors   float32[samples, terms], the multiplier of each term
    axes      number of data axes
    """
    terms = factors.shape[1]
    compiled_step = separable_step(storage_name(source.dtype), storage_name(output.dtype))
    most = windows.most
    factors = np.ascontiguousarray(factors, np.float32)
    entries = SEPARABLE.entries(
        inputs=source.addresses, outputs=output.addresses, records=records, windows=windows.placed, factors=factors, terms=terms,
        scratch=0, most_taps=most, axes=axes,
    )  # fmt: skip
    scratch = gaussian_blur_survey_kernels.most_scratch(address_of(records), len(records), terms, most, axes)
    step = TableStep(compiled_step.address, entries, no_explanation, scratch, SEPARABLE.word.scratch)
    step.launches = lambda: gaussian_blur_launches(source, output, records, windows, factors, axes)
    return step


