"""readers.mxnet: RecordIO files with undivided and divided records, labels, indices, and damaged files."""

from __future__ import annotations

import os
from itertools import pairwise

import numpy as np
import pytest
from helpers.containers import MAGIC, record_parts, recordio
from helpers.pipelines import values
from helpers.places import TESTS

from asyncdali import Pipeline, fn

FOREIGN = TESTS / "helpers/reader_files"


def reader(path, index, batch=1, **arguments):
    pipe = Pipeline(batch_size=batch, num_threads=2, seed=1)
    with pipe:
        pipe.set_outputs(*fn.readers.mxnet(path=path, index_path=index, name="R", **arguments))
    pipe.build()
    return pipe


def written(folder, *records, name="a"):
    """Write a file of these records. Returns (path, index path)."""
    sizes = np.cumsum([0, *map(len, records)])
    (folder / f"{name}.rec").write_bytes(b"".join(records))
    (folder / f"{name}.idx").write_text("".join(f"{k}\t{at}\n" for k, at in enumerate(sizes[:-1])))
    return str(folder / f"{name}.rec"), str(folder / f"{name}.idx")


def texts(column):
    return [np.asarray(sample).tobytes() for sample in column]


def test_files_of_mxnet():
    """A file that MXNet 1.9.1 wrote (MXIndexedRecordIO). The fourth record is divided."""
    path = str(FOREIGN / "mxnet.rec")
    pipe = reader(path, str(FOREIGN / "mxnet.idx"), 5)
    image, label = pipe.run()
    assert texts(image) == [b"image 0", b"", b"third image", b"ab12" + MAGIC + b"more" + MAGIC, b"x" * 100]
    assert values([label]) == [[[3.5], [-1.0], [1.0, 2.0, 3.5], [7.0], [9.0]]]
    assert image[3].source_info() == f"{path} at index 128" and pipe.epoch_size("R") == 5
    assert np.asarray(label[0]).dtype == np.float32


def test_a_vector_of_one_label_counts_and_not_the_header(tmp_path):
    path, index = written(tmp_path, recordio(b"a", [5.0]), recordio(b"b", 6.0), recordio(b"", [7.0]))
    assert values(reader(path, index, 3).run())[1] == [[5.0], [6.0], [7.0]]


@pytest.mark.parametrize("cuts", [(26,), (24, 28, 32), (30, 40, 61), (24, 100)])
def test_parts_are_joined(tmp_path, cuts):
    payload = bytearray(bytes(24) + bytes(range(100)))
    for cut in cuts:
        payload[cut : cut + 4] = MAGIC
    path, index = written(tmp_path, record_parts(bytes(payload), cuts), recordio(b"next", 1.0))
    image, _ = reader(path, index, 2).run()
    assert texts(image) == [bytes(payload[24:]), b"next"]


def test_records_continue_in_the_next_file(tmp_path):
    records = [recordio(bytes([k]) * 50, float(k)) for k in range(6)]
    data = b"".join(records)
    cuts = [0, 10, 12, 100, 101, 102, 300, len(data)]
    paths = []
    for k, (start, end) in enumerate(pairwise(cuts)):
        (tmp_path / str(k)).write_bytes(data[start:end])
        paths.append(str(tmp_path / str(k)))
    _, index = written(tmp_path, *records)
    pipe = reader(paths, index, 6)
    image, label = pipe.run()
    assert texts(image) == [bytes([k]) * 50 for k in range(6)] and values([label]) == [[[float(k)] for k in range(6)]]
    assert image[2].source_info() == f"{paths[5]} at index {168 - 102}"
    os.truncate(paths[6], 1)
    pipe = reader(paths, index, 1, shard_id=4, num_shards=6, lazy_init=True)
    with pytest.raises(RuntimeError, match=r"Incomplete or corrupted|ends before|longer than"):
        [pipe.run() for _ in range(3)]


@pytest.mark.parametrize(
    "text, message",
    [("", "doesn't contain any indices"), ("0 x", "line 1"), ("0 0\n1", "line 2"), ("0 9999", "Incomplete or corrupted record files"),
     ("0 -4", "line 1"), ("0 4", "wrong magic number.*at index 4"), ("0 0\n1 8", "longer than the record")],
)  # fmt: skip
def test_bad_indices(tmp_path, text, message):
    path, _ = written(tmp_path, recordio(b"abc", 1.0))
    (tmp_path / "index").write_text(text)
    with pytest.raises(RuntimeError, match=message) as caught:
        reader(path, str(tmp_path / "index")).run()
    assert path in str(caught.value) or str(tmp_path / "index") in str(caught.value)


def test_damage_names_the_record(tmp_path):
    good = recordio(b"abc", 1.0)
    wrong = [
        (b"\0" + good[1:], "wrong magic number"), (record_parts(bytes(20)), "too short"), (recordio(b"", [1.0])[:-4] + bytes(0), "longer"),
        (good[:7] + b"\x40" + good[8:], "not first, middle and last"), (good[:4] + b"\xff\xff" + good[6:], "longer than the record"),
        (good[:8] + b"\xff\xff\xff\xff" + good[12:], "too short for its header and labels"),
        (record_parts(bytes(40), [28])[:36], "longer"),
    ]  # fmt: skip
    records = [record for record, _ in wrong]
    path, index = written(tmp_path, *records, good)
    pipe = reader(path, index)
    for k, (_, message) in enumerate(wrong):
        with pytest.raises(RuntimeError, match=message) as caught:
            pipe.run()
        assert f"{path} at index {sum(map(len, records[:k]))} (record {k}" in str(caught.value)
    assert texts(pipe.run()[0]) == [b"abc"]
    with pytest.raises(RuntimeError, match="single index file"):
        reader(path, [index, index])
    with pytest.raises(RuntimeError, match="/no/such"):
        reader(path, "/no/such")
