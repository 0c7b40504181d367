"""Random programs of sources, readers, draws and iterators: with engines, results and resumed states are the same as without."""

from __future__ import annotations

import logging
import random
import warnings

import pytest
from helpers import histories


@pytest.fixture(autouse=True)
def silence():
    """Hide expected messages: warnings of sources without a state, and log lines of iterators that are reset in the middle of an epoch."""
    log = logging.getLogger("asyncdali")
    level = log.level
    with warnings.catch_warnings():
        histories.quiet()
        yield
    log.setLevel(level)


def check(numbers, methods=("fork",), parallel=False):
    """Run each history from its start and from a random event, with random numbers of engines. Returns the number of runs."""
    count = 0
    for number in numbers:
        choose = random.Random(~number)
        history = histories.make(number, parallel)
        history.drawn = bool(history.sources) or bool(history.files)
        lived = histories.live(history)
        if lived is None:
            continue
        place = choose.randint(1, len(history.events))
        history.method = choose.choice(methods)
        history.engines = choose.choice([1, 2, 3])
        for start, chain in ((0, place), (place, None)):
            lived.check(start, histories.continued(history, lived.saved[start], lived.asked[start], start, chain))
            history.engines = choose.choice([n for n in (0, 1, 2, 3) if n != history.engines])
        count += 1
    return count


def test_some_programs():
    assert check(range(40_000, 40_008)) > 5


def test_some_programs_with_worker_processes():
    assert check(range(41_000, 41_003), parallel=True) >= 2


@pytest.mark.slow
@pytest.mark.parametrize("part", range(3))
def test_three_hundred_programs(part):
    count = check(range(42_000 + 110 * part, 42_110 + 110 * part))
    print(f"{count} programs")


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_programs_in_fresh_interpreters(part):
    count = check(range(43_000 + 11 * part, 43_011 + 11 * part), methods=("spawn", "forkserver"))
    print(f"{count} programs")
