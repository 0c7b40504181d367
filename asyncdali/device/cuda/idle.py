"""Keeps streams of closed pipelines for later pipelines."""

from __future__ import annotations

import weakref
from typing import Any

from .driver import Driver

_idle: weakref.WeakKeyDictionary[Any, dict[int, list[int]]] = weakref.WeakKeyDictionary()
"""Streams of closed pipelines, by driver and device. They are not destroyed, because outputs that are still alive may refer to them."""


def take_stream(driver: Driver, device: int) -> int:
    """A stream of the calling thread's device; an idle one if there is one."""
    left = _idle.setdefault(driver, {}).setdefault(device, [])
    try:
        return left.pop()
    except IndexError:
        return driver.stream_create()


def leave_stream(driver: Driver, device: int, stream: int) -> None:
    """Return a stream whose work is done."""
    _idle.setdefault(driver, {}).setdefault(device, []).append(stream)
