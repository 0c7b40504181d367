"""``asyncdali tune``: the search against an exhaustive one on modelled machines, and the command on real pipelines."""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import random
import textwrap
from types import SimpleNamespace

import pytest

from asyncdali.__main__ import main
from asyncdali.tooling import program, tune
from asyncdali.tooling.tune import Tuning
from asyncdali.tooling.what_if import Demands, Knobs, bounds


class Modelled(Tuning):
    """A search on a machine that is as fast as the model of ``bench --what-if`` says."""

    def __init__(self, need: Demands, cores: int, start: dict, order: list[str]):
        super().__init__(None, argparse.Namespace(engines=2, values={}, pipeline=""), None)
        self.need, self.cores, self.start, self.order = need, cores, start, order
        self._most.update(num_threads=2 * cores, py_num_workers=4 * cores)

    def took(self, settings: dict) -> float:
        knobs = Knobs(*(settings[name] for name in ("num_threads", "prefetch_queue_depth", "py_num_workers", "engines")), 0, self.cores)
        return max(bounds(self.need, knobs).values())

    def _predicted(self, last, best, settings):
        return self.took(best) / self.took(settings)

    def _measure(self, settings):
        settings = {**self.start, **settings}
        return SimpleNamespace(settings=settings, samples=1, seconds=self.took(settings))

    def _order(self, last):
        return self.order

    def _most_threads(self, last):
        return (16 if self.need.waiting > self.need.computing else 2) * self.cores

    def _first_batches(self, settings):
        return ["the same"]

    def best(self) -> float:
        """The shortest time of all settings that the search may reach."""
        ladders = [[k for k in (0, *tune._LADDER) if (name == "engines" or k) and k <= self._most[name]] for name in tune._KNOBS]
        return min(self.took(dict(zip(tune._KNOBS, values))) for values in itertools.product(*ladders))


@pytest.mark.parametrize(("samples", "read"), [(16, 0.008), (12, 0.002), (40, 0.01)])
def test_threads_that_wait_for_storage_are_tried_past_a_step_without_a_gain(samples, read):
    """12 threads read 16 files in two rounds as 8 do; 16 threads need one."""
    need = dataclasses.replace(Demands(*[0.0] * 12, samples=samples, measured=1.0), waiting=samples * read, reading=samples * read)
    need = dataclasses.replace(need, consumer=0.0002, computing=0.001, planning=0.0002, passing=0.0002)
    start = {"num_threads": 2, "prefetch_queue_depth": 2, "py_num_workers": 1, "engines": 0}
    tuning = Modelled(need, 2, start, ["num_threads", "prefetch_queue_depth", "engines", "py_num_workers"])
    found = tuning.search()
    assert tuning.took(found.best) <= 1.05 * tuning.best() and len(found.tried) <= 30, found


def test_the_search_ends_within_5_percent_of_an_exhaustive_one():
    source = random.Random(11)
    for case in range(120):
        times = [source.choice([0.0, source.uniform(0.001, 0.2)]) for _ in range(9)]
        need = Demands(source.uniform(0.001, 0.05), 0.0, 0.0, *times, samples=1, measured=1.0)
        start = {"num_threads": source.choice([1, 2, 8]), "prefetch_queue_depth": source.choice([1, 2, 4]),
                 "py_num_workers": source.choice([1, 4]), "engines": source.choice([0, 1])}  # fmt: skip
        tuning = Modelled(need, source.choice([1, 2, 8, 16]), start, source.sample(tune._KNOBS, 4))
        found = tuning.search()
        assert tuning.took(found.best) <= 1.05 * tuning.best(), (case, need, start, found.best)


PROGRAM = """
import numpy as np
from asyncdali import fn, pipeline_def

@pipeline_def(batch_size=4, num_threads=1, device_id=None, seed=3)
def steady():
    return fn.random.uniform(range=[0.0, 1.0], shape=[8])

@pipeline_def(batch_size=4, num_threads=1, device_id=None)
def unseeded():
    return fn.random.uniform(range=[0.0, 1.0], shape=[8])

@pipeline_def(batch_size=4, num_threads=1, device_id=None, seed=3)
def broken():
    return fn.reshape(fn.random.uniform(), shape=[7])
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(textwrap.dedent(PROGRAM))
    return path


def test_the_command_names_the_settings(file, capsys):
    assert main(["tune", f"{file}:steady", "--iterations", "4", "--engines", "0", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["start"] == {"num_threads": 1, "prefetch_queue_depth": 2, "py_num_workers": 1, "engines": 0}
    assert found["stream_is_compared"]
    assert any(item["settings"]["num_threads"] != 1 for item in found["tried"])
    assert all(item["settings"]["engines"] == 0 for item in found["tried"])


def test_batches_without_a_seed_are_not_compared(file, capsys):
    assert main(["tune", f"{file}:unseeded", "--iterations", "2", "--engines", "0"]) == 0
    assert "the stream was not compared" in capsys.readouterr().out


def test_a_pipeline_that_fails_is_reported(file, capsys):
    assert main(["tune", f"{file}:broken", "--iterations", "2"]) == 1
    assert "the pipeline failed" in capsys.readouterr().err


class Changing(Modelled):
    """A pipeline whose batches depend on the number of threads."""

    def _first_batches(self, settings):
        return [str({**self.start, **settings}["num_threads"])]


def test_settings_that_change_the_batches_are_refused():
    start = {"num_threads": 1, "prefetch_queue_depth": 2, "py_num_workers": 1, "engines": 0}
    need = Demands(*[0.0] * 6, 0.1, *[0.0] * 5, samples=1, measured=1.0)
    found = Changing(need, 8, start, list(tune._KNOBS)).search()
    assert found.best["num_threads"] == 1
    refused = [item for item in found.tried if item.settings["num_threads"] != 1]
    assert refused and all("no function of its position" in item.refused for item in refused)
    assert "asyncdali verify" in tune.text(found)


def test_two_training_steps_are_refused(file, capsys):
    assert main(["tune", f"{file}:steady", "--consumer", "x.py:y", "--consumer-ms", "3"]) == 2
    assert "give one" in capsys.readouterr().err
    with pytest.raises(program.ProgramError):
        program.load(f"{file}:missing", [])
