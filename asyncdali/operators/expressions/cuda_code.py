"""The CUDA kernel of a program: the same operations as ``code.py`` emits, as C++ text for ``expressions_kernels.cu``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...batch import Batch, storage_dtype
from ...device.launch import Kernel, Launch, element_type, grid_of
from ...types import DALIDataType
from .expressions_tables import EXPRESSION_CUDA
from .programs import ExpressionProgram, InputOperand, Instruction, Literal, Operand
from .shapes import Walk
from .types import FLOATS, SIGNED, UNSIGNED, promote, promote_all

_SOURCE = Path(__file__).with_name("expressions_kernels.cu")
_LEAST_EACH, _LINE = 4, 16  # The least number of elements per thread, and bytes of the widest access (expressions_kernels.cu).
_T = DALIDataType
_BITS = {**SIGNED, **UNSIGNED}
_COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_WHOLE = {
    "add": "add", "sub": "sub", "mul": "mul", "fdiv": "quotient", "mod": "remainder_of", "lshift": "shifted_left",
    "rshift": "shifted_right", "pow": "power",
}  # fmt: skip
_BITWISE = {"and": "&", "or": "|", "xor": "^"}
_ORDER = {"min": "least", "max": "greatest", "clamp": "clamped"}
_UNARY = {"neg": "negated", "abs": "absolute", "invert": "inverted"}
_LIBRARY = {"mod": "fmod", "fpow": "pow"}


def _element(kind: DALIDataType) -> str:
    """The type of an element in memory."""
    return "boolean" if kind is _T.BOOL else element_type(storage_dtype(kind))


def _register(kind: DALIDataType) -> str:
    """The type in which a value is computed."""
    return {_T.BOOL: "bool", _T.FLOAT16: "float32"}.get(kind) or _element(kind)


def _number(value: Any, kind: DALIDataType) -> str:
    """A literal."""
    if kind is _T.BOOL:
        return "true" if int(value) & 1 else "false"
    if kind not in FLOATS:
        return f"({_register(kind)}){int(value) & ((1 << _BITS[kind]) - 1):#x}ull"
    number = float(value)
    if not np.isfinite(number):
        double = kind is _T.FLOAT64
        bits = int(np.array(number, np.float64 if double else np.float32).view(np.uint64 if double else np.uint32))
        return f"double_of_bits({bits:#x}ull)" if double else f"float_of_bits({bits:#x}u)"
    return f"({number.hex()}{'' if kind is _T.FLOAT64 else 'f'})"


def _cast(text: str, source: DALIDataType, target: DALIDataType) -> str:
    """Convert a value to the type `source` is promoted to."""
    if source == target or (source is _T.FLOAT16 and target is _T.FLOAT):
        return text
    made = f"({_register(target)}){text}"
    return f"half_rounded({made})" if target is _T.FLOAT16 else made


def _operation(name: str, values: Sequence[str], kinds: Sequence[DALIDataType], result: DALIDataType) -> str:
    """The result, in type `result`, of an operation on `values` of types `kinds`."""
    if name in _COMPARE:
        return _comparison(_COMPARE[name], values, kinds)
    if name in _UNARY:
        return f"{_UNARY[name]}({values[0]})" if name != "abs" or result not in UNSIGNED else values[0]
    if name in _ORDER:
        kind = promote_all(kinds)
        return f"{_ORDER[name]}<{_register(kind)}>({', '.join(_cast(value, own, kind) for value, own in zip(values, kinds))})"
    if name == "mod" and result is _T.FLOAT and not all(kind in FLOATS for kind in kinds):
        # C++ computes the remainder of an integer and a float in double precision, without rounding the integer. So does this code.
        return f"(float32)fmod({', '.join(_cast(value, own, _T.FLOAT64) for value, own in zip(values, kinds))})"
    operands = [_cast(value, own, result) for value, own in zip(values, kinds)]
    if result in FLOATS:
        made = _real(name, operands, _register(result))
        return f"half_rounded({made})" if result is _T.FLOAT16 else made
    register = _register(result)
    if name in _BITWISE:
        return f"({register})({operands[0]} {_BITWISE[name]} {operands[1]})"
    return f"{_WHOLE[name]}<{register}>({', '.join(operands)})"


def _comparison(symbol: str, values: Sequence[str], kinds: Sequence[DALIDataType]) -> str:
    """Compare integers by their mathematical value, and an integer and a float in the float's type."""
    kind = promote(*kinds)
    if not (kind in SIGNED and _T.UINT64 in kinds):
        a, b = (_cast(value, own, kind) for value, own in zip(values, kinds))
        return f"{a} {symbol} {b}"
    left_signed = kinds[0] in SIGNED  # UINT64 with a signed type: a negative number is less than every UINT64.
    a, b = (_cast(value, own, _T.UINT64) for value, own in zip(values, kinds))
    if_negative = {"==": False, "!=": True, "<": left_signed, "<=": left_signed, ">": not left_signed, ">=": not left_signed}[symbol]
    return f"{values[0 if left_signed else 1]} < 0 ? {'true' if if_negative else 'false'} : {a} {symbol} {b}"


def _real(name: str, operands: Sequence[str], register: str) -> str:
    if name in ("add", "sub", "mul"):
        return f"{name}<{register}>({', '.join(operands)})"
    if name in ("div", "fdiv"):
        return f"{operands[0]} / {operands[1]}"
    suffix = "f" if register == "float32" else ""
    if name == "rsqrt":
        return f"1.0{suffix} / sqrt{suffix}({operands[0]})"
    return f"{_LIBRARY.get(name, name)}{suffix}({', '.join(operands)})"


def _each(output: DALIDataType, kinds: Sequence[DALIDataType]) -> int:
    """Neighbouring elements that a thread computes."""
    return max(_LEAST_EACH, _LINE // max(storage_dtype(kind).itemsize for kind in (output, *kinds)))


def make_kernel(program: ExpressionProgram, kinds: Sequence[DALIDataType], rows: bool = True) -> Kernel:
    """The kernel of a program for inputs of types `kinds`; RuntimeError if the program cannot take these types.

    `rows`: every sample is one row, because the inputs have equal shapes or one element.
    """
    types = program.types(kinds)

    def value(operand: Operand) -> tuple[str, DALIDataType]:
        if isinstance(operand, Literal):
            return _number(operand.value, operand.dtype), operand.dtype
        if isinstance(operand, InputOperand):
            return f"a{operand.index}", kinds[operand.index]
        return f"r{operand.index}", types[operand.index]

    def statement(index: int, item: Instruction) -> str:
        texts, own = zip(*map(value, item.operands))
        return f"const {_register(types[index])} r{index} = {_operation(item.name, texts, own, types[index])};"

    body = " ".join(statement(index, item) for index, item in enumerate(program.instructions))
    inputs = range(len(kinds))
    defines = (
        ("OUT", _element(types[-1])),
        ("ROWS", int(rows)),
        ("EACH", _each(types[-1], kinds)),
        ("INPUTS", len(kinds)),
        ("EACH_INPUT(DO)", " ".join(f"DO({k}, {_element(kinds[k])})" for k in inputs)),
        ("PARAMETERS", ", ".join(f"const {_register(kinds[k])} a{k}" for k in inputs)),
        ("EXPRESSION", f"{body} return r{len(types) - 1};"),
        ("ARGUMENTS(j)", ", ".join(f"in_register(x{k}.element[j])" for k in inputs)),
    )
    return Kernel(_SOURCE, "rows" if rows else "strided", defines)


def make_launch(kernel: Kernel, plan: Walk, inputs: Sequence[Batch], output: Batch) -> Launch:
    """The launch for a batch."""
    count, width = plan.records.shape
    largest = int(plan.shapes.prod(axis=1).max(initial=0))
    own = EXPRESSION_CUDA.entries(outputs=output.addresses, records=plan.records, width=width, groups=plan.groups, samples=count)
    each = _each(output.dtype, [batch.dtype for batch in inputs]) if plan.rows else _LEAST_EACH
    return Launch(kernel, (*own, *[batch.addresses for batch in inputs]), grid_of(-(-largest // each), count))
