"""A line of a terminal that is written again and again: progress of a measurement, of the demo, of compilations."""

from __future__ import annotations

import contextlib
import os
from typing import Any

_COLUMNS = 80  # the width of a terminal that does not tell it


class StatusLine:
    """The last line of `stream`. Each text replaces the text before it, in a terminal. Elsewhere only :meth:`end` writes.

    Spaces erase the rest of a longer text. A text is cut to the width of the terminal, as a text of two rows could not be replaced. A
    stream that is closed or full is no reason for a program to end.
    """

    def __init__(self, stream: Any):
        self._stream = stream
        self._length = 0

    def draw(self, text: str) -> None:
        """Show the text; nothing happens if the stream is not a terminal."""
        if self.is_terminal():
            self._write(self._replacing(text[: self._columns() - 1]))

    def end(self, text: str) -> None:
        """Show the last text, whole, and begin a new line."""
        self._write(self._replacing(text) + "\n")
        self._length = 0

    def is_terminal(self) -> bool:
        """Whether the stream is a terminal."""
        with contextlib.suppress(ValueError, OSError, AttributeError):
            return bool(self._stream.isatty())
        return False

    def _replacing(self, text: str) -> str:
        start, rest = "\r" if self._length else "", " " * (self._length - len(text))
        self._length = len(text)
        return f"{start}{text}{rest}"

    def _columns(self) -> int:
        with contextlib.suppress(ValueError, OSError, AttributeError):
            return os.get_terminal_size(self._stream.fileno()).columns or _COLUMNS
        return _COLUMNS

    def _write(self, text: str) -> None:
        with contextlib.suppress(ValueError, OSError, AttributeError):
            self._stream.write(text)
            self._stream.flush()
