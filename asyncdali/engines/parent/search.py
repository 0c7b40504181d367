"""The search for the sample at which engines end. Parts of the iteration are repeated, each by an engine that may end at it."""

from __future__ import annotations


class Search:
    """Bisection of the samples from `low` to `high`. An engine that makes all these samples together ends.

    :attr:`probe` is the part to make next, None at the end. Report the outcome with :meth:`died` or :meth:`survived`.
    """

    def __init__(self, low: int, high: int):
        self.low, self.high = low, high
        self.sample = -1
        """The sample that ends engines. -1 before it is found, or if no single sample does."""
        self.deaths = 0
        self._again = False  # whether the last sample is being tried a second time
        self.probe: tuple[int, int] | None = self._half()

    def died(self) -> None:
        """Report that an engine ended at the probe."""
        assert self.probe is not None
        self.deaths += 1
        self.low, self.high = self.probe
        if self.high - self.low > 1:
            self.probe = self._half()
        elif not self._again:  # another program may have killed the engine
            self._again = True
        else:
            self.sample, self.probe = self.low, None

    def survived(self) -> None:
        """Report that the probe was made."""
        assert self.probe is not None
        if self.probe == (self.low, self.high):  # the probe contained all remaining samples: no sample is to blame
            self.probe = None
            return
        self.low = self.probe[1]
        self.probe = self._half()

    def _half(self) -> tuple[int, int]:
        """The first half of the remaining samples. A last single sample is also tried: engines may end only at a combination of samples."""
        return self.low, self.low + max(1, (self.high - self.low) // 2)
