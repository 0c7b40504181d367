"""Random streams beside DALI's: every array of several iterations is equal byte for byte."""

import random

import numpy as np
import pytest

from asyncdali.sampling.random_streams import StreamPosition, coin_flip, draw_windows, normal, uniform, uniform_values
from asyncdali.sampling.seeds import seed_table

pytest.importorskip("nvidia.dali", reason="compares with NVIDIA DALI, which is not installed")

from nvidia.dali import Pipeline, fn, types

TYPES = {
    "uint8": types.UINT8, "uint16": types.UINT16, "uint32": types.UINT32, "uint64": types.UINT64,
    "int8": types.INT8, "int16": types.INT16, "int32": types.INT32, "int64": types.INT64,
    "float32": types.FLOAT, "float64": types.FLOAT64, "bool": types.BOOL,
}  # fmt: skip
NUMBERS = [name for name in TYPES if name != "bool"]
ITERATIONS = 3


def run(batch, make, seed=None, iterations=ITERATIONS):
    """The outputs of the pipeline that `make()` defines, as [iteration][output][sample] arrays."""
    pipeline = Pipeline(batch_size=batch, num_threads=2, device_id=None, seed=seed)
    with pipeline:
        outputs = make()
        pipeline.set_outputs(*(outputs if isinstance(outputs, (list, tuple)) else [outputs]))
    pipeline.build()
    return [[[np.array(sample) for sample in output] for output in pipeline.run()] for _ in range(iterations)]


def fed(rows):
    """An argument input that has the same value for each sample in every iteration."""
    return fn.external_source(source=lambda: rows, batch=True)


def check(reference, position, batch, draw):
    """`draw(position)` equals DALI's batch in each iteration, both as flat arrays."""
    for (samples,) in reference:
        ours = draw(position)
        theirs = np.concatenate([sample.ravel() for sample in samples])
        assert ours.dtype == theirs.dtype
        assert ours.tobytes() == theirs.tobytes()
        position = position.advanced(batch)


def draw_case(rng):
    """Seed, batch size, and elements per sample as (DALI's `shape` argument, counts)."""
    seed = rng.choice([0, 1, 42, rng.getrandbits(31), rng.getrandbits(62), -rng.getrandbits(40)])
    batch = rng.randint(1, 9)
    shape = rng.choice([None, [], [rng.randint(0, 30)], [3, rng.randint(1, 5)]])
    counts = 1 if not shape else int(np.prod(shape))
    return seed, batch, {} if shape is None else {"shape": shape}, counts


@pytest.mark.parametrize("case", range(6))
@pytest.mark.parametrize("dtype", NUMBERS)
def test_uniform(dtype, case):
    rng = random.Random(f"{dtype} {case}")
    seed, batch, shape, counts = draw_case(rng)
    reach = rng.choice([1, 30, 3000])
    low = [np.float32(rng.uniform(-reach if dtype[0] != "u" else 0, reach)) for _ in range(batch)]
    high = [np.float32(bound + 0.5 + rng.random() * reach) for bound in low]
    kind = {"dtype": TYPES[dtype], "seed": seed, **shape}
    if case % 2:
        ranges = [np.array(pair, np.float32) for pair in zip(low, high, strict=True)]
        reference = run(batch, lambda: fn.random.uniform(range=fed(ranges), **kind))
    else:
        low, high = low[0], high[0]
        reference = run(batch, lambda: fn.random.uniform(range=[float(low), float(high)], **kind))
    check(reference, StreamPosition.fresh(seed), batch, lambda p: uniform(p, batch, low, high, dtype=dtype, counts=counts))


@pytest.mark.parametrize(("dtype", "low", "high"), [("uint8", -5, 5), ("int8", 3e9, 4e9), ("int32", 3e9, 4e9), ("uint32", -7.5, 3)])
def test_casts_of_bounds(dtype, low, high):
    reference = run(4, lambda: fn.random.uniform(range=[low, high], dtype=TYPES[dtype], seed=5, shape=[50]))
    check(reference, StreamPosition.fresh(5), 4, lambda p: uniform(p, 4, low, high, dtype=dtype, counts=50))


@pytest.mark.parametrize("case", range(4))
@pytest.mark.parametrize("dtype", NUMBERS)
def test_uniform_values(dtype, case):
    rng = random.Random(f"{dtype} {case}")
    seed, batch, shape, counts = draw_case(rng)
    rows = [np.array([rng.uniform(-300, 300) for _ in range(rng.randint(1, 7))], np.float32) for _ in range(batch)]
    kind = {"dtype": TYPES[dtype], "seed": seed, **shape}
    if case % 2:
        reference = run(batch, lambda: fn.random.uniform(values=fed(rows), **kind))
        flat, lengths = np.concatenate(rows), [len(row) for row in rows]
    else:
        reference = run(batch, lambda: fn.random.uniform(values=rows[0].tolist(), **kind))
        flat, lengths = rows[0], None
    check(reference, StreamPosition.fresh(seed), batch, lambda p: uniform_values(p, batch, flat, lengths, dtype=dtype, counts=counts))


@pytest.mark.parametrize("case", range(8))
@pytest.mark.parametrize("dtype", ["int32", "uint8", "bool"])
def test_coin_flip(dtype, case):
    rng = random.Random(f"{dtype} {case}")
    seed, batch, shape, counts = draw_case(rng)
    chances = [rng.choice([rng.random(), 0.0, 1.0, 1.5, -0.5]) for _ in range(batch)]
    kind = {"dtype": TYPES[dtype], "seed": seed, **shape}
    if case % 2:
        reference = run(batch, lambda: fn.random.coin_flip(probability=fed([np.float32(c) for c in chances]), **kind))
    else:
        chances = chances[0]
        reference = run(batch, lambda: fn.random.coin_flip(probability=chances, **kind))
    check(reference, StreamPosition.fresh(seed), batch, lambda p: coin_flip(p, batch, chances, dtype=dtype, counts=counts))


@pytest.mark.parametrize("case", range(4))
@pytest.mark.parametrize("dtype", NUMBERS)
def test_normal(dtype, case):
    rng = random.Random(f"{dtype} {case}")
    seed, batch, shape, counts = draw_case(rng)
    mean = [np.float32(rng.uniform(-50, 100)) for _ in range(batch)]
    stddev = [np.float32(rng.uniform(-5, 50)) for _ in range(batch)]
    kind = {"dtype": TYPES[dtype], "seed": seed, **shape}
    if case % 2:
        reference = run(batch, lambda: fn.random.normal(mean=fed(mean), stddev=fed(stddev), **kind))
    else:
        mean, stddev = mean[0], stddev[0]
        reference = run(batch, lambda: fn.random.normal(mean=float(mean), stddev=float(stddev), **kind))
    check(reference, StreamPosition.fresh(seed), batch, lambda p: normal(p, batch, mean, stddev, dtype=dtype, counts=counts))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_many_normals(dtype):
    """120,000 draws agree with the logarithm and the cosine of the C library to the last bit."""
    reference = run(4, lambda: fn.random.normal(seed=77, shape=[10_000], dtype=TYPES[dtype]))
    check(reference, StreamPosition.fresh(77), 4, lambda p: normal(p, 4, dtype=dtype, counts=10_000))


def test_counts_per_sample():
    rows = [np.zeros(n, np.uint8) for n in (0, 3, 17, 1)]
    reference = run(4, lambda: fn.random.uniform(fed(rows), seed=3))
    check(reference, StreamPosition.fresh(3), 4, lambda p: uniform(p, 4, counts=np.array([0, 3, 17, 1])))


@pytest.mark.parametrize("case", range(30))
def test_crop_windows(case):
    rng = random.Random(case)
    seed, batch, _, _ = draw_case(rng)
    heights = [rng.choice([rng.randint(1, 12), rng.randint(1, 3000)]) for _ in range(batch)]
    widths = [rng.choice([rng.randint(1, 12), rng.randint(1, 3000)]) for _ in range(batch)]
    first = rng.choice([0.75, rng.uniform(0.1, 1.5)])
    aspect = (first, rng.choice([max(first, 4 / 3), first + rng.random(), first]))
    least = rng.choice([0.08, rng.random()])
    area, attempts = (least, rng.choice([1.0, (least + 1) / 2])), rng.choice([1, 3, 10])
    shapes = [np.array(size, np.int64) for size in zip(heights, widths, strict=True)]
    reference = run(
        batch,
        lambda: fn.random_crop_generator(
            fed(shapes), seed=seed, random_aspect_ratio=list(aspect), random_area=list(area), num_attempts=attempts
        ),
    )  # fmt: skip
    position = StreamPosition.fresh(seed)
    for theirs in reference:
        ours = draw_windows(position, heights, widths, aspect, area, attempts)
        for mine, expected in zip(ours, theirs, strict=True):
            assert mine.dtype == expected[0].dtype
            assert mine.tolist() == [row.tolist() for row in expected]
        position = position.advanced(batch)


@pytest.mark.parametrize("seed", [0, 12, 2**32 + 5, 2**63 - 1])
def test_automatic_seeds(seed):
    reference = run(3, lambda: [fn.random.uniform() for _ in range(5)], seed=seed)
    for k, operator_seed in enumerate(seed_table(seed)[:5]):
        position = StreamPosition.fresh(operator_seed)
        for outputs in reference:
            assert uniform(position, 3).tobytes() == np.array(outputs[k]).tobytes()
            position = position.advanced(3)


def test_position_text_is_the_checkpoints():
    pipeline = Pipeline(batch_size=4, num_threads=1, device_id=None, enable_checkpointing=True)
    with pipeline:
        pipeline.set_outputs(fn.random.uniform(seed=-9))
    pipeline.build()
    position = StreamPosition.fresh(-9)
    for _ in range(3):
        assert str(position).encode() in pipeline.checkpoint()
        pipeline.run()
        position = position.advanced(4)
