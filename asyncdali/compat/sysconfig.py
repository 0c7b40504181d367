"""DALI's flags for building C++ operators. There are none here: an error says what to use instead."""

from __future__ import annotations

from typing import NoReturn

from ..messages.absent import NO_LIBRARIES

__all__ = ["get_compile_flags", "get_include_dir", "get_include_flags", "get_lib_dir", "get_link_flags"]


def _refuse(what: str) -> NoReturn:
    raise RuntimeError(f"asyncdali has no {what}: {NO_LIBRARIES}")


def get_include_dir() -> str:
    """RuntimeError: there are no headers."""
    _refuse("C++ headers")


def get_lib_dir() -> str:
    """RuntimeError: there is no library."""
    _refuse("library to link with")


def get_include_flags() -> list[str]:
    """RuntimeError: there are no headers."""
    _refuse("C++ headers")


def get_compile_flags() -> list[str]:
    """RuntimeError: there are no headers."""
    _refuse("C++ headers to compile with")


def get_link_flags() -> list[str]:
    """RuntimeError: there is no library."""
    _refuse("library to link with")
