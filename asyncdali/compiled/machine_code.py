"""Kernels as object files: what they need from outside, and how LLVM links them into this process.

Numba is not asked when a stored kernel is loaded: its typing and target contexts alone take 0.2 s of a processor in a new process. LLVM
ends the process if it links code with an unknown symbol. So the symbols that code needs are stored with the code, and looked up first.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import json
import os
import struct
import threading
from typing import Any, NamedTuple

import llvmlite.binding as llvm

_OF_NUMBA = {"numba_": "numba._helperlib", "NRT_": "numba.core.runtime._nrt_python"}
"""Numba's functions in C, by the begin of their symbols: mathematics, and memory of arrays that a kernel makes."""
_lock = threading.Lock()
_addresses: dict[str, int] = {}
"""Address of each symbol that was linked. Two functions of one identity share their code."""


class MachineCode(NamedTuple):
    """An object file. `symbol`: its function;  `needs`: the symbols that it needs from outside."""

    symbol: str
    needs: tuple[str, ...]
    file: bytes

    def to_bytes(self) -> bytes:
        """The contents of a kernel's file."""
        return json.dumps([self.symbol, self.needs]).encode() + b"\n" + self.file

    @classmethod
    def from_bytes(cls, contents: bytes | memoryview) -> MachineCode:
        """From the contents of a kernel's file. ValueError for other contents."""
        head, newline, file = bytes(contents).partition(b"\n")
        found = json.loads(head)  # ValueError, also for bytes that are no text
        if newline and isinstance(found, list) and len(found) == 2 and isinstance(found[0], str) and isinstance(found[1], list):
            symbol, needs = found
            if all(isinstance(name, str) for name in needs):
                return cls(symbol, tuple(needs), file)
        raise ValueError("not a kernel's file")


def machine_code_of(compiled: Any) -> MachineCode:
    """The code of Numba's compiled C function. ValueError if another process cannot use it."""
    if compiled._library.has_dynamic_globals:
        raise ValueError("the code contains addresses of this process")
    _, _, (file, _) = compiled._library.serialize_using_object_code()
    return MachineCode(compiled.native_name, tuple(undefined_symbols(file)), file)


_HEADER = struct.Struct("<4sBB10xHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_SYMBOL_TABLE, _UNDEFINED = 2, 0


def undefined_symbols(file: bytes) -> list[str]:
    """The symbols that an ELF object file needs from outside. ValueError for another file.

    The format: Tool Interface Standard, Executable and Linking Format, version 1.2; ELF-64 Object File Format, version 1.5.
    """
    magic, bits, order, *_, offset, _, _, _, _, size, count, _ = _HEADER.unpack_from(file)
    if (magic, bits, order, size) != (b"\x7fELF", 2, 1, _SECTION.size):
        raise ValueError("not a little-endian ELF file of 64 bits")
    sections = [_SECTION.unpack_from(file, offset + size * k) for k in range(count)]
    found = []
    for _, kind, _, _, at, length, link, _, _, entry in sections:
        if kind != _SYMBOL_TABLE:
            continue
        names = sections[link][4]
        for place in range(at, at + length, entry):
            name, _, _, section, _, _ = _SYMBOL.unpack_from(file, place)
            if section == _UNDEFINED and name:
                found.append(file[names + name : file.index(b"\0", names + name)].decode())
    return found


@functools.cache
def _loaded_libraries() -> ctypes.CDLL:
    return ctypes.CDLL(None)


@functools.cache
def _known(name: str) -> bool:
    """Whether LLVM finds a symbol: in a library that the process has loaded for all, or among Numba's functions in C."""
    if hasattr(_loaded_libraries(), name):
        return True
    for prefix, module in _OF_NUMBA.items():
        if name.startswith(prefix):
            helpers: dict[str, int] = importlib.import_module(module).c_helpers
            address = helpers.get(name.removeprefix(prefix))
            if address is not None:
                llvm.add_symbol(name, address)
            return address is not None
    return False


@functools.cache
def _engine() -> Any:
    """The engine that holds the code, as long as the process lives."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_triple(llvm.get_process_triple())
    empty = llvm.parse_assembly("")
    empty.triple = target.triple
    return llvm.create_mcjit_compiler(empty, target.create_target_machine(jit=True))


def link(code: MachineCode) -> int:
    """Link an object file into this process. Returns the address of its function; 0 if something that it needs is missing."""
    if not all(map(_known, code.needs)):
        return 0
    with _lock:
        address = _addresses.get(code.symbol, 0)
        if not address:
            engine = _engine()
            engine.add_object_file(llvm.ObjectFileRef.from_data(code.file))
            engine.finalize_object()
            address = _addresses[code.symbol] = engine.get_function_address(code.symbol)
        return address


def _unlocked() -> None:
    """Runs in a forked child: another thread may have held the lock."""
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_unlocked)
