"""Calls that have another result here than in DALI, as docs/differences.md says. Calls that crash DALI or never end there run here only."""

# ruff: noqa: B023 - graph functions are called in the iteration that defines them

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("nvidia.dali")

from test_surface_behaviour_parity import Library, both, outcome  # noqa: F401 - `both` is a fixture

RNG = np.random.default_rng(7)
IMAGE = RNG.integers(0, 255, (6, 34, 3), np.uint8)


def run(library: Library, graph, batch_size: int = 1) -> list[np.ndarray]:
    """The samples of the first output."""
    return library.run(graph, batch_size)[0][0]


def refused(library: Library, graph) -> bool:
    return isinstance(outcome(library, graph, 1), Exception)


def test_source_dimensions_given_as_a_node(both):  # noqa: F811
    ours, theirs = both
    data, order = np.arange(6.0, dtype=np.float32).reshape(2, 3), np.int32([1, 0])
    for name, extent in ((ours, (3, 2)), (theirs, (2, 3))):
        for operator in ("reshape", "reinterpret"):
            graph = lambda lib: getattr(lib.fn, operator)(lib.source([data]), src_dims=lib.source([order]), rel_shape=[1.0, 1.0])  # noqa: E731
            assert run(name, graph)[0].shape == extent


def test_mirrored_images_of_other_layouts(both):  # noqa: F811
    """DALI counts the axes from the first one, so a horizontal mirror turns planes upside down, and a vertical one does nothing."""
    ours, theirs = both
    planes = np.ascontiguousarray(IMAGE.transpose(2, 0, 1))

    def mirrored(library, mirror):
        options = {"resize_x": 12.0, "resize_y": 11.0, "mirror": mirror, "interp_type": library.types.INTERP_NN}
        return run(library, lambda lib: lib.fn.resize_crop_mirror(lib.source([planes], "CHW"), **options))[0]

    plain = mirrored(ours, 0)
    np.testing.assert_array_equal(plain, mirrored(theirs, 0))
    for mirror, here, there in ((1, [2], [1]), (2, [1], []), (3, [1, 2], [1])):
        np.testing.assert_array_equal(mirrored(ours, mirror), np.flip(plain, here))
        np.testing.assert_array_equal(mirrored(theirs, mirror), np.flip(plain, there))


def test_scales_that_round_to_the_extent(both):  # noqa: F811
    """The plane of an image is resized as without an axis of channels. DALI does not resample a first axis that keeps its extent."""
    ours, theirs = both
    results = []
    for data in (IMAGE[..., 0].copy(), IMAGE[..., :1].copy()):
        for library in (ours, theirs):
            results.append(run(library, lambda lib: lib.fn.tensor_resize(lib.source([data]), scales=[0.9222]))[0].reshape(6, 31))
    plane, plane_there, image, image_there = (result.astype(int) for result in results)
    assert np.abs(plane - plane_there).max() <= 1, "halves are rounded in another way"
    np.testing.assert_array_equal(plane, image)
    assert np.abs(plane_there - image_there).max() > 5


def test_numbers_beside_nan_and_infinity(both):  # noqa: F811
    """A weight of 0 times NaN is NaN in `resize`; transforms do not multiply their implied last row."""
    row = np.float32([3, np.nan, 2, 3]).reshape(1, 4, 1)
    here, there = (run(lib, lambda lib: lib.fn.resize(lib.source([row], "HWC"), resize_x=4.0, resize_y=1.0))[0].ravel() for lib in both)
    np.testing.assert_array_equal(np.isnan(here), [True, True, True, False])
    np.testing.assert_array_equal(np.isnan(there), [False, True, True, False])
    shifts = [np.float32([[1, 2, 3], [4, 5, 6]]), np.float32([[1, 2, np.inf], [3, 4, 5]])]
    here, there = (run(lib, lambda lib: lib.fn.transforms.combine(*(lib.source([shift]) for shift in shifts)))[0] for lib in both)
    assert np.isnan(there[0, 0]) and not np.isnan(here).any() and here[0, 2] == np.inf
    np.testing.assert_allclose(here[1], there[1])


def test_range_beside_values(both):  # noqa: F811
    ours, theirs = both
    graph = lambda lib: lib.fn.random.uniform(range=[1.0, 2.0], values=lib.source([np.float32([7, 8])]), seed=1)  # noqa: E731
    assert refused(ours, graph) and run(theirs, graph)[0] in (7, 8)


def test_types_of_results(both):  # noqa: F811
    """More types than DALI's: nothing speaks against them."""
    ours, theirs = both
    numbers = np.int16([3, 0, 2])
    graphs = [
        lambda lib: lib.fn.random.coin_flip(dtype=lib.types.INT8, seed=1), lambda lib: lib.fn.constant(idata=[3], dtype=lib.types.FLOAT64),
        lambda lib: lib.fn.one_hot(lib.source([numbers]), num_classes=4, dtype=lib.types.BOOL),
        lambda lib: lib.fn.reductions.mean(lib.source([numbers]), dtype=lib.types.INT64),
        lambda lib: lib.fn.power_spectrum(lib.source([np.float32([[2], [3]])])),
    ]
    for graph in graphs:
        assert not refused(ours, graph) and refused(theirs, graph)
    assert run(ours, graphs[2])[0].tolist() == np.eye(4, dtype=bool)[[3, 0, 2]].tolist()
    assert run(ours, graphs[4])[0].tolist() == [[4], [9]]


@pytest.mark.parametrize("name, options", [
    ("equalize", {}), ("color_space_conversion", {"image_type": "RGB", "output_type": "BGR"}),
    ("clahe", {"tiles_x": 2, "tiles_y": 2, "clip_limit": 2.0}),
])  # fmt: skip
def test_images_without_pixels(both, name, options):  # noqa: F811
    ours, theirs = both
    empty = np.zeros((4, 0, 3), np.uint8)

    def graph(lib):
        given = {key: getattr(lib.types, value) if isinstance(value, str) else value for key, value in options.items()}
        return getattr(lib.fn, name)(lib.source([empty], "HWC"), **given)

    assert run(ours, graph)[0].shape == empty.shape and refused(theirs, graph)


def test_sizes_of_random_crops_that_are_not_positive(both):  # noqa: F811
    for size in ([0, 3], [-3, 4], [-3]):
        assert refused(both[0], lambda lib: lib.fn.random_resized_crop(lib.source([IMAGE], "HWC"), size=size, seed=3))


def test_signals_shorter_than_a_window(both):  # noqa: F811
    """DALI rounds the number of windows towards zero, so a signal that lacks less than a step has one window."""
    signal = np.ones(6, np.float32)
    graph = lambda lib: lib.fn.spectrogram(lib.source([signal]), window_length=7, window_step=3, center_windows=False)  # noqa: E731
    assert refused(both[0], graph) and not refused(both[1], graph)


def test_emphasis_behind_an_empty_sample(both):  # noqa: F811
    ramp, coefficients = np.arange(1, 6, dtype=np.float32) * 10, [np.float32(0.5), np.float32(0.25)]
    graph = lambda lib: lib.fn.preemphasis_filter(lib.source([ramp[:0], ramp]), preemph_coeff=lib.source(coefficients))  # noqa: E731
    here, there = (run(lib, graph, 2)[1] for lib in both)
    assert (here[0], there[0]) == (7.5, 5.0)
    np.testing.assert_array_equal(here[1:], there[1:])


def test_an_empty_mask_has_no_pixel(both):  # noqa: F811
    assert refused(both[0], lambda lib: lib.fn.segmentation.random_mask_pixel(lib.source([np.zeros((5, 0), np.int32)]), seed=1))


def test_channels_of_pasted_images(both):  # noqa: F811
    """DALI does not look at the number of channels, and reads and writes other memory."""
    assert refused(both[0], lambda lib: lib.fn.paste(lib.source([IMAGE[..., :2]], "HWC"), ratio=1.5, fill_value=[1, 2, 3]))


def test_masks_of_grids_without_height_and_width(both):  # noqa: F811
    assert refused(both[0], lambda lib: lib.fn.grid_mask(lib.source([IMAGE], "ABC")))
    (masked,) = run(both[0], lambda lib: lib.fn.grid_mask(lib.source([IMAGE[..., 0]], "HW"), tile=4))
    (coloured,) = run(both[0], lambda lib: lib.fn.grid_mask(lib.source([IMAGE], "HWC"), tile=4))
    np.testing.assert_array_equal(masked, coloured[..., 0])


def test_arrays_as_lists(both):  # noqa: F811
    """A constant list may be an array, of another type, too."""
    ours, theirs = both
    graphs = [
        lambda lib: lib.fn.lookup_table(lib.source([np.uint8([1, 2])]), keys=np.float32([1, 2]), values=[5.0, 6.0]),
        lambda lib: lib.fn.expand_dims(lib.source([np.uint8([1, 2])]), axes=np.int64([0, 1])),
        lambda lib: lib.fn.zeros(shape=np.float32([2, 3])),
    ]
    for graph in graphs:
        assert not refused(ours, graph) and refused(theirs, graph)


def test_fill_values_of_regions_that_leave_the_image(both):  # noqa: F811
    graph = lambda lib: lib.fn.erase(lib.source([IMAGE], "HWC"), anchor=[-9.0, -9.0], shape=[2.0, 2.0], fill_value=[1.0, 2.0])  # noqa: E731
    assert refused(both[0], graph) and not refused(both[1], graph)


def test_large_integers_are_rounded_as_floats(both):  # noqa: F811
    image = RNG.integers(-(2**31), 2**31, (31, 5, 3)).astype(np.int32)
    for graph in (
        lambda lib: lib.fn.rotate(lib.source([image], "HWC"), angle=33.0),
        lambda lib: lib.fn.gaussian_blur(lib.source([image], "HWC"), sigma=0.7),
    ):
        here, there = (run(lib, graph)[0].astype(np.float64) for lib in both)
        assert np.abs(here - there).max() <= 2.0**10


@pytest.mark.parametrize("policy", ["clamp", "wrap", "reflect_101", "reflect_1001"])
def test_windows_of_images_without_pixels(both, policy):  # noqa: F811
    """DALI divides by the extent, or reads other memory."""
    options = {"out_of_bounds_policy": policy, "fill_values": [7.0]}
    source = np.zeros((4, 0, 3), np.uint8)
    for graph in (
        lambda lib: lib.fn.crop(lib.source([source], "HWC"), crop=[3.0, 2.0], **options),
        lambda lib: lib.fn.slice(lib.source([source], "HWC"), start=[0, 0], shape=[3, 2], axes=[0, 1], **options),
    ):
        np.testing.assert_array_equal(run(both[0], graph)[0], np.zeros((3, 2, 3)))


def test_fill_values_beyond_32_bits(both):  # noqa: F811
    """Smaller numbers keep their low bits in both libraries."""
    for value in (-5.0, 300.7, 70_000.0, 1e10):

        def graph(lib):
            return lib.fn.one_hot(lib.source([np.int32([0, 0])]), num_classes=2, off_value=value, dtype=lib.types.UINT16)

        here, there = (int(run(lib, graph)[0][0, 1]) for lib in both)
        assert here == int(value) % 65536
        assert there == (0 if value > 2**31 else here)


def test_nearest_pixels_beside_a_filter_in_a_region(both):  # noqa: F811
    """Columns are repeated, rows are averaged. A row has its number as its value, so centres of the output's rows are known."""
    rows = np.tile(np.arange(7, dtype=np.float32)[:, None, None] * 10, (1, 7, 1))
    results = []
    for library in both:
        options = {"min_filter": library.types.INTERP_LINEAR, "mag_filter": library.types.INTERP_NN}
        options |= {"size": [4.0, 5.0], "roi_start": [1.0, 2.0], "roi_end": [6.0, 6.0]}
        (made,) = run(library, lambda lib: lib.fn.resize(lib.source([rows], "HWC"), **options))
        results.append(made[:, 0, 0])
    np.testing.assert_allclose(results[0], [11.25, 23.75, 36.25, 48.75], atol=0.5)
    np.testing.assert_allclose(results[1], [23.75, 36.25, 48.75, 48.75], atol=0.5)


def test_types_that_change_between_iterations_in_arithmetic(both):  # noqa: F811
    """A branch without samples gives no type. DALI keeps the type of the first iteration, and misreads the operand."""
    found = []
    for lib in both:

        @lib.top.pipeline_def(enable_conditionals=True, batch_size=1, num_threads=1, device_id=None, prefetch_queue_depth=1)
        def graph(lib=lib):
            turns = iter(range(9))
            condition = lib.fn.external_source(lambda: [np.bool_(next(turns) % 2)])
            x = lib.fn.external_source(lambda: [np.uint8([1, 2])])
            if condition:
                y = lib.fn.cast(x, dtype=lib.types.FLOAT)
            else:
                y = x
            return y + 1

        pipe = graph()
        pipe.build()
        found.append([np.array(pipe.run()[0].at(0)) for _ in range(2)])
    ours, theirs = found
    assert [a.dtype for a in ours] == [np.int32, np.float32] and [a.tolist() for a in ours] == [[2, 3]] * 2
    assert theirs[1].dtype == np.int32 and theirs[1].tolist() != [2, 3]


def test_empty_names_of_new_axes(both):  # noqa: F811
    ours, theirs = both
    graph = lambda lib: lib.fn.expand_dims(lib.source([IMAGE]), axes=[0], new_axis_names="")  # noqa: E731
    assert run(ours, graph)[0].shape == (1, *IMAGE.shape) and refused(theirs, graph)


def test_displacements_of_other_types_where_no_sample_is_masked(both):  # noqa: F811
    """DALI copies such batches. It refuses the types if a sample is masked."""
    ours, theirs = both
    image = IMAGE.astype(np.uint16)
    for operator in ("sphere", "water"):
        for masked in (0, 1):
            graph = lambda lib: getattr(lib.fn, operator)(lib.source([image], "HWC"), mask=lib.source([np.int32(masked)]))  # noqa: E731
            assert refused(ours, graph) and refused(theirs, graph) == bool(masked)


def test_windows_of_one_column_of_a_jpeg_with_halved_colours(both):  # noqa: F811
    """DALI's window differs from its own decoder of the whole picture."""
    pil, io = pytest.importorskip("PIL.Image"), pytest.importorskip("io")
    blocks = np.random.default_rng(1).integers(0, 255, (10, 10, 3), np.uint8).repeat(4, 0).repeat(4, 1)
    stream = io.BytesIO()
    pil.fromarray(blocks).save(stream, "JPEG", subsampling=2, quality=90)
    data = [np.frombuffer(stream.getvalue(), np.uint8)]
    window = {"start": [0.0, 0.0], "shape": [1.0, 40.0], "normalized_anchor": False, "normalized_shape": False, "axis_names": "WH"}
    off = []
    for library in both:
        whole = run(library, lambda lib: lib.fn.decoders.image(lib.source(data)))[0].astype(int)
        column = run(library, lambda lib: lib.fn.decoders.image_slice(lib.source(data), **window))[0].astype(int)
        off.append(np.abs(column - whole[:, :1]).max())
    assert off[0] == 0 and off[1] > 0


def test_a_python_function_that_returns_more_than_the_operator_has_outputs(both):  # noqa: F811
    """DALI takes the first result if there is one output. It refuses three results for two outputs."""
    ours, theirs = both
    data = [np.int32([1, 2])]

    def graph(lib):
        return lib.fn.python_function(lib.source(data), function=lambda x: (x, x + 1, x + 2))

    assert refused(ours, graph) and run(theirs, graph)[0].tolist() == [1, 2]
