"""Hostile containers and indices: every reader gives samples or an error, and nothing else."""

from __future__ import annotations

import resource
import struct
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
from helpers.readers import KINDS, pipeline

from asyncdali.readers.containers import containers
from asyncdali.readers.containers.containers import WORTH_MAPPING

SLOWEST = 60.0
"""Seconds of processor time that one small broken data set may take, compiling kernels included."""
MEMORY_KB = 512 << 10
"""Memory that all mutations together may add to the process."""
NUMBERS = [0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 60000, 511, 512, 4096]


def damaged(data: bytes, rng: np.random.Generator) -> bytes:
    """`data` with one kind of damage: accidental, or as in an attack."""
    out = bytearray(data or b"\0")
    kind = rng.integers(7)
    if kind == 0:  # one bit anywhere
        out[rng.integers(len(out))] ^= 1 << int(rng.integers(8))
    elif kind == 1:  # some bytes
        for _ in range(int(rng.integers(1, 9))):
            out[rng.integers(len(out))] = int(rng.integers(256))
    elif kind == 2:  # truncation
        del out[int(rng.integers(len(out))) :]
    elif kind == 3 and len(out) > 8:  # a length or an offset
        at = int(rng.integers(len(out) - 8))
        width = "I" if rng.random() < 0.5 else "Q"
        packed = struct.pack(("<" if rng.random() < 0.7 else ">") + width, int(rng.choice(NUMBERS)))
        out[at : at + len(packed)] = packed
    elif kind == 4:  # a digit of a text
        digits = [k for k, byte in enumerate(out[:4096]) if 48 <= byte <= 57]
        if digits:
            out[int(rng.choice(digits))] = int(rng.choice(list(b"0179-x. \n")))
    elif kind == 5:  # a piece taken out, doubled or moved
        a, b = sorted(int(v) for v in rng.integers(0, len(out), 2))
        out = out[:a] + out[b:] if rng.random() < 0.5 else out[:b] + out[a:]
    else:  # a piece of zeros or of text
        at = int(rng.integers(len(out)))
        piece = rng.choice([b"\0" * 16, b"\xff" * 12, b"99999999999999999999", b"{}[]", b"%s%n"])
        out[at : at + len(piece)] = piece
    return bytes(out)


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
    mutate(name, tmp_path, 80, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(KINDS))
def test_much_damage(name, tmp_path, monkeypatch):
    mutate(name, tmp_path, 1500, monkeypatch)
