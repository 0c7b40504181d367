"""How pixels are interpolated: torchvision's enumeration, and what stands for its members."""

from __future__ import annotations

from enum import Enum


class InterpolationMode(Enum):
    """Interpolation of pixels. The values are those of torchvision."""

    NEAREST = "nearest"
    NEAREST_EXACT = "nearest-exact"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"
    BOX = "box"
    HAMMING = "hamming"
    LANCZOS = "lanczos"


_BY_PIL_CODE = {
    0: InterpolationMode.NEAREST, 1: InterpolationMode.LANCZOS, 2: InterpolationMode.BILINEAR, 3: InterpolationMode.BICUBIC,
    4: InterpolationMode.BOX, 5: InterpolationMode.HAMMING,
}  # fmt: skip

PIL_CODES = {mode: code for code, mode in _BY_PIL_CODE.items()} | {InterpolationMode.NEAREST_EXACT: 0}
"""PIL's code of each mode. PIL's NEAREST takes the pixel at the centre, which torchvision calls NEAREST_EXACT for tensors."""

IN_RESIZING = (InterpolationMode.NEAREST, InterpolationMode.BILINEAR, InterpolationMode.BICUBIC, InterpolationMode.LANCZOS)
"""Modes of resize, as in DALI."""


def interpolation_mode(given: object) -> InterpolationMode:
    """The mode that a user's value means: a member of this enumeration, of torchvision's or of PIL's, or PIL's code.

    Raises:
        ValueError: for anything else, strings and truth values among them.
    """
    if isinstance(given, InterpolationMode):
        return given
    if isinstance(given, Enum) and type(given).__name__ == "InterpolationMode" and not isinstance(given, int):
        return InterpolationMode(given.value)
    if isinstance(given, int) and not isinstance(given, bool):
        if int(given) in _BY_PIL_CODE:
            return _BY_PIL_CODE[int(given)]
        raise ValueError(f"interpolation {int(given)} is no code of PIL; the codes are {', '.join(map(str, _BY_PIL_CODE))}")
    raise ValueError(f"interpolation is an InterpolationMode or a code of PIL, got {given!r}; give InterpolationMode.BILINEAR, for example")


def resizing_mode(given: object) -> InterpolationMode:
    """The mode of a resize. NotImplementedError for modes that resize does not have."""
    mode = given if type(given) is InterpolationMode else interpolation_mode(given)
    if mode not in IN_RESIZING:
        raise NotImplementedError(f"resize has no interpolation {mode.name}; it has {', '.join(item.name for item in IN_RESIZING)}")
    return mode
