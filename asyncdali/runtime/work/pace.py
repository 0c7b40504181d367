"""Segments that take less time than waking a thread for them.

Handing work to another thread and back costs two context switches and takes the interpreter lock twice: 20 to 60 us of processor time. So
short pixels are computed by the thread that planned them, and a segment that is short as a whole runs on the deciding thread. Only times
depend on this, no results.
"""

from __future__ import annotations

from time import perf_counter_ns

SHORT_PIXELS_NS = 100_000
"""Pixels that take longer are shared by the worker threads."""
QUICK_NS = 400_000
"""Longer segments run on the stage thread, because decisions about other segments would wait for them."""
AWAITED_NS = 20_000_000
"""Longer segments run on the stage thread even if the caller waits, because on the caller's thread they would delay Ctrl-C."""
AWAITED_FILES_NS = 2_000_000
"""The same limit for segments that read local files. Files that come this fast are in the system's cache."""
_MAYBE_SHORT = 4
"""Pixels that took less than this many times the limit on the worker threads, with the hand-over, may be short. The next ones are tried on
the planning thread."""
_PAUSE = 64
"""Iterations between two such trials."""
_SURELY_LONG_NS = 2_000_000
"""Times from here on are believed at once: a thread almost never waits this long for a processor."""
_MORE_NS = 10_000
_UNKNOWN = 1 << 62


class Pace:
    """How long an iteration of a segment takes. Single times are noisy: a thread may wait for a processor or the interpreter lock."""

    __slots__ = ("_awaited_ns", "_began", "_may_be_quick", "_pause", "_pixels", "_planned", "_whole", "awaited", "brief", "quick")

    def __init__(self, may_be_quick: bool, awaited_ns: int | None = None) -> None:
        """`may_be_quick`: the segment neither waits for anything nor calls the user's Python. `awaited_ns`: a caller that has nothing else
        to do makes iterations that take less; by default AWAITED_NS if the segment may be quick, else none."""
        self._may_be_quick = may_be_quick
        self._awaited_ns = (AWAITED_NS if may_be_quick else 0) if awaited_ns is None else awaited_ns
        self._began = self._planned = self._pause = 0
        self._pixels = self._whole = _UNKNOWN
        self.brief = False
        """Whether the thread that plans the next iteration computes its pixels, too."""
        self.quick = False
        """Whether the deciding thread makes the next iteration."""
        self.awaited = False
        """Whether a caller that waits for the next iteration makes it on its own thread."""

    def begins(self) -> None:
        """The planning of an iteration begins."""
        self._began = perf_counter_ns()

    def planned(self) -> None:
        """The iteration is planned."""
        self._planned = perf_counter_ns() - self._began

    def shared(self, took: int) -> None:
        """The pixels took `took` nanoseconds on the worker threads."""
        self.quick = self.awaited = False
        self._pause -= 1
        if took < _MAYBE_SHORT * SHORT_PIXELS_NS and self._pause < 0:
            self._pause = _PAUSE
            self.brief = True
            self._pixels = self._whole = _UNKNOWN

    def computed(self, took: int) -> None:
        """The pixels took `took` nanoseconds on the planning thread."""
        self._pixels = _estimate(self._pixels, took)
        self.brief = self._pixels < SHORT_PIXELS_NS
        self._ended(took)

    def without_pixels(self) -> None:
        """The iteration has no pixels: it was complete when it was planned."""
        self._ended(0)

    def _ended(self, took: int) -> None:
        self._whole = _estimate(self._whole, self._planned + took)
        self.quick = self._may_be_quick and self._whole < QUICK_NS
        self.awaited = self._whole < self._awaited_ns


def _estimate(before: int, took: int) -> int:
    """The estimate after one more time. It follows shorter and very long times immediately, and longer ones within a few iterations."""
    return took if took < before or took > _SURELY_LONG_NS else min(took, before + before // 4 + _MORE_NS)
