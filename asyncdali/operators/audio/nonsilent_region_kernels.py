"""Compiled step of nonsilent_region."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from llvmlite import ir

from ...batch import Batch, storage_dtype
from ...compiled import kinds
from ...compiled.convert_kernels import view
from ...compiled.intrinsics import load_f64, load_i64, smaller, store_i32, store_i64, view_f32, view_f64
from ...compiled.job_tables import THREAD
from ...compiled.kinds import from_dtype
from ...compiled.step import Compiled, inlined, step_variant
from ...compiled.vectors import I32, I64, element_ir, function_of, load_ir, store_ir, transposed_ir
from ...device.launch import Kernel, Launch, Scratch, element_type, grid_of
from ..base import Step, no_explanation
from .nonsilent_region_tables import NONSILENT, NONSILENT_CUT, NONSILENT_GPU, NONSILENT_NOTE

_SOURCE = Path(__file__).with_suffix(".cu")
_PART = 8192  # Fewest windows of a stretch whose sums are exact.

silence, cut_at, note_at, note = NONSILENT.at, NONSILENT_CUT.at, NONSILENT_NOTE.at, NONSILENT_NOTE.word  # Notes: float64.
record = THREAD.at

_LANES = 8  # Stretches that are summed side by side.
_STRETCHES, _STEPS = 16, 128  # Stretches of a block on a GPU, and its threads.
_CHUNK = 256  # Windows of a stretch between two notes.
# Offsets in the scratch of nonsilent_step: addresses of the lanes; sums of the lanes; the largest sum of each lane; the notes. The note
# of a chunk has the sum of its first window and its largest sum.
_POINTERS, _TOTALS, _BEST, _NOTES = range(0, 4 * 8 * _LANES, 8 * _LANES)


def _squares_ir(builder: Any, dtype: np.dtype, real: Any, pointers: Any, offset: Any) -> list[Any]:
    """The squares of `_LANES` elements of each lane as vectors of the type `real`: one vector per place, with one element per lane."""
    element = element_ir(from_dtype(dtype))
    memory = ir.VectorType(element, _LANES)
    narrow = ir.VectorType(I32, _LANES)
    rows = []
    for k in range(_LANES):
        begin = builder.load(builder.inttoptr(builder.add(pointers, I64(8 * k)), I64.as_pointer()), align=8)
        row = load_ir(builder, builder.add(begin, offset), memory)
        if dtype.kind in "iu" and dtype.itemsize < 4:
            row = (builder.sext if dtype.kind == "i" else builder.zext)(row, narrow)
        elif dtype.kind in "iu" and dtype.itemsize == 8:
            row = (builder.sitofp if dtype.kind == "i" else builder.uitofp)(row, real)
        rows.append(row)
    columns = transposed_ir(builder, rows)
    if columns[0].type == narrow:
        columns = [(builder.uitofp if dtype == np.uint32 else builder.sitofp)(column, real) for column in columns]
    elif columns[0].type != real:
        columns = [builder.fpext(column, real) for column in columns]
    return [builder.fmul(column, column) for column in columns]


def _rounds(dtype: np.dtype, exact: bool) -> bool:
    """Whether sums are float32: as in DALI, those of float32, and those of integers of 32 and 64 bits, which become float32 first."""
    return not exact and (dtype == np.float32 or (dtype.kind in "iu" and dtype.itemsize >= 4))


def _sums_ir(dtype: np.dtype, rounded: bool) -> Any:
    """The type of the sums of the lanes."""
    return ir.VectorType(ir.FloatType() if rounded else ir.DoubleType(), _LANES)


def _adder(dtype: np.dtype, rounded: bool) -> Any:
    """``add(pointers, totals, first)``: add the squares of elements first .. first + _LANES - 1 of each lane to the lane's sum, in
    order."""
    real = _sums_ir(dtype, rounded)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        pointers, totals, first = args
        total = load_ir(builder, totals, real)
        for square in _squares_ir(builder, dtype, real, pointers, builder.mul(first, I64(dtype.itemsize))):
            total = builder.fadd(total, square)
        store_ir(builder, total, totals)
        return context.get_dummy_value()

    return function_of(kinds.void(*[kinds.int64] * 3), codegen)


def _slider(dtype: np.dtype, rounded: bool) -> Any:
    """``slide(pointers, totals, best, first, window)``: the windows that begin at elements first .. first + _LANES - 1 of each lane.

    Their sums are compared with the best ones. Afterwards, the sums are those of the next window.
    """
    real = _sums_ir(dtype, rounded)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        pointers, totals, best, first, window = args
        total, largest = load_ir(builder, totals, real), load_ir(builder, best, real)
        size = I64(dtype.itemsize)
        old = _squares_ir(builder, dtype, real, pointers, builder.mul(first, size))
        new = _squares_ir(builder, dtype, real, pointers, builder.mul(builder.add(first, window), size))
        for leaving, coming in zip(old, new):
            largest = builder.select(builder.fcmp_ordered(">", total, largest), total, largest)
            total = builder.fadd(builder.fsub(total, leaving), coming)
        store_ir(builder, total, totals)
        store_ir(builder, largest, best)
        return context.get_dummy_value()

    return function_of(kinds.void(*[kinds.int64] * 5), codegen)


@cache
def nonsilent_step(dtype: str, exact: bool) -> Compiled:
    """Sums of the squares of each window. A sum is computed from the sum of the window before; every stretch starts a new sum.

    Each sum depends on the one before it, so several stretches are summed side by side. Notes of every chunk of windows tell which chunks
    have the first and the last loud window; only these chunks are searched again.

    Unless `exact`, the result is that of DALI: means, the cut-off and sums that :func:`_rounds` are rounded to float32 after each step.
    The first stretch then ends where the windows end at a multiple of the interval, and is summed by itself.
    """
    elements, size = view(dtype), np.dtype(dtype).itemsize
    rounded = _rounds(np.dtype(dtype), exact)
    add, slide = _adder(np.dtype(dtype), rounded), _slider(np.dtype(dtype), rounded)
    real = np.float32 if rounded else np.float64
    view_sums = view_f32 if rounded else view_f64

    @inlined
    def squared(source, i):
        x = real(source[i])
        return x * x

    @inlined
    def mean_of(total, window):
        """The power of a window, float64."""
        if exact:
            return np.float64(total) / window
        return np.float64(np.float32(np.float32(total) * (np.float32(1) / np.float32(window))))

    @inlined
    def cut_off_of(reference, part):
        return np.float64(np.float32(reference * part)) if exact else np.float64(np.float32(np.float32(reference) * np.float32(part)))

    @inlined
    def sums_of(source, window, pointers, totals):
        """The sum of the first window of each lane."""
        sums = view_sums(totals, _LANES)
        for k in range(_LANES):
            sums[k] = real(0)
        whole = window - window % _LANES
        for first in range(0, whole, _LANES):
            add(pointers, totals, first)
        for k in range(_LANES):
            begin = (load_i64(pointers + 8 * k) - source) // size
            lane = elements(source, begin + window)
            for i in range(begin + whole, begin + window):
                sums[k] += squared(lane, i)

    @inlined
    def go_on(source, length, window, begin, windows, totals, best, k):
        """Compute one lane window by window. The lane has `windows` windows; the first window begins at element `begin`."""
        sums, largest, signal = view_sums(totals, _LANES), view_sums(best, _LANES), elements(source, length)
        total, found = sums[k], largest[k]
        for i in range(begin, begin + windows):
            found = total if total > found else found
            if i + window < length:
                total = total - squared(signal, i) + squared(signal, i + window)
        sums[k], largest[k] = total, found

    @inlined
    def chunk_of(source, length, window, first, valid, stretch, begun, windows, scratch):
        """Windows begun .. begun + windows - 1 of the `valid` stretches from `first` on."""
        pointers, totals, best = scratch + _POINTERS, scratch + _TOTALS, scratch + _BEST
        all_windows = length - window + 1
        together = windows - windows % _LANES
        for k in range(valid):
            at = (first + k) * stretch + begun
            if at < all_windows and at + together + window > length:
                together = 0  # The next windows would cross the end of the signal.
        if first * stretch + begun >= all_windows:
            together = 0  # No lane has windows here: the signal is shorter than a stretch.
        done = 0
        if together > 0:
            last = source
            for k in range(_LANES):
                at = (first + smaller(k, valid - 1)) * stretch + begun
                if at < all_windows:
                    last = source + size * at
                store_i64(pointers + 8 * k, last)  # Lanes without windows repeat the last window that exists.
            while done < together:
                slide(pointers, totals, best, done, window)
                done += _LANES
        for k in range(valid):
            at = (first + k) * stretch + begun + done
            go_on(source, length, window, at, smaller(windows - done, all_windows - at), totals, best, k)

    @inlined
    def note_all(source, length, window, stretch, scratch, notes):
        """Go through all windows, and note their sums at `notes`. Returns the number of notes."""
        windows = length - window + 1
        stretches = (windows + stretch - 1) // stretch
        per_stretch = (stretch + _CHUNK - 1) // _CHUNK
        totals, best = view_sums(scratch + _TOTALS, _LANES), view_sums(scratch + _BEST, _LANES)
        for first in range(0, stretches, _LANES):
            valid = smaller(stretches - first, _LANES)
            for k in range(_LANES):
                store_i64(scratch + _POINTERS + 8 * k, source + size * stretch * (first + smaller(k, valid - 1)))
            sums_of(source, window, scratch + _POINTERS, scratch + _TOTALS)
            for chunk in range(per_stretch):
                begun = chunk * _CHUNK
                for k in range(valid):
                    noted = view_f64(notes + note_at.size * ((first + k) * per_stretch + chunk), note.words)
                    noted[note.first] = totals[k]
                for k in range(_LANES):
                    best[k] = real(-np.inf)
                chunk_of(source, length, window, first, valid, stretch, begun, smaller(stretch - begun, _CHUNK), scratch)
                for k in range(valid):
                    there = (first + k) * stretch + begun < windows
                    noted = view_f64(notes + note_at.size * ((first + k) * per_stretch + chunk), note.words)
                    noted[note.largest] = best[k] if there else -np.inf
        return stretches * per_stretch

    @inlined
    def loud_in(source, length, window, stretch, notes, chunk, cut_off, last):
        """The first (or last) loud window of a chunk."""
        per_stretch = (stretch + _CHUNK - 1) // _CHUNK
        begun = chunk % per_stretch * _CHUNK
        begin = chunk // per_stretch * stretch + begun
        noted = view_f64(notes + note_at.size * chunk, note.words)
        signal, total, found = elements(source, length), real(noted[note.first]), np.int64(-1)
        for i in range(begin, begin + smaller(smaller(stretch - begun, _CHUNK), length - window + 1 - begin)):
            if mean_of(total, window) >= cut_off:
                found = np.int64(i)
                if not last:
                    break
            if i + window < length:
                total = total - squared(signal, i) + squared(signal, i + window)
        return found

    @inlined
    def largest_of(notes, count, largest):
        """The largest of the noted sums and `largest`."""
        noted = view_f64(notes, note.words * count)
        for k in range(count):
            largest = max(largest, noted[note.words * k + note.largest])
        return largest

    @inlined
    def first_loud(source, length, window, stretch, notes, count, cut_off):
        """The first loud window; -1 if there is none."""
        noted = view_f64(notes, note.words * count)
        for k in range(count):
            if mean_of(noted[note.words * k + note.largest], window) >= cut_off:
                return loud_in(source, length, window, stretch, notes, k, cut_off, False)
        return np.int64(-1)

    @inlined
    def last_loud(source, length, window, stretch, notes, count, cut_off):
        """The last loud window; -1 if there is none."""
        noted = view_f64(notes, note.words * count)
        for k in range(count - 1, -1, -1):
            if mean_of(noted[note.words * k + note.largest], window) >= cut_off:
                return loud_in(source, length, window, stretch, notes, k, cut_off, True)
        return np.int64(-1)

    @step_variant(dtype, str(exact))
    def nonsilent(context, sample, thread):
        length = load_i64(load_i64(context + silence.counts) + 8 * sample)
        starts = load_i64(load_i64(context + silence.starts) + 8 * sample)
        lengths = load_i64(load_i64(context + silence.lengths) + 8 * sample)
        if length == 0:
            store_i32(starts, np.int32(0))
            store_i32(lengths, np.int32(0))
            return 0
        source = load_i64(load_i64(context + silence.inputs) + 8 * sample)
        scratch = load_i64(thread + record.scratch) + load_i64(context + silence.scratch)
        window, stretch = smaller(load_i64(context + silence.window), length), load_i64(context + silence.stretch)
        cut = load_i64(context + silence.cut)
        stretch = length if stretch == 0 else stretch
        # The first stretch, if its length is another one, is a signal of its own; so is the rest.
        lead = smaller(load_i64(context + silence.lead), length - window + 1)
        notes, lead_count = scratch + _NOTES, 0
        if lead > 0:
            lead_count = note_all(source, lead + window - 1, window, lead, scratch, notes)
        rest, more, behind, count = source + size * lead, length - lead, notes + note_at.size * lead_count, 0
        if more >= window:
            count = note_all(rest, more, window, stretch, scratch, behind)
        reference, part = load_f64(cut + cut_at.reference), load_f64(cut + cut_at.part)
        if reference == 0.0:
            begun = view_f64(notes, note.words)
            reference = mean_of(largest_of(notes, lead_count + count, begun[note.first]), window)
        cut_off = cut_off_of(reference, part)
        first = last = np.int64(-1)
        if lead > 0:
            first = first_loud(source, lead + window - 1, window, lead, notes, lead_count, cut_off)
        if count > 0:
            last = last_loud(rest, more, window, stretch, behind, count, cut_off)
            if last >= 0:
                last += lead
                if first < 0:
                    first = lead + first_loud(rest, more, window, stretch, behind, count, cut_off)
        if first >= 0 and last < 0:
            last = last_loud(source, lead + window - 1, window, lead, notes, lead_count, cut_off)
        store_i32(starts, np.int32(max(first, np.int64(0))))
        store_i32(lengths, np.int32(last + window - first if first >= 0 else 0))
        return 0

    return nonsilent


def make_nonsilent_step(
    source: Batch, outputs: list[Batch], window: int, interval: int, reference: float, part: float, exact: bool
) -> Step:
    """The step for a batch of signals. The cut-off is `part` of the reference power; a power of 0 means each sample's largest."""
    counts, dtype = np.ascontiguousarray(source.shapes.prod(axis=1), np.int64), storage_dtype(source.dtype)
    exact = exact or dtype == np.float64  # DALI has no signals of FLOAT64.
    cut = np.array(NONSILENT_CUT.entries(reference=reference, part=part), np.float64)
    starts, lengths = outputs
    longest = int(counts.max(initial=1))
    stretch = _stretch(dtype, window, interval, longest)
    lead = _lead(dtype, window, stretch, exact)
    used = stretch or longest
    notes = -(-longest // used) * -(-used // _CHUNK) + -(-lead // _CHUNK)
    values = {
        "inputs": source.addresses, "starts": starts.addresses, "lengths": lengths.addresses, "counts": counts, "window": window,
        "cut": cut,
    }  # fmt: skip
    table, keep = NONSILENT.make(**values, stretch=stretch, lead=lead, scratch=0)

    def launches() -> list[Launch]:
        count = len(counts)
        stretches, chunks = -(-longest // used) + (1 if lead else 0), -(-max(used, lead) // _CHUNK)
        entries = NONSILENT_GPU.entries(
            **values, stretch=used, lead=lead, stretches=stretches, samples=count, chunks=chunks,
            notes=Scratch(NONSILENT_NOTE.size * count * stretches * chunks),
        )  # fmt: skip
        sums = "float32" if _rounds(dtype, exact) else "float64"
        names = ("IN", element_type(dtype)), ("SUM", sums), ("EXACT", str(int(exact)))
        return [
            Launch(Kernel(_SOURCE, "notes", names), entries, grid_of(stretches, count, _STRETCHES), _STEPS),
            Launch(Kernel(_SOURCE, "region", names), entries, grid_of(1, count), _STEPS),
        ]

    function, scratch = nonsilent_step(dtype.name, exact).address, _NOTES + NONSILENT_NOTE.size * notes
    return Step(function, table, no_explanation, scratch, NONSILENT.word.scratch, keep, launches=launches)


def _stretch(dtype: np.dtype, window: int, interval: int, longest: int) -> int:
    """Windows after which a sum may restart with the same result as the compiled step; 0: never."""
    if dtype.kind == "f":
        return interval if 0 < interval < longest else 0
    exact = dtype.itemsize <= 2 and window < 1 << 20  # Sums of squares are integers below 2^53.
    return max(window, _PART) if exact else 0


def _lead(dtype: np.dtype, window: int, stretch: int, exact: bool) -> int:
    """Windows of the first stretch, if their number is another one than `stretch`; otherwise 0.

    DALI's sums of float32 restart with the windows that end behind a multiple of the interval.
    """
    return stretch - window + 1 if dtype == np.float32 and not exact and stretch else 0
