"""Costs per sample of operators beside DALI's, from the tables in benchmarks/results."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from .staging import ROOT

RESULTS = ROOT / "benchmarks" / "results"


class Cost(NamedTuple):
    """One measured case of an operator."""

    case: str
    ours: float
    """Microseconds per sample."""
    dali: float
    where: str
    """"CPU" or "GPU"."""
    group: str
    """The family of the case, or the pictures of the GPU's table."""


class Table(NamedTuple):
    """The cases of one page, and the facts that make them comparable."""

    costs: list[Cost]
    command: str
    date: str
    commit: str
    machine: str


ROW = re.compile(r"^(\S.*?) {2,}([a-z]+) +([\d,.]+) +([\d,.]+) +([\d,.]+)$", re.M)
GPU_ROW = re.compile(r"^  (\S.*?) {2,}([\d.]+) +([\d.]+) +([\d.]+) +[\d.]+ +\d+M +\d+%$", re.M)
GPU_HEAD = re.compile(r"^(small|large): .*, ms per batch.*$", re.M)
_SAMPLES = {"small": 64, "large": 32}
_FEW = re.compile(r"\b(?:frames|volume|sequence_rearrange|element_extract|per_frame)\b")
"""Cases of sequences and volumes: batches of 4."""


def _number(text: str) -> float:
    return float(text.replace(",", ""))


def facts(text: str) -> tuple[str, str, str, str]:
    """Command, date, commit and machine of a page of figures."""
    head = " ".join(text.split("```")[0].split())
    command = re.search(r"`(python -m [^`]*)`", head)
    date = re.search(r"20\d\d-\d\d-\d\d", text)
    commit = re.search(r"commit\s+`?([0-9a-f]{7,8})", head) or re.search(r"\b([0-9a-f]{8})\b", text)
    machine = re.search(r"(?:an? )?(AMD EPYC[^,.;]*(?:\([^)]*\))?|Xeon[^,.;]*|H[12]00[^,.;]*|Sapphire Rapids[^,.;]*)", head + " " + text)
    return tuple(found[group] if found else "" for found, group in ((command, 1), (date, 0), (commit, 1), (machine, 1)))  # type: ignore[return-value]


def cpu(path: Path = RESULTS / "operators.md") -> Table:
    """The cases of the CPU's table."""
    text = path.read_text(encoding="utf-8")
    found = [Cost(case, _number(ours), _number(dali), "CPU", family) for case, family, ours, dali, _ in ROW.findall(text)]
    return Table(found, *facts(text))


def gpu(path: Path = RESULTS / "gpu-operators.md") -> Table:
    """The cases of the GPU's tables, per sample."""
    text = path.read_text(encoding="utf-8")
    heads = list(GPU_HEAD.finditer(text))
    found = []
    for k, head in enumerate(heads):
        part = text[head.end() : heads[k + 1].start() if k + 1 < len(heads) else len(text)]
        for case, ours, dali, _ in GPU_ROW.findall(part):
            few = _FEW.search(case) is not None
            samples = 4 if few else _SAMPLES[head[1]]
            group = f"{samples} {head[1]} {'sequences or volumes' if few else 'samples'}"
            found.append(Cost(case, float(ours) * 1000 / samples, float(dali) * 1000 / samples, "GPU", group))
    return Table(found, *facts(text))


def operator_of(case: str, names: set[str]) -> str | None:
    """The operator that a case measures: its name is how the case begins. "numba_function" is short for "experimental.numba_function"."""
    word = re.match(r"[\w.]+", case)
    if word is None:
        return None
    return next((name for name in (word[0], f"experimental.{word[0]}") if name in names), None)


def by_operator(names: set[str]) -> dict[str, list[Cost]]:
    """Operator -> its measured cases."""
    found: dict[str, list[Cost]] = {}
    for cost in [*cpu().costs, *gpu().costs]:
        if (name := operator_of(cost.case, names)) is not None:
            found.setdefault(name, []).append(cost)
    return found


def shown(microseconds: float) -> str:
    """A time with three digits."""
    return f"{microseconds:,.0f}" if microseconds >= 100 else f"{microseconds:.3g}"


def section(costs: list[Cost]) -> list[str]:
    """The section of an operator's page."""
    lines = ["Microseconds per sample. On the CPU: processor time. On the GPU: time of a batch divided by its samples.", ""]
    lines += ["| case | where | asyncdali | DALI 2.4 | DALI / asyncdali |", "|---|---|---|---|---|"]
    for cost in costs:
        where = "CPU" if cost.where == "CPU" else f"GPU, {cost.group}"
        lines.append(f"| {cost.case} | {where} | {shown(cost.ours)} | {shown(cost.dali)} | {cost.dali / cost.ours:.2f} |")
    pages = {"CPU": "[CPU](../benchmarks/operators.md)", "GPU": "[GPU](../benchmarks/gpu-operators.md)"}
    named = ", ".join(pages[where] for where in ("CPU", "GPU") if any(cost.where == where for cost in costs))
    return [*lines, "", f"Machine, date, commit and command: {named}."]
