"""Conditional execution beside DALI: random programs with nested branches, loops, draws, sources, Python functions; every output equal."""

from __future__ import annotations

import os

import pytest
from helpers.conditional_programs import Program, library_names, load, run
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import asyncdali
import asyncdali.fn
import asyncdali.types

dali = pytest.importorskip("nvidia.dali", reason="DALI is not installed")
import nvidia.dali.fn  # noqa: E402
import nvidia.dali.types  # noqa: E402, F401


def result(library, text, tmp_path):
    """What a library returns for a program."""
    return run(library, load(text, tmp_path / f"in_{library.__name__}.py", library_names(library)))


def check(seed, tmp_path, depth):
    """Whether DALI took the program; what it returned must be what we return."""
    text = Program(seed, depth=depth).text
    ours = result(asyncdali, text, tmp_path)
    try:
        theirs = result(dali, text, tmp_path)
    except NameError:  # its rewritten code loses a variable now and then
        return False
    assert ours == theirs, text
    return True


@settings(max_examples=100, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None)
@given(seed=st.integers(0, 10**6))
def test_random_programs(seed, tmp_path_factory):
    check(seed, tmp_path_factory.mktemp("program"), depth=1 if seed % 8 else 2)


@pytest.mark.slow
def test_many_random_programs(tmp_path):
    """ASYNCDALI_PROGRAMS: how many."""
    count = int(os.environ.get("ASYNCDALI_PROGRAMS", "3000"))
    taken = sum(check(10**6 + seed, tmp_path, depth=3) for seed in range(count))
    assert taken >= count * 0.99 - 1
