"""Checks the messages of the commits that are submitted.

    python .ci/messages.py [BASE] [--all]

A subject has at most 72 characters. A commit with more than 50 changed lines has a body that says why, what was measured and what else
was tried. Checked are the commits since the merge base with BASE (default: the environment variable CI_BASE, else the main branch of the
remote, else the local main branch), without merges. Commits that were written before :data:`SINCE`, when the check became binding, are
left out; ``--all`` checks these, too.

Nothing is checked, and the exit status is 0, without git, outside of a repository, or if there is no merge base: a clone may have no
remote, or a shallow history.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
LONGEST_SUBJECT = 72
LINES_WITHOUT_BODY = 50
SINCE = "2026-11-26T22:20:00+00:00"
"""The date of the author of a commit decides, because rewriting a branch keeps this date."""
_BASES = ("origin/HEAD", "origin/main", "origin/master", "main", "master")


class Commit(NamedTuple):
    """A commit: abbreviated hash, subject, body, and the number of lines that it adds and removes."""

    hash: str
    subject: str
    body: str
    lines: int


def faults(commit: Commit) -> list[str]:
    """What is wrong with the message of a commit."""
    found = []
    if len(commit.subject) > LONGEST_SUBJECT:
        found.append(f"the subject has {len(commit.subject)} characters, at most {LONGEST_SUBJECT} are allowed")
    body = [line for line in commit.body.splitlines() if line.strip() and not re.match(r"[\w-]+: \S+.*@", line)]  # trailers are no body
    if commit.lines > LINES_WITHOUT_BODY and not body:
        found.append(f"the commit changes {commit.lines} lines and has no body, which above {LINES_WITHOUT_BODY} lines must say why")
    return found


def _git(root: Path, *arguments: str) -> str | None:
    """The output of git; None if git fails or is not there."""
    try:
        command = ["git", "-C", str(root), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, errors="replace", check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def merge_base(root: Path, wanted: str | None) -> str | None:
    """The merge base of HEAD with `wanted`, or with the first known branch that does not contain HEAD."""
    head, base = _git(root, "rev-parse", "HEAD"), None
    for branch in (wanted,) if wanted else _BASES:
        found = _git(root, "merge-base", branch, "HEAD")
        base = base or found
        if found and found != head:
            return found
    return base


def submitted(root: Path, base: str, since: float) -> list[Commit]:
    """The commits since `base` that were written after `since` (seconds), the oldest first."""
    hashes = (_git(root, "rev-list", "--no-merges", "--reverse", "HEAD", f"^{base}") or "").split()
    found = []
    for commit in hashes:
        shown = (_git(root, "show", "-s", "--format=%at%x00%h%x00%s%x00%b", commit) or "0") + "\0\0\0"
        written, short, subject, body = shown.split("\0")[:4]
        if int(written) < since:
            continue
        numbers = re.findall(r"^(\d+)\t(\d+)\t", _git(root, "show", "--numstat", "--format=", commit) or "", re.MULTILINE)
        found.append(Commit(short, subject, body, sum(int(more) + int(less) for more, less in numbers)))
    return found


def main(root: Path = ROOT, wanted: str | None = None, since: str | None = SINCE) -> int:
    """Print the faults of all submitted commits. `since`: None for commits of any date. Returns the exit status."""
    base = merge_base(root, wanted or os.environ.get("CI_BASE"))
    if base is None:
        print("commit messages: not checked, because there is no merge base with a main branch (CI_BASE names one)")
        return 0
    commits = submitted(root, base, datetime.fromisoformat(since).timestamp() if since else 0)
    wrong = [(commit, fault) for commit in commits for fault in faults(commit)]
    for commit, fault in wrong:
        print(f"{commit.hash} {commit.subject[:LONGEST_SUBJECT]}\n    {fault}")
    print(f"commit messages: {len(commits)} commits since {base[:8]} checked, {len(wrong)} faults")
    return 1 if wrong else 0


if __name__ == "__main__":
    given = [argument for argument in sys.argv[1:] if argument != "--all"]
    sys.exit(main(wanted=given[0] if given else None, since=None if "--all" in sys.argv else SINCE))
