"""Draws a plan for Graphviz."""

from __future__ import annotations

from .plan import Plan

_COLORS = {"cpu": "blue", "mixed": "cyan", "gpu": "green"}


def dot(plan: Plan, show_tensors: bool = False, use_colors: bool = False) -> str:
    """A digraph of the operators that run, transfers included. With `show_tensors` the data on edges are nodes too."""
    lines = ["digraph graphname {"]
    made: dict[int, tuple[str, int]] = {}
    for planned in plan.operators:
        name = planned.spec.name
        color = f' [color="{_COLORS[planned.backend]}"]' if use_colors else ""
        lines.append(f'  "{name}"{color};')
        for index, edge in enumerate(planned.outputs):
            made[edge] = (name, index)
            if show_tensors:
                lines.append(f'  "{_tensor(made[edge])}" [shape=box];')
                lines.append(f'  "{name}" -> "{_tensor(made[edge])}" [label="{index}"];')
        named = [(str(k), edge) for k, edge in enumerate(planned.inputs)] + list(planned.arguments.items())
        for label, edge in named:
            source = _tensor(made[edge]) if show_tensors else made[edge][0]
            lines.append(f'  "{source}" -> "{name}" [label="{label}"];')
    for index, edge in enumerate(plan.outputs):
        lines.append(f'  "output {index}" [shape=plaintext];')
        lines.append(f'  "{_tensor(made[edge]) if show_tensors else made[edge][0]}" -> "output {index}";')
    return "\n".join([*lines, "}"]) + "\n"


def _tensor(source: tuple[str, int]) -> str:
    name, index = source
    return f"{name}[{index}]"
