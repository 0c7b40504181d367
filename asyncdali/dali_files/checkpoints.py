"""Checkpoints of DALI 2: the states of operators by name, the place in the epoch, and the data of an iterator.

The states of readers and of random operators are those of this library in another form. DALI saves no state of sources.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import CheckpointError
from .protobuf import BYTES, NUMBER, Message, WireError, encoded, integer, message, part, parts, text

COPIES = "__MakeContiguous_"
"""Names of operators that DALI adds for outputs begin so. They have no state."""

_PREFIX = b"Philox_"


@dataclass(frozen=True)
class DaliCheckpoint:
    """The contents of a checkpoint.

    operators   the state of each operator by name; empty for an operator without one
    iteration, epoch   iterations that were returned in the epoch of the sources, and the number of that epoch
    iterator    the fields of a framework iterator, or None
    """

    operators: Mapping[str, bytes]
    iteration: int
    epoch: int
    iterator: dict[str, Any] | None


def is_checkpoint(data: object) -> bool:
    """Whether the data looks like a checkpoint of DALI: fields 1 and 2 only, all of them byte strings."""
    if not isinstance(data, (bytes, bytearray)) or not data or data[:1] == b"{":
        return False
    try:
        found = message(bytes(data))
    except WireError:
        return False
    return all(field.number in (1, 2) and field.kind == BYTES for field in found)


def parse(data: bytes) -> DaliCheckpoint:
    """The contents of a checkpoint. CheckpointError for data that is none."""
    try:
        outer = message(bytes(data))
        operators: dict[str, bytes] = {}
        for entry in parts(outer, 1):
            fields = message(entry)
            name = text(fields, 1)
            if name in operators:
                raise CheckpointError(f'the checkpoint of DALI already contains an operator with name "{name}"')
            operators[name] = part(fields, 2)
        context = message(part(outer, 2))
        place, iterator = _json(part(context, 1), "the pipeline"), _json(part(context, 2), "the iterator")
    except WireError as error:
        raise CheckpointError(f"Failed to deserialize checkpoint from protobuf: {error}") from error
    iteration, epoch = (_count(place, name) for name in ("iter", "epoch_idx"))
    return DaliCheckpoint(operators, iteration, epoch, iterator or None)


def _json(data: bytes, what: str) -> dict[str, object]:
    if not data:
        return {}
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"the data of {what} in the checkpoint of DALI is not a valid JSON string: {error}") from error
    if not isinstance(found, dict):
        raise CheckpointError(f"the data of {what} in the checkpoint of DALI is {found!r}; expected names and values")
    return found


def _count(place: dict[str, object], name: str) -> int:
    value = place.get(name)
    if type(value) is not int or not 0 <= value < 2**62:
        raise CheckpointError(f"`{name}` in the checkpoint of DALI is {value!r}; expected a number of at least 0")
    return value


def state_of(name: str, data: bytes) -> str | list[int]:
    """The state of the operator `name` in the form of this library's checkpoints. CheckpointError for other data."""
    if data.startswith(_PREFIX):
        return data.decode("ascii", "replace")
    try:
        outer = message(data)
        if [(field.number, field.kind) for field in outer] == [(1, BYTES)]:
            return _reader_state(message(part(outer, 1)))
    except WireError:
        pass
    hint = " States of random operators in files of DALI 1 cannot be used: the generator was another one." if len(data) > 1000 else ""
    raise CheckpointError(f'the state of operator "{name}" in the checkpoint of DALI is neither that of a reader nor of a stream.{hint}')


def _reader_state(fields: Message) -> list[int]:
    kinds = {1: BYTES, 2: NUMBER, 3: NUMBER}
    if any(kinds.get(field.number) != field.kind for field in fields):
        raise WireError("the state has other fields than a reader's")
    engine = part(fields, 1).decode("ascii", "replace")
    if not engine.isdecimal() or len(engine) > 20:
        raise WireError(f"the state of the reader's engine is {engine!r}")
    return [int(engine), integer(fields, 2), integer(fields, 3)]


def written(states: Mapping[str, object], names: list[str], iteration: int, epoch: int) -> bytes:
    """The checkpoint of DALI with the `states` of this library's operators, and entries without a state for the rest of `names`."""
    entries = [(1, encoded([(1, name.encode("utf-8", "surrogateescape")), (2, _written_state(states.get(name)))])) for name in names]
    place = json.dumps({"iter": iteration, "epoch_idx": epoch}).encode()
    return encoded([*entries, (2, encoded([(1, place), (2, b"")]))])


def _written_state(state: Any) -> bytes:
    if state is None:
        return b""
    if isinstance(state, str):
        return state.encode()
    engine, epoch, age = state
    return encoded([(1, encoded([(1, str(engine).encode()), (2, epoch), (3, age)]))])
