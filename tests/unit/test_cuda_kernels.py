"""Every kernel, compiled for the host, gives what the compiled step of the same plan gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from asyncdali import types
from asyncdali.batch import Batch
from asyncdali.operators.base import Arguments, Iteration
from helpers import kernels
from helpers.operators import batch_of, make, run_step

pytestmark = pytest.mark.skipif(kernels.COMPILER is None, reason="no C++ compiler to build kernels for the host")
GUARD = 64


def both(
    name: str,
    samples: list[np.ndarray],
    layout: str = "",
    per_sample: dict[str, Any] | None = None,
    flags: tuple[str, ...] = (),
    more: tuple[list[np.ndarray], ...] = (),
    **constants: Any,
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """First output by the compiled step and by the kernel, over one plan each."""
    results = []
    for gpu in (False, True):
        inputs = {key: Batch.from_values(np.asarray(value)) for key, value in (per_sample or {}).items()}
        sources = [batch_of(samples, layout), *[batch_of(other, layout) for other in more]]
        operator = make(name, len(samples), constants, inputs, len(sources))
        planned = operator.plan(sources, Arguments(operator.spec, inputs, len(samples)), Iteration(0, len(samples)))
        output = planned.outputs[0]
        memory = np.full(int(output.sizes().sum()) + 2 * GUARD, 0xA5, np.uint8)
        output.place(memory[GUARD:-GUARD])
        for step in planned.steps:
            if gpu:
                assert step.launches is not None
                kernels.run_launches(step.launches(), flags)
            else:
                run_step(step, len(samples))
        assert (memory[:GUARD] == 0xA5).all() and (memory[-GUARD:] == 0xA5).all(), "a kernel left its output"
        results.append([np.array(output.sample(i)) for i in range(len(samples))])
    return results[0], results[1]


def assert_close(expected: list[np.ndarray], found: list[np.ndarray], steps: float = 0, relative: float = 0.0, part: float = 0.0) -> None:
    """Equal but for `steps` in integers in at most a `part` of the elements, or `relative` in floats."""
    for a, b in zip(expected, found, strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype
        if a.dtype.kind in "iub":
            difference = np.abs(a.astype(np.int64) - b.astype(np.int64))
            assert difference.max(initial=0) <= steps
            assert (difference > 0).mean() <= part if a.size else True
        else:
            a, b = a.astype(np.float64), b.astype(np.float64)
            largest = np.abs(a[np.isfinite(a)]).max(initial=1)
            np.testing.assert_allclose(b, a, rtol=relative, atol=relative * largest)


def pictures(rng: np.random.Generator, count: int, dtype: Any = np.uint8, channels: int = 3, largest: int = 40) -> list[np.ndarray]:
    """Random pictures of random sizes."""
    def one() -> np.ndarray:
        shape = (*rng.integers(1, largest, 2), channels)
        if np.dtype(dtype).kind == "f":
            return rng.normal(0, 50, shape).astype(dtype)
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, shape, dtype, endpoint=True)

    return [one() for _ in range(count)]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("out", [types.FLOAT, types.FLOAT16, types.UINT8, types.INT8])
def test_crop_mirror_normalize(seed, out):
    rng = np.random.default_rng(seed)
    dtype = [np.uint8, np.int16, np.float32, np.float16][seed]
    expected, found = both(
        "crop_mirror_normalize", pictures(rng, 5, dtype), "HWC", {"mirror": rng.integers(0, 2, 5).astype(np.int32)}, crop=[17, 23],
        out_of_bounds_policy="pad", fill_values=[3.0], mean=[120.0, 100.0, 7.0], std=[50.0, 60.0, 3.0], dtype=out, scale=40.0,
        output_layout=["CHW", "HWC"][seed % 2], pad_output=bool(seed // 2),
    )  # fmt: skip
    assert_close(expected, found)


@pytest.mark.parametrize("interp", [types.INTERP_NN, types.INTERP_LINEAR, types.INTERP_CUBIC, types.INTERP_LANCZOS3, types.INTERP_GAUSSIAN])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_resize(interp, dtype):
    rng = np.random.default_rng(int(interp))
    sizes = rng.integers(1, 60, (6, 2)).astype(np.float32) * rng.choice([1, -1], (6, 2))
    expected, found = both("resize", pictures(rng, 6, dtype), "HWC", {"size": sizes}, interp_type=interp)
    assert_close(expected, found, steps=1, relative=1e-5, part=0.01)


def test_resize_of_a_region_in_sequences_of_one_channel():
    rng = np.random.default_rng(7)
    samples = [rng.integers(0, 65535, (3, *rng.integers(4, 30, 2), 1), np.uint16) for _ in range(3)]
    expected, found = both(
        "resize", samples, "FHWC", size=[11.0, 13.5], roi_start=[0.1, 0.2], roi_end=[0.9, 0.7], roi_relative=True, dtype=types.FLOAT
    )
    assert_close(expected, found, relative=1e-5)


def test_resize_of_volumes():
    rng = np.random.default_rng(8)
    samples = [rng.integers(0, 255, (*rng.integers(2, 12, 3), 2), np.uint8) for _ in range(3)]
    expected, found = both("resize", samples, "DHWC", size=[5.0, 9.0, 7.0], dtype=types.FLOAT)
    assert_close(expected, found, relative=1e-5)
