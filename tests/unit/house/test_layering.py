"""Allowed imports between rooms, and the cost of importing the package."""

from __future__ import annotations

import ast
import functools
import os
import re
import subprocess
import sys

import pytest
from helpers.places import PROJECT as ROOT

PACKAGE = ROOT / "asyncdali"

PAGE = ROOT / "docs" / "architecture.md"


def rules(text: str) -> dict[str, set[str] | None]:
    """The arrows of the architecture page: room -> rooms that it may import, lazily or not; None: anything.

    A rule is an indented line ``a, b -> c, d.e``; lines that are indented further continue it. ``nothing`` and ``any room`` are words.
    """
    found: dict[str, set[str] | None] = {}
    part = text.split("\n### Arrows\n")[1].split("\n#")[0]
    joined = re.sub(r"\n {5,}", " ", part)
    for line in re.findall(r"^ {4}(\S.*)$", joined, re.MULTILINE):
        rooms, arrow, targets = line.partition("->")
        assert arrow, f"no arrow in {line!r}"
        names = {name.strip() for name in targets.split(",")}
        for room in rooms.split(","):
            assert room.strip() not in found, f"two rules for {room.strip()}"
            found[room.strip()] = None if names == {"any room"} else names - {"nothing"}
    return found


RULES = rules(PAGE.read_text())
"""Names without a dot are rooms of the house; names with a dot are folders inside a room, and list their imports from the same room."""


def is_within(target: tuple[str, ...], wanted: set[str]) -> bool:
    """Whether a module (as a tuple) is one of the rooms, folders or modules that a rule names."""
    return any(target[: len(parts)] == parts for parts in (tuple(name.split(".")) for name in wanted))


def modules():
    return [path for path in PACKAGE.rglob("*.py") if "__pycache__" not in path.parts]


def name_of(path):
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts


@functools.cache
def is_module(parts):
    path = (ROOT if parts[:1] == ("workers",) else PACKAGE).joinpath(*parts)
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()


def imported(path, types=False):
    """Modules of the package that a file imports (as tuples, relative to the package). `types`: also those in type-checking blocks."""
    at_run_time, for_types = imports_of(path)
    return at_run_time + for_types if types else at_run_time


@functools.cache
def imports_of(path):
    """Modules that a file imports, and those that it imports in type-checking blocks. The tuples of the modules in workers/ begin with
    "workers"."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    blocks = [node for node in nodes if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)]
    inner = {id(node) for block in blocks for statement in block.body for node in ast.walk(statement)}
    found = [node for node in nodes if isinstance(node, (ast.Import, ast.ImportFrom))]
    parts = [[node for node in found if (id(node) in inner) is for_types] for for_types in (False, True)]
    return tuple(tuple(_targets(path, part)) for part in parts)


def _targets(path, imports):
    own = path.relative_to(PACKAGE if path.is_relative_to(PACKAGE) else ROOT).parts[:-1]
    for node in imports:
        if isinstance(node, ast.Import):
            for alias in node.names:
                parts = alias.name.split(".")
                if parts[0] == "asyncdali":
                    yield tuple(parts[1:])
                elif parts[0] in ("workers", "asyncdali_workers"):
                    yield ("workers",)
        elif isinstance(node, ast.ImportFrom):
            parts = tuple((node.module or "").split(".")) if node.module else ()
            if node.level == 0:
                if parts[0] in ("workers", "asyncdali_workers"):
                    yield ("workers",)
                if parts[0] != "asyncdali":
                    continue
                base = parts[1:]
            else:
                base = (*own[: len(own) - node.level + 1], *parts)
            for alias in node.names:
                full = (*base, alias.name)
                yield full if is_module(full) else base


def test_the_page_is_read():
    text = "\n### Arrows\n\nWords.\n\n    a, b -> nothing\n    c -> a,\n         b.x\n    d -> any room\n\n### Next\n\n    e -> a\n"
    assert rules(text) == {"a": set(), "b": set(), "c": {"a", "b.x"}, "d": None}


EVERYWHERE = {"messages", "system"}
"""Rooms that any room may import."""


def test_arrows():
    """Any room may import private modules and :data:`EVERYWHERE`."""
    wrong = []
    for path in modules():
        unit = name_of(path)[0]
        allowed = set() if unit.startswith("_") and unit not in RULES else RULES[unit]
        for target in imported(path) if allowed is not None else ():
            free = not target or target[0] in {unit, *EVERYWHERE} or target[0].startswith("_")
            if not free and not is_within(target, allowed):
                wrong.append(f"{path.relative_to(ROOT)} imports {'.'.join(target)}")
    assert not wrong, "\n".join(sorted(set(wrong)))


def inner_rule(folder: str) -> set[str] | None:
    """Modules that a folder inside a room may import from the same room: its own rule and that of all folders there (``operators.*``)."""
    everywhere, own = RULES.get(f"{folder.partition('.')[0]}.*"), RULES.get(folder)
    return None if everywhere is None and own is None else (everywhere or set()) | (own or set())


def inner_imports():
    """(file, folder, imported modules of the same room) for all modules in a folder of a room."""
    for path in [*modules(), *(ROOT / "workers").rglob("*.py")]:
        parts = path.relative_to(PACKAGE if path.is_relative_to(PACKAGE) else ROOT).parts
        if len(parts) > 2:
            yield path, ".".join(parts[:2]), {target for target in imported(path) if target[:1] == parts[:1] and len(target) > 1}


def test_arrows_inside_rooms():
    wrong = []
    for path, folder, targets in inner_imports():
        allowed = inner_rule(folder)
        if allowed is not None:
            own = {*allowed, folder}
            wrong += [f"{path.relative_to(ROOT)} imports {'.'.join(target)}" for target in targets if not is_within(target, own)]
    assert not wrong, "\n".join(sorted(set(wrong)))


def test_the_map_of_rooms_is_complete_and_true():
    """The map names every room, every folder of a room and every module beside the rooms, and no file that does not exist."""
    text = PAGE.read_text().split("\n## Rooms and arrows\n")[1].split("\n### Arrows\n")[0]
    named = set(re.findall(r"`([\w/]+(?:/|\.py))`", text))
    folders = {path.parent for path in modules()} - {PACKAGE}
    beside = {path.name for path in PACKAGE.glob("*.py")} - {"__init__.py", "__main__.py"}
    top = {folder for folder in folders if folder.parent == PACKAGE}
    assert {f"{folder.name}/" for folder in top} - named == set()
    assert beside - named == set()
    inside = {folder.name for folder in folders - top if folder.parent in top}
    assert {name for name in inside if f"`{name}/`" not in text and f"/{name}/" not in text} == set()
    files = {path.relative_to(ROOT).as_posix() for room in ("asyncdali", "workers", "tests") for path in (ROOT / room).rglob("*.py")}
    assert {name for name in named if name.endswith(".py") and not any(f"/{file}".endswith(f"/{name}") for file in files)} == set()


def test_every_room_has_a_rule():
    units = {name_of(path)[0] for path in modules()}
    assert units >= {name for name in RULES if "." not in name and name != "workers"}, "rules of rooms that are gone"
    missing = {name for name in units if name not in RULES and not name.startswith("_")}
    missing |= {folder for _, folder, _ in inner_imports() if folder.partition(".")[0] in DIVIDED and inner_rule(folder) is None}
    assert not missing, sorted(missing)


DIVIDED = {"codecs", "operators", "readers", "workers"}
"""Rooms whose folders have separate rules."""


def circles(graph):
    """Strongly connected components of more than one module: each module imports every other one, directly or indirectly (Tarjan)."""
    number, low, stack, found = {}, {}, [], []

    def visit(name):
        number[name] = low[name] = len(number)
        stack.append(name)
        for other in sorted(graph[name]):
            if other not in number:
                visit(other)
            if other in stack:
                low[name] = min(low[name], low[other])
        if low[name] == number[name]:
            part = stack[stack.index(name) :]
            del stack[stack.index(name) :]
            if len(part) > 1:
                found.append(sorted(part))

    for name in sorted(graph):
        if name not in number:
            visit(name)
    return found


def test_the_search_finds_circles():
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": set()}) == [["a", "b", "c"]]


def circles_of_modules(types):
    names = {".".join(name_of(path)): path for path in modules()}
    graph = {name: {".".join(target) for target in imported(path, types)} & names.keys() - {name} for name, path in names.items()}
    return circles(graph)


def test_no_circle_of_more_than_three_modules():
    """Lazy imports count: they hide a circle, but do not remove it."""
    assert not [circle for circle in circles_of_modules(types=False) if len(circle) > 3]


def test_circles_of_types_are_small():
    """An import in a type-checking block counts: whoever reads one module of a circle has to read all. Types of several modules belong into
    a module of their own, or into a protocol beside the code that uses them.
    """
    assert not [circle for circle in circles_of_modules(types=True) if len(circle) > 5]


def test_inner_rooms_do_not_import_the_pipeline():
    for path in modules():
        unit = name_of(path)[0]
        if unit not in ("__init__", "__main__", "demo", "fleet", "plugin", "pipeline", "vision"):
            assert ("pipeline",) not in set(imported(path)), path


def test_every_folder_is_packaged():
    text = (ROOT / "pyproject.toml").read_text()
    folders = {".".join(path.parent.relative_to(ROOT).parts) for path in modules()}
    assert not {name for name in folders if f'"{name}"' not in text}


def test_every_folder_says_what_lives_there_and_what_it_may_import():
    folders = {path.parent for path in [*modules(), *(ROOT / "workers").rglob("*.py")]}
    silent = [str(folder.relative_to(ROOT)) for folder in folders if not (folder / "__init__.py").exists()]
    assert not silent, sorted(silent)
    for folder in folders:
        assert "ay import" in (ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or ""), folder


def test_workers_do_not_import_asyncdali():
    for path in (ROOT / "workers").rglob("*.py"):
        tree = ast.parse(path.read_text())
        for node in ast.walk(tree):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module or ""]
            for name in names:
                first = name.split(".")[0]
                assert first in sys.stdlib_module_names | {"numpy", "cloudpickle", "asyncdali_workers"}, f"{path}: {name}"


def fresh(code, **environment):
    env = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=300, check=True)
    return done.stdout.split()


HEAVY = {"cupy", "cv2", "numba", "llvmlite", "asyncio", "uvloop", "torch", "PIL", "jax", "tensorflow", "cloudpickle", "multiprocessing"}


DEFINE = """
from asyncdali import pipeline_def, fn, ops, types, Pipeline
@pipeline_def(batch_size=1, num_threads=1)
def graph():
    return fn.random.uniform()
graph()
"""


CASES = [("import asyncdali", set()), ("from asyncdali import fn, ops, types", set()), (DEFINE, {"asyncio"})]


@pytest.mark.parametrize("code, allowed", CASES)
def test_imports_load_no_heavy_module(code, allowed):
    """Defining a pipeline imports asyncio, whose names the executor uses. Event loops and kernels are needed only by `build()`."""
    loaded = set(fresh(f"{code}\nimport sys, threading\nprint(*sys.modules, threading.active_count())"))
    assert "1" in loaded  # one thread is active
    assert not (HEAVY - allowed) & loaded, sorted((HEAVY - allowed) & loaded)


@pytest.mark.slow  # measures processor time
def test_importing_is_cheap():
    """The budget is 150 ms in addition to NumPy. The bound is four times as large, because a loaded machine takes more processor time."""
    code = "import numpy, time\nstart = time.process_time()\nimport asyncdali\nfrom asyncdali import fn\nprint(time.process_time() - start)"
    assert min(float(fresh(code)[0]) for _ in range(3)) < 0.6
