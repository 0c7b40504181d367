"""Inputs that may be in device memory, on the host device and on the CUDA simulator; and readers.numpy with uploads."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import kernels

from asyncdali import Pipeline, fn, ops, pipeline_def

rng = np.random.default_rng(4)
IMAGES = [rng.integers(0, 256, (12 + k, 9, 3)).astype(np.uint8) for k in range(3)]
MATRICES = [np.array([[1, 0.2 * k, 1], [0.1, 1, -k]], np.float32) for k in range(3)]
ANCHORS, SHAPES = ([np.array(row, np.float32) for row in rows] for rows in ([[0, 0.25]] * 3, [[0.5, 0.5]] * 3))
FILTERS = [np.full((3, 3), 1 / 9, np.float32)] * 3
CASES = {
    "warp_affine": (lambda x, a: fn.warp_affine(x, a[0], fill_value=3.0), [MATRICES]),
    "slice": (lambda x, a: fn.slice(x, *a, axis_names="HW"), [ANCHORS, SHAPES]),
    "filter": (lambda x, a: fn.filter(x, a[0]), [FILTERS]),
}


def outputs(name, gpu, moved, debug=False):
    body, values = CASES[name]

    def fed(rows):
        return lambda: rows

    sources = [fed(rows) for rows in values]

    @pipeline_def(batch_size=3, num_threads=2, device_id=0, debug=debug)
    def pipe():
        x = fn.external_source(fed(IMAGES), layout="HWC")
        given = [fn.external_source(source) for source in sources]
        return body(x.gpu() if gpu else x, [data.gpu() for data in given] if moved else given)

    made = pipe()
    made.build()
    found = [[np.array(sample) for sample in made.run()[0].as_cpu()] for _ in range(3)]
    made.close()
    return found


def assert_equal(one, other):
    for a, b in zip(one, other, strict=True):
        for x, y in zip(a, b, strict=True):
            np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("debug", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_on_the_host_device(name, debug):
    expected = outputs(name, False, False)
    assert_equal(outputs(name, True, True, debug), expected)
    assert_equal(outputs(name, True, False, debug), expected)


@pytest.mark.skipif(kernels.COMPILER is None, reason="no C++ compiler to build kernels for the host")
@pytest.mark.parametrize("name", CASES)
def test_on_cuda(cuda, name):
    """Inputs are copied from device memory to the CPU if the operator plans with them there, or the other way round."""
    there, here = outputs(name, True, True), outputs(name, True, False)
    assert_equal(there, here)
    assert [sample.shape for sample in there[0]] == [sample.shape for sample in outputs(name, False, False)[0]]


def test_refused_as_by_dali():
    with Pipeline(2, 1, 0):
        x = fn.external_source(lambda: IMAGES, layout="HWC")
        matrix = fn.external_source(lambda: MATRICES)
        for wrong in (lambda: fn.warp_affine(x, matrix.gpu(), device="cpu"), lambda: fn.reshape(x.gpu(), matrix.gpu())):
            with pytest.raises(RuntimeError, match="stored on incompatible device 'gpu'"):
                wrong()
        with pytest.raises(ValueError, match="argument inputs must be on the CPU"):
            fn.warp_affine(x.gpu(), matrix=matrix.gpu())


def test_legacy_executors_do_not_copy_back_to_the_cpu():
    with Pipeline(2, 1, 0, exec_dynamic=False), pytest.raises(RuntimeError, match="exec_dynamic=True"):
        fn.warp_affine(fn.external_source(lambda: IMAGES).gpu(), fn.external_source(lambda: MATRICES).gpu())


# --- readers.numpy


def arrays(folder, **arguments):
    @pipeline_def(batch_size=2, num_threads=2, device_id=0, seed=5)
    def graph():
        data = fn.readers.numpy(file_root=str(folder), random_shuffle=True, name="R", **arguments)
        return data, fn.copy(data)

    pipe = graph()
    pipe.build()
    found = [[[np.array(sample) for sample in output.as_cpu()] for output in pipe.run()] for _ in range(4)]
    assert pipe.reader_meta("R")["epoch_size"] == 4
    devices = [output[1] for output in pipe._names_and_devices]
    pipe.close()
    return found, devices


REGIONS = [{}, {"roi_start": [1, 0], "roi_shape": [2, 2]}, {"rel_roi_start": [0.5, 0.0], "rel_roi_end": [1.0, 1.0]}]


@pytest.mark.parametrize("region", REGIONS)
@pytest.mark.parametrize("device", ["host", "cuda"])
def test_numpy_files_on_the_gpu(tmp_path, region, device, request):
    """The same order and data as on the CPU."""
    if device == "cuda":
        if kernels.COMPILER is None:
            pytest.skip("no C++ compiler to build kernels for the host")
        request.getfixturevalue("cuda")
    for k in range(4):
        np.save(tmp_path / f"{k}.npy", np.arange(12, dtype=np.float32).reshape(4, 3) + 100 * k)
    (made, devices), (expected, _) = arrays(tmp_path, device="gpu", **region), arrays(tmp_path, **region)
    assert devices == ["gpu", "gpu"]
    for a, b in zip(made, expected, strict=True):
        assert_equal(a, b)


def test_numpy_files_on_the_gpu_as_an_operator_object_and_stored(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(3))
    with Pipeline(1, 1, 0) as pipe:
        pipe.set_outputs(ops.readers.Numpy(device="gpu", file_root=str(tmp_path))())
    again = Pipeline(1, 1, 0)
    again.deserialize_and_build(pipe.serialize())
    for each in (pipe, again):
        (output,) = each.run()
        assert type(output).__name__ == "TensorListGPU"
        assert np.array(output.as_cpu()[0]).tolist() == [0, 1, 2]
