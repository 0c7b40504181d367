"""Interrupts at any instant: every batch arrives, nothing is lost."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.mark.parametrize("seconds", [1, pytest.param(30, marks=pytest.mark.slow)])
def test_interrupts_at_any_instant(seconds):
    program = [sys.executable, "-m", "tests.faults.interrupted_program", str(seconds)]
    done = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, timeout=60 + seconds, check=False)
    assert done.stdout.split() == ["True", "True", "True", "0", "0"], done.stderr
