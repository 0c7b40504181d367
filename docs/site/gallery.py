"""The gallery: what each operator does to a picture or a sound, policies as contact sheets, and pipelines as drawings."""

from __future__ import annotations

import html
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image

from asyncdali.operators.base import Schema

from . import drawings, operators, programs
from .examples import EXAMPLES, WITHOUT, Example

PICTURES = "_pictures"
"""Folder of the pictures, at the root of the site."""


class Shown(NamedTuple):
    """A picture of the site."""

    file: str
    size: tuple[int, int]
    text: str
    """What the picture shows, for readers who do not see it."""
    caption: str


def strip(shown: Sequence[Shown], root: str) -> list[str]:
    """Pictures side by side, as lines of HTML. `root`: path from the page to the root of the site."""
    lines = ['<div class="strip">']
    for item in shown:
        columns, rows = item.size
        size = f'width="{columns}" height="{rows}" loading="lazy"'
        picture = f'<img src="{root}{PICTURES}/{item.file}" alt="{html.escape(item.text)}" {size}>'
        lines.append(f"<figure>{picture}<figcaption>{html.escape(item.caption)}</figcaption></figure>")
    return [*lines, "</div>"]


def arguments(call: str) -> str:
    """The settings of a call: what is behind its inputs."""
    inside = call[call.index("(") + 1 :].removesuffix(")") if call.endswith(")") else call
    parts, depth, part = [], 0, ""
    for letter in inside:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and not depth:
            parts.append(part.strip())
            part = ""
        else:
            part += letter
    named = [text for text in [*parts, part.strip()] if "=" in text and not text.startswith(("fn.", "["))]
    return ", ".join(named) or programs.without_trailing_comma(call)


def pictures_of(name: str, example: Example, outputs: Sequence[np.ndarray], folder: Path) -> list[Shown]:
    """Save the outputs of an example, and describe them."""
    sound = example.kind == "sound"
    found = []
    for k, output in enumerate(outputs):
        file = "original-sound.webp" if sound and not k else f"{name}-{k}.webp"
        size = programs.save(output, folder / PICTURES / file, sound)
        shape = "×".join(map(str, output.shape))
        if k == 0:
            what = "the spectrogram of the original sound" if sound else f"the original picture {example.file}"
            found.append(Shown(file, size, f"{name}: {what}", f"before ({shape})"))
        else:
            call = arguments(example.results[k - 1])
            found.append(Shown(file, size, f"{name} with {call}", f"{call} ({shape})"))
    return found


class Made(NamedTuple):
    """The examples of all operators that ran."""

    sections: dict[str, list[str]]
    """Operator -> the lines of the section "Example" of its page."""
    strips: dict[str, list[Shown]]
    """Operator -> its pictures."""


def make(folder: Path) -> Made:
    """Run all examples, and save their pictures below `folder`."""
    made = Made({}, {})
    for schema in operators.schemas():
        name = schema.name
        example = EXAMPLES.get(name)
        if example is None:
            made.sections[name] = [f"No example: {WITHOUT.get(name, 'none is written yet')}."]
        elif absent := programs.missing(example):
            made.sections[name] = [f"Not run, because {', '.join(absent)} was not installed when this page was made:", "", "```python",
                                   programs.program(example).rstrip(), "```"]  # fmt: skip
        else:
            ran = programs.run(example)
            lines = ["```python", ran.text.rstrip(), "```", ""]
            if ran.outputs:
                made.strips[name] = pictures_of(name, example, ran.outputs, folder)
                lines = [*strip(made.strips[name], "../"), "", *lines]
            else:
                lines += ["It prints:", "", "```text", ran.printed.rstrip(), "```"]
            made.sections[name] = lines
    return made


INTRODUCTION = """# Gallery

Each operator on a shipped picture: the original, and three settings. The programs are on the operators' pages. See also
[sounds](sound.md), [augmentation policies](policies.md) and [pipelines](pipelines.md), and the
[wish index](../wishes.md), which finds an operator by what you want."""


def page(made: Made, families: dict[str, list[Schema]], sound: bool) -> list[str]:
    """The lines of a page of the gallery: all operators with pictures, by family."""
    lines = []
    for title, own in families.items():
        shown = [schema for schema in own if schema.name in made.strips and (EXAMPLES[schema.name].kind == "sound") is sound]
        if shown:
            lines += ["", f"## {title}"]
        for schema in shown:
            link = f"[fn.{schema.name}](../operators/{schema.name}.md)"
            lines += ["", f"### {schema.name}", "", f"{link}: {operators.first_sentence(schema)}", ""]
            lines += strip(made.strips[schema.name], "../")
    return lines


POLICIES = {
    "AutoAugment, the policy for ImageNet": 'auto_augment.auto_augment(images, "image_net")',
    "AutoAugment, the policy for SVHN": 'auto_augment.auto_augment(images, "svhn")',
    "AutoAugment, the reduced policy for CIFAR-10": 'auto_augment.auto_augment(images, "reduced_cifar10")',
    "RandAugment, two operations of magnitude 9": "rand_augment.rand_augment(images, n=2, m=9)",
    "RandAugment, three operations of magnitude 25": "rand_augment.rand_augment(images, n=3, m=25)",
    "TrivialAugment": "trivial_augment.trivial_augment_wide(images)",
}
"""Title -> call."""

POLICY = """from pathlib import Path

import asyncdali
from asyncdali import fn, pipeline_def
from asyncdali.auto_aug import {module}

PICTURES = Path(asyncdali.__file__).parent / "data" / "pictures"


@pipeline_def(batch_size=16, num_threads=1, device_id=None, seed=3)
def example():
    jpegs, _ = fn.readers.file(file_root=str(PICTURES), random_shuffle=True)
    images = fn.resize(fn.decoders.image(jpegs), size=[120, 160])
    return {call}


(batch,) = example().run()
"""


def policies(folder: Path) -> list[str]:
    """The lines of the page of augmentation policies."""
    lines = ["# Augmentation policies", "", "One batch of each policy, as a contact sheet ([how to use them](../auto_aug.md))."]
    for k, (title, call) in enumerate(POLICIES.items()):
        text = POLICY.format(module=call.split(".")[0], call=call)
        names: dict[str, object] = {}
        exec(compile(text, "<policy>", "exec"), names)
        samples = [np.array(sample) for sample in names["batch"]]  # type: ignore[attr-defined]
        sheet = Image.new("RGB", (4 * 164 - 4, 4 * 124 - 4), "white")
        for number, sample in enumerate(samples):
            sheet.paste(Image.fromarray(sample), (number % 4 * 164, number // 4 * 124))
        file = f"policy-{k}.webp"
        sheet.save(folder / PICTURES / file, "WEBP", quality=82)
        shown = Shown(file, sheet.size, f"Contact sheet of 16 pictures after {call}", call)
        lines += ["", f"## {title}", "", *strip([shown], "../"), "", "```python", text.rstrip(), "```"]
    return lines


def write(folder: Path, made: Made) -> None:
    """Write the pages of the gallery."""
    target = folder / "gallery"
    target.mkdir(exist_ok=True)
    families = operators.families()
    pages = ["```{toctree}", ":hidden:", "", "sound", "policies", "pipelines", "```"]
    (target / "index.md").write_text("\n".join([INTRODUCTION, *page(made, families, False), "", *pages, ""]), encoding="utf-8")
    head = ["# Sounds", "", "Each operator on a tone that rises, drawn as a spectrogram: time to the right, frequency upwards."]
    (target / "sound.md").write_text("\n".join([*head, *page(made, families, True), ""]), encoding="utf-8")
    (target / "policies.md").write_text("\n".join([*policies(folder), ""]), encoding="utf-8")
    (target / "pipelines.md").write_text("\n".join([*drawings.page(folder / PICTURES), ""]), encoding="utf-8")
