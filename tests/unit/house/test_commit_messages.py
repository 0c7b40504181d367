""".ci/messages.py: subjects and bodies of the submitted commits, in clones with and without a remote."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.places import PROJECT

SCRIPT = PROJECT / ".ci" / "messages.py"


def load():
    spec = importlib.util.spec_from_file_location("commit_messages", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


messages = load()
pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


class Repository:
    """A repository with the branches `main` and `work`, which begins at main."""

    def __init__(self, folder: Path):
        self.folder = folder
        folder.mkdir()
        self.git("init", "-q", "-b", "main")
        self.commit("Begin", 1)
        self.git("checkout", "-q", "-b", "work")

    def git(self, *arguments: str) -> str:
        names = {f"GIT_{role}_{what}": "a@b.c" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        environment = {**os.environ, **names, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
        command = ["git", "-C", str(self.folder), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True, env=environment, timeout=60).stdout

    def commit(self, message: str, lines: int, file: str = "file", date: str = "2027-01-01T00:00:00+00:00") -> None:
        path = self.folder / file
        path.parent.mkdir(exist_ok=True)
        path.write_text((path.read_text() if path.exists() else "") + "line\n" * lines)
        self.git("add", "-A")
        self.git("commit", "-q", "-m", message, "--date", date)


@pytest.fixture
def repository(tmp_path, monkeypatch) -> Repository:
    monkeypatch.delenv("CI_BASE", raising=False)
    return Repository(tmp_path / "repository")


def test_good_messages_pass(repository, capsys):
    repository.commit("Add a line", 1)
    repository.commit("Add many lines\n\nThey were missing.", 51)
    assert messages.main(repository.folder) == 0
    assert "2 commits" in capsys.readouterr().out


def test_a_long_subject_is_refused(repository, capsys):
    repository.commit("A" * 72, 1)
    repository.commit("B" * 73, 1)
    assert messages.main(repository.folder) == 1
    printed = capsys.readouterr().out
    assert "BBB" in printed and "73 characters" in printed and "AAA" not in printed


def test_a_large_commit_needs_a_body(repository, capsys):
    repository.commit("Add fifty lines", 50)
    repository.commit("Add more lines", 51)
    repository.commit("Add lines of two\n\nCo-authored-by: A <a@b.c>", 51)
    assert messages.main(repository.folder) == 1
    printed = capsys.readouterr().out
    assert "Add more lines" in printed and "Add lines of two" in printed and "changes 51 lines" in printed and "fifty" not in printed


def test_commits_of_main_and_merges_are_not_checked(repository):
    repository.git("checkout", "-q", "main")
    repository.commit("C" * 100, 1, "other")
    repository.git("checkout", "-q", "work")
    repository.commit("Add a line", 1)
    repository.git("merge", "-q", "--no-ff", "main", "-m", "D" * 100)
    assert messages.main(repository.folder) == 0


def test_commits_before_the_check_was_binding_are_not_checked(repository):
    repository.commit("E" * 100, 1, date="2026-11-26T22:19:59+00:00")
    assert messages.main(repository.folder) == 0
    assert messages.main(repository.folder, since=None) == 1
    repository.commit("F" * 100, 1, date="2026-11-26T22:20:00+00:00")
    assert messages.main(repository.folder) == 1


def test_the_base_may_be_given(repository, monkeypatch):
    repository.commit("G" * 100, 1)
    repository.commit("Add a line", 1)
    assert messages.main(repository.folder, "HEAD~1") == 0
    monkeypatch.setenv("CI_BASE", "HEAD~1")
    assert messages.main(repository.folder) == 0


def test_a_clone_of_the_branch_compares_with_the_remote(repository, tmp_path):
    repository.commit("H" * 100, 1)
    repository.git("clone", "-q", "--branch", "work", str(repository.folder), str(tmp_path / "clone"))
    assert messages.main(tmp_path / "clone") == 1


def test_without_a_merge_base_nothing_is_checked(repository, tmp_path, capsys):
    """A clone of depth 1 knows no commit of main; a copy without remote and main has none; and a folder may be no repository."""
    repository.commit("I" * 100, 1)
    source = f"file://{repository.folder}"
    repository.git("clone", "-q", "--depth", "1", "--no-single-branch", "--branch", "work", source, str(tmp_path / "shallow"))
    repository.git("clone", "-q", "--single-branch", "--branch", "work", str(repository.folder), str(tmp_path / "alone"))
    subprocess.run(["git", "-C", str(tmp_path / "alone"), "remote", "remove", "origin"], check=True, timeout=60)
    (tmp_path / "none").mkdir()
    for name, printed in {"shallow": "0 commits", "alone": "not checked", "none": "not checked"}.items():
        assert messages.main(tmp_path / name) == 0, name
        assert printed in capsys.readouterr().out, name


def test_the_script_runs_in_this_folder():
    done = subprocess.run([sys.executable, str(SCRIPT)], capture_output=True, text=True, timeout=300, check=False)
    assert "commit messages:" in done.stdout
