"""Warnings that point at the user's line, and hints for misspelt names."""

from __future__ import annotations

import difflib
import sys
import warnings
from collections.abc import Iterable

_OURS = (__name__.partition(".")[0], "contextlib")
"""Modules whose frames are not the user's: this library, and libraries that decorate its functions."""


def warn(message: str, category: type[Warning]) -> None:
    """Warn at the innermost line of user code on the stack."""
    level = 2
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _OURS:
        frame = frame.f_back
        level += 1
    warnings.warn(message, category, stacklevel=level)


def near(name: str, known: Iterable[str]) -> str:
    """" Did you mean ...?" with the names of `known` that look like `name`; empty if none does."""
    close = difflib.get_close_matches(name, list(known), 3)
    return f" Did you mean {' or '.join(repr(text) for text in close)}?" if close else ""
