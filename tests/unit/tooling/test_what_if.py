"""The model of ``asyncdali bench --what-if``: its bounds, against a simulation, and against the formulas of the page."""

from __future__ import annotations

import dataclasses
import json
import random
import shutil
import subprocess

import pytest

from asyncdali.tooling import bench_report, what_if
from asyncdali.tooling.what_if import Demands, Knobs, bounds, limit, seconds

NONE = Demands(*[0.0] * 12, samples=8, measured=1.0)
ONE = Knobs(threads=1, depth=2, workers=0, engines=0, fetch=0, cores=2)


def need(**values) -> Demands:
    return dataclasses.replace(NONE, **values)


def drawn(source: random.Random) -> tuple[Demands, Knobs, Knobs]:
    fields = {field.name: source.choice([0.0, source.uniform(1e-4, 0.1)]) for field in dataclasses.fields(Demands)}
    fields["measured"] = source.uniform(1e-3, 0.2)
    fields["consumer"] = source.uniform(1e-4, 0.01)

    def knobs() -> Knobs:
        return Knobs(source.randint(1, 16), source.randint(1, 8), source.randint(0, 8), source.randint(0, 3), source.randint(0, 8),
                     source.uniform(0.5, 32), source.choice([0.5, 1.0, 2.0]))  # fmt: skip

    return Demands(**fields), knobs(), knobs()


@pytest.mark.parametrize(
    ("what", "knobs", "expected", "name"),
    [
        (need(computing=0.1), ONE, 0.1, "threads"),
        (need(computing=0.1), dataclasses.replace(ONE, threads=4), 0.05, "cores"),
        (need(computing=0.1, slowest=0.08), dataclasses.replace(ONE, threads=4, depth=1, cores=8), 0.08, "queue"),
        (need(waiting=0.4), dataclasses.replace(ONE, threads=4), 0.1, "threads"),
        (need(waiting=0.4), dataclasses.replace(ONE, threads=4, storage=2.0), 0.05, "threads"),
        (need(waiting=0.4, reading=0.4), dataclasses.replace(ONE, threads=3), 0.1, "threads"),
        (need(waiting=0.4, reading=0.4), dataclasses.replace(ONE, threads=4), 0.1, "storage"),  # 5 files, then 3
        (need(waiting=0.4, reading=0.4), dataclasses.replace(ONE, threads=7), 0.05, "threads"),
        (need(waiting=0.4, reading=0.4), dataclasses.replace(ONE, threads=4, storage=2.0), 0.05, "storage"),
        (need(waiting=0.4, reading=0.2, planning=0.03), dataclasses.replace(ONE, threads=7, engines=2), 0.0275, "storage"),
        (need(consumer=0.05, computing=0.03), dataclasses.replace(ONE, depth=1), 0.08, "queue"),
        (need(consumer=0.05, computing=0.03), ONE, 0.05, "consumer"),
        (need(workers=0.4), dataclasses.replace(ONE, workers=4), 0.1, "workers"),
        (need(awaited=0.4), dataclasses.replace(ONE, fetch=8), 0.05, "source"),
        (need(planning=0.06, passing=0.06), dataclasses.replace(ONE, engines=2), 0.03, "planning"),
        (need(interpreter=0.06, planning_interpreter=0.05), dataclasses.replace(ONE, engines=1), 0.01, "interpreter"),
    ],
)
def test_the_slowest_station_limits(what, knobs, expected, name):
    assert max(bounds(what, knobs).values()) == pytest.approx(expected)
    assert limit(what, knobs) == name


def test_more_of_anything_is_never_predicted_to_be_slower():
    source = random.Random(5)
    for _ in range(300):
        what, now, then = drawn(source)
        for name in ("threads", "depth", "workers", "cores", "storage", "fetch"):
            more = dataclasses.replace(then, **{name: getattr(then, name) + 1})
            assert seconds(what, now, more) <= seconds(what, now, then) + 1e-12, (name, what, then)


def test_the_measured_settings_give_the_measured_rate():
    source = random.Random(6)
    for _ in range(300):
        what, now, _ = drawn(source)
        assert seconds(what, now, now) == pytest.approx(what.measured)


def simulated(what: Demands, knobs: Knobs, batches: int = 400) -> float:
    """Seconds per batch of a consumer, a planner and threads, event by event: the part of the model that a queue couples."""
    consumer = planner = pixels = 0.0
    done: list[float] = []
    taken: list[float] = []
    for k in range(batches):
        asked = 0.0 if k < knobs.depth else taken[k - knobs.depth]
        planner = max(planner, asked) + what.planning
        pixels = max(pixels, planner) + what.computing / knobs.threads
        done.append(pixels)
        consumer = max(consumer, done[k]) + what.consumer
        taken.append(consumer)
    return (taken[-1] - taken[batches // 2]) / (batches - 1 - batches // 2)


def test_the_bounds_are_those_of_a_simulated_queue():
    source = random.Random(7)
    for _ in range(300):
        planning, computing, consumer = (source.uniform(0.001, 0.1) for _ in range(3))
        what = need(planning=planning, passing=planning, computing=computing, consumer=consumer)
        knobs = Knobs(source.randint(1, 4), source.randint(1, 8), 0, 0, 0, cores=100)
        assert max(bounds(what, knobs).values()) == pytest.approx(simulated(what, knobs), rel=0.02)


@pytest.mark.parametrize(("threads", "rate"), [(1, 240), (2, 325), (4, 485), (8, 949)])
def test_slow_storage(threads, rate):
    """16 files of 8.2 ms in a batch. With 2 and 4 threads these rates were measured; once 651 was predicted for 4."""
    what = need(waiting=0.1312, reading=0.1312, planning=0.0007, passing=0.0007, consumer=0.001, computing=0.001, samples=16.0)
    what = dataclasses.replace(what, measured=16 / 325)
    now = dataclasses.replace(ONE, threads=2)
    assert 16 / seconds(what, now, dataclasses.replace(now, threads=threads)) == pytest.approx(rate, rel=0.02)


def test_rounds_of_reads_are_those_of_a_simulation():
    """Reads of one batch after those of another; the thread that plans takes part. Each file goes to the first thread that is free."""
    source = random.Random(9)
    for _ in range(300):
        samples, threads, read = source.randint(1, 40), source.randint(1, 8), source.uniform(0.001, 0.02)
        planning, consumer = source.uniform(0.0, 0.002), source.uniform(0.0, 0.001)
        free, clock = [0.0] * (threads + 1), 0.0
        for batch in range(20):
            free = [max(time, clock) for time in free]
            for _file in range(samples):
                first = free.index(min(free))
                free[first] += read
            clock = max(free) + planning
            if batch == 9:
                half = clock
        what = need(waiting=samples * read, reading=samples * read, planning=planning, passing=planning, consumer=consumer, samples=samples)
        knobs = dataclasses.replace(ONE, threads=threads, depth=2, cores=100)
        assert max(bounds(what, knobs).values()) == pytest.approx((clock - half) / 10, rel=1e-6)


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_the_page_has_the_same_formulas():
    source = random.Random(8)
    cases = [drawn(source) for _ in range(200)]
    given = json.dumps([[dataclasses.asdict(item) for item in case] for case in cases])
    call = "([need, now, then]) => [predict(need, now, then), slowest(need, then)[0]]"
    program = f"{bench_report._PREDICT}\nconsole.log(JSON.stringify({given}.map({call})))"
    done = subprocess.run(["node", "-"], input=program, capture_output=True, text=True, timeout=60, check=True)
    found = json.loads(done.stdout)
    for (what, now, then), (took, name) in zip(cases, found, strict=True):
        assert took == pytest.approx(seconds(what, now, then))
        assert name == limit(what, then)


def test_a_setting_with_a_gain_below_3_percent_is_not_advised():
    machine = what_if.Forecast("processors", 4, 200.0, 2.0, "cores", False)
    rows = [machine, what_if.Forecast("num_threads", 4, 102.0, 1.02, "cores", True)]
    assert what_if.WhatIf(NONE, ONE, rows).first is None
    better = what_if.Forecast("prefetch_queue_depth", 4, 150.0, 1.5, "threads", True)
    assert what_if.WhatIf(NONE, ONE, [*rows, better]).first is better


def test_predictions_for_people_are_settings_or_words():
    """Processors are no argument, and `num_threads=1` is no change."""
    needed = dataclasses.replace(NONE, called=0.05, computing=0.1, waiting=0.1, awaited=0.01, samples=8.0, measured=0.3)
    asked = what_if.WhatIf(needed, ONE, [what_if._row(needed, ONE, *turned) for turned in what_if._turned(needed, ONE)])
    shown = [row.shown for row in asked.rows]
    assert [text for text in shown if text.startswith("num_threads")] == ["num_threads=2"]
    words = {
        f"{2 * ONE.fetch} batches asked for ahead", "the called sources in 2 workers", "storage twice as fast", "twice the processors",
        "twice the processors and num_threads=2",
    }  # fmt: skip
    assert {row.shown for row in asked.rows if not row.is_setting} == words
    assert all(f"  {text}  (limit: " in what_if.text(asked) for text in shown) and "processors=" not in what_if.text(asked)
    two = dataclasses.replace(ONE, threads=2)
    assert [value for name, value, *_ in what_if._turned(needed, two) if name == "num_threads"] == [4, 1]


@pytest.mark.parametrize(("waited", "latency"), [(0.5, 0.0), (2.3, 0.2), (6.0, 0.2)])
def test_an_awaited_source_limits_the_rate_if_the_consumer_waits_for_it(waited, latency):
    """With one batch asked for ahead, the rate is that of the answers: 50 batches in 10 s take 0.2 s each, however long the step is."""
    told = {"sources": [{"kind": "awaited", "wait_seconds": waited, "prefetch": 1}]}
    assert what_if._awaited(told, 10.0) / 50 == latency
