"""The report of a training process about engines on other machines: statistics, the report, and text for Prometheus."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from helpers.fleets import TOKEN, actors

from asyncdali import fn, pipeline_def
from asyncdali.__main__ import main
from asyncdali.engines.parent import engine_statistics
from asyncdali.fleet import Actor, loader, remote

PROGRAM = """
from asyncdali import fn, pipeline_def

@pipeline_def(batch_size=4, num_threads=1, seed=1)
def train():
    return fn.random.uniform(range=[0, 1], shape=[100]) * 2
"""


@pipeline_def(batch_size=4, num_threads=1, seed=1)
def train():
    numbers = fn.external_source(source=lambda k: np.full((4, 5000), k, np.float32))
    pictures = fn.random.uniform(range=[0, 255], shape=[100, 100, 3])
    return fn.python_function(numbers, function=lambda number: number / 2, name="halves"), fn.resize(pictures, size=[150, 150])


@pytest.fixture(autouse=True)
def answers(monkeypatch):
    """Wait up to 300 s for answers, because engines on a busy machine may need more than a second."""
    monkeypatch.setattr(remote, "ANSWERS", 300.0)
    monkeypatch.setattr(engine_statistics, "ANSWERS", 300.0)


def test_the_time_inside_engines_is_counted():
    options = {"token": TOKEN, "hedge_after": None}  # wait until each engine has computed its iterations
    with actors(train, 2) as found, loader(train, engines=[actor.address for actor in found], **options) as batches:
        before = batches.statistics()
        for _ in range(12):
            batches.pipeline.run()
        after = batches.statistics()
        part = after.since(before)
    assert [item.address for item in after.engines] == [actor.address for actor in found]
    assert sum(item.answered for item in part.engines) >= 12 and sum(item.received_bytes for item in part.engines) > 12 * 4 * 20_000
    for item in after.engines:
        assert item.planning_seconds > 0 and item.allocated_bytes > 0
    assert sum(item.pixels_seconds for item in after.engines) > 0
    assert 0 < after.operator("halves").planning_seconds <= sum(item.planning_seconds for item in after.engines)


def test_the_time_inside_processes_of_an_engine_is_counted():
    """The engine has a process of its own, as with `asyncdali engine --engines 1`."""
    with Actor(train, token=TOKEN, engines=1) as actor, loader(train, engines=[actor.address], token=TOKEN) as batches:
        for _ in range(4):
            batches.pipeline.run()
        found = batches.statistics()
        own = actor.statistics()
    (item,) = found.engines
    assert item.planning_seconds > 0 and item.pixels_seconds > 0 and item.planning_processor_seconds > 0
    assert 0 < found.operator("halves").planning_seconds <= item.planning_seconds
    assert found.operator("halves").samples >= 4 * 4
    assert own["pixels"] >= round(item.pixels_seconds * 1e9) and own["operators"].keys() >= {"halves"} and own["iterations"] >= 4


def test_engines_may_change_between_two_reports():
    with actors(train, 2) as (first, second), loader(train, engines=[first.address], token=TOKEN) as batches:
        batches.pipeline.run()
        before = batches.statistics()
        batches.add_engine(second.address)
        batches.remove_engine(first.address)
        for _ in range(8):
            batches.pipeline.run()
        (item,) = batches.statistics().since(before).engines
        assert item.address == second.address and item.answered > 0


def test_an_engine_that_does_not_answer_is_reported_without_its_own_counters(monkeypatch):
    from asyncdali.fleet.actor import Peer

    received = Peer._received
    monkeypatch.setattr(Peer, "_received", lambda self, header, *rest: None if "statistics" in header else received(self, header, *rest))
    monkeypatch.setattr(remote, "ANSWERS", 0.01)
    with Actor(train, token=TOKEN) as actor, loader(train, engines=[actor.address], token=TOKEN) as batches:
        batches.pipeline.run()
        (item,) = batches.statistics().engines
        assert item.answered >= 1 and item.planning_seconds == 0
        monkeypatch.setattr(remote, "ANSWERS", 1e6)
        assert batches.engines()[0]["answered"] >= 1 and "answered_total" in batches.metrics()  # these reports ask no actor


def test_bench_measures_engines_on_other_machines(tmp_path, capsys):
    program, token, page = tmp_path / "program.py", tmp_path / "token", tmp_path / "report.html"
    program.write_text(PROGRAM)
    token.write_bytes(TOKEN)
    token.chmod(0o600)
    from asyncdali.tooling.program import load

    target = f"{program}:train"
    with Actor(load(target), token=TOKEN) as actor:
        words = ["bench", target, "--iterations", "4", "--engines", actor.address]
        assert main([*words, "--token-file", str(token), "--report", str(page)]) == 0
        assert f"engines={actor.address}" in capsys.readouterr().out
        assert main(words) == 1
        assert "need --token-file" in capsys.readouterr().err
    text = page.read_text()
    table = re.search(r'<table id="engines">.*?</table>', text).group()
    assert actor.address in table
    data = json.loads(re.search(r'id="measurement">(.*?)</script>', text).group(1))
    (engine,) = data["statistics"]["engines"]
    shown = dict(re.findall(r'data-key="statistics.engines.0.(\w+)" data-value="([^"]+)"', table))
    assert set(shown) == {
        "asked", "answered", "late", "hedged", "restarts", "received_bytes", "busy_seconds", "planning_seconds", "pixels_seconds",
    }  # fmt: skip
    assert {name: float(value) for name, value in shown.items()} == {name: engine[name] for name in shown}
    assert engine["answered"] > 0 and engine["planning_seconds"] > 0


def test_a_wrong_address_is_named(tmp_path, capsys):
    program, token = tmp_path / "program.py", tmp_path / "token"
    program.write_text(PROGRAM)
    token.write_bytes(TOKEN)
    token.chmod(0o600)
    assert main(["bench", f"{program}:train", "--engines", "here:70000", "--token-file", str(token)]) == 1
    assert "here:70000" in capsys.readouterr().err


SAMPLE = re.compile(r'[a-z_:][a-z0-9_:]*(\{[a-z]+="[^"]*"(,[a-z]+="[^"]*")*\})? [0-9.e+-]+')


@pytest.mark.parametrize("side", ["trainer", "actor"])
def test_prometheus_can_read_the_metrics(side):
    """Every sample has a description and a type, and names its engine and its rank."""
    with Actor(train, token=TOKEN) as actor, loader(train, rank=1, world_size=2, engines=[actor.address], token=TOKEN) as batches:
        batches.pipeline.run()
        text = batches.metrics() if side == "trainer" else actor.metrics()
    described = dict(re.findall(r"^# TYPE (\S+) (counter|gauge)$", text, re.MULTILINE))
    assert set(described) == set(re.findall(r"^# HELP (\S+) ", text, re.MULTILINE))
    samples = [line for line in text.splitlines() if not line.startswith("#")]
    assert all(SAMPLE.fullmatch(line) for line in samples)
    assert {line.partition("{")[0] for line in samples} == set(described)
    assert all(actor.address in line for line in samples)
    wanted = {"asked", "answered", "bytes", "busy"} | ({"late", "hedged"} if side == "trainer" else set())
    assert all(any(f"_{name}_" in full for full in described) for name in wanted)
    assert all(kind == "gauge" or full.endswith("_total") for full, kind in described.items())
