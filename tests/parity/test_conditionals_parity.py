"""Conditional execution beside DALI's. Random programs have nested branches, loops, draws, sources and Python functions.

Every output of every program is equal.
"""

from __future__ import annotations

import os

import pytest
from helpers.conditional_programs import Program, library_names, load, picture_files, run
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import asyncdali
import asyncdali.fn
import asyncdali.types

dali = pytest.importorskip("nvidia.dali", reason="DALI is not installed")
import nvidia.dali.fn  # noqa: E402
import nvidia.dali.types  # noqa: E402, F401


def result(library, text, tmp_path, files):
    """The results of a program that uses this library, or "out of bounds" if a crop left the image."""
    try:
        return run(library, load(text, tmp_path / f"in_{library.__name__}.py", library_names(library, files)))
    except RuntimeError as error:  # A repeated crop may leave the image. Then both libraries must refuse it.
        if "out of bounds" not in str(error):
            raise
        return "out of bounds"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The files that readers read."""
    return picture_files(tmp_path_factory.mktemp("pictures"))


def check(seed, tmp_path, depth, files=None):
    """Compare a random program. Returns whether DALI accepted it. With `files` the program reads images from them."""
    text = Program(seed, depth=depth, images=files is not None).text
    ours = result(asyncdali, text, tmp_path, files)
    try:
        theirs = result(dali, text, tmp_path, files)
    except NameError:  # DALI's rewritten code sometimes loses a variable.
        return False
    assert ours == theirs, text
    return True


@settings(max_examples=100, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None)
@given(seed=st.integers(0, 10**6))
def test_random_programs(seed, files, tmp_path_factory):
    """Every third program has images."""
    check(seed, tmp_path_factory.mktemp("program"), 1 if seed % 8 else 2, None if seed % 3 else files)


LOOP = """
def graph():
    x = feed(0)
    y = feed(1)
    q = flag(1)
    z = feed(2)
    l = [y, z]
    for k in range(2):
        z = integer(fn.random.normal(z, stddev=9.0))
        {test}
        {after}
        z = feed(3)
    return {order}
"""
TESTS = {
    "plain": "if boolean(fn.random.coin_flip()):\n            continue",
    "nested": "if q:\n            x = x + 1\n            if boolean(fn.random.coin_flip()):\n                continue\n            y = y",
    "both": "if boolean(fn.random.coin_flip()):\n            x = x + 1\n        else:\n            x = feed(4)\n            continue",
}


ORDERS = ("x, q, y, z, l[0]", "l[0], z, y, q, x")
AFTER = ("q = q", "l[0] = l[0]", "x = x", "x, y = y, x", "q = not q")
CASES = [
    pytest.param(test, after, order, marks=[] if (after, order) in zip(AFTER, ORDERS) else [pytest.mark.slow])
    for test in TESTS for after in AFTER for order in ORDERS
]  # fmt: skip


@pytest.mark.parametrize(("test", "after", "order"), CASES)
def test_seeds_in_loops(test, after, order, tmp_path):
    """DALI merges every variable that is assigned after a `continue`, even one that is assigned to itself. Each merge takes a seed."""
    text = LOOP.format(test=TESTS[test], after=after, order=order)
    assert result(asyncdali, text, tmp_path, None) == result(dali, text, tmp_path, None), text


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_many_random_programs(files, tmp_path, part):
    """The environment variable ASYNCDALI_PROGRAMS gives the number of programs. Two of three programs read images."""
    count = int(os.environ.get("ASYNCDALI_PROGRAMS", "3000")) // 10
    seeds = range(part * count, (part + 1) * count)
    taken = sum(check(10**6 + seed, tmp_path, 3, files if seed % 3 else None) for seed in seeds)
    assert taken >= count * 0.99 - 1
