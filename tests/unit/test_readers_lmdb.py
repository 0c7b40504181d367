"""readers.caffe and readers.caffe2 on databases written by LMDB itself (rows 73-75, 87)."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from helpers.containers import datum, field, tensor, tensors, varint, write_lmdb
from helpers.pipelines import values

from asyncdali import Pipeline, fn
from asyncdali.readers.lmdb.lmdb import locate, read_meta


def reader(operator, path, batch=1, **arguments):
    pipe = Pipeline(batch_size=batch, num_threads=2, seed=1)
    with pipe:
        made = getattr(fn.readers, operator)(path=path, name="R", **arguments)
        pipe.set_outputs(*(made if isinstance(made, list) else [made]))
    pipe.build()
    return pipe


def texts(column):
    return [np.asarray(sample).tobytes() for sample in column]


# --- the format


@pytest.mark.parametrize("sizes", [(1,), (0, 5, 2000, 2100, 4096, 100_000, 3), tuple(range(0, 3000, 7)), (3,) * 5000, (9000,) * 300])
def test_where_the_values_are(tmp_path, sizes):
    """Against what LMDB's own cursor says: small and large values, deep trees, keys of all lengths, pages used again."""
    import lmdb

    rng = np.random.default_rng(len(sizes))
    with lmdb.open(str(tmp_path), map_size=1 << 26, sync=False) as database:
        for _ in range(2):  # the second time over, free pages are used again
            with database.begin(write=True) as transaction:
                for k, size in enumerate(sizes):
                    key = (b"%d" % k).zfill(1 + int(rng.integers(1, 200)))
                    transaction.put(key, rng.bytes(size))
        with database.begin(write=True) as transaction:
            for key in [key for k, (key, _) in enumerate(transaction.cursor()) if k % 3 == 1]:
                transaction.delete(key)
        with database.begin() as transaction:
            wanted = [(bytes(key), bytes(value)) for key, value in transaction.cursor()]
    file = (tmp_path / "data.mdb").read_bytes()
    found = [(file[c : c + d], file[a : a + b]) for a, b, c, d in locate(str(tmp_path / "data.mdb")).tolist()]
    assert found == wanted and read_meta(str(tmp_path / "data.mdb")).entries == len(wanted)


def test_databases_that_are_not_plain(tmp_path):
    import lmdb

    with lmdb.open(str(tmp_path / "named"), max_dbs=2) as database:
        database.open_db(b"inner")
    with lmdb.open(str(tmp_path / "empty")) as database:
        pass
    for name, message in (("named", "named databases"), ("empty", "no records")):
        with pytest.raises(RuntimeError, match=message) as caught:
            reader("caffe", str(tmp_path / name))
        assert str(tmp_path / name) in str(caught.value)
    (tmp_path / "none").mkdir()
    with pytest.raises(RuntimeError, match=r"none.*No such file"):
        reader("caffe", str(tmp_path / "none"))
    (tmp_path / "file").write_bytes(b"no database" * 30)
    with pytest.raises(RuntimeError, match=r"not an LMDB database"):
        reader("caffe2", str(tmp_path / "file"))


def test_a_damaged_tree_is_refused(tmp_path):
    path = Path(write_lmdb(tmp_path, [bytes(5000)] * 400)) / "data.mdb"
    good = path.read_bytes()
    meta = read_meta(str(path))
    for at, message in ((meta.root * meta.page_size + 16, "outside|circles|not what"), (meta.root * meta.page_size + 10, "not what")):
        broken = bytearray(good)
        broken[at] ^= 0x3B
        path.write_bytes(broken)
        with pytest.raises(RuntimeError, match=message):
            locate(str(path))
    circle = bytearray(good)
    root = meta.root * meta.page_size
    node = root + int.from_bytes(good[root + 16 : root + 18], "little")
    circle[node : node + 4] = meta.root.to_bytes(4, "little")
    path.write_bytes(circle)
    with pytest.raises(RuntimeError, match="circles"):
        locate(str(path))
    path.write_bytes(good[: 3 * 4096])
    with pytest.raises(RuntimeError, match="damaged"):
        locate(str(path))


# --- caffe


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
    with pytest.raises(RuntimeError, match="nothing would be read"):
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


def test_messages_of_googles_library(tmp_path):
    """Datum and TensorProtos serialized by Google's protobuf runtime from the published field numbers."""
    pytest.importorskip("google.protobuf")
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    def message(name, fields):
        file = descriptor_pb2.FileDescriptorProto(name=f"{name}.proto", package="t", syntax="proto2")
        types = {"i": 5, "l": 3, "b": 12, "B": 8, "f": 2}
        declared = file.message_type.add(name=name)
        for number, (label, kind, packed) in fields.items():
            one = declared.field.add(name=f"f{number}", number=number, label=3 if label == "*" else 1, type=types[kind])
            if packed:
                one.options.packed = True
        pool = descriptor_pool.DescriptorPool()
        pool.Add(file) if hasattr(pool, "Add") else pool.AddSerializedFile(file.SerializeToString())
        return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"t.{name}"))

    plain = dict.fromkeys((1, 2, 3, 5), ("", "i", False))
    made = message("Datum", {**plain, 4: ("", "b", False), 6: ("*", "f", False), 7: ("", "B", False)})
    path = write_lmdb(tmp_path / "a", [made(f1=3, f2=1, f3=2, f4=b"abcdef", f5=-9, f6=[1.5, 2.5], f7=False).SerializeToString()])
    image, label = reader("caffe", path).run()
    assert np.asarray(image[0]).shape == (1, 2, 3) and values([label]) == [[[-9]]]

    packed = {3: ("*", "f", True), 4: ("*", "i", True), 10: ("*", "l", True)}
    made = message("TensorProto", {1: ("*", "l", False), 2: ("", "i", False), 6: ("*", "b", False), **packed})
    parts = [made(f2=4, f6=[b"picture"]), made(f1=[1], f2=2, f4=[-7]), made(f1=[2], f2=10, f10=[-1, 2**60]), made(f1=[2], f3=[0.5, -2])]
    path = write_lmdb(tmp_path / "b", [b"".join(field(1, part.SerializeToString()) for part in parts)])
    image, label, more, floats = reader("caffe2", path, additional_inputs=2).run()
    assert texts(image) == [b"picture"] and values([label, more, floats]) == [[[-7]], [[-1, 2**60]], [[0.5, -2.0]]]


# --- caffe2


def test_images_and_labels_of_every_type(tmp_path):
    def run(operator_arguments, *records):
        folder = tmp_path / str(len(os.listdir(tmp_path)))
        return reader("caffe2", write_lmdb(folder, records), len(records), **operator_arguments).run()

    picture = np.arange(24, dtype=np.uint8)
    image, label = run({}, tensors(b"one", np.int32([5])), tensors(b"", np.int32([-6])))
    assert texts(image) == [b"one", b""] and values([label]) == [[[5], [-6]]] and np.asarray(label[0]).dtype == np.int32
    assert image[1].source_info().endswith(" at key 0000000001")
    image, label = run({}, tensors(picture.reshape(2, 4, 3), np.float32([0.5])), tensors(picture.reshape(6, 4), np.float32([1])))
    assert [np.asarray(sample).shape for sample in image] == [(2, 4, 3), (6, 4, 1)] and values([label]) == [[[0.5], [1.0]]]
    [image] = run({"label_type": 4}, tensors(b"x"))
    assert texts(image) == [b"x"]
    [label] = run({"label_type": 2, "image_available": False}, tensors(np.float32([1, 2, 3])), tensors(np.float32([])))
    assert values([label]) == [[[1, 2, 3], []]]
    _, label = run({"label_type": 1, "num_labels": 4}, tensors(b"x", np.int32([3, 0])), tensors(b"y", np.int32([])))
    assert values([label]) == [[[1, 0, 0, 1], [0, 0, 0, 0]]] and np.asarray(label[0]).dtype == np.int32
    _, label = run({"label_type": 3, "num_labels": 3}, tensors(b"x", np.int32([2, 0]), np.float32([0.5, 7])))
    assert values([label]) == [[[7.0, 0.0, 0.5]]]
    arguments = {"additional_inputs": 3, "bbox": True}
    record = tensors(b"x", np.int32([1]), np.int64([2**40]), np.float32([1, 2]), np.int32([]), np.int32([1, 2, 3, -4]))
    _, _, one, two, three, box = run(arguments, record)
    assert values([one, two, three, box]) == [[[2**40]], [[1.0, 2.0]], [[]], [[1, 2, 3, -4]]]


@pytest.mark.parametrize(
    "arguments, record, message",
    [({}, tensors(b"x"), "does not hold the 2 tensors"), ({}, tensors(b"x", np.int32([1]), np.int32([1])), "does not hold the 2"),
     ({}, tensors(b"x", np.int32([1, 2])), "a label has 1 values, this one has 2"), ({}, tensors(b"x", np.int64([1])), "label data type"),
     ({}, tensors(np.int32([1]), np.int32([1])), "image data type INT32"), ({}, b"\x0a\xff", "Error while parsing Caffe2"),
     ({}, tensors(tensor(np.zeros(5, np.uint8), (2, 3)), np.int32([1])), "Image data size mismatch"),
     ({}, tensors(tensor(np.zeros(0, np.uint8), (2**40, 2**40, 0)), np.int32([1])), "Image data size mismatch"),
     ({}, tensors(tensor(np.zeros(4, np.uint8), (4,)), np.int32([1])), "Image data size mismatch"),
     ({"label_type": 1, "num_labels": 2}, tensors(b"x", np.int32([0, 3])), r"Label index out of bounds: 3 \(num_labels: 2\)"),
     ({"label_type": 1, "num_labels": 2}, tensors(b"x", np.int32([-1])), r"Label index out of bounds: -1"),
     ({"label_type": 3, "num_labels": 2}, tensors(b"x", np.int32([0]), np.float32([1, 2])), "1 label indices, but 2 weights"),
     ({"bbox": True, "label_type": 4}, tensors(b"x", np.int32([1, 2, 3])), "a bounding box has 4 values"),
     ({}, field(1, varint(2 << 3) + varint(4)) + field(1, tensor(np.int32([1]))), "the image has no data"),
     ({"label_type": 5}, tensors(b"x"), "label_type"), ({"num_labels": 0}, tensors(b"x"), "num_labels"),
     ({"additional_inputs": -1}, tensors(b"x"), "additional_inputs"),
     ({"image_available": False, "label_type": 4}, tensors(b"x"), "nothing would be read")],
)  # fmt: skip
def test_what_is_refused(tmp_path, arguments, record, message):
    path = write_lmdb(tmp_path, [record])
    with pytest.raises((RuntimeError, ValueError), match=message):
        reader("caffe2", path, **arguments).run()


def test_types_must_agree_within_a_batch(tmp_path):
    path = write_lmdb(tmp_path, [tensors(b"x", np.int32([1])), tensors(b"x", np.float32([1]))])
    with pytest.raises(RuntimeError, match=r"(?s)sample 1.*Inconsistent data"):
        reader("caffe2", path, 2).run()
    assert [values(reader("caffe2", path, 1).run())[1] for _ in range(1)] == [[[1]]]


def test_resuming_on_another_shard(tmp_path):
    """A checkpoint taken while another shard than `shard_id` is read goes on there."""
    path = write_lmdb(tmp_path, [datum(b"%d" % k, k) for k in range(9)])
    arguments = {"num_shards": 3, "shard_id": 2}

    def make(**options):
        pipe = Pipeline(batch_size=2, num_threads=2, seed=1, enable_checkpointing=True, **options)
        with pipe:
            pipe.set_outputs(*fn.readers.caffe(path=path, name="R", **arguments))
        pipe.build()
        return pipe

    first = make()
    assert [values(first.run())[1] for _ in range(3)] == [[[6], [7]], [[8], [0]], [[1], [2]]]
    assert [values(make(checkpoint=first.checkpoint()).run())[1]] == [[[3], [4]]]
