"""Marks on functions: not to be rewritten; made by rewritten code."""

from __future__ import annotations

import functools
import types
from typing import Any

MARK = "__asyncdali_converted__"
"""Attribute of functions made by rewritten code. They need no rewriting, and cannot be sent to other processes by name."""

UNCONVERTED = "__asyncdali_do_not_convert__"
"""Attribute of functions that are not rewritten."""


def is_unconverted(function: object) -> bool:
    """Whether a function (or another callable) is marked with `do_not_convert`."""
    return UNCONVERTED in getattr(function, "__dict__", ())


def do_not_convert(function: Any = None) -> Any:
    """Do not rewrite a function (nor the functions that it calls) with ``enable_conditionals=True``: its conditions are plain Python.

    ValueError for a pipeline definition.
    """
    if function is None:
        return do_not_convert
    if getattr(function, "_is_pipeline_def", False):
        raise ValueError("a pipeline definition cannot be marked with do_not_convert; define it with enable_conditionals=False instead")
    if isinstance(function, (staticmethod, classmethod)):
        do_not_convert(function.__func__)
        return function
    target = function.__func__ if isinstance(function, types.MethodType) else function
    if isinstance(target, types.FunctionType) and getattr(target, MARK, None) is target.__code__:
        return function  # made by rewritten code
    try:
        setattr(target, UNCONVERTED, True)
    except (AttributeError, TypeError):
        @functools.wraps(function)
        def unconverted(*args: object, **kwargs: object) -> object:
            return function(*args, **kwargs)

        setattr(unconverted, UNCONVERTED, True)
        return unconverted
    return function
