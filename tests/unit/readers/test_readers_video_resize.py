"""readers.video_resize: the frames of readers.video, resized."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("av", reason="decoding videos needs PyAV")

from helpers.videos import write_video

from asyncdali import Pipeline, fn, ops, types


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    folder = tmp_path_factory.mktemp("videos")
    return [write_video(folder / f"{count}.webm", count) for count in (9, 6)]


def outputs_of(make_outputs, runs=3, **options):
    pipe = Pipeline(**{"batch_size": 2, "num_threads": 2, "device_id": None, "seed": 4, **options})
    with pipe:
        made = make_outputs()
        pipe.set_outputs(*made) if isinstance(made, list) else pipe.set_outputs(made)
    return pipe, [[np.array(item) for column in pipe.run() for item in column.as_cpu()] for _ in range(runs)]


@pytest.mark.parametrize("device", ["cpu", "gpu"])
@pytest.mark.parametrize("reading", [
    {}, {"labels": [3, 4], "enable_frame_num": "sequence", "enable_timestamps": True, "random_shuffle": True, "stride": 2},
    {"dtype": types.FLOAT, "normalized": True, "image_type": types.YCbCr},
])  # fmt: skip
def test_video_resize_is_resize_of_video(paths, monkeypatch, reading, device):
    monkeypatch.setenv("ASYNCDALI_DEVICE", "host")
    sizes = {"size": [10, 12], "interp_type": types.INTERP_CUBIC, "antialias": False}
    common = {"filenames": paths, "sequence_length": 3, "device": device, **reading}

    def separate():
        made = fn.readers.video(name="reader", **common)
        frames, *others = made if isinstance(made, list) else [made]
        return [fn.resize(frames, **sizes), *others]

    options = {"device_id": 0 if device == "gpu" else None}
    pipe, found = outputs_of(lambda: fn.readers.video_resize(name="reader", **common, **sizes), **options)
    assert pipe.reader_meta("reader")["epoch_size"] > 0
    _, expected = outputs_of(separate, **options)
    for a, b in zip(found, expected, strict=True):
        for x, y in zip(a, b, strict=True):
            np.testing.assert_array_equal(x, y)
    assert found[0][0].shape == (3, 10, 12, 3)


def test_video_resize_names_and_arguments(paths):
    with pytest.warns(DeprecationWarning, match="video_reader_resize is deprecated; use fn.readers.video_resize"):
        outputs_of(lambda: fn.video_reader_resize(filenames=paths, sequence_length=2, resize_shorter=8), 1)
    _, found = outputs_of(lambda: ops.readers.VideoResize(filenames=paths, sequence_length=2, resize_x=8)(), 1)
    assert found[0][0].shape == (2, 4, 8, 3)
    size = np.array([8, 20], np.float32)
    _, found = outputs_of(lambda: fn.readers.video_resize(filenames=paths, sequence_length=2, size=types.Constant(size)), 1)
    assert found[0][0].shape == (2, 8, 20, 3)
    with pytest.raises(RuntimeError, match="Not all required arguments .*video_resize: sequence_length"):
        outputs_of(lambda: fn.readers.video_resize(filenames=paths, size=8))
    with pytest.raises(KeyError, match="unexpected argument 'sise'. Did you mean 'size'"):
        outputs_of(lambda: fn.readers.video_resize(filenames=paths, sequence_length=2, sise=8))
    with pytest.raises(ValueError, match="Exactly one method of specifying size"):
        outputs_of(lambda: fn.readers.video_resize(filenames=paths, sequence_length=2))


def test_video_resize_checkpoint_and_serialization(paths):
    def graph():
        return fn.readers.video_resize(
            filenames=paths, sequence_length=2, size=[6, 7], random_shuffle=True, name="reader", enable_frame_num=True, labels=[]
        )

    options = {"enable_checkpointing": True}
    pipe, _ = outputs_of(graph, 2, **options)
    saved = pipe.checkpoint()
    expected = [[np.array(item) for column in pipe.run() for item in column] for _ in range(3)]
    _, found = outputs_of(graph, 3, **options, checkpoint=saved)
    for a, b in zip(found, expected, strict=True):
        for x, y in zip(a, b, strict=True):
            np.testing.assert_array_equal(x, y)
    fresh, first = outputs_of(graph, 1)
    stored = Pipeline.deserialize(fresh.serialize())
    for x, y in zip([np.array(item) for column in stored.run() for item in column], first[0], strict=True):
        np.testing.assert_array_equal(x, y)
