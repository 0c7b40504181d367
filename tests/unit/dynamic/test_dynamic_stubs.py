"""Type stubs of dynamic mode: every name, two overloads, visible defaults."""

from __future__ import annotations

import ast
import types
from pathlib import Path

import numpy as np

import asyncdali
import asyncdali.dynamic as ndd
from asyncdali.imperative.stubs import stub_files

PACKAGE = Path(asyncdali.__file__).parent
STUBS = stub_files()


def test_stubs_are_up_to_date() -> None:
    stale = [path for path, text in STUBS.items() if not (PACKAGE / path).exists() or (PACKAGE / path).read_text() != text]
    assert not stale, "run python -m asyncdali.graph.reference"


def test_stubs_have_every_public_name() -> None:
    for path, text in STUBS.items():
        module: types.ModuleType = ndd
        for part in path.removesuffix(".pyi").removesuffix("/__init__").split("/")[1:]:
            module = getattr(module, part)
        tree = ast.parse(text)
        named = {getattr(node, "name", None) for node in tree.body} | {
            alias.asname for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names
        } | {node.target.id for node in tree.body if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)}
        assert {name for name in vars(module) if not name.startswith("_")} <= named, path


def test_functions_have_two_overloads_and_defaults() -> None:
    tree = ast.parse(STUBS["dynamic/__init__.pyi"])
    forms = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "flip"]
    assert [ast.unparse(form.returns) for form in forms if form.returns] == ["_Tensor", "_Batch"]
    for form in forms:
        defaults = dict(zip([arg.arg for arg in form.args.kwonlyargs], form.args.kw_defaults, strict=True))
        assert ast.unparse(defaults["horizontal"] or ast.Constant(None)) == "1"
    required = next(node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "cast")
    assert required.args.kw_defaults[[arg.arg for arg in required.args.kwonlyargs].index("dtype")] is None


def test_arguments_that_decide_the_number_of_outputs_decide_the_result() -> None:
    tree = ast.parse(STUBS["dynamic/__init__.pyi"])
    forms = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "resize"]
    results = [ast.unparse(form.returns) for form in forms if form.returns]
    assert results == ["_Tensor", "tuple[_Tensor, ...]", "Any", "_Batch", "tuple[_Batch, ...]", "Any"]
    picture = ndd.tensor(np.zeros((4, 4, 3), np.uint8))
    assert isinstance(ndd.resize(picture, size=[2, 2]), ndd.Tensor)
    assert isinstance(ndd.resize(picture, size=[2, 2], save_attrs=True), tuple)
