"""docs/which_knob.md: its code runs, its names exist, and each knob changes the statistic that the page names."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import inspect
import os
import re
import shutil
import signal
import time
from typing import get_args, get_type_hints

import numpy as np
import pytest
from helpers.benches import EXAMPLE, bench
from helpers.clocks import CountedClock
from helpers.pipelines import pipeline_of
from helpers.places import PROJECT as ROOT
from helpers.slow_files import compiler, slow_files
from helpers.warm import run_warm

from asyncdali import fn, pipeline_def
from asyncdali.operators.crop.slice import Slice
from asyncdali.options import option_names
from asyncdali.runtime.counting import statistics as report
from asyncdali.types import OperatorConcurrency

PAGE = (ROOT / "docs" / "which_knob.md").read_text()
EXAMPLES = re.findall(r"^- Example: `(\w+)`\.$", PAGE, re.MULTILINE)
STEP = ["--consumer-ms", "15"]


def per_sample(found, seconds):
    return seconds / found["samples"]


def source(found):
    return found["statistics"]["sources"][0]


def operator(found, kind):
    return next(item for item in found["statistics"]["operators"] if item["operator"].startswith(kind))


def share(found, seconds):
    return seconds / found["statistics"]["elapsed_seconds"]


def waits(found):
    return found["statistics"]["consumer"]["wait_seconds"]


# The statistic, the share of its value below which it falls, and arguments of `asyncdali bench`.
CURES = {
    "slow_source": (lambda found: per_sample(found, source(found)["wait_seconds"]), 0.5, []),
    "interpreter_bound": (lambda found: per_sample(found, source(found)["processor_seconds"]), 0.5, []),
    "too_few_workers": (lambda found: per_sample(found, source(found)["wait_seconds"]), 0.6, []),
    "slow_decode": (lambda found: per_sample(found, found["statistics"]["threads"]["processor_seconds"]), 0.4, []),
    # The mean number of threads with work. It is a share of one run, so other programs on this machine do not change it.
    "too_many_threads": (lambda found: share(found, found["statistics"]["threads"]["busy_seconds"]), 0.5, []),
    "slow_python_function": (lambda found: per_sample(found, waits(found)), 0.3, []),
    "small_queue": (lambda found: share(found, waits(found)), 0.5, STEP),
    "slow_sample": (lambda found: 1 / share(found, sum(item["pixels_seconds"] for item in found["statistics"]["segments"])), 0.8, []),
}


def test_the_code_runs():
    code = PAGE.partition("```python\n")[2].partition("```")[0]
    done = run_warm(code)
    assert done.returncode == 0, done.stderr
    waited, drawn, held = done.stdout.splitlines()
    assert re.fullmatch(r"waited [\d.]+ s of [\d.]+ s", waited)
    assert int(drawn.split()[0]) % (16 * 64 * 64 * 4) == 0
    assert held.startswith("10 batches are still referred to") and int(held.split()[-2]) >= 10 * 16 * 64 * 64 * 4


def resolve(path):
    """Follow a path such as ``segments[].wait_input_seconds`` through the report's classes."""
    kind = report.Statistics
    for part in path.split("."):
        name = part.removesuffix("[]")
        hints = get_type_hints(kind)
        assert name in hints or isinstance(inspect.getattr_static(kind, name, None), property), f"{path}: {kind.__name__} has no {name}"
        if name in hints:
            kind = hints[name]
            inner = [item for item in get_args(kind) if dataclasses.is_dataclass(item)]
            kind = inner[0] if inner else kind


def test_every_statistic_is_documented():
    names = re.findall(r"`([a-z_\[\]./ ]+)`", PAGE)
    roots = {item.name for item in dataclasses.fields(report.Statistics)}
    paths = {part.strip() for name in names for part in name.split("/") if re.split(r"[.\[]", part.strip())[0] in roots and "." in part}
    assert len(paths) > 20
    for path in paths:
        resolve(path)


def test_every_knob_is_documented():
    knobs = {"prefetch_queue_depth", "num_threads", "py_num_workers", "exec_pipelined", "batch_size", "concurrency", "enable_statistics"}
    assert knobs <= set(option_names())
    for name in knobs:
        assert f"`{name}" in PAGE or f"{name}=" in PAGE
    for name in ("prefetch_queue_depth", "max_concurrency", "parallel", "batch"):
        assert name in inspect.signature(fn.external_source).parameters
    assert OperatorConcurrency.FULL


def test_every_row_has_its_examples():
    spec = importlib.util.spec_from_file_location("bottlenecks", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert len(EXAMPLES) == 10 and set(EXAMPLES) == CURES.keys() | {"slow_storage", "slow_consumer"}
    for name in EXAMPLES:
        assert callable(getattr(module, name))
        assert name == "slow_consumer" or callable(getattr(module, f"{name}_mended"))


@pytest.mark.slow
@pytest.mark.parametrize("name", CURES)
def test_the_knob_moves_the_statistic(name):
    statistic, factor, arguments = CURES[name]
    before, after = (bench(which, "--iterations", "40", *arguments) for which in (name, f"{name}_mended"))
    print(f"{name}: {statistic(before):.3g} -> {statistic(after):.3g}")
    assert statistic(after) < factor * statistic(before)


@pytest.mark.slow
@pytest.mark.skipif(compiler() is None, reason="no C compiler to build a stand-in for slow storage")
def test_more_threads_hide_slow_storage(tmp_path):
    pictures = tmp_path / "slow"
    shutil.copytree(ROOT / "asyncdali" / "data" / "pictures", pictures)
    environment = slow_files(tmp_path, pictures, 8000) | {"BOTTLENECKS_PICTURES": str(pictures)}
    before, after = (bench(name, "--iterations", "20", **environment) for name in ("slow_storage", "slow_storage_mended"))
    assert per_sample(after, waits(after)) < 0.6 * per_sample(before, waits(before))
    reader = operator(before, "readers.file")
    assert reader["prepare_processor_seconds"] < 0.25 * reader["prepare_seconds"]


# --- the remaining statements of the page


def reported(pipe, iterations):
    """The difference of statistics over this number of iterations, after the first."""
    with contextlib.closing(pipe):
        pipe.run()
        before = pipe.statistics()
        for _ in range(iterations):
            pipe.run()
        return pipe.statistics().since(before)


@pipeline_def(batch_size=2, num_threads=1, device_id=None, seed=1)
def many_decisions():
    x = fn.random.uniform(range=[0.0, 1.0], shape=[2])
    for _ in range(20):
        x = fn.pad(fn.slice(x, start=[0], shape=[2], axes=[0]), fill_value=0)
    return x


def test_larger_batches_make_up_for_decisions(monkeypatch):
    """Operators plan once per batch. A plan takes a millisecond of simulated time, so the time per sample falls with the batch size."""
    clock, plan = CountedClock(monkeypatch), Slice.plan

    def planned(*arguments):
        clock.passes(1)
        return plan(*arguments)

    monkeypatch.setattr(Slice, "plan", planned)
    small, large = (reported(many_decisions(batch_size=size, prefetch_queue_depth=1), 20) for size in (2, 64))
    decided = [sum(item.planning_seconds for item in found.segments) for found in (small, large)]
    assert decided[0] == decided[1] > 0


def test_the_queue_depth_is_the_number_of_batches_in_flight():
    """While `run()` waits for a batch, `queue.depth` batches are in flight: this batch and the next two."""
    asked = []

    def ask(iteration):
        asked.append(iteration)
        return [np.float32([iteration])] * 2

    with contextlib.closing(pipeline_of(lambda: fn.external_source(ask), batch_size=2, prefetch_queue_depth=3)) as pipe:
        for delivered in range(1, 11):
            pipe.run()
            pipe._core.session.wait_all()
            assert len(asked) == delivered - 1 + 3
        assert pipe.statistics().queue.depth == 3


def test_the_stage_without_waiting_time_is_the_slow_one(monkeypatch):
    """The slow function takes 2 ms of simulated time per sample. The other function waits for it as long."""
    clock = CountedClock(monkeypatch)

    def pause(sample):
        clock.passes(2)
        return sample

    def graph():
        slow = fn.python_function(fn.random.uniform(range=[0.0, 1.0], shape=[2]), function=pause, name="slow")
        return fn.python_function(slow, function=lambda x: x, name="quick")

    found = reported(pipeline_of(graph, batch_size=4, num_threads=1, prefetch_queue_depth=1), 20)
    waited = {name: item.wait_input_seconds + item.wait_turn_seconds for item in found.segments for name in item.operators}
    assert waited["slow"] == 0 and waited["quick"] == pytest.approx(20 * 4 * 0.002)


class Indices:
    def __call__(self, info):
        time.sleep(0.001)
        return np.float32([info.idx_in_epoch])


@pipeline_def(batch_size=4, num_threads=1, device_id=None, py_num_workers=2)
def in_workers():
    return fn.external_source(Indices(), batch=False, parallel=True)


def test_workers_that_died_are_counted():
    with contextlib.closing(in_workers()) as pipe:
        pipe.run()
        assert pipe.statistics().workers.restarts == 0
        os.kill(pipe.worker_statistics()["workers"][0]["pid"], signal.SIGKILL)
        limit = time.monotonic() + 300
        while not pipe.statistics().workers.restarts and time.monotonic() < limit:
            pipe.run()
        assert pipe.statistics().workers.restarts == 1


@pytest.mark.slow
def test_a_slow_consumer_finds_batches_ready():
    # The step is Python: another thread waits up to 5 ms for the interpreter, several times per batch. 60 ms are long beside these waits.
    found = bench("slow_consumer", "--iterations", "20", "--consumer-ms", "60")
    ready = found["statistics"]["queue"]["ready_on_arrival"]
    assert sum(ready[1:]) > 0.7 * sum(ready)  # other programs may use the machine
    assert share(found, waits(found)) < 0.1
