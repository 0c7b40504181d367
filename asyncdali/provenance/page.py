"""The page of ``asyncdali show``: one self-contained HTML file with a step's samples, after every operator of the graph.

The page is bounded. The grid has a small picture of each sample. From the chosen sample on, samples are shown after every operator until
the page has `_WHOLE_BYTES`, and others with results, origin and draws until the page has `MOST_BYTES`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from ..graph.drawing import svg
from ..tensors.pictures import Marks, marks_of
from ..tensors.rendering import escaped, frames_first, rendered, summary
from .page_texts import SCRIPT, STYLE
from .replayed import ReplayedOperator, ReplayedStep

if TYPE_CHECKING:
    from ..graph.plan import Plan, PlannedOperator

MOST_BYTES = 430_000
"""No details of a further sample are added to a page of this size."""
_WHOLE_BYTES = 280_000
_MOST_SAMPLES = 256
"""The grid has so many samples."""
_MOST_TEXT = 40_000
"""Characters of the text about all samples."""
NO_RATES: Mapping[int, float] = MappingProxyType({})
_PLAYERS = 2
"""Sounds of one sample that have a player, besides outputs."""
_THUMB, _SMALL_THUMB, _OPERATOR = 112, 64, 192
_MANY = 64


class Page:
    """A page about one step, or about two steps side by side. Notebooks show it.

    Attributes:
        html: the whole page.
        step: the step that was made again.
        compared: the other step; None: there is none.
    """

    def __init__(self, html: str, step: ReplayedStep, compared: ReplayedStep | None = None):
        self.html = html
        self.step = step
        self.compared = compared

    def _repr_html_(self) -> str:
        return f'<iframe title="{_title(self.step)}" style="width:100%;height:640px;border:0" srcdoc="{escaped(self.html)}"></iframe>'

    def write(self, path: str) -> None:
        """Write the page to a file."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.html)


def page_of(
    step: ReplayedStep, command: str, sample: int | None = None, grid: bool = False, *, compared: ReplayedStep | None = None,
    first: int = 0, served: bool = False,
) -> Page:  # fmt: skip
    """The page of a step that was made again.

    Args:
        command: makes the page again, for the reader.
        sample: the only sample that is shown; None: all.
        grid: show no sample after every operator, only small pictures of the results.
        compared: another step, which is shown beside the first one.
        first: the sample that is shown first.
        served: a server makes other pages (``?step=K&sample=I&compare=J``).

    Raises:
        IndexError: the batch has no such sample.
    """
    count = _count(step)
    chosen = first if sample is None else sample
    if (sample is not None or first) and not 0 <= chosen < count:
        raise IndexError(f"the batch of step {step.provenance.step} has {count} samples; there is no sample {chosen}")
    others = [] if compared is None else [compared]
    order = [] if grid else [chosen] if sample is not None else _order(chosen, min(count, _MOST_SAMPLES))
    parts = [f"<h1>{_title(step)}{'' if compared is None else f' beside step {compared.provenance.step}'}: {count} samples</h1>"]
    parts += [f"<pre>{escaped(command)}</pre>", _controls(step, compared, served, bool(order))]
    parts.append(f'<div id="grid">{"".join(_thumb(step, k) for k in range(min(count, _MOST_SAMPLES)))}</div>')
    if count > _MOST_SAMPLES:
        parts.append(f"<p>The first {_MOST_SAMPLES} samples are shown. --sample shows any other one.</p>")
    used, share = sum(map(len, parts)), 1 + len(others)
    left = (_WHOLE_BYTES - used) // share, (MOST_BYTES - used) // share
    articles = [_article(one, "sample" if k == 0 else "compared", order, left, k == 0) for k, one in enumerate([step, *others])]
    parts.append(f'<div class="steps{" both" if others else ""}">{"".join(articles)}</div>')
    for one in (step, *others):
        name = f"Origins, draws and windows of all samples of step {one.provenance.step}"
        lines = str(one.provenance)
        cut = lines[:_MOST_TEXT] + (f"\n... pipe.provenance({one.provenance.step}) has the rest" if len(lines) > _MOST_TEXT else "")
        parts.append(f"<details><summary>{name}</summary><pre>{escaped(cut)}</pre></details>")
    text = (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<title>{_title(step)}</title><link rel="icon" href="data:,"><style>{STYLE}</style></head>\n<body>\n' + "\n".join(parts)
        + f'\n<script type="application/json" id="step">{_data(step, compared, chosen, served)}</script>\n'
        f"<script>{SCRIPT}</script>\n</body></html>\n"
    )  # fmt: skip
    return Page(text, step, compared)


def _title(step: ReplayedStep) -> str:
    told = step.provenance
    return f"Step {told.step}{f', epoch {told.epoch}' if told.sources else ''}"


def _count(step: ReplayedStep) -> int:
    return len(step.outputs[0]) if step.outputs else step.provenance.samples


def _order(first: int, count: int) -> list[int]:
    """The samples from `first` on, and then those before."""
    rest = [k for k in range(count) if k != first]
    return [first, *(k for k in rest if k > first), *(k for k in rest if k < first)]


def _data(step: ReplayedStep, compared: ReplayedStep | None, chosen: int, served: bool) -> str:
    """Data for the script, and the identity of the step, as JSON inside of HTML."""
    told = step.provenance
    data = {
        "step": told.step, "compared": None if compared is None else compared.provenance.step, "samples": _count(step), "chosen": chosen,
        "served": served, "seed": step.seed, "digest": told.digest(), "positions": told.positions,
    }  # fmt: skip
    return json.dumps(data).replace("<", "\\u003c")


def _controls(step: ReplayedStep, compared: ReplayedStep | None, served: bool, samples: bool) -> str:
    def button(act: str, label: str, text: str) -> str:
        return f'<button type="button" data-act="{act}" aria-label="{label}" title="{label}">{text}</button>'

    parts = []
    if samples:
        parts += [button("sample-", "previous sample", "&larr;"), '<span id="where" role="status"></span>']
        parts.append(button("sample+", "next sample", "&rarr;"))
    parts += [button("step-", "previous step", "&lsaquo; step"), button("step+", "next step", "step &rsaquo;")]
    parts.append(button("compare", "compare two steps", "compare"))
    if served:
        other = "" if compared is None else compared.provenance.step
        parts.append(
            f'<form><input name="step" type="number" min="0" required value="{step.provenance.step}" aria-label="step" title="step">'
            f'<input name="compare" type="number" min="0" value="{other}" placeholder="compare" aria-label="step to compare with" '
            'title="step to compare with"><button>make</button></form>'
        )
    keys = "Keys: left and right arrow choose a sample, n and p the next and previous step, c compares two steps."
    message = '<span id="message" role="status"></span>'
    return f'<nav aria-label="samples and steps">{"".join(parts)}{message}</nav><p class="keys facts">{keys}</p>'


def _arrays(tensors: Sequence[Any], index: int) -> list[np.ndarray]:
    """The values of sample `index` of several lists."""
    return [np.asarray((one.as_cpu() if hasattr(one, "as_cpu") else one).at(index)) for one in tensors]


def _marks(step: ReplayedStep, arrays: Sequence[np.ndarray]) -> Marks:
    """Boxes, masks and key points among the outputs of one sample."""
    boxes = next((k for k, array in enumerate(arrays) if array.ndim == 2 and array.shape[1] == 4 and array.dtype.kind == "f"), None)
    form = "" if boxes is None else _form_of_boxes(step, step.edges[boxes])
    return marks_of(arrays, [one.layout() for one in step.outputs], form)


def _form_of_boxes(step: ReplayedStep, edge: int) -> str:
    """"xyXY" or "xyWH": the argument of the nearest operator above, also in parts of regroupings; "" if no operator above has one."""
    parts = dict(step.parts)
    makers = {made: item.planned for item in step.operators for made in item.planned.outputs}
    reads = {id(item.planned): item.reads for item in step.operators}
    return _form_above(makers, reads, edge, parts)


def _form_above(makers: Mapping[int, PlannedOperator], reads: Mapping[int, Sequence[int]], edge: int, parts: Mapping[str, Plan]) -> str:
    waiting, seen = [edge], set()
    while waiting:
        item = makers.get(waiting.pop(0))
        if item is None or item.spec.name in seen:
            continue
        seen.add(item.spec.name)
        spec = item.spec
        known = spec.schema.by_name
        given = spec.constants.get("bbox_layout", known["bbox_layout"].default) if "bbox_layout" in known else None
        if given:
            return str(given)
        if "ltrb" in known:
            return "xyXY" if spec.constants.get("ltrb", known["ltrb"].default) else "xyWH"
        waiting += reads.get(id(item), (*item.inputs, *item.arguments.values()))
        nodes = getattr(item.attachment, "nodes", [])
        for number in range(len(getattr(item.attachment, "parts", ()))):
            plan = parts[f"part {number} of {nodes[0]}"]
            above = {made: planned for planned in plan.operators for made in planned.outputs}
            form = _form_above(above, {}, plan.outputs[nodes.index(spec.name)], parts)
            if form:
                return form
    return ""


def _rates_before(step: ReplayedStep, place: int) -> dict[int, float]:
    """The sampling rates of the regrouped sounds of one sample, by edge. It makes the raw iterations again."""
    found: dict[int, float] = {}
    for raw in step.before(place):
        if raw.step.error:
            continue
        rates = _rates(raw.step, raw.step.places.index(raw.place), _rates_before(raw.step, raw.place))
        for item in step.operators:
            nodes = getattr(item.planned.attachment, "nodes", [])
            edge = raw.step.edges[nodes.index(item.name)] if nodes[:1] == [raw.regrouping] else -1
            if edge in rates:
                found[item.planned.outputs[0]] = rates[edge]
    return found


def _rates(step: ReplayedStep, index: int, before: Mapping[int, float] = NO_RATES) -> dict[int, float]:
    """The sampling rates of the sounds of one sample, by edge: those that decoders tell, handed on to what is made of the sounds.

    `before`: those of regrouped sounds.
    """
    rates = dict(before)
    if not before and all(item.planned.spec.schema.sampling_rate is None for item in step.operators):
        return rates
    lengths: dict[int, int] = {}
    for item in step.operators:
        schema, edges = item.planned.spec.schema, item.planned.outputs
        arrays = {number: _arrays([one], place)[0] for number, one, place in item.of_sample(index)}
        lengths.update((edges[number], len(array)) for number, array in arrays.items() if array.ndim)
        told = None if schema.sampling_rate is None else arrays.get(schema.sampling_rate)
        source = item.reads[0] if item.reads else -1
        if told is not None and told.ndim == 0 and told.dtype.kind == "f" and told > 0:
            rates[edges[0]] = float(told)
        elif source in rates and 0 in arrays and arrays[0].ndim:
            resampled = "out_rate" in schema.by_name and lengths.get(source)
            rates[edges[0]] = rates[source] * (len(arrays[0]) / lengths[source] if resampled else 1)
    return rates


def _thumb(step: ReplayedStep, index: int) -> str:
    """A small picture of the outputs, and the file."""
    place = step.places[index] if index < len(step.places) else index
    taken = step.provenance.sample(place) if place < step.provenance.samples else {"readers": {}, "replaced": {}}
    files = [str(one["file"]).rpartition("/")[2] for one in _taken(taken)]
    widest = _THUMB if _count(step) <= _MANY else _SMALL_THUMB
    picture = ""
    if step.outputs:
        arrays = _arrays(step.outputs, index)
        marks, rates, name = _marks(step, arrays), _rates(step, index), f"sample {index}"
        for array, tensors, edge in zip(arrays, step.outputs, step.edges, strict=True):
            one, layout = array, tensors.layout()
            if array.ndim == 4 and array.size:
                frames, layout = frames_first(array, layout)
                one, layout = frames[len(frames) // 2], layout[1:]
            shown = rendered(one, layout, marks, name=name, widest=widest, rate=rates.get(edge, 0), player=False)
            if (array.ndim >= 2 and shown.startswith("<img")) or shown.startswith('<span class="sound'):
                picture = shown
                break
    return f'<a href="#sample{index}" data-sample="{index}">{picture}<br>{index} {escaped(", ".join(files))}</a>'


def _taken(told: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The samples of readers that a sample was made of."""
    found = list({**told["readers"], **told["replaced"]}.values())
    for regrouped in told.get("regrouped", {}).values():
        found += _taken(regrouped)
    return found


def _article(step: ReplayedStep, prefix: str, order: Sequence[int], left: tuple[int, int], chosen: bool) -> str:
    """One step: the graph, and the samples in the given order. `left`: bytes for samples with all operators, and for all samples."""
    told = step.provenance
    error = f'<p class="error">This step fails: {escaped(step.error)}</p>' if step.error else ""
    error += "".join(_warnings(step, k, told.sample(k)) for k in range(told.samples) if k in step.bad and k not in step.places)
    parts = "".join(f"<h3>{escaped(title)}</h3>{svg(plan)}" for title, plan in step.parts)
    graph = f'<div class="graph">{parts}{"<h3>behind</h3>" if parts else ""}{svg(step.plan)}</div>'
    sections: dict[int, str] = {}
    used = 0
    for index in order if step.outputs else ():
        if index >= _count(step):
            continue
        if used >= left[1] and sections:
            break
        sections[index] = _sample(step, prefix, index, used < left[0] or not sections, index == order[0])
        used += len(sections[index])
    body = "".join(sections[index] for index in sorted(sections))
    return f'<article{" class=chosen" if chosen else ""} data-step="{told.step}"><h2>{_title(step)}</h2>{error}{graph}{body}</article>'


def _sample(step: ReplayedStep, prefix: str, index: int, whole: bool, chosen: bool) -> str:
    place = step.places[index]
    told = step.provenance.sample(place)
    arrays = _arrays(step.outputs, index)
    marks = _marks(step, arrays)
    rates = _rates(step, index, _rates_before(step, place)) if whole else {}
    figures = []
    for name, array, tensors, edge in zip(step.names, arrays, step.outputs, step.edges, strict=True):
        shown = ""  # the script puts the small picture of the grid there
        if whole or array.ndim < 2:
            shown = rendered(array, tensors.layout(), marks, name=name, rate=rates.get(edge, 0), player=whole)
        about = summary(array, tensors.dtype, tensors.layout())
        figures.append(f"<figure>{shown}<figcaption>{escaped(name)}<br>{about}</figcaption></figure>")
    draws = "".join(f"<dt>{escaped(name)}</dt><dd>{escaped(value)}</dd>" for name, value in _drawn(told))
    rows = f'<p><button type="button" data-whole="{index}">show this sample after every operator</button></p>'
    if whole:
        players = iter(range(_PLAYERS))
        rows = "".join(_before(step, place, players)) + _rows(step, index, told, rates, players)
    return (
        f'<section class="sample{" chosen" if chosen else ""}" id="{prefix}{index}" data-sample="{index}"><h2>Sample {index}</h2>'
        f'<div class="origin"><p>{"<br>".join(map(escaped, _origin(told)))}</p>{_warnings(step, place, told)}</div>'
        f'<div class="outputs{"" if whole else " small"}">{"".join(figures)}</div><div class="draws"><h3>Draws and windows</h3>'
        f"{f'<dl>{draws}</dl>' if draws else '<p>none</p>'}</div><h3>After every operator</h3>{rows}</section>"
    )


def _drawn(told: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The draws and windows of a sample; those before a regrouping first."""
    for regrouped in told["regrouped"].values():
        yield from _drawn(regrouped)
    for name, value in told["draws"].items():
        yield name, str(value)
    for name, window in told["windows"].items():
        if window:
            yield name, f"window {window['anchor']} + {window['shape']}"


def _rows(step: ReplayedStep, index: int, told: Mapping[str, object], rates: Mapping[int, float], players: Iterator[int]) -> str:
    """A sample after every operator."""
    names = {edge: name for item in step.operators for edge, name in _edges(item).items()}
    return f"<table>{''.join(_operator(item, index, names, told, rates, players) for item in step.operators)}</table>"


def _before(step: ReplayedStep, place: int, players: Iterator[int]) -> Iterator[str]:
    """The raw sample from which a regrouping has chosen this one, after every operator of its part."""
    for raw in step.before(place):
        told = raw.step.provenance.sample(raw.place)
        where = f"part {raw.part} of {raw.regrouping}, raw step {raw.step.provenance.step}, sample {raw.place}"
        if raw.step.error:
            yield f'<h4>Before, in {escaped(where)}</h4><p class="error">This raw step fails: {escaped(raw.step.error)}</p>'
            continue
        yield from _before(raw.step, raw.place, players)
        index = raw.step.places.index(raw.place)
        rates = _rates(raw.step, index, _rates_before(raw.step, raw.place))
        rows = _rows(raw.step, index, told, rates, players)
        yield f"<h4>Before, in {escaped(where)}</h4>{_warnings(raw.step, raw.place, told)}{rows}<h4>Behind {escaped(raw.regrouping)}</h4>"


def _origin(told: Mapping[str, Any]) -> Iterator[str]:
    for name, taken in told["readers"].items():
        record = "" if taken["offset"] is None else f", bytes {taken['offset']} to {taken['offset'] + taken['size']}"
        part = f" ({taken['part']})" if taken["part"] else ""
        yield f"{name}: sample {taken['number']} {taken['file']}{record}{part}, epoch {taken['epoch']}, shard {taken['shard']}"
    for name, regrouped in told["regrouped"].items():
        yield f"{name}: part {regrouped['part']}, raw step {regrouped['step']}, sample {regrouped['sample']}"
        yield from _origin(regrouped)
    for name, place in told["sources"].items():
        if name.partition("[")[0] in {known.partition("[")[0] for known in told["regrouped"]}:
            continue
        yield f"{name}: epoch {place['epoch']}, iteration {place['iteration']}, sample {place['sample']}"


def _warnings(step: ReplayedStep, place: int, told: Mapping[str, Any]) -> str:
    """Notes about padding and bad samples."""
    texts = [f"{name}: padding. The sample fills the batch up." for name, taken in told["readers"].items() if taken["padding"]]
    texts += [
        f"{name}: the sample is bad. Sample {taken['number']} {taken['file']} is in its place." for name, taken in told["replaced"].items()
    ]
    texts += [f"{name}: sample {told['readers'][name]['number']} {told['readers'][name]['file']} is bad and was dropped."
              for name, action in told["bad"].items() if action == "drop"]  # fmt: skip
    texts += step.bad.get(place, ())
    return "".join(f'<p class="warning">{escaped(text)}</p>' for text in texts)


def _edges(item: ReplayedOperator) -> dict[int, str]:
    outputs = item.planned.outputs
    return {edge: item.name if len(outputs) == 1 else f"{item.name}[{k}]" for k, edge in enumerate(outputs)}


def _operator(
    item: ReplayedOperator, index: int, names: Mapping[int, str], told: Mapping[str, Any], rates: Mapping[int, float],
    players: Iterator[int],
) -> str:  # fmt: skip
    """One row. Only the next sounds of `players` have a player."""
    reads = ", ".join(names.get(edge, "?") for edge in item.reads)
    windows = told["windows"]
    window = f"<br>window {escaped(windows[item.name]['anchor'])} + {escaped(windows[item.name]['shape'])}" if item.name in windows else ""
    kind = f'<span class="kind">{escaped(item.kind)}{f" of {escaped(reads)}" if reads else ""} on {escaped(item.device)}{window}</span>'
    cells = []
    for number, tensors, place in item.of_sample(index):
        (array,) = _arrays([tensors], place)
        rate = rates.get(item.planned.outputs[number], 0)
        player = rate > 0 and next(players, None) is not None
        shown = rendered(array, tensors.layout(), name=item.name, widest=_OPERATOR, rate=rate, player=player)
        cells.append(f"<td>{shown}<br>{summary(array, tensors.dtype, tensors.layout())}</td>")
    none = "<td>This sample is in another branch.</td>"
    return f'<tr data-operator="{escaped(item.name)}"><th>{escaped(item.name)}<br>{kind}</th>{"".join(cells) or none}</tr>'
