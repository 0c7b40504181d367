"""The binary records between the parent and its workers. Fixed sizes: nothing is pickled on the way of a batch."""

from __future__ import annotations

import struct
from typing import NamedTuple


class Task(NamedTuple):
    """One slice of one batch; 128 bytes in a ring."""

    live: int  # 0: cancelled before anybody took it
    source: int
    task: int  # ticket * SLICES + number of the slice
    first: int  # samples [first, first + count) of the batch; the whole batch for kinds "batch" and "stream"
    count: int  # type: ignore[assignment]
    iteration: int
    epoch: int
    slot: int  # where in the shared file the batch goes
    capacity: int
    area: int  # where in the slot this slice may put what was not predicted
    area_size: int
    schema: int  # number of the prediction, whose text stands in the slot's first page; 0: none
    submitted: int  # CLOCK_MONOTONIC, nanoseconds


TASK = struct.Struct("<II" + "q" * 11)
TASK_SIZE = 128
SLICES = 1 << 16


class Done(NamedTuple):
    """The answer to a task, or news from a worker; 128 bytes, written to the result pipe at once."""

    kind: int  # never 0: an empty place of the parent's landing buffer
    worker: int
    task: int
    count: int  # type: ignore[assignment]
    table: int  # where in the shared file more is said; 0: all is as predicted
    table_size: int
    busy: int  # nanoseconds in the callable and in writing
    bytes: int
    needed: int  # bytes that did not go where the prediction had a place for them
    sample: int  # of an error
    pulls: int


DONE = struct.Struct("<II" + "q" * 9)
DONE_SIZE = 128

OK, STOP, ERROR, READY, FAILED = range(1, 6)


def task_of(ticket: int, number: int) -> int:
    return ticket * SLICES + number
