"""Who may import whom, and what importing the package costs."""

from __future__ import annotations

import ast
import functools
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
PACKAGE = ROOT / "asyncdali"

LEAVES = {
    "_absent", "_deadlocks",
    "_version", "_notices", "_descriptors", "_files", "_processes", "access", "types", "batch", "errors", "checkpoint", "compiled",
}
"""Units of the house that stand on their own: at most on one another."""

ALLOWED = {
    "batch": {"compiled.addresses", "types", "workers"},
    "checkpoint": {"_files", "errors"},
    "compiled": {"_notices", "_processes", "_version"},
    "types": {"_absent", "workers"},
    "tensors": {"_absent", "batch", "types", "workers"},
    "options": {"types", "_notices"},
    "data_node": {"_absent", "types"},
    "device": {"_files", "batch", "compiled", "errors", "types", "workers", "_notices"},
    "operators": {"access", "batch", "compiled", "device", "errors", "tensors.data", "types", "workers", "_notices"},
    "readers": {
        "_files", "access", "batch", "compiled", "errors", "operators.accepts", "operators.base", "sampling.random_streams",
        "operators.resize.resize", "operators.crop.slice_rules",
        "codecs.audio.resampling", "codecs.audio.audio_formats", "codecs.image_formats",
        "codecs.npy_header_kernels", "codecs.npy_header_tables", "codecs.npy_headers",
        "codecs.video_formats", "codecs.video_padding", "types", "workers", "_notices",
    },
    "graph": {"batch", "data_node", "fn", "errors", "operators", "operators.base", "operators.arrays.constant", "types", "_notices"},
    "sources": {
        "batch", "data_node", "errors", "operators.base", "codecs.video_formats", "codecs.video_padding", "tensors",
        "types", "workers", "_deadlocks", "_descriptors", "_notices",
    },
    "pickling": {"workers"},
    "external_source": {"errors", "operators.base", "data_node", "graph.dali_attributes", "graph.node", "sources", "types"},
    "runtime": {
        "_processes", "access", "batch", "checkpoint", "compiled", "compiled.driver", "data_node", "device", "errors", "graph.node",
        "graph.plan", "operators.base", "sampling.random_streams", "options", "sources", "tensors", "types", "workers",
        "_deadlocks", "_descriptors", "_notices",
    },
    "engines": {
        "_descriptors", "_version", "access", "batch", "compiled.driver", "compiled.addresses", "data_node", "device.buffers", "errors",
        "fn",
        "graph.node", "graph.plan", "operators.base", "options", "runtime", "types", "workers",
    },
    "fleet": {"pipeline", "runtime.parts"},
    "pipeline": {
        "_absent", "_version", "_notices", "access", "checkpoint", "data_node", "engines", "errors",
        "fn", "graph", "operators.base", "options", "runtime",
        "sources", "tensors", "tooling.doctor", "types", "workers",
    },
    "fn": {"external_source", "graph", "operators"},
    "ops": {"_absent", "external_source", "graph", "operators"},
    "tfrecord": {"readers"},
    "math": {"data_node", "graph.arithmetic"},
    "backend": {"_absent", "_notices", "device", "graph.calls", "operators", "plugin_manager", "tensors"},
    "backend_impl": {"backend", "tfrecord", "types"},
    "extending": {"batch", "compiled", "device.launch", "operators"},
    "experimental": {"_absent"},
    "internal": set(),
    "plugin_manager": {"_absent"},
    "python_function_plugin": set(),
    "reducers": {"_absent"},
    "scripts": set(),
    "sysconfig": {"_absent"},
    "auto_aug": {"data_node", "fn", "graph.choices", "graph.rewrite.convert", "types"},
    "tooling": {
        "_processes", "compiled.crew", "compiled.kernel_store", "compiled.step", "errors", "graph.plan", "codecs.jpeg.jpeg_library",
        "pipeline.front", "sources.group", "workers",
    },  # and the public names
    "_extras": set(),
    "plugin": None,
    "__init__": None,
    "__main__": None,
    "demo": None,
}  # fmt: skip
"""Unit -> units or modules it may import, lazily or not; None: anything."""


def modules():
    return [path for path in PACKAGE.rglob("*.py") if "__pycache__" not in path.parts]


def name_of(path):
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts


@functools.cache
def imported(path):
    """Modules of the package that a file imports (as tuples, relative to the package), type-checking blocks left out."""
    return tuple(_imported(path))


def _imported(path):
    own = path.relative_to(PACKAGE).parts[:-1]
    tree = ast.parse(path.read_text())
    skipped = {id(inner) for node in ast.walk(tree) if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
               for statement in node.body for inner in ast.walk(statement)}  # fmt: skip
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            for alias in node.names:
                parts = alias.name.split(".")
                if parts[0] == "asyncdali":
                    yield tuple(parts[1:])
                elif parts[0] in ("workers", "asyncdali_workers"):
                    yield ("workers",)
        elif isinstance(node, ast.ImportFrom):
            parts = tuple((node.module or "").split(".")) if node.module else ()
            if node.level == 0:
                if parts[0] in ("workers", "asyncdali_workers"):
                    yield ("workers",)
                if parts[0] != "asyncdali":
                    continue
                base = parts[1:]
            else:
                base = (*own[: len(own) - node.level + 1], *parts)
            for alias in node.names:
                full = (*base, alias.name)
                is_module = (PACKAGE.joinpath(*full).with_suffix(".py")).exists() or (PACKAGE.joinpath(*full) / "__init__.py").exists()
                yield full if is_module else base


def test_arrows():
    wrong = []
    for path in modules():
        unit = name_of(path)[0]
        allowed = ALLOWED.get(unit, set() if unit in LEAVES else None)
        if allowed is None:
            continue
        for target in imported(path):
            if not target or target[0] == unit:
                continue
            if not any(target[: len(want)] == want for want in (tuple(text.split(".")) for text in allowed)):
                wrong.append(f"{path.relative_to(ROOT)} imports {'.'.join(target)}")
    assert not wrong, "\n".join(sorted(set(wrong)))


def test_every_unit_is_placed():
    units = {name_of(path)[0] for path in modules()}
    assert units <= ALLOWED.keys() | LEAVES, sorted(units - ALLOWED.keys() - LEAVES)


def circles(graph):
    """Strongly connected parts of more than one module: each module of a part imports, in the end, every other one (Tarjan)."""
    number, low, stack, found = {}, {}, [], []

    def visit(name):
        number[name] = low[name] = len(number)
        stack.append(name)
        for other in sorted(graph[name]):
            if other not in number:
                visit(other)
            if other in stack:
                low[name] = min(low[name], low[other])
        if low[name] == number[name]:
            part = stack[stack.index(name) :]
            del stack[stack.index(name) :]
            if len(part) > 1:
                found.append(sorted(part))

    for name in sorted(graph):
        if name not in number:
            visit(name)
    return found


def test_the_search_finds_circles():
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": set()}) == [["a", "b", "c"]]


def test_no_circle_of_more_than_three_modules():
    """Lazy imports count: they hide a circle, they do not open it."""
    names = {".".join(name_of(path)): path for path in modules()}
    graph = {name: {".".join(target) for target in imported(path)} & names.keys() - {name} for name, path in names.items()}
    assert not [circle for circle in circles(graph) if len(circle) > 3]


def test_nothing_imports_the_pipeline():
    for path in modules():
        unit = name_of(path)[0]
        if unit not in ("__init__", "__main__", "demo", "fleet", "plugin", "pipeline"):
            assert ("pipeline",) not in set(imported(path)), path


def test_every_folder_is_packaged():
    text = (ROOT / "pyproject.toml").read_text()
    folders = {".".join(path.parent.relative_to(ROOT).parts) for path in modules()}
    assert not {name for name in folders if f'"{name}"' not in text}


def test_every_folder_says_what_lives_there():
    folders = {path.parent for path in modules()}
    silent = [str(folder.relative_to(ROOT)) for folder in folders if not (folder / "__init__.py").exists()]
    assert not silent, sorted(silent)
    for folder in folders:
        assert ast.get_docstring(ast.parse((folder / "__init__.py").read_text())), folder


def test_workers_import_nothing_of_ours():
    for path in (ROOT / "workers").rglob("*.py"):
        tree = ast.parse(path.read_text())
        for node in ast.walk(tree):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module or ""]
            for name in names:
                first = name.split(".")[0]
                assert first in sys.stdlib_module_names | {"numpy", "cloudpickle", "asyncdali_workers"}, f"{path}: {name}"


def fresh(code, **environment):
    env = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.split()


HEAVY = {"cupy", "cv2", "numba", "llvmlite", "asyncio", "uvloop", "torch", "PIL", "jax", "tensorflow", "cloudpickle", "multiprocessing"}


DEFINE = """
from asyncdali import pipeline_def, fn, ops, types, Pipeline
@pipeline_def(batch_size=1, num_threads=1)
def graph():
    return fn.random.uniform()
graph()
"""


CASES = [("import asyncdali", set()), ("from asyncdali import fn, ops, types", set()), (DEFINE, {"asyncio"})]


@pytest.mark.parametrize("code, allowed", CASES)
def test_importing_brings_in_nothing_heavy(code, allowed):
    """Defining a pipeline needs the names of asyncio (the executor awaits); nothing needs a loop or a kernel before building."""
    loaded = set(fresh(f"{code}\nimport sys, threading\nprint(*sys.modules, threading.active_count())"))
    assert "1" in loaded  # no thread
    assert not (HEAVY - allowed) & loaded, sorted((HEAVY - allowed) & loaded)


@pytest.mark.slow  # measures processor time
def test_importing_is_cheap():
    """The budget is 150 ms beside numpy; processor time on a loaded test machine gets a multiple of it."""
    code = "import numpy, time\nstart = time.process_time()\nimport asyncdali\nfrom asyncdali import fn\nprint(time.process_time() - start)"
    assert min(float(fresh(code)[0]) for _ in range(3)) < 0.6
