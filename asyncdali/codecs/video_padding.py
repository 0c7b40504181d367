"""What stands in for frames that a video does not have."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

PAD_MODES = {
    "none": "none", "constant": "constant", "edge": "edge", "repeat": "edge", "reflect_1001": "symmetric", "symmetric": "symmetric",
    "reflect_101": "reflect", "reflect": "reflect",
}  # fmt: skip
"""Names of the ways to pad a sequence -> the way."""

MISSING = -1
"""The number of a frame that the fill value stands for."""


def check_fill_value(fill: list[int]) -> None:
    """ValueError unless it is one value of a UINT8 frame, or one for each of its channels."""
    if len(fill) not in (1, 3):
        raise ValueError(f"Fill value size must be 1 or equal to the number of channels (3), got {len(fill)} values")
    if min(fill) < 0 or max(fill) > 255:
        raise ValueError(f"`fill_value` must be in range [0, 255], got {fill}")


def check_pad_mode(mode: str) -> None:
    """ValueError unless it is one of PAD_MODES."""
    if mode not in PAD_MODES:
        raise ValueError(f"Invalid pad_mode: {mode}. Valid options are: {', '.join(PAD_MODES)}")


def padded(wanted: np.ndarray, stop: int, way: str) -> np.ndarray:
    """The frames that are shown where `wanted` are asked for, int64, MISSING for the fill value.

    A video's frames before `stop` are there; `way` is one of the values of PAD_MODES ("none": all wanted frames are there).
    """
    return _PADDING[way](wanted, stop)


def _reflect(wanted: np.ndarray, stop: int) -> np.ndarray:
    """Back from the part's last frame, as far as the video's first, and so on; neither is shown twice in a row."""
    period = max(2 * (stop - 1), 1)
    place = wanted % period
    return np.minimum(place, period - place)


def _symmetric(wanted: np.ndarray, stop: int) -> np.ndarray:
    """As :func:`_reflect`, but each end is shown twice."""
    place = wanted % (2 * stop)
    return np.minimum(place, 2 * stop - 1 - place)


_PADDING: dict[str, Callable[[np.ndarray, int], np.ndarray]] = {
    "none": lambda wanted, stop: wanted,
    "constant": lambda wanted, stop: np.where((wanted >= 0) & (wanted < stop), wanted, MISSING),
    "edge": lambda wanted, stop: np.clip(wanted, 0, stop - 1),
    "symmetric": _symmetric,
    "reflect": _reflect,
}
