"""Rules of the house that no tool checks: how code of one room may know another."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2] / "asyncdali"


def _is_operator_name(node: ast.expr) -> bool:
    """Whether an expression is ``<anything>schema.name``."""
    if not isinstance(node, ast.Attribute) or node.attr != "name":
        return False
    owner = node.value
    return (isinstance(owner, ast.Attribute) and owner.attr == "schema") or (isinstance(owner, ast.Name) and owner.id == "schema")


def name_comparisons(text: str) -> list[int]:
    """Lines that compare an operator's name with a text or a constant, or ask how the name begins or ends."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Compare) and any(_is_operator_name(side) for side in (node.left, *node.comparators)):
            found.append(node.lineno)
        method = node.func if isinstance(node, ast.Call) else None
        if isinstance(method, ast.Attribute) and method.attr in ("startswith", "endswith") and _is_operator_name(method.value):
            found.append(node.lineno)
    return found


GENERATORS = {"graph/calls.py", "graph/reference.py", "operators/extensions.py"}
"""Names of operators are what these work on: a leading underscore keeps an operator out of `fn`, `ops` and the docs, and entry points of
packages have the names of their operators."""


def test_operators_are_told_apart_by_what_they_declare():
    found = {str(path.relative_to(ROOT)): name_comparisons(path.read_text()) for path in ROOT.rglob("*.py")}
    assert {name: lines for name, lines in found.items() if lines and name not in GENERATORS} == {}


def test_the_search_finds_comparisons():
    assert name_comparisons('a.spec.schema.name == "x"') == [1]
    assert name_comparisons('schema.name in KNOWN') == [1]
    assert name_comparisons('schema.name.endswith("x")') == [1]
    assert name_comparisons('schema.role is Role.SPLIT') == []


# --- tests mirror the house


TESTS = Path(__file__).resolve().parents[1]


def test_tests_name_the_errors_that_they_expect():
    """``pytest.raises(Exception)`` would pass for a mistake in the test."""
    forbidden = ("Exception", "BaseException")
    found = []
    for file in sorted(TESTS.rglob("test_*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "raises" and node.args:
                expected = node.args[0]
                if isinstance(expected, ast.Name) and expected.id in forbidden:
                    found.append(f"{file.relative_to(TESTS)}:{node.lineno}")
    assert not found


def test_operator_modules_have_tests_of_their_own():
    """tests/unit/test_<module>.py. The modules whose tests lie elsewhere are listed in operators_without_test_file.txt, which may only
    shrink.
    """
    from asyncdali.operators import load_registry

    modules = {cls.__module__ for cls in load_registry().values() if cls.__module__.startswith("asyncdali.")}
    names = sorted({module.rpartition(".")[2] for module in modules})
    without = [name for name in names if not any((TESTS / "unit" / f"test_{prefix}{name}.py").exists() for prefix in ("", "readers_"))]
    listed = (TESTS / "unit" / "operators_without_test_file.txt").read_text().split()
    assert without == listed
