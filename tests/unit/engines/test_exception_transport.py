"""Exceptions keep class, arguments, attributes, notes, causes and members on their way between processes (workers/exceptions.py)."""

from __future__ import annotations

import asyncio
import builtins
import json
import pickle
import struct
import sys
import traceback
import types
import urllib.error
import zlib
from pathlib import PurePath

import numpy as np
import pytest
from asyncdali_workers import WorkerCallbackError
from asyncdali_workers.errors import decode_exception, encode_exception
from asyncdali_workers.exceptions import described, named, rebuilt

from asyncdali import errors
from asyncdali.engines.wire.failures import EngineError, packed, unpacked
from asyncdali.errors import RaisedBefore


class TwoArguments(Exception):
    def __init__(self, one, two):
        super().__init__(f"{one} and {two}")
        self.one, self.two = one, two


class KeywordOnly(Exception):
    def __init__(self, *, code):
        super().__init__(f"code {code}")
        self.code = code


class Slots(ValueError):
    __slots__ = ("code", "unset")

    def __init__(self, code):
        super().__init__()
        self.code = code

    def __str__(self):
        return f"slot {self.code}"


class Refusing(Exception):
    def __new__(cls, *args, **options):
        if not options:
            raise TypeError("only by keyword")
        return super().__new__(cls, *args)

    def __init__(self, **options):
        super().__init__("made by keyword")

    def __reduce__(self):
        raise TypeError("this exception does not pickle")


class Storage(OSError):
    def __init__(self, name):
        super().__init__(28, "no space", name)
        self.bucket = name


class Group(getattr(builtins, "ExceptionGroup", Exception)):
    def derive(self, members):
        return Group(self.message, members)


class Outer:
    class Nested(LookupError):
        pass


class Unshowable(Exception):
    def __str__(self):
        raise RuntimeError("no text")

    __repr__ = __str__


class Lazy(Exception):
    """Its text needs an attribute that is no plain data."""

    def __init__(self, make):
        super().__init__("lazy")
        self.make = make

    def __str__(self):
        return self.make()


def raised(function):
    try:
        function()
    except BaseException as error:
        return error
    raise AssertionError


def sent(error):
    return unpacked(json.loads(json.dumps(packed(error))))


def received(error):
    return decode_exception(encode_exception(error, "sample 3"), "source")


NAMED = [
    TwoArguments("left", "right"), KeywordOnly(code=17), Slots(4), Refusing(text=1), Storage("/full"), Outer.Nested("inner"),
    OSError(2, "gone", "/x", None, "/y"), raised(lambda: open("/nowhere/file")), raised(lambda: b"\xff".decode()), KeyError("a\nb"),
    raised(lambda: json.loads("{")), zlib.error("wrong header"), struct.error("4 bytes"), raised(lambda: struct.unpack("<i", b"")),
    urllib.error.HTTPError("http://x", 503, "busy server", {}, None),
    TimeoutError("slow"),
    ValueError(b"bytes", {"a": np.float32(1)}, (1, [2])), ValueError(), MemoryError("too much"), RecursionError("deep"),
    ImportError("no", name="module", path="/p"), StopIteration(5),
    SyntaxError("odd", ("file", 1, 2, "text")), ValueError("\udcff", float("inf"), 1 << 200, None, PurePath("/a"), np.arange(3).dtype),
    errors.SampleError(3, "text"), asyncio.TimeoutError("slow"), asyncio.IncompleteReadError(b"ab", 3),
]  # fmt: skip


@pytest.mark.parametrize("error", NAMED, ids=lambda error: type(error).__name__)
def test_exceptions_keep_class_arguments_and_attributes(error):
    found, worker = sent(error), received(error)
    assert type(found) is type(error) and str(found) == str(error) and found.args == error.args
    assert isinstance(worker, type(error)) and isinstance(worker, WorkerCallbackError) and str(error) in str(worker)
    assert type(worker.__cause__) is type(error) and str(worker.__cause__) == str(error) and worker.args == error.args
    for name in ("one", "two", "code", "bucket", "errno", "strerror", "filename", "filename2", "encoding", "object", "start", "end",
                 "reason", "pos", "doc", "value", "name", "path", "lineno", "offset", "sample", "partial", "expected"):  # fmt: skip
        if hasattr(error, name):
            assert getattr(found, name) == getattr(worker, name) == getattr(error, name)
    "".join(traceback.format_exception(found) + traceback.format_exception(worker))
    assert isinstance(pickle.loads(pickle.dumps(worker)), WorkerCallbackError)


def test_notes_causes_and_contexts():
    def fail():
        try:
            try:
                int("x")
            except ValueError as inner:
                inner.add_note("a note of the inner one")
                raise TwoArguments(1, 2) from inner
        except TwoArguments:
            raise KeywordOnly(code=1)  # noqa: B904  the context is tested

    error = sent(raised(fail))
    assert type(error) is KeywordOnly and error.__cause__ is None
    middle = error.__context__
    assert type(middle) is TwoArguments and middle.two == 2 and type(middle.__cause__) is ValueError
    assert middle.__cause__.__notes__ == ["a note of the inner one"] and type(middle.__cause__.__cause__) is RaisedBefore
    assert "int(\"x\")" in "".join(traceback.format_exception(error))

    def hide():
        try:
            int("x")
        except ValueError:
            raise KeyError("shown") from None

    assert sent(raised(hide)).__suppress_context__ and "invalid literal" not in str(sent(raised(hide)).__cause__)
    circle = ValueError("a circle")
    circle.__cause__ = KeyError("back")
    circle.__cause__.__cause__ = circle
    assert sent(circle).__cause__.__cause__.args == circle.args


groups = pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 has no groups")


@groups
def test_groups_keep_their_members():
    inner = KeywordOnly(code=3)
    inner.add_note("a note")
    error = Group("several", [ValueError("one"), builtins.ExceptionGroup("more", [inner, OSError(5, "io")])])
    for found in (sent(error), received(error), received(error).__cause__):
        assert isinstance(found, Group)
        matched, rest = found.split(KeywordOnly)
        assert matched.exceptions[0].exceptions[0].code == 3 and matched.exceptions[0].exceptions[0].__notes__ == ["a note"]
        assert rest.exceptions[1].exceptions[0].errno == 5
    mixed = sent(builtins.BaseExceptionGroup("mixed", [KeyboardInterrupt(), KeyError(1)]))
    assert type(mixed) is builtins.ExceptionGroup and [type(item) for item in mixed.exceptions] == [EngineError, KeyError]


def test_a_class_without_a_name_becomes_its_nearest_base():
    class Local(Outer.Nested):
        pass

    for error in (sent(Local("text")), received(Local("text")).__cause__):
        assert isinstance(error, Outer.Nested) and type(error) is not Outer.Nested and "Local: text" in str(error)
    assert isinstance(sent(Local("text")), EngineError) and type(pickle.loads(pickle.dumps(sent(Local("text"))))) is EngineError
    for error in (SystemExit(3), KeyboardInterrupt(), GeneratorExit("odd"), asyncio.CancelledError("odd")):
        found = sent(error)
        assert type(found) is EngineError and type(error).__name__ in str(found)


@pytest.mark.parametrize("error", [Unshowable("x"), Lazy(lambda: "made late"), Group("group", [Unshowable()])])
def test_what_fails_while_an_error_is_shown_is_said(error):
    for found in (sent(error), received(error)):
        assert isinstance(found, type(error)) and any(text in str(found) for text in ("made late", "cannot be shown", "group"))
        "".join(traceback.format_exception(found))


def test_long_values_are_cut():
    error = sent(ValueError("x" * 1_000_000, b"y" * 1_000_000))
    assert type(error) is ValueError or isinstance(error, ValueError)
    assert len(json.dumps(packed(ValueError("\0" * 1_000_000)))) < 300_000
    deep: list = []
    for _ in range(100_000):
        deep = [deep]
    assert isinstance(sent(ValueError(deep)), ValueError)


def test_a_name_imports_nothing_and_runs_nothing(monkeypatch):
    module = types.ModuleType("lazy_module_of_the_test")
    calls = []
    module.__getattr__ = lambda name: calls.append(name) or ValueError
    monkeypatch.setitem(sys.modules, module.__name__, module)
    assert named(module.__name__, "Error") is None and not calls
    for name in ("this.x", "antigravity.x", "os.system", "builtins.eval", "builtins.SystemExit", "."):
        assert named(*name.split(".")) is None
    assert "this" not in sys.modules
    assert named("json.decoder", "JSONDecodeError") is json.JSONDecodeError


def test_the_program_of_an_engine_has_another_module_name(monkeypatch):
    """`asyncdali engine train.py:train` loads a module of another name. The trainer runs, or has imported, the same file."""
    theirs = types.ModuleType("_asyncdali_program_train")
    exec("class BadRecord(Exception): pass", vars(theirs))
    data = json.loads(json.dumps(packed(theirs.BadRecord("text"))))
    imported = types.ModuleType("train")
    exec("class BadRecord(Exception): pass", vars(imported))
    assert type(unpacked(data, False)) is EngineError
    monkeypatch.setitem(sys.modules, "train", imported)
    assert type(unpacked(data, False)) is imported.BadRecord
    monkeypatch.delitem(sys.modules, "train")
    imported.__file__ = "/work/train.py"
    monkeypatch.setitem(sys.modules, "__main__", imported)
    assert type(unpacked(data, False)) is imported.BadRecord
    imported.__file__ = "/work/another.py"
    assert type(unpacked(data, False)) is EngineError


def test_a_spawned_process_has_another_main_module(monkeypatch):
    """Its classes of ``__main__`` are those of the process that started it."""
    main = types.ModuleType("__main__")
    main.__file__ = "/work/program.py"
    exec("class BadRecord(Exception): pass", vars(main))
    data = json.loads(json.dumps(packed(main.BadRecord("text"))))
    data["errors"][0]["program"] = "asyncdali_workers"
    monkeypatch.setitem(sys.modules, "__main__", main)
    assert type(unpacked(data)) is main.BadRecord and type(unpacked(data, False)) is EngineError


def test_damaged_descriptions_are_refused():
    """Every field of another type raises ValueError, or gives an Exception. Nothing else is raised."""
    good = packed(Group("several", [ValueError((1, b"2"), np.float32(3)), Storage("/x"), TwoArguments(1, 2)]))
    others = [None, 3, -1, 10**30, "text", [], {}, [[]], True, 1.5, ["bytes", "!"], ["numpy", []], ["range", [1, 10**30]], ["error", 99]]
    count = 0

    def changed(value):
        yield from others
        if isinstance(value, dict):
            for key in value:
                yield {name: item for name, item in value.items() if name != key}
                for other in changed(value[key]):
                    yield {**value, key: other}
        elif isinstance(value, list):
            for k in range(len(value)):
                for other in changed(value[k]):
                    yield [*value[:k], other, *value[k + 1 :]]

    for data in changed(good):
        count += 1
        try:
            error = unpacked(data)
        except ValueError:
            continue
        assert isinstance(error, Exception)
        str(error), "".join(traceback.format_exception(error))
    assert count > 1000


def test_rebuilding_calls_no_constructor():
    calls = []
    TwoArguments.calls = calls
    original = TwoArguments.__init__
    try:
        data = described(TwoArguments(1, 2))
        TwoArguments.__init__ = lambda self, *args: calls.append(args)
        assert type(rebuilt(data, EngineError)) is TwoArguments and not calls
    finally:
        TwoArguments.__init__ = original


def test_deep_values_of_another_machine_are_refused():
    """Not with a RecursionError, which would end the thread that receives."""
    data = described(ValueError(1))
    value = 1
    for _ in range(300):
        value = ["list", [value]]
    data["errors"][0]["args"] = [value]
    with pytest.raises(ValueError, match="nested too deeply"):
        rebuilt(json.loads(json.dumps(data)), EngineError)
    deepest = [[[[[[[b"x"]]]]]]]
    assert rebuilt(json.loads(json.dumps(described(ValueError(deepest)))), EngineError).args == (deepest,)


def test_attributes_do_not_replace_methods():
    data = described(ValueError(1))
    data["errors"][0]["state"] = {"with_traceback": 1, "add_note": 2, "__reduce_ex__": 3, "args": 4, "own": 5}
    error = rebuilt(data, EngineError)
    assert error.with_traceback(None) is error and error.args == (1,) and error.own == 5
    assert pickle.loads(pickle.dumps(error)).args == (1,)
