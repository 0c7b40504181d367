"""``asyncdali new``: what it writes, and what it refuses. The tests of the written projects run here."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys

import pytest
from helpers.places import PROJECT as ROOT

from asyncdali.__main__ import main
from asyncdali.tooling import new

FILES = {".gitignore", "README.md", "make_data.py", "pipeline.py", "pyproject.toml", "test_project.py", "train.py"}


def inside(folder, *command, **variables):
    """The output of a program in a project."""
    environment = {**os.environ, "ASYNCDALI_DEVICE": "host", **variables}
    done = subprocess.run(
        [sys.executable, *command], cwd=folder, env=environment, capture_output=True, text=True, timeout=500, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def written(tmp_path, request):
    """A project of the kind that the test names."""
    folder = tmp_path / f"My {request.param} project!"
    assert main(["new", request.param, str(folder)]) == 0
    return folder


OTHERS = [pytest.param(kind, marks=pytest.mark.slow) for kind in new.KINDS if kind != "classification"]


@pytest.mark.parametrize("written", ["classification", *OTHERS], indirect=True)
def test_the_tests_of_a_project_pass_and_training_continues(written):
    if "video" in written.name:
        pytest.importorskip("av")
    assert {path.name for path in written.iterdir()} == FILES
    said = inside(written, "-m", "pytest", "-q", "-p", "no:cacheprovider")
    assert "passed" in said and "skipped" not in said
    inside(written, "make_data.py")
    first = inside(written, "train.py", "--steps", "4", "--every", "2").splitlines()
    second = inside(written, "train.py", "--steps", "6", "--every", "2").splitlines()
    assert [line.partition(":")[0] for line in first + second] == ["step 2", "step 4", "step 6"]


@pytest.mark.slow  # mypy follows the imports of asyncdali: 20 s of a processor for the first kind
@pytest.mark.parametrize("written", list(new.KINDS), indirect=True)
def test_a_project_passes_ruff_and_mypy(written, tmp_path_factory):
    for tool in ("ruff", "mypy"):
        if importlib.util.find_spec(tool) is None:
            pytest.skip(f"{tool} is not installed")
    inside(written, "-m", "ruff", "check", "--no-cache", ".")
    cache = tmp_path_factory.getbasetemp() / "mypy_of_projects"
    # Of packages in site-packages mypy reports nothing; these are on its path, because it does not see editable installs.
    said = inside(written, "-m", "mypy", "--follow-imports", "silent", "--cache-dir", str(cache), MYPYPATH=str(ROOT))
    assert "no issues found in 4 source files" in said


@pytest.mark.parametrize("kind", new.KINDS)
def test_all_words_of_the_templates_are_replaced(kind):
    made = new.files(kind, "name")
    assert set(made) == FILES
    for name, text in made.items():
        assert "@" not in text.replace("@pipeline_def", "").replace("@pytest", "").replace("@dataclass", ""), name
    assert 'name = "name"' in made["pyproject.toml"] and f">={new.__version__}" in made["pyproject.toml"]
    assert (f'"{new.KINDS[kind].input}": ') in made["pipeline.py"] or f'{{"{new.KINDS[kind].input}"' in made["pipeline.py"]


def test_a_default_folder_and_the_next_commands(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["new", "audio"]) == 0
    said = capsys.readouterr().out
    assert "wrote my-audio: " in said and "cd my-audio && pip install" in said and "python make_data.py" in said
    assert (tmp_path / "my-audio" / "pyproject.toml").read_text().count('name = "my-audio"') == 1


def test_an_empty_folder_is_used(tmp_path):
    (tmp_path / "empty").mkdir()
    assert main(["new", "audio", str(tmp_path / "empty")]) == 0
    assert {path.name for path in (tmp_path / "empty").iterdir()} == FILES


@pytest.mark.parametrize("what", ["file", "full folder", "link"])
def test_what_exists_is_left_as_it_is(tmp_path, capsys, what):
    place = tmp_path / "place"
    if what == "file":
        place.write_text("mine")
    elif what == "link":
        (tmp_path / "elsewhere").mkdir()
        place.symlink_to(tmp_path / "elsewhere")
    else:
        place.mkdir()
        (place / "mine").touch()
    before = sorted(tmp_path.rglob("*"))
    assert main(["new", "audio", str(place)]) == 2
    assert "place exists and is no empty folder: nothing was written" in capsys.readouterr().err
    assert sorted(tmp_path.rglob("*")) == before


def test_a_name_without_letters_is_refused(tmp_path, capsys):
    assert main(["new", "audio", str(tmp_path / "---")]) == 2
    assert "gives no name of a package" in capsys.readouterr().err and not list(tmp_path.iterdir())


def test_a_failed_write_leaves_nothing(tmp_path, monkeypatch, capsys):
    def replace(source, target):
        raise OSError("disk full")

    monkeypatch.setattr(new.os, "replace", replace)
    assert main(["new", "audio", str(tmp_path / "a")]) == 2
    assert "disk full" in capsys.readouterr().err and not list(tmp_path.iterdir())
