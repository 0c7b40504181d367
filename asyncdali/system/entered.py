"""Contexts that a thread has entered, such as modes. An interrupt at any point leaves a context entered, or as it was before.

A handler of a signal may raise between any two steps of Python code: behind the step that enters a context and before the `with` block
begins, or at the beginning of ``__exit__``. Then the context would stay entered. So an entry does not end in ``__exit__``. It lives as long
as the object that the `with` statement calls at the end of its block. CPython drops this object when the block is left, in whatever way.
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable
from typing import Any


class EnteredContext:
    """One entry of a context.

    value    what is entered
    owner()  None when the entry is over
    home     the stack of the thread; None: it was not entered
    """

    __slots__ = ("home", "manager", "owner", "value")

    def __init__(self, manager: object):
        self.manager: Any = manager
        self.value = manager
        self.home: list[EnteredContext] | None = None
        self.owner: Callable[[], object] = _by_hand


def _by_hand() -> object:
    """The owner of an entry that ``__enter__`` made without a `with` statement: it ends with a call of ``__exit__``."""
    return _by_hand


def _over() -> None:
    """The owner of an entry that was left."""


def _last_of(entries: list[EnteredContext]) -> EnteredContext | None:
    """The last entry that is not over. Later ones are dropped."""
    while entries:
        last = entries[-1]
        if last.owner() is not None:
            return last
        if entries and entries[-1] is last:  # a handler of a signal may have dropped it
            entries.pop()
    return None


class Entered(threading.local):
    """The contexts of one kind that the calling thread has entered, the innermost last. Entries that are over may still be among them."""

    def __init__(self) -> None:
        self.entries: list[EnteredContext] = []
        self.next: Callable[[], Any] = _over
        """Gives the ``__exit__`` of the `with` statement that will call ``__enter__``; its argument is the entry."""

    def enter(self, manager: object, value: object = None) -> EnteredContext:
        """Enter a context: `value` is current from now on, by default the context."""
        leave = self.next()
        self.next = _over
        entry: EnteredContext = EnteredContext(manager) if leave is None or leave.args[0].manager is not manager else leave.args[0]
        del leave
        entry.value = manager if value is None else value
        entry.home = self.entries
        self.entries.append(entry)
        return entry

    def innermost(self) -> Any:
        """The value that is current; None outside of all contexts."""
        last = _last_of(self.entries)
        return None if last is None else last.value

    def leave_innermost(self) -> bool:
        """Leave the innermost context, however it was entered. False: there is none."""
        last = _last_of(self.entries)
        if last is not None:
            last.owner = _over
        return last is not None

    def contexts(self) -> list[Any]:
        """The values of all contexts, the innermost last."""
        return [entry.value for entry in self.entries if entry.owner() is not None]


class Leave:
    """``__exit__`` of a class of contexts, which `entered` has. `left(context, kind of the exception)` is called when one was left."""

    def __init__(self, entered: Entered, left: Callable[..., None] | None = None):
        self._entered, self._left = entered, left

    def __get__(self, manager: object, owner: type | None = None) -> Callable[..., None]:
        if manager is None:
            return self._leave_by_hand
        entry = EnteredContext(manager)
        # The frames of a traceback keep the arguments of the function alive, but not the partial object.
        leave = functools.partial(self._leave, entry)
        entry.owner = self._entered.next = weakref.ref(leave)
        return leave

    def _leave(self, entry: EnteredContext, kind: object = None, *exception: object) -> None:
        if entry.home is None:
            self._leave_by_hand(entry.manager, kind)
            return
        entry.owner = _over
        _last_of(entry.home)
        if self._left is not None:
            self._left(entry.manager, kind)

    def _leave_by_hand(self, manager: object, kind: object = None, *exception: object) -> None:
        found = [entry for entry in self._entered.entries if entry.manager is manager and entry.owner is _by_hand]
        if not found:
            raise RuntimeError(f"{manager!r} cannot be left: this thread has not entered it")
        self._leave(found[-1], kind)
