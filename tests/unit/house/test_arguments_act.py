"""Every argument of every operator is read by the operator's code, or is declared as without effect (`inert`)."""

from __future__ import annotations

import ast
import logging
import re
import sys
import warnings
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from helpers.pipelines import pipeline_of

import asyncdali
from asyncdali import fn
from asyncdali.graph import node
from asyncdali.operators.base import COMMON_ARGUMENTS, REGISTRY

ROOT = Path(asyncdali.__path__[0])
ROOMS = ("operators", "readers", "sources")
ELSEWHERE = {"external_source": ("external_source.py", "sources/external_source.py", "sources/sources.py")}
"""Files that read an operator's arguments without being imported by it."""
DEPTH = 3
READ_ALL_THE_SAME = ("image_type", "skip_cached_images", "fill_value", "additional_decode_surfaces")
"""Arguments without effect whose names occur in modules that their operators import."""


def _pattern(item: ast.AST) -> str | None:
    """``f"center_{axis}"`` and ``name + "_rel"`` as regular expressions. None for an expression that does not build a name."""
    parts = item.values if isinstance(item, ast.JoinedStr) else [item.left, item.right] if isinstance(item, ast.BinOp) else []
    texts = [part.value if isinstance(part, ast.Constant) else None for part in parts]
    fixed = [text for text in texts if isinstance(text, str)]
    if not all(re.fullmatch(r"\w+", text) for text in fixed) or len("".join(fixed).strip("_")) < 2:
        return None
    return "".join(text if isinstance(text, str) else r"\w+" for text in texts)


def _declares(item: ast.AST) -> bool:
    """Whether a statement only declares arguments, or lists arguments of another operator. Such a statement reads no argument."""
    if isinstance(item, ast.Call):
        return getattr(item.func, "id", "") == "Arg"
    if isinstance(item, ast.keyword):
        return item.arg == "deprecated"
    if isinstance(item, ast.Compare):
        return isinstance(item.left, ast.Attribute)
    return isinstance(item, ast.Assign) and getattr(item.targets[0], "id", "") == "_KEPT"


@cache
def asked_for(path: Path) -> tuple[frozenset[str], tuple[str, ...]]:
    """Argument names that occur as strings in a file, and patterns of names that the code builds."""
    tree = ast.parse(path.read_text())
    declared = {id(part) for item in ast.walk(tree) if _declares(item) for part in ast.walk(item)}
    found = [item for item in ast.walk(tree) if id(item) not in declared]
    names = {item.value for item in found if isinstance(item, ast.Constant) and isinstance(item.value, str)}
    return frozenset(names), tuple(filter(None, map(_pattern, found)))


@cache
def imported(path: Path) -> frozenset[Path]:
    """Files of the given rooms that a file imports."""
    package = path.relative_to(ROOT.parent).with_suffix("").parts
    found = set()
    for item in ast.walk(ast.parse(path.read_text())):
        if isinstance(item, ast.ImportFrom) and item.level:
            module = ROOT.parent.joinpath(*package[: len(package) - item.level], *(item.module or "").split("."))
            found |= {module.with_suffix(".py"), *(module / f"{alias.name}.py" for alias in item.names)}
    return frozenset(file for file in found if file.exists() and file.relative_to(ROOT).parts[0] in ROOMS)


def files_of(cls: type) -> set[Path]:
    """The files of an operator's code: the modules of its classes, and their imports."""
    modules = [kind.__module__ for kind in cls.__mro__ if kind.__module__.startswith("asyncdali.")]
    found = {Path(sys.modules[name].__file__) for name in modules if name != "asyncdali.operators.base"}
    found |= {ROOT / name for name in ELSEWHERE.get(cls.schema.name, ())}
    for _ in range(DEPTH):
        found |= {other for path in found for other in imported(path)}
    return found


REGROUPINGS = ROOT / "regrouping" / "calls.py"
"""Functions of the same names as their operators, which read arguments as Python's parameters."""


@cache
def read_by_function(path: Path) -> dict[str, frozenset[str]]:
    """The names that each function of a file reads."""
    return {
        item.name: frozenset(part.id for part in ast.walk(item) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load))
        for item in ast.parse(path.read_text()).body if isinstance(item, ast.FunctionDef)
    }  # fmt: skip


def without_effect(cls: type) -> list[str]:
    """Arguments that an operator's code never reads, and that are not declared as `inert`."""
    found = [asked_for(path) for path in files_of(cls)]
    names = frozenset().union(*(names for names, _ in found))
    if cls.__module__.startswith("asyncdali.regrouping."):
        names |= read_by_function(REGROUPINGS)[cls.schema.name.rpartition(".")[2]]
    patterns = [re.compile(text) for _, some in found for text in some]
    silent = []
    for arg in cls.schema.args:
        told = arg.inert or arg.name in cls.schema.deprecated or arg.name.startswith("_")
        if not told and arg.name not in names and not any(pattern.fullmatch(arg.name) for pattern in patterns):
            silent.append(arg.name)
    return silent


def test_no_argument_is_swallowed():
    public = {name: cls for name, cls in REGISTRY.items() if not name.startswith("_")}
    assert {name: silent for name, cls in public.items() if (silent := without_effect(cls))} == {}


def test_the_search_finds_marked_arguments(monkeypatch):
    """The search would find the marked arguments if they had no mark."""
    marked = {(name, arg.name) for name, cls in REGISTRY.items() for arg in cls.schema.args if arg.inert}
    assert len(marked) > 25
    for arg in [arg for cls in REGISTRY.values() for arg in cls.schema.args]:
        if arg.inert:
            monkeypatch.setitem(arg.__dict__, "inert", False)
    found = {(name, silent) for name, cls in REGISTRY.items() for silent in without_effect(cls)}
    assert found >= {pair for pair in marked if pair[1] not in READ_ALL_THE_SAME}


def test_documentation_names_arguments_without_effect():
    for name, cls in REGISTRY.items():
        for arg in (*cls.schema.args, *COMMON_ARGUMENTS):
            idle = arg.inert or arg.name in cls.schema.deprecated
            assert arg.doc.lower().startswith(("no effect", "deprecated")) >= arg.inert, (name, arg.name)
            assert idle or "no effect" not in arg.doc.lower() or "elsewhere" in arg.doc, (name, arg.name)


def test_an_argument_without_effect_gives_a_notice(monkeypatch):
    monkeypatch.setattr(node, "_noticed", set())
    images = np.zeros((8, 8, 3), np.uint8)

    def graph(hint):
        data = fn.external_source(lambda: [images, images])
        return fn.resize(data, size=4, temp_buffer_hint=hint), fn.resize(data, size=4, temp_buffer_hint=hint)

    with pytest.warns(UserWarning, match="'temp_buffer_hint' of .*resize has no effect. No effect: temporary memory") as told:
        pipeline_of(lambda: graph(100), batch_size=2).run()
    assert sum("temp_buffer_hint" in str(item.message) for item in told) == 1, "one notice"
    assert told[0].filename == __file__
    monkeypatch.setattr(node, "_noticed", set())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pipeline_of(lambda: graph(0), batch_size=2).run()  # the default


@pytest.mark.parametrize("hint", [{"bytes_per_sample_hint": 3 << 20}, {"bytes_per_sample_hint": [3 << 20]}])
def test_hints_make_buffers(hint):
    pipe = pipeline_of(lambda: fn.random.uniform(range=[0, 1], shape=[4], **hint), batch_size=4)
    pipe.build()
    assert pipe.statistics().buffers.free_bytes >= 12 << 20


def test_tensor_init_bytes_makes_a_buffer(tmp_path):
    (tmp_path / "a").write_bytes(b"1234")

    def graph(**arguments):
        return fn.readers.file(files=[str(tmp_path / "a")], **arguments)[0]

    def free_bytes(**arguments):
        pipe = pipeline_of(lambda: graph(**arguments), batch_size=2)
        pipe.build()
        return pipe.statistics().buffers.free_bytes

    assert free_bytes(tensor_init_bytes=4 << 20) >= 8 << 20 > free_bytes()
    with pytest.raises(RuntimeError, match="`tensor_init_bytes` must not be negative"):
        free_bytes(tensor_init_bytes=-1)
    with pytest.raises(RuntimeError, match="tensor_init_bytes=.*bytes are needed"):
        free_bytes(tensor_init_bytes=1 << 50)


def test_hints_are_checked():
    def build(hint):
        pipeline_of(lambda: fn.random.uniform(range=[0, 1], bytes_per_sample_hint=hint), batch_size=4).build()

    with pytest.raises(ValueError, match="`bytes_per_sample_hint` is .1, 2.; expected numbers from 0, one or one for each of 1 outputs"):
        build([1, 2])
    with pytest.raises(MemoryError, match="bytes_per_sample_hint=.*bytes are needed"):
        build(1 << 50)


@pytest.mark.parametrize("quiet", [False, True])
def test_quiet_hides_the_warning_of_random_bbox_crop(quiet, caplog):
    boxes = np.array([[0.4, 0.4, 0.6, 0.6]], np.float32)

    def graph():
        data = fn.external_source(lambda: [boxes, boxes])
        return fn.random_bbox_crop(
            data, thresholds=[1.0], threshold_type="overlap", scaling=[0.05, 0.1], allow_no_crop=False, total_num_attempts=5,
            bbox_layout="xyXY", quiet=quiet, seed=1,
        )[0]  # fmt: skip

    with caplog.at_level(logging.WARNING, "asyncdali"):
        pipe = pipeline_of(graph, batch_size=2)
        for _ in range(3):
            pipe.run()
    told = [record.getMessage() for record in caplog.records if "none of which was good enough" in record.getMessage()]
    assert len(told) == (0 if quiet else 1)


