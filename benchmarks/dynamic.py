"""Calls of dynamic mode beside DALI's: 20 operators, on one small picture and on 64, in one process, in turns.

    python -m benchmarks.dynamic [--rounds 15] [--calls 40] [--photographs FOLDER]

Prints microseconds of a call: the lowest of all rounds, because other programs disturb the machine. DALI is left out if it is missing.
"""

from __future__ import annotations

import argparse
import importlib
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

CASES: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda ndd, x: x + 1,
    "multiply": lambda ndd, x: x * 2.5,
    "math.sqrt": lambda ndd, x: ndd.math.sqrt(x),
    "cast": lambda ndd, x: ndd.cast(x, dtype=ndd.float32),
    "flip": lambda ndd, x: ndd.flip(x, horizontal=1),
    "crop": lambda ndd, x: ndd.crop(x, crop=(8, 8)),
    "resize": lambda ndd, x: ndd.resize(x, size=[8, 8]),
    "slice": lambda ndd, x: x[2:9, 3:] if isinstance(x, ndd.Tensor) else x.slice[2:9, 3:],
    "reductions.sum": lambda ndd, x: ndd.reductions.sum(x),
    "cat": lambda ndd, x: ndd.cat(x, x, axis=0),
    "random.uniform": lambda ndd, x: ndd.random.uniform(range=[0, 1], batch_size=None if isinstance(x, ndd.Tensor) else x.batch_size),
    "crop_mirror_normalize": lambda ndd, x: ndd.crop_mirror_normalize(x, crop=(8, 8), mean=[1.0, 2.0, 3.0], std=[2.0, 2.0, 2.0]),
    "transpose": lambda ndd, x: ndd.transpose(x, perm=[2, 0, 1]),
    "reshape": lambda ndd, x: ndd.reshape(x, rel_shape=[1.0, -1.0], layout="HW"),
    "brightness": lambda ndd, x: ndd.brightness(x, brightness=1.2),
    "gaussian_blur": lambda ndd, x: ndd.gaussian_blur(x, window_size=3),
    "pad": lambda ndd, x: ndd.pad(x, fill_value=1, axes=[0, 1], align=[32, 32]),
    "normalize": lambda ndd, x: ndd.normalize(x, mean=3.0, stddev=2.0),
    "hsv": lambda ndd, x: ndd.hsv(x, hue=10.0, saturation=0.5),
    "rotate": lambda ndd, x: ndd.rotate(x, angle=10.0, keep_size=True),
}


def pictures(folder: str | None) -> list[np.ndarray]:
    """64 small random pictures, or the first 64 of the JPEGs in a folder."""
    if folder is None:
        rng = np.random.default_rng(0)
        return [rng.integers(0, 256, (16, 16, 3)).astype(np.uint8) for _ in range(64)]
    from PIL import Image

    files = sorted(Path(folder).rglob("*.jp*g"))[:64]
    return [np.asarray(Image.open(file).convert("RGB")) for file in files]


def values(ndd: Any, arrays: list[np.ndarray]) -> tuple[Any, Any]:
    """A Tensor and a Batch in memory of the library."""
    picture = ndd.flip(ndd.tensor(arrays[0], layout="HWC"), horizontal=0)
    return picture.evaluate(), ndd.flip(ndd.batch(arrays, layout="HWC"), horizontal=0).evaluate()


def measured(modules: dict[str, Any], arrays: list[np.ndarray], rounds: int, calls: int) -> dict[str, list[list[float]]]:
    """By operator: for each library, microseconds of a call on a Tensor and on a Batch."""
    data = {name: values(ndd, arrays) for name, ndd in modules.items()}
    found = {}
    for case, call in CASES.items():
        lowest = [[math.inf, math.inf] for _ in modules]
        for turn in range(rounds + 1):
            for k, (name, ndd) in enumerate(modules.items()):
                for form, value in enumerate(data[name]):
                    count = 4 if turn == 0 else calls if form == 0 else max(calls // 4, 1)
                    began = time.perf_counter()
                    for _ in range(count):
                        call(ndd, value).evaluate()
                    if turn:
                        lowest[k][form] = min(lowest[k][form], (time.perf_counter() - began) / count * 1e6)
        found[case] = lowest
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--calls", type=int, default=40)
    parser.add_argument("--photographs", metavar="FOLDER", help="64 JPEGs of this folder instead of random pictures of 16x16")
    options = parser.parse_args()
    modules = {"asyncdali": importlib.import_module("asyncdali.dynamic")}
    try:
        modules["DALI"] = importlib.import_module("nvidia.dali.experimental.dynamic")
    except ImportError:
        print("DALI is not installed")
    found = measured(modules, pictures(options.photographs), options.rounds, options.calls)
    names = list(modules)
    print(f"{'operator':24}" + "".join(f"{f'{name} {form}':>18}" for form in ("tensor", "batch") for name in names))
    ratios: list[list[float]] = [[], []]
    for case, lowest in found.items():
        print(f"{case:24}" + "".join(f"{lowest[k][form]:18.1f}" for form in range(2) for k in range(len(names))))
        if len(names) > 1:
            for form in range(2):
                ratios[form].append(lowest[0][form] / lowest[1][form])
    for form, what in enumerate(("tensor", "batch")):
        if ratios[form]:
            print(f"geometric mean of asyncdali / DALI, {what}: {math.exp(sum(map(math.log, ratios[form])) / len(ratios[form])):.3f}")


if __name__ == "__main__":
    main()
