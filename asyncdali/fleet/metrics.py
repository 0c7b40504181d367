"""Counters as text for Prometheus."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

_TRAINER = {
    "asked": ("counter", "iterations asked of an engine"),
    "answered": ("counter", "iterations that an engine answered"),
    "late": ("counter", "answers that came after another engine's"),
    "hedged": ("counter", "iterations asked of another engine, because this one was slow"),
    "restarts": ("counter", "lost connections"),
    "bytes": ("counter", "bytes received from an engine"),
    "busy_seconds": ("counter", "time from a request's arrival at an engine to its answer, summed"),
    "outstanding": ("gauge", "iterations that an engine is working on"),
    "connected": ("gauge", "1 while an engine is connected"),
}
_ACTOR = {
    "asked": "iterations asked by a rank", "answered": "iterations answered to a rank", "bytes": "bytes sent to a rank",
    "busy": "nanoseconds from a request's arrival to its answer, summed",
}  # fmt: skip


def trainer_metrics(rank: int, engines: Iterable[Mapping[str, Any]]) -> str:
    """The metrics of one rank: the work of each engine for this rank."""
    engines = list(engines)
    lines = []
    for name, (kind, text) in _TRAINER.items():
        full = f"asyncdali_engine_{name}" + ("_total" if kind == "counter" else "")
        lines += [f"# HELP {full} {text}", f"# TYPE {full} {kind}"]
        lines += [f'{full}{{rank="{rank}",engine="{_escaped(item["address"])}"}} {float(item[name]):.15g}' for item in engines]
    return "\n".join(lines) + "\n"


def actor_metrics(address: str, statistics: Mapping[str, Any]) -> str:
    """The metrics of one actor: its work for each rank."""
    engine = _escaped(address)
    lines = []
    for name, text in _ACTOR.items():
        full = f"asyncdali_actor_{name}_total"
        lines += [f"# HELP {full} {text}", f"# TYPE {full} counter"]
        lines += [
            f'{full}{{engine="{engine}",rank="{_escaped(rank)}"}} {float(item[name]):.15g}' for rank, item in statistics["ranks"].items()
        ]
    for name, text in (("refused", "connections without a proof of the token"), ("iterations", "iterations made")):
        full = f"asyncdali_actor_{name}_total"
        lines += [f"# HELP {full} {text}", f"# TYPE {full} counter", f'{full}{{engine="{engine}"}} {statistics[name]}']
    return "\n".join(lines) + "\n"


def _escaped(value: str) -> str:
    return str(value).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
