"""A page for each operator, made from its declaration, and the page that lists all operators by family."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable
from pathlib import Path

from asyncdali.graph import reference
from asyncdali.operators import load_registry
from asyncdali.operators.base import COMMON_ARGUMENTS, REQUIRED, Arg, Schema

FAMILIES = {
    "Readers": ("readers",),
    "Decoders": ("operators.decode",),
    "Data from Python": ("sources", "operators.python"),
    "Size and place of pixels": ("operators.resize", "operators.crop", "operators.flip", "operators.warp"),
    "Colours": ("operators.color",),
    "Filters": ("operators.filters",),
    "Masks and pastes": ("operators.masks",),
    "Boxes and segmentation": ("operators.detection", "operators.segmentation"),
    "Random numbers and noise": ("operators.random",),
    "Sound": ("operators.audio",),
    "Videos and sequences": ("operators.sequences",),
    "Matrices of coordinates": ("operators.transforms",),
    "Shapes and types": ("operators.shaping", "operators.casts"),
    "Statistics": ("operators.statistics",),
    "Constants and tables": ("operators.constants", "operators.lookup"),
    "Batches and copies": ("operators.batches", "operators.moves", "operators.images", "regrouping"),
}
"""Title of a family -> folders of the package whose operators it has."""


def schemas() -> list[Schema]:
    """The declarations of all public operators, by name."""
    return sorted((kind.schema for kind in load_registry().values() if not kind.schema.name.startswith("_")), key=lambda item: item.name)


def families() -> dict[str, list[Schema]]:
    """Title of a family -> its operators. Each operator is in one family."""
    registry = load_registry()
    found: dict[str, list[Schema]] = {title: [] for title in FAMILIES}
    for schema in schemas():
        module = registry[schema.name].__module__.removeprefix("asyncdali.")
        titles = [title for title, folders in FAMILIES.items() for folder in folders if module.startswith(f"{folder}.")]
        if len(titles) != 1:
            raise ValueError(f"{schema.name} ({module}) is in {len(titles)} families of docs/site/operators.py; name its folder in one")
        found[titles[0]].append(schema)
    return found


def page_of(name: str) -> str:
    """The page of an operator."""
    return f"operators/{name}.md"


def anchors() -> dict[str, str]:
    """Anchor of docs/operators.md -> page of the operator."""
    return {f"fn{schema.name.replace('.', '')}": page_of(schema.name) for schema in schemas()}


def first_sentence(schema: Schema) -> str:
    """The first sentence of the docstring."""
    text = " ".join(inspect.cleandoc(schema.doc).split("\n\n")[0].split())
    return re.split(r"(?<=[.:]) (?=[A-Z`])", text)[0].rstrip(":")


def _argument(schema: Schema, arg: Arg) -> list[str]:
    facts = [arg.describe().replace(" or DataNode", ""), arg.describe_default("`")]
    if arg.tensor:
        facts.append("per sample")
    if arg.name in schema.per_frame:
        facts.append("per frame")
    return [f"`{arg.name}`", f": *{facts[0]}* · {' · '.join(facts[1:])}", "", f"  {arg.doc}", ""]


def _arguments(schema: Schema) -> list[str]:
    own = [arg for arg in schema.by_name.values() if arg not in COMMON_ARGUMENTS]
    if not own:
        return ["## Arguments", "", "None but those that [every operator](index.md#arguments-of-every-operator) has.", ""]
    lines = ["## Arguments", ""]
    if any(arg.tensor for arg in own):
        lines += ["*Per sample*: the argument may also be the output of another operator, with one value for each sample.", ""]
    for arg in sorted(own, key=lambda arg: arg.default is not REQUIRED):
        lines += _argument(schema, arg)
    return [*lines, "And those that [every operator](index.md#arguments-of-every-operator) has.", ""]


def _written_arguments(function: Callable[..., object]) -> list[str]:
    """The arguments of a function with a docstring of its own, and the parts behind them."""
    parameters = inspect.signature(function).parameters
    found: list[str] = []
    for title, body in _PART.findall(inspect.cleandoc(function.__doc__ or "")):
        if title != "Args":
            found += [f"**{title}**", "", *_spaced(inspect.cleandoc(body).splitlines()), ""]
            continue
        for names, doc in _ENTRY.findall(inspect.cleandoc(body)):
            own = [parameters[name] for name in re.findall(r"\w+", names) if name in parameters]
            kinds = dict.fromkeys(f"*{item.annotation}*" for item in own if item.annotation is not item.empty)
            defaults = dict.fromkeys("required" if item.default is item.empty else f"default `{item.default!r}`" for item in own)
            facts = [] if names.startswith("*") else [*kinds, *defaults]
            first, _, rest = doc.strip("\n").partition("\n")
            found += [", ".join(f"`{name.strip()}`" for name in names.split(",")), f": {' · '.join(facts) or 'any number'}", ""]
            found += [*(f"  {line}".rstrip() for line in _spaced([first, *inspect.cleandoc(rest).splitlines()])), ""]
    return found


_PART = re.compile(r"^(Args|Returns|Raises):\n((?:    .*\n?|\n)*)", re.M)
_ENTRY = re.compile(r"^(\*{0,2}\w[\w, ]*): (.*\n?(?:(?:    .*|)\n?(?=\s|\Z))*)", re.M)


def _spaced(lines: list[str]) -> list[str]:
    """With an empty line before each list."""
    spaced: list[str] = []
    for line in lines:
        if line.startswith("- ") and spaced and spaced[-1] and not spaced[-1].startswith(("- ", "  ")):
            spaced.append("")
        spaced.append(line)
    return spaced


def _count(low: int, high: int) -> str:
    return str(low) if low == high else f"{low} to {high}"


def facts(schema: Schema) -> str:
    """Devices, inputs and outputs in one line."""
    outputs = str(schema.outputs) if isinstance(schema.outputs, int) else "depends on the arguments"
    return f"Devices: {', '.join(f'`{name}`' for name in schema.devices)} · inputs: {_count(*schema.inputs)} · outputs: {outputs}"


def page(schema: Schema, parts: dict[str, list[str]], family: str, relatives: list[Schema]) -> str:
    """The page of one operator. `parts` has the lines of further sections by title; `relatives` are the operators of its family.

    The page is in no list of contents: 140 entries in the navigation of every page would double the bytes and the time of the build.
    """
    anchor = family.lower().replace(" ", "-")
    lines = ["---", "orphan: true", "---", "", f"[Operators](index.md) › [{family}](index.md#{anchor})", "", f"# fn.{schema.name}", ""]
    about = schema.doc
    if schema.hand_written:  # its declaration refers to the function
        module = importlib.import_module(f"asyncdali.{schema.hand_written}")
        function = getattr(module, schema.name.rpartition(".")[2])
        about = inspect.cleandoc(function.__doc__).partition("\nArgs:")[0]
    text = [re.sub(r":\w+:`~?([^`]+)`", r"`\1`", line) for line in reference._paragraphs(about)]
    lines += [*text, facts(schema), ""]
    for title in ("Example", "Cost"):
        if parts.get(title):
            lines += [f"## {title}", "", *parts[title], ""]
    if schema.hand_written:
        lines += ["## Arguments", "", *_written_arguments(function)]
    else:
        if declared := reference.declarations(schema):
            lines += ["## Inputs and outputs", "", *(f"- {line}" for line in declared), ""]
        lines += _arguments(schema)
    others = [f"[{other.name}]({other.name}.md)" for other in relatives if other is not schema]
    if others:
        lines += ["## Of the same family", "", ", ".join(others), ""]
    return "\n".join(lines)


INTRODUCTION = """{} operators, by family. The [gallery](../gallery/index.md) shows what they do to a picture, and the
[wish index](../wishes.md) finds an operator by what you want. `fn.NAME` builds a graph, `ops.NAME` has the same
arguments in a class, and dynamic mode calls the operator at once ([dynamic mode](../dynamic.md))."""


def index(found: dict[str, list[Schema]]) -> str:
    """The page that lists all operators."""
    count = sum(map(len, found.values()))
    lines = ["# Operators", "", INTRODUCTION.format(count), ""]
    for title, own in found.items():
        lines += [f"## {title}", ""]
        lines += [f"- [{item.name}]({item.name}.md): {first_sentence(item)} *({', '.join(item.devices)})*" for item in own]
        lines.append("")
    lines += ["## Arguments of every operator", ""]
    for arg in COMMON_ARGUMENTS:
        lines += [f"- `{arg.name}` ({arg.describe()}; {arg.describe_default('`')}): {arg.doc}"]
    lines.append("")
    return "\n".join(lines)


def write(folder: Path, sections: dict[str, dict[str, list[str]]]) -> None:
    """Write all pages to `folder`/operators. `sections`: operator -> title -> lines of further sections."""
    target = folder / "operators"
    target.mkdir(parents=True, exist_ok=True)
    found = families()
    for family, own in found.items():
        for schema in own:
            (folder / page_of(schema.name)).write_text(page(schema, sections.get(schema.name, {}), family, own), encoding="utf-8")
    (target / "index.md").write_text(index(found), encoding="utf-8")
