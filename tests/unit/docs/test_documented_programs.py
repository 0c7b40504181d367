"""Every block of Python in docs/start.md, docs/guides and docs/coming_from runs as it stands.

The blocks of a page are one program. The programs of docs/coming_from are in examples/coming_from: ours run here; the other one of a pair
runs where its library is installed, and must print the same line.
"""

from __future__ import annotations

import ast
import contextlib
import io
import os
import re
import runpy
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from helpers.places import PROJECT as ROOT

import asyncdali

DOCS = ROOT / "docs"
EXAMPLES = ROOT / "examples" / "coming_from"
PICTURES = Path(asyncdali.__file__).parent / "data" / "pictures"

GUIDES = sorted(path for path in (DOCS / "guides").glob("*.md") if path.name != "index.md")
NEEDS = {"video.md": "av"}
"""Guide -> the module that it says to install."""

PAIRS = {
    "dali": "nvidia.dali", "dali_dynamic": "nvidia.dali", "torch": "torchvision", "webdataset": "webdataset", "grain": "grain",
    "tf_data": "tensorflow",
}  # fmt: skip
"""Page of docs/coming_from -> module of the other library."""

OURS = {"torch": "torch", "tf_data": "tensorflow"}
"""Page -> module that our program needs."""

LINE = "64 pictures [3, 64, 64] labels 224\n"
"""Eight pictures of each of eight classes."""


def blocks(page: Path) -> list[str]:
    """The blocks of Python of a page."""
    return re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.M | re.S)


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.stem)
def test_guides_run(page: Path, tmp_path, monkeypatch):
    if page.name in NEEDS:
        pytest.importorskip(NEEDS[page.name])
    monkeypatch.chdir(tmp_path)
    found = blocks(page)
    assert found
    names = {"__name__": page.stem}
    with contextlib.redirect_stdout(io.StringIO()):
        for block in found:
            exec(compile(block, str(page), "exec"), names)


def test_all_blocks_of_all_pages_are_python():
    """Blocks of other pages run in test_page_blocks.py; here those of archives and decisions are compiled, too."""
    pages = [*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *(ROOT / "benchmarks").rglob("*.md")]
    fence = re.compile(r"^ *```python\n(.*?)^ *```$", re.M | re.S)
    found = [(page, text) for page in pages for text in fence.findall(page.read_text())]
    assert len(found) > 50
    for page, text in found:
        compile(textwrap.dedent(text), str(page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


def test_the_index_names_all_guides():
    text = (DOCS / "guides" / "index.md").read_text()
    assert [page.name for page in GUIDES if f"]({page.name})" not in text or f"\n{page.stem}\n" not in text] == []


def test_start_here(tmp_path, monkeypatch):
    """The first blocks make a picture; the program is killed, and continues with the losses of a run that was not."""
    monkeypatch.chdir(tmp_path)
    *first, program = blocks(DOCS / "start.md")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        names = {"__name__": "start"}
        for block in first:
            exec(compile(block, "start.md", "exec"), names)
    assert printed.getvalue().startswith("(4, 120, 160, 3) ") and (tmp_path / "batch.png").stat().st_size > 1000

    (tmp_path / "train.py").write_text(program)

    def run(folder: str, *arguments: str) -> subprocess.CompletedProcess:
        (tmp_path / folder).mkdir(exist_ok=True)
        command = [sys.executable, str(tmp_path / "train.py"), *arguments]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
        return subprocess.run(
            command, cwd=tmp_path / folder, env=environment, capture_output=True, text=True, timeout=300, check=False
        )  # fmt: skip

    whole, killed = run("whole"), run("killed", "17")
    resumed = run("killed")
    assert (whole.returncode, killed.returncode, resumed.returncode) == (0, 1, 0), whole.stderr + killed.stderr + resumed.stderr
    lines = whole.stdout.splitlines()
    assert len(lines) == 40 and killed.stdout.splitlines() == lines[:17]
    assert resumed.stdout.splitlines() == ["resumed behind step 15", *lines[15:]]
    losses = [float(line.split()[-1]) for line in lines]
    assert sum(losses[-5:]) < sum(losses[:5]), "the classifier learns nothing"


@pytest.fixture(scope="module")
def shard(tmp_path_factory) -> Path:
    """The tar file for WebDataset."""
    path = tmp_path_factory.mktemp("shard") / "pictures.tar"
    runpy.run_path(str(EXAMPLES / "make_shard.py"))["main"](str(PICTURES), str(path))
    return path


def test_pages_have_the_programs():
    assert {path.stem for path in (DOCS / "coming_from").glob("*.md")} == {*PAIRS, "index"}
    for name in PAIRS:
        programs = [(EXAMPLES / f"{name}_{which}.py").read_text() for which in ("before", "after")]
        assert blocks(DOCS / "coming_from" / f"{name}.md") == programs, f"docs/coming_from/{name}.md is not examples/coming_from"


@pytest.mark.parametrize("name", PAIRS)
def test_our_programs(name, shard, monkeypatch):
    if name in OURS:
        pytest.importorskip(OURS[name])
    monkeypatch.setattr(sys, "argv", ["program", str(shard if name == "webdataset" else PICTURES)])
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        runpy.run_path(str(EXAMPLES / f"{name}_after.py"), run_name="__main__")
    assert printed.getvalue() == LINE


@pytest.mark.parametrize("name", PAIRS)
def test_programs_of_other_libraries(name, shard):
    """In a process of its own: other libraries change signal handlers, threads and logs."""
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
    if subprocess.run([sys.executable, "-c", f"import {PAIRS[name]}"], env=environment, capture_output=True, check=False).returncode:
        pytest.skip(f"{PAIRS[name]} cannot be imported here")
    command = [sys.executable, str(EXAMPLES / f"{name}_before.py"), str(shard if name == "webdataset" else PICTURES)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0 and done.stdout == LINE, done.stderr
