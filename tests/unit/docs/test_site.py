"""The documentation site (`docs/site`): its sources are complete, its examples run, and its checks find what is wrong."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import pkgutil
import re
import zlib
from pathlib import Path

import numpy as np
import pytest

from asyncdali.operators import load_registry
from asyncdali.tooling import doctor_checks
from docs.site import build, charts, check, costs, examples, gallery, inventories, operators, programs, staging, troubles, wishes

NAMES = {schema.name for schema in operators.schemas()}


def test_every_operator_has_an_example_or_a_reason():
    assert set(examples.EXAMPLES) | set(examples.WITHOUT) == NAMES
    assert not set(examples.EXAMPLES) & set(examples.WITHOUT)


def test_every_operator_is_in_one_family():
    assert sorted(schema.name for own in operators.families().values() for schema in own) == sorted(NAMES)


@pytest.mark.parametrize("name", sorted(examples.EXAMPLES))
def test_an_example_is_a_program_that_calls_its_operator(name):
    tree = ast.parse(programs.program(examples.EXAMPLES[name]))
    called = {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    assert f"fn.{name}" in called
    imports = [node for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom))]
    imported = {alias.asname or alias.name for node in imports for alias in node.names}
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} | {"asyncdali.tfrecord"}
    assert {name.split(".")[0] for name in imported} <= used | {"asyncdali"}


SPECTRA = [(16000,), (257, 63), (129, 251), (513, 63)]


@pytest.mark.parametrize(("name", "shapes"), [("erase", [(300, 400, 3)] * 4), ("spectrogram", SPECTRA)], ids=["picture", "sound"])
def test_examples_with_pictures(name, shapes, tmp_path):
    ran = programs.run(examples.EXAMPLES[name])
    assert [output.shape for output in ran.outputs] == shapes
    shown = gallery.pictures_of(name, examples.EXAMPLES[name], ran.outputs, tmp_path)
    assert all((tmp_path / gallery.PICTURES / item.file).stat().st_size > 100 and item.text for item in shown)


def test_an_example_that_prints():
    assert programs.run(examples.EXAMPLES["readers.webdataset"]).printed == "[48] [49] [50]\n"
    assert programs.run(examples.EXAMPLES["readers.tfrecord"]).printed == "[7]\n"


def test_an_example_that_fails_stops_the_build():
    with pytest.raises(RuntimeError, match="crop"):
        programs.run(examples.settings("fn.crop(picture, ...)", "crop=[1000, 1000]"))


def test_pictures_of_all_kinds_of_outputs():
    for output in (np.zeros((4, 5, 3), np.uint8), np.ones((3, 4, 5), np.float32), np.ones((4, 5), np.int16), np.ones((4, 5, 1), np.uint8)):
        assert programs.pixels(output, sound=False).shape == (4, 5, 3)
    assert programs.pixels(np.sin(np.arange(2000)), sound=True).shape[2] == 3


def test_the_page_of_an_operator_has_its_arguments():
    schema = next(schema for schema in operators.schemas() if schema.name == "erase")
    text = operators.page(schema, {"Cost": costs.section(costs.by_operator(NAMES)["erase"])}, "Masks and pastes", [])
    assert "`fill_value`\n: *float or list of float* · default `[0.0]` · per sample" in text
    assert "Devices: `cpu`, `gpu`" in text and "| erase | CPU |" in text and "| erase | GPU, 64 small samples" in text


def test_the_tables_of_costs_are_read_whole():
    """The page says how many cases it has."""
    table = costs.cpu()
    text = (costs.RESULTS / "operators.md").read_text()
    assert f"\nall                 {len(table.costs)} " in text
    assert table.command.startswith("python -m benchmarks.operators") and len(table.commit) in (7, 8) and table.machine
    assert len(costs.gpu().costs) >= 300 and costs.gpu().machine.startswith("H")
    assert len(costs.by_operator(NAMES)) > 100


def test_charts_have_all_cases(tmp_path):
    charts.write(tmp_path)
    stored = json.loads((tmp_path / "_pictures" / "benchmarks.json").read_text())
    assert [len(part["cases"]) for part in stored] == [len(costs.cpu().costs), len(costs.gpu().costs)]
    text = (tmp_path / "benchmarks" / "charts.md").read_text()
    assert all(f"]({path.name})" in text for path in costs.RESULTS.glob("*.md"))
    assert all((tmp_path / "benchmarks" / name).exists() for name in re.findall(r'src="([^"]+)"', text)) and text.count("<img") >= 4


def test_all_checks_and_errors_are_on_the_page():
    text = troubles.sections()
    quick = {check.__name__ for check in doctor_checks.QUICK if hasattr(check, "__name__")}
    assert quick - {item.name for item in troubles.troubles()} == set()
    for name in ("OperatorError", "CheckpointError", "OperatorFileNotFoundError", "WorkerDied"):
        assert f"### {name}\n" in text
    assert "ulimit -n 4096" in text


def test_wishes_name_operators():
    assert len(wishes.WISHES) >= 60
    known = {page.removesuffix(".md") for page in staging.pages().values()}
    for names in wishes.WISHES.values():
        for name in names.split():
            page = name.removeprefix("page:").removesuffix(".md") if name.startswith("page:") else ""
            assert page in known if page else name in NAMES, name
    assert wishes.WISHES["cut random holes"] == "erase grid_mask"


def test_links_of_staged_pages():
    known = staging.pages()
    operator_pages = operators.anchors()
    text = "[a](../README.md) [b](operators.md#fnresize) [c](../asyncdali/batch.py) [d](gpu.md#x)\n```\n[e](gone.md)\n```\n[f](https://a.b)\n"
    found = staging.rewritten(text, "docs/glossary.md", known, operator_pages)
    assert "[a](index.md) [b](operators/resize.md)" in found and "/blob/main/asyncdali/batch.py)" in found and "[d](gpu.md#x)" in found
    assert "[e](gone.md)" in found and "[f](https://a.b)" in found
    for wrong in ("[e](gone.md)", "[e](operators.md#fngone)"):
        with pytest.raises(staging.BrokenLink, match="gone"):
            staging.rewritten(wrong, "docs/glossary.md", known, operator_pages)


def test_names_of_other_projects_become_references():
    known = staging.pages()
    given = "A `numpy.ndarray`, `np.asarray`, `numpy.random`, `numpy.other`, ``np.asarray`` and\n```\n`numpy.ndarray`\n```\n"
    text = staging.rewritten(given, "docs/gpu.md", known, {})
    wanted = "A {py:class}`numpy.ndarray <numpy.ndarray>`, {py:func}`np.asarray <numpy.asarray>`, {py:mod}`numpy.random <numpy.random>`, "
    assert text.startswith(wanted + "`numpy.other`, ``np.asarray`` and") and "\n`numpy.ndarray`\n" in text


def test_names_of_other_projects_on_pages_are_those_of_the_inventories():
    """A name without an entry would be no link, and an entry without a page would never be checked."""
    used = set()
    for file in staging.pages():
        if file not in staging.GENERATED and "changelog" not in file.lower():
            staging.outside_of_code((staging.ROOT / file).read_text(), lambda part: used.update(staging.NAME.findall(part)) or "")
    names = {f"{inventories.SHORT.get(project, project)}.{name}" for project, name in used}
    assert names == set(staging.EXTERNAL)


@pytest.mark.parametrize("name", staging.EXTERNAL)
def test_names_of_other_projects_exist(name):
    project = name.split(".")[0]
    pytest.importorskip(project)
    assert pkgutil.resolve_name(name) is not None


def test_all_pages_can_be_staged(tmp_path):
    origins = staging.stage(tmp_path, operators.anchors())
    assert {"index.md", "decisions/index.md", "benchmarks/operators.md", "security.md"} <= set(origins)
    assert all((tmp_path / page).stat().st_size for page in origins)


def test_pictures_of_pages_are_loaded_when_they_come_into_view():
    kept = '<img src="c" loading="eager">'
    assert build.lazy(f'<img alt="a" src="b">{kept}') == f'<img loading="lazy" alt="a" src="b">{kept}'


def test_pages_that_no_list_names_are_found(tmp_path):
    lists = {"index": "```{toctree}\na\nb/index\n```", "b/index": "```{toctree}\n:glob:\n\n*\n```"}
    for name, text in {**lists, "a": "", "b/c": "", "d": ""}.items():
        path = tmp_path / f"{name}.md"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert build.unlisted(tmp_path) == ["d"]


GOOD = '<html><body><h1 id="top">A</h1><a href="#top">a</a><img src="p.png" alt="a picture"></body></html>'


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (GOOD.replace("#top", "#gone"), "has no such anchor"), (GOOD.replace("#top", "gone.html"), "does not exist"),
        (GOOD.replace(' alt="a picture"', ""), "has no text"), (GOOD.replace("<h1", "x" * check.LARGEST + "<h1"), "bytes with styles"),
        (GOOD.replace("p.png", "q.png"), "q.png does not exist"), (GOOD, ""),
    ],
    ids=["anchor", "link", "text", "size", "picture", "good"],
)  # fmt: skip
def test_faults_of_built_pages(text, fault, tmp_path):
    (tmp_path / "a.html").write_text(text)
    (tmp_path / "p.png").write_bytes(b"p")
    found = check.faults({path: check.Page(path) for path in tmp_path.glob("*.html")})
    assert len(found) == bool(fault) and all(fault in line for line in found)


def test_inventories_have_the_format_of_sphinx():
    head, body = inventories.inventory("numpy").split(b"zlib.\n")
    assert head.startswith(b"# Sphinx inventory version 2\n")
    assert b"numpy.ndarray py:class 1 reference/generated/numpy.ndarray.html#numpy.ndarray -\n" in zlib.decompress(body)


def test_the_version_switcher_knows_all_versions(tmp_path):
    for name in ("2.4.0.1", "2.4.0.10", "work"):
        (tmp_path / name).mkdir()
    for name in ("2.4.0.1", "2.4.0.10"):
        (tmp_path / name / "index.html").write_text("")
    build.versions(tmp_path)
    assert (tmp_path / "versions.js").read_text() == 'window.siteVersions = ["2.4.0.10", "2.4.0.1"];\n'
    assert "url=2.4.0.10/index.html" in (tmp_path / "index.html").read_text()


def test_folders_of_the_site_list_their_files():
    folder = Path(staging.__file__).parent
    text = (folder / "__init__.py").read_text()
    assert [path.name for path in folder.glob("*.py") if not path.name.startswith("__") and path.name not in text] == []


def test_functions_with_docstrings_of_their_own_have_all_arguments():
    for name, cls in load_registry().items():
        if cls.schema.hand_written:
            text = operators.page(cls.schema, {}, "Sources", [])
            function = getattr(importlib.import_module(f"asyncdali.{cls.schema.hand_written}"), name.rpartition(".")[2])
            own = set(inspect.signature(function).parameters) - {"arguments"}  # others are refused
            assert not [arg for arg in own if f"`{arg}`" not in text and f"`*{arg}`" not in text], name
            assert "See `asyncdali" not in text and "**Raises**" in text
    text = operators.page(load_registry()["external_source"].schema, {}, "Sources", [])
    assert "`layout`, `dtype`, `ndim`\n: *" in text and "One of:\n\n  - an iterable" in text
