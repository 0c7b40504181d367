"""Rewrites one function. Its statements keep their places and lines; ``runtime`` shows the result.

Expressions and assignments are in ``transform_expressions`` and ``transform_assignments``.
"""

from __future__ import annotations

import ast
import copy
import itertools
from collections.abc import Sequence
from typing import Any

from .jumps import SUSPENDS, is_plain_test, jumps_out, jumps_under_if, suspends
from .liveness import TRIES, Liveness, assigned, own_nodes
from .syntax import CALL, PREFIX, RUNTIME, at_line, attribute_of, call, load, mangled, names_of, store
from .transform_assignments import Assignments
from .transform_expressions import Expressions


class Rewriter:
    """Rewrites one function or lambda. Inner functions get their own Rewriter."""

    def __init__(self, class_name: str | None, counter: Any = None, deepest: int = 1000):
        self.class_name = class_name
        self.deepest = deepest
        self.in_class_body = False
        self.counter = counter or itertools.count()
        self.expressions = Expressions(self)
        assignments = Assignments(self)
        self._assign, self._augassign, self._annassign = assignments.assign, assignments.augmented, assignments.annotated
        self.within: list[str] = []
        """The enclosing constructs: "if", "body" (a loop's body that may continue), "loop" (any other loop)."""
        self.liveness: Liveness | None = None
        self.globals: set[str] = set()
        self.following: Sequence[ast.stmt] = ()
        """The statements after the current one, in its block."""
        self.traces = True
        """Whether `if` statements are rewritten: not in generators and coroutines."""
        self.guards = False
        """Whether the function has a construct that opens scopes."""

    def temporary(self) -> str:
        return f"{PREFIX}{next(self.counter)}"

    def expression(self, node: Any) -> Any:
        return None if node is None else self.expressions.visit(node)

    # --- functions

    def function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """Rewrite a function definition in place."""
        self.traces = isinstance(node, ast.FunctionDef) and not any(isinstance(item, SUSPENDS) for item in own_nodes(node.body))
        self.liveness = Liveness(node)
        self.globals = {name for item in own_nodes(node.body) if isinstance(item, ast.Global) for name in item.names}
        opening = (ast.If, ast.IfExp, ast.BoolOp, ast.Compare)
        self.guards = self.traces and any(isinstance(item, opening) for item in own_nodes(node.body))
        # Added statements may use a name before the place of its declaration.
        declared = [item for item in own_nodes(node.body) if isinstance(item, (ast.Global, ast.Nonlocal))]
        body = [*(copy.copy(item) for item in declared), *self.block(node.body)]
        if declared and _is_docstring(node.body[0]):
            body.insert(0, body.pop(len(declared)))
        node.body = self._guarded(node, body) if self.guards else body

    def _guarded(self, node: Any, body: list[ast.stmt]) -> list[ast.stmt]:
        """The body, between the statements that begin and end a call."""
        head: list[ast.stmt] = []
        while body and (_is_docstring(body[0]) or isinstance(body[0], (ast.Global, ast.Nonlocal))):
            head.append(body.pop(0))
        begin = ast.Assign([store(CALL)], call(RUNTIME, "enter"))
        end = ast.Return(call(CALL, "leave", None, True, node.lineno))
        handler = ast.ExceptHandler(None, None, [ast.Expr(call(CALL, "abandon")), ast.Raise()])
        guarded = ast.Try([*body, end], [handler], [], [])
        for item in (begin, end, handler, guarded):
            ast.copy_location(item, node.body[-1])
        return [*head, begin, guarded]

    def inner_lambda(self, node: ast.Lambda, around: Expressions) -> ast.Call:
        node.args = around.generic_visit(node.args)  # type: ignore[assignment]
        inner = Rewriter(self.class_name, self.counter, self.deepest)
        node.body = inner.expression(node.body)
        return ast.copy_location(call(RUNTIME, "made", node), node)

    def _inner_function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.stmt]:
        unconverted = any(_is_do_not_convert(item) for item in node.decorator_list)
        node.decorator_list = [self._decorator(item) for item in node.decorator_list]
        node.args.defaults = [self.expression(item) for item in node.args.defaults]
        node.args.kw_defaults = [self.expression(item) for item in node.args.kw_defaults]
        if not unconverted:
            Rewriter(self.class_name, self.counter, self.deepest).function(node)
            node.decorator_list.append(ast.copy_location(attribute_of(RUNTIME, "made"), node))
        return [node]

    def _decorator(self, node: ast.expr) -> ast.expr:
        return ast.copy_location(call(RUNTIME, "call", self.expression(node)), node)

    def _inner_class(self, node: ast.ClassDef) -> list[ast.stmt]:
        node.decorator_list = [self._decorator(item) for item in node.decorator_list]
        node.bases = [self.expression(item) for item in node.bases]
        for keyword in node.keywords:
            keyword.value = self.expression(keyword.value)
        outer = self.class_name, self.in_class_body, self.traces, self.guards
        self.class_name, self.in_class_body, self.traces, self.guards = node.name, True, False, False
        node.body = self.block(node.body)
        self.class_name, self.in_class_body, self.traces, self.guards = outer
        return [node]

    # --- statements

    def block(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        made: list[ast.stmt] = []
        for k, statement in enumerate(body):
            self.following = body[k + 1 :]
            for item in self.statement(statement):
                made.append(ast.fix_missing_locations(ast.copy_location(item, statement)) if not hasattr(item, "lineno") else item)
        return made

    def statement(self, node: ast.stmt) -> list[ast.stmt]:
        special = getattr(self, f"_{type(node).__name__.lower()}", None)
        if special is not None:
            statements: list[ast.stmt] = special(node)
            return statements
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return self._inner_function(node)
        if isinstance(node, ast.ClassDef):
            return self._inner_class(node)
        if isinstance(node, TRIES):
            return self._try_statement(node)
        if isinstance(node, (ast.For, ast.AsyncFor, ast.While)):
            return self._loop(node)
        return [self.expressions.generic_visit(node)]  # type: ignore[list-item]

    def _variables(self, body: Sequence[ast.AST], live: frozenset[str]) -> tuple[list[str], list[ast.expr]]:
        """Names that statements assign, and the arguments that pass them to the runtime."""
        names = assigned(body)
        real = [mangled(name, self.class_name) for name in names]
        needed = [mangled(name, self.class_name) for name in names if name in live or name in self.globals]
        outside = [mangled(name, self.class_name) for name in names if name in self.globals]
        return names, [names_of(real), names_of(needed), names_of(outside)]

    def _take_values(self, step: str, names: Sequence[str]) -> list[ast.stmt]:
        """``if step.values is not None: a, b = step.values``; variables without a value are deleted."""
        if not names:
            return []
        take: list[ast.stmt] = [
            ast.Assign([ast.Tuple([store(name) for name in names], ast.Store())], attribute_of(step, "values")),
            *(
                ast.If(
                    ast.Compare(load(name), [ast.Is()], [attribute_of(RUNTIME, "UNDEFINED")]),
                    [ast.Delete([ast.Name(name, ast.Del())])], [],
                )
                for name in names
            ),
        ]  # fmt: skip
        return [ast.If(ast.Compare(attribute_of(step, "values"), [ast.IsNot()], [ast.Constant(None)]), take, [])]

    def _if(self, node: ast.If) -> list[ast.stmt]:
        if is_plain_test(node.test):
            node.test = self.expression(node.test)
            node.body, node.orelse = self.block(node.body), self.block(node.orelse)
            return [node]
        deep = len(self.within) >= self.deepest
        if not self.traces or deep or suspends(*node.body, *node.orelse):
            test, where = self.expression(node.test), "deep" if deep else "generator"
            node.test = test if self.in_class_body else ast.copy_location(call(RUNTIME, "plain", test, where), node.test)
            node.body, node.orelse = self.block(node.body), self.block(node.orelse)
            return [node]
        assert self.liveness is not None
        parts = [*node.body, *node.orelse]
        names, known = self._variables(parts, self.liveness.after[id(node)])
        jumps = jumps_out(parts)
        after = [names_of([mangled(name, self.class_name) for name in assigned(self.following)])] if jumps else []
        step = self.temporary()
        self.within.append("if")
        test = self.expression(node.test)
        body, other = self.block(node.body), self.block(node.orelse)
        self.within.pop()
        choice = ast.If(attribute_of(step, "true"), body, [])
        if other:
            choice.orelse = [ast.If(attribute_of(step, "false"), other, [])]
        steps = ast.copy_location(call(CALL, "branches", test, *known, node.lineno, *after), node.test)
        loop = ast.For(store(step), steps, [*self._take_values(step, names), choice], [])
        return [at_line(loop, node), *([at_line(self._propagate(), node)] if jumps else [])]

    def _propagate(self) -> ast.stmt:
        return ast.If(attribute_of(CALL, "jumping"), [self._escape()], [])

    def _escape(self) -> ast.stmt:
        """The statement that moves control to the end of the enclosing construct."""
        if not self.within:
            return ast.Return(call(CALL, "leave_all"))
        return ast.Break() if self.within[-1] == "loop" else ast.Continue()

    def _return(self, node: ast.Return) -> list[ast.stmt]:
        value = self.expression(node.value) or ast.Constant(None)
        if not self.traces:
            node.value = value if node.value is not None else None
            return [node]
        if not self.guards:
            return [at_line(ast.Return(value), node)]
        if not {"if", "body"} & set(self.within):
            return [at_line(ast.Return(call(CALL, "leave", value, False, node.lineno)), node)]
        kept = self.temporary()
        assign = ast.Assign([store(kept)], value)
        leave = ast.Return(call(CALL, "leave", load(kept), False, node.lineno))
        check = ast.If(call(CALL, "returning", load(kept), node.lineno), [leave], [])
        return [at_line(item, node) for item in (assign, check, self._escape())]

    def _continue(self, node: ast.Continue) -> list[ast.stmt]:
        return self._loop_jump(node, "continuing", [ast.Constant(node.lineno)])

    def _break(self, node: ast.Break) -> list[ast.stmt]:
        return self._loop_jump(node, "breaking", [])

    def _loop_jump(self, node: ast.stmt, name: str, arguments: list[ast.expr]) -> list[ast.stmt]:
        innermost = next((item for item in reversed(self.within) if item != "if"), None)
        if innermost != "body":
            return [node]
        return [at_line(item, node) for item in (ast.Expr(call(CALL, name, *arguments)), self._escape())]

    def _loop(self, node: ast.For | ast.AsyncFor | ast.While) -> list[ast.stmt]:
        if isinstance(node, ast.While):
            node.test = ast.copy_location(call(RUNTIME, "plain", self.expression(node.test), "while"), node.test)
        else:
            node.iter = self.expression(node.iter)
        wrapped = self.traces and jumps_under_if(node.body)
        returns = self.traces and any(isinstance(item, ast.Return) for item in own_nodes(node.body))
        if wrapped:
            node.body = self._wrapped_body(node)
        else:
            self.within.append("loop")
            node.body = self.block(node.body)
            self.within.pop()
        node.orelse = self.block(node.orelse)
        return [node, *([at_line(self._propagate(), node)] if returns and self.guards else [])]

    def _wrapped_body(self, node: Any) -> list[ast.stmt]:
        assert self.liveness is not None
        names, known = self._variables(node.body, self.liveness.ends[id(node)])
        step = self.temporary()
        self.within.append("body")
        body = self.block(node.body)
        self.within.pop()
        steps = ast.copy_location(call(CALL, "body", *known, node.lineno), node)
        inner = ast.For(store(step), steps, [*self._take_values(step, names), ast.If(attribute_of(step, "true"), body, [])], [])
        return [at_line(inner, node), at_line(ast.If(call(CALL, "stops"), [ast.Break()], []), node)]

    def _assert(self, node: ast.Assert) -> list[ast.stmt]:
        """An assertion about a node is checked when the pipeline runs."""
        kept = self.temporary()
        message = self.expression(node.msg)
        keep = ast.Assign([store(kept)], self.expression(node.test))
        given = [copy.deepcopy(message)] if message is not None else []
        of_node = ast.Expr(call(RUNTIME, "assert_node", load(kept), *given))
        usual = ast.Assert(load(kept), message)
        check = ast.If(call(RUNTIME, "is_node", load(kept)), [of_node], [usual])
        return [at_line(ast.If(load("__debug__"), [keep, check], []), node)]

    def _try_statement(self, node: ast.Try) -> list[ast.stmt]:
        marked = self.temporary()
        guard = self.guards
        node.body = self.block(node.body)
        for handler in node.handlers:
            handler.type = self.expression(handler.type)
            handler.body = self.block(handler.body)
            if guard:
                handler.body.insert(0, at_line(ast.Expr(call(CALL, "caught", load(marked))), handler))
        node.orelse, node.finalbody = self.block(node.orelse), self.block(node.finalbody)
        return [*([at_line(self._mark(marked), node)] if guard else []), node]

    def _mark(self, name: str) -> ast.stmt:
        return ast.Assign([store(name)], call(CALL, "mark"))

    def _with(self, node: ast.With | ast.AsyncWith) -> list[ast.stmt]:
        """A context manager may suppress an exception."""
        for item in node.items:
            item.context_expr = self.expression(item.context_expr)
        marked = self.temporary()
        node.body = self.block(node.body)
        if not self.guards:
            return [node]
        after = ast.Expr(call(CALL, "caught", load(marked)))
        return [at_line(self._mark(marked), node), node, at_line(after, node)]

    _asyncwith = _with

    def _match(self, node: ast.Match) -> list[ast.stmt]:
        node.subject = self.expression(node.subject)
        for case in node.cases:
            case.guard = self.expression(case.guard)
            case.body = self.block(case.body)
        return [node]

    def _global(self, node: ast.Global | ast.Nonlocal) -> list[ast.stmt]:
        return [node] if self.in_class_body else [at_line(ast.Pass(), node)]

    _nonlocal = _global


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _is_do_not_convert(node: ast.expr) -> bool:
    target: Any = node.func if isinstance(node, ast.Call) else node
    return (target.attr if isinstance(target, ast.Attribute) else getattr(target, "id", None)) == "do_not_convert"


def rewritten(node: Any, class_name: str | None, deepest: int = 1000) -> Any:
    """A rewritten copy of a function definition or lambda, without decorators, defaults and annotations, which are not run again.

    `deepest`: `if` statements inside more constructs than this accept plain conditions only.
    """
    node = stripped(node)
    rewriter = Rewriter(class_name, deepest=deepest)
    if isinstance(node, ast.Lambda):
        node.body = rewriter.expression(node.body)
    else:
        rewriter.function(node)
    return ast.fix_missing_locations(node)


def stripped(node: Any) -> Any:
    """A copy of a definition without the parts that do not run when the function is called."""
    node = copy.deepcopy(node)
    for argument in ast.walk(node.args):
        if isinstance(argument, ast.arg):
            argument.annotation = None
    node.args.defaults = [ast.copy_location(ast.Constant(None), item) for item in node.args.defaults]
    node.args.kw_defaults = [item and ast.copy_location(ast.Constant(None), item) for item in node.args.kw_defaults]
    if not isinstance(node, ast.Lambda):
        node.decorator_list, node.returns = [], None
    return node
