"""audio_resample beside NumPy: lengths, filters, element types, channels and arguments."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import kernels
from helpers import operators as harness
from helpers.pipelines import pipeline_of
from helpers.twins import assert_near, both

from asyncdali import fn, types
from asyncdali.errors import SampleError

SLOW = pytest.mark.slow


def run(samples, per_sample=None, **constants):
    return harness.run("audio_resample", samples, "", per_sample, **constants)


def resampled(data, before, after, lobes):
    """The definition in NumPy: a windowed sinc around each position, and silence outside of the sound."""
    count = int(np.ceil(len(data) * after / before))
    distance = np.arange(count)[:, None] * (before / after) - np.arange(len(data))
    weights = np.where(abs(distance) <= lobes, np.sinc(distance) * (0.5 + 0.5 * np.cos(np.pi * distance / lobes)), 0)
    return weights @ data.astype(np.float64)


def signal(n, seed=0):
    return np.random.default_rng(seed).uniform(-1, 1, n).astype(np.float32)


def tone(n, frequency=0.02):
    return np.sin(2 * np.pi * frequency * np.arange(n)).astype(np.float32)


@pytest.mark.parametrize("quality, lobes", [(0, 3), (50, 16), (100, 64)])
def test_results_equal_the_definition(quality, lobes):
    data = [signal(300), signal(1, 1), signal(40, 2)]
    for before, after in ((2, 5), (5, 2), (1.0, 1.5), (1, 1)):
        found = run(data, in_rate=before, out_rate=after, quality=quality)
        for sample, result in zip(data, found, strict=True):
            np.testing.assert_allclose(result, resampled(sample, before, after, lobes), atol=6e-3)


def test_the_three_ways_to_give_the_factor_agree():
    data = [signal(400), signal(100, 1)]
    by_rates = run(data, in_rate=2.0, out_rate=3.0)
    for other in (
        run(data, scale=1.5),
        run(data, {"out_length": np.int64([600, 150])}),
        run(data, {"in_rate": np.float32([4, 2]), "out_rate": np.float32([6, 3])}),
    ):
        for a, b in zip(by_rates, other, strict=True):
            np.testing.assert_array_equal(a, b)
    assert [len(sample) for sample in run(data, {"scale": np.float32([0.5, 3])})] == [200, 300]
    assert [len(sample) for sample in run(data, out_length=7)] == [7, 7]
    assert [len(sample) for sample in run(data, in_rate=44100, out_rate=16000)] == [146, 37]


def test_empty_inputs_and_empty_outputs():
    empty = np.zeros(0, np.float32)
    assert [len(sample) for sample in run([empty, signal(5)], scale=2.0)] == [0, 10]
    for constants in ({"scale": 0.0}, {"out_length": 0}, {"in_rate": 1.0, "out_rate": 0.0}):
        assert len(run([signal(5)], **constants)[0]) == 0
    assert len(run([empty], out_length=0)[0]) == 0


def test_each_channel_is_resampled_separately():
    data = np.stack([signal(200), signal(200, 1), signal(200, 2)], 1)
    (together,) = run([data], scale=1.75)
    alone = [run([data[:, k].copy()], scale=1.75)[0] for k in range(3)]
    np.testing.assert_array_equal(together, np.stack(alone, 1))


@pytest.mark.parametrize("dtype", ["int16", *[pytest.param(name, marks=SLOW) for name in ("int8", "uint8", "uint16", "int32", "uint32")]])
def test_integers_of_one_type(dtype):
    """Integers are resampled without a change of range. Silence is 0, also for unsigned types."""
    info = np.iinfo(dtype)
    data = np.random.default_rng(1).integers(info.min // 2, info.max // 2, 200).astype(dtype)
    (found,) = run([data], scale=2.0)
    assert found.dtype == data.dtype
    wanted = np.clip(np.round(resampled(data, 1, 2, 16)), info.min, info.max)
    assert abs(found - wanted).max() <= 1 + 2e-3 * info.max
    np.testing.assert_allclose(found[::2].astype(np.float64), data.astype(np.float64), atol=0.5 + 1e-6 * info.max)


@pytest.mark.parametrize(
    "source, target",
    [("int16", "float32"), ("float32", "uint8"), *[pytest.param(*pair, marks=SLOW) for pair in (
        ("uint8", "int16"), ("uint16", "float32"), ("int32", "uint16"), ("float32", "int32"), ("int8", "uint32"))]],
)  # fmt: skip
def test_ranges_are_mapped(source, target):
    data = 0.9 * tone(400)

    def encoded(values, dtype):
        if dtype == "float32":
            return values.astype(dtype)
        largest = np.iinfo(dtype).max
        return np.round((values + 1) * (largest / 2) if dtype.startswith("u") else values * largest).astype(dtype)

    (found,) = run([encoded(data, source)], scale=2.0, dtype=getattr(types, {"float32": "FLOAT"}.get(target, target.upper())))
    assert found.dtype == np.dtype(target)
    wanted, full = encoded(0.9 * tone(800, 0.01), target), 1.0 if target == "float32" else np.iinfo(target).max
    assert abs(found.astype(np.float64) - wanted)[40:-40].max() <= 0.01 * full


def test_loud_sound_saturates():
    assert run([np.float32([2, -2, 0.5])], scale=1.0, dtype=types.UINT8)[0].tolist() == [255, 0, 191]


@pytest.mark.parametrize(
    "constants, message",
    [
        ({}, "none"), ({"scale": 1.0, "out_length": 3}, "one of them"), ({"in_rate": 1.0}, "together"),
        ({"scale": 1.0, "quality": -1.0}, "quality"), ({"scale": 1.0, "dtype": types.INT64}, "Unsupported output type: INT64"),
        ({"in_rate": 1.0, "out_rate": 1.0, "scale": 1.0}, "one of them"),
    ],
)  # fmt: skip
def test_wrong_arguments(constants, message):
    with pytest.raises(ValueError, match=message):
        run([signal(9)], **constants)


@pytest.mark.parametrize(
    "per_sample, constants",
    [
        ({"scale": np.float32([1, -1])}, {}), ({"scale": np.float32([1, np.nan])}, {}), ({"scale": np.float32([1, np.inf])}, {}),
        ({"in_rate": np.float32([1, 0])}, {"out_rate": 1.0}), ({"out_rate": np.float32([1, -1])}, {"in_rate": 1.0}),
        ({"out_length": np.int64([1, -1])}, {}), ({"scale": np.float32([1, 1e30])}, {}),
    ],
)  # fmt: skip
def test_wrong_samples(per_sample, constants):
    with pytest.raises(SampleError) as caught:
        run([signal(9), signal(9)], per_sample, **constants)
    assert caught.value.sample == 1


def test_wrong_inputs():
    for data in (np.zeros(3), np.zeros(3, np.int64), np.zeros((2, 3, 4), np.float32)):
        with pytest.raises(ValueError, match="Unsupported input type|has 3 dimensions"):
            run([data], scale=1.0)
    with pytest.raises(SampleError, match="empty input"):
        run([np.zeros(0, np.float32)], out_length=3)


def test_in_a_pipeline_and_by_its_old_name():
    data = [signal(100 + k, k) for k in range(3)]
    with pytest.warns(DeprecationWarning, match="audio_resample"):
        pipeline = pipeline_of(
            lambda: (
                fn.audio_resample(fn.external_source(lambda: data), scale=2.0),
                fn.experimental.audio_resample(fn.external_source(lambda: data), scale=2.0),
                fn.audio_resample(fn.external_source(lambda: data).gpu(), scale=2.0),
            )
        )
    with pipeline:
        first, second, third = pipeline.run()
        for k in range(3):
            assert np.asarray(first[k]).shape == (200 + 2 * k,)
            np.testing.assert_array_equal(np.asarray(first[k]), np.asarray(second[k]))
            np.testing.assert_array_equal(np.asarray(first[k]), np.asarray(third.as_cpu()[k]))


@pytest.mark.skipif(kernels.COMPILER is None, reason="no C++ compiler to build kernels for the host")
@pytest.mark.parametrize("dtype, out", [(np.int16, types.FLOAT), *[pytest.param(a, b, marks=SLOW) for a, b in (
    (np.float32, types.FLOAT), (np.float32, types.UINT8), (np.uint16, types.INT32), (np.int32, types.INT32))]])  # fmt: skip
def test_the_gpu_kernel(dtype, out):
    """The kernel, compiled for the host, gives the results of the compiled step."""
    data = [(signal((n, 2), n) * (1 if dtype is np.float32 else 100)).astype(dtype) for n in (70, 1, 0, 200)]
    steps = 1000 if out == types.INT32 else 1  # the computation is in float32
    assert_near(*both("audio_resample", data, "", {"scale": np.float32([1.3, 2, 1, 0.4])}, dtype=out, quality=20.0), 1e-6, steps)
