"""A strict parser of Prometheus' text format, version 0.0.4: https://prometheus.io/docs/instrumenting/exposition_formats/."""

from __future__ import annotations

import math
import re

_METRIC, _LABEL = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*"), re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_VALUE = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*(?:[eE][+-]?[0-9]+)?|Inf)|NaN")


def parsed(text):
    """The samples: (name, labels as sorted pairs) -> number. ValueError for a text that a strict reader refuses."""
    text.encode("utf-8")
    if text and not text.endswith("\n"):
        raise ValueError("the last line does not end")
    samples, kinds, helped, done, current = {}, {}, set(), set(), None
    for line in text.split("\n")[:-1]:
        if line.startswith("#"):
            name = _comment(line, kinds, helped)
        else:
            name, labels, value = _sample(line)
            if name not in kinds:
                raise ValueError(f"no TYPE before {line!r}")
            if (name, labels) in samples:
                raise ValueError(f"twice: {line!r}")
            if kinds[name] == "counter" and (not name.endswith("_total") or not 0 <= value < math.inf):
                raise ValueError(f"no counter: {line!r}")
            samples[name, labels] = value
        if name != current:
            if name in done:
                raise ValueError(f"the lines of {name} are not together")
            done.add(name)
            current = name
    return samples


def _comment(line, kinds, helped):
    mark, kind, name, rest = (*line.split(" ", 3), "", "", "")[:4]
    if mark != "#" or kind not in ("HELP", "TYPE") or not _METRIC.fullmatch(name):
        raise ValueError(f"{line!r} is neither HELP nor TYPE")
    if kind == "HELP":
        if name in helped or name in kinds or not rest or re.search(r"\\(?![\\n])", rest):
            raise ValueError(f"HELP of {name}: {rest!r}")
        helped.add(name)
    elif name in kinds or name not in helped or rest not in ("counter", "gauge"):
        raise ValueError(f"TYPE of {name}: {rest!r}")
    else:
        kinds[name] = rest
    return name


def _sample(line):
    found = _METRIC.match(line)
    if found is None:
        raise ValueError(f"no name: {line!r}")
    at, labels = found.end(), []
    if line[at : at + 1] == "{":
        at += 1
        while line[at] != "}":
            label = _LABEL.match(line, at)
            if label is None or label[0].startswith("__") or line[label.end() : label.end() + 2] != '="':
                raise ValueError(f"a label: {line!r}")
            at, value = _string(line, label.end() + 2)
            labels.append((label[0], value))
            if line[at] == ",":
                at += 1
            elif line[at] != "}":
                raise ValueError(f"behind a label: {line!r}")
        at += 1
    if len({name for name, _ in labels}) != len(labels):
        raise ValueError(f"a label twice: {line!r}")
    if line[at : at + 1] != " " or not _VALUE.fullmatch(line, at + 1):
        raise ValueError(f"no value: {line!r}")
    return found[0], tuple(sorted(labels)), float(line[at + 1 :])


def _string(line, at):
    """The end and the value of a string."""
    value = ""
    while line[at] != '"':
        if line[at] == "\\":
            value += {"\\": "\\", '"': '"', "n": "\n"}[line[at + 1]]
            at += 2
        else:
            value += line[at]
            at += 1
    return at + 1, value
