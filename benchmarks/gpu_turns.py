"""``python -m benchmarks.gpu turns``: whole pipelines in turns, ours by lanes and DALI's by load, with the median of the ratios.

Each round builds every pipeline again. `ours / DALI` compares with DALI's better setting of the same round.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from .gpu import decoded, enough, rotated, speed, training, two_views
from .gpu_training import our_library

PIPELINES = {make.__name__: make for make in (decoded, training, rotated, two_views)}
_DALI = ({"hw_decoder_load": 0.65}, {"hw_decoder_load": 0.85})


def report(
    dali: Any, photos: str, iterations: int, rounds: int, only: tuple[str, ...] = (), given: int | None = None, queued: int | None = None
) -> None:
    """Print a line per pipeline and setting: pictures per second (median, smallest, largest), and the ratio to DALI.

    `given` threads and `queued` iterations for all settings; by default each has its own."""
    library, threads = our_library(), len(os.sched_getaffinity(0))
    for name in only or PIPELINES:
        make = PIPELINES[name]
        settings: list[tuple[str, Any, int, int, dict[str, Any]]] = [
            ("default", library, given or max(threads - 2, 1), queued or 6, {}),
            ("shared", library, given or max(threads - 4, 1), queued or 6, {"decoder": "shared"}),
            ("all lanes", library, given or max(threads - 4, 1), queued or 6, {"decoder": "all"}),
        ]
        if dali is not None:
            theirs = given or threads - 2 * (make is two_views)
            settings += [(f"DALI {load['hw_decoder_load']}", dali, theirs, queued or 4, load) for load in _DALI]
        rates: dict[str, list[float]] = {setting[0]: [] for setting in settings}
        for number in range(rounds):
            for label, lib, count, depth, decoder in settings[:: 1 if number % 2 else -1]:
                pipe = make(lib, photos, count, depth, **decoder)
                pipe.build()
                rates[label].append(speed(pipe, enough(iterations, depth)))
                if hasattr(pipe, "close"):
                    pipe.close()
                del pipe
        best = np.max([found for label, found in rates.items() if label.startswith("DALI")], axis=0) if dali is not None else None
        for label, found in rates.items():
            ratio = "" if best is None or label.startswith("DALI") else f"  ours / DALI {np.median(np.array(found) / best):.2f}"
            print(f"{name:10} {label:10} {np.median(found):8.0f} img/s ({min(found):.0f} to {max(found):.0f}){ratio}", flush=True)
