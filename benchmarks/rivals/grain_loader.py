"""Grain: MapDataset to an IterDataset with two reading threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..harness import Contender, checksum


def contender(paths: list[str], labels: list[int], work: Callable[..., np.ndarray], batch: int) -> Contender:
    import grain

    def transform(index: int, random: np.random.Generator) -> tuple[np.ndarray, int]:
        with open(paths[index], "rb") as file:
            return work(file.read(), random), labels[index]

    dataset: Any = grain.MapDataset.source(range(len(paths))).seed(0).shuffle().repeat(None).random_map(transform)
    dataset = dataset.to_iter_dataset(grain.ReadOptions(num_threads=2, prefetch_buffer_size=128)).batch(batch)
    batches = iter(dataset)

    def step() -> int:
        images, labels_ = next(batches)
        checksum(np.asarray(images))
        return len(labels_)

    return Contender(f"Grain, 2 threads ({work.__name__})", step)
