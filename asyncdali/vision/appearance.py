"""Classes that change colours, and add blur, noise and artefacts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from . import colors, cropping, draws, filters
from .arguments import is_integer, is_number, is_sequence, kernel_sizes, probability, sigma_values, value_range
from .kinds import PIXELS, InputKind, Leaf, Leaves, kind_of
from .transform import Params, RandomTransform, Transform, has_any, query_channels, query_size


class Grayscale(Transform):
    """The brightness, in 1 channel or 3 equal ones."""

    def __init__(self, num_output_channels: int = 1, device: object = "cpu"):
        super().__init__(device)
        if num_output_channels not in (1, 3) or not is_integer(num_output_channels):
            raise ValueError(f"num_output_channels is 1 or 3, got {num_output_channels!r}")
        self.num_output_channels = num_output_channels

    def transform(self, inpt: Leaf, params: Params) -> object:
        return self.call_kernel(colors.rgb_to_grayscale, inpt, self.num_output_channels)


class RandomGrayscale(RandomTransform):
    """The brightness, in as many channels as the input, with probability `p`."""

    def __init__(self, p: float = 0.1, device: object = "cpu"):
        super().__init__(p, device)

    def make_params(self, flat_inputs: Leaves) -> Params:
        return {"channels": query_channels(flat_inputs)}

    def transform(self, inpt: Leaf, params: Params) -> object:
        return self.call_kernel(colors.rgb_to_grayscale, inpt, 1 if params["channels"] == 1 else 3)


class RGB(Transform):
    """Three channels: gray pictures get three equal ones."""

    def transform(self, inpt: Leaf, params: Params) -> object:
        return self.call_kernel(colors.grayscale_to_rgb, inpt)


class ColorJitter(Transform):
    """Change brightness, contrast, saturation and hue by random factors, in random order.

    Args:
        brightness: the range of factors, or a number b for (1 - b, 1 + b).
        contrast: likewise.
        saturation: likewise.
        hue: the range of turns within -0.5 and 0.5, or a number h for (-h, h).
        device: where the work is done.
    """

    random = True

    def __init__(
        self, brightness: object = 0.0, contrast: object = 0.0, saturation: object = 0.0, hue: object = 0.0, device: object = "cpu"
    ):
        super().__init__(device)
        self.brightness = value_range(brightness, "brightness", 1, 0)
        self.contrast = value_range(contrast, "contrast", 1, 0)
        self.saturation = value_range(saturation, "saturation", 1, 0)
        self.hue = value_range(hue, "hue", 0, -0.5, 0.5)

    def make_params(self, flat_inputs: Leaves) -> Params:
        order, *factors = self.get_params(self.brightness, self.contrast, self.saturation, self.hue)
        return {"order": order.tolist(), "factors": factors}

    @staticmethod
    def get_params(
        brightness: Sequence[float] | None, contrast: Sequence[float] | None, saturation: Sequence[float] | None,
        hue: Sequence[float] | None,
    ) -> tuple[torch.Tensor, float | None, float | None, float | None, float | None]:  # fmt: skip
        """A random order of the four changes, and a factor from each range; None: no change."""
        order = torch.tensor(draws.order(4))
        b, c, s, h = (None if values is None else draws.uniform(*values) for values in (brightness, contrast, saturation, hue))
        return order, b, c, s, h

    def transform(self, inpt: Leaf, params: Params) -> object:
        functions = (colors.adjust_brightness, colors.adjust_contrast, colors.adjust_saturation, colors.adjust_hue)
        for k in params["order"]:
            if params["factors"][k] is not None:
                inpt = self.call_kernel(functions[k], inpt, params["factors"][k])
        return inpt


class RandomPhotometricDistort(Transform):
    """Change brightness, contrast, saturation, hue and the order of channels, each with probability `p`.

    Args:
        brightness: range of factors.
        contrast: range of factors.
        saturation: range of factors.
        hue: range of turns.
        p: the probability of each.
        device: where the work is done.
    """

    random = True

    def __init__(
        self, brightness: Sequence[float] = (0.875, 1.125), contrast: Sequence[float] = (0.5, 1.5),
        saturation: Sequence[float] = (0.5, 1.5), hue: Sequence[float] = (-0.05, 0.05), p: float = 0.5, device: object = "cpu",
    ):  # fmt: skip
        super().__init__(device)
        self.brightness = value_range(brightness, "brightness", 1, 0) or (1.0, 1.0)
        self.contrast = value_range(contrast, "contrast", 1, 0) or (1.0, 1.0)
        self.saturation = value_range(saturation, "saturation", 1, 0) or (1.0, 1.0)
        self.hue = value_range(hue, "hue", 0, -0.5, 0.5) or (0.0, 0.0)
        self.p = probability(p)

    def make_params(self, flat_inputs: Leaves) -> Params:
        channels = query_channels(flat_inputs)
        params: dict[str, Any] = {"brightness": self._maybe(self.brightness)}
        params["contrast"] = self._maybe(self.contrast)
        params["saturation"] = self._maybe(self.saturation)
        params["hue"] = self._maybe(self.hue)
        params["first"] = bool(torch.rand((), generator=draws.generator()) < 0.5)
        params["permutation"] = draws.order(channels) if draws.chance(self.p) else None
        return params

    def _maybe(self, values: tuple[float, float]) -> float | None:
        return draws.uniform(*values) if draws.chance(self.p) else None

    def transform(self, inpt: Leaf, params: Params) -> object:
        steps: list[tuple[Any, Any]] = [(colors.adjust_brightness, params["brightness"])]
        contrast = (colors.adjust_contrast, params["contrast"])
        steps += [contrast] if params["first"] else []
        steps += [(colors.adjust_saturation, params["saturation"]), (colors.adjust_hue, params["hue"])]
        steps += [] if params["first"] else [contrast]
        steps.append((colors.permute_channels, params["permutation"]))
        for function, value in steps:
            if value is not None:
                inpt = self.call_kernel(function, inpt, value)
        return inpt


class RandomChannelPermutation(Transform):
    """Reorder the channels at random."""

    random = True

    def make_params(self, flat_inputs: Leaves) -> Params:
        return {"permutation": draws.order(query_channels(flat_inputs))}

    def transform(self, inpt: Leaf, params: Params) -> object:
        return self.call_kernel(colors.permute_channels, inpt, params["permutation"])


class RandomInvert(RandomTransform):
    """Exchange black and white with probability `p`."""

    def transform(self, inpt: Leaf, params: Params) -> object:
        return self.call_kernel(colors.invert, inpt)


class RandomEqualize(RandomTransform):
    """Equalize the histogram with probability `p`."""

    def transform(self, inpt: Leaf, params: Params) -> object:
        return self.call_kernel(colors.equalize, inpt)


class RandomAutocontrast(RandomTransform):
    """Stretch the contrast with probability `p`."""

    def transform(self, inpt: Leaf, params: Params) -> object:
        return self.call_kernel(colors.autocontrast, inpt)


class RandomPosterize(RandomTransform):
    """Keep `bits` bits of each value with probability `p`."""

    def __init__(self, bits: int, p: float = 0.5, device: object = "cpu"):
        super().__init__(p, device)
        if not is_integer(bits) or not 0 <= bits <= 8:
            raise ValueError(f"bits is an integer from 0 to 8, got {bits!r}")
        self.bits = bits

    def transform(self, inpt: Leaf, params: Params) -> object:
        return self.call_kernel(colors.posterize, inpt, self.bits)


class RandomSolarize(RandomTransform):
    """Invert the values from `threshold` on, with probability `p`."""

    def __init__(self, threshold: float, p: float = 0.5, device: object = "cpu"):
        super().__init__(p, device)
        if not is_number(threshold):
            raise TypeError(f"threshold is a number, got {threshold!r}")
        self.threshold = threshold

    def transform(self, inpt: Leaf, params: Params) -> object:
        return self.call_kernel(colors.solarize, inpt, self.threshold)


class RandomAdjustSharpness(RandomTransform):
    """Change the sharpness by a factor with probability `p`."""

    def __init__(self, sharpness_factor: float, p: float = 0.5, device: object = "cpu"):
        super().__init__(p, device)
        if not is_number(sharpness_factor) or sharpness_factor < 0:
            raise ValueError(f"sharpness_factor is a number that is not negative, got {sharpness_factor!r}")
        self.sharpness_factor = sharpness_factor

    def transform(self, inpt: Leaf, params: Params) -> object:
        return self.call_kernel(colors.adjust_sharpness, inpt, self.sharpness_factor)


class GaussianBlur(Transform):
    """Blur with a window of a random deviation.

    Args:
        kernel_size: the odd size of the window, or (width, height).
        sigma: the deviation in pixels, or the range (min, max) that it is drawn from.
        device: where the work is done.
        seed: the seed of the draws; -1: draws of the Compose, or of torch.
    """

    random = True

    def __init__(self, kernel_size: int | Sequence[int], sigma: object = (0.1, 2.0), device: object = "cpu", seed: int = -1):
        super().__init__(device)
        self.kernel_size = kernel_sizes(kernel_size)
        if is_sequence(sigma) and len(sigma) != 2:
            raise ValueError(f"sigma is a number or a (min, max) pair, got {sigma!r}")
        self.sigma = sigma_values(sigma)
        if self.sigma[0] > self.sigma[1]:
            raise ValueError(f"sigma is a (min, max) pair, got {sigma!r}")
        if not is_integer(seed):
            raise TypeError(f"seed is an integer, got {seed!r}")
        self.seed = seed
        self._stream = None if seed == -1 else draws.SeededStream(seed)

    def make_params(self, flat_inputs: Leaves) -> Params:
        with draws.drawing_from(None if self._stream is None else self._stream.generator()):
            sigma = self.get_params(*self.sigma)
        return {"sigma": [sigma, sigma]}

    @staticmethod
    def get_params(sigma_min: float, sigma_max: float) -> float:
        """A random deviation of the range."""
        return draws.uniform(sigma_min, sigma_max)

    def transform(self, inpt: Leaf, params: Params) -> object:
        return self.call_kernel(filters.gaussian_blur, inpt, self.kernel_size, params["sigma"])


class GaussianNoise(Transform):
    """Add normally distributed noise; see the function `gaussian_noise`."""

    random = True

    def __init__(self, mean: float = 0.0, sigma: float = 0.1, clip: bool = True, device: object = "cpu"):
        super().__init__(device)
        if not is_number(mean) or not is_number(sigma):
            raise TypeError(f"mean and sigma are numbers, got {mean!r} and {sigma!r}")
        if sigma < 0:
            raise ValueError(f"sigma cannot be negative, got {sigma!r}")
        self.mean, self.sigma, self.clip = mean, sigma, bool(clip)

    def transform(self, inpt: Leaf, params: Params) -> object:
        return self.call_kernel(filters.gaussian_noise, inpt, self.mean, self.sigma, self.clip)


class JPEG(Transform):
    """Encode as JPEG and decode again, with a quality, or one of a range (lowest, highest)."""

    random = True

    def __init__(self, quality: int | Sequence[int], device: object = "cpu"):
        super().__init__(device)
        pair = [quality, quality] if is_integer(quality) else quality
        if not is_sequence(pair) or len(pair) != 2 or not all(map(is_integer, pair)):
            raise ValueError(f"quality is an integer or a pair of integers, got {quality!r}")
        if not 1 <= pair[0] <= pair[1] <= 100:
            raise ValueError(f"quality is from 1 to 100, and a pair in order, got {quality!r}")
        self.quality = tuple(pair)

    def make_params(self, flat_inputs: Leaves) -> Params:
        return {"quality": draws.integer(self.quality[0], self.quality[1] + 1)}

    def transform(self, inpt: Leaf, params: Params) -> object:
        return self.call_kernel(filters.jpeg, inpt, params["quality"])


def _erased(
    channels: int, size: tuple[int, int], scale: Sequence[float], ratios: Sequence[float], numbers: Sequence[Any] | None
) -> tuple[int, int, int, int, torch.Tensor] | None:
    """Top, left, height and width of a random window, and its values; None: none of 10 windows fits."""
    height, width = size
    logs = math.log(ratios[0]), math.log(ratios[1])
    for _ in range(10):
        area = height * width * draws.uniform(scale[0], scale[1])
        ratio = math.exp(draws.uniform(*logs))
        rows, columns = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if rows >= height or columns >= width:
            continue
        if numbers is None:
            values = torch.empty([channels, rows, columns]).normal_(generator=draws.generator())
        else:
            values = torch.tensor([float(number) for number in numbers])[:, None, None]
        y = draws.integer(0, height - rows + 1)
        return y, draws.integer(0, width - columns + 1), rows, columns, values
    return None


class RandomErasing(RandomTransform):
    """Overwrite a random window with probability `p`.

    Args:
        p: the probability.
        scale: range of the window's share of the area.
        ratio: range of height / width.
        value: a number, one for each channel, or "random" for normally distributed values.
        inplace: whether a tensor is changed itself.
        device: where the work is done.
    """

    def __init__(
        self, p: float = 0.5, scale: Sequence[float] = (0.02, 0.33), ratio: Sequence[float] = (0.3, 3.3), value: object = 0.0,
        inplace: bool = False, device: object = "cpu",
    ):  # fmt: skip
        super().__init__(p, device)
        for name, values in (("scale", scale), ("ratio", ratio)):
            if not is_sequence(values) or len(values) != 2:
                raise TypeError(f"{name} is a pair of two numbers, got {values!r}")
            if values[0] > values[1] or values[0] < 0:
                raise ValueError(f"{name} is a (min, max) pair, got {values!r}")
        if scale[1] > 1:
            raise ValueError(f"scale is a share from 0 to 1, got {scale!r}")
        if ratio[0] <= 0:
            raise ValueError(f"values of ratio must be positive, got {ratio!r}")
        if isinstance(value, str) and value != "random":
            raise ValueError(f"value is a number, one for each channel, or 'random', got {value!r}")
        if not isinstance(value, str) and not is_number(value) and not (is_sequence(value) and all(map(is_number, value))):
            raise TypeError(f"value is a number, one for each channel, or 'random', got {value!r}")
        self.scale, self.ratio, self.value, self.inplace = tuple(scale), tuple(ratio), value, bool(inplace)

    def make_params(self, flat_inputs: Leaves) -> Params:
        channels, size, numbers = query_channels(flat_inputs), query_size(flat_inputs), None
        if self.value != "random":
            numbers = list(self.value) if is_sequence(self.value) else [self.value]
            if len(numbers) not in (1, channels):
                raise ValueError(f"value has {len(numbers)} numbers for {channels} channels")
        found = _erased(channels, size, self.scale, self.ratio, numbers)
        if found is None:
            return {"window": None}
        *window, values = found
        return {"window": window, "values": values}

    @staticmethod
    def get_params(
        img: torch.Tensor, scale: Sequence[float], ratio: Sequence[float], value: Sequence[float] | None = None
    ) -> tuple[int, int, int, int, torch.Tensor]:
        """Top, left, height and width of a random window, and its values (None: random ones). The picture if no window fits."""
        height, width = query_size([img])
        found = _erased(img.shape[-3], (height, width), scale, ratio, value)
        return (0, 0, height, width, img) if found is None else found

    def takes(self, leaf: object) -> bool:
        return kind_of(leaf) in (InputKind.PICTURE, *PIXELS)

    def transform(self, inpt: Leaf, params: Params) -> object:
        if params["window"] is None:
            return inpt
        return self.call_kernel(cropping.erase, inpt, *params["window"], params["values"], self.inplace)

    def check_inputs(self, flat_inputs: Leaves) -> None:
        if not has_any(flat_inputs, InputKind.PICTURE, *PIXELS):
            raise TypeError("RandomErasing found no picture in the input")
