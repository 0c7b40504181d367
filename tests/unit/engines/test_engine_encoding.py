"""Batches as entries of messages between the training process and engines."""

from __future__ import annotations

import os
import sys
from collections import deque

import numpy as np
import pytest

from asyncdali.batch import Batch
from asyncdali.device.buffers import BufferPool
from asyncdali.engines.wire.blocks import ForeignBlocks, Lease, OwnBlocks
from asyncdali.engines.wire.encoding import Form, Frame, Packer, lease_of, unpack
from asyncdali.types import DALIDataType


class Wire:
    """Both ends: the packer of an engine, and the blocks of the training process."""

    def __init__(self):
        self.own, self.theirs = OwnBlocks(), ForeignBlocks()
        self.pool = BufferPool(self.own.make)
        self.lent = []
        self.packer = Packer(self.own, self.pool.allocate, self._lend)
        self.returned = deque()
        self._announced = set()

    def _lend(self, owner):
        self.lent.append(owner)
        return len(self.lent)

    def packed(self, batch):
        """(entry, frame) of a batch."""
        frame = Frame()
        entry = self.packer.pack(batch, frame)
        for number, descriptor in self.packer.used.items():
            if number not in self._announced:
                self._announced.add(number)
                self.theirs.add(number, os.dup(descriptor))
        return entry, memoryview(frame.joined())

    def unpacked(self, entry, frame):
        return unpack(entry, frame, self.theirs, lambda mapping, number, size: Lease(mapping, number, self.returned, size))


@pytest.fixture
def wire():
    found = Wire()
    yield found
    found.own.close()


def placed(wire, samples):
    """A batch in pooled memory."""
    batch = Batch(np.array([item.shape for item in samples], np.int64), DALIDataType.UINT8, "HW")
    batch.place(wire.pool.allocate(int(batch.sizes().sum())))
    for k, item in enumerate(samples):
        batch.sample(k)[...] = item
    return batch


def batches(wire):
    yield Batch.from_values(np.arange(12, dtype=np.int16).reshape(4, 3), "X")
    yield Batch.from_values(np.arange(40_000, dtype=np.float32).reshape(4, 10_000), "")
    yield placed(wire, [np.full((200, 300), k, np.uint8) for k in range(4)])
    yield placed(wire, [np.full((2, 3), 9 - k, np.uint8) for k in range(4)])
    yield placed(wire, [np.full((k + 1, 3), k, np.uint8) for k in range(4)])
    yield placed(wire, [np.full((100 * k + 100, 300), k, np.uint8) for k in range(4)])


def test_batches_and_their_memory(wire):
    for given in batches(wire):
        given.source_info = ["a", "b", "c", "d"]
        entry, frame = wire.packed(given)
        found = wire.unpacked(entry, frame)
        assert (found.dtype, found.layout, found.shapes.tolist()) == (given.dtype, given.layout, given.shapes.tolist())
        assert all((found.sample(k) == given.sample(k)).all() for k in range(4))
        assert all(found.sample(k).flags.writeable for k in range(4))
        assert list(found.source_info) == ["a", "b", "c", "d"]
        lease = lease_of(entry)
        assert not lease or lease not in wire.returned
        del found
        assert not lease or lease in wire.returned
    assert len(wire.returned) == len(set(wire.returned)) == len(wire.lent) == 3


def test_entries_that_do_not_fit_are_refused(wire):
    entry, frame = wire.packed(placed(wire, [np.zeros((200, 300), np.uint8)] * 2))
    assert entry[8] == Form.PLACED
    for at, value in ((9, 999), (10, 1 << 40), (10, -8)):
        changed = [*entry]
        changed[at] = value
        with pytest.raises(ValueError, match="block .* does not hold 120000 bytes"):
            wire.unpacked(changed, frame)
    entry, frame = wire.packed(Batch.from_values(np.zeros((2, 3), np.uint8)))
    with pytest.raises(ValueError, match="a frame of 4 bytes does not hold 6 at 0"):
        wire.unpacked(entry, frame[:-2])


def test_an_interrupted_construction_of_a_lease_returns_nothing(monkeypatch):
    """An interrupt may come between any two lines of ``__init__``. The object is deleted then."""
    raised = []
    monkeypatch.setattr(sys, "unraisablehook", lambda error: raised.append(error.exc_value))
    names = ["nbytes", "_mapping", "_number", "_pid", "_returned"]
    for done in range(len(names) + 1):
        returned: deque[int] = deque()
        values = [8, None, 17, os.getpid(), returned]
        lease = Lease.__new__(Lease)
        for name, value in list(zip(names, values))[:done]:
            setattr(lease, name, value)
        del lease
        assert list(returned) == ([17] if done == len(names) else [])
    assert not raised
