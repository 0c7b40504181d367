"""mypy's settings for modules with compiled functions: their functions need no annotations, because Numba types them by their arguments.

Such a module is named ``*_kernels``, or has a function with one of the decorators of ``asyncdali.compiled.step``, or one that generates
LLVM IR. mypy's patterns match whole parts of a module's name, so ``*_kernels`` cannot be written in pyproject.toml; this plugin adds one
section for each module that is found. Other settings of mypy stay strict in these modules, and test_house.py checks that all their
functions that Numba does not compile have annotations.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
UNTYPED = {
    f"disallow_{what}": False for what in ("untyped_calls", "untyped_defs", "incomplete_defs", "untyped_decorators")
}

_COMPILED = re.compile(r"^\s*@(step|step_variant|inlined|compiled|contracted|intrinsic)\b|^\s*def \w+\(context, builder, sig", re.MULTILINE)


def is_compiled(path: Path) -> bool:
    """Whether Numba compiles functions of a module."""
    return path.stem.endswith("_kernels") or _COMPILED.search(path.read_text()) is not None


def compiled_modules() -> list[Path]:
    """The modules of asyncdali with compiled functions."""
    return sorted(path for path in (ROOT / "asyncdali").rglob("*.py") if is_compiled(path))


def plugin(version: str) -> type:
    """Called by mypy with its version."""
    from mypy.options import Options
    from mypy.plugin import Plugin

    class Kernels(Plugin):
        """Changes options only."""

        def __init__(self, options: Options) -> None:
            for path in compiled_modules():
                name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
                options.per_module_options.setdefault(name, {}).update(UNTYPED)
            options._per_module_cache = None  # computed from the sections at the next use
            options._glob_options = []
            super().__init__(options)

    return Kernels
