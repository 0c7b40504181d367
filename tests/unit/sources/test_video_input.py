"""experimental.inputs.video: videos that are fed to the pipeline, as batches of sequences."""

from __future__ import annotations

import io
import threading

import numpy as np
import pytest

pytest.importorskip("av", reason="decoding videos needs PyAV")

import av
from helpers import kernels
from helpers.cuda import StandIn, use
from helpers.videos import frame_numbers, write_video

from asyncdali import Pipeline, fn, ops


@pytest.fixture(scope="module")
def videos(tmp_path_factory):
    """Encoded videos of 11, 4 and 7 frames. The frames of the second video start at grey level 50."""
    folder = tmp_path_factory.mktemp("videos")
    paths = [write_video(folder / "a.webm", 11), write_video(folder / "b.webm", 4, 50), write_video(folder / "c.webm", 7)]
    return [np.fromfile(path, np.uint8) for path in paths]


def make(batch=2, length=3, options=None, **arguments):
    pipe = Pipeline(**{"batch_size": batch, "num_threads": 2, "device_id": None, "prefetch_queue_depth": 1, "seed": 1, **(options or {})})
    with pipe:
        video = fn.experimental.inputs.video(name="video", sequence_length=length, **arguments)
        pipe.set_outputs(video, fn.random.uniform(range=[0, 1], name="draw"))
    pipe.build()
    return pipe


def numbers(outputs, first=0):
    return [frame_numbers(item, first) for item in outputs[0].as_cpu()]


def test_sequences_of_two_videos(videos):
    pipe = make()
    pipe.feed_input("video", [videos[0]])
    pipe.feed_input("video", [videos[1], videos[0]])  # the second sample is ignored
    assert [numbers(pipe.run()) for _ in range(2)] == [[[0, 1, 2], [3, 4, 5]], [[6, 7, 8], [9, 10]]]
    last = pipe.run()
    assert numbers(last, 50) == [[0, 1, 2], [3]] and len(last[1]) == 2
    with pytest.raises(RuntimeError, match="Nothing was fed"):
        pipe.run()
    pipe.feed_input("video", [videos[1]])
    assert numbers(pipe.run(), 50) == [[0, 1, 2], [3]], "the pipeline continues"


def test_padding_and_smaller_batches(videos):
    pipe = make(batch=3, length=5, last_sequence_policy="pad")
    pipe.feed_input("video", [videos[2]])
    frames, draws = pipe.run()
    assert frames.shape() == [(5, 16, 32, 3), (5, 16, 32, 3)] and len(draws) == 2
    assert frame_numbers(np.array(frames[1])[:2]) == [5, 6] and not np.array(frames[1])[2:].any()
    assert frames.layout() == "FHWC"


def test_run_with_data(videos):
    pipe = make(batch=4)
    assert numbers(pipe.run(video=[videos[2]])) == [[0, 1, 2], [3, 4, 5], [6]]


def test_batches_ahead(videos):
    pipe = make(options={"prefetch_queue_depth": 3})
    assert pipe.input_feed_count("video") == 3
    for _ in range(4):
        pipe.feed_input("video", [videos[0]])
    assert [numbers(pipe.run()) for _ in range(6)] == [[[0, 1, 2], [3, 4, 5]], [[6, 7, 8], [9, 10]]] * 3


def test_blocking(videos):
    pipe = make(blocking=True)
    feeder = threading.Timer(0.05, lambda: pipe.feed_input("video", [videos[1]]))
    feeder.start()
    assert numbers(pipe.run(), 50) == [[0, 1, 2], [3]]
    feeder.join()


def test_no_copy(videos):
    data = videos[0].copy()
    pipe = make(batch=4, no_copy=True)
    pipe.feed_input("video", [data])
    assert numbers(pipe.run()) == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10]]


def test_refusals(videos):
    pipe = make()
    for bad in ([], [videos[0].reshape(1, -1)], [videos[0].astype(np.int16)]):
        with pytest.raises(RuntimeError, match="one encoded video at a time"):
            pipe.feed_input("video", bad)
    with pytest.raises(RuntimeError, match="829 samples|samples; the batch size"):
        pipe.feed_input("video", videos[0])
    with pytest.raises(KeyError, match="no external input named 'other'"):
        pipe.feed_input("other", [videos[0]])
    pipe.feed_input("video", [videos[0][:60]])
    pipe.feed_input("video", [videos[1]])
    with pytest.raises(RuntimeError, match="dropped the data that was fed, because it is not a video"):
        pipe.run()
    assert numbers(pipe.run(), 50) == [[0, 1, 2], [3]]
    for wrong in ({"length": 0}, {"length": -1}):
        with pytest.raises(ValueError, match="`sequence_length` must be at least 1"):
            make(**wrong)
    with pytest.raises(ValueError, match="`last_sequence_policy` is 'loop'; supported are 'partial', 'pad'"):
        make(last_sequence_policy="loop")
    with pytest.raises(RuntimeError, match="does not run in debug mode"):
        debugged(videos[0])


def debugged(data):
    from asyncdali import pipeline_def

    @pipeline_def(batch_size=2, num_threads=1, device_id=None, debug=True)
    def graph():
        return fn.experimental.inputs.video(name="video", sequence_length=2)

    pipe = graph()
    pipe.build()
    pipe.feed_input("video", [data])
    pipe.run()


def test_a_broken_frame_names_its_sequence(videos):
    data = videos[0].copy()
    with av.open(io.BytesIO(data.tobytes())) as container:
        places = [(packet.pos, packet.size) for packet in container.demux(video=0) if packet.size]
    at, size = places[5]
    data[at + 8 : at + size] = 77
    pipe = make(batch=1, length=1)
    pipe.feed_input("video", [data])
    errors = 0
    for _ in range(11):
        try:
            pipe.run()
        except RuntimeError as error:
            errors += 1
            assert "broken video: frame" in str(error) and "sample 0" in str(error)
    assert errors


@pytest.mark.parametrize("done", range(7))
@pytest.mark.parametrize("depth", [1, 2])
def test_checkpoints(videos, done, depth):
    """After a restore, the program feeds the partly decoded video again, and then the following videos."""
    options = {"enable_checkpointing": True, "prefetch_queue_depth": depth}

    def feed(pipe, which):
        for k in which:
            pipe.feed_input("video", [videos[k]])

    def rest(pipe, runs):
        return [(numbers(outputs), np.array(outputs[1].as_array()).tolist()) for outputs in (pipe.run() for _ in range(runs))]

    expected = make(options=options)
    feed(expected, [0, 2, 0, 0, 0])
    before, after = rest(expected, done), rest(expected, 8 - done)
    pipe = make(options=options)
    feed(pipe, [0, 2, 0, 0, 0])
    assert rest(pipe, done) == before
    saved = pipe.checkpoint()
    pipe.close()
    restored = make(options={**options, "checkpoint": saved})
    finished = sum(done >= end for end in (2, 4, 6, 8))  # videos of 11, 7, 11 and 11 frames: two batches each
    feed(restored, [0, 2, 0, 0, 0][finished:])
    assert rest(restored, 8 - done) == after


def test_a_checkpoint_and_another_video(videos):
    options = {"enable_checkpointing": True}
    pipe = make(batch=1, options=options)
    pipe.feed_input("video", [videos[0]])
    for _ in range(3):
        pipe.run()
    restored = make(batch=1, options={**options, "checkpoint": pipe.checkpoint()})
    restored.feed_input("video", [videos[1]])
    restored.feed_input("video", [videos[1]])
    with pytest.raises(RuntimeError, match="taken after 3 sequences of a video; the video fed now has 4 frames"):
        restored.run()
    assert numbers(restored.run(), 50) == [[0, 1, 2]]


def test_serialization(videos):
    pipe = make(last_sequence_policy="pad")
    stored = Pipeline.deserialize(pipe.serialize())
    for one in (pipe, stored):
        one.feed_input("video", [videos[1]])
    a, b = pipe.run(), stored.run()
    for x, y in zip(a[0], b[0], strict=True):
        np.testing.assert_array_equal(np.array(x), np.array(y))


def test_class_form(videos):
    pipe = Pipeline(batch_size=4, num_threads=1, device_id=None, prefetch_queue_depth=1)
    with pipe:
        video = ops.experimental.inputs.Video(name="video", sequence_length=4)
        pipe.set_outputs(video())
    assert numbers(pipe.run(video=[videos[1]]), 50) == [[0, 1, 2, 3]]


@pytest.mark.parametrize("host", [True, False])
def test_mixed(videos, monkeypatch, host):
    if host:
        monkeypatch.setenv("ASYNCDALI_DEVICE", "host")
    elif kernels.COMPILER is None:
        pytest.skip("no C++ compiler to build kernels for the host")
    else:
        use(StandIn(), monkeypatch)
    pipe = make(device="mixed", options={"device_id": 0})
    pipe.feed_input("video", [videos[0]])
    outputs = pipe.run()
    assert type(outputs[0]).__name__ == "TensorListGPU"
    assert numbers(outputs) == [[0, 1, 2], [3, 4, 5]]
    assert numbers(pipe.run()) == [[6, 7, 8], [9, 10]]
