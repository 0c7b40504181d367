"""Classes that move pixels: sizes, crops, flips, pads, maps."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from . import cropping, draws, resizing, warping
from .arguments import crop_size, is_integer, is_number, is_sequence, padding_mode, paddings, positive_range, resize_size
from .enums import InterpolationMode, interpolation_mode, resizing_mode
from .filters import gaussian_blur
from .kinds import InputKind, Leaf, Leaves
from .transform import Params, RandomTransform, Transform, checked_fill, fill_for, has_any, query_size


class Resize(Transform):
    """Change the size.

    Args:
        size: (height, width); or the size of the shorter edge; or None with `max_size`, the size of the longer edge.
        interpolation: NEAREST, BILINEAR, BICUBIC or LANCZOS.
        max_size: the longer edge is at most so long.
        antialias: whether shrinking averages all pixels.
        device: where the work is done.
    """

    def __init__(
        self, size: int | Sequence[int] | None, interpolation: object = InterpolationMode.BILINEAR, max_size: int | None = None,
        antialias: bool | None = True, device: object = "cpu",
    ):  # fmt: skip
        super().__init__(device)
        resize_size(size, max_size)
        self.size = size
        self.interpolation = resizing_mode(interpolation)
        self.max_size = max_size
        self.antialias = antialias

    def transform(self, inpt: Leaf, params: Params) -> object:
        return self.call_kernel(resizing.resize, inpt, self.size, self.interpolation, self.max_size, self.antialias)


class CenterCrop(Transform):
    """Cut a window out of the middle: (height, width), or one number for both."""

    def __init__(self, size: int | Sequence[int], device: object = "cpu"):
        super().__init__(device)
        self.size = crop_size(size)

    def transform(self, inpt: Leaf, params: Params) -> object:
        return self.call_kernel(cropping.center_crop, inpt, self.size)


class Pad(Transform):
    """Add pixels at the borders. See the function `pad`; `fill` may be a dict from class to value."""

    def __init__(
        self, padding: int | Sequence[int], fill: object = 0, padding_mode: str = "constant", device: object = "cpu"
    ):
        super().__init__(device)
        paddings(padding)
        self.padding = padding
        self.fill = checked_fill(fill)
        self.padding_mode = _mode(padding_mode)

    def transform(self, inpt: Leaf, params: Params) -> object:
        return self.call_kernel(cropping.pad, inpt, self.padding, fill_for(self.fill, inpt), self.padding_mode)


_mode = padding_mode


class RandomHorizontalFlip(RandomTransform):
    """Exchange left and right with probability `p`."""

    def transform(self, inpt: Leaf, params: Params) -> object:
        return self.call_kernel(cropping.horizontal_flip, inpt)


class RandomVerticalFlip(RandomTransform):
    """Exchange top and bottom with probability `p`."""

    def transform(self, inpt: Leaf, params: Params) -> object:
        return self.call_kernel(cropping.vertical_flip, inpt)


class RandomCrop(Transform):
    """Cut a window out at a random place.

    Args:
        size: (height, width), or one number for both.
        padding: pixels that are added at the borders first; see `pad`.
        pad_if_needed: whether a picture that is smaller than the window is padded; otherwise it is a ValueError.
        fill: the value of added pixels.
        padding_mode: see `pad`.
        device: where the work is done.
    """

    random = True

    def __init__(
        self, size: int | Sequence[int], padding: int | Sequence[int] | None = None, pad_if_needed: bool = False, fill: object = 0,
        padding_mode: str = "constant", device: object = "cpu",
    ):  # fmt: skip
        super().__init__(device)
        self.size = crop_size(size)
        try:
            self._edges = (0, 0, 0, 0) if padding is None else paddings(padding)
        except TypeError as error:
            raise (ValueError(str(error)) if is_sequence(padding) else error) from None
        self.padding = padding
        self.pad_if_needed = bool(pad_if_needed)
        self.fill = checked_fill(fill)
        self.padding_mode = _mode(padding_mode)

    def make_params(self, flat_inputs: Leaves) -> Params:
        height, width = query_size(flat_inputs)
        left, top, right, bottom = self._edges
        height, width = height + top + bottom, width + left + right
        rows, columns = self.size
        if self.pad_if_needed:
            down, across = max(0, rows - height), max(0, columns - width)
            top, bottom, height = top + down, bottom + down, height + 2 * down
            left, right, width = left + across, right + across, width + 2 * across
        if height < rows or width < columns:
            raise ValueError(f"the crop of {self.size} is larger than the (padded) picture of {(height, width)}")
        y = draws.integer(0, height - rows + 1) if height > rows else 0
        x = draws.integer(0, width - columns + 1) if width > columns else 0
        pad = (left, top, right, bottom) if left or top or right or bottom else None
        return {"pad": pad, "window": (y, x, rows, columns)}

    @staticmethod
    def get_params(img: object, output_size: Sequence[int]) -> tuple[int, int, int, int]:
        """Top, left, height and width of a random window of a picture. ValueError if the picture is smaller."""
        height, width = query_size([img])
        rows, columns = output_size
        if height < rows or width < columns:
            raise ValueError(f"the crop of {(rows, columns)} is larger than the picture of {(height, width)}")
        if (height, width) == (rows, columns):
            return 0, 0, height, width
        y = draws.integer(0, height - rows + 1)
        return y, draws.integer(0, width - columns + 1), rows, columns

    def transform(self, inpt: Leaf, params: Params) -> object:
        if params["pad"] is not None:
            inpt = self.call_kernel(cropping.pad, inpt, params["pad"], fill_for(self.fill, inpt), self.padding_mode)
        return self.call_kernel(cropping.crop, inpt, *params["window"])


def _random_window(size: tuple[int, int], scale: Sequence[float], ratios: Sequence[float]) -> tuple[int, int, int, int]:
    """Top, left, height and width of a window with a share of the area and a ratio width / height; after 10 draws the middle."""
    height, width = size
    logs = math.log(ratios[0]), math.log(ratios[1])
    for _ in range(10):
        area = height * width * draws.uniform(scale[0], scale[1])
        ratio = math.exp(draws.uniform(*logs))
        columns, rows = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < columns <= width and 0 < rows <= height:
            y = draws.integer(0, height - rows + 1)
            return y, draws.integer(0, width - columns + 1), rows, columns
    columns, rows = width, height
    if width / height < ratios[0]:
        rows = round(width / ratios[0])
    elif width / height > ratios[1]:
        columns = round(height * ratios[1])
    return (height - rows) // 2, (width - columns) // 2, rows, columns


class RandomResizedCrop(Transform):
    """Cut a window of random area and shape out, and resize it.

    Args:
        size: (height, width), or one number for both.
        scale: range of the window's share of the picture's area.
        ratio: range of width / height.
        interpolation: see `Resize`.
        antialias: see `Resize`.
        device: where the work is done.
    """

    random = True

    def __init__(
        self, size: int | Sequence[int], scale: Sequence[float] = (0.08, 1.0), ratio: Sequence[float] = (3.0 / 4.0, 4.0 / 3.0),
        interpolation: object = InterpolationMode.BILINEAR, antialias: bool | None = True, device: object = "cpu",
    ):  # fmt: skip
        super().__init__(device)
        self.size = crop_size(size)
        self.scale = positive_range(scale, "scale")
        self.ratio = positive_range(ratio, "ratio")
        self.interpolation = resizing_mode(interpolation)
        self.antialias = antialias

    def make_params(self, flat_inputs: Leaves) -> Params:
        return {"window": _random_window(query_size(flat_inputs), self.scale, self.ratio)}

    @staticmethod
    def get_params(img: object, scale: Sequence[float], ratio: Sequence[float]) -> tuple[int, int, int, int]:
        """Top, left, height and width of a random window of a picture."""
        return _random_window(query_size([img]), scale, ratio)

    def transform(self, inpt: Leaf, params: Params) -> object:
        return self.call_kernel(cropping.resized_crop, inpt, *params["window"], self.size, self.interpolation, self.antialias)


class FiveCrop(Transform):
    """The windows at the four corners and in the middle, as a tuple."""

    def __init__(self, size: int | Sequence[int], device: object = "cpu"):
        super().__init__(device)
        self.size = crop_size(size)

    def check_inputs(self, flat_inputs: Leaves) -> None:
        if has_any(flat_inputs, InputKind.BOXES, InputKind.MASK, InputKind.POINTS):
            raise TypeError(f"{type(self).__name__} makes several pictures of one, and does not take boxes, masks and key points")

    def transform(self, inpt: Leaf, params: Params) -> object:
        return self.call_kernel(cropping.five_crop, inpt, self.size)


class TenCrop(FiveCrop):
    """The five windows of `FiveCrop`, and those of the flipped picture."""

    def __init__(self, size: int | Sequence[int], vertical_flip: bool = False, device: object = "cpu"):
        super().__init__(size, device)
        self.vertical_flip = bool(vertical_flip)

    def transform(self, inpt: Leaf, params: Params) -> object:
        return self.call_kernel(cropping.ten_crop, inpt, self.size, self.vertical_flip)


def _angles(degrees: object, name: str = "degrees") -> tuple[float, float]:
    if is_number(degrees):
        if degrees < 0:
            raise ValueError(f"{name} cannot be negative as one number, got {degrees!r}")
        return -float(degrees), float(degrees)
    if not is_sequence(degrees) or not all(map(is_number, degrees)):
        raise TypeError(f"{name} is a number or a pair, got {degrees!r}")
    if len(degrees) != 2:
        raise ValueError(f"{name} is a number or a pair, got {degrees!r}")
    return float(degrees[0]), float(degrees[1])


class RandomRotation(Transform):
    """Turn by a random angle.

    Args:
        degrees: the range of angles, or a number for (-degrees, degrees).
        interpolation: see the function `rotate`.
        expand: whether the result holds the whole picture.
        center: (x, y) in pixels; by default the middle.
        fill: the value of pixels outside; or a dict from class to value.
        device: where the work is done.
    """

    random = True

    def __init__(
        self, degrees: object, interpolation: object = InterpolationMode.NEAREST, expand: bool = False,
        center: Sequence[float] | None = None, fill: object = 0, device: object = "cpu",
    ):  # fmt: skip
        super().__init__(device)
        self.degrees = _angles(degrees)
        self.interpolation = interpolation_mode(interpolation)
        self.expand = bool(expand)
        self.center = _centre(center)
        self.fill = checked_fill(fill)

    def make_params(self, flat_inputs: Leaves) -> Params:
        return {"angle": self.get_params(self.degrees)}

    @staticmethod
    def get_params(degrees: Sequence[float]) -> float:
        """A random angle of the range."""
        return draws.uniform(*degrees)

    def transform(self, inpt: Leaf, params: Params) -> object:
        return self.call_kernel(
            warping.rotate, inpt, params["angle"], self.interpolation, self.expand, self.center, fill_for(self.fill, inpt)
        )


def _centre(center: object) -> object:
    if center is None:
        return None
    if not is_sequence(center):
        raise TypeError(f"center is a pair (x, y), got {center!r}")
    if len(center) != 2:
        raise ValueError(f"center is a pair (x, y), got {center!r}")
    return [float(center[0]), float(center[1])]


class RandomAffine(Transform):
    """Turn, move, scale and shear at random.

    Args:
        degrees: range of angles.
        translate: largest shares (x, y) of width and height that the picture moves by.
        scale: range of factors.
        shear: range of angles along x; four numbers for x and y; one number for (-shear, shear) along x.
        interpolation: see the function `affine`.
        fill: the value of pixels outside; or a dict from class to value.
        center: (x, y) in pixels; by default the middle.
        device: where the work is done.
    """

    random = True

    def __init__(
        self, degrees: object, translate: Sequence[float] | None = None, scale: Sequence[float] | None = None, shear: object = None,
        interpolation: object = InterpolationMode.NEAREST, fill: object = 0, center: Sequence[float] | None = None, device: object = "cpu",
    ):  # fmt: skip
        super().__init__(device)
        self.degrees = _angles(degrees)
        if translate is not None:
            if not is_sequence(translate) or len(translate) != 2:
                raise TypeError(f"translate is a pair of shares, got {translate!r}")
            if not all(0.0 <= share <= 1.0 for share in translate):
                raise ValueError(f"shares of translate are from 0 to 1, got {translate!r}")
        self.translate = translate
        self.scale = None if scale is None else positive_range(scale, "scale")
        self.shear = _shears(shear)
        self.interpolation = interpolation_mode(interpolation)
        self.fill = checked_fill(fill)
        self.center = _centre(center)

    def make_params(self, flat_inputs: Leaves) -> Params:
        height, width = query_size(flat_inputs)
        drawn = self.get_params(self.degrees, self.translate, self.scale, self.shear, [width, height])
        return dict(zip(("angle", "translate", "scale", "shear"), drawn, strict=True))

    @staticmethod
    def get_params(
        degrees: Sequence[float], translate: Sequence[float] | None, scale_ranges: Sequence[float] | None, shears: Sequence[float] | None,
        img_size: Sequence[int],
    ) -> tuple[float, tuple[int, int], float, tuple[float, float]]:  # fmt: skip
        """Angle, (x, y) in pixels, scale and shears, drawn from ranges. `img_size`: width and height."""
        angle, moved, across, along = draws.uniform(*degrees), (0, 0), 0.0, 0.0
        if translate is not None:
            limits = float(translate[0] * img_size[0]), float(translate[1] * img_size[1])
            moved = round(draws.uniform(-limits[0], limits[0])), round(draws.uniform(-limits[1], limits[1]))
        scale = 1.0 if scale_ranges is None else draws.uniform(*scale_ranges)
        if shears is not None:
            across = draws.uniform(shears[0], shears[1])
            along = draws.uniform(shears[2], shears[3]) if len(shears) == 4 else 0.0
        return angle, moved, scale, (across, along)

    def transform(self, inpt: Leaf, params: Params) -> object:
        return self.call_kernel(
            warping.affine, inpt, **params, interpolation=self.interpolation, fill=fill_for(self.fill, inpt), center=self.center
        )


def _shears(shear: object) -> list[float] | None:
    if shear is None:
        return None
    if is_number(shear):
        return list(_angles(shear, "shear"))
    if not is_sequence(shear):
        raise TypeError(f"shear is a number, or a sequence of 2 or 4, got {shear!r}")
    if len(shear) not in (2, 4):
        raise ValueError(f"shear is a number, or a sequence of 2 or 4, got {shear!r}")
    return [float(value) for value in shear]


class RandomPerspective(RandomTransform):
    """Look at a picture from a random place, with probability `p`.

    Args:
        distortion_scale: how far corners move, as a share of half the picture, from 0 to 1.
        p: the probability.
        interpolation: see the function `perspective`.
        fill: the value of pixels outside; or a dict from class to value.
        device: where the work is done.
    """

    def __init__(
        self, distortion_scale: float = 0.5, p: float = 0.5, interpolation: object = InterpolationMode.BILINEAR, fill: object = 0,
        device: object = "cpu",
    ):  # fmt: skip
        super().__init__(p, device)
        if not is_number(distortion_scale) or not 0 <= distortion_scale <= 1:
            raise ValueError(f"distortion_scale is from 0 to 1, got {distortion_scale!r}")
        self.distortion_scale = distortion_scale
        self.interpolation = interpolation_mode(interpolation)
        self.fill = checked_fill(fill)

    def make_params(self, flat_inputs: Leaves) -> Params:
        height, width = query_size(flat_inputs)
        startpoints, endpoints = self.get_params(width, height, self.distortion_scale)
        return {"coefficients": warping.perspective_matrix(startpoints, endpoints, None).ravel()[:8].tolist()}

    @staticmethod
    def get_params(width: int, height: int, distortion_scale: float) -> tuple[list[list[int]], list[list[int]]]:
        """The corners (x, y) of a picture, and random places that they go to."""
        down, across = int(distortion_scale * (height // 2)), int(distortion_scale * (width // 2))
        near_x, far_x = (0, across + 1), (width - across - 1, width)
        near_y, far_y = (0, down + 1), (height - down - 1, height)
        corners = ((near_x, near_y), (far_x, near_y), (far_x, far_y), (near_x, far_y))
        endpoints = [[draws.integer(*x), draws.integer(*y)] for x, y in corners]
        return [[0, 0], [width - 1, 0], [width - 1, height - 1], [0, height - 1]], endpoints

    def transform(self, inpt: Leaf, params: Params) -> object:
        return self.call_kernel(
            warping.perspective, inpt, None, None, self.interpolation, fill_for(self.fill, inpt), params["coefficients"]
        )


class ElasticTransform(Transform):
    """Move pixels by smooth random displacements.

    Args:
        alpha: how far, in pixels; or (x, y).
        sigma: how smooth, in pixels; or (x, y).
        interpolation: see the function `elastic`.
        fill: the value of pixels outside; or a dict from class to value.
        device: where the work is done.
    """

    random = True

    def __init__(
        self, alpha: object = 50.0, sigma: object = 5.0, interpolation: object = InterpolationMode.BILINEAR, fill: object = 0,
        device: object = "cpu",
    ):  # fmt: skip
        super().__init__(device)
        self.alpha = _two(alpha, "alpha")
        self.sigma = _two(sigma, "sigma")
        self.interpolation = interpolation_mode(interpolation)
        self.fill = checked_fill(fill)

    def make_params(self, flat_inputs: Leaves) -> Params:
        return {"displacement": self.get_params(self.alpha, self.sigma, query_size(flat_inputs))}

    @staticmethod
    def get_params(alpha: Sequence[float], sigma: Sequence[float], size: Sequence[int]) -> torch.Tensor:
        """Random displacements [1, height, width, 2] of the pixels of a picture of `size` (height, width)."""
        parts = []
        for axis in (0, 1):
            moves = torch.rand([1, 1, *size], generator=draws.generator()) * 2 - 1
            if sigma[axis] > 0.0:
                window = int(8 * sigma[axis] + 1) | 1
                moves = gaussian_blur(moves, [window, window], list(sigma))
            parts.append(moves * alpha[axis] / size[1 - axis])
        return torch.cat(parts, 1).permute(0, 2, 3, 1)

    def transform(self, inpt: Leaf, params: Params) -> object:
        return self.call_kernel(warping.elastic, inpt, params["displacement"], self.interpolation, fill_for(self.fill, inpt))


def _two(value: object, name: str) -> tuple[float, float]:
    if is_number(value):
        return float(value), float(value)
    if not is_sequence(value) or not all(map(is_number, value)):
        raise TypeError(f"{name} is a number or a pair, got {value!r}")
    if len(value) not in (1, 2):
        raise ValueError(f"{name} is a number or a pair, got {value!r}")
    return float(value[0]), float(value[-1])


class RandomZoomOut(RandomTransform):
    """Put the picture at a random place of a larger canvas, with probability `p`.

    Args:
        fill: the value of the canvas; or a dict from class to value.
        side_range: range of the canvas's size, as a multiple of the picture's.
        p: the probability.
        device: where the work is done.
    """

    def __init__(self, fill: object = 0, side_range: Sequence[float] = (1.0, 4.0), p: float = 0.5, device: object = "cpu"):
        super().__init__(p, device)
        self.fill = checked_fill(fill)
        if not is_sequence(side_range) or len(side_range) != 2 or not 1.0 <= side_range[0] <= side_range[1]:
            raise ValueError(f"side_range is a pair of numbers from 1 on, got {side_range!r}")
        self.side_range = tuple(side_range)

    def make_params(self, flat_inputs: Leaves) -> Params:
        height, width = query_size(flat_inputs)
        low, high = self.side_range
        ratio = float(low + torch.rand(1, generator=draws.generator()) * (high - low))
        canvas = int(height * ratio), int(width * ratio)
        place = torch.rand(2, generator=draws.generator())
        left, top = int((canvas[1] - width) * place[0]), int((canvas[0] - height) * place[1])
        return {"padding": [left, top, canvas[1] - left - width, canvas[0] - top - height]}

    def transform(self, inpt: Leaf, params: Params) -> object:
        return self.call_kernel(cropping.pad, inpt, params["padding"], fill_for(self.fill, inpt))


class _RandomSize(Transform):
    """The base of classes that resize to a random size."""

    random = True

    def __init__(self, interpolation: object, antialias: bool | None, device: object):
        super().__init__(device)
        self.interpolation = resizing_mode(interpolation)
        self.antialias = antialias

    def transform(self, inpt: Leaf, params: Params) -> object:
        return self.call_kernel(resizing.resize, inpt, params["size"], self.interpolation, None, self.antialias)


class ScaleJitter(_RandomSize):
    """Resize to a random multiple of the largest size within `target_size`.

    Args:
        target_size: (height, width).
        scale_range: range of the multiple.
        interpolation: see `Resize`.
        antialias: see `Resize`.
        device: where the work is done.
    """

    def __init__(
        self, target_size: Sequence[int], scale_range: Sequence[float] = (0.1, 2.0), interpolation: object = InterpolationMode.BILINEAR,
        antialias: bool | None = True, device: object = "cpu",
    ):  # fmt: skip
        super().__init__(interpolation, antialias, device)
        self.target_size = crop_size(target_size, "target_size")
        self.scale_range = positive_range(scale_range, "scale_range")

    def make_params(self, flat_inputs: Leaves) -> Params:
        height, width = query_size(flat_inputs)
        low, high = self.scale_range
        scale = float(low + torch.rand(1, generator=draws.generator()) * (high - low))
        ratio = min(self.target_size[1] / height, self.target_size[0] / width) * scale
        return {"size": (int(height * ratio), int(width * ratio))}


class RandomShortestSize(_RandomSize):
    """Resize so that the shorter edge has one of some sizes.

    Args:
        min_size: a size, or several to choose from.
        max_size: the longer edge is at most so long.
        interpolation: see `Resize`.
        antialias: see `Resize`.
        device: where the work is done.
    """

    def __init__(
        self, min_size: int | Sequence[int], max_size: int | None = None, interpolation: object = InterpolationMode.BILINEAR,
        antialias: bool | None = True, device: object = "cpu",
    ):  # fmt: skip
        super().__init__(interpolation, antialias, device)
        sizes = [min_size] if is_integer(min_size) else min_size
        if not is_sequence(sizes) or not sizes or not all(is_integer(size) and size > 0 for size in sizes):
            raise ValueError(f"min_size is a positive integer or several, got {min_size!r}")
        self.min_size = list(sizes)
        self.max_size = max_size

    def make_params(self, flat_inputs: Leaves) -> Params:
        height, width = query_size(flat_inputs)
        ratio = self.min_size[draws.integer(0, len(self.min_size))] / min(height, width)
        if self.max_size is not None:
            ratio = min(ratio, self.max_size / max(height, width))
        return {"size": (int(height * ratio), int(width * ratio))}


class RandomResize(_RandomSize):
    """Resize so that the shorter edge has a random size.

    Args:
        min_size: the smallest size.
        max_size: sizes are smaller than this.
        interpolation: see `Resize`.
        antialias: see `Resize`.
        device: where the work is done.
    """

    def __init__(
        self, min_size: int, max_size: int, interpolation: object = InterpolationMode.BILINEAR, antialias: bool | None = True,
        device: object = "cpu",
    ):  # fmt: skip
        super().__init__(interpolation, antialias, device)
        if not is_integer(min_size) or not is_integer(max_size) or not 0 < min_size < max_size:
            raise ValueError(f"0 < min_size < max_size is needed, got {min_size!r} and {max_size!r}")
        self.min_size, self.max_size = min_size, max_size

    def make_params(self, flat_inputs: Leaves) -> Params:
        return {"size": [draws.integer(self.min_size, self.max_size)]}
