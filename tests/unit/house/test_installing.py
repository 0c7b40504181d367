"""The content of wheels and editable installs, and the version."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile

import pytest
from helpers.places import PROJECT as ROOT

import asyncdali

BUILD = """
import sys, warnings
sys.path.insert(0, "build_tools")
kind, target = sys.argv[1:]  # setuptools puts its own in their place
if kind != "build_editable":  # of which setuptools says that it has its limits
    warnings.simplefilter("error")
import backend
getattr(backend, f"get_requires_for_{kind}")()
print("built", getattr(backend, kind)(target))
"""


def copied(folder):
    """A copy of the project as users download it."""
    pytest.importorskip("setuptools", minversion="77")
    for name in ("asyncdali", "asyncdali_workers", "build_tools"):
        unwanted = shutil.ignore_patterns("__pycache__", "*.egg-info")
        shutil.copytree(ROOT / name, folder / name, ignore=unwanted)
    for name in ("pyproject.toml", "setup.py", "README.md", "MANIFEST.in", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    return folder


FOR_DEVELOPERS = ("docs", "tests", "examples", "benchmarks", ".ci", ".github")
"""Folders of the source archive that no wheel has."""
FILES_FOR_DEVELOPERS = (
    "CHANGELOG.md", "CHANGELOG-archive.md", "CITATION.cff", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md", "SECURITY.md", ".gitignore",
)  # fmt: skip


def whole_copy(folder):
    """A copy with documentation, tests and examples."""
    copied(folder)
    unwanted = shutil.ignore_patterns("__pycache__", "*.egg-info", ".hypothesis", ".pytest_cache", "results", "*.nb[ic]", "*.kernel")
    for name in FOR_DEVELOPERS:
        shutil.copytree(ROOT / name, folder / name, ignore=unwanted)
    for name in FILES_FOR_DEVELOPERS:
        shutil.copy(ROOT / name, folder)
    return folder


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """A copy that no test changes."""
    return copied(tmp_path_factory.mktemp("project") / "project")


def build(sources, kind):
    """Build a wheel or a source archive. Returns the output and the file."""
    target = sources.parent / "made"
    target.mkdir(exist_ok=True)
    command = [sys.executable, "-c", BUILD, kind, str(target)]
    done = subprocess.run(command, cwd=sources, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr, target / done.stdout.split()[-1]


@pytest.fixture(scope="module")
def wheel(sources):
    """The wheel of the sources, with a separate name."""
    return build(sources, "build_wheel")[1].rename(sources.parent / "direct.whl")


def test_a_wheel_holds_the_sources_and_nothing_else(tmp_path):
    sources = copied(tmp_path / "project")
    for name in ("data/__pycache__/a.nbi", "operators/__pycache__/a.1.nbc", "data/pictures/a.kernel"):
        (sources / "asyncdali" / name).parent.mkdir(exist_ok=True)
        (sources / "asyncdali" / name).touch()
    removed = sources / "build" / "lib" / "asyncdali" / "removed_in_this_version.py"
    removed.parent.mkdir(parents=True)
    removed.touch()
    before = set(sources.rglob("*"))
    build(sources, "build_editable")
    build(sources, "build_sdist")
    said, wheel = build(sources, "build_wheel")
    assert "ould be ignored" not in said and "absent from" not in said
    assert {path for path in sources.rglob("*") if path.name != "__pycache__" and path.suffix != ".pyc"} <= before
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
        wanted = {
        str(path.relative_to(ROOT)) for package in ("asyncdali", "asyncdali_workers") for path in (ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }  # fmt: skip
    assert names == wanted


def test_an_archive_of_the_sources_can_be_built(sources, wheel, tmp_path):
    with tarfile.open(build(sources, "build_sdist")[1]) as archive:
        archive.extractall(tmp_path)
    (unpacked,) = tmp_path.iterdir()
    with zipfile.ZipFile(wheel) as first, zipfile.ZipFile(build(unpacked, "build_wheel")[1]) as second:
        assert sorted(first.namelist()) == sorted(second.namelist())


def test_an_archive_of_the_sources_holds_documentation_tests_and_examples(tmp_path):
    sources = whole_copy(tmp_path / "project")
    wanted = {str(path.relative_to(sources)) for path in sources.rglob("*") if path.is_file()}
    left_out = [sources / "benchmarks/results/a.json", sources / "tests/__pycache__/a.pyc", sources / "examples/a.egg-info/PKG-INFO",
                sources / "tests/.hypothesis/a", sources / "docs/asyncdali-demo/demo.cpt"]  # fmt: skip
    for path in left_out:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    with tarfile.open(build(sources, "build_sdist")[1]) as archive:
        names = {item.name.split("/", 1)[1] for item in archive if item.isfile()}
    made = {"PKG-INFO", "setup.cfg"}
    assert names - wanted - {name for name in names if ".egg-info/" in name} == made
    assert wanted <= names


WHERE = """
import importlib.util, os, site, sys
sys.path += sys.argv[2:]
site.addsitedir(sys.argv[1])
import asyncdali
print(asyncdali.__version__, os.path.dirname(asyncdali.__file__), os.path.dirname(importlib.util.find_spec("asyncdali_workers").origin))
"""


def test_leftovers_do_not_hide_an_editable_install(sources, tmp_path):
    """Version 0.1.0 stored kernels in its installed folder. The folder remains after uninstalling, and Python finds it as a package."""
    installed = tmp_path / "site-packages"
    with zipfile.ZipFile(build(sources, "build_editable")[1]) as archive:
        archive.extractall(installed)
    (installed / "asyncdali" / "operators" / "__pycache__").mkdir(parents=True)
    (installed / "asyncdali" / "operators" / "__pycache__" / "kernel.nbi").touch()

    def where(*path):
        """The packages that an interpreter finds if its path has only these folders."""
        command = [sys.executable, "-I", "-S", "-c", WHERE, installed, *path]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    editable = [asyncdali.__version__, str(sources / "asyncdali"), str(sources / "asyncdali_workers")]
    assert where() == editable
    (tmp_path / "data" / "asyncdali").mkdir(parents=True)
    assert where(tmp_path / "data") == editable
    shutil.copytree(sources / "asyncdali", tmp_path / "other" / "asyncdali")
    assert where(tmp_path / "other")[1] == str(tmp_path / "other" / "asyncdali")  # a package that the user put on the path has priority


# --- version


def test_programs_that_require_a_version_of_dali_start():
    version = asyncdali.__version__
    assert re.fullmatch(r"2\.4\.0\.[1-9]\d*", version)
    assert version >= "1.11" and version >= "2.4.0"
    numbers = tuple(map(int, version.split(".")))
    assert numbers >= (1, 11) and numbers[:2] == (2, 4) and numbers[:3] == (2, 4, 0)
    assert float(".".join(version.split(".")[:2])) == 2.4
    from packaging.specifiers import SpecifierSet
    from packaging.version import Version

    parsed = Version(version)
    assert parsed >= Version("2.4.0") and parsed < Version("2.4.1") and not parsed.is_prerelease and parsed.local is None
    assert parsed in SpecifierSet(">=1.11,~=2.4,==2.4.*") and (parsed.major, parsed.minor, parsed.micro) == (2, 4, 0)
    assert str(parsed) == version


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """The metadata of the wheel."""
    folder = tmp_path_factory.mktemp("installed")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    (made,) = importlib.metadata.distributions(path=[str(folder)])
    return made


def test_installed_metadata_say_the_same_version(installed):
    assert installed.version == asyncdali.__version__


def test_metadata_name_licence_author_places_and_system(installed):
    data = installed.metadata
    assert data["License-Expression"] == "Apache-2.0" and data.get_all("License-File") == ["LICENSE"]
    (text,) = [file for file in installed.files if file.name == "LICENSE"]
    assert "Version 2.0, January 2004" in text.read_text()
    assert data["Author"] and data["Keywords"]
    assert {line.split(", ")[0] for line in data.get_all("Project-URL")} == {"Source", "Documentation", "Changelog", "Issues"}
    assert "Operating System :: POSIX :: Linux" in data.get_all("Classifier")


def test_a_python_gets_a_numba_that_supports_it(installed):
    """The first releases with wheels for 3.13 and 3.14 were 0.61 and 0.63."""
    from packaging.requirements import Requirement

    needs = [need for need in map(Requirement, installed.requires) if need.name == "numba"]
    lowest = {}
    for version in ("3.10", "3.11", "3.12", "3.13", "3.14", "3.15"):
        (need,) = [need for need in needs if need.marker is None or need.marker.evaluate({"python_version": version, "extra": ""})]
        lowest[version] = str(need.specifier)
    assert lowest == {"3.10": ">=0.60", "3.11": ">=0.60", "3.12": ">=0.60", "3.13": ">=0.61", "3.14": ">=0.63", "3.15": ">=0.63"}


def test_the_page_of_the_package_has_absolute_links_and_its_own_command(installed):
    """A page on PyPI lies beside no files, and its reader has no folder of the sources."""
    data = installed.metadata
    text = data.get_payload() or data["Description"]
    assert data["Description-Content-Type"] == "text/markdown"
    (source,) = [line.split(", ")[1] for line in data.get_all("Project-URL") if line.startswith("Source, ")]
    links = re.findall(r"\]\(([^)]*)\)", text)
    ours = [link.removeprefix(f"{source}/blob/v{asyncdali.__version__}/") for link in links if link.startswith(source)]
    assert len(ours) > 10 and all(link.startswith("https://") for link in links)
    assert [name for name in ours if not (ROOT / name).exists()] == []
    assert "    pip install asyncdali && asyncdali demo\n" in text and "pip install . &&" not in text and "in this folder" not in text


# --- interpreters


@pytest.mark.parametrize("package", ["asyncdali", "asyncdali_workers"])
def test_free_threaded_builds_are_refused_with_a_reason(package):
    program = f"import sys; sys.abiflags += 't'\nimport {package}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError: asyncdali does not run on free-threaded builds of Python, and ")
    assert sys.executable in last and "standard build" in last


# --- the matrix of environments


def test_the_matrix_names_modules_that_exist(tmp_path, monkeypatch):
    """A row without a module would run the whole suite, and a row without one of several would pass without it."""
    loader = importlib.util.spec_from_file_location("release", ROOT / ".ci" / "release.py")
    release = importlib.util.module_from_spec(loader)
    monkeypatch.setitem(sys.modules, "release", release)  # dataclasses look their module up
    loader.loader.exec_module(release)
    names = sorted({*release.CORE, *(name for tests in release.EXTRAS.values() for name in tests)})
    assert [path.stem for path in release.modules(ROOT, names)] == names
    for folder in ("one", "two"):
        (tmp_path / "tests" / "unit" / folder).mkdir(parents=True)
        (tmp_path / "tests" / "unit" / folder / "test_twice.py").touch()
    for name in ("test_twice", "test_never"):
        with pytest.raises(release.Failed, match=name):
            release.modules(tmp_path, [name])
