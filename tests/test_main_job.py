"""The project's main job, end to end, on the pictures that ship with the package: DALI's notebook and the training pipeline."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from helpers.marks import slow

import asyncdali
from asyncdali import fn, pipeline_def, types

PICTURES = os.path.join(os.path.dirname(os.path.abspath(asyncdali.__file__)), "data", "pictures")
# The output of DALI's checkpointing notebook for the fourth batch.
NOTEBOOK_ANGLES = [-18.8415, 11.0461, -3.6668, 1.8544, 8.8177, -29.4673, -25.0191, 7.1832]


@pipeline_def(batch_size=8, num_threads=4, device_id=0, enable_checkpointing=True, seed=12)
def rotate_pipeline():
    jpegs, labels = fn.readers.file(file_root=PICTURES, random_shuffle=True, name="image_reader")
    images = fn.decoders.image(jpegs, device="mixed", output_type=types.RGB)
    angles = fn.random.uniform(range=(-30.0, 30.0))
    return fn.rotate(images, angle=angles, fill_value=0), labels, angles


@pipeline_def(enable_checkpointing=True, device_id=None)
def training_pipeline(shards=1, device="cpu"):
    jpegs, labels = fn.readers.file(file_root=PICTURES, random_shuffle=True, num_shards=shards, name="reader")
    images = fn.decoders.image_random_crop(jpegs, device=device)
    images = fn.resize(images, size=[224, 224])
    images = fn.crop_mirror_normalize(
        images, dtype=types.FLOAT, output_layout="CHW", mean=[123.675, 116.28, 103.53], std=[58.395, 57.12, 57.375],
        mirror=fn.random.coin_flip(),
    )  # fmt: skip
    return images, labels


def content(batch):
    """All outputs of an iteration as lists of arrays."""
    return [[np.array(sample) for sample in output.as_cpu()] for output in batch]


def assert_equal(one, other):
    for a, b in zip(one, other, strict=True):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            np.testing.assert_array_equal(x, y)


def test_notebook_resumes_bit_for_bit(tmp_path):
    pipe = rotate_pipeline()
    pipe.build()
    for _ in range(3):
        pipe.run()
    path = tmp_path / "pipeline_checkpoint.cpt"
    checkpoint = pipe.checkpoint(str(path))
    assert path.read_bytes() == checkpoint
    reference = content(pipe.run())
    np.testing.assert_allclose(np.array(reference[2]), NOTEBOOK_ANGLES, atol=5e-5)
    restored = rotate_pipeline(checkpoint=checkpoint)
    restored.build()
    assert restored.is_restored_from_checkpoint
    assert_equal(content(restored.run()), reference)
    pipe.close()
    restored.close()


def test_notebook_resumes_in_a_fresh_process(tmp_path):
    pipe = rotate_pipeline()
    for _ in range(3):
        pipe.run()
    pipe.checkpoint(str(tmp_path / "c.cpt"))
    reference = content(pipe.run())
    pipe.close()
    code = (
        "import sys, pickle; sys.path.insert(0, sys.argv[1])\n"
        "from test_main_job import rotate_pipeline, content\n"
        "pipe = rotate_pipeline(checkpoint=open(sys.argv[2], 'rb').read())\n"
        "pickle.dump(content(pipe.run()), open(sys.argv[3], 'wb'))\n"
    )
    result = tmp_path / "result.pickle"
    subprocess.run([sys.executable, "-c", code, os.path.dirname(__file__), str(tmp_path / "c.cpt"), str(result)], check=True, timeout=300)
    import pickle

    assert_equal(pickle.loads(result.read_bytes()), reference)


def test_without_cuda_the_host_device_gives_the_cpu_results():
    on_cpu, on_host_device = (training_pipeline(batch_size=8, num_threads=2, seed=5, device=device) for device in ("cpu", "mixed"))
    for _ in range(3):
        images, labels = on_cpu.run()
        images_gpu, labels_gpu = on_host_device.run()
        assert type(images_gpu).__name__ == "TensorListGPU" and not hasattr(images_gpu[0], "__cuda_array_interface__")
        np.testing.assert_array_equal(images.as_array(), images_gpu.as_cpu().as_array())
        np.testing.assert_array_equal(labels.as_array(), labels_gpu.as_array())
    on_cpu.close()
    on_host_device.close()


@pytest.mark.parametrize("shards, stop", [(1, 0), (3, 1), (1, 5), (3, 8), (3, 11), *slow((3, 0), (1, 1), (3, 5), (1, 8), (1, 11))])
def test_training_resumes_anywhere_under_other_settings(stop, shards):
    first = training_pipeline(batch_size=8, num_threads=2, seed=3, prefetch_queue_depth=3, shards=shards)
    for _ in range(stop):
        first.run()
    checkpoint = first.checkpoint()
    expected = [content(first.run()) for _ in range(3)]
    first.close()
    for options in (
        {"num_threads": 1, "prefetch_queue_depth": 1},
        {"num_threads": 3, "prefetch_queue_depth": 5, "seed": 99},
        {"num_threads": 2, "exec_pipelined": False, "exec_async": False},
    ):
        again = training_pipeline(batch_size=8, checkpoint=checkpoint, shards=shards, **{"seed": 3, **options})
        for batch in expected:
            assert_equal(content(again.run()), batch)
        again.close()


def test_the_pixels_do_not_depend_on_threads_or_flags():
    settings = [
        {"num_threads": 1}, {"num_threads": 4}, {"num_threads": 2, "prefetch_queue_depth": 4}, {"num_threads": 2, "exec_dynamic": False},
        {"num_threads": 2, "prefetch_queue_depth": {"cpu_size": 3, "gpu_size": 1}, "enable_checkpointing": False},
    ]  # fmt: skip
    results = []
    for options in settings:
        pipe = training_pipeline(batch_size=16, seed=11, **options)
        results.append([content(pipe.run()) for _ in range(3)])
        pipe.close()
    for other in results[1:]:
        for one, two in zip(results[0], other, strict=True):
            assert_equal(one, two)


@pytest.mark.slow
def test_demo(tmp_path):
    command = [sys.executable, "-m", "asyncdali", "demo", "--batches", "10", "--output", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "equal the uninterrupted run, bit for bit" in done.stdout
    from PIL import Image

    with Image.open(tmp_path / "contact_sheet.png") as sheet:
        assert sheet.size[0] > 800


@pytest.mark.slow
def test_memory_is_flat():
    """Resident memory between iterations 500 and 2000 of the training pipeline (the benchmark goes to 5000)."""

    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1])

    pipe = training_pipeline(batch_size=16, num_threads=2, seed=1)
    marks = {}
    for iteration in range(2001):
        pipe.run()
        if iteration in (500, 2000):
            marks[iteration] = resident()
    pipe.close()
    assert marks[2000] < 1.02 * marks[500]
