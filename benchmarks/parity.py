"""The parity table: every operator beside DALI over random arguments, on the benchmark's pictures. Worst and mean difference.

``tests/parity`` asserts the bounds; this module prints the differences.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .harness import Table
from .programs import MEAN, STD, samples_of

Graph = Callable[[Any, Any, Any], Any]
"""(library, jpegs, labels) -> outputs"""


def _decoded(lib: Any, jpegs: Any) -> Any:
    return lib.fn.decoders.image(jpegs)


def _cases(random: np.random.Generator) -> Iterator[tuple[str, Graph]]:
    """(operator, graph) pairs with arguments drawn from `random`."""
    for kind in ("RGB", "BGR", "GRAY", "YCbCr", "ANY_DATA"):
        yield "decoders.image", lambda lib, j, n, k=kind: lib.fn.decoders.image(j, output_type=getattr(lib.types, k))
    for dtype in ("FLOAT", "UINT16", "INT16", "INT8"):
        yield "decoders.image", lambda lib, j, n, t=dtype: lib.fn.decoders.image(j, dtype=getattr(lib.types, t))
    yield "decoders.image", lambda lib, j, n: lib.fn.decoders.image(j, use_fast_idct=True)
    for _ in range(6):
        area = sorted(random.uniform(0.05, 1, 2).tolist())
        seed = int(random.integers(1 << 30))
        yield "decoders.image_random_crop", lambda lib, j, n, a=area, s=seed: lib.fn.decoders.image_random_crop(j, random_area=a, seed=s)
        crop, at = random.integers(20, 300, 2).tolist(), random.uniform(0, 1, 2).tolist()
        yield "decoders.image_crop", lambda lib, j, n, c=crop, p=at: lib.fn.decoders.image_crop(j, crop=c, crop_pos_x=p[0], crop_pos_y=p[1])
        start, extent = random.uniform(0, 0.5, 2).tolist(), random.uniform(0.1, 0.5, 2).tolist()
        yield "decoders.image_slice", lambda lib, j, n, a=start, e=extent: lib.fn.decoders.image_slice(j, rel_start=a, rel_shape=e)
    for kind in ("NN", "LINEAR", "CUBIC", "LANCZOS3", "TRIANGULAR", "GAUSSIAN"):
        for antialias in (True, False):
            size = random.integers(50, 700, 2).tolist()
            yield "resize", lambda lib, j, n, k=kind, a=antialias, s=size: lib.fn.resize(
                _decoded(lib, j), size=s, antialias=a, interp_type=getattr(lib.types, f"INTERP_{k}")
            )
    for name in ("resize_shorter", "resize_longer", "resize_x", "resize_y"):
        length = int(random.integers(50, 600))
        yield "resize", lambda lib, j, n, a=name, v=length: lib.fn.resize(_decoded(lib, j), **{a: v})
    for mode in ("stretch", "not_larger", "not_smaller"):
        roi = {"roi_start": random.uniform(0, 0.4, 2).tolist(), "roi_end": random.uniform(0.5, 1, 2).tolist(), "roi_relative": True}
        size = random.integers(60, 500, 2).tolist()
        yield "resize", lambda lib, j, n, m=mode, r=roi, s=size: lib.fn.resize(_decoded(lib, j), size=s, mode=m, **r)
    for options in ({"fill_value": 0}, {}, {"fill_value": 77, "keep_size": True}, {"size": [300, 200], "fill_value": 0}):
        seed = int(random.integers(1 << 30))
        yield "rotate", lambda lib, j, n, o=options, s=seed: lib.fn.rotate(
            _decoded(lib, j), angle=lib.fn.random.uniform(range=(-180.0, 180.0), seed=s), **o
        )
    for layout, dtype, pad in (("CHW", "FLOAT", False), ("HWC", "FLOAT", True), ("CHW", "FLOAT16", False), ("HWC", "UINT8", False)):
        seed = int(random.integers(1 << 30))
        yield "crop_mirror_normalize", lambda lib, j, n, y=layout, t=dtype, p=pad, s=seed: lib.fn.crop_mirror_normalize(
            _decoded(lib, j), dtype=getattr(lib.types, t), output_layout=y, pad_output=p, mean=MEAN, std=STD, crop=(200, 180),
            crop_pos_x=lib.fn.random.uniform(range=(0.0, 1.0), seed=s), mirror=lib.fn.random.coin_flip(seed=s + 1),
        )  # fmt: skip
    for policy in ("error", "pad", "trim_to_shape"):
        size = (900, 100) if policy != "error" else (150, 100)
        yield "crop", lambda lib, j, n, p=policy, c=size: lib.fn.crop(_decoded(lib, j), crop=c, out_of_bounds_policy=p, fill_values=9)
    for options in ({"horizontal": 1}, {"vertical": 1, "horizontal": 0}, {"vertical": 1}):
        yield "flip", lambda lib, j, n, o=options: lib.fn.flip(_decoded(lib, j), **o)
    for dtype in ("FLOAT", "INT8", "UINT16", "FLOAT16", "BOOL"):
        yield "cast", lambda lib, j, n, t=dtype: lib.fn.cast(_decoded(lib, j), dtype=getattr(lib.types, t))
    yield "copy", lambda lib, j, n: lib.fn.copy(_decoded(lib, j))
    yield "reshape", lambda lib, j, n: lib.fn.reshape(_decoded(lib, j), shape=[-1])
    yield "constant", lambda lib, j, n: lib.fn.constant(fdata=[1.5, 2.5, -3.5], dtype=lib.types.INT16, shape=[3, 1])
    for _ in range(4):
        low, span, seed = float(random.uniform(-50, 50)), float(random.uniform(0.1, 100)), int(random.integers(1 << 30))
        yield "random.uniform", lambda lib, j, n, a=low, b=span, s=seed: lib.fn.random.uniform(range=(a, a + b), seed=s, shape=[5, 7])
        yield "random.normal", lambda lib, j, n, a=low, b=span, s=seed: lib.fn.random.normal(mean=a, stddev=b, seed=s, shape=[5, 7])
        yield "random.coin_flip", lambda lib, j, n, a=low, s=seed: lib.fn.random.coin_flip(probability=abs(a) / 50, seed=s, shape=[50])
    yield "readers.file", lambda lib, j, n: n


def _reader_options(random: np.random.Generator) -> dict[str, Any]:
    shards = int(random.integers(1, 5))
    return {
        "random_shuffle": bool(random.integers(2)), "initial_fill": int(random.integers(1, 200)), "num_shards": shards,
        "shard_id": int(random.integers(shards)), "stick_to_shard": bool(random.integers(2)), "pad_last_batch": bool(random.integers(2)),
    }  # fmt: skip


def _run(lib: Any, graph: Graph, folder: str, reader: dict[str, Any], batches: int) -> list[list[np.ndarray]]:
    @lib.pipeline_def(batch_size=16, num_threads=2, device_id=None, seed=5)
    def pipeline() -> Any:
        jpegs, labels = lib.fn.readers.file(file_root=folder, name="reader", **reader)
        return graph(lib, jpegs, labels), labels

    made = pipeline()
    made.build()
    results = [[np.array(sample) for sample in samples_of(output)] for _ in range(batches) for output in made.run()]
    if hasattr(made, "close"):
        made.close()
    return results


def parity(folder: str, libs: dict[str, Any]) -> Table:
    """Worst and mean difference of every operator: in 1/255 of the range for 8-bit pictures, otherwise in values."""
    table = Table("parity with DALI", ["operator", "cases", "samples", "worst", "mean", "values > 2 apart"])
    if "DALI" not in libs:
        table.notes.append("DALI is not installed: nothing compared")
        return table
    random = np.random.default_rng(2)
    rows: dict[str, list[float]] = {}
    for name, graph in _cases(random):
        reader = _reader_options(random)
        ours, theirs = (_run(lib, graph, folder, reader, 2) for lib in libs.values())
        row = rows.setdefault(name, [0, 0, 0.0, 0.0, 0, 0])
        row[0] += 1
        for one, other in zip(ours, theirs, strict=True):
            row[1] += len(one)
            for a, b in zip(one, other, strict=True):
                if a.shape != b.shape or a.dtype != b.dtype:
                    raise SystemExit(f"{name}: {a.dtype}{a.shape}, DALI has {b.dtype}{b.shape}")
                difference = np.abs(a.astype(np.float64) - b.astype(np.float64))
                row[2] = max(row[2], float(difference.max(initial=0)))
                row[3] += float(difference.sum())
                row[4] += difference.size
                row[5] += int((difference > 2).sum())
    for name, (cases, samples, worst, total, values, beyond) in rows.items():
        table.add(name, int(cases), int(samples), worst, total / values, f"{beyond / values:.2%}")
    table.notes.append("each case under random reader options (shards, shuffling, padding); labels are compared in every case")
    return table
