"""source_info() of samples that pass through external_source or feed_input."""

from __future__ import annotations

import os

import numpy as np
import pytest
from helpers.pipelines import pipeline_of

from asyncdali import fn, pipeline_def


@pytest.fixture
def files(tmp_path):
    for k in range(3):
        np.save(tmp_path / f"{k}.npy", np.full((2, 2 + k, 3), k, np.uint8))
    return str(tmp_path)


def read(files):
    with pipeline_of(lambda: fn.readers.numpy(file_root=files), batch_size=3) as pipe:
        (images,) = pipe.run()
    return images


def origins(batch):
    return [os.path.basename(batch[i].source_info()) for i in range(len(batch))]


NAMES = ["0.npy", "1.npy", "2.npy"]
KINDS = {
    "list": lambda images: images,
    "tensors": lambda images: [images[i] for i in range(3)],
    "slice": lambda images: images[0:3],
    "mixed": lambda images: [images[0], np.asarray(images[1]), images[2]],
}


@pytest.mark.parametrize("no_copy", [False, True])
@pytest.mark.parametrize("device", ["cpu", "gpu"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("options", [{}, {"engines": 1}, {"debug": True}])
def test_origins_of_sources(files, no_copy, device, kind, options):
    data = KINDS[kind](read(files))

    @pipeline_def(batch_size=3, num_threads=2, device_id=None, **options)
    def pipeline():
        fed = fn.external_source(source=lambda: data, no_copy=no_copy, device=device, layout="HWC")
        return fn.copy(fed), fn.random.uniform()  # engines need work of their own

    pipe = pipeline()
    for _ in range(2):
        found, _ = pipe.run()
        assert origins(found.as_cpu()) == (NAMES if kind != "mixed" else ["0.npy", "", "2.npy"])
    pipe.close()


@pytest.mark.parametrize("no_copy", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("repeat", [False, True])
def test_origins_of_fed_batches(files, no_copy, kind, repeat):
    data = KINDS[kind](read(files))

    def graph():
        return fn.external_source(name="x", no_copy=no_copy, repeat_last=repeat)

    with pipeline_of(graph, batch_size=3, prefetch_queue_depth=1) as pipe:
        pipe.feed_input("x", data)
        for _ in range(1 + repeat):
            (found,) = pipe.run()
            assert origins(found)[::2] == NAMES[::2]


@pytest.mark.parametrize("no_copy", [False, True])
def test_origins_of_samples(files, no_copy):
    data = read(files)
    source = fn.external_source
    with pipeline_of(lambda: source(source=lambda info: data[info.idx_in_batch], batch=False, no_copy=no_copy), batch_size=3) as pipe:
        assert origins(pipe.run()[0]) == NAMES


def test_origins_of_pasted_images(files):
    data = read(files)

    def graph():
        images = fn.external_source(source=lambda: data, layout="HWC")
        ids = fn.external_source(source=lambda: [np.int32([0, 2]), np.int32([1]), np.int32([])])
        return fn.multi_paste(images, in_ids=ids, output_size=[4, 6]), fn.multi_paste(images, images, output_size=[4, 6])

    with pipeline_of(graph, batch_size=3) as pipe:
        picked, both = pipe.run()
    assert [[os.path.basename(name) for name in picked[i].source_info().split(";")] for i in range(3)] == [NAMES[::2], NAMES[1:2], [""]]
    assert [len(both[i].source_info().split(";")) for i in range(3)] == [2, 2, 2]
