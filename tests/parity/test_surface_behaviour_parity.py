"""Unusual arguments beside DALI's behaviour: calls that DALI accepts are accepted and give the same results."""

# ruff: noqa: B023, C408 - graph functions are called in the iteration that defines them; keyword arguments read as in calls

from __future__ import annotations

import importlib
import io
from typing import Any

import numpy as np
import pytest
from helpers.images import tiff
from PIL import Image

pytest.importorskip("nvidia.dali")

OURS, DALI = "asyncdali", "nvidia.dali"


class Library:
    """One of the two libraries, with the modules that its programs use."""

    def __init__(self, name: str):
        self.name = name
        self.top, self.fn, self.types = (importlib.import_module(name + part) for part in ("", ".fn", ".types"))

    def source(self, samples: Any, layout: str | None = None) -> Any:
        return self.fn.external_source(lambda: list(samples), layout=layout)

    def run(self, graph: Any, batch_size: int, **options: Any) -> list[tuple[list[np.ndarray], str]]:
        """Samples and layout of each output of one iteration."""

        @self.top.pipeline_def(batch_size=batch_size, num_threads=1, device_id=None, prefetch_queue_depth=1, **options)
        def pipeline() -> Any:
            return graph(self)

        built = pipeline()
        built.build()
        outputs = built.run()
        return [([np.array(output.at(i)) for i in range(len(output))], output.layout()) for output in outputs]


@pytest.fixture(scope="module")
def both() -> tuple[Library, Library]:
    return Library(OURS), Library(DALI)


def outcome(library: Library, graph: Any, batch_size: int, **options: Any) -> Any:
    try:
        return library.run(graph, batch_size, **options)
    except Exception as error:
        return error


def assert_equal(both: tuple[Library, Library], graph: Any, batch_size: int = 1, rtol: float = 0, told: str = "") -> None:
    """Both libraries return the same result, or both raise a RuntimeError, ValueError or TypeError."""
    ours, theirs = (outcome(library, graph, batch_size) for library in both)
    if isinstance(theirs, Exception) or isinstance(ours, Exception):
        assert isinstance(theirs, Exception), f"{told}: ours refuses: {ours}"
        assert isinstance(ours, (RuntimeError, ValueError, TypeError)), f"{told}: DALI refuses, ours gives {ours}: {theirs}"
        return
    assert [layout for _, layout in ours] == [layout for _, layout in theirs], told
    for (a, _), (b, _) in zip(ours, theirs, strict=True):
        for x, y in zip(a, b, strict=True):
            assert (x.shape, x.dtype) == (y.shape, y.dtype), told
            np.testing.assert_allclose(x, y, rtol=rtol, atol=0, err_msg=told) if rtol else np.testing.assert_array_equal(x, y, told)


def assert_works(both: tuple[Library, Library], graph: Any, batch_size: int = 1, rtol: float = 0) -> None:
    """DALI accepts the call, and both libraries return the same result."""
    assert not isinstance(outcome(both[1], graph, batch_size), Exception)
    assert_equal(both, graph, batch_size, rtol)


def image(height: int = 4, width: int = 5, channels: int = 3, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 255, (height, width, channels), np.uint8)


# ---------------------------------------------------------------------------------------------------------------- stored pipelines


def _streams(both: tuple[Library, Library], restore: Any) -> list[Any]:
    made = []
    for library in both:

        @library.top.pipeline_def(batch_size=2, num_threads=1, device_id=None, seed=5)
        def pipeline(fn: Any = library.fn) -> Any:
            return fn.random.uniform(range=[0, 1]), fn.random.coin_flip(seed=3)

        first = pipeline()
        first.build()
        again = restore(library.top.Pipeline, first.serialize())
        again.build()
        made.append([[[np.array(output.at(i)).item() for i in range(2)] for output in again.run()] for _ in range(3)])
        if library.name == OURS:
            made.append([[[np.array(output.at(i)).item() for i in range(2)] for output in first.run()] for _ in range(3)])
    return made


def test_a_restored_pipeline_without_a_seed_replays_the_stored_one(both):
    def restore(Pipeline, stored):
        pipeline = Pipeline(2, 1, None)
        pipeline.deserialize_and_build(stored)
        return pipeline

    again, first, theirs = _streams(both, restore)
    assert again == first == theirs
    again, first, theirs = _streams(both, lambda Pipeline, stored: Pipeline.deserialize(stored))
    assert again == first == theirs


def test_a_seed_given_to_a_restored_pipeline_replaces_the_stored_one(both):
    def restore(Pipeline, stored):
        pipeline = Pipeline(2, 1, None, seed=9)
        pipeline.deserialize_and_build(stored)
        return pipeline

    again, first, theirs = _streams(both, restore)
    assert again == theirs and again[0][0] != first[0][0]
    assert [row[1] for row in again] == [row[1] for row in first], "a seed of the operator's own stays"


# --------------------------------------------------------------------------------------------------------------- origin and layout


def test_origin_of_pasted_samples(both, tmp_path):
    paths = [str(tmp_path / f"{k}.png") for k in range(4)]
    for k, path in enumerate(paths):
        Image.fromarray(image(8, 8, seed=k)).save(path)
    origins = []
    for library in both:

        @library.top.pipeline_def(batch_size=3, num_threads=1, device_id=None)
        def pipeline(fn: Any = library.fn, source: Any = library.source) -> Any:
            encoded, _ = fn.readers.file(files=paths)
            pictures = fn.decoders.image(encoded)
            ids = source([np.int32([0, 1]), np.int32([1]), np.int32([2, 2, 1])])
            pasted = (
                fn.multi_paste(pictures, in_ids=np.int32([2, 0, 0]), output_size=[10, 10]), fn.multi_paste(pictures, output_size=[10, 10]),
                fn.multi_paste(pictures, in_ids=ids, output_size=[10, 10]), fn.multi_paste(pictures, pictures, output_size=[10, 10]),
            )  # fmt: skip
            return (*pasted, fn.get_property(pasted[2], key="source_info"))

        built = pipeline()
        built.build()
        outputs = built.run()
        named = [[output[i].source_info() for i in range(3)] for output in outputs[:4]]
        origins.append((named, [bytes(np.array(outputs[4].at(i))).decode() for i in range(3)]))
    assert origins[0] == origins[1]
    assert origins[0][0][0] == [f"{paths[2]};{paths[0]};{paths[0]}"] * 3


@pytest.mark.parametrize("shape", [None, [], [1], [2], [2, 2]])
@pytest.mark.parametrize("data, layout", [(image(4, 4), "HWC"), (np.arange(5), "X"), (np.arange(6).reshape(3, 2), None)])
def test_layout_of_chosen_elements(both, shape, data, layout):
    given = {} if shape is None else {"shape": shape}
    assert_works(both, lambda lib: lib.fn.random.choice(lib.source([data, data], layout), seed=1, **given), 2)


@pytest.mark.parametrize("layout", ["HHC", "HWW", "AAB", "hhc"])
def test_layouts_with_repeated_letters(both, layout):
    """A repeated letter is a name of axes only. Both libraries refuse it where an operator needs the meaning of the axes."""
    data = image(4, 4)
    for graph in (
        lambda lib: lib.source([data], layout), lambda lib: lib.fn.reshape(lib.source([data], "HWC"), layout=layout),
        lambda lib: lib.fn.reinterpret(lib.source([data], "HWC"), layout=layout), lambda lib: lib.fn.flip(lib.source([data], layout)),
        lambda lib: lib.fn.resize(lib.source([data], layout), size=[2, 2]),
        lambda lib: lib.fn.crop(lib.source([data], layout), crop=[2, 2]),
        lambda lib: lib.fn.crop_mirror_normalize(lib.source([data], "HWC"), output_layout=layout),
        lambda lib: lib.fn.slice(lib.source([data], "HWC"), start=[0] * 3, shape=[1] * 3, axis_names=layout),
        lambda lib: lib.fn.reductions.sum(lib.source([data], "HWC"), axis_names=layout),
        lambda lib: lib.fn.transpose(lib.source([data], "HWC"), perm=[2, 0, 1], output_layout=layout),
        lambda lib: lib.fn.element_extract(lib.source([data], layout), element_map=[0]),
    ):  # fmt: skip
        assert_equal(both, graph, told=layout)


# ------------------------------------------------------------------------------------------------------------------------- images


def _encoded(kind: str, mode: str, **options: Any) -> np.ndarray:
    colours = np.random.default_rng(3).integers(0, 255, (6, 5, 4 if mode == "RGBA" else 3), np.uint8)
    picture = Image.fromarray(np.kron(colours, np.ones((4, 4, 1), np.uint8)))
    file = io.BytesIO()
    picture.convert(mode).save(file, kind, **options)
    return np.frombuffer(file.getvalue(), np.uint8)


FILES = [("PNG", mode, {}) for mode in ("RGBA", "RGB", "L", "LA", "P", "1")]
FILES += [("JPEG", mode, {}) for mode in ("RGB", "L", "CMYK")] + [("TIFF", mode, {}) for mode in ("RGBA", "RGB", "L", "LA")]
FILES += [("WEBP", mode, {"lossless": lossless}) for mode in ("RGBA", "RGB") for lossless in (True, False)]
FILES += [("BMP", "RGB", {}), ("BMP", "L", {}), ("BMP", "P", {}), ("PPM", "RGB", {}), ("PPM", "L", {}), ("JPEG2000", "RGB", {})]


@pytest.mark.parametrize("kind, mode, options", FILES)
def test_peeked_shapes_of_stored_channels(both, kind, mode, options):
    data = _encoded(kind, mode, **options)
    for image_type in ("ANY_DATA", "RGB", "GRAY", "YCbCr"):
        assert_works(both, lambda lib: lib.fn.peek_image_shape(lib.source([data]), image_type=getattr(lib.types, image_type)))


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
@pytest.mark.parametrize("channels, photometric", [(1, 1), (2, 1), (3, 2), (4, 2), (5, 2), (6, 2), (5, 1), (8, 1), (13, 1)])
def test_tiffs_of_many_channels(both, channels, photometric, dtype):
    data = np.random.default_rng(3).integers(0, np.iinfo(dtype).max, (5, 4, channels)).astype(dtype)
    for planar in (False, True):
        file = np.frombuffer(tiff(data, photometric, planar), np.uint8)

        def decoded(lib, output_type="ANY_DATA"):
            wanted = lib.types.UINT16 if dtype == np.uint16 else lib.types.UINT8
            encoded = lib.source([file])
            return lib.fn.decoders.image(encoded, output_type=getattr(lib.types, output_type), dtype=wanted)

        ((ours,), layout), = both[0].run(decoded, 1)
        np.testing.assert_array_equal(ours, data)
        assert layout == "HWC"
        if not planar:  # DALI's decoder refuses planar files of 2 or more than 4 channels, and reads other planar files of 16 bits wrongly.
            assert_works(both, decoded)
            if channels > 2:  # In files of two channels DALI reads beyond the second channel.
                assert_equal(both, lambda lib: decoded(lib, "RGB"))
        assert_works(both, lambda lib: lib.fn.peek_image_shape(lib.source([file]), image_type=lib.types.ANY_DATA))


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_tiffs_of_many_channels_with_a_predictor(both, dtype):
    data = np.random.default_rng(3).integers(0, np.iinfo(dtype).max, (5, 7, 6)).astype(dtype)

    def decoded(lib):
        wanted = lib.types.UINT16 if dtype == np.uint16 else lib.types.UINT8
        return lib.fn.decoders.image(lib.source([file]), output_type=lib.types.ANY_DATA, dtype=wanted)

    for predictor, compressed in ((2, True), (1, True), (2, False)):  # A predictor has no effect on uncompressed files.
        file = np.frombuffer(tiff(data, 2, predictor=predictor, compressed=compressed), np.uint8)
        assert_works(both, decoded)
        ((ours,), _), = both[0].run(decoded, 1)
        np.testing.assert_array_equal(ours, data)


# -------------------------------------------------------------------------------------------------------------------------- boxes


@pytest.mark.parametrize("excess", [6e-8, 1e-6])
def test_boxes_that_leave_the_image_by_rounding(both, excess):
    """ssd_random_crop equals DALI's. For random_bbox_crop DALI refuses such boxes, and asyncdali clips them (docs/differences.md)."""
    ours = both[0]
    for box, layout in (([-excess, 0.1, 0.5, 0.6], "xyXY"), ([0.1, 0.1, 1 + excess, 0.6], "xyXY"), ([0.5, 0.1, 0.5 + excess, 0.6], "xyWH")):
        boxes = np.float32([box])
        options = dict(bbox_layout=layout, seed=3, thresholds=[0.0], allow_no_crop=False, num_attempts=10)
        _, _, (left, _) = ours.run(lambda lib: tuple(lib.fn.random_bbox_crop(lib.source([boxes]), **options)), 1)
        assert all(((sample >= 0) & (sample <= 1)).all() for sample in left)
        if layout == "xyXY":
            labels = np.int32([1])
            assert_works(
                both, lambda lib: tuple(
                    lib.fn.ssd_random_crop(lib.source([image(20, 20)], "HWC"), lib.source([boxes]), lib.source([labels]), seed=4)
                ), rtol=3e-7,
            )  # fmt: skip
    with pytest.raises(RuntimeError, match="out of bounds"):
        ours.run(lambda lib: tuple(lib.fn.random_bbox_crop(lib.source([np.float32([[0, 0, 1.001, 1]])]))), 1)


@pytest.mark.parametrize("layout", ["", "HWC", "CHW", "ABC", "XYZ"])
def test_ssd_crops_of_any_layout(both, layout):
    boxes, labels = np.float32([[0.1, 0.1, 0.5, 0.6]]), np.int32([1])

    def graph(lib):
        made = lib.fn.ssd_random_crop(
            lib.source([image(20, 20)], layout or None), lib.source([boxes], "NC"), lib.source([labels], "N"), seed=3
        )
        return [lib.fn.reshape(output, layout="") for output in made]

    assert_works(both, lambda lib: tuple(lib.fn.cast(output, dtype=lib.types.FLOAT) for output in graph(lib)))


@pytest.mark.parametrize("layout", [None, "xyXY"[:2], "AB", "NC"])
def test_boxes_of_any_layout(both, layout):
    boxes = np.float32([[0.1, 0.1, 0.5, 0.6]])
    options = {"bbox_layout": "xyXY", "seed": 3, "thresholds": [0.0]}
    assert_works(both, lambda lib: tuple(lib.fn.random_bbox_crop(lib.source([boxes], layout), **options)))


MOST = 2**31 - 1


@pytest.mark.parametrize("dtype", [np.int32, np.uint8, np.int8, np.int16, np.uint16, np.uint32])
def test_extreme_labels_of_objects(both, dtype):
    mask = np.zeros((8, 8), dtype)
    mask[0, 0], mask[2:4, 2:4], mask[6, 6] = 1, 3, 9
    mask[4, 4], mask[6, 0], mask[7, 7] = np.iinfo(dtype).max, np.iinfo(dtype).min, 7
    for background in (0, 7, -1, MOST, -MOST - 1, int(np.iinfo(dtype).max), int(np.iinfo(dtype).min)):

        def graph(lib, background=background):
            made = []
            for seed in range(6):
                options = {"background": background, "seed": seed, "output_class": True}
                made += lib.fn.segmentation.random_object_bbox(lib.source([mask]), foreground_prob=1.0, **options)
            return tuple(made)

        assert_works(both, graph)


@pytest.mark.parametrize("k", [1, 2, 100, 0, -1, -MOST - 1])
def test_numbers_of_largest_objects(both, k):
    mask = np.zeros((10, 10), np.int32)
    mask[0:2, 0:2] = mask[4:9, 4:9] = mask[0, 9] = mask[9, 0:2] = 1
    for seed in range(3):
        options = {"k_largest": k, "seed": seed, "foreground_prob": 1.0}
        assert_equal(both, lambda lib: tuple(lib.fn.segmentation.random_object_bbox(lib.source([mask]), **options)))


# -------------------------------------------------------------------------------------------------------------- windows and padding


@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize("count", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("pad", [False, True])
def test_values_per_channel_of_the_padded_output(both, channels, count, pad):
    data, values = image(2, 2, channels), [float(k + 1) for k in range(count)]
    for layout in ("CHW", "HWC"):
        for given in ({"mean": values, "std": [2.0]}, {"std": values}, {"mean": values, "std": values}):
            options = {"pad_output": pad, "output_layout": layout, **given}
            assert_equal(both, lambda lib: lib.fn.crop_mirror_normalize(lib.source([data], "HWC"), **options), told=str(options))
        options = {"pad_output": pad, "output_layout": layout, "fill_values": values, "crop": (3, 3), "out_of_bounds_policy": "pad"}
        assert_equal(both, lambda lib: lib.fn.crop_mirror_normalize(lib.source([data], "HWC"), **options), told=str(options))


AXES = [[0], [1], [0, 1], [1, 0], [-1], [-2], [2], [-3], [0, 0], [1, -1], []]


@pytest.mark.parametrize("axes", AXES)
def test_axes_of_pad_and_slice(both, axes):
    data, more = np.arange(6, dtype=np.int32).reshape(2, 3), np.zeros((4, 5), np.int32)
    count = len(axes) or 2

    def ints(lib, values):
        return lib.source([np.array(values, np.int32)])

    for told, graph in {
        "pad": lambda lib: lib.fn.pad(lib.source([data]), axes=axes, shape=[4] * count),
        "pad, nodes": lambda lib: lib.fn.pad(lib.source([data]), axes=ints(lib, axes), shape=ints(lib, [4] * count)),
        "pad, aligned": lambda lib: lib.fn.pad(lib.source([data]), axes=axes, align=[4] * count),
        "pad, no values": lambda lib: lib.fn.pad(lib.source([data]), axes=axes, shape=ints(lib, [])),
        "slice": lambda lib: lib.fn.slice(lib.source([data]), start=[0] * count, shape=[1] * count, axes=axes),
        "slice, node": lambda lib: lib.fn.slice(lib.source([data]), start=[0] * count, shape=[1] * count, axes=ints(lib, axes)),
        "slice, inputs": lambda lib: lib.fn.slice(lib.source([data]), ints(lib, [0] * count), ints(lib, [1] * count), axes=axes),
        "slice, no values": lambda lib: lib.fn.slice(lib.source([data]), start=ints(lib, []), shape=[1] * count, axes=axes),
    }.items():
        assert_equal(both, graph, told=f"{told} {axes}")
    assert_equal(both, lambda lib: lib.fn.pad(lib.source([data, more]), axes=lib.source([np.array(axes, np.int32)] * 2)), 2)


def test_samples_with_different_numbers_of_axes(both):
    data, more = np.arange(6, dtype=np.int32).reshape(2, 3), np.zeros((4, 5), np.int32)

    def rows(lib, *values):
        return lib.source([np.array(value, np.int32) for value in values])

    for graph in (
        lambda lib: lib.fn.pad(lib.source([data, data]), axes=rows(lib, [0], [0, 1]), shape=rows(lib, [4], [3, 4])),
        lambda lib: lib.fn.pad(lib.source([data, more]), axes=rows(lib, [0], [0, 1])),
        lambda lib: lib.fn.pad(lib.source([data, more]), axes=rows(lib, [-1], [-2]), align=4),
        lambda lib: lib.fn.slice(
            lib.source([data, data]), axes=rows(lib, [0], [0, 1]), start=rows(lib, [1], [1, 1]), shape=rows(lib, [1], [1, 2])
        ),
        lambda lib: lib.fn.slice(lib.source([data, data]), axes=rows(lib, [-1], [-2]), rel_start=[0.5], rel_shape=[0.5]),
    ):  # fmt: skip
        assert_works(both, graph, 2)


def test_regions_of_samples_without_values(both, tmp_path):
    for name, first in (("a.npy", 0), ("b.npy", 12)):
        np.save(tmp_path / name, np.arange(first, first + 12, dtype=np.int32).reshape(3, 4))

    def rows(lib, *values, dtype=np.int32):
        return lib.source([np.array(value, dtype) for value in values])

    for told, options in {
        "one": lambda lib: dict(roi_start=rows(lib, [1, 1], [])), "both": lambda lib: dict(roi_start=rows(lib, [], [])),
        "axes": lambda lib: dict(roi_start=rows(lib, [1], []), roi_axes=[0]),
        "shape": lambda lib: dict(roi_start=rows(lib, [1, 1], [1, 1]), roi_shape=rows(lib, [1, 1], [])),
        "end": lambda lib: dict(roi_start=rows(lib, [1, 1], [1, 1]), roi_end=rows(lib, [2, 2], [])),
        "relative": lambda lib: dict(rel_roi_start=rows(lib, [0.5, 0.5], [], dtype=np.float32)),
        "none": lambda lib: dict(roi_start=[]), "nothing left": lambda lib: dict(roi_start=rows(lib, [1, 1], [3, 4])),
        "negative axis": lambda lib: dict(roi_start=rows(lib, [1], [2]), roi_axes=[-1]),
        "wrong axis": lambda lib: dict(roi_start=rows(lib, [1], [2]), roi_axes=[2]),
        "beyond": lambda lib: dict(roi_start=rows(lib, [1, 1], [5, 1])),
        "padded": lambda lib: dict(roi_start=rows(lib, [1, 1], [5, 1]), out_of_bounds_policy="pad", fill_value=7),
    }.items():  # fmt: skip
        files = {"file_root": str(tmp_path), "files": ["a.npy", "b.npy"]}
        assert_equal(both, lambda lib: lib.fn.readers.numpy(**files, **options(lib)), 2, told=told)


def test_resizing_to_impossible_sizes_is_refused():
    ours = Library(OURS)
    for size in (10**6, 10**9, 2**31, 1e12, 1e20, float("inf"), float("nan")):
        with pytest.raises(RuntimeError, match=r"resize|memory|size") as caught:
            ours.run(lambda lib: lib.fn.resize(lib.source([image()], "HWC"), size=[size, size]), 1)
        assert not isinstance(caught.value, MemoryError)


# ----------------------------------------------------------------------------------------------------------------- other operators


@pytest.mark.parametrize("shape", [(40,), (40, 1), (1, 40), (1, 40, 1), (1, 1, 1, 40), (1,), (1, 1), (), (2, 20), (1, 0)])
def test_spectrograms_of_any_rank(both, shape):
    data = np.sin(np.arange(40, dtype=np.float32) / 3)[: int(np.prod(shape))].reshape(shape)
    options = dict(nfft=8, window_length=8, window_step=8)
    # Sums are added in another order (docs/differences.md), and the smallest results are differences of large numbers.
    assert_equal(both, lambda lib: lib.fn.spectrogram(lib.source([data]), **options), rtol=1e-4)


@pytest.mark.parametrize(
    "border",
    ["101", "1001", "reflect_101", "reflect_1001", "REFLECT_101", "clamp", "edge", "Clamp", "wrap", "constant", "fill", "pad", "reflect",
     "symmetric", "isolated", ""],
)  # fmt: skip
def test_names_of_borders(both, border):
    data, weights = np.arange(12, dtype=np.float32).reshape(3, 4, 1), np.arange(9, dtype=np.float32).reshape(3, 3)  # exact sums
    assert_equal(both, lambda lib: lib.fn.filter(lib.source([data], "HWC"), lib.source([weights]), border=border), told=border)


@pytest.mark.parametrize("values", [5, [1, 2, 3], [[1], [2]], [[1, 2, 3], [4, 5, 6]], [7], [[[1, 2, 3], [1, 2, 3]]]])
def test_values_that_are_broadcast(both, values):
    data, given = np.zeros((2, 3), np.int32), np.array(values, np.int32)
    layout = "ABC"[: given.ndim] or None
    assert_works(both, lambda lib: lib.fn.full_like(lib.source([data], "HW"), lib.source([given], layout)))
    assert_works(both, lambda lib: lib.fn.full(lib.source([given], layout), shape=[2, 3]))
    if given.ndim < 2:
        assert_works(both, lambda lib: (lib.fn.full_like(lib.source([data], "HW"), values), lib.fn.full(values, shape=[2, 3])))


def test_shapes_of_filled_samples(both):
    for graph in (
        lambda lib: lib.fn.zeros_like(lib.source([np.zeros((2, 3), np.int32)], "HW")),
        lambda lib: lib.fn.ones_like(lib.source([np.zeros((2, 3), np.int32)], "HW"), dtype=lib.types.FLOAT),
        lambda lib: lib.fn.full_like(lib.source([np.int32(3)]), 4),
        lambda lib: lib.fn.full_like(lib.source([np.zeros((0, 3), np.int32)]), 4),
        lambda lib: lib.fn.full(3, shape=[]), lambda lib: lib.fn.full(3, shape=[0, 2]),
        lambda lib: lib.fn.full(lib.source([np.arange(3)], "C"), shape=[1, 3]),
    ):  # fmt: skip
        assert_works(both, graph)


@pytest.mark.parametrize(
    "grid", [{}, {"blocks": [32, 32, 1], "threads_per_block": [32, 16, 1]}, {"blocks": [1]}, {"threads_per_block": [4, 4, 1]}]
)
@pytest.mark.filterwarnings("ignore:numba_function")
def test_a_grid_given_to_a_function_on_the_cpu(both, grid):
    def double(out, data):
        out[:] = 2 * data

    def graph(lib):
        function = importlib.import_module(lib.name + ".plugin.numba.fn.experimental").numba_function
        types = {"out_types": [lib.types.UINT8], "in_types": [lib.types.UINT8], "outs_ndim": [3], "ins_ndim": [3]}
        return function(lib.source([image(2, 2)]), run_fn=double, batch_processing=False, **types, **grid)

    assert_works(both, graph)


# ------------------------------------------------------------------------------------------------------------------------- frames

CLIP = np.random.default_rng(0).integers(0, 255, (3, 6, 5, 3), np.uint8)
WEIGHTS = np.random.default_rng(1).random((3, 3, 3), np.float32) / 9


def frames(lib: Library, values: Any, dtype: Any = np.float32) -> Any:
    return lib.fn.per_frame(lib.source([np.array(values, dtype)]))


PER_FRAME = {
    "sigma": lambda lib, clip: lib.fn.gaussian_blur(clip, sigma=frames(lib, [0.5, 1, 2])),
    "sigmas": lambda lib, clip: lib.fn.gaussian_blur(clip, sigma=frames(lib, [[0.5, 1], [1, 0.3], [2, 1]])),
    "window_size": lambda lib, clip: lib.fn.gaussian_blur(clip, window_size=frames(lib, [3, 5, 7], np.int32)),
    "one sigma": lambda lib, clip: lib.fn.gaussian_blur(clip, sigma=frames(lib, [0.7])),
    "two sigmas": lambda lib, clip: lib.fn.gaussian_blur(clip, sigma=frames(lib, [0.7, 0.1])),
    "derivatives": lambda lib, clip: lib.fn.laplacian(clip, window_size=frames(lib, [3, 5, 7], np.int32), dtype=lib.types.FLOAT),
    "smoothing": lambda lib, clip: lib.fn.laplacian(
        clip, window_size=3, smoothing_size=frames(lib, [1, 3, 5], np.int32), dtype=lib.types.FLOAT),
    "scale": lambda lib, clip: lib.fn.laplacian(clip, scale=frames(lib, [1, 0.3, 0.5]), dtype=lib.types.FLOAT),
    "filters": lambda lib, clip: lib.fn.filter(clip, frames(lib, WEIGHTS), dtype=lib.types.FLOAT),
    "filters, anchors": lambda lib, clip: lib.fn.filter(
        clip, frames(lib, WEIGHTS), anchor=frames(lib, [[0, 0], [1, 1], [2, 1]], np.int32), dtype=lib.types.FLOAT),
    "anchors": lambda lib, clip: lib.fn.filter(
        clip, lib.source([WEIGHTS[0]]), anchor=frames(lib, [[0, 0], [1, 1], [2, 1]], np.int32), dtype=lib.types.FLOAT),
    "fill values": lambda lib, clip: lib.fn.filter(
        clip, lib.source([WEIGHTS[0]]), frames(lib, [0, 100, 200], np.uint8), border="constant", dtype=lib.types.FLOAT),
    "filters by layout": lambda lib, clip: lib.fn.filter(clip, lib.source([WEIGHTS], "FHW"), dtype=lib.types.FLOAT),
    "two filters": lambda lib, clip: lib.fn.filter(clip, frames(lib, WEIGHTS[:2])),
    "one filter": lambda lib, clip: lib.fn.filter(clip, frames(lib, WEIGHTS[:1]), dtype=lib.types.FLOAT),
    "an image, filters": lambda lib, clip: lib.fn.filter(lib.source([CLIP[0]], "HWC"), frames(lib, WEIGHTS), dtype=lib.types.FLOAT),
}  # fmt: skip


@pytest.mark.parametrize("told", PER_FRAME)
def test_filters_with_arguments_per_frame(both, told):
    # Up to 49 products of numbers up to 255 are added in another order: a relative bound of 1e-4 and an absolute one of 1e-3.
    ours, theirs = (outcome(library, lambda lib: PER_FRAME[told](lib, lib.source([CLIP], "FHWC")), 1) for library in both)
    if isinstance(theirs, Exception):
        assert isinstance(ours, RuntimeError)
        return
    (((a,), layout),), (((b,), expected),) = ours, theirs
    assert (layout, a.dtype, a.shape) == (expected, b.dtype, b.shape)
    np.testing.assert_allclose(a.astype(np.float64), b.astype(np.float64), rtol=1e-4, atol=1 if a.dtype == np.uint8 else 1e-3)


REGIONS = {
    "one frame for all": dict(in_ids=[0]), "two": dict(in_ids=[0, 1]), "all": dict(in_ids=[0, 1, 2]),
    "of the other sample": dict(in_ids=[5]),
    "beyond": dict(in_ids=[0, 6]), "each its own": {}, "anchors": dict(out_anchors=([[[1, 1]], [[1, 0]], [[2, 2]]], np.int32)),
    "anchors of one": dict(in_ids=[0, 3], out_anchors=([[[0, 0], [1, 1]], [[1, 0], [2, 1]], [[2, 2], [0, 1]]], np.int32)),
    "shapes": dict(
        in_ids=[0], out_anchors=([[[1, 1]], [[1, 0]], [[2, 2]]], np.int32), shapes=([[[1, 1]], [[1, 2]], [[2, 2]]], np.int32)),
    "relative": dict(
        in_ids=[0], in_anchors_rel=([[[0.1, 0.1]], [[0.1, 0]], [[0.2, 0.2]]], np.float32),
        shapes_rel=([[[0.5, 0.5]], [[0.5, 0.2]], [[0.2, 0.2]]], np.float32)),
    "repeated": dict(in_ids=[0], out_anchors=([[[1, 1]]], np.int32)), "too few": dict(in_ids=[0], out_anchors=([[[1, 1]]] * 2, np.int32)),
    "ids per frame": dict(in_ids=([[0], [1], [2]], np.int32)),
}  # fmt: skip


@pytest.mark.parametrize("told", REGIONS)
def test_pasting_with_regions_per_frame(both, told):
    clips = [CLIP, CLIP[::-1].copy()]

    def graph(lib):
        options = {}
        for name, value in REGIONS[told].items():
            if isinstance(value, tuple):
                options[name] = lib.fn.per_frame(lib.source([np.array(value[0], value[1])] * 2))
            else:
                options[name] = lib.source([np.array(value, np.int32)] * 2)
        return lib.fn.multi_paste(lib.source(clips, "FHWC"), output_size=[8, 8], **options)

    # DALI's operator fails if a batch has more frames than the batch size. 8 suffice for 2 samples of 3 frames.
    assert_equal(both, graph, 8, told=told)


def test_pad_mode_as_a_node_is_refused(both):
    data = np.zeros(8, np.uint8)
    for library in both:
        with pytest.raises((RuntimeError, TypeError, ValueError)):
            library.run(lambda lib: lib.fn.decoders.video(lib.source([data]), pad_mode=lib.source([np.int32(1)])), 1)


# ------------------------------------------------------------------------------------------------------------- tensors and devices


def test_dlpack_follows_the_array_api():
    """`__dlpack__` takes all arguments of the array API standard, as NumPy 2 and torch pass them. DALI's method takes `stream` only."""
    tensors = [importlib.import_module(name + ".tensors").TensorCPU(np.arange(6, dtype=np.float32).reshape(2, 3)) for name in (OURS, DALI)]
    ours, theirs = tensors
    np.testing.assert_array_equal(np.from_dlpack(ours), np.from_dlpack(theirs))
    assert "dltensor_versioned" in repr(ours.__dlpack__(max_version=(1, 0))) and '"dltensor"' in repr(ours.__dlpack__(max_version=(0, 8)))
    assert '"dltensor"' in repr(ours.__dlpack__()) and '"dltensor"' in repr(theirs.__dlpack__())
    for options in ({"dl_device": (1, 0)}, {"max_version": (1, 0), "dl_device": (1, 0), "copy": None}, {"copy": False}, {"copy": True}):
        ours.__dlpack__(**options)
    copied = np.from_dlpack(ours, copy=True, device="cpu")
    assert not np.shares_memory(copied, np.asarray(ours)) and np.shares_memory(np.from_dlpack(ours, copy=False), np.asarray(ours))
    with pytest.raises(BufferError):
        ours.__dlpack__(dl_device=(2, 0))


def test_layouts_of_outputs(both):
    data = image()
    for library in both:
        options = {"output_layout": ["HWC"], "output_dtype": [library.types.UINT8], "output_ndim": [3]}
        assert library.run(lambda lib: lib.source([data], "HWC"), 1, **options)[0][1] == "HWC"
        for layout in (None, "CHW"):
            with pytest.raises(RuntimeError, match="layout"):
                library.run(lambda lib: lib.source([data], layout), 1, **options)


@pytest.mark.filterwarnings("ignore")
def test_branches_with_data_on_a_gpu():
    """Branches run on the host device, where DALI needs a GPU. The condition itself is on the CPU in both libraries."""

    ours = Library(OURS)
    clips = [np.random.default_rng(k).integers(0, 255, (2, 6, 5, 3), np.uint8) for k in range(4)]

    def graph(on_gpu):
        @ours.top.pipeline_def(batch_size=4, num_threads=1, device_id=0, enable_conditionals=True)
        def pipeline():
            video = ours.source(clips, "FHWC")
            video = video.gpu() if on_gpu else video
            sigma = ours.fn.per_frame(np.float32([0.5, 2]))
            bright = ours.source([np.bool_(k % 2) for k in range(4)])
            if bright:
                video = ours.fn.gaussian_blur(video, sigma=sigma)
                video = ours.fn.filter(video, ours.source([WEIGHTS[0]] * 4), anchor=ours.fn.per_frame(np.int32([[0, 1], [2, 2]])))
            else:
                video = ours.fn.laplacian(video, window_size=ours.fn.per_frame(np.int32([3, 5])))
            return ours.fn.multi_paste(video, out_anchors=ours.fn.per_frame(np.int32([[[0, 1]], [[2, 0]]])), output_size=[9, 8])

        with pipeline() as built:
            (output,) = built.run()
            return [np.array(sample) for sample in output.as_cpu()]

    for a, b in zip(graph(False), graph(True), strict=True):
        np.testing.assert_array_equal(a, b)


# ---------------------------------------------------------------------------------------------------------------- random arguments


def test_random_axes_of_pad_and_slice(both):
    """In 60 batches, every sample has its own list of axes. The lists differ in length."""
    rng = np.random.default_rng(11)
    for _ in range(60):
        ndim, count = int(rng.integers(1, 4)), 3
        samples = [rng.integers(0, 99, rng.integers(2, 6, ndim)).astype(np.int32) for _ in range(count)]
        axes = [rng.permutation(ndim)[: rng.integers(0, ndim + 1)].astype(np.int32) for _ in range(count)]
        axes = [np.where(rng.random(len(row)) < 0.3, row - ndim, row).astype(np.int32) for row in axes]
        lengths = [len(row) or ndim for row in axes]
        few = [rng.integers(0, 2, length).astype(np.int32) for length in lengths]
        many = [rng.integers(0, 3, length).astype(np.int32) for length in lengths]
        many = [row[:0] if rng.random() < 0.2 else row for row in many]
        parts = [rng.uniform(0, 0.5, length).astype(np.float32) for length in lengths]

        def graph(lib):
            data, chosen = lib.source(samples), lib.source(axes)
            return (
                lib.fn.pad(data, axes=chosen, shape=lib.source(many), fill_value=7), lib.fn.pad(data, axes=chosen, align=3),
                lib.fn.slice(data, axes=chosen, start=lib.source(few), shape=lib.source(few)),
                lib.fn.slice(data, axes=chosen, start=lib.source(few), end=lib.source(many), out_of_bounds_policy="pad"),
                lib.fn.slice(data, axes=chosen, rel_start=lib.source(parts), rel_shape=lib.source(parts)),
                lib.fn.slice(data, lib.source(few), lib.source(few), axes=chosen),
            )  # fmt: skip

        assert_equal(both, graph, count, told=f"{[sample.shape for sample in samples]} {axes} {few} {many} {parts}")


def test_random_regions_per_frame(both):
    """60 batches of clips, whose regions are per frame or per sample."""
    rng = np.random.default_rng(12)
    for _ in range(60):
        clips = [rng.integers(0, 255, (int(rng.integers(1, 4)), *rng.integers(4, 8, 2), 2), np.uint8) for _ in range(2)]
        total, pastes = sum(len(clip) for clip in clips), int(rng.integers(1, 4))
        named = {"in_ids": ([rng.integers(0, total, pastes).astype(np.int32) for _ in clips], False)}
        for name, most in (("in_anchors", 3), ("shapes", 3), ("out_anchors", 6)):
            if rng.random() < 0.7 or name == "shapes":
                per_frame = bool(rng.random() < 0.6)
                shape = [(len(clip) if rng.random() < 0.8 else 1,) if per_frame else () for clip in clips]
                named[name] = ([rng.integers(name == "shapes", most, (*one, pastes, 2)).astype(np.int32) for one in shape], per_frame)

        def graph(lib):
            nodes = {name: lib.source(values) for name, (values, _) in named.items()}
            nodes = {name: lib.fn.per_frame(node) if named[name][1] else node for name, node in nodes.items()}
            return lib.fn.multi_paste(lib.source(clips, "FHWC"), output_size=[10, 11], **nodes)

        assert_equal(both, graph, 16, told=f"{[clip.shape for clip in clips]} {named}")


def test_random_filters_per_frame(both):
    """40 batches of small whole numbers, so that every sum is exact."""
    rng = np.random.default_rng(13)
    for _ in range(40):
        shapes = [(int(rng.integers(1, 4)), *rng.integers(4, 9, 2), int(rng.integers(1, 4))) for _ in range(2)]
        clips = [rng.integers(0, 9, shape).astype(np.float32) for shape in shapes]
        size = rng.integers(1, 4, 2)
        weights = [rng.integers(-3, 4, (len(clip), *size)).astype(np.float32) for clip in clips]
        anchors = [rng.integers(0, size, (len(clip) if rng.random() < 0.7 else 1, 2)).astype(np.int32) for clip in clips]
        border, per_frame = str(rng.choice(["101", "1001", "clamp", "wrap"])), bool(rng.random() < 0.7)

        def graph(lib):
            given = lib.fn.per_frame(lib.source(weights)) if per_frame else lib.source([weight[0] for weight in weights])
            return lib.fn.filter(lib.source(clips, "FHWC"), given, anchor=lib.fn.per_frame(lib.source(anchors)), border=border)

        assert_equal(both, graph, 2, told=f"{[clip.shape for clip in clips]} {size} {anchors} {border}")


INPUTS_PLACED_OTHERWISE = {
    "CoinFlip", "Copy", "NormalDistribution", "Uniform", "random__CoinFlip", "random__Normal",
    "random__Beta", "random__Uniform",  # on the operator's device
    "ImageDecoderSlice", "decoders__ImageSlice", "experimental__decoders__ImageSlice",  # positions of the slice: on the CPU
    "ROIRandomCrop", "roi_random_crop", "experimental__Remap",  # on either device
}  # fmt: skip
"""Operators here that take some input on another device than DALI's."""


def test_devices_of_inputs():
    """`GetInputDevice` of schemas tells where an operator needs an input. Numbers of inputs that do not exist are an error here."""
    import nvidia.dali as dali

    import asyncdali

    compared, different = 0, set()
    for name in sorted({*dali.backend.RegisteredCPUOps(), *dali.backend.RegisteredGPUOps(), *dali.backend.RegisteredMixedOps()}):
        ours, theirs = asyncdali.backend.TryGetSchema(name), dali.backend.GetSchema(name)
        if ours is None:
            continue
        for index in range(min(ours.inputs[1], theirs.MaxNumInput(), 3)):
            for operator in (None, *ours.devices):
                for actual in (None, "cpu", "gpu"):
                    compared += 1
                    if ours.GetInputDevice(index, actual, operator) != theirs.GetInputDevice(index, actual, operator):
                        different.add(name)
    assert compared > 1000
    assert different <= INPUTS_PLACED_OTHERWISE, different - INPUTS_PLACED_OTHERWISE
    with pytest.raises(IndexError, match="resize has 1 inputs; input 1 does not exist"):
        asyncdali.backend.GetSchema("Resize").GetInputDevice(1)


def test_private_names_that_programs_use():
    import nvidia.dali as dali

    import asyncdali
    from asyncdali import backend_impl
    from asyncdali.compat.backend import __cuda_version__

    assert __cuda_version__ == backend_impl.__cuda_version__ == asyncdali.backend.GetCudaVersion() and type(__cuda_version__) is int
    for name in ("_all_types", "_bool_types", "_int_types", "_float_types", "_int_like_types"):
        assert list(map(int, getattr(asyncdali.types, name))) == list(map(int, getattr(dali.types, name)))
