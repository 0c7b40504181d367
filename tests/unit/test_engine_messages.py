"""The binary format of requests and answers between the training process and engines."""

from __future__ import annotations

import os
from collections import deque

import numpy as np
import pytest

from asyncdali.batch import Batch
from asyncdali.device.buffers import BufferPool
from asyncdali.engines import fixed
from asyncdali.engines.blocks import ForeignBlocks, OwnBlocks
from asyncdali.engines.encoding import Frame, Packer
from asyncdali.types import DALIDataType


class Wire:
    """Both ends: the packer of an engine, and the blocks of the training process."""

    def __init__(self):
        self.own, self.theirs = OwnBlocks(), ForeignBlocks()
        self.pool = BufferPool(self.own.make)
        self.lent = []
        self.packer = Packer(self.own, self.pool.allocate, self._lend)
        self.sent, self.known = fixed.Templates(), []
        self.returned = deque()
        self._announced = set()

    def _lend(self, owner):
        self.lent.append(owner)
        return len(self.lent)

    def answer(self, *batches):
        """(bytes of the answer, header). The bytes are None if the answer is sent as JSON."""
        frame = Frame()
        header = {"a": [5, 2], "took": 77}
        header["out"] = [self.packer.pack(batch, frame) for batch in batches]
        for number, descriptor in self.packer.used.items():
            if number not in self._announced:
                self._announced.add(number)
                self.theirs.add(number, os.dup(descriptor))
        data = self.sent.answer(header, frame)
        self.known.extend(fixed.Template(*item) for item in header.get("templates", ()))
        return data, header

    def batches(self, data):
        return fixed.batches(data, fixed.ANSWER.unpack_from(data)[0], self.known, self.theirs, self.returned)

    def close(self):
        self.own.close()


@pytest.fixture
def wire():
    found = Wire()
    yield found
    found.close()


def dense(values, layout=""):
    return Batch.from_values(np.asarray(values), layout)


def placed(wire, samples):
    """A batch in pooled memory. The batch does not know whether its samples are dense."""
    shapes = np.array([item.shape for item in samples], np.int64)
    batch = Batch(shapes, DALIDataType.UINT8, "HW")
    batch.place(wire.pool.allocate(int(batch.sizes().sum())))
    for k, item in enumerate(samples):
        batch.sample(k)[...] = item
    return batch


def test_a_request():
    returned = deque([7, 8])
    data = fixed.request((1, 3, 0, 40, 64, 9), returned)
    assert data.startswith(fixed.MARK) and not returned
    wanted, back = fixed.requested(data)
    assert wanted == fixed.Wanted(report=1, record=3, generation=0, number=40, samples=64, steps=9)
    assert list(back) == [7, 8]
    assert list(fixed.requested(fixed.request((0, 3, 0, 40, 64, 9), returned))[1]) == []


def test_an_answer(wire):
    small = dense(np.arange(12, dtype=np.int16).reshape(4, 3), "X")
    small.source_info = info = ["a", "b", "c", "d"]
    large = placed(wire, [np.full((200, 300), k, np.uint8) for k in range(4)])
    large.source_info = info
    values = dense(np.arange(40_000, dtype=np.float32).reshape(4, 10_000))
    bytes_ = placed(wire, [np.full((2, 3), 9 - k, np.uint8) for k in range(4)])
    given = [small, large, values, bytes_]
    data, header = wire.answer(*given)
    assert data is None and len(header["templates"]) == 4
    for _ in range(2):
        data, header = wire.answer(*given)
        assert "templates" not in header
        assert fixed.ANSWER.unpack_from(data)[1:4] == (5, 2, 77) and fixed.answer_length(data) == len(data)
        found = wire.batches(data)
        for one, other in zip(found, given, strict=True):
            assert (one.dtype, one.layout, one.shapes.tolist()) == (other.dtype, other.layout, other.shapes.tolist())
            assert all((one.sample(k) == other.sample(k)).all() for k in range(4))
            assert all(one.sample(k).flags.writeable for k in range(4))
            assert one.part(1, 3).sample(0).tolist() == other.sample(1).tolist()
        assert found[0].source_info is found[1].source_info and list(found[1].source_info) == info
        assert found[2].source_info is None
        assert (np.diff(found[1].addresses) == 60_000).all() and found[1].is_placed
    leases = len(wire.lent)
    del found, one
    assert len(set(wire.returned)) == len(wire.returned) == 4  # two batches in blocks, twice
    assert max(wire.returned) <= leases


def test_data_that_are_not_dense_are_sent_as_json(wire):
    ragged = placed(wire, [np.zeros((k + 1, 3), np.uint8) for k in range(4)])
    for _ in range(2):
        data, header = wire.answer(ragged)
        assert data is None and "templates" not in header


def test_the_number_of_templates_is_limited(wire):
    count = 0
    for k in range(fixed._MOST + 10):
        _, header = wire.answer(dense(np.zeros((2, k + 1), np.uint8)))
        count += len(header.get("templates", ()))
    assert count == fixed._MOST == len(wire.known)
    assert wire.answer(dense(np.zeros((2, fixed._MOST + 5), np.uint8)))[0] is None
    assert wire.answer(dense(np.zeros((2, 1), np.uint8)))[0] is not None


def test_equal_outputs_share_a_template(wire):
    one, other = dense(np.zeros((2, 3))), dense(np.ones((2, 3)))
    assert len(wire.answer(one, other)[1]["templates"]) == 1
    assert [batch.values.sum() for batch in wire.batches(wire.answer(one, other)[0])] == [0, 6]


def test_answers_that_do_not_fit_are_refused(wire):
    large = placed(wire, [np.zeros((200, 300), np.uint8)] * 2)
    wire.answer(large)
    data = wire.answer(large)[0]
    output = fixed._OUTPUT.unpack_from(data, fixed.ANSWER.size)
    for at, value in ((1, 999), (2, 1 << 40), (2, -8)):
        changed = bytearray(data)
        fixed._OUTPUT.pack_into(changed, fixed.ANSWER.size, *output[:at], value, *output[at + 1 :])
        with pytest.raises(ValueError, match="block .* does not hold 120000 bytes"):
            wire.batches(bytes(changed))
    small = dense(np.zeros((2, 3), np.uint8))
    wire.answer(small)
    data = wire.answer(small)[0]
    with pytest.raises(ValueError, match="a batch of 6 bytes came with 6 at 0 of 4"):
        wire.batches(data[:-2])


def test_dropped_answers_return_their_memory(wire):
    large = placed(wire, [np.zeros((200, 300), np.uint8)] * 2)
    small = dense(np.zeros((2, 3), np.uint8))
    wire.answer(large, small)
    data = wire.answer(large, small)[0]
    fixed.drop(data, wire.returned)
    assert list(wire.returned) == [len(wire.lent)]
