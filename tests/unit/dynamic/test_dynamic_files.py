"""Files and encoded data in dynamic mode: `imread`, `io.file.read`, decoders of bytes, and functions for lists of bytes."""

import inspect
import io
import pickle
import wave
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import asyncdali.dynamic as ndd
from asyncdali import types


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    """Three pictures of different sizes and formats."""
    root = tmp_path_factory.mktemp("pictures")
    found = []
    for k, name in enumerate(("a.jpg", "b.png", "c.bmp")):
        Image.fromarray(np.random.default_rng(k).integers(0, 256, (20 + k, 30 - k, 3), np.uint8)).save(root / name)
        found.append(str(root / name))
    return found


@pytest.fixture
def encoded(paths):
    return [Path(path).read_bytes() for path in paths]


SHAPES = [(20, 30, 3), (21, 29, 3), (22, 28, 3)]


def equal(one, other):
    """Whether two batches have equal samples."""
    return one.shape == other.shape and all(np.array_equal(a, b) for a, b in zip(one.tensors, other.tensors, strict=True))


def test_M1_imread_takes_paths_and_lists_of_them(paths):
    single = ndd.imread(paths[0])
    assert isinstance(single, ndd.Tensor) and (single.shape, single.layout, single.dtype) == (SHAPES[0], "HWC", ndd.uint8)
    name = np.frombuffer(paths[1].encode(), np.uint8)
    for given in (Path(paths[1]), paths[1].encode(), name, ndd.as_tensor(name)):
        np.testing.assert_array_equal(ndd.imread(given), np.asarray(Image.open(paths[1])))
    encoded = ndd.batch([np.frombuffer(path.encode(), np.uint8) for path in paths])
    for given in (paths, tuple(paths), [Path(path) for path in paths], encoded):
        made = ndd.imread(given)
        assert isinstance(made, ndd.Batch) and made.shape == SHAPES
    assert ndd.imread([paths[0]]).shape == [SHAPES[0]]
    assert ndd.imread([]).shape == []
    assert ndd.imread(paths[0], output_type=types.GRAY).shape == (20, 30, 1)
    assert ndd.imread(paths[0], device=ndd.Device("cpu")).shape == SHAPES[0]


def test_M1_imread_refuses_what_is_no_path(paths, tmp_path):
    for given in (3, None, 2.5, [3], [paths[0], 3], {"a": 1}):
        with pytest.raises(TypeError, match="path"):
            ndd.imread(given)
    with pytest.raises(FileNotFoundError, match=r"none\.jpg"):
        ndd.imread(tmp_path / "none.jpg")
    with pytest.raises(OSError, match=r"none\.jpg"):
        ndd.imread([paths[0], str(tmp_path / "none.jpg")])
    with pytest.raises(TypeError, match="foo"):
        ndd.imread(paths[0], foo=1)
    (tmp_path / "text.jpg").write_text("no picture")
    with pytest.raises(RuntimeError):
        ndd.imread(tmp_path / "text.jpg")


def test_M2_files_are_read_by_path(paths, encoded):
    for given in (paths[0], Path(paths[0]), np.frombuffer(paths[0].encode(), np.uint8)):
        made = ndd.io.file.read(given)
        assert isinstance(made, ndd.Tensor) and np.asarray(made).tobytes() == encoded[0]
    made = ndd.io.file.read([paths[0], Path(paths[1])])
    assert [np.asarray(item).tobytes() for item in made.tensors] == encoded[:2]
    assert ndd.io.file.read(paths[0], batch_size=2).batch_size == 2
    with pytest.raises(TypeError, match="path"):
        ndd.io.file.read(3)


def test_M2_decoders_take_bytes(paths, encoded):
    expected = ndd.imread(paths[0])
    for given in (encoded[0], bytearray(encoded[0]), memoryview(encoded[0]), np.frombuffer(encoded[0], np.uint8)):
        np.testing.assert_array_equal(ndd.decoders.image(given), expected)
    np.testing.assert_array_equal(
        ndd.decoders.image_crop(encoded[0], crop=[8, 9], crop_pos_x=0.0, crop_pos_y=0.0), np.asarray(expected)[:8, :9]
    )
    buffer = io.BytesIO()
    np.save(buffer, np.arange(6).reshape(2, 3))
    np.testing.assert_array_equal(ndd.decoders.numpy(buffer.getvalue()), np.arange(6).reshape(2, 3))
    assert np.asarray(ndd.peek_image_shape(encoded[1])).tolist() == [21, 29, 3]


def test_twins_are_functions_of_their_own(encoded):
    for name in ("image", "image_crop", "image_random_crop", "image_slice"):
        one, other = getattr(ndd.decoders, name), getattr(ndd.experimental.decoders, name)
        assert one is not other and one.__name__ == other.__name__ == name
        assert pickle.loads(pickle.dumps(other)) is other
    assert ndd.experimental.peek_image_shape is not ndd.peek_image_shape
    np.testing.assert_array_equal(ndd.experimental.decoders.image(encoded[0]), ndd.decoders.image(encoded[0]))
    assert np.asarray(ndd.experimental.peek_image_shape(encoded[0])).tolist() == [20, 30, 3]
    assert list(inspect.signature(ndd.experimental.decoders.image_slice).parameters)[:3] == ["input_0", "input_1", "input_2"]
    assert pickle.loads(pickle.dumps(ndd.io.file.read)) is ndd.io.file.read
    assert pickle.loads(pickle.dumps(ndd.imread)) is ndd.imread


def test_a_list_of_bytes_is_decoded(paths, encoded):
    assert equal(ndd.decode_batch(encoded), ndd.imread(paths))
    assert equal(ndd.decode_batch(iter(encoded)), ndd.imread(paths))
    assert equal(ndd.decode_batch([np.frombuffer(item, np.uint8) for item in encoded]), ndd.imread(paths))
    assert ndd.decode_batch(encoded, output_type=types.GRAY).shape == [(*shape[:2], 1) for shape in SHAPES]
    cut = ndd.decode_batch(encoded, crop=(10, 12))
    assert equal(cut, ndd.crop(ndd.imread(paths), crop=[10, 12]))
    assert ndd.decode_batch(encoded, crop=10).shape == [(10, 10, 3)] * 3
    assert ndd.decode_batch([]).batch_size == 0
    assert equal(ndd.peek_batch(encoded), ndd.batch([np.array(shape) for shape in SHAPES]))


def test_a_list_of_bytes_is_cut_at_random(encoded):
    made = [ndd.decode_random_crop_batch(encoded, size=(9, 8), rng=ndd.random.RNG(seed)) for seed in (3, 3, 4)]
    assert made[0].shape == [(9, 8, 3)] * 3
    assert equal(made[0], made[1]) and not equal(made[0], made[2])
    assert len(set(ndd.decode_random_crop_batch(encoded, rng=ndd.random.RNG(1)).shape)) > 1


def test_lists_of_other_bytes_are_decoded():
    sound = io.BytesIO()
    with wave.open(sound, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(8000)
        file.writeframes(np.arange(100, dtype=np.int16).tobytes())
    samples, rates = ndd.decode_audio_batch([sound.getvalue()] * 2, dtype=types.INT16)
    assert [np.asarray(item)[:, 0].tolist() for item in samples.tensors] == [list(range(100))] * 2
    assert [item.item() for item in rates.tensors] == [8000.0] * 2
    arrays = []
    for k in range(2):
        buffer = io.BytesIO()
        np.save(buffer, np.full((k + 1, 2), k))
        arrays.append(buffer.getvalue())
    assert ndd.decode_numpy_batch(arrays).shape == [(1, 2), (2, 2)]


def test_what_is_no_list_of_bytes_is_refused(encoded):
    for given in (
        encoded[0],
        "text",
        {"a": 1},
        np.zeros(3, np.uint8),
        ["text"],
        [encoded[0], 3],
        [np.zeros(3)],
        [np.zeros((2, 2), np.uint8)],
    ):
        with pytest.raises(TypeError, match="bytes"):
            ndd.decode_batch(given)
    with pytest.raises(RuntimeError, match="sample 1"):
        ndd.decode_batch([encoded[0], b"no picture"])
    with pytest.raises(TypeError, match="foo"):
        ndd.decode_batch(encoded, foo=1)
