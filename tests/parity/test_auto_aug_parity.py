"""Automatic augmentations beside DALI's: equal operations, magnitudes and signs. Pixels are within the bounds of each operator."""

from __future__ import annotations

from itertools import chain

import numpy as np
import pytest
from helpers.auto_aug import Library, choices, outputs, pictures, random_program

pytest.importorskip("nvidia.dali")

DALI, OURS = Library("nvidia.dali"), Library("asyncdali")
OPERATIONS = (
    "shear_x", "shear_y", "translate_x", "translate_y", "translate_x_no_shape", "translate_y_no_shape", "rotate", "brightness", "contrast",
    "color", "sharpness", "posterize", "solarize", "solarize_add", "invert", "equalize", "auto_contrast", "identity",
)  # fmt: skip
EXACT = {"brightness", "contrast", "color", "posterize", "solarize", "solarize_add", "invert", "equalize", "auto_contrast", "identity"}


def assert_same_choices(case):
    program = random_program(case)
    theirs, ours = choices(DALI, program), choices(OURS, program)
    for a, b in zip(theirs, ours, strict=True):
        for x, y in zip(a, b, strict=True):
            assert x.dtype == y.dtype
            np.testing.assert_array_equal(x, y, err_msg=str(program))


@pytest.mark.parametrize("case", range(24))
def test_choices_of_random_policies(case):
    assert_same_choices(case)


@pytest.mark.slow
@pytest.mark.parametrize("tens", range(98))
def test_choices_of_a_thousand_random_policies(tens):
    for case in range(24 + 10 * tens, 34 + 10 * tens):
        assert_same_choices(case)


def applied_alone(library, name, bin, frames):
    augmentation = getattr(library.augmentations, name)
    data = pictures(6, frames)

    def body():
        images = library.fn.external_source(lambda: data, layout="FHWC" if frames else "HWC")
        shape = images.shape()[1:] if frames else images.shape()
        named = {"shape": shape} if name in ("translate_x", "translate_y") else {}
        return augmentation(images, magnitude_bin=bin, num_magnitude_bins=11, **named)

    return outputs(library, body, len(data), seed=5)


@pytest.mark.parametrize("frames", [0, 2])
@pytest.mark.parametrize("name", OPERATIONS)
def test_pixels_of_one_operation(name, frames):
    for bin in (0, 3, 7, 10):
        theirs, ours = applied_alone(DALI, name, bin, frames), applied_alone(OURS, name, bin, frames)
        for a, b in zip(chain(*theirs), chain(*ours), strict=True):
            assert a.shape == b.shape
            difference = np.abs(a.astype(int) - b.astype(int))
            assert difference.max(initial=0) <= (0 if name in EXACT else 1), bin


def of_algorithm(library, program, shape_given, frames):
    data = pictures(8, frames)

    def body():
        images = library.fn.external_source(lambda: data, layout="FHWC" if frames else "HWC")
        shape = (images.shape()[1:] if frames else images.shape()) if shape_given else None
        return program(library, images, shape)

    return outputs(library, body, len(data), seed=11)


ALGORITHMS = {
    "rand": lambda library, images, shape: library.rand_augment.rand_augment(images, 1, 17, shape=shape),
    "rand, not monotonic": lambda library, images, shape: library.rand_augment.rand_augment(
        images, 1, 5, num_magnitude_bins=9, shape=shape, monotonic_mag=False, fill_value=None, excluded=["equalize"]
    ),
    "trivial": lambda library, images, shape: library.trivial_augment.trivial_augment_wide(images, shape=shape, seed=3),
    "image_net": lambda library, images, shape: library.auto_augment.auto_augment_image_net(images, shape=shape),
    "svhn": lambda library, images, shape: library.auto_augment.auto_augment(images, "svhn", shape=shape),
    "reduced_cifar10": lambda library, images, shape: library.auto_augment.auto_augment(images, "reduced_cifar10", shape=shape),
    "reduced_image_net": lambda library, images, shape: library.auto_augment.auto_augment(images, "reduced_image_net"),
}


@pytest.mark.parametrize("frames", [0, 2])
@pytest.mark.parametrize("shape_given", [False, True])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_pixels_of_the_standard_algorithms(name, shape_given, frames):
    """An operation with a threshold or a histogram enlarges a difference of 1. After such an operation a few pixels may differ."""
    theirs, ours = (of_algorithm(library, ALGORITHMS[name], shape_given, frames) for library in (DALI, OURS))
    for a, b in zip(chain(*theirs), chain(*ours), strict=True):
        assert a.shape == b.shape
        difference = np.abs(a.astype(int) - b.astype(int))
        assert np.mean(difference > 1) < 0.01
        if name.startswith(("rand", "trivial")):  # a policy of one operation
            assert difference.max(initial=0) <= 1


def test_settings_of_the_standard_suites_and_policies():
    """The names, ranges, signs, devices and parameters of all operations are equal, and so are the sub-policies."""
    for make in (
        lambda lib: lib.rand_augment.get_rand_augment_suite(),
        lambda lib: lib.rand_augment.get_rand_augment_suite(use_shape=True, max_translate_rel=(0.2, 0.3)),
        lambda lib: lib.rand_augment.get_rand_augment_non_monotonic_suite(max_translate_abs=7),
        lambda lib: lib.trivial_augment.get_trivial_augment_wide_suite(),
        lambda lib: lib.trivial_augment.get_trivial_augment_wide_suite(True),
        lambda lib: list(lib.auto_augment.get_image_net_policy().augmentations.values()),
        lambda lib: list(lib.auto_augment.get_svhn_policy(True).augmentations.values()),
        lambda lib: list(lib.auto_augment.get_reduced_cifar10_policy().augmentations.values()),
        lambda lib: list(lib.auto_augment.get_reduced_image_net_policy().augmentations.values()),
    ):
        for theirs, ours in zip(make(DALI), make(OURS), strict=True):
            assert (theirs.name, theirs.mag_range, theirs.randomly_negate, theirs.param_device) == (
                ours.name, ours.mag_range, ours.randomly_negate, ours.param_device,
            )  # fmt: skip
            if ours.mag_range is not None:
                for magnitude in np.linspace(*ours.mag_range, 13, dtype=np.float32):
                    a, b = np.asarray(theirs.mag_to_param(magnitude)), np.asarray(ours.mag_to_param(magnitude))
                    np.testing.assert_array_equal(a.astype(np.float32), b.astype(np.float32))
    for name in ("image_net", "svhn", "reduced_cifar10", "reduced_image_net"):
        theirs, ours = (getattr(library.auto_augment, f"get_{name}_policy")() for library in (DALI, OURS))
        subs = [[[(one.name, p, bin) for one, p, bin in sub] for sub in policy.sub_policies] for policy in (theirs, ours)]
        assert subs[0] == subs[1]
        assert (theirs.name, theirs.num_magnitude_bins) == (ours.name, ours.num_magnitude_bins)
