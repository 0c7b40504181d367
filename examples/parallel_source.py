"""Data from Python, made in worker processes, by any callable that takes a position. A checkpoint resumes exactly.

    python examples/parallel_source.py
"""

from __future__ import annotations

import numpy as np

from asyncdali import DataNode, fn, pipeline_def
from asyncdali.types import SampleInfo

BATCH, SAMPLES, SIZE = 16, 160, 64


class Discs:
    """Sample k of an epoch: a picture of a disc, and its radius. It depends only on its position, so any worker can make any sample."""

    def __call__(self, info: SampleInfo) -> tuple[np.ndarray, np.float32]:
        if info.idx_in_epoch >= SAMPLES:
            raise StopIteration
        random = np.random.default_rng([info.epoch_idx, info.idx_in_epoch])
        radius = random.uniform(8, 28)
        y, x = np.mgrid[:SIZE, :SIZE] - SIZE / 2
        inside = x**2 + y**2 < radius**2
        picture = np.where(inside[..., None], random.integers(0, 256, 3), 20).astype(np.uint8)
        return picture, np.float32(radius)


@pipeline_def(batch_size=BATCH, num_threads=2, seed=4, py_num_workers=2, py_start_method="fork", enable_checkpointing=True)
def discs() -> dict[str, DataNode]:
    pictures, radii = fn.external_source(Discs(), num_outputs=2, batch=False, parallel=True, layout=["HWC", ""])
    pictures = fn.rotate(pictures, angle=fn.random.uniform(range=(-90.0, 90.0)), fill_value=20, keep_size=True)
    return {"picture": fn.brightness(pictures, brightness=fn.random.uniform(range=(0.7, 1.3))), "radius": radii}


def main() -> None:
    pipe = discs()
    first = next(iter(pipe.epoch()))
    checkpoint = pipe.checkpoint()
    rest = list(pipe.epoch())
    print(f"{1 + len(rest)} batches; pictures {first['picture'].as_array().shape}, mean radius {first['radius'].as_array().mean():.1f}")
    pipe.close()

    again = discs(checkpoint=checkpoint)  # this could run in another process
    for one, two in zip(again.epoch(), rest, strict=True):
        assert (one["picture"].as_array() == two["picture"].as_array()).all()
        assert (one["radius"].as_array() == two["radius"].as_array()).all()
    print("restored after one batch: the rest of the epoch is the same")
    again.close()


if __name__ == "__main__":
    main()
