"""readers.caffe on databases that the LMDB library has written."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.containers import datum, write_lmdb
from helpers.pipelines import values
from helpers.readers import lmdb_reader as reader
from helpers.readers import texts


def test_datum_records(tmp_path):
    one = write_lmdb(tmp_path / "one", [datum(b"bb", -3), datum(b"a" * 9000, 2**31 - 1, encoded=True)], [b"k2", b"k1"])
    two = write_lmdb(tmp_path / "two", [datum(b"c"), datum(b"", 5, (9, 9, 9))])
    pipe = reader("caffe", [one, two], 4)
    image, label = pipe.run()
    assert texts(image) == [b"a" * 9000, b"bb", b"c", b""]
    assert values([label]) == [[[2**31 - 1], [-3], [], [5]]] and np.asarray(label[2]).dtype == np.int32
    assert image[1].source_info() == label[1].source_info() == f"{one} at key k2"
    assert image[2].source_info() == f"{two} at key 0000000000"
    assert pipe.reader_meta("R")["epoch_size"] == 4
    assert texts(reader("caffe", one, 2, label_available=False).run()[0]) == [b"a" * 9000, b"bb"]
    assert values(reader("caffe", one, 2, image_available=False).run()) == [[[2**31 - 1], [-3]]]
    with pytest.raises(RuntimeError, match="the reader would have no outputs"):
        reader("caffe", one, image_available=False, label_available=False)


def test_raw_datum_records(tmp_path):
    pixels = bytes(range(24))
    path = write_lmdb(tmp_path, [datum(pixels, 1, (2, 3, 4), False), datum(pixels[:6], 2, (1, 2, 3), False)])
    image, _ = reader("caffe", path, 2).run()
    np.testing.assert_array_equal(np.asarray(image[0]), np.arange(24, dtype=np.uint8).reshape(2, 3, 4).transpose(1, 2, 0))
    assert np.asarray(image[1]).shape == (2, 3, 1)
    wrong = [(2, 3, 5), (-2, -3, 4), (2**31 - 1, 2**31 - 1, 2**31 - 1), (0, 3, 4), (2**62, 2, 2)]
    path = write_lmdb(tmp_path / "wrong", [datum(pixels, 1, shape, False) for shape in wrong])
    pipe = reader("caffe", path)
    for k in range(len(wrong)):
        with pytest.raises(RuntimeError, match=rf"wrong at key 000000000{k}: The content size of the raw image"):
            pipe.run()
    path = write_lmdb(tmp_path / "mixed", [datum(b"x", 1), datum(pixels, 1, (2, 3, 4), False)])
    with pytest.raises(RuntimeError, match=r"(?s)sample 1.*same dimensionality"):
        reader("caffe", path, 2).run()


@pytest.mark.parametrize("flag", [False, None])
@pytest.mark.parametrize("mapped", [False, True])
def test_planes_become_pixels(tmp_path, flag, mapped):
    """Caffe stores planes. MNIST's tools and Caffe's writer omit the flag, whose default is false."""
    rng = np.random.default_rng(1)
    images = [rng.integers(0, 256, shape, np.uint8) for shape in ((3, 117, 223), (3, 1, 1), (1, 90, 400), (4, 2, 5), (2, 1, 7))]
    path = write_lmdb(tmp_path, [datum(image.tobytes(), k, image.shape, flag) for k, image in enumerate(images)])
    pixels, labels = reader("caffe", path, 5, dont_use_mmap=not mapped).run()
    for k, image in enumerate(images):
        np.testing.assert_array_equal(np.asarray(pixels[k]), image.transpose(1, 2, 0))
        assert pixels[k].source_info() == labels[k].source_info() == f"{path} at key 000000000{k}"
    assert values([labels]) == [[[0], [1], [2], [3], [4]]]
    grey, _ = reader("caffe", write_lmdb(tmp_path / "grey", [datum(images[2].tobytes(), 0, images[2].shape, flag)])).run()
    np.testing.assert_array_equal(np.asarray(grey[0]), images[2].transpose(1, 2, 0))


def test_records_without_the_flag_may_be_encoded(tmp_path):
    """The bytes do not fit the shape, or there is no shape: they are a file."""
    path = write_lmdb(tmp_path, [datum(b"jpeg", 1, (3, 17, 23)), datum(b"jpeg", 1), datum(b"", 1, (0, 0, 0))])
    assert texts(reader("caffe", path, 3).run()[0]) == [b"jpeg", b"jpeg", b""]


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("flag", [False, None])
def test_pixels_as_floats_are_refused(tmp_path, packed, flag):
    numbers = np.float32([0.5, 1.5]).tobytes()
    floats = b"\x32\x08" + numbers if packed else b"".join(b"\x35" + numbers[k : k + 4] for k in (0, 4))
    path = write_lmdb(tmp_path, [datum(b"", 1, (2, 1, 1), flag) + floats])
    with pytest.raises(RuntimeError, match=r"at key 0000000000: the pixels are stored as floats \(float_data\); this reader reads bytes"):
        reader("caffe", path).run()
    assert values(reader("caffe", path, image_available=False).run()) == [[[1]]]


def test_records_that_are_not_datums(tmp_path):
    path = write_lmdb(tmp_path, [b"\xff\xff\xff", datum(b"good", 1), b"\x22\x05abc"])
    pipe = reader("caffe", path)
    for k in (0, 1, 2, 0, 1):
        if k == 1:
            assert texts(pipe.run()[0]) == [b"good"]
        else:
            with pytest.raises(RuntimeError, match=rf"Error while parsing Caffe file: {tmp_path} at key 000000000{k} \(raw data"):
                pipe.run()
