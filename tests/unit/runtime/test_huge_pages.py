"""Huge pages of the memory that engines and the training process share."""

from __future__ import annotations

import os

import numpy as np
import pytest
from asyncdali_workers.shared import system

from asyncdali.engines.wire.blocks import ForeignBlocks, OwnBlocks

HUGE = 2 << 20
SIZE = 3 * HUGE + 5 * system.PAGE


def huge_bytes(address):
    """Bytes of the mapping at `address` that have huge pages in this process."""
    inside = False
    with open("/proc/self/smaps") as file:
        for line in file:
            name, *values = line.split()
            if "-" in name:
                inside = int(name.split("-")[0], 16) == address
            elif inside and name == "ShmemPmdMapped:":
                return int(values[0]) * 1024
    return 0


def block():
    own = OwnBlocks()
    memory = own.make(SIZE)
    number, descriptor, start = own.find(memory.ctypes.data, memory.ctypes.data + SIZE)
    assert start == memory.ctypes.data and memory.size == SIZE
    return own, memory, number, descriptor


def test_both_processes_have_huge_pages():
    own, memory, number, descriptor = block()
    if not huge_bytes(memory.ctypes.data):
        pytest.skip("this kernel gives no huge pages to shared memory")
    memory[:] = np.arange(SIZE, dtype=np.uint32).view(np.uint8)[:SIZE]
    theirs = ForeignBlocks()
    theirs.add(number, os.dup(descriptor))
    address, mapping = theirs.at(number, 0, SIZE)
    assert address % HUGE == memory.ctypes.data % HUGE == 0
    np.testing.assert_array_equal(mapping.bytes, memory)
    assert huge_bytes(memory.ctypes.data) == huge_bytes(address) == 3 * HUGE  # the rest keeps small pages
    mapping.bytes[-1] ^= 1
    np.testing.assert_array_equal(mapping.bytes, memory)
    theirs.close(), own.close()


@pytest.mark.parametrize("reason", ["kernel", "administrator", "address"])
def test_pages_stay_small_without_huge_pages(monkeypatch, reason):
    if reason == "kernel":
        monkeypatch.setattr(system, "_COLLAPSE", 9999)  # as kernels before 6.1: the advice is unknown
    elif reason == "administrator":
        monkeypatch.setattr(system, "_allows_huge_pages", lambda: False)
    else:
        monkeypatch.setattr("asyncdali.engines.wire.blocks.huge_place", lambda size: start + system.PAGE)
        start = system.huge_place(SIZE)
    own, memory, _, _ = block()
    memory[:] = 7
    assert memory.min() == 7 and huge_bytes(memory.ctypes.data) == 0
    own.close()


def test_an_interrupt_leaves_a_block_that_can_be_closed(monkeypatch):
    def interrupted(mapping):
        raise KeyboardInterrupt

    monkeypatch.setattr("asyncdali.engines.wire.blocks.use_huge_pages", interrupted)
    own = OwnBlocks()
    with pytest.raises(KeyboardInterrupt):
        own.make(SIZE)
    assert own.take_gone() == [1] and own.take_gone() == []
    own.close()


def test_small_blocks_are_not_aligned():
    assert system.huge_place(2 * HUGE - 1) is None
    assert system.huge_place(2 * HUGE) % HUGE == 0


def test_no_room_in_the_address_space():
    assert system.huge_place(1 << 47) is None
