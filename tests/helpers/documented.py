"""The operators of docs/adding_an_operator.md. Their files are copied from the page, without changes."""

from __future__ import annotations

import contextlib
import importlib.util
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from asyncdali.operators import load_registry

DOCS = Path(__file__).resolve().parents[2] / "docs"
_FILE = re.compile(r"^`([a-z_/]+\.(?:py|cu))`\n\n((?:(?: {4}.*)?\n)+)", re.MULTILINE)
FILES = dict(_FILE.findall((DOCS / "adding_an_operator.md").read_text()))
"""Text of each file on the page, by its path in asyncdali/operators/; of a reader by its path in asyncdali/."""
OWN_FILES = dict(_FILE.findall((DOCS / "own_operators.md").read_text()))
"""Text of each file of docs/own_operators.md, by its path in the package of the page."""


@contextlib.contextmanager
def registered(folder: Path, name: str, class_name: str) -> Iterator[Any]:
    """The class of the operator `name` ("color/solarize", "readers/containers/blocks"), whose files are written to `folder`.

    Its module has the name that it would have in the package, so that its imports work.
    """
    for file in {f"{name}.py", f"{name}.cu"} & FILES.keys():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(textwrap.dedent(FILES[file]))
    module_name = f"asyncdali.{'' if name.startswith('readers/') else 'operators.'}{name.replace('/', '.')}"
    spec = importlib.util.spec_from_file_location(module_name, folder / f"{name}.py")
    assert spec is not None and spec.loader is not None
    registry = load_registry()
    sys.modules[module_name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    cls = getattr(module, class_name)
    try:
        yield cls
    finally:
        del sys.modules[module_name], registry[cls.schema.name]
