"""clahe, jpeg_compression_distortion and warp_perspective on a GPU: kernels, compiled for the host, beside the CPU's results."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from helpers import kernels
from helpers.images import picture
from helpers.opencv_programs import PROGRAMS, check
from helpers.twins import assert_near, both

from asyncdali import fn, pipeline_def, types
from asyncdali.operators.color.clahe_launches import lab_tables
from asyncdali.operators.warp.warp_perspective_launches import inverses

pytestmark = pytest.mark.skipif(kernels.COMPILER is None, reason="no C++ compiler to build kernels for the host")


def images(rng, count, channels=3, most=60):
    """Images: every second one is noise."""
    return [
        rng.integers(0, 256, (height, width, channels), np.uint8) if k % 2 else picture(int(height), int(width), 3, k)[..., :channels]
        for k, (height, width) in enumerate(rng.integers(1, most, (count, 2)))
    ]


def equal(one, other):
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("luma_only, channels", [(True, 3), (False, 3), (True, 1)])
def test_clahe_has_the_same_bits(luma_only, channels):
    rng = np.random.default_rng(channels)
    empty = np.zeros((0, 5, channels), np.uint8)
    for tiles_x, tiles_y, limit in ((4, 3, 2.0), (8, 8, 40.0), (3, 5, 0.5), (2, 1, -1.0)):
        samples = [*images(rng, 4, channels), np.full((1, 1, channels), 9, np.uint8), empty]
        equal(*both("clahe", samples, "HWC", tiles_x=tiles_x, tiles_y=tiles_y, clip_limit=limit, luma_only=luma_only))
    equal(*both("clahe", [empty, empty], "HWC", tiles_x=2, tiles_y=2, clip_limit=1.0))


def test_lab_tables_are_opencvs():
    """The lightness of every grey level, and the grey level of every lightness. test_clahe_has_the_same_bits has the colours."""
    tables = {name: table.astype(np.int64) for name, table in lab_tables().items()}
    grey = np.arange(256, dtype=np.uint8)
    lab = cv2.cvtColor(np.repeat(grey[:, None, None], 3, axis=2), cv2.COLOR_RGB2LAB)
    roots = tables["roots"][(4096 * tables["linear"] + 2048) >> 12]
    np.testing.assert_array_equal((296 * roots - 1336934 + (1 << 14)) >> 15, lab[:, 0, 0])
    assert tables["luminances"][-1].tolist() == [1 << 14, 1 << 14] and tables["srgb"][-1] == 255


@pytest.mark.parametrize("most", [9, 70])
def test_jpeg_has_the_same_bits(most):
    """All qualities, sizes from one pixel (chroma of one or two columns is not smoothed), and images of one colour."""
    rng = np.random.default_rng(most)
    samples = [*images(rng, 14, most=most), np.full((17, 33, 3), (255, 0, 0), np.uint8)]
    qualities = np.r_[-3, 1, 100, 104, rng.integers(1, 101, len(samples) - 4)].astype(np.int32)
    equal(*both("jpeg_compression_distortion", samples, "HWC", per_sample={"quality": qualities}))


def test_jpeg_of_frames():
    rng = np.random.default_rng(2)
    clips = [rng.integers(0, 256, (frames, 20, 37, 3), np.uint8) for frames in (3, 1, 0)]
    equal(*both("jpeg_compression_distortion", clips, "FHWC", quality=30))


BORDERS = ("constant", "replicate", "reflect", "reflect_101", "wrap")


def transforms(rng, count):
    near = rng.normal(0, 1, (count, 3, 3)) * [[0.1, 0.1, 5], [0.1, 0.1, 5], [1e-3, 1e-3, 0]]
    return (np.eye(3) + near).astype(np.float32)


def close(one, other, steps=1, part=1e-3):
    """At most a `part` of the integers differ, and by at most `steps`. Floats differ by the rounding of a position."""
    if one[0].dtype.kind == "f":
        return assert_near(one, other, 1e-4)
    assert_near(one, other, steps=steps)
    assert np.mean([(a != b).mean() for a, b in zip(one, other, strict=True)]) <= part


@pytest.mark.parametrize(
    "dtype, layout, interpolation", [
        ("uint8", "HWC", "NN"), ("uint8", "HWC", "LINEAR"), ("uint8", "HWC", "CUBIC"), ("int16", "HWC", "LINEAR"), ("int16", "FHWC", "NN"),
        ("uint16", "CHW", "LINEAR"), ("float32", "FCHW", "CUBIC"), ("float32", "HW", "LINEAR"),
    ],
)  # fmt: skip
def test_perspective(dtype, layout, interpolation):
    rng = np.random.default_rng(5)
    for k, border in enumerate(BORDERS):
        channels = 1 + k % 4
        samples = []
        for height, width in rng.integers(20, 70, (2, 2)):
            image = rng.integers(0, 256, (height, width, channels)).astype(dtype)
            image = {"CHW": image.transpose(2, 0, 1), "HW": image[..., 0]}.get(layout.removeprefix("F"), image)
            samples.append(np.ascontiguousarray(np.stack([image, image[::-1]]) if layout[0] == "F" else image))
        fill = [3.0, 99.5, 300.0, -4.0][:channels] if "HWC" in layout else [7.4]
        options = {"border_mode": border, "interp_type": getattr(types, f"INTERP_{interpolation}"), "inverse_map": bool(k % 2)}
        options.update(pixel_origin=("corner", "center")[k % 2], fill_value=fill, size=[41.0, 90.0])
        found = both("experimental.warp_perspective", samples, layout, {"matrix": transforms(rng, 2)}, **options)
        if dtype == "int16":  # positions are float64
            close(*found, steps=0)
        else:  # A nearest pixel may differ, because OpenCV's rounding depends on the processor.
            close(*found, steps=255 if interpolation == "NN" else 1)


def test_transforms_that_only_the_device_knows():
    """The transforms are the second input, inverted or not. The program "perspectives of frames" has transforms of frames."""
    rng = np.random.default_rng(6)
    samples, given = [rng.integers(0, 256, (30, 40, 1), np.uint8) for _ in range(2)], list(transforms(rng, 2))
    for inverse in (True, False):
        for origin in ("corner", "center"):
            options = {"inverse_map": inverse, "pixel_origin": origin}
            close(*both("experimental.warp_perspective", samples, "HWC", None, (given,), **options))


def test_positions_without_a_number():
    """A transform with 0 in its last row, a transform without inverse, and positions that exceed every integer."""
    image = np.arange(1, 31, dtype=np.uint8).reshape(5, 6, 1)
    matrices = np.zeros((4, 3, 3), np.float32)
    matrices[1, 2, 2] = 1e-30
    matrices[2] = np.diag([1e30, 1e30, 1])
    matrices[3] = [[1, 0, 0], [0, 1, 0], [1, 0, -3]]
    for interpolation in ("NN", "LINEAR", "CUBIC"):
        options = {"interp_type": getattr(types, f"INTERP_{interpolation}"), "pixel_origin": "center"}
        for one, other in zip(*both("experimental.warp_perspective", [image] * 4, "HWC", {"matrix": matrices}, **options), strict=True):
            assert one.shape == other.shape
    np.testing.assert_array_equal(inverses(np.zeros((1, 3, 3))), 0)
    turned = transforms(np.random.default_rng(1), 9).astype(np.float64)
    np.testing.assert_allclose(inverses(turned), np.linalg.inv(turned), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", PROGRAMS)
def test_pipeline(cuda, name):
    """The programs of tests/gpu, over the CUDA simulator."""
    rng = np.random.default_rng(3)
    samples = images(rng, 4, most=80)

    def outputs(on_gpu):
        @pipeline_def(batch_size=4, num_threads=2, device_id=0, seed=7)
        def graph():
            data = fn.external_source(lambda: samples, layout="HWC")
            return PROGRAMS[name][0](data.gpu() if on_gpu else data)

        pipe = graph()
        pipe.build()
        found = [np.array(sample) for sample in pipe.run()[0].as_cpu()]
        pipe.close()
        return found

    check(name, outputs(False), outputs(True))
