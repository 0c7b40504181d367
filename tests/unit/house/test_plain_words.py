"""Prose that can be understood at first reading: errors name their subject, and texts use the field's words.

Only rules that can be checked mechanically are here: phrases that readers did not understand, texts that begin with a pronoun, errors
without a text, and arguments that a public docstring does not mention.
"""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import io
import re
import tokenize
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import asyncdali_workers
import pytest
from helpers.places import PROJECT as ROOT

import asyncdali
from asyncdali import math, tensors, types
from asyncdali.auto_aug import auto_augment, rand_augment, trivial_augment

ROOMS = ("asyncdali", "workers", "benchmarks", "examples", "build_tools", "tests")

RIDDLES = {
    "told": r"\b(is|are|be|was|were|been|gets?) told\b", "matter of": r"\bis a matter of\b", "that which": r"\bthat which\b",
    " be had": r"\b(to|could) be had\b", "seldom": r"\bseldom\b", "shall": r"\bshall\b", "hardly": r"\bhardly\b", "absurd": r"\babsurd",
    "anew": r"\banew\b", "obody": r"(?<!')\b[Nn]obody\b", "own accord": r"\bown accord\b", "under way": r"\bunder way\b",
    " on": r"\b(it|they|inputs?|iterations?|pipelines?|work|threads?|operators?|cannot|could|fetch|run) goe?s? on\b",
    "let go": r"\bis let go\b",
    "mend": r"\bmend(s|ed)?\b", "for ever": r"\bfor ever\b", "body": r"\b([Aa]ny|[Ss]ome|[Ee]very)body\b", "Considered:": r"\bConsidered:",
    **{f"{word} ": rf"^{word}\b(?! happen)[^?]*$" for word in ("What", "Whose", "Of those", "Of these")},
}  # fmt: skip
"""Phrases of an earlier dialect of this project, by a part that is quickly found. Use: is logged, is reported; depends on; no thread, no
process; almost never; must, will; too large; again; in progress; forever; another program, all users; "We also considered". Titles are noun
phrases: "The parts of a pipeline", not "What a pipeline is made of"."""

NAMES = re.compile(
    r"^ *(?:async )?def (test_\w*?_(?:told|seldom|hardly|absurd|anew|nobody|somebody|whose|matter_of|be_had|for_ever|goe?s?_on|as_ever"
    r"|(?:that|which)_(?:is|are)_none|ones_own|are_through)(?:_\w+)?)\(", re.M
)  # fmt: skip
"""Names of tests with such a phrase. A name says which behaviour is checked: `invalid_targets_are_refused`, not `targets_that_are_none`."""

PRONOUNS = re.compile(r"""raise\s+\w[\w.]*\(\s*[rf]*["'](it|its|they|those) .*""")
"""Errors that begin with a pronoun: the reader does not see the thing that the pronoun refers to."""

TEXTLESS = re.compile(r"^ +raise (?!StopIteration|StopAsync|Assertion|NotImplemented)[A-Z]\w*(Error|Refused)(\(\))?( from .*)?$", re.M)
"""Classes that are raised without a text."""


def _sources(*rooms: str) -> list[Path]:
    suffixes = (".py", ".cu", ".cuh", ".cpp", ".h")
    found = (path for room in rooms for path in (ROOT / room).rglob("*") if path.suffix in suffixes)
    return sorted(path for path in found if path != Path(__file__).resolve())


def prose(path: Path, text: str) -> list[tuple[int, str]]:
    """Line and text of all comments and strings (docstrings, errors) of a source file."""
    if path.suffix != ".py":
        comments = re.finditer(r"//[^\n]*(?:\n\s*//[^\n]*)*", text)
        return [(text.count("\n", 0, found.start()) + 1, re.sub(r"\s*\n?\s*//\s*", " ", found.group()).strip()) for found in comments]
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    found = [(token.start[0], token.string.lstrip("# -")) for token in tokens if token.type == tokenize.COMMENT]
    strings = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant) and isinstance(node.value, str))
    return found + [(node.lineno, " ".join(str(node.value).split())) for node in strings]


def riddles(text: str) -> list[str]:
    """The phrases of RIDDLES in a text of more than one word."""
    return [hint for hint, pattern in RIDDLES.items() if hint in text and " " in text and re.search(pattern, text)]


def lines_of(pattern: re.Pattern[str], text: str) -> list[int]:
    """Numbers of the lines at which a pattern begins."""
    return [text.count("\n", 0, found.start()) + 1 for found in pattern.finditer(text)]


# --------------------------------------------------------------------------------------------------------------------------- rules


@pytest.mark.parametrize("room", ROOMS)
def test_texts_have_no_riddles(room):
    found = []
    for path in _sources(room):
        text = path.read_text()
        if any(hint in text for hint in RIDDLES if hint != " on") or re.search(RIDDLES[" on"], text):
            found += [f"{path.relative_to(ROOT)}:{line}: {part[:100]}" for line, part in prose(path, text) if riddles(part)]
    assert found == []


def test_names_of_tests_have_no_riddles():
    found = {str(path.relative_to(ROOT)): NAMES.findall(path.read_text()) for path in _sources("tests", "examples")}
    assert {name: tests for name, tests in found.items() if tests} == {}


def test_pages_have_no_riddles():
    pages = [page for place in (ROOT, ROOT / "docs", ROOT / "benchmarks") for page in place.glob("*.md" if place == ROOT else "**/*.md")]
    lines = [(page.name, number, line.lstrip("#-*| ")) for page in pages for number, line in enumerate(page.read_text().splitlines(), 1)]
    assert [line for line in lines if riddles(line[2])] == []


NOUNLESS = re.compile(r"^ +self\.\w+(?:: [^=\n]+)? = [^#\n]*  # (?:that|of|which|with|whose|made)\b.*$", re.M)
"""Comments beside an attribute that leave their noun to its name: `self.engine = ""  # that made a part of it`."""


NOUNLESS_DOCSTRING = re.compile(r'^ *"""(?:Of|That|Whose) (?!a\b).*$', re.M)
"""The same in docstrings of attributes and functions, such as "Of the last batch." below `self._sizes`."""


def test_docstrings_have_a_noun():
    texts = {str(path.relative_to(ROOT)): path.read_text() for path in _sources("asyncdali", "workers")}
    assert {name: lines_of(NOUNLESS_DOCSTRING, text) for name, text in texts.items() if lines_of(NOUNLESS_DOCSTRING, text)} == {}
    assert lines_of(NOUNLESS_DOCSTRING, '    """Of the last batch."""') == [1]


def test_comments_beside_attributes_have_a_noun():
    texts = {str(path.relative_to(ROOT)): path.read_text() for path in _sources("asyncdali", "workers")}
    assert {name: lines_of(NOUNLESS, text) for name, text in texts.items() if lines_of(NOUNLESS, text)} == {}
    assert lines_of(NOUNLESS, '    self.engine = ""  # that made a part of it\n    self.number = 0  # number of the iteration') == [1]


CUT = re.compile(r"(?<![\w'`./-])([A-Za-z]{1,3})(?: |\s*\n[ #/*]*)([a-z]{1,12})(?![\w(=\[])")
"""Two words of which the first is short: candidates for a word that a tool has cut in two ("W" and "ith")."""


def _words(texts: list[str]) -> Counter[str]:
    return Counter(word for text in texts for word in re.findall(r"[a-z]+", text.lower()))


def cut_words(text: str, known: Counter[str]) -> list[str]:
    """Words in two pieces: the whole is a known word. A piece is known nowhere, or is a letter that begins a sentence."""
    found = []
    for first, second in CUT.findall(text):
        rare = known[second] <= 4 or known[first.lower()] <= 2
        letter = len(first) == 1 and first.isupper() and first != "A" and len(second) == 1
        if known[(first + second).lower()] >= 5 and (rare or letter):
            found.append(f"{first} {second}")
    return found


def test_no_word_is_cut_in_two():
    sources = [path for path in _sources("asyncdali", "workers") if path.suffix == ".py"]
    paths = [*sources, *(ROOT / "docs").glob("*.md"), *(ROOT / "asyncdali").rglob("*.pyi"), ROOT / "README.md"]
    texts = {str(path.relative_to(ROOT)): path.read_text() for path in paths}
    known = _words(list(texts.values()))
    found = {name: cut_words(text, known) for name, text in texts.items()}
    assert {name: words for name, words in found.items() if words} == {}


@pytest.mark.parametrize("pattern", [PRONOUNS, TEXTLESS], ids=["a subject", "a text"])
def test_errors_have_a_subject_and_a_text(pattern):
    """An error begins with the thing that is wrong."""
    texts = {str(path.relative_to(ROOT)): path.read_text() for path in _sources("asyncdali", "workers")}
    found = {name: lines_of(pattern, text) for name, text in texts.items()}
    assert {name: lines for name, lines in found.items() if lines} == {}


PUBLIC = (asyncdali, types, tensors, math, auto_augment, rand_augment, trivial_augment, asyncdali_workers)


def _public(module: ModuleType) -> list[tuple[str, Any]]:
    """Name and object of the public functions, classes and methods that a module defines."""
    names = getattr(module, "__all__", None) or [name for name in vars(module) if not name.startswith("_")]
    found = []
    for name in names:
        value = getattr(module, name)
        if not getattr(value, "__module__", "").startswith(module.__name__):
            continue
        if inspect.isclass(value):
            methods = [(key, method) for key, method in vars(value).items() if not key.startswith("_") and inspect.isfunction(method)]
            found += [(f"{name}.{key}", method) for key, method in methods]
        if inspect.isclass(value) or inspect.isfunction(value):
            found.append((name, value))
    return found


def unmentioned(function: Any) -> list[str]:
    """Parameters of a function that its docstring does not name. A function with one parameter need not name it."""
    document = inspect.getdoc(function) or ""
    named = [p.name for p in inspect.signature(function).parameters.values() if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    named = [name for name in named if name not in ("self", "cls") and not name.startswith("_")]
    if len(named) == 1 and document:
        return []
    return [name for name in named if not re.search(rf"\b{name}\b", document)]


@pytest.mark.parametrize("module", PUBLIC, ids=lambda module: module.__name__)
def test_public_docstrings_name_their_arguments(module):
    documented = _public(module)
    assert documented
    missing = {name: "no docstring" for name, value in documented if not inspect.getdoc(value)}
    missing |= {name: ", ".join(unmentioned(value)) for name, value in documented if inspect.isfunction(value) and unmentioned(value)}
    assert missing == {}


DOCUMENTED = (
    "asyncdali", "asyncdali.types", "asyncdali.tensors", "asyncdali.math", "asyncdali.fn", "asyncdali.ops", "asyncdali.dynamic",
    "asyncdali.experimental.dynamic", "asyncdali.extending", "asyncdali.extending.testing", "asyncdali.testing",
    "asyncdali.errors", "asyncdali.auto_aug.auto_augment", "asyncdali.auto_aug.rand_augment",
    "asyncdali.auto_aug.trivial_augment", "asyncdali.auto_aug.augmentations", "asyncdali.auto_aug.core", "asyncdali.fleet",
    "asyncdali.tfrecord", "asyncdali.backend", "asyncdali.plugin_manager", "asyncdali.sysconfig", "asyncdali.plugin.numba",
    "asyncdali.plugin.triton", "asyncdali.plugin.base_iterator", "asyncdali_workers", "asyncdali.plugin.pytorch",
    "asyncdali.plugin.pytorch.experimental.proxy", "asyncdali.dynamic.pytorch", "asyncdali.plugin.jax", "asyncdali.plugin.tf",
    "asyncdali.ray", "asyncdali.experimental.torchvision", "asyncdali.experimental.torchvision.v2.functional",
)  # fmt: skip
"""Modules whose public names have texts. Modules of frameworks that are not installed are skipped. ``asyncdali.extending.kernels`` is
absent: its functions are made by factories, and the module's own text describes all of them."""


def undocumented(module: ModuleType) -> list[str]:
    """The public functions and classes of a module, and their methods and properties, that have no docstring of their own or of a base."""
    found = []
    for name in getattr(module, "__all__", None) or [name for name in vars(module) if not name.startswith("_")]:
        value = getattr(module, name)
        if (getattr(value, "__module__", None) or "").partition(".")[0] not in ("asyncdali", "asyncdali_workers"):
            continue
        if not inspect.isclass(value):
            found += [name] if callable(value) and not inspect.getdoc(value) else []
            continue
        found += [] if inspect.getdoc(value) else [name]
        ours = [base for base in value.__mro__ if base.__module__.startswith("asyncdali")]
        members = {key: member for base in reversed(ours) for key, member in vars(base).items() if not key.startswith("_")}
        for key, member in members.items():
            if inspect.isfunction(member) or isinstance(member, (property, functools.cached_property, classmethod, staticmethod)):
                texts = (getattr(vars(base).get(key), "__doc__", None) for base in value.__mro__)
                found += [] if any(texts) else [f"{name}.{key}"]
    return found


@pytest.mark.parametrize("name", DOCUMENTED)
def test_public_names_have_a_text(name):
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in ("asyncdali", "asyncdali_workers"):
            raise
        pytest.skip(str(error))
    assert undocumented(module) == []


# -------------------------------------------------------------------------------------------------------------------- the searches


def test_the_search_finds_names_without_a_text():
    class Shown:
        """A class."""

        def told(self):
            """A method."""

        def silent(self): ...

        @property
        def still(self): ...

    class Derived(Shown):
        def told(self): ...

    for made in (Shown, Derived):
        made.__module__ = "asyncdali.x"
    module = ModuleType("asyncdali.x")
    module.Shown, module.Derived = Shown, Derived
    assert undocumented(module) == ["Shown.silent", "Shown.still", "Derived.silent", "Derived.still"]


def test_the_searches_find_riddles(tmp_path):
    assert NAMES.findall("def test_a_file_that_cannot_be_had():\n    async def test_two_go_on():\ndef test_gone_on_time():\n") == [
        "test_a_file_that_cannot_be_had", "test_two_go_on"
    ]  # fmt: skip
    assert riddles("Another thread waits for everybody.") and riddles("The pipeline cannot go on after this.")
    assert riddles("The host is told so here") and riddles("What a plan depends on.") and riddles("Whose the next iteration is")
    assert not riddles("The command owner receives the error.") and not riddles("What happens after the end of the data:")
    assert lines_of(PRONOUNS, 'raise ValueError(\n    f"it ends after {n}")\nraise ValueError("the file ends")') == [1]
    assert lines_of(TEXTLESS, " raise KeyError\n raise TypeError()\n raise error\n raise StopIteration\n raise KeyError(name)\n") == [1, 2]
    assert prose(tmp_path / "kernel.cu", "int a;  // one\n// two\n") == [(1, "one two")]
    assert prose(tmp_path / "a.py", 'x = "one"  # two\n') == [(1, "two"), (1, "one")]


def test_the_search_finds_cut_words():
    known = _words(["if with launched the a in"] * 6)
    assert cut_words("the batch. I\n    f the deviation, W ith it, la\n  # unched", known) == ["I f", "W ith", "la unched"]
    assert cut_words("the a in if with", known) == []


def test_the_search_finds_unmentioned_arguments():
    def resize(image, size):
        """Resize `image`."""

    assert unmentioned(resize) == ["size"]
