"""Classes that mix the pictures of a batch, and their labels: MixUp and CutMix."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from . import draws
from .detection import labels_function
from .kinds import PIXELS, InputKind, kind_of, raw, wrapped
from .transform import Transform, flattened, needed, query_size, rebuilt


class _Mixing(Transform):
    """The base of both.

    Args:
        alpha: both parameters of the Beta distribution of the share.
        num_classes: number of classes, for labels that are numbers; None: labels are probabilities.
        labels_getter: "default", a key, or a function of the input: where labels are.
    """

    random = True

    def __init__(self, *, alpha: float = 1.0, num_classes: int | None = None, labels_getter: object = "default"):
        super().__init__()
        if not alpha > 0:
            raise ValueError(f"alpha is positive, got {alpha!r}")
        labels_function(labels_getter)
        self.alpha, self.num_classes, self.labels_getter = float(alpha), num_classes, labels_getter

    def share(self) -> float:
        """A draw of the Beta distribution."""
        if draws.generator() is None:
            return float(torch.distributions.Beta(torch.tensor([self.alpha]), torch.tensor([self.alpha])).sample(()))
        return float(np.random.default_rng(draws.integer(0, 2**62)).beta(self.alpha, self.alpha))

    def params_of(self, size: tuple[int, int]) -> dict[str, Any]:
        """Parameters for pictures of a size; `label_share` is that of the labels."""
        raise NotImplementedError

    def mixed(self, pictures: torch.Tensor, params: dict[str, object]) -> torch.Tensor:
        """Each picture mixed with the one before it."""
        raise NotImplementedError

    def __call__(self, *inputs: object) -> object:
        whole = inputs[0] if len(inputs) == 1 else inputs
        leaves = flattened(whole, [])
        if any(kind_of(leaf) in (InputKind.BOXES, InputKind.MASK, InputKind.POINTS, InputKind.PICTURE) for leaf in leaves):
            raise ValueError(f"{type(self).__name__} mixes batches of tensors, and takes no PIL pictures, boxes, masks and key points")
        labels = labels_function(self.labels_getter)(whole)
        if not isinstance(labels, torch.Tensor):
            raise ValueError(f"the labels must be a tensor, got {type(labels).__name__}")
        if labels.ndim not in (1, 2):
            raise ValueError(f"labels are [batch] numbers or [batch, classes] shares, got shape {tuple(labels.shape)}")
        if labels.ndim == 1 and self.num_classes is None:
            raise ValueError("labels that are numbers need num_classes")
        if labels.ndim == 2 and self.num_classes is not None and labels.shape[-1] != self.num_classes:
            raise ValueError(f"labels have {labels.shape[-1]} classes, num_classes is {self.num_classes}")
        wanted = needed([leaf for leaf in leaves if leaf is not labels], lambda leaf: kind_of(leaf) in PIXELS)
        chosen = [leaf for leaf, is_wanted in zip([leaf for leaf in leaves if leaf is not labels], wanted, strict=True) if is_wanted]
        for leaf in chosen:
            least = 5 if kind_of(leaf) is InputKind.VIDEO else 4
            if leaf.ndim != least or leaf.shape[0] != labels.shape[0]:
                raise ValueError(f"a batch has {least} dimensions and one label for each sample, got shapes {tuple(leaf.shape)} and "
                                 f"{tuple(labels.shape)}")  # fmt: skip
        params = self.params_of(query_size(chosen))
        made = []
        for leaf in leaves:
            if leaf is labels:
                made.append(self._labels(raw(labels), params["label_share"]))
            elif any(leaf is item for item in chosen):
                made.append(wrapped(self.mixed(raw(leaf), params), leaf))
            else:
                made.append(leaf)
        return rebuilt(whole, iter(made))

    def _labels(self, labels: torch.Tensor, share: float) -> torch.Tensor:
        if labels.ndim == 1:
            labels = torch.nn.functional.one_hot(labels, num_classes=self.num_classes or -1)
        values = labels if labels.is_floating_point() else labels.float()
        return values.roll(1, 0) * (1.0 - share) + values * share


class MixUp(_Mixing):
    """Average each picture with the one before it, by a random share. Labels get the same shares."""

    def params_of(self, size: tuple[int, int]) -> dict[str, float]:
        share = self.share()
        return {"share": share, "label_share": share}

    def mixed(self, pictures: torch.Tensor, params: dict[str, Any]) -> torch.Tensor:
        values = pictures if pictures.is_floating_point() else pictures.float()
        return (values.roll(1, 0) * (1.0 - params["share"]) + values * params["share"]).to(pictures.dtype)


class CutMix(_Mixing):
    """Paste a random window of the picture before into each one. Labels get the shares of the areas."""

    def params_of(self, size: tuple[int, int]) -> dict[str, object]:
        height, width = size
        share = self.share()
        x, y = draws.integer(0, width), draws.integer(0, height)
        half = 0.5 * math.sqrt(1.0 - share)
        across, down = int(half * width), int(half * height)
        left, right = max(x - across, 0), min(x + across, width)
        top, bottom = max(y - down, 0), min(y + down, height)
        return {"window": (top, bottom, left, right), "label_share": 1.0 - (right - left) * (bottom - top) / (width * height)}

    def mixed(self, pictures: torch.Tensor, params: dict[str, Any]) -> torch.Tensor:
        top, bottom, left, right = params["window"]
        made = pictures.clone()
        made[..., top:bottom, left:right] = pictures.roll(1, 0)[..., top:bottom, left:right]
        return made
