"""Video and VideoResize as readers of dynamic mode."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("av", reason="decoding videos needs PyAV")

from helpers.videos import write_video

import asyncdali.dynamic as ndd
from asyncdali import Pipeline, fn, types

SIZES = {"size": [10, 12], "interp_type": types.INTERP_CUBIC, "antialias": False}


@pytest.fixture(scope="module")
def reading(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Arguments of readers for two videos of 9 and 6 frames: five sequences."""
    folder = tmp_path_factory.mktemp("videos")
    paths = [write_video(folder / f"{count}.webm", count) for count in (9, 6)]
    return {"filenames": paths, "labels": [3, 4], "sequence_length": 3, "enable_frame_num": "sequence", "device": "cpu"}


def contents(items: Any) -> list[list[np.ndarray]]:
    return [[np.asarray(sample) for value in item for sample in value.tensors] for item in items]


def assert_equal(found: list[list[np.ndarray]], expected: list[list[np.ndarray]]) -> None:
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_array_equal(a, b)


def test_R1_video_resize_gives_resized_frames_of_video(reading: dict[str, Any]) -> None:
    resized = contents(ndd.readers.VideoResize(**reading, **SIZES).next_epoch(batch_size=2))
    assert len(resized) == 3 and resized[0][0].shape == (3, 10, 12, 3)
    plain = [
        (ndd.resize(frames, **SIZES), *others) for frames, *others in ndd.readers.Video(**reading).next_epoch(batch_size=2)
    ]  # fmt: skip
    assert_equal(resized, contents(plain))


def test_R1_video_resize_equals_the_reader_of_pipelines(reading: dict[str, Any]) -> None:
    with Pipeline(batch_size=2, num_threads=1, device_id=None, seed=4) as pipe:
        pipe.set_outputs(*fn.readers.video_resize(**reading, **SIZES))
    expected = [[np.array(sample) for column in pipe.run() for sample in column] for _ in range(3)]
    assert_equal(contents(ndd.readers.VideoResize(**reading, **SIZES).next_epoch(batch_size=2)), expected)


def test_E1_the_state_of_video_resize_continues_in_mid_epoch(reading: dict[str, Any]) -> None:
    given = {**reading, **SIZES, "random_shuffle": True, "seed": 7, "enable_checkpointing": True}
    whole = contents(ndd.readers.VideoResize(**given).next_epoch(batch_size=1))
    first = ndd.readers.VideoResize(**given)
    epoch = first.next_epoch(batch_size=1)
    taken = contents(next(epoch) for _ in range(2))
    second = ndd.readers.VideoResize(**given)
    second.set_state(first.get_state())
    assert_equal(taken + contents(second.next_epoch(batch_size=1)), whole)


def test_R1_video_resize_names_wrong_arguments(reading: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="sise"):
        ndd.readers.VideoResize(**reading, sise=[10, 12])
