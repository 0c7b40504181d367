"""The functions that rewritten functions call. The transformation (``transform``) keeps a function's statements where they are:

    if c:            for k in f.branches(c, names, live, line):
        A                if k.values is not None: a, b = k.values       # variables, before a branch and after the last
    else:       ->       if k.true: A
        B                elif k.false: B
                     if f.jumping: ...                                  # if A or B can leave early

For a plain condition ``branches`` gives one constant step. For a node it gives three steps: both branches, each with the original variables
and in its own scope, and a last step with the merged variables. A ``return`` in such a branch is recorded, and control goes to the next
step.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from ...data_node import DataNode
from .. import conditionals
from ..conditionals import Conditionals, Scope, frozen
from .blocks import Open, state_of, unsupported, write_merged
from .constructs import BREAK, CONTINUE, FALSE, RETURN, TRUE, Body, Branches, BranchPass
from .paths import Leaf, gather, leaves


class RewrittenCall(Open):
    """A call of a rewritten function."""

    def __init__(self, scopes: Conditionals):
        self.scopes = scopes
        super().__init__(self)
        self.jumping: str | None = None
        self.push()

    # --- constructs

    def branches(
        self,
        test: Any,
        names: tuple[str, ...],
        live: tuple[str, ...],
        global_names: tuple[str, ...],
        line: int,
        after: tuple[str, ...] = (),
    ) -> Branches | tuple[BranchPass]:
        """The steps of an ``if``. `after`: names that the following statements assign, given only if samples can leave early."""
        if not isinstance(test, DataNode):
            return TRUE if test else FALSE
        return Branches(self, test, names, live, global_names, line, after)

    def body(self, names: tuple[str, ...], live: tuple[str, ...], global_names: tuple[str, ...], line: int) -> Body:
        """The steps of one pass through the body of a loop."""
        return Body(self, names, live, global_names, line)

    def _innermost(self) -> Open:
        innermost: Open = self.scopes.open[-1]
        return innermost

    def _above(self) -> list[Open]:
        """The open constructs of this call, innermost last."""
        opened = self.scopes.open
        return opened[opened.index(self) + 1 :]

    # --- leaving early

    def returning(self, value: object, line: int) -> bool:
        """``return value``: True if all samples return. Otherwise the value is recorded, and control goes to the end of the branch."""
        if not any(entry.symbolic or _continued(entry) for entry in self._above()):
            return True
        self._leaf(RETURN, frozen(value), line)
        return False

    def _leaf(self, kind: str, value: object, line: int, loop: object = None) -> None:
        block = self._innermost().block
        leaf = Leaf(self.scopes.current, kind, value, loop, line)
        leaf.writes = self.writes()
        block.stops_at(leaf)
        self.jumping = kind

    def writes(self) -> dict[object, object]:
        """The current values of everything that was written in the open constructs of this call."""
        found: dict[Any, Any] = {}
        for entry in (self, *self._above()):
            found.update(entry.block.log.now())
        return found

    def continuing(self, line: int) -> None:
        """``continue``: all samples, or those of the branch, leave the loop's body."""
        inside: list[Open] = []
        for entry in reversed(self._above()):
            if isinstance(entry, Body):
                if any(item.symbolic for item in inside):
                    self._leaf(CONTINUE, state_of(sys._getframe(1), entry.names, entry.global_names), line, entry)
                self.jumping = CONTINUE
                return
            inside.append(entry)
        self.jumping = CONTINUE

    def breaking(self) -> None:
        """``break``: TypeError if only some samples do it."""
        for entry in reversed(self._above()):
            if entry.symbolic or _continued(entry):
                raise unsupported("`break`", "the statement would end the loop for some samples only. Use a flag: compute a "
                                   "condition in every round of the loop, and put the rest of the round into an `if`")  # fmt: skip
            if isinstance(entry, Body):
                break
        self.jumping = BREAK

    def stops(self) -> bool:
        """After a loop's body: whether the loop ends."""
        if self.jumping == BREAK:
            self.jumping = None
            return True
        return self.jumping is not None

    # --- the end

    def leave(self, value: object = None, fell: bool = False, line: int = 0) -> object:
        """The function ends with `value` for the remaining samples. Returns the value for all samples."""
        above = self._above()
        if self.block.split_up or any(entry.block.split_up for entry in above):
            last = self.block
            for entry in above:
                assert last.fall is not None
                last.fall.then, last = entry.block.root, entry.block
                self.block.log.take(entry.block.log)
            leaf = Leaf(self.scopes.current, "falls" if fell else RETURN, value, line=line)
            leaf.writes = self.writes()
            last.stops_at(leaf)
            value = self._result()
        self._finish()
        return value

    def leave_all(self) -> object:
        """The function ends because all samples have returned."""
        value = self._result()
        self._finish()
        return value

    def _finish(self) -> None:
        del self.scopes.open[self.scopes.open.index(self) :]
        self.scopes.current = self.outer

    def _result(self) -> object:
        """The merged value of all returned values."""
        self.jumping = None
        root, log = self.block.root, self.block.log
        ends = list(leaves(root))
        fallen = [leaf for leaf in ends if leaf.kind == "falls"]
        if fallen and any(leaf.value is not None for leaf in ends if leaf.kind == RETURN):
            first = next(leaf for leaf in ends if leaf.kind == RETURN and leaf.value is not None)
            side = "else" if first.scope.side else "if"
            raise RuntimeError(
                f"inconsistent outputs: a function returns a value (line {first.line}) for some samples, and ends without one for others. "
                f"The `{side}` branch must also have a return statement, or one must follow the `if`."
            )
        log.undo()

        def merge(values: tuple[object, object], within: tuple[Scope, Scope], predicate: DataNode, home: Scope, where: object) -> object:
            return self.scopes.merge(values, within, predicate, home, "the returned value")

        found = gather(self.scopes, root, lambda leaf: True, lambda leaf: leaf.value, merge)
        assert found.all
        write_merged(self.scopes, root, lambda leaf: True, log)
        return found.value

    # --- exceptions

    def mark(self) -> int:
        """The open constructs before ``try`` and ``with``."""
        return len(self.scopes.open)

    def caught(self, mark: int) -> None:
        """An exception was caught: constructs that were opened inside are abandoned."""
        if len(self.scopes.open) > mark:
            entry = self.scopes.open[mark]
            for item in reversed(self.scopes.open[mark:]):
                item.block.log.undo()
            self.scopes.current = entry.outer
            del self.scopes.open[mark:]
            self.jumping = None

    def abandon(self) -> None:
        """An exception leaves the function."""
        if self in self.scopes.open:
            self.caught(self.scopes.open.index(self))


class _PlainCall:
    """A call of a rewritten function while no pipeline is being defined (a callback of a running pipeline): plain Python.

    Each call has its own object, because of `jumping`.
    """

    __slots__ = ("jumping",)

    def __init__(self) -> None:
        self.jumping: str | None = None

    def branches(self, test: object, *rest: object) -> tuple[BranchPass]:
        return TRUE if test else FALSE

    def body(self, *rest: object) -> _PlainBody:
        return _PlainBody(self)

    def returning(self, value: object, line: int) -> bool:
        return True

    def continuing(self, line: int) -> None:
        self.jumping = CONTINUE

    def breaking(self) -> None:
        self.jumping = BREAK

    stops = RewrittenCall.stops

    def leave(self, value: object = None, fell: bool = False, line: int = 0) -> object:
        return value

    def mark(self) -> int:
        return 0

    def caught(self, mark: int) -> None:
        self.jumping = None

    def abandon(self) -> None:
        return None


class _PlainBody:
    def __init__(self, call: _PlainCall):
        self.call = call

    def __iter__(self) -> Iterator[BranchPass]:
        yield TRUE[0]
        if self.call.jumping == CONTINUE:
            self.call.jumping = None


def _continued(entry: Open) -> bool:
    """Whether some samples wait at the end of a loop's body."""
    return isinstance(entry, Body) and any(leaf.kind == CONTINUE and leaf.loop is entry for leaf in leaves(entry.block.root))


def enter() -> object:
    """A call of a rewritten function begins."""
    scopes = conditionals.active()
    return _PlainCall() if scopes is None else RewrittenCall(scopes)
