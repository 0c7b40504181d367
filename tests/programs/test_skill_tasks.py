"""The page of ``asyncdali skill``, and its tasks: reference programs pass the checks, the programs that tasks begin with do not."""

from __future__ import annotations

import ast
import re

import pytest
from skill_tasks import PICTURES, TASKS, check_answers, load

import asyncdali
from asyncdali.__main__ import main
from asyncdali.tooling import skill

DEFAULT = ("01_classification", "07_names", "13_port_dataset", "15_debug_layout", "20_tune_decoding")
CHOSEN = [pytest.param(task, id=task.name, marks=() if task.name in DEFAULT else pytest.mark.slow) for task in TASKS]


@pytest.fixture
def answer(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

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


def test_missing_and_wrong_answers_are_counted(tmp_path, capsys):
    (tmp_path / "15_debug_layout.py").write_text("def make(data): raise ValueError('nothing')\n")
    (tmp_path / "04_source.py").write_text(TASKS[3].reference)
    assert check_answers(tmp_path) == 1
    said = capsys.readouterr().out
    assert "15_debug_layout: ValueError: nothing\n" in said and "01_classification: FileNotFoundError: no answer\n" in said
    assert "04_source: right\n" in said and said.endswith("1 of 20 are right\n")


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
