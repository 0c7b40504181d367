"""The operators as functions, with their types for editors and type checkers: ``from acme_operators import fn as acme``."""

from typing import Any

from asyncdali.fn import acme


def __getattr__(name: str) -> Any:
    return getattr(acme, name)
