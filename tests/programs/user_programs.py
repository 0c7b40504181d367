"""Programs as DALI's users write them. A program depends only on the library, and returns its results in order."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np


@dataclass
class Program:
    """A program and how its results are compared.

    run      ``run(dali, data) -> list of arrays``: `dali` is the module ``asyncdali`` or ``nvidia.dali``, `data` a folder with files
    atol, rtol  tolerances of numbers, and `why` they are needed
    needs    modules besides the library's
    only_here   why the program does not run on DALI without a GPU; empty: it does
    """

    name: str
    run: Callable[[Any, Path], list[np.ndarray]]
    atol: float
    rtol: float
    why: str
    needs: tuple[str, ...]
    only_here: str


PROGRAMS: dict[str, Program] = {}


def program(
    *, atol: float = 0, rtol: float = 0, why: str = "", needs: Iterable[str] = (), only_here: str = ""
) -> Callable[[Callable[[Any, Path], list[np.ndarray]]], Program]:
    """Decorator: enter a program under its function's name."""
    assert bool(atol or rtol) == bool(why), "a tolerance has a reason, and no reason stands without one"

    def decorate(run: Callable[[Any, Path], list[np.ndarray]]) -> Program:
        name = run.__name__
        assert name not in PROGRAMS, name
        PROGRAMS[name] = Program(name, run, atol, rtol, why, tuple(needs), only_here)
        return PROGRAMS[name]

    return decorate


def batches(pipeline: Any, count: int = 3) -> list[np.ndarray]:
    """The samples of all outputs of this number of iterations, in order. The pipeline is closed if the library can close it."""
    pipeline.build()
    made = []
    for _ in range(count):
        for output in pipeline.run():
            output = output.as_cpu() if hasattr(output, "as_cpu") else output
            made += [np.array(output.at(i)) for i in range(len(output))]
    if hasattr(pipeline, "close"):
        pipeline.close()
    return made


RESAMPLED = "DALI and asyncdali add the same products in another order, so a value on .5 may be rounded to either side"
"""Why resized, warped or filtered pixels may differ by 1."""
AMPLIFIED = f"{RESAMPLED}; colour operators and normalisation then amplify the difference"
FLOATS = "sums of floats in another order"
