"""A `crop` or `slice` after a decoder: only the window is decoded. Pixels, errors and statistics are those of decoding everything."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.images import encode, jpeg_blocks, picture, with_orientation

from asyncdali import fn, pipeline_def, types
from asyncdali.codecs.jpeg import progressive, window_decoding
from asyncdali.device.buffers import BufferPool
from asyncdali.operators.resize import resize_rows
from asyncdali.runtime.work import segments

JPEGS, UPRIGHT = 12, 9


@pytest.fixture(scope="module", autouse=True)
def kernels():
    """Compile the kernels first. Until they are compiled, libjpeg-turbo decodes, and whole pictures are stored."""
    for kernel in (window_decoding.decode_window, progressive.decode_scans, resize_rows.take_to_bytes, resize_rows.take_to_floats):
        kernel.compile()


def files() -> list[bytes]:
    """JPEGs of all chroma samplings, progressive, grey, with restart markers, and with orientations; and a PNG."""
    samplings = [(1, 1), (2, 1), (2, 2), (1, 2)]
    found = [jpeg_blocks(220, 150, [sampling, (1, 1), (1, 1)], seed=k) for k, sampling in enumerate(samplings)]
    found.append(encode(picture(301, 180), "JPEG", quality=80, progressive=True))
    found.append(jpeg_blocks(190, 230, [(2, 2), (1, 1), (1, 1)], restart=3))
    found.append(encode(picture(160, 200, 1), "JPEG", quality=90))
    found.append(encode(picture(123, 161), "JPEG") + b"behind the end")
    found.append(encode(picture(140, 120), "JPEG"))
    found += [with_orientation(encode(picture(200, 160), "JPEG"), k) for k in (3, 6, 7)]
    found.append(encode(picture(170, 190), "PNG"))
    assert len(found) == JPEGS + 1
    return found


def image(encoded, **arguments):
    return fn.decoders.image(encoded, name="decode", **arguments)


def run(graph, encoded: list[bytes], whole: bool, iterations: int = 2, **options) -> tuple[list[list[np.ndarray]], dict[str, int], tuple]:
    """Returns (samples of each iteration, counts of the decoder, facts about the operator "window").

    With `whole` the decoded picture is an output, too.
    """
    arrays = [np.frombuffer(data, np.uint8) for data in encoded]

    @pipeline_def(batch_size=len(arrays), num_threads=2, device_id=None, prefetch_queue_depth=1, seed=3, **options)
    def pipeline():
        pictures, *outputs = graph(fn.external_source(source=lambda: arrays, batch=True))
        return (*outputs, pictures) if whole else tuple(outputs)

    with pipeline() as pipe:
        made = []
        for _ in range(iterations):
            outputs = [output.as_cpu() for output in pipe.run()]
            outputs = outputs[:-1] if whole else outputs
            layouts = [output.layout() for output in outputs]
            made.append([*map(np.array, layouts), *(np.array(sample) for output in outputs for sample in output)])
        statistics = pipe.statistics()
        counted = dict(statistics.operator("decode").counted)
        cropped = statistics.operator("window")
    return made, counted, (cropped.iterations, cropped.samples, cropped.bytes)


def same(first: list[list[np.ndarray]], second: list[list[np.ndarray]]) -> None:
    for ours, theirs in zip(first, second, strict=True):
        for k, (a, b) in enumerate(zip(ours, theirs, strict=True)):
            np.testing.assert_array_equal(a, b, err_msg=f"item {k}")


def resized(pictures, cropped):
    return pictures, fn.resize(cropped, size=[40, 50])


def cropped(x, decoding=None, **arguments):
    pictures = image(x, **(decoding or {}))
    return resized(pictures, fn.crop(pictures, name="window", **arguments))


def random_crop(x):
    pictures = image(x)
    sizes = fn.random.uniform(range=(20, 110), shape=2)
    where = {f"crop_pos_{axis}": fn.random.uniform(range=(0, 1)) for axis in "xy"}
    return resized(pictures, fn.crop(pictures, name="window", crop=sizes, rounding="truncate", **where))


def sliced(x, *positions, **arguments):
    pictures = image(x)
    return resized(pictures, fn.slice(pictures, *positions, name="window", **arguments))


def returned(x):
    pictures = image(x)
    return pictures, fn.crop(pictures, name="window", crop=(100, 60), crop_pos_x=0.7, crop_pos_y=0.2)


CUT = {
    "fixed": lambda x: cropped(x, crop=(101, 77), crop_pos_x=0.3, crop_pos_y=0.9),
    "each sample another": random_crop,
    "one pixel": lambda x: cropped(x, crop=(1, 1)),
    "whole rows": lambda x: cropped(x, crop_h=40, crop_w=0, crop_pos_y=0.6),
    "grey": lambda x: cropped(x, {"output_type": types.GRAY}, crop=(90, 91)),
    "BGR, not turned": lambda x: cropped(x, {"output_type": types.BGR, "adjust_orientation": False}, crop=(90, 91)),
    "floats": lambda x: cropped(x, {"dtype": types.FLOAT}, crop=(90, 91)),
    "fast transform": lambda x: cropped(x, {"use_fast_idct": True}, crop=(90, 91)),
    "padded, but inside": lambda x: cropped(x, crop=(90, 91), out_of_bounds_policy="pad", fill_values=[1, 2, 3]),
    "trimmed": lambda x: cropped(x, crop=(150, 150), out_of_bounds_policy="trim_to_shape"),
    "slice": lambda x: sliced(x, rel_start=[0.25, 0.4], rel_shape=[0.5, 0.3]),
    "slice of rows": lambda x: sliced(x, start=[20], end=[90], axes=[0]),
    "slice by two inputs": lambda x: sliced(x, np.array([0.2, 0.1], np.float32), np.array([0.5, 0.6], np.float32)),
    "the host device": lambda x: cropped(x, {"device": "mixed"}, crop=(90, 91)),
    "returned": returned,
}


@pytest.mark.parametrize("name", CUT)
def test_windows_are_parts_of_whole_pictures(name):
    encoded = files()
    if name in ("grey", "padded, but inside"):  # with ANY_DATA the file decides the number of channels
        encoded = encoded[:6] + encoded[7:]
    made, counted, facts = run(CUT[name], encoded, whole=False)
    expected, none, other_facts = run(CUT[name], encoded, whole=True)
    same(made, expected)
    assert facts == other_facts
    jpegs = 0 if name == "floats" else 2 * (len(encoded) - 1)
    assert counted["JPEGs decoded in part for a crop"] == jpegs and none["JPEGs decoded in part for a crop"] == 0


def outside(x):
    pictures = image(x)
    return resized(pictures, fn.crop(pictures, name="window", crop=(130, 150), out_of_bounds_policy="pad", fill_values=9))


def one_channel(x):
    return sliced(x, start=[1], shape=[1], axes=[2])


def to_floats(x):
    return cropped(x, crop=(90, 91), dtype=types.FLOAT)


def two_crops(x):
    pictures, other = image(x), {"crop": (30, 40)}
    return pictures, fn.crop(pictures, name="window", crop=(90, 91)), fn.crop(pictures, **other)


def kept_pictures(x):
    return cropped(x, {"cache_size": 64, "cache_type": "threshold"}, crop=(90, 91))


def window_of_a_window(x):
    pictures = fn.decoders.image_crop(x, name="decode", crop=(110, 100))
    return resized(pictures, fn.crop(pictures, name="window", crop=(90, 91)))


def resized_first(x):
    pictures = image(x)
    return pictures, fn.crop(fn.resize(pictures, size=[90, 100]), name="window", crop=(40, 50))


@pytest.mark.parametrize("graph", [outside, one_channel, to_floats, two_crops, kept_pictures, window_of_a_window, resized_first])
def test_graphs_that_need_whole_pictures(graph):
    made, counted, _ = run(graph, files(), whole=False)
    expected, _, _ = run(graph, files(), whole=True)
    same(made, expected)
    assert counted["JPEGs decoded in part for a crop"] == 0


def test_branches_of_conditionals():
    def graph(x):
        pictures = image(x)
        if fn.random.coin_flip(dtype=types.BOOL):
            out = fn.crop(pictures, name="window", crop=(90, 91))
        else:
            out = fn.crop(pictures, crop=(60, 71))
        return pictures, out

    made, counted, _ = run(graph, files(), whole=False, enable_conditionals=True)
    expected, _, _ = run(graph, files(), whole=True, enable_conditionals=True)
    same(made, expected)
    assert counted["JPEGs decoded in part for a crop"] == 0


@pytest.mark.parametrize("decoder", ["own", "turbo"])
def test_rows_of_windows_go_to_resize(monkeypatch, decoder):
    monkeypatch.setenv("ASYNCDALI_JPEG", decoder)
    monkeypatch.setattr(resize_rows, "SMALLEST", 1)

    def graph(x):
        return cropped(x, crop=(101, 77), crop_pos_x=0.3, crop_pos_y=0.9)

    made, counted, _ = run(graph, files(), whole=False)
    expected, _, _ = run(graph, files(), whole=True)
    same(made, expected)
    assert counted["JPEGs handed on in rows"] == 2 * UPRIGHT
    assert counted[f"JPEGs decoded by {'asyncdali' if decoder == 'own' else 'libjpeg-turbo'}"] == 2 * JPEGS


def test_pictures_are_not_stored(monkeypatch):
    """The threads' scratch is too small for whole pictures, which would then take memory for the whole batch."""
    monkeypatch.setattr(segments, "MAX_SCRATCH", 0)
    held = []

    def allocate(pool, size):
        held.append(size)
        return real(pool, size)

    real = BufferPool.allocate
    monkeypatch.setattr(BufferPool, "allocate", allocate)
    encoded = [encode(picture(300, 200, seed=k), "JPEG") for k in range(3)]
    made, _, _ = run(returned, encoded, whole=False)
    assert 3 * 100 * 60 * 3 in held and 3 * 300 * 200 * 3 not in held
    expected, _, _ = run(returned, encoded, whole=True)
    assert 3 * 300 * 200 * 3 in held
    same(made, expected)


def error_of(graph, encoded: list[bytes], whole: bool) -> str:
    with pytest.raises(RuntimeError) as caught:
        run(graph, encoded, whole, iterations=1)
    return str(caught.value)


@pytest.mark.parametrize("decoder", ["own", "turbo"])
def test_a_file_truncated_below_the_window_is_an_error(monkeypatch, decoder):
    monkeypatch.setenv("ASYNCDALI_JPEG", decoder)

    def graph(x):
        return cropped(x, crop=(40, 77), crop_pos_y=0.0)

    good = encode(picture(220, 150), "JPEG")
    for part in (0.97, 0.6, 0.2):
        encoded = [good, good[: int(len(good) * part)]]
        text = error_of(graph, encoded, whole=False)
        assert text == error_of(graph, encoded, whole=True)
        assert "truncated" in text and "decode" in text and "sample 1" in text


def test_errors_of_windows_name_the_cropping_operator():
    def graph(x):
        return cropped(x, crop=(250, 77))

    texts = [error_of(graph, files()[4:6], whole) for whole in (False, True)]
    assert texts[0] == texts[1]
    assert "out of bounds" in texts[0] and "crop" in texts[0]


def test_checkpoints_continue_with_the_same_windows(tmp_path):
    for k, data in enumerate(files()[:6]):
        (tmp_path / f"{k}.jpg").write_bytes(data)

    @pipeline_def(batch_size=3, num_threads=2, device_id=None, prefetch_queue_depth=1, seed=3, enable_checkpointing=True)
    def pipeline():
        encoded, _ = fn.readers.file(files=[str(tmp_path / f"{k}.jpg") for k in range(6)])
        return random_crop(encoded)[1]

    with pipeline() as pipe:
        pipe.run()
        saved = pipe.checkpoint()
        expected = [np.array(sample) for sample in pipe.run()[0]]
    with pipeline(checkpoint=saved) as pipe:
        same([[np.array(sample) for sample in pipe.run()[0]]], [expected])
