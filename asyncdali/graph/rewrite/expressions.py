"""``and``, ``or``, ``not``, ``a if c else b`` and ``assert`` in rewritten functions. Plain values keep Python's semantics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...data_node import DataNode
from .. import conditionals
from ..conditionals import Conditionals, cut, frozen
from .blocks import Block, Open, check_predicate, check_side, unsupported, write_merged
from .paths import Fork, Leaf


class _Expression(Open):
    """``and``, ``or``, ``a if c else b`` on a node, while its operands are traced."""

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

    def end_side(self, value: object) -> Leaf:
        """An operand has been traced."""
        leaf = Leaf(self.scopes.current, value=frozen(value))
        leaf.writes = self.block.log.now()
        self.block.log.undo()
        return leaf

    def close(self) -> None:
        self.pop()
        self.scopes.current = self.outer


class _Logical(_Expression):
    def __init__(self, scopes: Conditionals, left: DataNode, name: str):
        check_side(left, name, "left")
        self.name = name
        arguments = {"expression_name": name, "expression_side": "left"}
        checked = scopes.raw("_conditional.validate_logical", [scopes.bring(left)], arguments, scopes.current)
        super().__init__(scopes, checked, name == "and")

    def right(self, value: Any) -> Any:
        scopes, scope = self.scopes, self.scopes.current
        if isinstance(value, DataNode):
            check_side(value, self.name, "right")
        node = scopes.bring(scopes._as_node(value, f"the right side of `{self.name}`", scope), scope)
        arguments = {"expression_name": self.name, "expression_side": "right"}
        checked = scopes.raw("_conditional.validate_logical", [node], arguments, scope)
        leaf = self.end_side(value)
        self.close()
        values = (checked, self.predicate) if self.name == "and" else (self.predicate, checked)
        other = Leaf(self.sides[1 if self.name == "and" else 0])
        if leaf.writes:
            pair = (leaf, other) if self.name == "and" else (other, leaf)
            write_merged(scopes, Fork(self.outer, self.predicate, self.sides, pair), lambda item: True)
        return scopes.merge(values, self.sides, self.predicate, self.outer, f"the result of `{self.name}`")


class _Plain:
    """``and``, ``or``, ``a if c else b`` on other values. `more` and `first` decide what is evaluated."""

    __slots__ = ("first", "left", "more", "second")

    def __init__(self, more: bool, left: object = None):
        self.more = self.first = more
        self.second = not more
        self.left = left

    def right(self, value: object) -> object:
        return value

    def then(self, value: Any) -> Any:
        return value

    def end(self, first: object, second: object) -> object:
        return first if self.first else second


_MORE, _OTHER = _Plain(True), _Plain(False)


def and_(left: object) -> object:
    """``left and ...``"""
    if isinstance(left, DataNode):
        scopes = conditionals.active()
        if scopes is not None:
            return _Logical(scopes, left, "and")
    return _MORE if left else _Plain(False, left)


def or_(left: object) -> object:
    """``left or ...``"""
    if isinstance(left, DataNode):
        scopes = conditionals.active()
        if scopes is not None:
            return _Logical(scopes, left, "or")
    return _Plain(False, left) if left else _MORE


def not_(value: object) -> object:
    """``not value``"""
    if isinstance(value, DataNode):
        scopes = conditionals.active()
        if scopes is not None:
            if value.device == "gpu":
                return value == 0  # unlike a condition, the opposite of data may stay on the GPU
            return scopes.logical_not(value, scopes.current)
    return not value


class _Choice(_Expression):
    def __init__(self, scopes: Conditionals, test: DataNode):
        check_predicate(test, "the condition of `... if ... else ...`")
        super().__init__(scopes, scopes.bring(test), True)

    def then(self, value: object) -> Leaf:
        leaf = self.end_side(value)
        self.enter(False)
        return leaf

    def end(self, first: Leaf, second: object) -> object:
        ends = (first, self.end_side(second))
        self.close()
        if first.writes or ends[1].writes:
            write_merged(self.scopes, Fork(self.outer, self.predicate, self.sides, ends), lambda item: True)
        values = (first.value, ends[1].value)
        return self.scopes.merge(values, self.sides, self.predicate, self.outer, "the result of `... if ... else ...`")


def choose(test: Any) -> _Choice | _Plain:
    """``... if test else ...``"""
    if isinstance(test, DataNode):
        scopes = conditionals.active()
        if scopes is not None:
            return _Choice(scopes, test)
    return _MORE if test else _OTHER


# ----------------------------------------------------------------------------------------------------------------- other checks


_ADVICE = {
    "while": "the graph is fixed before any data is seen, so the number of rounds must be known. Use `for` over a range with an `if` in it",
    "comprehension": "the number of elements must be known before any data is seen. Use `a if condition else b` for the elements",
    "deep": "the function has too many `if` and `elif` inside one another. Move the inner ones into a function of their own",
    "generator": "in generators and coroutines conditions on nodes cannot be traced. Use a plain function",
}


def plain(test: object, where: str) -> object:
    """A condition that must not be a node. The TypeError says what to do instead."""
    if isinstance(test, DataNode) and conditionals.active() is not None:
        what = {"while": "a condition of `while`", "deep": "an `if`"}.get(where, f"a condition in a {where}")
        raise unsupported(what, _ADVICE[where])
    return test


def is_node(value: object) -> bool:
    """Whether an assertion concerns a node."""
    return isinstance(value, DataNode) and conditionals.active() is not None


def assert_node(test: DataNode, *message: object) -> None:
    """``assert test, message``: checked for every sample of the branch when the pipeline runs."""
    from ... import operators
    from ..node import make

    check_predicate(test, "`assert`")
    make(operators.REGISTRY["python_function"].schema, [test], {"function": _assertion(message), "num_outputs": 0})


def _assertion(message: tuple[Any, ...]) -> Callable[[Any], None]:
    """The function of an assertion's operator. Its code is always the same, because debug mode identifies functions by their code."""

    def check(value: Any) -> None:
        if value.ndim:
            raise RuntimeError(f"assertions are restricted to scalar (0-d tensors) inputs, got {value.ndim} dimensions")
        if not value:
            raise AssertionError(*message)

    return check
