"""The first pages of a pool's shared file, which contain the shared state of parent and workers.

    header | claim block per worker | stream block per source | rings | stack text | boot data (pickled sources, not with fork)

A *ring* is a queue of tasks. Only the parent adds tasks. Workers take tasks from its head under a lock on one byte of the file. A worker
writes the task into its *claim block* before it moves the head. So the parent always knows whether a dead worker had taken a task.

A page of the file takes memory when it is first touched. So the data that every pool needs shares the first page. A ring uses only as many
entries as were ever waiting at the same time. If it used all 1,024 entries in turn, each ring would soon take 128 KB.
"""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from typing import TypeAlias

from .. import errors
from .records import TASK, TASK_SIZE, Task
from .system import PAGE, Mapping, locked, up

Block: TypeAlias = "memoryview[int]"
"""A claim block, a stream block or the header, as words of eight bytes."""

RING_ENTRIES, FIRST_ENTRIES = 1024, 16
"""Most entries of a ring, and those that it uses first."""
RING_HEAD = 128
RING_SIZE = RING_HEAD + RING_ENTRIES * TASK_SIZE
HEADER_SIZE = 64
CLAIM_SIZE = 512
STREAM_SIZE = 128
STACK_SIZE = 64 * 1024

END_LOCK = 1 << 40  # offsets behind the file's data, used for locks only
RING_LOCK = END_LOCK + 1

# Header, in words of eight bytes.
CLOSING, END, BOOT, BOOT_SIZE = range(4)

# Claim block, in words of eight bytes.
TASK_ID, SEQUENCE, RING, SAMPLE, SINCE, PID, INCARNATION, TASKS, SAMPLES, BUSY, WAIT, RESTARTS, EXTENTS = range(13)
# Head of a ring, in words of eight bytes. Parent and workers write to different cache lines.
HEAD, TAIL, ENTRIES = 0, 8, 9

NOTED_EXTENTS = 8  # overflow extents of the running task: (offset, size) pairs from word EXTENTS on

# Stream block, in words of eight bytes.
STATE, STATE_SIZE, DISCARD, STOPPED, PULLED = range(5)
NEVER = -1


class Layout:
    """Offsets in the control pages. Equal numbers give an equal layout in every process."""

    def __init__(self, workers: int, sources: int, rings: int):
        self.workers, self.sources, self.rings = workers, sources, rings
        self.claims = HEADER_SIZE
        self.streams = self.claims + workers * CLAIM_SIZE
        self.ring = up(self.streams + sources * STREAM_SIZE, TASK_SIZE)
        self.stack = up(self.ring + rings * RING_SIZE, PAGE)
        self.size = up(self.stack + STACK_SIZE, PAGE)


class Control:
    """The control pages, mapped into this process."""

    def __init__(self, descriptor: int, layout: Layout):
        self.descriptor = descriptor
        self.layout = layout
        self.mapping = Mapping(descriptor, 0, layout.size)
        self.view = memoryview(self.mapping.bytes)  # type: ignore[arg-type]
        self.header = self._words(0, HEADER_SIZE)
        self.claims = [self._words(layout.claims + i * CLAIM_SIZE, CLAIM_SIZE) for i in range(layout.workers)]
        self.streams = [self._words(layout.streams + i * STREAM_SIZE, STREAM_SIZE) for i in range(layout.sources)]

    def _words(self, offset: int, size: int) -> Block:
        return self.view[offset : offset + size].cast("q")

    def stack_text(self) -> str:
        """The stack that a worker's fault handler wrote to the shared file, whose file position all processes share."""
        end = min(max(os.lseek(self.descriptor, 0, os.SEEK_CUR) - self.layout.stack, 0), STACK_SIZE)
        lines = bytes(self.view[self.layout.stack : self.layout.stack + end]).decode(errors="replace").splitlines()
        ours = f'"{os.path.dirname(errors.__file__)}{os.sep}'  # the folder of this package
        return "\n".join(line for line in lines[: _first_of_ours(lines, ours)])


def _first_of_ours(lines: list[str], ours: str) -> int | None:
    """Index of the first frame that belongs to the pool or to the program that started it, and not to the callable."""
    return next((number for number, line in enumerate(lines) if ours in line and "callbacks.py" in line), None)


class Ring:
    """A queue of tasks in shared memory, with an event descriptor that wakes workers."""

    def __init__(self, control: Control, number: int, tokens: int):
        start = control.layout.ring + number * RING_SIZE
        self.number = number
        self.tokens = tokens
        self._words = control.view[start : start + RING_HEAD].cast("q")
        self._entries = control.view[start + RING_HEAD : start + RING_SIZE]
        self._descriptor = control.descriptor
        self._byte = RING_LOCK + number

    @property
    def head(self) -> int:
        return self._words[HEAD]

    @property
    def tail(self) -> int:
        return self._words[TAIL]

    def locked(self) -> AbstractContextManager[None]:
        return locked(self._descriptor, self._byte)

    # ------------------------------------------------------------------------------------------------------------ parent

    def _at(self, sequence: int) -> int:
        """Where the entry of a task is. The parent may change it with the lock held only."""
        return sequence % (self._words[ENTRIES] or FIRST_ENTRIES) * TASK_SIZE

    def room(self, wanted: int) -> int:
        """Number of tasks that can be added. The ring uses more entries, if it has them, for as many tasks as are wanted."""
        waiting = self.tail - self.head
        used = self._words[ENTRIES] or FIRST_ENTRIES
        needed = min(waiting + wanted, RING_ENTRIES)
        if needed > used:
            self._use(1 << (needed - 1).bit_length())
            used = self._words[ENTRIES]
        return used - waiting

    def _use(self, entries: int) -> None:
        with self.locked():
            waiting = [(sequence, TASK.unpack_from(self._entries, self._at(sequence))) for sequence in range(self.head, self.tail)]
            self._words[ENTRIES] = entries
            for sequence, task in waiting:
                TASK.pack_into(self._entries, self._at(sequence), *task)

    def write(self, place: int, task: Task) -> None:
        """Write a task `place` entries behind the tail. Workers see it after `publish`."""
        TASK.pack_into(self._entries, self._at(self.tail + place), *task)

    def publish(self, count: int) -> None:
        self._words[TAIL] = self.tail + count

    def withdraw(self, tasks: range) -> set[int]:
        """Cancel the given tasks that no worker has taken, and return them."""
        with self.locked():
            found = set()
            for sequence in range(self.head, self.tail):
                at = self._at(sequence)
                task = Task._make(TASK.unpack_from(self._entries, at))
                if task.live and task.task in tasks:
                    TASK.pack_into(self._entries, at, *task._replace(live=0))
                    found.add(task.task)
            return found

    def put_back(self, task: Task) -> None:
        """Put a task back at the head. Only for a ring whose single reader is dead."""
        self.room(1)
        head = self.head - 1
        TASK.pack_into(self._entries, self._at(head), *task)
        self._words[HEAD] = head

    # ------------------------------------------------------------------------------------------------------------ worker

    def claim(self, block: Block) -> Task | None:
        """Take the first task, or return None."""
        with self.locked():
            head, tail = self._words[HEAD], self._words[TAIL]
            while head < tail:
                task = Task._make(TASK.unpack_from(self._entries, self._at(head)))
                if task.live:
                    block[SEQUENCE] = head
                    block[RING] = self.number
                    block[SAMPLE] = task.first
                    block[TASK_ID] = task.task
                    self._words[HEAD] = head + 1
                    return task
                head += 1
                self._words[HEAD] = head
            return None
