"""Compiled step of ``optical_flow``: dense inverse search, in float32.

The method is that of T. Kroeger, R. Timofte, D. Dai, L. Van Gool, "Fast Optical Flow using Dense Inverse Search" (ECCV 2016). Patches are
searched by gradient descent from coarse to fine. Each pixel gets the weighted mean of its patches. A few rounds of a variational
method (after T. Brox et al., ECCV 2004) smooth similar areas and keep edges. A patch starts from the coarser level's flow at its own
place or at a neighbour's, whichever fits best. So no patch waits for another, and a GPU (optical_flow_kernels.cu) computes the same sums
in the same order.

Work memory of a pair of frames, in elements: the pyramids of both frames; then, for the current level, the initial flow, the flow found,
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...batch import Batch
from ...compiled.intrinsics import larger, load_i64, local_array, smaller, view_f32, view_i64, view_u8
from ...compiled.job_tables import THREAD
from ...compiled.step import inlined, step
from ...compiled.tables import laid_out
from ...device.launch import Kernel, Launch, Scratch, grid_of
from ..base import Step, no_explanation
from .optical_flow import FLOW, FLOW_RECORD

at, word, thread_at = FLOW.at, FLOW_RECORD.word, THREAD.at
_SOURCE = Path(__file__).with_suffix(".cu")
PATCH, STRIDE = 8, 4
SMALLEST = 16
"""Least rows and columns of a picture; smaller frames are padded by repeating their border."""
SWEEPS = 4  # Relaxation sweeps per round of the refinement.
_COARSEST = 24  # Pictures with fewer rows and columns get no coarser level.
_AREA = PATCH * PATCH
_FARTHEST = np.float32(1e4)  # Pixels; hints beyond this are ignored.
_ALPHA, _OMEGA, _SMALL = np.float32(1), np.float32(1.6), np.float32(1e-3)
_HALF, _QUARTER, _ONE, _ZERO = np.float32(0.5), np.float32(0.25), np.float32(1), np.float32(0)
_LEAST_DETERMINANT = np.float32(1.0)
_PART = np.float32(1 / _AREA)  # One pixel's share of a patch.
_MEMORY_AT_ONCE = 1 << 28  # Bytes of work memory on a GPU, for pairs that are searched at the same time.
_patch = local_array(np.float32, _AREA)
_lanes = local_array(np.float32, PATCH)


@inlined
def _extent(whole, level):
    return (whole + (1 << level) - 1) >> level


@inlined
def _plane(rows, columns, level):
    """Offset of a level's picture in its pyramid."""
    begin = np.int64(0)
    for k in range(level):
        begin += _extent(rows, k) * _extent(columns, k)
    return begin


@inlined
def _clamped(x, most):
    return smaller(larger(x, 0), most)


@inlined
def _within(x, most):
    """A coordinate clamped to the picture; NaN becomes 0."""
    x = x if x > _ZERO else _ZERO
    return x if x < most else most


@inlined
def _gray(pixel, channels, order):
    if channels == 1:
        return np.float32(pixel[0])
    red, blue = (pixel[2], pixel[0]) if order != 0 else (pixel[0], pixel[2])
    return np.float32((4899 * np.int64(red) + 9617 * np.int64(pixel[1]) + 1868 * np.int64(blue) + 8192) >> 14)


@inlined
def _pyramid(m, base, source, r, frame, order):
    """The pyramid of a frame at ``m[base:]``."""
    height, width, channels = r[word.height], r[word.width], r[word.channels]
    rows, columns = r[word.rows], r[word.columns]
    begin = source + frame * height * width * channels
    for y in range(rows):
        for x in range(columns):
            place = (smaller(y, height - 1) * width + smaller(x, width - 1)) * channels
            m[base + y * columns + x] = _gray(view_u8(begin + place, channels), channels, order)
    for level in range(1, r[word.levels]):
        above, own = base + _plane(rows, columns, level - 1), base + _plane(rows, columns, level)
        h, w = _extent(rows, level - 1), _extent(columns, level - 1)
        for y in range(_extent(rows, level)):
            for x in range(_extent(columns, level)):
                top, bottom = above + 2 * y * w, above + smaller(2 * y + 1, h - 1) * w
                right = smaller(2 * x + 1, w - 1)
                upper, lower = m[top + 2 * x] + m[top + right], m[bottom + 2 * x] + m[bottom + right]
                m[own + y * _extent(columns, level) + x] = _QUARTER * (upper + lower)


@inlined
def _at(m, base, h, w, y, x):
    """A picture interpolated between its pixels. Outside, the border is repeated."""
    y, x = _within(y, np.float32(h - 1)), _within(x, np.float32(w - 1))
    top, left = smaller(np.int64(y), h - 2), smaller(np.int64(x), w - 2)
    fy, fx = y - np.float32(top), x - np.float32(left)
    k = base + top * w + left
    upper = m[k] * (_ONE - fx) + m[k + 1] * fx
    lower = m[k + w] * (_ONE - fx) + m[k + w + 1] * fx
    return upper * (_ONE - fy) + lower * fy


@inlined
def _pair_at(m, base, h, w, y, x):
    """A flow interpolated between its pixels."""
    y, x = _within(y, np.float32(h - 1)), _within(x, np.float32(w - 1))
    top, left = smaller(np.int64(y), h - 2), smaller(np.int64(x), w - 2)
    fy, fx = y - np.float32(top), x - np.float32(left)
    k = base + 2 * (top * w + left)
    below = k + 2 * w
    u = (m[k] * (_ONE - fx) + m[k + 2] * fx) * (_ONE - fy) + (m[below] * (_ONE - fx) + m[below + 2] * fx) * fy
    v = (m[k + 1] * (_ONE - fx) + m[k + 3] * fx) * (_ONE - fy) + (m[below + 1] * (_ONE - fx) + m[below + 3] * fx) * fy
    return u, v


@inlined
def _sane(value):
    return value if -_FARTHEST < value < _FARTHEST else _ZERO


@inlined
def _begin(m, prior, found, r, hints, hinted, temporal, hint_grid, pair):
    """The initial flow of the coarsest level."""
    level, finest = r[word.levels] - 1, r[word.finest]
    h, w = _extent(r[word.rows], level), _extent(r[word.columns], level)
    for y in range(h):
        for x in range(w):
            u, v = _ZERO, _ZERO
            if hinted != 0:
                height, width = r[word.height], r[word.width]
                rows, columns = -(-height // hint_grid), -(-width // hint_grid)
                row, column = smaller(y << level, height - 1) // hint_grid, smaller(x << level, width - 1) // hint_grid
                own = view_f32(hints, (r[word.frames] - 1) * rows * columns * 2)
                k = 2 * ((pair * rows + row) * columns + column)
                scale = _ONE / np.float32(1 << level)
                u, v = _sane(own[k]) * scale, _sane(own[k + 1]) * scale
            elif temporal != 0 and pair > 0:
                step_of = level - finest
                fh, fw = _extent(r[word.rows], finest), _extent(r[word.columns], finest)
                k = found + 2 * (smaller(y << step_of, fh - 1) * fw + smaller(x << step_of, fw - 1))
                scale = _ONE / np.float32(1 << step_of)
                u, v = m[k] * scale, m[k + 1] * scale
            m[prior + 2 * (y * w + x)], m[prior + 2 * (y * w + x) + 1] = u, v


@inlined
def _enlarged(m, prior, found, h, w, coarse_h, coarse_w):
    """The initial flow of a level, from the coarser level."""
    two = np.float32(2)
    for y in range(h):
        for x in range(w):
            u, v = _pair_at(m, found, coarse_h, coarse_w, np.float32(y) * _HALF - _QUARTER, np.float32(x) * _HALF - _QUARTER)
            m[prior + 2 * (y * w + x)], m[prior + 2 * (y * w + x) + 1] = two * u, two * v


@inlined
def _sum(lanes):
    return ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) + ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]))


@inlined
def _misfit(m, second, h, w, y0, x0, u, v, t, gy, gx):
    """Compare the patch `t` with the second picture, moved by (u, v). Gives the sum of squared differences without their mean, and the
    sums of differences, of differences times gradients along y, and of differences times gradients along x."""
    y, x = np.float32(y0) + v, np.float32(x0) + u
    reach = np.float32(1 - PATCH)
    y = y if y > reach else reach
    x = x if x > reach else reach
    y, x = smaller(y, np.float32(h - 1)), smaller(x, np.float32(w - 1))
    top, left = np.int64(np.floor(y)), np.int64(np.floor(x))
    fy, fx = y - np.float32(top), x - np.float32(left)
    ey, ex = _ONE - fy, _ONE - fx
    squares, plain, along_y, along_x = _lanes(), _lanes(), _lanes(), _lanes()
    for j in range(PATCH):
        squares[j], plain[j], along_y[j], along_x[j] = _ZERO, _ZERO, _ZERO, _ZERO
    if top >= 0 and left >= 0 and top + PATCH < h and left + PATCH < w:
        for i in range(PATCH):
            k = second + (top + i) * w + left
            for j in range(PATCH):
                upper = m[k + j] * ex + m[k + j + 1] * fx
                lower = m[k + w + j] * ex + m[k + w + j + 1] * fx
                d = (upper * ey + lower * fy) - t[PATCH * i + j]
                squares[j] += d * d
                plain[j] += d
                along_y[j] += d * gy[PATCH * i + j]
                along_x[j] += d * gx[PATCH * i + j]
    else:
        for i in range(PATCH):
            k, below = second + _clamped(top + i, h - 1) * w, second + _clamped(top + i + 1, h - 1) * w
            for j in range(PATCH):
                a, b = _clamped(left + j, w - 1), _clamped(left + j + 1, w - 1)
                upper = m[k + a] * ex + m[k + b] * fx
                lower = m[below + a] * ex + m[below + b] * fx
                d = (upper * ey + lower * fy) - t[PATCH * i + j]
                squares[j] += d * d
                plain[j] += d
                along_y[j] += d * gy[PATCH * i + j]
                along_x[j] += d * gx[PATCH * i + j]
    total = _sum(plain)
    return _sum(squares) - total * total * _PART, total, _sum(along_y), _sum(along_x)


@inlined
def _searched(m, first, second, prior, h, w, py, px, descents):
    """Search the flow (u, v) of a patch."""
    y0, x0 = smaller(py * STRIDE, h - PATCH), smaller(px * STRIDE, w - PATCH)
    t, gy, gx = _patch(), _patch(), _patch()
    sy, sx, yy, xy, xx = _ZERO, _ZERO, _ZERO, _ZERO, _ZERO
    for i in range(PATCH):
        row = first + (y0 + i) * w
        above, below = first + larger(y0 + i - 1, 0) * w, first + smaller(y0 + i + 1, h - 1) * w
        for j in range(PATCH):
            x = x0 + j
            a = _HALF * (m[below + x] - m[above + x])
            b = _HALF * (m[row + smaller(x + 1, w - 1)] - m[row + larger(x - 1, 0)])
            t[PATCH * i + j], gy[PATCH * i + j], gx[PATCH * i + j] = m[row + x], a, b
            sy += a
            sx += b
            yy += a * a
            xy += a * b
            xx += b * b
    yy -= sy * sy * _PART
    xy -= sy * sx * _PART
    xx -= sx * sx * _PART
    u, v, best, mean, by, bx = _ZERO, _ZERO, _ZERO, _ZERO, _ZERO, _ZERO
    for k in range(5):  # The patch's own place, and its neighbours.
        y = _clamped(y0 + PATCH // 2 + (PATCH if k == 1 else -PATCH if k == 2 else 0), h - 1)
        x = _clamped(x0 + PATCH // 2 + (PATCH if k == 3 else -PATCH if k == 4 else 0), w - 1)
        at_u, at_v = m[prior + 2 * (y * w + x)], m[prior + 2 * (y * w + x) + 1]
        if k > 0 and at_u == u and at_v == v:
            continue
        error, total, along_y, along_x = _misfit(m, second, h, w, y0, x0, at_u, at_v, t, gy, gx)
        if k == 0 or error < best:
            u, v, best, mean, by, bx = at_u, at_v, error, total, along_y, along_x
    determinant = yy * xx - xy * xy
    if determinant < _LEAST_DETERMINANT:
        return u, v
    begun_u, begun_v = u, v
    for _ in range(descents):
        by -= sy * mean * _PART
        bx -= sx * mean * _PART
        next_u, next_v = u - (yy * bx - xy * by) / determinant, v - (xx * by - xy * bx) / determinant
        error, mean, by, bx = _misfit(m, second, h, w, y0, x0, next_u, next_v, t, gy, gx)
        if not error < best:
            break
        u, v, best = next_u, next_v, error
    reach = np.float32(PATCH)
    if not (abs(u - begun_u) < reach and abs(v - begun_v) < reach):
        return begun_u, begun_v
    return u, v


@inlined
def _spread(m, first, second, patches, h, w, y, x):
    """The flow of a pixel: the mean of its patches' flows, weighted by how well each fits at the pixel."""
    across, down = -(-(w - PATCH) // STRIDE) + 1, -(-(h - PATCH) // STRIDE) + 1
    total, u, v = _ZERO, _ZERO, _ZERO
    own = m[first + y * w + x]
    for py in range(larger((y - PATCH + STRIDE) // STRIDE, 0), smaller(y // STRIDE + 2, down)):
        top = smaller(py * STRIDE, h - PATCH)
        if y < top or y >= top + PATCH:
            continue
        for px in range(larger((x - PATCH + STRIDE) // STRIDE, 0), smaller(x // STRIDE + 2, across)):
            left = smaller(px * STRIDE, w - PATCH)
            if x < left or x >= left + PATCH:
                continue
            k = patches + 2 * (py * across + px)
            away = abs(_at(m, second, h, w, np.float32(y) + m[k + 1], np.float32(x) + m[k]) - own)
            weight = _ONE / (away if away > _ONE else _ONE)
            total += weight
            u += weight * m[k]
            v += weight * m[k + 1]
    return u / total, v / total


@inlined
def _equations(m, first, second, found, planes, h, w, y, x):
    """The refinement's coefficients of a pixel: its two equations (u u, u v, v v, right sides), and its weight for neighbours."""
    k, n = y * w + x, h * w
    u, v = m[found + 2 * k], m[found + 2 * k + 1]
    ty, tx = np.float32(y) + v, np.float32(x) + u
    left, right, above, below = larger(x - 1, 0), smaller(x + 1, w - 1), larger(y - 1, 0), smaller(y + 1, h - 1)
    row = first + y * w
    gx = _QUARTER * ((_at(m, second, h, w, ty, tx + _ONE) - _at(m, second, h, w, ty, tx - _ONE)) + (m[row + right] - m[row + left]))
    gy = _QUARTER * (
        (_at(m, second, h, w, ty + _ONE, tx) - _at(m, second, h, w, ty - _ONE, tx)) + (m[first + below * w + x] - m[first + above * w + x])
    )
    change = _at(m, second, h, w, ty, tx) - m[row + x]
    norm = _ONE / (gx * gx + gy * gy + _ONE)
    data = norm / np.sqrt(norm * change * change + _SMALL)
    rest = gx * u + gy * v - change
    m[planes + k] = data * gx * gx
    m[planes + n + k] = data * gx * gy
    m[planes + 2 * n + k] = data * gy * gy
    m[planes + 3 * n + k] = data * gx * rest
    m[planes + 4 * n + k] = data * gy * rest
    ux = _HALF * (m[found + 2 * (y * w + right)] - m[found + 2 * (y * w + left)])
    vx = _HALF * (m[found + 2 * (y * w + right) + 1] - m[found + 2 * (y * w + left) + 1])
    uy = _HALF * (m[found + 2 * (below * w + x)] - m[found + 2 * (above * w + x)])
    vy = _HALF * (m[found + 2 * (below * w + x) + 1] - m[found + 2 * (above * w + x) + 1])
    m[planes + 5 * n + k] = _ALPHA / np.sqrt((ux * ux + vx * vx) + (uy * uy + vy * vy) + _SMALL)


@inlined
def _relaxed(m, found, planes, h, w, y, x):
    """One step of successive over-relaxation for a pixel, from its four neighbours."""
    k, n = y * w + x, h * w
    own, weights, us, vs = m[planes + 5 * n + k], _ZERO, _ZERO, _ZERO
    for side in range(4):
        ny, nx = y + (side == 0) - (side == 1), x + (side == 2) - (side == 3)
        if 0 <= ny < h and 0 <= nx < w:
            other = ny * w + nx
            weight = _HALF * (own + m[planes + 5 * n + other])
            weights += weight
            us += weight * m[found + 2 * other]
            vs += weight * m[found + 2 * other + 1]
    u, v, xy = m[found + 2 * k], m[found + 2 * k + 1], m[planes + n + k]
    u = (_ONE - _OMEGA) * u + _OMEGA * ((m[planes + 3 * n + k] + us - xy * v) / (m[planes + k] + weights))
    v = (_ONE - _OMEGA) * v + _OMEGA * ((m[planes + 4 * n + k] + vs - xy * u) / (m[planes + 2 * n + k] + weights))
    m[found + 2 * k], m[found + 2 * k + 1] = u, v


@inlined
def _mean_flow(m, found, r, grid, cell_y, cell_x):
    """The mean flow of a cell of the output."""
    finest = r[word.finest]
    h, w = _extent(r[word.rows], finest), _extent(r[word.columns], finest)
    scale = np.float32(1 << finest)
    small = _ONE / scale
    u, v, count = _ZERO, _ZERO, np.int64(0)
    for y in range(cell_y * grid, smaller((cell_y + 1) * grid, r[word.height])):
        for x in range(cell_x * grid, smaller((cell_x + 1) * grid, r[word.width])):
            at_u, at_v = _pair_at(
                m, found, h, w, (np.float32(y) + _HALF) * small - _HALF, (np.float32(x) + _HALF) * small - _HALF
            )
            u += at_u
            v += at_v
            count += 1
    return scale * u / np.float32(count), scale * v / np.float32(count)


@step
def flow_step(context, sample, thread):
    """All flows of one sequence, one pair of frames after another."""
    r = view_i64(load_i64(context + at.records) + word.size * sample, word.words)
    source = load_i64(load_i64(context + at.inputs) + 8 * sample)
    hinted = load_i64(context + at.hinted)
    hints = load_i64(load_i64(context + at.hints) + 8 * sample) if hinted != 0 else np.int64(0)
    m = view_f32(load_i64(thread + thread_at.scratch) + load_i64(context + at.scratch), r[word.work])
    rows, columns, levels, finest = r[word.rows], r[word.columns], r[word.levels], r[word.finest]
    order, grid = load_i64(context + at.order), load_i64(context + at.grid)
    fine = _extent(rows, finest) * _extent(columns, finest)
    prior = 2 * r[word.pyramid]
    found = prior + 2 * fine
    planes = found + 2 * fine
    patches = planes + 6 * fine
    out_rows, out_columns = -(-r[word.height] // grid), -(-r[word.width] // grid)
    out = view_f32(load_i64(load_i64(context + at.outputs) + 8 * sample), (r[word.frames] - 1) * out_rows * out_columns * 2)
    for pair in range(r[word.frames] - 1):
        _pyramid(m, 0, source, r, pair, order)
        _pyramid(m, r[word.pyramid], source, r, pair + 1, order)
        for level in range(levels - 1, finest - 1, -1):
            h, w = _extent(rows, level), _extent(columns, level)
            first = _plane(rows, columns, level)
            second = first + r[word.pyramid]
            if level == levels - 1:
                _begin(m, prior, found, r, hints, hinted, load_i64(context + at.temporal), load_i64(context + at.hint_grid), pair)
            else:
                _enlarged(m, prior, found, h, w, _extent(rows, level + 1), _extent(columns, level + 1))
            across, down = -(-(w - PATCH) // STRIDE) + 1, -(-(h - PATCH) // STRIDE) + 1
            for py in range(down):
                for px in range(across):
                    u, v = _searched(m, first, second, prior, h, w, py, px, load_i64(context + at.descents))
                    m[patches + 2 * (py * across + px)], m[patches + 2 * (py * across + px) + 1] = u, v
            for y in range(h):
                for x in range(w):
                    m[found + 2 * (y * w + x)], m[found + 2 * (y * w + x) + 1] = _spread(m, first, second, patches, h, w, y, x)
            for _ in range(load_i64(context + at.refinements)):
                for y in range(h):
                    for x in range(w):
                        _equations(m, first, second, found, planes, h, w, y, x)
                for k in range(2 * SWEEPS):
                    for y in range(h):
                        for x in range((y + k) & 1, w, 2):
                            _relaxed(m, found, planes, h, w, y, x)
        for y in range(out_rows):
            for x in range(out_columns):
                k = 2 * ((pair * out_rows + y) * out_columns + x)
                out[k], out[k + 1] = _mean_flow(m, found, r, grid, y, x)
    return 0


def records_of(shapes: np.ndarray, finest: int) -> np.ndarray:
    """FLOW_RECORDs of frames of `shapes` int64[samples, 4], searched down to the level `finest`."""
    records, columns = FLOW_RECORD.zeros(len(shapes)), FLOW_RECORD.word
    records[:, FLOW_RECORD.span("frames", "channels")] = shapes
    for row in records:
        rows, width = max(int(row[columns.height]), SMALLEST), max(int(row[columns.width]), SMALLEST)
        extents = [(rows, width)]
        while max(extents[-1]) >= _COARSEST and min(-(-extent // 2) for extent in extents[-1]) >= PATCH:
            extents.append((-(-extents[-1][0] // 2), -(-extents[-1][1] // 2)))
        last = min(finest, len(extents) - 1)
        pixels = extents[last][0] * extents[last][1]
        patches = (-(-(extents[last][0] - PATCH) // STRIDE) + 1) * (-(-(extents[last][1] - PATCH) // STRIDE) + 1)
        row[columns.rows], row[columns.columns] = rows, width
        row[columns.levels], row[columns.finest] = len(extents), last
        row[columns.pyramid] = sum(h * w for h, w in extents)
        row[columns.work] = 2 * row[columns.pyramid] + 10 * pixels + 2 * patches
    return records


class FlowSearch(NamedTuple):
    """How flows are searched for; see the table FLOW."""

    grid: int
    hint_grid: int
    order: int
    temporal: bool
    descents: int
    refinements: int


def make_flow_step(source: Batch, hints: Batch | None, output: Batch, records: np.ndarray, search: FlowSearch) -> Step:
    """The step for a batch, from FLOW_RECORDs of its samples."""
    none = np.zeros(len(source), np.int64)
    given = {
        "inputs": source.addresses, "hints": none if hints is None else hints.addresses, "outputs": output.addresses,
        "hinted": hints is not None, "samples": len(source), **search._asdict(),
    }  # fmt: skip
    table, keep = laid_out(FLOW.entries(**given, records=records, scratch=0, first=0, pairs=1, level=0, colour=0))
    most = 4 * int(records[:, word.work].max(initial=0))

    def launches() -> list[Launch]:
        return _launches(given, records, search.temporal, search.refinements)

    return Step(flow_step.address, table, no_explanation, most, FLOW.word.scratch, keep, launches=launches)


def _launches(given: dict[str, Any], records: np.ndarray, temporal: bool, refinements: int) -> list[Launch]:
    """Launches for a batch. A launch searches as many pairs of frames as fit into the work memory.

    Pairs run one after another if each starts from the last one's flow.
    """
    pairs = int(records[:, word.frames].max(initial=1)) - 1
    together = 1 if temporal else max(1, min(pairs, _MEMORY_AT_ONCE // max(4 * int(records[:, word.work].sum()), 1)))
    records = records.copy()
    records[:, word.begin] = together * (np.cumsum(records[:, word.work]) - records[:, word.work])
    scratch = Scratch(4 * together * int(records[:, word.work].sum()))
    samples = len(records)
    pixels = int((records[:, word.rows] * records[:, word.columns]).max(initial=1)) * together
    levels = int(records[:, word.levels].max(initial=1))
    made: list[Launch] = []

    def launch(entry: str, first: int, level: int = 0, items: int = pixels, colour: int = 0) -> None:
        entries = FLOW.entries(**given, records=records, scratch=scratch, first=first, pairs=together, level=level, colour=colour)
        made.append(Launch(Kernel(_SOURCE, entry), entries, grid_of(items, samples)))

    for first in range(0, pairs, together):
        launch("flow_gray", first, items=2 * pixels)
        for level in range(1, levels):
            launch("flow_halve", first, level, 2 * pixels >> 2 * level)
        for level in range(levels - 1, int(records[:, word.finest].min(initial=0)) - 1, -1):
            items = max(pixels >> 2 * level, 1)
            launch("flow_begin", first, level, items)
            launch("flow_search", first, level, max(items // (STRIDE * STRIDE), 1))
            launch("flow_spread", first, level, items)
            for _ in range(refinements):
                launch("flow_equations", first, level, items)
                for k in range(2 * SWEEPS):
                    launch("flow_relax", first, level, items, k & 1)
        launch("flow_deliver", first)
    return made
