"""Tables of kernels: declared once, laid out by name, and read by name everywhere."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from asyncdali.compiled.intrinsics import load_i64, view_i64
from asyncdali.compiled.memory import address_of
from asyncdali.compiled.step import inlined, step
from asyncdali.compiled.tables import SAMPLES, Field, Table, laid_out
from asyncdali.device.launch import Kernel, source_of

ROOT = Path(__file__).resolve().parents[2] / "asyncdali"

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
    assert "count" in RECORD and "stride" not in RECORD


def test_a_word_is_declared_once():
    with pytest.raises(ValueError, match="twice"):
        Table("T", Field("a", "int64", ""), Field("a", "int64", ""))
    with pytest.raises(ValueError, match="'words' or 'size'"):
        Table("T", Field("size", "int64", ""))


def test_entries_are_given_by_name():
    records = RECORD.zeros(2)
    assert TABLE.entries(samples=2, factor=3, records=records) == (records, 3, 2)
    with pytest.raises(TypeError, match="word 'samples' is not given"):
        TABLE.entries(factor=3, records=records)
    with pytest.raises(TypeError, match="no word shape; its words are records, factor, samples"):
        TABLE.entries(factor=3, records=records, samples=2, shape=1)


def test_arrays_become_addresses_and_are_kept():
    records = RECORD.zeros(2)
    table, keep = laid_out(TABLE.entries(samples=2, factor=3, records=records))
    assert table.tolist() == [address_of(records), 3, 2] and keep[0] is records


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
    source = source_of(Kernel(ROOT / "operators" / "geometry" / "flip_kernels.cu", "flip"))
    assert "#define FLIP_RECORDS 2\n" in source and "#define FLIP_RECORD_WORDS 8" in source
    assert ".py" not in source.split("KERNEL flip")[0].split("#define FLIP_INPUTS")[1]


# ------------------------------------------------------------------------------------------------------- no bare indices

NOT_YET = set((Path(__file__).parent / "bare_table_indices.txt").read_text().split())
"""Files that still index tables with numbers. The list only gets shorter."""


def bare_indices_in_python(text: str) -> list[int]:
    """Lines that read a table at a number: ``context + 8``, ``record[3]`` where `record` is a view of int64."""
    tree = ast.parse(text)
    found = []
    for function in [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]:
        views = {
            target.id
            for node in ast.walk(function)
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and getattr(node.value.func, "id", "") == "view_i64"
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        for node in ast.walk(function):
            number = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) and isinstance(node.right, ast.Constant)
            if number and getattr(node.left, "id", "") == "context":  # type: ignore[attr-defined]
                found.append(node.lineno)
            if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and getattr(node.value, "id", "") in views:
                found.append(node.lineno)
    return sorted(set(found))


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
    bad = {name: lines for name, lines in bad.items() if lines}
    assert {name: lines for name, lines in bad.items() if name not in NOT_YET} == {}
    assert {name for name in NOT_YET if name not in bad} == set(), "take these off the list"


def test_the_search_finds_bare_numbers():
    assert bare_indices_in_python("def f(context):\n    return load_i64(context + 8)\n") == [2]
    assert bare_indices_in_python("def f(context):\n    r = view_i64(a, 9)\n    return r[3]\n") == [3]
    assert bare_indices_in_cuda("const int64 *r = array<int64>(context, T_A);\nx = r[3] + context[T_B];\ny = context[4];") == [2, 3]
    assert bare_indices_in_cuda("x = address(context, 0, sample);") == [1]
