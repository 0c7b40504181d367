"""On a GPU: further operators beside their CPU twins, each within the bound that docs/gpu.md states."""

from __future__ import annotations

import numpy as np
import pytest
from test_operators import gpu, samples_of  # noqa: F401

from asyncdali import fn, math, pipeline_def, types

pytestmark = pytest.mark.gpu
BATCH = 8


def results(body, source, layout, on_gpu, iterations=2):
    @pipeline_def(batch_size=BATCH, num_threads=4, device_id=0, seed=7)
    def graph():
        data = fn.external_source(source, batch=False, layout=layout)
        return body(data.gpu() if on_gpu else data)

    pipe = graph()
    pipe.build()
    made = [[samples_of(output) for output in pipe.run()] for _ in range(iterations)]
    pipe.close()
    return made


def ulps(a, b):
    """Number of floats between two floats (NaN equals NaN)."""
    kind = {2: np.int16, 4: np.int32, 8: np.int64}[a.itemsize]
    places = [np.where(x.view(kind) < 0, np.iinfo(kind).min - x.view(kind).astype(np.int64), x.view(kind)) for x in (a, b)]
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    return np.where(same, 0, np.abs(places[0] - places[1]))  # exact in integers only


def compare(body, source, layout="", most_ulps=0, relative=0.0, steps=0):
    """Floats within `most_ulps`, or `relative` to the largest of the sample; integers within `steps`."""
    for a, b in zip(results(body, source, layout, False), results(body, source, layout, True), strict=True):
        for one, other in zip(a, b, strict=True):
            for x, y in zip(one, other, strict=True):
                assert x.shape == y.shape and x.dtype == y.dtype
                if x.dtype.kind in "iub":
                    assert np.abs(x.astype(np.float64) - y.astype(np.float64)).max(initial=0) <= steps
                elif relative:
                    finite = x[np.isfinite(x)].astype(np.float64)
                    np.testing.assert_allclose(y.astype(np.float64), x, rtol=relative, atol=relative * np.abs(finite).max(initial=0))
                else:
                    assert ulps(x, y).max(initial=0) <= most_ulps


def images(info):
    rng = np.random.default_rng(info.idx_in_epoch)
    return rng.integers(0, 255, (*rng.integers(20, 90, 2), 3), np.uint8)


def reals(info):
    rng = np.random.default_rng(info.idx_in_epoch)
    values = rng.normal(0, 4, rng.integers(1, 3000)).astype(np.float32)
    values[:: 50] = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-42, 3e38][info.idx_in_epoch % 7]
    return values


FACTORS = np.array([1.5, 2.0, 3.0], np.float32)
EXACT = {
    "a tree": lambda x: (x * 2.5 - 7) / FACTORS,
    "integers": lambda x: ((x + 3) * x - (x >> 2)) // 7 % 5 ^ (x << 1),
    "comparisons": lambda x: (x > 100) & (x != 120) | (x <= 3),
    "choices": lambda x: math.clamp(math.max(x, 30) - 128, -5, 100),
    "half floats": lambda x: fn.cast(x, dtype=types.FLOAT16) * 0.1 + 3,
    "double": lambda x: math.sqrt(fn.cast(x, dtype=types.FLOAT64)) / 3,
    "powers": lambda x: fn.cast(x, dtype=types.INT32) ** 5,
    "with a draw": lambda x: x * fn.random.uniform(range=(0.0, 2.0)) + fn.random.normal(),
}


@pytest.mark.parametrize("name", EXACT)
def test_arithmetic_is_equal_bit_for_bit(name):
    compare(EXACT[name], images, "HWC")


BOUNDS = {"pow": 10, "tan": 6, "sinh": 6, "asinh": 6, "acosh": 6, "atanh": 6}


@pytest.mark.parametrize("name", [
    "sqrt", "rsqrt", "cbrt", "exp", "log", "log2", "log10", "fabs", "floor", "ceil", "sin", "cos", "tan", "asin", "acos", "atan", "sinh",
    "cosh", "tanh", "asinh", "acosh", "atanh",
])  # fmt: skip
def test_functions(name):
    exact = name in ("sqrt", "rsqrt", "fabs", "floor", "ceil")
    function = getattr(math, name)
    compare(function, reals, most_ulps=0 if exact else BOUNDS.get(name, 4))
    compare(lambda x: function(fn.cast(x, dtype=types.FLOAT64)), reals, most_ulps=0 if exact else BOUNDS.get(name, 4))


def test_functions_of_two():
    compare(lambda x: math.fabs(x) ** 1.7, reals, most_ulps=BOUNDS["pow"])
    compare(lambda x: math.atan2(x, 1.5 - x), reals, most_ulps=6)
    compare(lambda x: x % 1.7, reals)


def positive(info):
    rng = np.random.default_rng(info.idx_in_epoch)
    return rng.uniform(0, 9, (*rng.integers(20, 300, 2), 3)).astype(np.float32)


@pytest.mark.parametrize("axes", [None, [0], [1], [2], [0, 1], [0, 2], [1, 2]])
def test_reductions(axes):
    options = {} if axes is None else {"axes": axes}
    for name in ("sum", "max", "min"):
        compare(lambda x: getattr(fn.reductions, name)(x, **options), images, "HWC")  # noqa: B023
    for name in ("sum", "mean", "mean_square", "rms"):
        compare(lambda x: getattr(fn.reductions, name)(x, **options), positive, "HWC", relative=4e-6)  # noqa: B023
        compare(lambda x: getattr(fn.reductions, name)(x, dtype=types.FLOAT, **options), images, "HWC", relative=4e-6)  # noqa: B023
    for name in ("std_dev", "variance"):
        compare(
            lambda x: getattr(fn.reductions, name)(x, fn.reductions.mean(x, **options), **options), positive, "HWC", relative=1e-5  # noqa: B023
        )


@pytest.mark.parametrize("arguments", [
    {}, {"axes": [0, 1]}, {"axes": [1], "epsilon": 0.5}, {"mean": 4.0, "stddev": 2.0}, {"batch": True}, {"batch": True, "axes": [0, 1]},
    {"axes": [0, 1], "dtype": types.UINT8, "scale": 40.0, "shift": 128.0},
])  # fmt: skip
def test_normalize(arguments):
    compare(lambda x: fn.normalize(x, **arguments), images, "HWC", relative=1e-5, steps=1)
    compare(lambda x: fn.normalize(x, **arguments), positive, "HWC", relative=1e-5, steps=1)


BLURS = {
    "small": lambda x: fn.gaussian_blur(x, sigma=fn.random.uniform(range=(0.5, 3.0))),
    "wide": lambda x: fn.gaussian_blur(x, window_size=[171, 41], dtype=types.FLOAT),
    "laplacian": lambda x: fn.laplacian(x, window_size=5, dtype=types.FLOAT),
    "filter": lambda x: fn.filter(x, np.arange(15, dtype=np.float32).reshape(3, 5) / 100, border="wrap"),
}


@pytest.mark.parametrize("name", BLURS)
def test_filters_are_equal_bit_for_bit(name):
    compare(BLURS[name], images, "HWC")
    compare(BLURS[name], positive, "HWC")


def sound(info):
    rng = np.random.default_rng(info.idx_in_epoch)
    return rng.normal(0, 0.3, rng.integers(4000, 30000)).astype(np.float32)


def spectra(info):
    rng = np.random.default_rng(info.idx_in_epoch)
    return np.abs(rng.normal(size=(129, rng.integers(1, 300)))).astype(np.float32)


@pytest.mark.parametrize("arguments", [{}, {"window_length": 400, "window_step": 160, "layout": "tf"}, {"nfft": 4096, "power": 1}])
def test_spectrogram(arguments):
    compare(lambda x: fn.spectrogram(x, **arguments), sound)


def test_audio():
    compare(lambda x: fn.preemphasis_filter(x), sound)
    compare(lambda x: fn.mel_filter_bank(x, nfilter=40, sample_rate=16000.0), spectra, "ft")
    compare(lambda x: fn.mfcc(x, lifter=22.0), spectra, "ft")
    compare(lambda x: fn.to_decibels(x), spectra, "ft", most_ulps=2)
    compare(lambda x: fn.audio_resample(x, scale=1.3), sound, relative=1e-6)
    compare(lambda x: fn.audio_resample(x, out_length=5000, quality=20.0, dtype=types.INT16), sound, steps=1)
    for window, interval in ((512, 2048), (100, -1)):
        compare(lambda x: list(fn.nonsilent_region(x, cutoff_db=-8.0, window_length=window, reset_interval=interval)), sound)  # noqa: B023


def test_elementwise():
    for target in (types.YCbCr, types.GRAY, types.BGR):
        compare(lambda x: fn.color_space_conversion(x, image_type=types.RGB, output_type=target), images, "HWC")  # noqa: B023
    compare(lambda x: fn.lookup_table(x, keys=list(range(0, 200, 3)), values=[k * 1.5 for k in range(67)]), images, "HWC")
    compare(lambda x: fn.slice(x, start=[-5, 3], shape=[200, 40], axes=[0, 1], out_of_bounds_policy="reflect"), images, "HWC")
    compare(lambda x: fn.one_hot(x, num_classes=20), images, "HWC")
    compare(lambda x: fn.coord_transform(x, MT=[1.0, 2.0, 3.0, 4.0, 0.5, 0.0, 1.0, 1.0]), positive, "HWC")
    compare(lambda x: fn.bb_flip(fn.reshape(x, shape=[-1, 4]), vertical=1), lambda info: images(info)[:20, :20].astype(np.float32) / 255)


def test_noise():
    compare(lambda x: fn.noise.gaussian(x, stddev=20.0), images, "HWC", steps=1)
    compare(lambda x: fn.noise.gaussian(x, stddev=20.0), positive, "HWC", relative=2e-6)
    compare(lambda x: fn.noise.salt_and_pepper(x, prob=0.3), images, "HWC")
    compare(lambda x: fn.noise.shot(x, factor=3.0), images, "HWC")  # means of up to 85 use both methods
    compare(lambda x: fn.grid_mask(x, angle=0.4, tile=20), images, "HWC")


def boxes(info):
    rng = np.random.default_rng(info.idx_in_epoch)
    return np.sort(rng.random((info.idx_in_epoch % 6, 2, 2)), axis=1).reshape(-1, 4).astype(np.float32)


@pytest.mark.parametrize("offset", [False, True])
def test_box_encoder(offset):
    anchors = np.sort(np.random.default_rng(0).random((500, 2, 2)), axis=1).ravel().tolist()

    def encoded(corners):
        labels = fn.cast(fn.reductions.sum(corners, axes=[1]) * 20, dtype=types.INT32)
        return list(fn.box_encoder(corners, labels, anchors=anchors, offset=offset))

    compare(encoded, boxes, relative=1e-6 if offset else 0.0)


def test_permuted_batches():
    compare(lambda x: fn.permute_batch(x, indices=fn.batch_permutation()), images, "HWC")
    compare(lambda x: fn.permute_batch(x + 1, indices=fn.batch_permutation(allow_repetitions=True)) * 2, images, "HWC")
