"""States of readers: positions as text, with what they belong to."""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from collections.abc import Callable, Mapping

_MAGIC = "ndr1"


class Restorable:
    """An object with a state that can be saved and restored: what checkpoints need of a reader."""

    @property
    def is_used(self) -> bool:
        """Whether something was read, so that no state can be set."""
        raise TypeError("abstract")

    @property
    def keeps_states(self) -> bool:
        """Whether checkpointing is enabled."""
        raise TypeError("abstract")

    def enable_checkpointing(self) -> None:
        """Allow :meth:`get_state`."""
        raise TypeError("abstract")

    def get_state(self) -> ReaderState:
        """The state."""
        raise TypeError("abstract")

    def check_state(self, state: object) -> object:
        """TypeError, ValueError or RuntimeError if :meth:`set_state` would not take a state. Nothing is changed."""
        raise TypeError("abstract")

    def set_state(self, state: object) -> None:
        """Go to a state or to its text."""
        raise TypeError("abstract")


class ReaderState:
    """The state of a reader: an immutable position. ``str()`` gives its text; a state equals its text and states with the same one.

    position    of the operator: JSON data
    progress    of the epoch that was being read: samples read and samples in all; None between epochs
    epochs      finished epochs
    belongs     the data set and the order that the position belongs to: names and values
    """

    __slots__ = ("_text", "belongs", "epochs", "position", "progress")

    def __init__(self, position: object, progress: tuple[int, int] | None, epochs: int, belongs: Mapping[str, object]):
        self.position, self.progress, self.epochs = position, progress, epochs
        self.belongs = dict(belongs)
        body = {"position": position, "progress": progress, "epochs": epochs, "belongs": self.belongs}
        data = json.dumps(body, sort_keys=True, separators=(",", ":")).encode()
        self._text = base64.b64encode(f"{_MAGIC}{zlib.crc32(data):08x}".encode() + data).decode()

    @staticmethod
    def parse(given: object) -> ReaderState:
        """A state, or its text (str or bytes). TypeError for other classes, ValueError for another text."""
        if isinstance(given, ReaderState):
            return given
        if not isinstance(given, (str, bytes, bytearray)):
            raise TypeError(f"the state of a reader is what get_state() returned, or its text, got {type(given).__name__}")
        try:
            data = base64.b64decode(given, validate=True)
            head, body = data[: len(_MAGIC) + 8].decode("ascii"), data[len(_MAGIC) + 8 :]
            if head != f"{_MAGIC}{zlib.crc32(body):08x}":
                raise ValueError("the checksum of the state does not match")
            found = json.loads(body)
            progress = found["progress"]
            checked = None if progress is None else (int(progress[0]), int(progress[1]))
            return ReaderState(found["position"], checked, int(found["epochs"]), found["belongs"])
        except (ValueError, KeyError, TypeError, IndexError, binascii.Error, RecursionError) as error:
            raise ValueError(f"this text is not the state of a reader, or it was damaged: {error}") from None

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"ReaderState({self._text!r})"

    def __eq__(self, other: object) -> bool:
        if isinstance(other, (ReaderState, str)):
            return self._text == str(other)
        return NotImplemented

    def __hash__(self) -> int:
        return hash(self._text)

    def __reduce__(self) -> tuple[Callable[[object], ReaderState], tuple[str]]:
        return ReaderState.parse, (self._text,)
