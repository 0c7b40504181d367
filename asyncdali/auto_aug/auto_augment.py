"""AutoAugment: applies one of a policy's sub-policies to each sample. Each operation runs with its own probability.

Cubuk et al., "AutoAugment: Learning Augmentation Policies from Data", https://arxiv.org/abs/1805.09501
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import fn, types
from ..data_node import DataNode
from ..graph.choices import row
from . import augmentations as a
from ._suites import published, translations, warp_arguments
from .core import Policy, select, signed_bin
from .core._args import check_arguments
from .core._augmentation import Augmentation

_BINS = 11
_SKIP = a.identity.augmentation(name="skip")
"""The result for a sample whose operation does not run."""


def auto_augment(
    data: DataNode, policy_name: str = "image_net", shape: object = None, fill_value: object = 128, interp_type: object = None,
    max_translate_abs: object = None, max_translate_rel: object = None, seed: int | None = None,
) -> DataNode:  # fmt: skip
    """AutoAugment with one of the published policies.

    - data: UINT8 images or videos (HWC, FHWC). A video gets one choice for all its frames.
    - policy_name: "image_net", "reduced_image_net", "svhn", "reduced_cifar10".
    - shape: (height, width, ...) per sample (``fn.peek_image_shape(encoded)`` or ``data.shape()``). With it translations are relative to
      the size; without it they are in pixels.
    - fill_value: value outside of the image for warps. None: the border is repeated. interp_type: INTERP_LINEAR (default), INTERP_NN.
    - max_translate_abs: largest translation in pixels without `shape`, a number or (height, width); 250 by default.
    - max_translate_rel: the same with `shape`, as part of the size; 1 by default.
    - seed: seed of the draws; by default taken from the pipeline's seed.

    Returns the augmented data. Raises ValueError for another name. Also raises ValueError for "reduced_image_net", which does not
    translate, if `shape`, `max_translate_abs` or `max_translate_rel` is given.
    """
    make = _POLICIES.get(policy_name) if isinstance(policy_name, str) else None
    if make is None:
        raise ValueError(f"policy_name must be one of {', '.join(map(repr, _POLICIES))}, got {policy_name!r}")
    if make is get_reduced_image_net_policy:
        limits = {"shape": shape, "max_translate_abs": max_translate_abs, "max_translate_rel": max_translate_rel}
        given = [name for name, value in limits.items() if value is not None]
        if given:
            raise ValueError(f"the policy 'reduced_image_net' has no translations: {given[0]} must not be given")
        policy = make()
    else:
        policy = make(shape is not None, max_translate_abs, max_translate_rel)
    arguments = warp_arguments(list(policy.augmentations.values()), fill_value, interp_type, shape)
    return apply_auto_augment(policy, data, seed=seed, **arguments)


def auto_augment_image_net(
    data: DataNode, shape: object = None, fill_value: object = 128, interp_type: object = None, max_translate_abs: object = None,
    max_translate_rel: object = None, seed: int | None = None,
) -> DataNode:  # fmt: skip
    """:func:`auto_augment` with the policy "image_net".

    `data`, `shape`, `fill_value`, `interp_type`, `max_translate_abs`, `max_translate_rel` and `seed` are passed to :func:`auto_augment`.
    """
    return auto_augment(data, "image_net", shape, fill_value, interp_type, max_translate_abs, max_translate_rel, seed)


def apply_auto_augment(policy: Policy, data: DataNode, seed: int | None = None, **kwargs: object) -> DataNode:
    """AutoAugment with your own policy.

    - policy: a :class:`Policy` with sub-policies.
    - data: the samples, of any type that the policy's augmentations accept.
    - seed: seed of the draws; by default taken from the pipeline's seed.
    - kwargs: passed to the augmentations that read them.

    Raises ValueError for a policy without sub-policies, UnusedArgException for an argument that no augmentation reads, and
    MissingArgException for a missing required argument.
    """
    if not isinstance(policy, Policy):
        raise TypeError(f"apply_auto_augment takes a Policy, got {policy!r}")
    if not policy.sub_policies:
        raise ValueError(f"apply_auto_augment needs a policy with sub-policies; {policy.name!r} has none")
    check_arguments(policy.augmentations.values(), kwargs, "apply_auto_augment")
    stages = max(map(len, policy.sub_policies))
    if stages == 0:
        return data
    should_run = fn.random.uniform(range=[0, 1], dtype=types.FLOAT, seed=seed, shape=[stages])
    chosen = fn.random.uniform(values=list(range(len(policy.sub_policies))), dtype=types.INT32, seed=seed)
    sign = None
    if any(augmentation.randomly_negate for augmentation in policy.augmentations.values()):
        sign = fn.random.uniform(values=[0, 1], dtype=types.INT32, seed=seed, shape=[stages])
    for stage in range(stages):
        table = _Stage(policy, stage)
        runs = should_run[stage] < _entry(table.probabilities, types.FLOAT, chosen)
        bin: Any = _entry(table.bins, types.INT32, chosen)
        if sign is not None:
            bin = signed_bin(bin, random_sign=sign[stage])
        place = runs * _entry(table.places, types.INT32, chosen)
        data = select(table.choices, place, data, magnitude_bin=bin, num_magnitude_bins=int(policy.num_magnitude_bins), **kwargs)
    return data


class _Stage:
    """One stage of all sub-policies. `choices` are the augmentations. Each sub-policy has a place in `choices` (`places`; 0: nothing), a
    magnitude bin (`bins`) and a probability (`probabilities`)."""

    def __init__(self, policy: Policy, stage: int):
        operations = [sub[stage] if stage < len(sub) else None for sub in policy.sub_policies]
        # In the order of the sub-policies: random operators in augmentations take automatic seeds in this order, as in DALI.
        different = list({operation[0].name: operation[0] for operation in operations if operation is not None}.values())
        self.choices: list[Augmentation] = [_SKIP, *different]
        place = {augmentation.name: k for k, augmentation in enumerate(different, 1)}
        self.places = np.array([0 if item is None else place[item[0].name] for item in operations], np.int32)
        self.bins = np.array([0 if item is None else item[2] or 0 for item in operations], np.int32)
        self.probabilities = np.array([0 if item is None else item[1] for item in operations], np.float32)


def _entry(table: np.ndarray, dtype: types.DALIDataType, chosen: DataNode) -> DataNode:
    return row(table, dtype, chosen, "cpu")


# ------------------------------------------------------------------------------------------------------------------- policies


def get_image_net_policy(use_shape: bool = False, max_translate_abs: object = None, max_translate_rel: object = None) -> Policy:
    """The policy found for ImageNet (https://arxiv.org/abs/1805.09501).

    - use_shape: translations are relative to the size.
    - max_translate_abs, max_translate_rel: largest translation without and with `use_shape`; see :func:`auto_augment`.
    """
    return Policy("ImageNetPolicy", _BINS, _sub_policies(_IMAGE_NET, _shifts(use_shape, max_translate_abs, max_translate_rel)))


def get_reduced_image_net_policy() -> Policy:
    """The policy found for a reduced ImageNet; it has no translations."""
    return Policy("ReducedImageNetPolicy", _BINS, _sub_policies(_REDUCED_IMAGE_NET, ()))


def get_svhn_policy(use_shape: bool = False, max_translate_abs: object = None, max_translate_rel: object = None) -> Policy:
    """The policy found for SVHN. `use_shape`, `max_translate_abs`, `max_translate_rel`: see :func:`get_image_net_policy`."""
    return Policy("SvhnPolicy", _BINS, _sub_policies(_SVHN, _shifts(use_shape, max_translate_abs, max_translate_rel)))


def get_reduced_cifar10_policy(use_shape: bool = False, max_translate_abs: object = None, max_translate_rel: object = None) -> Policy:
    """The policy found for a reduced CIFAR-10. `use_shape`, `max_translate_abs`, `max_translate_rel`: see :func:`get_image_net_policy`."""
    shifts = _shifts(use_shape, max_translate_abs, max_translate_rel)
    return Policy("ReducedCifar10Policy", _BINS, _sub_policies(_REDUCED_CIFAR10, shifts))


def _shifts(use_shape: bool, max_translate_abs: object, max_translate_rel: object) -> tuple[Augmentation, Augmentation]:
    return translations(use_shape, max_translate_abs, max_translate_rel, 250, 1.0)


_POLICIES: dict[str, Callable[..., Policy]] = {
    "image_net": get_image_net_policy,
    "reduced_image_net": get_reduced_image_net_policy,
    "svhn": get_svhn_policy,
    "reduced_cifar10": get_reduced_cifar10_policy,
}


def _sub_policies(table: str, shifts: tuple[Augmentation, ...]) -> list[list[tuple[Augmentation, float, int | None]]]:
    """The sub-policies of a table. Each line has "name probability magnitude-bin" for each operation; "-" means no magnitude."""
    suite = {augmentation.name: augmentation for augmentation in (*_OPERATIONS, *shifts)}

    def operation(text: str) -> tuple[Augmentation, float, int | None]:
        name, probability, bin = text.split()
        return suite[name], float(probability), None if bin == "-" else int(bin)

    return [[operation(text) for text in line.split(",")] for line in table.strip().splitlines()]


_OPERATIONS = (*published(), a.solarize_add.augmentation((0, 110), False), a.invert, a.equalize, a.auto_contrast)

_IMAGE_NET = """
equalize .8 -, shear_y .8 4
color .4 9, equalize .6 -
color .4 1, rotate .6 8
solarize .8 3, equalize .4 -
solarize .4 2, solarize .6 2
color .2 0, equalize .8 -
equalize .4 -, solarize_add .8 3
shear_x .2 9, rotate .6 8
color .6 1, equalize 1 -
invert .4 -, rotate .6 0
equalize 1 -, shear_y .6 3
color .4 7, equalize .6 -
posterize .4 6, auto_contrast .4 -
solarize .6 8, color .6 9
solarize .2 4, rotate .8 9
rotate 1 7, translate_y .8 9
solarize .8 4
shear_y .8 0, color .6 4
color 1 0, rotate .6 2
equalize .8 -
equalize 1 -, auto_contrast .6 -
shear_y .4 7, solarize_add .6 7
posterize .8 2, solarize .6 10
solarize .6 8, equalize .6 -
color .8 6, rotate .4 5
"""

_SVHN = """
shear_x .9 4, invert .2 -
shear_y .9 8, invert .7 -
equalize .6 -, solarize .6 6
invert .9 -, equalize .6 -
equalize .6 -, rotate .9 3
shear_x .9 4, auto_contrast .8 -
shear_y .9 8, invert .4 -
shear_y .9 5, solarize .2 6
invert .9 -, auto_contrast .8 -
equalize .6 -, rotate .9 3
shear_x .9 4, solarize .3 3
shear_y .8 8, invert .7 -
equalize .9 -, translate_y .6 6
invert .9 -, equalize .6 -
contrast .3 3, rotate .8 4
invert .8 -
shear_y .7 6, solarize .4 8
invert .6 -, rotate .8 4
shear_y .3 7, translate_x .9 3
shear_x .1 6, invert .6 -
solarize .7 2, translate_y .6 7
shear_y .8 4, invert .8 -
shear_x .7 9, translate_y .8 3
shear_y .8 5, auto_contrast .7 -
shear_x .7 2, invert .1 -
"""

_REDUCED_CIFAR10 = """
invert .1 -, contrast .2 6
rotate .7 2, translate_x .3 9
sharpness .8 1, sharpness .9 3
shear_y .5 8, translate_y .7 9
auto_contrast .5 -, equalize .9 -
shear_y .2 7, posterize .3 7
color .4 3, brightness .6 7
sharpness .3 9, brightness .7 9
equalize .6 -, equalize .5 -
contrast .6 7, sharpness .6 5
color .7 7, translate_x .5 8
equalize .3 -, auto_contrast .4 -
translate_y .4 3, sharpness .2 6
brightness .9 6, color .2 8
solarize .5 2
equalize .2 -, auto_contrast .6 -
equalize .2 -, equalize .6 -
color .9 9, equalize .6 -
auto_contrast .8 -, solarize .2 8
brightness .1 3, color .7 0
solarize .4 5, auto_contrast .9 -
translate_y .9 9, translate_y .7 9
auto_contrast .9 -, solarize .8 3
equalize .8 -, invert .1 -
translate_y .7 9, auto_contrast .9 -
"""

_REDUCED_IMAGE_NET = """
posterize .4 8, rotate .6 9
solarize .6 5, auto_contrast .6 -
equalize .8 -, equalize .6 -
posterize .6 7, posterize .6 6
equalize .4 -, solarize .2 4
equalize .4 -, rotate .8 8
solarize .6 3, equalize .6 -
posterize .8 5, equalize 1 -
rotate .2 3, solarize .6 8
equalize .6 -, posterize .4 6
rotate .8 8, color .4 0
rotate .4 9, equalize .6 -
equalize .8 -
invert .6 -, equalize 1 -
color .6 4, contrast 1 8
rotate .8 8, color 1 2
color .8 8, solarize .8 7
sharpness .4 7, invert .6 -
shear_x .6 5, equalize 1 -
color .4 0, equalize .6 -
equalize .4 -, solarize .2 4
solarize .6 5, auto_contrast .6 -
invert .6 -, equalize 1 -
color .6 4, contrast 1 8
equalize .8 -, equalize .6 -
"""
