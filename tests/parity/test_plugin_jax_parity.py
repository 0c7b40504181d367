"""The JAX iterator beside DALI's, on the CPU."""

from __future__ import annotations

import warnings

import helpers.jax_devices  # noqa: F401  before jax
import numpy as np
import pytest
from helpers.iterators import epochs, numbered_files, reader_pipelines

import asyncdali

pytest.importorskip("jax", reason="jax is not installed")
dali = pytest.importorskip("nvidia.dali", reason="DALI is not installed")
peer = pytest.importorskip("nvidia.dali.plugin.jax", reason="DALI has no JAX plugin here")
from nvidia.dali.plugin.base_iterator import LastBatchPolicy as PeerPolicy  # noqa: E402

from asyncdali.plugin import jax as ours  # noqa: E402
from asyncdali.plugin.base_iterator import LastBatchPolicy  # noqa: E402

LIBRARIES = ((dali, peer, PeerPolicy), (asyncdali, ours, LastBatchPolicy))


@pytest.mark.parametrize("policy", ["FILL", "DROP"])
@pytest.mark.parametrize("pad", [False, True])
@pytest.mark.parametrize("shards", [1, 2])
def test_reader_epochs(tmp_path, policy, pad, shards):
    files = numbered_files(tmp_path, 10)
    found = []
    for lib, plugin, policies in LIBRARIES:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pipes = reader_pipelines(files, 3, shards, range(shards), lib, random=True, random_shuffle=True, pad_last_batch=pad)
            iterator = plugin.DALIGenericIterator(
                pipes, ["number", "draw"], reader_name="reader", auto_reset=True, last_batch_policy=policies[policy]
            )
            found.append(epochs(iterator, 3))
    assert found[0] == found[1]


@pytest.mark.parametrize("dtype", ["int64", "uint8", "float16", "float32", "bool", "float64"])
@pytest.mark.parametrize("count, pmap", [(1, None), (1, True), (2, None), (2, True)])
def test_shapes_and_types(dtype, count, pmap):
    def pipe(lib, k):
        made = lib.Pipeline(batch_size=2, num_threads=1, device_id=None)
        with made:
            made.set_outputs(lib.fn.external_source(lambda i: (np.arange(6).reshape(2, 3) + 10 * k).astype(dtype)))
        return made

    found = []
    for lib, plugin, _ in LIBRARIES:
        iterator = plugin.DALIGenericIterator([pipe(lib, k) for k in range(count)], ["x"], size=4, pmap_compatible=pmap)
        array = next(iterator)["x"]
        found.append((array.shape, str(array.dtype), np.asarray(array).tolist()))
    assert found[0] == found[1]


def test_jax_function():
    found = []
    for lib, plugin, _ in LIBRARIES:
        function = plugin.fn.jax_function(lambda x, y: (x[:, ::-1] + y, x.sum(axis=1)), num_outputs=2, output_layouts=["X", ""])
        pipe = lib.Pipeline(batch_size=2, num_threads=1, device_id=None, exec_async=False, exec_pipelined=False, prefetch_queue_depth=1)
        with pipe:
            data = lib.fn.external_source(lambda i: np.arange(6, dtype=np.float32).reshape(2, 3) + i)
            try:
                pipe.set_outputs(*function(data, data))
                found.append([[np.asarray(output.as_tensor()).tolist() for output in pipe.run()] for _ in range(2)])
            except RuntimeError as error:
                if lib is not dali:
                    raise
                pytest.skip(f"DALI's jax_function does not run here: {str(error)[:80]}")
    assert found[0] == found[1]
