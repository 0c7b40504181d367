"""The handshake of fleets notices every change of what a program's functions reach, and names it."""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
import threading
import types

import numpy as np
import pytest
from helpers.fleets import TOKEN, actors

from asyncdali import fn, pipeline_def
from asyncdali.engines.wire.handshake import difference
from asyncdali.engines.wire.reach import UNCHECKED, _Walk
from asyncdali.fleet import loader

BASE = '''
import functools, math, enum, dataclasses, numpy as np
SCALE = 2
TABLE = np.arange(4)
NAMES = {"a": 1, "b": [1, 2]}
CHOICES = {"x", "y", "z"}
class Mode(enum.Enum):
    FAST = 1
@dataclasses.dataclass
class Settings:
    gain: float = 0.5
SETTINGS = Settings()
class Base:
    bias = 3
    def shift(self, x): return x + self.bias
class Augment(Base):
    __slots__ = ("strength",)
    def __init__(self, strength): self.strength = strength; self.more = [1, {"k": 2}]
    def __call__(self, x): return self.shift(x) * self.strength + helper(x)
    @staticmethod
    def still(x): return x - 1
    @property
    def level(self): return 5
def inner(x): return x * SCALE
def helper(x, offset=1, *, power=2): return inner(x) ** power + offset + TABLE[0] + NAMES["a"] + len(CHOICES)
def make(k):
    def closure(x): return x + k
    return closure
def lazy(x):
    return [y + SETTINGS.gain for y in x if Mode.FAST]
def recursive(n): return n and recursive(n - 1)
@functools.lru_cache(8)
def cached(x): return x + 1
def attributed(x): return x
attributed.extra = 4
'''

EXPRESSIONS = {
    "function": "helper", "closure": "make(3)", "object": "Augment(2)", "method": "Augment(2).shift",
    "partial": "functools.partial(helper, offset=5)",
    "lambda": "lambda x: inner(x) + 1", "lazy": "lazy", "recursive": "recursive", "cached": "cached", "attributed": "attributed",
    "static": "Augment.still", "class": "Augment", "several": "[helper, {'a': make(1)}]", "library": "np.clip", "bound": "NAMES.get",
}  # fmt: skip

CHANGES = [
    # (expression, text, its replacement, what the difference names)
    ("function", "SCALE = 2", "SCALE = 3", "SCALE: 2 here, 3 there"),
    ("function", "offset=1", "offset=7", r"offset \(default\): 1 here, 7 there"),
    ("function", "power=2", "power=3", r"power \(default\): 2 here, 3 there"),
    ("function", "return x * SCALE", "return SCALE * x", r"inner\(\): code \w+ here, code \w+ there"),
    ("function", "np.arange(4)", "np.arange(1, 5)", "TABLE"),
    ("function", "np.arange(4)", "np.arange(4.0)", "TABLE"),
    ("function", '"b": [1, 2]', '"b": [1, 3]', "NAMES"),
    ("function", '"z"}', '"w"}', "CHOICES"),
    ("closure", "make(3)", "make(4)", r"k \(closure\): 3 here, 4 there"),
    ("object", "Augment(2)", "Augment(4)", "strength: 2 here, 4 there"),
    ("object", '{"k": 2}', '{"k": 3}', "more"),
    ("object", "bias = 3", "bias = 4", "bias: 3 here, 4 there"),
    ("object", "* self.strength", "/ self.strength", r"__call__\(?\)?: code"),
    ("object", "SCALE = 2", "SCALE = 3", "SCALE: 2 here, 3 there"),
    ("object", "return x - 1", "return x - 2", "still"),
    ("object", "return 5", "return 6", "level"),
    ("method", "x + self.bias", "x - self.bias", "shift"),
    ("partial", "offset=5", "offset=6", "argument offset: 5 here, 6 there"),
    ("partial", "SCALE = 2", "SCALE = 3", "SCALE"),
    ("lambda", "inner(x) + 1", "inner(x) + 2", "code"),
    ("lambda", "SCALE = 2", "SCALE = 3", "SCALE"),
    ("lazy", "gain: float = 0.5", "gain: float = 0.25", "gain"),
    ("lazy", "FAST = 1", "FAST = 2", "FAST"),
    ("recursive", "n - 1", "n - 2", "code"),
    ("cached", "return x + 1", "return x + 4", r"cached\(\): code"),
    ("attributed", "extra = 4", "extra = 5", r"extra \(attribute\): 4 here, 5 there"),
    ("class", "bias = 3", "bias = 4", "bias"),
    ("several", "SCALE = 2", "SCALE = 3", "SCALE"),
    ("several", "make(1)", "make(2)", "k"),
]


def described(source, expression, name="program"):
    module = types.ModuleType(name)
    sys.modules[name], before = module, sys.modules.get(name)
    try:
        exec(compile(source, f"/somewhere/{name}.py", "exec", dont_inherit=True), vars(module))
        walk = _Walk()
        walk.begin("python_function 'f', function", eval(expression, vars(module)))
        return walk.entries
    finally:
        if before is None:
            del sys.modules[name]
        else:
            sys.modules[name] = before


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_the_same_file_is_the_same_under_every_name(name):
    here = described(BASE, EXPRESSIONS[name], "program")
    assert here and here == described("# a comment\n\n" + BASE, EXPRESSIONS[name], "_asyncdali_program_program")
    assert not any(text.startswith(UNCHECKED) for text in here.values()), here


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: f"{change[0]} {change[2]}")
def test_each_change_is_named(change):
    name, old, new, named = change
    expression = EXPRESSIONS[name]
    assert old in BASE or old in expression
    found = difference(
        {"code": described(BASE, expression)}, {"code": described(BASE.replace(old, new), expression.replace(old, new))}
    )
    assert re.search(named, found), found


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_changes_elsewhere_do_not_count(name):
    other = BASE + "\nUNUSED = 3\ndef unused(x): return x\n"
    assert described(BASE, EXPRESSIONS[name]) == described(other, EXPRESSIONS[name])


def test_descriptions_do_not_depend_on_the_process(tmp_path):
    """Hashes of texts differ between processes, and so do the orders of sets."""
    program = tmp_path / "program.py"
    names = tmp_path / "describe.py"
    program.write_text(BASE)
    names.write_text(
        "import sys; sys.path.insert(0, sys.argv[1]); import json, functools\nfrom program import *\n"
        "from asyncdali.engines.wire.reach import _Walk\nimport program\n"
        f"for name, text in {EXPRESSIONS!r}.items():\n"
        "    walk = _Walk(); walk.begin(name, eval(text, vars(program))); print(walk.entries)\n"
    )
    command = [sys.executable, str(names), str(tmp_path)]
    found = {
        subprocess.run(command, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True).stdout
        for seed in ("1", "2", "3")
    }
    assert len(found) == 1 and found.pop().count("code") > 20


def test_numba_functions_and_imports_inside():
    source = "import numba\nK = 2\n@numba.njit\ndef f(x): return x * K\n"
    source += "def g(x):\n    import numpy.linalg\n    return numpy.linalg.norm(x)\n"
    one, two = described(source, "f"), described(source.replace("K = 2", "K = 3"), "f")
    assert "K: 2 here, 3 there" in difference({"code": one}, {"code": two})
    assert described(source, "g") == described(source, "g")


def test_a_module_that_a_function_imports_counts(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    helper = tmp_path / "helper_of_reach.py"
    source = "import helper_of_reach as h\ndef f(x): return h.g(x)\n"
    source += "def late(x):\n    import helper_of_reach\n    return helper_of_reach.g(x)\n"
    found = []
    for number in (1, 2):
        helper.write_text(f"K = {number}\nUNUSED = {number}\ndef g(x): return x + K\n")
        sys.modules.pop("helper_of_reach", None)
        found.append((described(source, "f"), described(source, "late")))
    sys.modules.pop("helper_of_reach", None)
    assert "K: 1 here, 2 there" in difference({"code": found[0][0]}, {"code": found[1][0]})
    assert "UNUSED" not in str(found[0][0])
    assert "import helper_of_reach" in difference({"code": found[0][1]}, {"code": found[1][1]})


@pytest.mark.parametrize("make", [lambda: open(os.devnull), lambda: (_ for _ in ()), lambda: memoryview(b"x"), lambda: sys._getframe()])
def test_what_cannot_be_compared_is_named(make):
    thing = make()
    walk = _Walk()
    walk.begin("f", lambda x: (x, thing))
    (lacking,) = [path for path, text in walk.entries.items() if text.startswith(UNCHECKED)]
    assert lacking == "f: > thing (closure)" or "thing (closure)" in lacking


class Broken:
    def __reduce_ex__(self, protocol):
        raise ValueError("no state")

    def __call__(self, value):
        return value


class Locked:
    """Locks and events decide nothing."""

    def __init__(self):
        self.lock, self.event, self.local = threading.Lock(), threading.Event(), threading.local()

    def __call__(self, value):
        return value


def train_with(function, **more):
    @pipeline_def(batch_size=2, num_threads=1, seed=3)
    def train():
        return fn.python_function(fn.external_source(source=lambda k: np.int32([k, k])), function=function)

    return train


def scaled(value, by=1):
    return value * by


@pytest.mark.parametrize("pair, named", [
    ((functools.partial(scaled, by=2), functools.partial(scaled, by=3)), "argument by: 2 here, 3 there"),
    ((lambda x, k=1: x + k, lambda x, k=2: x + k), r"k \(default\): 1 here, 2 there"),
])  # fmt: skip
def test_a_fleet_refuses_another_program(pair, named):
    with actors(train_with(pair[1]), 1) as (actor,):
        batches = loader(train_with(pair[0]), engines=[actor.address], token=TOKEN)
        with pytest.raises(RuntimeError, match=f"engine {actor.address} cannot be used: its results may differ.*{named}"):
            batches.pipeline.build()
        batches.close()


def test_a_fleet_refuses_what_it_cannot_compare_unless_allowed():
    train = train_with(Broken())
    with actors(train, 1) as (actor,):
        batches = loader(train, engines=[actor.address], token=TOKEN)
        with pytest.raises(TypeError, match=r"cannot be compared.*Broken \(ValueError: no state\).*allow_unchecked=True"):
            batches.pipeline.build()
        batches.close()
        with loader(train, engines=[actor.address], token=TOKEN, allow_unchecked=True) as batches:
            assert len(batches.pipeline.run()[0]) == 2
    with actors(train_with(Locked()), 1) as (actor,), loader(train_with(Locked()), engines=[actor.address], token=TOKEN) as batches:
        assert len(batches.pipeline.run()[0]) == 2


def test_large_programs_are_described_together():
    functions = [eval(f"lambda x: x + {k}") for k in range(600)]
    with actors(train_with(lambda x: functions[0](x)), 1) as (actor,):
        with loader(train_with(lambda x: functions[0](x)), engines=[actor.address], token=TOKEN) as batches:
            assert len(batches.pipeline.run()[0]) == 2
        functions[599] = functions[0]
        changed = loader(train_with(lambda x: functions[0](x)), engines=[actor.address], token=TOKEN)
        with pytest.raises(RuntimeError, match="its functions and values: 601, .* here, 602, .* there"):
            changed.pipeline.build()
        changed.close()


def first(x):
    return x + 1


def second(x):
    return x + 2


def changed(x):
    return x + 3


changed.__name__ = changed.__qualname__ = "second"
LONG = "a key of a table with more than forty characters, number "


@pytest.mark.parametrize("make", [
    lambda *items: {items[0], items[1]}, lambda *items: {LONG + "1": items[0], LONG + "2": items[1]},
    lambda *items: {1: items[0], "1": items[1]}, lambda *items: types.SimpleNamespace(table={1: items[0], "1": items[1]}),
])  # fmt: skip
def test_parts_with_equal_names_have_an_entry_each(make):
    """The last part replaced the entries of the others, so a change of those was not noticed."""

    def entries(*items):
        walk = _Walk()
        walk.begin("value", make(*items))
        return walk.entries

    was = entries(first, second)
    assert was == entries(first, second)
    assert was != entries(first, changed)
    assert was != entries(changed, second) or isinstance(make(first, second), set)
    assert sum(text.startswith("code ") for text in was.values()) == 2
