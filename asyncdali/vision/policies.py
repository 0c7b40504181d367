"""Augmentation policies: AutoAugment, RandAugment, TrivialAugmentWide, AugMix.

Papers: Cubuk et al. 2019 ("AutoAugment") and 2020 ("RandAugment"), Mueller and Hutter 2021 ("TrivialAugment"), Hendrycks et al. 2020
("AugMix").
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

import PIL.Image
import torch

from . import colors, draws, warping
from .arguments import is_integer
from .enums import InterpolationMode, interpolation_mode
from .kinds import PIXELS, InputKind, kind_of, levels_of, picture_like, raw, size_of, wrapped
from .resizing import as_type
from .transform import Transform, checked_fill, fill_for, flattened, has_any, needed, rebuilt


class AutoAugmentPolicy(Enum):
    """Learned policies, by the data set that they were learned on."""

    IMAGENET = "imagenet"
    CIFAR10 = "cifar10"
    SVHN = "svhn"


_TABLES = {
    AutoAugmentPolicy.IMAGENET: (
        "Posterize 0.4 8, Rotate 0.6 9;" "Solarize 0.6 5, AutoContrast 0.6;" "Equalize 0.8, Equalize 0.6;"
        "Posterize 0.6 7, Posterize 0.6 6;" "Equalize 0.4, Solarize 0.2 4;" "Equalize 0.4, Rotate 0.8 8;" "Solarize 0.6 3, Equalize 0.6;"
        "Posterize 0.8 5, Equalize 1.0;" "Rotate 0.2 3, Solarize 0.6 8;" "Equalize 0.6, Posterize 0.4 6;" "Rotate 0.8 8, Color 0.4 0;"
        "Rotate 0.4 9, Equalize 0.6;" "Equalize 0.0, Equalize 0.8;" "Invert 0.6, Equalize 1.0;" "Color 0.6 4, Contrast 1.0 8;"
        "Rotate 0.8 8, Color 1.0 2;" "Color 0.8 8, Solarize 0.8 7;" "Sharpness 0.4 7, Invert 0.6;" "ShearX 0.6 5, Equalize 1.0;"
        "Color 0.4 0, Equalize 0.6;" "Equalize 0.4, Solarize 0.2 4;" "Solarize 0.6 5, AutoContrast 0.6;" "Invert 0.6, Equalize 1.0;"
        "Color 0.6 4, Contrast 1.0 8;" "Equalize 0.8, Equalize 0.6;"
    ),
    AutoAugmentPolicy.CIFAR10: (
        "Invert 0.1, Contrast 0.2 6;" "Rotate 0.7 2, TranslateX 0.3 9;" "Sharpness 0.8 1, Sharpness 0.9 3;"
        "ShearY 0.5 8, TranslateY 0.7 9;" "AutoContrast 0.5, Equalize 0.9;" "ShearY 0.2 7, Posterize 0.3 7;"
        "Color 0.4 3, Brightness 0.6 7;" "Sharpness 0.3 9, Brightness 0.7 9;" "Equalize 0.6, Equalize 0.5;"
        "Contrast 0.6 7, Sharpness 0.6 5;" "Color 0.7 7, TranslateX 0.5 8;" "Equalize 0.3, AutoContrast 0.4;"
        "TranslateY 0.4 3, Sharpness 0.2 6;" "Brightness 0.9 6, Color 0.2 8;" "Solarize 0.5 2, Invert 0.0;"
        "Equalize 0.2, AutoContrast 0.6;" "Equalize 0.2, Equalize 0.6;" "Color 0.9 9, Equalize 0.6;" "AutoContrast 0.8, Solarize 0.2 8;"
        "Brightness 0.1 3, Color 0.7 0;" "Solarize 0.4 5, AutoContrast 0.9;" "TranslateY 0.9 9, TranslateY 0.7 9;"
        "AutoContrast 0.9, Solarize 0.8 3;" "Equalize 0.8, Invert 0.1;" "TranslateY 0.7 9, AutoContrast 0.9;"
    ),
    AutoAugmentPolicy.SVHN: (
        "ShearX 0.9 4, Invert 0.2;" "ShearY 0.9 8, Invert 0.7;" "Equalize 0.6, Solarize 0.6 6;" "Invert 0.9, Equalize 0.6;"
        "Equalize 0.6, Rotate 0.9 3;" "ShearX 0.9 4, AutoContrast 0.8;" "ShearY 0.9 8, Invert 0.4;" "ShearY 0.9 5, Solarize 0.2 6;"
        "Invert 0.9, AutoContrast 0.8;" "Equalize 0.6, Rotate 0.9 3;" "ShearX 0.9 4, Solarize 0.3 3;" "ShearY 0.8 8, Invert 0.7;"
        "Equalize 0.9, TranslateY 0.6 6;" "Invert 0.9, Equalize 0.6;" "Contrast 0.3 3, Rotate 0.8 4;" "Invert 0.8, TranslateY 0.0 2;"
        "ShearY 0.7 6, Solarize 0.4 8;" "Invert 0.6, Rotate 0.8 4;" "ShearY 0.3 7, TranslateX 0.9 3;" "ShearX 0.1 6, Invert 0.6;"
        "Solarize 0.7 2, TranslateY 0.6 7;" "ShearY 0.8 4, Invert 0.8;" "ShearX 0.7 9, TranslateY 0.8 3;"
        "ShearY 0.8 5, AutoContrast 0.7;" "ShearX 0.7 2, Invert 0.1;"
    ),
}  # fmt: skip
"""Sub-policies: two operations with their probability and magnitude."""

Magnitudes = Callable[[int, int, int], torch.Tensor | None]
"""Magnitudes of an operation: of a number of bins, and of a picture's height and width."""
Space = dict[str, tuple[Magnitudes, bool]]
"""Operations, their magnitudes, and whether the sign is random."""


def _to(high: float) -> tuple[Magnitudes, bool]:
    return (lambda bins, height, width: torch.linspace(0.0, high, bins)), True


def _share_of_width(share: float) -> tuple[Magnitudes, bool]:
    return (lambda bins, height, width: torch.linspace(0.0, share * width, bins)), True


def _share_of_height(share: float) -> tuple[Magnitudes, bool]:
    return (lambda bins, height, width: torch.linspace(0.0, share * height, bins)), True


def _bits(most: int, fewer: int) -> tuple[Magnitudes, bool]:
    return (lambda bins, height, width: (most - torch.arange(bins) / ((bins - 1) / fewer)).round().int()), False


_SOLARIZE: tuple[Magnitudes, bool] = ((lambda bins, height, width: torch.linspace(1.0, 0.0, bins)), False)
_NONE: tuple[Magnitudes, bool] = ((lambda bins, height, width: None), False)


def _space(shear: float, moves: tuple[Any, Any], rotate: float, bits: Any, factor: float | None) -> Space:
    """The operations that all policies have; `factor`: with those of colours."""
    made: Space = {"ShearX": _to(shear), "ShearY": _to(shear), "TranslateX": moves[0], "TranslateY": moves[1], "Rotate": _to(rotate)}
    if factor is not None:
        made |= {name: _to(factor) for name in ("Brightness", "Color", "Contrast", "Sharpness")}
    return made | {"Posterize": bits, "Solarize": _SOLARIZE, "AutoContrast": _NONE, "Equalize": _NONE}


_FAR = (_share_of_width(150.0 / 331.0), _share_of_height(150.0 / 331.0))
_THIRDS = (_share_of_width(1.0 / 3.0), _share_of_height(1.0 / 3.0))
_AUTO: Space = _space(0.3, _FAR, 30.0, _bits(8, 4), 0.9) | {"Invert": _NONE}
_RAND: Space = {"Identity": _NONE} | _space(0.3, _FAR, 30.0, _bits(8, 4), 0.9)
_TRIVIAL: Space = {"Identity": _NONE} | _space(0.99, (_to(32.0), _to(32.0)), 135.0, _bits(8, 6), 0.99)
_AUGMIX_PART: Space = _space(0.3, _THIRDS, 30.0, _bits(4, 4), None)
_AUGMIX_ALL: Space = _AUGMIX_PART | {name: _to(0.9) for name in ("Brightness", "Color", "Contrast", "Sharpness")}
_FACTORS = {
    "Brightness": colors.adjust_brightness, "Color": colors.adjust_saturation, "Contrast": colors.adjust_contrast,
    "Sharpness": colors.adjust_sharpness,
}  # fmt: skip


class _Policy(Transform):
    """The base of all policies: one picture or video of an input is changed; boxes, masks and key points are a TypeError."""

    random = True

    def __init__(self, interpolation: object, fill: object, device: object):
        super().__init__(device)
        self.interpolation = interpolation_mode(interpolation)
        self.fill = checked_fill(fill)

    def __call__(self, *inputs: object) -> object:
        whole = inputs[0] if len(inputs) == 1 else inputs
        leaves = flattened(whole, [])
        if has_any(leaves, InputKind.BOXES, InputKind.MASK, InputKind.POINTS):
            raise TypeError(f"{type(self).__name__} changes pictures only: boxes, masks and key points would no longer fit")
        wanted = needed(leaves, lambda leaf: kind_of(leaf) in (InputKind.PICTURE, *PIXELS))
        if sum(wanted) != 1:
            raise TypeError(f"{type(self).__name__} needs one picture in the input, found {sum(wanted)}")
        made = [self.augmented(leaf) if is_wanted else leaf for leaf, is_wanted in zip(leaves, wanted, strict=True)]
        return rebuilt(whole, iter(made))

    def augmented(self, picture: object) -> Any:
        """The picture, changed."""
        raise NotImplementedError

    def one(self, space: Space) -> tuple[str, Magnitudes, bool]:
        """An operation, drawn."""
        keys = list(space)
        name = keys[draws.integer(0, len(keys))]
        return name, *space[name]

    def signed(self, magnitude: Any, has_sign: bool) -> float:
        """A magnitude with a random sign."""
        value = float(magnitude)
        return -value if has_sign and bool(torch.rand((), generator=draws.generator()) <= 0.5) else value

    def apply(self, name: str, picture: Any, magnitude: float) -> Any:
        """An operation."""
        fill = fill_for(self.fill, picture)
        if name == "Identity":
            return picture
        if name in ("ShearX", "ShearY"):
            angle = math.degrees(math.atan(magnitude))
            shear = [angle, 0.0] if name == "ShearX" else [0.0, angle]
            return self.call_kernel(warping.affine, picture, 0.0, [0, 0], 1.0, shear, self.interpolation, fill, [0, 0])
        if name in ("TranslateX", "TranslateY"):
            moved = [int(magnitude), 0] if name == "TranslateX" else [0, int(magnitude)]
            return self.call_kernel(warping.affine, picture, 0.0, moved, 1.0, [0.0, 0.0], self.interpolation, fill)
        if name == "Rotate":
            return self.call_kernel(warping.rotate, picture, magnitude, self.interpolation, False, None, fill)
        if name in _FACTORS:
            return self.call_kernel(_FACTORS[name], picture, 1.0 + magnitude)
        if name == "Posterize":
            return self.call_kernel(colors.posterize, picture, int(magnitude))
        if name == "Solarize":
            white = 255 if isinstance(picture, PIL.Image.Image) else colors.largest(picture.dtype)
            return self.call_kernel(colors.solarize, picture, white * magnitude)
        return self.call_kernel({"AutoContrast": colors.autocontrast, "Equalize": colors.equalize, "Invert": colors.invert}[name], picture)


class AutoAugment(_Policy):
    """One of 25 learned pairs of operations.

    Args:
        policy: an AutoAugmentPolicy, or its value.
        interpolation: of maps.
        fill: the value of pixels outside; or a dict from class to value.
        device: where the work is done.
    """

    def __init__(
        self, policy: object = AutoAugmentPolicy.IMAGENET, interpolation: object = InterpolationMode.NEAREST, fill: object = None,
        device: object = "cpu",
    ):  # fmt: skip
        super().__init__(interpolation, fill, device)
        self.policy = AutoAugmentPolicy(getattr(policy, "value", policy))
        self._pairs = [[part.split() for part in pair.split(",")] for pair in _TABLES[self.policy].strip(" ;").split(";")]

    @staticmethod
    def get_params(transform_num: int) -> tuple[int, torch.Tensor, torch.Tensor]:
        """The number of a random pair, and for each of its operations a random share and a random sign (0 or 1)."""
        number, source = draws.integer(0, transform_num), draws.generator()
        return number, torch.rand((2,), generator=source), torch.randint(2, (2,), generator=source)

    def augmented(self, picture: Any) -> Any:
        height, width = size_of(picture)
        for name, probability, *magnitude in self._pairs[draws.integer(0, len(self._pairs))]:
            if bool(torch.rand((), generator=draws.generator()) > float(probability)):
                continue
            magnitudes, has_sign = _AUTO[name]
            values = magnitudes(10, height, width)
            strength = 0.0 if values is None else self.signed(values[int(magnitude[0])], has_sign)
            picture = self.apply(name, picture, strength)
        return picture


class RandAugment(_Policy):
    """Some random operations of one magnitude.

    Args:
        num_ops: how many.
        magnitude: the magnitude, an index from 0 on.
        num_magnitude_bins: number of magnitudes.
        interpolation: of maps.
        fill: the value of pixels outside; or a dict from class to value.
        device: where the work is done.
    """

    def __init__(
        self, num_ops: int = 2, magnitude: int = 9, num_magnitude_bins: int = 31, interpolation: object = InterpolationMode.NEAREST,
        fill: object = None, device: object = "cpu",
    ):  # fmt: skip
        super().__init__(interpolation, fill, device)
        if not is_integer(magnitude) or not 0 <= magnitude < num_magnitude_bins:
            raise ValueError(f"magnitude is an index from 0 to {num_magnitude_bins - 1}, got {magnitude!r}")
        self.num_ops, self.magnitude, self.num_magnitude_bins = num_ops, magnitude, num_magnitude_bins

    def augmented(self, picture: Any) -> Any:
        height, width = size_of(picture)
        for _ in range(self.num_ops):
            name, magnitudes, has_sign = self.one(_RAND)
            values = magnitudes(self.num_magnitude_bins, height, width)
            strength = 0.0 if values is None else self.signed(values[self.magnitude], has_sign)
            picture = self.apply(name, picture, strength)
        return picture


class TrivialAugmentWide(_Policy):
    """One random operation of random magnitude.

    Args:
        num_magnitude_bins: number of magnitudes.
        interpolation: of maps.
        fill: the value of pixels outside; or a dict from class to value.
        device: where the work is done.
    """

    def __init__(
        self, num_magnitude_bins: int = 31, interpolation: object = InterpolationMode.NEAREST, fill: object = None, device: object = "cpu"
    ):
        super().__init__(interpolation, fill, device)
        self.num_magnitude_bins = num_magnitude_bins

    def augmented(self, picture: Any) -> Any:
        height, width = size_of(picture)
        name, magnitudes, has_sign = self.one(_TRIVIAL)
        values = magnitudes(self.num_magnitude_bins, height, width)
        strength = 0.0 if values is None else self.signed(values[draws.integer(0, len(values))], has_sign)
        return self.apply(name, picture, strength)


class AugMix(_Policy):
    """A random mixture of the picture and of chains of operations.

    Args:
        severity: magnitudes are drawn from so many lowest of 10.
        mixture_width: number of chains.
        chain_depth: operations of a chain; -1: from 1 to 3, drawn.
        alpha: the parameter of the Dirichlet distributions of the shares.
        all_ops: whether brightness, colour, contrast and sharpness are among the operations.
        interpolation: of maps.
        fill: the value of pixels outside; or a dict from class to value.
        device: where the work is done.
    """

    def __init__(
        self, severity: int = 3, mixture_width: int = 3, chain_depth: int = -1, alpha: float = 1.0, all_ops: bool = True,
        interpolation: object = InterpolationMode.BILINEAR, fill: object = None, device: object = "cpu",
    ):  # fmt: skip
        super().__init__(interpolation, fill, device)
        if not is_integer(severity) or not 1 <= severity <= 10:
            raise ValueError(f"severity is from 1 to 10, got {severity!r}")
        self.severity, self.mixture_width, self.chain_depth = severity, mixture_width, chain_depth
        self.alpha, self.all_ops = alpha, bool(all_ops)

    def _shares(self, count: int, samples: int) -> torch.Tensor:
        """Draws of a Dirichlet distribution, [samples, count]."""
        concentration = torch.full((samples, count), float(self.alpha))
        source = draws.generator()
        made: torch.Tensor = torch._sample_dirichlet(concentration, source)
        return made

    def augmented(self, picture: Any) -> Any:
        if isinstance(picture, PIL.Image.Image):
            return picture_like(self._mixed(levels_of(picture)[None])[0], picture)
        if kind_of(picture) is InputKind.VIDEO:
            return wrapped(self._mixed(raw(picture)[None])[0], picture)
        return wrapped(self._mixed(raw(picture).reshape(-1, *picture.shape[-3:])).reshape(picture.shape), picture)

    def _mixed(self, batch: torch.Tensor) -> torch.Tensor:
        """Samples along the first axis, each with shares of its own."""
        height, width = batch.shape[-2:]
        space = _AUGMIX_ALL if self.all_ops else _AUGMIX_PART
        pair = self._shares(2, len(batch))
        weights = self._shares(self.mixture_width, len(batch)) * pair[:, 1:]
        shaped: Sequence[int] = (-1, *[1] * (batch.ndim - 1))
        made = pair[:, 0].view(shaped) * batch
        for k in range(self.mixture_width):
            part = batch
            depth = self.chain_depth if self.chain_depth > 0 else draws.integer(1, 4)
            for _ in range(depth):
                name, magnitudes, has_sign = self.one(space)
                values = magnitudes(10, height, width)
                strength = 0.0 if values is None else self.signed(values[draws.integer(0, self.severity)], has_sign)
                part = self.apply(name, part, strength)
            made = made + weights[:, k].view(shaped) * part
        return as_type(made if batch.is_floating_point() else made.floor(), batch.dtype)
