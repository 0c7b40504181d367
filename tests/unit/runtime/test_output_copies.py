"""Outputs that lie in the user's memory are copied when they are returned."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.pipelines import pipeline_of

from asyncdali import fn
from asyncdali.batch import Batch, move_by_c
from asyncdali.compiled.addresses import address_of
from asyncdali.compiled.copies import copy_samples
from asyncdali.device.buffers import BufferPool
from asyncdali.runtime.work import output_copies
from asyncdali.runtime.work.output_copies import OutputCopies
from asyncdali.types import DALIDataType


@pytest.mark.parametrize("streamed", [0, 1])
@pytest.mark.parametrize("offset", [0, 1, 16, 63])
@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 4095, 4096, 4097, 5000, 70_001])
def test_exactly_the_bytes_of_a_sample_are_copied(size, offset, streamed):
    source = np.random.default_rng(size).integers(1, 256, size + 64, np.uint8)
    target = np.zeros(size + 256, np.uint8)
    begin = -address_of(target) % 64 + offset + 64
    tables = [np.array([word]) for word in (address_of(target) + begin, address_of(source) + 3, size)]
    copy_samples(*map(address_of, tables), 1, streamed)
    np.testing.assert_array_equal(target[begin : begin + size], source[3 : 3 + size])
    assert not target[:begin].any() and not target[begin + size :].any()


def ragged():
    arrays = [np.random.default_rng(k).integers(0, 256, (k * 3000 + (k != 2), 5), np.uint8) for k in range(5)]
    arrays[2] = np.empty((0, 5), np.uint8)
    addresses = np.array([address_of(array) if array.size else 0 for array in arrays])
    batch = Batch(np.array([array.shape for array in arrays]), DALIDataType.UINT8, "", addresses, arrays)
    return arrays, batch


@pytest.mark.parametrize("which", ["plain", "streamed", "without a pool"])
@pytest.mark.parametrize("reused", [True, np.array([True, False, True, False, True])], ids=["all", "some"])
def test_a_private_batch_owns_the_reused_samples(monkeypatch, which, reused):
    monkeypatch.setattr(output_copies, "STREAMED_FROM", 0 if which == "streamed" else 1 << 60)
    arrays, batch = ragged()
    batch.reused = reused
    private = OutputCopies(None if which == "without a pool" else BufferPool()).private(batch)
    for k, array in enumerate(arrays):
        found = private.sample(k)
        np.testing.assert_array_equal(found, array)
        if array.size:
            assert np.shares_memory(found, array) is not bool(np.broadcast_to(reused, 5)[k])


def test_a_batch_of_its_own_memory_is_not_copied():
    _, batch = ragged()
    assert OutputCopies(BufferPool()).private(batch) is batch


def test_code_of_c_copies_the_same():
    arrays, batch = ragged()
    batch.reused = True
    private = batch.private(move_by_c)
    for k, array in enumerate(arrays):
        np.testing.assert_array_equal(private.sample(k), array)


VIEWS = {
    "the input": lambda x: x,
    "reshape": lambda x: fn.reshape(x, shape=[-1]),
    "reinterpret": lambda x: fn.reinterpret(x, dtype=DALIDataType.INT8),
    "squeeze": lambda x: fn.squeeze(x, axes=[0]),
    "expand_dims": lambda x: fn.expand_dims(x, axes=[0]),
    "per_frame": fn.per_frame,
    "permute_batch": lambda x: fn.permute_batch(x, indices=[2, 0, 1]),
    "reshape twice": lambda x: fn.reshape(fn.squeeze(x, axes=[0]), shape=[300, 100]),
}
"""Operators whose outputs are views of the input."""


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("form", ["array", "list"])
@pytest.mark.parametrize("name", VIEWS)
def test_no_later_action_of_a_source_changes_a_view(monkeypatch, name, form, streamed):
    monkeypatch.setattr(output_copies, "STREAMED_FROM", 0 if streamed else 1 << 60)
    buffer = np.zeros((3, 1, 100, 300), np.uint8)

    def source(k):
        for row in range(3):
            buffer[row] = 10 * k + row
        return buffer if form == "array" else list(buffer)

    pipe = pipeline_of(lambda: VIEWS[name](fn.external_source(source, no_copy=True, batch=True)), batch_size=3, prefetch_queue_depth=1)
    held = [pipe.run()[0] for _ in range(6)]
    order = [2, 0, 1] if name == "permute_batch" else [0, 1, 2]
    for k, batch in enumerate(held):
        found = [np.unique(np.asarray(tensor)).tolist() for tensor in batch]
        assert found == [[10 * k + row] for row in order]
        for tensor in batch:
            np.asarray(tensor)[...] = 99  # outputs belong to the user
    assert pipe.run()[0].as_array().max() == 62
