"""The binary records between the parent and its workers. They have fixed sizes, so batches need no pickling."""

from __future__ import annotations

import struct
from typing import NamedTuple


class Task(NamedTuple):
    """One slice of one batch; 128 bytes in a ring."""

    live: int  # 0: cancelled before any worker took it
    source: int
    task: int  # ticket * SLICES + number of the slice
    first: int  # samples [first, first + count) of the batch; the whole batch for kinds "batch" and "stream"
    count: int  # type: ignore[assignment]
    iteration: int
    epoch: int
    slot: int  # offset of the batch in the shared file
    capacity: int
    area: int  # offset in the slot where this slice may write data that was not predicted
    area_size: int
    schema: int  # number of the prediction, whose text is in the slot's first page; 0: none
    submitted: int  # CLOCK_MONOTONIC, nanoseconds


TASK = struct.Struct("<II" + "q" * 11)
TASK_SIZE = 128
SLICES = 1 << 16


class Done(NamedTuple):
    """The answer to a task, or a report of a worker; 128 bytes, written to the result pipe in one call."""

    kind: int  # never 0, which marks an empty entry of the parent's buffer
    worker: int
    task: int
    count: int  # type: ignore[assignment]
    table: int  # offset of the table in the shared file; 0: the prediction was right
    table_size: int
    busy: int  # nanoseconds in the callable and in writing
    bytes: int
    needed: int  # bytes for which the prediction had no place
    sample: int  # sample of an error
    pulls: int


DONE = struct.Struct("<II" + "q" * 9)
DONE_SIZE = 128

OK, STOP, ERROR, READY, FAILED = range(1, 6)


def task_of(ticket: int, number: int) -> int:
    return ticket * SLICES + number
