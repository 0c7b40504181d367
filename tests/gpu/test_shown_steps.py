"""On a GPU: a step that `show` makes again on the host device has the pictures of the run, within the bounds of docs/gpu.md.

``ASYNCDALI_SHOWN_DEVICE=host`` runs the pipelines on the host device, too, which tries the test without a GPU.
"""

from __future__ import annotations

import os
from contextlib import closing

import numpy as np
import pytest

import asyncdali
from asyncdali import fn, pipeline_def, types
from asyncdali.device import select
from asyncdali.pipeline.replay.replaying import replay

pytestmark = pytest.mark.gpu
PICTURES = os.path.join(os.path.dirname(asyncdali.__file__), "data", "pictures")
DEVICE = os.environ.get("ASYNCDALI_SHOWN_DEVICE", "cuda")
STEP = 3


@pytest.fixture(autouse=True)
def gpu(monkeypatch):
    """A CUDA device, or the test is skipped."""
    monkeypatch.setenv("ASYNCDALI_DEVICE", DEVICE)
    if DEVICE == "cuda" and select._driver is None:
        try:
            select._driver = select.make_driver()
        except select.NoCuda as error:
            pytest.skip(str(error))


def samples_of(tensors):
    tensors = tensors.as_cpu() if hasattr(tensors, "as_cpu") else tensors
    return [np.array(tensors[k]) for k in range(len(tensors))]


def operators_of(step):
    """The samples of every operator's outputs, by name. Expressions are fused, or not, as the device needs it."""
    assert not step.error, step.error
    return {
        f"{item.name}[{number}]": samples_of(one)
        for item in step.operators if not item.name.startswith("__")
        for number, one in enumerate(item.outputs)
    }  # fmt: skip


def shown(graph, monkeypatch):
    """Step 3: the run's outputs, the operators on the run's device, the page and the operators on the host device, and the provenances."""
    with closing(graph()) as pipe:
        pipe.build()
        assert (pipe._core.session.gpu is not None) == (DEVICE == "cuda")
        run = [pipe.run() for _ in range(STEP + 1)][STEP]
        told = run[0].provenance()
        outputs = [samples_of(one) for one in run]
        there = operators_of(replay(pipe, STEP))
    monkeypatch.setenv("ASYNCDALI_DEVICE", "host")
    with closing(graph()) as pipe:
        page = pipe.show(STEP)
        pipe.build()
        assert pipe._core.session.gpu is None
    step = page.step
    assert step.provenance.digest() == told.digest()
    for k in range(told.samples):
        assert step.provenance.sample(k)["readers"] == told.sample(k)["readers"] and step.provenance.draws == told.draws
    assert "<img" in page.html
    return outputs, [samples_of(one) for one in step.outputs], there, operators_of(step)


def assert_within(found, expected, bound, name):
    """`bound`: "equal", or the largest difference: absolute for integers, and as a part of the largest value for floats."""
    for one, other in zip(found, expected, strict=True):
        assert one.shape == other.shape and one.dtype == other.dtype, name
        if bound == "equal":
            np.testing.assert_array_equal(one, other, err_msg=name)
            continue
        largest = 1.0 if other.dtype.kind in "iu" else np.abs(other).max(initial=0)
        difference = np.abs(one.astype(np.float64) - other.astype(np.float64)).max(initial=0)
        assert difference <= bound * largest, (name, difference, largest)


BOUNDS = {"mean": 4e-6, "noise": 2e-6}
"""Operators that differ from the CPU, and by what (docs/gpu.md). All others are equal bit for bit."""


@pipeline_def(batch_size=6, num_threads=12, device_id=0, seed=11)
def training(decoder="cpu"):
    encoded, label = fn.readers.file(file_root=PICTURES, random_shuffle=True, initial_fill=9, name="R")
    images = fn.decoders.image_random_crop(encoded, device="mixed", decoder=decoder, name="D")
    small = fn.resize(images, size=[40, 48], name="small")
    blurred = fn.gaussian_blur(small, sigma=fn.random.uniform(range=(0.5, 2), name="sigma"), name="blurred")
    angle = fn.random.uniform(range=(-30, 30), name="angle")
    turned = fn.rotate(fn.hsv(blurred, hue=20.0, name="hsv"), angle=angle, size=[40, 48], name="turned")
    bright = fn.brightness_contrast(turned, brightness=1.2, name="bright")
    crops = fn.random_resized_crop(bright, size=24, name="RRC")
    floats = fn.crop_mirror_normalize(
        crops, mirror=fn.random.coin_flip(name="coin"), mean=[90.0, 100.0, 110.0], std=[50.0], dtype=types.FLOAT, name="CMN"
    )
    noise = fn.noise.gaussian(floats, stddev=0.5, name="noise")
    return floats, noise, fn.reductions.mean(floats, axes=(1, 2), name="mean"), label.gpu(), fn.erase(
        bright, anchor=(3.0, 4.0), shape=(9.0, 8.0), axes=(0, 1), fill_value=7.0, name="erased"
    )  # fmt: skip


@pytest.mark.parametrize("decoder", ["cpu", ""])
def test_the_cpus_lane_is_equal_bit_for_bit(decoder, monkeypatch):
    """The default is this lane, with 12 threads and windows."""
    run, made, there, here = shown(lambda: training(decoder=decoder), monkeypatch)
    names = ["CMN", "noise", "mean", "label", "erased"]
    for name, one, other in zip(names, run, made, strict=True):
        assert_within(one, other, BOUNDS.get(name, "equal"), f"output {name}")
    assert there.keys() == here.keys() and {"D[0]", "small[0]", "turned[0]", "RRC[0]", "coin[0]"} <= here.keys()
    for name, one in here.items():
        assert_within(there[name], one, BOUNDS.get(name.partition("[")[0], "equal"), name)


@pipeline_def(batch_size=6, num_threads=4, device_id=0, seed=11)
def decoded(decoder, fancy):
    encoded, _ = fn.readers.file(file_root=PICTURES, random_shuffle=True, initial_fill=9, name="R")
    return fn.decoders.image(encoded, device="mixed", decoder=decoder, jpeg_fancy_upsampling=fancy, name="D")


@pytest.mark.parametrize("decoder", ["shared", "hardware", "hybrid", "all"])
@pytest.mark.parametrize("fancy", [True, False])
def test_other_lanes_differ_as_lanes_do(decoder, fancy, monkeypatch):
    run, made, _, _ = shown(lambda: decoded(decoder, fancy), monkeypatch)
    if fancy:  # the engines, or the multiprocessors
        assert_within(run[0], made[0], 1 if decoder in ("shared", "hardware") else 3, decoder)
    for one, other in zip(run[0], made[0], strict=True):  # drawn shapes: their coloured edges are where lanes differ most
        assert one.shape == other.shape and np.abs(one.astype(int) - other.astype(int)).mean() < 10


@pipeline_def(batch_size=6, num_threads=4, device_id=0, seed=11, enable_conditionals=True)
def branching():
    encoded, label = fn.readers.file(file_root=PICTURES, random_shuffle=True, initial_fill=9, name="R")
    images = fn.resize(fn.decoders.image(encoded, device="mixed", decoder="cpu", name="D"), size=[32, 32], name="small")
    if fn.random.coin_flip(dtype=types.BOOL, name="coin"):
        images = fn.flip(images, vertical=1)
    else:
        images = fn.cast(images * 0.5, dtype=types.UINT8)
    return images, label


def test_branches_on_the_gpu(monkeypatch):
    run, made, _, _ = shown(branching, monkeypatch)
    for one, other in zip(run, made, strict=True):
        assert_within(one, other, "equal", "branches")


@pipeline_def(batch_size=6, num_threads=4, device_id=0, seed=11)
def selecting():
    encoded, label = fn.readers.file(file_root=PICTURES, random_shuffle=True, initial_fill=9, name="R")
    encoded, label = fn.experimental.select(encoded, label, where=label % 2 == 0, name="even")
    images = fn.decoders.image_random_crop(encoded, device="mixed", decoder="cpu", name="D")
    return fn.resize(images, size=[32, 32], name="small"), label


def test_a_selection_before_the_gpu(monkeypatch):
    run, made, there, here = shown(selecting, monkeypatch)
    for one, other in zip(run, made, strict=True):
        assert_within(one, other, "equal", "selection")
    assert_within(there["small[0]"], here["small[0]"], "equal", "small")
