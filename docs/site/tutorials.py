"""The tutorials (docs/tutorials): notebooks in Jupytext's MyST format, with the output of each cell below it.

A text can be reviewed, and Jupyter with Jupytext opens it as a notebook. The site shows it as a page, with the same notebook in
Jupyter's own format beside the page. ``python -m docs.site tutorials NAME ...`` runs notebooks and writes their outputs again;
tests/unit/docs/test_tutorials.py runs them and compares.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "tutorials"
HEAD = """---
jupytext:
  text_representation:
    extension: .md
    format_name: myst
kernelspec:
  display_name: Python 3
  language: python
  name: python3
---

"""
CELL = re.compile(
    r"^```\{code-cell\} ipython3\n(?P<code>.*?)^```\n(?:\n^```output(?P<varies> varies)?\n(?P<output>.*?)^```\n)?", re.M | re.S
)
WRITES = "%%writefile "
SECONDS = 300
"""Limit of a cell."""


class Cell(NamedTuple):
    """A cell of code. `output` is what it printed, None for nothing; if it `varies`, each run prints something else."""

    code: str
    output: str | None
    varies: bool


def files() -> list[Path]:
    """The notebooks."""
    return sorted(path for path in FOLDER.glob("*.md") if path.name != "index.md")


def cells(text: str) -> list[Cell]:
    """The cells of code of a notebook."""
    return [Cell(found["code"].removesuffix("\n"), found["output"], bool(found["varies"])) for found in CELL.finditer(text)]


def programs(text: str) -> dict[str, str]:
    """The programs of a notebook: "notebook" for its cells, and the name of each file that a cell writes."""
    found = {"notebook": ""}
    for cell in cells(text):
        if cell.code.startswith(WRITES):
            first, _, rest = cell.code.partition("\n")
            found[first.removeprefix(WRITES).strip()] = rest + "\n"
        else:
            found["notebook"] += cell.code + "\n\n"
    return found


def page(text: str, name: str) -> str:
    """The Markdown of the page of a notebook."""
    title, _, rest = text.removeprefix(HEAD).partition("\n")
    link = f'This page is a notebook: <a href="{name}.ipynb" download>{name}.ipynb</a>. Its outputs are those of a run.'
    return f"{title}\n\n{link}\n{rest}".replace("```{code-cell} ipython3\n", "```python\n")


def notebook(text: str) -> dict[str, Any]:
    """A notebook in Jupyter's format (nbformat 4.5), with its outputs."""
    made: list[dict[str, Any]] = []

    def add(kind: str, source: str, **more: Any) -> None:
        place = hashlib.sha256(f"{len(made)} {source}".encode()).hexdigest()[:8]
        made.append({"id": place, "cell_type": kind, "metadata": {}, "source": source, **more})

    def prose(part: str) -> None:
        if part.strip():
            add("markdown", part.strip())

    text, end = text.removeprefix(HEAD), 0
    for found in CELL.finditer(text):
        prose(text[end : found.start()])
        end = found.end()
        printed = found["output"]
        outputs = [] if printed is None else [{"output_type": "stream", "name": "stdout", "text": printed}]
        add("code", found["code"].removesuffix("\n"), execution_count=None, outputs=outputs)
    prose(text[end:])
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": made, "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}}, "nbformat": 4, "nbformat_minor": 5}


def write(pages: Path) -> None:
    """Write the notebooks in Jupyter's format beside their pages."""
    for path in files():
        made = json.dumps(notebook(path.read_text(encoding="utf-8")), indent=1, ensure_ascii=False)
        (pages / FOLDER.name / f"{path.stem}.ipynb").write_text(made + "\n", encoding="utf-8")


def run(text: str, folder: Path) -> list[str]:
    """Run a notebook in a Jupyter kernel of this interpreter, in `folder`. Returns what each cell printed.

    Raises nbclient.exceptions.CellExecutionError for a cell that raises.
    """
    import jupyter_client
    import nbclient
    import nbformat

    made = nbformat.from_dict(notebook(text))
    for cell in made.cells:
        if cell.cell_type == "code":
            cell.outputs = []
    paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    with tempfile.TemporaryDirectory() as sockets:  # in files: a port may be taken before the kernel binds it
        kernel = jupyter_client.AsyncKernelManager(kernel_name="python3", transport="ipc", ip=f"{sockets}/kernel")
        client = nbclient.NotebookClient(made, kernel, timeout=SECONDS, resources={"metadata": {"path": str(folder)}})
        client.execute(env={**os.environ, "PYTHONPATH": paths, "PYTHONWARNINGS": "ignore", "TF_CPP_MIN_LOG_LEVEL": "3"})
    code = [cell for cell in made.cells if cell.cell_type == "code"]
    return [_shown("".join(out.text for out in cell.outputs if out.get("name") == "stdout"), folder) for cell in code]


def _shown(printed: str, folder: Path) -> str:
    """What a cell printed, without the folder of the run, and without messages of Ray's daemon, which come at any time."""
    return re.sub(r"^.*\(raylet\).*\n", "", printed.replace(f"{folder}/", ""), flags=re.M)


def with_outputs(text: str, printed: list[str]) -> str:
    """The text of a notebook with other outputs. A file that a cell writes is no output."""
    given = iter(printed)

    def replaced(found: re.Match[str]) -> str:
        output = next(given)
        code = f"```{{code-cell}} ipython3\n{found['code']}```\n"
        if not output or found["code"].startswith(WRITES):
            return code
        return f"{code}\n```output{found['varies'] or ''}\n{output.rstrip()}\n```\n"

    return CELL.sub(replaced, text)


def plain(output: str) -> str:
    """An output without its measurements: decimals, which differ between processors and versions."""
    return re.sub(r"\d+\.\d+", "#", output).rstrip()


def stale(text: str, printed: list[str]) -> list[str]:
    """What is wrong with the outputs of a notebook, beside what its cells printed in a new run."""
    found = []
    for cell, now in zip(cells(text), printed, strict=True):
        if cell.code.startswith(WRITES):
            continue
        then = cell.output or ""
        wrong = bool(then.strip()) != bool(now.strip()) if cell.varies else plain(then) != plain(now)
        if wrong:
            found.append(f"{cell.code}\n--- stored\n{then}--- printed now\n{now}")
    return found
