"""Random streams of debug mode beside DALI's debug mode. helpers/dali_debug.py lets DALI's debug mode run without CUDA."""

from __future__ import annotations

import numpy as np
import pytest

dali = pytest.importorskip("nvidia.dali")
import nvidia.dali.pipeline.experimental  # noqa: E402, F401
from helpers.dali_debug import dali_debug_without_cuda  # noqa: E402, F401

import asyncdali  # noqa: E402
import asyncdali.pipeline.experimental  # noqa: E402

pytestmark = [
    pytest.mark.usefixtures("dali_debug_without_cuda"),
    pytest.mark.filterwarnings("ignore:.*negative:UserWarning", "ignore::DeprecationWarning"),
]
BATCH, RUNS = 5, 4


def several(lib):
    fn, types = lib.fn, lib.types
    a = fn.random.uniform(range=(-1.0, 1.0))
    b = fn.random.normal(shape=[3])
    c = fn.random.coin_flip(probability=0.3)
    d = fn.random.uniform(range=(0.0, 5.0), shape=[2], dtype=types.INT32)
    return a, b, c, d, fn.random.normal(b, mean=2.0)


def given_to_some(lib):
    """Some operators have their own seed. Each of them still takes a seed from the pipeline's generator."""
    fn = lib.fn
    return fn.random.uniform(seed=11), fn.random.uniform(), fn.random.normal(seed=12), fn.random.coin_flip(), fn.random.coin_flip()


def among_others(lib):
    """Random operators between operators without random numbers. Every operator takes a seed from the generator."""
    fn, types = lib.fn, lib.types
    a = fn.random.uniform(range=(0.0, 9.0), shape=[4])
    b = fn.cast(a, dtype=types.INT32)
    c = fn.random.normal()
    d = a[1:3] + 2 * c
    e = fn.random.coin_flip()
    return a, b, c, d, e, fn.reductions.sum(a), fn.random.uniform()


def in_loops(lib):
    made = [lib.fn.random.uniform() for _ in range(3)]
    return (*made, *(twice(lib) for _ in range(2)))


def twice(lib):
    return lib.fn.random.normal() + lib.fn.random.normal()


def as_arguments(lib):
    """Operators whose arguments are random numbers, between random operators."""
    fn = lib.fn
    x = fn.random.uniform(range=(0.0, 1.0), shape=[4, 6, 3])
    flipped = fn.flip(fn.reinterpret(x, layout="HWC"), horizontal=fn.random.coin_flip())
    return flipped, fn.random.uniform(), fn.noise.gaussian(flipped, stddev=fn.random.uniform(range=(0.5, 1.0)))


def input_sets(lib):
    fn = lib.fn
    a, b = fn.random.normal([fn.random.uniform(shape=[2]), fn.random.uniform(shape=[3])])
    return a, b, fn.random.uniform()


def branches(lib, own=None):
    """Random operators before, within and after a branch. An operator with inputs draws for the samples of its branch only."""
    fn, types = lib.fn, lib.types
    seeds = own or {}
    condition = fn.random.coin_flip(dtype=types.BOOL, seed=4)
    x = fn.random.uniform(range=(0.0, 1.0), shape=[3])
    if condition:
        y = x + fn.random.normal(x, **seeds)
    else:
        y = fn.noise.gaussian(x, stddev=2.0, **seeds)
    return condition, x, y, fn.random.uniform(**seeds)


PROGRAMS = [several, given_to_some, among_others, in_loops, as_arguments, input_sets]


def streams(lib, program, arguments=None, conditionals=False, **options):
    """The results of RUNS runs: [run][output][sample] as lists."""
    decorated = lib.pipeline.experimental.pipeline_def(enable_conditionals=conditionals)(program)
    pipe = decorated(lib, **(arguments or {}), batch_size=BATCH, num_threads=1, device_id=None, debug=True, **options)
    pipe.build()
    return [[[np.asarray(output.at(k)).tolist() for k in range(len(output))] for output in pipe.run()] for _ in range(RUNS)]


@pytest.mark.parametrize("seed", [0, 1234567])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_streams(program, seed):
    assert streams(asyncdali, program, seed=seed) == streams(dali, program, seed=seed)


def test_streams_in_branches():
    """Operators with seeds draw the same numbers as in DALI. Within a branch they draw for the samples of the branch only."""
    ours, theirs = (streams(lib, branches, {"own": {"seed": 8}}, conditionals=True, seed=3) for lib in (asyncdali, dali))
    assert ours == theirs


def test_automatic_seeds_beside_branches():
    """Before the first branch all random numbers equal DALI's. After it, the splits and merges of asyncdali take seeds, too."""
    ours, theirs = (streams(lib, branches, conditionals=True, seed=3) for lib in (asyncdali, dali))
    for run, other in zip(ours, theirs, strict=True):
        assert run[:2] == other[:2]
        assert run[3] != other[3]
    without = streams(asyncdali, branches, conditionals=True, seed=3)
    assert ours == without


@pytest.mark.parametrize("seed", [None, -1])
def test_drawn_seeds(seed):
    """Two pipelines without a seed draw different numbers, except for operators that have a seed."""
    options = {} if seed is None else {"seed": seed}
    ours, theirs = streams(asyncdali, given_to_some, **options), streams(dali, given_to_some, **options)
    for run, other in zip(ours, theirs, strict=True):
        assert run[0] == other[0] and run[2] == other[2]
        assert run[1] != other[1]
    assert streams(asyncdali, given_to_some, **options)[0][1] != ours[0][1]
