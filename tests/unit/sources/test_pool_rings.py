"""Ring buffers of tasks in the shared memory of a pool: they grow only if needed, and lose no task when they grow."""

from __future__ import annotations

import os

import pytest
from asyncdali_workers.shared.control import FIRST_ENTRIES, RING_ENTRIES, Control, Layout, Ring
from asyncdali_workers.shared.records import TASK_SIZE, Task


@pytest.fixture
def ring():
    layout = Layout(2, 1, 2)
    descriptor = os.memfd_create("ring")
    os.ftruncate(descriptor, layout.size)
    control = Control(descriptor, layout)  # so that no view keeps the mapping alive
    try:
        yield Ring(control, 1, -1)
    finally:
        os.close(descriptor)


def task(number):
    return Task(1, 0, number, 0, 1, number, 0, 0, 0, 0, 0, 0, 0)


def add(ring, numbers):
    numbers = list(numbers)
    assert ring.room(len(numbers)) >= len(numbers)
    for place, number in enumerate(numbers):
        ring.write(place, task(number))
    ring.publish(len(numbers))


def taken(ring, count):
    block = [0] * 64
    return [ring.claim(block).task for _ in range(count)]


def used_entries(ring):
    """The number of entries that were ever written."""
    entries = bytes(ring._entries)
    return sum(any(entries[at : at + TASK_SIZE]) for at in range(0, len(entries), TASK_SIZE))


def test_a_ring_uses_no_more_entries_than_it_needs(ring):
    for number in range(0, 3000, 2):
        add(ring, (number, number + 1))
        assert taken(ring, 2) == [number, number + 1]
    assert used_entries(ring) == FIRST_ENTRIES


def test_waiting_tasks_move_when_a_ring_grows(ring):
    add(ring, range(11))
    assert taken(ring, 7) == list(range(7))
    add(ring, range(11, 20))
    assert used_entries(ring) == FIRST_ENTRIES
    add(ring, range(20, 100))
    assert ring.withdraw(range(50, 60)) == set(range(50, 60))
    assert taken(ring, 83) == [*range(7, 50), *range(60, 100)]
    assert ring.claim([0] * 64) is None


def test_a_full_ring(ring):
    add(ring, range(RING_ENTRIES))
    assert ring.room(1) == 0
    assert taken(ring, 1) == [0]
    assert ring.room(5) == 1


def test_a_task_can_be_put_back_at_the_front_of_a_full_ring(ring):
    add(ring, range(FIRST_ENTRIES))
    assert taken(ring, 1) == [0]
    add(ring, [FIRST_ENTRIES])
    ring.put_back(task(0))
    assert taken(ring, FIRST_ENTRIES + 1) == list(range(FIRST_ENTRIES + 1))
