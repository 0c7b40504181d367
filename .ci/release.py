"""Builds the wheel and the source archive, checks both, and installs them in new virtual environments, away from the sources.

    python .ci/release.py                       # short: build, check, install each once, run the demo
    python .ci/release.py --matrix [--rows WORD,...] [--python PATH,...] [--report FILE.md]

The matrix has a row for each version of Python that is found, for NumPy 1.26, for the lowest versions that pyproject.toml allows, for
each extra alone, for the whole default suite, and for a free-threaded build. A row installs the wheel in a new environment, runs
`pip check`, and runs tests of the core (of an extra: its own tests) against the installed package. `--rows` runs the rows whose names
contain one of the words. What the registries do not have here (a version of Python, a wheel of a dependency) is a row that says so, and
no failure; `--require WORD,...` names rows that must run. The exit status is 1 if a check or a row failed.

Settings of pip apply: `PIP_CONSTRAINT=FILE` with the line `torch==2.13.0+cpu` takes a build of torch without CUDA where pip finds one.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("asyncdali", "asyncdali_workers")
PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14", "3.15")
CORE = (
    "test_pipeline", "test_executor", "test_checkpoint", "test_external_source", "test_readers_file", "test_readers_npy",
    "test_readers_tfrecord", "test_readers_webdataset", "test_image_decoder", "test_crop_mirror_normalize", "test_resize", "test_rotate",
    "test_color_twist", "test_reductions", "test_expressions", "test_uniform", "test_mel_filter_bank", "test_dynamic_calls",
    "test_dynamic_checkpoints", "test_dynamic_files", "test_workers_pool",
)  # fmt: skip
"""Test modules of the core: pipelines, the executor, operators of each family, readers, checkpoints, dynamic mode, workers."""
EXTRAS = {
    "audio": ("test_audio_decoder",), "video": ("test_video_decoder", "test_readers_video"), "remote": ("test_readers_remote",),
    "torch": ("test_plugin_pytorch",), "jax": ("test_plugin_jax",), "tf": ("test_plugin_tf",), "ray": ("test_fleet_scaling",),
    "all": ("test_audio_decoder", "test_readers_remote", "test_video_input"), "cuda12": ("test_cuda_device",),
    "cuda13": ("test_cuda_device",), "opentelemetry": ("test_spans",),
    "numba-cuda12": ("test_numba_gpu_function",), "numba-cuda13": ("test_numba_gpu_function",),
}  # fmt: skip
"""Each extra of users, and the test modules that need it."""
TOOLS = {"opentelemetry": ("opentelemetry-sdk",)}
"""Extra -> what its tests need beside it."""
SHOWN = ("numpy", "numba", "opencv-python-headless", "pillow", "cloudpickle", "uvloop")
OF_EXTRAS = (
    "torch", "tensorflow", "jax", "ray", "soundfile", "av", "fsspec", "cupy-cuda12x", "cupy-cuda13x", "numba-cuda", "opentelemetry-api",
)  # fmt: skip
"""Packages whose versions a row shows, too, if its extra installs them."""
REFUSES = "import sys; sys.path.insert(0, sys.argv[1])\ntry: import asyncdali\nexcept ImportError as error: print(error)\n"


class Failed(Exception):
    """A command failed; the text has its output."""


def run(*command: object, cwd: Path | None = None, limit: float = 3000, environment: dict[str, str] | None = None) -> str:
    """Run a command and return its output. Raises Failed."""
    words = [str(word) for word in command]
    try:
        done = subprocess.run(
            words, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=limit, check=False, env=environment
        )
    except subprocess.TimeoutExpired as error:
        said = error.stdout.decode(errors="replace") if isinstance(error.stdout, bytes) else error.stdout or ""
        raise Failed(f"{' '.join(words)} did not end in {limit:.0f} s\n{said}") from error
    if done.returncode:
        raise Failed(f"{' '.join(words)} ended with status {done.returncode}\n{done.stdout}")
    return done.stdout


def environment(folder: Path, python: str = sys.executable) -> Path:
    """A new virtual environment. Returns its interpreter."""
    run(python, "-m", "venv", folder)
    return folder / "bin" / "python"


def install(python: Path, *what: object) -> None:
    """Install with pip."""
    run(python, "-m", "pip", "install", "--quiet", *what)


def build(work: Path) -> tuple[Path, Path]:
    """Build the source archive, and the wheel from it; check both. Returns (wheel, archive)."""
    tools = environment(work / "tools")
    install(tools, "build", "twine", "check-wheel-contents")
    run(tools, "-m", "build", "--outdir", work / "dist", ROOT)
    (wheel,), (archive,) = (work / "dist").glob("*.whl"), (work / "dist").glob("*.tar.gz")
    print(run(tools, "-m", "twine", "check", "--strict", wheel, archive).strip())
    print(run(tools, "-m", "check_wheel_contents", "--config", ROOT / "pyproject.toml", wheel).strip())
    with zipfile.ZipFile(wheel) as file:
        size = sum(item.file_size for item in file.infolist()) / 2**20
        print(f"{wheel.name}: {len(file.namelist())} files, {size:.1f} MiB; {archive.name}: {archive.stat().st_size / 2**20:.1f} MiB")
    return wheel, archive


def files_of(python: Path) -> set[str]:
    """Files of the installed package, without its metadata."""
    program = "import importlib.metadata as m; print(*(f for f in m.files('asyncdali') if '__pycache__' not in f.parts), sep='\\n')"
    return {line for line in run(python, "-c", program).split() if line.split("/")[0] in PACKAGES}


def short(work: Path, wheel: Path, archive: Path) -> None:
    """Install the wheel and run the demo in an empty folder; install the archive in its place, and compare the files."""
    python = environment(work / "clean")
    empty = work / "empty"
    empty.mkdir()
    install(python, wheel)
    print(run(python, "-m", "pip", "check").strip())
    print(run(python.parent / "asyncdali", "--version", cwd=empty).strip())
    print(run(python.parent / "asyncdali", "demo", "--batches", "4", cwd=empty).strip())
    from_wheel = files_of(python)
    run(python, "-m", "pip", "uninstall", "--yes", "--quiet", "asyncdali")
    install(python, "--no-deps", archive)
    run(python, "-c", "import asyncdali, asyncdali_workers", cwd=empty)
    if files_of(python) != from_wheel:
        raise Failed(f"the archive installs other files than the wheel: {sorted(files_of(python) ^ from_wheel)}")
    print(f"the archive installs the {len(from_wheel)} files of the wheel")


# --------------------------------------------------------------------------------------------------------------------------- the matrix


@dataclass
class Row:
    """An environment of the matrix, and what happened in it."""

    name: str
    python: str | None
    requirements: tuple[str, ...] = ()
    extra: str = ""
    lowest: bool = False
    refused: bool = False
    tests: tuple[str, ...] = CORE
    options: tuple[str, ...] = ()
    outcome: str = ""
    ran: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    def line(self) -> str:
        """The row of the table."""
        versions = ", ".join(f"{name.removeprefix('opencv-python-headless') or 'opencv'} {v}" for name, v in self.versions.items())
        return f"| {self.name} | {versions} | {self.outcome} | {self.ran} |"


def interpreters(given: Sequence[str]) -> dict[str, str]:
    """Interpreters by version ("3.12", "3.14t"): those given, pyenv's, and those on the path."""
    found: dict[str, str] = {}
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    candidates = [*given, *(str(path) for path in sorted(root.glob("3.1*/bin/python"), reverse=True))]
    candidates += [path for version in PYTHONS for path in (shutil.which(f"python{version}"), shutil.which(f"python{version}t")) if path]
    program = "import sys, sysconfig; print('%d.%d' % sys.version_info[:2] + 't' * bool(sysconfig.get_config_var('Py_GIL_DISABLED')))"
    for path in [*candidates, sys.executable]:
        try:
            found.setdefault(run(path, "-c", program).strip(), path)
        except (Failed, OSError):
            continue
    return found


def rows(found: dict[str, str]) -> list[Row]:
    """The matrix."""
    newest = next((found[version] for version in ("3.12", "3.11", "3.10") if version in found), sys.executable)
    threaded = next((path for version, path in sorted(found.items(), reverse=True) if version.endswith("t")), None)
    return [
        *(Row(f"Python {version}", found.get(version)) for version in PYTHONS),
        Row("NumPy 1.26", newest, ("numpy==1.26.*",)),
        Row("lowest versions", found.get("3.10", newest), lowest=True),
        *(Row(f"extra {name}", found.get("3.11", newest), extra=name, tests=tests) for name, tests in EXTRAS.items()),
        Row("default suite", found.get("3.11", newest), extra="test", tests=(), options=("-n", "2", "--dist", "worksteal")),
        Row("free-threaded", threaded, refused=True),
    ]


def tree(folder: Path, python: Path) -> Path:
    """Make `folder` a checkout without git, with copies of the installed packages in place of the sources: for tests that read sources.

    Imports find the installed packages, because the folder is not on the path. Returns a folder for PYTHONPATH with the benchmarks and the
    programs of the site.
    """
    program = "import importlib.util, os, sys; print(*(os.path.dirname(importlib.util.find_spec(name).origin) for name in sys.argv[1:]))"
    installed = dict(zip(PACKAGES, run(python, "-I", "-c", program, *PACKAGES).split()))
    assert all("site-packages" in path for path in installed.values()), installed
    unwanted = shutil.ignore_patterns("__pycache__", ".*cache", ".hypothesis", "*.egg-info", "workers", ".git", "build", "dist", *PACKAGES)
    shutil.copytree(ROOT, folder, ignore=unwanted, symlinks=True)
    for name, place in installed.items():
        shutil.copytree(place, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "workers").symlink_to("asyncdali_workers")
    helpers = folder / "on_the_path"
    helpers.mkdir()
    for name in ("benchmarks", "docs"):
        (helpers / name).symlink_to(folder / name)
    return helpers


def modules(folder: Path, tests: Sequence[str]) -> list[Path]:
    """The files of test modules below `folder`. Raises Failed for a name that is not that of one file."""
    found = {name: list((folder / "tests" / "unit").rglob(f"{name}.py")) for name in tests}
    wrong = [name for name, files in found.items() if len(files) != 1]
    if wrong:
        raise Failed(f"names of no test module, or of several: {', '.join(wrong)}")
    return [files[0] for files in found.values()]


def tested(folder: Path, python: Path, tests: Sequence[str], *options: str) -> str:
    """Run test modules (none: the default suite) against the installed package. Returns pytest's last line. Raises Failed."""
    helpers = tree(folder, python)
    command = [python.parent / "pytest", "-q", "-p", "no:cacheprovider", "-o", "pythonpath=", *options]
    settings = {**os.environ, "PYTHONPATH": str(helpers), "ASYNCDALI_QUIET": "1", "PYTHONNOUSERSITE": "1"}
    files = modules(folder, tests)
    output = run(*command, *files, cwd=folder, environment=settings, limit=3000 if tests else 10_000)
    return output.strip().splitlines()[-1]


def try_row(row: Row, work: Path, wheel: Path) -> None:
    """Fill in the outcome."""
    began = time.monotonic()
    try:
        if row.python is None:
            row.outcome = "not run: this version of Python is not here"
        elif row.refused:
            said = run(row.python, "-c", REFUSES, ROOT).strip()
            row.outcome, row.ran = ("passed", f"refused: {said}") if "free-threaded" in said else ("FAILED", f"not refused: {said!r}")
        else:
            _try(row, environment(work / "venv", row.python), work, wheel)
    except Failed as error:
        print(error)
        row.outcome, row.ran = "FAILED", next((line for line in str(error).splitlines()[::-1] if line.strip()), "")
    finally:
        row.seconds = time.monotonic() - began
        shutil.rmtree(work, ignore_errors=True)


def _try(row: Row, python: Path, work: Path, wheel: Path) -> None:
    wanted = f"{wheel}[{row.extra}]" if row.extra else str(wheel)
    try:
        if row.lowest:
            install(python, "uv")
            run(python, "-m", "uv", "pip", "install", "--quiet", "--python", python, "--resolution", "lowest", wanted)
        else:
            install(python, "--only-binary", ":all:", wanted, *row.requirements)
    except Failed as error:
        reason = next((line for line in str(error).splitlines() if "No matching distribution" in line or "no wheels" in line), None)
        if reason is None:
            raise
        row.outcome = f"not run: {reason.removeprefix('ERROR: ')}"
        return
    listed = {item["name"].lower(): item["version"] for item in json.loads(run(python, "-m", "pip", "list", "--format", "json"))}
    shown = SHOWN + OF_EXTRAS * bool(row.extra)
    row.versions = {name: listed[name] for name in shown if name in listed}
    pins = [f"{name}=={version}" for name, version in listed.items() if name in SHOWN]
    install(python, "pytest>=8", "hypothesis", "setuptools>=77", "lmdb>=1.4", *TOOLS.get(row.extra, ()), *pins)  # lmdb: files of Caffe
    run(python, "-m", "pip", "check")
    run(python.parent / "asyncdali", "--version", cwd=work)
    row.ran = tested(work / "tree", python, row.tests, *row.options)
    if " passed" not in row.ran:  # all were skipped
        raise Failed(f"no test ran: {row.ran}")
    row.outcome = "passed"


def report(made: Sequence[Row], commit: str) -> str:
    """The table as Markdown."""
    lines = [f"{datetime.date.today()}, commit {commit}", "", "| environment | versions | outcome | ran |", "|---|---|---|---|"]
    return "\n".join([*lines, *(row.line() for row in made)]) + "\n"


def _commit() -> str:
    try:
        return run("git", "-C", ROOT, "rev-parse", "--short=8", "HEAD").strip()
    except (Failed, OSError):  # an archive of the sources, or no git
        return "unknown"


def main(arguments: Sequence[str]) -> int:
    """See the module docstring."""
    parser = argparse.ArgumentParser(description="build, check and install the package; --matrix: in many environments")
    parser.add_argument("--matrix", action="store_true")
    parser.add_argument("--rows", default="", help="words, separated by commas: run the rows whose names contain one of them")
    parser.add_argument("--require", default="", help="words: rows whose names contain one of them must run")
    parser.add_argument("--python", default="", help="paths of more interpreters, separated by commas")
    parser.add_argument("--report", type=Path, help="Markdown file to write")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="asyncdali-release-") as folder:
        work = Path(folder)
        try:
            wheel, archive = build(work)
            if not options.matrix:
                short(work, wheel, archive)
                return 0
        except Failed as error:
            print(error)
            return 1
        words, required = ([word for word in text.split(",") if word] for text in (options.rows, options.require))
        chosen = [row for row in rows(interpreters([path for path in options.python.split(",") if path]))
                  if not words or any(word in row.name for word in words)]  # fmt: skip
        for row in chosen:
            try_row(row, work / re.sub(r"\W", "-", row.name), wheel)
            print(f"{row.seconds:6.0f} s  {row.name}: {row.outcome} {row.ran}", flush=True)
    text = report(chosen, _commit())
    if options.report:
        options.report.write_text(text)
    print(text)
    unmet = [row.name for row in chosen if row.outcome != "passed" and any(word in row.name for word in required)]
    failed = [row.name for row in chosen if row.outcome == "FAILED"]
    if failed or unmet or not chosen:
        print(f"failed: {', '.join(failed) or 'none'}; required and not run: {', '.join(unmet) or 'none'}; rows: {len(chosen)}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
