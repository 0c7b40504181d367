"""Operators are imported at their first use; the names of ``fn`` and ``ops`` are all there before."""

from __future__ import annotations

import pickle
import sys
import types

import pytest
from helpers.pipelines import run_script

from asyncdali import fn, ops
from asyncdali.graph.calls import class_path
from asyncdali.operators import load_registry
from asyncdali.operators.modules import OLD_NAMES, OPERATORS
from asyncdali.operators.registry import Registry

_TRAINING = """
import sys
import numpy as np
import asyncdali
assert not any(name.startswith("asyncdali.") and "operators" in name for name in sys.modules)
from asyncdali import fn, pipeline_def
from asyncdali.operators.modules import OPERATORS

@pipeline_def(batch_size=2, num_threads=1, device_id=None)
def graph():
    images = fn.external_source(source=lambda: [np.zeros((4, 4, 3), np.uint8)] * 2, batch=True)
    return fn.crop_mirror_normalize(fn.resize(images, size=[8, 8]), mirror=fn.random.coin_flip())

assert graph().run()[0].as_array().shape == (2, 3, 8, 8)
assert "importlib.metadata" not in sys.modules, "packages with operators were looked for"
loaded = {home for home in OPERATORS.values() if "asyncdali." + home in sys.modules}
print(*sorted(loaded))
"""


def test_a_pipeline_imports_the_operators_that_it_uses():
    """All operators take 0.1 s of a processor. Modules that asyncdali itself uses may be there."""
    done = run_script(_TRAINING)
    assert done.returncode == 0, done.stderr
    loaded = set(done.stdout.split())
    assert {"operators.resize.resize", "operators.crop.crop_mirror_normalize", "operators.random.coin_flip"} <= loaded
    assert not [name for name in loaded if name.startswith(("readers.", "operators.decode", "operators.audio", "operators.warp"))]
    assert len(loaded) < 30, sorted(loaded)


_STAR = """
from asyncdali.fn import *
assert callable(resize) and callable(external_source) and callable(readers.file) and callable(experimental.select)
from asyncdali.ops import *
assert isinstance(Resize, type) and isinstance(readers.File, type) and isinstance(ExternalSource, type)
from asyncdali.fn.decoders import image
import asyncdali.ops.random
assert isinstance(asyncdali.ops.random.Uniform, type)
"""


def test_star_imports_and_submodules():
    done = run_script(_STAR)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("style", [fn, ops], ids=["fn", "ops"])
def test_every_name_is_listed_and_found(style):
    known = load_registry()
    for name in (*OPERATORS, *OLD_NAMES):
        schema = known[OLD_NAMES.get(name, name)].schema
        path, _, last = (name if style is fn else class_path(name)).rpartition(".")
        home = style
        if style is ops and (name.startswith("_") or (schema.hand_written and name != "external_source")):
            continue
        for part in filter(None, path.split(".")):
            home = getattr(home, part)
        assert last in dir(home)
        made = getattr(home, last)
        assert made is getattr(home, last), "made once"
        if name not in OLD_NAMES:
            assert pickle.loads(pickle.dumps(made)) is made
        if not schema.hand_written:
            assert made.schema is schema if style is fn else made._schema is schema


def test_names_that_do_not_exist():
    for module in (fn, ops, fn.readers, ops.readers):
        assert isinstance(module, types.ModuleType)
        for name in ("no_such_operator", "_no_such", "__no_such__"):
            assert not hasattr(module, name)
    assert not hasattr(ops, "Shape") and not hasattr(ops.experimental, "Select"), "these have no class"
    assert not hasattr(fn.readers, "resize") and not hasattr(fn, "file")


class _Declared:
    """A class that looks like an operator."""

    def __init__(self, module):
        self.__module__ = module


def test_the_registry_imports_what_is_looked_up(monkeypatch):
    module = types.ModuleType("asyncdali.made_up")
    registry = Registry({"made": "made_up", "missing": "no_such_module"})
    monkeypatch.setitem(sys.modules, "asyncdali.made_up", module)
    assert list(registry) == ["made", "missing"] and len(registry) == 2 and "made" in registry and "other" not in registry
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        registry["missing"]
    with pytest.raises(KeyError):
        registry["made"]  # the module did not declare it
    assert registry.get("other") is None
    with pytest.raises(ValueError, match=r"operator made is declared twice: asyncdali\.made_up and another\.package"):
        registry["made"] = _Declared("another.package")
    own = registry["made"] = _Declared("asyncdali.made_up")
    assert registry["made"] is own
    registry["made"] = again = _Declared("asyncdali.made_up")  # a module that is imported again
    assert registry["made"] is again
    registry["other"] = _Declared("another.package")
    assert list(registry) == ["made", "missing", "other"]
    with pytest.raises(ValueError, match=r"operator other is declared twice: another\.package and a\.third"):
        registry["other"] = _Declared("a.third")
    del registry["other"]
    assert "other" not in registry
