"""Element types of dynamic mode: one object per type, with a short name ("u8", "f32")."""

from __future__ import annotations

import enum
import re
from typing import Any

import numpy as np

from ..types import DALIDataType, to_dali_type
from ..types.conversions import STORAGE


class DType:
    """An element type. There is one object for each type, made when the module is imported; :func:`dtype` finds it.

    Called with a value it makes a tensor of this type: ``int32(3)``.

    Args:
        kind: a member of :class:`DType.Kind` or its name.
        bits: bits of an element.
        exponent_bits, significand_bits: of a floating point type, else None.
        bytes: bytes of an element; by default those that `bits` need.
        type_id: the :class:`types.DALIDataType`; None: nothing can be stored in this type.
        name: the short name; by default made from kind and bits.
        docs: a description.
    """

    class Kind(enum.Enum):
        """The meaning of an element's bits."""

        signed = 1
        unsigned = 2
        float = 3
        bool = 4
        enum = 5

    def __init__(
        self, kind: object, bits: int, exponent_bits: int | None = None, significand_bits: int | None = None, bytes: int | None = None,
        type_id: DALIDataType | None = None, name: str | None = None, docs: str | None = None,
    ):  # fmt: skip
        self.kind = DType.Kind[kind] if isinstance(kind, str) else DType.Kind(kind)
        self.bits, self.exponent_bits, self.significand_bits = bits, exponent_bits, significand_bits
        self.bytes = (bits + 7) // 8 if bytes is None else bytes
        self.type_id = type_id
        self.name = name or self._own_name()
        if docs is not None:
            self.__doc__ = docs
        self.storage: np.dtype | None = None if type_id is None else STORAGE.get(type_id)

    def _own_name(self) -> str:
        letter = {DType.Kind.signed: "i", DType.Kind.unsigned: "u", DType.Kind.float: "f"}.get(self.kind)
        if letter is None:
            return self.kind.name
        usual = {16: (5, 10), 32: (8, 23), 64: (11, 52)}.get(self.bits)
        own = self.exponent_bits, self.significand_bits
        return f"{letter}{self.bits}" if letter != "f" or own == usual else f"f{self.bits}e{own[0]}m{own[1]}"

    def __call__(self, value: object) -> Any:
        """A tensor of this type, a copy of `value`."""
        return made_of(value, self)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DType):
            return NotImplemented
        if self is other:
            return True
        same = (self.kind, self.bits, self.exponent_bits, self.significand_bits)
        if same != (other.kind, other.bits, other.exponent_bits, other.significand_bits):
            return False
        return self.kind is not DType.Kind.enum or self.type_id == other.type_id

    def __hash__(self) -> int:
        return hash((self.kind, self.bits, self.exponent_bits, self.significand_bits))

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        text = f"DType(kind=Kind.{self.kind.name}, bits={self.bits}"
        if self.kind is DType.Kind.float:
            text += f", exponent_bits={self.exponent_bits}, significand_bits={self.significand_bits}"
        return f"{text}, name={self.name!r})" if self.kind is DType.Kind.enum else f"{text})"

    def __reduce__(self) -> tuple[object, ...]:
        if _BY_NAME.get(self.name) is self:
            return dtype, (self.name,)
        given = self.kind, self.bits, self.exponent_bits, self.significand_bits, self.bytes, self.type_id, self.name, self.__doc__
        return DType, given

    @staticmethod
    def parse(name: str) -> DType:
        """The type with a short name ("u8"), numpy's name ("uint8"), or a long one ("f16e5m10"). ValueError for another text."""
        found = _BY_NAME.get(name) or _BY_NUMPY_NAME.get(name)
        return _long_form(name) if found is None else found

    @staticmethod
    def from_type_id(type_id: int) -> DType:
        """The type of a :class:`types.DALIDataType`. ValueError if tensors cannot have it."""
        found = _BY_ID.get(DALIDataType(type_id))
        if found is None:
            raise ValueError(f"tensors have no elements of {DALIDataType(type_id)}; possible are {', '.join(map(str, _BY_ID.values()))}")
        return found

    @staticmethod
    def from_fw_type(framework_type: object) -> DType:
        """The type of a numpy, torch or jax type. TypeError if there is none."""
        if "bfloat16" in str(framework_type):
            return bfloat16
        return _BY_ID[to_dali_type(framework_type)]


def made_of(value: object, kind: DType) -> Any:
    """A tensor of a type. `language.py` puts the function here, because values are above types."""
    raise TypeError("import asyncdali.dynamic first")


_LONG = re.compile(r"([iu])(\d+)|f(\d+)e(\d+)m(\d+)")


def _long_form(name: str) -> DType:
    match = _LONG.fullmatch(name)
    if match is not None and match[3] is not None:
        made = DType("float", int(match[3]), int(match[4]), int(match[5]), name=name)
        for known in _BY_NAME.values():
            if known == made:
                return known
        if made.bits == 1 + made.exponent_bits + made.significand_bits:  # type: ignore[operator]
            return made
    raise ValueError(f"{name!r} is not the name of an element type; names are {', '.join(_BY_NAME)}, and numpy's")


def _number(name: str, kind: str, bits: int, type_id: DALIDataType | None, docs: str, *float_bits: int) -> DType:
    exponent, significand = float_bits or (None, None)
    return DType(kind, bits, exponent, significand, type_id=type_id, name=name, docs=docs)


int8 = _number("i8", "signed", 8, DALIDataType.INT8, "8-bit signed integer")
int16 = _number("i16", "signed", 16, DALIDataType.INT16, "16-bit signed integer")
int32 = _number("i32", "signed", 32, DALIDataType.INT32, "32-bit signed integer")
int64 = _number("i64", "signed", 64, DALIDataType.INT64, "64-bit signed integer")
uint8 = _number("u8", "unsigned", 8, DALIDataType.UINT8, "8-bit unsigned integer")
uint16 = _number("u16", "unsigned", 16, DALIDataType.UINT16, "16-bit unsigned integer")
uint32 = _number("u32", "unsigned", 32, DALIDataType.UINT32, "32-bit unsigned integer")
uint64 = _number("u64", "unsigned", 64, DALIDataType.UINT64, "64-bit unsigned integer")
float16 = _number("f16", "float", 16, DALIDataType.FLOAT16, "16-bit floating point number (IEEE 754 half)", 5, 10)
float32 = _number("f32", "float", 32, DALIDataType.FLOAT, "32-bit floating point number (IEEE 754 single)", 8, 23)
float64 = _number("f64", "float", 64, DALIDataType.FLOAT64, "64-bit floating point number (IEEE 754 double)", 11, 52)
bool_ = _number("bool", "bool", 8, DALIDataType.BOOL, "Truth value, stored in a byte")
bfloat16 = _number("bfloat16", "float", 16, None, "16-bit floating point number with the exponent of float32; tensors cannot have it", 8, 7)
DataType = _number("DataType", "enum", 32, DALIDataType.DATA_TYPE, "A member of types.DALIDataType")
ImageType = _number("ImageType", "enum", 32, DALIDataType.IMAGE_TYPE, "A member of types.DALIImageType")
InterpType = _number("InterpType", "enum", 32, DALIDataType.INTERP_TYPE, "A member of types.DALIInterpType")

ALL = {
    "int8": int8, "int16": int16, "int32": int32, "int64": int64, "uint8": uint8, "uint16": uint16, "uint32": uint32, "uint64": uint64,
    "float16": float16, "float32": float32, "float64": float64, "bool": bool_, "bfloat16": bfloat16, "DataType": DataType,
    "ImageType": ImageType, "InterpType": InterpType,
}  # fmt: skip
"""The constants of the module, by their names there."""
_BY_NAME = {kind.name: kind for kind in ALL.values()}
_BY_NUMPY_NAME = {name: kind for name, kind in ALL.items() if kind.kind is not DType.Kind.enum}
_BY_ID = {kind.type_id: kind for kind in ALL.values() if kind.type_id is not None}


def dtype(*args: Any) -> DType:
    """The element type `args`: a DType, a name ("u8", "uint8"), a :class:`types.DALIDataType`, a numpy or torch type, `float`, `bool`.

    Several arguments are those of :class:`DType`. TypeError for an object that is no type (`int` has no size), ValueError for an unknown
    name.
    """
    if len(args) != 1:
        return DType(*args)
    (given,) = args
    if isinstance(given, DType):
        return given
    if isinstance(given, DALIDataType):
        return DType.from_type_id(given)
    if isinstance(given, str):
        return DType.parse(given)
    try:
        return DType.from_fw_type(given)
    except TypeError:
        raise TypeError(f"{given!r} is not an element type; give ndd.float32, a numpy or torch type, or a name such as 'u8'") from None


def type_id(given: object) -> DALIDataType:
    """The :class:`types.DALIDataType` of an element type. TypeError for bfloat16, which tensors cannot have."""
    return stored(dtype(given))


def stored(kind: DType) -> DALIDataType:
    """The DALIDataType of a type that tensors can have. TypeError for another."""
    if kind.type_id is None:
        raise TypeError(f"tensors cannot have the element type {kind.name}")
    return kind.type_id


def of_id(kind: DALIDataType) -> DType:
    """The type of a stored batch."""
    return _BY_ID[kind]
