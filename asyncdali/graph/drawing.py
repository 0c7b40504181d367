"""Shows a plan as text and as a picture: segments in the order of their stages, operators, and their inputs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from xml.sax.saxutils import escape, quoteattr

from .plan import Plan, PlannedOperator, Segment

_FILL = {"cpu": "#e8f0fe", "mixed": "#e6f7f5", "gpu": "#e9f7e6"}
_ROW, _BOX, _COLUMN, _GAP, _HEAD = 54, 34, 250, 90, 30


def names_of(plan: Plan) -> dict[int, str]:
    """Edge -> its label: the operator, and the output's number if the operator has several."""
    names = {}
    for planned in plan.operators:
        for index, edge in enumerate(planned.outputs):
            names[edge] = planned.spec.name if len(planned.outputs) == 1 else f"{planned.spec.name}[{index}]"
    return names


def _arguments(planned: PlannedOperator) -> str:
    constants = [(name, value) for name, value in planned.spec.constants.items() if name[0] != "_" and _is_short(value)]
    return ", ".join(f"{name}={value.name if isinstance(value, Enum) else repr(value)}" for name, value in constants)


def _is_short(value: object) -> bool:
    if isinstance(value, (list, tuple)):
        return len(value) <= 4 and all(isinstance(item, (int, float, str)) for item in value)
    return isinstance(value, (int, float, str))


def text(plan: Plan) -> str:
    """The plan as text: one block per segment."""
    names = names_of(plan)
    lines = []
    for segment in plan.segments:
        after = f", after segment {', '.join(map(str, sorted(segment.producers)))}" if segment.producers else ""
        lines.append(f"segment {segment.index} (stage {segment.stage}, {segment.backend}{after})")
        for planned in segment.operators:
            reads = [names[edge] for edge in planned.inputs] + [f"{name}={names[edge]}" for name, edge in planned.arguments.items()]
            arguments = _arguments(planned)
            lines.append(
                f"    {planned.spec.name}: {planned.spec.schema.name}({', '.join([*reads, arguments] if arguments else reads)})"
                + (f"  [{planned.backend}]" if planned.backend != segment.backend else "")
            )
    lines.append(f"outputs: {', '.join(names[edge] for edge in plan.outputs)}")
    return "\n".join(lines)


@dataclass
class _Box:
    x: float
    y: float
    width: float = _COLUMN - 30


def svg(plan: Plan) -> str:
    """The plan as an SVG picture: one column per stage, one frame per segment, one arrow per edge."""
    boxes, frames, size = _places(plan)
    names, producer = names_of(plan), {edge: planned for planned in plan.operators for edge in planned.outputs}
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{size[0]}" height="{size[1]}" viewBox="0 0 {size[0]} {size[1]}" role="img" '
        f'aria-label="graph of {len(plan.operators)} operators" font-family="sans-serif" font-size="12">',
        '<defs><marker id="tip" markerWidth="8" markerHeight="8" refX="7" refY="4" orient="auto"><path d="M0,0 L8,4 L0,8 z" fill="#666"/>'
        "</marker></defs>",
    ]
    for segment, (x, y, width, height) in frames:
        parts.append(
            f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="8" fill="{_FILL[segment.backend]}" stroke="#bbb"/>'
            f'<text x="{x + 10}" y="{y + 18}" fill="#555">segment {segment.index} · stage {segment.stage} · {segment.backend}</text>'
        )
    for planned in plan.operators:
        for edge in [*planned.inputs, *planned.arguments.values()]:
            parts.append(_arrow(boxes[id(producer[edge])], boxes[id(planned)], names[edge]))
    for planned in plan.operators:
        parts.append(_operator(planned, boxes[id(planned)]))
    for index, edge in enumerate(plan.outputs):
        box = _Box(size[0] - 110, _HEAD + 20 + index * _ROW, 90)
        parts.append(_arrow(boxes[id(producer[edge])], box, names[edge]))
        parts.append(f'<text x="{box.x + 8}" y="{box.y + 21}" font-weight="bold">output {index}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _places(plan: Plan) -> tuple[dict[int, _Box], list[tuple[Segment, tuple[float, float, float, float]]], tuple[float, float]]:
    boxes: dict[int, _Box] = {}
    frames: list[tuple[Segment, tuple[float, float, float, float]]] = []
    bottom: dict[int, float] = {}
    for segment in plan.segments:
        x = 20 + segment.stage * (_COLUMN + _GAP)
        y = bottom.get(segment.stage, 20)
        height = _HEAD + _ROW * len(segment.operators)
        frames.append((segment, (x, y, _COLUMN, height)))
        for row, planned in enumerate(segment.operators):
            boxes[id(planned)] = _Box(x + 15, y + _HEAD + row * _ROW)
        bottom[segment.stage] = y + height + 20
    width = 20 + (max(bottom, default=0) + 1) * (_COLUMN + _GAP) + 60
    return boxes, frames, (width, max([*bottom.values(), _HEAD + 40 + len(plan.outputs) * _ROW]))


def _operator(planned: PlannedOperator, box: _Box) -> str:
    label = planned.spec.name if len(planned.spec.name) < 30 else planned.spec.name[:28] + "…"
    return (
        f'<g data-operator={quoteattr(planned.spec.name)}><title>{escape(_title(planned))}</title>'
        f'<rect x="{box.x}" y="{box.y}" width="{box.width}" height="{_BOX}" rx="5" '
        f'fill="white" stroke="#888"/><text x="{box.x + 8}" y="{box.y + 15}">{escape(planned.spec.schema.name)}</text>'
        f'<text x="{box.x + 8}" y="{box.y + 28}" fill="#888" font-size="10">{escape(label)}</text></g>'
    )


def _title(planned: PlannedOperator) -> str:
    return f"{planned.spec.name} ({planned.backend})\n{_arguments(planned)}\n{planned.trace}"


def _arrow(source: _Box, target: _Box, name: str) -> str:
    middle_of_source, middle_of_target = source.y + _BOX / 2, target.y + _BOX / 2
    if source.x == target.x:  # same column: draw the arrow around the right side
        right = source.x + source.width
        out = right + 30
        path = f"M{right},{middle_of_source} C{out},{middle_of_source} {out},{middle_of_target} {right},{middle_of_target}"
    else:
        x1, y1, x2, y2 = source.x + source.width, middle_of_source, target.x, middle_of_target
        middle = (x1 + x2) / 2
        path = f"M{x1},{y1} C{middle},{y1} {middle},{y2} {x2},{y2}"
    return f'<path d="{path}" fill="none" stroke="#666" marker-end="url(#tip)"><title>{escape(name)}</title></path>'
