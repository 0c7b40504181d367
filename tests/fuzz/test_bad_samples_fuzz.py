"""Random damage to data sets of every reader: bad samples are replaced or dropped, and no good sample is lost or changed."""

from __future__ import annotations

import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from helpers.damage import damaged
from helpers.gated import Gate
from helpers.readers import KINDS, pipeline

import asyncdali

BATCH = 3
RUNS = 4


def contents(pipe, runs):
    """Type, rank and bytes of each output of each sample of each iteration; None for an iteration with an error."""
    found = []
    for _ in range(runs):
        try:
            outputs = pipe.run()
        except (RuntimeError, ValueError, TypeError):
            found.append(None)
            continue
        found.append([
            tuple((str(array.dtype), array.ndim, array.tobytes()) for array in (np.asarray(column[k]) for column in outputs))
            for k in range(len(outputs[0]))
        ])  # fmt: skip
    return found


def read(kind, arguments, batch, runs=None, **options):
    """`contents` of a pipeline, of an epoch without `runs`; None if it cannot be built."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            pipe = pipeline(kind, arguments, batch=batch, **options)
        except (RuntimeError, ValueError, TypeError):
            return None
        try:
            return contents(pipe, pipe.epoch_size("R") if runs is None else runs)
        finally:
            pipe.close()


def overtaken(kind, arguments, rule, slow):
    """The samples of an epoch whose batches come as they are finished, and the number of errors; None if the pipeline cannot be built."""
    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patched:
        warnings.simplefilter("ignore")
        pipe = asyncdali.Pipeline(batch_size=BATCH, num_threads=2, device_id=None, seed=42, on_error=rule)
        try:
            with pipe:
                made = asyncdali.fn.experimental.ready(*kind.outputs(asyncdali, {"name": "R", **arguments}), window=2)
                pipe.set_outputs(*(made if isinstance(made, list) else [made]))
            pipe.build()
        except (RuntimeError, ValueError, TypeError):
            return None
        Gate(patched, pipe._core.processes.streams.cores()[0], lambda number: number % slow == 1)
        samples, errors = [], 0
        for _ in range(500):
            try:
                outputs = pipe.run()
            except StopIteration:
                pipe.close()
                return samples, errors
            except (RuntimeError, ValueError, TypeError):
                errors += 1
                continue
            arrays = [[np.asarray(column[k]) for column in outputs] for k in range(len(outputs[0]))]
            samples += [tuple((str(array.dtype), array.ndim, array.tobytes()) for array in sample) for sample in arrays]
    raise AssertionError("the epoch does not end")


def compared(single, rule, found, where):
    """No good sample is lost. After an error those of its iteration are missing."""
    samples, errors = found
    good = Counter(item[0] for item in single if item is not None)
    assert errors == 0 or len(good) < len(single) or any(item is None for item in single), where
    if rule == "drop" and not errors:
        assert Counter(samples) == good, where
    elif not errors:
        assert len(samples) == len(single) and set(samples) <= set(good) and not good - Counter(samples), where


def fuzz(name: str, folder: Path, count: int) -> dict[str, int]:
    kind = KINDS[name]
    rng = np.random.default_rng(11)
    arguments = {**kind.write(folder), **kind.hostile}
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    originals = {path: path.read_bytes() for path in files}
    outcomes = {"refused": 0, "none bad": 0, "repaired": 0, "all bad": 0, "mixed": 0}
    for number in range(count):
        for chosen in rng.choice(len(files), size=min(len(files), int(rng.integers(1, 4))), replace=False):
            path = files[int(chosen)]
            broken = damaged(originals[path], rng)
            path.write_bytes(broken if kind.seal is None else kind.seal(path, originals[path], broken, rng))
        single = read(kind, arguments, 1)
        replaced = read(kind, arguments, BATCH, RUNS, on_error="replace")
        dropped = read(kind, arguments, BATCH, RUNS, on_error="drop")
        assert (single is None) == (replaced is None) == (dropped is None), (name, number)
        outcome = checked(single, replaced, dropped, (name, number))
        outcomes[outcome] += 1
        rule = ("replace", "drop")[number % 2]
        found = overtaken(kind, arguments, rule, 2 + number % 3)
        assert (found is None) == (single is None), (name, number)
        if found is not None and outcome != "mixed":
            compared(single, rule, found, (name, number, rule))
        for path in files:
            path.write_bytes(originals[path])
    return outcomes


def kind_of(sample):
    return [column[:2] for column in sample]


def checked(single, replaced, dropped, where) -> str:
    if single is None:
        return "refused"
    count = len(single)
    good = {item[0] for item in single if item is not None}
    kinds = [kind_of(item[0]) for item in single if item is not None]
    usual = max(kinds, key=kinds.count, default=None)
    if kinds.count(usual) < len(kinds):
        return "mixed"  # samples of another type or rank are bad beside the usual ones, but not alone
    for k, (made, part) in enumerate(zip(replaced, dropped, strict=True)):
        wanted = [single[(k * BATCH + i) % count] for i in range(BATCH)]
        bad = sum(item is None for item in wanted)
        if made is None:
            assert bad, where  # only iterations with bad samples may fail: all samples, or too many in a row, are bad
            continue
        assert len(made) == BATCH, where
        for sample, item in zip(made, wanted, strict=True):
            assert sample in good, where
            assert item is None or sample == item[0], where
        assert part == [item[0] for item in wanted if item is not None], where
    bad = sum(item is None for item in single)
    return "all bad" if bad == count else "repaired" if bad else "none bad"


@pytest.mark.parametrize("name", sorted(KINDS))
def test_damage(name, tmp_path):
    assert sum(fuzz(name, tmp_path, 3).values()) == 3


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(KINDS))
def test_much_damage(name, tmp_path):
    outcomes = fuzz(name, tmp_path, 184)
    print(f"{name}: {sum(outcomes.values())} data sets {outcomes}")
    assert outcomes["repaired"] or name in ("caffe", "caffe2", "webdataset"), outcomes  # such damage is mostly refused in build()
