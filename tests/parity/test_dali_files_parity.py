"""Files of DALI: what DALI saves continues here, and what this library saves for DALI continues there."""

from __future__ import annotations

import importlib
import random

import numpy as np
import pytest
from helpers.dali_twins import Program, batches, calls_of, dali, write_files
from helpers.iterators import numbered_files, reader_pipelines
from helpers.pipelines import values
from helpers.readers import KINDS, delivered, pipeline

import asyncdali
from asyncdali.dali_files.protobuf import message, parts, text
from asyncdali.graph.calls import schema_name
from asyncdali.graph.dali_pipelines import OTHER_NAMES
from asyncdali.operators import load_registry
from asyncdali.plugin.base_iterator import BaseIterator, LastBatchPolicy

pytest.importorskip("nvidia.dali", reason="parity with DALI needs DALI")


OTHER = {own: theirs for theirs, own in OTHER_NAMES.items()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("files")
    write_files(made)
    return made


def check_checkpoints(seed, folder):
    runs = random.Random(seed).randint(0, 12)
    program = Program(seed, folder)
    theirs = program.make(dali())
    theirs.build()
    batches(theirs, runs)
    saved = theirs.checkpoint()
    mine = program.make(asyncdali, checkpoint=saved)
    expected = batches(theirs, 4)
    assert batches(mine, 4) == expected, seed
    back = program.make(dali(), checkpoint=mine.checkpoint(format="dali"))
    back.build()
    assert batches(back, 3) == batches(mine, 3), seed
    mine.close()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(6))
def test_checkpoints_of_random_pipelines(seed, folder):
    check_checkpoints(seed, folder)


def check_pipelines(seed, folder):
    program = Program(seed, folder, sources=False)
    theirs = program.make(dali(), enable_checkpointing=seed % 2 == 0)
    theirs.build()
    mine = asyncdali.Pipeline.deserialize(theirs.serialize())
    assert batches(mine, 5) == batches(theirs, 5), seed
    if seed % 2 == 0:
        restored = asyncdali.Pipeline.deserialize(theirs.serialize(), checkpoint=theirs.checkpoint())
        assert batches(restored, 3) == batches(theirs, 3), seed
        restored.close()
    mine.close()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(6))
def test_serialized_random_pipelines(seed, folder):
    check_pipelines(seed, folder)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(6, 300))
def test_many_serialized_random_pipelines(seed, folder):
    check_pipelines(seed, folder)


def read(data):
    """A serialized pipeline as operators, outputs and options, without the arguments that say where DALI's program made an operator."""
    fields, operators = message(data), []
    for operator in map(message, parts(fields, 5)):
        arguments = {text(argument, 1): argument for argument in map(message, parts(operator, 4))}
        given = {name: value for name, value in arguments.items() if not name.startswith("_") or name == "_if_stmt"}
        operators.append([given, *(field for field in operator if field.number != 4)])
    return operators, [field for field in fields if field.number != 5]


def check_written(seed, folder):
    """The pipeline is written as DALI writes the same program, and DALI makes what this library makes."""
    program = Program(seed, folder, sources=False)
    mine = program.make(asyncdali)
    data = mine.serialize(format="dali")
    assert read(data) == read(program.make(dali()).serialize()), seed
    theirs = dali().Pipeline.deserialize(data)
    theirs.build()
    assert batches(theirs, 5) == batches(mine, 5), seed
    mine.close()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(6))
def test_pipelines_written_for_dali(seed, folder):
    check_written(seed, folder)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(6, 300))
def test_many_pipelines_written_for_dali(seed, folder):
    check_written(seed, folder)


NAMED_OTHERWISE = {"multi_paste", "normalize"}
"""Calls with an array as an argument: DALI numbers the operator before the constant that the array becomes."""


@pytest.mark.filterwarnings("ignore")
def test_calls_of_all_operators_are_written_as_dali_writes_them():
    theirs, ours = calls_of(dali()), calls_of(asyncdali)
    options = {"batch_size": 3, "num_threads": 1, "device_id": None, "seed": 5}
    compared = set()
    for name, call in theirs.items():
        try:
            expected = read(dali().pipeline_def(lambda call=call: call(), **options)().serialize())
        except (RuntimeError, TypeError):  # two calls of internal functions, which differ
            continue
        operators, rest = read(asyncdali.pipeline_def(lambda name=name: ours[name](), **options)().serialize(format="dali"))
        compared.add(name)
        if name in NAMED_OTHERWISE:
            assert [item[0] for item in operators] == [item[0] for item in expected[0]], name
        else:
            assert (operators, rest) == expected, name
    assert theirs.keys() - compared <= {"trivial_augment", "conditional"}


def special_graphs(package):
    """Graphs of constants, indices, operations and records, by name; each makes its outputs."""
    fn, types = package.fn, package.types
    records = importlib.import_module(f"{package.__name__}.tfrecord")

    def operations():
        x = fn.random.uniform(range=[0.0, 9.0], shape=[4, 5])
        i = fn.cast(x, dtype=types.INT32)
        clamped = package.math.clamp(x, 1, types.Constant(2.5).float64())
        return (
            x + 1, 2 * x, x / 3.5, i // 2, i % types.Constant(3).uint8(), -i, ~i, i & True, i ^ 5, i << 1, x > 2, (x <= 3) | (x != 4),
            x**2, 1.5 - x, package.math.sqrt(x), clamped, package.math.atan2(x, 2), package.math.max(x, i), abs(i),
        )  # fmt: skip

    def indices():
        x, k, new = fn.random.uniform(range=[0.0, 9.0], shape=[4, 5, 6]), fn.random.choice(3), package.newaxis
        return (
            x[0], x[1:3], x[:, 2], x[:, :, ::2], x[-1, -2, -3], x[k], x[k:, 1], x[:], x[:, new], x[new, 0], x[0, new, new], x[new],
            x[:, :, :, new], x[0:1:1, new("C"), 2],
        )  # fmt: skip

    def constants():
        arrays = [
            np.array([[1, 2], [3, 4]], np.int64), np.array([True, False]), np.float32([1.5]), np.array([0.25, 3]), np.uint8([1, 255]),
            np.array(7, np.int16), np.float16([0.5]),
        ]  # fmt: skip
        made = [types.Constant(array, device="cpu") for array in arrays]
        return (*made, fn.constant(fdata=[1.0, 2.0], shape=[2]), fn.constant(idata=3, layout="X"))

    def sets():
        a, b = fn.random.uniform(range=[0.0, 1.0]), fn.random.normal(seed=4, name="n")
        c, d = fn.cast([a, b], dtype=types.INT16)
        return c, d, fn.per_frame(fn.reshape(a, shape=[1], layout="F")), fn.get_property(a, key="layout"), a.shape()

    def features():
        declared = {
            "x": records.FixedLenFeature([4, 5], records.float32, 1.5), "y": records.VarLenFeature(records.int64, -1),
            "z": records.FixedLenFeature((), records.string, ""), "w": records.FixedLenFeature([1], records.int64, 7),
        }  # fmt: skip
        found = fn.readers.tfrecord(path=["a", "b"], index_path=["c", "d"], features=declared, name="R")
        return found["x"], found["y"], found["z"]

    return {"operations": operations, "indices": indices, "constants": constants, "sets": sets, "features": features}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", special_graphs(asyncdali))
def test_special_graphs_are_written_as_dali_writes_them(name):
    options = {"batch_size": 3, "num_threads": 2, "device_id": None, "prefetch_queue_depth": 5, "set_affinity": True}
    mine, theirs = (package.pipeline_def(special_graphs(package)[name], **options)() for package in (asyncdali, dali()))
    assert read(mine.serialize(format="dali")) == read(theirs.serialize())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(name for name, kind in KINDS.items() if kind.in_dali))
def test_readers_are_written_for_dali(name, tmp_path):
    kind = KINDS[name]
    files = {**kind.write(tmp_path), "random_shuffle": True, "initial_fill": 3, "num_shards": 2, "shard_id": 1}
    mine = pipeline(kind, files, enable_checkpointing=True)
    theirs = dali().Pipeline.deserialize(mine.serialize(format="dali"))
    theirs.build()
    assert delivered(kind, theirs, 5) == delivered(kind, mine, 5)


def test_arguments_that_dali_does_not_have_are_declared():
    backend = importlib.import_module("nvidia.dali.backend")
    theirs = {*backend.RegisteredCPUOps(), *backend.RegisteredGPUOps(), *backend.RegisteredMixedOps()}
    special = {"_arithmetic_generic_op", "_tensor_subscript", "_constant"}  # their arguments are written in another form
    for name, kind in load_registry().items():
        own = OTHER.get(name, schema_name(name))
        if kind.__module__.startswith("helpers."):
            continue  # an operator of tests that share this process
        if name in special or kind.schema.calls_python or name == "experimental.numba_function" or own == "readers___TFRecord":
            continue
        assert (own in theirs) != kind.schema.only_here, name
        if own in theirs:
            names = set(backend.GetSchema(own).GetArgumentNames())
            assert {arg.name for arg in kind.schema.args if arg.only_here} == {arg.name for arg in kind.schema.args} - names, name


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(6, 300))
def test_checkpoints_of_many_random_pipelines(seed, folder):
    check_checkpoints(seed, folder)


@pytest.mark.slow  # compiles nearly all kernels
@pytest.mark.filterwarnings("ignore")
def test_serialized_calls_of_all_operators():
    """Each call is serialized by DALI, and the converted pipeline gives what the same call gives here."""
    theirs, ours = calls_of(dali()), calls_of(asyncdali)
    options = {"batch_size": 3, "num_threads": 1, "device_id": None, "seed": 5}
    left_out = []
    for name, call in theirs.items():
        try:
            data = dali().pipeline_def(lambda call=call: call(), **options)().serialize()
        except (RuntimeError, TypeError) as error:  # two calls of internal functions, which differ
            left_out.append((name, str(error)))
            continue
        one, two = asyncdali.Pipeline.deserialize(data), asyncdali.pipeline_def(lambda name=name: ours[name](), **options)()
        for _ in range(2):
            np.testing.assert_equal(values(one.run()), values(two.run()), err_msg=name)
        one.close()
        two.close()
    assert {name for name, _ in left_out} <= {"trivial_augment", "conditional"}, left_out


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(name for name, kind in KINDS.items() if kind.in_dali))
def test_readers_continue_from_both_kinds_of_files(name, tmp_path):
    kind = KINDS[name]
    files = {**kind.write(tmp_path), "random_shuffle": True, "initial_fill": 3, "num_shards": 2, "shard_id": 1}
    theirs = pipeline(kind, files, dali(), enable_checkpointing=True)
    delivered(kind, theirs, 4)
    graph, saved = theirs.serialize(), theirs.checkpoint()
    expected = delivered(kind, theirs, 5)
    assert delivered(kind, asyncdali.Pipeline.deserialize(graph, checkpoint=saved), 5) == expected
    assert delivered(kind, pipeline(kind, files, enable_checkpointing=True, checkpoint=saved), 5) == expected


def numbers_in(tensors):
    return [int(np.asarray(tensors.at(k)).reshape(-1)[0]) for k in range(len(tensors))]


class Mine(BaseIterator):
    def _converted(self, outputs, keep):
        return numbers_in(outputs[0])


def peer_of(pipes, **options):
    """DALI's iterator, without a framework."""
    base = pytest.importorskip("nvidia.dali.plugin.base_iterator")

    class Peer(base._DaliBaseIterator):
        def __next__(self):
            self._ever_consumed = True
            outputs = self._get_outputs()
            self._schedule_runs()
            self._advance_and_check_drop_last()
            return [numbers_in(one[0]) for one in outputs]

    return Peer(pipes, prepare_first_batch=False, last_batch_policy=getattr(base.LastBatchPolicy, options.pop("policy")), **options)


def events(iterator, count):
    """The next batches, with "/" where an epoch ends."""
    found = []
    for _ in range(count):
        try:
            found.append(next(iterator))
        except StopIteration:
            found.append("/")
    return found


def check_iterators(seed, files):
    choice = random.Random(seed)
    count, batch, shards = choice.randint(6, len(files)), choice.randint(1, 4), choice.randint(1, 3)
    ids = list(range(shards)) if choice.random() < 0.5 else [choice.randrange(shards)]
    policy, padded = choice.choice(("FILL", "FILL", "DROP")), choice.random() < 0.4
    reader = {"stick_to_shard": choice.random() < 0.4, "pad_last_batch": padded and policy == "FILL"}  # docs/differences.md has DROP
    if choice.random() < 0.5:
        reader |= {"random_shuffle": True, "initial_fill": 4}
    options = {"reader_name": "reader", "auto_reset": True}
    theirs = peer_of(reader_pipelines(files[:count], batch, shards, ids, dali(), **reader), policy=policy, **options)
    events(theirs, choice.randint(0, 14))
    saved = theirs.checkpoints()
    pipes = reader_pipelines(files[:count], batch, shards, ids, checkpoints=saved, **reader)
    mine = Mine(pipes, ["label"], last_batch_policy=LastBatchPolicy[policy], **options)
    assert events(mine, 12) == events(theirs, 12), seed


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(8))
def test_iterators_continue_from_checkpoints_of_dali(seed, tmp_path):
    check_iterators(seed, numbered_files(tmp_path, 23))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(8, 300))
def test_many_iterators_continue_from_checkpoints_of_dali(seed, tmp_path):
    check_iterators(seed, numbered_files(tmp_path, 23))
