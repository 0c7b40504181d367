"""Lists the public names of an installed DALI by module. tests/unit/house/test_public_names.py compares them with ours. To record them:

    python tests/helpers/dali_names.py > tests/helpers/dali_names.json

Modules that can be imported are inspected. Modules whose framework is missing are read as text: the definitions at their top level.
"""

from __future__ import annotations

import ast
import importlib
import json
import logging
import sys
import types
import warnings
from pathlib import Path
from typing import Any

ROOT = "nvidia.dali"


def modules() -> list[str]:
    """Dotted names: files below the root, and modules that exist only in memory (operators' submodules)."""
    root = importlib.import_module(ROOT)
    folder = Path(root.__path__[0])
    files = [path.relative_to(folder).with_suffix("").parts for path in folder.rglob("*.py")]
    found = {".".join((ROOT, *(part for part in parts if part != "__init__"))) for parts in files}
    found.update(name for name in sys.modules if name.startswith(ROOT))
    return sorted(name for name in found if not _is_private(name))


def _is_private(name: str) -> bool:
    """Also "hidden", where DALI keeps operators that its documentation omits."""
    return any(part.startswith("_") or part in ("hidden", "test") for part in name.split("."))


def public_names(module: types.ModuleType) -> list[str]:
    """The names of a module: ``__all__``, else names defined here or in another DALI module. Aliases of modules do not count."""
    listed = getattr(module, "__all__", None)
    names = dir(module) if listed is None else listed
    return sorted(name for name in names if not _is_private(name) and _is_own(module, name, getattr(module, name)))


def _is_own(module: types.ModuleType, name: str, value: Any) -> bool:
    if isinstance(value, types.ModuleType):
        return value.__name__ == f"{module.__name__}.{name}"
    home = getattr(value, "__module__", None)
    return not isinstance(home, str) or home.startswith(ROOT) or home == "builtins"


def names_in_text(path: Path, root: str = ROOT) -> list[str]:
    """Functions, classes and assignments at the top level of a file. For a package also names that it imports from DALI."""
    found = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, ast.Assign):
            found.update(item.id for target in node.targets for item in ast.walk(target) if isinstance(item, ast.Name))
        elif isinstance(node, ast.ImportFrom) and path.name == "__init__.py" and (node.level or (node.module or "").startswith(root + ".")):
            found.update(alias.asname or alias.name for alias in node.names)
    return sorted(name for name in found if not _is_private(name))


def record() -> dict[str, list[str]]:
    recorded = {}
    for name in modules():
        try:
            found = public_names(importlib.import_module(name))
        except Exception:
            found = names_in_text(_file(name))
        recorded[name.removeprefix(ROOT).lstrip(".")] = found
    return recorded


def _file(name: str) -> Path:
    base = Path(importlib.import_module(ROOT).__path__[0]).joinpath(*name.split(".")[2:])
    return base / "__init__.py" if base.is_dir() else base.with_suffix(".py")


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    print(json.dumps(record(), indent=1))
