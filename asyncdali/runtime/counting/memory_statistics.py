"""Memory statistics of a pipeline's operators, per output."""

from __future__ import annotations

from ...batch import Batch
from ...device.buffers import SMALL, size_class

KEYS = ("real_memory_size", "max_real_memory_size", "reserved_memory_size", "max_reserved_memory_size")


class MemoryStatistics:
    """Largest sizes seen so far of each operator's output batches."""

    def __init__(self) -> None:
        self._seen: dict[str, list[list[int]]] = {}

    def note(self, operator: str, outputs: list[Batch]) -> None:
        """Add the outputs of one iteration. Each operator is reported by one thread only."""
        rows = self._seen.setdefault(operator, [[0] * len(KEYS) for _ in outputs])
        for row, batch in zip(rows, outputs, strict=True):
            sizes = batch.sizes()
            total, largest = int(sizes.sum()), int(sizes.max()) if len(sizes) else 0
            reserved = size_class(total) if total >= SMALL else total
            found = (total, largest, reserved, max(largest, reserved // max(1, len(sizes))))
            row[:] = map(max, row, found)

    def table(self) -> dict[str, dict[str, list[int]]]:
        """{operator: {statistic: [value of each output]}}, in bytes."""
        return {name: {key: [row[k] for row in rows] for k, key in enumerate(KEYS)} for name, rows in list(self._seen.items())}
