"""Decides which frames make a sequence: parts of videos, and the starts of sequences in them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from ...codecs.video.video_padding import padded
from ..containers.indices import read_lines


@dataclass(frozen=True)
class ListedVideo:
    """A line of a list of videos: `start` and `stop` as written (seconds or frame numbers); None if omitted."""

    path: str
    label: int
    start: float | None
    stop: float | None
    where: str


_LATEST = 1 << 31
"""Behind the end of every video, in seconds or frames: frame numbers are INT32, and more ticks would not fit into 64 bits."""


def read_video_list(path: str) -> list[ListedVideo]:
    """Parse a text file of lines ``path label [start [end]]``. RuntimeError gives file and line of anything else."""
    listed = []
    for number, line in enumerate(read_lines(path), 1):
        words = line.split()  # at ASCII blanks, as in DALI; other blanks may be parts of names
        if words:
            listed.append(_listed([word.decode("utf-8", "surrogateescape") for word in words], f"{path}:{number}"))
    return listed


def _listed(words: list[str], where: str) -> ListedVideo:
    def wrong(reason: str) -> RuntimeError:
        shown = " ".join(words)[:200]
        return RuntimeError(f"Incorrect format of the list file {where}: expected `path label [start [end]]`, {reason}: {shown}")

    if not 2 <= len(words) <= 4:
        raise wrong(f"got {len(words)} words")
    try:
        if any("_" in word or not word.isascii() for word in words[1:]):  # Python takes 1_0 and digits of other scripts for numbers
            raise ValueError("label, start and end are decimal numbers")
        label = int(words[1])
        bounds = [float(word) for word in words[2:]]
    except ValueError as error:
        raise wrong(str(error)) from None
    if not 0 <= label < 2**31:
        raise wrong("Label value should be >= 0 and fit into 32 bits")
    if not all(map(math.isfinite, bounds)):
        raise wrong("start and end must be finite")
    start, stop = [*(min(max(bound, -_LATEST), _LATEST) for bound in bounds), None, None][:2]
    return ListedVideo(words[0], label, start, stop, where)


def frame_bounds(start: float | None, stop: float | None, frames: int, rounding: tuple[bool, bool]) -> tuple[int, int]:
    """First and end frame of a video of `frames` frames; negative numbers count from the end. ValueError before the first frame.

    `rounding`: whether start and end are rounded up.
    """
    round_start, round_stop = (math.ceil if up else math.floor for up in rounding)
    first = _from_end(0 if start is None else round_start(start), frames)
    end = _from_end(frames if stop is None else round_stop(stop), frames)
    return first, min(end, frames)


def _from_end(number: int, frames: int) -> int:
    if number < -frames:
        raise ValueError(f"frame {number} lies before the first of {frames} frames")
    return number + frames if number < 0 else number


def time_bounds(start: float | None, stop: float | None, times: np.ndarray, tick: Fraction, rounding: tuple[bool, bool]) -> tuple[int, int]:
    """First and end frame for seconds; `times` in units of `tick` seconds; `rounding`: whether start and end are rounded up."""

    def ticks(seconds: float) -> int:
        # DALI reads seconds as 32-bit floats and truncates to ticks: 0.08 is 79 ms, which is in the frame before.
        return int(float(np.float32(seconds)) * tick.denominator / tick.numerator)

    def frame(time: int, up: bool) -> int:
        return int(np.searchsorted(times, time, "left")) if up else max(int(np.searchsorted(times, time, "right")) - 1, 0)

    first = 0 if start is None else frame(ticks(start), rounding[0])
    if stop is None or ticks(stop) > times[-1]:  # up to the end of the video, including the last frame
        return first, len(times)
    return first, frame(ticks(stop), rounding[1])


def rate_bounds(start: float | None, stop: float | None, frames: int, rate: float, preceding: bool) -> tuple[int, int]:
    """First and end frame for seconds, by the frame rate: inside the two times, or (`preceding`) around them."""
    down, up = (math.floor, math.ceil) if preceding else (math.ceil, math.floor)
    first = 0 if start is None else max(down(start * rate), 0)
    return first, frames if stop is None else min(up(stop * rate), frames)


@dataclass(frozen=True)
class Sequences:
    """All sequences of a data set, int64 arrays of one length: number of the video, first frame, and the part that contains it."""

    videos: np.ndarray
    first: np.ndarray
    starts: np.ndarray
    stops: np.ndarray
    labels: np.ndarray

    def __len__(self) -> int:
        return len(self.videos)


@dataclass(frozen=True)
class Pattern:
    """How sequences are made: `length` frames, `stride` apart, starting every `step` (0 and below: the length of a sequence).

    A complete sequence has `need` frames. Incomplete sequences are dropped, or `padded`: the first one of a part, or with `every_start`
    all.
    `uniform`: one sequence per part, spread over it.
    """

    length: int
    stride: int
    step: int
    padded: str
    need: int
    every_start: bool = False
    uniform: bool = False

    def starts(self, start: int, stop: int) -> range:
        """First frames of the sequences of a part."""
        if self.uniform:
            return range(start, min(start + 1, stop))
        step = self.step if self.step > 0 else self.length * self.stride
        complete = range(start, stop - self.need + 1, step)
        if self.padded == "none":
            return complete
        last = stop if self.every_start else min(stop, start + len(complete) * step + 1)
        return range(start, last, step)

    def frames(self, first: int, start: int, stop: int) -> np.ndarray:
        """Frame numbers of one sequence, int64[length]. MISSING stands for the fill value."""
        if self.uniform:
            return np.floor(np.linspace(start, stop - 1, self.length) + 0.5).astype(np.int64)
        return padded(first + self.stride * np.arange(self.length), stop, self.padded)


def all_sequences(parts: Sequence[tuple[int, int, int, int]], pattern: Pattern) -> Sequences:
    """The sequences of parts (video, start, stop, label), one part after another."""
    rows = [(video, first, start, stop, label) for video, start, stop, label in parts for first in pattern.starts(start, stop)]
    columns = np.array(rows, np.int64).reshape(-1, 5).T
    return Sequences(*(np.ascontiguousarray(column) for column in columns))
