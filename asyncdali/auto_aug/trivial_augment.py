"""TrivialAugment: applies one operation per sample, drawn from a suite, with a magnitude drawn at random.

Müller and Hutter, "TrivialAugment: Tuning-free Yet State-of-the-Art Data Augmentation", https://arxiv.org/abs/2103.10158
"""

from __future__ import annotations

from collections.abc import Sequence

from .. import fn, types
from ..data_node import DataNode
from . import augmentations as a
from ._suites import check_bins, ranged, translations, warp_arguments, without
from .core import select, signed_bin
from .core._args import check_arguments
from .core._augmentation import Augmentation


def trivial_augment_wide(
    data: DataNode, num_magnitude_bins: int = 31, shape: object = None, fill_value: object = 128, interp_type: object = None,
    max_translate_abs: object = None, max_translate_rel: object = None, seed: int | None = None, excluded: Sequence[str] | None = None,
) -> DataNode:  # fmt: skip
    """TrivialAugment with its wide suite (https://arxiv.org/abs/2103.10158). The magnitude bin is drawn per sample.

    `data`, `num_magnitude_bins`, `shape`, `fill_value`, `interp_type`, `seed` and `excluded` mean the same as for
    :func:`asyncdali.auto_aug.rand_augment.rand_augment`. `max_translate_abs` is 32 pixels by default, `max_translate_rel` the whole size.
    """
    whole = get_trivial_augment_wide_suite(shape is not None, max_translate_abs, max_translate_rel)
    suite = without(whole, excluded, "trivial_augment_wide")
    return apply_trivial_augment(
        suite, data, num_magnitude_bins, seed=seed, **warp_arguments(suite, fill_value, interp_type, shape)
    )  # fmt: skip


def apply_trivial_augment(
    augmentations: Sequence[Augmentation], data: DataNode, num_magnitude_bins: int = 31, seed: int | None = None, **kwargs: object
) -> DataNode:
    """TrivialAugment with your own suite.

    - augmentations: the operations to choose from, with equal probability.
    - data: the samples, of any type that the augmentations accept.
    - num_magnitude_bins: number of magnitude bins; one is drawn per sample.
    - seed: seed of the draws; by default taken from the pipeline's seed.
    - kwargs: passed to the augmentations that read them.

    Raises UnusedArgException for an argument that no augmentation reads, MissingArgException for a missing required argument.
    """
    check_bins(num_magnitude_bins)
    if not augmentations:
        raise ValueError("apply_trivial_augment needs at least one augmentation, got an empty list")
    check_arguments(augmentations, kwargs, "apply_trivial_augment")
    count = int(num_magnitude_bins)
    chosen = fn.random.uniform(values=list(range(len(augmentations))), dtype=types.INT32, seed=seed)
    bin = fn.random.uniform(values=list(range(count)), dtype=types.INT32, seed=seed)
    augmented: DataNode = select(augmentations, chosen, data, magnitude_bin=signed_bin(bin, seed=seed), num_magnitude_bins=count, **kwargs)
    return augmented


def get_trivial_augment_wide_suite(
    use_shape: bool = False, max_translate_abs: object = None, max_translate_rel: object = None
) -> list[Augmentation]:  # fmt: skip
    """The 14 operations with wide ranges.

    - use_shape: translations are relative to the size.
    - max_translate_abs, max_translate_rel: largest translation without and with `use_shape`; see :func:`trivial_augment_wide`.
    """
    shifts = translations(use_shape, max_translate_abs, max_translate_rel, 32, 1.0)
    return [*shifts, *ranged(0.99, 135, (0.01, 0.99), (8, 2), (256, 0)), a.equalize, a.auto_contrast, a.identity]
