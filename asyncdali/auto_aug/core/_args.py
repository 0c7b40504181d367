"""Checks of keyword arguments: which ones an augmentation's function takes, and which ones are missing or unused."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class MissingArgException(TypeError):
    """An augmentation was called without a required named argument.

    Attributes: ``message``, ``augmentation`` (the augmentation), ``missing_args`` (list of names).
    """

    def __init__(self, message: str, augmentation: object, missing_args: list[str]):
        super().__init__(message)
        self.message = message
        self.augmentation = augmentation
        self.missing_args = missing_args


class UnusedArgException(TypeError):
    """A named argument was given, but no augmentation reads it. Attribute: ``unused_args`` (list of names)."""

    def __init__(self, message: str, unused_args: list[str]):
        super().__init__(message)
        self.unused_args = unused_args


def positional_count(function: Callable[..., object]) -> int:
    """Number of parameters that can be given by position; ``*args`` does not count."""
    return sum(parameter.kind in _POSITIONAL for parameter in inspect.signature(function).parameters.values())


def named_parameters(function: Callable[..., object]) -> list[inspect.Parameter]:
    """Parameters that can be given by name, without the first two (data and parameter)."""
    parameters = list(inspect.signature(function).parameters.values())
    first_two = [parameter.name for parameter in parameters if parameter.kind in _POSITIONAL][:2]
    return [parameter for parameter in parameters if parameter.kind in _NAMED and parameter.name not in first_two]


def missing_of(function: Callable[..., object], given: Iterable[str]) -> list[str]:
    """Required named parameters of `function` that are not among `given`."""
    return [p.name for p in named_parameters(function) if p.default is p.empty and p.name not in given]


def check_arguments(augmentations: Iterable[Any], arguments: Mapping[str, Any], caller: str) -> None:
    """MissingArgException for missing required arguments, UnusedArgException for arguments that no augmentation reads."""
    read: set[str] = set()
    for augmentation in augmentations:
        read.update(parameter.name for parameter in named_parameters(augmentation.op))
        missing = missing_of(augmentation.op, arguments)
        if missing:
            raise MissingArgException(
                f"{caller}: the augmentation `{augmentation.name}` requires the named argument{'s' * (len(missing) > 1)} "
                f"{', '.join(missing)}; pass {'them' if len(missing) > 1 else 'it'} to {caller}",
                augmentation, missing,
            )  # fmt: skip
    unused = [name for name in arguments if name not in read]
    if unused:
        raise UnusedArgException(
            f"{caller} got the unexpected argument{'s' * (len(unused) > 1)} {', '.join(unused)}: none of the augmentations reads "
            f"{'them' if len(unused) > 1 else 'it'}; they read {', '.join(sorted(read)) or 'no arguments'}",
            unused,
        )  # fmt: skip
