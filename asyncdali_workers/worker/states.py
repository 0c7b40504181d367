"""Checks whether a source has adopted the state that it was given."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np


class StateNotKept(ValueError):
    """A source refused its state, or reports another one."""


def restore(owner: Any, state: Any, enter: Callable[[], None], name: str) -> None:
    """Give `owner` a `state`, and `enter` its iteration so that it continues from there.

    An iterator that is made by ``__iter__`` reads the state at that time, so the state is loaded first. An ``__iter__`` that rewinds its
    object loses the state; then the state is loaded again.

    Raises StateNotKept if ``load_state_dict()`` fails, or if ``state_dict()`` returns another state afterwards.
    """
    _load(owner, state, name)
    enter()
    if same_state(owner.state_dict(), state):
        return
    _load(owner, state, name)
    found = owner.state_dict()
    if not same_state(found, state):
        raise StateNotKept(
            f"the source of {name!r}, a {type(owner).__name__}, did not keep the given state: load_state_dict() got "
            f"{_short(state)}, and state_dict() now returns {_short(found)}. Both must describe the same state"
        )


def _load(owner: Any, state: Any, name: str) -> None:
    try:
        owner.load_state_dict(state)
    except Exception as error:
        raise StateNotKept(
            f"the source of {name!r}, a {type(owner).__name__}, refused its state {_short(state)}: {type(error).__name__}: {error}"
        ) from error


def same_state(one: object, other: object) -> bool:
    """Whether two states are equal. Kinds of numbers and kinds of sequences may differ."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(same_state(one[key], other[key]) for key in one)
    if _is_sequence(one) and _is_sequence(other):
        return _same_items(one, other)
    if isinstance(one, (bytes, bytearray)) and isinstance(other, (bytes, bytearray)):
        return bytes(one) == bytes(other)
    try:
        return bool(one == other) or bool(one != one and other != other)  # NaN
    except Exception:  # values that cannot be compared count as equal
        return True


def _is_sequence(value: object) -> bool:
    return (isinstance(value, Sequence) and not isinstance(value, (str, bytes))) or (isinstance(value, np.ndarray) and value.ndim > 0)


def _same_items(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray) and not one.dtype.hasobject:
        return one.shape == other.shape and np.array_equal(one, other, equal_nan=one.dtype.kind in "fc" and other.dtype.kind in "fc")
    return len(one) == len(other) and all(same_state(first, second) for first, second in zip(one, other, strict=True))


def _short(state: object) -> str:
    text = repr(state)
    return text if len(text) <= 100 else f"{text[:97]}..."


# ------------------------------------------------------------------------------------------------------------------- replaying

BATCH, ERROR, END = "batch", "error", "end"
OUTCOMES = (BATCH, ERROR, END)


def replay(asks: Sequence[tuple[str, int]], ask: Callable[[], object], name: str) -> list[object]:
    """Repeat the earlier requests to a source. `asks` are runs of outcomes with their lengths.

    A source that failed for external reasons may succeed this time, and that batch must not be lost.

    Returns such a batch in a list, or an empty list. Raises ValueError if the source has another length than before.
    """
    batches = sum(count for outcome, count in asks if outcome == BATCH)
    done = 0
    for place, (outcome, count) in enumerate(asks):
        for _ in range(count):
            try:
                result = ask()
            except StopIteration:
                if outcome != END:
                    raise ValueError(
                        f"the source of {name!r} became shorter: the source ended after {done} of the {batches} batches that it returned "
                        "since its "
                        "last snapshot. Restore with the data that the checkpoint was saved with"
                    ) from None
            except Exception as error:
                if outcome != ERROR:
                    error_name = type(error).__name__
                    raise ValueError(
                        f"the source of {name!r} failed during the replay to the checkpoint's position, after {done} of {batches} batches "
                        f"({error_name}: {error})"
                    ) from error
            else:
                if outcome == ERROR and place == len(asks) - 1:
                    return [result]
                if outcome != BATCH:
                    before = "ended" if outcome == END else "failed"
                    raise ValueError(
                        f"the source of {name!r} returned a batch at a position where it had {before} when the checkpoint was saved. "
                        "Restore with the data that the checkpoint was saved with"
                    )
                done += 1
    return []
