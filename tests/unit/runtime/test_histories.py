"""Random histories of sources, readers and iterators. A history that is restored at any event continues as without interruption."""

from __future__ import annotations

import logging
import os
import pickle
import random
import subprocess
import sys
import warnings

import pytest
from helpers import histories
from helpers.places import PROJECT, TESTS


@pytest.fixture(autouse=True)
def silence():
    """Hide expected messages: warnings of sources without a state, and log lines of iterators that are reset in the middle of an epoch."""
    log = logging.getLogger("asyncdali")
    level = log.level
    with warnings.catch_warnings():
        histories.quiet()
        yield
    log.setLevel(level)


def check(numbers, parallel=False, places=None):
    """Restore histories before every event, or before some `places`. Returns the numbers of histories and of positions."""
    count = restored = 0
    for number in numbers:
        lived = histories.live(histories.make(number, parallel))
        if lived is None:
            continue
        count += 1
        choose = random.Random(number)
        length = len(lived.history.events)
        chosen = range(length + 1) if places is None else sorted(choose.sample(range(length + 1), places))
        for place in chosen:
            chain = choose.randint(place, length) if choose.random() < 0.3 else None
            lived.check(place, histories.continued(lived.history, lived.saved[place], lived.asked[place], place, chain))
            restored += 1
    return count, restored


def test_a_few_histories():
    count, _ = check(range(15), places=4)
    assert count > 12


def test_some_histories_with_worker_processes():
    count, _ = check(range(10_000, 10_004), parallel=True, places=2)
    assert count > 2


@pytest.mark.slow
def test_every_position_of_histories():
    count, restored = check(range(30_000, 30_250))
    print(f"{count} histories, {restored} positions")


@pytest.mark.slow
@pytest.mark.parametrize("part", range(9))
def test_histories(part):
    """4,500 of the 5,000 histories. The others run with worker processes."""
    count, restored = check(range(500 * part, 500 * part + 500), places=5)
    print(f"{count} histories, {restored} positions")


@pytest.mark.slow
@pytest.mark.parametrize("part", range(5))
def test_histories_with_worker_processes(part):
    """500 of the 5,000 histories."""
    count, restored = check(range(10_000 + 100 * part, 10_100 + 100 * part), parallel=True, places=2)
    print(f"{count} histories, {restored} positions")


def restored_elsewhere(work, folder):
    """The outcomes of histories that are restored in a fresh process."""
    path = folder / "saved"
    path.write_bytes(pickle.dumps(work))
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), str(PROJECT), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-m", "helpers.histories", str(path)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    return pickle.loads((folder / "saved.found").read_bytes())


def elsewhere(numbers, parallel, folder, places):
    lives, work = [], []
    for number in numbers:
        lived = histories.live(histories.make(number, parallel))
        if lived is not None:
            for place in sorted(random.Random(number).sample(range(len(lived.history.events) + 1), places)):
                lives.append((lived, place))
                work.append((lived.history, lived.saved[place], lived.asked[place], place))
    for (lived, place), found in zip(lives, restored_elsewhere(work, folder), strict=True):
        lived.check(place, found)
    return len(work)


def test_some_histories_in_a_fresh_process(tmp_path):
    assert elsewhere(range(20_000, 20_015), False, tmp_path, 2) > 20


@pytest.mark.slow
@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize("part", range(4))
def test_histories_in_fresh_processes(part, parallel, tmp_path):
    first = 20_000 + 1000 * part
    print(elsewhere(range(first, first + (30 if parallel else 150)), parallel, tmp_path, 3), "positions in a fresh process")
