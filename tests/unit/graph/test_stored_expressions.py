"""Generated code of expressions in the cache of kernels."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from asyncdali.compiled import cache
from asyncdali.compiled.machine_code import MachineCode
from asyncdali.operators.expressions import code, stored_code
from asyncdali.operators.expressions.expressions_tables import PROGRAM
from asyncdali.operators.expressions.programs import ExpressionProgram, InputOperand, Instruction, Literal, single
from asyncdali.types import DALIDataType

FLOAT = DALIDataType.FLOAT


@pytest.fixture
def store(monkeypatch):
    """The files that this process would write, by key; nothing is in the cache before."""
    files: dict[bytes, MachineCode] = {}

    class Kept:
        def __init__(self, readable: str, identity: bytes):
            self.identity = identity

        def load(self) -> int:
            found = files.get(self.identity)
            return 0 if found is None else stored_code.link(found)

        def save(self, made: MachineCode) -> None:
            files[self.identity] = made

    monkeypatch.setattr(stored_code, "entry_of", Kept)
    monkeypatch.setattr(stored_code, "_saved", [0])
    stored_code._compiled.cache_clear()
    yield files
    stored_code._compiled.cache_clear()


def plus(number: float) -> ExpressionProgram:
    return ExpressionProgram((Instruction("add", (InputOperand(0), Literal(number, FLOAT))),))


def computed(program: ExpressionProgram, x: np.ndarray) -> np.ndarray:
    made = np.zeros(len(x), np.float32)
    kernel = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(stored_code.compile_program(program, [FLOAT]))
    table = np.zeros(PROGRAM.word.words + 2, np.int64)
    table[PROGRAM.word.rows], table[PROGRAM.word.count], table[PROGRAM.word.output] = 1, len(x), made.ctypes.data
    table[PROGRAM.word.words] = x.ctypes.data
    assert kernel(table.ctypes.data) == 0
    return made


def test_code_is_made_once_for_all_processes(store, monkeypatch):
    x = np.float32([-0.0, 1.5])
    expected = computed(plus(-0.0), x)
    assert len(store) == 1
    monkeypatch.setattr(code, "code_of", lambda *_: pytest.fail("it is in the cache"))
    stored_code._compiled.cache_clear()  # as in another process
    np.testing.assert_array_equal(computed(plus(-0.0), x), expected)


def test_each_program_has_code_of_its_own(store):
    x = np.float32([-0.0, 1.5])
    np.testing.assert_array_equal(np.signbit(computed(plus(-0.0), x)), [True, False])
    np.testing.assert_array_equal(np.signbit(computed(plus(0.0), x)), [False, False])
    stored_code.compile_program(plus(0.0), [FLOAT], 1)
    stored_code.compile_program(plus(0.0), [DALIDataType.UINT8])
    assert len(store) == 4
    assert len({made.symbol for made in store.values()}) == 4


def test_functions_of_the_library_are_symbols(store):
    kernel = stored_code.compile_program(single("sin", [0]), [DALIDataType.FLOAT64])
    (made,) = store.values()
    assert made.needs == ("asyncdali_libm_sin",)
    assert cache._linked(made.to_bytes()) == kernel


def test_verdicts_about_functions_are_in_the_key(store, monkeypatch):
    """The code for a C library whose functions have other bits calls them."""
    from asyncdali.operators.expressions import function_probes

    for same in (True, False):
        monkeypatch.setattr(function_probes, "same_as_library", lambda name, same=same: same)
        monkeypatch.setattr(code, "same_as_library", lambda name, same=same: same)
        stored_code._compiled.cache_clear()
        np.testing.assert_allclose(computed(single("exp", [0]), np.float32([0.5, 2])), np.exp(np.float32([0.5, 2])), rtol=1e-6)
    assert len(store) == 2


def test_code_of_changed_sources_is_not_stored(store, monkeypatch):
    monkeypatch.setattr(stored_code, "_digest", lambda: b"edited")
    assert computed(plus(3.5), np.float32([1])) == [4.5]
    assert not store


def test_a_process_writes_a_bounded_number_of_files(store, monkeypatch):
    monkeypatch.setattr(stored_code, "_MOST_SAVED", 2)
    for k in range(4):
        assert computed(plus(k + 0.125), np.float32([1])) == [k + 1.125]
    assert len(store) == 2


def test_wrong_types_raise_the_same_error(store):
    with pytest.raises(RuntimeError, match="bool"):
        stored_code.compile_program(single("add", [0, 1]), [DALIDataType.BOOL, DALIDataType.BOOL])
    assert not store
