"""docs/decisions: every page has a form, names code and tests that exist, and stands in the index. Figures name commit and machine."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from helpers.places import PROJECT as ROOT

DECISIONS = sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md"))
RESULTS = sorted((ROOT / "benchmarks" / "results").glob("*.md"))
PAGES = [*(ROOT / "docs").rglob("*.md"), *(ROOT / "benchmarks").rglob("*.md"), *ROOT.glob("*.md")]

SECTIONS = ["Context", "Choice", "Rejected", "Measurement"]
LARGEST = {"docs/architecture.md": 15 * 1024, "docs/gpu.md": 20 * 1024, "benchmarks/README.md": 12 * 1024}
"""Bytes of pages that used to grow. Decisions go to docs/decisions, figures to benchmarks/results, reasons of a module to its head."""


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("page", DECISIONS, ids=lambda page: page.stem)
def test_a_decision_has_a_form_and_is_held_by_code_and_tests(page: Path):
    text = page.read_text()
    assert re.findall(r"^## (.*)$", text, re.M) == SECTIONS
    assert all(text.split(f"## {section}\n")[1].split("\n## ")[0].strip() for section in SECTIONS), "an empty section"
    assert re.search(r"^- Date: 20\d\d-\d\d-\d\d$", text, re.M)
    head = text.split("\n## ")[0]
    code, tests = head.split("- Code: ")[1].split("- Tests: ")
    for listed, beginning in ((code, ("asyncdali/", "workers/")), (tests, ("tests/",))):
        files = re.findall(r"`([^`]+)`", listed)
        assert files and all(file.startswith(beginning) for file in files)
        assert [file for file in files if not (ROOT / file).exists()] == []


def test_the_index_lists_every_decision_once():
    index = (ROOT / "docs" / "decisions" / "README.md").read_text()
    listed = re.findall(r"^- \[(\d\d)\]\((\S+)\)", index, re.M)
    assert [file for _, file in listed] == [page.name for page in DECISIONS]
    assert [number for number, _ in listed] == [f"{number:02}" for number in range(1, len(DECISIONS) + 1)]


@pytest.mark.parametrize("page", RESULTS, ids=lambda page: page.stem)
def test_figures_name_date_machine_and_commit(page: Path):
    text = page.read_text()
    assert re.search(r"20\d\d-\d\d-\d\d", text), "no date"
    assert re.search(r"EPYC|Xeon|Sapphire Rapids|H100|H200|simulat", text), "no machine"
    assert re.search(r"\b[0-9a-f]{7,8}\b", text), "no commit"


@pytest.mark.parametrize("page", LARGEST)
def test_pages_stay_short(page: str):
    assert (ROOT / page).stat().st_size <= LARGEST[page]


def anchors(text: str) -> set[str]:
    """The anchors that GitHub gives to the titles of a page."""
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in re.findall(r"^#+ (.*)$", text, re.M)}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page: Path):
    wrong = []
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if "://" in target or target.startswith("mailto:"):
            continue
        file, _, anchor = target.partition("#")
        path = (page.parent / file).resolve() if file else page
        if not path.exists() or (anchor and path.suffix == ".md" and anchor not in anchors(path.read_text())):
            wrong.append(target)
    assert wrong == []
