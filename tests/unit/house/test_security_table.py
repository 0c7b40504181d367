"""SECURITY.md lists every module that unpickles, executes text, starts processes, listens, writes or uses the network, with a test."""

from __future__ import annotations

import ast
import functools
import re

import pytest
from helpers.places import PROJECT as ROOT

PAGE = (ROOT / "SECURITY.md").read_text() if (ROOT / "SECURITY.md").exists() else ""

_FILES = ("replace", "rename", "unlink", "remove", "mkdir", "makedirs", "chmod", "fchmod", "umask", "symlink", "link")


def kind_of(call: ast.Call) -> str | None:
    """The row of the table to which a call belongs."""
    function = call.func
    if isinstance(function, ast.Name):
        if function.id in ("exec", "eval", "compile"):
            return "execute"
        return "write" if function.id == "open" and _writes(call) else None
    if not isinstance(function, ast.Attribute):
        return None
    name = function.attr
    inner = function.value
    owner = inner.id if isinstance(inner, ast.Name) else inner.attr if isinstance(inner, ast.Attribute) else ""
    if owner in ("pickle", "marshal", "cloudpickle") and name in ("load", "loads", "Unpickler"):
        return "unpickle"
    if owner == "subprocess" or (owner == "os" and name.startswith(("system", "fork", "popen", "exec", "spawn", "posix_spawn"))):
        return "start"
    if owner == "socket" or name in ("bind", "listen", "connect", "create_server", "start_server", "serve_forever"):
        return "socket"
    if (owner == "importlib" and name == "import_module") or name == "exec_module" or (owner, name) == ("point", "load"):
        return "import"
    if owner == "tempfile" or name == "memfd_create":
        return "temporary"
    if (owner == "os" and name in _FILES) or name in ("write_bytes", "write_text", "mkdir", "unlink", "touch", "tofile"):
        return "write"
    if name == "url_to_fs" or owner in ("urllib", "aiohttp", "http"):
        return "network"
    if (owner, name) in (("av", "open"), ("Image", "open"), ("soundfile", "SoundFile"), ("cv2", "imdecode")):
        return "library"
    return "load" if owner == "ctypes" and name in ("CDLL", "PyDLL") else None


_BASES = {"pickle.Unpickler": "unpickle", "soundfile.SoundFile": "library"}
"""Classes that decode when they are called, and the row of their subclasses."""


def kind_of_class(node: ast.AST) -> str | None:
    """The row of the table to which the definition of a class belongs."""
    bases = [ast.unparse(base) for base in node.bases] if isinstance(node, ast.ClassDef) else []
    return next((_BASES[base] for base in bases if base in _BASES), None)


def _writes(call: ast.Call) -> bool:
    mode = next((word.value for word in call.keywords if word.arg == "mode"), call.args[1] if len(call.args) > 1 else None)
    text = mode.value if isinstance(mode, ast.Constant) else ""
    return bool(set(str(text)) & set("wax+"))


@functools.cache
def found() -> dict[str, set[str]]:
    """The modules that belong to each row."""
    rows: dict[str, set[str]] = {}
    for folder in ("asyncdali", "workers"):
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                kind = kind_of(node) if isinstance(node, ast.Call) else kind_of_class(node)
                if kind is not None:
                    rows.setdefault(kind, set()).add(path.relative_to(ROOT).as_posix())
    return rows


KINDS = {
    "execute": "Executes text", "unpickle": "Unpickles", "start": "Starts processes", "socket": "Opens sockets",
    "import": "Imports by name", "load": "Loads libraries", "temporary": "Makes temporary files", "write": "Writes files",
    "network": "Uses the network", "library": "Decodes with a library",
}  # fmt: skip


def section(title: str) -> str:
    """The text of one part of the page."""
    match = re.search(rf"### {re.escape(title)}\n(.*?)(?=\n##|\Z)", PAGE, re.DOTALL)
    assert match is not None, f"SECURITY.md has no part {title!r}"
    return match[1]


@pytest.mark.parametrize("kind", KINDS)
def test_every_module_is_in_the_table(kind):
    named = set(re.findall(r"`((?:asyncdali|workers)/[\w/]+\.py)`", section(KINDS[kind])))
    calls = found().get(kind, set())
    assert not calls - named, f"add to the part {KINDS[kind]!r} of SECURITY.md, with a test: {sorted(calls - named)}"
    assert named - calls <= {"asyncdali/compiled/cache.py"}, "no longer in the code"  # Numba reads and writes for this module


def test_every_row_has_a_test():
    for title in KINDS.values():
        entries = re.split(r"^- ", section(title), flags=re.MULTILINE)[1:]
        assert entries, title
        for entry in entries:
            tests = re.findall(r"`(test_\w+\.py)`", entry)
            assert tests, entry
            for test in tests:
                assert list((ROOT / "tests").rglob(test)), test


def test_tests_that_the_page_names_exist():
    for test in set(re.findall(r"`(test_\w+\.py)`", PAGE)):
        assert list((ROOT / "tests").rglob(test)), test


def test_only_engines_and_reports_listen_and_nothing_sets_the_umask():
    listening = set()
    for folder in ("asyncdali", "workers"):
        for path in (ROOT / folder).rglob("*.py"):
            if re.search(r"\.(listen|bind|create_server|start_server)\(", path.read_text()):
                listening.add(path.relative_to(ROOT).as_posix())
    assert listening == {"asyncdali/fleet/actor.py", "asyncdali/fleet/addresses.py", "asyncdali/runtime/counting/serving.py"}
    text = "\n".join(path.read_text() for folder in ("asyncdali", "workers") for path in (ROOT / folder).rglob("*.py"))
    assert "os.umask" not in text
    assert not re.search(r"allow_pickle\s*=\s*True|\beval\(|os\.system|shell\s*=\s*True|np\.load\(|yaml\.load", text)


def test_sockets_are_pairs():
    """Sockets are pairs between this process and its helpers, and have no address."""
    text = (ROOT / "workers" / "processes" / "launch.py").read_text()
    assert text.count("socket.socketpair(socket.AF_UNIX") == 1 and not re.search(r"AF_INET|SOCK_DGRAM", text)


def test_the_page_has_its_sections():
    for heading in ("## Report a problem", "## Trusted data", "## Untrusted data", "## Limits of the protection", "## Where to look"):
        assert heading in PAGE
