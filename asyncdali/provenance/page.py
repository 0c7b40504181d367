"""The page of ``asyncdali show``: one self-contained HTML file with a step's samples, after every operator of the graph."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..graph.drawing import svg
from ..tensors.rendering import boxes_of, escaped, rendered, summary
from .replayed import ReplayedOperator, ReplayedStep

MOST_WHOLE = 8
"""A larger batch is shown as a grid, and one of its samples after every operator."""

_STYLE = """
:root { color-scheme: light dark; --line: #8885; --mark: #f58518; }
body { font: 15px/1.45 system-ui, sans-serif; max-width: 1200px; margin: 0 auto; padding: 0 1rem 3rem; }
h1 { font-size: 1.3rem; } h2 { font-size: 1.05rem; margin: 1.5rem 0 .4rem; } code, pre { font-size: .85rem; white-space: pre-wrap; }
pre { padding: .6rem .8rem; border: 1px solid var(--line); border-radius: 6px; overflow-x: auto; }
img { max-width: 100%; height: auto; image-rendering: auto; border-radius: 4px; }
#grid { display: grid; grid-template-columns: repeat(auto-fill, minmax(110px, 1fr)); gap: .5rem; }
#grid a { color: inherit; text-decoration: none; border: 2px solid transparent; border-radius: 6px; padding: 3px; }
#grid a { font-size: .75rem; overflow: hidden; }
#grid a.chosen { border-color: var(--mark); } #grid img { width: 100%; } #grid .more { display: none; }
section.sample { display: none; } section.sample.chosen { display: block; }
table { border-collapse: collapse; width: 100%; }
td, th { text-align: left; vertical-align: top; padding: .4rem .8rem .4rem 0; border-top: 1px solid var(--line); }
th { font-weight: 600; width: 22%; overflow-wrap: anywhere; } .facts { font-size: .8rem; opacity: .85; }
.kind { opacity: .7; font-weight: 400; font-size: .8rem; }
.outputs { display: flex; flex-wrap: wrap; gap: 1rem; } .outputs figure { margin: 0; max-width: 384px; } figcaption { font-size: .8rem; }
.histogram, .wave { display: block; color: #4c78a8; max-width: 100%; }
.histogram { width: 128px; height: 30px; } .wave { width: 300px; height: 40px; }
audio { height: 32px; max-width: 100%; }
.error { border-left: 4px solid #e45756; padding: .5rem 1rem; white-space: pre-wrap; overflow-wrap: anywhere; }
.graph { overflow-x: auto; background: #fff; color: #000; border-radius: 6px; } details { margin: .6rem 0; }
@media (max-width: 640px) {
  td, th { display: block; width: auto; border: 0; padding: .2rem 0; } tr { display: block; border-top: 1px solid var(--line); }
}
"""

_SCRIPT = """
const samples = [...document.querySelectorAll('section.sample')], links = [...document.querySelectorAll('#grid a')];
let at = Math.max(0, samples.findIndex(s => s.classList.contains('chosen')));
function choose(k) {
  if (!samples.length) return;
  at = (k + samples.length) % samples.length;
  samples.forEach((s, j) => s.classList.toggle('chosen', j === at));
  links.forEach(a => a.classList.toggle('chosen', a.hash === '#' + samples[at].id));
}
links.forEach(a => a.addEventListener('click', e => {
  const k = samples.findIndex(s => '#' + s.id === a.hash);
  if (k >= 0) { e.preventDefault(); choose(k); samples[at].scrollIntoView({behavior: 'smooth'}); }
}));
document.addEventListener('keydown', e => {
  if (e.target.tagName === 'INPUT' || e.ctrlKey || e.metaKey || e.altKey) return;
  if (e.key === 'ArrowRight' || e.key === 'j') choose(at + 1);
  if (e.key === 'ArrowLeft' || e.key === 'k') choose(at - 1);
});
choose(at);
"""


class Page:
    """A page about one step. Notebooks show it.

    Attributes:
        html: the whole page.
        step: the step that was made again.
    """

    def __init__(self, html: str, step: ReplayedStep):
        self.html = html
        self.step = step

    def _repr_html_(self) -> str:
        return f'<iframe style="width:100%;height:640px;border:0" srcdoc="{escaped(self.html)}"></iframe>'

    def write(self, path: str) -> None:
        """Write the page to a file."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.html)


def page_of(step: ReplayedStep, command: str, sample: int | None = None, grid: bool = False) -> Page:
    """The page of a step that was made again.

    Args:
        command: makes the page again, for the reader.
        sample: the sample that is shown after every operator; by default every sample of a batch of up to 8, else the first one.
        grid: show no sample after every operator.

    Raises:
        IndexError: the batch has no such sample.
    """
    told = step.provenance
    count = len(step.outputs[0]) if step.outputs else told.samples
    if sample is not None and not 0 <= sample < count:
        raise IndexError(f"the batch of step {told.step} has {count} samples; there is no sample {sample}")
    whole = range(0) if grid else range(count) if sample is None and count <= MOST_WHOLE else range(sample or 0, (sample or 0) + 1)
    title = f"step {told.step}"
    epoch = f", epoch {told.epoch}" if told.sources else ""
    parts = [
        f"<h1>Step {told.step}{epoch}: {count} samples</h1>",
        f"<pre>{escaped(command)}</pre>",
    ]
    if step.error:
        parts.append(f'<p class="error">This step fails: {escaped(step.error)}</p>')
    parts.append(f'<div id="grid">{"".join(_thumb(step, k, k in whole) for k in range(count))}</div>')
    if whole:
        parts.append("<p>Keys: left and right arrow choose a sample.</p>")
    parts += [_sample(step, k, chosen=k == whole.start) for k in (whole if step.outputs else range(0))]
    parts.append(f'<h2>Graph</h2><div class="graph">{svg(step.plan)}</div>')
    parts.append(f"<details><summary>Origins, draws and windows of all samples</summary><pre>{escaped(told)}</pre></details>")
    data = json.dumps({"step": told.step, "seed": step.seed, "digest": told.digest(), "positions": told.positions}).replace("<", "\\u003c")
    text = (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f'<title>{title}</title><link rel="icon" href="data:,"><style>{_STYLE}</style></head>\n<body>\n' + "\n".join(parts)
        + f'\n<script type="application/json" id="step">{data}</script>\n<script>{_SCRIPT}</script>\n</body></html>\n'
    )  # fmt: skip
    return Page(text, step)


def _arrays(tensors: Sequence[Any], index: int) -> list[np.ndarray]:
    """The values of sample `index` of several lists."""
    return [np.asarray((one.as_cpu() if hasattr(one, "as_cpu") else one).at(index)) for one in tensors]


def _thumb(step: ReplayedStep, index: int, whole: bool) -> str:
    """The first picture among the outputs, and the file."""
    files = [taken[index].file.rpartition("/")[2] for taken in step.provenance.readers.values() if index < len(taken)]
    arrays = _arrays(step.outputs, index)
    boxes = boxes_of(arrays)
    pictures = (rendered(array, tensors.layout(), boxes) for array, tensors in zip(arrays, step.outputs, strict=True) if array.ndim >= 2)
    picture = next((text for text in pictures if text.startswith("<img")), "")
    return f'<a href="#sample{index}"{"" if whole else " class=plain"}>{picture}<br>{index} {escaped(", ".join(files))}</a>'


def _sample(step: ReplayedStep, index: int, chosen: bool) -> str:
    told = step.provenance.sample(index)
    arrays = _arrays(step.outputs, index)
    boxes = boxes_of(arrays)
    figures = [
        f"<figure>{rendered(array, tensors.layout(), boxes)}<figcaption>{escaped(name)}<br>"
        f"{summary(array, tensors.dtype, tensors.layout())}</figcaption></figure>"
        for name, array, tensors in zip(step.names, arrays, step.outputs, strict=True)
    ]
    names = {edge: name for planned in (item.planned for item in step.operators) for edge, name in _edges(planned).items()}
    rows = [_operator(item, index, names, told) for item in step.operators]
    origin = [
        f"{name}: sample {taken['number']} {taken['file']}"
        + ("" if taken["offset"] is None else f", bytes {taken['offset']} to {taken['offset'] + taken['size']}")
        + (f" ({taken['part']})" if taken["part"] else "") + f", epoch {taken['epoch']}, shard {taken['shard']}"
        + (", padding" if taken["padding"] else "")
        for name, taken in told["readers"].items()
    ]  # fmt: skip
    origin += [f"{name}: epoch {place['epoch']}, iteration {place['iteration']}" for name, place in told["sources"].items()]
    origin += [f"{name}: this sample is bad ({action})" for name, action in told["bad"].items()]
    origin += [f"{name}[{by['number']}] {by['file']} stands in its place" for name, by in told["replaced"].items()]
    return (
        f'<section class="sample{" chosen" if chosen else ""}" id="sample{index}"><h2>Sample {index}</h2>'
        f"<p>{'<br>'.join(map(escaped, origin))}</p><div class=outputs>{''.join(figures)}</div>"
        f"<h2>After every operator</h2><table>{''.join(rows)}</table></section>"
    )


def _edges(planned: object) -> dict[int, str]:
    spec, outputs = planned.spec, planned.outputs  # type: ignore[attr-defined]
    return {edge: spec.name if len(outputs) == 1 else f"{spec.name}[{k}]" for k, edge in enumerate(outputs)}


def _operator(item: ReplayedOperator, index: int, names: dict[int, str], told: dict[str, object]) -> str:
    arrays = [
        (array, tensors) for tensors in item.outputs if index < len(tensors) for array in _arrays([tensors], index)
    ]  # a branch of a conditional has fewer samples
    reads = ", ".join(names.get(edge, "?") for edge in item.reads)
    windows = told["windows"]
    assert isinstance(windows, dict)
    window = f"<br>window {escaped(windows[item.name]['anchor'])} + {escaped(windows[item.name]['shape'])}" if item.name in windows else ""
    kind = f'<span class="kind">{escaped(item.kind)}{f" of {escaped(reads)}" if reads else ""} on {escaped(item.device)}{window}</span>'
    cells = [f"{rendered(array, tensors.layout())}<br>{summary(array, tensors.dtype, tensors.layout())}" for array, tensors in arrays]
    return f"<tr><th>{escaped(item.name)}<br>{kind}</th>{''.join(f'<td>{cell}</td>' for cell in cells) or '<td>no sample</td>'}</tr>"

