"""SPDL: its pipeline builder with two threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import numpy as np

from ..harness import Contender, checksum


def contender(paths: list[str], labels: list[int], work: Callable[..., np.ndarray], batch: int) -> Contender:
    from spdl.pipeline import PipelineBuilder

    local = threading.local()

    def source() -> Iterator[tuple[str, int]]:
        random = np.random.default_rng(0)
        while True:
            for index in random.permutation(len(paths)):
                yield paths[index], labels[index]

    def transform(item: tuple[str, int]) -> tuple[np.ndarray, int]:
        if not hasattr(local, "random"):
            local.random = np.random.default_rng()
        with open(item[0], "rb") as file:
            return work(file.read(), local.random), item[1]

    def collate(items: list[tuple[np.ndarray, int]]) -> tuple[np.ndarray, np.ndarray]:
        return np.stack([image for image, _ in items]), np.array([label for _, label in items])

    pipeline = (
        PipelineBuilder().add_source(source()).pipe(transform, concurrency=2).aggregate(batch).pipe(collate).add_sink(2)
        .build(num_threads=2)
    )  # fmt: skip
    pipeline.start()

    def step() -> int:
        images, labels_ = pipeline.get_item(timeout=60)
        checksum(images)
        return len(labels_)

    return Contender(f"SPDL, 2 threads ({work.__name__})", step, pipeline.stop)
