"""Builds the site: stages the sources, runs Sphinx with warnings as errors, and writes the files beside the pages."""

from __future__ import annotations

import fnmatch
import json
import os
import posixpath
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

from asyncdali._version import __version__

from . import charts, check, costs, gallery, operators, staging, troubles, tutorials, wishes

ADDRESS = "https://asyncdali.github.io/asyncdali"
OUTPUT = staging.ROOT / "build" / "site"

HIDDEN = {"decisions/index.md": ":glob:\n\n[0-9]*", "benchmarks/index.md": ":glob:\n\n*"}
"""Pages that get a list of the pages below them, for the navigation."""


def build(output: Path = OUTPUT) -> int:
    """Build the site in `output`/VERSION. Returns the exit status."""
    start = time.perf_counter()
    work = output / "work"
    source, pages = work / "source", output / __version__
    shutil.rmtree(work, ignore_errors=True)
    shutil.rmtree(pages, ignore_errors=True)
    source.mkdir(parents=True)
    origins = staging.stage(source, operators.anchors())
    generate(source)
    for page, listed in HIDDEN.items():
        with open(source / page, "a", encoding="utf-8") as file:
            file.write(f"\n```{{toctree}}\n:hidden:\n{listed}\n```\n")
    with open(source / "index.md", "a", encoding="utf-8") as file:
        file.write(contents("More pages", unlisted(source)))
    staged = time.perf_counter()
    environment = {**os.environ, "ASYNCDALI_SITE_WORK": str(work)}
    command = [sys.executable, "-m", "sphinx", "-b", "html", "-W", "--keep-going", "-q", "-c", str(Path(__file__).parent)]
    command += ["-d", str(work / "doctrees"), str(source), str(pages)]
    status = subprocess.call(command, cwd=staging.ROOT, env=environment)
    if status:
        print(f"Sphinx ended with status {status}")
        return status
    shutil.copytree(source / gallery.PICTURES, pages / gallery.PICTURES)
    for path in pages.rglob("*.html"):
        path.write_text(lazy(path.read_text(encoding="utf-8")), encoding="utf-8")
    beside(source, pages, origins)
    tutorials.write(pages)
    versions(output)
    count = len(list(pages.rglob("*.html")))
    now = time.perf_counter()
    print(f"{count} pages in {pages}: sources {staged - start:.1f} s, Sphinx {now - staged:.1f} s")
    return check.check(pages, browse=False)


def generate(source: Path) -> None:
    """Write the pages that are made from declarations."""
    os.environ.setdefault("ASYNCDALI_DEVICE", "host")  # examples with device_id=0 run everywhere
    made = gallery.make(source)
    names = {schema.name for schema in operators.schemas()}
    measured = costs.by_operator(names)
    sections = {name: {"Example": made.sections[name], "Cost": costs.section(measured[name]) if name in measured else []} for name in names}
    operators.write(source, sections)
    gallery.write(source, made)
    charts.write(source)
    with open(source / "troubleshooting.md", "a", encoding="utf-8") as file:
        file.write(troubles.sections())
    (source / "wishes.md").write_text(wishes.page(), encoding="utf-8")


TOCTREE = re.compile(r"^```\{toctree\}\n(.*?)^```$", re.M | re.S)


def unlisted(source: Path) -> list[str]:
    """Pages that no list of contents names, so that a new page of docs/ is on the site before its place is chosen."""
    every = {path.relative_to(source).with_suffix("").as_posix(): path for path in source.rglob("*.md")}
    listed = {"index"}
    for name, path in every.items():
        folder = name.rpartition("/")[0]
        for block in TOCTREE.findall(path.read_text(encoding="utf-8")):
            for line in block.splitlines():
                entry = posixpath.normpath(posixpath.join(folder, line.strip()))
                listed |= {entry, *(other for other in every if ":glob:" in block and other != name and fnmatch.fnmatchcase(other, entry))}
    orphans = {name for name, path in every.items() if path.read_text(encoding="utf-8").startswith("---\norphan: true\n")}
    return sorted(set(every) - listed - orphans)


def contents(caption: str, names: list[str]) -> str:
    """A list of contents for the navigation; nothing for no pages."""
    return "\n```{toctree}\n:caption: " + caption + "\n:maxdepth: 1\n:hidden:\n\n" + "\n".join(names) + "\n```\n" if names else ""


def lazy(text: str) -> str:
    """A page whose pictures are loaded when they come into view; Sphinx has no setting for it."""
    return re.sub(r"<img (?![^>]*\bloading=)", '<img loading="lazy" ', text)


def title_of(text: str) -> str:
    """The title of a page in Markdown."""
    return next((line[2:].strip() for line in text.splitlines() if line.startswith("# ")), "")


def beside(source: Path, pages: Path, origins: dict[str, str]) -> None:
    """Write the Markdown of each page beside it, and llms.txt, which lists all pages."""
    lines = ["# asyncdali", "", "> A data-loading runtime for training that speaks NVIDIA DALI's Python API: exact checkpoints, compiled"]
    lines += ["> kernels, with or without CUDA. Each page below is Markdown; the page for people has the ending .html.", ""]
    groups: dict[str, list[str]] = {}
    for path in sorted(source.rglob("*.md")):
        name = path.relative_to(source).as_posix()
        shutil.copy(path, pages / name)
        group = name.split("/")[0] if "/" in name else "pages"
        groups.setdefault(group, []).append(f"- [{title_of(path.read_text(encoding='utf-8'))}]({ADDRESS}/{__version__}/{name})")
    for group, listed in sorted(groups.items(), key=lambda item: item[0] != "pages"):
        lines += [f"## {group.replace('_', ' ')}", "", *listed, ""]
    (pages / "llms.txt").write_text("\n".join(lines), encoding="utf-8")


def versions(output: Path) -> None:
    """Write the list that the version switcher reads, and a first page that leads to the newest version."""
    found = [path.name for path in output.iterdir() if (path / "index.html").exists()]
    found.sort(key=lambda name: [int(part) if part.isdigit() else 0 for part in name.split(".")], reverse=True)
    (output / "versions.js").write_text(f"window.siteVersions = {json.dumps(found)};\n")
    first = f'<!doctype html><html lang="en"><meta charset="utf-8"><meta http-equiv="refresh" content="0; url={found[0]}/index.html">'
    (output / "index.html").write_text(f'{first}<title>asyncdali</title><a href="{found[0]}/index.html">asyncdali {found[0]}</a></html>\n')
