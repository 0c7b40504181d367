"""Remote batches that are asked for before they are needed."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import numpy as np

from .order import OrderPosition, SampleOrder


class BatchesAhead:
    """What `fetch` gives for the batches of `order`, `depth` of which are fetched at a time, each on a thread of its own.

    The order is one of its own, so that the reader's position knows nothing of it. What it says is a guess: a batch of other indices (the
    batch size changed, a checkpoint was restored) is fetched then, and the guesses start anew behind it.
    """

    def __init__(self, order: SampleOrder, depth: int, fetch: Callable[[np.ndarray], Any]):
        self._order, self._depth, self._fetch = order, depth, fetch
        self._ahead: deque[tuple[np.ndarray, Future[Any]]] = deque()

    def get(self, indices: np.ndarray, position: OrderPosition) -> Any:
        """``fetch(indices)``, or the error that it raises; `position` is that of the reader behind this batch."""
        if self._ahead and np.array_equal(self._ahead[0][0], indices):
            _, found = self._ahead.popleft()
        else:
            self._ahead.clear()
            self._order.restore(position)
            found = self._begin(indices)
        while len(self._ahead) < self._depth - 1:
            coming = self._order.take(len(indices))
            self._ahead.append((coming, self._begin(coming)))
        return found.result()

    def _begin(self, indices: np.ndarray) -> Future[Any]:
        future: Future[Any] = Future()

        def fetch() -> None:
            try:
                future.set_result(self._fetch(indices))
            except BaseException as error:  # raised in the iteration that the batch belongs to
                future.set_exception(error)

        threading.Thread(target=fetch, name="asyncdali-fetch", daemon=True).start()
        return future
