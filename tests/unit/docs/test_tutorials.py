"""The tutorials (docs/tutorials) are notebooks, and print what their pages show."""

from __future__ import annotations

import ast
import contextlib
import importlib.util
from pathlib import Path

import pytest
from helpers import postgres

from docs.site import tutorials

NEEDS = {"pytorch": ["torch"], "jax": ["jax"], "tensorflow": ["tensorflow"], "ray": ["ray"], "databases": [], "tuning": [], "bad_step": []}
"""Tutorial -> the modules that its page says to install."""
FILES = tutorials.files()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_tutorial_is_a_notebook(path: Path):
    text = path.read_text()
    assert text.startswith(tutorials.HEAD + "# ") and path.stem in NEEDS
    found = tutorials.cells(text)
    assert text.count("```{code-cell}") == len(found) >= 3 and text.count("\n```output") == sum(cell.output is not None for cell in found)
    made = tutorials.notebook(text)
    assert [cell["source"] for cell in made["cells"] if cell["cell_type"] == "code"] == [cell.code for cell in found]
    assert made["cells"][0]["source"].startswith("# ") and len({cell["id"] for cell in made["cells"]}) == len(made["cells"])
    for name, program in tutorials.programs(text).items():
        assert ast.parse(program, name).body
    page = tutorials.page(text, path.stem)
    assert page.startswith("# ") and f'href="{path.stem}.ipynb"' in page and "{code-cell}" not in page


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_jupyter_and_jupytext_read_the_same_notebook(path: Path):
    jupytext, nbformat = pytest.importorskip("jupytext"), pytest.importorskip("nbformat")
    made = nbformat.from_dict(tutorials.notebook(path.read_text()))
    nbformat.validate(made)
    opened = jupytext.read(path)
    assert opened.metadata["kernelspec"]["name"] == "python3"
    sources = [[cell.source for cell in one.cells if cell.cell_type == "code"] for one in (made, opened)]
    assert sources[0] == sources[1]


def test_the_index_names_all_tutorials():
    text = (tutorials.FOLDER / "index.md").read_text()
    assert [path.name for path in FILES if f"]({path.name})" not in text or f"\n{path.stem}\n" not in text] == []


TEXT = tutorials.HEAD + "# A\n\n```{code-cell} ipython3\nprint(1, 2.5)\n```\n\n```output\n1 2.5\n```\n\nEnd.\n"


def test_stale_outputs_are_found():
    assert tutorials.stale(TEXT, ["1 2.75\n"]) == []  # a measurement
    assert "printed now\n2 2.5" in tutorials.stale(TEXT, ["2 2.5\n"])[0]
    assert len(tutorials.stale(TEXT, [""])) == len(tutorials.stale(TEXT.replace("```output\n1 2.5\n```\n", ""), ["1"])) == 1
    varies = TEXT.replace("```output\n", "```output varies\n")
    assert tutorials.stale(varies, ["9 8.5 7\n"]) == [] and tutorials.stale(varies, [""])


def test_new_outputs_are_written_in_their_place():
    changed = tutorials.with_outputs(TEXT, ["3 4.5\n"])
    assert changed == TEXT.replace("1 2.5", "3 4.5")
    assert tutorials.with_outputs(changed, [""]).count("output") == 0
    assert tutorials.with_outputs(tutorials.with_outputs(changed, [""]), ["1 2.5\n"]) == TEXT
    assert tutorials.notebook(TEXT)["cells"][1]["outputs"][0]["text"] == "1 2.5\n"


def test_lines_that_differ_in_each_run_are_left_out(tmp_path):
    printed = f"1\n\x1b[33m(raylet)\x1b[0m A worker died.\n{tmp_path}/slow.py:step\n"
    assert tutorials._shown(printed, tmp_path) == "1\nslow.py:step\n"


@pytest.mark.slow  # 10 to 40 s each
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_tutorial_runs_and_prints_what_its_page_shows(path: Path, tmp_path, monkeypatch):
    pytest.importorskip("nbclient")
    for module in ("ipykernel", *NEEDS[path.stem]):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed")
    text = path.read_text()
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(postgres.server()) if path.stem == "databases" else None
        if server is not None:
            monkeypatch.setenv("POSTGRES", server)
        printed = tutorials.run(text, tmp_path)
    assert tutorials.stale(text, printed) == []
    if server is not None:
        assert printed[-1] == "Postgres gave the 6 batches of SQLite\n"
