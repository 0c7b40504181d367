"""Tables of kernels: each is declared once, and all code writes and reads its entries by name."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from helpers.places import PROJECT

import asyncdali
from asyncdali.compiled import tables
from asyncdali.compiled.addresses import address_of
from asyncdali.compiled.intrinsics import load_i64, view_i64
from asyncdali.compiled.step import inlined, step
from asyncdali.compiled.tables import SAMPLES, Declared, Field, Handle, Table, laid_out
from asyncdali.device.launch import Kernel, source_of

ROOT = PROJECT / "asyncdali"
PACKAGE = Path(asyncdali.__file__).parent
"""The package that is imported: the one of the tree, or an installed one."""

RECORD = Table("RECORD", Field("stride", "int64", "bytes", "yx"), Field("count", "int64", "elements"))
TABLE = Table("TABLE", Field("records", "RECORD[samples]", "of the samples"), Field("factor", "int64", "multiplies"), SAMPLES)
at, word = TABLE.at, RECORD.word


@inlined
def _factor(context):
    return load_i64(context + at.factor)


@step
def _product(context, sample, thread):
    record = view_i64(load_i64(context + at.records) + word.size * sample, word.words)
    return _factor(context) * record[word.count] + record[word.stride_x]


def test_words_and_offsets():
    assert RECORD.words == 3 and RECORD.size == 24
    assert RECORD.word == (0, 1, 2, 3, 24) and RECORD.word.stride_x == 1
    assert RECORD.at == (0, 8, 16, 3, 24) and RECORD.at.count == 16
    assert RECORD.columns("stride") == slice(0, 2) and RECORD.columns("count") == 2
    assert RECORD.span("stride", "count") == slice(0, 3) and RECORD.span("stride", "stride") == slice(0, 2)
    assert "count" in RECORD and "stride" not in RECORD


def test_a_word_is_declared_once():
    with pytest.raises(ValueError, match="twice"):
        Table("T", Field("a", "int64", ""), Field("a", "int64", ""))
    with pytest.raises(ValueError, match="'words' or 'size'"):
        Table("T", Field("size", "int64", ""))


def test_entries_are_given_by_name():
    records = RECORD.zeros(2)
    assert TABLE.entries(samples=2, factor=3, records=records) == (records, 3, 2)
    with pytest.raises(TypeError, match=r"^TABLE.entries\(\) missing 1 required positional argument: 'samples'$"):
        TABLE.entries(factor=3, records=records)
    with pytest.raises(TypeError, match=r"^TABLE.entries\(\) got an unexpected keyword argument 'shape'$"):
        TABLE.entries(factor=3, records=records, samples=2, shape=1)


def test_arrays_become_addresses_and_are_kept():
    records = RECORD.zeros(2)
    table, keep = laid_out(TABLE.entries(samples=2, factor=3, records=records))
    assert table.tolist() == [address_of(records), 3, 2] and keep[0] is records


@pytest.mark.parametrize("error", [TypeError, ValueError])
def test_a_handle_declares_a_table_with_any_numpy(error, monkeypatch):
    """NumPy 1 raises ValueError for what is no number, NumPy 2 TypeError."""

    def refused(words):
        raise error("no number")

    monkeypatch.setattr(tables, "table_of", refused)
    handle = Handle("position")
    table, kept = laid_out([1, (2, handle)])
    assert isinstance(table, Declared) and table.entries == (1, (2, handle)) and kept == []
    with pytest.raises(error):
        laid_out([1, 2])


def test_a_step_reads_words_by_name():
    records = RECORD.zeros(2)
    records[:, RECORD.columns("count")] = 5, 7
    records[:, word.stride_x] = 1, 2
    table, keep = TABLE.make(samples=2, factor=10, records=records)
    assert [_product(address_of(table), sample, 0) for sample in range(2)] == [51, 72]
    del keep


def test_extended():
    longer = TABLE.extended(Field("partials", "float64[samples]", "of a GPU"))
    assert longer.at.factor == TABLE.at.factor and longer.word.partials == TABLE.words


def test_cuda_gets_the_words_as_macros():
    source = source_of(Kernel(PACKAGE / "operators" / "crop" / "crop_kernels.cu", "crop"))
    assert "#define CROP_RECORDS 2\n" in source and "#define WINDOW_WORDS 26" in source
    assert '.py"' not in source.split("KERNEL crop")[0].split("#define CROP_INPUTS")[1]


# ------------------------------------------------------------------------------------------------------- no bare indices

_ACCESSES = {"load_i64", "store_i64", "fetch_add"}
_RECORDS = {"records", "found", "headers", "opening"}
"""Names of arrays of records in plans."""
_TABLES = {"table", "context"}
"""Names of single tables in plans."""
_TELLS = re.compile(rf"\b(?:{'|'.join(sorted(_ACCESSES))}|view_i64|Step)\(|context \+|\b(?:{'|'.join(sorted(_RECORDS | _TABLES))})\[")
"""A file without any of these words has no table and need not be parsed."""


def _is_number(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int


def _counts_words(call: ast.Call) -> bool:
    """``load_i64(row + 8)``, ``load_i64(context)``, ``load_i64(thread)``; a `Step` whose scratch entry is given by a number."""
    name = getattr(call.func, "id", "")
    if name in _ACCESSES and call.args:
        place = call.args[0]
        behind = isinstance(place, ast.BinOp) and isinstance(place.left, ast.Name) and _is_number(place.right)
        return behind or getattr(place, "id", "") in ("context", "thread")
    scratch = call.args[4:5] + [keyword.value for keyword in call.keywords if keyword.arg == "scratch_field"]
    return name == "Step" and any(map(_is_number, scratch))


def _counts_columns(item: ast.Subscript) -> bool:
    """``found[:, 3]``, ``found[:, 1:2]``, ``found[:, [0, 3]]``, ``opening[11:]``, ``table[12]``."""
    if getattr(item.value, "id", "") in _TABLES:
        return _is_number(item.slice)
    if getattr(item.value, "id", "") not in _RECORDS:
        return False
    column = item.slice.elts[-1] if isinstance(item.slice, ast.Tuple) else item.slice
    if isinstance(column, ast.Slice):
        return any(_is_number(node) for bound in (column.lower, column.upper) if bound is not None for node in ast.walk(bound))
    if isinstance(column, ast.List):
        return any(map(_is_number, column.elts))
    return isinstance(item.slice, ast.Tuple) and _is_number(column)


def _views(function: ast.FunctionDef) -> set[str]:
    """Names of views of int64 in a function."""
    return {
        target.id
        for node in ast.walk(function)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and getattr(node.value.func, "id", "") == "view_i64"
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def bare_indices_in_python(text: str) -> list[int]:
    """Lines that read or lay out a table at a number, in compiled code (``context + 8``, ``record[3]`` of a view) and in plans."""
    found: set[int] = set()
    if not _TELLS.search(text):
        return []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            views = _views(node)
            items = [item for item in ast.walk(node) if isinstance(item, ast.Subscript)] if views else []
            found |= {item.lineno for item in items if _is_number(item.slice) and getattr(item.value, "id", "") in views}
        elif (
            (isinstance(node, ast.Call) and _counts_words(node))
            or (isinstance(node, ast.Subscript) and _counts_columns(node))
            or (isinstance(node, ast.BinOp) and getattr(node.left, "id", "") == "context" and _is_number(node.right))
        ):
            found.add(node.lineno)
    return sorted(found)


_CUDA_TABLE = re.compile(r"context\[\d|context \+ \d|\(context, \d")
_CUDA_POINTER = re.compile(r"const int64 \*(?:const )?(\w+)|, \*(\w+) = array<int64>")


def bare_indices_in_cuda(text: str) -> list[int]:
    """Lines that read the table, or a record (a pointer to int64), at a number."""
    pointers = {name for pair in _CUDA_POINTER.findall(text) for name in pair if name}
    records = re.compile(rf"\b(?:{'|'.join(sorted(pointers)) or 'context'})\[\d")
    return [
        number
        for number, line in enumerate(text.splitlines(), 1)
        if _CUDA_TABLE.search(line.split("//")[0]) or records.search(line.split("//")[0])
    ]


def bare_indices(path: Path) -> list[int]:
    """Lines of a file of kernels that index a table with a number."""
    return bare_indices_in_python(path.read_text()) if path.suffix == ".py" else bare_indices_in_cuda(path.read_text())


SOURCES = [*ROOT.rglob("*.py"), *ROOT.rglob("*.cu"), *ROOT.rglob("*.cuh")]


def test_no_bare_number_indexes_a_table():
    bad = {str(path.relative_to(ROOT)): bare_indices(path) for path in SOURCES}
    assert {name: lines for name, lines in bad.items() if lines} == {}


def test_the_search_finds_bare_numbers():
    assert bare_indices_in_python("def f(context):\n    return load_i64(context + 8)\n") == [2]
    assert bare_indices_in_python("def f(context):\n    r = view_i64(a, 9)\n    return r[3]\n") == [3]
    assert bare_indices_in_python("x = load_i64(context) + load_i64(row + 16) + load_i64(row) + load_i64(row + at.size)\n") == [1]
    assert bare_indices_in_python("x = load_i64(thread) + load_i64(thread + at.scratch)\ny = load_i64(thread)\n") == [1, 2]
    assert bare_indices_in_python("store_i64(out + 8, 1)\nstore_i64(out, 1)\nstore_i64(out + at.kind, 1)\n") == [1]
    assert bare_indices_in_python("Step(a, t, e, 8, 7, keep)\nStep(a, t, e, 8, word.scratch, keep)\nStep(a, t, e, 8)\n") == [1]
    assert bare_indices_in_python("found[:, 3]\nfound[:, 1:2]\nfound[:, [0, 3]]\nopening[11:]\n") == [1, 2, 3, 4]
    assert bare_indices_in_python("table[12]\ncontext[word.size]\ntable[T.word.size]\n") == [1]
    assert bare_indices_in_python("found[:, word.kind]\nfound[:, k]\nfound[0]\nshapes[:, 3]\nfound[:, columns]\n") == []
    assert bare_indices_in_cuda("const int64 *r = array<int64>(context, T_A);\nx = r[3] + context[T_B];\ny = context[4];") == [2, 3]
    assert bare_indices_in_cuda("x = address(context, 0, sample);") == [1]
