"""The operators of docs/adding_an_operator.md and docs/own_operators.md pass ruff and mypy with the project's settings.

`.ci/run` installs both tools.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from helpers.documented import FILES, OWN_FILES
from helpers.places import PROJECT as ROOT

MODULES = sorted(name for name in FILES if name.endswith(".py"))
OWN = sorted(name for name in OWN_FILES if name.endswith(".py"))
"""Modules of another package."""


def needs(tool: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(importlib.util.find_spec(tool) is None, reason=f"{tool} is not installed")


def within(name: str) -> str:
    """The path of a file of the page in asyncdali/."""
    return name if name.startswith("readers/") else f"operators/{name}"


@pytest.fixture(scope="module")
def package(tmp_path_factory) -> Path:
    """A folder with the package, in which the page's files have been added. All other files are links to those of this tree."""
    folder = tmp_path_factory.mktemp("documented")

    def link(source: Path, target: Path, added: dict[str, str]) -> None:
        target.mkdir()
        for entry in source.iterdir():
            inner = {name.partition("/")[2]: text for name, text in added.items() if name.startswith(f"{entry.name}/")}
            if inner:
                link(entry, target / entry.name, inner)
            elif entry.name != "__pycache__":
                (target / entry.name).symlink_to(entry)
        for name, text in added.items():
            if "/" not in name:
                (target / name).write_text(text)

    link(ROOT / "asyncdali", folder / "asyncdali", {within(name): textwrap.dedent(FILES[name]).lstrip("\n") for name in MODULES})
    for name in OWN:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(textwrap.dedent(OWN_FILES[name]).lstrip("\n"))
    for name in ("asyncdali_workers", "pyproject.toml"):
        (folder / name).symlink_to(ROOT / name)
    return folder


def run(*command: str, folder: Path) -> None:
    done = subprocess.run([sys.executable, "-m", *command], cwd=folder, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"


def test_the_page_has_operators_of_all_forms():
    assert OWN == ["acme_operators/clip.py"]
    assert {"color/solarize.py", "filters/average_pool.py", "random/shuffle_rows.py", "readers/containers/blocks.py"} <= set(MODULES)


@needs("ruff")
def test_the_files_of_the_page_pass_ruff(package):
    run("ruff", "check", "--no-cache", *(f"asyncdali/{within(name)}" for name in MODULES), *OWN, folder=package)


if importlib.util.find_spec("mypy") is not None:  # not collected without mypy: a nightly piece must run its tests

    @pytest.mark.slow  # checks what the files import, too: half a minute of a processor
    def test_the_files_of_the_page_pass_mypy(package):
        names = [f"asyncdali.{within(name).removesuffix('.py').replace('/', '.')}" for name in MODULES]
        names += [name.removesuffix(".py").replace("/", ".") for name in OWN]
        modules = [word for name in names for word in ("-m", name)]
        run("mypy", "--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", str(package / "cache"), *modules, folder=package)
