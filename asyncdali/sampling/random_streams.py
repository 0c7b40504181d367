"""Random numbers as a function of (seed, position): Philox4x32-10, addressed and converted bit for bit like DALI 2.4.

A random operator's whole state is one :class:`StreamPosition`. The functions here are pure: they draw one batch *at* a position and
do not change the position; the caller chains ``position.advanced(samples)`` into the next iteration's record::

    position = StreamPosition.fresh(seed)
    angles = uniform(position, 256, -30.0, 30.0)        # float32[256]
    position = position.advanced(256)

Arrays with several elements per sample are flat, one sample after another; ``counts`` gives the elements of each sample. All work happens
in one compiled call that releases the GIL. The kernels (and Numba) are loaded by the first draw or by :func:`load_kernels`, which
``build()`` should call so that no compilation happens in a pool thread.

Addressing: sample i starts at counter hi + 65537 i, its element e at word 257 e from there. The formulas of each distribution are with
their kernels in ``random_streams_kernels.py``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np
from asyncdali_workers import limits

from ..compiled.addresses import address_of
from ..errors import SampleValueError
from .random_draw_tables import DRAW

_MASK32, _MASK64 = 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF
SAMPLE_STRIDE = 65537
ELEMENT_STRIDE = 257

# The kernels' codes of output types (DALIDataType's numbers).
KINDS = {
    np.dtype(name): kind
    for name, kind in {
        "uint8": 0, "uint16": 1, "uint32": 2, "uint64": 3, "int8": 4, "int16": 5, "int32": 6, "int64": 7,
        "float32": 9, "float64": 10, "bool": 11,
    }.items()
}  # fmt: skip
_BOOL = KINDS[np.dtype(bool)]
_FLOAT_KINDS = {KINDS[np.dtype(name)] for name in ("uint8", "int8", "uint16", "int16", "float32")}
"""Types whose numbers are drawn in float32."""
_FEW = 4096  # Drawing this many numbers takes about 20 us.
_MANY = 64  # Elements per sample from which vectors of elements are drawn.
_TEXT = re.compile(r"Philox_([0-9A-Fa-f]{16})_([0-9A-Fa-f]{16}):([0-9A-Fa-f]{16})_([0-3])", re.ASCII)


@cache
def load_kernels() -> ModuleType:
    """Import the kernels, and compile them at the first run on a machine. Later calls cost nothing."""
    from . import random_streams_kernels

    return random_streams_kernels


# ---------------------------------------------------------------------------------------------------------------------------------
# Positions and seeds
# ---------------------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StreamPosition:
    """A place in a Philox stream: 64-bit `key`, 128-bit counter `hi`:`lo`, and `phase` (0-3) words already used of its block."""

    key: int
    hi: int = 0
    lo: int = 0
    phase: int = 0

    @classmethod
    def fresh(cls, seed: int) -> StreamPosition:
        """The start of the stream of an operator with `seed` (any integer; its low 64 bits as two's complement are the key)."""
        return cls(int(seed) & _MASK64)

    @classmethod
    def parse(cls, text: str) -> StreamPosition:
        """Read the checkpoint form ``Philox_KEY_HI:LO_PHASE`` (16 hexadecimal digits each, phase 0-3).

        Raises:
            ValueError: `text` is something else.
        """
        match = _TEXT.fullmatch(text) if isinstance(text, str) else None
        if match is None:
            shown = repr(text) if len(repr(text)) <= 90 else repr(text)[:87] + "..."
            raise ValueError(
                f"{shown} is not the position of a random stream; expected Philox_<key>_<hi>:<lo>_<phase> with 16 hexadecimal "
                "digits for key, hi and lo, and a phase of 0 to 3"
            )
        key, hi, lo, phase = match.groups()
        return cls(int(key, 16), int(hi, 16), int(lo, 16), int(phase))

    def __str__(self) -> str:
        return f"Philox_{self.key:016X}_{self.hi:016X}:{self.lo:016X}_{self.phase}"

    def advanced(self, samples: int) -> StreamPosition:
        """The position of the next iteration, after one that produced `samples` samples."""
        return StreamPosition(self.key, (self.hi + samples) & _MASK64, self.lo, self.phase)

    def slot(self, sample: int, element: int = 0) -> StreamPosition:
        """Where element `element` of sample `sample` of this iteration draws its first word.

        Drawing at ``slot(s)`` gives what the batch gives from sample s on, so a batch can be split among threads.
        """
        words = self.phase + ELEMENT_STRIDE * element
        counter = ((self.hi + SAMPLE_STRIDE * sample) << 64) + self.lo + words // 4
        return StreamPosition(self.key, (counter >> 64) & _MASK64, counter & _MASK64, words % 4)


def drawn_position(key: int, counter: int, phase: int) -> StreamPosition:
    """The stream that the next seven words of a stream at this position make. `counter`: all 128 bits."""
    made = np.empty(4, np.uint64)
    load_kernels().draw_position.held(key, counter >> 64, counter & _MASK64, phase, address_of(made))
    return StreamPosition(*made.tolist())


# ---------------------------------------------------------------------------------------------------------------------------------
# Arguments of a draw
# ---------------------------------------------------------------------------------------------------------------------------------


def _kind(dtype: Any) -> int:
    kind = KINDS.get(dtype)  # nearly always a numpy dtype
    if kind is None:
        kind = KINDS.get(np.dtype(dtype))
    if kind is None:
        raise ValueError(f"random values of dtype {np.dtype(dtype)} are not supported; use one of {', '.join(map(str, KINDS))}")
    return kind


def _elements(counts: int | np.ndarray, samples: int) -> tuple[int, np.ndarray | None, int]:
    """(elements of every sample, or 0; int64[samples] array, or None; total)."""
    if samples < 0:
        raise ValueError(f"the number of samples is {samples}; it cannot be negative")
    if isinstance(counts, int):
        if counts < 0:
            raise ValueError(f"the number of elements per sample is {counts}; it cannot be negative")
        return counts, None, counts * samples
    array = np.ascontiguousarray(counts, np.int64)
    if array.shape != (samples,):
        raise ValueError(f"counts has shape {array.shape}; expected one count per sample: ({samples},)")
    if samples and array.min() < 0:
        raise SampleValueError(int(array.argmin()), f"the number of elements is {int(array.min())}; it cannot be negative")
    return 0, array, int(array.sum())


def _parameter(name: str, value: object, samples: int) -> tuple[Any, int, np.ndarray]:
    """A float32 parameter as DRAW takes it: its bits and step 0 (one value for all samples), or an array and step 4; and its value."""
    array = np.asarray(value, np.float32)
    if array.ndim == 0:
        return int(array.view(np.int32)), 0, array
    if array.shape != (samples,):
        raise ValueError(f"{name} has shape {array.shape}; expected a number or one per sample: ({samples},)")
    array = np.ascontiguousarray(array)
    return array, 4, array


def _output(out: np.ndarray | None, total: int, dtype: Any) -> np.ndarray:
    """`out` checked (any shape of `total` elements), or a new flat array."""
    if out is None and total <= _FEW:
        return np.empty(total, dtype)
    if out is None:
        result: np.ndarray = limits.new_array(total, dtype, "random numbers")
        return result
    if out.dtype != np.dtype(dtype) or out.size != total or not out.flags.c_contiguous or not out.flags.writeable:
        raise ValueError(
            f"out is {out.dtype}[{out.size}] (contiguous: {out.flags.c_contiguous}, writable: {out.flags.writeable}); "
            f"expected a contiguous, writable {np.dtype(dtype)} array of {total} elements"
        )
    return out


def _array(array: np.ndarray | None) -> Any:
    return 0 if array is None else array


# ---------------------------------------------------------------------------------------------------------------------------------
# Element-addressed draws
# ---------------------------------------------------------------------------------------------------------------------------------


class BatchDraw:
    """The numbers of one batch, which can be drawn at any position: a kernel, and its arguments besides the position.

    Operators with constant parameters keep it, because checking and converting parameters takes longer than drawing a few numbers.
    """

    __slots__ = ("_at", "_dtype", "_keep", "_kernel", "_refused", "_total")

    def __init__(
        self, kernel: Any, table: tuple[np.ndarray, list[object]], total: int, dtype: Any, refused: Callable[[int], Exception] | None = None
    ):  # fmt: skip
        """`table`: DRAW.

        total, dtype  of the output, which is flat
        refused       the error for what the kernel returns, if it is not 0
        """
        # Drawing a few numbers is faster than releasing and reacquiring the interpreter lock.
        self._kernel = kernel.held_entry if total <= _FEW else kernel.entry
        words, _ = self._keep = table
        self._at = address_of(words)
        self._total, self._dtype, self._refused = total, dtype, refused

    def at(self, position: StreamPosition, out: np.ndarray | None = None) -> np.ndarray:
        """The numbers from `position` on, in `out` or in a new flat array."""
        return self._drawn(position.key, position.hi, position.lo, position.phase, 0, out)

    def of_call(self, key: int, counter: int, phase: int) -> np.ndarray:
        """The numbers from the position on that :func:`drawn_position` makes, in a new flat array."""
        return self._drawn(key, counter >> 64, counter & _MASK64, phase, 1, None)

    def _drawn(self, key: int, hi: int, lo: int, phase: int, is_call: int, out: np.ndarray | None) -> np.ndarray:
        result = np.empty(self._total, self._dtype) if out is None and self._total <= _FEW else _output(out, self._total, self._dtype)
        bad = self._kernel(self._at, key, hi, lo, phase, is_call, address_of(result))
        if bad and self._refused is not None:
            raise self._refused(bad)
        return result


def uniform_draw(
    samples: int, low: object = -1.0, high: object = 1.0, *, dtype: object = np.float32, counts: int | np.ndarray = 1
) -> BatchDraw:  # fmt: skip
    """``random.uniform(range=[low, high])`` of one batch.

    Args:
        samples: number of samples in the batch.
        low, high: numbers, or one per sample ([samples]); taken as float32. Integer outputs truncate the bounds, then
            round the drawn value (so both ends of [0, 100] have half weight).
        dtype: any integer type of 1-8 bytes, float32 or float64.
        counts: elements per sample, for all or int64[samples].

    Raises:
        ValueError: an unsupported dtype (bool and float16 too), or mismatched sizes. An empty range (names the sample) when it is drawn.
    """
    kind = _kind(dtype)
    if kind == _BOOL:
        raise ValueError("random.uniform cannot produce bool; use one of the integer types, float32 or float64, or coin_flip")
    count, per_sample, total = _elements(counts, samples)
    lows, low_step, low_array = _parameter("low", low, samples)
    highs, high_step, high_array = _parameter("high", high, samples)

    def refused(bad: int) -> Exception:
        i = bad - 1
        a, b = (float(array[i] if array.ndim else array) for array in (low_array, high_array))
        return SampleValueError(i, f"the range [{a}, {b}) is empty; its end must be greater than its start")

    table = DRAW.make(
        samples=samples, count=count, counts=_array(per_sample), first=lows, first_step=low_step, second=highs, second_step=high_step,
        kind=kind,
    )  # fmt: skip
    return BatchDraw(load_kernels().draw_uniform, table, total, dtype, refused)


def uniform(
    position: StreamPosition, samples: int, low: object = -1.0, high: object = 1.0, *,
    dtype: object = np.float32, counts: int | np.ndarray = 1, out: np.ndarray | None = None,
) -> np.ndarray:  # fmt: skip
    """:func:`uniform_draw` at a position, where the iteration starts.

    Args:
        out: C-contiguous array of `dtype` to write to, of any shape with as many elements.

    Returns:
        `out`, or a new flat array of `dtype`, one sample after another.
    """
    return uniform_draw(samples, low, high, dtype=dtype, counts=counts).at(position, out)


def values_draw(
    samples: int, values: object, lengths: object = None, *, dtype: object = np.float32, counts: int | np.ndarray = 1
) -> BatchDraw:  # fmt: skip
    """``random.uniform(values=...)`` of one batch: each element is one of the values, all equally likely.

    Args:
        values: flat, taken as float32. Without `lengths` they are every sample's values; with it, sample i owns the next
            ``lengths[i]`` of them.
        lengths: int64[samples], each at least 1.
        dtype, counts: as in :func:`uniform_draw` (bool is allowed: value != 0).

    Raises:
        ValueError: no values (names the sample), an unsupported dtype, or mismatched sizes.
    """
    kind = _kind(dtype)
    count, per_sample, total = _elements(counts, samples)
    pool = np.ascontiguousarray(values, np.float32).reshape(-1)
    sizes = None
    if lengths is not None:
        sizes = np.ascontiguousarray(lengths, np.int64)
        if sizes.shape != (samples,):
            raise ValueError(f"lengths has shape {sizes.shape}; expected one length per sample: ({samples},)")
        if samples and sizes.min() < 1:
            raise SampleValueError(int(sizes.argmin()), "there is no value to choose from; at least one is needed")
        if int(sizes.sum()) != pool.size:
            raise ValueError(f"lengths add up to {int(sizes.sum())} but there are {pool.size} values")
    elif pool.size == 0:
        raise ValueError("values is empty; at least one value to choose from is needed")
    table = DRAW.make(
        samples=samples, count=count, counts=_array(per_sample), first=pool, first_step=pool.size, second=_array(sizes), second_step=0,
        kind=kind,
    )  # fmt: skip
    return BatchDraw(load_kernels().draw_values, table, total, dtype)


def uniform_values(
    position: StreamPosition, samples: int, values: object, lengths: object = None, *,
    dtype: object = np.float32, counts: int | np.ndarray = 1, out: np.ndarray | None = None,
) -> np.ndarray:  # fmt: skip
    """:func:`values_draw` at a position; `out` as in :func:`uniform`."""
    return values_draw(samples, values, lengths, dtype=dtype, counts=counts).at(position, out)


def coin_draw(samples: int, probability: object = 0.5, *, dtype: object = np.int32, counts: int | np.ndarray = 1) -> BatchDraw:
    """``random.coin_flip`` of one batch: 1 with `probability` (a number or one per sample, taken as float32), else 0.

    A probability outside [0, 1] is not refused: above 1 it acts as 1, a negative one wraps (-0.5 acts as 0.5), NaN acts as 0,
    all as in DALI. Even 0 is true once in 2^32 draws. `dtype` may be bool or any type of :func:`uniform_draw`; see there for
    `counts` and errors.
    """
    kind = _kind(dtype)
    count, per_sample, total = _elements(counts, samples)
    chances, step, _ = _parameter("probability", probability, samples)
    table = DRAW.make(
        samples=samples, count=count, counts=_array(per_sample), first=chances, first_step=step, second=0, second_step=0, kind=kind
    )  # fmt: skip
    return BatchDraw(load_kernels().draw_coins, table, total, dtype)


def coin_flip(
    position: StreamPosition, samples: int, probability: object = 0.5, *,
    dtype: object = np.int32, counts: int | np.ndarray = 1, out: np.ndarray | None = None,
) -> np.ndarray:  # fmt: skip
    """:func:`coin_draw` at a position; `out` as in :func:`uniform`."""
    return coin_draw(samples, probability, dtype=dtype, counts=counts).at(position, out)


def normal_draw(
    samples: int, mean: object = 0.0, stddev: object = 1.0, *, dtype: object = np.float32, counts: int | np.ndarray = 1
) -> BatchDraw:  # fmt: skip
    """``random.normal`` of one batch: Box-Muller (cosine half), evaluated in float64 for float64 and integers of 4 and 8 bytes.

    `mean` and `stddev` are numbers or one per sample, taken as float32; a negative stddev is accepted. Integer results are
    rounded half away from zero and saturated. Logarithm and cosine are the C library's, as in DALI: bit-equal on glibc.
    See :func:`uniform_draw` for `dtype`, `counts` and errors.
    """
    kind = _kind(dtype)
    if kind == _BOOL:
        raise ValueError("random.normal cannot produce bool; use one of the integer types, float32 or float64")
    count, per_sample, total = _elements(counts, samples)
    means, mean_step, _ = _parameter("mean", mean, samples)
    deviations, deviation_step, _ = _parameter("stddev", stddev, samples)
    kernels = load_kernels()
    vectors = kernels.draw_normal_vectors.ready and kind in _FLOAT_KINDS and total >= _MANY * samples
    table = DRAW.make(
        samples=samples, count=count, counts=_array(per_sample), first=means, first_step=mean_step, second=deviations,
        second_step=deviation_step, kind=kind,
    )  # fmt: skip
    return BatchDraw(kernels.draw_normal_vectors if vectors else kernels.draw_normal, table, total, dtype)


def normal(
    position: StreamPosition, samples: int, mean: object = 0.0, stddev: object = 1.0, *,
    dtype: object = np.float32, counts: int | np.ndarray = 1, out: np.ndarray | None = None,
) -> np.ndarray:  # fmt: skip
    """:func:`normal_draw` at a position; `out` as in :func:`uniform`."""
    return normal_draw(samples, mean, stddev, dtype=dtype, counts=counts).at(position, out)


# ---------------------------------------------------------------------------------------------------------------------------------
# Crop windows
# ---------------------------------------------------------------------------------------------------------------------------------


@cache
def _checked_ranges(aspect: tuple[float, ...], area: tuple[float, ...], attempts: int) -> np.ndarray:
    """float32[4] of both ranges, shared; ValueError where they are empty or impossible."""
    for name, given in (("random_aspect_ratio", aspect), ("random_area", area)):
        if len(given) != 2:
            raise ValueError(f"`{name}` has {len(given)} values; expected two, the smallest and the largest")
    ranges = np.array([*aspect, *area], np.float32)
    r0, r1, a0, a1 = ranges.tolist()
    if not 0 < r0 <= r1 < np.inf:
        raise ValueError(f"`random_aspect_ratio` is [{r0:g}, {r1:g}]; expected 0 < smallest <= largest")
    if not (0 <= a0 <= a1 < np.inf and a0 <= 1):
        raise ValueError(f"`random_area` is [{a0:g}, {a1:g}]; expected 0 <= smallest <= largest, and smallest <= 1")
    if attempts < 1:
        raise ValueError(f"`num_attempts` is {attempts}; at least 1 is needed")
    return ranges


def draw_windows(
    position: StreamPosition, heights: object, widths: object, aspect: Sequence[float] = (3 / 4, 4 / 3),
    area: Sequence[float] = (0.08, 1.0), attempts: int = 10,
) -> np.ndarray:  # fmt: skip
    """Random crop windows of one batch, as ``random_crop_generator``, ``random_resized_crop`` and ``decoders.image_random_crop`` draw them.

    Args:
        position: the operator's position (the windows' own key is made here).
        heights, widths: integers, [samples]; the image as it will be cropped (after EXIF orientation).
        aspect: smallest and largest width / height; 0 < smallest <= largest.
        area: smallest and largest fraction of the image; 0 <= smallest <= 1.
        attempts: tries before a clipped window is taken, at least 1.

    Returns:
        int32[2, samples, 2]: anchors (y, x) and extents (h, w). An empty image gets zeros.

    Raises:
        ValueError: an impossible range, heights and widths of different shape, or an image of 2^31 or more pixels a side.
    """
    ranges = _checked_ranges(tuple(aspect), tuple(area), attempts)
    heights, widths = np.asarray(heights, np.int64), np.asarray(widths, np.int64)
    if heights.ndim != 1 or heights.shape != widths.shape:
        raise ValueError(f"heights and widths have shapes {heights.shape} and {widths.shape}; expected two vectors of equal length")
    if heights.strides != widths.strides:  # columns of one array have equal strides and need no copy
        heights, widths = np.ascontiguousarray(heights), np.ascontiguousarray(widths)
    samples = len(heights)
    windows = np.empty((2, samples, 2), np.int32)
    window_at = address_of(windows)
    longest = load_kernels().draw_windows(
        position.key, position.hi, position.lo, position.phase, samples, address_of(heights), address_of(widths), heights.strides[0],
        address_of(ranges), attempts, window_at, window_at + 8 * samples,
    )  # fmt: skip
    if longest:
        raise ValueError(f"the image is {longest} pixels long; at most {0x7FFFFFFF} are possible")
    return windows
