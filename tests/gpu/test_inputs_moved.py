"""On a GPU: inputs in device memory that operators plan with, filters from the CPU, NumPy files; box_encoder's ties; pinned loaders."""

from __future__ import annotations

import numpy as np
import pytest
from test_operators import gpu, samples_of  # noqa: F401

from asyncdali import fn, pipeline_def, types

pytestmark = pytest.mark.gpu
BATCH = 8


def fed(samples):
    return lambda: samples


def results(body, sources, on_gpu, moved, iterations=3):
    """`body(images, others)`, with the others in device memory if `moved`."""

    @pipeline_def(batch_size=BATCH, num_threads=4, device_id=0)
    def graph():
        images, *others = (fn.external_source(fed(samples), layout="HWC" if k == 0 else None) for k, samples in enumerate(sources))
        made = body(images.gpu() if on_gpu else images, [data.gpu() for data in others] if moved else others)
        return tuple(made) if isinstance(made, list) else made

    pipe = graph()
    pipe.build()
    made = [[samples_of(output) for output in pipe.run()] for _ in range(iterations)]
    pipe.close()
    return made


def equal(one, other, most=0.0):
    for a, b in zip(one, other, strict=True):
        for left, right in zip(a, b, strict=True):
            for x, y in zip(left, right, strict=True):
                assert x.shape == y.shape and x.dtype == y.dtype
                np.testing.assert_allclose(y.astype(np.float64), x.astype(np.float64), rtol=0, atol=most)


rng = np.random.default_rng(8)
IMAGES = [rng.integers(0, 256, (40 + 3 * k, 50, 3)).astype(np.uint8) for k in range(BATCH)]
MATRICES = [np.array([[1, 0.02 * k, 1], [0.1, 1, -k]], np.float32) for k in range(BATCH)]
WINDOWS = [[np.array([0.1, 0.25], np.float32)] * BATCH, [np.array([0.5, 0.5], np.float32)] * BATCH]
FILTERS = [np.full((3, 5), 1 / 15, np.float32)] * BATCH
CASES = {
    "warp_affine": (lambda x, others: fn.warp_affine(x, *others, fill_value=3.0), [MATRICES], 1.0),
    "warp_affine, nearest": (lambda x, others: fn.warp_affine(x, *others, interp_type=types.INTERP_NN), [MATRICES], 255.0),
    "slice": (lambda x, others: fn.slice(x, *others, axis_names="HW"), WINDOWS, 0.0),
    "filter": (lambda x, others: fn.filter(x, *others), [FILTERS], 1.0),
}


@pytest.mark.parametrize("name", CASES)
def test_the_same_from_either_memory(name):
    body, others, bound = CASES[name]
    here, there = (results(body, [IMAGES, *others], True, moved) for moved in (False, True))
    equal(here, there)
    equal(results(body, [IMAGES, *others], False, False), there, bound)


def test_numpy_files(tmp_path):
    for k in range(20):
        np.save(tmp_path / f"{k:02d}.npy", rng.normal(size=(30 + k, 20)).astype(np.float32))

    def read(**arguments):
        @pipeline_def(batch_size=BATCH, num_threads=4, device_id=0, seed=5)
        def graph():
            return fn.readers.numpy(file_root=str(tmp_path), random_shuffle=True, roi_start=[2, 3], roi_shape=[9, 11], **arguments)

        pipe = graph()
        pipe.build()
        made = [[samples_of(output) for output in pipe.run()] for _ in range(6)]
        pipe.close()
        return made

    equal(read(), read(device="gpu"))


def test_box_encoder_with_equal_overlaps():
    def boxes(count):
        corner, extent = rng.integers(0, 4, (count, 2)), rng.integers(1, 4, (count, 2))
        return (np.concatenate([corner, np.minimum(corner + extent, 4)], axis=1) / 4).astype(np.float32)

    anchors = [float(x) for x in boxes(40).ravel()]
    found = [boxes(int(n)) for n in rng.integers(0, 30, BATCH)]
    labels = [np.arange(1, len(rows) + 1, dtype=np.int32) for rows in found]

    def encoded(on_gpu):
        @pipeline_def(batch_size=BATCH, num_threads=4, device_id=0)
        def graph():
            inputs = [fn.external_source(fed(samples)) for samples in (found, labels)]
            return tuple(fn.box_encoder(*[data.gpu() if on_gpu else data for data in inputs], anchors=anchors))

        pipe = graph()
        pipe.build()
        made = [[samples_of(output) for output in pipe.run()]]
        pipe.close()
        return made

    equal(encoded(False), encoded(True))


@pytest.mark.parametrize("length", [3, 5, 7, 10])
def test_nearest_pixels_at_edges(length):
    shapes = ((4, 10), (7, 9), (2, 3), (8, 10), (5, 3), (3, 8), (9, 7), (12, 5))
    images = [np.arange(h * w, dtype=np.uint8).reshape(h, w, 1) for h, w in shapes]
    body = lambda x, others: fn.resize(x, resize_shorter=length, interp_type=types.INTERP_NN)  # noqa: E731
    equal(results(body, [images], False, False), results(body, [images], True, False))


def test_proxy_with_pinned_memory():
    torch = pytest.importorskip("torch")
    from asyncdali.plugin.pytorch.experimental import proxy

    @pipeline_def(batch_size=4, num_threads=2, device_id=0, prefetch_queue_depth=2)
    def graph():
        return fn.external_source(name="x", dtype=types.FLOAT).gpu() * 2

    class Samples(torch.utils.data.Dataset):
        def __len__(self):
            return 8

        def __getitem__(self, k):
            return transform(np.full(3, k, np.float32)), k

    with proxy.DALIServer(graph()) as server:
        transform = server.proxy
        for outputs, numbers in proxy.DataLoader(server, Samples(), batch_size=4, num_workers=1, pin_memory=True):
            assert outputs.is_cuda and numbers.is_pinned()
            assert outputs[:, 0].tolist() == [2.0 * k for k in numbers.tolist()]
