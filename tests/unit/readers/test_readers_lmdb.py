"""The format of LMDB, and the common parts of readers.caffe and readers.caffe2."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from helpers.containers import datum, field, write_lmdb
from helpers.pipelines import values
from helpers.readers import lmdb_reader as reader
from helpers.readers import texts

from asyncdali import Pipeline, fn
from asyncdali.readers.lmdb.lmdb import locate, read_meta

# --- the format


@pytest.mark.parametrize("sizes", [(1,), (0, 5, 2000, 2100, 4096, 100_000, 3), tuple(range(0, 3000, 7)), (3,) * 5000, (9000,) * 300])
def test_positions_of_values(tmp_path, sizes):
    """Values are found where LMDB's cursor finds them: small and large values, deep trees, keys of all lengths, and reused pages."""
    import lmdb

    rng = np.random.default_rng(len(sizes))
    with lmdb.open(str(tmp_path), map_size=1 << 26, sync=False) as database:
        for _ in range(2):  # the second round reuses freed pages
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
    for at, message in ((meta.root * meta.page_size + 16, "outside|cycle|another kind"), (meta.root * meta.page_size + 10, "another kind")):
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
    with pytest.raises(RuntimeError, match="cycle"):
        locate(str(path))
    path.write_bytes(good[: 3 * 4096])
    with pytest.raises(RuntimeError, match="damaged"):
        locate(str(path))


# --- records


def test_messages_of_googles_library(tmp_path):
    """Datum and TensorProtos messages, serialized by Google's protobuf library with the published field numbers."""
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


def test_resuming_on_another_shard(tmp_path):
    """A checkpoint may be taken while the reader reads another shard than `shard_id`. The restored reader continues in that shard."""
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
