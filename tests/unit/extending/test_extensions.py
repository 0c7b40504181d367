"""Operators of other packages are found through entry points and imported at first use. A clash of names is refused."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers.nvrtc import ARCHITECTURES, compile_for, library_of
from helpers.pipelines import pipeline_of, run_script
from helpers.places import PROJECT as ROOT

from asyncdali import Pipeline, extending, fn, ops
from asyncdali.operators import REGISTRY, extensions

MODULE = '''
from asyncdali.extending import DATA, Arg, Batch, Operator, Planned, Schema

class Shift(Operator):
    schema = Schema(name="{name}", doc="Adds a number to what is known while planning.", accepts=(DATA,),
                    args=(Arg("by", "int", 1, "The number."),))
    reads = (0,)
    eager = True

    def plan(self, inputs, arguments, iteration):
        values = [inputs[0].sample(i) + self.spec.constant("by") for i in range(len(inputs[0]))]
        return Planned([Batch.from_values(__import__("numpy").stack(values))])
'''


@pytest.fixture
def package(tmp_path, monkeypatch):
    """``package(distribution, {entry point: value}, {module: text})`` installs a package for the duration of a test."""

    def install(name: str, points: dict[str, str], modules: dict[str, str]) -> None:
        folder = tmp_path / name
        info = folder / f"{name}-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text("[asyncdali.operators]\n" + "".join(f"{key} = {value}\n" for key, value in points.items()))
        for module, text in modules.items():
            (folder / f"{module}.py").write_text(text)
            made.add(module)
        monkeypatch.syspath_prepend(str(folder))
        importlib.invalidate_caches()
        extensions.declared.cache_clear()

    made: set[str] = set()
    before = set(REGISTRY)
    yield install
    for name in set(REGISTRY) - before:
        del REGISTRY[name]
    for name in [*made, *(name for name in sys.modules if name.startswith(("asyncdali.fn.test_", "asyncdali.ops.test_")))]:
        sys.modules.pop(name, None)
    for module in (fn, ops):
        for name in [name for name in vars(module) if name.startswith("test_")]:
            delattr(module, name)
    extensions.declared.cache_clear()


def test_an_operator_of_another_package_is_imported_when_it_is_asked_for(package):
    package("one", {"test_one.shift": "module_one:Shift"}, {"module_one": MODULE.format(name="test_one.shift")})
    assert fn.resize is not None and "module_one" not in sys.modules
    with pytest.raises(AttributeError, match="no attribute 'tset_one'"):
        _ = fn.tset_one
    assert "module_one" not in sys.modules
    with pipeline_of(lambda: fn.test_one.shift(np.int32([1, 2]), by=3), batch_size=2) as pipeline:
        assert [np.asarray(sample).tolist() for sample in pipeline.run()[0]] == [[4, 5]] * 2
    assert "Adds a number" in fn.test_one.shift.__doc__ and "by (int; default 1)" in fn.test_one.shift.__doc__
    assert ops.test_one.Shift(by=2).schema is fn.test_one.shift.schema
    with pytest.raises(KeyError, match="bye"):
        fn.test_one.shift(np.int32([1]), bye=3)


def test_a_name_in_a_module_that_the_library_has(package):
    package("one", {"readers.test_mine": "module_one:Shift"}, {"module_one": MODULE.format(name="readers.test_mine")})
    assert fn.readers.test_mine.schema.name == "readers.test_mine"
    delattr(fn.readers, "test_mine")


def test_a_stored_pipeline_imports_the_operators_that_it_names(package):
    package("one", {"test_one.shift": "module_one:Shift"}, {"module_one": MODULE.format(name="test_one.shift")})
    with pipeline_of(lambda: fn.test_one.shift(np.int32([1, 2])), batch_size=2) as pipeline:
        stored = pipeline.serialize()
    del REGISTRY["test_one.shift"], sys.modules["module_one"]
    with Pipeline.deserialize(stored) as again:
        assert np.asarray(again.run()[0][0]).tolist() == [2, 3]
    del REGISTRY["test_one.shift"]
    extensions.declared.cache_clear()
    sys.path[:] = [path for path in sys.path if not path.endswith("one")]
    with pytest.raises(RuntimeError, match=r"operator 'test_one\.shift', which neither this library nor an installed package declares"):
        Pipeline.deserialize(stored).build()


def test_two_packages_with_one_name_are_refused_by_name(package):
    for name in ("one", "two"):
        package(name, {"test_one.shift": f"module_{name}:Shift"}, {f"module_{name}": MODULE.format(name="test_one.shift")})
    with pytest.raises(extending.OperatorPackageError, match=r"test_one\.shift is declared more than once") as caught:
        _ = fn.test_one.shift
    assert all(f"'module_{name}:Shift' of the package '{name}'" in str(caught.value) for name in ("one", "two"))
    assert "module_one" not in sys.modules and "module_two" not in sys.modules


def test_the_name_of_an_operator_of_the_library_is_not_taken(package):
    package("one", {"resize": "module_one:Shift"}, {"module_one": MODULE.format(name="resize")})
    with pytest.warns(UserWarning, match="'resize' = 'module_one:Shift' of the package 'one' is not used"):
        assert extensions.find("test_nothing") is None
    assert extensions.find("resize") is not None and "module_one" not in sys.modules


@pytest.mark.parametrize(
    "text, message", [
        ("raise ValueError('broken')", "cannot be loaded: ValueError: broken"), ("import nowhere", "No module named 'nowhere'"),
        ("", "has no attribute 'Shift'"), ("Shift = 3", "must name a class derived from asyncdali.extending.Operator, got 3"),
        (MODULE.format(name="test_one.other"), "must have the schema of that name, got 'test_one.other'"),
    ],
)  # fmt: skip
def test_errors_name_the_package_and_the_entry_point(package, text, message):
    package("one", {"test_one.shift": "module_one:Shift"}, {"module_one": text})
    with pytest.raises(extending.OperatorPackageError) as caught:
        _ = fn.test_one.shift
    assert message in str(caught.value)
    assert "the entry point 'test_one.shift' = 'module_one:Shift' of the package 'one'" in str(caught.value)


def test_an_operator_of_the_program_itself(package):
    scope: dict = {}
    exec(MODULE.format(name="test_own.shift"), scope)
    extending.register(scope["Shift"])
    with pipeline_of(lambda: fn.test_own.shift(np.int32([1, 2])), batch_size=1) as pipeline:
        assert np.asarray(pipeline.run()[0][0]).tolist() == [2, 3]


def test_neither_the_package_nor_the_extending_module_imports_numba_or_metadata():
    program = """
import sys
import asyncdali, asyncdali.fn, asyncdali.extending
assert "numba" not in sys.modules, "numba"
from asyncdali.operators import extensions
assert extensions.declared.cache_info().misses == 0, "entry points"
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_the_public_names_exist():
    import asyncdali.extending.kernels as kernels
    import asyncdali.extending.testing as testing

    for module in (extending, kernels, testing):
        assert len(set(module.__all__)) == len(module.__all__)
        assert all(hasattr(module, name) for name in module.__all__)
    page = (ROOT / "docs" / "own_operators.md").read_text()
    names = (*extending.__all__, *kernels.__all__, *testing.__all__)
    assert [name for name in names if f"`{name}`" not in page] == [], "docs/own_operators.md lists every name"


def test_stubs_and_table_of_a_package(package, tmp_path):
    package("one", {"test_one.shift": "module_one:Shift"}, {"module_one": MODULE.format(name="test_one.shift")})
    from asyncdali.graph import reference

    made = {Path(path).name: text for path, text in reference.package_files("One").items()}
    assert "def shift(input_0: Any, /, *, by: int | None = 1," in made["fn.pyi"]
    assert "- `by` (int; default `1`): The number." in made["operators.md"]
    with pytest.raises(ValueError, match="no installed package 'nobody'"):
        reference.package_files("nobody")


GENERATED = """
import sys
from pathlib import Path
sys.path[:0] = sys.argv[1:]
from asyncdali.graph import reference
for path, text in reference.package_files("acme-operators").items():
    print(Path(path).name, Path(path).read_text() == text)
"""


def test_the_generated_files_of_the_example_are_current(tmp_path):
    """In a separate process the package is on the path with its metadata, as if it were installed. `.ci/run` installs it."""
    folder, info = ROOT / "examples" / "own_operators", tmp_path / "acme_operators-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-operators\nVersion: 1.0\n")
    declared = (folder / "pyproject.toml").read_text()
    points = re.search(r'^\[project.entry-points."asyncdali.operators"\]\n((?:".*\n)+)', declared, re.MULTILINE)
    assert points is not None
    (info / "entry_points.txt").write_text("[asyncdali.operators]\n" + points[1].replace('"', ""))
    done = run_script(GENERATED, tmp_path, folder / "src")
    wanted = ["fn.pyi", "True", "operators.md", "True"]
    assert done.stdout.split() == wanted, f"as in .ci/run: `python -m asyncdali.graph.reference --package acme-operators`; {done.stderr}"


def test_the_cuda_source_of_the_example_compiles(monkeypatch):
    from asyncdali.device.launch import Kernel, source_of

    monkeypatch.syspath_prepend(str(ROOT / "examples" / "own_operators" / "src"))
    tables = importlib.import_module("acme_operators.threshold_tables")
    path = Path(tables.__file__).with_name("threshold_kernels.cu")
    for kind in ("uint8", "float32"):
        assert compile_for(library_of(12), source_of(Kernel(path, "threshold", (("T", kind),))), ARCHITECTURES[12][0]) > 0
