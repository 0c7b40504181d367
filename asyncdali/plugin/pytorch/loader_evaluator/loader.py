"""LoaderEvaluator measures how long a loop waits for its loader, and how fast the loop would be without waiting."""

from __future__ import annotations

import itertools
import json
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import Any


class LoaderEvaluator:
    """An iterable over a loader that times it (`mode` "log"), or replays its last batches from memory ("replay").

    - dataloader: any iterable with ``len``.
    - num_cached_batches: batches that "replay" keeps. The loader is iterated once, when the object is made.
    - metrics_file: where :meth:`save_metrics` writes without a file name.

    The difference between a training loop's speed in the two modes is the cost of its loader. Raises RuntimeError if an empty loader is to
    be replayed.
    """

    def __init__(self, dataloader: Any, mode: str = "log", num_cached_batches: int = 20, metrics_file: str | None = None):
        self.dataloader = dataloader
        self.mode = mode
        self.num_cached_batches = num_cached_batches
        self.metrics_file = metrics_file
        self.cached_batches: list[Any] = []
        self.cache_ready = False
        self.batch_times: list[float] = []
        self.start_time: float | None = None
        self.end_time: float | None = None
        if mode == "replay":
            self.cached_batches = list(deque(dataloader, maxlen=num_cached_batches))
            self.cache_ready = bool(self.cached_batches)

    def __len__(self) -> int:
        return len(self.dataloader)

    def __iter__(self) -> Iterator[Any]:
        self.batch_times = []
        self.start_time, self.end_time = perf_counter(), None
        batches = self._replayed() if self.mode == "replay" else iter(self.dataloader)
        while True:
            asked = perf_counter()
            try:
                batch = next(batches)
            except StopIteration:
                break
            self.batch_times.append(perf_counter() - asked)
            yield batch
        self.end_time = perf_counter()

    def _replayed(self) -> Iterator[object]:
        if not self.cache_ready:
            raise RuntimeError("the loader returned no batches, so no batch can be replayed")
        return itertools.islice(itertools.cycle(self.cached_batches), len(self))

    def get_metrics(self) -> dict[str, Any]:
        """Metrics of the last epoch, in seconds: mode, total_batches, total_time, avg_, min_ and max_batch_time, batch_times,
        cached_batches, cache_ready. Empty before the first batch."""
        if not self.batch_times or self.start_time is None:
            return {}
        end = perf_counter() if self.end_time is None else self.end_time
        return {
            "mode": self.mode,
            "total_batches": len(self.batch_times),
            "total_time": end - self.start_time,
            "avg_batch_time": sum(self.batch_times) / len(self.batch_times),
            "min_batch_time": min(self.batch_times),
            "max_batch_time": max(self.batch_times),
            "batch_times": list(self.batch_times),
            "cached_batches": len(self.cached_batches),
            "cache_ready": self.cache_ready,
        }

    def save_metrics(self, filename: str | None = None) -> None:
        """Write the metrics as JSON. Print them if there is neither `filename` nor `metrics_file`."""
        text = json.dumps(self.get_metrics(), indent=2)
        target = filename or self.metrics_file
        if target is None:
            print(text)
        else:
            Path(target).write_text(text)

    def print_summary(self) -> None:
        """Print the metrics in a few lines."""
        metrics = self.get_metrics()
        if not metrics:
            print("LoaderEvaluator: no batch was taken yet")
            return
        print(f"LoaderEvaluator ({metrics['mode']}): {metrics['total_batches']} batches in {metrics['total_time']:.3f} s")
        print(
            f"waited per batch: {metrics['avg_batch_time'] * 1e3:.3f} ms on average, {metrics['min_batch_time'] * 1e3:.3f} to "
            f"{metrics['max_batch_time'] * 1e3:.3f} ms"
        )
        if self.mode == "replay":
            print(f"replayed from {metrics['cached_batches']} batches in memory")
