"""Samples that leave a block early: a tree of conditions with `return`, `continue` and "falls" (continues) at its leaves.

If one branch of a node's `if` returns (or continues a loop) and the other does not, the following statements are traced for the remaining
samples only. The values of the others are stored here until the end of the function or of the loop's body.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from typing import Any

from ...data_node import DataNode
from ..conditionals import Conditionals, Scope, cut
from .writes import Log


class Leaf:
    """Samples that arrive at one place together. `kind`: "falls" (they continue), "return", or "continue" (of `loop`)."""

    def __init__(self, scope: Scope, kind: str = "falls", value: Any = None, loop: Any = None, line: int = 0):
        self.scope = scope
        self.kind = kind
        self.value = value
        self.loop = loop
        self.line = line
        self.writes: dict[Any, Any] = {}
        """Writes of these samples to objects that are known outside (see ``writes``)."""
        self.then: Tree | None = None
        """The later outcome of samples that continued."""
        self.done: Joined | bool = False
        """Where the samples were joined with others again; True: all samples of the block are together."""


Shares = dict[frozenset[int], tuple[Any, Scope]]
"""Masks and scopes of samples at some leaves, by the leaves' ids. Variables and items are gathered into the same scope."""


class Fork:
    """A condition in a scope: the paths of the samples for which it is true (``regions[0]``), and of the others.

    `met`: values assigned on both sides were merged after tracing them; from then on leaves hold the merged values.
    """

    def __init__(self, scope: Scope, predicate: DataNode, regions: tuple[Scope, Scope], sides: tuple[Tree, Tree]):
        self.scope = scope
        self.predicate = predicate
        self.regions = regions
        self.sides = sides
        self.met = False
        self.shares: Shares = {}

    def keeps(self, what: object) -> bool:
        """Whether a variable (by name) or place (by identity) with equal values on both sides is not merged (again)."""
        return self.met


class Joined:
    """Leaves of `inner` were joined: samples with `mask` are at `leaf`, the others at the remaining leaves.

    `flag`: the opposite of `mask`, if it tells whether samples wait at a ``continue``. `assigned`: variables that the following statements
    of the block assign. The block's `log` has their items and attributes (entries from number `since` on).
    """

    def __init__(
        self, scope: Scope, inner: Tree, mask: DataNode, leaf: Leaf, log: Log, flag: DataNode | None = None, assigned: Container[str] = ()
    ):
        self.flag = flag
        self.assigned = assigned
        self.shares: Shares = {}
        self.log = log
        self.since = log.count
        self.scope = scope
        self.inner = inner
        self.mask = mask
        self.regions = cut(scope, mask)
        self.regions[0].twin = leaf.scope
        self.leaf = leaf

    def keeps(self, what: object) -> bool:
        """Like `Fork.keeps`.

        DALI merges every variable that is assigned in statements which some samples skip, even if the value is the same.
        """
        return what not in self.assigned and self.log.last.get(what, -1) < self.since


Tree = Leaf | Fork | Joined
Merger = Callable[[tuple[Any, Any], tuple[Scope, Scope], DataNode, Scope, Fork | Joined], Any]
"""``merge(values, their scopes, predicate, scope of the result, where)``."""


class Found:
    """The result of `gather`: nothing, a value for all samples, or a value for those with a mask. `scope` is the value's."""

    def __init__(self, share: Any, value: Any = None, scope: Scope | None = None):
        self._share = share
        self.value = value
        self._scope = scope

    @property
    def none(self) -> bool:
        return self._share is False

    @property
    def all(self) -> bool:
        return self._share is True

    @property
    def scope(self) -> Scope:
        assert self._scope is not None
        return self._scope

    def mask(self) -> Any:
        """True, False or a BOOL node, made at first use."""
        if callable(self._share):
            self._share = self._share()
        return self._share


def leaves(tree: Tree) -> Iterator[Leaf]:
    """All leaves at which samples still wait."""
    if isinstance(tree, Fork):
        for side in tree.sides:
            yield from leaves(side)
    elif isinstance(tree, Joined):
        yield from leaves(tree.leaf)
        yield from leaves(tree.inner)
    elif tree.then is not None:
        yield from leaves(tree.then)
    elif not tree.done:
        yield tree


def _parts(tree: Tree) -> Iterator[Leaf | Joined]:
    """All elements of a tree: leaves, also finished ones, and joins."""
    if isinstance(tree, Fork):
        for side in tree.sides:
            yield from _parts(side)
    elif isinstance(tree, Joined):
        yield tree
        yield from _parts(tree.leaf)
        yield from _parts(tree.inner)
    elif tree.then is not None:
        yield from _parts(tree.then)
    else:
        yield tree


def _rest_chosen(tree: Joined, chosen: Callable[[Leaf], bool]) -> bool:
    """Whether every sample of `tree.inner` outside of `tree.leaf` is chosen. Samples that were joined further out are not included."""
    parts = list(_parts(tree.inner))
    inside = {id(part) for part in (tree, *parts)}
    return all(id(leaf.done) in inside if leaf.done else chosen(leaf) for leaf in parts if isinstance(leaf, Leaf))


def kept(tree: Tree, what: object) -> bool:
    """Whether a variable or place with equal values at all leaves needs no merging; see ``Fork.keeps``."""
    if isinstance(tree, Leaf):
        return tree.then is None or kept(tree.then, what)
    if isinstance(tree, Fork):
        return all(kept(side, what) for side in tree.sides)
    return tree.keeps(what) and kept(tree.leaf, what) and kept(tree.inner, what)


def gather(scopes: Conditionals, tree: Tree, chosen: Callable[[Leaf], bool], value: Callable[[Leaf], Any], merge: Merger) -> Found:
    """The values of the chosen leaves, merged in sample order."""
    if isinstance(tree, Leaf):
        if tree.then is not None:
            return gather(scopes, tree.then, chosen, value, merge)
        return Found(True, value(tree), tree.scope) if not tree.done and chosen(tree) else Found(False)
    if isinstance(tree, Fork):
        true, false = (gather(scopes, side, chosen, value, merge) for side in tree.sides)
        return _combined(scopes, tree, tree.predicate, true, false, merge, _ids(tree, chosen))
    joined = gather(scopes, tree.leaf, chosen, value, merge)
    inner = gather(scopes, tree.inner, chosen, value, merge)
    if not inner.none:
        if _rest_chosen(tree, chosen):
            inner = Found(True, inner.value, inner.scope)
        else:
            share, others = inner.mask, tree.regions[1]
            inner = Found(lambda: scopes.bring(share(), others), inner.value, inner.scope)
    return _combined(scopes, tree, tree.mask, joined, inner, merge, _ids(tree, chosen))


def _ids(tree: Tree, chosen: Callable[[Leaf], bool]) -> frozenset[int]:
    return frozenset(id(leaf) for leaf in leaves(tree) if chosen(leaf))


def continued(scopes: Conditionals, tree: Tree) -> Any:
    """Whether samples wait at a ``continue``: True, False or a node.

    It is merged level by level from constants, as if the program had a variable for it. Seeds are assigned in graph order, and this order
    is DALI's.
    """
    if isinstance(tree, Leaf):
        return continued(scopes, tree.then) if tree.then is not None else tree.kind == "continue"
    if isinstance(tree, Fork):
        sides: tuple[Any, Any] = (continued(scopes, tree.sides[0]), continued(scopes, tree.sides[1]))
        return scopes.merge(sides, tree.regions, tree.predicate, tree.scope, "a condition")
    if tree.leaf.then is None:
        return tree.flag
    sides = (continued(scopes, tree.leaf), tree.flag)
    return scopes.merge(sides, tree.regions, tree.mask, tree.scope, "a condition")


def _combined(
    scopes: Conditionals, tree: Fork | Joined, predicate: DataNode, true: Found, false: Found, merge: Merger, ends: frozenset[int]
) -> Found:
    """Merge the results of the two sides of a condition, at the leaves `ends`."""
    if true.none and false.none:
        return Found(False)
    if true.all and false.all:
        return Found(True, merge((true.value, false.value), (true.scope, false.scope), predicate, tree.scope, tree), tree.scope)
    if true.none or false.none:
        found = false if true.none else true
        return Found(lambda: _mask(scopes, tree, predicate, true, false), found.value, found.scope)
    if ends not in tree.shares:
        share = _mask(scopes, tree, predicate, true, false)
        tree.shares[ends] = share, cut(tree.scope, share)[0]
    mask, region = tree.shares[ends]
    value = merge((true.value, false.value), (true.scope, false.scope), scopes.bring(predicate, region), region, tree)
    return Found(mask, value, region)


def _mask(scopes: Conditionals, tree: Fork | Joined, predicate: DataNode, true: Found, false: Found) -> DataNode:
    """Whether something was found for each sample of the tree."""
    if true.none and false.all:
        return scopes.logical_not(predicate, tree.scope)
    if true.all and false.none:
        return scopes.logical_not(scopes.logical_not(predicate, tree.scope), tree.scope)
    mask: DataNode = scopes.merge((true.mask(), false.mask()), tree.regions, predicate, tree.scope, "a condition")
    return mask
