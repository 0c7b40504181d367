"""The page that ``asyncdali bench --report`` writes: figures and drawings of one measurement, in one self-contained file.

Every number on the page is in an element with two attributes: ``data-key`` is its path in the measurement's JSON, ``data-value`` is the
unrounded number. The JSON itself is in the element ``measurement``.
"""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Sequence
from typing import Any

from . import what_if
from .measure import Measurement
from .trace import Span, TraceRecorder

_WIDTH, _LEFT = 960, 190
_SHOWN = 12
"""Number of iterations on the timeline. The last iterations are shown."""
_COLOURS = (
    "#4c78a8", "#f58518", "#54a24b", "#e45756", "#72b7b2", "#b279a2", "#9d755d", "#bab0ac", "#eeca3b", "#ff9da6", "#5f9ed1", "#8cd17d",
)  # fmt: skip

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --ink: #4c78a8; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 1010px; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
#sentence { font-size: 1.15rem; padding: .8rem 1rem; border-left: 4px solid #f58518; background: #f5851818; }
table { border-collapse: collapse; } td, th { padding: .15rem .9rem .15rem 0; text-align: left; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
svg { display: block; max-width: 100%; height: auto; } svg text { font: 11px system-ui, sans-serif; fill: currentColor; }
label { display: grid; grid-template-columns: 22rem 1fr 4rem; gap: .8rem; }
@media (max-width: 640px) { label { grid-template-columns: 1fr; } }
svg .axis { stroke: var(--line); } svg rect:hover { opacity: .7; }
"""


def page(measurement: Measurement, recorder: TraceRecorder, title: str) -> str:
    """The page as HTML; `recorder` holds the trace of the same run."""
    data = measurement.as_dict()
    body = [
        f"<h1>{_text(title)}</h1>",
        f'<p id="sentence">{_text(measurement.sentence)}</p>',
        "<h2>Figures</h2>", _figures(data),
        "<h2>Throughput over time</h2>", _throughput(measurement),
        f"<h2>Activity of the threads (last {_SHOWN} iterations)</h2>", _timeline(recorder),
        "<h2>Time per operator</h2>", _operators(data["operators"]),
        "<h2>What if</h2>", _sliders(what_if.what_if(measurement)),
        *(["<h2>Engines</h2>", _engines(data["statistics"]["engines"])] if data["statistics"]["engines"] else []),
        "<h2>Batches ready when the consumer requests one</h2>", _queue(data["statistics"]["queue"]),
    ]  # fmt: skip
    content = json.dumps(data).replace("<", "\\u003c")
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{_text(title)}</title>'
        f'<link rel="icon" href="data:,"><style>{_STYLE}</style></head>\n<body>\n' + "\n".join(body)
        + f'\n<script type="application/json" id="measurement">{content}</script>\n<script>{_PREDICT}{_SLIDE}</script>\n</body></html>\n'
    )  # fmt: skip


def write(path: str, measurement: Measurement, recorder: TraceRecorder, title: str) -> None:
    """Write the page to a file."""
    with open(path, "w", encoding="utf-8") as file:
        file.write(page(measurement, recorder, title))


def _text(value: object) -> str:
    return html.escape(str(value))


def _number(key: str, value: float, shown: str) -> str:
    """A number of the measurement with its place in the JSON."""
    return f'<span data-key="{_text(key)}" data-value="{value!r}">{_text(shown)}</span>'


# --------------------------------------------------------------------------------------------------------------------- figures


def _figures(data: dict[str, Any]) -> str:
    rate, statistics = data["samples_per_second"], data["statistics"]
    rows: list[tuple[str, str]] = [
        ("samples per second, median", _number("samples_per_second.median", rate["median"], f"{rate['median']:,.0f}")),
        ("lower and upper quartile", _number("samples_per_second.lower_quartile", rate["lower_quartile"], f"{rate['lower_quartile']:,.0f}")
         + " … " + _number("samples_per_second.upper_quartile", rate["upper_quartile"], f"{rate['upper_quartile']:,.0f}")),
        ("iterations, samples", _number("iterations", data["iterations"], str(data["iterations"])) + ", "
         + _number("samples", data["samples"], f"{data['samples']:,}")),
        ("processor time per sample", _number("processor_us_per_sample", data["processor_us_per_sample"],
                                              f"{data['processor_us_per_sample']:,.0f} µs")),
        ("interpreter held per sample, at most", _number("interpreter_us_per_sample", data["interpreter_us_per_sample"],
                                                         f"{data['interpreter_us_per_sample']:,.1f} µs")),
        ("peak memory", _number("peak_memory", data["peak_memory"], f"{data['peak_memory'] / 1e6:,.0f} MB")),
        ("other programs had of the processor time asked for", _number("sharing.others_share", data["sharing"]["others_share"],
                                                                       f"{100 * data['sharing']['others_share']:.0f} %")),
        ("the consumer waits for batches", _number("statistics.consumer.wait_seconds", statistics["consumer"]["wait_seconds"],
                                                   f"{statistics['consumer']['wait_seconds']:.3f} s")
         + " of " + _number("statistics.elapsed_seconds", statistics["elapsed_seconds"], f"{statistics['elapsed_seconds']:.3f} s")),
    ]  # fmt: skip
    if data["consumer"] is not None:
        beside = data["consumer"]
        rows += [
            ("training step alone, beside the pipeline", _number("consumer.step_alone_ms", beside["step_alone_ms"],
                                                                 f"{beside['step_alone_ms']:.2f} ms")
             + ", " + _number("consumer.step_beside_ms", beside["step_beside_ms"], f"{beside['step_beside_ms']:.2f} ms")),
            ("stalls", _number("consumer.stalls", beside["stalls"], str(beside["stalls"]))),
        ]  # fmt: skip
    rows += [(_text(name), _text(value)) for name, value in data["settings"].items()]
    return "<table>" + "".join(f'<tr><td>{name}</td><td class="number">{value}</td></tr>' for name, value in rows) + "</table>"


# -------------------------------------------------------------------------------------------------------------------- drawings


def _svg(height: float, parts: Iterable[str], name: str) -> str:
    return f'<svg id="{name}" viewBox="0 0 {_WIDTH} {height:.0f}" role="img" aria-label="{name}">{"".join(parts)}</svg>'


def _label(x: float, y: float, text: object, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{_text(text)}</text>'


def _bar(x: float, y: float, width: float, height: float, colour: str, hint: str, extra: str = "") -> str:
    box = f'<rect x="{x:.2f}" y="{y:.1f}" width="{max(width, 0.4):.2f}" height="{height}" fill="{colour}"{extra}>'
    return f"{box}<title>{_text(hint)}</title></rect>"


def _throughput(measurement: Measurement) -> str:
    rates, height = measurement.rates, 180
    top = max(rates) * 1.1
    step = (_WIDTH - 80) / max(1, len(rates) - 1)
    points = [(60 + k * step, height - 20 - rate / top * (height - 40)) for k, rate in enumerate(rates)]
    parts = [f'<line class="axis" x1="60" y1="{height - 20}" x2="{_WIDTH - 20}" y2="{height - 20}"/>']
    middle = height - 20 - measurement.rate / top * (height - 40)
    parts.append(f'<line class="axis" stroke-dasharray="4" x1="60" y1="{middle:.1f}" x2="{_WIDTH - 20}" y2="{middle:.1f}"/>')
    parts.append(_label(55, middle + 4, f"{measurement.rate:,.0f}/s", "end"))
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    parts.append(f'<polyline points="{line}" fill="none" stroke="var(--ink)" stroke-width="2"/>')
    for k, ((x, y), rate) in enumerate(zip(points, rates)):
        place = f'cx="{x:.1f}" cy="{y:.1f}" r="3" fill="var(--ink)"'
        parts.append(f'<circle {place} data-key="rates.{k}" data-value="{rate!r}"><title>{rate:,.0f} samples/s</title></circle>')
    parts += [_label(60, height - 4, "0 s"), _label(_WIDTH - 20, height - 4, f"{measurement.seconds:.2f} s", "end")]
    return _svg(height, parts, "throughput")


def _timeline(recorder: TraceRecorder) -> str:
    spans = _last_iterations(list(recorder.spans))
    if not spans:
        return "<p>Nothing was recorded.</p>"
    begin, end = min(span.began for span in spans), max(span.ended for span in spans)
    scale = (_WIDTH - _LEFT - 10) / max(1, end - begin)
    lanes = list(dict.fromkeys(span.lane for span in sorted(spans, key=lambda span: (span.lane != "consumer", span.lane))))
    height = 20 * len(lanes) + 30
    parts = []
    for row, lane in enumerate(lanes):
        parts.append(_label(_LEFT - 8, 20 * row + 15, lane, "end"))
        parts.append(f'<line class="axis" x1="{_LEFT}" y1="{20 * row + 20}" x2="{_WIDTH - 10}" y2="{20 * row + 20}"/>')
    for span in spans:
        colour = _COLOURS[span.iteration % len(_COLOURS)] if span.iteration >= 0 else _COLOURS[7]
        took = (span.ended - span.began) / 1e6
        hint = f"{span.what}, iteration {span.iteration}: {took:.3f} ms"
        at, width = _LEFT + (span.began - begin) * scale, (span.ended - span.began) * scale
        parts.append(_bar(at, 20 * lanes.index(span.lane) + 3, width, 15, colour, hint))
    parts.append(_label(_LEFT, height - 8, "0 ms"))
    parts.append(_label(_WIDTH - 10, height - 8, f"{(end - begin) / 1e6:.1f} ms, a colour per iteration", "end"))
    return _svg(height, parts, "timeline")


def _last_iterations(spans: list[Span]) -> list[Span]:
    numbers = sorted({span.iteration for span in spans if span.iteration >= 0})[-_SHOWN:]
    shown = [span for span in spans if span.iteration in set(numbers)]
    if not shown:
        return []
    begin = min(span.began for span in shown)
    return sorted([*shown, *[span for span in spans if span.iteration < 0 and span.began >= begin]], key=lambda span: span.began)


def _operators(operators: Sequence[dict[str, Any]]) -> str:
    longest = max((item["seconds"] for item in operators), default=0.0) or 1.0
    parts = []
    for k, item in enumerate(operators):
        parts.append(_label(_LEFT - 8, 22 * k + 15, item["operator"], "end"))
        width = item["seconds"] / longest * (_WIDTH - _LEFT - 190)
        extra = f' data-key="operators.{k}.seconds" data-value="{item["seconds"]!r}"'
        parts.append(_bar(_LEFT, 22 * k + 3, width, 17, _COLOURS[0], f"{item['name']}: {item['seconds']:.3f} s", extra))
        parts.append(_label(_LEFT + width + 6, 22 * k + 16, f"{100 * item['share']:.1f} %, {item['seconds']:.3f} s"))
    return _svg(22 * len(operators) + 6, parts, "operators")


_OF_AN_ENGINE = {
    "asked": "asked", "answered": "answered", "late": "late", "hedged": "hedged", "restarts": "restarts",
    "received_bytes": "bytes received", "busy_seconds": "busy, s", "planning_seconds": "planning, s", "pixels_seconds": "pixels, s",
}  # fmt: skip


def _engines(engines: Sequence[dict[str, Any]]) -> str:
    head = "".join(f"<th>{_text(title)}</th>" for title in ("engine", *_OF_AN_ENGINE.values()))
    rows = []
    for k, item in enumerate(engines):
        cells = [
            f'<td class="number">{_number(f"statistics.engines.{k}.{name}", item[name], f"{item[name]:,.3f}".removesuffix(".000"))}</td>'
            for name in _OF_AN_ENGINE
        ]
        name = item["address"] or f"engine {item['index']}"
        rows.append(f"<tr><td>{_text(name)}</td>{''.join(cells)}</tr>")
    return f'<table id="engines"><tr>{head}</tr>{"".join(rows)}</table>'


def _queue(queue: dict[str, Any]) -> str:
    counts = list(queue["ready_on_arrival"]) + [0] * (queue["depth"] + 1 - len(queue["ready_on_arrival"]))
    most, total = max(counts) or 1, sum(counts) or 1
    parts = []
    for k, count in enumerate(counts):
        parts.append(_label(_LEFT - 8, 22 * k + 15, f"{k} of {queue['depth']} ready", "end"))
        width = count / most * (_WIDTH - _LEFT - 190)
        known = k < len(queue["ready_on_arrival"])
        extra = f' data-key="statistics.queue.ready_on_arrival.{k}" data-value="{count!r}"' if known else ""
        parts.append(_bar(_LEFT, 22 * k + 3, width, 17, _COLOURS[2], f"{count} times", extra))
        parts.append(_label(_LEFT + width + 6, 22 * k + 16, f"{count} times, {100 * count / total:.0f} %"))
    return _svg(22 * len(counts) + 6, parts, "queue")


# ---------------------------------------------------------------------------------------------------------------------- what if

_PREDICT = """
// The formulas of asyncdali/tooling/what_if.py: seconds from one batch to the next that each station allows at least.
function bounds(need, knobs) {
  const beside = Math.max(1, knobs.engines), reading = Math.min(need.reading, need.waiting) / knobs.storage;
  const working = need.computing + need.waiting / knobs.storage - reading;
  const rounds = Math.ceil(need.samples / (knobs.threads + 1)) * reading / Math.max(1, need.samples);
  const pixels = Math.max(working / knobs.threads, need.slowest);
  return {
    consumer: need.consumer + need.called,
    source: need.awaited / Math.max(1, knobs.fetch),
    workers: need.workers / Math.max(1, knobs.workers),
    planning: need.planning / beside,
    threads: (working / knobs.threads + reading / (knobs.threads + 1)) / beside,
    storage: reading ? (need.planning + rounds) / beside : 0,
    cores: (need.computing + need.elsewhere) / knobs.cores,
    interpreter: Math.max(0, need.interpreter - (knobs.engines ? need.planning_interpreter : 0)),
    queue: (need.consumer + need.called + need.passing + pixels + rounds) / knobs.depth,
  };
}
function slowest(need, knobs) { return Object.entries(bounds(need, knobs)).reduce((a, b) => b[1] > a[1] ? b : a); }
function predict(need, now, then) {
  const modelled = slowest(need, now)[1], predicted = slowest(need, then)[1];
  return need.measured >= modelled ? predicted + need.measured - modelled : predicted * need.measured / modelled;
}
"""

_SLIDE = """
const asked = JSON.parse(document.getElementById("what-if").dataset.asked);
function slide() {
  const then = {...asked.now};
  for (const input of document.querySelectorAll("#what-if input")) {
    then[input.name] = asked.now[input.name] * (input.dataset.times ? Math.pow(2, input.value) : 1) || 0;
    if (!input.dataset.times) then[input.name] = Number(input.value);
    input.nextElementSibling.textContent = Math.round(100 * then[input.name]) / 100;
  }
  const took = predict(asked.need, asked.now, then);
  document.getElementById("predicted").textContent =
    Math.round(asked.need.samples / took).toLocaleString("en") + " samples/s, " + (asked.need.measured / took).toFixed(2)
    + " times the measured rate; the limit: " + slowest(asked.need, then)[0];
}
for (const input of document.querySelectorAll("#what-if input")) input.addEventListener("input", slide);
slide();
"""

_SLIDERS = (("threads", "num_threads"), ("depth", "prefetch_queue_depth"), ("workers", "py_num_workers"), ("engines", "engines"),
            ("fetch", "batches that awaited sources are asked for ahead"))  # fmt: skip
_TIMES = (("cores", "processors"), ("storage", "speed of the storage, times"))


def _sliders(asked: what_if.WhatIf) -> str:
    """Sliders that predict the rate in the browser, and the table of predictions."""
    data = asked.as_dict()
    now = data["now"]
    rows = [
        f'<label>{title} <input type="range" name="{name}" min="{min(now[name], 1)}" max="{max(8, 4 * now[name])}" value="{now[name]}">'
        "<output></output></label>"
        for name, title in _SLIDERS
    ] + [
        f'<label>{title} <input type="range" data-times="1" name="{name}" min="-2" max="4" step="0.25" value="0"><output></output></label>'
        for name, title in _TIMES
    ]  # fmt: skip
    table = "".join(
        f"<tr><td>{_text(row.shown)}</td><td class=\"number\">{row.rate:,.0f}</td>"
        f"<td class=\"number\">x {row.factor:.2f}</td><td>{row.limit}</td></tr>"
        for row in asked.rows
    )
    first = asked.first
    advice = "No setting gains 3 %." if first is None else f"Turn first: {first.shown}."
    return (
        f'<form id="what-if" data-asked="{html.escape(json.dumps(data))}">{"".join(rows)}<p id="predicted"></p></form>'
        f"<p>{_text(advice)}</p><table><tr><th>setting</th><th>samples/s</th><th></th><th>the limit then</th></tr>{table}</table>"
    )
