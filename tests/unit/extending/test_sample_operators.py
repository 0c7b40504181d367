"""Operators of samples: the step beside the function in plain Python, and the GPU kernel beside the step.

The operator of docs/adding_an_operator.md is one of them: its two files are taken from the page, literally.
"""

from __future__ import annotations

import numpy as np
import pytest
from helpers.documented import FILES, registered
from helpers.guarded import Call, calls, usual
from helpers.marks import slow
from helpers.nvrtc import ARCHITECTURES, compile_for, library_of
from helpers.operators import batch_of, first_iteration, make, run
from helpers.pipelines import values
from helpers.twins import outputs_of

from asyncdali import Pipeline, fn, pipeline_def, types
from asyncdali.batch import storage_dtype
from asyncdali.compiled.sample_tables import SAMPLE
from asyncdali.compiled.tables import Field, Table
from asyncdali.device.launch import Kernel, element_type, source_of
from asyncdali.graph.reference import operator_modules, reference_table, stub_files
from asyncdali.operators import load_registry
from asyncdali.operators.accepts import declared
from asyncdali.operators.base import Arguments, SampleError
from asyncdali.operators.samples import SampleOperator, bound
from asyncdali.types.conversions import STORAGE

COUNT = 2
CALLS = {"experimental.remap": [Call({"interp": kind}, 3, {1: (6, 4), 2: (6, 4, 1)}) for kind in (0, 1)]}
"""Calls whose inputs must fit to each other."""


@pytest.fixture(scope="module", autouse=True)
def average_pool(tmp_path_factory):
    """The operator of the page."""
    with registered(tmp_path_factory.mktemp("operators"), "filters/average_pool", "AveragePool") as operator:
        yield operator


@pytest.fixture(scope="module", autouse=True)
def shuffle_rows(tmp_path_factory):
    """The operator of the page that draws random numbers and uses scratch memory."""
    with registered(tmp_path_factory.mktemp("operators"), "random/shuffle_rows", "ShuffleRows") as operator:
        yield operator


def names():
    return sorted(name for name, kind in load_registry().items() if issubclass(kind, SampleOperator))


def stored_as(dtype):
    """A float32 as an element of `dtype`: halves are rounded away from zero, and the result is clamped."""
    if np.dtype(dtype).kind == "f":
        return np.dtype(dtype).type
    bounds = np.iinfo(dtype)
    return lambda x: np.dtype(dtype).type(np.clip(np.trunc(np.float64(x) + np.copysign(0.5, np.float64(x))), bounds.min, bounds.max))


def records_of(step, operator, samples):
    """The records of the samples and the numbers that a step reads."""
    table = dict(zip(SAMPLE.names, step.context, strict=False))
    arrays = {array.ctypes.data: array for array in step.keep if isinstance(array, np.ndarray)}
    return arrays[table["records"]].reshape(samples, -1), arrays[table["numbers"]].reshape(samples, -1)


def by_function(name, inputs, layout, constants):
    """All outputs of an operator, computed by its function in plain Python."""
    operator = make(name, COUNT, constants, {}, len(inputs))
    sources = [batch_of(samples, layout if k == 0 else "") for k, samples in enumerate(inputs)]
    planned = operator.plan(sources, Arguments(operator.spec, {}, COUNT), first_iteration(operator, COUNT))
    records, numbers = records_of(planned.steps[0], operator, COUNT)
    made = [[np.zeros(shape, storage_dtype(output.dtype)) for shape in output.shapes] for output in planned.outputs]
    for i in range(COUNT):
        arrays = [samples[i].ravel() for samples in inputs] + [output[i].reshape(-1) for output in made]
        scratch = [np.full(100, np.nan, np.float32)] if operator.uses_scratch else []
        bound(operator.sample, stored_as(storage_dtype(planned.outputs[0].dtype)), drawn)(*arrays, records[i], numbers[i], *scratch)
    return made


def inputs_of(schema, call, dtype):
    """Valid inputs of a call. Input 0 has elements of `dtype`."""
    inputs = []
    for position in range(call.inputs):
        kind, shape = usual(declared(schema.accepts, position), call, position)
        storage = storage_dtype(dtype if position == 0 else kind)
        content = call.contents.get(position)
        samples = [np.random.default_rng(7 * k + position).integers(0, 120, shape) for k in range(COUNT)]
        inputs.append([(sample if content is None else np.reshape(content, shape)).astype(storage) for sample in samples])
    return inputs


SOME = [types.UINT8, types.INT16, types.FLOAT16, types.FLOAT, types.BOOL]


@pytest.mark.parametrize("kind", [*SOME, *slow(*(kind for kind in STORAGE if kind not in SOME))], ids=lambda kind: kind.name)
def test_steps_and_kernels_compute_the_function(kind):
    for name in names():
        schema = load_registry()[name].schema
        if kind not in declared(schema.accepts, 0).types:
            continue
        for call in CALLS.get(name, calls(name, schema)):
            inputs = inputs_of(schema, call, kind)
            wanted = by_function(name, inputs, "", call.constants)
            steps, kernels = (outputs_of(name, inputs, "", None, gpu, **call.constants) for gpu in (False, True))
            for made in (steps, kernels):
                for found, expected in zip(made, wanted, strict=True):
                    for sample, model in zip(found, expected, strict=True):
                        np.testing.assert_array_equal(sample, model, err_msg=f"{name} {call}")


def test_the_page_has_two_files_for_each_form(average_pool, shuffle_rows):
    forms = ("color/solarize", "filters/average_pool", "random/shuffle_rows")
    operators = {file for file in FILES if not file.startswith("readers/")}
    assert operators == {f"{name}.{ending}" for name in forms for ending in ("py", "cu")}
    assert {"average_pool", "shuffle_rows"} <= set(names()) and average_pool.on_cuda and shuffle_rows.on_cuda
    assert calls("average_pool", average_pool.schema) == [Call()], "tests of inputs and of serialization need nothing more"


def test_arguments_per_sample():
    samples = [np.arange(36, dtype=np.uint8).reshape(6, 6, 1)] * 3
    made = run("average_pool", samples, "HWC", per_sample={"window": np.int32([1, 3, 7])})
    assert [sample.shape for sample in made] == [(6, 6, 1), (2, 2, 1), (0, 0, 1)]
    np.testing.assert_array_equal(made[1][..., 0], [[7, 10], [25, 28]])


def drawn(record, number):
    """A number of a sample's random stream: Philox4x32-10 (Salmon et al., SC 2011) in Python integers."""
    key, hi, lo, phase = record[:4].view(np.uint64).tolist()
    index = phase + int(number)
    counter = ((hi << 64) + lo + index // 4) % (1 << 128)
    c = [counter >> 32 * k & 0xFFFFFFFF for k in range(4)]
    k0, k1 = key & 0xFFFFFFFF, key >> 32
    for _ in range(10):
        a, b = c[0] * 0xD2511F53, c[2] * 0xCD9E8D57
        c = [(b >> 32) ^ c[1] ^ k0, b & 0xFFFFFFFF, (a >> 32) ^ c[3] ^ k1, a & 0xFFFFFFFF]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return np.float32((c[index % 4] >> 8) * 2.0**-24)


def test_draws_are_equally_likely():
    """In many shuffled images, every row is the first one about equally often."""
    samples = [np.arange(5, dtype=np.uint8).reshape(5, 1, 1)] * 2000
    made = run("shuffle_rows", samples, "HWC")
    assert {tuple(sorted(sample.ravel().tolist())) for sample in made} == {(0, 1, 2, 3, 4)}
    counts = np.bincount([int(sample[0, 0, 0]) for sample in made], minlength=5)
    assert counts.min() > 320 and counts.max() < 480  # 400 are expected; the seed is fixed


def test_checkpoints_resume_draws():
    def graph():
        return fn.shuffle_rows(fn.constant(idata=list(range(8)), shape=[8, 1, 1], layout="HWC", dtype=0), seed=3)

    def pipeline(**options):
        return pipeline_def(graph, batch_size=3, num_threads=2, device_id=None, enable_checkpointing=True, **options)()

    with pipeline() as first:
        first.run()
        saved = first.checkpoint()
        (wanted,) = values(first.run())
    with pipeline(checkpoint=saved) as second:
        assert values(second.run()) == [wanted]


def test_a_drawing_operator_needs_a_position():
    class Wrong(SampleOperator):
        schema = load_registry()["shuffle_rows"].schema
        record = Table("WRONG", Field("rows", "int64", "rows"))
        sample = staticmethod(load_registry()["shuffle_rows"].sample)

    with pytest.raises(TypeError, match="first field of its record must be POSITION"):
        Wrong(make("shuffle_rows", COUNT, {}, {}).spec, make("shuffle_rows", COUNT, {}, {}).environment)


def test_refusals_name_the_sample():
    with pytest.raises(SampleError, match=r"window.*at least 1, got 0"):
        run("average_pool", [np.zeros((4, 4, 1), np.uint8)], "HWC", window=0)


def test_pipelines_run_store_and_restore_the_operator():
    def graph():
        image = fn.cast(fn.random.uniform(range=[0, 255], shape=[6, 5, 3], seed=1), dtype=0)
        return fn.average_pool(image, window=fn.random.uniform(values=[1, 2, 3], seed=2, dtype=3))

    with pipeline_def(graph, batch_size=3, num_threads=2, device_id=None)() as pipeline:
        stored = pipeline.serialize()
        (first,) = values(pipeline.run())
    with Pipeline.deserialize(stored) as again:
        assert values(again.run()) == [first]


def test_stubs_and_documentation_are_generated(average_pool):
    page = reference_table([average_pool.schema])
    assert "## fn.average_pool" in page and "Pixels of a side of a window." in page and "Example: [[[1.0]" in page
    assert any("def average_pool(" in text for text in stub_files().values())
    assert operator_modules(str(average_pool.cuda_source.parents[1])) == ["filters.average_pool"]


def test_the_kernels_compile_for_a_gpu(average_pool, shuffle_rows):
    for operator, kind in ((average_pool, "uint8"), (average_pool, "float32"), (shuffle_rows, "uint8")):
        kernel = Kernel(operator.cuda_source, "samples", (("INPUTS", 1), ("IN0", element_type(kind)), ("OUT0", element_type(kind))))
        assert compile_for(library_of(12), source_of(kernel), ARCHITECTURES[12][0]) > 0


def test_every_operator_has_an_example():
    assert [name for name in names() if not load_registry()[name].schema.examples] == []
