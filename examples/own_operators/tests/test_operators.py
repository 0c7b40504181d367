"""Tests of the example's operators in pipelines: values, devices, serialization, checkpoints, and imports."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from asyncdali import Pipeline, fn, ops, pipeline_def

IMAGES = [np.random.default_rng(k).integers(0, 255, (4 + k, 5, 3), np.uint8) for k in range(3)]


def run(graph, device_id=None):
    pipeline = pipeline_def(graph, batch_size=3, num_threads=2, device_id=device_id)()
    pipeline.build()
    with pipeline:
        (output,) = pipeline.run()
        return [np.array(sample) for sample in output.as_cpu()]


def test_threshold():
    made = run(lambda: fn.acme.threshold(fn.external_source(lambda: IMAGES, layout="HWC"), level=100, high=200))
    for image, result in zip(IMAGES, made, strict=True):
        np.testing.assert_array_equal(result, np.where(image >= 100, 200, 0))


def test_levels_per_sample_and_floats():
    levels = [np.float32(value) for value in (10, 100, 200)]

    def graph():
        images = fn.cast(fn.external_source(lambda: IMAGES), dtype=9)
        return ops.acme.Threshold(high=1)(images, level=fn.external_source(lambda: levels))

    for image, level, result in zip(IMAGES, levels, run(graph), strict=True):
        np.testing.assert_array_equal(result, (image >= level).astype(np.float32))


@pytest.mark.filterwarnings("ignore")  # without CUDA the pipeline warns that this machine's processor replaces the GPU
def test_threshold_on_a_gpu_or_its_stand_in():
    made = run(lambda: fn.acme.threshold(fn.external_source(lambda: IMAGES, layout="HWC").gpu()), device_id=0)
    for image, result in zip(IMAGES, made, strict=True):
        np.testing.assert_array_equal(result, np.where(image >= 128, 255, 0))


def test_errors_name_the_operator():
    with pytest.raises(RuntimeError, match=r"(?s)acme\.threshold.*supported types are: UINT8, FLOAT"):
        run(lambda: fn.acme.threshold(fn.external_source(lambda: [np.int16([1])] * 3)))
    with pytest.raises(KeyError, match="levels"):
        run(lambda: fn.acme.threshold(fn.external_source(lambda: IMAGES), levels=3))


def dropping(**options):
    @pipeline_def(batch_size=4, num_threads=2, device_id=None, **options)
    def pipeline():
        return fn.acme.dropout(fn.random.uniform(range=[1, 2], shape=[3]), probability=0.5)

    return pipeline()


def test_a_checkpoint_resumes_exactly():
    first = dropping(seed=3, enable_checkpointing=True)
    first.build()
    for _ in range(2):
        first.run()
    saved = first.checkpoint()
    rest = [np.array(sample) for _ in range(3) for sample in first.run()[0]]
    again = dropping(seed=3, enable_checkpointing=True, checkpoint=saved)
    again.build()
    np.testing.assert_array_equal(rest, [np.array(sample) for _ in range(3) for sample in again.run()[0]])
    assert 0 < np.sum(rest == np.float32(0)) < np.size(rest)


def test_a_stored_pipeline_finds_the_operator_in_another_process(tmp_path):
    stored = dropping(seed=3)
    stored.build()
    (tmp_path / "pipeline").write_bytes(stored.serialize())
    program = """
import sys
from asyncdali import Pipeline
assert not any(name.startswith("acme_operators") for name in sys.modules)
pipeline = Pipeline.deserialize(filename=sys.argv[1])
pipeline.build()
print([sample.tolist() for sample in map(__import__("numpy").array, pipeline.run()[0])])
"""
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path / "pipeline")], capture_output=True, text=True, check=True)
    assert eval(done.stdout) == [np.array(sample).tolist() for sample in stored.run()[0]]
    assert isinstance(stored, Pipeline)


def test_nothing_is_imported_before_it_is_asked_for():
    program = """
import sys
from asyncdali import fn
fn.resize
assert not any(name.startswith("acme_operators") for name in sys.modules)
fn.acme.threshold
assert "acme_operators.threshold" in sys.modules and "acme_operators.dropout" not in sys.modules and "numba" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_the_typed_module_has_the_same_functions():
    from acme_operators import fn as acme

    assert acme.threshold is fn.acme.threshold
