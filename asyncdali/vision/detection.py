"""Classes for boxes and key points."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from . import boxes, cropping, draws
from .kinds import PIXELS, InputKind, Leaf, Leaves, described, kind_of, needed_tv_tensors, raw, wrapped
from .transform import Params, Transform, flattened, has_any, query_size, rebuilt


class ConvertBoundingBoxFormat(Transform):
    """Boxes in another format: a BoundingBoxFormat or its name."""

    def __init__(self, format: object):
        super().__init__()
        boxes.format_name(format)
        self.format = format

    def takes(self, leaf: object) -> bool:
        return kind_of(leaf) is InputKind.BOXES

    def transform(self, inpt: Leaf, params: Params) -> object:
        return boxes.convert_bounding_box_format(inpt, new_format=self.format)

    def refused(self, value: object) -> object:
        return value


class ClampBoundingBoxes(Transform):
    """Boxes cut at the borders of the canvas, by their own clamping mode or another one."""

    def __init__(self, clamping_mode: object = "auto"):
        super().__init__()
        if clamping_mode not in ("auto", "soft", "hard", None):
            raise ValueError(f"clamping_mode is 'soft', 'hard', 'auto' or None, got {clamping_mode!r}")
        self.clamping_mode = clamping_mode

    def takes(self, leaf: object) -> bool:
        return kind_of(leaf) is InputKind.BOXES

    def transform(self, inpt: Leaf, params: Params) -> object:
        return boxes.clamp_bounding_boxes(inpt, clamping_mode=self.clamping_mode)


class ClampKeyPoints(Transform):
    """Key points moved onto the canvas."""

    def takes(self, leaf: object) -> bool:
        return kind_of(leaf) is InputKind.POINTS

    def transform(self, inpt: Leaf, params: Params) -> object:
        return boxes.clamp_keypoints(inpt)


class SetClampingMode(Transform):
    """Boxes with another clamping mode: "soft", "hard" or None."""

    def __init__(self, clamping_mode: object):
        super().__init__()
        if clamping_mode not in ("soft", "hard", None):
            raise ValueError(f"clamping_mode is 'soft', 'hard' or None, got {clamping_mode!r}")
        self.clamping_mode = clamping_mode

    def takes(self, leaf: object) -> bool:
        return kind_of(leaf) is InputKind.BOXES

    def transform(self, inpt: Leaf, params: Params) -> object:
        return needed_tv_tensors("SetClampingMode").wrap(raw(inpt), like=inpt, clamping_mode=self.clamping_mode)


def default_labels(sample: object) -> Any:
    """The labels of a sample: in a dict under a key that contains "label"; of several inputs in the second one. None if there are none."""
    if isinstance(sample, (tuple, list)):
        sample = sample[1] if len(sample) > 1 else sample[0]
    if isinstance(sample, torch.Tensor):
        return sample
    if not isinstance(sample, dict):
        return None
    keys = [key for key in sample if isinstance(key, str)]
    exact = next((key for key in keys if key.lower() in ("label", "labels")), None)
    found = exact if exact is not None else next((key for key in keys if "label" in key.lower()), None)
    return None if found is None else sample[found]


def labels_function(labels_getter: object) -> Callable[[Any], Any]:
    """How labels are found: "default", a key, a function, or None for no labels. ValueError for others."""
    if labels_getter == "default":
        return default_labels
    if isinstance(labels_getter, str):
        key = labels_getter

        def by_key(sample: Any) -> Any:
            inner = sample[1] if isinstance(sample, (tuple, list)) and len(sample) > 1 else sample
            return inner[key]

        return by_key
    if labels_getter is None:
        return lambda sample: None
    if callable(labels_getter):
        return labels_getter
    raise ValueError(f"labels_getter is 'default', a key, a function or None, got {labels_getter!r}")


class _Sanitizing(Transform):
    """The base of classes that leave objects out, with their labels and masks."""

    objects = InputKind.BOXES

    def __init__(self, labels_getter: object):
        super().__init__()
        labels_function(labels_getter)
        self.labels_getter = labels_getter

    def valid(self, objects: object) -> torch.Tensor:
        """Which objects are kept."""
        raise NotImplementedError

    def __call__(self, *inputs: object) -> object:
        whole = inputs[0] if len(inputs) == 1 else inputs
        labels = labels_function(self.labels_getter)(whole)
        companions = [labels] if isinstance(labels, torch.Tensor) else list(labels) if isinstance(labels, (tuple, list)) else []
        if labels is not None and not all(isinstance(item, torch.Tensor) for item in (companions or [labels])):
            raise ValueError(f"labels are a tensor or several, got {described(labels)}")
        leaves = flattened(whole, [])
        found = [leaf for leaf in leaves if kind_of(leaf) is self.objects]
        if len(found) != 1:
            raise ValueError(f"{type(self).__name__} needs one {self.objects.value} in the input, found {len(found)}")
        valid = self.valid(found[0])
        for item in companions:
            if item.shape[0] != valid.shape[0]:
                raise ValueError(f"there are {valid.shape[0]} objects and {item.shape[0]} labels")
        made = []
        for leaf in leaves:
            is_companion = leaf is found[0] or any(leaf is item for item in companions)
            if kind_of(leaf) is InputKind.MASK and self.objects is InputKind.BOXES and leaf.ndim > 2:
                is_companion = leaf.shape[0] == valid.shape[0]
            made.append(wrapped(raw(leaf)[valid], leaf) if is_companion else leaf)
        return rebuilt(whole, iter(made))


class SanitizeBoundingBoxes(_Sanitizing):
    """Leave out boxes that are small or leave the canvas, with their labels and masks.

    Args:
        min_size: least width and height.
        min_area: least area.
        labels_getter: "default", a key, a function of the input, or None: where labels are.
    """

    def __init__(self, min_size: float = 1.0, min_area: float = 1.0, labels_getter: object = "default"):
        if min_size < 0 or min_area < 0:
            raise ValueError(f"min_size and min_area cannot be negative, got {min_size!r} and {min_area!r}")
        super().__init__(labels_getter)
        self.min_size, self.min_area = min_size, min_area

    def valid(self, objects: object) -> torch.Tensor:
        return boxes.valid_boxes(objects, None, None, self.min_size, self.min_area)


class SanitizeKeyPoints(_Sanitizing):
    """Leave out key points that leave the canvas, with their labels."""

    objects = InputKind.POINTS

    def __init__(self, labels_getter: object = "default"):
        super().__init__(labels_getter)

    def valid(self, objects: object) -> torch.Tensor:
        return boxes.valid_points(objects, None)


class RandomIoUCrop(Transform):
    """Cut a window out that overlaps with an object by a random least share (SSD).

    Boxes whose centres are outside become empty: use `SanitizeBoundingBoxes` behind this class.

    Args:
        min_scale: least share of width and height.
        max_scale: largest share.
        min_aspect_ratio: least width / height.
        max_aspect_ratio: largest width / height.
        sampler_options: least overlaps to choose from; from 1 on the input stays as it is.
        trials: windows that are tried for each choice.
        device: where the work is done.
    """

    random = True

    def __init__(
        self, min_scale: float = 0.3, max_scale: float = 1.0, min_aspect_ratio: float = 0.5, max_aspect_ratio: float = 2.0,
        sampler_options: Sequence[float] | None = None, trials: int = 40, device: object = "cpu",
    ):  # fmt: skip
        super().__init__(device)
        self.min_scale, self.max_scale = min_scale, max_scale
        self.min_aspect_ratio, self.max_aspect_ratio = min_aspect_ratio, max_aspect_ratio
        self.sampler_options = list(sampler_options or (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0))
        self.trials = trials

    def check_inputs(self, flat_inputs: Leaves) -> None:
        if not has_any(flat_inputs, InputKind.BOXES) or not has_any(flat_inputs, InputKind.PICTURE, *PIXELS):
            raise TypeError("RandomIoUCrop needs a picture and its boxes")

    def make_params(self, flat_inputs: Leaves) -> Params:
        height, width = query_size(flat_inputs)
        found: Any = next(leaf for leaf in flat_inputs if kind_of(leaf) is InputKind.BOXES)
        corners = boxes.corners_of(raw(found), found.format)
        while True:
            least = self.sampler_options[draws.integer(0, len(self.sampler_options))]
            if least >= 1.0:
                return {"window": None}
            for _ in range(self.trials):
                made = self._window(height, width, corners, least)
                if made is not None:
                    return made

    def _window(self, height: int, width: int, corners: torch.Tensor, least: float) -> dict[str, object] | None:
        shares = self.min_scale + (self.max_scale - self.min_scale) * torch.rand(2, generator=draws.generator())
        columns, rows = int(width * shares[0]), int(height * shares[1])
        if rows == 0 or columns == 0 or not self.min_aspect_ratio <= columns / rows <= self.max_aspect_ratio:
            return None
        place = torch.rand(2, generator=draws.generator())
        left, top = int((width - columns) * place[0]), int((height - rows) * place[1])
        centres = (corners[..., :2] + corners[..., 2:]) / 2
        inside = (centres[..., 0] > left) & (centres[..., 0] < left + columns) & (centres[..., 1] > top) & (centres[..., 1] < top + rows)
        if not bool(inside.any()):
            return None
        chosen = corners[inside]
        low = torch.maximum(chosen[..., :2], torch.tensor([left, top], dtype=torch.float64))
        high = torch.minimum(chosen[..., 2:], torch.tensor([left + columns, top + rows], dtype=torch.float64))
        common = (high - low).clamp_(min=0).prod(-1)
        areas = (chosen[..., 2:] - chosen[..., :2]).prod(-1)
        if float((common / (areas + rows * columns - common)).max()) < least:
            return None
        return {"window": (top, left, rows, columns), "inside": inside}

    def transform(self, inpt: Leaf, params: Params) -> object:
        if params["window"] is None:
            return inpt
        made = self.call_kernel(cropping.crop, inpt, *params["window"])
        if kind_of(made) is InputKind.BOXES:
            values = raw(made).clone()
            values[~params["inside"]] = 0
            made = wrapped(values, made)
        return made
