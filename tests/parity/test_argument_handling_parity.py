"""Arguments and inputs at the edge of what an operator accepts: ours and DALI give the same result, or both refuse."""

# ruff: noqa: B023 - graph functions are called in the iteration that defines them

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("nvidia.dali")

from test_surface_behaviour_parity import Library, assert_equal, both, outcome  # noqa: F401 - `both` is a fixture

IMAGE = np.arange(6 * 7 * 3, dtype=np.uint8).reshape(6, 7, 3)
BOXES = np.array([[0.2, 0.2, 0.8, 0.8], [0.6, 0.3, 0.4, 0.7], [0.3, 0.9, 0.5, 0.1], [0.9, 0.9, 0.1, 0.1]], np.float32)
"""The second box ends left of its begin, the third above it, the last one both."""


@pytest.mark.parametrize("chosen", [[1], [2], [3], [0, 1], [2, 0], [0, 1, 2, 3]])
@pytest.mark.parametrize("sized", [False, True])
def test_crops_around_inverted_boxes(both, chosen, sized):  # noqa: F811
    boxes = BOXES[chosen]
    if sized:
        boxes = np.concatenate([boxes[:, :2], boxes[:, 2:] - boxes[:, :2]], axis=1)
    for seed in range(6):
        options = {"aspect_ratio": [0.5, 2.0], "thresholds": [0.0, 0.1, 0.3], "scaling": [0.3, 1.0], "seed": seed}
        options["bbox_layout"] = "xyWH" if sized else "xyXY"

        def graph(lib: Library):
            return tuple(lib.fn.random_bbox_crop(lib.source([boxes]), lib.source([np.arange(len(boxes), dtype=np.int32)]), **options))

        assert_equal(both, graph, rtol=1e-5)


@pytest.mark.parametrize("chosen", [[0, 1], [2], [0, 1, 2, 3]])
def test_ssd_crops_around_inverted_boxes(both, chosen):  # noqa: F811
    boxes = BOXES[chosen]
    for seed in range(6):

        def graph(lib: Library):
            labels = lib.source([np.arange(len(boxes), dtype=np.int32)])
            return tuple(lib.fn.ssd_random_crop(lib.source([IMAGE], "HWC"), lib.source([boxes]), labels, seed=seed))

        assert_equal(both, graph, rtol=1e-5)


SHAPES = [(), (1,), (2,), (3,), (349,), (1, 3), (2, 3), (1, 1), (2, 2), (2, 1, 3)]


@pytest.mark.parametrize("data", [(), (1,), (3,), (349,), (1, 3), (2, 3), (2, 2, 3)])
@pytest.mark.parametrize("wanted", [(), (1,), (1, 1), (3,), (1, 3), (2, 3), (2,), (1, 2, 3), (6,)])
def test_full_of_larger_data(both, data, wanted):  # noqa: F811
    values = np.arange(np.prod(data, dtype=int), dtype=np.float32).reshape(data)
    assert_equal(both, lambda lib: lib.fn.full(lib.source([values]), shape=list(wanted)))
    like = np.zeros(wanted, np.int32)
    assert_equal(both, lambda lib: lib.fn.full_like(lib.source([like]), lib.source([values])))


@pytest.mark.parametrize("shape", [(0, 3), (0, 0), (0, 0, 3), (0, 2, 3), (2, 3, 0), (1, 0, 3), (0, 1)])
def test_squeeze_of_empty_samples(both, shape):  # noqa: F811
    for axes in ([0], [1], [0, 1]):
        assert_equal(both, lambda lib: lib.fn.squeeze(lib.source([np.zeros(shape, np.float32)]), axes=axes), told=f"{shape} {axes}")


@pytest.mark.parametrize("name", ["reshape", "reinterpret"])
@pytest.mark.parametrize("dims", [[0], [0, 1], [2, 1, 0], [-1, 0, 1, 2], [1, 0, 2, -1]])
def test_relative_shapes_of_source_dims(both, name, dims):  # noqa: F811
    data = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    for relative in ([1.0], [-1.0], [1.0, 1.0], [1.0, -1.0], [1.0] * 3, [1.0, 1.0, -1.0], [0.5, 2.0, 1.0], [1.0] * 4):

        def graph(lib: Library):
            return getattr(lib.fn, name)(lib.source([data]), src_dims=dims, rel_shape=relative)

        assert_equal(both, graph, told=f"{dims} {relative}")


@pytest.mark.parametrize("smallest", [-5.0, -1e-3, 0.0, 9.0, float("nan")])
def test_smallest_canvas_of_paste(both, smallest):  # noqa: F811
    assert_equal(both, lambda lib: lib.fn.paste(lib.source([IMAGE], "HWC"), ratio=1.5, fill_value=[1, 2, 3], min_canvas_size=smallest))


@pytest.mark.parametrize("size", [[8], [8, 9], [8, 9, 3], [8, 9, 3, 1], [6, 7, 5]])
def test_output_sizes_of_multi_paste(both, size):  # noqa: F811
    assert_equal(both, lambda lib: lib.fn.multi_paste(lib.source([IMAGE], "HWC"), in_ids=np.int32([0]), output_size=size))
    given = np.array(size, np.int32)
    assert_equal(both, lambda lib: lib.fn.multi_paste(lib.source([IMAGE], "HWC"), in_ids=np.int32([0]), output_size=lib.source([given])))


@pytest.mark.parametrize("samples", [[(0, 3), (2, 2)], [(2, 2), (0, 3)], [(0, 0), (3, 2), (0, 5)]])
def test_points_beside_samples_without_points(both, samples):  # noqa: F811
    data = [np.ones(shape, np.float32) for shape in samples]
    assert_equal(both, lambda lib: lib.fn.coord_transform(lib.source(data), M=[2.0], T=[1.0]), len(data))


@pytest.mark.parametrize("kind", [np.float64, np.float16, np.int64, np.uint32, np.int8, np.bool_])
def test_batches_without_points_may_have_any_type(both, kind):  # noqa: F811
    for shape in ((0, 2), (0, 3), (0, 0)):
        ours, theirs = (
            outcome(library, lambda lib: lib.fn.coord_transform(lib.source([np.zeros(shape, kind)]), M=[1.0, 0.0, 0.0, 1.0]), 1)
            for library in both
        )
        for found in (ours, theirs):
            assert found[0][0][0].shape[0] == 0 and found[0][0][0].dtype == np.float32


@pytest.mark.parametrize("length", [0.3, 0.1, 0.09, 1e-3, 1e-9, 1e-40])
@pytest.mark.parametrize("filter", ["INTERP_TRIANGULAR", "INTERP_CUBIC", "INTERP_GAUSSIAN", "INTERP_LANCZOS3", "INTERP_NN"])
@pytest.mark.parametrize("extent", [20, 2000, 9000])
def test_resize_to_nearly_nothing(both, length, filter, extent):  # noqa: F811
    """Lengths count as at least a tenth of a pixel, and a filter covers at most 8192 pixels."""
    data = np.random.default_rng(extent).random((extent, 1, 1)).astype(np.float32)
    options = [{"size": [length, 1]}, {"resize_y": length}, {"size": [1, 1], "roi_start": [-9000.0, 0], "roi_end": [9000.0, 1.0]}]
    for option in options:

        def graph(lib: Library):
            return lib.fn.resize(lib.source([data], "HWC"), interp_type=getattr(lib.types, filter), **option)

        assert_equal(both, graph, rtol=2e-3, told=str(option))


@pytest.mark.parametrize("fills", [[7.0], [1.0, 2.0, 3.0], [1.0, 2.0, 3.0, 4.0]])
def test_fill_values_of_padded_channels(both, fills):  # noqa: F811
    for mean in ([1.0, 2.0, 3.0], [1.0, 2.0, 3.0, 4.0]):
        options = {"pad_output": True, "out_of_bounds_policy": "pad", "mean": mean, "fill_values": fills}
        assert_equal(both, lambda lib: lib.fn.crop_mirror_normalize(lib.source([IMAGE], "HWC"), **options), told=str(options))


def test_one_mean_beside_a_fill_value_per_channel():
    """DALI normalises only the first channel then, and the others become 0. Added channels get `fill_values` under each policy."""
    ours = Library("asyncdali")
    for policy in ("error", "pad", "trim_to_shape"):
        options = {"pad_output": True, "out_of_bounds_policy": policy, "mean": [5.0], "fill_values": [1.0, 2.0, 3.0, 4.0]}
        (found, _), = ours.run(lambda lib: lib.fn.crop_mirror_normalize(lib.source([IMAGE], "HWC"), **options), 1)
        np.testing.assert_array_equal(found[0][:3], IMAGE.transpose(2, 0, 1).astype(np.float32) - 5)
        assert (found[0][3] == 4).all()
    with pytest.raises(ValueError, match="per-channel arguments"):
        ours.run(lambda lib: lib.fn.crop_mirror_normalize(lib.source([IMAGE], "HWC"), **{**options, "fill_values": [1.0, 2.0]}), 1)


@pytest.mark.parametrize("angle", [0.0, 30.0])
@pytest.mark.parametrize("axis", [[0.0, 0.0, 1.0], [0.0, 0.0, 0.0]])
def test_volumes_that_do_not_turn(both, angle, axis):  # noqa: F811
    """Without an angle the axis may be zeros. With an angle DALI gives fill values or NaN then, and ours refuses."""
    volume = np.arange(4 * 5 * 6, dtype=np.uint8).reshape(4, 5, 6, 1)
    for keep in (False, True):

        def graph(lib: Library):
            return lib.fn.rotate(lib.source([volume], "DHWC"), angle=angle, axis=lib.source([np.float32(axis)]), keep_size=keep)

        def transform(lib: Library):
            return lib.fn.transforms.rotation(angle=angle, axis=axis)

        if angle and not any(axis):
            for refused in (graph, transform):
                assert isinstance(outcome(both[0], refused, 1), RuntimeError)
            continue
        assert_equal(both, graph, rtol=1e-5)
        assert_equal(both, transform, rtol=1e-5)


@pytest.mark.parametrize("value", [[2.0], (2.0,), np.float32([2.0])])
def test_one_value_in_a_list(value):
    ours = Library("asyncdali")
    made = [ours.run(lambda lib: lib.fn.random.beta(alpha=given, beta=3.0, seed=5), 2) for given in (2.0, value)]
    np.testing.assert_array_equal(made[0][0][0], made[1][0][0])


RAMPS = [np.random.default_rng(k).random(shape).astype(np.float32) for k, shape in enumerate([(9, 8), (7, 3), (25, 3), (7, 5)])]
"""Samples whose axes have different extents."""


@pytest.mark.parametrize(
    "name, options", [
        ("mfcc", {}), ("mfcc", {"axis": 1}), ("mfcc", {"n_mfcc": 5, "lifter": 22.0, "dct_type": 3}), ("mel_filter_bank", {"nfilter": 4}),
        ("power_spectrum", {}), ("power_spectrum", {"axis": 0, "power": 1}), ("power_spectrum", {"nfft": 8}),
    ],
)  # fmt: skip
def test_transforms_along_axes_of_several_lengths(both, name, options):  # noqa: F811
    assert_equal(both, lambda lib: getattr(lib.fn, name)(lib.source(RAMPS), **options), len(RAMPS), rtol=1e-4)


@pytest.mark.parametrize("dtype", [np.float32, np.int16, np.int32, np.uint8])
@pytest.mark.parametrize("options", [{"window_length": 2, "reset_interval": 2}, {"window_length": 3}, {"reset_interval": -1}])
@pytest.mark.parametrize("reference", [{}, {"reference_power": 1.0}])
def test_nonsilent_region_of_empty_signals_and_any_interval(both, dtype, options, reference):  # noqa: F811
    """Only float signals need an interval that is a multiple of the window, because integer sums are exact."""
    signals = [np.array(numbers).astype(dtype) for numbers in ([0, 0, 5, 5, 0, 0], [], [7], [0, 5, 5, 0])]
    assert_equal(both, lambda lib: tuple(lib.fn.nonsilent_region(lib.source(signals), **options, **reference)), len(signals))


@pytest.mark.parametrize("options", [
    {"resize_x": 3.0}, {"resize_y": 3.0}, {"resize_shorter": 3.0}, {"resize_longer": 3.0}, {"resize_shorter": 3.0, "max_size": [2.0]},
    {"size": [3.0, 4.0], "mode": "not_smaller"}, {"size": [3.0, 4.0], "mode": "not_larger"}, {"size": [3.0, 0.0], "mode": "stretch"},
    {"resize_x": 3.0, "roi_start": [0.0, 0.0], "roi_end": [1.0, 1.0], "roi_relative": True},
])  # fmt: skip
@pytest.mark.parametrize("shape", [(5, 0, 3), (0, 5, 3), (0, 0, 3), (5, 4, 0)])
def test_lengths_requested_for_empty_axes(both, shape, options):  # noqa: F811
    assert_equal(both, lambda lib: lib.fn.resize(lib.source([np.zeros(shape, np.float32)], "HWC"), **options))


@pytest.mark.parametrize("ratio", [4.0, 2.0, 1.0, 0.99, 0.5, 0.0, -1.0, -0.5])
@pytest.mark.parametrize("ltrb", [False, True])
def test_boxes_on_any_canvas(both, ratio, ltrb):  # noqa: F811
    """A box does not move further than a place of 1 does."""
    for place in (-0.5, 0.0, 0.3, 1.0, 1.5):
        assert_equal(both, lambda lib: lib.fn.bbox_paste(lib.source([BOXES]), ratio=ratio, paste_x=place, ltrb=ltrb), rtol=1e-5)


@pytest.mark.parametrize("scaling", [[0.0, 0.0], [0.0, 0.5], [0.5, 1.5], [1.2, 1.5], [0.0, 2.0], [-0.5, 0.5], [0.8, 0.5], [0.5]])
def test_windows_of_any_size(both, scaling):  # noqa: F811
    for seed in range(4):
        options = {"scaling": scaling, "thresholds": [0.1], "total_num_attempts": 60, "seed": seed, "aspect_ratio": [0.5, 2.0]}
        assert_equal(both, lambda lib: tuple(lib.fn.random_bbox_crop(lib.source([BOXES[:1]]), **options, quiet=True)), rtol=1e-5)


@pytest.mark.parametrize("relative", [[1.0, 2.0], [1.0, -1.0], [-1.0, 1.0], [1.0], [-1.0], [0.5, 2.0, -1.0], [0.5, 2.0, 1.0]])
def test_relative_shapes_with_more_numbers_than_dimensions(both, relative):  # noqa: F811
    for data in (np.arange(6.0), np.arange(6.0).reshape(2, 3), np.float64(3)):
        assert_equal(both, lambda lib: lib.fn.reshape(lib.source([np.asarray(data, np.float32)]), rel_shape=relative), told=f"{data.shape}")


@pytest.mark.parametrize("number", [1.0, np.float32(9), 4, np.int64(6), 99, -1])
def test_types_given_by_number(both, number):  # noqa: F811
    assert_equal(both, lambda lib: lib.fn.cast(lib.source([np.arange(5)]), dtype=number))


@pytest.mark.parametrize("angles", [[95.0, 3.0], [-95.0, 3.0], [89.0, -89.0], [float("nan"), 1.0], [float("inf"), 1.0]])
def test_angles_of_shear(both, angles):  # noqa: F811
    assert_equal(both, lambda lib: lib.fn.transforms.shear(angles=angles), rtol=1e-5)
    assert_equal(both, lambda lib: lib.fn.transforms.shear(angles=lib.source([np.float32(angles)])), rtol=1e-5)


@pytest.mark.parametrize("name", ["prob", "salt_vs_pepper"])
@pytest.mark.parametrize("number", [-1.0, 0.0, 1.0, 1.5, float("nan"), float("inf")])
def test_probabilities_of_salt_and_pepper(both, name, number):  # noqa: F811
    assert_equal(both, lambda lib: lib.fn.noise.salt_and_pepper(lib.source([IMAGE], "HWC"), seed=3, **{name: number}))
    given = [np.float32(0.5), np.float32(number)]
    assert_equal(both, lambda lib: lib.fn.noise.salt_and_pepper(lib.source([IMAGE] * 2, "HWC"), seed=3, **{name: lib.source(given)}), 2)


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (0, 0)])
def test_cepstra_and_mel_filters_of_empty_axes(both, shape):  # noqa: F811
    samples = [RAMPS[3], np.zeros(shape, np.float32)]
    for axis in (0, 1):
        assert_equal(both, lambda lib: lib.fn.mfcc(lib.source(samples), axis=axis), 2, rtol=1e-4)
    assert_equal(both, lambda lib: lib.fn.mel_filter_bank(lib.source(samples), nfilter=3), 2, rtol=1e-4)


@pytest.mark.parametrize("decibels", [-1e30, -500.0, 0.0, 3.0, 500.0, 3e38])
def test_cut_offs_of_any_number_of_decibels(both, decibels):  # noqa: F811
    signal = np.int16([0, 1, 30, 500, 4, 0, 0])
    for reference in ({}, {"reference_power": 2.0}):
        options = {"window_length": 2, "cutoff_db": decibels} | reference
        assert_equal(both, lambda lib: tuple(lib.fn.nonsilent_region(lib.source([signal]), **options)), told=str(options))
