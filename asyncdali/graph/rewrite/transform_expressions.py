"""Rewrites expressions: calls, ``and``, ``or``, ``not``, chained comparisons, ``a if c else b``, new lists and dictionaries."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from .jumps import is_plain_test, suspends
from .syntax import RUNTIME, attribute_of, call, load, store

if TYPE_CHECKING:
    from .transform import Rewriter


class Expressions(ast.NodeTransformer):
    """Expressions of one function. Temporary values use ``:=``, so no expression moves into another function."""

    def __init__(self, owner: Rewriter):
        self.owner = owner
        self.no_walrus = 0  # depth of constructs that must not contain `:=`

    def visit_Lambda(self, node: ast.Lambda) -> ast.Call:
        return self.owner.inner_lambda(node, self)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        node.func = ast.copy_location(call(RUNTIME, "call", node.func), node.func)
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        if self.no_walrus or suspends(*node.values[1:]):
            return self.generic_visit(node)
        name = "and_" if isinstance(node.op, ast.And) else "or_"
        values = [self.visit(value) for value in node.values]
        result = values[-1]
        for left in reversed(values[:-1]):
            result = self._short_circuit(name, left, result, node)
        return result

    def _short_circuit(self, name: str, left: object, right: object, node: ast.AST) -> ast.expr:
        """``t.right(right) if (t := and_(left)).more else t.left``"""
        kept = self.owner.temporary()
        test = ast.Attribute(ast.NamedExpr(store(kept), call(RUNTIME, name, left)), "more", ast.Load())
        return ast.copy_location(ast.IfExp(test, call(kept, "right", right), attribute_of(kept, "left")), node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        return ast.copy_location(call(RUNTIME, "not_", node.operand), node) if isinstance(node.op, ast.Not) else node

    def visit_Compare(self, node: ast.Compare) -> Any:
        """``a < b < c`` is ``a < b and b < c``, with b evaluated once."""
        if len(node.ops) == 1 or self.no_walrus or suspends(node):
            return self.generic_visit(node)
        operands = [self.visit(item) for item in (node.left, *node.comparators)]
        parts: list[ast.expr] = []
        left = operands[0]
        for op, right in zip(node.ops[:-1], operands[1:-1]):
            kept = self.owner.temporary()
            parts.append(ast.copy_location(ast.Compare(left, [op], [ast.NamedExpr(store(kept), right)]), node))
            left = load(kept)
        result: Any = ast.copy_location(ast.Compare(left, [node.ops[-1]], [operands[-1]]), node)
        for part in reversed(parts):
            result = self._short_circuit("and_", part, result, node)
        return result

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        """``(t := choose(c)).end(t.then(a) if t.first else None, b if t.second else None)``"""
        if self.no_walrus or suspends(node.body, node.orelse) or is_plain_test(node.test):
            return self.generic_visit(node)
        kept = self.owner.temporary()
        test, body, other = self.visit(node.test), self.visit(node.body), self.visit(node.orelse)
        begin = ast.NamedExpr(store(kept), call(RUNTIME, "choose", test))
        first = ast.IfExp(attribute_of(kept, "first"), call(kept, "then", body), ast.Constant(None))
        second = ast.IfExp(attribute_of(kept, "second"), other, ast.Constant(None))
        return ast.copy_location(ast.Call(ast.Attribute(begin, "end", ast.Load()), [first, second], []), node)

    def _comprehension(self, node: Any) -> Any:
        for generator in node.generators:
            self.no_walrus += 1
            generator.iter = self.visit(generator.iter)
            self.no_walrus -= 1
            generator.ifs = [call(RUNTIME, "plain", self.visit(test), "comprehension") for test in generator.ifs]
        for name in ("elt", "key", "value"):
            if hasattr(node, name):
                self.no_walrus += self.owner.in_class_body
                setattr(node, name, self.visit(getattr(node, name)))
                self.no_walrus -= self.owner.in_class_body
        return node

    visit_SetComp = visit_GeneratorExp = _comprehension

    def visit_ListComp(self, node: ast.ListComp) -> ast.Call:
        return self._born(self._comprehension(node))

    def visit_DictComp(self, node: ast.DictComp) -> ast.Call:
        return self._born(self._comprehension(node))

    def visit_Dict(self, node: ast.Dict) -> ast.Call:
        return self._born(self.generic_visit(node))

    def visit_List(self, node: ast.List) -> ast.AST:
        self.generic_visit(node)
        return self._born(node) if isinstance(node.ctx, ast.Load) else node

    def _born(self, node: Any) -> ast.Call:
        """A new list or dictionary. The branch that makes it may write to it."""
        return ast.copy_location(call(RUNTIME, "born", node), node)
