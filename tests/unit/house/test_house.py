"""Rules of the project that no tool checks.

Operators are distinguished by declarations. Rooms use only public names of other rooms. Pages and docstrings have a form. Every operator
module has tests. An operator that runs does not change.
"""

from __future__ import annotations

import ast
import functools
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest
from helpers.places import PROJECT, TESTS

from asyncdali import Pipeline
from asyncdali.compat.pipeline_attributes import DaliNames
from asyncdali.operators import Operator, load_registry
from asyncdali.pipeline.core import Core

ROOT = PROJECT / "asyncdali"


@functools.lru_cache(maxsize=1)
def tree_of(text: str) -> ast.Module:
    """The syntax of a module. The searches of :func:`found_in` look at one module after the other, so each is parsed once."""
    return ast.parse(text)


@functools.lru_cache(maxsize=1)
def nodes_of(text: str) -> list[ast.AST]:
    """All nodes of a module."""
    return list(ast.walk(tree_of(text)))


@functools.cache
def found_in() -> dict[str, dict[str, Any]]:
    """The findings of each search, by the name of the search, then by the path of the module relative to the project.

    The syntax of one module is in memory at a time. That of all modules would take 300 MB.
    """
    searches = (
        name_comparisons, private_uses, core_uses, private_names, private_accesses, untyped_joints, classes, mentions_any, many_arguments
    )  # fmt: skip
    found: dict[str, dict[str, Any]] = {search.__name__: {} for search in searches}
    for path in [*ROOT.rglob("*.py"), *(ROOT.parent / "workers").rglob("*.py")]:
        text = path.read_text()
        for search in searches:
            found[search.__name__][path.relative_to(ROOT.parent).as_posix()] = search(text)
    return found


def in_package(search: str) -> dict[str, Any]:
    """The findings of a search in the modules of the package, by their paths relative to the package."""
    return {name.partition("/")[2]: item for name, item in found_in()[search].items() if name.startswith("asyncdali/")}


def _is_operator_name(node: ast.expr) -> bool:
    """Whether an expression is ``<anything>schema.name``."""
    if not isinstance(node, ast.Attribute) or node.attr != "name":
        return False
    owner = node.value
    return (isinstance(owner, ast.Attribute) and owner.attr == "schema") or (isinstance(owner, ast.Name) and owner.id == "schema")


def name_comparisons(text: str) -> list[int]:
    """Lines that compare an operator's name with a text or a constant, ask how the name begins or ends, look something up by it, or pass
    it to a kernel. A local variable with the name counts as the name.
    """
    found: set[int] = set()
    if not re.search(r"schema\s*\.\s*name\b", text):  # parsing all files would take seconds
        return []
    for function in (node for node in nodes_of(text) if isinstance(node, (ast.FunctionDef, ast.Module))):
        inside = function.body if isinstance(function, ast.Module) else [function]
        variables = {
            target.id
            for statement in inside for node in ast.walk(statement)
            if isinstance(node, ast.Assign) and _is_operator_name(node.value) and isinstance(function, ast.FunctionDef)
            for target in node.targets if isinstance(target, ast.Name)
        }  # fmt: skip
        for statement in inside:
            found |= {node.lineno for node in ast.walk(statement) if hasattr(node, "lineno") and _tells_operators_apart(node, variables)}
    return sorted(found)


def _tells_operators_apart(node: ast.AST, variables: set[str]) -> bool:
    def is_name(side: ast.expr) -> bool:
        return _is_operator_name(side) or (isinstance(side, ast.Name) and side.id in variables)

    if isinstance(node, ast.Compare):
        return any(map(is_name, (node.left, *node.comparators)))
    if isinstance(node, ast.Match):
        return is_name(node.subject)
    if isinstance(node, ast.Subscript):  # REGISTRY[schema.name] finds the class of the schema
        return is_name(node.slice) and not (isinstance(node.value, ast.Name) and node.value.id == "REGISTRY")
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        asks = node.func.attr in ("startswith", "endswith") and is_name(node.func.value)
        return asks or ((node.func.attr == "get" or "kernels" in ast.unparse(node.func.value)) and any(map(is_name, node.args)))
    return False


GENERATORS = {"graph/calls.py", "graph/reference.py", "operators/extensions.py", "operators/registry.py"}
"""Modules whose work depends on operator names: an operator with a leading underscore is not in `fn`, `ops` and the docs, and an entry
point of a package has the name of its operator."""


def test_operators_are_distinguished_by_declarations():
    found = in_package("name_comparisons")
    assert {name: lines for name, lines in found.items() if lines and name not in GENERATORS} == {}


SHARED_WITH_OTHERS = {"python_function", "external_source"}
"""Names of operators that are also names of findings, of modules, of arguments."""


def test_tools_know_no_operator_by_name():
    """The doctor and the search for the bottleneck read what schemas declare, so an operator of another package counts, too."""
    names = {name for name in load_registry() if "." in name or "_" in name} - SHARED_WITH_OTHERS
    found = {
        f"{path.name}:{node.lineno}": node.value
        for path in (ROOT / "tooling").glob("*.py") for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in names
    }  # fmt: skip
    assert found == {}


def test_the_search_finds_comparisons():
    assert name_comparisons('a.spec.schema.name == "x"') == [1]
    assert name_comparisons('schema.name in KNOWN') == [1]
    assert name_comparisons('schema.name.endswith("x")') == [1]
    assert name_comparisons('def f(schema):\n name = schema.name\n return name in ("a", "b")') == [3]
    assert name_comparisons('match schema.name:\n case "a": pass') == name_comparisons('TABLE[schema.name]') == [1]
    assert name_comparisons('TABLE.get(schema.name)') == name_comparisons('self._kernels.step(self.schema.name)') == [1]
    assert name_comparisons('schema.role is Role.SPLIT') == name_comparisons('REGISTRY[schema.name]') == []


def _registered(path: Path) -> int:
    """Number of operators that a module declares."""
    text = path.read_text()
    if text.count("@register\n") < 2:
        return text.count("@register\n")
    classes = (node for node in ast.parse(text).body if isinstance(node, ast.ClassDef))
    return sum(any(isinstance(item, ast.Name) and item.id == "register" for item in node.decorator_list) for node in classes)


def test_modules_with_several_operators_are_the_families_that_the_room_names():
    text = ast.get_docstring(ast.parse((ROOT / "operators" / "__init__.py").read_text())) or ""
    part = text.split("reads this list:")[1].split("May import")[0]
    named = set(re.findall(r"\b(\w+/\w+\.py)", part))
    modules = [path for room in ("operators", "readers") for path in (ROOT / room).rglob("*.py")]
    assert named == {f"{path.parent.name}/{path.name}" for path in modules if _registered(path) > 1}


PRIVATE = {
    name
    for owner in (*Pipeline.__mro__[:-1], Pipeline(batch_size=1, num_threads=1))
    for name in vars(owner)
    if name.startswith("_") and not name.startswith("__")
}
"""Attributes of pipelines that only the room `pipeline` may use, and the names that programs written for DALI use."""

CALLED_PIPELINE = {"pipe", "pipes", "pipeline", "pipelines"}
"""Variable names of pipelines in the other rooms."""


def _calls_a_pipeline(node: ast.expr) -> bool:
    """Whether an expression ends with a name that pipelines have: ``pipe``, ``self._pipe``, ``pipes[0]``, ``Pipeline.current()``."""
    while isinstance(node, ast.Subscript):
        node = node.value
    if isinstance(node, ast.Call):
        return ast.unparse(node.func) in ("Pipeline.current", "context.current")
    name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    return name.strip("_") in CALLED_PIPELINE


def private_uses(text: str) -> list[int]:
    """Lines that read, set or call a private attribute of a pipeline."""
    return [
        node.lineno
        for node in nodes_of(text)
        if isinstance(node, ast.Attribute)
        and node.attr.startswith("_") and not node.attr.startswith("__")
        and _calls_a_pipeline(node.value)
    ]  # fmt: skip


def test_other_rooms_use_no_private_attributes_of_pipelines():
    found = in_package("private_uses")
    assert {name: lines for name, lines in found.items() if lines and not name.startswith("pipeline/")} == {}


def core_uses(text: str) -> list[int]:
    """Lines with `_core` of anything but ``self``."""
    return [node.lineno for node in nodes_of(text) if isinstance(node, ast.Attribute) and node.attr == "_core" and not _is_own(node)]


def _is_own(node: ast.Attribute) -> bool:
    """Whether a node is an attribute of ``self``."""
    return isinstance(node.value, ast.Name) and node.value.id == "self"


def test_private_attributes_of_pipelines_are_found_whatever_the_variable_is_called():
    """Only pipelines have `_core`. A search by the name of the variable would miss ``made._core``."""
    found = in_package("core_uses")
    assert {name: lines for name, lines in found.items() if lines and not name.startswith("pipeline/")} == {}


def test_a_pipeline_keeps_its_state_in_the_core():
    pipe = Pipeline(batch_size=1, num_threads=1)
    assert {name for name in vars(pipe) if name.startswith("_")} == {"_core"}
    assert isinstance(pipe._core, Core)
    private = {name for name in PRIVATE if name not in vars(DaliNames)}
    assert private == {"_calling", "_calling_elsewhere", "_core", "_core_class", "_run_async", "_named"}


def test_the_search_finds_private_uses():
    assert private_uses("pipeline._options") == [1]
    assert private_uses("self._pipe._launch(session)") == [1]
    assert private_uses("self._pipes[0]._core") == [1]
    assert private_uses("context.current()._definition") == [1]
    assert private_uses("pipe.__dict__") == private_uses("core_of(pipe).options") == private_uses("self._private") == []


PAGES = [*ROOT.parent.glob("*.md"), *(page for room in ("docs", "benchmarks") for page in (ROOT.parent / room).rglob("*.md"))]
PAGES += [ROOT.parent / room / "README.md" for room in ("tests", "examples")]


@pytest.mark.parametrize("page", [page for page in PAGES if page.exists()], ids=lambda page: str(page.relative_to(ROOT.parent)))
def test_lines_of_pages_have_120_columns(page):
    """Lines of tables count, too. Divide a long cell, or write a list. docs/operators.md is generated (`asyncdali/graph/reference.py`).

    What a program printed (between ```) may be longer.
    """
    text = re.sub(r"^```\n.*?^```$", "", page.read_text(), flags=re.M | re.S)
    assert [line for line in text.splitlines() if len(line) > 120] == []


def _named(text: str, name: str) -> bool:
    return re.search(rf"(?<![\w/]){re.escape(name)}(?!\w)", text) is not None


def _folder_texts() -> dict[Path, str]:
    """The docstrings of all folders of code."""
    inits = [*ROOT.rglob("__init__.py"), *(ROOT.parent / "workers").rglob("__init__.py")]
    return {init.parent: ast.get_docstring(ast.parse(init.read_text())) or "" for init in inits}


def test_every_folder_lists_its_files_and_folders():
    """The docstring of a folder has a line for each of its modules and folders. docs/architecture.md lists those beside the rooms."""
    missing = []
    for folder, text in _folder_texts().items():
        if folder != ROOT:
            files = [file.name for file in sorted(folder.glob("*.py")) if file.name != "__init__.py"]
            folders = [f"{init.parent.name}/" for init in sorted(folder.glob("*/__init__.py"))]
            missing += [f"{folder.relative_to(ROOT.parent)}/{name}" for name in (*files, *folders) if not _named(text, name)]
    assert missing == []


FLOWS = {
    "codecs/jpeg", "compiled", "device/cuda", "engines", "fleet", "graph", "imperative", "readers", "regrouping", "runtime",
    "runtime/templates", "sources", "workers",
}  # fmt: skip
"""Folders through which something goes from module to module. Their docstrings have a picture of its path."""


def test_folders_with_a_flow_have_a_picture():
    texts = _folder_texts()
    folders = {name: ROOT.parent / name if name == "workers" else ROOT / name for name in FLOWS}
    assert [name for name, folder in folders.items() if not re.search(r"->|\n +v\n", texts[folder])] == []


def test_folders_list_no_file_that_is_gone():
    """A name with a folder, or of a file of another folder, counts if there is such a file."""
    files = {f"/{path.relative_to(ROOT.parent).as_posix()}" for path in ROOT.parent.rglob("*.py")}
    gone = []
    for init in [*ROOT.rglob("__init__.py"), *(ROOT.parent / "workers").rglob("__init__.py")]:
        text = ast.get_docstring(ast.parse(init.read_text())) or ""
        listed = re.findall(r"(?<![\w*/])[a-z_][\w/]*\.py\b", text)
        gone += [f"{init.relative_to(ROOT.parent)}: {name}" for name in listed if not any(file.endswith(f"/{name}") for file in files)]
    assert gone == []


def _code() -> list[Path]:
    folders = ROOT, ROOT.parent / "asyncdali_workers"
    return [path for folder in folders for path in folder.rglob("*") if path.suffix in (".py", ".cu", ".cuh")]


def _see(text: str) -> list[str]:
    """Files and names that a comment or docstring sends the reader to."""
    return re.findall(r"\b[Ss]ee (?:``([A-Za-z_]\w*)(?:\.\w+)*``|([a-z_]\w*)\.(?:py|cuh?)\b)", text)


def test_what_comments_refer_to_exists():
    """The words "see ``name``" and "see file.py" name a folder, a file, or something that is defined somewhere."""
    texts = {path: path.read_text() for path in _code()}
    definition = r"\b(?:def|class)\s+(\w+)|^\s*(\w+)\s*[:=]"
    known = {name for text in texts.values() for found in re.findall(definition, text, re.M) for name in found}
    known |= {name for path in texts for name in (path.stem, path.parent.name)}
    gone = []
    for path, text in texts.items():
        gone += [f"{path.relative_to(ROOT.parent)}: {name}" for pair in _see(text) for name in pair if name and name not in known]
    assert gone == []


def test_the_search_finds_references():
    assert _see("see ``flip.FLIP``. See rotate.py") == [("flip", ""), ("", "rotate")]


LISTING = {"tests/README.md": "tests/helpers", "examples/README.md": "examples", "benchmarks/README.md": "benchmarks"}
"""Pages that list the files of a folder."""


@pytest.mark.parametrize("page", LISTING)
def test_pages_list_the_files_of_their_folder(page):
    text = (ROOT.parent / page).read_text()
    files = (file for file in sorted((ROOT.parent / LISTING[page]).glob("*.py")) if not file.name.startswith("__"))
    assert [file.name for file in files if not _named(text, file.name)] == []


def test_public_docstrings_carry_their_text():
    """No docstring refers its reader to the schema. `register` gives the text of the schema to an operator's class."""
    operators = [operator for name, operator in load_registry().items() if not name.startswith("_")]
    assert [operator.__name__ for operator in operators if not operator.__doc__] == []
    phrase = "See the " + "schema"
    assert [str(path) for path in [*ROOT.rglob("*.py"), *ROOT.rglob("*.pyi")] if phrase in path.read_text()] == []


def _room(name: str) -> str:
    """The room of a module: the folder, or the module itself, in asyncdali/; or "workers"."""
    parts = name.split("/")
    return parts[1] if parts[0] == "asyncdali" else parts[0]


def private_names(text: str) -> set[str]:
    """Names with an underscore that a module's classes and functions define."""
    found: list[str] = []
    for node in nodes_of(text):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.append(node.name)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and _owner(node) in ("self", "cls"):
            found.append(node.attr)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.append(node.target.id)
        elif isinstance(node, ast.Assign):
            found += [target.id for target in node.targets if isinstance(target, ast.Name)]
            if isinstance(node.targets[0], ast.Name) and node.targets[0].id == "__slots__":
                found += [str(item.value) for item in ast.walk(node.value) if isinstance(item, ast.Constant)]
    return {name for name in found if re.match("_[a-z]", name)}


def _owner(node: ast.Attribute) -> str:
    """``self``, ``cls`` or another name in front of an attribute; "super()"; or nothing."""
    call = isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Name) and node.value.func.id == "super"
    return "super()" if call else node.value.id if isinstance(node.value, ast.Name) else ""


def private_accesses(text: str) -> list[tuple[str, str]]:
    """Attributes with an underscore of other objects than the own one, and their places."""
    return [
        (node.attr, f"{node.lineno}: {ast.unparse(node)}")
        for node in nodes_of(text)
        if isinstance(node, ast.Attribute) and re.match("_[a-z]", node.attr) and _owner(node) not in ("self", "cls", "super()")
    ]


OF_OTHERS = {"_info", "_library", "_local", "_replace"}
"""Attributes of Numba, fsspec and named tuples."""


def test_rooms_use_no_private_names_of_other_rooms():
    """An attribute belongs to a room if classes of the room define its name."""
    owners: dict[str, set[str]] = {}
    for path, names in found_in()["private_names"].items():
        for name in names - OF_OTHERS:
            owners.setdefault(name, set()).add(_room(path))
    found = [
        f"{path}:{place}"
        for path, accesses in found_in()["private_accesses"].items()
        for name, place in accesses
        if name in owners and _room(path) not in owners[name]
    ]
    assert found == []
    assert len(owners) > 1000 and any(found_in()["private_accesses"].values())


JOINTS = {
    "arena", "block", "built", "claim", "commands", "counters", "device", "executor", "instance", "job", "operator", "part", "plan",
    "planned", "puller", "record", "run", "schema", "segment", "session", "spec", "step", "task",
}  # fmt: skip
"""Names of parameters that always are objects of the project."""

TYPED = ("engines", "fleet", "graph", "runtime", "device", "pipeline", "sources")


def untyped_joints(text: str) -> list[int]:
    """Lines of parameters with these names whose annotation is ``Any``."""
    return [
        node.lineno for node in nodes_of(text)
        if isinstance(node, ast.arg) and node.arg in JOINTS and isinstance(node.annotation, ast.Name) and node.annotation.id == "Any"
    ]  # fmt: skip


def test_parameters_for_objects_of_other_rooms_have_a_type():
    typed = re.compile(rf"workers/|asyncdali/(?:{'|'.join(TYPED)})/|asyncdali/operators/[^/]*$")
    found = {name: lines for name, lines in found_in()["untyped_joints"].items() if typed.match(name)}
    assert len(found) > 200
    assert {name: lines for name, lines in found.items() if lines} == {}


def test_the_search_finds_untyped_joints():
    assert untyped_joints("def f(record: Any, value: Any, segment: Segment): ...") == [1]


SAME_NAMES = {
    # DALI's names, one for each framework
    "DALIClassificationIterator", "DALIGenericIterator", "PipelineDataset",
    # DALI's names in dynamic mode, for what users hold; the runtime has a batch, devices and streams of its own
    "Batch", "Device", "ExternalSource", "Kind", "Stream", "Tensor",
    # an input of an operator, a name that packages of operators rely on; and an input of a data set for TensorFlow
    "Input",
    # torchvision's names, which are also those of operators or of their base
    "Compose", "GaussianBlur", "GaussianNoise", "Normalize", "Operator", "Pad", "RandomResizedCrop", "Resize", "Transform",
}  # fmt: skip
"""Names of several classes. The set may only become smaller: a class has the field's word for its own subject ("TarMember", "Member")."""


def classes(text: str) -> list[tuple[str, int]]:
    """Names of classes, and their lines."""
    return [(node.name, node.lineno) for node in nodes_of(text) if isinstance(node, ast.ClassDef)]


def test_a_class_name_has_one_meaning():
    found: dict[str, list[str]] = {}
    for path, own in found_in()["classes"].items():
        for name, line in own:
            found.setdefault(name, []).append(f"{path}:{line}")
    several = {name: places for name, places in found.items() if len(places) > 1}
    assert {name: places for name, places in several.items() if name not in SAME_NAMES} == {}
    assert SAME_NAMES - several.keys() == set(), "these names have one meaning now: take them out of the list"


# --- tests mirror the house




def test_tests_name_the_errors_that_they_expect():
    """``pytest.raises(Exception)`` would also accept an error of the test itself."""
    forbidden = ("Exception", "BaseException")
    found = []
    for file in sorted(TESTS.rglob("test_*.py")):
        text = file.read_text()
        if not re.search(r"raises\s*\(\s*(Base)?Exception\b", text):
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "raises" and node.args:
                expected = node.args[0]
                if isinstance(expected, ast.Name) and expected.id in forbidden:
                    found.append(f"{file.relative_to(TESTS)}:{node.lineno}")
    assert not found


def test_modules_of_tests_have_names_of_their_own():
    """pytest and tests put folders of tests on sys.path. A worker process that imports a module by its name takes the first one."""
    names: dict[str, list[Path]] = {}
    for path in (ROOT.parent / "tests").rglob("*.py"):
        if path.stem not in ("__init__", "conftest"):
            names.setdefault(path.stem, []).append(path)
    assert not {name: paths for name, paths in names.items() if len(paths) > 1}


def test_operator_modules_have_tests_of_their_own():
    """The tests of a module are in a folder of tests/unit, in test_<module>.py or test_readers_<module>.py.

    Operators in two files need no such file: test_element_operators.py and test_sample_operators.py find their declarations.
    """
    from asyncdali.operators.kernel_operator import TwoFileOperator

    own = [cls for cls in load_registry().values() if cls.__module__.startswith("asyncdali.") and not issubclass(cls, TwoFileOperator)]
    modules = {cls.__module__ for cls in own}
    names = sorted({module.rpartition(".")[2] for module in modules})
    files = {path.name for path in (TESTS / "unit").rglob("test_*.py")}
    assert [name for name in names if files.isdisjoint({f"test_{name}.py", f"test_readers_{name}.py"})] == []


SHARED_KERNELS = {"containers/protobuf", "containers/record"}
"""Kernels that several modules of their folder share."""


def test_kernels_have_the_name_of_their_operator():
    """`rotate_kernels.py` is beside `rotate.py`, and so is `rotate_what_kernels.py`, also if other operators use these kernels."""
    strange = []
    found = [path for room in ("operators", "readers") for path in (ROOT / room).glob("*/*_kernels.*")]
    for kernels in (path for path in found if path.suffix in (".py", ".cu")):
        name = kernels.stem.removesuffix("_kernels")
        names = {path.stem for path in kernels.parent.glob("*.py") if not path.stem.endswith(("_kernels", "_tables", "__init__"))}
        if not any(name == other or name.startswith(f"{other}_") for other in names):
            strange.append(f"{kernels.parent.name}/{name}")
    assert set(strange) == SHARED_KERNELS


KERNEL_MODULES = {path.stem for path in ROOT.rglob("*_kernels.py")}


def kernel_modules_named_in(path: Path) -> set[str]:
    """The modules of kernels that a module imports, or that one of its classes names as its `kernel_module`."""
    names = set(re.findall(r'kernel_module = "(\w+)"', path.read_text()))
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            names |= {(node.module or "").rpartition(".")[2], *(alias.name for alias in node.names)}
    return names & KERNEL_MODULES


def test_every_operator_with_kernels_has_a_module_of_kernels():
    """`transpose_kernels.py` is beside `transpose.py`, although other operators have the same steps: it names them.

    In the two short forms, the function of an element or a sample is part of the operator's class.
    """
    from asyncdali.operators.kernel_operator import TwoFileOperator

    for cls in load_registry().values():
        if cls.__module__.startswith("asyncdali.") and not issubclass(cls, TwoFileOperator):
            path = ROOT.parent / cls.__module__.replace(".", "/")
            used, own = kernel_modules_named_in(path.with_suffix(".py")), f"{path.name}_kernels"
            inherited = {base.kernel_module for base in cls.__mro__ if vars(base).get("kernel_module")}
            assert own in used or not (used or inherited), f"{cls.schema.name}: {own}.py names none of its kernels"


SUBJECTS = {"cuda", "docs", "house", "security", "show"}
"""Rooms of tests/unit whose subject many packages serve. The other rooms have the names of packages."""


def test_unit_tests_lie_in_the_room_of_their_package():
    unit = TESTS / "unit"
    rooms = {path.parent.relative_to(unit).as_posix() for path in unit.rglob("test_*.py")}
    packages = {path.parent.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.py")}
    assert rooms - packages - {"codecs/images"} == SUBJECTS
    text = (TESTS / "README.md").read_text()
    assert not [room for room in rooms if f"`{room.partition('/')[0]}/" not in text]


MOST_CLASS_ATTRIBUTES = 10
"""Attributes of `Operator` beside `schema` that describe it to the runtime. The number may only fall; `Trait` is for rare attributes."""


def test_the_contract_of_operators_is_small():
    kinds = (classmethod, property, staticmethod, FunctionType)
    described = [name for name, value in vars(Operator).items() if not name.startswith("__") and not isinstance(value, kinds)]
    assert len(described) <= MOST_CLASS_ATTRIBUTES, described


MOST_EXECUTOR_ATTRIBUTES = 16
"""The number may only fall. Which thread does what belongs to the placements, what is counted to the counters."""


def test_the_executor_has_few_attributes():
    tree = ast.parse((ROOT / "runtime/order/executor.py").read_text())
    (executor,) = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Executor")
    attributes = [node for node in ast.walk(executor) if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "self"]
    found = {node.attr for node in attributes if isinstance(node.ctx, ast.Store)}
    found |= {node.target.id for node in executor.body if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)}
    assert len(found) <= MOST_EXECUTOR_ATTRIBUTES, sorted(found)


MODE = {
    "beside", "caller_makes", "collects_reports", "device", "engines", "gpu", "in_engines", "lane", "on_gpu", "one_at_a_time", "pinned",
    "remote", "reports",
}  # fmt: skip
"""Names (without leading underscores) that tell where iterations or segments are made."""

PLACEMENTS = {"order/placement.py", "work/call_placement.py"}
"""Modules of the classes that differ in modes: of pipelines, and of the calls of debug and dynamic mode. Other modules of these rooms have
no branch on a mode. They use a device through its interface (`device/base.py`)."""


def names_in(node: ast.AST) -> set[str]:
    parts = list(ast.walk(node))
    found = {part.id for part in parts if isinstance(part, ast.Name)} | {part.attr for part in parts if isinstance(part, ast.Attribute)}
    return {name.lstrip("_") for name in found}


def mode_branches(tree: ast.AST) -> int:
    """The number of conditions, and of operands of `and` and `or`, that name a mode."""
    found = 0
    for node in ast.walk(tree):
        if isinstance(node, (ast.If, ast.IfExp, ast.While, ast.Assert)):
            found += bool(names_in(node.test) & MODE)
        elif isinstance(node, ast.comprehension):
            found += any(names_in(test) & MODE for test in node.ifs)
        elif isinstance(node, ast.BoolOp):
            found += any(names_in(value) & MODE for value in node.values[:-1])
    return found


def test_only_placements_branch_on_modes():
    runtime = ROOT / "runtime"
    paths = [path for room in ("order", "work", "repairs") for path in (runtime / room).glob("*.py")]
    found = {path.relative_to(runtime).as_posix(): mode_branches(ast.parse(path.read_text())) for path in paths}
    assert {name for name, count in found.items() if count} <= PLACEMENTS


def test_mode_branches_are_found():
    lines = ["if self.gpu is None: pass", "x = a if b.remote else c", "y = record.lane or self.x", "z = [k for k in s if k._beside]"]
    assert mode_branches(ast.parse("\n".join(lines))) == 4
    assert mode_branches(ast.parse("self.gpu = stages.gpu\nif record.error is None: pass")) == 0


# --- running an operator does not change it


WHILE_BUILDING = {"__init__", "infer", "discover", "locate", "use_settings", "close", "stop"}
"""Methods of operators that `build()` and `close()` call."""

KEPT = {
    "ArithmeticGenericOp": {"_cuda", "_made", "_types"},
    "Beta": {"_kernel"},
    "BBoxRotate": {"_constant"},
    "ContainerReader": {"_maps", "_touched"},
    "CropMirrorNormalize": {"_layouts"},
    "FileContentsReader": {"_skipped"},
    "Filled": {"_made"},
    "ImageDecoder": {"_cache", "_hits", "_own_found", "_scans"},
    "NumbaFunction": {"_code", "_kernel"},
    "NumpyReader": {"_headers"},
    "OneValue": {"_sizes"},
    "PermuteBatch": {"_checked"},
    "RandomBBoxCrop": {"_layouts", "_quiet"},
    "RandomOperator": {"_kept"},
    "RandomResizedCrop": {"_mode"},
    "ReaderOperator": {"_hinted", "_order", "_remote_ahead"},
    "Reshape": {"_kept"},
    "Resize": {"_mode"},
    "TensorResize": {"_mode"},
    "_Repeated": {"_batch"},
    "_Selection": {"_warned"},
    "_Transform": {"_constant"},
}
"""Attributes that other methods assign: caches of results that depend only on arguments, shapes of inputs and files, counts for statistics,
whether a warning was given, and helpers of constructors. A position must not be here, because the runtime keeps positions."""


def assigned(cls: ast.ClassDef) -> set[str]:
    """Attributes of `self` that methods assign, or whose elements they assign, while an operator runs."""
    found = set()
    for method in cls.body:
        if isinstance(method, ast.FunctionDef) and method.name not in WHILE_BUILDING:
            for node in ast.walk(method):
                targets = node.targets if isinstance(node, ast.Assign) else []
                targets = [node.target] if isinstance(node, (ast.AugAssign, ast.AnnAssign)) else targets
                matches = [re.fullmatch(r"self\.(\w+)(\[.*\])?", ast.unparse(target)) for target in targets]
                found |= {match[1] for match in matches if match}
    return found


def test_running_an_operator_assigns_only_caches_and_counts():
    owners = {cls for operator in load_registry().values() for cls in operator.__mro__}
    names = {cls.__name__ for cls in owners if cls.__module__.startswith(("asyncdali.operators", "asyncdali.readers"))}
    found: dict[str, set[str]] = {}
    for folder in ("operators", "readers"):
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.ClassDef) and (node.name in names or node.name in KEPT) and assigned(node):
                    found[node.name] = assigned(node)
    assert found == KEPT


def test_the_search_finds_assignments():
    (cls,) = ast.parse("class A:\n def __init__(self): self.a = 1\n def plan(self): self.b = 2; self.c += 1; self.d[0] = 3").body
    assert isinstance(cls, ast.ClassDef) and assigned(cls) == {"b", "c", "d"}


COMPILES = {"callback", "inlined", "contracted", "overload", "function_of", "njit", "step_variant"}
"""Functions that compile the function they are given. A kernel module may give one by name."""

OVERLOADS = {"operators/python/numba_function_on_host_kernels.py": ["typed", "typed"]}
"""Functions that Numba compares with the signature of what they overload, which has no annotations."""

IR_GENERATORS = (["context", "builder", "signature", "args"], ["context", "builder", "sig", "args"])
"""Arguments of a function that generates LLVM IR for Numba."""


ANY_SHARE = 0.12
"""Share of the functions with annotations that have `Any` in one of them. The number may only fall. Modules whose functions Numba compiles
or that generate LLVM IR are left out: Numba and llvmlite have no types."""


def mentions_any(text: str) -> list[bool]:
    """For each function with annotations, whether one of them contains `Any`."""
    found = []
    for node in nodes_of(text):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            given = node.args
            arguments = (*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg)
            annotations = [item.annotation for item in arguments if item is not None and item.annotation is not None]
            annotations += [node.returns] if node.returns is not None else []
            if annotations:
                found.append(any(isinstance(part, ast.Name) and part.id == "Any" for item in annotations for part in ast.walk(item)))
    return found


def test_the_share_of_any_falls():
    """`Any` turns off checks where the value is used. Use `object` for a value that is only passed on or asked for its class, a protocol
    for a value of which some methods are used, and the class itself otherwise.
    """
    compiled = {path.relative_to(ROOT.parent).as_posix() for path in _compiled_modules()}
    found = [mentioned for name, own in found_in()["mentions_any"].items() if name not in compiled for mentioned in own]
    share = sum(found) / len(found)
    assert share <= ANY_SHARE, "more signatures have Any than before"
    assert share > ANY_SHARE - 0.01, f"the share has fallen to {share:.3f}: write it down"


def test_the_search_finds_any():
    assert mentions_any("def f(a: int, *b: list[Any]) -> None: ...\ndef g(a: int) -> int: ...\ndef h(a): ...") == [True, False]


def test_builds_mypy_and_checkouts_see_the_same_two_packages():
    """Both lie beside pyproject.toml under their installed names: no build, finder or type checker needs a map of folders."""
    tomllib = pytest.importorskip("tomllib")  # Python 3.11
    settings = tomllib.loads((ROOT.parent / "pyproject.toml").read_text())["tool"]
    packages = ["asyncdali", "asyncdali_workers"]
    assert settings["mypy"]["packages"] == packages and "mypy_path" not in settings["mypy"]
    assert sorted({name.partition(".")[0] for name in settings["setuptools"]["packages"]}) == packages
    assert "package-dir" not in settings["setuptools"]
    assert all((ROOT.parent / name / "__init__.py").is_file() and not (ROOT.parent / name).is_symlink() for name in packages)
    if (ROOT.parent / ".git").exists():  # an archive of the sources has no links
        assert (ROOT.parent / "workers").resolve() == ROOT.parent / "asyncdali_workers"


def _compiled_modules() -> list[Path]:
    """The modules in which mypy accepts functions without annotations (build_tools/mypy_kernels.py)."""
    spec = importlib.util.spec_from_file_location("mypy_kernels", ROOT.parent / "build_tools" / "mypy_kernels.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: list[Path] = module.compiled_modules()
    return found


def unannotated(text: str) -> list[str]:
    """Functions without annotations that Numba neither compiles nor calls to generate code."""
    tree = ast.parse(text)
    given = {
        argument.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and (called := node.func.func if isinstance(node.func, ast.Call) else node.func)
        and isinstance(called, ast.Name) and called.id in COMPILES
        for argument in node.args if isinstance(argument, ast.Name)
    }  # fmt: skip

    def search(node: ast.AST) -> Iterator[str]:
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, ast.FunctionDef):
                yield from search(child)
                continue
            given_to = child.args
            everything = (*given_to.posonlyargs, *given_to.args, *given_to.kwonlyargs, given_to.vararg, given_to.kwarg)
            arguments = [item for item in everything if item is not None and item.arg != "self"]
            generates = [item.arg for item in arguments] in IR_GENERATORS
            if child.decorator_list or generates or child.name in given:
                if not generates:
                    yield from search(child)
                continue
            if any(item.annotation is None for item in arguments) or (child.returns is None and child.name != "__init__"):
                yield child.name
            yield from search(child)

    return list(search(tree))


def test_functions_that_are_not_compiled_have_annotations():
    found = {str(path.relative_to(ROOT)): unannotated(path.read_text()) for path in _compiled_modules()}
    assert len(found) > 50
    assert {name: functions for name, functions in found.items() if functions} == OVERLOADS


def test_the_search_finds_functions_without_annotations():
    assert unannotated("def make(dtype): pass") == ["make"]
    assert unannotated("def make(dtype: str): pass") == ["make"]
    assert unannotated("def make(dtype: str) -> None:\n @inlined\n def f(a): pass\n def g(a): pass") == ["g"]
    assert unannotated("@step\ndef f(context, sample, thread): pass") == []
    assert unannotated("def f(x): pass\ng = inlined(f)") == unannotated("def codegen(context, builder, sig, args): pass") == []


MOST_ARGUMENTS = 7

MANY_ARGUMENTS = {
    # signatures of DALI, and what passes them on
    "auto_aug/auto_augment.py": {"auto_augment"},
    "auto_aug/rand_augment.py": {"rand_augment"},
    "auto_aug/trivial_augment.py": {"trivial_augment_wide"},
    "external_source.py": {"external_source", "_define", "ExternalSource.__init__"},
    "imperative/dtypes.py": {"DType.__init__"},
    "imperative/values.py": {"Tensor.__init__"},
    "pipeline/pipeline.py": {"Pipeline.__init__"},
    "plugin/base_iterator.py": {"BaseIterator.__init__"},
    "plugin/jax/factory.py": {"data_iterator", "peekable_data_iterator"},
    "plugin/jax/iterator.py": {"DALIGenericIterator.__init__"},
    "plugin/paddle.py": {"DALIGenericIterator.__init__", "DALIClassificationIterator.__init__"},
    "plugin/pytorch/iterator.py": {
        "DALIGenericIterator.__init__", "DALIClassificationIterator.__init__", "DALIRaggedIterator.__init__",
    },
    "plugin/tf/dataset.py": {"DALIDataset.__init__"},
    "plugin/tf/wrapper.py": {"_Iterator.__call__"},
    # torchvision's
    "vision/cropping.py": {
        "_resized_crop_frame", "_resized_crop_mask", "_resized_crop_picture", "_resized_crop_tensor", "erase", "resized_crop",
    },
    "vision/geometry.py": {"RandomAffine.__init__"},
    "vision/policies.py": {"AugMix.__init__"},
    "vision/warping.py": {"_affine_frame", "_affine_mask", "_affine_picture", "_affine_tensor", "affine"},
    # our own public signatures, with keywords
    "fleet/ranks.py": {"loader"},
    "plugin/pytorch/dataset.py": {"from_torch_dataset", "TorchDatasetSource.__init__"},
    "ray/fleet.py": {"Fleet.__init__"},
    # records of which every field is given
    "batch.py": {"Batch.__init__"},
    "fleet/connections.py": {"Connections.__init__"},
    "graph/node.py": {"OperatorInstance.__init__"},
}  # fmt: skip
"""Functions that may have more than MOST_ARGUMENTS arguments."""


def many_arguments(text: str) -> set[str]:
    """Functions with more than MOST_ARGUMENTS arguments, `self` not counted. Compiled functions read tables, or are inlined."""

    def search(node: ast.AST, owner: str) -> Iterator[str]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
                names = [item.arg for item in (*child.args.posonlyargs, *child.args.args, *child.args.kwonlyargs)]
                typed = any(item.annotation for item in (*child.args.args, *child.args.kwonlyargs))
                if typed and len(names) - (names[:1] in (["self"], ["cls"])) > MOST_ARGUMENTS:
                    yield owner + child.name
                yield from search(child, f"{owner}{child.name}.")
            else:
                yield from search(child, f"{owner}{child.name}." if isinstance(child, ast.ClassDef) else owner)

    return set(search(tree_of(text), ""))


def test_functions_have_few_arguments():
    """Group what belongs together into a named tuple or a dataclass."""
    found = in_package("many_arguments")
    assert {name: functions for name, functions in found.items() if functions} == MANY_ARGUMENTS


def test_the_search_finds_many_arguments():
    eight = ", ".join(f"a{k}: int" for k in range(8))
    assert many_arguments(f"def f({eight}): pass") == {"f"}
    assert many_arguments(f"class A:\n def f(self, {eight[:-9]}): pass") == set()
    assert many_arguments(f"class A:\n def f(self, *, {eight}): pass") == {"A.f"}
