"""Checks of arguments. The classes of the errors are DALI's where DALI has the argument, else torchvision's."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any, TypeGuard

import numpy as np

PADDING_MODES = ("constant", "edge", "reflect", "symmetric")


class ChannelsError(ValueError, RuntimeError):
    """The number of values does not fit the channels of a picture. It is a RuntimeError, too, as in DALI and in torchvision."""


def is_integer(value: object) -> TypeGuard[int]:
    """Whether a value is an integer, and no truth value."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def is_number(value: object) -> TypeGuard[float]:
    """Whether a value is a real number, and no truth value."""
    return isinstance(value, numbers.Real) and not isinstance(value, (bool, np.bool_))


def is_sequence(value: object) -> TypeGuard[Sequence[Any]]:
    """Whether a value is a list, a tuple or another sequence that is no text."""
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def _items(value: object) -> list[Any]:
    """The items of a sequence, or one value as a list."""
    return list(value) if is_sequence(value) else [value]


def whole(value: object, name: str) -> int:
    """An integer. TypeError for other values."""
    if not is_integer(value):
        raise TypeError(f"{name} is an integer, got {value!r}")
    return int(value)


def resize_size(size: object, max_size: object) -> tuple[int | None, int | None, int | None]:
    """(height, width, None) of a resize, (shorter edge, None, longest) or (None, None, longer edge)."""
    if max_size is not None and (not is_integer(max_size) or max_size <= 0):
        raise ValueError(f"max_size is a positive integer, got {max_size!r}")
    longest = None if max_size is None else int(max_size)
    if size is None:
        if longest is None:
            raise ValueError("size is None, which needs max_size: the size of the longer edge")
        return None, None, longest
    edges = _items(size)
    if not all(map(is_integer, edges)):
        raise ValueError(f"size is an integer, two integers or None, got {size!r}")
    if len(edges) not in (1, 2):
        raise ValueError(f"size is one integer or two, got {len(edges)}")
    if min(edges) <= 0:
        raise ValueError(f"size must be positive, got {size!r}")
    if len(edges) == 2:
        if longest is not None:
            raise ValueError("max_size can only be given with the size of the shorter edge, not with two sizes")
        return int(edges[0]), int(edges[1]), None
    if longest is not None and longest < edges[0]:
        raise ValueError(f"max_size {longest} is smaller than size {edges[0]}")
    return int(edges[0]), None, longest


def crop_size(size: object, name: str = "size") -> tuple[int, int]:
    """Height and width: of one integer, or of one or two in a sequence."""
    edges = _items(size)
    if not all(map(is_integer, edges)):
        raise TypeError(f"{name} is an integer or a sequence of one or two, got {size!r}")
    if len(edges) not in (1, 2):
        raise ValueError(f"{name} is one integer or two, got {len(edges)}")
    if min(edges) <= 0:
        raise ValueError(f"{name} must be positive, got {size!r}")
    return int(edges[0]), int(edges[-1])


def result_size(size: object) -> tuple[int, int]:
    """Height and width of a resized window, like :func:`crop_size`. Other classes are a ValueError, as in `resize`."""
    if not all(map(is_integer, _items(size))):
        raise ValueError(f"size is an integer or a sequence of one or two, got {size!r}")
    return crop_size(size)


def paddings(padding: object, lengths: tuple[int, ...] = (1, 2, 4)) -> tuple[int, int, int, int]:
    """Left, top, right, bottom. TypeError or ValueError for other values."""
    edges = _items(padding)
    if not all(map(is_integer, edges)) or len(edges) not in lengths:
        raise TypeError(f"padding is an integer, or a sequence of {', '.join(map(str, lengths))} integers, got {padding!r}")
    if min(edges) < 0:
        raise ValueError(f"padding cannot be negative, got {padding!r}")
    values = [int(edge) for edge in edges]
    if len(values) == 1:
        return values[0], values[0], values[0], values[0]
    if len(values) == 2:
        return values[0], values[1], values[0], values[1]
    return values[0], values[1], values[2], values[3]


def padding_mode(mode: object) -> str:
    """A way of padding. ValueError for others."""
    if mode not in PADDING_MODES:
        raise ValueError(f"padding_mode is one of {', '.join(PADDING_MODES)}, got {mode!r}")
    return str(mode)


def fill_values(fill: object, name: str = "fill") -> Any:
    """A number, a list of numbers, or None. TypeError for others."""
    if fill is None or is_number(fill) or isinstance(fill, bool):
        return fill
    if is_sequence(fill) and fill and all(is_number(item) or isinstance(item, bool) for item in fill):
        return list(fill)
    raise TypeError(f"{name} is a number, or one number for each channel, got {fill!r}")


def probability(p: object) -> float:
    """A number between 0 and 1. ValueError for others."""
    if not is_number(p) or not 0.0 <= p <= 1.0:
        raise ValueError(f"p is a probability from 0 to 1, got {p!r}")
    return float(p)


def kernel_sizes(kernel_size: object) -> tuple[int, int]:
    """Width and height of a window, both odd."""
    edges = _items(kernel_size)
    if not all(map(is_integer, edges)) or len(edges) not in (1, 2):
        raise ValueError(f"kernel_size is an odd integer or two, got {kernel_size!r}")
    if any(edge <= 0 or edge % 2 == 0 for edge in edges):
        raise ValueError(f"kernel_size must be odd and positive, got {kernel_size!r}")
    return int(edges[0]), int(edges[-1])


def sigma_values(sigma: object) -> tuple[float, float]:
    """Two positive numbers: the same one twice if one is given."""
    values = _items(sigma)
    if not all(map(is_number, values)) or len(values) not in (1, 2):
        raise ValueError(f"sigma is a number or two, got {sigma!r}")
    if min(values) <= 0:
        raise ValueError(f"sigma must be positive, got {sigma!r}")
    return float(values[0]), float(values[-1])


def value_range(value: object, name: str, center: float, low: float, high: float = float("inf")) -> tuple[float, float] | None:
    """The range that a factor is drawn from: `value` around the centre, or a pair. None: the factor is always the centre."""
    if value is None:
        raise ValueError(f"{name} is a number or a (min, max) pair, got None")
    if is_number(value):
        if value < 0:
            raise ValueError(f"{name} cannot be negative as one number, got {value!r}")
        pair = (center - value, center + value) if center == 0 else (max(0.0, center - value), center + value)
    elif is_sequence(value) and len(value) == 2 and all(map(is_number, value)):
        pair = (float(value[0]), float(value[1]))
        if pair[0] > pair[1]:
            raise ValueError(f"{name} is a (min, max) pair, got {value!r}")
    else:
        raise ValueError(f"{name} is a number or a (min, max) pair, got {value!r}")
    if not low <= pair[0] <= pair[1] <= high:
        limits = f"within {low} and {high}" if high != float("inf") else "not negative"
        raise ValueError(f"values of {name} must be {limits}, got {value!r}")
    return None if pair[0] == pair[1] == center else (float(pair[0]), float(pair[1]))


def positive_range(value: object, name: str) -> tuple[float, float]:
    """A (min, max) pair of positive numbers. TypeError if it is no pair."""
    if not is_sequence(value) or len(value) != 2 or not all(map(is_number, value)):
        raise TypeError(f"{name} is a pair of two numbers, got {value!r}")
    if min(value) <= 0:
        raise ValueError(f"values of {name} must be positive, got {value!r}")
    if value[0] > value[1]:
        raise ValueError(f"{name} is a (min, max) pair, got {value!r}")
    return float(value[0]), float(value[1])
