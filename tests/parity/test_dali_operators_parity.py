"""The list in helpers/dali_operators.py names all operators of the installed DALI, and no others."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

import pytest
from helpers.dali_operators import NAMES


def names_in(module: ModuleType, prefix: str = "") -> Iterator[str]:
    """Names of the functions in a module of ``nvidia.dali.fn`` and in its folders."""
    for name, value in vars(module).items():
        if isinstance(value, ModuleType) and value.__name__.startswith("nvidia.dali.fn.") and name not in ("hidden", "_conditional"):
            yield from names_in(value, f"{prefix}{name}.")
        elif callable(value) and not name.startswith("_"):
            yield prefix + name


def test_the_list_has_all_operators():
    assert set(names_in(pytest.importorskip("nvidia.dali.fn"))) == NAMES
