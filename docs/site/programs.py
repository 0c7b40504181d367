"""Programs of the operators' examples, and pictures of their outputs."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import os
import re
import textwrap
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from .examples import Example

HEAD = """from pathlib import Path

import numpy as np

import asyncdali
from asyncdali import fn, pipeline_def, types
"""
SOUND = """seconds = np.arange(16000, dtype=np.float32) / 16000
TONES = 0.5 * np.sin(2 * np.pi * (300 + 2500 * seconds) * seconds) + 0.2 * np.sin(2 * np.pi * 1200 * seconds)
"""
WIDTH = 320
"""Columns of a picture in the gallery."""


class Ran(NamedTuple):
    """An example that ran."""

    text: str
    """The program."""
    outputs: list[np.ndarray]
    """The first sample of each output; the first output of a "picture" or "sound" is the original."""
    printed: str


def program(example: Example) -> str:
    """The text of the program of an example."""
    lines = [f"@pipeline_def(batch_size={example.batch}, num_threads=1, device_id=None, seed=7)", "def example():"]
    body = []
    wanted = example.before + " ".join(example.results)
    head = HEAD
    shown = list(example.results)
    if example.kind == "sound":
        body.append('sound = types.Constant(TONES.astype(np.float32), device="cpu")')
        shown.insert(0, "sound")
    reads = example.kind == "picture" or "picture" in wanted or "jpegs" in wanted
    if reads:
        body.append(f'jpegs, _ = fn.readers.file(file_root=str(PICTURES), files=["{example.file}"])')
    if example.kind == "picture" or "picture" in wanted:
        body.append("picture = fn.decoders.image(jpegs)")
    if example.kind == "picture":
        shown.insert(0, "picture")
    body += example.before.strip().splitlines()
    imports, _, setup = example.imports.partition("\n\n") if example.imports.startswith(("import", "from")) else ("", "", example.imports)
    if imports:
        head = _with_imports(head, imports.splitlines())
    while setup.startswith(("import", "from")):
        more, _, setup = setup.partition("\n\n")
        head = _with_imports(head, more.splitlines())
    needs_pictures = reads or "PICTURES" in wanted + example.imports
    parts = []
    if needs_pictures:
        parts.append('PICTURES = Path(asyncdali.__file__).parent / "data" / "pictures"\n')
    if example.kind == "sound":
        parts.append(SOUND)
    if setup:
        parts.append(f"\n{setup.strip()}\n" if setup.startswith("def ") else f"{setup.strip()}\n")
    result = _wrapped(shown[0]) if len(shown) == 1 and not shown[0].startswith("*") else "(\n" + "".join(
        textwrap.indent(_wrapped(text), "    ") + ",\n" for text in shown) + ")"  # fmt: skip
    body += f"return {result}".splitlines()
    lines += textwrap.indent("\n".join(body), "    ").splitlines()
    parts.append("\n" + "\n".join(lines) + "\n\n")
    if example.kind in ("picture", "sound"):
        parts.append("before, *after = example().run()\n")
    elif example.kind == "values":
        parts.append("for output in example().run():\n    print(*(np.asarray(sample).tolist() for sample in output))\n")
    else:
        parts.append("for output in example().run():\n    print(output[0].shape(), output.dtype, output.layout())\n")
    text = "\n".join(parts)
    return f"{_used(head, text)}\n{text}"


def _used(head: str, text: str) -> str:
    """The imports of `head` that `text` needs."""
    words = {"import asyncdali\n": "asyncdali.", "import numpy as np\n": "np.", "from pathlib import Path\n": "Path("}
    for line, word in words.items():
        if word not in text:
            head = head.replace(line, "")
    if "types." not in text:
        head = head.replace("pipeline_def, types", "pipeline_def")
    return re.sub(r"\n{3,}", "\n\n", head.strip()) + "\n"


COLUMNS = 100
"""The longest call on one line."""


def _wrapped(call: str) -> str:
    """A call with one argument per line, if the call is long."""
    call = without_trailing_comma(call)
    if len(call) <= COLUMNS or not call.endswith(")"):
        return call
    start, depth, parts, part = call.index("("), 0, [], ""
    for letter in call[start + 1 : -1]:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and not depth:
            parts.append(part.strip())
            part = ""
        else:
            part += letter
    return f"{call[: start + 1]}\n" + "".join(f"    {text},\n" for text in [*parts, part.strip()]) + ")"


def without_trailing_comma(call: str) -> str:
    """A call whose settings are empty, without the comma before them."""
    return re.sub(r", *\)$", ")", call)


def _with_imports(head: str, lines: list[str]) -> str:
    """`head` with more imports, each in its group."""
    groups = head.strip().split("\n\n")
    for line in lines:
        module = line.split()[1].split(".")[0]
        group = 2 if module == "asyncdali" else 1 if module in ("av", "astropy", "lmdb") else 0
        groups[group] = "\n".join(sorted([*groups[group].splitlines(), line], key=lambda text: (text.startswith("from"), text)))
    return "\n\n".join(groups) + "\n"


def missing(example: Example) -> list[str]:
    """The modules that the example needs and that are not installed."""
    return [name for name in example.needs if importlib.util.find_spec(name) is None]


def run(example: Example) -> Ran:
    """Run the program of an example."""
    text = program(example)
    names: dict[str, Any] = {"__name__": "example"}
    printed = io.StringIO()
    folder = os.getcwd()
    try:
        with contextlib.redirect_stdout(printed):
            exec(compile(text, "<example>", "exec"), names)
    finally:
        os.chdir(folder)
    outputs = [names["before"], *names["after"]] if "before" in names else []
    return Ran(text, [np.array(output[0]) for output in outputs], printed.getvalue())


def caption(result: str, output: np.ndarray) -> str:
    """The settings of a call, and the shape that came out."""
    return f"{result} → {'×'.join(map(str, output.shape))}"


RAMP = np.array([[13, 8, 40], [59, 30, 112], [120, 40, 130], [190, 60, 110], [240, 120, 70], [250, 210, 90], [252, 253, 220]], float)
"""Colours of a spectrogram, from silent to loud."""


def coloured(values: np.ndarray) -> np.ndarray:
    """A matrix as a picture: low values dark, high values bright, the first row at the bottom."""
    low, high = float(values.min()), float(values.max())
    place = (values - low) / (high - low or 1.0) * (len(RAMP) - 1)
    below = np.clip(place.astype(int), 0, len(RAMP) - 2)
    share = (place - below)[..., None]
    return (RAMP[below] * (1 - share) + RAMP[below + 1] * share).astype(np.uint8)[::-1]


def spectrum(sound: np.ndarray) -> np.ndarray:
    """A spectrogram in decibels, for the picture of a sound."""
    size, step = 256, 64
    windows = np.lib.stride_tricks.sliding_window_view(np.asarray(sound, float).ravel(), size)[::step]
    power = np.abs(np.fft.rfft(windows * np.hanning(size), axis=1)).T ** 2
    return 10 * np.log10(np.maximum(power, power.max() * 1e-8))


def pixels(output: np.ndarray, sound: bool) -> np.ndarray:
    """An output as RGB pixels."""
    if sound:
        if output.ndim == 1:
            return coloured(spectrum(output))
        decibels = output if output.min() < 0 else 10 * np.log10(np.maximum(output, output.max() * 1e-8))
        return coloured(decibels)
    if output.ndim == 3 and output.shape[0] in (1, 3) and output.shape[2] not in (1, 3):
        output = output.transpose(1, 2, 0)
    if output.dtype != np.uint8:
        values = output.astype(float)
        low, high = values.min(), values.max()
        output = ((values - low) / (high - low or 1.0) * 255).astype(np.uint8)
    if output.ndim == 2:
        output = output[..., None]
    return output if output.shape[2] == 3 else np.repeat(output[..., :1], 3, axis=2)


def save(output: np.ndarray, path: Path, sound: bool = False) -> tuple[int, int]:
    """Save an output as WebP of at most WIDTH columns. Returns columns and rows of the file."""
    picture = Image.fromarray(np.ascontiguousarray(pixels(output, sound)))
    if sound:
        picture = picture.resize((WIDTH, 200), Image.Resampling.BILINEAR)
    else:
        picture.thumbnail((WIDTH, WIDTH))
        if max(picture.size) < 120:  # small results are shown with their pixels
            picture = picture.resize((picture.width * 4, picture.height * 4), Image.Resampling.NEAREST)
    path.parent.mkdir(parents=True, exist_ok=True)
    picture.save(path, "WEBP", quality=82)
    return picture.size
