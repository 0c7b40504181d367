"""Finds out what kind of object a source is, and makes the callback that returns its batches or samples."""

from __future__ import annotations

import enum
import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..errors import OperatorTypeError, OperatorValueError, refused
from .iterating import AsyncRounds, Rounds

CYCLES = (None, "no", "quiet", "raise", False, True)


class SourceKind(enum.Enum):
    """Kinds of the argument `source`."""

    CALLABLE = 0
    ITERABLE = 1
    GENERATOR_FUNC = 2

    def __str__(self) -> str:
        return {0: "callable", 1: "iterable", 2: "generator function"}[self.value]


@dataclass(frozen=True)
class SourceDescription:
    """The source as given: its kind, whether it takes the position as an argument, and whether its results are awaited."""

    source: Any
    kind: SourceKind
    has_inputs: bool
    cycle: str | None
    batch_info: bool = False
    is_async: bool = False

    @property
    def resumable(self) -> bool:
        """Whether it can be asked for any position. Its own state is then no part of a checkpoint."""
        return self.has_inputs

    @property
    def snapshots(self) -> bool:
        """Whether its state can be saved and loaded."""
        return hasattr(self.source, "state_dict") and hasattr(self.source, "load_state_dict")

    def __str__(self) -> str:
        return f"{'asynchronous ' if self.is_async else ''}{self.kind}"


def checked_cycle(cycle: Any) -> str | None:
    """The policy (None, "quiet" or "raise") for a value of `cycle`. ValueError for other values."""
    if not any(cycle is known or (isinstance(cycle, str) and cycle == known) for known in CYCLES):
        raise refused(OperatorValueError, "external_source", "cycle",
            f"Invalid value {cycle!r} for the argument `cycle`. Valid values are \"no\", False or None; \"quiet\" or True; \"raise\"."
        )
    return {False: None, "no": None, True: "quiet"}.get(cycle, cycle)


def get_callback_from_source(source: Any, cycle: Any = None, batch_info: bool = False) -> tuple[Callable[..., Any] | None, Any]:
    """Returns (callback, SourceDescription); (None, None) without a source. The callback takes no argument, or the position.

    Iterables are entered now (``iter(source)``). Generator functions are called now; their bodies start at the first request. An object
    that is both iterable and callable is iterated. TypeError for objects that are neither, and for callables of more than one argument;
    ValueError for a `cycle` that does not fit.
    """
    policy = checked_cycle(cycle)
    if source is None:
        if policy is not None:
            raise refused(OperatorValueError, "external_source", "cycle", "The argument `cycle` can only be given with a `source`.")
        return None, None
    if _is_generator_function(source):
        rounds = Rounds(source, policy)
        return rounds.next, SourceDescription(source, SourceKind.GENERATOR_FUNC, False, policy)
    if _is_async_generator_function(source):
        waited = AsyncRounds(source, policy)
        return waited.next, SourceDescription(source, SourceKind.GENERATOR_FUNC, False, policy, is_async=True)
    if _is_iterable(source):
        _refuse_used_up(source, policy)
        return Rounds(lambda: iter(source), policy).next, SourceDescription(source, SourceKind.ITERABLE, False, policy)
    if hasattr(source, "__aiter__"):
        _refuse_used_up(source, policy)
        waited = AsyncRounds(lambda: aiter(source), policy)
        return waited.next, SourceDescription(source, SourceKind.ITERABLE, False, policy, is_async=True)
    if callable(source):
        if cycle is not None:
            raise refused(
                OperatorValueError, "external_source", "cycle",
                "The argument `cycle` can only be given for iterables and generator functions, not for a callable source.",
            )
        takes = accepts_argument(source)
        return source, SourceDescription(source, SourceKind.CALLABLE, takes, None, bool(batch_info), _is_coroutine_function(source))
    raise refused(OperatorTypeError, "external_source", "source",
        "The source must be a callable, an iterable or a parameterless generator function (or the async form of one), "
        f"got {type(source).__name__}"
    )


def _refuse_used_up(source: object, policy: str | None) -> None:
    if policy is not None and (inspect.isgenerator(source) or inspect.isasyncgen(source)):
        raise refused(OperatorTypeError, "external_source", "cycle",
            "Cannot cycle through a generator: once it has ended there is no way to start it again. "
            "If the generator is the result of a generator function, pass the function instead."
        )


def _is_iterable(source: Any) -> bool:
    """Decided by protocol. Trying ``iter()`` would hide an error inside the user's ``__iter__``."""
    if isinstance(source, type):
        return False  # a class lists the methods of its instances
    kind = type(source)
    if "__iter__" in dir(kind):
        return kind.__iter__ is not None
    return hasattr(kind, "__getitem__")


def _inner(source: object) -> object:
    """The function whose signature decides: that of a (nested) partial, or the ``__call__`` of an object."""
    while isinstance(source, functools.partial):
        source = source.func
    if inspect.isfunction(source) or inspect.ismethod(source) or isinstance(source, type):
        return source
    return type(source).__call__ if callable(source) else source


def _is_generator_function(source: object) -> bool:
    return inspect.isgeneratorfunction(source) or inspect.isgeneratorfunction(_inner(source))


def _is_async_generator_function(source: object) -> bool:
    return inspect.isasyncgenfunction(source) or inspect.isasyncgenfunction(_inner(source))


def _is_coroutine_function(source: object) -> bool:
    return inspect.iscoroutinefunction(source) or inspect.iscoroutinefunction(_inner(source))


_VARIADIC = {
    inspect.Parameter.VAR_POSITIONAL: "a variable number of positional arguments (*{name})",
    inspect.Parameter.VAR_KEYWORD: "arbitrary keyword arguments (**{name})",
    inspect.Parameter.KEYWORD_ONLY: "a keyword-only argument ({name})",
}


def accepts_argument(source: Callable[..., object]) -> bool:
    """Whether a callable takes one positional argument (True) or none (False). TypeError for any other signature."""
    try:
        parameters = list(inspect.signature(source).parameters.values())
    except (ValueError, TypeError) as error:
        raise refused(OperatorTypeError, "external_source", "source",
            f"The signature of the source {source!r} is not known to Python: wrap it in a function with no argument or one"
        ) from error
    if isinstance(source, functools.partial):
        # The signature of a partial still lists arguments that are given by keyword, as keyword-only.
        parameters = [item for item in parameters if not (item.kind is item.KEYWORD_ONLY and item.name in source.keywords)]
    for item in parameters:
        if item.kind in _VARIADIC:
            raise refused(OperatorTypeError, "external_source", "source",
                f"The source {_name(source)} must take no argument or one positional argument; it has "
                + _VARIADIC[item.kind].format(name=item.name)
            )
    if len(parameters) > 1:
        names = ", ".join(item.name for item in parameters)
        raise refused(OperatorTypeError, "external_source", "source",
            f"The source {_name(source)} must take no argument or one positional argument; it has {len(parameters)} arguments: {names}"
        )
    return len(parameters) == 1


def _name(source: object) -> str:
    return repr(getattr(source, "__qualname__", None) or type(source).__qualname__)
