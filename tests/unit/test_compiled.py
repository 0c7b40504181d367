"""Compiled functions where nothing can be cached on disk."""

from __future__ import annotations

import itertools
import os
import warnings
from typing import Any

import pytest
from numba import config
from numba.core.bytecode import FunctionIdentity
from numba.core.caching import CompileResultCacheImpl

from asyncdali.compiled import cache, step


def twice(value):
    return value * 2


def made(number):
    def add(value):
        return value + number

    return add


@pytest.fixture
def nowhere_to_write(monkeypatch):
    """No folder for Numba's cache: read-only packages and home."""
    monkeypatch.setattr(CompileResultCacheImpl, "_locator_classes", [])
    monkeypatch.setattr(cache, "_warned", False)


def test_compiles_without_a_cache_and_says_so_once(nowhere_to_write):
    with pytest.warns(RuntimeWarning, match="NUMBA_CACHE_DIR") as caught:
        assert step.Compiled(twice, 1)(21) == 42
        assert step.Compiled(made(3), 1, ("add", 3))(4) == 7
        assert step.callback(_nothing).address
    assert len(caught) == 1


def _nothing(value):
    pass


def test_a_full_disk_does_not_stop_the_compilation(monkeypatch):
    def full(*_args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(CompileResultCacheImpl, "reduce", lambda *_: full())
    monkeypatch.setattr(cache, "_warned", False)
    with pytest.warns(RuntimeWarning, match="No space left"):
        assert step.Compiled(made(11), 1, ("full disk", 11))(1) == 12


@pytest.mark.parametrize("kind", ["nbi", "nbc"])
@pytest.mark.parametrize("size", [0, 20])
def test_damaged_cache_files_are_replaced(monkeypatch, tmp_path, kind, size):
    """After a crash of the machine, say; Numba raises at every start until someone deletes them."""
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))
    variant = ("damaged", kind, size)
    assert step.Compiled(made(2), 1, variant)(1) == 3
    for path in tmp_path.rglob(f"*.{kind}"):
        os.truncate(path, size)
    assert step.Compiled(made(2), 1, variant)(1) == 3
    assert all(path.stat().st_size > size for path in tmp_path.rglob(f"*.{kind}"))
    again: Any = step.Compiled(made(2), 1, variant)
    assert again(1) == 3
    assert again._keep.cache_hits == 1


def test_symbols_are_unique_over_processes(monkeypatch, tmp_path):
    """Numba numbers functions from 1 in every process; code cached by two processes then called each other's helpers."""
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))
    names = set()
    for variant in (1, 2):  # as if each were the first function of its process
        monkeypatch.setattr(FunctionIdentity, "_unique_ids", itertools.count(1))
        compiled: Any = step.Compiled(made(variant), 1, ("symbols", variant))
        assert compiled(1) == 1 + variant
        names.add(compiled._keep.native_name)
    assert len(names) == 2


def test_two_variants_of_one_function_do_not_meet_in_the_cache():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [step.Compiled(made(k), 1, ("variant", k))(1) for k in (5, 6)] == [6, 7]
