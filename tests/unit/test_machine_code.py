"""Kernels as object files (``compiled/machine_code.py``)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
from numba import config

from asyncdali.compiled import cache, compiler, machine_code, step
from asyncdali.compiled.machine_code import MachineCode, undefined_symbols

_C = """
extern int there;
extern double sin(double);
static int own(int x) { return x + there; }
double f(double x) { return sin(x) + own(2); }
"""


@pytest.mark.skipif(shutil.which("gcc") is None or shutil.which("nm") is None, reason="no C compiler to make an object file")
def test_undefined_symbols_are_those_of_the_compiler(tmp_path):
    (tmp_path / "a.c").write_text(_C)
    subprocess.run(["gcc", "-O0", "-c", "a.c", "-o", "a.o"], cwd=tmp_path, check=True)
    expected = subprocess.run(["nm", "-u", "a.o"], cwd=tmp_path, check=True, capture_output=True, text=True).stdout.split()
    found = undefined_symbols((tmp_path / "a.o").read_bytes())
    assert set(found) - {"_GLOBAL_OFFSET_TABLE_"} == set(expected) - {"U", "_GLOBAL_OFFSET_TABLE_"}


@pytest.mark.parametrize("file", [b"\x7fELF\x01\x01" + bytes(100), b"MZ" + bytes(100), b"\x7fELF\x02\x02" + bytes(100)])
def test_other_files_are_refused(file):
    with pytest.raises(ValueError, match="not a little-endian ELF"):
        undefined_symbols(file)


def test_contents_of_a_file_are_read_back():
    code = MachineCode("name", ("memcpy",), b"\x00\nfile\n")
    assert MachineCode.from_bytes(memoryview(code.to_bytes())) == code


OTHERS = [b"", b"\n", b"[]\n", b"1\n", b'["a", [1]]\nx', b'[1, []]\nx', b'["a", []]', b"\xff\n", b'["a", null]\nx', b'{"a": 1, "b": 2}\n']


@pytest.mark.parametrize("contents", OTHERS)
def test_other_contents_are_refused(contents):
    with pytest.raises(ValueError):
        MachineCode.from_bytes(contents)


def test_code_with_an_unknown_symbol_is_not_linked():
    """LLVM would end the process."""
    assert machine_code.link(MachineCode("name", ("no_such_function_anywhere",), b"")) == 0


@pytest.fixture
def root(monkeypatch, tmp_path):
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))
    return tmp_path


def test_a_kernel_needs_nothing_of_python(root, monkeypatch):
    """Numba's own C function would need the interpreter, to report exceptions that kernels never raise."""
    from asyncdali.operators.flip import flip_kernels

    needs = []
    save = cache.Entry.save
    monkeypatch.setattr(cache.Entry, "save", lambda self, code: (needs.append(code.needs), save(self, code)))
    again = step.Compiled(flip_kernels.flip_step._function, 3, ("again",))
    again.compile()
    assert needs == [("memcpy",)]


def test_an_exception_of_a_kernel_is_a_status(root):
    def divide(value):
        if value > 2:
            raise ValueError("kernels raise nothing")
        return value

    made = step.Compiled(divide, 1, ("raises",))
    assert made(2) == 2 and made(3) == compiler.FAILED


def test_functions_of_numba_in_c_are_found():
    assert machine_code._known("numba_nextafter") and machine_code._known("memcpy")
    assert machine_code._known("NRT_MemInfo_call_dtor") and machine_code._known("NRT_MemInfo_alloc_safe_aligned")
    assert not machine_code._known("numba_no_such_function") and not machine_code._known("NRT_no_such_function")


def test_a_kernel_that_makes_an_array_is_linked(root):
    def ordered(value):
        found = np.full(value, 3, np.int64)
        return found.sum()

    assert step.Compiled(ordered, 1, ("makes an array",))(4) == 12
    again = step.Compiled(ordered, 1, ("makes an array",))
    assert again(5) == 15 and again._keep is None


PROGRAM = """
import sys
from asyncdali.compiled import step

def add(value):
    return value + 2

compiled = step.Compiled(add, 1, ("linked",))
assert compiled(1) == 3
from numba.core.registry import cpu_target
print(compiled._keep is None, "_toplevel_target_context" in vars(cpu_target))  # cached there at first use
"""


def test_a_cached_kernel_is_linked_without_numbas_contexts(root):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(root)}
    lines = []
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, check=True, capture_output=True, text=True)
        lines.append(done.stdout.split())
    assert lines == [["False", "True"], ["True", "False"]]
