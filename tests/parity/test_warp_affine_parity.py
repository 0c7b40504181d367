"""warp_affine beside DALI's: within one grey level, except for nearest pixels at positions on the edge of a pixel."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.tensor_parity import Failed, ours, random_cases, theirs

from asyncdali.types import DALIInterpType

pytest.importorskip("nvidia.dali")


def check_warp_affine(rng):
    axes = 3 if rng.random() < 0.2 else 2
    layout = "DHWC" if axes == 3 else str(rng.choice(["HWC", "FHWC"]))
    count = int(rng.integers(1, 4))
    high = 12 if axes == 3 else 50
    frames = [2] if layout[0] == "F" else []
    samples = [rng.integers(0, 256, (*frames, *rng.integers(3, high, axes), int(rng.choice([1, 3]))), np.uint8) for _ in range(count)]
    matrices = [
        np.concatenate([np.eye(axes) + rng.uniform(-0.6, 0.6, (axes, axes)), rng.uniform(-9, 9, (axes, 1))], 1) for _ in range(count)
    ]
    matrices = [matrix.astype(np.float32) for matrix in matrices]
    linear = bool(rng.random() < 0.8)
    constants = {"interp_type": DALIInterpType.INTERP_LINEAR if linear else DALIInterpType.INTERP_NN, "inverse_map": bool(rng.integers(2))}
    if rng.random() < 0.6:
        constants["fill_value"] = float(rng.integers(0, 256))
    if rng.random() < 0.5:
        constants["size"] = [float(extent) for extent in rng.integers(1, high, axes)]
    inputs, layouts, named = [samples], [layout], {}
    if rng.random() < 0.5:
        inputs, layouts = [samples, matrices], [layout, ""]
    elif rng.random() < 0.5:
        named = {"matrix": matrices}
    else:
        constants["matrix"] = matrices[0].reshape(-1).tolist()
    reference, result = theirs("warp_affine", inputs, layouts, named, **constants), ours("warp_affine", inputs, layouts, named, **constants)
    assert not isinstance(reference, Failed) and not isinstance(result, Failed), (reference, result)
    assert (result.layout, [s.shape for s in result.samples]) == (reference.layout, [s.shape for s in reference.samples])
    mine, yours = (np.concatenate([sample.ravel() for sample in found.samples]).astype(int) for found in (result, reference))
    wrong = np.abs(mine - yours) > 1
    assert wrong.sum() <= 6 + 1e-3 * len(mine), (wrong.sum(), len(mine))  # two pixels of three channels, and one value in a thousand


def test_random_cases():
    random_cases(check_warp_affine, 120)


@pytest.mark.slow
def test_many_random_cases():
    random_cases(check_warp_affine, 2000)
