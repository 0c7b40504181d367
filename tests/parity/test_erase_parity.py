"""erase beside DALI's with random regions."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.tensor_parity import ALL_TYPES, compare, random_array, random_cases

pytest.importorskip("nvidia.dali")

TYPES = [name for name in ALL_TYPES if name not in ("bool", "float64")]
LAYOUTS = {2: ["HW", "WH"], 3: ["HWC", "CHW", "DHW"], 4: ["DHWC", "FHWC", "HWCD"]}


def check_erase(rng):
    ndim, dtype, count = int(rng.integers(2, 5)), str(rng.choice(TYPES)), int(rng.integers(1, 4))
    layout = str(rng.choice(LAYOUTS[ndim]))
    shapes = rng.integers(1, 9, (count, ndim))
    channels = 3 if rng.random() < 0.3 and "C" in layout else 1
    if channels > 1:
        shapes[:, layout.index("C")] = 3
    samples = [random_array(rng, tuple(shape), dtype) for shape in shapes]
    axes = [int(axis) for axis in rng.permutation(ndim)[: rng.integers(1, ndim + 1)]]
    constants = {"axes": axes} if rng.random() < 0.5 else {"axis_names": "".join(layout[axis] for axis in axes)}
    if rng.random() < 0.3:
        axes, constants = [axis for axis, letter in enumerate(layout) if letter != "C"], {}
    flags = {name: bool(rng.random() < 0.25) for name in ("normalized_anchor", "normalized_shape", "centered_anchor")}
    reach = shapes[:, axes].astype(np.float32)

    def numbers(i, regions, relative, low, high):
        drawn = rng.uniform(low, high, (regions, len(axes))) * (1 if relative else reach[i])
        return (drawn if rng.random() < 0.5 else np.round(drawn)).astype(np.float32).reshape(-1)

    named = {"anchor": [], "shape": []}
    for i in range(count):
        regions = int(rng.integers(0, 4))
        named["anchor"].append(numbers(i, regions, flags["normalized_anchor"], -0.3, 1))
        named["shape"].append(numbers(i, regions, flags["normalized_shape"], 0, 0.8))
    if rng.random() < 0.3 and len(named["anchor"][0]):
        constants |= {name: rows[0].tolist() for name, rows in named.items()}
        named = {}
    if rng.random() < 0.7:
        values = rng.uniform(0, 120, (count, channels)).astype(np.float32)
        if rng.random() < 0.5:
            constants["fill_value"] = values[0].tolist()
        else:
            named["fill_value"] = list(values)
    compare("erase", [samples], [layout], named, **constants, **flags)


def test_random_cases():
    random_cases(check_erase, 100)


def test_regions_without_axes_have_a_coordinate_for_each_axis_but_the_channels():
    """Refused with fewer, also the frames of a sequence; so are two ways to say that coordinates are fractions."""
    samples = [np.ones((3, 4, 5, 2), np.uint8)]
    for layout in ("FHWC", "DHWC", "CHWX"):
        for count in (2, 3, 4, 6):
            compare("erase", [samples], [layout], anchor=[1.0] * count, shape=[2.0] * count)
    for flag in ("normalized_anchor", "normalized_shape"):
        compare("erase", [samples], ["DHWC"], anchor=[0.1] * 3, shape=[0.2] * 3, normalized=True, **{flag: False})


@pytest.mark.slow
def test_many_random_cases():
    random_cases(check_erase, 3000)
