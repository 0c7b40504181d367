"""Traces an ``if`` on a node and the body of a loop: the steps of ``runtime``, and the merging of variables."""

from __future__ import annotations

import sys
from types import FrameType
from typing import TYPE_CHECKING, Any

from ...data_node import DataNode
from ..conditionals import Scope, cut, holds_data
from .blocks import UNDEFINED, Block, Open, assign, check_predicate, merger_of, one_sided, state_of, write_merged
from .paths import Fork, Found, Joined, Leaf, Merger, continued, gather, leaves

if TYPE_CHECKING:
    from .runtime import RewrittenCall


class BranchPass:
    """One pass through a rewritten `if` or loop body: the branch, and the variables at its start (None: unchanged)."""

    __slots__ = ("false", "true", "values")

    def __init__(self, true: bool, false: bool, values: tuple[Any, ...] | None = None):
        self.true = true
        self.false = false
        self.values = values


TRUE = (BranchPass(True, False),)
FALSE = (BranchPass(False, True),)

RETURN, CONTINUE, BREAK = "return", "continue", "break"


class Construct(Open):
    """An ``if`` or a loop's body: the common part of merging variables."""

    def __init__(self, call: RewrittenCall, names: tuple[str, ...], live: tuple[str, ...], global_names: tuple[str, ...], line: int):
        super().__init__(call)
        self.names = names
        self.live = live
        self.global_names = global_names
        self.line = line

    def __iter__(self) -> Construct:
        return self

    def _merge_states(self) -> Merger:
        """Merges the variables of two leaves: variables that are read later are merged, others lose their value."""

        def merge(
            states: tuple[Any, Any], within: tuple[Scope, Scope], predicate: DataNode, home: Scope, where: Fork | Joined
        ) -> dict[str, Any]:
            merged = {}
            for name in self.names:
                first, second = states[0][name], states[1][name]
                if name not in self.live or (first is UNDEFINED and second is UNDEFINED):
                    merged[name] = UNDEFINED
                elif first is second and where.keeps(name) and self.scopes.reaches(first, home):
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

    def __init__(
        self, call: RewrittenCall, test: DataNode, names: tuple[str, ...], live: tuple[str, ...], global_names: tuple[str, ...],
        line: int, after: tuple[str, ...],
    ):  # fmt: skip
        check_predicate(test, "an `if` condition")
        super().__init__(call, names, live, global_names, line)
        self.after = after
        self.test = self.scopes.bring(test)
        self.sides = cut(self.outer, self.test)
        self.blocks: list[Block] = []
        self.before: dict[str, Any] = {}
        self.originals: tuple[Any, ...] = ()

    def __next__(self) -> BranchPass:
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
            return BranchPass(False, False, self._joined())
        raise StopIteration

    def _begin(self, side: bool) -> BranchPass:
        self.scopes.current = self.sides[0 if side else 1]
        self.block = Block(self.scopes.current)
        self.blocks.append(self.block)
        return BranchPass(side, not side, None if side else self.originals)

    def _end(self, frame: FrameType) -> None:
        """The branch has been traced."""
        self.call.jumping = None
        if self.block.fall is not None:
            self.block.fall.value = state_of(frame, self.names, self.global_names)
            self.block.fall.writes = self.call.writes()
        self.block.log.undo()

    def _joined(self) -> tuple[object, ...]:
        """Both branches have been traced: returns the variables after the `if`."""
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
        write_merged(self.scopes, fork, lambda item: item in falls, own=() if fork.met else self._written())
        joined.since = around.log.count
        for leaf in falls:
            leaf.done = joined
        return self._values(state)

    def _written(self) -> set[object]:
        """Items and attributes that the branches wrote."""
        return {key for block in self.blocks for key in block.log.places}

    def _meet(self, fork: Fork) -> None:
        """Samples that continue a loop are about to part from the others. Merge the values that can be merged for all samples, once."""
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
                kept = first is second and where.keeps(name) and self.scopes.reaches(first, home)
                merged[name] = first if kept else UNDEFINED
                if merged[name] is UNDEFINED and name in read and first is not UNDEFINED and second is not UNDEFINED and holds_data(first):
                    try:
                        merged[name] = self.scopes.merge((first, second), within, predicate, home, f"the variable '{name}'")
                    except (ValueError, TypeError, RuntimeError):
                        pass  # the variable stays unmerged; reading it raises an error
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
                continue  # the item stays unmerged
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

    def _values(self, state: dict[str, object] | None) -> tuple[object, ...]:
        """The variables after the construct. Variables that are never read are unchanged."""
        found = self.originals if state is None else tuple(
            original if state[name] is UNDEFINED and name not in self.live else state[name]
            for name, original in zip(self.names, self.originals)
        )  # fmt: skip
        return found


class Body(Construct):
    """The steps of one pass through a loop's body that may `continue`."""

    def __init__(self, call: RewrittenCall, names: tuple[str, ...], live: tuple[str, ...], global_names: tuple[str, ...], line: int):
        super().__init__(call, names, live, global_names, line)
        self.passes = 0

    def __next__(self) -> BranchPass:
        self.passes += 1
        if self.passes == 1:
            self.push()
            return TRUE[0]
        if self.passes > 2:
            raise StopIteration
        if self.call.jumping == CONTINUE:
            self.call.jumping = None
        if not self.block.split_up:
            self.pop()
            raise StopIteration
        return self._join(sys._getframe(1))

    def _join(self, frame: FrameType) -> BranchPass:
        fall = self.block.fall
        if fall is not None:
            fall.value = state_of(frame, self.names, self.global_names)
            fall.writes = self.call.writes()
        chosen = [leaf for leaf in leaves(self.block.root) if leaf is fall or (leaf.kind == CONTINUE and leaf.loop is self)]
        self.pop()
        around = self.scopes.open[-1].block
        assert around.fall is not None
        root = self.block.root
        if chosen in ([], [fall]):  # some or all samples have returned, so there is nothing to join
            around.log.take(self.block.log)
            around.fall.then, around.fall = root, fall
            return BranchPass(False, False, None)
        self.block.log.undo()
        self.scopes.current = self.outer
        found = gather(self.scopes, root, lambda leaf: leaf in chosen, lambda leaf: leaf.value, self._merge_states())
        joined: Joined | bool = True
        if not found.all:
            joined = Joined(self.outer, root, found.mask(), Leaf(found.scope), around.log)
            joined.leaf.scope = joined.regions[0]
            around.fall.then = joined
            around.fall = joined.leaf
            self.scopes.current = joined.leaf.scope
        self.call.jumping = None
        write_merged(self.scopes, root, lambda leaf: leaf in chosen, self.block.log)
        for leaf in chosen:
            leaf.done = joined
        state = found.value
        local = frame.f_locals
        return BranchPass(False, False, tuple(
            local.get(name, UNDEFINED) if state[name] is UNDEFINED and name not in self.live else state[name] for name in self.names
        ))  # fmt: skip
