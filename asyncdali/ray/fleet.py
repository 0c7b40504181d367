"""The user's handle of a fleet. It may be pickled, so one process makes the fleet and others use it."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from ..fleet.metrics import actor_metrics, trainer_metrics
from .manager import Manager

NAMESPACE = "asyncdali"
_OWN_OPTIONS = {"max_concurrency", "max_restarts", "num_cpus", "num_gpus", "resources"}


class Fleet:
    """Engines on the nodes of a Ray cluster, for all ranks of one training.

    A fleet makes the batches of one pipeline: that of the first loader. It ends with :meth:`close`. A fleet without a name also ends
    with the process that made it, and when the fleet, its loaders and their pipelines are dropped.

    Args:
        actors: the number of engines, or (least, most): the number then follows the time that trainers wait.
        spares: further engines, which are built and wait. One of them takes the place of an engine that has ended, without delay.
        resources: what one engine needs of its node. ``"CPU"`` is also the number of its threads.
        lookahead: iterations that each rank requests ahead (``prefetch_queue_depth`` of its pipeline).
        hedge_after: the request of an iteration is also sent to a second engine, if the first has not answered after this multiple of the
            median time. None: never.
        name: processes that give the same name use the same fleet. The first one makes it, with its arguments. A named fleet lives until
            :meth:`close`.
        start_timeout: seconds that a loader waits for the first engine.
        actor_options: further options of Ray for the engines (``runtime_env``, ``scheduling_strategy``). Engines are spread over the nodes
            by default.

    Raises:
        ValueError, TypeError: an argument is wrong.

    ::

        fleet = Fleet(actors=(2, 64), resources={"CPU": 4})
        with loader(train, fleet=fleet, rank=r, world_size=R) as batches:
            for images, labels in batches:
                ...
        print(fleet.statistics())
    """

    def __init__(
        self,
        actors: int | tuple[int, int] = 1,
        *,
        spares: int = 0,
        resources: Mapping[str, float] | None = None,
        lookahead: int = 16,
        hedge_after: float | None = 3.0,
        name: str | None = None,
        start_timeout: float = 300.0,
        actor_options: Mapping[str, object] | None = None,
    ):
        self.least, self.most = _limits(actors)
        resources = _checked_resources(resources)
        if operator.index(spares) < 0:
            raise ValueError(f"spares={spares} must be at least 0")
        if operator.index(lookahead) < 1:
            raise ValueError(f"lookahead={lookahead} must be at least 1 iteration")
        if not start_timeout > 0:
            raise ValueError(f"start_timeout={start_timeout!r} must be a number of seconds above 0")
        self.lookahead, self.hedge_after, self.name, self.start_timeout = int(lookahead), hedge_after, name, float(start_timeout)
        self.threads = int(resources["CPU"]) if resources.get("CPU", 0) >= 1 else None
        if not ray.is_initialized():
            ray.init()
        # Not soft: on a busy node Ray would place the manager elsewhere, and the loss of that node would end the fleet.
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        shared = {} if name is None else {"name": name, "namespace": NAMESPACE, "get_if_exists": True, "lifetime": "detached"}
        manager: Any = ray.remote(Manager).options(num_cpus=0, max_concurrency=1000, scheduling_strategy=here, **shared)
        self.manager = manager.remote(self.least, self.most, operator.index(spares), _engine_options(resources, actor_options))
        self.manager.prepare.remote()

    def scale(self, count: int) -> None:
        """Make `count` the number of engines, in the background. ValueError outside the limits of a fleet that scales itself."""
        count = operator.index(count)
        if count < 1 or (self.least != self.most and not self.least <= count <= self.most):
            limits = "at least 1" if self.least == self.most else f"{self.least} to {self.most}"
            raise ValueError(f"scale({count}): the fleet can have {limits} engines")
        answer(self.manager.scale.remote(count))

    def wait(self, timeout: float = 300.0) -> None:
        """Wait until the wanted engines are ready. They are ready after the first loader was made. RuntimeError after `timeout` seconds."""
        answer(self.manager.settle.remote(timeout))

    def statistics(self) -> dict[str, Any]:
        """The fleet as data.

        ``wanted``: the number of engines. ``node``: Ray's number of the node that the manager is on. ``engines``: for each its address,
        node, process, state and work, by rank. ``trainers``: for each rank its iterations, the part of its time that it waited, and what
        each engine did for it. ``failures``: the last failures, as text.
        """
        found: dict[str, Any] = answer(self.manager.statistics.remote())
        return found

    def metrics(self) -> str:
        """:meth:`statistics` as text for Prometheus."""
        found = self.statistics()
        texts = [_fleet_metrics(found)]
        texts += [actor_metrics(engine["address"], engine) for engine in found["engines"] if "ranks" in engine]
        texts += [trainer_metrics(report["rank"], report["engines"]) for report in found["trainers"]]
        return merged(texts)

    def close(self) -> None:
        """End all engines. Idempotent."""
        if not ray.is_initialized():
            return
        try:
            answer(self.manager.stop.remote())
        except ray.exceptions.RayActorError:
            return  # the manager has already ended
        ray.kill(self.manager)

    def __enter__(self) -> Fleet:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def answer(reference: object) -> Any:
    """The result of a call of the manager, or its error without the stack of the other process."""
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        cause = error.cause
    raise cause


# --- arguments


def _limits(actors: object) -> tuple[int, int]:
    pair = (actors, actors) if not isinstance(actors, (tuple, list)) else tuple(actors)
    if len(pair) != 2:
        raise ValueError(f"actors={actors!r} must be a number of engines, or (least, most)")
    least, most = map(operator.index, pair)
    if not 1 <= least <= most:
        raise ValueError(f"actors={actors!r}: least must be at least 1 and at most most")
    return least, most


def _checked_resources(resources: Any) -> dict[str, float]:
    found = {"CPU": 1} if resources is None else dict(resources)
    wrong = {name: value for name, value in found.items() if not isinstance(name, str) or not value >= 0}
    if wrong:
        raise ValueError(f"resources has {wrong!r}: give amounts of at least 0 by name, for example {{'CPU': 4}}")
    return found


def _engine_options(resources: dict[str, float], given: Mapping[str, object] | None) -> dict[str, object]:
    more = dict(given or {})
    wrong = sorted(_OWN_OPTIONS & more.keys())
    if wrong:
        raise ValueError(f"actor_options has {', '.join(wrong)}: the fleet sets them itself. Give processors and others as `resources`")
    others = {name: value for name, value in resources.items() if name not in ("CPU", "GPU")}
    return {
        "num_cpus": resources.get("CPU", 0), "num_gpus": resources.get("GPU", 0), "resources": others, "scheduling_strategy": "SPREAD",
        **more,
    }  # fmt: skip


# --- metrics


def _fleet_metrics(found: dict[str, Any]) -> str:
    states = [engine["state"] for engine in found["engines"]]
    lines = ["# HELP asyncdali_fleet_wanted engines that the fleet should have", "# TYPE asyncdali_fleet_wanted gauge"]
    lines += [f"asyncdali_fleet_wanted {found['wanted']}"]
    lines += ["# HELP asyncdali_fleet_engines engines of the fleet", "# TYPE asyncdali_fleet_engines gauge"]
    lines += [f'asyncdali_fleet_engines{{state="{state}"}} {states.count(state)}' for state in ("starting", "ready", "failed", "dead")]
    lines += ["# HELP asyncdali_rank_waiting_ratio part of its time that a rank waits", "# TYPE asyncdali_rank_waiting_ratio gauge"]
    lines += [f'asyncdali_rank_waiting_ratio{{rank="{report["rank"]}"}} {report["waiting"]:.6g}' for report in found["trainers"]]
    return "\n".join(lines) + "\n"


def merged(texts: list[str]) -> str:
    """Merge several texts into one. The format requires all samples of a metric together, under one description."""
    described: dict[str, list[str]] = {}
    samples: dict[str, list[str]] = {}
    for line in "".join(texts).splitlines():
        name = line.split()[2] if line.startswith("#") else line.partition("{")[0].partition(" ")[0]
        lines = (described if line.startswith("#") else samples).setdefault(name, [])
        if line not in lines:
            lines.append(line)
    return "".join(line + "\n" for name, head in described.items() for line in head + samples.get(name, []))
