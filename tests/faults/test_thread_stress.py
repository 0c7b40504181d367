"""Threads that share a pipeline, at switch intervals of 1 to 100 us: no call hangs, and each batch is returned once.

By default a round per kind of pipeline; slow: 20 rounds at each of three switch intervals. A program that hangs shows all its stacks.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.marks import slow
from helpers.warm import run_warm

PROGRAM = (Path(__file__).parent / "thread_stress_program.py").read_text()

KINDS = (
    "plain", "function", "one at a time", "engines", "one engine", "sources in engines", "workers", "sources", "generator", "awaited",
    "fed",
)  # fmt: skip


def stress(rounds, intervals, kinds, timeout):
    done = run_warm(PROGRAM, rounds, 150, intervals, *kinds, timeout=timeout)
    print(done.stderr)
    assert done.stdout == "no hang\n", done.stderr[-8000:]


@pytest.mark.parametrize("interval", ["1e-6", *slow("1e-4")])
def test_a_round_of_every_kind(interval):
    stress(1, interval, KINDS, 600)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_twenty_rounds(kind):
    stress(20, "1e-6,1e-5,1e-4", [kind], 3600)
