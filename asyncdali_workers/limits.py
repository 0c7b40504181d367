"""Checks whether there is enough memory, before memory is reserved whose size comes from data or from arguments.

Linux grants more memory than there is, and finds the pages when they are touched. Then the OOM killer ends a process, perhaps another one.
So large requests are compared with the free memory and with the memory limits of this process's control groups (v1 or v2). Samples are also
compared with a cap. Requests below :data:`CHECKED` bytes are not checked: callers compare with that number themselves.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

CHECKED = 64 << 20
"""Smaller requests are granted without a check."""

CAP_VARIABLE = "ASYNCDALI_MAX_SAMPLE_BYTES"
DEFAULT_CAP = 16 << 30

PROC = Path("/proc")
CGROUPS = Path("/sys/fs/cgroup")

_NO_LIMIT = 1 << 60  # cgroup v1 says "none" with a huge number


class TooLarge(MemoryError):
    """A request for more memory than there is, or than a sample may have. `sample` is its number in the batch, if known."""

    def __init__(self, message: str = "", sample: int | None = None):
        super().__init__(message)
        self.sample = sample


class Room(NamedTuple):
    """The available bytes, and the limit that determines them."""

    size: int
    limit: str


def sample_cap() -> int:
    """Most bytes of one sample: ``ASYNCDALI_MAX_SAMPLE_BYTES``, default 16 GiB. ValueError if the variable is no positive number."""
    text = os.environ.get(CAP_VARIABLE, "")
    if not text:
        return DEFAULT_CAP
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"{CAP_VARIABLE}={text!r}: expected a number of bytes, at least 1")
    return int(text)


def check(size: int, what: str) -> None:
    """Raise TooLarge unless `size` bytes may be reserved; `what` begins the message. Reads files: use it from :data:`CHECKED` bytes on."""
    least = min(_rooms(), default=None)
    if least is not None and size > least.size:
        raise TooLarge(f"{what}: {size:,} bytes are needed; {_shown(least)}")


def check_cap(shape: Sequence[int], itemsize: int, what: str, sample: int | None = None, on_gpu: bool = False) -> int:
    """The bytes of a sample of this shape. TooLarge if a sample may not have as many; `what` begins the message.

    `on_gpu`: the sample is for a GPU's memory, so the message does not mention this machine's memory.
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
    """Raise TooLarge unless a temporary of `size` bytes may be made; `what` begins the message. Small sizes are not checked."""
    if size >= CHECKED:
        check(size, what)


def check_array(array: Any, what: str) -> None:
    """Raise TooLarge unless a sample's array may be copied; `what` begins the message. Small arrays are not checked."""
    if array.nbytes >= CHECKED:
        check_cap(array.shape, array.itemsize, what)
        check(array.nbytes, f"{what} of shape {array.shape}")


def new_array(count: int, dtype: Any, what: str) -> np.ndarray:
    """An uninitialised array of `count` elements. TooLarge if there is no memory for it; `what` begins the message."""
    size = count * np.dtype(dtype).itemsize
    if size >= CHECKED:
        check(size, what)
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
    """The memory that the limits of this process's control groups leave, from the innermost group to the root."""
    for line in _text(PROC / "self" / "cgroup").splitlines():
        number, controllers, path = [*line.split(":", 2), "", ""][:3]
        if number == "0" and not controllers:
            yield from _walked(CGROUPS, path, ("memory.max", "memory.current", "inactive_file"))
        elif "memory" in controllers.split(","):
            yield from _walked(CGROUPS / "memory", path, ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"))


def _walked(root: Path, path: str, names: tuple[str, str, str]) -> Iterator[Room]:
    """In a container the path may be the host's, while the root of the mount is this process's own group. So the root is read last."""
    group = root / path.lstrip("/")
    while True:
        room = _room_of(group, *names)
        if room is not None:
            yield room
        if group == root or root not in group.parents:
            return
        group = group.parent


def _room_of(group: Path, limit: str, usage: str, cached: str) -> Room | None:
    """Inactive file pages count as used memory, but the kernel reclaims them when memory is short."""
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

