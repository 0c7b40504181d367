"""Refusals of calls beside DALI's. An ``except`` clause that catches DALI's error also catches ours."""

from __future__ import annotations

import numpy as np
import pytest

import asyncdali
from asyncdali.errors import OperatorError

dali = pytest.importorskip("nvidia.dali")
pytest.importorskip("nvidia.dali.fn")


def samples():
    return [np.zeros(1)] * 2


def samples_of_one():
    return [np.zeros(1)]


def source(*given, **arguments):
    return lambda lib: lib.fn.external_source(*given, **arguments)


def data(found, **arguments):
    def call(lib):
        own = {name: getattr(lib.types, value) if name == "dtype" else value for name, value in arguments.items()}
        return lib.fn.external_source(lambda: found, **own)

    return call


def reader(kind, **arguments):
    return lambda lib: getattr(lib.fn.readers, kind)(**arguments)


CALLS = {
    "no source": source(3),
    "cycle": source([1, 2], cycle="maybe"),
    "cycle of a callable": source(samples, cycle=True),
    "num_outputs is no number": source(samples, num_outputs="a"),
    "layouts without num_outputs": source(samples, layout=["HWC", "HW"]),
    "too many layouts": source(samples, num_outputs=2, layout=["HWC"] * 3),
    "dtype": source(samples, dtype="x"),
    "ndim": source(samples, ndim=-1),
    "samples of a parallel iterable": source([1], parallel=True, batch=False),
    "a callable of two arguments": source(lambda a, b: 1),
    "prefetch_queue_depth": source(samples, prefetch_queue_depth=2),
    "device": source(samples, device="tpu"),
    "an unknown argument": source(samples, foo=1),
    "repeat_last": source(samples, repeat_last=True),
    "data: three samples of two": data([np.zeros(1)] * 3),
    "data: text": data(["a", "b"]),
    "data: ranks": data([np.zeros(1), np.zeros((1, 1))]),
    "data: types": data([np.zeros(1, np.int8), np.zeros(1)]),
    "data: another type": data(samples(), dtype="INT32"),
    "data: another rank": data(samples(), ndim=3),
    "data: another layout": data(samples(), layout="HWC"),
    "data: None": data(None),
    "data: a number": data(5),
    "data: objects": data([object()] * 2),
    "data: a dictionary": data({"a": 1}),
    "data: too few outputs": data((samples(),), num_outputs=2),
    "data: outputs that are none": data(5, num_outputs=2),
    "data: batches of two sizes": lambda lib: [lib.fn.external_source(made) for made in (samples, samples_of_one)],
    "nothing was fed": source(name="x"),
    "expression: a number beyond 64 bits": lambda lib: lib.fn.external_source(samples) + 2**70,
    "expression: 40 indices": lambda lib: lib.fn.external_source(samples)[(0,) * 40],
    "expression: text": lambda lib: lib.fn.external_source(samples) + "a",
    "expression: text as an index": lambda lib: lib.fn.external_source(samples)["a"],
    "expression: no node": lambda lib: lib.math.sqrt(3),
    "output: an object": lambda lib: object(),
    "ops: an argument twice": lambda lib: lib.ops.Cast(dtype=lib.types.FLOAT)(lib.fn.external_source(samples), dtype=lib.types.FLOAT),
    "file: nothing": reader("file"),
    "file: root": reader("file", file_root=3),
    "file: shard": reader("file", file_root="/tmp", shard_id=5, num_shards=2),
    "file: no directory": reader("file", file_root="/nonexistent"),
    "file: two ways to shuffle": reader("file", file_root="/tmp", random_shuffle=True, shuffle_after_epoch=True),
    "coco: no annotations": reader("coco", file_root="/tmp"),
    "numpy: nothing": reader("numpy"),
    "webdataset: no file": reader("webdataset", paths="/nonexistent", ext="a"),
    "mxnet: no file": reader("mxnet", path=["/nonexistent"], index_path=["/nonexistent"]),
    "nemo_asr: no file": reader("nemo_asr", manifest_filepaths=["/nonexistent"]),
    "image_type: a list": lambda lib: lib.fn.readers.sequence(file_root="/tmp", sequence_length=1, image_type=[1, 2]),
    "image_type: a class": lambda lib: lib.fn.decoders.image(lib.fn.external_source(samples), output_type=int),
    "interp_type: a dictionary": lambda lib: lib.fn.resize(lib.fn.external_source(samples), size=[3.0], interp_type={"a": 1}),
    "interp_type: a negative number": lambda lib: lib.fn.resize(lib.fn.external_source(samples), size=[3.0], interp_type=-1),
    "dtype: a number beyond 32 bits": lambda lib: lib.fn.cast(lib.fn.external_source(samples), dtype=10**12),
    "sequence: length": reader("sequence", file_root="/tmp", sequence_length=0),
}


REFUSALS = (RuntimeError, ValueError, TypeError, LookupError, AttributeError)


def refusal(lib, call, **options):
    with pytest.raises(REFUSALS) as error:
        pipe = lib.Pipeline(batch_size=2, num_threads=1, **options)
        with pipe:
            made = call(lib)
            pipe.set_outputs(*(made if isinstance(made, (list, tuple)) else [made]))
        pipe.build()
        pipe.run()
    return error.value


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CALLS)
def test_kinds_of_refusals(name):
    theirs, ours = refusal(dali, CALLS[name], device_id=None), refusal(asyncdali, CALLS[name])
    kind = next(kind for kind in type(theirs).__mro__ if kind.__module__ == "builtins")
    assert isinstance(ours, kind), f"{kind.__name__}: {theirs}\n{type(ours).__mro__}: {ours}"
    assert isinstance(ours, RuntimeError)


def test_fields():
    for name, argument in (("cycle", "cycle"), ("no source", "source"), ("dtype", "dtype"), ("repeat_last", "repeat_last")):
        error = refusal(asyncdali, CALLS[name])
        assert isinstance(error, OperatorError) and (error.operator, error.argument) == ("external_source", argument)


FED = {
    "another input": lambda pipe: pipe.feed_input("other", samples()),
    "no name": lambda pipe: pipe.feed_input(3, samples()),
    "text": lambda pipe: pipe.feed_input("x", "text"),
    "objects": lambda pipe: pipe.feed_input("x", [object()] * 2),
    "too many": lambda pipe: pipe.feed_input("x", [np.zeros(1)] * 9),
    "layout": lambda pipe: pipe.feed_input("x", samples(), layout="HWC"),
    "run with another input": lambda pipe: pipe.run(other=samples()),
    "count of another input": lambda pipe: pipe.input_feed_count("other"),
}


@pytest.mark.parametrize("name", FED)
def test_kinds_of_refusals_of_fed_data(name):
    found = []
    for lib in (dali, asyncdali):
        pipe = lib.Pipeline(batch_size=2, num_threads=1, device_id=None, prefetch_queue_depth=1)
        with pipe:
            pipe.set_outputs(lib.fn.external_source(name="x"))
        pipe.build()
        with pytest.raises(REFUSALS) as error:
            FED[name](pipe)
        found.append(error.value)
    theirs, ours = found
    kind = next(kind for kind in type(theirs).__mro__ if kind.__module__ == "builtins")
    assert isinstance(ours, kind) and isinstance(ours, OperatorError), f"{kind.__name__}: {theirs}\n{type(ours).__mro__}: {ours}"
