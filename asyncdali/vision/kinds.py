"""Kinds of inputs: PIL pictures, tensors, and torchvision's tv_tensors.

torchvision is not needed. A value can only be a tv_tensor if the program has imported torchvision. So the module is looked up, and never
imported.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from enum import Enum
from types import ModuleType

import numpy as np
import PIL.Image
import torch

Leaf = PIL.Image.Image | torch.Tensor
"""A leaf of an input: a picture, a tensor or a tv_tensor."""
Leaves = list[object]
"""All values of a nested input."""


class InputKind(Enum):
    """The kind of an input."""

    PICTURE = "PIL picture"
    TENSOR = "tensor"
    IMAGE = "tv_tensors.Image"
    VIDEO = "tv_tensors.Video"
    MASK = "tv_tensors.Mask"
    BOXES = "tv_tensors.BoundingBoxes"
    POINTS = "tv_tensors.KeyPoints"
    OTHER = "other tv_tensor"

    __hash__ = object.__hash__
    """Members are keys of tables that every call reads; the hash of `Enum` is written in Python."""


PIXELS = (InputKind.TENSOR, InputKind.IMAGE, InputKind.VIDEO)
"""Kinds whose pixels are a tensor [..., channels, height, width]."""
RASTERS = (*PIXELS, InputKind.MASK)
OF_TV_TENSORS = {
    "Image": InputKind.IMAGE, "Video": InputKind.VIDEO, "Mask": InputKind.MASK, "BoundingBoxes": InputKind.BOXES,
    "KeyPoints": InputKind.POINTS,
}  # fmt: skip
"""torchvision's classes by their names."""

_known: dict[type, InputKind] = {}


def tv_tensors() -> ModuleType | None:
    """torchvision's module, if the program has imported it."""
    return sys.modules.get("torchvision.tv_tensors")


def needed_tv_tensors(what: str) -> ModuleType:
    """torchvision's module. ImportError that says what needs it."""
    try:
        from torchvision import tv_tensors as found
    except ImportError as error:
        raise ImportError(f"{what} makes tensors of torchvision.tv_tensors, and torchvision cannot be imported: {error}") from error
    module: ModuleType = found
    return module


def kind_of(value: object) -> InputKind | None:
    """The kind of a value; None: nothing that is transformed."""
    found = _known.get(type(value))
    if found is not None:
        return found
    if isinstance(value, torch.Tensor):
        kind = InputKind.TENSOR
        module = tv_tensors()
        if module is not None and isinstance(value, module.TVTensor):
            kind = next((item for name, item in OF_TV_TENSORS.items() if isinstance(value, getattr(module, name, ()))), InputKind.OTHER)
    elif isinstance(value, PIL.Image.Image):
        kind = InputKind.PICTURE
    else:
        return None
    _known[type(value)] = kind
    return kind


def raw(value: torch.Tensor) -> torch.Tensor:
    """The values of a tensor as a plain `torch.Tensor`: without torchvision's class, and without a gradient."""
    plain = value if type(value) is torch.Tensor else value.as_subclass(torch.Tensor)
    return plain.detach() if plain.requires_grad else plain


_SIGNED = {torch.uint16: torch.int16, torch.uint32: torch.int32, torch.uint64: torch.int64}


def moved(tensor: torch.Tensor, move: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    """The result of `move`, a function that only rearranges elements (a flip, a turn).

    torch has few operations for uint16, uint32 and uint64. Tensors of these types are rearranged as signed integers of the same size.
    """
    signed = _SIGNED.get(tensor.dtype)
    return move(tensor) if signed is None else move(tensor.view(signed)).view(tensor.dtype)


def wrapped(made: torch.Tensor, like: torch.Tensor, **metadata: object) -> torch.Tensor:
    """A result with the class of its input; `metadata`: the attributes of boxes and points that have changed, such as `canvas_size`."""
    if type(like) is torch.Tensor:
        return made
    module = tv_tensors()
    if module is None or not isinstance(like, module.TVTensor):
        return made
    return module.wrap(made, like=like, **metadata)


def pixels_of(picture: PIL.Image.Image) -> np.ndarray:
    """The pixels of a picture [height, width] or [height, width, channels], to be read only."""
    return np.asarray(picture)


def picture_of(pixels: np.ndarray, like: PIL.Image.Image) -> PIL.Image.Image:
    """A picture of the same mode as another one."""
    made = PIL.Image.fromarray(pixels.astype(np.uint8) * 255 if like.mode == "1" else pixels)
    if made.mode == like.mode:
        if like.mode == "P":
            _take_palette(made, like)
        return made
    if like.mode == "P":
        made = PIL.Image.frombytes("P", made.size, made.tobytes())
        _take_palette(made, like)
        return made
    return made.convert("1") if like.mode == "1" else PIL.Image.frombytes(like.mode, made.size, made.tobytes())


def _take_palette(made: PIL.Image.Image, like: PIL.Image.Image) -> None:
    palette = like.getpalette()
    if palette is not None:
        made.putpalette(palette)


def tensor_of(picture: PIL.Image.Image) -> torch.Tensor:
    """The pixels of a picture as a tensor [channels, height, width]."""
    pixels = np.array(picture)
    if pixels.ndim == 2:
        return torch.from_numpy(pixels)[None]
    return torch.from_numpy(np.ascontiguousarray(pixels.transpose(2, 0, 1)))


def levels_of(picture: PIL.Image.Image) -> torch.Tensor:
    """The pixels as a tensor, for arithmetic. ValueError for modes whose numbers are no intensities."""
    if picture.mode in ("1", "P"):
        raise ValueError(f"a picture of mode {picture.mode} has no intensities to compute with; convert it to L or RGB first")
    return tensor_of(picture)


def picture_like(tensor: torch.Tensor, like: PIL.Image.Image) -> PIL.Image.Image:
    """A tensor [channels, height, width] as a picture of the same mode as another one."""
    pixels = tensor.numpy()
    return picture_of(pixels[0] if pixels.shape[0] == 1 else np.ascontiguousarray(pixels.transpose(1, 2, 0)), like)


def size_of(value: object) -> tuple[int, int]:
    """Height and width of an input: of the pixels, or of the canvas of boxes and points."""
    kind = kind_of(value)
    if kind is InputKind.PICTURE:
        return value.height, value.width  # type: ignore[attr-defined]
    if kind in (InputKind.BOXES, InputKind.POINTS):
        height, width = value.canvas_size  # type: ignore[attr-defined]
        return height, width
    if kind is None or value.ndim < 2:  # type: ignore[attr-defined]
        raise TypeError(f"expected a PIL picture or a tensor of two or more dimensions, got {described(value)}")
    return value.shape[-2], value.shape[-1]  # type: ignore[attr-defined]


def described(value: object) -> str:
    """A value for an error: its class, and the shape of a tensor."""
    name = f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
    return f"{name} of shape {tuple(value.shape)}" if isinstance(value, torch.Tensor) else name
