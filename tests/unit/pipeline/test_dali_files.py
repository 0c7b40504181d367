"""Checkpoints and serialized pipelines that DALI 2.4 has written (``dali_recorded``): the streams continue as DALI's do."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest

import asyncdali
import asyncdali.auto_aug.rand_augment
from asyncdali import fn, pipeline_def, tfrecord, types
from asyncdali.__main__ import main
from asyncdali.dali_files import checkpoints, protobuf
from asyncdali.errors import CheckpointError
from asyncdali.plugin.base_iterator import BaseIterator

RECORDED = Path(__file__).parent / "dali_recorded"
EXAMPLES = json.loads((RECORDED / "examples.json").read_text())


@pytest.fixture
def folder(tmp_path):
    """The files that the recorded pipelines read."""
    for k in range(12):
        (tmp_path / f"{k}.bin").write_bytes(bytes([k] * (k + 1)))
        np.save(tmp_path / f"{k}.npy", np.array([k, 10 * k], np.int32))
    return tmp_path


def example(name, folder):
    """The functions of a recorded program, and its data."""
    place = folder / f"{name}.py"
    place.write_text(EXAMPLES[name]["source"])  # conditional execution reads the source of functions
    names = {}
    exec(compile(EXAMPLES[name]["source"], str(place), "exec"), names)
    return names, (RECORDED / name).read_bytes()


def listed(tensors):
    return [np.asarray(tensors.at(k)).tolist() for k in range(len(tensors))]


def check_next(pipe, expected, outputs):
    for batch in expected:
        if batch == "/":
            with pytest.raises(StopIteration):
                pipe.run()
            continue
        for name, tensors in zip(outputs, pipe.run(), strict=True):
            assert listed(tensors) == batch[name], name


@pytest.mark.parametrize("name", [name for name in EXAMPLES if name.endswith(".cpt") and "iterator" not in name])
def test_checkpoints_of_dali_continue(name, folder):
    functions, data = example(name, folder)
    pipe = functions["make"](asyncdali, str(folder), checkpoint=data)
    check_next(pipe, EXAMPLES[name]["next"], EXAMPLES[name]["outputs"])
    assert pipe.is_restored_from_checkpoint


@pytest.mark.parametrize("name", [name for name in EXAMPLES if name.endswith(".cpt") and "iterator" not in name])
def test_what_is_restored_is_written_again(name, folder):
    functions, data = example(name, folder)
    pipe = functions["make"](asyncdali, str(folder), checkpoint=data)
    mine, theirs = checkpoints.parse(pipe.checkpoint(format="dali")), checkpoints.parse(data)
    assert dict(mine.operators) == dict(theirs.operators)
    assert (mine.iteration, mine.epoch) == (theirs.iteration, theirs.epoch)


class Labels(BaseIterator):
    def _converted(self, outputs, keep):
        return listed(outputs[0])


def test_an_iterators_checkpoint_continues(folder):
    functions, data = example("4_iterator.cpt", folder)
    pipe = functions["make"](asyncdali, str(folder), checkpoint=data)
    iterator = Labels([pipe], ["label"], reader_name="R", auto_reset=True)
    for batch in EXAMPLES["4_iterator.cpt"]["next"]:
        if batch == "/":
            with pytest.raises(StopIteration):
                next(iterator)
        else:
            assert next(iterator) == [batch["label"]]


# --- refusals


@pipeline_def(batch_size=2, num_threads=1, seed=1, enable_checkpointing=True)
def plain(folder):
    label = fn.readers.file(files=[f"{folder}/{k}.bin" for k in range(5)], name="R")[1]
    return label, fn.random.uniform(name="U"), fn.cast(label, dtype=asyncdali.types.FLOAT, name="C")


def saved(states, place='{"iter": 3, "epoch_idx": 0}'):
    entries = [(1, protobuf.encoded([(1, name.encode()), (2, state)])) for name, state in states]
    return protobuf.encoded([*entries, (2, protobuf.encoded([(1, place.encode())]))])


def reader(engine, age=4):
    return protobuf.encoded([(1, protobuf.encoded([(1, engine), (3, age)]))])


READER = reader(b"980519533")
STREAM = b"Philox_0000000000000001_0000000000000006:0000000000000000_0"
WRONG = {
    "an unknown operator": ([("R", READER), ("U", STREAM), ("X", STREAM)], 'doesn\'t recognize "X"'),
    "a state of an operator without one": ([("R", READER), ("U", STREAM), ("C", STREAM)], '"C", which has none'),
    "a missing state": ([("R", READER), ("U", b"")], "There's no checkpoint for operator \"U\""),
    "the other kind of state": ([("R", STREAM), ("U", STREAM)], "not the position of a reader"),
    "the state of a reader for a stream": ([("R", READER), ("U", READER)], "not the position of a random stream"),
    "a state of DALI 1": ([("R", READER), ("U", b"1 2 3 " * 400)], "neither that of a reader nor of a stream. States of random"),
    "two entries of one name": ([("R", READER), ("R", READER), ("U", STREAM)], "already contains an operator with name"),
    "an engine that is no number": ([("R", reader(b"x")), ("U", STREAM)], "neither that of a reader"),
    "an age beyond the shard": ([("R", reader(b"1", 9)), ("U", STREAM)], "9 samples into a shard of 5"),
}


@pytest.mark.parametrize("name", WRONG)
def test_invalid_checkpoints_are_refused_by_name(name, folder):
    states, text = WRONG[name]
    with pytest.raises(CheckpointError, match=text):
        plain(str(folder), checkpoint=saved(states)).build()


@pytest.mark.parametrize("place", ['{"iter": -1}', '{"iter": "x"}', "[1]", "{"])
def test_an_invalid_place_is_refused(place, folder):
    with pytest.raises(CheckpointError, match="in the checkpoint of DALI is"):
        plain(str(folder), checkpoint=saved([("R", READER), ("U", STREAM)], place)).build()


def test_damaged_checkpoints_are_refused(folder):
    data = saved([("R", READER), ("U", STREAM)])
    plain(str(folder), checkpoint=data).build()
    for size in range(1, len(data)):
        with pytest.raises(CheckpointError):
            plain(str(folder), checkpoint=data[:size]).build()


def test_states_of_python_sources_are_refused(folder):
    class Source:
        def __init__(self):
            self.count = 0

        def __iter__(self):
            return self

        def __next__(self):
            self.count += 1
            return [np.float32(self.count)] * 2

        def state_dict(self):
            return {"count": self.count}

        def load_state_dict(self, state):
            self.count = state["count"]

    def make(**options):
        pipe = asyncdali.Pipeline(batch_size=2, num_threads=1, enable_checkpointing=True, **options)
        with pipe:
            pipe.set_outputs(fn.external_source(Source(), name="S"))
        return pipe

    with pytest.raises(CheckpointError, match="no state of Python sources, so the state of 'S'"):
        make(checkpoint=saved([("S", b"")])).build()
    with pytest.raises(CheckpointError, match="format of DALI's checkpoints has no state of Python sources: S"):
        make().checkpoint(format="dali")


def test_another_format_is_refused(folder):
    with pytest.raises(ValueError, match="format is 'json'"):
        plain(str(folder)).checkpoint(format="json")


# --- the wire format


@pytest.mark.parametrize("data", [b"\x08", b"\x0a\x05ab", b"\x00", b"\x0b", b"\x09" + b"0" * 8, b"\x08" + b"\xff" * 10, b"\x0d\x01"])
def test_bytes_that_are_no_message(data):
    with pytest.raises(protobuf.WireError):
        protobuf.message(data)


def test_messages_are_read_as_written():
    data = protobuf.encoded([(1, b"text"), (2, -5), (300, 2**63 - 1), (2, 7)])
    fields = protobuf.message(data)
    assert protobuf.text(fields, 1) == "text" and protobuf.integer(fields, 300) == 2**63 - 1 and protobuf.integer(fields, 2) == 7
    assert [protobuf.signed(value) for number, _, value in fields if number == 2] == [-5, 7]
    with pytest.raises(protobuf.WireError, match="must be a byte string"):
        protobuf.parts(fields, 2)
    with pytest.raises(protobuf.WireError, match="must be a number"):
        protobuf.integer(fields, 1)


# --- serialized pipelines


@pytest.mark.parametrize("name", [name for name in EXAMPLES if name.endswith(".dali")])
def test_pipelines_of_dali_give_the_recorded_batches(name, folder, monkeypatch):
    monkeypatch.chdir(folder)
    recorded = EXAMPLES[name]
    pipe = asyncdali.Pipeline.deserialize((RECORDED / name).read_bytes())
    for step, batch in enumerate(recorded["next"]):
        for port, fed in recorded.get("feed", {}).items():
            pipe.feed_input(port, [np.array(sample, np.float32) for sample in fed[step]])
        for output, tensors in zip(recorded["outputs"], pipe.run(), strict=True):
            assert listed(tensors) == batch[output], output
    again = asyncdali.Pipeline.deserialize(pipe.serialize())
    assert again.serialize() == pipe.serialize()


def argument(name, kind, *values, listed=False):
    numbers = {"int64": 4, "string": 5, "bool": 6}
    items = [(numbers[kind], value.encode() if isinstance(value, str) else value) for value in values]
    if listed:
        items = [(7, protobuf.encoded([(2, kind.encode()), item])) for item in items]
    return protobuf.encoded([(1, name.encode()), (2, kind.encode()), *items, (8, int(listed))])


def edge(name, device="cpu", named=""):
    return protobuf.encoded([(1, name.encode()), (2, device.encode()), *([(3, 1), (4, named.encode())] if named else [])])


def operator(kind, name, *arguments, inputs=(), outputs=1):
    made = [name] if outputs == 1 else [f"{name}[{k}]" for k in range(outputs)]
    fields = [(1, kind.encode()), (5, name.encode()), *((2, item) for item in inputs), *((3, edge(item)) for item in made)]
    return protobuf.encoded([*fields, *((4, item) for item in arguments)])


OPTIONS = [(10, 0), (11, 11), (12, 4), (13, 2), (14, 2), (15, 0)]


def stored(*operators, output, declared=()):
    last = edge(output) + protobuf.encoded(declared)
    return protobuf.encoded([(1, 1), (2, 2), *((5, item) for item in operators), (7, last), (8, -99999), (9, 5), *OPTIONS])


def arithmetic(text):
    made = operator("_ArithmeticGenericOp", "A", argument("expression_desc", "string", text), inputs=[edge("U")])
    return stored(UNIFORM, made, output="A")


UNIFORM = operator("random__Uniform", "U")
CALL = operator("PythonFunction", "P", argument("function_id", "int64", 1))
WRONG_PIPELINES = {
    "an unknown operator": (stored(operator("SomethingNew", "N"), output="N"), r"has the operator SomethingNew \(name 'N'\)"),
    "a Python function": (stored(CALL, output="P"), "calls a Python function"),
    "an unknown argument": (stored(operator("random__Uniform", "U", argument("x", "int64", 1)), output="U"), "unexpected argument 'x'"),
    "an edge without an operator": (stored(UNIFORM, output="V"), "'V' is used before an operator makes it"),
    "no expression": (arithmetic("a(b(c))"), "is no expression"),
    "a constant that is missing": (arithmetic("add(&0 $3:int32)"), "cannot be made"),
    "a device that does not exist": (
        stored(UNIFORM, operator("Cast", "C", argument("dtype", "int64", 9), inputs=[edge("U", "tpu")]), output="C"), "on the device 'tpu'",
    ),
    "a rank that does not exist": (stored(UNIFORM, output="U", declared=[(6, -3)]), "an output has the rank or the element type -3"),
    "a type that does not exist": (stored(UNIFORM, output="U", declared=[(5, 99)]), "an output has the rank or the element type 99"),
    "other numbers of outputs": (stored(operator("random__Uniform", "U", outputs=2), output="U[0]"), "has 2 outputs in DALI's pipeline"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG_PIPELINES)
def test_pipelines_that_cannot_be_carried_over_are_refused_by_name(name):
    data, text = WRONG_PIPELINES[name]
    with pytest.raises(RuntimeError, match=text):
        asyncdali.Pipeline.deserialize(data)


def test_damaged_pipelines_are_refused():
    """A message that was cut between two fields is a message, which lacks operators or outputs."""
    data = (RECORDED / "6_reader_graph.dali").read_bytes()
    for size in [*range(1, len(data), 17), len(data) - 1]:
        with pytest.raises(RuntimeError):
            asyncdali.Pipeline.deserialize(data[:size]).build()


def test_access_is_limited_in_pipelines_of_dali(folder, monkeypatch):
    monkeypatch.chdir(folder)
    pipe = asyncdali.Pipeline.deserialize((RECORDED / "6_reader_graph.dali").read_bytes(), allow=[str(folder / "elsewhere")])
    with pytest.raises(RuntimeError, match="0.bin"):
        pipe.build()


# --- pipelines written for DALI


def written_back(pipe):
    """The pipeline that is made from what is written for DALI."""
    return asyncdali.Pipeline.deserialize(pipe.serialize(format="dali"))


def test_what_is_read_is_written_again(folder, monkeypatch):
    monkeypatch.chdir(folder)
    for name in ("6_reader_graph.dali", "7_fed_graph.dali"):
        pipe = asyncdali.Pipeline.deserialize((RECORDED / name).read_bytes())
        assert written_back(pipe).serialize() == pipe.serialize()


def test_graphs_with_a_gpu_are_read_as_they_were_written():
    options = {"num_threads": 3, "device_id": 1, "seed": 5, "concurrency": types.OperatorConcurrency.FULL}

    @pipeline_def(batch_size=2, **options)
    def graph():
        data, label = fn.readers.file(files=["a", "b"], labels=[1, 2], name="R", random_shuffle=True)
        images = fn.resize(fn.decoders.image(data, device="mixed", output_type=types.GRAY), size=[10, 10])
        done = fn.crop_mirror_normalize(images, mirror=fn.random.coin_flip(), dtype=types.FLOAT16, mean=[1.0, 2.0, 3.0], preserve=True)
        return done, label.gpu(), label.gpu() + 1, done.cpu(), fn.flip(images.cpu(), device="cpu", name="F")

    pipe = graph()
    made = json.loads(written_back(pipe).serialize())
    expected = json.loads(pipe.serialize())
    for document in (made, expected):
        for operator in document["operators"]:
            operator["constants"].pop("seed", None)
            operator["name"] = operator["name"].replace("___", "__")
        document["options"].pop("concurrency", None)  # it changes no results
    assert made == expected


@pytest.mark.parametrize("queues", [{"cpu_size": 3, "gpu_size": 4}, 5])
def test_options_are_written(queues):
    options = {
        "batch_size": 7, "num_threads": 3, "seed": 12, "prefetch_queue_depth": queues, "set_affinity": True, "bytes_per_sample": 9,
        "enable_checkpointing": queues == 5, "output_dtype": [types.FLOAT, None], "output_ndim": [None, 0],
    }  # fmt: skip
    pipe = asyncdali.Pipeline(**options)
    with pipe:
        pipe.set_outputs(fn.random.uniform(name="U"), fn.random.normal(name="N"))
    made = written_back(pipe)
    assert {name: getattr(made._core.options, name) for name in options} == options
    assert listed(made.run()[0]) == listed(pipe.run()[0])


def exact():
    return fn.nonsilent_region(fn.constant(fdata=[1.0]), exact=True)


def calling():
    return fn.python_function(fn.random.uniform(), function=abs)


def augmenting():
    return asyncdali.auto_aug.rand_augment.rand_augment(fn.zeros(shape=[4, 4, 3], dtype=types.UINT8), n=1, m=1)


def partial_feature():
    return fn.readers.tfrecord(path="a", index_path="b", features={"x": tfrecord.VarLenFeature([3], tfrecord.int64, 0)})["x"]


REFUSED = {
    "an argument of ours": (exact, {}, r"`asyncdali.fn.nonsilent_region` \(__NonsilentRegion_\d\) for DALI: .* no argument `exact`"),
    "a Python function": (calling, {}, "python_function.*calls a Python function"),
    "a choice by number": (augmenting, {}, "DALI does not have the operator"),
    "a real number": (lambda: types.Constant(np.array([0.1]), dtype=types.FLOAT64), {}, "0.1 is FLOAT64, and DALI stores 32-bit"),
    "a large integer": (lambda: types.Constant(np.uint64([2**63]), dtype=types.UINT64), {}, "does not fit into 64 bits with a sign"),
    "a large float": (lambda: fn.random.uniform(range=[0.0, 1e39]), {}, "float too large"),
    "a partial shape": (partial_feature, {}, "does not store the partial shape"),
    "replaced samples": (lambda: fn.random.uniform(), {"on_error": "drop"}, "DALI's format has no option `on_error`: 'drop'"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_dali_does_not_have_is_refused_by_name(name):
    graph, options, text = REFUSED[name]
    pipe = asyncdali.pipeline_def(graph, batch_size=2, num_threads=1, **options)()
    with pytest.raises(RuntimeError, match=text):
        pipe.serialize(format="dali")


def test_an_index_without_places_is_refused():
    nothing = operator("_TensorSubscript", "__TensorSubscript_1", argument("num_subscripts", "int64", 0), inputs=[edge("U")])
    pipe = asyncdali.Pipeline.deserialize(stored(UNIFORM, nothing, output="__TensorSubscript_1"))
    with pytest.raises(RuntimeError, match="the operator has no index"):
        pipe.serialize(format="dali")


@pytest.mark.parametrize("seed", range(4))
def test_mutated_pipelines_are_refused_or_made(seed):
    choice = random.Random(seed)
    for _ in range(40):
        data = bytearray((RECORDED / choice.choice(["6_reader_graph.dali", "7_fed_graph.dali"])).read_bytes())
        for _ in range(choice.choice((1, 1, 3))):
            at = choice.randrange(len(data))
            if choice.random() < 0.6:
                data[at] ^= 1 << choice.randrange(8)
            elif choice.random() < 0.5:
                del data[at : at + choice.randrange(1, 9)]
            else:
                data[at:at] = choice.randbytes(choice.randrange(1, 6))
        try:
            asyncdali.Pipeline.deserialize(bytes(data)).serialize(format="dali")
        except RuntimeError:
            continue


def test_other_formats_of_pipelines_are_refused(folder):
    with pytest.raises(ValueError, match="format is 'json'"):
        plain(str(folder)).serialize(format="json")


def test_a_pipeline_for_dali_needs_a_batch_size():
    pipe = asyncdali.Pipeline()
    with pipe:
        pipe.set_outputs(fn.random.uniform())
    with pytest.raises(RuntimeError, match="needs `batch_size`"):
        pipe.serialize(format="dali")


def test_the_command_converts_both_ways(folder, tmp_path):
    program = folder / "train.py"
    program.write_text(EXAMPLES["2_shards_and_epochs.cpt"]["source"] + f"\nimport asyncdali\ndef train(**options):\n"
                       f"    return make(asyncdali, {str(folder)!r}, **options)\n")  # fmt: skip
    source, mine, back = RECORDED / "2_shards_and_epochs.cpt", folder / "mine", folder / "back"
    assert main(["import-checkpoint", f"{program}:train", str(source), str(mine)]) == 0
    assert main(["import-checkpoint", f"{program}:train", str(mine), str(back), "--to-dali"]) == 0
    assert dict(checkpoints.parse(back.read_bytes()).operators) == dict(checkpoints.parse(source.read_bytes()).operators)
    assert main(["import-checkpoint", f"{program}:train", str(program), str(mine)]) == 1
