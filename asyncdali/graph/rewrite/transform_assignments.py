"""Rewrites assignments to items and attributes as calls that record the previous value; see ``writes``."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from .syntax import RUNTIME, as_index, at_line, call, load, mangled, store

if TYPE_CHECKING:
    from .transform import Rewriter


class Assignments:
    """Assignments in one function."""

    def __init__(self, owner: Rewriter):
        self.owner = owner

    def annotated(self, node: ast.AnnAssign) -> list[ast.stmt]:
        """``target: annotation = value``"""
        node.value = self.owner.expression(node.value)
        if isinstance(node.target, ast.Name) or node.value is None or self.owner.in_class_body:
            return [node]
        return self.assign(ast.copy_location(ast.Assign([node.target], node.value), node), visited=True)

    def assign(self, node: ast.Assign, visited: bool = False) -> list[ast.stmt]:
        """``target = other = value``. `visited`: the value has been rewritten."""
        if not visited:
            node.value = self.owner.expression(node.value)
        if self.owner.in_class_body or not any(has_place(target) for target in node.targets):
            node.targets = [self.owner.expression(target) for target in node.targets]
            return [node]
        if len(node.targets) == 1 and isinstance(node.targets[0], (ast.Attribute, ast.Subscript)):
            return [at_line(self._write(node.value, node.targets[0]), node)]
        kept = self.owner.temporary()
        made: list[ast.stmt] = [ast.Assign([store(kept)], node.value)]
        for target in node.targets:
            writes: list[ast.stmt] = []
            made += [ast.Assign([self._plain_target(target, writes)], load(kept)), *writes]
        return [at_line(item, node) for item in made]

    def _plain_target(self, target: object, writes: list[ast.stmt]) -> Any:
        """The target with variables instead of items and attributes, which `writes` then assigns."""
        if isinstance(target, (ast.Attribute, ast.Subscript)):
            kept = self.owner.temporary()
            writes.append(self._write(load(kept), target))
            return store(kept)
        if isinstance(target, ast.Starred):
            return ast.Starred(self._plain_target(target.value, writes), ast.Store())
        if isinstance(target, (ast.Tuple, ast.List)):
            return type(target)([self._plain_target(item, writes) for item in target.elts], ast.Store())
        return target

    def _write(self, value: Any, target: Any) -> ast.stmt:
        where = self.owner.expression(target.value)
        if isinstance(target, ast.Attribute):
            return ast.Expr(call(RUNTIME, "set_attribute", value, where, mangled(target.attr, self.owner.class_name)))
        return ast.Expr(call(RUNTIME, "set_item", value, where, as_index(self.owner.expression(target.slice))))

    def augmented(self, node: ast.AugAssign) -> list[ast.stmt]:
        """``target += value``"""
        node.value = self.owner.expression(node.value)
        target: Any = node.target
        if isinstance(target, ast.Name) or self.owner.in_class_body:
            return [node]
        where, key, kept = self.owner.temporary(), self.owner.temporary(), self.owner.temporary()
        made: list[ast.stmt] = [ast.Assign([store(where)], self.owner.expression(target.value))]
        if isinstance(target, ast.Attribute):
            read: ast.expr = ast.Attribute(load(where), target.attr, ast.Load())
            write = call(RUNTIME, "set_attribute", load(kept), load(where), mangled(target.attr, self.owner.class_name))
        else:
            made.append(ast.Assign([store(key)], as_index(self.owner.expression(target.slice))))
            read = ast.Subscript(load(where), load(key), ast.Load())
            write = call(RUNTIME, "set_item", load(kept), load(where), load(key))
        made += [ast.Assign([store(kept)], read), ast.AugAssign(store(kept), node.op, node.value), ast.Expr(write)]
        return [at_line(item, node) for item in made]


def has_place(target: ast.expr) -> bool:
    """Whether the targets of an assignment contain an item or attribute."""
    if isinstance(target, (ast.Tuple, ast.List)):
        return any(has_place(item) for item in target.elts)
    return has_place(target.value) if isinstance(target, ast.Starred) else isinstance(target, (ast.Attribute, ast.Subscript))
