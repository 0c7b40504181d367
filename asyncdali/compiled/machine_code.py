"""Kernels as object files: what they need from outside, and how they are linked into this process.

Numba is not asked when a stored kernel is loaded: importing it takes 0.2 s of a processor in a new process. LLVM is not asked either if
the file is of the simple form that Numba's code has on x86-64: sections, and absolute addresses of 64 bits in them. Loading LLVM's library
and its engine take 0.05 s, and linking a kernel takes 1 ms. Here it takes 0.1 ms.

LLVM links all other files (other processors, variables). It ends the process if it links code with an unknown symbol. So the symbols that
code needs are stored with the code, and looked up first.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib
import json
import mmap
import os
import struct
import threading
from typing import Any, NamedTuple

import numpy as np

_OF_NUMBA = {"numba_": "numba._helperlib", "NRT_": "numba.core.runtime._nrt_python"}
"""Numba's functions in C, by the begin of their symbols: mathematics, and memory of arrays that a kernel makes."""
_OF_MATHEMATICS = "asyncdali_libm_"
"""Begins the symbols of the C library's mathematics in generated code. LLVM does not know the symbols, so it replaces no call."""
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
_SYMBOL = np.dtype([("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2"), ("value", "<u8"), ("size", "<u8")])
_CHANGE = np.dtype([("offset", "<u8"), ("type", "<u4"), ("symbol", "<u4"), ("addend", "<i8")])
"""An entry of a relocation table (RELA)."""
_RELOCATABLE, _X86_64 = 1, 62  # kinds of files, and machines
_PROGRAM, _SYMBOL_TABLE, _RELA, _FRAMES = 1, 2, 4, 0x70000001  # kinds of sections; frames: for debuggers and exceptions of C++
_WRITABLE, _IN_MEMORY = 1, 2  # flags of sections
_UNDEFINED = 0  # the section of a symbol from outside
_ABSOLUTE_64 = 1  # R_X86_64_64: the address of a symbol, and an addend


class _Section(NamedTuple):
    name: int
    kind: int
    flags: int
    address: int
    at: int
    size: int
    link: int
    info: int
    alignment: int
    entry: int


class ObjectFile:
    """A little-endian ELF file of 64 bits. ValueError for another file.

    The format: Tool Interface Standard, Executable and Linking Format, version 1.2; ELF-64 Object File Format, version 1.5.
    """

    def __init__(self, file: bytes):
        try:
            self._read(file)
        except (struct.error, IndexError) as error:
            raise ValueError(f"not a little-endian ELF file of 64 bits: {error}") from error

    def _read(self, file: bytes) -> None:
        magic, bits, order, self.kind, self.machine, *_, offset, _, _, _, _, size, count, _ = _HEADER.unpack_from(file)
        if (magic, bits, order, size) != (b"\x7fELF", 2, 1, _SECTION.size):
            raise ValueError("not a little-endian ELF file of 64 bits")
        self.contents = file
        self.sections = [_Section(*_SECTION.unpack_from(file, offset + size * k)) for k in range(count)]
        tables = [section for section in self.sections if section.kind == _SYMBOL_TABLE]
        self.symbols = self._table(tables[0], _SYMBOL) if tables else np.zeros(0, _SYMBOL)
        self._names = self.sections[tables[0].link].at if tables else 0

    def _table(self, section: _Section, kind: np.dtype) -> np.ndarray:
        return np.frombuffer(self.contents, kind, section.size // kind.itemsize, section.at)

    def name_of(self, symbol: int) -> str:
        """The name of a symbol, by its index."""
        begin = self._names + int(self.symbols["name"][symbol])
        return self.contents[begin : self.contents.index(b"\0", begin)].decode()

    def undefined(self) -> list[int]:
        """The symbols that the file needs from outside."""
        return [int(k) for k in np.flatnonzero((self.symbols["section"] == _UNDEFINED) & (self.symbols["name"] != 0))]

    def changes_of(self, index: int) -> np.ndarray:
        """The places of a section that contain addresses of symbols."""
        tables = [self._table(section, _CHANGE) for section in self.sections if section.kind == _RELA and section.info == index]
        return np.concatenate(tables) if tables else np.zeros(0, _CHANGE)


def undefined_symbols(file: bytes) -> list[str]:
    """The symbols that an ELF object file needs from outside. ValueError for another file."""
    opened = ObjectFile(file)
    return [opened.name_of(symbol) for symbol in opened.undefined()]


# --- symbols from outside


@functools.cache
def _libraries() -> tuple[ctypes.CDLL, ...]:
    """The libraries that the process has loaded for all, and the C library's mathematics, which Python may have for itself."""
    found = [ctypes.CDLL(None)]
    with contextlib.suppress(OSError):
        found.append(ctypes.CDLL("libm.so.6"))
    return tuple(found)


@functools.cache
def _address_of(name: str) -> int:
    """The address of a function of C, or of Numba's functions in C; 0 if it is unknown."""
    if name.startswith(_OF_MATHEMATICS):
        return _mathematics(name.removeprefix(_OF_MATHEMATICS))
    for library in _libraries():
        with contextlib.suppress(AttributeError):
            return ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0
    for prefix, module in _OF_NUMBA.items():
        if name.startswith(prefix):
            helpers: dict[str, int] = importlib.import_module(module).c_helpers
            return helpers.get(name.removeprefix(prefix), 0)
    return 0


def _mathematics(name: str) -> int:
    """The address of a function of the C library's mathematics; 0 if it is unknown."""
    for library in reversed(_libraries()):  # libm first
        with contextlib.suppress(AttributeError):
            return ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0
    return 0


def mathematics_symbol(name: str) -> str:
    """The symbol of a function of the C library's mathematics in generated code: :func:`link` knows its address."""
    return _OF_MATHEMATICS + name


_RELEASES = "NRT_MemInfo_call_dtor"


def _needed(names: tuple[str, ...]) -> dict[str, int]:
    """The addresses of symbols, by name; 0 for unknown ones.

    Numba frees memory of arrays at the end of a kernel. A kernel that makes no array has only views, without memory of their own, and
    nothing is freed. It does not need Numba for this function, which is never called.
    """
    makes_arrays = any(name.startswith("NRT_") and name != _RELEASES for name in names)
    return {name: _address_of("abort" if name == _RELEASES and not makes_arrays else name) for name in names}


# --- linking


class _OtherForm(Exception):
    """LLVM must link this file."""


class _CodeImage(NamedTuple):
    """An object file, prepared for memory. `places`: of its sections, by their index."""

    file: ObjectFile
    places: dict[int, int]
    changes: dict[int, np.ndarray]
    size: int


def _image_of(contents: bytes) -> _CodeImage:
    """The image of an object file that needs no LLVM; _OtherForm for other files."""
    file = ObjectFile(contents)
    if (file.kind, file.machine) != (_RELOCATABLE, _X86_64):
        raise _OtherForm
    places: dict[int, int] = {}
    size = 0
    for k, section in enumerate(file.sections):
        if not section.flags & _IN_MEMORY or section.kind == _FRAMES or section.size == 0:
            continue
        step = max(section.alignment, 1)
        if section.kind != _PROGRAM or section.flags & _WRITABLE or step > mmap.PAGESIZE:
            raise _OtherForm
        places[k] = -(-size // step) * step
        size = places[k] + section.size
    changes = {k: file.changes_of(k) for k in places}
    for found in changes.values():
        if (found["type"] != _ABSOLUTE_64).any() or not np.isin(file.symbols["section"][found["symbol"]], [_UNDEFINED, *places]).all():
            raise _OtherForm
    return _CodeImage(file, places, changes, size)


def _placed(image: _CodeImage, outside: dict[str, int]) -> dict[str, int]:
    """Copy an image to memory, with the addresses of symbols filled in. Returns the addresses of its functions.

    The memory is never freed: threads may run the code while the interpreter ends.
    """
    file = image.file
    start = _mapped(image.size)
    sections = file.symbols["section"]
    values = file.symbols["value"].astype(np.int64)
    for symbol in file.undefined():
        values[symbol] = outside[file.name_of(symbol)]
    content = np.zeros(image.size, np.uint8)
    for k, place in image.places.items():
        values[sections == k] += start + place
        section = file.sections[k]
        content[place : place + section.size] = np.frombuffer(file.contents, np.uint8, section.size, section.at)
    for k, changes in image.changes.items():
        at = image.places[k] + changes["offset"][:, None].astype(np.int64) + np.arange(8)
        content[at] = (values[changes["symbol"]] + changes["addend"])[:, None].view(np.uint8)
    ctypes.memmove(start, content.ctypes.data, image.size)
    if _c().mprotect(start, image.size, mmap.PROT_READ | mmap.PROT_EXEC):
        raise RuntimeError("the system does not allow this process to execute memory that it has written")
    named = np.flatnonzero(np.isin(sections, list(image.places)) & (file.symbols["name"] != 0))
    return {file.name_of(int(symbol)): int(values[symbol]) for symbol in named}


@functools.cache
def _c() -> ctypes.CDLL:
    """The C library's functions for memory."""
    library = ctypes.CDLL(None)
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    library.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return library


def _mapped(size: int) -> int:
    """New memory of the process."""
    address = _c().mmap(None, size, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
    if address is None or address == ctypes.c_void_p(-1).value:
        raise RuntimeError(f"no memory for a kernel of {size} bytes")
    return int(address)


@functools.cache
def _engine() -> Any:
    """LLVM's engine that holds code, as long as the process lives."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_triple(llvm.get_process_triple())
    empty = llvm.parse_assembly("")
    empty.triple = target.triple
    return llvm.create_mcjit_compiler(empty, target.create_target_machine(jit=True))


def _linked_by_llvm(code: MachineCode, outside: dict[str, int]) -> int:
    import llvmlite.binding as llvm

    for name, address in outside.items():
        llvm.add_symbol(name, address)
    engine = _engine()
    engine.add_object_file(llvm.ObjectFileRef.from_data(code.file))
    engine.finalize_object()
    return int(engine.get_function_address(code.symbol))


def link(code: MachineCode) -> int:
    """Link an object file into this process. Returns the address of its function; 0 if something that it needs is missing.

    ValueError for a file of another kind, RuntimeError if there is no memory that can be executed.
    """
    with _lock:
        outside = _needed(code.needs)
        if not all(outside.values()):
            return 0
        if code.symbol not in _addresses:
            try:
                _addresses[code.symbol] = _placed(_image_of(code.file), outside).get(code.symbol, 0)
            except _OtherForm:
                _addresses[code.symbol] = _linked_by_llvm(code, outside)
        return _addresses[code.symbol]


def _unlocked() -> None:
    """Runs in a forked child: another thread may have held the lock."""
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_unlocked)
