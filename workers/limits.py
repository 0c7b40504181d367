"""Is there memory for this? Asked before memory is reserved whose size comes from data or from arguments.

Linux grants more memory than there is, and looks for it when pages are touched. Then the OOM killer ends a process, perhaps another one. So
what is large is compared first with the free memory, with the memory limits of the control groups that this process is in (v1 or v2), and,
for a sample, with a cap. Requests below :data:`CHECKED` bytes are not compared with anything: callers look at that number themselves.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

CHECKED = 64 << 20
"""Smaller requests are granted without a look."""

CAP_VARIABLE = "ASYNCDALI_MAX_SAMPLE_BYTES"
DEFAULT_CAP = 16 << 30

PROC = Path("/proc")
CGROUPS = Path("/sys/fs/cgroup")

_NO_LIMIT = 1 << 60  # cgroup v1 says "none" with a huge number


class TooLarge(MemoryError):
    """More memory than there is, or than a sample may have. `sample` counts within the batch, where one is known."""

    def __init__(self, message: str = "", sample: int | None = None):
        super().__init__(message)
        self.sample = sample


class Room(NamedTuple):
    """Bytes that may be taken, and by which limit."""

    size: int
    limit: str


def sample_cap() -> int:
    """Bytes that one sample may have: ``ASYNCDALI_MAX_SAMPLE_BYTES``, 16 GiB unless set. ValueError if it is set to no positive number."""
    text = os.environ.get(CAP_VARIABLE, "")
    if not text:
        return DEFAULT_CAP
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"{CAP_VARIABLE}={text!r}: expected a number of bytes, at least 1")
    return int(text)


def check(size: int, what: str) -> None:
    """TooLarge unless `size` bytes may be reserved; `what` begins the message. Reads files: not for sizes below :data:`CHECKED`."""
    least = min(_rooms(), default=None)
    if least is not None and size > least.size:
        raise TooLarge(f"{what}: {size:,} bytes are needed; {_shown(least)}")


def check_cap(shape: Sequence[int], itemsize: int, what: str, sample: int | None = None, on_gpu: bool = False) -> int:
    """The bytes of a sample of this shape; TooLarge if it has more than a sample may have. `what` begins the message.

    `on_gpu`: the sample is for a GPU's memory, so that the message says nothing of this machine's.
    """
    size = itemsize
    for extent in shape:
        size *= int(extent)
    cap = sample_cap()
    if size > cap:
        least = None if on_gpu else min(_rooms(), default=None)
        more = "" if least is None else f"; {_shown(least)}"
        raise TooLarge(
            f"{what} of shape {tuple(map(int, shape))} has {size:,} bytes; a sample may have {cap:,} ({CAP_VARIABLE}){more}", sample
        )
    return size


def check_size(size: int, what: str) -> None:
    """TooLarge unless a temporary of `size` bytes may be made; `what` begins the message. Small ones are not looked at."""
    if size >= CHECKED:
        check(size, what)


def check_array(array: Any, what: str) -> None:
    """TooLarge unless there may be a copy of a sample's array; `what` begins the message. Small ones are not looked at."""
    if array.nbytes >= CHECKED:
        check_cap(array.shape, array.itemsize, what)
        check(array.nbytes, f"{what} of shape {array.shape}")


def new_array(count: int, dtype: Any, what: str) -> np.ndarray:
    """An array of `count` elements, contents undefined. TooLarge if there is no memory for it; `what` begins the message."""
    check_size(count * np.dtype(dtype).itemsize, what)
    return np.empty(count, dtype)


def _shown(room: Room) -> str:
    return f"{max(room.size, 0):,} are left by {room.limit}"


def _rooms() -> Iterator[Room]:
    free = _free_memory()
    if free is not None:
        yield Room(free, "the free memory of this machine")
    yield from _group_rooms()


def _free_memory() -> int | None:
    for line in _text(PROC / "meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) << 10
    return None


def _group_rooms() -> Iterator[Room]:
    """What the limits of this process's control groups leave, from the innermost to the root's."""
    for line in _text(PROC / "self" / "cgroup").splitlines():
        number, controllers, path = [*line.split(":", 2), "", ""][:3]
        if number == "0" and not controllers:
            yield from _walked(CGROUPS, path, ("memory.max", "memory.current", "inactive_file"))
        elif "memory" in controllers.split(","):
            yield from _walked(CGROUPS / "memory", path, ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"))


def _walked(root: Path, path: str, names: tuple[str, str, str]) -> Iterator[Room]:
    """In a container the path may be the host's, and what is mounted at the root is this process's own group: it is looked at last."""
    group = root / path.lstrip("/")
    while True:
        room = _room_of(group, *names)
        if room is not None:
            yield room
        if group == root or root not in group.parents:
            return
        group = group.parent


def _room_of(group: Path, limit: str, usage: str, cached: str) -> Room | None:
    """Pages of files that were not used lately are counted as used, and given back when memory is short."""
    most, used = _number(_text(group / limit)), _number(_text(group / usage))
    if most is None or used is None or most >= _NO_LIMIT:
        return None
    given_back = 0
    for line in _text(group / "memory.stat").splitlines():
        name, _, value = line.partition(" ")
        if name == cached:
            given_back = _number(value) or 0
    return Room(most - used + given_back, f"the memory limit of the control group ({most:,} in {group / limit})")


def _number(text: str) -> int | None:
    text = text.strip()
    return int(text) if text.isdecimal() else None  # "max": no limit


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""

