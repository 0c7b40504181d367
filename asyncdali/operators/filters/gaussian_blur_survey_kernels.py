"""Facts about a whole batch that the launches of a separable filter need, found with the interpreter lock held.

numpy releases the lock for reductions of more than 500 numbers. Beside a busy thread each release may take 5 ms.
"""

from __future__ import annotations

from ...compiled.intrinsics import load_i64, store_i64
from ...compiled.step import compiled, inlined
from .gaussian_blur_tables import SURVEY, WINDOWS
from .planes_tables import PLANES

plane, window, survey_at = PLANES.at, WINDOWS.at, SURVEY.at


@inlined
def _larger(a, b):
    return a if a > b else b


@inlined
def _parts(length, part):
    """Number of parts of a length."""
    return (length + part - 1) // part


@compiled(5, brief=True)
def survey(records, samples, windows, count, found):
    """Fill SURVEY for the PLANES of `samples` samples and `count` WINDOWS, at least one of each."""
    height = longest = 0
    channels = taps = 1
    for k in range(samples):
        record = records + plane.size * k
        if load_i64(record + plane.channels) != load_i64(records + plane.channels):
            channels = 0
    for k in range(count):
        taken = windows + window.size * k
        y, x = load_i64(taken + window.height_taps), load_i64(taken + window.width_taps)
        height, longest = _larger(height, y), _larger(longest, _larger(x, y))
        if y != load_i64(windows + window.height_taps) or x != load_i64(windows + window.width_taps):
            taps = 0
    store_i64(found + survey_at.height_taps, height)
    store_i64(found + survey_at.longest, longest)
    store_i64(found + survey_at.same_channels, channels)
    store_i64(found + survey_at.same_taps, taps)
    return 0


@compiled(5, brief=True)
def most_tiles(records, count, columns, rows, by_channel):
    """The largest number of tiles of a sample. A tile has `rows` rows and `columns` pixels; `by_channel`: elements of a row."""
    most = 0
    for k in range(count):
        record = records + plane.size * k
        width = load_i64(record + plane.in_width)
        if by_channel:
            width *= load_i64(record + plane.channels)
        tiles = load_i64(record + plane.planes) * _parts(width, columns) * _parts(load_i64(record + plane.in_height), rows)
        most = _larger(most, tiles)
    return most


@compiled(5, brief=True)
def most_scratch(records, count, terms, taps, axes):
    """Bytes of scratch that the step of ``gaussian_blur_kernels`` needs for the largest sample, with windows of `taps` taps at most
    along `axes` axes."""
    most = 0
    for k in range(count):
        record = records + plane.size * k
        depth, height = load_i64(record + plane.in_depth), load_i64(record + plane.in_height)
        width, channels = load_i64(record + plane.in_width), load_i64(record + plane.channels)
        several = 1 if terms > 1 else 0
        rows = terms * (taps if taps < height else height) + several if axes < 3 else depth * height * (2 + several)
        floats = (width + taps) * channels + (rows + 1) * width * channels
        most = _larger(most, 8 * (taps + terms) + 4 * floats + 64)
    return most
