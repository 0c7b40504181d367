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
    np.testing.assert_array_equal(np.asarray(image[0]), np.arange(24, dtype=np.uint8).reshape(3, 4, 2))
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


def test_records_that_are_not_datums(tmp_path):
    path = write_lmdb(tmp_path, [b"\xff\xff\xff", datum(b"good", 1), b"\x22\x05abc"])
    pipe = reader("caffe", path)
    for k in (0, 1, 2, 0, 1):
        if k == 1:
            assert texts(pipe.run()[0]) == [b"good"]
        else:
            with pytest.raises(RuntimeError, match=rf"Error while parsing Caffe file: {tmp_path} at key 000000000{k} \(raw data"):
                pipe.run()
