"""The graph: nodes, names, checks at the call, device rules, pruning, merging, seeds, input sets, serialization."""

from __future__ import annotations

import ast
import collections.abc
import functools
import json
import pickle
import warnings
import xml.etree.ElementTree
from collections.abc import Iterable

import numpy as np
import pytest
from helpers import pipelines
from helpers.pipelines import values
from helpers.probes import BarrierProbe, CounterProbe, PairProbe, Probe, call

import asyncdali
from asyncdali import DataNode, Pipeline, fn, ops, pipeline_def, types
from asyncdali.graph.plan import build_plan

BASE = {"batch_size": 3, "num_threads": 1, "seed": 7}
pipeline_of = functools.partial(pipelines.pipeline_of, **BASE)


def run(graph, **options):
    return values(pipeline_of(graph, **options).run())


# --- nodes


def test_a_node_is_a_symbol():
    with Pipeline(**BASE):
        node = fn.random.uniform(name="U")
        one, two = call(PairProbe)
    assert (node.name, node.device, node.index, node.source.name) == ("U", "cpu", 0, "U")
    assert repr(node).startswith('DataNode(name="U", device="cpu", source="U", index="0"')
    assert (one.name, two.name) == ("__TestPairProbe_0[0]", "__TestPairProbe_0[1]")
    assert not isinstance(node, Iterable)
    for use in (bool, iter, len, hash, list, lambda n: {n}):
        with pytest.raises(TypeError):
            use(node)
    with pytest.raises(TypeError, match=r"enable_conditionals"):
        bool(node)
    assert not isinstance(node, collections.abc.Hashable)
    on_gpu = node.gpu()
    assert (on_gpu.device, on_gpu.cpu().device) == ("gpu", "cpu") and node.cpu() is node and on_gpu.gpu() is on_gpu
    with pytest.raises((TypeError, AttributeError)):
        node @ node


def test_automatic_names_count_operators():
    with Pipeline(**BASE):
        names = [fn.random.uniform().name, fn.random.normal(name="N").name, fn.random.coin_flip().name]
    assert names == ["__Uniform_0", "N", "__CoinFlip_1"]  # named operators do not count
    assert "_detached_" in fn.random.uniform().name


def test_copies_from_gpu_to_cpu_need_the_default_executor():
    for options in ({"exec_dynamic": False}, {"exec_async": False}, {"prefetch_queue_depth": {"cpu_size": 1, "gpu_size": 1}}):
        with Pipeline(**BASE, **options):
            node = fn.random.uniform().gpu()
            with pytest.raises(RuntimeError, match=r"doesn't support transition from GPU to CPU"):
                node.cpu()


# --- checks at the call


def test_device_defaults():
    with Pipeline(**BASE):
        a = fn.random.uniform(shape=[2])
        assert fn.copy(a).device == "cpu"
        assert fn.copy(a.gpu()).source.device == "gpu"
        assert fn.reshape(a, shape=fn.random.uniform(shape=[1])).source.device == "cpu"
        assert fn.copy(a, device="cpu").device == "cpu"
        assert call(Probe, a, device="mixed").device == "gpu"


def test_wrong_devices():
    with Pipeline(**BASE):
        a = fn.random.uniform()
        with pytest.raises(RuntimeError, match=r"fn\.copy.*stored on incompatible device 'gpu'.*\.cpu\(\)"):
            fn.copy(a.gpu(), device="cpu")
        with pytest.raises(RuntimeError, match=r"stored on incompatible device 'cpu'.*\.gpu\(\)"):
            fn.copy(a, device="gpu")
        with pytest.raises(RuntimeError, match=r'invalid device "tpu".*"mixed"'):
            fn.copy(a, device="tpu")
        with pytest.raises(RuntimeError, match='does not run on device "mixed"'):
            fn.copy(a, device="mixed")
        with pytest.raises(ValueError, match=r"Invalid device \"gpu\" for argument 'shape'"):
            fn.random.uniform(shape=a.gpu())


def test_wrong_arguments():
    with Pipeline(**BASE):
        a = fn.random.uniform()
        with pytest.raises(KeyError, match=r"fn\.random\.uniform.*'rnage'.*'range'"):
            fn.random.uniform(rnage=[1, 2])
        with pytest.raises(TypeError, match=r"fn\.random\.uniform.*'range' must be float"):
            fn.random.uniform(range="wide")
        with pytest.raises(TypeError, match=r"'dtype'"):
            fn.random.uniform(dtype="no such type")
        with pytest.raises(TypeError, match=r"should not be a 'DataNode'"):
            fn.random.uniform(dtype=a)
        with pytest.raises(TypeError, match=r"contains DataNodes"):
            fn.random.uniform(range=[a, 1])
        with pytest.raises(ValueError, match=r"fn\.copy expects 1 inputs, got 2"):
            fn.copy(a, a)
        with pytest.raises(ValueError, match=r"0 to 1 inputs, got 2"):
            fn.random.uniform(a, a)
        for wrong in ("text", None, {}, object(), (a, a)):
            with pytest.raises(TypeError, match=r"expected inputs of type 'DataNode'"):
                fn.copy(wrong)
        with pytest.raises(RuntimeError, match=r"Not all required arguments.*key"):
            fn.get_property(a)
        with pytest.warns(DeprecationWarning, match=r"seed") as seen:
            fn.copy(a, seed=3)
        assert seen[0].filename == __file__
        assert fn.copy(a, name=None, device=None, preserve=None).device == "cpu"
        with pytest.raises(TypeError, match=r"name"):
            fn.copy(a, name=3)
        for wrong in ([], {}, object(), "yes", np.zeros((2, 2))):
            with pytest.raises(TypeError, match=r"(?s)fn\.rotate: argument 'keep_size' must be bool, got .* is not a truth value"):
                fn.rotate(a, angle=1, keep_size=wrong)
        for huge in (2**63, 1e30, -(2**63) - 1):
            with pytest.raises(ValueError, match=r"fn\.flip: argument 'horizontal' must be int.*does not fit into 64 bits"):
                fn.flip(a, horizontal=huge)


@pytest.mark.slow
def test_no_type_selects_the_inputs_type_or_is_refused():
    """As in DALI: NO_TYPE is refused where a type is needed."""
    with Pipeline(**BASE):
        for make in (fn.random.uniform, fn.random.coin_flip, fn.random.normal, functools.partial(fn.constant, idata=[1])):
            with pytest.raises(ValueError, match=r"argument 'dtype' is NO_TYPE; an element type is needed"):
                make(dtype=types.NO_TYPE)
        with pytest.raises(ValueError, match=r"fn\.cast: argument 'dtype' is NO_TYPE"):
            fn.cast(fn.random.uniform(), dtype=types.NO_TYPE)
    pixels = np.arange(12, dtype=np.int16).reshape(2, 2, 3)
    for operator, arguments in ((fn.crop, {"crop": (1, 1)}), (fn.resize, {"size": (3, 3)}), (fn.rotate, {"angle": 0.0})):
        node = functools.partial(operator, dtype=types.NO_TYPE, **arguments)
        (out,) = pipeline_of(lambda node=node: node(types.Constant(pixels, layout="HWC"))).run()
        assert out.dtype == types.INT16


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), 1e30])
def test_relative_shapes_are_numbers(wrong):
    """Relative shapes that are not finite or too large are refused. They once became a wildcard."""
    with pytest.raises(ValueError, match=r"fn\.reshape.*\n(.*\n)*.*`rel_shape`"):
        run(lambda: fn.reshape(fn.random.uniform(shape=[6]), rel_shape=[wrong]))


def test_constants_as_inputs_and_arguments():
    assert run(lambda: fn.copy(3)) == [[3, 3, 3]]
    assert run(lambda: fn.copy([1, 2])) == [[[1, 2]] * 3]
    assert run(lambda: fn.copy(np.float32(1.5))) == [[1.5] * 3]
    assert run(lambda: fn.copy(types.Constant(4).uint8())) == [[4] * 3]
    (shapes,) = run(lambda: fn.random.uniform(shape=np.array([2, 3])).shape())
    assert shapes == [[2, 3]] * 3
    with Pipeline(**BASE):
        assert fn.random.uniform(shape=np.array([2])).source.constants["shape"] == [2]
        assert "shape" in fn.random.uniform(shape=np.array([2, 3])).source.argument_inputs


def test_arguments_are_converted_if_the_value_does_not_change():
    with Pipeline(**BASE):
        assert fn.flip(fn.copy(1), horizontal=1.0).source.constants["horizontal"] == 1
        for wrong in ({"horizontal": 1.5}, {"vertical": "1"}):
            with pytest.raises(TypeError, match=r"must be int"):
                fn.flip(fn.copy(1), **wrong)
        with pytest.raises(TypeError, match=r"'dtype' must be DALIDataType, got 1\.5"):
            fn.cast(fn.copy(1), dtype=1.5)
    pixels = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)

    def turned(angle):
        return run(lambda: fn.rotate(types.Constant(pixels, layout="HWC"), angle=angle))

    assert turned(types.Constant(90, dtype=types.INT32)) == turned(90.0)
    assert run(lambda: fn.random.coin_flip(dtype=types.FLOAT, seed=3)) == run(lambda: fn.random.coin_flip(seed=3))


def test_shapes_and_properties():
    """`shape()`, `property()` and `source_info()` of nodes on both devices."""
    def graph():
        a = fn.random.uniform(shape=[2, 5])
        b = fn.reshape(a, layout="HW")
        return a.shape(), fn.random.uniform().shape(), a.shape(dtype=types.INT32), a.gpu().shape(), b.property("layout"), \
            a.property("layout"), b.gpu().property("layout"), a.source_info(), a.shape(device="gpu"), fn.copy(a.gpu()).shape()  # fmt: skip

    outputs = pipeline_of(graph).run()
    got = values(outputs)
    assert got[0] == got[2] == got[3] == got[8] == got[9] == [[2, 5]] * 3 and got[1] == [[]] * 3
    assert [batch.dtype for batch in outputs[:3]] == [types.INT64, types.INT64, types.INT32]
    assert got[4] == got[6] == [[72, 87]] * 3 and got[5] == got[7] == [[]] * 3
    assert type(outputs[8]).__name__ == "TensorListGPU" and type(outputs[3]).__name__ == "TensorListCPU"
    with pytest.raises(RuntimeError, match=r"unknown property key 'colour'"):
        pipeline_of(lambda: fn.random.uniform().property("colour")).build()


def test_input_sets():
    def graph():
        a, b = types.Constant([1, 2], device="cpu"), types.Constant([3, 4], device="cpu")
        pair = fn.copy([a, b])
        assert isinstance(pair, list) and len(pair) == 2
        columns = call(PairProbe, [a, b])
        assert [len(column) for column in columns] == [2, 2]
        shaped = fn.reshape([a, b], types.Constant([2, 1], device="cpu"))
        with pytest.raises(ValueError, match=r"same number"):
            call(Probe, [a, b], [a])
        with pytest.raises(TypeError):
            fn.copy((a, b))
        named = fn.copy([a, b], name="C")
        assert named[0].name == "C" and named[1].name.startswith("__Copy_")
        return (*pair, *shaped)

    assert run(graph) == [[[1, 2]] * 3, [[3, 4]] * 3, [[[1], [2]]] * 3, [[[3], [4]]] * 3]


def test_input_sets_of_functions_and_with_constants():
    def graph():
        x = fn.external_source(lambda: np.arange(3, dtype=np.int32))
        first, second = fn.python_function([x, np.int32(5)], x, function=lambda a, b: (a + b, a - b), num_outputs=2)
        return *first, *second

    assert run(graph) == [[0, 2, 4], [5, 6, 7], [0, 0, 0], [5, 4, 3]]


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0), (1, 2), (2,)])
def test_input_sets_share_noise_and_take_a_seed_each(order):
    """The expected values were recorded from DALI 2.4."""
    def graph():
        i = fn.random.uniform(range=[0, 1], shape=[1], seed=3)
        sets = fn.random.normal([i, fn.copy(i), fn.reshape(i, shape=[1])])
        return (*(sets[k] for k in order), fn.random.uniform())

    *noise, last = run(graph, batch_size=2, seed=5)
    assert all(np.allclose(np.ravel(one), [-0.2016320824623108, 0.13630978763103485]) for one in noise)
    after = {3: [0.4336216449737549, -0.39069056510925293], 2: [0.9670602083206177, 0.8722434043884277],
             1: [-0.2453615665435791, -0.6156843900680542]}  # fmt: skip
    assert last == after[len(order)]


def test_operator_classes():
    def graph():
        uniform = ops.random.Uniform(range=[0.0, 1.0], seed=3)
        assert uniform.schema.name == "random.uniform"
        with pytest.raises(ValueError, match=r"range given both"):
            uniform(range=[0, 2])
        with pytest.raises(KeyError, match=r"rnage"):
            ops.random.Uniform(rnage=[1, 2])
        with pytest.raises(TypeError, match=r"DataNode"):  # `dtype` must be a constant
            ops.random.Uniform(dtype=fn.random.uniform())
        with pytest.raises(TypeError, match=r"ops.Uniform takes no positional arguments, got 1"):
            ops.random.Uniform([0, 1])
        with pytest.raises(TypeError, match=r"takes 4 positional arguments, got 5"):
            ops.PythonFunction(abs, 1, "cpu", False, 3)
        with pytest.raises(TypeError, match=r"'function' is given by position and by name"):
            ops.PythonFunction(abs, function=abs)
        of_node = ops.random.Uniform(range=fn.constant(fdata=[5.0, 6.0]))
        with pytest.raises(ValueError, match=r"range given both"):
            of_node(range=[0, 2])
        return uniform(range=None), fn.random.uniform(range=[0.0, 1.0], seed=3)

    one, two = run(graph)
    assert one == two


def test_deprecated_operator_names():
    with Pipeline(**BASE), pytest.warns(DeprecationWarning, match=r"fn\.readers\.file") as seen:
        fn.file_reader(files=["x"])
    assert seen[0].filename == __file__


def test_documentation_comes_from_the_declaration():
    assert "probability" in fn.random.coin_flip.__doc__ and "probability" in str(fn.random.coin_flip.__signature__)
    import asyncdali.fn.random  # submodules can be imported by name

    assert asyncdali.fn.random.uniform is fn.random.uniform


# --- pruning, names, merging


def test_names_must_be_unique():
    with pytest.raises(RuntimeError, match=r"non-unique names.*'A'"):
        pipeline_of(lambda: (fn.random.uniform(name="A"), fn.random.normal(name="A"))).build()
    foreign = Pipeline(**BASE)
    with foreign:
        other = fn.random.uniform()
    with pytest.raises(RuntimeError, match=r"non-unique names.*another pipeline"):
        pipeline_of(lambda: (other, fn.random.uniform())).build()
    pipeline_of(lambda: (fn.random.uniform(name="A"), [fn.random.normal(name="A")])[0]).build()  # pruned: no clash


def test_nodes_defined_outside_of_a_pipeline_are_accepted():
    outside = fn.random.uniform(seed=1)
    assert run(lambda: fn.copy(outside)) == run(lambda: fn.random.uniform(seed=1))


def pointers(*nodes_of, **options):
    return [batch.data_ptr() for batch in pipeline_of(*nodes_of, **options).run()]


def test_equal_operators_are_merged_unless_named():
    def twice(make):
        return lambda: (make(), make())

    def distinct(*args, **options):
        return len(set(pointers(*args, **options)))

    assert distinct(twice(lambda: fn.copy(types.Constant([1], device="cpu")))) == 1
    assert distinct(twice(lambda: fn.random.uniform(seed=4))) == 1
    assert distinct(twice(fn.random.uniform)) == 2
    assert distinct(lambda: (fn.copy(4, name="A"), fn.copy(4))) == 2
    assert distinct(lambda: (fn.copy(4, name="A"), fn.copy(4, name="B"))) == 2
    assert distinct(twice(lambda: fn.copy(4, preserve=True))) == 2
    assert distinct(lambda: (fn.copy(4), fn.copy(5))) == 2
    assert distinct(lambda: (fn.copy(4), fn.copy(types.Constant(4, device="gpu")))) == 2
    a, b, c = pointers(lambda: (lambda x: (x, fn.reshape(x, shape=[2, 1]), fn.reshape(fn.reshape(x, layout="X"), shape=[1, 2])))(
        fn.copy(types.Constant([1, 2], device="cpu"))))  # fmt: skip
    assert a == b == c


def test_one_transfer_per_edge():
    def graph():
        a = fn.random.uniform()
        return a.gpu(), a.gpu(), fn.copy(a.gpu()), fn.copy(a.gpu(), name="other"), a.gpu().cpu()

    pipeline = pipeline_of(graph)
    pipeline.build()
    assert sum(planned.spec.schema.name == "_transfer" for planned in pipeline._core.session.plan.operators) == 1


def test_pruned_operators_are_not_built():
    def graph():
        fn.random.uniform(range=[0, 1], values=[1])  # the build would refuse this operator
        return fn.random.uniform()

    pipeline_of(graph).build()


# --- seeds


def test_seeds_go_in_depth_first_order_from_the_outputs():
    def seeds(*outputs, instances=()):
        plan = build_plan(outputs, instances, None, lambda k: 100 + k)
        return {planned.spec.name: planned.spec.seed for planned in plan.operators if planned.spec.seed is not None}

    b, a = fn.random.uniform(name="b"), fn.random.normal(name="a")
    c = fn.random.uniform(b, range=a, name="c")
    fixed = fn.random.uniform(seed=5, name="fixed")
    assert seeds(c) == {"b": 100, "a": 101, "c": 102}
    assert seeds(a, b) == {"a": 100, "b": 101}
    assert seeds(fn.copy(3), fixed, b) == {"fixed": 5, "b": 100}
    many = [fn.random.uniform(name=str(k)) for k in range(1030)]
    assert list(seeds(*many).values())[1023:1026] == [1123, 100, 101]


# --- size


def test_deep_and_wide_graphs():
    def graph():
        node = fn.random.uniform()
        for _ in range(3000):
            node = fn.copy(node)
        wide = [fn.random.uniform(node) for _ in range(500)]
        return (node, *wide)

    pipeline = pipeline_of(graph)
    first = pipeline.run()
    assert len(first) == 501 and values(first[:1]) == run(fn.random.uniform)
    data = pipeline.serialize()
    again = Pipeline.deserialize(data)
    again.build()
    assert len(again._core.session.plan.operators) == 3501


# --- user lines


def test_build_errors_show_the_users_line():
    @pipeline_def(**BASE)
    def graph():
        return helper()

    def helper():
        return fn.random.uniform(range=[3, 1])  # this line

    with pytest.raises(ValueError) as caught:
        graph().build()
    text = str(caught.value)
    for part in ("asyncdali.fn.random.uniform", __file__, "in graph", "in helper", "# this line", "the first smaller than the second"):
        assert part in text, text
    assert "pytest" not in text.replace(__file__, "") and "site-packages" not in text  # no frames above the graph function
    inline = Pipeline(**BASE)
    with inline:
        inline.set_outputs(fn.random.uniform(range=[3, 1]))
    with pytest.raises(ValueError, match=r"in test_build_errors") as caught:
        inline.build()
    assert "site-packages" not in str(caught.value)


# --- serialization and drawings


def graph_with_everything():
    a = fn.random.uniform(range=[0, 4], shape=[2], name="A")
    size = fn.random.uniform(range=[1, 4], shape=[1], dtype=types.INT32)
    b = fn.random.normal(shape=size)
    c = fn.copy(a.gpu())
    sets = fn.random.normal([a, fn.copy(a)])
    return a, b, c, c.cpu(), *sets, types.Constant(np.arange(6, dtype=np.int16).reshape(2, 3), layout="HW"), 7


def test_serialization_round_trip(tmp_path):
    pipeline = pipeline_of(graph_with_everything, exec_dynamic=True, prefetch_queue_depth=3, output_layout=[None] * 8)
    data = pipeline.serialize(filename=tmp_path / "pipe.json")
    assert isinstance(data, bytes) and (tmp_path / "pipe.json").read_bytes() == data
    assert pipeline_of(graph_with_everything, exec_dynamic=True, prefetch_queue_depth=3, output_layout=[None] * 8).serialize() == data
    wanted = [values(pipeline.run()) for _ in range(3)]
    from_file = Pipeline.deserialize(filename=tmp_path / "pipe.json")
    for again in (Pipeline.deserialize(data), from_file, Pipeline.deserialize(data, num_threads=2)):
        assert again._core.session is None and again.prefetch_queue_depth == 3 and again.seed == 7
        assert [values(again.run()) for _ in range(3)] == wanted
        assert again.serialize() == data or again.num_threads == 2
    own = Pipeline(3, 2, seed=7, prefetch_queue_depth=1)
    own.deserialize_and_build(data)
    assert own.prefetch_queue_depth == 1 and values(own.run()) == wanted[0]
    with pytest.raises(RuntimeError, match=r"built already"):
        own.deserialize_and_build(data)


def test_missing_options_come_from_the_stored_pipeline():
    """Options that the new pipeline does not give come from the stored pipeline. A given seed replaces the stored one."""
    stored = pipeline_of(fn.random.uniform, batch_size=3, num_threads=2, seed=11)
    data, wanted = stored.serialize(), values(stored.run())
    for given in ({}, {"batch_size": 3}, {"num_threads": 1}, {"batch_size": 3, "num_threads": 1, "seed": 11}, {"seed": -1}):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the warning about a negative seed
            own = Pipeline(**given)
        own.deserialize_and_build(data)
        assert (own.max_batch_size, own.num_threads, own.seed) == (3, given.get("num_threads", 2), 11)
        assert values(own.run()) == wanted
    other = Pipeline(seed=12)
    other.deserialize_and_build(data)
    assert values(other.run()) == values(pipeline_of(fn.random.uniform, batch_size=3, seed=12).run()) != wanted
    unseeded = pipeline_of(fn.random.uniform, seed=None).serialize()
    first, second = Pipeline(), Pipeline()
    first.deserialize_and_build(unseeded), second.deserialize_and_build(unseeded)
    assert values(first.run()) != values(second.run())  # as in DALI, draws differ without a seed


@pytest.mark.parametrize("name", ["num_threads", "batch_size", "prefetch_queue_depth", "bytes_per_sample", "seed"])
@pytest.mark.parametrize("value", [2**63, -(2**63), 10**30, 1.5, "x"])
def test_invalid_stored_options_are_refused(name, value):
    document = json.loads(pipeline_of(fn.random.uniform).serialize())
    document["options"][name] = value
    if name == "seed" and type(value) is int and value < 0:
        return  # a negative seed means "no seed"
    with pytest.raises((ValueError, TypeError), match=name):
        Pipeline.deserialize(json.dumps(document).encode()).build()
    if name in ("num_threads", "batch_size", "seed"):
        with pytest.raises((ValueError, TypeError), match=name):
            Pipeline().deserialize_and_build(json.dumps(document).encode())


def test_serialization_does_not_check_options():
    pipeline = pipeline_of(fn.random.uniform, num_threads=0)
    data = pipeline.serialize()
    with pytest.raises(ValueError, match=r"num_threads"):
        pipeline.build()
    with pytest.raises(ValueError, match=r"num_threads"):
        Pipeline.deserialize(data).build()
    assert values(Pipeline.deserialize(data, num_threads=1).run()) == run(fn.random.uniform)


def test_serialization_keeps_the_checkpointing_flag_but_no_state():
    pipeline = pipeline_of(fn.random.uniform, enable_checkpointing=True)
    before = pipeline.serialize()
    pipeline.run()
    state = pipeline.checkpoint()
    assert pipeline.serialize() == before
    again = Pipeline.deserialize(before, checkpoint=state)  # unlike in DALI, the flag has an effect
    again.build()
    assert again.is_restored_from_checkpoint and values(again.run()) == values(pipeline.run())


def test_python_objects_are_not_serialized():
    with pytest.raises(RuntimeError, match=r"Could not serialize the operator.*test_barrier_probe"):
        pipeline_of(lambda: call(BarrierProbe, hook=print)).serialize()


def test_damaged_serializations():
    data = pipeline_of(graph_with_everything).serialize()
    for wrong in (b"", b"junk", data[:-20], pickle.dumps(3), b"[1]", b'{"format": "asyncdali pipeline", "version": 99}',
                  data.replace(b'"random.uniform"', b'"no.such.operator"'), data.replace(b'"inputs":[[', b'"inputs":[[99'),
                  data.replace(b'"enum":"DALIDataType"', b'"enum":"Popen"'), b"[" * 100_000):  # fmt: skip
        with pytest.raises(RuntimeError):
            Pipeline.deserialize(wrong)
    for use in (Pipeline.deserialize, lambda: Pipeline.deserialize(data, filename="x")):
        with pytest.raises(ValueError, match=r"mutually exclusive"):
            use()
    with pytest.raises(TypeError):
        Pipeline.deserialize(3)
    with pytest.raises(TypeError, match=r"filename="):
        pipeline_of(fn.random.uniform).serialize("file")
    json.loads(data)
    assert ast.literal_eval(repr(json.loads(data)))


def test_drawing(tmp_path):
    pipeline = pipeline_of(graph_with_everything)
    pipeline.save_graph_to_dot_file(tmp_path / "g.dot")
    text = (tmp_path / "g.dot").read_text()
    assert text.startswith("digraph") and '"A" -> "__transfer_A_gpu"' in text and text.count("output 7") == 2
    pipeline.save_graph_to_dot_file(tmp_path / "g.dot", show_tensors=True, use_colors=True)
    assert '"A[0]" [shape=box]' in (tmp_path / "g.dot").read_text() and "blue" in (tmp_path / "g.dot").read_text()
    with pytest.warns(DeprecationWarning, match=r"show_ids"):
        pipeline.save_graph_to_dot_file(tmp_path / "g.dot", show_ids=True)
    assert pipeline.output_stream() is None


def test_stateful_operators_are_serialized_without_state():
    pipeline = pipeline_of(lambda: call(CounterProbe))
    pipeline.run()
    assert values(Pipeline.deserialize(pipeline.serialize()).run()) == [[0, 1, 2]]


def test_operator_objects_know_their_device():
    made = [
        ops.Resize(size=3), ops.Resize(size=3, device="gpu"), ops.decoders.Image(device="mixed"), ops.random.Uniform(),
        ops.ExternalSource(), ops.ExternalSource(device="gpu"), ops.PythonFunction(len), ops.readers.File(files=["a"]),
    ]  # fmt: skip
    assert [operator.device for operator in made] == ["cpu", "gpu", "mixed", "cpu", "cpu", "gpu", "cpu", "cpu"]
    with pytest.raises(AttributeError):
        made[0].device = "gpu"


def test_the_package_exports_datanode():
    assert asyncdali.pipeline.DataNode is asyncdali.DataNode
    assert isinstance(fn.random.uniform(), DataNode)


def test_a_pipeline_prints_its_segments(tmp_path):
    pipeline = Pipeline(batch_size=2, num_threads=1, device_id=0)
    with pipeline:
        data = fn.external_source(lambda: [np.zeros((4, 4, 3), np.uint8)] * 2, layout="HWC", name="data")
        seen = fn.python_function(fn.flip(data, name="flipped"), function=lambda a: a, name="user")
        small = fn.resize(data, size=[2, 3], interp_type=types.INTERP_NN, name="small")
        pipeline.set_outputs(fn.flip(seen, vertical=1, name="again"), seen.gpu(), small)
    assert "not built" in str(pipeline)
    pipeline.build()
    text = str(pipeline)
    assert "segment 0 (stage 0, cpu)" in text
    line = next(line for line in text.splitlines() if "small: resize(data" in line)
    assert "interp_type=INTERP_NN" in line and "size=[2.0, 3.0]" in line
    assert "flipped: flip(data)" in text
    assert "user: python_function(flipped" in text
    assert "again: flip(user, vertical=1)" in text
    assert text.index("flipped:") < text.index("user:") < text.index("again:")
    pipeline.save_graph_to_svg_file(tmp_path / "plan.svg")
    root = xml.etree.ElementTree.parse(tmp_path / "plan.svg").getroot()
    words = " ".join(root.itertext())
    assert all(name in words for name in ("flipped", "user", "again", "output 0", "output 1", "stage 1", "test_graph.py"))


@pytest.mark.parametrize("save", ["save_graph_to_dot_file", "save_graph_to_svg_file"])
def test_a_graph_that_cannot_be_built_leaves_its_file_alone(save, tmp_path):
    (tmp_path / "graph").write_text("older")
    pipeline = Pipeline(batch_size=2, num_threads=1, device_id=None)
    with pytest.raises(RuntimeError, match="no outputs"):
        getattr(pipeline, save)(tmp_path / "graph")
    assert (tmp_path / "graph").read_text() == "older"


def test_an_argument_input_of_two_dimensions_is_no_vector():
    pipeline = Pipeline(batch_size=2, num_threads=1)
    with pipeline:
        data = fn.external_source(lambda: [np.zeros((4, 4, 3), np.uint8)] * 2, layout="HWC")
        pipeline.set_outputs(fn.resize(data, size=fn.external_source(lambda: [np.float32([[3, 3]])] * 2)))
    with pytest.raises(RuntimeError, match=r"argument 'size' expects a vector per sample, got shape \(1, 2\)"):
        pipeline.run()
