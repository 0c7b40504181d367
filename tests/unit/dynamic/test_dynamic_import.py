"""Importing dynamic mode costs nothing; its names come at their first use."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import asyncdali.dynamic as ndd
from asyncdali.imperative.surface import SUBMODULES
from asyncdali.operators import load_registry


def in_new_process(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=True, env=os.environ | {"PYTHONHASHSEED": "0"}
    ).stdout


def test_import_loads_few_modules() -> None:
    code = """
import sys
from pathlib import Path
import asyncdali
before = set(sys.modules)
import asyncdali.{} as ndd
new = sorted(set(sys.modules) - before)
import json
print(json.dumps(new))
"""
    for name in ("dynamic", "experimental.dynamic"):
        new = json.loads(in_new_process(code.format(name)))
        files = [item for item in new if item.rpartition("dynamic.")[2] not in SUBMODULES]
        assert len(files) <= 30, files
        heavy = [item for item in new if item.split(".")[0] in ("numpy", "numba", "llvmlite", "asyncio", "torch")]
        heavy += [item for item in new if item.startswith(("asyncdali.operators", "asyncdali.runtime", "asyncdali.graph"))]
        assert not heavy


def test_submodules_hold_every_operator() -> None:
    """A new group of operators needs an entry in `SUBMODULES`."""
    for path in SUBMODULES:
        module = sys.modules[f"asyncdali.dynamic.{path}"]
        assert module.__doc__ and dir(module), path
    assert ndd.resize.schema is load_registry()["resize"].schema


def test_dir_and_star_import_name_everything() -> None:
    code = """
from asyncdali.dynamic import *
assert callable(resize) and Tensor.__name__ == "Tensor" and bool is not __builtins__.bool
assert readers.File and math.sqrt and random.RNG and checkpoint.Checkpoint and io.file.read and capture.invariant and pytorch
import asyncdali.dynamic as ndd
missing = [name for name in dir(ndd) if not name.startswith("_") and name not in globals()]
assert not missing, missing
print(len(dir(ndd)))
"""
    assert int(in_new_process(code)) > 100
    for name in ("Tensor", "resize", "imread", "math", "readers", "float16", "bool", "EvalMode", "__name__", "__doc__"):
        assert name in dir(ndd)
    assert {"RNG", "uniform", "set_seed"} <= set(dir(ndd.random))


def test_submodules_can_be_imported_first() -> None:
    for name in ("math", "experimental.decoders"):
        code = f"import asyncdali.experimental.dynamic.{name} as a, asyncdali.dynamic.{name} as b; assert a is b; print(len(dir(a)))"
        assert int(in_new_process(code)) > 1


def test_names_can_be_pickled_before_they_are_used() -> None:
    names = ["resize", "imread", "decoders.image", "readers.File", "experimental.decoders.image_crop", "math.sqrt", "random.uniform"]
    names.append("io.file.read")
    write = f"""
import functools, pickle
import asyncdali.dynamic as ndd
made = [functools.reduce(getattr, name.split("."), ndd) for name in {names}]
print(pickle.dumps([*made, ndd.Tensor, ndd.EvalMode.eager, ndd.tensor([1, 2])]).hex())
"""
    data = in_new_process(write).strip()
    read = f"import pickle\nmade = pickle.loads(bytes.fromhex('{data}'))\nprint([getattr(item, '__name__', None) for item in made[:-2]])"
    assert in_new_process(read).strip() == str([name.rpartition(".")[2] for name in names] + ["Tensor"])


def test_two_threads_get_the_same_value() -> None:
    code = """
import threading
import asyncdali.dynamic as ndd
found, barrier = [], threading.Barrier(8)
def look():
    barrier.wait(60)
    found.append((ndd.resize, ndd.readers.File, ndd.random.uniform, ndd.Tensor))
threads = [threading.Thread(target=look) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert len(found) == 8 and all(item == found[0] for item in found)
"""
    in_new_process(code)


def test_the_first_call_of_a_source_file_does_the_work_of_a_later_one(tmp_path: Path) -> None:
    """No call reads the source of the program: DALI takes seconds at the first call of a file with thousands of lines.

    Counted are functions that are entered and files that are opened, for calls with constants, data, batches, draws, and errors.
    """
    body = """
def calls(ndd, picture, pictures, rng):
    size = [5, 4]
    yield lambda: ndd.resize(picture, size=[5, 4])
    yield lambda: ndd.resize(pictures, size=size)
    yield lambda: ndd.crop_mirror_normalize(pictures, mean=[1.0, 2.0, 3.0], mirror=1)
    yield lambda: ndd.random.uniform(range=[0.0, 1.0], batch_size=3, rng=rng)
    yield lambda: ndd.rotate(pictures, angle=ndd.tensor(3.0))
    yield lambda: picture + 1
    yield lambda: ndd.math.sqrt(picture[2:])
    yield lambda: refused(ndd, picture)


def refused(ndd, picture):
    try:
        ndd.crop(picture, crop=(99, 99)).evaluate()
    except RuntimeError:
        return
    raise AssertionError


"""
    filler = "".join(f"def unused_{k}(x):\n    return [x + {k}, 'text {k}', (x, {k}.5)]\n\n\n" for k in range(3000))
    for name in ("known", "fresh"):
        (tmp_path / f"{name}.py").write_text(body + filler)
    found = json.loads(
        in_new_process(f"""
import gc, json, linecache, sys
gc.disable()  # finalizers are functions, too
sys.path.insert(0, {str(tmp_path)!r})
import numpy as np
import asyncdali.dynamic as ndd
from asyncdali.imperative import bricks
bricks._LONG_NS = 1 << 60  # on a busy machine any call may be long, and is shared with threads the next time
import known, fresh
picture = ndd.tensor(np.zeros((8, 9, 3), np.uint8), layout="HWC")
pictures, rng = ndd.batch([np.zeros((8, 9, 3), np.uint8)] * 3, layout="HWC"), ndd.random.RNG(1)
for _ in range(4):
    for call in known.calls(ndd, picture, pictures, rng):
        call()
opened, entered = [], []
sys.addaudithook(lambda event, given: opened.append(str(given[0])) if event == "open" else None)
def work(call):
    del opened[:], entered[:]
    sys.setprofile(lambda frame, event, given: entered.append(frame.f_code.co_name) if event == "call" else None)
    try:
        call()
    finally:
        sys.setprofile(None)
    return list(entered), list(opened)
first = [work(call) for call in fresh.calls(ndd, picture, pictures, rng)]
later = [work(call) for call in fresh.calls(ndd, picture, pictures, rng)]
assert fresh.__file__ not in linecache.cache
print(json.dumps([first, later]))
""")
    )
    first, later = found
    assert len(first) == 8 and all(entered for entered, _ in first)
    assert first == later
    assert not any(opened for _, opened in first)
