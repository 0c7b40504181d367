"""Hostile containers and indices: every reader gives samples or an error, and nothing else."""

from __future__ import annotations

import resource
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
from helpers.damage import damaged
from helpers.readers import KINDS, pipeline

from asyncdali.readers.containers import containers
from asyncdali.readers.containers.containers import WORTH_MAPPING

SLOWEST = 60.0
"""Seconds of processor time that one small broken data set may take, compiling kernels included."""
MEMORY_KB = 512 << 10
"""Memory that all mutations together may add to the process."""


def mutate(name: str, folder: Path, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Mutate files and read them. Half of the cases read mapped files."""
    kind = KINDS[name]
    rng = np.random.default_rng(7)
    arguments = {**kind.write(folder), **kind.hostile}
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    originals = {path: path.read_bytes() for path in files}
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    outcomes = {"read": 0, "refused": 0}
    for number in range(count):
        chosen = files[int(rng.integers(len(files)))]
        broken = damaged(originals[chosen], rng)
        if kind.seal is not None:
            broken = kind.seal(chosen, originals[chosen], broken, rng)
        chosen.write_bytes(broken)
        monkeypatch.setattr(containers, "WORTH_MAPPING", number % 2 * WORTH_MAPPING)
        start = time.process_time()
        outcomes[attempt(kind, arguments)] += 1
        assert time.process_time() - start < SLOWEST, (name, number)
        chosen.write_bytes(originals[chosen])
    assert outcomes["refused"] and outcomes["read"], outcomes
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MEMORY_KB


def attempt(kind, arguments) -> str:
    """Read everything, and continue after errors."""
    refused = False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            pipe = pipeline(kind, arguments, batch=3)
        except (RuntimeError, ValueError, TypeError) as error:
            assert str(error)
            return "refused"
        try:
            for _ in range(4):
                try:
                    for column in pipe.run():
                        for sample in column:
                            np.asarray(sample).sum()
                except (RuntimeError, ValueError, TypeError) as error:
                    assert str(error)
                    refused = True
        finally:
            pipe.close()
    return "refused" if refused else "read"


@pytest.mark.parametrize("name", sorted(KINDS))
def test_damage(name, tmp_path, monkeypatch):
    mutate(name, tmp_path, 80 if name.startswith("caffe") else 40, monkeypatch)  # most bytes of a database are never read


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(KINDS))
def test_much_damage(name, tmp_path, monkeypatch):
    mutate(name, tmp_path, 1500, monkeypatch)
