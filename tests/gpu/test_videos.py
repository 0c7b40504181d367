"""On a GPU: frames that the CPU decodes are uploaded; operators of the GPU process them."""

from __future__ import annotations

import numpy as np
import pytest
from test_operators import gpu, samples_of  # noqa: F401

pytest.importorskip("av", reason="decoding videos needs PyAV")

from helpers.videos import write_video

from asyncdali import fn, pipeline_def

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def videos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("videos")
    return [write_video(folder / f"{count}.webm", count) for count in (20, 7)]


def read(device, videos):
    return fn.readers.video(device=device, filenames=videos, sequence_length=3, random_shuffle=True)


def read_with_labels(device, videos):
    return fn.experimental.readers.video(device=device, filenames=videos, labels=[3, 8], sequence_length=4)[0]


def decode(device, videos):
    data = [np.fromfile(path, np.uint8) for path in videos]
    return fn.decoders.video(fn.external_source(lambda: data), device="mixed" if device == "gpu" else "cpu")


@pytest.mark.parametrize("frames", [read, read_with_labels, decode])
def test_frames(frames, videos):
    made = []
    for device in ("cpu", "gpu"):

        @pipeline_def(batch_size=2, num_threads=2, device_id=0, seed=1)
        def graph():
            found = frames(device, videos)  # noqa: B023
            return found, fn.flip(found)

        pipe = graph()
        made.append([[samples_of(output) for output in pipe.run()] for _ in range(6)])
        assert type(pipe.run()[0]).__name__ == ("TensorListGPU" if device == "gpu" else "TensorListCPU")
        pipe.close()
    for expected, found in zip(*made, strict=True):
        for x, y in zip(expected, found, strict=True):
            assert all(np.array_equal(a, b) for a, b in zip(x, y, strict=True))
