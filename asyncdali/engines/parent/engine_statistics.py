"""Counters of engines: those of this process, and those that an engine reports."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from ..wire import channel as channels

if TYPE_CHECKING:
    from .loader import Loader

ANSWERS = 1.0
"""Seconds that :func:`statistics` waits for the engines' own numbers. A busy engine answers after its iteration."""


def statistics(loader: Loader) -> list[dict[str, object]]:
    """The work of each engine. For an engine that does not answer within a second, only the part known in this process."""
    found: dict[int, dict[str, Any]] = {}
    done = threading.Event()

    def heard(data: dict[str, Any]) -> None:
        found[data["engine"]] = data
        if len(found) == len(loader.places):
            done.set()

    def ask() -> None:
        for place in loader.places:
            header, descriptors = loader.sender.outer(place.engine, {})
            try:
                channels.send_now(place.engine.channel, channels.message({**header, "statistics": 1}), descriptors)
            except OSError:
                pass

    if not loader.closed and not loader.on_its_thread:
        loader.answers.waiting.append(heard)
        try:
            loader.request(ask)
            done.wait(ANSWERS)
        finally:
            loader.answers.waiting.remove(heard)
    return [
        {
            "engine": place.engine.number, "pid": place.engine.pid, "asked": place.asked, "answered": place.answered,
            "outstanding": len(place.outstanding),
            "restarts": place.restarts, "busy_seconds": place.busy / 1e9, **found.get(place.engine.number, {}),
        }
        for place in loader.places
    ]  # fmt: skip
