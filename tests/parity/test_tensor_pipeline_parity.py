"""Pipelines of several tensor operators beside DALI's, on both devices and over several iterations."""

from __future__ import annotations

import numpy as np
import pytest

import asyncdali

dali = pytest.importorskip("nvidia.dali")
dali_fn = pytest.importorskip("nvidia.dali.fn")

RNG = np.random.default_rng(0)
PICTURES = [RNG.integers(0, 256, (RNG.integers(20, 60), RNG.integers(20, 60), 3), np.uint8) for _ in range(8)]


def built(package, fn, device):
    pipeline = package.Pipeline(8, 2, None, seed=3)
    with pipeline:
        x = fn.external_source(lambda: PICTURES, layout="HWC")
        x = x.gpu() if device == "gpu" else x
        cut = fn.flip(fn.slice(x, axes=[0, 1], rel_start=[0.1, 0.1], rel_end=[0.9, 0.8]))
        padded = fn.pad(cut, align=[8, 8], axes=[0, 1], fill_value=5)
        planes = fn.transpose(padded, perm=[2, 0, 1])
        mean = fn.reductions.mean(padded, axes=[0, 1], keep_dims=True)
        deviation = fn.reductions.std_dev(padded, mean, axes=[0, 1], keep_dims=True)
        erased = fn.erase(fn.squeeze(fn.expand_dims(padded, axes=[0]), axes=[0]), anchor=[2, 2], shape=[4, 4], axes=[0, 1], fill_value=3)
        moved = fn.permute_batch(planes, indices=fn.batch_permutation())
        brightest = fn.one_hot(fn.reductions.max(padded, axes=[0, 1]), num_classes=256)
        joined = fn.cat(padded, erased, axis=2)
        pipeline.set_outputs(cut, padded, planes, mean, deviation, erased, moved, brightest, joined, fn.stack(padded, erased, axis=0))
    pipeline.build()
    return pipeline


@pytest.mark.parametrize("device", ["cpu", "gpu"])
def test_a_pipeline_of_tensor_operators(device):
    theirs, ours = built(dali, dali_fn, "cpu"), built(asyncdali, asyncdali.fn, device)
    with ours:
        for _ in range(3):
            for mine, reference in zip(ours.run(), theirs.run()):
                assert len(mine) == len(reference)
                for i, sample in enumerate(mine.as_cpu()):
                    np.testing.assert_array_equal(np.asarray(sample), np.array(reference.at(i)))
