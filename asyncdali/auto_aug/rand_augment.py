"""RandAugment: applies a few operations in a row, each drawn from a suite, all with one magnitude.

Cubuk et al., "RandAugment: Practical automated data augmentation with a reduced search space", https://arxiv.org/abs/1909.13719
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from .. import fn, types
from ..data_node import DataNode
from . import augmentations as a
from ._suites import check_bins, is_integer, published, ranged, translations, warp_arguments, without
from .core import select, signed_bin
from .core._args import check_arguments
from .core._augmentation import Augmentation


def rand_augment(
    data: DataNode, n: int, m: int, num_magnitude_bins: int = 31, shape: object = None, fill_value: object = 128,
    interp_type: object = None, max_translate_abs: object = None, max_translate_rel: object = None,
    seed: int | None = None, monotonic_mag: bool = True, excluded: Sequence[str] | None = None,
) -> DataNode:  # fmt: skip
    """RandAugment with its standard suite.

    - data: UINT8 images or videos (HWC, FHWC). A video gets one choice for all its frames.
    - n: number of operations in a row. 0 returns the data unchanged, with a warning.
    - m: magnitude bin of all operations, 0 to `num_magnitude_bins` - 1.
    - num_magnitude_bins: number of bins of each operation's range of magnitudes.
    - shape: (height, width, ...) per sample (``fn.peek_image_shape(encoded)`` or ``data.shape()``). With it translations are relative to
      the size; without it they are in pixels.
    - fill_value: value outside of the image for warps. None: the border is repeated. interp_type: INTERP_LINEAR (default), INTERP_NN.
    - max_translate_abs: largest translation in pixels without `shape`, a number or (height, width); 100 by default.
    - max_translate_rel: the same with `shape`, as part of the size; 100 / 224 by default.
    - seed: seed of the draws; by default taken from the pipeline's seed.
    - monotonic_mag: whether a larger bin is always a stronger operation.
    - excluded: names of operations that are left out of the suite.

    Returns the augmented data. Raises ValueError and TypeError for invalid arguments.
    """
    use_shape = shape is not None
    make = get_rand_augment_suite if monotonic_mag else get_rand_augment_non_monotonic_suite
    suite = without(make(use_shape, max_translate_abs, max_translate_rel), excluded, "rand_augment")
    return apply_rand_augment(
        suite, data, n, m, num_magnitude_bins, seed=seed, **warp_arguments(suite, fill_value, interp_type, shape)
    )  # fmt: skip


def apply_rand_augment(
    augmentations: Sequence[Augmentation], data: DataNode, n: int, m: int, num_magnitude_bins: int = 31, seed: int | None = None,
    **kwargs: object,
) -> DataNode:  # fmt: skip
    """RandAugment with your own suite.

    - augmentations: the operations to choose from, with equal probability.
    - data: the samples, of any type that the augmentations accept.
    - n, m, num_magnitude_bins, seed: see :func:`rand_augment`.
    - kwargs: passed to the augmentations that read them.

    Raises UnusedArgException for an argument that no augmentation reads, MissingArgException for a missing required argument.
    """
    if not is_integer(n) or n < 0:
        raise ValueError(f"n, the number of operations, must be a non-negative integer, got {n!r}")
    check_bins(num_magnitude_bins)
    if not is_integer(m) or not 0 <= m < num_magnitude_bins:
        raise ValueError(f"m, the magnitude bin, must be an integer in [0, {num_magnitude_bins - 1}], got {m!r}")
    if n == 0:
        warnings.warn("apply_rand_augment was called with n=0: nothing is applied", Warning, stacklevel=2)
        return data
    if not augmentations:
        raise ValueError("apply_rand_augment needs at least one augmentation, unless n is 0; got an empty list")
    check_arguments(augmentations, kwargs, "apply_rand_augment")
    shape = None if n == 1 else [int(n)]
    chosen = fn.random.uniform(values=list(range(len(augmentations))), dtype=types.INT32, seed=seed, shape=shape)
    bin: Any = int(m)
    if any(augmentation.randomly_negate for augmentation in augmentations):
        bin = signed_bin(bin, seed=seed, shape=shape)
    for stage in range(int(n)):
        own = bin if n == 1 or is_integer(bin) else bin[stage]
        data = select(
            augmentations, chosen if n == 1 else chosen[stage], data,
            magnitude_bin=own, num_magnitude_bins=int(num_magnitude_bins), **kwargs,
        )  # fmt: skip
    return data


def get_rand_augment_suite(
    use_shape: bool = False, max_translate_abs: object = None, max_translate_rel: object = None
) -> list[Augmentation]:  # fmt: skip
    """The 14 operations (https://arxiv.org/abs/1909.13719), with magnitudes that grow with the bin.

    - use_shape: translations are relative to the size.
    - max_translate_abs, max_translate_rel: largest translation without and with `use_shape`; see :func:`rand_augment`.
    """
    shifts = translations(use_shape, max_translate_abs, max_translate_rel, 100, 100 / 224)
    return [*shifts, *ranged(0.3, 30, (0, 0.9), (8, 4), (256, 0)), a.equalize, a.auto_contrast, a.identity]


def get_rand_augment_non_monotonic_suite(
    use_shape: bool = False, max_translate_abs: object = None, max_translate_rel: object = None
) -> list[Augmentation]:  # fmt: skip
    """The 14 operations with the magnitudes of AutoAugment's policies: a larger bin is not always a stronger operation.

    `use_shape`, `max_translate_abs`, `max_translate_rel`: see :func:`get_rand_augment_suite`.
    """
    shifts = translations(use_shape, max_translate_abs, max_translate_rel, 100, 100 / 224)
    return [*shifts, *published(), a.equalize, a.auto_contrast, a.identity]
