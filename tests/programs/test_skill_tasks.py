"""The page of ``asyncdali skill``, and its tasks: reference programs pass the checks, the programs that tasks begin with do not."""

from __future__ import annotations

import ast
import re
import sys

import pytest
from skill_tasks import PICTURES, README, TASKS, check_answers, checked, load
from skill_tasks import main as evaluate

import asyncdali
from asyncdali.__main__ import main
from asyncdali.tooling import skill

DEFAULT = ("01_classification", "07_names", "13_port_dataset", "15_debug_layout", "20_tune_decoding")
CHOSEN = [pytest.param(task, id=task.name, marks=() if task.name in DEFAULT else pytest.mark.slow) for task in TASKS]


@pytest.fixture
def answer(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])

    def write(text):
        (tmp_path / "answer.py").write_text(text)
        return load(tmp_path / "answer.py")

    return write


@pytest.mark.parametrize("task", CHOSEN)
def test_the_reference_program_passes_the_check(task, answer):
    task.check(answer(task.reference), PICTURES)


@pytest.mark.parametrize("task", [one for one in CHOSEN if one.values[0].start])
def test_the_program_at_the_start_fails_the_check(task, answer):
    if task.imports_dali:  # programs of other libraries, which may be missing
        with pytest.raises((ImportError, AttributeError, AssertionError, TypeError)):
            task.check(answer(task.start), PICTURES)
        return
    with pytest.raises((AssertionError, RuntimeError, ValueError)):
        task.check(answer(task.start), PICTURES)


def test_there_are_twenty_tasks_of_four_kinds():
    assert len(TASKS) == len({task.name for task in TASKS}) == 20
    assert [task.name[:2] for task in TASKS] == [f"{k:02}" for k in range(1, 21)]
    assert sum("port" in task.name for task in TASKS) == 4 and sum("debug" in task.name for task in TASKS) == 4
    for task in TASKS:
        assert "def make(data" in task.reference and task.name in task.page()


def test_the_exported_tasks_have_no_solutions(tmp_path):
    assert evaluate(["--write", str(tmp_path / "out")]) == 0
    pages = {path.name: path.read_text() for path in (tmp_path / "out").glob("*.md")}
    assert len(pages) == 21 and (tmp_path / "out" / "answers").is_dir()
    assert len(list((tmp_path / "out" / "pictures").glob("*/*.jpg"))) == 64
    for task in TASKS:
        page = pages[f"{task.name}.md"]
        assert f"`{task.signature}`" in page and (not task.start or task.start.strip() in page)
        new = set(task.reference.strip().splitlines()) - set(task.start.splitlines()) - set(README.splitlines())
        assert not any(line in page for line in new if len(line) > 30)


def test_answers_are_checked_in_processes_of_their_own_and_counted(tmp_path, capsys):
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
    (first / "15_debug_layout.py").write_text("def make(data): raise ValueError('nothing')\n")
    (first / "04_source.py").write_text(TASKS[3].reference)
    (first / "20_tune_decoding.py").write_text("import os\nos._exit(0)\n")  # no verdict
    (second / "16_debug_shapes.py").write_text("import sys\nsys.exit('no asyncdali')\n")
    results = check_answers([first, second])
    assert [name for name, item in results[str(first)].items() if not item.fault] == ["04_source"]
    assert not any(not item.fault for item in results[str(second)].values())
    said = capsys.readouterr().out
    assert f"| task | {first} | {second} |" in said and "| 01_classification | no answer | no answer |" in said
    assert "| **right** | **1 of 20** | **0 of 20** |" in said
    assert f"- {first}, 15_debug_layout: ValueError: nothing\n" in said
    assert f"- {first}, 20_tune_decoding: the process ended with status 0: no output\n" in said
    assert f"- {second}, 16_debug_shapes: the process ended with status 1: no asyncdali" in said


def test_an_answer_that_does_not_end_is_stopped(tmp_path):
    (tmp_path / "04_source.py").write_text("import threading\nthreading.Event().wait()\n")
    outcome = checked(TASKS[3], tmp_path, 0.5)
    assert outcome.fault == "not done after 0.5 s" and outcome.cell().startswith("wrong")


def test_a_failed_assertion_without_a_text_shows_its_line(tmp_path):
    (tmp_path / "04_source.py").write_text(TASKS[3].reference.replace("np.full(4,", "np.full(5,"))
    assert "(5, 4)" in checked(TASKS[3], tmp_path, 60).fault


def test_workers_import_the_answer_by_its_name(tmp_path):
    (tmp_path / "05_parallel_source.py").write_text(TASKS[4].reference.replace('"fork"', '"spawn"'))
    assert not checked(TASKS[4], tmp_path, 60).fault


def test_folders_that_are_missing_are_named(tmp_path, capsys):
    with pytest.raises(SystemExit):
        evaluate(["--check", str(tmp_path / "nowhere")])
    assert "no such folder" in capsys.readouterr().err


# --- the page


def test_the_command_prints_the_page_and_its_place(capsys):
    assert main(["skill"]) == 0
    text = capsys.readouterr().out
    assert text == skill.PAGE.read_text() and len(text) < 10_000
    assert main(["skill", "--path"]) == 0
    assert capsys.readouterr().out.strip() == str(skill.PAGE)


def test_code_and_names_on_the_page_exist():
    text = skill.PAGE.read_text()
    for block in re.findall(r"```python\n(.*?)```", text, re.S):
        ast.parse(block)
    for name in set(re.findall(r"\b(fn(?:\.\w+)+)", text)):
        found = asyncdali
        for part in name.split("."):
            found = getattr(found, part)
    commands = set(re.findall(r"asyncdali ([a-z][a-z-]+)[ `]", re.sub(r"```.*?```", "", text, flags=re.S)))
    for command in commands & {"verify", "show", "doctor", "bench", "tune", "skill", "import-checkpoint"}:
        with pytest.raises(SystemExit) as ended:
            main([command, "--help"])
        assert ended.value.code == 0
    assert {"verify", "show", "doctor", "bench", "tune", "skill", "import-checkpoint"} <= commands
