"""The short form that docs/own_operators.md shows, and the check that finds a wrong CUDA kernel. The files are taken from the page."""

from __future__ import annotations

import importlib.util
import sys
import textwrap

import numpy as np
import pytest
from helpers.documented import OWN_FILES

from asyncdali import fn, pipeline_def
from asyncdali.extending import register
from asyncdali.extending.testing import COMPILER, check_kernels
from asyncdali.operators import REGISTRY

SAMPLES = [np.float32([-1, 0.25, 3]), np.float32([0.5])]
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C++ compiler")


@pytest.fixture
def clip(tmp_path):
    """The page's operator, in files that a test may change before its kernel runs."""
    for ending in ("py", "cu"):
        (tmp_path / f"clip.{ending}").write_text(textwrap.dedent(OWN_FILES[f"acme_operators/clip.{ending}"]).lstrip("\n"))
    spec = importlib.util.spec_from_file_location("acme_operators_of_the_page", tmp_path / "clip.py")
    assert spec is not None and spec.loader is not None
    sys.modules[spec.name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    register(module.Clip)
    yield module.Clip
    del sys.modules[spec.name], REGISTRY["acme.clip"]


@needs_compiler
def test_a_right_kernel_passes(clip):
    assert clip.on_cuda
    made = check_kernels("acme.clip", SAMPLES, high=0.75)
    assert [sample.tolist() for sample in made] == [[0, 0.25, 0.75], [0.5]]
    assert [sample.tolist() for sample in check_kernels("acme.clip", SAMPLES, per_sample={"low": np.float32([0, 0.75])})][1] == [0.75]


@needs_compiler
def test_a_wrong_kernel_is_found(clip):
    text = clip.cuda_source.read_text()
    clip.cuda_source.write_text(text.replace("numbers[1]", "numbers[1] + 1.0f"))
    with pytest.raises(AssertionError, match=r"acme\.clip: kernel and step differ \(output 0, sample 0\)"):
        check_kernels("acme.clip", SAMPLES)


def test_an_unknown_operator_is_refused():
    with pytest.raises(LookupError, match=r"no operator 'acme\.none'"):
        check_kernels("acme.none", SAMPLES)


def test_the_operator_runs_in_a_pipeline(clip):
    def graph():
        return fn.acme.clip(fn.external_source(lambda: SAMPLES), high=0.75)

    with pipeline_def(graph, batch_size=2, num_threads=1, device_id=None)() as pipeline:
        (output,) = pipeline.run()
        assert [np.array(sample).tolist() for sample in output] == [[0, 0.25, 0.75], [0.5]]
