"""Replacements for frames that a video does not have."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

PAD_MODES = {
    "none": "none", "constant": "constant", "edge": "edge", "repeat": "edge", "reflect_1001": "symmetric", "symmetric": "symmetric",
    "reflect_101": "reflect", "reflect": "reflect",
}  # fmt: skip
"""Names of the padding modes -> the mode."""

MISSING = -1
"""The frame number that stands for the fill value."""


def check_fill_value(fill: list[int]) -> None:
    """Raise ValueError unless `fill` is one value of a UINT8 frame, or one value per channel."""
    if len(fill) not in (1, 3):
        raise ValueError(f"Fill value size must be 1 or equal to the number of channels (3), got {len(fill)} values")
    if min(fill) < 0 or max(fill) > 255:
        raise ValueError(f"`fill_value` must be in range [0, 255], got {fill}")


def check_pad_mode(mode: str) -> None:
    """Raise ValueError unless `mode` is one of PAD_MODES."""
    if mode not in PAD_MODES:
        raise ValueError(f"Invalid pad_mode: {mode}. Valid options are: {', '.join(PAD_MODES)}")


def padded(wanted: np.ndarray, stop: int, way: str) -> np.ndarray:
    """The frames that replace the `wanted` ones, int64; MISSING stands for the fill value.

    A video's frames before `stop` exist; `way` is one of the values of PAD_MODES ("none": all wanted frames exist).
    """
    return _PADDING[way](wanted, stop)


def _reflect(wanted: np.ndarray, stop: int) -> np.ndarray:
    """Go back from the part's last frame to the video's first, then forward, and so on. No frame is repeated at the turning points."""
    period = max(2 * (stop - 1), 1)
    place = wanted % period
    result: np.ndarray = np.minimum(place, period - place)
    return result


def _symmetric(wanted: np.ndarray, stop: int) -> np.ndarray:
    """Like :func:`_reflect`, but the frame at each turning point is repeated."""
    place = wanted % (2 * stop)
    result: np.ndarray = np.minimum(place, 2 * stop - 1 - place)
    return result


_PADDING: dict[str, Callable[[np.ndarray, int], np.ndarray]] = {
    "none": lambda wanted, stop: wanted,
    "constant": lambda wanted, stop: np.where((wanted >= 0) & (wanted < stop), wanted, MISSING),
    "edge": lambda wanted, stop: np.clip(wanted, 0, stop - 1),
    "symmetric": _symmetric,
    "reflect": _reflect,
}
