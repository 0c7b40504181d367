"""experimental.ready: batches in the order in which they are finished, within a window. The order is noted and can be repeated."""

from __future__ import annotations

import base64
import binascii
import copy
import zlib
from array import array
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..operators.base import Arg, Role, Schema, register
from .contract import EndOfEpoch, Reading, Rows
from .ready_streams import ReadyReading
from .regrouping import RegroupedInput

LARGEST_WINDOW = 1024
"""Batches that may overtake another one. The raw iterations of a window may all be in memory."""

_MOST_NOTES = 1 << 26
_VERSION = b"asyncdali order 1\n"


class ReadyState(NamedTuple):
    """The state before a batch. The cursor is at the oldest raw iteration that was not delivered.

    Attributes:
        step: number of batches before it, of all epochs.
        ahead: the raw iterations behind the cursor that were delivered, counted from the cursor.
        last: the raw iteration that was delivered last, counted from the cursor.
    """

    step: int
    ahead: tuple[int, ...]
    last: int


class Readying:
    """See the module.

    The notes have one number per batch: twice the distance from the raw iteration that was delivered before, plus 1 if an error was raised
    between. Batches in order are therefore a row of equal numbers, and compress well.

    Args:
        window: number of batches that a batch may be late.
        replay: notes of the run that is repeated; empty: none.
    """

    start = ReadyState(0, (), -1)

    def __init__(self, window: int, replay: bytes):
        self.window = window
        self._replay = read_notes(replay) if replay else array("i")
        self._notes = array("i")
        self._formed = array("i")  # formed by the run that made the restored checkpoint: some of their samples may have been used

    def __copy__(self) -> Readying:
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__, _notes=copy.copy(self._notes))
        return made

    def notes(self, state: ReadyState) -> bytes:
        """The order of the batches before a state."""
        return written_notes(self._notes[: state.step])

    def form(self, parts: Sequence[Reading], state: ReadyState, size: int) -> tuple[list[Rows], ReadyState]:
        reading = parts[0]
        assert isinstance(reading, ReadyReading)
        last = reading.cursor.number + state.last
        known = self._replay if state.step < len(self._replay) else self._formed
        noted = known[state.step] if state.step < len(known) else None
        wanted = None if noted is None else last + (noted >> 1)
        found = reading.deliver(state.ahead, wanted, noted is not None and bool(noted & 1))
        if found is None:
            reading.next_epoch()
            raise EndOfEpoch(ReadyState(state.step, (), last - reading.cursor.number))
        del self._notes[state.step :]
        self._notes.append(2 * (found.number - last) + found.told)
        return [found.rows], ReadyState(state.step + 1, found.ahead, found.number - reading.cursor.number)

    # --- checkpoints

    def save(self, state: ReadyState) -> dict[str, object]:
        return {**state._asdict(), "notes": base64.b64encode(written_notes(self._notes)).decode()}

    def load(self, data: Any) -> ReadyState:
        try:
            state = ReadyState(data["step"], tuple(data["ahead"]), data["last"])
            notes = read_notes(base64.b64decode(data["notes"], validate=True))
        except (KeyError, TypeError, ValueError, binascii.Error) as error:
            raise ValueError(f"this is not the state of fn.experimental.ready ({error})") from None
        numbers = (state.step, *state.ahead, abs(state.last) if type(state.last) is int else -1)
        if not all(type(value) is int and 0 <= value < 1 << 31 for value in numbers) or sorted(set(state.ahead)) != [*state.ahead]:
            raise ValueError("this is not the state of fn.experimental.ready: its numbers are out of range")
        if len(notes) < state.step:
            raise ValueError(f"this is not the state of fn.experimental.ready: it has the order of {len(notes)} batches of {state.step}")
        self._notes, self._formed = notes[: state.step], notes
        return state


def written_notes(notes: array[int]) -> bytes:
    """An order as bytes."""
    return _VERSION + zlib.compress(np.array(notes, "<i4").tobytes(), 9)


def read_notes(data: bytes) -> array[int]:
    """The order that :func:`written_notes` has written. ValueError for other data."""
    if not data.startswith(_VERSION):
        raise ValueError("the bytes are not an order of pipe.delivered()")
    unpacking = zlib.decompressobj()
    try:
        found = unpacking.decompress(data[len(_VERSION) :], 4 * _MOST_NOTES)
    except zlib.error as error:
        raise ValueError(f"the order of pipe.delivered() is damaged: {error}") from None
    if not unpacking.eof or unpacking.unused_data or len(found) % 4:
        raise ValueError("the order of pipe.delivered() is damaged: it is not complete")
    return array("i", np.frombuffer(found, "<i4").tolist())


@register
class Ready(RegroupedInput):
    schema = Schema(
        name="experimental.ready",
        doc="""Gives batches in the order in which they are finished.

        See :func:`asyncdali.fn.experimental.ready`, and docs/bad_data.md for what to choose when.""",
        inputs=(0, 0),
        hand_written="regrouping.calls",
        role=Role.INPUT,
        calls_python=True,
        args=(Arg("window", "int", 8, "Number of batches that a batch may be late.", stream=True),),
    )
