"""``asyncdali bench FILE.py:pipeline`` measures how fast a pipeline is and where the time goes, and advises what to change."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import lines_of
from ..messages.status_line import StatusLine
from ..system.processes import python_command
from . import bench_report, bench_rival, program, what_if
from . import settings as set_values
from .bench_consumer import Consumer, TrainingStep, UserStep
from .measure import Measurement, measure
from .trace import TraceRecorder

if TYPE_CHECKING:
    from ..pipeline.pipeline import Pipeline
    from .commands import Commands

_SWEPT = {"threads": "num_threads", "batch-size": "batch_size", "depth": "prefetch_queue_depth", "workers": "py_num_workers",
          "engines": "engines", "decoder": "decoder"}  # fmt: skip
_LANES = ["default", "cpu", "shared", "hardware", "hybrid", "all"]
"""Values of the decoders' argument `decoder` with a fixed split (docs/gpu.md)."""
_ROUNDS = 5


def add_arguments(commands: Commands) -> None:
    """Add the command to the command line's parser."""
    parser = commands.add_parser(
        "bench", help="measure a pipeline: samples per second, where the time goes, the bottleneck and what to change"
    )
    parser.add_argument("pipeline", metavar="FILE.py:pipeline", help="a function made by @pipeline_def, or one that returns a Pipeline")
    parser.add_argument("--iterations", type=count, default=100, help="batches to measure, after a few to warm up (default: 100)")
    parser.add_argument("--batch-size", type=count, help="in place of the pipeline's own; likewise the next four")
    parser.add_argument("--threads", type=count, help="num_threads")
    parser.add_argument("--depth", type=count, help="prefetch_queue_depth")
    parser.add_argument("--workers", type=count, help="py_num_workers")
    parser.add_argument("--engines", type=_engines, metavar="N", help="engines (docs/engines.md); 0: none; or HOST:PORT,... of "
                        "engines on other machines (docs/fleet.md)")  # fmt: skip
    parser.add_argument("--token-file", metavar="FILE", help="a file with the secret of engines on other machines")
    parser.add_argument("--token-shared", action="store_true", help="accept a token file that other users may read, or that they own")
    set_values.add_argument(parser)
    swept = ", ".join(_SWEPT)
    parser.add_argument("--sweep", type=_sweep, action="append", metavar="NAME=V,V,...", help=f"measure with several values of {swept}")
    parser.add_argument("--vs", choices=("dali",), help="run the same file with DALI, in turns")
    parser.add_argument("--consumer-ms", type=milliseconds, metavar="N", help="a training step of N ms of pure Python after each batch")
    parser.add_argument("--consumer", metavar="FILE.py:step", help="your training step, called with the outputs of each batch; the "
                        "pipeline's JPEG decoders on a GPU are tried with each `decoder`, and the best is named")  # fmt: skip
    parser.add_argument("--what-if", action="store_true", help="predict the rate with other settings, and say which to change first")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    parser.add_argument("--trace", metavar="FILE.json", help="write a trace for chrome://tracing or ui.perfetto.dev")
    parser.add_argument("--report", metavar="FILE.html", help="write a page with drawings")
    parser.set_defaults(run=run)


def count(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is too small: at least 1 is needed")
    return value


def count_or_none(text: str) -> int:
    return 0 if text == "0" else count(text)


def _engines(text: str) -> int | list[str]:
    return text.split(",") if ":" in text else count_or_none(text)


def milliseconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None
    if not 0 < value < 1e5:
        raise argparse.ArgumentTypeError(f"{text} ms is not a training step: expected more than 0 and less than 100000")
    return value


def _sweep(text: str) -> tuple[str, list[int] | list[str]]:
    name, equals, values = text.partition("=")
    if not equals or name not in _SWEPT:
        raise argparse.ArgumentTypeError(f"{text!r}: expected NAME=V,V,... with a name of {', '.join(_SWEPT)}")
    if name == "decoder":
        return name, values.split(",")
    number = count_or_none if name == "engines" else count
    return name, [number(value) for value in values.split(",")]


def run(options: argparse.Namespace) -> int:
    """Run the command and return the exit status."""
    if options.sweep and (options.vs or options.trace or options.report or options.what_if):
        print("bench: --sweep measures several pipelines; --vs, --trace, --report and --what-if measure one", file=sys.stderr)
        return 2
    if options.sweep and len(options.sweep) > 1:
        print("bench: give one --sweep at a time and fix the other options, as in --sweep threads=1,2 --depth 3", file=sys.stderr)
        return 2
    if options.consumer and options.consumer_ms is not None:
        print("bench: --consumer and --consumer-ms are two training steps: give one", file=sys.stderr)
        return 2
    try:
        _check_can_be_written("--trace", options.trace)
        _check_can_be_written("--report", options.report)
        _keep_paths(options)
        with program.output_apart() if options.json else contextlib.nullcontext():
            found = _results(options)
        print(found)
        return 0
    except program.ProgramError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("bench: interrupted", file=sys.stderr)
        return 130  # the exit status of shells for Ctrl-C


def _keep_paths(options: argparse.Namespace) -> None:
    """Make the command's paths absolute, because the program may change the working directory."""
    for name in ("trace", "report", "token_file", "pipeline", "consumer"):
        if getattr(options, name) is not None:
            setattr(options, name, os.path.abspath(getattr(options, name)))


def _results(options: argparse.Namespace) -> str:
    made = program.load(options.pipeline, options.arguments)
    swept = [_SWEPT[name] for name, _ in options.sweep or ()]
    options.values = set_values.settings_of(made, options.set, {*_own_settings(options), *swept})
    step = step_of(options)
    of_one = options.vs or options.trace or options.report or options.what_if
    if options.consumer and not (options.sweep or of_one) and _has_lanes(made, options):
        options.sweep = [("decoder", _LANES)]
    return _run_sweep(made, options, step) if options.sweep else _run_one(made, options, step)


def step_of(options: argparse.Namespace) -> Consumer | None:
    if options.consumer:
        return UserStep(options.consumer, program.load(options.consumer, options.arguments))
    return None if options.consumer_ms is None else TrainingStep(options.consumer_ms)


def _has_lanes(made: object, options: argparse.Namespace) -> bool:
    """Whether the pipeline decodes on a CUDA device, so that `decoder` makes a difference."""
    pipeline = program.make(made, _settings(options))
    try:
        return bool(program.lane_decoders(pipeline)) and program.on_cuda(pipeline)
    finally:
        pipeline.close()


def _check_can_be_written(what: str, file: str | None) -> None:
    """Check that the file can be written, now and not after the measurement."""
    if file is None:
        return
    folder = Path(file).resolve().parent
    if Path(file).is_dir() or not folder.is_dir() or not os.access(folder, os.W_OK):
        raise program.ProgramError(f"{what} {file}: " + ("is a folder" if Path(file).is_dir() else f"cannot write into {folder}"))


def _settings(options: argparse.Namespace) -> dict[str, Any]:
    return {**_own_settings(options), **options.values}


def _own_settings(options: argparse.Namespace) -> dict[str, Any]:
    """The arguments of the pipeline that have an option of their own."""
    values = {"num_threads": options.threads, "batch_size": options.batch_size, "prefetch_queue_depth": options.depth,
              "py_num_workers": options.workers, "engines": options.engines}  # fmt: skip
    return {name: value for name, value in values.items() if value is not None}


def _made(made: object, settings: dict[str, Any], token_file: str | None, token_shared: bool) -> Pipeline:
    """The pipeline, with engines on other machines if `settings` has their addresses."""
    engines = settings.get("engines")
    if not isinstance(engines, list):
        return program.make(made, settings)
    if token_file is None:
        raise program.ProgramError("engines on other machines need --token-file, the secret that they were started with")
    from ..fleet import loader, read_token

    def train(**more: object) -> Pipeline:
        return program.make(made, {**settings, **more})

    try:
        return loader(train, engines=engines, token=read_token(token_file, allow_shared=token_shared)).pipeline
    except (OSError, ValueError) as error:
        raise program.ProgramError(str(error)) from error


def measured(
    made: object, settings: dict[str, Any], options: argparse.Namespace, step: Consumer | None, recorder: TraceRecorder | None = None
) -> Measurement:
    """Build, measure, close."""
    decoder = settings.get("decoder")
    shown = {name: value for name, value in settings.items() if name != "decoder"}
    pipeline = _made(made, shown, options.token_file, options.token_shared)
    engines = settings.get("engines")
    try:
        if decoder is not None:
            program.set_decoder(pipeline, "" if decoder == "default" else decoder)
        shown = {**set_values.shown(options.values), "batch_size": pipeline.max_batch_size, "num_threads": pipeline.num_threads,
                 "prefetch_queue_depth": pipeline.prefetch_queue_depth, "py_num_workers": pipeline.py_num_workers,
                 "engines": ",".join(engines) if isinstance(engines, list) else pipeline.engines,
                 **({} if decoder is None else {"decoder": decoder})}  # fmt: skip
        bar = ProgressBar(options.iterations)
        found = measure(pipeline, options.iterations, shown, step, recorder, bar)
        bar.close()
        return found
    except program.ProgramError:
        raise
    except StopIteration as error:
        raise program.ProgramError("the pipeline has no data: its sources end before the first batch") from error
    except Exception as error:
        raise program.ProgramError(f"the pipeline failed: {summary_of(error, options.pipeline)}") from error
    finally:
        pipeline.close()


def summary_of(error: Exception, target: str) -> str:
    """The error as text. An error of the user's program also gets its type and its location."""
    if isinstance(error, (RuntimeError, ValueError, TypeError, OSError, IndexError)):
        found = str(error)
    else:
        found = f"{type(error).__name__}: {error}"
    file = Path(target.rpartition(":")[0]).resolve()
    lines = [line for name, line in lines_of(error) if Path(name).resolve() == file]
    return f"{found} ({file.name}, line {lines[-1]})" if lines else found


# ---------------------------------------------------------------------------------------------------------------- one measurement


def _run_one(made: object, options: argparse.Namespace, step: Consumer | None) -> str:
    recorder = TraceRecorder() if options.trace or options.report else None
    found = measured(made, _settings(options), options, step, recorder)
    document: dict[str, Any] = {"measurement": found.as_dict()}
    if options.trace:
        assert recorder is not None
        recorder.write(options.trace)
        document["trace"] = options.trace
    if options.report:
        assert recorder is not None
        bench_report.write(options.report, found, recorder, options.pipeline)
        document["report"] = options.report
    if options.vs:
        document["versus"] = versus(made, options.pipeline, _settings(options), options.iterations, options.arguments)
    if options.what_if:
        predicted = what_if.what_if(found)
        document["what_if"] = predicted.as_dict()
    if options.json:
        return json.dumps(document, indent=1)
    lines = [text(found)]
    if options.what_if:
        lines.append(what_if.text(predicted))
    if options.vs:
        lines.append(versus_text(document["versus"]))
    return "\n".join([*lines, *(f"{what}: {document[what]}" for what in ("trace", "report") if what in document)])


def text(found: Measurement) -> str:
    """A measurement as lines for people."""
    low, high = found.spread
    shown = ", ".join(f"{name}={value}" for name, value in found.settings.items())
    lines = [
        f"{found.rate:,.0f} samples/s (quartiles {low:,.0f} to {high:,.0f}); {found.iterations} batches, {shown}",
        f"per sample: {found.processor_seconds / found.samples * 1e6:,.0f} µs of processor time, at most "
        f"{found.interpreter_seconds / found.samples * 1e6:,.1f} µs with the interpreter held",
        f"peak memory {found.peak_memory / 1e6:,.0f} MB",
        sharing_text(found.sharing),
        *kernels_text(found.kernels),
    ]
    for item in found.operators():
        lines.append(f"  {100 * item['share']:5.1f} %  {item['operator']}" + (f"  ({item['name']})" if item["name"] else ""))
    for source in found.statistics["sources"]:
        lines.append(f"  source {source['name']!r}: waited for {source['wait_seconds']:.3f} s of {found.seconds:.3f} s")
    if found.consumer is not None:
        beside = found.consumer
        lines.append(
            f"training step {beside['step']}: {beside['step_beside_ms']:.2f} ms beside the pipeline, "
            f"{beside['step_alone_ms']:.2f} ms alone ({100 * beside['slowdown']:+.0f} %); {beside['stalls']} stalls, "
            f"{100 * beside['stall_share']:.1f} % of the time"
        )
    lines.append(f"bottleneck: {found.sentence}")
    return "\n".join(lines)


def kernels_text(kernels: dict[str, Any]) -> list[str]:
    """Lines about kernels that were missing; none if all were in the cache."""
    lines = []
    if kernels["before"]:
        lines.append(f"{kernels['before']} kernels were missing and were compiled before the measurement ({kernels['seconds']:.1f} s)")
    if kernels["during"]:
        lines.append(f"compiled during the measurement, which slowed it: {', '.join(kernels['during'])}; measure again")
    return lines


def sharing_text(shared: dict[str, Any]) -> str:
    """How much of the processors other programs had, as a line for people."""
    share, missing = 100 * shared["others_share"], shared["others_seconds"]
    how = "estimated, as this system does not count delays" if shared["is_estimated"] else "run delay"
    if share < 1:
        return f"no other program delayed this one (less than 1 % of the processor time it asked for, {how})"
    return f"other programs had {share:.0f} % of the processor time that this one asked for ({missing:.2f} s, {how})"


# ------------------------------------------------------------------------------------------------------------------------- sweep


def _run_sweep(made: object, options: argparse.Namespace, step: Consumer | None) -> str:
    name, values = options.sweep[0]
    rows = []
    for value in values:
        found = measured(made, {**_settings(options), _SWEPT[name]: value}, options, step)
        rows.append({"value": value, **found.as_dict()})
    best = max(rows, key=lambda row: row["samples_per_second"]["median"])
    if options.json:
        return json.dumps({"sweep": name, "rows": rows, "best": best["value"]}, indent=1)
    lines = [f"{name:>12}  samples/s     quartiles           µs/sample  others  bottleneck"]
    for row in rows:
        rate = row["samples_per_second"]
        spread = f"{rate['lower_quartile']:,.0f} to {rate['upper_quartile']:,.0f}"
        mark = "*" if row is best else " "
        used = row["processor_us_per_sample"]
        others = f"{100 * row['sharing']['others_share']:.0f} %"
        lines.append(
            f"{row['value']:>11}{mark}  {rate['median']:>9,.0f}  {spread:>16}  {used:>13,.0f}  {others:>6}  {row['bottleneck']['kind']}"
        )
    return "\n".join([*lines, f"best: {name}={best['value']}; with it: {best['bottleneck']['sentence']}"])


# ------------------------------------------------------------------------------------------------------------ comparison with DALI


def versus(
    made: object, target: str, settings: dict[str, Any], iterations: int, arguments: Sequence[str] = ()
) -> dict[str, Any]:  # fmt: skip
    """The rates of asyncdali and DALI for the same file, measured in turns. {"error": ...} if DALI cannot run the file."""
    file, _, name = target.rpartition(":")
    source = Path(bench_rival.__file__).read_text(encoding="utf-8")
    try:
        given = json.dumps(settings)
    except TypeError:
        shown = ", ".join(f"{name}={value!r}" for name, value in settings.items())
        raise program.ProgramError(f"--vs dali passes numbers, texts and lists to the other process, not {shown}") from None
    child = subprocess.Popen(
        python_command(source, file, name, given, *arguments), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    pipeline = program.make(made, settings)
    try:
        pipeline.build()
        first = _answer(child)
        if "error" in first:
            return first
        per_round = max(2, iterations // _ROUNDS)
        rates: dict[str, list[float]] = {"asyncdali": [], "dali": []}
        for number in range(_ROUNDS + 1):
            for who in ("asyncdali", "dali")[:: 1 if number % 2 else -1]:
                found = bench_rival._run(pipeline, per_round) if who == "asyncdali" else _asked(child, per_round)
                if "error" in found:
                    return found
                if number:  # the first round warms up
                    rates[who].append(found["samples"] / found["seconds"])
        ratio = statistics.median(a / b for a, b in zip(rates["asyncdali"], rates["dali"]))
        return {"rates": rates, "medians": {who: statistics.median(values) for who, values in rates.items()}, "ratio": ratio}
    finally:
        pipeline.close()
        child.kill()
        child.communicate()


def _asked(child: Any, iterations: int) -> dict[str, Any]:
    child.stdin.write(f"{iterations}\n")
    child.stdin.flush()
    return _answer(child)


def _answer(child: Any) -> dict[str, Any]:
    line = child.stdout.readline()
    return json.loads(line) if line else {"error": f"its process ended with status {child.wait()}"}


def versus_text(found: dict[str, Any]) -> str:
    """The comparison as a line for people."""
    if "error" in found:
        return f"DALI could not run it: {found['error']}"
    ours, theirs = found["medians"]["asyncdali"], found["medians"]["dali"]
    return f"asyncdali {ours:,.0f} samples/s, DALI {theirs:,.0f} samples/s: {found['ratio']:.2f} times DALI's, measured in turns"


# ---------------------------------------------------------------------------------------------------------------------- progress


class ProgressBar:
    """A progress line on stderr, at most ten times a second. If stderr is not a terminal, only the last line is printed."""

    def __init__(self, total: int, stream: object = None):
        self._total = total
        self._line = StatusLine(sys.stderr if stream is None else stream)
        self._drawn = 0.0
        self._last = ""

    def __call__(self, done: int, rate: float) -> None:
        filled = 30 * done // self._total
        self._last = f"[{'#' * filled}{'.' * (30 - filled)}] {done}/{self._total}  {rate:,.0f} samples/s"
        now = time.monotonic()
        if now - self._drawn > 0.1:
            self._drawn = now
            self._line.draw(self._last)

    def close(self) -> None:
        """Draw the final state."""
        self._line.end(self._last)
