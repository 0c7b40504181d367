"""Spans of an engine's work for a trace. They are sent with the answers. All processes of a machine share the clock."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

_REMEMBERED = 64
"""Number of iterations whose numbers are kept. Their spans are added while they are made, or shortly after."""


class Spans:
    """A recorder (``runtime.counting.segment_counters.Recorder``) in an engine. Any thread adds spans; the loop's thread takes them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: list[list[Any]] = []
        self._numbers: OrderedDict[int, int] = OrderedDict()

    def begins(self, index: int, number: int) -> None:
        """Note that record `index` of the engine is iteration `number` of the pipeline."""
        with self._lock:
            self._numbers[index] = number
            while len(self._numbers) > _REMEMBERED:
                self._numbers.popitem(last=False)

    def span(self, what: str, began: int, ended: int, iteration: int, lane: str | None = None) -> None:
        """See ``Recorder``."""
        with self._lock:
            lane = lane or threading.current_thread().name.removeprefix("asyncdali-engine-")
            self._found.append([what, began, ended, self._numbers.get(iteration, -1), lane])

    def level(self, what: str, time: int, value: int) -> None:
        """Ignored: the training process records how many iterations are ready."""

    def take(self) -> list[list[object]]:
        """The spans added since the last call, as JSON data."""
        with self._lock:
            found, self._found = self._found, []
        return found


def hand_on(found: list[list[Any]], recorder: Callable[..., None], engine: int) -> None:
    """Pass the spans of an answer to ``recorder(what, began, ended, iteration, lane)``."""
    for what, began, ended, iteration, lane in found:
        recorder(what, began, ended, iteration, f"engine {engine} {lane}")
