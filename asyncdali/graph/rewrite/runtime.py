"""What rewritten functions call. The transformation (``transform``) keeps a function's statements where they are:

    if c:            for k in f.branches(c, names, live, line):
        A                if k.values is not None: a, b = k.values       # variables, before a branch and after the last
    else:       ->       if k.true: A
        B                elif k.false: B
                     if f.jumping: ...                                  # where A or B can leave early

For a plain condition ``branches`` gives one constant and nothing else happens. For a node it gives three steps: both branches, each with
the variables as they were and in its own scope, and a last one with the merged variables. ``return`` in such a branch is put down and
control goes on to the next step.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from ...data_node import DataNode
from .. import conditionals
from ..conditionals import Conditionals, Scope, cut, frozen, holds_data
from .blocks import UNDEFINED, Block, Open, assign, check_predicate, merger_of, one_sided, state_of, unsupported, write_merged
from .paths import Fork, Found, Joined, Leaf, Merger, continued, gather, leaves


class Step:
    """One pass through a rewritten `if` or loop body: which branch to take, and the variables to begin with (None: as they are)."""

    __slots__ = ("false", "true", "values")

    def __init__(self, true: bool, false: bool, values: tuple[Any, ...] | None = None):
        self.true = true
        self.false = false
        self.values = values


_TRUE = (Step(True, False),)
_FALSE = (Step(False, True),)

RETURN, CONTINUE, BREAK = "return", "continue", "break"


class Call(Open):
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
    ) -> Any:
        """The steps of an ``if``. `after`: what the statements behind it assign; told where samples can leave early."""
        if not isinstance(test, DataNode):
            return _TRUE if test else _FALSE
        return Branches(self, test, names, live, global_names, line, after)

    def body(self, names: tuple[str, ...], live: tuple[str, ...], global_names: tuple[str, ...], line: int) -> Any:
        """The steps of one pass through the body of a loop."""
        return Body(self, names, live, global_names, line)

    def _innermost(self) -> Open:
        return self.scopes.open[-1]

    def _above(self) -> list[Open]:
        """What is open inside this call, innermost last."""
        opened = self.scopes.open
        return opened[opened.index(self) + 1 :]

    # --- leaving early

    def returning(self, value: Any, line: int) -> bool:
        """``return value``: True when all samples do; otherwise it is put down, and control goes to the end of the branch."""
        if not any(entry.symbolic or _continued(entry) for entry in self._above()):
            return True
        self._leaf(RETURN, frozen(value), line)
        return False

    def _leaf(self, kind: str, value: Any, line: int, loop: Any = None) -> None:
        block = self._innermost().block
        leaf = Leaf(self.scopes.current, kind, value, loop, line)
        leaf.writes = self.writes()
        block.stops_at(leaf)
        self.jumping = kind

    def writes(self) -> dict[Any, Any]:
        """Everything that was written in what is open inside this call, as it is now."""
        found: dict[Any, Any] = {}
        for entry in (self, *self._above()):
            found.update(entry.block.log.now())
        return found

    def continuing(self, line: int) -> None:
        """``continue``: the loop's body is left, by all samples or by those of the branch."""
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
        """``break``: TypeError when only some samples do."""
        for entry in reversed(self._above()):
            if entry.symbolic or _continued(entry):
                raise unsupported("`break`", "it would end the loop for some samples only. Use a flag: compute a condition "
                                   "for every round of the loop and put what depends on it into an `if`")  # fmt: skip
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

    def leave(self, value: Any = None, fell: bool = False, line: int = 0) -> Any:
        """The function ends with `value` for the samples that are still here; returns the value for all."""
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

    def leave_all(self) -> Any:
        """The function ends: all samples have returned."""
        value = self._result()
        self._finish()
        return value

    def _finish(self) -> None:
        del self.scopes.open[self.scopes.open.index(self) :]
        self.scopes.current = self.outer

    def _result(self) -> Any:
        """The merged value of all that was returned."""
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

        def merge(values: tuple[Any, Any], within: tuple[Scope, Scope], predicate: DataNode, home: Scope, where: Any) -> Any:
            return self.scopes.merge(values, within, predicate, home, "the returned value")

        found = gather(self.scopes, root, lambda leaf: True, lambda leaf: leaf.value, merge)
        assert found.all
        write_merged(self.scopes, root, lambda leaf: True, log)
        return found.value

    # --- exceptions

    def mark(self) -> int:
        """Before ``try`` and ``with``: what is open."""
        return len(self.scopes.open)

    def caught(self, mark: int) -> None:
        """An exception was caught: what was open inside is abandoned."""
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
    """A call of a rewritten function while no pipeline is defined (a callback that runs in the pipeline): plain Python.

    One object serves one call: `jumping` is its own.
    """

    __slots__ = ("jumping",)

    def __init__(self) -> None:
        self.jumping: str | None = None

    def branches(self, test: Any, *rest: Any) -> Any:
        return _TRUE if test else _FALSE

    def body(self, *rest: Any) -> Any:
        return _PlainBody(self)

    def returning(self, value: Any, line: int) -> bool:
        return True

    def continuing(self, line: int) -> None:
        self.jumping = CONTINUE

    def breaking(self) -> None:
        self.jumping = BREAK

    stops = Call.stops

    def leave(self, value: Any = None, fell: bool = False, line: int = 0) -> Any:
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

    def __iter__(self) -> Iterator[Step]:
        yield _TRUE[0]
        if self.call.jumping == CONTINUE:
            self.call.jumping = None


def _continued(entry: Open) -> bool:
    """Whether some samples wait at the end of a loop's body."""
    return isinstance(entry, Body) and any(leaf.kind == CONTINUE and leaf.loop is entry for leaf in leaves(entry.block.root))


class Construct(Open):
    """An ``if`` or a loop's body: what is common to merging their variables."""

    def __init__(self, call: Call, names: tuple[str, ...], live: tuple[str, ...], global_names: tuple[str, ...], line: int):
        super().__init__(call)
        self.names = names
        self.live = live
        self.global_names = global_names
        self.line = line

    def __iter__(self) -> Construct:
        return self

    def _merge_states(self) -> Merger:
        """How the variables of two leaves become one: those that are read later are merged, the others have no value."""

        def merge(
            states: tuple[Any, Any], within: tuple[Scope, Scope], predicate: DataNode, home: Scope, where: Fork | Joined
        ) -> dict[str, Any]:
            merged = {}
            for name in self.names:
                first, second = states[0][name], states[1][name]
                if name not in self.live or (first is UNDEFINED and second is UNDEFINED):
                    merged[name] = UNDEFINED
                elif first is second and where.keeps(name):
                    merged[name] = first
                elif first is UNDEFINED or second is UNDEFINED:
                    raise one_sided(name, first is UNDEFINED, self.line)
                else:
                    what = f"the variable '{name}' (`if` at line {self.line})"
                    merged[name] = self.scopes.merge((first, second), within, predicate, home, what)
            return merged

        return merge


class Branches(Construct):
    """The steps of an ``if`` whose condition is a node."""

    symbolic = True

    def __init__(self, call: Call, test: DataNode, names: Any, live: Any, global_names: Any, line: int, after: tuple[str, ...]):
        check_predicate(test, "an `if` condition")
        super().__init__(call, names, live, global_names, line)
        self.after = after
        self.test = self.scopes.bring(test)
        self.sides = cut(self.outer, self.test)
        self.blocks: list[Block] = []
        self.before: dict[str, Any] = {}
        self.originals: tuple[Any, ...] = ()

    def __next__(self) -> Step:
        frame = sys._getframe(1)
        if not self.blocks:
            local, names = frame.f_locals, self.names
            self.originals = tuple(
                frame.f_globals.get(name, UNDEFINED) if name in self.global_names else local.get(name, UNDEFINED) for name in names
            )
            self.push()
            return self._begin(True)
        if len(self.blocks) <= 2 and self.block is self.blocks[-1]:
            self._end(frame)
            if len(self.blocks) == 1:
                return self._begin(False)
            return Step(False, False, self._joined())
        raise StopIteration

    def _begin(self, side: bool) -> Step:
        self.scopes.current = self.sides[0 if side else 1]
        self.block = Block(self.scopes.current)
        self.blocks.append(self.block)
        return Step(side, not side, None if side else self.originals)

    def _end(self, frame: Any) -> None:
        """The branch was traced."""
        self.call.jumping = None
        if self.block.fall is not None:
            self.block.fall.value = state_of(frame, self.names, self.global_names)
            self.block.fall.writes = self.call.writes()
        self.block.log.undo()

    def _joined(self) -> tuple[Any, ...]:
        """Both branches were traced: the variables after the `if`."""
        self.pop()
        self.block = Block(self.outer)  # marks the end
        self.scopes.current = self.outer
        around = self.scopes.open[-1].block
        fork = Fork(self.outer, self.test, self.sides, (self.blocks[0].root, self.blocks[1].root))
        falls = [block.fall for block in self.blocks if block.fall is not None]
        if not any(block.split_up for block in self.blocks):
            state = self._found(fork, falls).value
            write_merged(self.scopes, fork, lambda leaf: True, own=self._written())
            return self._values(state)
        assert around.fall is not None
        around.fall.then = fork
        if not falls:
            around.fall = None
            self.call.jumping = RETURN if all(leaf.kind == RETURN for leaf in leaves(fork)) else CONTINUE
            return self._values(None)
        if len(falls) == 1 and not any(leaf.kind == CONTINUE for leaf in leaves(fork)):
            around.fall = falls[0]
            self.scopes.current = falls[0].scope
            state = falls[0].value
            for place, value in falls[0].writes.values():
                assign(place, value)
            return self._values({name: state[name] for name in self.names})
        self._meet(fork)
        found = self._found(fork, falls)
        state = found.value
        joined = self._region(fork, found)
        around.fall = joined.leaf
        self.scopes.current = joined.leaf.scope
        write_merged(self.scopes, fork, lambda item: item in falls, done=falls, own=() if fork.met else self._written())
        joined.since = around.log.count
        return self._values(state)

    def _written(self) -> set[Any]:
        """Places that the branches wrote to."""
        return {key for block in self.blocks for key in block.log.places}

    def _meet(self, fork: Fork) -> None:
        """Before samples that continue a loop part from the others: what can be merged for all of them is merged once, here."""
        ends = list(leaves(fork))
        if any(leaf.kind == RETURN for leaf in ends):
            return
        read = {*self.live, *(name for leaf in ends if leaf.loop is not None for name in leaf.loop.live)}

        def merge(
            states: tuple[Any, Any], within: tuple[Scope, Scope], predicate: DataNode, home: Scope, where: Fork | Joined
        ) -> dict[str, Any]:
            merged = {}
            for name in self.names:
                first, second = states[0].get(name, UNDEFINED), states[1].get(name, UNDEFINED)
                merged[name] = first if first is second and where.keeps(name) else UNDEFINED
                if merged[name] is UNDEFINED and name in read and first is not UNDEFINED and second is not UNDEFINED and holds_data(first):
                    try:
                        merged[name] = self.scopes.merge((first, second), within, predicate, home, f"the variable '{name}'")
                    except (ValueError, TypeError, RuntimeError):
                        pass  # it stays apart, and is refused where it is read
            return merged

        state = gather(self.scopes, fork, lambda leaf: True, lambda leaf: leaf.value, merge).value
        for leaf in ends:
            leaf.value.update({name: value for name, value in state.items() if value is not UNDEFINED})
        self._meet_places(fork, ends)
        fork.met = True

    def _meet_places(self, fork: Fork, ends: list[Leaf]) -> None:
        """The same for items and attributes."""
        written = {key: place for leaf in ends for key, (place, _) in leaf.writes.items() if key in self._written()}
        for key, place in written.items():
            every = [leaf.writes[key][1] if key in leaf.writes else place.read() for leaf in ends]
            if not all(holds_data(value) for value in every):
                continue
            values = {id(leaf): value for leaf, value in zip(ends, every)}
            value_at = lambda leaf, values=values: values[id(leaf)]  # noqa: E731
            try:
                value = gather(self.scopes, fork, lambda leaf: True, value_at, merger_of(self.scopes, place)).value
            except (ValueError, TypeError, RuntimeError):
                continue  # it stays apart
            for leaf in ends:
                leaf.writes[key] = (place, value)

    def _region(self, fork: Fork, found: Found) -> Joined:
        around = self.scopes.open[-1].block
        assert around.fall is not None
        flag = None
        if any(leaf.kind == RETURN for leaf in leaves(fork)):
            mask = found.mask()
        else:
            flag = continued(self.scopes, fork)
            mask = self.scopes.logical_not(flag, self.outer)
        joined = Joined(self.outer, fork, mask, Leaf(found.scope), around.log, flag, self.after)
        scope = joined.regions[0]
        joined.leaf.scope = scope
        around.fall.then = joined
        return joined

    def _found(self, fork: Fork, falls: list[Leaf]) -> Found:
        return gather(self.scopes, fork, lambda leaf: leaf in falls, lambda leaf: leaf.value, self._merge_states())

    def _values(self, state: dict[str, Any] | None) -> tuple[Any, ...]:
        """Variables to go on with; those that nobody reads are as they were."""
        found = self.originals if state is None else tuple(
            original if state[name] is UNDEFINED and name not in self.live else state[name]
            for name, original in zip(self.names, self.originals)
        )  # fmt: skip
        return found


class Body(Construct):
    """The steps of one pass through a loop's body that may `continue`."""

    def __init__(self, call: Call, names: Any, live: Any, global_names: Any, line: int):
        super().__init__(call, names, live, global_names, line)
        self.passes = 0

    def __next__(self) -> Step:
        self.passes += 1
        if self.passes == 1:
            self.push()
            return _TRUE[0]
        if self.passes > 2:
            raise StopIteration
        if self.call.jumping == CONTINUE:
            self.call.jumping = None
        if not self.block.split_up:
            self.pop()
            raise StopIteration
        return self._join(sys._getframe(1))

    def _join(self, frame: Any) -> Step:
        fall = self.block.fall
        if fall is not None:
            fall.value = state_of(frame, self.names, self.global_names)
            fall.writes = self.call.writes()
        chosen = [leaf for leaf in leaves(self.block.root) if leaf is fall or (leaf.kind == CONTINUE and leaf.loop is self)]
        self.pop()
        around = self.scopes.open[-1].block
        assert around.fall is not None
        root = self.block.root
        if chosen in ([], [fall]):  # some or all samples have returned; there is nothing to join
            around.log.take(self.block.log)
            around.fall.then, around.fall = root, fall
            return Step(False, False, None)
        self.block.log.undo()
        self.scopes.current = self.outer
        found = gather(self.scopes, root, lambda leaf: leaf in chosen, lambda leaf: leaf.value, self._merge_states())
        if not found.all:
            joined = Joined(self.outer, root, found.mask(), Leaf(found.scope), around.log)
            joined.leaf.scope = joined.regions[0]
            around.fall.then = joined
            around.fall = joined.leaf
            self.scopes.current = joined.leaf.scope
        self.call.jumping = None
        write_merged(self.scopes, root, lambda leaf: leaf in chosen, self.block.log, done=chosen)
        state = found.value
        local = frame.f_locals
        return Step(False, False, tuple(
            local.get(name, UNDEFINED) if state[name] is UNDEFINED and name not in self.live else state[name] for name in self.names
        ))  # fmt: skip


def enter() -> Any:
    """A rewritten function begins."""
    scopes = conditionals.active()
    return _PlainCall() if scopes is None else Call(scopes)
