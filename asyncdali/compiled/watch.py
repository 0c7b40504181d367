"""Waits without the interpreter until commands succeed that ask a GPU for events, or until a descriptor is readable.

CUDA's events have no descriptors. So the thread waits for the descriptors, and asks for the events in between.
"""

from __future__ import annotations

from . import kinds
from .gate import DONE, FAILED, LATE
from .intrinsics import call3, larger, load_i64, smaller, store_i64
from .job_tables import WATCH
from .step import compiled

watch_at = WATCH.at
_NOT_READY = 600
"""CUDA_ERROR_NOT_READY: the event has not been reached."""
_SHORTEST, _LONGEST = 50_000, 500_000
"""Nanoseconds between two questions: an eighth of the time so far, within these limits."""
_ppoll = kinds.ExternalFunction("ppoll", kinds.int32(kinds.int64, kinds.int64, kinds.int64, kinds.int64))


@compiled(1)
def wait_for_first(watch):
    """Wait for a WATCH. Returns :data:`DONE` if its events are reached, :data:`LATE` if a descriptor is readable or at the end of its time,
    and :data:`FAILED` if asking for the events failed or a signal came."""
    left, waited = load_i64(watch + watch_at.nanoseconds), 0
    while True:
        begin, end = load_i64(watch + watch_at.begin), load_i64(watch + watch_at.end)
        result = call3(load_i64(watch + watch_at.perform), load_i64(watch + watch_at.driver), begin, end)
        if result == 0:
            return DONE
        if result & 0xFFFFFFFF != _NOT_READY:
            return FAILED
        if left <= 0:
            return LATE
        pause = smaller(smaller(larger(waited // 8, _SHORTEST), _LONGEST), left)
        store_i64(watch + watch_at.pause_0, 0)
        store_i64(watch + watch_at.pause_1, pause)
        found = _ppoll(load_i64(watch + watch_at.descriptors), load_i64(watch + watch_at.count), watch + watch_at.pause_0, 0)
        if found != 0:
            return LATE if found > 0 else FAILED
        waited += pause
        left -= pause
