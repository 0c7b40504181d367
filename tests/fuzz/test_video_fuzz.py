"""Hostile videos: mutated files of every container give frames or a clear error, and nothing else.

The frames are the same on every path and in every order of reading.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("av", reason="reading videos needs PyAV")

from helpers.video_kinds import KINDS, made

TESTS = Path(__file__).parents[1]
PART = 100
"""Files of one process."""
LIMIT = 300
"""Seconds for the files of a process."""


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """A short file of each kind."""
    folder = tmp_path_factory.mktemp("corpus")
    for name in KINDS:
        try:
            made(folder, name, count=11)
        except pytest.skip.Exception:
            (folder / name).unlink(missing_ok=True)
    return folder


def fuzz(folder: Path, progress: Path, first: int, count: int) -> dict:
    """The counts and the faults of some seeds. A death of the process is a fault."""
    command = [sys.executable, "-m", "helpers.video_fuzz", str(first), str(count), str(folder), str(progress)]
    try:
        done = subprocess.run(command, check=False, cwd=TESTS, capture_output=True, text=True, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        return {"counts": {"stopped": 1}, "differing": [], "faults": [f"seed {progress.read_text()} did not end in {LIMIT} s"]}
    if done.returncode:
        last = progress.read_text() if progress.exists() else "?"
        fault = f"the process ended with {done.returncode} at seed {last}: {done.stderr[-500:]}"
        return {"counts": {"died": 1}, "differing": [], "faults": [fault]}
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
def test_mutated_videos(corpus, tmp_path):
    """`ASYNCDALI_FUZZ_VIDEOS` is the number of files; `ASYNCDALI_FUZZ_SEED` the first seed."""
    count, first = int(os.environ.get("ASYNCDALI_FUZZ_VIDEOS", "400")), int(os.environ.get("ASYNCDALI_FUZZ_SEED", "0"))
    counts, faults, differing = {}, [], []
    for start in range(first, first + count, PART):
        result = fuzz(corpus, tmp_path / "progress", start, min(PART, first + count - start))
        faults += result["faults"]
        differing += result["differing"]
        for name, number in result["counts"].items():
            counts[name] = counts.get(name, 0) + number
    print(counts, len(faults), "faults", len(differing), "files that depend on the order")
    assert not faults, "\n".join(faults)
    assert not differing, "\n".join(differing)
    assert counts["frames"] > 3 * counts["files"]
