"""The search for the sample at which engines end: parts of the iteration are made again, each by an engine that may end at it."""

from __future__ import annotations


class Search:
    """Bisection of the samples from `low` to `high`, which end an engine when they are made together.

    :attr:`probe` is the part to make next, None at the end. Tell with :meth:`died` or :meth:`survived` what happened.
    """

    def __init__(self, low: int, high: int):
        self.low, self.high = low, high
        self.sample = -1
        """The sample that ends engines, once it is found; -1: none does by itself."""
        self.deaths = 0
        self._again = False  # one sample is left, and is made once more
        self.probe: tuple[int, int] | None = self._half()

    def died(self) -> None:
        """An engine ended at the probe."""
        assert self.probe is not None
        self.deaths += 1
        self.low, self.high = self.probe
        if self.high - self.low > 1:
            self.probe = self._half()
        elif not self._again:  # the engine may have been killed by somebody else
            self._again = True
        else:
            self.sample, self.probe = self.low, None

    def survived(self) -> None:
        """The probe was made."""
        assert self.probe is not None
        if self.probe == (self.low, self.high):  # all that was left
            self.probe = None
            return
        self.low = self.probe[1]
        self.probe = self._half()

    def _half(self) -> tuple[int, int]:
        """The first half of what is left; a last sample is made, too, for the others are not guilty together only."""
        return self.low, self.low + max(1, (self.high - self.low) // 2)
