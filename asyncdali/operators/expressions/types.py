"""Operations of arithmetic expressions: names, symbols, and the element type of their results.

The rules are DALI's. DALI refuses FLOAT16; here it ranks below FLOAT. With integers the result is FLOAT16; each operation is computed
in FLOAT and rounded once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...types import DALIDataType

_T = DALIDataType
FLOATS = (_T.FLOAT16, _T.FLOAT, _T.FLOAT64)
"""From narrow to wide."""
SIGNED = {_T.INT8: 8, _T.INT16: 16, _T.INT32: 32, _T.INT64: 64}
UNSIGNED = {_T.BOOL: 1, _T.UINT8: 8, _T.UINT16: 16, _T.UINT32: 32, _T.UINT64: 64}
_SIGNED_OF = {bits: kind for kind, bits in SIGNED.items()}
OPERANDS = frozenset((*FLOATS, *SIGNED, *UNSIGNED))
"""Element types that expressions accept."""


def promote(a: DALIDataType, b: DALIDataType) -> DALIDataType:
    """The common type of `a` and `b`: the widest float; among integers the wider one, signed if one is signed (at most 64 bits)."""
    if a == b:
        return a
    floats = [kind for kind in FLOATS if kind in (a, b)]
    if floats:
        return floats[-1]
    if (a in SIGNED) == (b in SIGNED):
        bits = SIGNED if a in SIGNED else UNSIGNED
        return a if bits[a] > bits[b] else b
    signed, unsigned = (a, b) if a in SIGNED else (b, a)
    wide = SIGNED[signed] if SIGNED[signed] > UNSIGNED[unsigned] else min(64, 2 * UNSIGNED[unsigned])
    return signed if unsigned is _T.BOOL else _SIGNED_OF[wide]


def promote_all(kinds: Sequence[DALIDataType]) -> DALIDataType:
    """Apply :func:`promote` from left to right."""
    result = kinds[0]
    for kind in kinds[1:]:
        result = promote(result, kind)
    return result


@dataclass(frozen=True)
class Operation:
    """One operation.

    rule    "number": the promoted type, not of booleans only; "product": booleans too; "bits": integers and booleans; "real": FLOAT for
            integers, else the promoted type; "truth": BOOL
    symbol  the operator's symbol, for messages
    """

    name: str
    operands: int
    rule: str
    symbol: str

    def result(self, kinds: Sequence[DALIDataType]) -> DALIDataType:
        """The type of the result for operands of `kinds`; RuntimeError (as DALI raises) when they are not allowed."""
        for kind in kinds:
            if kind not in OPERANDS:
                raise RuntimeError(f"`{self.symbol}` got {self._given(kinds)}: the operation does not support elements of type {kind.name}")
        if self.rule == "truth":
            return _T.BOOL
        if self.rule == "bits" and any(kind in FLOATS for kind in kinds):
            raise RuntimeError(f"`{self.symbol}` got {self._given(kinds)}: operands of bitwise operators must be of integral type or BOOL")
        if self.rule in ("number", "real") and all(kind is _T.BOOL for kind in kinds):
            raise RuntimeError(
                f"`{self.symbol}` got {self._given(kinds)}: operands of arithmetic cannot all be booleans. "
                "Use `&`, `|`, `^`, or cast one of them to a number"
            )
        kind = promote_all(kinds)
        return _T.FLOAT if self.rule == "real" and kind not in FLOATS else kind

    def _given(self, kinds: Sequence[DALIDataType]) -> str:
        return " and ".join(kind.name for kind in kinds)


_BINARY = {
    "add": ("+", "number"), "sub": ("-", "number"), "mul": ("*", "product"), "div": ("/", "real"), "fdiv": ("//", "number"),
    "mod": ("%", "number"), "pow": ("**", "number"), "and": ("&", "bits"), "or": ("|", "bits"), "xor": ("^", "bits"),
    "lshift": ("<<", "bits"), "rshift": (">>", "bits"), "eq": ("==", "truth"), "ne": ("!=", "truth"), "lt": ("<", "truth"),
    "le": ("<=", "truth"), "gt": (">", "truth"), "ge": (">=", "truth"), "min": ("math.min", "number"), "max": ("math.max", "number"),
    "fpow": ("math.fpow", "real"), "atan2": ("math.atan2", "real"),
}  # fmt: skip
FUNCTIONS = (
    "sqrt", "rsqrt", "cbrt", "exp", "log", "log2", "log10", "fabs", "floor", "ceil", "sin", "cos", "tan", "asin", "acos", "atan", "sinh",
    "cosh", "tanh", "asinh", "acosh", "atanh",
)  # fmt: skip
"""Functions of one number. Integers give FLOAT."""
LIBRARY_NAMES = {"mod": "fmod", "fpow": "pow"}
"""Operations whose function in the C library has another name."""
VECTORISED = frozenset(FUNCTIONS) - {"sqrt", "rsqrt", "fabs", "floor", "ceil"} | {"pow", "atan2"}
"""Functions of the C library that ``float_functions`` has for float32."""

OPERATIONS: dict[str, Operation] = {
    **{name: Operation(name, 2, rule, symbol) for name, (symbol, rule) in _BINARY.items()},
    **{name: Operation(name, 1, "real", f"math.{name}") for name in FUNCTIONS},
    "neg": Operation("neg", 1, "number", "-"),
    "abs": Operation("abs", 1, "number", "abs"),
    "invert": Operation("invert", 1, "bits", "~"),
    "clamp": Operation("clamp", 3, "number", "math.clamp"),
}
