"""Compiled step of ``debayer``: interpolate the colours missing in a sensor's mosaic from neighbouring pixels.

Bilinear, edge-aware and grey use the eight neighbours. A border pixel takes the result of the nearest inner pixel.
Variable number of gradients (Chang, Cheung, Pang: "Color filter array recovery using a threshold-based variable number of gradients",
1999) uses 5 x 5 pixels, reflected about the border, and averages along the directions in which the picture changes least.
Constants are those of OpenCV.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np

from ...compiled.intrinsics import larger, load_i64, smaller, view_i64, view_of
from ...compiled.step import Compiled, inlined, step_variant
from .debayer import DEBAYER, DEBAYER_RECORD

at, word = DEBAYER.at, DEBAYER_RECORD.word
_SOURCE = Path(__file__).with_suffix(".cu")
BILINEAR, EDGE_AWARE, VNG, GRAY = range(4)
_RED, _GREEN, _BLUE = 4899, 9617, 1868  # Weights of a grey value, in units of 2^-14.
_SMALLEST_VNG = 8  # Rows and columns; smaller images are interpolated bilinearly.
_STEPS = ((-1, 0), (1, 0), (0, -1), (0, 1), (-1, 1), (1, -1), (-1, -1), (1, 1))  # N, S, W, E, NE, SW, NW, SE


@inlined
def _neighbours(p, width, y, x):
    """Sums of the horizontal, vertical and diagonal neighbours; and whether the columns differ more than the rows."""
    i = y * width + x
    left, right = np.int64(p[i - 1]), np.int64(p[i + 1])
    top, bottom = np.int64(p[i - width]), np.int64(p[i + width])
    diagonal = np.int64(p[i - width - 1]) + np.int64(p[i - width + 1]) + np.int64(p[i + width - 1]) + np.int64(p[i + width + 1])
    return left + right, top + bottom, diagonal, abs(left - right) > abs(top - bottom)


@inlined
def _near(p, width, y, x, in_blue_row, in_blue_column, edges):
    """Red, green and blue of an inner pixel, from its eight neighbours."""
    across, down, diagonal, uneven = _neighbours(p, width, y, x)
    own = np.int64(p[y * width + x])
    if in_blue_row != in_blue_column:
        beside, above = (across + 1) >> 1, (down + 1) >> 1
        return (above, own, beside) if in_blue_row else (beside, own, above)
    green = (across + down + 2) >> 2
    if edges:
        green = (down + 1) >> 1 if uneven else (across + 1) >> 1
    third = (diagonal + 2) >> 2
    return (third, green, own) if in_blue_row else (own, green, third)


@inlined
def _gray(p, width, y, x, in_blue_row, in_blue_column):
    """The grey value of an inner pixel, from its eight neighbours."""
    across, down, diagonal, _ = _neighbours(p, width, y, x)
    own = np.int64(p[y * width + x])
    if in_blue_row != in_blue_column:
        beside, above = (_BLUE, _RED) if in_blue_row else (_RED, _BLUE)
        total = 4 * own * _GREEN + 2 * across * beside + 2 * down * above
    else:
        mine, other = (_BLUE, _RED) if in_blue_row else (_RED, _BLUE)
        total = 4 * own * mine + (across + down) * _GREEN + diagonal * other
    return (total + (1 << 15)) >> 16


@inlined
def _v(p, height, width, y, x):
    """A pixel; positions outside are reflected about the border pixels."""
    y = abs(y) if y < height else 2 * (height - 1) - y
    x = abs(x) if x < width else 2 * (width - 1) - x
    return np.int64(p[y * width + x])


@inlined
def _change(p, h, w, y0, x0, y1, x1):
    return abs(_v(p, h, w, y0, x0) - _v(p, h, w, y1, x1))


@inlined
def _vertical(p, h, w, y, x):
    side = _change(p, h, w, y - 1, x - 1, y + 1, x - 1) + _change(p, h, w, y - 1, x + 1, y + 1, x + 1)
    return side + 2 * _change(p, h, w, y - 1, x, y + 1, x)


@inlined
def _horizontal(p, h, w, y, x):
    side = _change(p, h, w, y - 1, x - 1, y - 1, x + 1) + _change(p, h, w, y + 1, x - 1, y + 1, x + 1)
    return side + 2 * _change(p, h, w, y, x - 1, y, x + 1)


@inlined
def _rising(p, h, w, y, x):
    return 2 * _change(p, h, w, y - 1, x + 1, y + 1, x - 1)


@inlined
def _falling(p, h, w, y, x):
    return 2 * _change(p, h, w, y - 1, x - 1, y + 1, x + 1)


@inlined
def _rising_more(p, h, w, y, x):
    return _rising(p, h, w, y, x) + _change(p, h, w, y - 1, x, y, x - 1) + _change(p, h, w, y + 1, x, y, x + 1)


@inlined
def _falling_more(p, h, w, y, x):
    return _falling(p, h, w, y, x) + _change(p, h, w, y - 1, x, y, x + 1) + _change(p, h, w, y + 1, x, y, x - 1)


@inlined
def _gradients(p, h, w, y, x, green):
    """The gradients of the picture along the directions in _STEPS."""
    here_v, here_h = _vertical(p, h, w, y, x), _horizontal(p, h, w, y, x)
    north, south = _vertical(p, h, w, y - 1, x) + here_v, here_v + _vertical(p, h, w, y + 1, x)
    west, east = _horizontal(p, h, w, y, x - 1) + here_h, here_h + _horizontal(p, h, w, y, x + 1)
    if green:
        rise, fall = _rising(p, h, w, y, x), _falling(p, h, w, y, x)
        ne = _rising(p, h, w, y - 1, x) + _rising(p, h, w, y - 1, x + 1) + rise + _rising(p, h, w, y, x + 1)
        sw = rise + _rising(p, h, w, y, x - 1) + _rising(p, h, w, y + 1, x) + _rising(p, h, w, y + 1, x - 1)
        nw = _falling(p, h, w, y - 1, x) + _falling(p, h, w, y - 1, x - 1) + fall + _falling(p, h, w, y, x - 1)
        se = fall + _falling(p, h, w, y, x + 1) + _falling(p, h, w, y + 1, x) + _falling(p, h, w, y + 1, x + 1)
    else:
        rise, fall = _rising_more(p, h, w, y, x), _falling_more(p, h, w, y, x)
        ne, sw = _rising_more(p, h, w, y - 1, x + 1) + rise, rise + _rising_more(p, h, w, y + 1, x - 1)
        nw, se = _falling_more(p, h, w, y - 1, x - 1) + fall, fall + _falling_more(p, h, w, y + 1, x + 1)
    return north, south, west, east, ne, sw, nw, se


@inlined
def _vng(p, h, w, y, x, in_blue_row, in_blue_column):
    """Red, green and blue of a pixel by a variable number of gradients; UINT8."""
    is_green = in_blue_row != in_blue_column
    gradients = _gradients(p, h, w, y, x, is_green)
    least = most = gradients[0]
    for k in range(8):
        least, most = smaller(least, gradients[k]), larger(most, gradients[k])
    threshold = least + larger(most // 2, 1)
    own = _v(p, h, w, y, x)
    count, mine, first, second = 0, 0, 0, 0
    for k in range(8):
        if gradients[k] >= threshold:
            continue
        dy, dx = _STEPS[k]
        straight = dy == 0 or dx == 0
        count += 1
        near = _v(p, h, w, y + dy, x + dx)
        if not is_green:
            mine += _v(p, h, w, y + 2 * dy, x + 2 * dx) + own
            if straight:
                first += 2 * near
                # Exchanging dx and dy gives the two pixels on both sides of the step.
                second += _v(p, h, w, y + dy - dx, x + dx - dy) + _v(p, h, w, y + dy + dx, x + dx + dy)
            else:
                yy, xx = y + dy, x + dx
                edges = _v(p, h, w, yy - 1, xx) + _v(p, h, w, yy + 1, xx) + _v(p, h, w, yy, xx - 1) + _v(p, h, w, yy, xx + 1)
                first += edges >> 1
                second += 2 * near
        elif dx == 0:
            mine += _v(p, h, w, y + 2 * dy, x) + own
            first += _v(p, h, w, y + 2 * dy, x - 1) + _v(p, h, w, y + 2 * dy, x + 1)
            second += 2 * near
        elif dy == 0:
            mine += _v(p, h, w, y, x + 2 * dx) + own
            first += 2 * near
            second += _v(p, h, w, y - 1, x + 2 * dx) + _v(p, h, w, y + 1, x + 2 * dx)
        else:
            mine += 2 * near
            first += _v(p, h, w, y + 2 * dy, x + dx) + _v(p, h, w, y, x + dx)
            second += _v(p, h, w, y + dy, x) + _v(p, h, w, y + dy, x + 2 * dx)
    scale = np.float32(np.float32(0.5) / np.float32(count))
    a = smaller(larger(own + np.int64(np.rint(np.float32(np.float32(first - mine) * scale))), 0), 255)
    b = smaller(larger(own + np.int64(np.rint(np.float32(np.float32(second - mine) * scale))), 0), 255)
    if is_green:  # a is the colour of the horizontal neighbours
        return (b, own, a) if in_blue_row else (a, own, b)
    return (b, a, own) if in_blue_row else (own, a, b)


@cache
def debayer_step(dtype: str) -> Compiled:
    """The step for the NumPy name of a dtype: UINT8 or UINT16."""
    view, itemsize = view_of(np.dtype(dtype)), np.dtype(dtype).itemsize

    @step_variant(dtype)
    def debayer(context, sample, thread):
        r = view_i64(load_i64(context + at.records) + word.size * sample, word.words)
        height, width = r[word.height], r[word.width]
        algorithm = load_i64(context + at.algorithm)
        channels = 1 if algorithm == GRAY else 3
        source = load_i64(load_i64(context + at.inputs) + 8 * sample)
        target = load_i64(load_i64(context + at.outputs) + 8 * sample)
        everywhere = algorithm == VNG and smaller(height, width) >= _SMALLEST_VNG
        for _ in range(r[word.frames]):
            p, out = view(source, height * width), view(target, height * width * channels)
            for y in range(height):
                py = y if everywhere else smaller(larger(y, 1), height - 2)
                in_blue_row = ((py - 1 - r[word.blue_y]) & 1) == 0
                for x in range(width):
                    i = y * width + x
                    px = x if everywhere else smaller(larger(x, 1), width - 2)
                    in_blue_column = ((px - 1 - r[word.blue_x]) & 1) == 0
                    if height < 3 or width < 3:
                        for c in range(channels):
                            out[i * channels + c] = 0
                    elif algorithm == GRAY:
                        out[i] = _gray(p, width, py, px, in_blue_row, in_blue_column)
                    elif everywhere:
                        out[3 * i], out[3 * i + 1], out[3 * i + 2] = _vng(p, height, width, py, px, in_blue_row, in_blue_column)
                    else:
                        edges = algorithm == EDGE_AWARE
                        out[3 * i], out[3 * i + 1], out[3 * i + 2] = _near(p, width, py, px, in_blue_row, in_blue_column, edges)
            source += itemsize * height * width
            target += itemsize * height * width * channels
        return 0

    return debayer


