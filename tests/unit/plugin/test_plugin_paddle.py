"""The Paddle plugin over a simulated Paddle: the data that Paddle receives, and levels that describe samples of different lengths."""

from __future__ import annotations

import importlib
import sys
import types

import numpy as np
import pytest

from asyncdali import fn, pipeline_def
from asyncdali.tensors import TensorCPU


class LodTensor:
    """The part of Paddle's LoD tensors that the plugin calls."""

    def set(self, values, place):
        self.values = values

    def set_recursive_sequence_lengths(self, lengths):
        self.lengths = lengths

    def recursive_sequence_lengths(self):
        return self.lengths

    def __array__(self, dtype=None, copy=None):
        return self.values


class Capsule:
    def __init__(self, capsule):
        self.capsule = capsule

    def __dlpack__(self, **options):
        return self.capsule

    def __dlpack_device__(self):
        return (1, 0)


@pytest.fixture
def plugin(monkeypatch):
    paddle = types.ModuleType("paddle")
    paddle.__version__ = "3.0.0"
    for name in ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"):
        setattr(paddle, name, f"paddle.{name}")
    paddle.utils = types.SimpleNamespace(dlpack=types.SimpleNamespace(from_dlpack=lambda capsule: np.from_dlpack(Capsule(capsule))))
    paddle.base = types.SimpleNamespace(core=types.SimpleNamespace(LoDTensor=LodTensor))
    paddle.CPUPlace = lambda: "cpu"
    monkeypatch.setitem(sys.modules, "paddle", paddle)
    monkeypatch.delitem(sys.modules, "asyncdali.plugin.paddle", raising=False)
    yield importlib.import_module("asyncdali.plugin.paddle")
    sys.modules.pop("asyncdali.plugin.paddle", None)


def pipeline():
    ragged = [np.full((k + 1, 2), k, np.float32) for k in range(3)]

    @pipeline_def(batch_size=3, num_threads=1, device_id=None)
    def graph():
        return fn.external_source([ragged] * 2), fn.external_source([np.arange(3, dtype=np.int32)] * 2)

    return graph()


def test_batches(plugin):
    batches = list(plugin.DALIGenericIterator(pipeline(), [("data", 1), "label"]))
    assert len(batches) == 2
    for (batch,) in batches:
        assert batch["data"].lengths == [[1, 2, 3]]
        assert batch["data"].values[:, 0].tolist() == [0, 1, 1, 2, 2, 2]
        assert batch["label"].tolist() == [0, 1, 2]
    clipped = plugin.lod_tensor_clip(batches[0][0]["data"], 2)
    assert (clipped.lengths, clipped.values.shape) == ([[1, 2]], (3, 2))
    assert plugin.lod_tensor_clip(np.arange(4), 3).tolist() == [0, 1, 2]


def test_partial_batches(plugin):
    iterator = plugin.DALIGenericIterator(
        pipeline(), [("data", 1), "label"], size=5, last_batch_policy=plugin.LastBatchPolicy.PARTIAL, prepare_first_batch=False
    )
    assert [batch["label"].tolist() for (batch,) in iterator] == [[0, 1, 2], [0, 1]]


def test_samples_of_different_shapes_need_a_level(plugin):
    with pytest.raises(AssertionError, match="need a LoD level"):
        next(plugin.DALIGenericIterator(pipeline(), ["data", "label"]))


def test_helpers(plugin):
    assert plugin.recursive_length([np.zeros((2, 3)), np.zeros((1, 4))], 2) == [[2, 1], [3, 3, 4]]
    assert plugin.to_paddle_type(TensorCPU(np.zeros(3, np.int16))) == "paddle.int16"
    with pytest.raises(TypeError, match="no type for UINT16"):
        plugin.to_paddle_type(TensorCPU(np.zeros(3, np.uint16)))
    target = np.zeros(3, np.int32)
    assert plugin.feed_ndarray(TensorCPU(np.arange(3, dtype=np.int32)), target.ctypes.data) == target.ctypes.data
    assert target.tolist() == [0, 1, 2]


def test_without_paddle(monkeypatch):
    monkeypatch.setitem(sys.modules, "paddle", None)
    monkeypatch.delitem(sys.modules, "asyncdali.plugin.paddle", raising=False)
    with pytest.raises(ModuleNotFoundError, match="needs PaddlePaddle"):
        importlib.import_module("asyncdali.plugin.paddle")
