"""Tries the JPEG decoders of a GPU, for ``asyncdali doctor``, in a process of its own.

Decoders have skipped pictures and reported success, and have written pictures before earlier work of their stream had run. So decoded
pictures are read behind slow operators while later batches are decoded, and compared with the pictures of a calm run.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np

DECODERS = ("hardware", "hybrid")
_PICTURES = Path(__file__).parent.parent / "data" / "pictures"


def _sums(decoder: str, depth: int, batch: int, iterations: int, slow: int) -> tuple[list[np.ndarray], dict[str, int]]:
    """Sums of the columns of all pictures, and what the decoder counts. With a depth of 1 an iteration ends before the next one begins."""
    from .. import Pipeline, fn

    found = [np.frombuffer(path.read_bytes(), np.uint8) for path in sorted(_PICTURES.rglob("*.jpg"))]
    files = [found[k % len(found)] for k in range(batch)]
    pipe = Pipeline(batch, 4, 0, prefetch_queue_depth=depth)
    with pipe:
        images = fn.decoders.image(fn.external_source(source=lambda: files), device="mixed", decoder=decoder, name="decode")
        blurred = images
        for _ in range(slow):
            blurred = fn.gaussian_blur(blurred, window_size=25)
        pipe.set_outputs(fn.reductions.sum(blurred, axes=[0, 1]), fn.reductions.sum(images, axes=[0]))
    with pipe:
        made = []
        for _ in range(iterations):
            made.append(pipe.run()[1])
            if depth == 1:
                made[-1] = made[-1].as_cpu()
        counted = dict(pipe.statistics().operator("decode").counted)
        return [np.array(sums) for batch_of in made for sums in batch_of.as_cpu()], counted


def tried(decoder: str, batch: int = 64, iterations: int = 8, slow: int = 8) -> dict[str, object]:
    """Counts of the pictures that a decoder decoded, of those in incomplete batches, and of wrong ones; or why there is no decoder."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected, _ = _sums(decoder, 1, batch, iterations, slow)
            found, counted = _sums(decoder, 6, batch, iterations, slow)
    except RuntimeError as error:
        return {"missing": str(error)}
    decoded = counted.get("JPEGs decoded by engines", 0) + counted.get("JPEGs decoded by multiprocessors", 0)
    changed = sum(not np.array_equal(one, other) for one, other in zip(expected, found, strict=True))
    return {"decoded": decoded, "refused": counted.get("JPEGs refused by the GPU", 0), "changed": changed}


def main() -> None:
    """Print the results as JSON."""
    print(json.dumps({decoder: tried(decoder) for decoder in DECODERS}))
