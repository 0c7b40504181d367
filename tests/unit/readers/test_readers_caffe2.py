"""readers.caffe2 on databases that the LMDB library has written."""

from __future__ import annotations

import os

import numpy as np
import pytest
from helpers.containers import field, tensor, tensors, varint, write_lmdb
from helpers.pipelines import values
from helpers.readers import lmdb_reader as reader
from helpers.readers import texts


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
     ({}, tensors(b"x", np.int32([1, 2])), "a label has 1 values, the record has 2"), ({}, tensors(b"x", np.int64([1])), "label data type"),
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
     ({"image_available": False, "label_type": 4}, tensors(b"x"), "the reader would have no outputs")],
)  # fmt: skip
def test_refusals(tmp_path, arguments, record, message):
    path = write_lmdb(tmp_path, [record])
    with pytest.raises((RuntimeError, ValueError), match=message):
        reader("caffe2", path, **arguments).run()


def test_types_must_agree_within_a_batch(tmp_path):
    path = write_lmdb(tmp_path, [tensors(b"x", np.int32([1])), tensors(b"x", np.float32([1]))])
    with pytest.raises(RuntimeError, match=r"(?s)sample 1.*Inconsistent data"):
        reader("caffe2", path, 2).run()
    assert [values(reader("caffe2", path, 1).run())[1] for _ in range(1)] == [[[1]]]
