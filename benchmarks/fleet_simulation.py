"""``python -m benchmarks.fleet_simulation``: many engines on many machines, simulated event by event.

This is a model, not a measurement. Only the service times are measured (``--measure``, kept in ``service_times.json``). The model answers a
question that two cores cannot: which look-ahead, assignment and hedging keep thousands of actors busy although batches are consumed in
order.

Rules of the model:

- A global step has `batch` samples. Each rank takes an equal slice, in requests of `request` samples.
- A rank asks for steps up to `lookahead` ahead of the step that it trains on. All ranks train in step: they exchange gradients.
- Ranks and actors are divided into groups of about 128 actors. Within a group, a table maps the position of a request to an actor. Faster
  actors have more entries. So load is balanced without communication. A new table is made every `learn` seconds.
- An actor makes the request of the earliest step first.
- A request of the awaited step or the next (`urgent`) is sent to a second actor if it takes longer than `hedge_after` times the median.
  The first answer wins. Requests that wait at such a slow actor are sent to a second actor, too.
- The link of each actor and trainer carries one answer at a time.
"""

from __future__ import annotations

import argparse
import heapq
import itertools
import json
import statistics
import sys
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

SERVICE_TIMES = Path(__file__).with_name("service_times.json")


@dataclass(frozen=True)
class Setting:
    """The simulated system. Times are seconds, rates bytes per second."""

    actors: int
    ranks: int
    batch: int
    """Samples of a global step."""
    request: int = 32
    """Samples of a request."""
    threads: int = 4
    """Cores of an actor."""
    lookahead: int = 8
    """Number of steps requested ahead."""
    hedge_after: float = 3.0
    """Multiple of the median answer time after which a second actor gets the request. 0: never."""
    urgent: int = 1
    """Requests of this many steps after the awaited one may be hedged. Later requests have time, and hedging them would only cost work."""
    stragglers: float = 0.0
    """Share of slow actors."""
    slowdown: float = 10.0
    """Factor by which slow actors are slower."""
    mean_life: float = 0.0
    """Mean time until an actor dies. 0: never."""
    restart: float = 5.0
    """Time until a dead actor has restarted."""
    noticed: float = 0.2
    """Time until ranks notice a death."""
    learn: float = 0.25
    """Time between two versions of the table that maps requests to actors."""
    latency: float = 0.0003
    """One-way latency of the network."""
    sample_bytes: int = 224 * 224 * 3
    trainer_link: float = 25e9 / 8
    actor_link: float = 10e9 / 8
    step: float = 0.0
    """Time of a training step. 0: training consumes every batch immediately, so the actors are the limit."""
    steps: int = 100
    seed: int = 0

    def __post_init__(self) -> None:
        if self.batch % (self.ranks * self.request):
            raise ValueError(f"a batch of {self.batch} is no multiple of {self.ranks} ranks times {self.request} samples per request")


@dataclass
class Result:
    """The result of a simulation. Shares are of the time after the first fifth of the steps."""

    seconds: float
    samples_per_second: float
    utilisation: float
    """Work for the samples used in training, as a share of the work that the actors (each at its speed) could have done."""
    links: float
    """Use of the trainers' links. Near 1 the network is the limit."""
    requests_per_second_per_rank: float
    hedged: float
    """Share of the requests that were sent twice."""
    wasted: float
    """Share of the answers that came too late to be used."""
    first: float
    """Seconds from the start (or a resume) to the first step."""
    longest_gap: float
    """Seconds between two steps."""


@dataclass(eq=False)
class _Request:
    rank: int
    step: int
    asked: float
    place: int
    """The request's number within its group."""
    answered: float | None = None
    actors: list[int] = field(default_factory=list)


@dataclass(eq=False)
class _Actor:
    speed: float
    link: float
    """Time at which the actor's link is free."""
    queue: list[tuple[int, int, _Request]] = field(default_factory=list)
    """Requests ordered by step: the step that training needs first comes first."""
    working: _Request | None = None
    alive: bool = True
    life: int = 0
    """Number of deaths. Work begun before a death is lost."""


@dataclass(eq=False)
class _Group:
    """Ranks and the actors that serve them."""

    actors: list[int]
    ranks: int
    table: list[int] = field(default_factory=list)


class Simulation:
    """One run of a `Setting`; `service` is float64[n], seconds of one core for a sample."""

    def __init__(self, setting: Setting, service: np.ndarray):
        self._setting = setting
        self._random = np.random.default_rng(setting.seed)
        picks = self._random.choice(service, (4096, setting.request))
        self._service = (picks.sum(axis=1) / setting.threads).tolist()
        """Seconds that an actor needs for a request."""
        self._mean = statistics.fmean(self._service)
        slow = set(self._random.permutation(setting.actors)[: round(setting.stragglers * setting.actors)].tolist())
        self._actors = [_Actor(1 / setting.slowdown if k in slow else 1.0, 0.0) for k in range(setting.actors)]
        self._links = [0.0] * setting.ranks
        groups = max(1, min(setting.actors // 128, setting.ranks))
        self._groups = [_Group(list(range(g, setting.actors, groups)), -(-(setting.ranks - g) // groups)) for g in range(groups)]
        self._pace = [self._mean] * setting.actors
        """Seconds per request of each actor, estimated from answers."""
        self._latencies = [deque(maxlen=101) for _ in range(setting.ranks)]  # type: ignore[var-annotated]
        self._medians = [4 * self._mean] * setting.ranks
        self._per_step = setting.batch // setting.ranks // setting.request
        self._missing: dict[int, int] = {}
        self._complete: set[int] = set()
        self._events: list[tuple[float, int, Any, tuple[Any, ...]]] = []
        self._order = itertools.count()
        self._now = 0.0
        self._current = 0
        self._training = False
        self._ends: list[float] = []
        self._asked = self._hedges = self._late = self._answers = 0

    # --- events

    def _at(self, when: float, call: Any, *args: Any) -> None:
        heapq.heappush(self._events, (when, next(self._order), call, args))

    def run(self) -> Result:
        """Run until all steps are done."""
        setting = self._setting
        self._learns()
        for rank in range(setting.ranks):
            for step in range(min(setting.lookahead, setting.steps)):
                self._ask_for_step(rank, step)
        if setting.mean_life:
            for k in range(setting.actors):
                self._at(self._random.exponential(setting.mean_life), self._dies, k)
        while len(self._ends) < setting.steps:
            self._now, _, call, args = heapq.heappop(self._events)
            call(*args)
        return self._result()

    # --- ranks

    def _ask_for_step(self, rank: int, step: int) -> None:
        self._missing[step] = self._missing.get(step, 0) + self._per_step
        group = self._groups[rank % len(self._groups)]
        first = (step * group.ranks + rank // len(self._groups)) * self._per_step
        for k in range(self._per_step):
            self._ask(_Request(rank, step, self._now, first + k))
            self._asked += 1

    def _ask(self, request: _Request) -> None:
        """Send a request to the actor that its position selects. A repeated request goes to the fastest of a few other actors."""
        group = self._groups[request.rank % len(self._groups)]
        if not request.actors:
            chosen = group.table[request.place % len(group.table)]
        else:
            some = [group.actors[k] for k in self._random.integers(0, len(group.actors), 4).tolist()]
            chosen = min([k for k in some if k not in request.actors] or some, key=lambda k: self._pace[k])
        request.actors.append(chosen)
        self._at(self._now + self._setting.latency, self._reaches, chosen, request)
        if self._setting.hedge_after and len(request.actors) == 1:
            self._at(self._now + self._setting.hedge_after * self._medians[request.rank], self._hedge, request)

    def _learns(self) -> None:
        """Make a new table.

        The number of entries of an actor is proportional to its speed, and at least one, to keep measuring its speed.
        """
        for group in self._groups:
            fastest = min(self._pace[k] for k in group.actors)
            group.table = [k for turn in range(10) for k in group.actors if turn < max(1, round(10 * fastest / self._pace[k]))]
            for k in group.actors:
                if self._setting.hedge_after and self._pace[k] > self._setting.hedge_after * fastest:
                    self._relieve(k)
        self._at(self._now + self._setting.learn, self._learns)

    def _relieve(self, k: int) -> None:
        """Handle a slow actor: its waiting requests are sent to other actors, too."""
        for _, _, request in self._actors[k].queue:
            if request.answered is None and len(request.actors) == 1:
                self._hedges += 1
                self._ask(request)

    def _hedge(self, request: _Request) -> None:
        if request.answered is not None or len(request.actors) > 1:
            return
        if request.step > self._current + self._setting.urgent:  # the request is not urgent
            self._at(self._now + self._setting.hedge_after * self._medians[request.rank], self._hedge, request)
            return
        self._hedges += 1
        self._ask(request)

    def _answer(self, k: int, request: _Request, took: float) -> None:
        rank = request.rank
        self._answers += 1
        self._pace[k] += 0.3 * (took - self._pace[k])
        if request.answered is not None:
            self._late += 1
            return
        request.answered = self._now
        latencies = self._latencies[rank]
        latencies.append(self._now - request.asked)
        if len(latencies) % 16 == 0:
            self._medians[rank] = statistics.median(latencies)
        step = request.step
        self._missing[step] -= 1
        if self._missing[step] == 0:
            self._complete.add(step)
            self._train()

    def _train(self) -> None:
        if self._training or self._current not in self._complete:
            return
        self._complete.discard(self._current)
        self._training = True
        self._at(self._now + self._setting.step, self._trained)

    def _trained(self) -> None:
        setting = self._setting
        self._training = False
        self._ends.append(self._now)
        new = self._current + setting.lookahead
        self._current += 1
        if new < setting.steps + setting.lookahead:  # requests beyond the last step keep the actors busy to the end
            for rank in range(setting.ranks):
                self._ask_for_step(rank, new)
        self._train()

    # --- actors

    def _reaches(self, k: int, request: _Request) -> None:
        actor = self._actors[k]
        if not actor.alive:
            self._at(self._now + self._setting.noticed, self._lost, k, request)
            return
        heapq.heappush(actor.queue, (request.step, next(self._order), request))
        if actor.working is None:
            self._begins(k)

    def _begins(self, k: int) -> None:
        """The next request of an actor. Requests that another actor has answered were cancelled."""
        actor, latency = self._actors[k], self._setting.latency
        actor.working = None
        while actor.queue:
            _, _, request = heapq.heappop(actor.queue)
            if request.answered is not None and request.answered + latency <= self._now:
                continue
            actor.working = request
            took = self._service[int(self._random.integers(0, len(self._service)))] / actor.speed
            self._at(self._now + took, self._made, k, actor.life, request, took)
            return

    def _made(self, k: int, life: int, request: _Request, took: float) -> None:
        actor, setting = self._actors[k], self._setting
        if actor.life != life:
            return
        size = setting.request * setting.sample_bytes
        actor.link = max(actor.link, self._now) + size / setting.actor_link
        arrives = max(actor.link + setting.latency, self._links[request.rank]) + size / setting.trainer_link
        self._links[request.rank] = arrives
        self._at(arrives, self._answer, k, request, took)
        self._begins(k)

    def _dies(self, k: int) -> None:
        actor, setting = self._actors[k], self._setting
        lost = [*([actor.working] if actor.working is not None else []), *(request for _, _, request in actor.queue)]
        actor.alive, actor.working, actor.life = False, None, actor.life + 1
        actor.queue.clear()
        for request in lost:
            self._at(self._now + setting.noticed, self._lost, k, request)
        self._at(self._now + setting.restart, self._returns, k)

    def _lost(self, k: int, request: _Request) -> None:
        """Handle an actor's death at a rank: its requests go to other actors, and new requests avoid it for a while."""
        self._pace[k] = max(self._pace[k], 20 * self._mean)
        if request.answered is None:
            self._ask(request)

    def _returns(self, k: int) -> None:
        self._actors[k].alive = True
        self._pace[k] = self._mean
        self._at(self._now + self._random.exponential(self._setting.mean_life), self._dies, k)

    # --- result

    def _result(self) -> Result:
        setting, ends = self._setting, self._ends
        warm = setting.steps // 5
        steady = ends[-1] - ends[warm - 1]
        requests = (setting.steps - warm) * self._per_step * setting.ranks
        capacity = sum(actor.speed for actor in self._actors) * steady
        return Result(
            seconds=ends[-1],
            samples_per_second=requests * setting.request / steady,
            utilisation=requests * self._mean / capacity,
            links=requests * setting.request * setting.sample_bytes / setting.ranks / setting.trainer_link / steady,
            requests_per_second_per_rank=requests / setting.ranks / steady,
            hedged=self._hedges / self._asked,
            wasted=self._late / max(1, self._answers),
            first=ends[0],
            longest_gap=max(after - before for before, after in zip(ends[warm - 1 :], ends[warm:])),
        )


def service_times() -> np.ndarray:
    """Seconds of one core per sample of the training pipeline, as float64[n], measured by ``--measure``."""
    return np.array(json.loads(SERVICE_TIMES.read_text())["seconds"])


def measure(folder: str | None, samples: int = 1000) -> dict[str, Any]:
    """Measure service times here: thread time of the training pipeline, sample by sample."""
    import asyncdali

    from .harness import environment
    from .pictures import picture_folder
    from .programs import training

    pipe = training(asyncdali, picture_folder(folder), batch=1, threads=1, exec_async=False, exec_pipelined=False)
    for _ in range(20):
        pipe.run()
    seconds = []
    for _ in range(samples):
        before = time.process_time()
        pipe.run()
        seconds.append(time.process_time() - before)
    pipe.close()
    found = environment()
    return {"cpu": found["cpu"], "date": found["date"], "seconds": sorted(round(value, 6) for value in seconds)}


SIZES = ((10, 8), (100, 8), (100, 64), (1000, 512), (10_000, 4096))
FAULTS: tuple[tuple[str, dict[str, float]], ...] = (
    ("no faults", {}),
    ("1 % slow, no hedging", {"stragglers": 0.01, "hedge_after": 0.0}),
    ("1 % slow", {"stragglers": 0.01}),
    ("1 % slow, lives of 10 minutes", {"stragglers": 0.01, "mean_life": 600.0}),
)
"""The faults of each table."""


def table(sizes: Sequence[tuple[int, int]], service: np.ndarray, steps: int) -> list[tuple[str, Setting, Result]]:
    """All sizes under all faults."""
    rows = []
    for name, faults in FAULTS:
        for actors, ranks in sizes:
            setting = Setting(actors, ranks, 256 * ranks, steps=steps)
            setting = replace(setting, **faults)  # type: ignore[arg-type]
            rows.append((name, setting, Simulation(setting, service).run()))
    return rows


def printed(rows: Sequence[tuple[str, Setting, Result]]) -> str:
    """The rows as a Markdown table."""
    lines = [
        "| faults | actors | ranks | batch | utilisation | links | samples/s | requests/s per rank | hedged | late "
        "| first step, s | longest gap, s |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, setting, result in rows:
        lines.append(
            f"| {name} | {setting.actors:,} | {setting.ranks:,} | {setting.batch:,} | {result.utilisation:.1%} | {result.links:.0%} | "
            f"{result.samples_per_second:,.0f} | {result.requests_per_second_per_rank:,.0f} | "
            f"{result.hedged:.1%} | {result.wasted:.1%} | "
            f"{result.first:.2f} | {result.longest_gap:.2f} |"
        )
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fleet_simulation", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--measure", action="store_true", help="measure the service times first")
    parser.add_argument("--data", help="folder of class folders with JPEGs, for --measure")
    parser.add_argument("--actors", type=int, help="one size only, with --ranks")
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--steps", type=int, default=100)
    options = parser.parse_args(argv)
    if options.measure:
        SERVICE_TIMES.write_text(json.dumps(measure(options.data)) + "\n")
    service = service_times()
    mean, median, largest = (1e3 * float(of(service)) for of in (np.mean, np.median, np.max))
    print(f"{mean:.2f} ms of one core per sample (median {median:.2f}, largest {largest:.2f})")
    sizes = SIZES if options.actors is None else ((options.actors, options.ranks),)
    print(printed(table(sizes, service, options.steps)))


if __name__ == "__main__":
    main(sys.argv[1:])
