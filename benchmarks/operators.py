"""Every CPU operator beside DALI, in turns: processor time per sample with one worker thread, without the cost of feeding.

    python -m benchmarks.operators [--only NAME,NAME] [--families FAMILY,FAMILY] [--rounds 5] [--seconds 0.08] [--json FILE] [--list]

Each library runs two pipelines: one with inputs only (``external_source`` without a copy), and one that also has the operator.
Blocks of iterations run in turns, and the processor time of the process (all threads) is measured for each. The operator's time is the
median of the differences. Short operators occur several times in the pipeline, each with its own inputs, so that neither library can merge
them. Values below the resolution of 0.1 us per sample count as 0.1 us.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
import time
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from .cases import libraries
from .harness import Table, environment
from .operator_cases import CASES, NOT_HERE, Case
from .operator_inputs import batch_of

RESOLUTION = 0.1  # us per sample
_NOTHING = np.zeros((64, 1), np.int32)


def _feed(lib: Any, kind: str) -> Any:
    made = batch_of(kind)
    return lib.fn.external_source(source=lambda: made.data, batch=True, no_copy=True, layout=made.layout or None, preserve=True)


def _pipeline(lib: Any, case: Case, working: bool) -> Any:
    """The pipeline of a case. If not `working`, the pipeline that only feeds."""
    batch = len(batch_of(case.inputs[0]).data) if case.inputs else case.batch
    pipeline = lib.Pipeline(batch_size=batch, num_threads=1, device_id=None, seed=11, prefetch_queue_depth=1)
    with pipeline:
        # Fed data must not be an output: both libraries would copy it for the user.
        outputs: list[Any] = [lib.fn.external_source(source=lambda: _NOTHING[:batch], batch=True, no_copy=True)]
        for _ in range(case.copies):
            fed = [_feed(lib, kind) for kind in case.inputs]
            if working:
                made = case.graph(lib, *fed)
                outputs += made if isinstance(made, (list, tuple)) else [made]
        pipeline.set_outputs(*outputs)
    pipeline.build()
    return pipeline


@dataclass
class _Side:
    """The two pipelines of one library."""

    pipelines: list[Any]
    batch: int
    copies: int
    iterations: int = 0

    def calibrate(self, seconds: float) -> None:
        """Run each pipeline a few times, then choose the number of iterations per block."""
        for pipeline in self.pipelines:
            for _ in range(2):
                pipeline.run()
        start, count = time.perf_counter(), 0
        while count < 1 or time.perf_counter() - start < seconds / 4:
            self.pipelines[-1].run()
            count += 1
        self.iterations = max(1, round(count * seconds / max(time.perf_counter() - start, 1e-9)))

    def block(self) -> float:
        """Processor time of the operator per sample, us."""
        times = []
        for pipeline in self.pipelines:
            _settle()
            pipeline.run()
            start = time.process_time()
            for _ in range(self.iterations):
                pipeline.run()
            times.append(time.process_time() - start)
        return (times[1] - times[0]) / self.iterations / self.batch / self.copies * 1e6


def _settle() -> None:
    """Wait until no thread of this process works. DALI's readers prepare another batch after a block; it would count in the next block."""
    worked = 1.0
    while worked > 0.001:
        before = time.process_time()
        time.sleep(0.01)
        worked = time.process_time() - before


def _batch(case: Case) -> int:
    return len(batch_of(case.inputs[0]).data) if case.inputs else case.batch


def _side(lib: Any, case: Case, seconds: float) -> _Side:
    pipelines = [_pipeline(lib, case, working) for working in (False, True)]
    side = _Side(pipelines, _batch(case), case.copies)
    side.calibrate(seconds)
    return side


def measure(case: Case, libs: dict[str, Any], rounds: int, seconds: float) -> list[float]:
    """Microseconds per sample of each library, in turns."""
    sides = [_side(lib, case, seconds) for lib in libs.values()]
    found: list[list[float]] = [[] for _ in sides]
    for number in range(rounds):
        for k in range(len(sides))[:: 1 if number % 2 == 0 else -1]:
            found[k].append(sides[k].block())
    for side in sides:
        for pipeline in side.pipelines:
            if hasattr(pipeline, "close"):
                pipeline.close()
    return [max(statistics.median(values), RESOLUTION) for values in found]


def geometric_mean(values: list[float]) -> float:
    return math.exp(statistics.fmean(math.log(value) for value in values))


def tables(rows: list[tuple[str, str, float, float]]) -> list[Table]:
    """The whole table, the geometric mean by family, the worst ten."""
    whole = Table("operators, us of processor time per sample", ["case", "family", "asyncdali", "DALI", "DALI / ours"])
    families: dict[str, list[float]] = {}
    for name, family, ours, theirs in rows:
        whole.add(name, family, ours, theirs, theirs / ours)
        families.setdefault(family, []).append(theirs / ours)
    means = Table("geometric mean of DALI / ours", ["family", "cases", "mean", "worst"])
    for family, ratios in families.items():
        means.add(family, len(ratios), geometric_mean(ratios), min(ratios))
    every = [ratio for ratios in families.values() for ratio in ratios]
    means.add("all", len(every), geometric_mean(every), min(every))
    worst = Table("the worst ten", ["case", "asyncdali", "DALI", "DALI / ours"])
    for name, _, ours, theirs in sorted(rows, key=lambda row: row[3] / row[2])[:10]:
        worst.add(name, ours, theirs, theirs / ours)
    return [whole, means, worst]


def _uncovered() -> list[str]:
    """CPU operators of the registry without a case."""
    from asyncdali.operators import load_registry

    covered = {name for case in CASES for name in case.operators} | set(NOT_HERE)
    return sorted(name for name, kind in load_registry().items() if "cpu" in kind.schema.devices and name not in covered)


def _chosen(only: str, families: str) -> list[Case]:
    names, kinds = [part for part in only.split(",") if part], [part for part in families.split(",") if part]
    chosen = [case for case in CASES if (not names or any(name in case.name for name in names)) and (not kinds or case.family in kinds)]
    if not chosen:
        raise SystemExit(f"no case has --only {only!r} in its name and is of --families {families!r}; --list lists all cases")
    return chosen


def _kept(path: str) -> list[tuple[str, str, float, float]]:
    """Rows that earlier runs wrote to the file."""
    if not os.path.exists(path):
        return []
    with open(path) as file:
        return [tuple(row) for row in json.load(file)["rows"]]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.operators", description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="cases with one of these in their names")
    parser.add_argument("--families", default="", help=f"of {', '.join(dict.fromkeys(case.family for case in CASES))}")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.08, help="per block: one block of each pipeline per round")
    parser.add_argument("--json", default="", help="rows are written here; those of earlier calls stay and are printed, too")
    parser.add_argument("--list", action="store_true", help="list the cases and the operators that have none")
    options = parser.parse_args()
    if options.list:
        for case in CASES:
            print(f"{case.family:12}{case.name}")
        for name, why in NOT_HERE.items():
            print(f"not here: {name} ({why})")
        print("without a case:", ", ".join(_uncovered()) or "none")
        return
    os.environ.setdefault("ASYNCDALI_DEVICE", "host")
    # With an empty kernel cache, decoders of JPEG and PNG would be measured while another process compiles them, and others do their work.
    os.environ.setdefault("ASYNCDALI_COMPILE_AHEAD", "0")
    warnings.filterwarnings("ignore", "WARNING: ")
    libs = libraries()
    if "DALI" not in libs:
        raise SystemExit("this benchmark compares with DALI, which is not installed: pip install -e '.[parity]'")
    info = environment()
    print(f"{info['date']}  {info['cpu']}  {info['cores']} cores  load {info['load']:.2f}  python {info['python']}")
    rows = {row[0]: row for row in _kept(options.json)} if options.json else {}
    for case in _chosen(options.only, options.families):
        try:
            ours, theirs = measure(case, libs, options.rounds, options.seconds)
        except Exception as error:  # a library that is missing for one case must not stop the others
            print(f"  {case.name}: not measured: {type(error).__name__}: {str(error).splitlines()[0]}", file=sys.stderr)
            continue
        rows[case.name] = (case.name, case.family, ours, theirs)
        print(f"  {case.name:44}{ours:12,.1f}{theirs:12,.1f}{theirs / ours:8.2f}", flush=True)
    order = {case.name: k for k, case in enumerate(CASES)}
    found = sorted(rows.values(), key=lambda row: order.get(row[0], len(order)))
    if options.json:
        os.makedirs(os.path.dirname(os.path.abspath(options.json)), exist_ok=True)
        with open(options.json, "w") as file:
            json.dump({"environment": info, "rows": found}, file, indent=1)
    for table in tables(found):
        table.print()


if __name__ == "__main__":
    main()
