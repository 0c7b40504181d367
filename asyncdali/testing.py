"""Helpers for tests of users' pipelines.

    from asyncdali.testing import check

    def test_my_pipeline_resumes():
        check(lambda: train(data="/data"))
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .pipeline.front import Front


def check(make: Callable[[], Front], steps: int = 12, restores: int = 4, seed: int = 0) -> None:
    """Fail if a pipeline does not give the same stream again: later, after restores, in engines, with other numbers of threads and ranks.

    Args:
        make: a function without arguments that makes the pipeline, and its sources, each time. It must not build the pipeline.
        steps: steps of a run, at least 3.
        restores: number of random steps at which a checkpoint is restored, besides the first and the last.
        seed: chooses these steps.

    Raises:
        AssertionError: the text names the step, the operator, the user's line, and the likely cause.
        TypeError: `make` is a pipeline, which cannot be made again.
        ValueError: fewer than 3 steps.
    """
    from .tooling.verify_runs import verify

    if not callable(make):
        raise TypeError(f"check() takes a function that makes the pipeline each time, got a {type(make).__name__}")
    if steps < 3:
        raise ValueError(f"steps is {steps}; at least 3 steps are needed")
    faults = verify(make, steps, restores, seed)
    if faults:
        raise AssertionError("\n".join(map(str, faults)))
