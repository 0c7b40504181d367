"""Calls that are computed later: when one of their results is read, or when their context is left."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence

from ..batch import Batch as Samples
from ..errors import set_aside


class KnownOutput:
    """The facts about an output before it is computed. None: it has to be computed."""

    __slots__ = ("device", "dtype", "layout", "ndim", "shapes")

    def __init__(
        self, dtype: object = None, ndim: int | None = None, layout: str | None = None, device: str = "cpu", shapes: object = None
    ):  # fmt: skip
        self.dtype, self.ndim, self.layout, self.device, self.shapes = dtype, ndim, layout, device, shapes


class DelayedCall:
    """One call. Any thread may ask for its outputs; the first one computes them. An error is raised at each request."""

    __slots__ = ("__weakref__", "_compute", "_error", "_lock", "_made", "declared", "dependents", "read", "told", "where")

    def __init__(self, compute: Callable[[], Sequence[Samples]], declared: Sequence[KnownOutput], where: str):
        """`where`: the user's line that made the call."""
        self._compute: Callable[[], Sequence[Samples]] | None = compute
        self._made: Sequence[Samples] = ()
        self._error: BaseException | None = None
        self._lock = threading.Lock()
        self.declared = declared
        self.where = where
        self.dependents: list[weakref.ReferenceType[DelayedCall]] = []
        """Calls that will be computed of its outputs: before somebody gets the outputs' memory, which they may change."""
        self.read = 0
        """A bit for each output whose memory somebody has got, so that it may have been changed."""
        self.told = False
        """Whether its error was raised."""

    @property
    def is_done(self) -> bool:
        """Whether it is computed, or its error was raised."""
        return self._compute is None and (self._error is None or self.told)

    def finish_dependents(self) -> None:
        """Compute the calls that need the outputs as they are."""
        while self.dependents:
            dependent = self.dependents.pop()()
            if dependent is not None:
                dependent.batches()

    def batches(self) -> Sequence[Samples]:
        """The outputs. Raises the error of the call, with the lines of the call and of the read."""
        if self._compute is not None:
            with self._lock:
                if self._compute is not None:
                    try:
                        self._made = self._compute()
                    except Exception as error:
                        self._error = error
                        if hasattr(error, "add_note"):
                            error.add_note(f"The operator was called at {self.where}.")
                        set_aside(error)
                    self._compute = None
        if self._error is not None:
            self.told = True
            raise self._error
        return self._made
