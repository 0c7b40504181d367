"""What the site adds to docs/troubleshooting.md: the checks of `asyncdali doctor` and the classes of errors, from their declarations."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from typing import NamedTuple

from asyncdali_workers import errors as worker_errors

from asyncdali import errors
from asyncdali.tooling import doctor_checks


class Trouble(NamedTuple):
    """A check of the doctor."""

    name: str
    finds: str
    says: str
    fix: str


def _template(node: ast.expr) -> str:
    """A text, or an f-string with its values as "...". Other expressions are "..."."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(_template(part) for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _template(node.left) + _template(node.right)
    return "…"


def troubles() -> list[Trouble]:
    """The checks of the doctor, in their order, with the texts of their first finding that is written out."""
    tree = ast.parse(Path(inspect.getsourcefile(doctor_checks) or "").read_text(encoding="utf-8"))
    found = []
    for function in tree.body:
        if not isinstance(function, ast.FunctionDef):
            continue
        made = [node for node in ast.walk(function) if isinstance(node, ast.Call) and ast.unparse(node.func) == "Finding"]
        if not made:
            continue
        texts = [[_template(argument) for argument in call.args[1:3]] for call in made]
        says, fix = max(texts, key=lambda pair: sum(len(text) for text in pair))
        found.append(Trouble(function.name, " ".join((ast.get_docstring(function) or "").split("\n\n")[0].split()), says, fix))
    return found


def classes() -> list[type[BaseException]]:
    """The public classes of errors, bases first."""
    own = [item for item in vars(errors).values() if inspect.isclass(item) and issubclass(item, errors.OperatorError)]
    found = [*own, *(item for item in vars(worker_errors).values() if inspect.isclass(item) and issubclass(item, BaseException))]
    return [item for item in found if not item.__name__.startswith("_")]


def _plain(text: str) -> str:
    """Text of a docstring as Markdown: roles of Sphinx become code."""
    return re.sub(r"(?<!`)\b(__\w+__)", r"`\1`", re.sub(r":\w+:`~?([^`]+)`", r"`\1`", text).replace("``", "`"))


def sections() -> str:
    """The lines that the site adds to docs/troubleshooting.md."""
    lines = ["", "## Checks of the doctor", "", "`Pipeline.build()` runs the quick ones, too. … stands for what was found.", ""]
    for trouble in troubles():
        lines += [f"### {trouble.name.replace('_', ' ')}", "", _plain(trouble.finds), "", f"- It says: {_plain(trouble.says)}"]
        if trouble.fix.strip("… "):
            lines.append(f"- To do: {_plain(trouble.fix)}")
        lines.append("")
    lines += ["## Classes of errors", "", "Catch `OperatorError` for all of them, or the class of the cause: an error about a value"]
    lines += ["is also a `ValueError`, a missing file also a `FileNotFoundError`.", ""]
    for item in classes():
        plain = [base for base in item.__mro__[1:] if base.__module__ == "builtins"]
        bases = [base.__name__ for base in plain if base not in (object, BaseException, Exception)]
        text = inspect.cleandoc(item.__doc__ or "").split("\n\n")
        lines += [f"### {item.__name__}", "", " ".join(_plain(text[0]).split()), ""]
        lines += [f"Also a {', '.join(f'`{base}`' for base in bases)}.", ""] if bases else []
        attributes = next((part for part in text if part.startswith("Attributes:")), "")
        for name, meaning in re.findall(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", attributes, re.M):
            lines.append(f"- `{name}`: {' '.join(_plain(meaning).split())}")
        lines.append("")
    return "\n".join(lines)
