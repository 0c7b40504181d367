"""The pictures of the benchmarks: a folder of JPEGs in class folders, or generated pictures."""

from __future__ import annotations

import glob
import os

import numpy as np


def picture_folder(given: str | None) -> str:
    """`given`, ``ASYNCDALI_BENCH_DATA``, or 256 JPEGs of 500x375 made once in a temporary folder (noise over gradients, about 70 KB)."""
    folder = given or os.environ.get("ASYNCDALI_BENCH_DATA")
    if folder:
        if not glob.glob(os.path.join(folder, "*", "*.jp*g")):
            raise SystemExit(f"{folder}: no class folders with JPEGs in it")
        return folder
    import tempfile

    folder = os.path.join(tempfile.gettempdir(), "asyncdali-bench-pictures")
    if len(glob.glob(os.path.join(folder, "*", "*.jpg"))) < 256:
        _make(folder)
    return folder


def _make(folder: str) -> None:
    from PIL import Image

    random = np.random.default_rng(0)
    y, x = np.mgrid[0:375, 0:500]
    for number in range(256):
        waves = [127 + 90 * np.sin((x * random.uniform(0.5, 3) + y * random.uniform(0.5, 3)) / 40 + random.uniform(0, 6)) for _ in range(3)]
        coarse = random.normal(0, 60, (47, 63, 3)).repeat(8, 0).repeat(8, 1)[:375, :500]
        pixels = np.clip(np.stack(waves, 2) + coarse + random.normal(0, 8, (375, 500, 3)), 0, 255).astype(np.uint8)
        where = os.path.join(folder, str(number // 32))
        os.makedirs(where, exist_ok=True)
        Image.fromarray(pixels).save(os.path.join(where, f"{number:03}.jpg"), quality=92, subsampling=0 if number % 4 == 0 else 2)
