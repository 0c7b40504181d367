"""resize_crop_mirror and random_resized_crop beside DALI's: equal windows, and pixels that differ by at most 1 grey level."""

from __future__ import annotations

import importlib

import numpy as np
import pytest
from helpers import operators as harness
from helpers.parity import assert_both_refuse, dali_output, errors, our_outputs

from asyncdali.graph.calls import schema_name
from asyncdali.operators import load_registry

pytest.importorskip("nvidia.dali")


def images(rng, count=8, channels=3):
    return [rng.integers(0, 256, (*rng.integers(8, 60, 2), channels)).astype(np.uint8) for _ in range(count)]


def close(theirs, ours):
    error = errors(theirs, ours)
    assert error.max() <= 1 and (error > 0).mean() < 0.03, (error.max(), (error > 0).mean())


@pytest.mark.parametrize("seed", range(6))
def test_resize_crop_mirror(seed):
    rng = np.random.default_rng(seed)
    data = images(rng)
    size = {"resize_shorter": float(rng.integers(5, 70))} if seed % 3 == 0 else {"size": [float(x) for x in rng.integers(5, 70, 2)]}
    constants = {
        **size, "antialias": bool(rng.integers(2)), "subpixel_scale": bool(rng.integers(2)), "rounding": ["round", "truncate"][seed % 2],
    }  # fmt: skip
    per_sample = {
        "crop": rng.integers(0, 80, (8, 2)).astype(np.float32), "mirror": rng.integers(0, 4, 8).astype(np.int32),
        "crop_pos_x": rng.random(8).astype(np.float32), "crop_pos_y": rng.random(8).astype(np.float32),
    }  # fmt: skip
    close(
        dali_output("resize_crop_mirror", data, "HWC", per_sample, **constants),
        harness.run("resize_crop_mirror", data, "HWC", per_sample, **constants),
    )


@pytest.mark.slow
def test_volumes_and_regions():
    rng = np.random.default_rng(1)
    data = [rng.integers(0, 256, (6, 9, 12, 2)).astype(np.uint8) for _ in range(3)]
    for mirror in range(8):
        constants = {
            "size": [8.0, 12.0, 15.0], "crop": [5.0, 6.0, 7.0], "mirror": mirror, "crop_pos_z": 0.3, "roi_start": [0.1, 0.2, 0.3],
            "roi_end": [0.9, 0.8, 1.0], "roi_relative": True,
        }  # fmt: skip
        close(dali_output("resize_crop_mirror", data, "DHWC", **constants), harness.run("resize_crop_mirror", data, "DHWC", **constants))


@pytest.mark.parametrize("seed", range(8))
def test_random_resized_crop(seed):
    rng = np.random.default_rng(seed)
    data = images(rng)
    constants = {"size": [int(x) for x in rng.integers(5, 70, 1 + seed % 2)], "seed": seed * 1000 + 3, "antialias": bool(seed % 3)}
    if seed % 2:
        constants |= {"random_area": [0.3, 0.7], "random_aspect_ratio": [0.5, 1.5], "num_attempts": 3}
    close(dali_output("random_resized_crop", data, "HWC", **constants), harness.run("random_resized_crop", data, "HWC", **constants))


@pytest.mark.parametrize("layout, shape", [("FHWC", (2, 20, 30, 3)), ("CHW", (3, 20, 30)), ("FCHW", (2, 3, 20, 30)), ("", (20, 30, 3))])
def test_one_window_for_all_frames(layout, shape):
    data = [np.random.default_rng(i).integers(0, 256, shape).astype(np.uint8) for i in range(4)]
    close(
        dali_output("random_resized_crop", data, layout, size=[12, 9], seed=5),
        harness.run("random_resized_crop", data, layout, size=[12, 9], seed=5),
    )


@pytest.mark.parametrize(
    "name, layout, constants", [
        ("resize_crop_mirror", "HWC", {"size": [9.0, 9.0], "crop_w": 5.0}),
        ("resize_crop_mirror", "HWC", {"size": [9.0, 9.0], "crop": [4.0]}),
        ("resize_crop_mirror", "HWC", {"size": [9.0, 9.0], "crop": [4.0, 4.0], "rounding": "up"}), ("resize_crop_mirror", "HWC", {}),
        ("random_resized_crop", "HWC", {"size": [1, 2, 3]}), ("random_resized_crop", "DHW", {"size": [4, 4]}),
    ],
)  # fmt: skip
def test_both_refuse(name, layout, constants):
    assert_both_refuse(name, [np.zeros((8, 8, 3), np.uint8)], layout, **constants)


def test_the_deprecated_name_of_resize_crop_mirror_does_not_antialias():
    data = images(np.random.default_rng(3))
    for constants in ({}, {"antialias": True}, {"antialias": None}):
        given = {"size": [9.0, 7.0], "crop": [5.0, 6.0], **constants}
        theirs = dali_output("fast_resize_crop_mirror", data, "HWC", **given)
        close(theirs, our_outputs("fast_resize_crop_mirror", [data], ["HWC"], **given)[0])
        plain = our_outputs("resize_crop_mirror", [data], ["HWC"], **{**given, "antialias": bool(constants.get("antialias"))})[0]
        close(theirs, plain)


def test_deprecated_names_have_the_defaults_of_their_operators():
    """Where they have others, ``Schema.old_defaults`` says so."""
    get = importlib.import_module("nvidia.dali.backend").GetSchema
    for operator in load_registry().values():
        for old in operator.schema.aliases:
            ours, theirs = get(schema_name(operator.schema.name)), get(schema_name(old))
            optional = filter(theirs.HasArgumentDefaultValue, theirs.GetArgumentNames())
            others = {name for name in optional if theirs.GetArgumentDefaultValueString(name) != ours.GetArgumentDefaultValueString(name)}
            assert others == operator.schema.old_defaults.get(old, {}).keys(), old
