"""Runs the tests marked slow in pieces: each piece is a pytest process with a time limit.

    python .ci/pieces.py [--seconds SECONDS] [--limit SECONDS] [--size TESTS] [--part K/N] [PATH...]

A piece runs up to TESTS tests of one file. After `--seconds` no further test of the piece begins; the remaining tests become another
piece. A piece therefore ends between two tests, however long the tests of a file take. A piece that still runs after `--limit` has a test
that does not end: the piece is killed and counts as failed. All pieces together take hours on two cores. `--part 2/5` runs the second of
five shares, so that several machines or nights can run all of them.

The last lines are a summary. The exit status is 1 if a test failed, a piece was killed or did not run its tests, a file could not be
collected, or no test was selected. A skipped test counts as run, but a piece whose tests were all skipped counts as a failure.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as tree
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

PLUGIN = """
import os, time
import pytest

began = time.monotonic()

@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item, nextitem):
    yield
    with open(os.environ["PIECE_RAN"], "a") as file:
        file.write(item.nodeid + "\\n")
    if nextitem is not None and time.monotonic() - began > float(os.environ["PIECE_SECONDS"]):
        item.session.shouldstop = "the time of this piece is over"
"""
"""Loaded by the pytest process of a piece: notes which tests ran, and ends the piece between two tests."""

STOPPED = 2
"""pytest's exit status if a plugin stopped the run."""


@dataclass
class Outcome:
    """The outcome of a piece; `wrong` is the reason of a failure, or ""."""

    name: str
    tests: int
    failed: int = 0
    skipped: int = 0
    seconds: float = 0.0
    wrong: str = ""
    left: list[str] = field(default_factory=list)
    """Tests that the next piece must run."""

    def line(self) -> str:
        return f"{self.seconds:8.1f} s  {self.tests:5} tests  {self.failed:4} failed  {self.skipped:4} skipped  {self.name}  {self.wrong}"


def collected(paths: list[str]) -> list[str]:
    """Node ids of the slow tests; SystemExit if a file cannot be collected."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "slow", "--collect-only", *paths]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode not in (0, 5):  # 5: no tests
        print(done.stdout)
        raise SystemExit(f"collecting ended with status {done.returncode}")
    return [line for line in done.stdout.splitlines() if "::" in line and not line.startswith(("ERROR", "SKIPPED"))]


def pieces(tests: list[str], size: int, part: tuple[int, int] = (1, 1)) -> list[tuple[str, list[str]]]:
    """(name, node ids) of the pieces of one part."""
    first, count = part
    return list(_all_pieces(tests, size))[first - 1 :: count]


def _all_pieces(tests: list[str], size: int) -> Iterator[tuple[str, list[str]]]:
    for file, group in groupby(tests, lambda test: test.partition("::")[0]):
        own = list(group)
        parts = [own[k : k + size] for k in range(0, len(own), size)]
        for k, part in enumerate(parts):
            yield (f"{file} {k + 1}/{len(parts)}" if len(parts) > 1 else file), part


def share(text: str) -> tuple[int, int]:
    """(K, N) of a text K/N with K in 1 to N."""
    first, _, count = text.partition("/")
    if not (first.isdecimal() and count.isdecimal() and 1 <= int(first) <= int(count)):
        raise argparse.ArgumentTypeError(f"a part is K/N with K in 1 to N, for example 2/5, got {text!r}")
    return int(first), int(count)


def run(name: str, tests: list[str], seconds: float, limit: float) -> Outcome:
    """Run one piece. After `seconds` no test begins; after `limit` the whole process group is killed."""
    outcome, began = Outcome(name, len(tests)), time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        report, ran_file = Path(folder, "report.xml"), Path(folder, "ran")
        ran_file.touch()
        Path(folder, "piece_plugin.py").write_text(PLUGIN)
        environment = {
            **os.environ, "PIECE_RAN": str(ran_file), "PIECE_SECONDS": str(seconds),
            "PYTHONPATH": os.pathsep.join(filter(None, [folder, os.environ.get("PYTHONPATH")])),
        }  # fmt: skip
        options = ["-q", "-p", "no:cacheprovider", "-p", "piece_plugin", "-m", "slow", f"--junitxml={report}"]
        process = subprocess.Popen([sys.executable, "-m", "pytest", *options, *tests], start_new_session=True, env=environment)
        try:
            status = process.wait(limit)
        except subprocess.TimeoutExpired:
            outcome.wrong = f"did not end in {limit:.0f} s"
            status = -1
        finally:
            _end(process)
        outcome.seconds = time.monotonic() - began
        if outcome.wrong:
            return outcome
        if not report.exists():
            outcome.wrong = f"ended with status {status} and no report"
            return outcome
        suites = list(tree.parse(report).getroot().iter("testsuite"))
        outcome.skipped = sum(int(suite.get("skipped", "0")) for suite in suites)
        outcome.failed = sum(int(suite.get(key, "0")) for suite in suites for key in ("failures", "errors"))
        done = set(ran_file.read_text().splitlines())
    ran = len(done & set(tests))
    if status == STOPPED and ran:
        outcome.left, outcome.tests, status = [test for test in tests if test not in done], ran, 0
    if outcome.failed or status:
        outcome.wrong = f"failed (status {status})"
    elif ran < outcome.tests:
        outcome.wrong = f"ran {ran} of {len(tests)} tests"
    elif outcome.skipped == ran:
        outcome.wrong = "ran no test: all are skipped"
    return outcome


def _end(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def main(arguments: list[str]) -> int:
    """See the module docstring."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=600.0, help="seconds after which no test of a piece begins")
    parser.add_argument("--limit", type=float, default=7200.0, help="seconds after which a piece is killed")
    parser.add_argument("--size", type=int, default=120, help="most tests of a piece")
    parser.add_argument("--part", type=share, default=(1, 1), metavar="K/N", help="run every Nth piece, beginning with the Kth")
    parser.add_argument("paths", nargs="*", default=["tests"])
    chosen = parser.parse_args(arguments)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores SIGINT, and some tests send it
    found = pieces(collected(chosen.paths), chosen.size, chosen.part)
    outcomes = []
    for name, own in found:
        part, left = name, own
        while left:
            print(f"\n== {part}: {len(left)} tests", flush=True)
            outcomes.append(run(part, left, chosen.seconds, chosen.limit))
            print(outcomes[-1].line(), flush=True)
            part, left = f"{name}, continued", outcomes[-1].left
    wrong = [outcome for outcome in outcomes if outcome.wrong]
    print("\n== summary")
    for outcome in outcomes:
        print(outcome.line())
    print(f"{sum(len(own) for _, own in found)} slow tests in {len(outcomes)} pieces; {len(wrong)} pieces failed")
    return 1 if wrong or not outcomes else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
