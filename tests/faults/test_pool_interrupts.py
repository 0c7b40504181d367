"""Interrupts of a consumer that receives from a pool: every batch arrives, and nothing is lost."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.mark.parametrize("how, number", [("places", 1), pytest.param("instants", 30, marks=pytest.mark.slow)])
def test_interrupts(how, number):
    program = [sys.executable, "-m", "tests.faults.interrupted_program", how, str(number)]
    done = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.stdout.split() == ["0", "0"], done.stderr
    print(done.stderr)
