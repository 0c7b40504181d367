"""readers.tfrecord: features, indices and damaged files."""

from __future__ import annotations

import gzip
import os
import shutil
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from helpers.containers import example, feature, field, frame, varint, write_tfrecord
from helpers.pipelines import values
from helpers.places import TESTS

import asyncdali.tfrecord as tfrec
from asyncdali import Pipeline, fn, ops
from asyncdali.__main__ import main

FOREIGN = TESTS / "helpers/reader_files/tensorflow.tfrecord"
TEXT = tfrec.FixedLenFeature((), tfrec.string, "none")


def reader(path, features, batch=1, *, index=True, **arguments):
    paths = path if isinstance(path, list) else [path]
    if index is True:
        arguments["index_path"] = [f"{item}.idx" for item in paths]
    elif index:
        arguments["index_path"] = index
    pipe = Pipeline(batch_size=batch, num_threads=2, seed=1)
    with pipe:
        made = fn.readers.tfrecord(path=paths, features=features, name="R", **arguments)
        assert list(made) == list(features)
        pipe.set_outputs(*made.values())
    pipe.build()
    return pipe


def texts(column):
    return [np.asarray(sample).tobytes() for sample in column]


def test_a_file_of_tensorflow():
    """A file that TensorFlow 2.21 wrote (tf.io.TFRecordWriter)."""
    features = {
        "image": TEXT, "box": tfrec.VarLenFeature([4], tfrec.float32, 0.0),
        "ids": tfrec.VarLenFeature(tfrec.int64, 0), "flat": tfrec.FixedLenFeature([2, 2], tfrec.float32, 9.0), "other": TEXT,
    }  # fmt: skip
    pipe = reader(str(FOREIGN), features, 4, index=False)
    image, box, ids, flat, other = pipe.run()
    assert texts(image) == [b"first\0image", b"\xff\xd8second", b"", b"z" * 300]
    assert [np.asarray(sample).shape for sample in box] == [(2, 4), (0, 4), (1, 4), (0, 4)]
    np.testing.assert_array_equal(np.asarray(box[0]).ravel(), [1, 2, 3, 4, 5.5, 6, 7, 8])
    np.testing.assert_array_equal(np.asarray(box[2])[0], np.float32([0.5, -0.25, 1e-30, 3e38]))
    assert values([ids]) == [[[-1, 2**62, -(2**63)], [], [], list(range(40))]]
    assert values([flat])[0][3] == [[9.0, 9.0], [9.0, 9.0]]
    assert texts(other) == [b"none", b"x", b"none", b"none"]
    assert pipe.reader_meta("R")["epoch_size"] == 4
    assert image[1].source_info() == box[1].source_info() == f"{FOREIGN} at index 148"
    labels = reader(str(FOREIGN), {"label": tfrec.FixedLenFeature([1], tfrec.int64, -1)}, 1, index=False)
    assert [values(labels.run())[0] for _ in range(3)] == [[[3]], [[-7]], [[0]]]
    with pytest.raises(RuntimeError, match=r"the feature 'label' is stored as float32, and declared as int64"):
        labels.run()


def test_lists_in_several_parts(tmp_path):
    """Protocol buffers join lists of one kind, and a list of another kind replaces them. The last part alone was read."""

    def record(*parts):
        return field(1, field(1, field(1, b"a") + field(2, b"".join(map(feature, parts)))))

    payloads = [record([5], [6, 7]), record([1.5], [5], [], [6, 7]), record([5], [6, 7], [8])]
    path = write_tfrecord(tmp_path / "parts", payloads)
    pipe = reader(path, {"a": tfrec.VarLenFeature(tfrec.int64, 0)}, 3)
    assert values(pipe.run()) == [[[5, 6, 7], [5, 6, 7], [5, 6, 7, 8]]]
    path = write_tfrecord(tmp_path / "others", [record([1.5, 2.5], [3.5]), record([4], [0.5])])
    assert values(reader(path, {"a": tfrec.VarLenFeature(tfrec.float32, 0.0)}, 2).run()) == [[[1.5, 2.5, 3.5], [0.5]]]
    path = write_tfrecord(tmp_path / "texts", [record(b"one", b"two"), record([4], b"three", b"four")])
    assert texts(reader(path, {"a": TEXT}, 2).run()[0]) == [b"one", b"three"]


KINDS = {"int64": [7], "float32": [1.5], "string": b"text"}


@pytest.mark.parametrize("stored", KINDS)
@pytest.mark.parametrize("declared", KINDS)
@pytest.mark.parametrize("variable", [False, True])
def test_features_of_another_kind_are_refused(tmp_path, stored, declared, variable):
    """DALI gives zeros, other bytes of memory, or ends the process. An empty list loses nothing, whatever its kind is."""
    kind = getattr(tfrec, declared)
    if declared == "string":
        wanted, good = TEXT, b"x"
    else:
        wanted = tfrec.VarLenFeature(kind, 0) if variable else tfrec.FixedLenFeature([1], kind, 0)
        good = KINDS[declared]
    empty = field(1, field(1, field(1, b"a") + field(2, field({"string": 1, "float32": 2, "int64": 3}[stored], b""))))
    path = write_tfrecord(tmp_path / "a", [example(b=b"b", a=good), example(a=KINDS[stored], b=b"b"), example(), empty])
    pipe = reader(path, {"b": TEXT, "a": wanted}, 1)
    missing = values([reader(path, {"b": TEXT, "a": wanted}, 1, index=False, num_shards=4, shard_id=2).run()[1]])
    pipe.run()
    if stored == declared:
        pipe.run()
    else:
        message = rf"a at index \d+ \(record 1, \d+ bytes\): the feature 'a' is stored as {stored}, and declared as {declared}"
        with pytest.raises(RuntimeError, match=message) as caught:
            pipe.run()
        assert "sample 0" in str(caught.value)
    assert values([pipe.run()[1]]) == values([pipe.run()[1]]) == missing



def test_shapes_and_defaults(tmp_path):
    path = write_tfrecord(tmp_path / "a", [example(a=[1, 2, 3], f=[1.5]), example(a=[4], f=[]), example(), example(a=None, f=None)])
    features = {
        "a": tfrec.FixedLenFeature([3], tfrec.int64, -5), "f": tfrec.FixedLenFeature([], tfrec.float32, 0.25),
        "v": tfrec.VarLenFeature(tfrec.float32, 1.0), "p": tfrec.VarLenFeature([2, 1], tfrec.int64, 0),
    }  # fmt: skip
    a, f, v, p = reader(path, features, 4).run()
    assert values([a, f]) == [[[1, 2, 3], [4, -5, -5], [-5] * 3, [-5] * 3], [1.5, 0.25, 0.25, 0.25]]
    assert {np.asarray(sample).shape for sample in v} == {(0,)} and {np.asarray(sample).shape for sample in p} == {(0, 2, 1)}
    assert np.asarray(a[0]).dtype == np.int64 and np.asarray(f[0]).dtype == np.float32 and np.asarray(f[0]).shape == ()
    vector = {"a": tfrec.FixedLenFeature([3], tfrec.int64, [7, 8, 9])}
    assert values(reader(path, vector, 3).run()) == [[[1, 2, 3], [4, 8, 9], [7, 8, 9]]]
    with pytest.raises(TypeError, match=r"the default has the shape \(2,\); expected \(3,\), or one value for all elements"):
        reader(path, {"a": tfrec.FixedLenFeature([3], tfrec.int64, [7, 8])}, 1)


def test_unpacked_lists_and_the_last_of_several(tmp_path):
    """Other writers may produce unpacked lists and repeated fields. Of repeated fields the last one counts."""
    floats = field(2, b"".join(varint(1 << 3 | 5) + struct.pack("<f", value) for value in (1.0, 2.0)))
    numbers = field(3, field(1, 5) + field(1, varint(6) + varint(-7)) + field(9, b"unknown") + field(1, 8))
    twice = field(1, field(1, b"old")) + floats
    entries = [(b"f", floats), (b"n", numbers), (b"t", twice), (b"n2", b""), (b"f", floats)]
    features = b"".join(field(1, field(2, value) + field(1, name)) for name, value in entries)
    path = write_tfrecord(tmp_path / "a", [field(3, 77) + field(1, features)])
    wanted = {name: tfrec.VarLenFeature(kind, 0) for name, kind in (("f", tfrec.float32), ("n", tfrec.int64), ("t", tfrec.float32))}
    assert values(reader(path, wanted).run()) == [[[1.0, 2.0]], [[5, 6, -7, 8]], [[1.0, 2.0]]]


def test_sizes_that_do_not_fit(tmp_path):
    path = write_tfrecord(tmp_path / "a", [example(a=[1, 2, 3, 4])] * 2)
    pipe = reader(path, {"a": tfrec.FixedLenFeature([3], tfrec.int64, 0)})
    with pytest.raises(RuntimeError, match=r"shape is too small: \[3\]. Expected at least 4") as caught:
        pipe.run()
    assert path in str(caught.value) and "iteration 0, sample 0" in str(caught.value)
    with pytest.raises(RuntimeError, match=r"not matching partial shape"):
        reader(path, {"a": tfrec.VarLenFeature([3], tfrec.int64, 0)}).run()


@pytest.mark.parametrize("feature", [tfrec.VarLenFeature(tfrec.string, ""), tfrec.FixedLenFeature([2], tfrec.string, "")])
def test_several_strings_are_refused(feature):
    with pytest.raises(RuntimeError, match=r"Tensors of strings are not supported"):
        reader(str(FOREIGN), {"image": feature}, index=False)


WRONG = [((2,), 5, 0), ((-1,), 0, 0), ((2,), 0, "x"), ((2,), tfrec.float32, [1, 2, 3]), ((), tfrec.string, 5.5)]


@pytest.mark.parametrize("arguments", WRONG, ids=str)
def test_wrong_declarations(arguments):
    with pytest.raises((TypeError, ValueError)):
        tfrec.FixedLenFeature(*arguments)
    with pytest.raises((TypeError, ValueError)):
        tfrec.VarLenFeature([0], tfrec.int64, 0)
    assert eval(repr(tfrec.VarLenFeature([2], 0, 1)), vars(tfrec)) == tfrec.VarLenFeature([2], tfrec.int64, 1)


def test_wrong_arguments(tmp_path):
    features = {"image": TEXT}
    cases = [
        ({"index": ["a", "b"]}, "Number of index files"), ({"use_o_direct": True}, "dont_use_mmap"),
        ({"skip_cached_images": True}, "skip_cached_images"), ({"num_shards": 5}, "num_shards"),
    ]  # fmt: skip
    for arguments, message in cases:
        with pytest.raises((RuntimeError, ValueError), match=message):
            reader(str(FOREIGN), features, **{"index": False, **arguments})
    for wrong in ({}, {"a": 1}, ["a"]):
        with pytest.raises((TypeError, RuntimeError), match="features"), Pipeline(batch_size=1, num_threads=1):
            fn.readers.tfrecord(path="x", features=wrong)
    with pytest.raises(RuntimeError, match="Could not open file /no/such"):
        reader("/no/such", features, index=False)
    with pytest.raises(RuntimeError, match="not a regular file"):
        reader(str(tmp_path), features, index=False)


def test_ops_style_and_serialized_order():
    pipe = Pipeline(batch_size=1, num_threads=1, device_id=None)
    read = ops.readers.TFRecord(path=str(FOREIGN), features={"label": tfrec.FixedLenFeature([], tfrec.int64, 0), "image": TEXT})
    with pipe:
        made = read()
        pipe.set_outputs(made["label"], made["image"])
    assert values(pipe.run())[0] == [3]


# --- indices


@pytest.mark.parametrize("arguments", [{}, {"random_shuffle": True}, {"shuffle_after_epoch": True}, {"num_shards": 3}], ids=str)
@pytest.mark.parametrize("text", ["", " \n\r\n", None])
def test_an_empty_shard_with_an_empty_index(tmp_path, text, arguments):
    paths = [write_tfrecord(tmp_path / f"{part}", [example(a=part)] * (part % 2)) for part in range(6)]
    if text is not None:
        for part in (0, 2, 4):
            Path(f"{paths[part]}.idx").write_text(text)
    pipe = reader(paths, {"a": tfrec.FixedLenFeature([], tfrec.int64, 0)}, index=text is not None, **arguments)
    assert pipe.epoch_size("R") == 3
    found = [values(pipe.run())[0][0] for _ in range(3)]
    assert sorted(found) == [1, 3, 5] and (arguments.keys() & {"random_shuffle", "shuffle_after_epoch"} or found == [1, 3, 5])
    for empty in (paths[:1], [paths[0], paths[2]]):
        with pytest.raises(RuntimeError, match=r"index files should not be empty: there are no records in .*/0"):
            reader(empty, {"a": TEXT}, index=text is not None)


@pytest.mark.parametrize("index", [True, False])
@pytest.mark.parametrize("kind, compress", [("gzip", gzip.compress), ("zlib", zlib.compress)])
def test_compressed_files_are_named(tmp_path, kind, compress, index):
    path = write_tfrecord(tmp_path / "a", [example(a=k) for k in range(9)])
    Path(path).write_bytes(compress(Path(path).read_bytes(), 0 if kind == "gzip" else 9).ljust(2000, b"\0"))
    with pytest.raises(RuntimeError, match=rf"checksum of the record's length is wrong; the file is compressed \({kind}\): unpack it"):
        reader(path, {"a": TEXT}, index=index).run()


def test_a_missing_index_is_made(tmp_path, capsys):
    path = str(tmp_path / "data")
    shutil.copy(FOREIGN, path)
    features = {"label": tfrec.FixedLenFeature([1], tfrec.int64, 0)}
    assert values(reader(path, features, 3).run())[0][1] == [-7]
    made = Path(f"{path}.idx").read_text()
    assert len(made.splitlines()) == 4 and made.startswith("0 148\n148 ")
    assert main(["tfrecord2idx", path, str(tmp_path / "again")]) == 0
    assert (tmp_path / "again").read_text() == made
    assert main(["tfrecord2idx", "/no/such", str(tmp_path / "never")]) == 1
    assert "Could not open" in capsys.readouterr().err and not (tmp_path / "never").exists()
    with pytest.warns(UserWarning, match="cannot be written"):
        reader(path, features, index=["/no/such/folder/index"])


def test_an_index_chooses_records(tmp_path):
    path = write_tfrecord(tmp_path / "a", [example(a=k) for k in range(5)])
    lines = Path(f"{path}.idx").read_text().splitlines()
    Path(f"{path}.idx").write_text("\n".join([lines[3], lines[1], "", lines[1]]))
    pipe = reader(path, {"a": tfrec.FixedLenFeature([], tfrec.int64, 0)}, 4)
    assert values(pipe.run()) == [[3, 1, 1, 3]] and pipe.epoch_size("R") == 3


@pytest.mark.parametrize(
    "text, message",
    [("", "should not be empty"), (" \n", "should not be empty"), ("0 20\nx 5\n", "line 2"), ("0 20\n7", "line 2"), ("-1 20", "line 1"),
     ("0 1e3", "line 1"), ("0 " + "9" * 30, "line 1"), ("0 9223372036854775807", "not within the file"), ("500 20", "not within"),
     ("0 9", "too short"), ("1 40", "checksum of the record's length"), ("9223372036854775807 1", "not within")],
)  # fmt: skip
def test_bad_indices(tmp_path, text, message):
    path = write_tfrecord(tmp_path / "a", [example(a=k) for k in range(3)])
    Path(f"{path}.idx").write_text(text)
    with pytest.raises(RuntimeError, match=message) as caught:
        reader(path, {"a": TEXT}).run()
    assert path in str(caught.value)


# --- damage


def test_checksums_and_damage_name_the_record(tmp_path):
    good = [example(a=b"x" * 20) for _ in range(4)]
    path = write_tfrecord(tmp_path / "a", good)
    size = os.path.getsize(path) // 4
    data = bytearray(Path(path).read_bytes())
    data[2 * size + 20] ^= 1
    data[size + 9] ^= 1
    Path(path).write_bytes(data)
    pipe = reader(path, {"a": TEXT})
    for k, message in enumerate([None, "checksum of the record's length", "checksum of the record's data", None, None]):
        if message is None:
            assert texts(pipe.run()[0]) == [b"x" * 20]
            continue
        with pytest.raises(RuntimeError, match=message) as caught:
            pipe.run()
        assert f"{path} at index {k * size} (record {k}" in str(caught.value)
    with pytest.raises(RuntimeError, match=rf"damaged, at offset {size}"):
        reader(path, {"a": TEXT}, index=False)
    payload = b"\xff\xff\xff"
    with pytest.raises(RuntimeError, match=r"Error while parsing TFRecord file"):
        reader(write_tfrecord(tmp_path / "b", [payload]), {"a": TEXT}).run()
    for rest in (b"", b"\0", frame(b"")[:-1]):
        (tmp_path / "c").write_bytes(rest)
        with pytest.raises(RuntimeError, match=rf"{tmp_path}/c"):
            reader(str(tmp_path / "c"), {"a": TEXT}, index=False)


def test_a_file_cut_short_or_removed_later(tmp_path):
    path = write_tfrecord(tmp_path / "a", [example(a=b"x" * 20) for _ in range(4)])
    pipe = reader(path, {"a": TEXT})
    os.truncate(path, os.path.getsize(path) - 1)
    for _ in range(3):
        pipe.run()
    with pytest.raises(RuntimeError, match=rf"Error reading from a file {path}.*ends before"):
        pipe.run()
    pipe.run()
    path = write_tfrecord(tmp_path / "b", [example(a=b"y")])
    pipe = reader(path, {"a": TEXT})
    os.unlink(path)
    with pytest.raises(RuntimeError, match=rf"{path}"):
        pipe.run()


def test_direct_reading(tmp_path):
    payloads = [example(a=bytes([k]) * (k * 1000)) for k in range(9)]
    path = write_tfrecord(tmp_path / "a", payloads)
    pipe = reader(path, {"a": TEXT}, 9, use_o_direct=True, dont_use_mmap=True)
    for _ in range(2):
        assert texts(pipe.run()[0]) == [bytes([k]) * (k * 1000) for k in range(9)]


def test_more_containers_than_may_stay_open(tmp_path, monkeypatch):
    from asyncdali.readers.containers import containers

    monkeypatch.setattr(containers, "MAX_OPEN", 3)
    paths = [write_tfrecord(tmp_path / f"{k}", [example(a=2 * k), example(a=2 * k + 1)]) for k in range(8)]
    before = len(os.listdir("/proc/self/fd"))
    pipe = reader(paths, {"a": tfrec.FixedLenFeature([], tfrec.int64, 0)}, 5)
    for run in range(12):
        assert values(pipe.run()) == [[k % 16 for k in range(5 * run, 5 * run + 5)]]
        assert len(os.listdir("/proc/self/fd")) <= before + 30
    pipe.close()
    del pipe
