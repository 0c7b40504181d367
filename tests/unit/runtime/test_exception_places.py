"""An exception of the program is the same wherever its callable runs: here, in workers, in engines, in engines of a fleet."""

from __future__ import annotations

import asyncio
import builtins
import json
import struct
import sys
import traceback
import zlib

import numpy as np
import pytest
from helpers.fleets import TOKEN, actors

from asyncdali import fn, pipeline_def
from asyncdali.fleet import loader


class BadRecord(Exception):
    __slots__ = ("where",)

    def __init__(self, *, code, where):
        super().__init__(f"record {code}")
        self.code, self.where = code, where

    def __reduce__(self):
        raise TypeError("does not pickle")


def bad_record():
    try:
        raise KeyError("inner")
    except KeyError as inner:
        error = BadRecord(code=17, where="shard 3")
        if sys.version_info >= (3, 11):
            error.add_note("a note")
        raise error from inner


def several():
    raise builtins.ExceptionGroup("several", [ValueError("one"), BadRecord(code=1, where="a")])


FAILURES = {
    "record": (bad_record, BadRecord),
    "os": (lambda: open("/nowhere/file"), FileNotFoundError),
    "json": (lambda: json.loads("{"), json.JSONDecodeError),
    "unicode": (lambda: b"\xff".decode(), UnicodeDecodeError),
    "struct": (lambda: struct.unpack("<i", b""), struct.error),
    "zlib": (lambda: zlib.decompress(b"x"), zlib.error),
    "timeout": (lambda: (_ for _ in ()).throw(TimeoutError("slow store")), TimeoutError),
    "group": (several, getattr(builtins, "ExceptionGroup", None)),
}
if sys.version_info < (3, 11):
    del FAILURES["group"]


class Source:
    def __init__(self, what=None):
        self.what = what

    def __call__(self, info):
        if info.idx_in_epoch == 3 and self.what is not None:
            FAILURES[self.what][0]()
        return np.int32([info.idx_in_epoch])


class Function:
    def __init__(self, what):
        self.what = what

    def __call__(self, value):
        if value.item() == 3:
            FAILURES[self.what][0]()
        return value


def sources(what, **options):
    @pipeline_def(batch_size=2, num_threads=1, seed=3, prefetch_queue_depth=1)
    def train():
        return fn.copy(fn.external_source(Source(what), batch=False, **options))

    return train


def functions(what):
    @pipeline_def(batch_size=2, num_threads=1, seed=3, prefetch_queue_depth=1)
    def train():
        return fn.python_function(fn.external_source(Source(), batch=False), function=Function(what), num_outputs=1)

    return train


def failure(pipe):
    with pipe:
        pipe.build()
        assert np.ravel(pipe.run()[0].as_array()).tolist() == [0, 1]
        try:
            pipe.run()
        except Exception as error:  # the caller looks at the class
            return error
        raise AssertionError("the iteration did not fail")


def check(error, what):
    """The error, or the cause of an operator's error, is what the callable raised."""
    _, kind = FAILURES[what]
    found = error
    while not isinstance(found, kind):  # an operator's error may have a cause that names the sample
        found = found.__cause__
        assert found is not None, type(error)
    assert "test_exception_places.py" in "".join(traceback.format_exception(error))
    if what == "record":
        assert (found.code, found.where, found.args) == (17, "shard 3", ("record 17",))
        chain, causes = found, []
        while chain is not None:
            causes.append(type(chain))
            chain = chain.__cause__
        assert KeyError in causes and getattr(found, "__notes__", ["a note"]) == ["a note"]
    elif what == "os":
        assert (found.errno, found.filename) == (2, "/nowhere/file")
    elif what == "group":
        assert [type(item) for item in found.exceptions] == [ValueError, BadRecord]


def with_slow_methods(places):
    """All failures in these places, and two of them in new interpreters; the other ones there are slow tests."""
    fresh = {what: () if k in (0, len(FAILURES) - 1) else pytest.mark.slow for k, what in enumerate(FAILURES)}
    return [(place, what) for place in places for what in FAILURES] + [
        pytest.param("spawn", what, marks=marks) for what, marks in fresh.items()
    ]


@pytest.mark.parametrize("place, what", with_slow_methods(["here", "fork"]))
def test_sources(place, what):
    options = {} if place == "here" else {"engines": 1, "engine_start_method": place}
    error = failure(sources(what)(**options))
    assert isinstance(error, FAILURES[what][1])
    check(error, what)


@pytest.mark.parametrize("what", FAILURES)
@pytest.mark.parametrize("batch", [False, True])
def test_coroutines(batch, what):
    """The event loop's futures would replace TimeoutError by another one without a traceback."""

    async def give(position):
        if (position == 1) if batch else (position.idx_in_epoch == 3):
            FAILURES[what][0]()
        return np.int32([[2 * position], [2 * position + 1]]) if batch else np.int32([position.idx_in_epoch])

    @pipeline_def(batch_size=2, num_threads=1, seed=3, prefetch_queue_depth=1)
    def train():
        return fn.external_source(give, batch=batch)

    error = failure(train())
    assert type(error) is FAILURES[what][1]
    check(error, what)


def test_a_coroutine_that_is_cancelled_is_an_error_of_the_source():
    """CancelledError would look to a caller of run_async() as if the caller were cancelled."""

    async def give(info):
        if info.idx_in_epoch == 3:
            raise asyncio.CancelledError("odd")
        return np.int32([info.idx_in_epoch])

    @pipeline_def(batch_size=2, num_threads=1, seed=3, prefetch_queue_depth=1)
    def train():
        return fn.external_source(give, batch=False)

    error = failure(train())
    assert type(error) is RuntimeError and isinstance(error.__cause__, asyncio.CancelledError)
    assert "ended with CancelledError" in str(error)


@pytest.mark.parametrize("method, what", with_slow_methods(["fork"]))
def test_sources_in_workers(method, what):
    error = failure(sources(what, parallel=True)(py_num_workers=1, py_start_method=method))
    assert isinstance(error, FAILURES[what][1])
    check(error, what)


@pytest.mark.parametrize("place, what", with_slow_methods(["here", "fork"]))
def test_functions(place, what):
    options = {} if place == "here" else {"engines": 1, "engine_start_method": place}
    error = failure(functions(what)(**options))
    assert isinstance(error, RuntimeError) and error.operator == "python_function"
    check(error, what)


@pytest.mark.parametrize("far", [False, True])
def test_functions_in_a_fleet(far, monkeypatch):
    if far:
        monkeypatch.setattr("asyncdali.fleet.near.connect", lambda *_: None)
    for what in FAILURES:
        with actors(functions(what), 1) as (actor,), loader(functions(what), engines=[actor.address], token=TOKEN) as batches:
            batches.pipeline.run()
            with pytest.raises(RuntimeError) as caught:
                batches.pipeline.run()
            check(caught.value, what)
