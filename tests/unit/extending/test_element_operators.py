"""Operators of elements: the step beside the function in plain Python, and the GPU kernel beside the step.

The operator of docs/adding_an_operator.md is one of them: its two files are taken from the page, literally.
"""

from __future__ import annotations

import numpy as np
import pytest
from helpers.documented import registered
from helpers.guarded import Call, calls
from helpers.nvrtc import ARCHITECTURES, compile_for, library_of
from helpers.operators import batch_of, first_iteration, make, run
from helpers.pipelines import values
from helpers.twins import both

from asyncdali import Pipeline, fn, pipeline_def
from asyncdali.compiled.element_tables import ELEMENTS as TABLE
from asyncdali.device.launch import Kernel, element_type, source_of
from asyncdali.graph.reference import operator_modules, reference_table, stub_files
from asyncdali.operators import load_registry
from asyncdali.operators.base import Arguments
from asyncdali.operators.elements import ELEMENTS, FLOAT32_TYPES, ElementOperator
from asyncdali.types import DALIDataType
from asyncdali.types.conversions import STORAGE

SAMPLES = [np.random.default_rng(k).integers(0, 256, (3 + k, 7, 3)) for k in range(3)]


@pytest.fixture(scope="module", autouse=True)
def solarize(tmp_path_factory):
    """The operator of the page."""
    with registered(tmp_path_factory.mktemp("operators"), "color/solarize", "Solarize") as operator:
        yield operator


def names():
    return sorted(name for name, kind in load_registry().items() if issubclass(kind, ElementOperator))


def test_the_operator_of_the_page_is_found(solarize):
    assert names() == sorted({*names(), "solarize"}) and solarize.on_cuda
    assert calls("solarize", solarize.schema) == [Call()], "other tests find the operator without further code"


def numbers_of(name, samples):
    """The numbers of each sample that a step reads."""
    operator = make(name, len(samples), {}, {})
    planned = operator.plan([batch_of(samples, "HWC")], Arguments(operator.spec, {}, len(samples)), first_iteration(operator, len(samples)))
    table = dict(zip(TABLE.names, planned.steps[0].context, strict=True))
    arrays = {array.ctypes.data: array for array in planned.steps[0].keep if isinstance(array, np.ndarray)}
    return arrays[table["numbers"]]


def stored_as(dtype):
    """A float32 as an element of `dtype`: halves are rounded away from zero, and the result is clamped."""
    if np.dtype(dtype).kind == "f":
        return np.dtype(dtype).type
    bounds = np.iinfo(dtype)
    return lambda x: np.dtype(dtype).type(np.clip(np.trunc(np.float64(x) + np.copysign(0.5, np.float64(x))), bounds.min, bounds.max))


@pytest.mark.parametrize("kind", [*FLOAT32_TYPES, DALIDataType.INT32], ids=lambda kind: kind.name)
def test_steps_and_kernels_compute_the_function(kind):
    """The results of the function in plain Python, of the step, and of the GPU's kernel are equal for each operator."""
    dtype = np.dtype(STORAGE[kind])
    samples = [(sample if dtype.kind == "f" else sample % 128).astype(dtype) for sample in SAMPLES]
    for name in names():
        operator = load_registry()[name]
        if kind not in operator.schema.accepts[0].types:
            continue
        steps, kernels = both(name, samples, "HWC")
        store = stored_as(steps[0].dtype)
        for sample, numbers, step, kernel in zip(samples, numbers_of(name, samples), steps, kernels, strict=True):
            values = sample.astype(np.float32).reshape((-1, operator.group) if operator.group > 1 else -1)
            wanted = [operator.element(tuple(value) if operator.group > 1 else value, tuple(numbers)) for value in values]
            np.testing.assert_array_equal(step.ravel(), [store(value) for value in np.ravel(wanted)], err_msg=name)
            np.testing.assert_array_equal(kernel, step, err_msg=name)


def test_arguments_per_sample_and_results_out_of_range():
    samples = [np.int8([-100, 0, 100])] * 2
    made = run("solarize", samples, per_sample={"threshold": np.float32([0, 200])})
    assert [sample.tolist() for sample in made] == [[-100, 127, 127], [-100, 0, 100]]


def test_pipelines_run_store_and_restore_the_operator():
    def graph():
        return fn.solarize(fn.cast(fn.random.uniform(range=[0, 255], shape=[6, 5, 3], seed=1), dtype=0), threshold=100)

    with pipeline_def(graph, batch_size=3, num_threads=2, device_id=None)() as pipeline:
        stored = pipeline.serialize()
        (first,) = values(pipeline.run())
    with Pipeline.deserialize(stored) as again:
        assert values(again.run()) == [first]
    assert np.max(first) <= 155 and np.min(first) < 100


def test_stubs_and_documentation_are_generated(solarize):
    page = reference_table([solarize.schema])
    assert "## fn.solarize" in page and "Elements from here on are inverted." in page
    assert any("def solarize(" in text for text in stub_files().values())
    assert operator_modules(str(solarize.cuda_source.parents[1])) == ["color.solarize"]


def test_the_kernel_compiles_for_a_gpu(solarize):
    for kind in ("uint8", "float32"):
        kernel = Kernel(solarize.cuda_source, "elements", (("IN", element_type(kind)), ("OUT", element_type(kind))))
        assert compile_for(library_of(12), source_of(kernel), ARCHITECTURES[12][0]) > 0


def test_wrong_types_are_refused_before_the_plan():
    with pytest.raises(RuntimeError, match="supported types are: UINT8, INT8, UINT16, INT16, FLOAT"):
        pipeline_def(lambda: fn.solarize(fn.constant(idata=[1])), batch_size=1, num_threads=1, device_id=None)().run()
    assert ELEMENTS.types == FLOAT32_TYPES
