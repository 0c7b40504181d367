"""``python -m benchmarks.fleet_picture``: draws benchmarks/results/fleet-simulation.md for docs/fleet.md."""

from __future__ import annotations

import math
from pathlib import Path

HERE = Path(__file__).resolve().parent
TABLE, PICTURE = HERE / "results" / "fleet-simulation.md", HERE.parent / "docs" / "pictures" / "fleet_simulation.svg"

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 760, 380, 60, 220, 30, 50
_LOWEST = 85
"""Utilisation (%) at the lower edge."""
_COLOURS = {"no faults": "#4c78a8", "1 % slow, no hedging": "#e45756", "1 % slow": "#54a24b", "1 % slow, lives of 10 minutes": "#f58518"}


def rows(text: str) -> list[tuple[str, int, float]]:
    """(faults, actors, utilisation in %) of the table. The rows whose limit is the trainers' links are left out."""
    found = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if cells[0] in _COLOURS and len(cells) == 12 and int(cells[5].rstrip("%")) < 90:
            found.append((cells[0], int(cells[1].replace(",", "")), float(cells[4].rstrip("%"))))
    if not found:
        raise ValueError(f"{TABLE} has no table of the fleet simulation")
    return found


def drawing(found: list[tuple[str, int, float]]) -> str:
    """The SVG. Each fault is a line; the number of actors is on a logarithmic axis."""

    def at(actors: int, utilisation: float) -> str:
        x = _LEFT + (math.log10(actors) - 1) / 3 * (_WIDTH - _LEFT - _RIGHT)
        y = _TOP + (100 - utilisation) / (100 - _LOWEST) * (_HEIGHT - _TOP - _BOTTOM)
        return f"{x:.1f},{y:.1f}"

    def text(place: str, words: str, anchor: str, down: int = 4, right: int = 0) -> str:
        x, y = map(float, place.split(","))
        return f'<text x="{x + right:.1f}" y="{y + down:.1f}" text-anchor="{anchor}">{words}</text>'

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" font-size="12">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#fff"/>',
    ]
    for level in range(_LOWEST, 101, 5):
        parts.append(f'<polyline points="{at(10, level)} {at(10_000, level)}" stroke="#ccc" fill="none"/>')
        parts.append(text(at(10, level), f"{level} %", "end", right=-8))
    for count in (10, 100, 1000, 10_000):
        parts.append(text(at(count, _LOWEST), f"{count:,}", "middle", 18))
    parts.append(text(at(316, _LOWEST), "actors of four cores", "middle", 38))
    parts.append(text(at(10, 100), "work of the samples trained on, as a share of what the actors can do", "start", -12))
    ends = sorted((next(value for name, actors, value in reversed(found) if name == fault), fault) for fault in _COLOURS)
    labels: list[float] = []
    for value, _ in ends:  # labels are at least 0.7 % apart
        labels.append(max(value, labels[-1] + 0.7) if labels else value)
    for (_, fault), place in zip(ends, labels):
        line = [(actors, value) for name, actors, value in found if name == fault]
        points = " ".join(at(*point) for point in line)
        parts.append(f'<polyline points="{points}" stroke="{_COLOURS[fault]}" stroke-width="2" fill="none"/>')
        for actors, value in line:
            x, y = at(actors, value).split(",")
            parts.append(f'<circle cx="{x}" cy="{y}" r="3" fill="{_COLOURS[fault]}"><title>{fault}: {value} %</title></circle>')
        parts.append(text(at(10_000, place), fault, "start", right=10))
    return "\n".join(parts) + "\n</svg>\n"


if __name__ == "__main__":
    PICTURE.write_text(drawing(rows(TABLE.read_text(encoding="utf-8"))), encoding="utf-8")
    print(PICTURE)
