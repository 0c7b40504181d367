"""Pages and files of the project for people who report, cite, change and release it."""

from __future__ import annotations

import re

import pytest
from helpers.places import PROJECT as ROOT

import asyncdali

FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))


def test_the_citation_has_the_version():
    text = (ROOT / "CITATION.cff").read_text()
    assert f"\nversion: {asyncdali.__version__}\n" in text and "\nlicense: Apache-2.0\n" in text


@pytest.mark.parametrize("form", [form for form in FORMS if form.stem != "config"], ids=lambda form: form.stem)
def test_a_form_asks_for_the_doctor(form):
    text = form.read_text()
    assert re.search(r"^      label: Output of `asyncdali doctor", text, re.M)
    assert set(re.findall(r"^  - type: (\w+)", text, re.M)) <= {"markdown", "textarea", "input"}


def test_forms_name_commands_and_options_that_exist(capsys):
    from asyncdali.__main__ import main

    named = {tuple(words) for form in FORMS for words in re.findall(r"`asyncdali (\w+)|(--vs) (?=dali)", form.read_text())}
    assert {name for name, _ in named if name} == {"doctor", "bench"} and ("", "--vs") in named
    for command in ("doctor", "bench"):
        with pytest.raises(SystemExit) as ended:
            main([command, "--help"])
        assert ended.value.code == 0
        said = capsys.readouterr().out
        assert command != "bench" or "--vs" in said


def test_every_programming_language_version_of_the_classifiers_is_in_the_matrix():
    supported = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', (ROOT / "pyproject.toml").read_text())
    pythons = re.search(r"^PYTHONS = \((.*)\)$", (ROOT / ".ci" / "release.py").read_text(), re.M)
    assert pythons is not None and supported == sorted(supported, key=lambda version: int(version[2:]))
    assert set(supported) <= set(re.findall(r"3\.\d+", pythons[1]))
    assert f"requires-python = \">={supported[0]}\"" in (ROOT / "pyproject.toml").read_text()


def test_every_extra_for_users_is_in_the_matrix():
    text = (ROOT / "pyproject.toml").read_text().split("[project.optional-dependencies]\n")[1].split("\n[")[0]
    extras = set(re.findall(r"^([\w-]+) = \[", text, re.M))
    listed = set(re.findall(r'"([\w-]+)": \("test_', (ROOT / ".ci" / "release.py").read_text()))
    own = extras - {"test", "parity", "browser", "lint", "bench", "docs"}
    assert own == listed, "EXTRAS in .ci/release.py has the test modules of each extra"
