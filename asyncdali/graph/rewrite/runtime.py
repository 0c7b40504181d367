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
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ...data_node import DataNode
from .. import conditionals
from ..conditionals import Conditionals, Scope, cut, frozen, holds_data
from .paths import Fork, Found, Joined, Leaf, continued, gather, leaves
from .writes import MISSING, Log, Place

UNDEFINED = MISSING


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


def _state(frame: Any, names: Sequence[str], global_names: Sequence[str]) -> dict[str, Any]:
    """The variables of a frame; UNDEFINED for those without a value. Containers are copied: writes in branches are undone."""
    local: Mapping[str, Any] = frame.f_locals
    found = {}
    for name in names:
        value = frame.f_globals.get(name, UNDEFINED) if name in global_names else local.get(name, UNDEFINED)
        found[name] = frozen(value)
    return found


def _check_predicate(node: DataNode, what: str) -> None:
    if node.device == "gpu":
        raise ValueError(
            f'Invalid device "gpu" for argument \'predicate\' of {what}: conditions must be on the CPU (compute them there, or use .cpu())'
        )


# ----------------------------------------------------------------------------------------------------------- things being traced


class Block:
    """Statements in a row: where they began, and the leaf that those samples wait at that go on."""

    def __init__(self, scope: Scope):
        self.scope = scope
        self.root = Leaf(scope)
        self.fall: Leaf | None = self.root
        self.log = Log()

    @property
    def split_up(self) -> bool:
        """Whether some samples have left early."""
        return self.fall is not self.root

    def stops_at(self, leaf: Leaf) -> None:
        """The samples that went on are at `leaf` and do not go on."""
        assert self.fall is not None
        self.fall.then = leaf
        self.fall = None


class Open:
    """Base of what is on the stack ``Conditionals.open``; `outer`: the scope around it."""

    symbolic = False

    def __init__(self, call: Call):
        self.call = call
        self.scopes: Conditionals = call.scopes
        self.outer = self.scopes.current
        self.block = Block(self.outer)

    def push(self) -> None:
        self.scopes.open.append(self)

    def pop(self) -> None:
        assert self.scopes.open[-1] is self, "constructs of a rewritten function are left in the order they were entered"
        self.scopes.open.pop()


class Call(Open):
    """A call of a rewritten function."""

    def __init__(self, scopes: Conditionals):
        self.scopes = scopes
        super().__init__(self)
        self.jumping: str | None = None
        self.push()

    # --- constructs

    def branches(self, test: Any, names: tuple[str, ...], live: tuple[str, ...], global_names: tuple[str, ...], line: int) -> Any:
        """The steps of an ``if``."""
        if not isinstance(test, DataNode):
            return _TRUE if test else _FALSE
        return Branches(self, test, names, live, global_names, line)

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
                    self._leaf(CONTINUE, _state(sys._getframe(1), entry.names, entry.global_names), line, entry)
                self.jumping = CONTINUE
                return
            inside.append(entry)
        self.jumping = CONTINUE

    def breaking(self) -> None:
        """``break``: TypeError when only some samples do."""
        for entry in reversed(self._above()):
            if entry.symbolic or _continued(entry):
                raise _unsupported("`break`", "it would end the loop for some samples only. Use a flag: compute a condition "
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

        def merge(values: tuple[Any, Any], within: tuple[Scope, Scope], predicate: DataNode, home: Scope) -> Any:
            return self.scopes.merge(values, within, predicate, home, "the returned value")

        found = gather(self.scopes, root, lambda leaf: True, lambda leaf: leaf.value, merge)
        assert found.all
        _write_merged(self.scopes, root, lambda leaf: True, log)
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

    def _merge_states(self, keep_same: bool) -> Callable[..., dict[str, Any]]:
        """How the variables of two leaves become one: those that are read later are merged, the others have no value."""

        def merge(states: tuple[Any, Any], within: tuple[Scope, Scope], predicate: DataNode, home: Scope) -> dict[str, Any]:
            merged = {}
            for name in self.names:
                first, second = states[0][name], states[1][name]
                if name not in self.live or (first is UNDEFINED and second is UNDEFINED):
                    merged[name] = UNDEFINED
                elif keep_same and first is second:
                    merged[name] = first
                elif first is UNDEFINED or second is UNDEFINED:
                    raise _one_sided(name, first is UNDEFINED, self.line)
                else:
                    what = f"the variable '{name}' (`if` at line {self.line})"
                    merged[name] = self.scopes.merge((first, second), within, predicate, home, what)
            return merged

        return merge


class Branches(Construct):
    """The steps of an ``if`` whose condition is a node."""

    symbolic = True

    def __init__(self, call: Call, test: DataNode, names: Any, live: Any, global_names: Any, line: int):
        _check_predicate(test, "an `if` condition")
        super().__init__(call, names, live, global_names, line)
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
            self.block.fall.value = _state(frame, self.names, self.global_names)
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
            _write_merged(self.scopes, fork, lambda leaf: True, own=self._written())
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
        leaf = self._region(fork, found)
        around.fall = leaf
        self.scopes.current = leaf.scope
        _write_merged(self.scopes, fork, lambda item: item in falls, done=falls, own=self._written())
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

        def merge(states: tuple[Any, Any], within: tuple[Scope, Scope], predicate: DataNode, home: Scope) -> dict[str, Any]:
            merged = {}
            for name in self.names:
                first, second = states[0].get(name, UNDEFINED), states[1].get(name, UNDEFINED)
                merged[name] = UNDEFINED
                if name in read and first is not UNDEFINED and second is not UNDEFINED and holds_data(first):
                    try:
                        merged[name] = self.scopes.merge((first, second), within, predicate, home, f"the variable '{name}'")
                    except (ValueError, TypeError, RuntimeError):
                        pass  # it stays apart, and is refused where it is read
            return merged

        state = gather(self.scopes, fork, lambda leaf: True, lambda leaf: leaf.value, merge).value
        for leaf in ends:
            leaf.value.update({name: value for name, value in state.items() if value is not UNDEFINED})

    def _region(self, fork: Fork, found: Found) -> Leaf:
        flag = None
        if any(leaf.kind == RETURN for leaf in leaves(fork)):
            mask = found.mask()
        else:
            flag = continued(self.scopes, fork)
            mask = self.scopes.logical_not(flag, self.outer)
        joined = Joined(self.outer, fork, mask, Leaf(found.scope), flag)
        scope = joined.regions[0]
        joined.leaf.scope = scope
        around = self.scopes.open[-1].block
        assert around.fall is not None
        around.fall.then = joined
        return joined.leaf

    def _found(self, fork: Fork, falls: list[Leaf]) -> Found:
        return gather(self.scopes, fork, lambda leaf: leaf in falls, lambda leaf: leaf.value, self._merge_states(False))

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
            fall.value = _state(frame, self.names, self.global_names)
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
        found = gather(self.scopes, root, lambda leaf: leaf in chosen, lambda leaf: leaf.value, self._merge_states(True))
        if not found.all:
            joined = Joined(self.outer, root, found.mask(), Leaf(found.scope))
            joined.leaf.scope = joined.regions[0]
            around.fall.then = joined
            around.fall = joined.leaf
            self.scopes.current = joined.leaf.scope
        self.call.jumping = None
        _write_merged(self.scopes, root, lambda leaf: leaf in chosen, self.block.log, done=chosen)
        state = found.value
        local = frame.f_locals
        return Step(False, False, tuple(
            local.get(name, UNDEFINED) if state[name] is UNDEFINED and name not in self.live else state[name] for name in self.names
        ))  # fmt: skip


def _write_merged(
    scopes: Conditionals, root: Any, chosen: Callable[[Leaf], bool], log: Log | None = None, done: Sequence[Leaf] = (), own: Any = ()
) -> None:
    """Items and attributes written in branches get their merged values; those in `own` also if they are the same in all."""
    ends = [leaf for leaf in leaves(root) if chosen(leaf)]
    places: dict[Any, Place] = {}
    for leaf in ends:
        for key, (place, _) in leaf.writes.items():
            places.setdefault(key, place)
    for key, place in places.items():
        default = log.places[key][1] if log is not None and key in log.places else place.read()

        def value(leaf: Leaf, key: Any = key, default: Any = default) -> Any:
            return leaf.writes[key][1] if key in leaf.writes else default

        every = [value(leaf) for leaf in ends]
        if all(item is every[0] for item in every) and (key not in own or not holds_data(every[0])):
            if place.read() is not every[0]:
                assign(place, every[0])
            continue

        def merge(
            values: tuple[Any, Any], within: tuple[Scope, Scope], predicate: DataNode, home: Scope, place: Place = place
        ) -> Any:
            if values[0] is MISSING or values[1] is MISSING:
                raise _one_sided(place.describe(), values[0] is MISSING, 0)
            return scopes.merge(values, within, predicate, home, place.describe())

        assign(place, gather(scopes, root, chosen, value, merge).value)
    for leaf in done:
        leaf.done = True


def _one_sided(name: str, first_missing: bool, line: int) -> RuntimeError:
    side = "if" if first_missing else "else"
    where = f" at line {line}" if line else ""
    return RuntimeError(
        f"inconsistent outputs of the `if/else`{where}, whose condition is a node: variables that are read later need a value in both "
        f"branches. Variable '{name}' must also be initialized in the `{side}` branch."
    )


# ------------------------------------------------------------------------------------------------------------------ assignments


def _logs() -> Iterator[Log]:
    """The log to write down an assignment in: that of the innermost branch, or of statements that some samples have left."""
    scopes = conditionals.active()
    if scopes is not None:
        for entry in reversed(scopes.open):
            if entry.symbolic or entry.block.split_up:
                yield entry.block.log
                return


def assign(place: Place, value: Any) -> None:
    """Write to an item or attribute, so that the branch being traced knows of it."""
    for log in _logs():
        log.note(place)
    place.write(value)


def set_item(value: Any, target: Any, key: Any) -> None:
    """``target[key] = value``"""
    for log in _logs():
        log.note(Place(target, key, False))
    target[key] = value


def set_attribute(value: Any, target: Any, name: str) -> None:
    """``target.name = value``"""
    for log in _logs():
        log.note(Place(target, name, True))
    setattr(target, name, value)


def born(value: Any) -> Any:
    """`value` was just made: if in a branch, that branch may write to it as it likes."""
    for log in _logs():
        log.born[id(value)] = value
    return value


# ------------------------------------------------------------------------------------------------------------------ expressions


class _Expression(Open):
    """``and``, ``or``, ``a if c else b`` of a node, while its operands are traced."""

    symbolic = True
    more = True
    first = True
    second = True

    def __init__(self, scopes: Conditionals, predicate: DataNode, side: bool):
        self.scopes = scopes
        self.outer = scopes.current
        self.predicate = predicate
        self.sides = cut(self.outer, predicate)
        self.enter(side)
        self.push()

    def enter(self, side: bool) -> None:
        self.scopes.current = self.sides[0 if side else 1]
        self.block = Block(self.scopes.current)

    def end_side(self, value: Any) -> Leaf:
        """An operand was traced."""
        leaf = Leaf(self.scopes.current, value=frozen(value))
        leaf.writes = self.block.log.now()
        self.block.log.undo()
        return leaf

    def close(self) -> None:
        self.pop()
        self.scopes.current = self.outer


class _Logical(_Expression):
    def __init__(self, scopes: Conditionals, left: DataNode, name: str):
        _check_predicate(left, f"`{name}`")
        self.name = name
        arguments = {"expression_name": name, "expression_side": "left"}
        checked = scopes.raw("_conditional.validate_logical", [scopes.bring(left)], arguments, scopes.current)
        super().__init__(scopes, checked, name == "and")

    def right(self, value: Any) -> Any:
        scopes, scope = self.scopes, self.scopes.current
        if isinstance(value, DataNode):
            _check_predicate(value, f"`{self.name}`")
        node = scopes.bring(scopes._as_node(value, f"the right side of `{self.name}`", scope), scope)
        arguments = {"expression_name": self.name, "expression_side": "right"}
        checked = scopes.raw("_conditional.validate_logical", [node], arguments, scope)
        leaf = self.end_side(value)
        self.close()
        values = (checked, self.predicate) if self.name == "and" else (self.predicate, checked)
        other = Leaf(self.sides[1 if self.name == "and" else 0])
        if leaf.writes:
            pair = (leaf, other) if self.name == "and" else (other, leaf)
            _write_merged(scopes, Fork(self.outer, self.predicate, self.sides, pair), lambda item: True)  # type: ignore[arg-type]
        return scopes.merge(values, self.sides, self.predicate, self.outer, f"the result of `{self.name}`")


class _Plain:
    """``and``, ``or``, ``a if c else b`` of anything else; `more` and `first` tell what is evaluated."""

    __slots__ = ("first", "left", "more", "second")

    def __init__(self, more: bool, left: Any = None):
        self.more = self.first = more
        self.second = not more
        self.left = left

    def right(self, value: Any) -> Any:
        return value

    def then(self, value: Any) -> Any:
        return value

    def end(self, first: Any, second: Any) -> Any:
        return first if self.first else second


_MORE, _OTHER = _Plain(True), _Plain(False)


def and_(left: Any) -> Any:
    """``left and ...``"""
    if isinstance(left, DataNode):
        scopes = conditionals.active()
        if scopes is not None:
            return _Logical(scopes, left, "and")
    return _MORE if left else _Plain(False, left)


def or_(left: Any) -> Any:
    """``left or ...``"""
    if isinstance(left, DataNode):
        scopes = conditionals.active()
        if scopes is not None:
            return _Logical(scopes, left, "or")
    return _Plain(False, left) if left else _MORE


def not_(value: Any) -> Any:
    """``not value``"""
    if isinstance(value, DataNode):
        scopes = conditionals.active()
        if scopes is not None:
            _check_predicate(value, "`not`")
            return scopes.logical_not(value, scopes.current)
    return not value


class _Choice(_Expression):
    def __init__(self, scopes: Conditionals, test: DataNode):
        _check_predicate(test, "the condition of `... if ... else ...`")
        super().__init__(scopes, scopes.bring(test), True)

    def then(self, value: Any) -> Any:
        leaf = self.end_side(value)
        self.enter(False)
        return leaf

    def end(self, first: Leaf, second: Any) -> Any:
        ends = (first, self.end_side(second))
        self.close()
        if first.writes or ends[1].writes:
            _write_merged(self.scopes, Fork(self.outer, self.predicate, self.sides, ends), lambda item: True)  # type: ignore[arg-type]
        values = (first.value, ends[1].value)
        return self.scopes.merge(values, self.sides, self.predicate, self.outer, "the result of `... if ... else ...`")


def choose(test: Any) -> Any:
    """``... if test else ...``"""
    if isinstance(test, DataNode):
        scopes = conditionals.active()
        if scopes is not None:
            return _Choice(scopes, test)
    return _MORE if test else _OTHER


# ----------------------------------------------------------------------------------------------------------------- other checks


def _unsupported(what: str, advice: str) -> TypeError:
    return TypeError(f'"DataNode" was used in a conditional context that cannot depend on data: {what} that depends on a node: {advice}.')


_ADVICE = {
    "while": "the graph is fixed before any data is seen, so the number of rounds must be known. Use `for` over a range with an `if` in it",
    "comprehension": "how many elements there are must be known before any data is seen. Use `a if condition else b` for the elements",
    "deep": "the function has too many `if` and `elif` inside one another. Move the inner ones into a function of their own",
    "generator": "in generators and coroutines conditions on nodes cannot be traced. Use a plain function",
}


def plain(test: Any, where: str) -> Any:
    """A condition that must not be a node; TypeError with what to do instead."""
    if isinstance(test, DataNode) and conditionals.active() is not None:
        what = {"while": "a condition of `while`", "deep": "an `if`"}.get(where, f"a condition in a {where}")
        raise _unsupported(what, _ADVICE[where])
    return test


def is_node(value: Any) -> bool:
    """Whether an assertion is about a node."""
    return isinstance(value, DataNode) and conditionals.active() is not None


def assert_node(test: DataNode, *message: Any) -> None:
    """``assert test, message``: checked for every sample of the branch when the pipeline runs."""
    from ... import operators
    from ..node import make

    _check_predicate(test, "`assert`")
    check = _Assertion(message)
    make(operators.load_registry()["python_function"].schema, [test], {"function": check, "num_outputs": 0})


class _Assertion:
    """The function of an assertion's operator."""

    def __init__(self, message: tuple[Any, ...]):
        self.message = message

    def __call__(self, value: Any) -> None:
        if value.ndim:
            raise RuntimeError(f"assertions are restricted to scalar (0-d tensors) inputs, got {value.ndim} dimensions")
        if not value:
            raise AssertionError(*self.message)


def enter() -> Any:
    """A rewritten function begins."""
    scopes = conditionals.active()
    return _PlainCall() if scopes is None else Call(scopes)
