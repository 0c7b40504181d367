"""Kernels as object files (``compiled/machine_code.py``)."""

from __future__ import annotations

import ctypes
import math
import os
import platform
import shutil
import subprocess
import sys

import numpy as np
import pytest
from numba import config
from numba.core import typed_passes, untyped_passes

from asyncdali.compiled import cache, compiler, lowering, machine_code, step
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
    known = machine_code._needed(("numba_nextafter", "memcpy", "NRT_MemInfo_call_dtor", "NRT_MemInfo_alloc_safe_aligned"))
    assert all(known.values()) and len(set(known.values())) == 4
    unknown = ("numba_no_such_function", "NRT_no_such_function", "no_such_function")
    assert list(machine_code._needed(unknown).values()) == [0, 0, 0]


def test_kernels_without_arrays_need_nothing_of_numba():
    """Numba's function that frees memory is then never called."""
    (release,) = machine_code._needed(("NRT_MemInfo_call_dtor",)).values()
    assert release == machine_code._address_of("abort")


@pytest.mark.skipif(platform.machine() != "x86_64", reason="other processors have other forms of addresses")
def test_llvm_is_not_needed_for_the_code_of_kernels(root, monkeypatch):
    monkeypatch.setattr(machine_code, "_linked_by_llvm", lambda code, outside: pytest.fail("linked by LLVM"))
    from asyncdali.operators.flip import flip_kernels
    from asyncdali.sampling import random_streams_kernels

    for kernel in (flip_kernels.flip_step, random_streams_kernels.draw_coins):
        assert not step.Compiled(kernel._function, kernel._count, ("no LLVM",)).ready
        for _ in range(2):
            again = step.Compiled(kernel._function, kernel._count, ("no LLVM",))
            again.compile()
        assert again.ready and again._keep is None


@pytest.mark.skipif(platform.machine() != "x86_64", reason="other processors have other forms of addresses")
def test_both_ways_of_linking_make_the_same_function(root, monkeypatch):
    """Constants, loops and functions of the C library, for random numbers."""

    def mixed(a, b):
        table, found = (3, 1, 4, 1, 5, 9, 2, 6), 0
        for k in range(b & 15):
            found += np.int64(1e6 * math.sin(a * 1e-3 + k) * table[(b + k) & 7]) ^ table[k & 7]
        return found

    made = []
    monkeypatch.setattr(cache.Entry, "save", lambda self, code: made.append(code))
    step.Compiled(mixed, 2, ("linked twice",)).compile()
    (code,) = made
    outside = machine_code._needed(code.needs)
    assert "sin" in outside
    kind = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
    ours = kind(machine_code._placed(machine_code._image_of(code.file), outside)[code.symbol])
    theirs = kind(machine_code._linked_by_llvm(code, outside))
    for a, b in np.random.default_rng(5).integers(-(1 << 20), 1 << 20, (500, 2)).tolist():
        assert ours(a, b) == theirs(a, b) == mixed(a, b)


_OTHER_FORM = """
static long count = 3;
long f(long x) { count += x; return count; }
"""


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler to make an object file")
def test_llvm_links_files_of_another_form(tmp_path):
    """Variables, and addresses relative to the code: an object file of a compiler."""
    (tmp_path / "a.c").write_text(_OTHER_FORM)
    subprocess.run(["gcc", "-O1", "-fPIC", "-c", "a.c", "-o", "a.o"], cwd=tmp_path, check=True)
    file = (tmp_path / "a.o").read_bytes()
    with pytest.raises(machine_code._OtherForm):
        machine_code._image_of(file)
    function = ctypes.CFUNCTYPE(ctypes.c_long, ctypes.c_long)(machine_code.link(MachineCode("f", (), file)))
    assert function(4) == 7 and function(1) == 8


@pytest.mark.parametrize("cut", [10, 70, 300, 900])
def test_a_cut_object_file_is_refused(root, cut):
    """A whole file of the cache may contain anything, if another program made it."""
    from asyncdali.operators.flip import flip_kernels

    made = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cache.Entry, "save", lambda self, code: made.append(code))
        step.Compiled(flip_kernels.flip_step._function, 3, ("cut", cut)).compile()
    with pytest.raises(ValueError):
        machine_code.link(MachineCode("cut", made[0].needs, made[0].file[:-cut]))


def test_a_kernel_that_makes_an_array_is_linked(root):
    def ordered(value):
        found = np.full(value, 3, np.int64)
        return found.sum()

    assert step.Compiled(ordered, 1, ("makes an array",))(4) == 12
    again = step.Compiled(ordered, 1, ("makes an array",))
    assert again(5) == 15 and again._keep is None


def test_arrays_that_kernels_make_are_freed(root):
    """Functions without arrays of their own are compiled without reference counts; those with arrays, and their callers, with counts."""
    from numba.core.runtime import _nrt_python, rtsys

    @step.inlined
    def made(value):
        return np.full(value, 3, np.int64)

    @step.inlined
    def tail(value):
        return made(value)[1:]

    def own(value):
        found = np.empty(value, np.int64)
        found[0] = value
        return found[0]

    def of_helpers(value):
        total = 0
        for _ in range(3):
            total += tail(value).sum() + made(value)[0]
        return total

    _nrt_python.memsys_enable_stats()
    before = rtsys.get_allocation_stats()
    assert step.Compiled(own, 1, ("own array",))(4) == 4
    assert step.Compiled(of_helpers, 1, ("arrays of helpers",))(4) == 36
    after = rtsys.get_allocation_stats()
    assert after.mi_alloc - before.mi_alloc == 7
    assert after.mi_free - before.mi_free == 7


def test_shortened_passes_compute_what_numbas_do(root, monkeypatch):
    """Loops, branches, reassigned variables, tuples and helpers; random numbers."""

    @step.inlined
    def mixed(x, y):
        pair = (x ^ (y << 3), x * 2.5 - y)
        for k in range(3):
            if pair[0] & (1 << k):
                y += pair[0] >> k
            else:
                y -= k
        return y + np.int64(pair[1])

    def work(seed, turns):
        total, x = np.int64(0), seed
        while turns > 0:
            x = (x * 1103515245 + 12345) & 0x7FFFFFFF
            step_size = x % 7 if x > total else -(x // 3)
            total += mixed(x, step_size) & 0xFFFFFF
            turns -= 1
        return total

    def results(name):
        compiled = step.Compiled(work, 2, (name,))
        rng = np.random.default_rng(5)
        return [compiled(int(rng.integers(1 << 30)), int(rng.integers(1, 200))) for _ in range(50)]

    short = results("shortened passes")
    monkeypatch.setattr(compiler, "_counts", lambda library: True)  # lowered once more, as Numba does it
    monkeypatch.setattr(lowering, "Rewrites", untyped_passes.GenericRewrites)
    monkeypatch.setattr(lowering, "SingleAssignments", untyped_passes.ReconstructSSA)
    monkeypatch.setattr(lowering, "StripPhis", typed_passes.PreLowerStripPhis)
    lowered = []
    run = typed_passes.NativeLowering.run_pass
    monkeypatch.setattr(typed_passes.NativeLowering, "run_pass", lambda self, state: lowered.append(type(self)) or run(self, state))
    assert results("Numba's passes") == short and len(set(short)) > 40
    assert typed_passes.NativeLowering in lowered


PROGRAM = """
import sys
from asyncdali.compiled import step

def add(value):
    return value + 2

compiled = step.Compiled(add, 1, ("linked",))
assert compiled(1) == 3
print(compiled._keep is None, "numba.core" in sys.modules, "llvmlite.binding" in sys.modules)
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="LLVM links the code of other processors")
def test_a_cached_kernel_is_linked_without_numba_and_llvm(root):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(root)}
    lines = []
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, check=True, capture_output=True, text=True)
        lines.append(done.stdout.split())
    assert lines == [["False", "True", "True"], ["True", "False", "False"]]


@pytest.mark.skipif(platform.machine() != "x86_64", reason="LLVM links the code of other processors")
def test_memory_of_kernels_is_executable_and_not_writable(root):
    from asyncdali.operators.flip import flip_kernels

    for _ in range(2):
        kernel = step.Compiled(flip_kernels.flip_step._function, 3, ("memory",))
        kernel.compile()
    with open("/proc/self/maps") as file:
        areas = [line.split() for line in file]
    bounds = [(*(int(end, 16) for end in area.split("-")), rights) for area, rights, *_ in areas]
    assert [rights for begin, end, rights in bounds if begin <= kernel.address < end] == ["r-xp"]
