"""torch.utils.data.DataLoader with two worker processes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..harness import Contender, checksum


class Pictures:
    """A map-style data set."""

    def __init__(self, paths: list[str], labels: list[int], work: Callable[..., np.ndarray]):
        self.paths, self.labels, self.work = paths, labels, work
        self.random: np.random.Generator | None = None

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> tuple[np.ndarray, int]:
        if self.random is None:
            import cv2

            cv2.setNumThreads(1)
            self.random = np.random.default_rng()
        with open(self.paths[index], "rb") as file:
            return self.work(file.read(), self.random), self.labels[index]


class Endless:
    """Endless indices, shuffled per epoch: the end of an epoch must not stop the workers."""

    def __init__(self, count: int):
        self.count = count

    def __len__(self) -> int:
        return 1 << 30

    def __iter__(self) -> Any:
        random = np.random.default_rng(0)
        while True:
            yield from random.permutation(self.count).tolist()


def contender(paths: list[str], labels: list[int], work: Callable[..., np.ndarray], batch: int) -> Contender:
    import torch

    torch.set_num_threads(1)
    loader = torch.utils.data.DataLoader(
        Pictures(paths, labels, work), batch_size=batch, sampler=Endless(len(paths)), num_workers=2, prefetch_factor=2,
        multiprocessing_context="forkserver",
    )  # fmt: skip
    batches = iter(loader)

    def step() -> int:
        images, labels_ = next(batches)
        checksum(images.numpy())
        return len(labels_)

    def close() -> None:
        nonlocal batches
        batches._shutdown_workers()
        del batches

    return Contender(f"torch DataLoader, 2 workers ({work.__name__})", step, close)
