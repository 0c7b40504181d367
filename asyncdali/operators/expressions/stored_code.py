"""Generated code of this room, kept in the cache of kernels: a process whose expressions are there does not load LLVM.

LLVM takes about 10 ms for an expression, and 25 ms to be loaded. A file's key has the sources of this room, because LLVM and the generator
are not loaded to find a file. If the sources change while a process runs, its code is not stored.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

from ...compiled.cache import entry_of
from ...compiled.machine_code import MachineCode, link
from ...types import DALIDataType
from .programs import ExpressionProgram
from .types import LIBRARY_NAMES, VECTORISED

_ROOM = Path(__file__).parent
_SOURCES = (*sorted(_ROOM.glob("*.py")), _ROOM.parents[1] / "compiled" / "c_library.py")
_SINGLE = (DALIDataType.FLOAT, DALIDataType.FLOAT16)
"""Types whose functions are computed in float32."""
_MOST_SAVED = 1000
"""Files that a process writes. A program that makes expressions without end, with other constants, does not fill the cache."""


def _digest() -> bytes:
    digest = hashlib.blake2b(digest_size=32)
    for path in _SOURCES:
        digest.update(path.name.encode())
        try:
            digest.update(path.read_bytes())
        except OSError:  # an archive or a frozen program: the version, which is in every key, replaces the file
            digest.update(b"\0")
    return digest.digest()


_loaded = _digest()
_saved = [0]


def address_of(identity: str, make: Callable[[str], MachineCode]) -> int:
    """The address of a function that `identity` describes. `make` compiles it, with the symbol that it is given."""
    key = _loaded + identity.encode()
    symbol = f"asyncdali_expression_{hashlib.blake2b(key, digest_size=16).hexdigest()}"
    stored = entry_of("expression", key)
    address = 0 if stored is None else stored.load()
    if not address:
        code = make(symbol)
        address = link(code)
        if not address:
            raise RuntimeError(f"this system lacks a function of mathematics that an expression needs: {', '.join(code.needs)}")
        if stored is not None and _saved[0] < _MOST_SAVED and _digest() == _loaded:
            _saved[0] += 1
            stored.save(code)
    return address


def compile_program(program: ExpressionProgram, kinds: Sequence[DALIDataType], repeated: int = 0) -> int:
    """Address of the kernel of a program for inputs of types `kinds`; bit k of `repeated`: input k has one element per row.

    RuntimeError if the program cannot take these types.
    """
    return _compiled(_Key(program, tuple(kinds), repeated))


class _Key:
    """A program with types. It is compared by what it computes (0.0 and -0.0 differ, NaN equals itself)."""

    def __init__(self, program: ExpressionProgram, kinds: tuple[DALIDataType, ...], repeated: int):
        self.program, self.kinds, self.repeated = program, kinds, repeated
        self.text = (program.text(), kinds, repeated)

    def __hash__(self) -> int:
        return hash(self.text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and self.text == other.text


@functools.cache
def _compiled(key: _Key) -> int:
    from .function_probes import same_as_library

    program, kinds, repeated = key.program, key.kinds, key.repeated
    found = zip(program.instructions, program.types(kinds), strict=True)
    called = {LIBRARY_NAMES.get(item.name, item.name) for item, kind in found if kind in _SINGLE}
    replaced = sorted(name for name in called & VECTORISED if same_as_library(name))

    def make(symbol: str) -> MachineCode:
        from .code import code_of

        return code_of(program, kinds, repeated, symbol)

    return address_of(f"{program.text()} {' '.join(kind.name for kind in kinds)} {repeated} {' '.join(replaced)}", make)
