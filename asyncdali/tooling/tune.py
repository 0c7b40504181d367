"""``asyncdali tune FILE.py:pipeline`` tries settings that do not change the stream of batches, and names the fastest.

The knobs are ``num_threads``, ``prefetch_queue_depth``, ``py_num_workers`` (with parallel sources) and ``engines``. A round goes through
the knobs in the order of their predicted gain (:mod:`.what_if`) and moves each up or down as long as that gains 2 %. If none of them
moves, several stations may limit the rate together: then the knobs are moved up together that are predicted to gain.
A candidate and the best settings so far are measured in turns, because other programs' load changes with time.

Two turns are not exact, and gains below 2 % add up. So the settings that came near to the best, and one with all their changes, then
race: they are measured in more turns. If one gains 1 %, the rounds continue from there.

The first batches of every candidate must equal those of the first settings, bit for bit.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import hashlib
import itertools
import json
import math
import os
import statistics
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from . import bench, machine, program, what_if
from . import settings as set_values
from .bench_consumer import Consumer
from .measure import Measurement

if TYPE_CHECKING:
    from .commands import Commands

_ITERATIONS = 60
_SECONDS = 0.5
"""A measurement has this many iterations and takes this long, because the rates of shorter ones differ by more than 2 %."""
_GAIN = 1.02
"""A candidate is taken if it is faster by this factor."""
_TURNS = 2
_SURE = 1.06
"""A smaller gain is measured in as many turns again: of many candidates that gain nothing, some seem to gain in two turns."""
_STAGES = (3, 3, 6)
"""The turns of a race. The faster half of the candidates stays after each stage."""
_RACERS, _NEAR = 6, 0.85
"""So many candidates start a race. They reached this part of the rate of the best settings."""
_SMALL = 1.01
"""The winner of a race is taken if it is faster by this factor, and by half of the standard error."""
_RACES = 4
"""So many races at most: among settings that are equally fast, noise would name new winners."""
_SHARED = 0.1
_JOINT = 3
_COMPARED = 3
"""The number of batches that are compared."""
_KNOBS = ("num_threads", "prefetch_queue_depth", "py_num_workers", "engines")
_COMPUTING, _WAITING = 2, 16
"""Threads for each processor that are tried at most, where they compute, and where they mostly wait for storage."""
_LADDER = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)

Settings = dict[str, Any]


def add_arguments(commands: Commands) -> None:
    """Add the command to the command line's parser."""
    parser = commands.add_parser("tune", help="find the fastest num_threads, prefetch_queue_depth, py_num_workers and engines")
    parser.add_argument("pipeline", metavar="FILE.py:pipeline", help="a function made by @pipeline_def, or one that returns a Pipeline")
    parser.add_argument("--iterations", type=bench.count, help="batches of one measurement (default: 60, and at least half a second)")
    parser.add_argument("--engines", type=bench.count_or_none, default=2, metavar="N", help="the largest number tried (default: 2)")
    set_values.add_argument(parser)
    parser.add_argument("--consumer-ms", type=bench.milliseconds, metavar="N", help="beside a training step of N ms of pure Python")
    parser.add_argument("--consumer", metavar="FILE.py:step", help="beside your training step, called with the outputs of each batch")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command and return the exit status."""
    if options.consumer and options.consumer_ms is not None:
        print("tune: --consumer and --consumer-ms are two training steps: give one", file=sys.stderr)
        return 2
    try:
        for name in ("pipeline", "consumer"):
            if getattr(options, name) is not None:
                setattr(options, name, os.path.abspath(getattr(options, name)))
        with program.output_apart() if options.json else contextlib.nullcontext():
            made = program.load(options.pipeline, options.arguments)
            options.values = set_values.settings_of(made, options.set, dict.fromkeys(_KNOBS))
            options.token_file, options.token_shared = None, False
            found = Tuning(made, options, bench.step_of(options)).search()
        print(json.dumps(found.as_dict(), indent=1) if options.json else text(found))
        return 0
    except program.ProgramError as error:
        print(f"tune: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("tune: interrupted", file=sys.stderr)
        return 130  # the exit status of shells for Ctrl-C


@dataclass
class Tried:
    """One candidate: its settings, its rate as a factor of the best settings of that time, whether it was `taken`; or why it failed.

    `turns`: how often it was measured beside the best settings.
    """

    settings: Settings
    factor: float = 0.0
    taken: bool = False
    refused: str = ""
    turns: int = 0


@dataclass
class Tuned:
    """The result: the settings at the start and the best ones, their samples per second measured in turns, and all candidates."""

    start: Settings
    best: Settings
    rates: tuple[float, float] = (0.0, 0.0)
    tried: list[Tried] = field(default_factory=list)
    is_compared: bool = True
    others: float = 0.0
    """The largest part of the wanted processor time that other programs had during a measurement."""

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "start": self.start, "best": self.best, "samples_per_second": {"start": self.rates[0], "best": self.rates[1]},
            "stream_is_compared": self.is_compared, "others_share": self.others, "tried": [vars(item) for item in self.tried],
        }  # fmt: skip


class Tuning:
    """A search over the settings of the pipeline that `made` makes."""

    def __init__(self, made: object, options: argparse.Namespace, step: Consumer | None):
        self._made = made
        self._options = options
        self._step = step
        self._iterations: int | None = options.iterations
        self._digests: list[str] | None = None
        self._others = 0.0
        self._rated: dict[tuple[Any, ...], tuple[Settings, float]] = {}
        """The settings that were measured, and their rate as a factor of the start's."""
        self._raced: set[tuple[Any, ...]] = set()
        self._most = {"num_threads": _COMPUTING * machine.cores(), "prefetch_queue_depth": 16, "py_num_workers": 4 * machine.cores(),
                      "engines": options.engines}  # fmt: skip

    def search(self) -> Tuned:
        """Turn the knobs until none of them gains, and measure the result beside the start."""
        first = self._measure({})
        self._most["num_threads"] = self._most_threads(first)
        best = {name: first.settings[name] for name in _KNOBS}
        found = Tuned(dict(best), best)
        self._digests = self._first_batches(best)
        if self._digests != self._first_batches(best):
            self._digests, found.is_compared = None, False
        self._rated[_key(best)] = best, 1.0
        for _ in range(_RACES):
            self._climb(found, first)
            better = self._race(found)
            if better is None:
                break
            first = better
        before, after = self._in_turns([found.start, found.best], _STAGES[0])
        rate = statistics.median(map(_rate, before))
        found.others = self._others
        found.rates = rate, rate * (_factor(before, after) if found.start != found.best else 1.0)
        return found

    def _climb(self, found: Tuned, last: Measurement) -> None:
        """Turn knobs until none gains. `last` is a measurement of the best settings."""
        moved = True
        while moved:
            moved = False
            for name in self._order(last):
                while (better := self._taken(found, self._moves(last, found.best, name))) is not None:
                    last, moved = better, True
            if not moved and (better := self._taken(found, self._together(last, found.best))) is not None:
                last, moved = better, True

    def _race(self, found: Tuned) -> Measurement | None:
        """Measure the candidates that came near to the best in more turns. Returns a measurement of the winner, or None: the best stays."""
        _, reached = self._rated[_key(found.best)]
        near = [(factor, settings) for settings, factor in self._rated.values()
                if factor >= _NEAR * reached and settings != found.best and _key(settings) not in self._raced]  # fmt: skip
        racers = [settings for _, settings in sorted(near, key=lambda item: -item[0])[:_RACERS]]
        racers += self._all_changes(found, racers)
        if not racers:
            return None
        best: list[Measurement] = []
        measured: list[list[Measurement]] = [[] for _ in racers]
        racing = list(range(len(racers)))
        for turns in _STAGES:
            first, *others = self._in_turns([found.best, *(racers[k] for k in racing)], turns)
            best += first
            for k, items in zip(racing, others):
                measured[k] += items
            racing = sorted(racing, key=lambda k: -_factor(best, measured[k]))[: (len(racing) + 1) // 2]
            if _factor(best, measured[racing[0]]) + 2 * _error(best, measured[racing[0]]) < _SMALL:
                break  # the turns agree that none gains
        tried = [Tried(settings, _factor(best, items), turns=len(items)) for settings, items in zip(racers, measured)]
        found.tried += tried
        for item in tried:
            self._raced.add(_key(item.settings))
            self._rated[_key(item.settings)] = item.settings, reached * item.factor
        winner = racing[0]
        if tried[winner].factor < max(_SMALL, 1 + _error(best, measured[winner]) / 2):
            return None
        tried[winner].taken = True
        found.best = racers[winner]
        return measured[winner][-1]

    def _all_changes(self, found: Tuned, racers: list[Settings]) -> list[Settings]:
        """The best settings with the changes of all racers, each of which may gain too little to be seen alone."""
        changes: Settings = {}
        for settings in reversed(racers):  # the fastest last
            differing = [name for name in _KNOBS if settings[name] != found.best[name]]
            if len(differing) == 1:
                changes[differing[0]] = settings[differing[0]]
        joint = _with(found.best, changes)
        if len(changes) < 2 or _key(joint) in self._rated or not self._keeps_the_stream(found, joint):
            return []
        return [joint]

    def _order(self, last: Measurement) -> list[str]:
        """The knobs that this pipeline has, largest predicted gain first."""
        rows = what_if.what_if(last).rows
        names = list(dict.fromkeys(row.name for row in rows if row.name in _KNOBS))
        return [name for name in [*names, *(name for name in _KNOBS if name not in names)]
                if name != "py_num_workers" or last.statistics["workers"] is not None]  # fmt: skip

    def _most_threads(self, last: Measurement) -> int:
        """The largest number of threads that is tried. Threads that wait for storage need no processor."""
        need = what_if.demands(last)
        return (_WAITING if need.waiting > need.computing else _COMPUTING) * machine.cores()

    def _moves(self, last: Measurement, best: Settings, name: str) -> Iterator[Settings]:
        """One knob up, further up if the prediction says that it gains, and down."""
        values = list(self._neighbours(name, best[name]))
        higher = [_with(best, {name: value}) for value in _LADDER if max([best[name], *values]) < value <= self._most[name]]
        gains = [self._predicted(last, best, settings) for settings in higher]
        for value in values:
            if value > best[name]:
                yield _with(best, {name: value})
        if gains and max(gains) >= _GAIN:  # the next step may gain nothing: 12 threads read 16 files in as many rounds as 8
            yield higher[gains.index(max(gains))]
        for value in values:
            if value < best[name]:
                yield _with(best, {name: value})

    def _together(self, last: Measurement, best: Settings) -> list[Settings]:
        """Settings with two or more knobs raised, of those with a predicted gain the three best."""
        ups = {name: [value for value in self._neighbours(name, best[name]) if value > best[name]] for name in self._order(last)}
        ups = {name: values[-1:] for name, values in ups.items() if values}
        found = [
            _with(best, {name: ups[name][0] for name in names})
            for count in range(2, len(ups) + 1) for names in itertools.combinations(ups, count)
        ]  # fmt: skip
        gains = [(self._predicted(last, best, settings), settings) for settings in found]
        return [settings for gain, settings in sorted(gains, key=lambda item: -item[0]) if gain >= _GAIN][:_JOINT]

    def _predicted(self, last: Measurement, best: Settings, settings: Settings) -> float:
        need, now = what_if.demands(last), what_if.knobs(last)
        then = dataclasses.replace(now, threads=settings["num_threads"], depth=settings["prefetch_queue_depth"],
                                   workers=settings["py_num_workers"], engines=settings["engines"])  # fmt: skip
        return need.measured / what_if.seconds(need, now, then)

    def _taken(self, found: Tuned, candidates: Iterable[Settings]) -> Measurement | None:
        """Try candidates until one gains; its measurement, or None."""
        for candidate in candidates:
            if _key(candidate) in self._rated or not self._keeps_the_stream(found, candidate):
                continue
            try:
                before, after = self._in_turns([found.best, candidate], _TURNS)
                if _factor(before, after) >= _GAIN and min(_factors(before, after)) < _SURE:
                    again = self._in_turns([found.best, candidate], _TURNS)
                    before, after = before + again[0], after + again[1]
            except program.ProgramError as error:
                self._refuse(found, candidate, error)
                continue
            tried = Tried(candidate, _factor(before, after), turns=len(after))
            found.tried.append(tried)
            self._rated[_key(candidate)] = candidate, tried.factor * self._rated[_key(found.best)][1]
            if tried.factor >= _GAIN:
                tried.taken = True
                found.best = candidate
                return after[-1]
        return None

    def _refuse(self, found: Tuned, candidate: Settings, error: program.ProgramError) -> None:
        self._rated[_key(candidate)] = candidate, 0.0
        found.tried.append(Tried(candidate, refused=str(error)))

    def _keeps_the_stream(self, found: Tuned, candidate: Settings) -> bool:
        try:
            self._check_stream(candidate)
        except program.ProgramError as error:
            self._refuse(found, candidate, error)
            return False
        return True

    def _neighbours(self, name: str, value: int) -> Iterator[int]:
        """The next value up, and down. One engine gains little where two do, so all numbers of engines are tried."""
        least, most = (0 if name == "engines" else 1), self._most[name]
        steps = [step for step in (0, *_LADDER) if least <= step <= most]
        up = [step for step in steps if step > value]
        yield from up if name == "engines" else up[:1]
        yield from [step for step in steps if step < value][-1:]

    def _in_turns(self, every: list[Settings], turns: int) -> list[list[Measurement]]:
        """Measurements of several settings, one of each in a turn. Every second turn has the reverse order, against trends."""
        found: list[list[Measurement]] = [[] for _ in every]
        for turn in range(turns):
            for place in sorted(range(len(every)), reverse=turn % 2 == 1):
                found[place].append(self._measure(every[place]))
        return found

    def _measure(self, settings: Settings) -> Measurement:
        iterations = _ITERATIONS if self._iterations is None else self._iterations
        options = argparse.Namespace(**{**vars(self._options), "iterations": iterations})
        found = bench.measured(self._made, {**self._options.values, **settings}, options, self._step)
        if self._iterations is None:
            self._iterations = max(_ITERATIONS, math.ceil(_SECONDS / found.seconds * _ITERATIONS))
        self._others = max(self._others, found.sharing["others_share"])
        return found

    def _check_stream(self, settings: Settings) -> None:
        if self._digests is None:
            return
        if self._first_batches(settings) != self._digests:
            raise program.ProgramError(
                f"the batches are others with {_shown(settings)}: a source or function of the program is no function of its position "
                "(asyncdali verify names it)"
            )

    def _first_batches(self, settings: Settings) -> list[str]:
        """Digests of the first batches."""
        pipeline = program.make(self._made, {**self._options.values, **settings})
        try:
            pipeline.build()
            return [_digest(pipeline.run()) for _ in range(_COMPARED)]
        except StopIteration:
            return []
        except Exception as error:
            raise program.ProgramError(f"the pipeline failed: {bench.summary_of(error, self._options.pipeline)}") from error
        finally:
            pipeline.close()


def _rate(found: Measurement) -> float:
    return found.samples / found.seconds


def _factors(before: list[Measurement], after: list[Measurement]) -> list[float]:
    """The gain of each turn. Both rates were measured one after the other, so a load that changes slowly cancels out."""
    return [_rate(late) / _rate(early) for early, late in zip(before, after)]


def _factor(before: list[Measurement], after: list[Measurement]) -> float:
    return statistics.median(_factors(before, after))


def _error(before: list[Measurement], after: list[Measurement]) -> float:
    """The standard error of a median gain, from the quartiles of the turns."""
    low, _, high = statistics.quantiles(_factors(before, after), n=4)
    return 1.25 * (high - low) / 1.35 / math.sqrt(len(before))


def _digest(outputs: Any) -> str:
    found = hashlib.sha256()
    for output in outputs:
        for sample in output.as_cpu():
            array = np.ascontiguousarray(sample)
            found.update(f"{array.dtype.str}{array.shape}".encode())
            found.update(array.tobytes())
    return found.hexdigest()


def _with(best: Settings, changes: Settings) -> Settings:
    """Other settings; engines need a deeper queue than their number."""
    changed = {**best, **changes}
    if "engines" in changes:
        changed["prefetch_queue_depth"] = max(changed["prefetch_queue_depth"], changed["engines"] + 1)
    return changed


def _key(settings: Settings) -> tuple[Any, ...]:
    return tuple(settings[name] for name in _KNOBS)


def _shown(settings: Settings) -> str:
    return ", ".join(f"{name}={value}" for name, value in settings.items())


def text(found: Tuned) -> str:
    """The result as lines for people."""
    lines = []
    for item in found.tried:
        gain = f"x {item.factor:.2f}{' taken' if item.taken else ''} ({item.turns} turns)"
        lines.append(f"  {_shown(item.settings)}: {f'refused: {item.refused}' if item.refused else gain}")
    if not found.is_compared:
        lines.append("the batches differ from run to run (a pipeline without a seed?), so the stream was not compared")
    if found.others >= _SHARED:
        lines.append(f"other programs had up to {100 * found.others:.0f} % of the processor time: the factors are not exact")
    before, after = found.rates
    if found.best == found.start:
        return "\n".join([*lines, f"no other setting gains 2 %: {_shown(found.best)} ({before:,.0f} samples/s)"])
    return "\n".join([*lines, f"{before:,.0f} -> {after:,.0f} samples/s, x {after / before:.2f}: {_shown(found.best)}"])
