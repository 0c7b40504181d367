"""``asyncdali bench``: the command as users run it, its figures, traces and pages."""

from __future__ import annotations

import hashlib
import io
import itertools
import json
import os
import re
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest
from helpers import browser as browsers
from helpers.places import PROJECT as ROOT

from asyncdali.__main__ import main
from asyncdali.compiled import crew
from asyncdali.compiled.step import Compiled
from asyncdali.runtime.work import pace
from asyncdali.tooling import bench, bench_report, interpreter, program, trace
from asyncdali.tooling.bench_consumer import TrainingStep, UserStep
from asyncdali.tooling.interpreter import interpreter_time
from asyncdali.tooling.measure import measure
from asyncdali.tooling.trace import Span, TraceRecorder

PROGRAM = """
import time
import numpy as np
import asyncdali
from asyncdali import fn, pipeline_def, types

@pipeline_def(batch_size=4, num_threads=2, device_id=None)
def small():
    data = fn.external_source(lambda info: np.full((8, 8), info.idx_in_batch, np.float32), batch=False, name="numbers")
    return fn.pad(data + 1, name="pad"), fn.random.uniform(name="draw")

@pipeline_def(batch_size=4, num_threads=2, device_id=None)
def ends():
    return fn.external_source([np.zeros((4, 2), np.float32)] * 3, cycle="raise")

@pipeline_def(batch_size=4, num_threads=2, device_id=None)
def fails():
    return fn.reshape(fn.random.uniform(), shape=[7])

@pipeline_def(batch_size=4, num_threads=2, device_id=None)
def empty():
    return fn.external_source([], cycle="raise")

@pipeline_def(batch_size=4, num_threads=2, device_id=None)
def unfed():
    return fn.external_source(name="pictures")

def broken(iteration):
    return {"a": [np.zeros(2)] * 4}["a" if iteration < 5 else "third"]

@pipeline_def(batch_size=4, num_threads=2, device_id=None)
def breaks():
    return fn.external_source(broken)

def plain(batch_size=2, num_threads=1):
    return small(batch_size=batch_size, num_threads=num_threads)

class Numbers:
    def __call__(self, info):
        return np.float32([sum(range(2000))])

class Waiting:
    def __call__(self, info):
        time.sleep(0.02)
        return np.float32([0])

@pipeline_def(batch_size=4, num_threads=2, device_id=None, py_num_workers=2)
def waiting():
    return fn.external_source(Waiting(), batch=False, parallel=True)

@pipeline_def(batch_size=4, num_threads=2, device_id=None, py_num_workers=2)
def workers():
    return fn.external_source(Numbers(), batch=False, parallel=True, prefetch_queue_depth=2)

def undefined():
    1 / 0

pipeline = small()
nothing = 3
"""


@pytest.fixture
def target(tmp_path):
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    return lambda name: f"{file}:{name}"


def run(capsys, *arguments):
    status = main(["bench", *arguments])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def measured(capsys, *arguments):
    status, out, err = run(capsys, *arguments, "--json")
    assert status == 0, err
    return json.loads(out)


# ----------------------------------------------------------------------------------------------------------------- one measurement


def test_figures_as_json(capsys, target):
    found = measured(capsys, target("small"), "--iterations", "30", "--batch-size", "6", "--threads", "1", "--depth", "3")["measurement"]
    assert found["settings"] == {"batch_size": 6, "num_threads": 1, "prefetch_queue_depth": 3, "py_num_workers": 1, "engines": 0}
    assert found["iterations"] == 30 and found["samples"] == 180
    rate = found["samples_per_second"]
    assert rate["lower_quartile"] <= rate["median"] <= rate["upper_quartile"]
    assert len(found["rates"]) == 30 and len(found["timeline"]) == 30
    assert found["interpreter_seconds"] > 0
    assert found["processor_us_per_sample"] == pytest.approx(found["processor_seconds"] / 180 * 1e6)
    assert found["peak_memory"] > 2**20
    assert sum(item["share"] for item in found["operators"]) == pytest.approx(1)
    assert {"pad", "draw", "numbers"} <= {item["name"] for item in found["operators"]}
    statistics = found["statistics"]
    assert statistics["consumer"]["iterations"] == 30 and statistics["queue"]["depth"] == 3
    assert found["bottleneck"]["sentence"] == f"{found['bottleneck']['finding']}: {found['bottleneck']['advice']}"


def test_figures_for_people(capsys, target):
    status, out, err = run(capsys, target("small"), "--iterations", "10")
    assert status == 0
    assert re.search(r"^[\d,]+ samples/s \(quartiles [\d,]+ to [\d,]+\); 10 batches, batch_size=4, num_threads=2", out)
    assert re.search(r"per sample: [\d,]+ µs of processor time, at most [\d,.]+ µs with the interpreter held", out)
    assert re.search(r"peak memory [\d,]+ MB", out) and re.search(r"[\d.]+ %  pad  \(pad\)", out)
    assert "source 'numbers': waited for" in out and "bottleneck: " in out
    assert re.search(r"\[#{30}\] 10/10  [\d,]+ samples/s", err)


def test_the_end_of_the_data_starts_the_next_epoch(capsys, target):
    found = measured(capsys, target("ends"), "--iterations", "10")["measurement"]
    assert found["iterations"] == 10 and found["samples"] == 40


def test_a_function_that_returns_a_pipeline(capsys, target):
    assert measured(capsys, target("plain"), "--iterations", "3", "--threads", "2")["measurement"]["settings"]["num_threads"] == 2
    assert measured(capsys, target("pipeline"), "--iterations", "3")["measurement"]["settings"]["batch_size"] == 4


def test_processor_time_includes_worker_processes(capsys, target):
    found = measured(capsys, target("workers"), "--iterations", "20", "--workers", "1")["measurement"]
    assert found["settings"]["py_num_workers"] == 1 and found["statistics"]["workers"]["count"] == 1
    assert found["processor_seconds"] > 0 < found["statistics"]["workers"]["busy_seconds"]


def test_processor_time_does_not_include_the_waiting_of_worker_processes(capsys, target):
    found = measured(capsys, target("waiting"), "--iterations", "10")["measurement"]
    if found["sharing"]["is_estimated"]:
        pytest.skip("this system does not count the processor time of other processes")
    assert found["processor_seconds"] < found["statistics"]["workers"]["busy_seconds"] / 2


@pytest.mark.parametrize(
    "name, arguments, words",
    [
        ("missing", [], "defines no 'missing'; it has "),
        ("nothing", [], "a int is not a pipeline"),
        ("plain", ["--depth", "2"], "plain() takes no prefetch_queue_depth"),
        ("pipeline", ["--threads", "2"], "cannot be given num_threads"),
        ("fails", [], "the pipeline failed: "),
        ("Numbers", [], "returned a Numbers, not a Pipeline"),
        ("empty", [], "has no data"),
        ("unfed", [], "Nothing was fed to the external input 'pictures'"),
        ("breaks", [], "the pipeline failed: KeyError: 'third' (program.py, line 29)"),
        ("small", ["--trace", "/proc/none/x.json"], "--trace /proc/none/x.json: cannot write into /proc/none"),
        ("small", ["--report", "/"], "--report /: is a folder"),
        ("undefined", [], "made no pipeline: ZeroDivisionError"),
    ],
)
def test_pipelines_that_cannot_be_measured_are_explained(capsys, target, name, arguments, words):
    status, _, err = run(capsys, target(name), "--iterations", "3", *arguments)
    assert status == 1 and words in err and "Traceback" not in err


def test_an_interrupt_ends_the_command_without_a_traceback(capsys, target, monkeypatch):
    def interrupted(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(bench, "measure", interrupted)
    status, _, err = run(capsys, target("small"))
    assert status == 130 and err == "bench: interrupted\n"


def test_invalid_targets_are_refused(capsys, tmp_path):
    for target, words in (("x", "not of the form"), ("nowhere.py:x", "there is no file"), ("x.txt:y", "not of the form")):
        status, _, err = run(capsys, target)
        assert status == 1 and words in err
    broken = tmp_path / "broken.py"
    broken.write_text("1 / 0")
    status, _, err = run(capsys, f"{broken}:x")
    assert status == 1 and "ZeroDivisionError" in err


@pytest.mark.parametrize(
    "arguments", [["--iterations", "0"], ["--threads", "two"], ["--sweep", "threads"], ["--sweep", "speed=1"], ["--consumer-ms", "-1"],
                  ["--consumer-ms", "x"], ["--vs", "grain"], ["--sweep", "threads=1,0"]],
)  # fmt: skip
def test_arguments_are_checked(capsys, target, arguments):
    with pytest.raises(SystemExit) as end:
        main(["bench", target("small"), *arguments])
    assert end.value.code == 2


def test_a_pipeline_without_statistics_is_refused(capsys, target, tmp_path):
    (tmp_path / "off.py").write_text(PROGRAM.replace("device_id=None)\ndef small", "device_id=None, enable_statistics=False)\ndef small"))
    status, _, err = run(capsys, f"{tmp_path}/off.py:small", "--iterations", "3")
    assert status == 1 and "enable_statistics=False" in err


# --------------------------------------------------------------------------------------------------------------------------- sweep


def test_a_sweep_finds_the_best(capsys, target):
    found = measured(capsys, target("small"), "--iterations", "10", "--sweep", "threads=1,2")
    assert found["sweep"] == "threads" and [row["value"] for row in found["rows"]] == [1, 2]
    assert [row["settings"]["num_threads"] for row in found["rows"]] == [1, 2]
    rates = {row["value"]: row["samples_per_second"]["median"] for row in found["rows"]}
    assert rates[found["best"]] == max(rates.values())
    status, out, _ = run(capsys, target("small"), "--iterations", "10", "--sweep", "batch-size=2,4")
    assert status == 0 and re.search(r"^best: batch-size=[24]; with it: ", out, re.MULTILINE)
    assert len(re.findall(r"^ +[24][ *]", out, re.MULTILINE)) == 2


def test_a_sweep_over_engines(capsys, target):
    found = measured(capsys, target("small"), "--iterations", "10", "--sweep", "engines=0,1,2")
    assert [row["settings"]["engines"] for row in found["rows"]] == [0, 1, 2]


def test_two_sweeps_at_once_are_refused(capsys, target):
    status, _, err = run(capsys, target("small"), "--sweep", "threads=1,2", "--sweep", "depth=1,2")
    assert status == 2 and "one --sweep at a time" in err


def test_a_sweep_and_a_trace_exclude_each_other(capsys, target, tmp_path):
    status, _, err = run(capsys, target("small"), "--sweep", "threads=1,2", "--trace", str(tmp_path / "trace.json"))
    assert status == 2 and "--trace" in err


# ------------------------------------------------------------------------------------------------------------------------ consumer


@pytest.mark.slow  # compares times
def test_times_add_up(capsys, target):
    found = measured(capsys, target("small"), "--iterations", "30")["measurement"]
    assert found["interpreter_seconds"] <= found["processor_seconds"] * 1.1 + 1e-3  # the two clocks are read one after the other
    found = measured(capsys, target("workers"), "--iterations", "20", "--workers", "1")["measurement"]
    assert found["processor_seconds"] > found["statistics"]["workers"]["busy_seconds"] / 2  # `busy` counts the time in queues, too
    found = measured(capsys, target("small"), "--iterations", "10", "--consumer-ms", "5")["measurement"]
    assert found["seconds"] >= 9 * found["consumer"]["step_alone_ms"] / 1e3 * 0.5


def test_a_training_step_beside_the_pipeline(capsys, target):
    found = measured(capsys, target("small"), "--iterations", "10", "--consumer-ms", "5")["measurement"]
    beside = found["consumer"]
    assert beside["step"] == "of 5 ms" and beside["step_alone_ms"] > 0
    assert beside["slowdown"] == pytest.approx(beside["step_beside_ms"] / beside["step_alone_ms"] - 1)
    assert 0 <= beside["stalls"] <= 10 and 0 <= beside["stall_share"] <= 1
    status, out, _ = run(capsys, target("small"), "--iterations", "5", "--consumer-ms", "5")
    assert status == 0
    assert re.search(r"training step of 5 ms: [\d.]+ ms beside the pipeline, [\d.]+ ms alone \([+-]\d+ %\); \d+ stalls", out)


STEPS = """
class Loss:
    def item(self):
        print("waited")

def step(images, draw):
    assert images.shape() == [(8, 8)] * 4 and draw.shape() == [()] * 4
    return Loss()

def broken(images, draw):
    raise KeyError("weights")
"""


def test_a_training_step_of_the_user(capsys, target, tmp_path):
    (tmp_path / "train.py").write_text(STEPS)
    status, out, err = run(capsys, target("small"), "--iterations", "10", "--consumer", f"{tmp_path}/train.py:step")
    assert status == 0, err
    assert out.count("waited\n") == 1 + 5 + 1  # one line each: the warm-up, five parts with a repeated batch, the end
    assert re.search(r"training step \S+train.py:step: [\d.]+ ms beside the pipeline, [\d.]+ ms alone", out)
    status, _, err = run(capsys, target("small"), "--iterations", "10", "--consumer", f"{tmp_path}/train.py:broken")
    assert status == 1 and "the training step" in err and "train.py:broken failed: KeyError: 'weights'" in err
    status, _, err = run(capsys, target("small"), "--consumer", f"{tmp_path}/train.py:step", "--consumer-ms", "5")
    assert status == 2 and "two training steps" in err


def test_a_sweep_of_decoders_needs_a_decoder(capsys, target):
    status, _, err = run(capsys, target("small"), "--iterations", "2", "--sweep", "decoder=cpu,all")
    assert status == 1 and 'no decoder of JPEGs with device="mixed"' in err


def test_the_calibration_of_a_step_is_not_part_of_the_measurement(target):
    """Once the steps of the calibration counted as time of the consumer, which then took 196 % of the time."""
    pipeline = program.make(program.load(target("small")), {})
    found = measure(pipeline, 50, {}, UserStep("step", lambda *outputs: time.sleep(0.01)))  # 53 steps before
    assert 0.4 <= found.statistics["consumer"]["away_seconds"] <= found.seconds + 0.4
    pipeline.close()


def test_stalls_are_waits_for_batches(target):
    pipeline = program.make(program.load(target("small")), {})
    source = pipeline._core.output_nodes()[0]  # the user's pipeline is not changed
    assert source is not None
    found = measure(pipeline, 10, {}, TrainingStep(1))
    assert found.consumer["stall_seconds"] <= found.seconds
    pipeline.close()


def test_interpreter_time_leaves_compiled_code_out(target):
    pipeline = program.make(program.load(target("small")), {})
    with interpreter_time() as used:
        for _ in range(5):
            pipeline.run()
    assert used.seconds > 0
    with interpreter_time() as spinning:
        sum(range(2_000_000))
    assert spinning.seconds > 0.001
    pipeline.close()


@pytest.mark.slow  # measures processor time
def test_calls_across_the_begin_or_end_of_the_measurement_are_left_out():
    call = Compiled(None, 0)
    # Compiled code runs for about 0.1 to 0.2 s on one thread, without the interpreter lock.
    call._call = lambda: hashlib.pbkdf2_hmac("sha256", b"", b"", 300_000)
    over = False

    def work():
        while not over:
            call()

    def use(seconds):
        began = time.process_time()
        while time.process_time() - began < seconds:
            time.sleep(0.001)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        use(0.03)  # the thread is in a call
        with interpreter_time() as used:
            use(0.06)  # the thread is in another call
    finally:
        over = True
        thread.join()
    assert used.seconds < 0.03


def test_a_thread_that_enters_a_call_after_the_recall_is_recalled_again(monkeypatch):
    entered, recalled, recalls = threading.Event(), threading.Event(), []

    def recall():
        recalls.append(entered.is_set())
        if len(recalls) > 1:
            recalled.set()

    def serve():
        entered.set()
        assert recalled.wait(300)

    call = Compiled(None, 0)
    call._call = serve
    monkeypatch.setattr(crew, "recall_all", recall)
    monkeypatch.setattr(interpreter, "_PATIENCE", 60.0)
    thread = threading.Thread(target=call)
    thread.start()
    assert entered.wait(300)
    try:
        with interpreter_time() as used:
            assert len(recalls) > 1
    finally:
        recalled.set()
        thread.join()
    assert used.seconds >= 0


# ----------------------------------------------------------------------------------------------------------------------- progress


def test_progress_on_a_terminal():
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    stream = Terminal()
    bar = bench.ProgressBar(4, stream)
    for k in range(1, 5):
        bar(k, 100.0 * k)
    bar.close()
    assert stream.getvalue().endswith(f"\r[{'#' * 30}] 4/4  400 samples/s\n") and stream.getvalue().count("\n") == 1


# --------------------------------------------------------------------------------------------------------------------------- trace


def test_a_trace(capsys, target, tmp_path):
    path = tmp_path / "trace.json"
    assert measured(capsys, target("workers"), "--iterations", "20", "--trace", str(path))["trace"] == str(path)
    events = json.loads(path.read_text())["traceEvents"]
    lanes = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    names = set(lanes.values())
    assert "consumer" in names
    assert any(name.startswith("process ") for name in names), names
    spans = [event for event in events if event["ph"] == "X"]
    assert all(event["dur"] >= 0 and event["ts"] >= 0 and event["tid"] in lanes for event in spans)
    waits = [event for event in spans if event["name"] == "wait for a batch"]
    assert len(waits) == 20
    assert {event["ph"] for event in events if event.get("cat") == "iteration"} >= {"s", "f"}
    assert [event for event in events if event["ph"] == "C" and event["name"] == "iterations ready"]


def test_a_trace_shows_what_engines_do(capsys, target, tmp_path):
    path = tmp_path / "trace.json"
    measured(capsys, target("small"), "--iterations", "12", "--engines", "2", "--trace", str(path))
    events = json.loads(path.read_text())["traceEvents"]
    lanes = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    spans = [event for event in events if event["ph"] == "X"]
    there = [event for event in spans if lanes[event["tid"]].startswith("engine ")]
    assert {lanes[event["tid"]].split()[1] for event in there} == {"0", "1"}
    assert any(event["name"].startswith("plan segment") for event in there)
    waits = {event["args"]["iteration"]: event for event in spans if event["name"] == "wait for a batch"}
    checked = 0
    for event in there:
        wait = waits.get(event["args"]["iteration"])
        if wait is not None:
            assert event["ts"] <= wait["ts"] + wait["dur"], "an engine works on what was delivered before"
            checked += 1
    assert checked >= 12


def test_worker_processes_are_seen_however_short_the_measurement(target, monkeypatch):
    monkeypatch.setattr(trace, "_SAMPLING", 60.0)
    pipeline = program.make(program.load(target("workers")), {})
    recorder = TraceRecorder()
    measure(pipeline, 10, {}, recorder=recorder)
    pipeline.close()
    assert any(span.lane.startswith("process ") for span in recorder.spans)


def test_spans_of_a_worker_do_not_overlap():
    """Perfetto drops overlapping slices of a lane. The sampler sees the end of a task late, by up to its interval."""
    looks = iter([(0, 0.0), (1, 0.008), (2, 0.016), (2, 0.016), (4, 10.0)])

    class Pipeline:
        def worker_statistics(self):
            tasks, busy = next(looks)
            return {"workers": [{"tasks": tasks, "busy_seconds": busy, "pid": 7}]}

    recorder = TraceRecorder()
    sampler = trace.WorkerSampler(Pipeline(), recorder)
    for _ in range(5):
        sampler._look()
    spans = list(recorder.spans)
    assert [span.what for span in spans] == ["1 task", "1 task", "2 tasks"]
    assert [round((span.ended - span.began) / 1e6) for span in spans] == [8, 8, 9984]
    assert all(one.ended <= two.began for one, two in itertools.pairwise(spans))


def test_stages_and_threads_have_lanes(target, monkeypatch):
    monkeypatch.setattr(pace, "_MAYBE_SHORT", 0)  # here worker threads compute short jobs, too
    pipeline = program.make(program.load(target("small")), {})
    recorder = TraceRecorder()
    measure(pipeline, 10, {}, recorder=recorder)
    pipeline.close()
    lanes = {span.lane for span in recorder.spans}
    assert {"consumer", "cpu"} <= lanes and any(lane.startswith("worker-") for lane in lanes) and any("segment" in lane for lane in lanes)
    assert {span.what for span in recorder.spans} >= {"ask numbers", "wait for a batch"}
    assert all(span.ended >= span.began for span in recorder.spans)


def test_the_recorder_forgets_the_oldest():
    recorder = TraceRecorder(limit=3)
    for k in range(5):
        recorder.span("x", k, k + 1, k, "lane")
    assert [span.iteration for span in recorder.spans] == [2, 3, 4]
    assert recorder.chrome()["traceEvents"][-1]["ph"] == "X"  # one span per iteration, so there are no links between spans


# -------------------------------------------------------------------------------------------------------------------------- report


@pytest.fixture
def page(target, tmp_path):
    """A measurement, and the page that `--report` writes for it."""
    pipeline = program.make(program.load(target("small")), {})
    recorder = TraceRecorder()
    found = measure(pipeline, 40, {"batch_size": 4}, TrainingStep(1), recorder)
    pipeline.close()
    path = tmp_path / "report.html"
    bench_report.write(str(path), found, recorder, "small & <fast>")
    return found, path


def at(data, path):
    for part in path.split("."):
        data = data[int(part)] if isinstance(data, list) else data[part]
    return data


def test_the_page_says_what_the_json_says(page):
    found, path = page
    text = path.read_text()
    data = json.loads(json.dumps(found.as_dict()))
    numbers = re.findall(r'data-key="([^"]+)" data-value="([^"]+)"', text)
    assert len(numbers) > 20
    for key, value in numbers:
        assert float(value) == at(data, key), key
    assert "small &amp; &lt;fast&gt;" in text and "http" not in re.sub(r"<title>.*?</title>", "", text)  # the page loads no other resources


def test_a_page_without_spans(page):
    found, _ = page
    assert "Nothing was recorded" in bench_report.page(found, TraceRecorder(), "x")
    recorder = TraceRecorder()
    recorder.spans.append(Span("a", 0, 10, -1, "process 0"))
    assert "Nothing was recorded" in bench_report.page(found, recorder, "x")


@pytest.mark.slow
@pytest.mark.skipif(browsers.executable() is None, reason="there is no Chromium")
def test_the_page_in_a_browser(page, tmp_path):
    found, path = page
    data = json.loads(json.dumps(found.as_dict()))
    shot = Path(os.environ.get("ASYNCDALI_ARTEFACTS", tmp_path)) / "bench-report.png"
    with browsers.Browser() as tab:
        tab.size(1040, 900)
        tab.visit(path.resolve().as_uri())
        assert tab.run("document.querySelector('#sentence').innerText") == data["bottleneck"]["sentence"]
        assert json.loads(tab.run("document.querySelector('#measurement').textContent")) == data
        shown = tab.run("[...document.querySelectorAll('[data-key]')].map(e => [e.dataset.key, e.dataset.value, e.textContent])")
        for key, value, _ in shown:
            assert float(value) == at(data, key), key
        median = next(text for key, _, text in shown if key == "samples_per_second.median")
        assert float(median.replace(",", "")) == pytest.approx(data["samples_per_second"]["median"], abs=0.51)
        for drawing in ("throughput", "timeline", "operators", "queue"):
            box = tab.run(f"document.querySelector('svg#{drawing}').getBoundingClientRect().toJSON()")
            assert box["width"] > 500 and box["height"] > 20, drawing
        bars = tab.run("[...document.querySelectorAll('#operators rect')].map(e => [+e.dataset.value, e.getBoundingClientRect().width])")
        for (seconds, width), (next_seconds, next_width) in itertools.pairwise(bars):
            assert seconds >= next_seconds and width >= next_width
        assert tab.errors() == [] and tab.requests() == [path.resolve().as_uri()]
        shot.write_bytes(tab.screenshot(whole=True))
    assert shot.stat().st_size > 10_000


# --------------------------------------------------------------------------------------------------------------------- beside DALI


@pytest.mark.slow
def test_beside_dali(target):
    pytest.importorskip("nvidia.dali", reason="DALI is not installed")
    command = [sys.executable, "-m", "asyncdali", "bench", target("small"), "--iterations", "10", "--vs", "dali", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["versus"]
    assert found["ratio"] > 0 and len(found["rates"]["dali"]) == len(found["rates"]["asyncdali"]) == 5
    assert bench.versus_text(found).endswith("measured in turns")


@pytest.mark.slow
def test_programs_that_dali_cannot_run(tmp_path):
    file = tmp_path / "ours.py"
    file.write_text(textwrap.dedent("""
        import asyncdali
        from asyncdali import fn, pipeline_def

        @pipeline_def(batch_size=2, num_threads=1, device_id=None)
        def ours():
            if not asyncdali.__name__.startswith("asyncdali"):
                raise RuntimeError("another library")
            return fn.random.uniform()
    """))
    command = [sys.executable, "-m", "asyncdali", "bench", f"{file}:ours", "--iterations", "10", "--vs", "dali"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert "DALI could not run it: " in done.stdout


@pytest.mark.slow
def test_a_program_for_dali_runs_here(tmp_path):
    file = tmp_path / "theirs.py"
    file.write_text(textwrap.dedent("""
        from nvidia.dali import fn, pipeline_def, types

        @pipeline_def(batch_size=2, num_threads=1, device_id=None)
        def theirs():
            return fn.random.uniform()
    """))
    command = [sys.executable, "-m", "asyncdali", "bench", f"{file}:theirs", "--iterations", "5", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["measurement"]["samples"] == 10
