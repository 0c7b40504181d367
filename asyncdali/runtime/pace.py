"""Segments that take less time than waking a thread for them.

Handing work to another thread and back costs two context switches and takes the interpreter lock twice: 20 to 60 us of processor time. So
short pixels are computed by the thread that planned them, and a segment that is short as a whole runs on the deciding thread. The same
holds for jobs before planning: the stage thread does short ones alone. Only times depend on this, no results.
"""

from __future__ import annotations

from time import perf_counter_ns

SHORT_PIXELS_NS = 100_000
"""Pixels that take longer are shared by the worker threads."""
QUICK_NS = 400_000
"""Segments that take longer have the stage thread: decisions about other segments would wait too long."""
AWAITED_NS = 20_000_000
"""Segments that take longer have the stage thread, although the caller waits for them: Ctrl-C is delayed while they run."""
SHORT_ALONE_NS = 1_000_000
"""Jobs before planning that take longer are shared with the only worker thread, if there is one worker and one iteration in flight. The
processor time is all that counts there, until two threads save a good part of the waiting time."""
_MAYBE_SHORT = 4
"""A job that took less than this many times the limit on several threads, with the hand-over, may be short. The next one is tried on the
planning thread."""
_PAUSE = 64
"""Iterations between two such trials."""
_SURELY_LONG = 20
"""A thread rarely waits for a processor, by chance, for so many times the limit. For short pixels this is 2 ms."""
_MORE_NS = 10_000
_UNKNOWN = 1 << 62


class JobPace:
    """How long a job of every iteration takes. Single times are noisy: a thread may wait for a processor or the interpreter lock."""

    __slots__ = ("_limit", "_pause", "_took", "brief")

    def __init__(self, limit: int) -> None:
        """`limit`: nanoseconds. Longer jobs are shared."""
        self._limit, self._pause, self._took = limit, 0, _UNKNOWN
        self.brief = False
        """Whether the thread that plans the next iteration does the job alone."""

    def shared(self, took: int) -> None:
        """The job took so many nanoseconds on several threads."""
        self._pause -= 1
        if took < _MAYBE_SHORT * self._limit and self._pause < 0:
            self._pause = _PAUSE
            self.brief = True
            self._took = _UNKNOWN

    def computed(self, took: int) -> None:
        """The job took so many nanoseconds on the planning thread."""
        self._took = _estimate(self._took, took, _SURELY_LONG * self._limit)
        self.brief = self._took < self._limit


class Pace(JobPace):
    """How long an iteration of a segment takes: its pixels, and all of it."""

    __slots__ = ("_began", "_jobs", "_may_be_quick", "_planned", "_whole", "awaited", "quick")

    def __init__(self, may_be_quick: bool) -> None:
        """`may_be_quick`: the segment neither waits for anything nor calls the user's Python."""
        super().__init__(SHORT_PIXELS_NS)
        self._may_be_quick = may_be_quick
        self._began = self._planned = 0
        self._whole = _UNKNOWN
        self._jobs: list[JobPace] = []
        self.quick = False
        """Whether the deciding thread makes the next iteration."""
        self.awaited = False
        """Whether a caller that has nothing else to do makes the next iteration."""

    def job(self, number: int, alone: bool) -> JobPace:
        """The pace of the job `number` before planning. `alone`: there is one worker thread and one iteration in flight."""
        while number >= len(self._jobs):
            self._jobs.append(JobPace(SHORT_ALONE_NS if alone else SHORT_PIXELS_NS))
        return self._jobs[number]

    def begins(self) -> None:
        """An iteration begins to be planned."""
        self._began = perf_counter_ns()

    def planned(self) -> None:
        """The iteration is planned."""
        self._planned = perf_counter_ns() - self._began

    def shared(self, took: int) -> None:
        self.quick = self.awaited = False
        super().shared(took)
        if self._took == _UNKNOWN:
            self._whole = _UNKNOWN

    def computed(self, took: int) -> None:
        super().computed(took)
        self._ended(took)

    def without_pixels(self) -> None:
        """The iteration was over when it was planned."""
        self._ended(0)

    def _ended(self, took: int) -> None:
        self._whole = _estimate(self._whole, self._planned + took, _SURELY_LONG * self._limit)
        self.quick = self._may_be_quick and self._whole < QUICK_NS
        self.awaited = self._may_be_quick and self._whole < AWAITED_NS


def _estimate(before: int, took: int, surely: int) -> int:
    """The estimate after one more time. It follows shorter times at once, longer ones within a few iterations, those above `surely` at
    once."""
    return took if took < before or took > surely else min(took, before + before // 4 + _MORE_NS)
