"""examples/elastic_torchrun.py: processes die, and another number of processes continues with the same global batches."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from helpers.places import PROJECT

pytest.importorskip("torch", reason="torch is not installed")

EXAMPLE = PROJECT / "examples" / "elastic_torchrun.py"


def run(folder, *arguments, ranks=0, restarts=0):
    """Run the example and return the lines of stream.txt. With 0 ranks it runs without torchrun."""
    launch = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}", f"--max-restarts={restarts}"] if ranks else []
    command = [sys.executable, *launch, os.fspath(EXAMPLE), "--folder", os.fspath(folder), *map(str, arguments)]
    subprocess.run(command, check=True, timeout=600)
    return (folder / "stream.txt").read_text().splitlines()


@pytest.mark.slow
def test_restarts_under_other_ranks_give_the_same_batches(tmp_path):
    wanted = run(tmp_path / "alone", "--steps", 9)
    assert len(wanted) == 9 and len({line.split()[0] for line in wanted}) == 2  # the last batch of an epoch is smaller
    folder = tmp_path / "elastic"
    assert run(folder, "--steps", 5, "--die-at", 3, ranks=3, restarts=1) == wanted[:5]
    assert run(folder, "--steps", 7, "--engines", 1, ranks=2) == wanted[:7]
    assert run(folder, "--steps", 9, ranks=4) == wanted
