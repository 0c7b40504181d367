"""Scopes: which samples of the batch a node has, while all branches of a condition are traced.

The whole batch is the root scope. A condition divides a scope in two; a choice by index (``choose``) divides it into one scope per choice.
A node belongs to the scope in which it was made. If a deeper scope uses the node, the node is split (once per node and scope). If any other
scope uses it, the node has escaped from its branch, which is an error. Operators without inputs (draws, readers, sources, constants) always
run for the whole batch; their results are split where they are used.

`Conditionals` belongs to one pipeline definition (``Definition.scopes``). ``graph.node`` calls it for every new operator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..data_node import DataNode
from ..errors import OperatorTypeError, OperatorValueError
from ..types import ScalarConstant
from . import context
from . import node as nodes

if TYPE_CHECKING:
    from ..operators.base import Schema

SCOPE_ARGUMENT = "_scope"
"""Argument input of operators without inputs in a branch, if their result depends on the batch size. It is any node of the branch."""

SPLIT, MERGE = "_conditional.split", "_conditional.merge"
SPLIT_BY_INDEX, MERGE_BY_INDEX = "_conditional.split_by_index", "_conditional.merge_by_index"
"""Names of the operators that split batches and merge them."""


class Scope:
    """A part of the batch: the samples of `parent` that `predicate` sends to part number `place`; see `cut` and `cut_by_index`.

    For a condition, place 0 is where it is true and place 1 where it is false. `parts` are the scopes of all places. `twin` is another
    scope with the same samples, made by other splits: nodes of either can be used in both.
    """

    __slots__ = ("parent", "parts", "place", "predicate", "split", "splits", "twin")

    def __init__(self, parent: Scope | None = None, predicate: DataNode | None = None, place: int = 0, split: str = SPLIT):
        self.parent = parent
        self.predicate = predicate
        self.place = place
        self.split = split
        self.twin: Scope | None = None
        self.parts: tuple[Scope, ...] = (self,)
        self.splits: dict[tuple[Any, int, str], list[DataNode]] = {}
        """By operator, output and device of the split node."""

    @property
    def side(self) -> bool:
        """Whether this is the true part of a condition."""
        return self.place == 0

    def way_from(self, outer: Scope) -> list[Scope] | None:
        """The scopes on the way from `outer` to this one; None if `outer` does not contain it."""
        if self is outer:
            return []
        if self.parent is None:
            return None
        way = self.parent.way_from(outer)
        if way is not None:
            return [*way, self]
        return None if self.twin is None else self.twin.way_from(outer)

    def top(self) -> Scope:
        """The whole batch."""
        return self if self.parent is None else self.parent.top()


def cut(parent: Scope, predicate: DataNode) -> tuple[Scope, Scope]:
    """The samples of `parent` for which a node is true, and the others. Both scopes share their splits."""
    true, false = _parts(parent, predicate, 2, SPLIT)
    return true, false


def cut_by_index(parent: Scope, index: DataNode, count: int) -> tuple[Scope, ...]:
    """The samples of `parent` for which a node is 0, 1, ... `count` - 1."""
    return _parts(parent, index, count, SPLIT_BY_INDEX)


def _parts(parent: Scope, predicate: DataNode, count: int, split: str) -> tuple[Scope, ...]:
    parts = tuple(Scope(parent, predicate, place, split) for place in range(count))
    for part in parts:
        part.parts, part.splits = parts, parts[0].splits
    return parts


class _Meeting(NamedTuple):
    """A place where values of several scopes become one."""

    operator: str
    scopes: tuple[Scope, ...]
    predicate: DataNode
    home: Scope


class Conditionals:
    """The scopes of one pipeline definition."""

    def __init__(self) -> None:
        self.root = Scope()
        self.current = self.root
        self.open: list[Any] = []
        """The constructs that are being traced: calls, branches, loop bodies (see ``graph.rewrite.runtime``)."""
        self._home: Scope | None = None

    # --- used by graph.node

    def entered(self, schema: Schema, inputs: list[DataNode], arguments: dict[str, DataNode]) -> tuple[list[DataNode], dict[str, DataNode]]:
        """The inputs of a new operator in the current scope."""
        if self._home is not None:
            return inputs, arguments
        if not inputs and not arguments and schema.looks_across and self.current is not self.root:
            return inputs, {SCOPE_ARGUMENT: self._any_node()}
        return [self.bring(node) for node in inputs], {name: self.bring(node) for name, node in arguments.items()}

    def made(self, instance: nodes.OperatorInstance) -> None:
        """Set the home of a new operator's outputs: where they may be used, and whose samples they have."""
        home = self._home or self.current
        batch = home if instance.inputs or instance.argument_inputs else self.root
        instance.homes = [(home, batch)] * len(instance.outputs)

    def _any_node(self) -> DataNode:
        predicate = self.current.predicate
        assert predicate is not None and self.current.parent is not None
        return self.bring(predicate)

    # --- nodes in scopes

    def homes_of(self, node: DataNode) -> tuple[Scope, Scope]:
        """The scope in which a node may be used, and the scope whose samples it has."""
        homes = node.source.homes
        if homes is None:
            return self.root, self.root
        valid, batch = homes[node.index]
        if valid.top() is self.root:
            return valid, batch
        if valid.parent is None:
            return self.root, self.root  # made in another definition, outside its branches
        raise _escaped(node, "another pipeline's branch")

    def reaches(self, value: object, scope: Scope) -> bool:
        """Whether all nodes in a value may be used in `scope`."""
        if isinstance(value, dict):
            return all(self.reaches(item, scope) for item in value.values())
        if isinstance(value, (list, tuple)):
            return all(self.reaches(item, scope) for item in value)
        return not isinstance(value, DataNode) or scope.way_from(self.homes_of(value)[0]) is not None

    def bring(self, node: DataNode, scope: Scope | None = None) -> DataNode:
        """The samples of `scope` (the current one) of a node. RuntimeError if the node was made in a branch that does not enclose it."""
        scope = scope or self.current
        valid, batch = self.homes_of(node)
        if valid is not scope and scope.way_from(valid) is None:
            raise _escaped(node, "a branch")
        if batch is scope:
            return node
        way = scope.way_from(batch)
        assert way is not None
        for step in way:
            node = self._split(node, step)
        return node

    def _split(self, node: DataNode, scope: Scope) -> DataNode:
        key = (node.source, node.index, node.device)
        split = scope.splits.get(key)
        if split is None:
            parent, predicate = scope.parent, scope.predicate
            assert parent is not None and predicate is not None
            arguments: dict[str, Any] = {"predicate": self.bring(predicate, parent)}
            if scope.split == SPLIT_BY_INDEX:
                arguments["count"] = len(scope.parts)
            split = self.raw(scope.split, [node], arguments, parent)
            split[0].source.homes = [(part, part) for part in scope.parts]
            scope.splits[key] = split
            for part in split:
                part.ndim, part.dtype, part.layout = node.ndim, node.dtype, node.layout
        return split[scope.place]

    def raw(self, name: str, inputs: list[Any], arguments: dict[str, Any], home: Scope) -> Any:
        """An operator of the machinery itself: its inputs are not split, and its outputs belong to `home`."""
        from ..operators.base import REGISTRY

        previous, self._home = self._home, home
        try:
            return nodes.make(REGISTRY[name].schema, inputs, arguments)
        finally:
            self._home = previous

    def logical_not(self, node: DataNode, home: Scope) -> DataNode:
        """Whether a number is zero."""
        opposite: DataNode = self.raw("_conditional.not_", [self.bring(node, home)], {}, home)
        return opposite

    @contextmanager
    def within(self, scope: Scope) -> Iterator[None]:
        """Operators made inside the block belong to `scope`."""
        previous, self.current = self.current, scope
        try:
            yield
        finally:
            self.current = previous

    # --- merging

    def merge(self, values: tuple[Any, Any], scopes: tuple[Scope, Scope], predicate: DataNode, home: Scope, what: str) -> Any:
        """`values[0]` where `predicate` is true, otherwise `values[1]`: nodes, numbers, arrays, and tuples, lists and dicts of them.

        ValueError if the structures differ ("Divergent data found"), TypeError for values that cannot be data. `what` names the value.
        """
        first, second = values
        if _shape_of(first) != _shape_of(second):
            raise OperatorValueError(
                f"Divergent data found in different branches of `if/else`: {what} does not have the same nesting structure in both. "
                f"Tuples, lists and dictionaries must have the same lengths and keys in both branches, and None must be None in both; "
                f"here it is {_describe(first)} where the condition is true and {_describe(second)} where it is not."
            )
        return self._merged(values, _Meeting(MERGE, scopes, predicate, home), what)

    def _merged(self, values: Sequence[Any], at: _Meeting, what: str) -> Any:
        first = values[0]
        if first is None:
            return None
        if isinstance(first, dict):
            return _like(first, {key: self._merged([value[key] for value in values], at, f"{what}[{key!r}]") for key in first})
        if isinstance(first, (list, tuple)):
            columns = enumerate(zip(*values, strict=True))
            return _like(first, [self._merged(column, at, f"{what}[{k}]") for k, column in columns])
        if not any(map(is_data, values)) and all(first is other or (isinstance(first, str) and first == other) for other in values):
            return first
        parts = [self.bring(self._as_node(value, what, scope), scope) for value, scope in zip(values, at.scopes)]
        merged = self.raw(at.operator, parts, {"predicate": self.bring(at.predicate, at.home)}, at.home)
        for name in ("ndim", "dtype", "layout"):
            known = {getattr(part, name) for part in parts}
            if len(known) == 1:
                setattr(merged, name, known.pop())
        return merged

    # --- choices by index

    def choose(self, index: DataNode, count: int, traced: Callable[[int], Any], what: str) -> Any:
        """``traced(k)`` for the samples whose `index` is k, from 0 to `count` - 1. Other values take the first or the last.

        `traced` is called once per k, in order. Its results are merged like the values of a variable, see `merge`.
        """
        home = self.current
        index = self.bring(index)
        scopes = cut_by_index(home, index, count)
        values = []
        for place, scope in enumerate(scopes):
            with self.within(scope):
                values.append(traced(place))
        for place, value in enumerate(values):
            if _shape_of(value) != _shape_of(values[0]):
                raise OperatorValueError(
                    f"Divergent data found: {what} does not have the same nesting structure in all choices; it is "
                    f"{_describe(values[0])} in choice 0 and {_describe(value)} in choice {place}."
                )
        return self._merged(values, _Meeting(MERGE_BY_INDEX, scopes, index, home), what)

    def _as_node(self, value: object, what: str, scope: Scope) -> DataNode:
        from .constants import constant_node, output_constant

        if isinstance(value, DataNode):
            return value
        if isinstance(value, ScalarConstant):
            raise OperatorTypeError(
                f"{what} is a ScalarConstant in a branch of an `if` on nodes; use a plain number, or types.Constant(..., device='cpu')"
            )
        try:
            array, dtype = output_constant(value)
        except TypeError as error:
            raise OperatorTypeError(
                f"{what} is a {type(value).__name__} in a branch of an `if` on nodes: the branches' values are merged into one node, which "
                f"takes DataNodes, numbers and arrays (and tuples, lists, dictionaries of them)"
            ) from error
        with self.within(scope):
            return constant_node(array, dtype)


def active() -> Conditionals | None:
    """The scopes of the pipeline being defined on this thread, if its definition has ``enable_conditionals=True``."""
    definition = context.definition()
    return None if definition is None else definition.scopes


def where_tests_work() -> str:
    """The error text for a node whose truth value was requested."""
    if active() is None:
        return "`if`, `and`, `or`, `not` on nodes need `enable_conditionals=True` in the pipeline definition."
    return (
        "`if`, `and`, `or`, `not` and `assert` on nodes work in the pipeline function and in functions and methods that it calls. They do "
        "not work in methods that Python calls implicitly (`__init__`, properties, operators), in functions written in C (`bool`, `any`) "
        "or their callbacks, in functions marked `do_not_convert`, and in functions whose source is not available. Move the test into a "
        "function or method of its own, and call that."
    )


def here(node: DataNode) -> DataNode:
    """The node, or its part in the branch that is being traced."""
    scopes = active()
    return node if scopes is None or scopes.current is scopes.root else scopes.bring(node)


def is_data(value: object) -> bool:
    """Whether a value is merged as data: a node, number or array."""
    return isinstance(value, (DataNode, ScalarConstant, bool, int, float, np.generic, np.ndarray)) or hasattr(value, "__array__")


def holds_data(value: object) -> bool:
    """Whether a value contains data (see `is_data`), also inside tuples, lists and dictionaries."""
    if isinstance(value, dict):
        return any(holds_data(item) for item in value.values())
    if isinstance(value, (list, tuple)):
        return any(holds_data(item) for item in value)
    return is_data(value)


def frozen(value: object) -> object:
    """The current value: containers (and arrays) are copied, their items are not."""
    if isinstance(value, dict) and type(value) is dict:
        return {key: frozen(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)) and (type(value) in (list, tuple) or hasattr(value, "_fields")):
        return _like(value, [frozen(item) for item in value])
    return value.copy() if type(value) is np.ndarray else value


def _like(model: Any, items: Any) -> Any:
    """A container of the kind of `model`."""
    if isinstance(model, dict):
        return items
    return type(model)(*items) if hasattr(model, "_fields") else type(model)(items)


def _shape_of(value: object) -> object:
    """The structure of nested tuples, lists and dictionaries; None is structure too."""
    if isinstance(value, dict):
        return dict, {key: _shape_of(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value), [_shape_of(item) for item in value]
    return "None" if value is None else "*"


def _describe(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {_describe(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        inner = ", ".join(_describe(item) for item in value)
        return f"[{inner}]" if isinstance(value, list) else f"({inner}{',' * (len(value) == 1)})"
    return "None" if value is None else "*"


def _escaped(node: DataNode, where: str) -> RuntimeError:
    lines = node.source.format_trace()
    return RuntimeError(
        f"the node {node.name!r} was made in {where} of an `if` on nodes and has only the samples of that branch; it cannot be used "
        "outside. Lists, attributes, `nonlocal` variables and closures are not merged after the `if`: assign the node to a variable in "
        f"the branch, and use that variable after the `if`. The node was made at:\n{lines}"
    )
