"""gaussian_blur beside simple NumPy models."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import operators as harness
from helpers.pipelines import pipeline_of

from asyncdali import fn
from asyncdali.compiled.addresses import address_of
from asyncdali.operators.filters import gaussian_blur_survey_kernels, gaussian_blur_window_kernels
from asyncdali.operators.filters.gaussian_blur_tables import GAUSSIANS, WINDOW, WINDOWS
from asyncdali.operators.filters.planes_tables import PLANES
from asyncdali.operators.filters.windows import FilterWindows


def along(data: np.ndarray, axis: int, window: np.ndarray) -> np.ndarray:
    """A correlation along one axis. The border is reflected."""
    radius = len(window) // 2
    padded = np.pad(data, [(radius, radius) if k == axis else (0, 0) for k in range(data.ndim)], mode="reflect")
    extent = data.shape[axis]
    return sum(weight * np.take(padded, range(k, k + extent), axis) for k, weight in enumerate(window))


def gaussian(sigma: float, size: int) -> np.ndarray:
    x = np.arange(size) - size // 2
    weights = np.exp(-0.5 * (x / sigma) ** 2)
    return weights / weights.sum()


def picture(shape, dtype="float32"):
    return (np.random.default_rng(3).random(shape) * 250).astype(dtype)


@pytest.mark.parametrize(
    "layout, shape, axes", [("HWC", (20, 31, 3), (0, 1)), ("FCHW", (2, 3, 20, 9), (2, 3)), ("DHW", (9, 8, 10), (0, 1, 2))]
)
def test_blur_is_separable_and_normalised(layout, shape, axes):
    data = picture(shape)
    (result,) = harness.run("gaussian_blur", [data], layout, sigma=1.0)
    expected = data.astype(np.float64)
    for axis in axes:
        expected = along(expected, axis, gaussian(1.0, 7))
    np.testing.assert_allclose(result, expected, rtol=1e-5)
    flat = np.full(shape, 77, np.uint8)
    np.testing.assert_array_equal(harness.run("gaussian_blur", [flat], layout, sigma=3.0)[0], flat)


def test_the_window_follows_from_sigma_and_sigma_from_the_window():
    data = picture((30, 30, 1))
    by_sigma = harness.run("gaussian_blur", [data], "HWC", sigma=1.4)[0]
    np.testing.assert_array_equal(by_sigma, harness.run("gaussian_blur", [data], "HWC", sigma=1.4, window_size=11)[0])
    by_window = harness.run("gaussian_blur", [data], "HWC", window_size=7)[0]
    np.testing.assert_array_equal(by_window, harness.run("gaussian_blur", [data], "HWC", sigma=(3 - 1) * 0.3 + 0.8, window_size=7)[0])
    only_rows = harness.run("gaussian_blur", [data], "HWC", window_size=[5, 1])[0]
    np.testing.assert_allclose(only_rows, along(data.astype(np.float64), 0, gaussian(1.1, 5)), rtol=1e-5)


def test_a_window_larger_than_the_image():
    data = picture((3, 2, 1))
    (result,) = harness.run("gaussian_blur", [data], "HWC", window_size=9)
    index = np.pad(np.arange(3), 4, mode="reflect")
    rows = sum(w * data[index[k : k + 3]].astype(np.float64) for k, w in enumerate(gaussian((4 - 1) * 0.3 + 0.8, 9)))
    index = np.pad(np.arange(2), 4, mode="reflect")
    expected = sum(w * rows[:, index[k : k + 2]] for k, w in enumerate(gaussian((4 - 1) * 0.3 + 0.8, 9)))
    np.testing.assert_allclose(result, expected, rtol=1e-5)


def test_in_a_pipeline_on_both_devices():
    data = [picture((8, 9, 3), "uint8") for _ in range(3)]

    def graph():
        source = fn.external_source(lambda: data, layout="HWC")
        sigma = fn.random.uniform(range=[0.5, 2.0])
        return fn.gaussian_blur(source, sigma=sigma), fn.gaussian_blur(source.gpu(), sigma=sigma)

    blurred, on_gpu = pipeline_of(graph).run()
    for i in range(3):
        np.testing.assert_array_equal(np.asarray(blurred[i]), np.asarray(on_gpu.as_cpu()[i]))


def test_windows_of_a_batch_equal_windows_of_single_samples():
    """To equal DALI's results, weights are rounded to float32 after each operation, in a fixed order."""
    rng = np.random.default_rng(5)
    count = 300
    sigmas = rng.uniform(0.05, 8, (count, 2)).astype(np.float32)
    sizes = 2 * rng.integers(0, 60, (count, 2)) + 1
    sigmas[1], sizes[1] = sigmas[0], sizes[0]  # the same as in the row before
    sigmas[2, 1], sizes[2, 1] = sigmas[2, 0], sizes[2, 0]  # the same along both axes
    described = np.empty((count, WINDOWS.words), np.int64)
    table, keep = GAUSSIANS.make(
        rows=count, axes=2, given_sigmas=sigmas, sigmas_step_row=8, sigmas_step_axis=4, given_sizes=sizes, sizes_step_row=16,
        sizes_step_axis=8, sigmas=np.empty_like(sigmas), described=described, most=0, weights=0,
    )  # fmt: skip
    weights = np.empty(gaussian_blur_window_kernels.lay_out_windows(address_of(table)), np.float32)
    table[GAUSSIANS.word.weights] = address_of(weights)
    gaussian_blur_window_kernels.fill_windows(address_of(table))
    del keep
    assert described[:, : WINDOW.words].tolist() == [[0, 1]] * count  # no third axis
    for sample in range(count):
        for axis in range(2):
            first, taps = described[sample, WINDOW.words * (axis + 1) :][: WINDOW.words]
            assert taps == sizes[sample, axis]
            distances = np.arange(-(taps // 2), 0, dtype=np.float32)
            sigma = sigmas[sample, axis]
            half = np.exp((-(distances * distances) * (np.float32(0.5) / (sigma * sigma))).astype(np.float64)).astype(np.float32)
            total = half.cumsum(dtype=np.float32)[-1] * np.float32(2) + np.float32(1) if len(half) else np.float32(1)
            side = half * (np.float32(1) / total)
            np.testing.assert_array_equal(weights[first : first + taps], [*side, np.float32(1) / total, *side[::-1]])
    np.testing.assert_array_equal(described[0], described[1])
    assert table[GAUSSIANS.word.most] == sizes.max()
    placed = FilterWindows(weights, described, 1).placed.placed(address_of(weights))
    np.testing.assert_array_equal(placed[:, 1::2], described[:, 1::2])
    np.testing.assert_array_equal(placed[:, ::2], address_of(weights) + 4 * described[:, ::2])
    assert described[2, WINDOW.words] == described[2, 2 * WINDOW.words]


@pytest.mark.parametrize("axes", [2, 3])
@pytest.mark.parametrize("terms", [1, 3])
def test_scratch_of_the_largest_sample(terms, axes):
    """Flat samples keep as many lines as the window has rows, volumes keep two copies; several terms need sums, too."""
    rng = np.random.default_rng(terms)
    records = np.zeros((40, PLANES.words), np.int64)
    word, taps = PLANES.word, 9
    records[:, word.in_depth] = rng.choice([1, 1, 5], 40) if axes == 3 else 1
    for name in ("in_height", "in_width", "channels"):
        records[:, getattr(word, name)] = rng.integers(1, 30, 40)
    for count in (0, 1, 40):
        most = 0
        for record in records[:count]:
            depth, height, width, channels = record[[word.in_depth, word.in_height, word.in_width, word.channels]].tolist()
            row, sums = width * channels, int(terms > 1)
            lines = (terms * min(taps, height) + sums) * row if axes == 2 else depth * height * row * (2 + sums)
            most = max(most, 8 * (taps + terms) + 4 * ((width + taps) * channels + row + lines) + 64)
        assert gaussian_blur_survey_kernels.most_scratch(address_of(records), count, terms, taps, axes) == most
