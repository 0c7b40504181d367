"""Messages in the wire format of protocol buffers: https://protobuf.dev/programming-guides/encoding/.

The data comes from outside, so a message is checked as a whole before any part of it is used. Only the kinds that DALI writes are accepted:
numbers, 32-bit words and byte strings.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

NUMBER, BYTES, WORD = 0, 2, 5
"""Kinds of fields: a number of up to 64 bits, a byte string, 32 bits."""

_MOST_FIELDS = 1 << 20


class WireError(ValueError):
    """The bytes are no message: truncated, or of another format."""


class MessageField(NamedTuple):
    """One field: its number, its kind, and the value: an int, or bytes."""

    number: int
    kind: int
    value: int | bytes


Message: TypeAlias = list[MessageField]


def message(data: bytes) -> Message:
    """The fields of a message, in order. WireError if the bytes are none."""
    found: Message = []
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, kind = key >> 3, key & 7
        value: int | bytes
        if number == 0 or len(found) >= _MOST_FIELDS:
            raise WireError(f"no field begins before byte {at}")
        if kind == NUMBER:
            value, at = _varint(data, at)
        elif kind == WORD:
            if at + 4 > len(data):
                raise WireError(f"the message ends within the field at byte {at}")
            value, at = int.from_bytes(data[at : at + 4], "little"), at + 4
        elif kind == BYTES:
            size, at = _varint(data, at)
            if size > len(data) - at:
                raise WireError(f"a field at byte {at} has {size} bytes, and {len(data) - at} are left")
            value, at = data[at : at + size], at + size
        else:
            raise WireError(f"a field before byte {at} is of kind {kind}, which DALI does not write")
        found.append(MessageField(number, kind, value))
    return found


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number of 7 bits per byte, and the place behind it."""
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise WireError(f"the message ends in a number, or the number is too long, at byte {at}")
        byte = data[at]
        value |= (byte & 127) << shift
        shift, at = shift + 7, at + 1
        if byte < 128:
            return value, at


def signed(value: int) -> int:
    """The integer that is written as the 64-bit two's complement `value`."""
    return value - (1 << 64) if value >> 63 else value


def texts(fields: Message, number: int) -> list[str]:
    """The values of the byte strings with this number, as texts. WireError for other values."""
    try:
        return [value.decode("utf-8", "surrogateescape") for value in parts(fields, number)]
    except UnicodeError as error:
        raise WireError(f"field {number} is no text: {error}") from error


def parts(fields: Message, number: int) -> list[bytes]:
    """The values of all byte strings with this number. WireError for a value of another kind."""
    found = [field.value for field in fields if field.number == number]
    if not all(isinstance(value, bytes) for value in found):
        raise WireError(f"field {number} is a number, and must be a byte string")
    return [bytes(value) for value in found if isinstance(value, bytes)]


def part(fields: Message, number: int) -> bytes:
    """The last byte string with this number; empty if there is none."""
    return (parts(fields, number) or [b""])[-1]


def text(fields: Message, number: int) -> str:
    """The last text with this number; empty if there is none."""
    return (texts(fields, number) or [""])[-1]


def integer(fields: Message, number: int, default: int = 0) -> int:
    """The last integer with this number."""
    found = [field.value for field in fields if field.number == number]
    if not all(isinstance(value, int) for value in found):
        raise WireError(f"field {number} is a byte string, and must be a number")
    return signed(int(found[-1])) if found else default


def encoded(fields: Iterable[tuple[int, int | float | bytes]]) -> bytes:
    """The message with these fields: numbers, and integers, floats of 32 bits or byte strings. OverflowError for a float that has more."""
    made = bytearray()
    for number, value in fields:
        if isinstance(value, float):
            made += _encoded_varint(number << 3 | WORD) + struct.pack("<f", value)
        elif isinstance(value, int):
            made += _encoded_varint(number << 3 | NUMBER) + _encoded_varint(value & (1 << 64) - 1)
        else:
            made += _encoded_varint(number << 3 | BYTES) + _encoded_varint(len(value)) + value
    return bytes(made)


def _encoded_varint(value: int) -> bytes:
    made = bytearray()
    while value > 127:
        made.append(value & 127 | 128)
        value >>= 7
    made.append(value)
    return bytes(made)
