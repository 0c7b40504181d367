"""Programs: arithmetic expressions, also whole trees, as data. They are independent of the batches that they process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...types import DALIDataType
from .types import OPERATIONS


@dataclass(frozen=True)
class InputOperand:
    """Operand: an input of the operator."""

    index: int

    def text(self) -> str:
        return f"&{self.index}"


@dataclass(frozen=True)
class Literal:
    """Operand: a number, exactly representable in its type."""

    value: Any
    dtype: DALIDataType

    def text(self) -> str:
        value = self.value.hex() if isinstance(self.value, float) else int(self.value)
        return f"{value}:{self.dtype.name}"


@dataclass(frozen=True)
class ResultOperand:
    """Operand: the result of an earlier instruction."""

    index: int

    def text(self) -> str:
        return f"%{self.index}"


Operand = InputOperand | Literal | ResultOperand


@dataclass(frozen=True)
class Instruction:
    """One operation of a program; `line` is the user's source line."""

    name: str
    operands: tuple[Operand, ...]
    line: str = ""


@dataclass(frozen=True)
class ExpressionProgram:
    """Instructions in order; the last one gives the result."""

    instructions: tuple[Instruction, ...]

    def text(self) -> str:
        """Everything that determines the computation, except for the types of the inputs."""
        return ";".join(f"{item.name}({','.join(operand.text() for operand in item.operands)})" for item in self.instructions)

    def describe(self) -> str:
        """The expression in readable form, with inputs a, b, c; shortened if it is long."""
        texts: list[str] = []
        for item in self.instructions:
            parts = [_shown(operand, texts) for operand in item.operands]
            symbol = OPERATIONS[item.name].symbol
            if len(parts) == 2 and not symbol.startswith("math."):
                text = f"({parts[0]} {symbol} {parts[1]})"
            else:
                text = f"{symbol}({', '.join(parts)})"
            texts.append(text if len(text) <= 120 else f"{text[:56]} ... {text[-56:]}")
        return texts[-1]

    def types(self, inputs: Sequence[DALIDataType]) -> list[DALIDataType]:
        """Element type of each instruction's result; RuntimeError names the operation that cannot take its operands."""
        results: list[DALIDataType] = []
        for item in self.instructions:
            kinds = [operand_type(operand, inputs, results) for operand in item.operands]
            try:
                results.append(OPERATIONS[item.name].result(kinds))
            except RuntimeError as error:
                raise RuntimeError(f"{error}{self.origin(item)}") from None
        return results

    def layout(self, layouts: Sequence[str], ndims: Sequence[int]) -> str:
        """Layout of the result. RuntimeError for operands of one operation whose layouts do not end alike."""
        results: list[tuple[str, int]] = []
        for item in self.instructions:
            layout, ndim = "", 0
            for operand in item.operands:
                if isinstance(operand, Literal):
                    continue
                given = (layouts[operand.index], ndims[operand.index]) if isinstance(operand, InputOperand) else results[operand.index]
                layout, ndim = self._common(item, layout, given[0]), max(ndim, given[1])
            results.append((layout if len(layout) == ndim else "", ndim))
        return results[-1][0]

    def _common(self, item: Instruction, a: str, b: str) -> str:
        if a.endswith(b):
            return a
        if b.endswith(a):
            return b
        raise RuntimeError(
            f"`{OPERATIONS[item.name].symbol}`: Layouts of subexpressions {a!r} and {b!r} do not match. "
            f"They must be equal, or one must be a suffix of the other{self.origin(item)}"
        )

    def origin(self, item: Instruction) -> str:
        """The source line of an operation, for messages about programs with several operations."""
        return f"\n(written at {item.line})" if item.line and len(self.instructions) > 1 else ""


def _shown(operand: Operand, texts: Sequence[str]) -> str:
    if isinstance(operand, Literal):
        return f"{operand.value:g}" if isinstance(operand.value, float) else str(operand.value)
    if isinstance(operand, InputOperand):
        letters = "abcdefghijklmnopqrstuvwxyz"
        return letters[operand.index] if operand.index < len(letters) else f"x{operand.index}"
    return texts[operand.index]


def operand_type(operand: Operand, inputs: Sequence[DALIDataType], results: Sequence[DALIDataType]) -> DALIDataType:
    """Element type of an operand."""
    if isinstance(operand, Literal):
        return operand.dtype
    return inputs[operand.index] if isinstance(operand, InputOperand) else results[operand.index]


def single(name: str, operands: Sequence[Any], line: str = "") -> ExpressionProgram:
    """The program of one operation as the graph stores it: operands are numbers of inputs, or [value, type] for literals."""
    made = tuple(Literal(item[0], DALIDataType(item[1])) if isinstance(item, list) else InputOperand(item) for item in operands)
    return ExpressionProgram((Instruction(name, made, line),))
