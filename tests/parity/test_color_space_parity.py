"""color_space_conversion beside DALI's: every pixel of a large random picture is equal."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from helpers import operators as harness
from helpers.parity import assert_both_refuse, dali_output, errors, same

from asyncdali.types import DALIImageType

pytest.importorskip("nvidia.dali")
SPACES = [DALIImageType.RGB, DALIImageType.BGR, DALIImageType.GRAY, DALIImageType.YCbCr]


def pictures(space, size=(300, 700)):
    if space == DALIImageType.GRAY:
        return [np.arange(256, dtype=np.uint8).reshape(16, 16, 1)]
    return [np.random.default_rng(1).integers(0, 256, (*size, 3)).astype(np.uint8)]


@pytest.mark.parametrize("source, target", [pair for pair in itertools.product(SPACES, SPACES) if pair[0] != pair[1]])
def test_every_conversion(source, target):
    data = pictures(source)
    given = {"image_type": source, "output_type": target}
    error = errors(dali_output("color_space_conversion", data, "HWC", **given), harness.run("color_space_conversion", data, "HWC", **given))
    assert error.max() == 0


@pytest.mark.parametrize("layout, shape", [("FHWC", (2, 5, 4, 3)), ("DHWC", (2, 5, 4, 3)), ("FDHWC", (2, 2, 5, 4, 3)), ("", (5, 4, 3))])
def test_layouts(layout, shape):
    data = [np.random.default_rng(2).integers(0, 256, shape).astype(np.uint8)]
    given = {"image_type": DALIImageType.RGB, "output_type": DALIImageType.GRAY}
    same(dali_output("color_space_conversion", data, layout, **given), harness.run("color_space_conversion", data, layout, **given))


@pytest.mark.parametrize("shape, dtype, layout", [((5, 4, 4), "uint8", "HWC"), ((5, 4, 3), "float32", "HWC"), ((3, 5, 4), "uint8", "CHW")])
def test_both_refuse(shape, dtype, layout):
    given = {"image_type": DALIImageType.RGB, "output_type": DALIImageType.GRAY}
    assert_both_refuse("color_space_conversion", [np.zeros(shape, dtype)], layout, **given)


def test_the_same_space_is_a_copy():
    for space in SPACES:
        data = pictures(space, (5, 6))
        same(data, harness.run("color_space_conversion", data, "HWC", image_type=space, output_type=space))
