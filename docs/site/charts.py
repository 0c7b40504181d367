"""The page of figures: charts of the measured costs, and machine, date, commit and command of each page of results."""

from __future__ import annotations

import html
import json
import math
from pathlib import Path
from typing import NamedTuple

from . import costs


class Bar(NamedTuple):
    """A row of a chart."""

    label: str
    ratio: float
    text: str


def chart(title: str, bars: list[Bar]) -> str:
    """A picture of horizontal bars, on a logarithmic scale that begins at 1."""
    row, left, width = 24, max(100, *(16 + 7 * len(bar.label) for bar in bars)), 860
    largest = max(2.0, *(bar.ratio for bar in bars))
    height = 34 + row * len(bars)
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="13" role="img">']
    lines += [f"<title>{html.escape(title)}</title>", f'<rect width="{width}" height="{height}" fill="#ffffff"/>']
    lines.append(f'<text x="8" y="20" fill="#222222" font-weight="bold">{html.escape(title)}</text>')
    for k, bar in enumerate(bars):
        y = 34 + k * row
        long = max(2.0, math.log(max(bar.ratio, 1.0)) / math.log(largest) * (width - left - 230))
        lines.append(f'<text x="{left - 8}" y="{y + 15}" text-anchor="end" fill="#222222">{html.escape(bar.label)}</text>')
        fill = "#3b78c4" if bar.ratio >= 1 else "#c4623b"
        lines.append(f'<rect x="{left}" y="{y + 3}" width="{long:.0f}" height="{row - 8}" fill="{fill}"/>')
        lines.append(f'<text x="{left + long + 6:.0f}" y="{y + 15}" fill="#222222">{html.escape(bar.text)}</text>')
    return "\n".join([*lines, "</svg>", ""])


def mean(ratios: list[float]) -> float:
    """The geometric mean."""
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def families(table: costs.Table) -> list[Bar]:
    """The mean ratio of each family, or of each group of pictures."""
    groups: dict[str, list[float]] = {}
    for cost in table.costs:
        groups.setdefault(cost.group, []).append(cost.dali / cost.ours)
    return [Bar(name, mean(ratios), f"{mean(ratios):.1f} times ({len(ratios)} cases)") for name, ratios in groups.items()]


def cases(table: costs.Table, group: str) -> list[Bar]:
    """The ratio of each case of a group."""
    own = [cost for cost in table.costs if cost.group == group]
    return [Bar(c.case, c.dali / c.ours, f"{c.dali / c.ours:.2f}  ({costs.shown(c.ours)} us, DALI {costs.shown(c.dali)} us)") for c in own]


def write(folder: Path) -> None:
    """Write the page, its charts and the numbers as JSON."""
    target = folder / "benchmarks"
    target.mkdir(parents=True, exist_ok=True)
    pictures = folder / "_pictures"
    pictures.mkdir(exist_ok=True)
    lines = ["# Charts", "", "How many times more time DALI 2.4 takes for the same work; logarithmic. The numbers behind the charts are in"]
    lines += ['<a href="../_pictures/benchmarks.json">benchmarks.json</a>, with machine, date and commit.', ""]
    stored = []
    for where, table, page in (("CPU", costs.cpu(), "operators.md"), ("GPU", costs.gpu(), "gpu-operators.md")):
        lines += [f"## {where}", "", f"{table.machine}, {table.date}, commit {table.commit}. Repeat: `{table.command}`. All numbers: "]
        lines[-1] += f"[{page.removesuffix('.md')}]({page})."
        drawn = [(f"Operators on the {where}, mean of each group", families(table))]
        if where == "GPU":
            groups = dict.fromkeys(cost.group for cost in table.costs)
            drawn += [(f"Operators on the GPU, {group}", cases(table, group)) for group in groups]
        for title, bars in drawn:
            file = f"chart-{where.lower()}-{len(list(pictures.glob(f'chart-{where.lower()}-*')))}.svg"
            (pictures / file).write_text(chart(title, bars), encoding="utf-8")
            lines += ["", f'<img class="chart" src="../_pictures/{file}" alt="{html.escape(title)}: bars" loading="lazy">']
        lines.append("")
        facts = {"machine": table.machine, "date": table.date, "commit": table.commit, "command": table.command, "dali": "2.4"}
        stored.append({**facts, "where": where, "cases": [cost._asdict() for cost in table.costs]})
    lines += ["## Pages of results", "", "| page | date | machine | commit | command |", "|---|---|---|---|---|"]
    for path in sorted(costs.RESULTS.glob("*.md")):
        command, date, commit, machine = costs.facts(path.read_text(encoding="utf-8"))
        lines.append(f"| [{path.stem}]({path.name}) | {date} | {machine} | {commit} | {f'`{command}`' if command else 'see the page'} |")
    (target / "charts.md").write_text("\n".join([*lines, ""]), encoding="utf-8")
    (pictures / "benchmarks.json").write_text(json.dumps(stored, indent=1), encoding="utf-8")
