"""The rewriting of one function: its statements stay where they are, at the lines they are at; see ``runtime`` for what they become.

Names that the rewriting needs begin with ``_adali_``. `RUNTIME` is the module ``runtime``, given to the function as a closure variable.
"""

from __future__ import annotations

import ast
import copy
import itertools
from collections.abc import Sequence
from typing import Any

from .liveness import FUNCTIONS, LOOPS, TRIES, Liveness, assigned, own_nodes

PREFIX = "_adali_"
RUNTIME = PREFIX + "rt"
CALL = PREFIX + "call"
"""The local variable that stands for one call of the function (``runtime.Call``)."""

_SUSPENDS = (ast.Yield, ast.YieldFrom, ast.Await)
_JUMPS = (ast.Return, ast.Continue, ast.Break)
_NEVER_NODES = (ast.Is, ast.IsNot, ast.In, ast.NotIn)


def _load(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())


def _store(name: str) -> ast.Name:
    return ast.Name(name, ast.Store())


def _attribute(name: str, attribute: str) -> ast.Attribute:
    return ast.Attribute(_load(name), attribute, ast.Load())


def _call(name: str, attribute: str, *arguments: Any) -> ast.Call:
    given = [item if isinstance(item, ast.expr) else ast.Constant(item) for item in arguments]
    return ast.Call(_attribute(name, attribute), given, [])


def _names(items: Sequence[str]) -> ast.expr:
    return ast.Tuple([ast.Constant(item) for item in items], ast.Load())


def mangled(name: str, class_name: str | None) -> str:
    """A name as it is inside a class body."""
    if class_name is None or not name.startswith("__") or name.endswith("__") or "." in name:
        return name
    stripped = class_name.lstrip("_")
    return f"_{stripped}{name}" if stripped else name


def _suspends(*nodes: ast.AST) -> bool:
    return any(isinstance(node, _SUSPENDS) or (isinstance(node, ast.comprehension) and node.is_async) for node in own_nodes(nodes))


def _is_plain_test(test: ast.expr) -> bool:
    """Whether a condition cannot be a node."""
    if isinstance(test, ast.Constant):
        return True
    return isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], _NEVER_NODES)


def _jumps_out(body: Sequence[ast.AST]) -> bool:
    """Whether statements can leave the construct they are in: `return`, or `continue` and `break` of a loop around."""
    return any(isinstance(node, ast.Return) for node in own_nodes(body)) or bool(_loop_jumps(body))


def _loop_jumps(body: Sequence[ast.AST]) -> list[ast.AST]:
    """The `continue` and `break` of the loop whose body these statements are (in)."""
    found: list[ast.AST] = []
    for node in body:
        if isinstance(node, (ast.Continue, ast.Break)):
            found.append(node)
        elif isinstance(node, LOOPS):
            found += _loop_jumps(node.orelse)
        elif not isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            found += _loop_jumps([child for child in ast.iter_child_nodes(node) if isinstance(child, _STATEMENT_HOLDERS)])
    return found


_STATEMENT_HOLDERS = (ast.stmt, ast.ExceptHandler, ast.match_case)


def _jumps_under_if(body: Sequence[ast.AST]) -> bool:
    """Whether a loop's body has `continue` or `break` of that loop inside a rewritten `if`."""
    for node in body:
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            continue
        if isinstance(node, ast.If) and not _is_plain_test(node.test):
            found = bool(_loop_jumps([node]))
        elif isinstance(node, LOOPS):
            found = _jumps_under_if(node.orelse)
        else:
            found = _jumps_under_if([child for child in ast.iter_child_nodes(node) if isinstance(child, _STATEMENT_HOLDERS)])
        if found:
            return True
    return False


class _Expressions(ast.NodeTransformer):
    """Expressions of one function. Temporary values are kept with ``:=``, so nothing moves into a function of its own."""

    def __init__(self, owner: Rewriter):
        self.owner = owner
        self.no_walrus = 0  # inside what may not contain `:=`

    def visit_Lambda(self, node: ast.Lambda) -> Any:
        return self.owner.inner_lambda(node, self)

    def visit_Call(self, node: ast.Call) -> Any:
        self.generic_visit(node)
        node.func = ast.copy_location(_call(RUNTIME, "call", node.func), node.func)
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        if self.no_walrus or _suspends(*node.values[1:]):
            return self.generic_visit(node)
        name = "and_" if isinstance(node.op, ast.And) else "or_"
        values = [self.visit(value) for value in node.values]
        result = values[-1]
        for left in reversed(values[:-1]):
            result = self._short_circuit(name, left, result, node)
        return result

    def _short_circuit(self, name: str, left: Any, right: Any, node: ast.AST) -> ast.expr:
        """``t.right(right) if (t := and_(left)).more else t.left``"""
        kept = self.owner.temporary()
        test = ast.Attribute(ast.NamedExpr(_store(kept), _call(RUNTIME, name, left)), "more", ast.Load())
        return ast.copy_location(ast.IfExp(test, _call(kept, "right", right), _attribute(kept, "left")), node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        self.generic_visit(node)
        return ast.copy_location(_call(RUNTIME, "not_", node.operand), node) if isinstance(node.op, ast.Not) else node

    def visit_Compare(self, node: ast.Compare) -> Any:
        """``a < b < c`` is ``a < b and b < c``, with b evaluated once."""
        if len(node.ops) == 1 or self.no_walrus or _suspends(node):
            return self.generic_visit(node)
        operands = [self.visit(item) for item in (node.left, *node.comparators)]
        parts: list[ast.expr] = []
        left = operands[0]
        for op, right in zip(node.ops[:-1], operands[1:-1]):
            kept = self.owner.temporary()
            parts.append(ast.copy_location(ast.Compare(left, [op], [ast.NamedExpr(_store(kept), right)]), node))
            left = _load(kept)
        result: Any = ast.copy_location(ast.Compare(left, [node.ops[-1]], [operands[-1]]), node)
        for part in reversed(parts):
            result = self._short_circuit("and_", part, result, node)
        return result

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        """``(t := choose(c)).end(t.then(a) if t.first else None, b if t.second else None)``"""
        if self.no_walrus or _suspends(node.body, node.orelse) or _is_plain_test(node.test):
            return self.generic_visit(node)
        kept = self.owner.temporary()
        test, body, other = self.visit(node.test), self.visit(node.body), self.visit(node.orelse)
        begin = ast.NamedExpr(_store(kept), _call(RUNTIME, "choose", test))
        first = ast.IfExp(_attribute(kept, "first"), _call(kept, "then", body), ast.Constant(None))
        second = ast.IfExp(_attribute(kept, "second"), other, ast.Constant(None))
        return ast.copy_location(ast.Call(ast.Attribute(begin, "end", ast.Load()), [first, second], []), node)

    def _comprehension(self, node: Any) -> Any:
        for generator in node.generators:
            self.no_walrus += 1
            generator.iter = self.visit(generator.iter)
            self.no_walrus -= 1
            generator.ifs = [_call(RUNTIME, "plain", self.visit(test), "comprehension") for test in generator.ifs]
        for name in ("elt", "key", "value"):
            if hasattr(node, name):
                self.no_walrus += self.owner.in_class_body
                setattr(node, name, self.visit(getattr(node, name)))
                self.no_walrus -= self.owner.in_class_body
        return node

    visit_SetComp = visit_GeneratorExp = _comprehension

    def visit_ListComp(self, node: ast.ListComp) -> Any:
        return self._born(self._comprehension(node))

    def visit_DictComp(self, node: ast.DictComp) -> Any:
        return self._born(self._comprehension(node))

    def visit_Dict(self, node: ast.Dict) -> Any:
        return self._born(self.generic_visit(node))

    def visit_List(self, node: ast.List) -> Any:
        self.generic_visit(node)
        return self._born(node) if isinstance(node.ctx, ast.Load) else node

    def _born(self, node: Any) -> Any:
        """A new list or dictionary: the branch that makes it may write to it."""
        return ast.copy_location(_call(RUNTIME, "born", node), node)


class Rewriter:
    """One function, or one lambda; inner functions get a Rewriter of their own."""

    def __init__(self, class_name: str | None, counter: Any = None, deepest: int = 1000):
        self.class_name = class_name
        self.deepest = deepest
        self.in_class_body = False
        self.counter = counter or itertools.count()
        self.expressions = _Expressions(self)
        self.within: list[str] = []
        """The constructs around: "if", "body" (a loop's body that may continue), "loop" (any other loop)."""
        self.liveness: Liveness | None = None
        self.globals: set[str] = set()
        self.following: Sequence[ast.stmt] = ()
        """The statements behind the one that is being rewritten, in its block."""
        self.traces = True
        """Whether `if` statements are rewritten: not in generators and coroutines."""
        self.guards = False
        """Whether the function has anything that opens scopes."""

    def temporary(self) -> str:
        return f"{PREFIX}{next(self.counter)}"

    def expression(self, node: Any) -> Any:
        return None if node is None else self.expressions.visit(node)

    # --- functions

    def function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """Rewrite a function definition in place."""
        self.traces = isinstance(node, ast.FunctionDef) and not any(isinstance(item, _SUSPENDS) for item in own_nodes(node.body))
        self.liveness = Liveness(node)
        self.globals = {name for item in own_nodes(node.body) if isinstance(item, ast.Global) for name in item.names}
        opening = (ast.If, ast.IfExp, ast.BoolOp, ast.Compare)
        self.guards = self.traces and any(isinstance(item, opening) for item in own_nodes(node.body))
        # What is added may use a name before the place where it is declared.
        declared = [item for item in own_nodes(node.body) if isinstance(item, (ast.Global, ast.Nonlocal))]
        body = [*(copy.copy(item) for item in declared), *self.block(node.body)]
        if declared and _is_docstring(node.body[0]):
            body.insert(0, body.pop(len(declared)))
        node.body = self._guarded(node, body) if self.guards else body

    def _guarded(self, node: Any, body: list[ast.stmt]) -> list[ast.stmt]:
        """The body, between what begins and what ends a call."""
        head: list[ast.stmt] = []
        while body and (_is_docstring(body[0]) or isinstance(body[0], (ast.Global, ast.Nonlocal))):
            head.append(body.pop(0))
        begin = ast.Assign([_store(CALL)], _call(RUNTIME, "enter"))
        end = ast.Return(_call(CALL, "leave", None, True, node.lineno))
        handler = ast.ExceptHandler(None, None, [ast.Expr(_call(CALL, "abandon")), ast.Raise()])
        guarded = ast.Try([*body, end], [handler], [], [])
        for item in (begin, end, handler, guarded):
            ast.copy_location(item, node.body[-1])
        return [*head, begin, guarded]

    def inner_lambda(self, node: ast.Lambda, around: _Expressions) -> Any:
        node.args = around.generic_visit(node.args)  # type: ignore[assignment]
        inner = Rewriter(self.class_name, self.counter, self.deepest)
        node.body = inner.expression(node.body)
        return ast.copy_location(_call(RUNTIME, "made", node), node)

    def _inner_function(self, node: Any) -> list[ast.stmt]:
        unconverted = any(_is_do_not_convert(item) for item in node.decorator_list)
        node.decorator_list = [self._decorator(item) for item in node.decorator_list]
        node.args.defaults = [self.expression(item) for item in node.args.defaults]
        node.args.kw_defaults = [self.expression(item) for item in node.args.kw_defaults]
        if not unconverted:
            Rewriter(self.class_name, self.counter, self.deepest).function(node)
            node.decorator_list.append(ast.copy_location(_attribute(RUNTIME, "made"), node))
        return [node]

    def _decorator(self, node: ast.expr) -> ast.expr:
        return ast.copy_location(_call(RUNTIME, "call", self.expression(node)), node)

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

    def statement(self, node: Any) -> list[ast.stmt]:
        special = getattr(self, f"_{type(node).__name__.lower()}", None)
        if special is not None:
            return special(node)
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
        """Names that statements assign, and the arguments that tell the runtime about them."""
        names = assigned(body)
        real = [mangled(name, self.class_name) for name in names]
        needed = [mangled(name, self.class_name) for name in names if name in live or name in self.globals]
        outside = [mangled(name, self.class_name) for name in names if name in self.globals]
        return names, [_names(real), _names(needed), _names(outside)]

    def _take_values(self, step: str, names: Sequence[str]) -> list[ast.stmt]:
        """``if step.values is not None: a, b = step.values``, and no value for those that had none."""
        if not names:
            return []
        take: list[ast.stmt] = [
            ast.Assign([ast.Tuple([_store(name) for name in names], ast.Store())], _attribute(step, "values")),
            *(
                ast.If(
                    ast.Compare(_load(name), [ast.Is()], [_attribute(RUNTIME, "UNDEFINED")]),
                    [ast.Delete([ast.Name(name, ast.Del())])], [],
                )
                for name in names
            ),
        ]  # fmt: skip
        return [ast.If(ast.Compare(_attribute(step, "values"), [ast.IsNot()], [ast.Constant(None)]), take, [])]

    def _if(self, node: ast.If) -> list[ast.stmt]:
        if _is_plain_test(node.test):
            node.test = self.expression(node.test)
            node.body, node.orelse = self.block(node.body), self.block(node.orelse)
            return [node]
        deep = len(self.within) >= self.deepest
        if not self.traces or deep or _suspends(*node.body, *node.orelse):
            test, where = self.expression(node.test), "deep" if deep else "generator"
            node.test = test if self.in_class_body else ast.copy_location(_call(RUNTIME, "plain", test, where), node.test)
            node.body, node.orelse = self.block(node.body), self.block(node.orelse)
            return [node]
        assert self.liveness is not None
        parts = [*node.body, *node.orelse]
        names, known = self._variables(parts, self.liveness.after[id(node)])
        jumps = _jumps_out(parts)
        after = [_names([mangled(name, self.class_name) for name in assigned(self.following)])] if jumps else []
        step = self.temporary()
        self.within.append("if")
        test = self.expression(node.test)
        body, other = self.block(node.body), self.block(node.orelse)
        self.within.pop()
        choice = ast.If(_attribute(step, "true"), body, [])
        if other:
            choice.orelse = [ast.If(_attribute(step, "false"), other, [])]
        steps = ast.copy_location(_call(CALL, "branches", test, *known, node.lineno, *after), node.test)
        loop = ast.For(_store(step), steps, [*self._take_values(step, names), choice], [])
        return [_at(loop, node), *([_at(self._propagate(), node)] if jumps else [])]

    def _propagate(self) -> ast.stmt:
        return ast.If(_attribute(CALL, "jumping"), [self._escape()], [])

    def _escape(self) -> ast.stmt:
        """What brings control to the end of the construct around."""
        if not self.within:
            return ast.Return(_call(CALL, "leave_all"))
        return ast.Break() if self.within[-1] == "loop" else ast.Continue()

    def _return(self, node: ast.Return) -> list[ast.stmt]:
        value = self.expression(node.value) or ast.Constant(None)
        if not self.traces:
            node.value = value if node.value is not None else None
            return [node]
        if not self.guards:
            return [_at(ast.Return(value), node)]
        if not {"if", "body"} & set(self.within):
            return [_at(ast.Return(_call(CALL, "leave", value, False, node.lineno)), node)]
        kept = self.temporary()
        assign = ast.Assign([_store(kept)], value)
        leave = ast.Return(_call(CALL, "leave", _load(kept), False, node.lineno))
        check = ast.If(_call(CALL, "returning", _load(kept), node.lineno), [leave], [])
        return [_at(item, node) for item in (assign, check, self._escape())]

    def _continue(self, node: ast.Continue) -> list[ast.stmt]:
        return self._loop_jump(node, "continuing", [ast.Constant(node.lineno)])

    def _break(self, node: ast.Break) -> list[ast.stmt]:
        return self._loop_jump(node, "breaking", [])

    def _loop_jump(self, node: ast.stmt, name: str, arguments: list[Any]) -> list[ast.stmt]:
        innermost = next((item for item in reversed(self.within) if item != "if"), None)
        if innermost != "body":
            return [node]
        return [_at(item, node) for item in (ast.Expr(_call(CALL, name, *arguments)), self._escape())]

    def _loop(self, node: Any) -> list[ast.stmt]:
        if isinstance(node, ast.While):
            node.test = ast.copy_location(_call(RUNTIME, "plain", self.expression(node.test), "while"), node.test)
        else:
            node.iter = self.expression(node.iter)
        wrapped = self.traces and _jumps_under_if(node.body)
        returns = self.traces and any(isinstance(item, ast.Return) for item in own_nodes(node.body))
        if wrapped:
            node.body = self._wrapped_body(node)
        else:
            self.within.append("loop")
            node.body = self.block(node.body)
            self.within.pop()
        node.orelse = self.block(node.orelse)
        return [node, *([_at(self._propagate(), node)] if returns and self.guards else [])]

    def _wrapped_body(self, node: Any) -> list[ast.stmt]:
        assert self.liveness is not None
        names, known = self._variables(node.body, self.liveness.ends[id(node)])
        step = self.temporary()
        self.within.append("body")
        body = self.block(node.body)
        self.within.pop()
        steps = ast.copy_location(_call(CALL, "body", *known, node.lineno), node)
        inner = ast.For(_store(step), steps, [*self._take_values(step, names), ast.If(_attribute(step, "true"), body, [])], [])
        return [_at(inner, node), _at(ast.If(_call(CALL, "stops"), [ast.Break()], []), node)]

    def _assert(self, node: ast.Assert) -> list[ast.stmt]:
        """An assertion about a node is checked when the pipeline runs."""
        kept = self.temporary()
        message = self.expression(node.msg)
        keep = ast.Assign([_store(kept)], self.expression(node.test))
        given = [copy.deepcopy(message)] if message is not None else []
        of_node = ast.Expr(_call(RUNTIME, "assert_node", _load(kept), *given))
        usual = ast.Assert(_load(kept), message)
        check = ast.If(_call(RUNTIME, "is_node", _load(kept)), [of_node], [usual])
        return [_at(ast.If(_load("__debug__"), [keep, check], []), node)]

    def _try_statement(self, node: Any) -> list[ast.stmt]:
        marked = self.temporary()
        guard = self.guards
        node.body = self.block(node.body)
        for handler in node.handlers:
            handler.type = self.expression(handler.type)
            handler.body = self.block(handler.body)
            if guard:
                handler.body.insert(0, _at(ast.Expr(_call(CALL, "caught", _load(marked))), handler))
        node.orelse, node.finalbody = self.block(node.orelse), self.block(node.finalbody)
        return [*([_at(self._mark(marked), node)] if guard else []), node]

    def _mark(self, name: str) -> ast.stmt:
        return ast.Assign([_store(name)], _call(CALL, "mark"))

    def _with(self, node: Any) -> list[ast.stmt]:
        """A context manager may swallow an exception."""
        for item in node.items:
            item.context_expr = self.expression(item.context_expr)
        marked = self.temporary()
        node.body = self.block(node.body)
        if not self.guards:
            return [node]
        after = ast.Expr(_call(CALL, "caught", _load(marked)))
        return [_at(self._mark(marked), node), node, _at(after, node)]

    _asyncwith = _with

    def _match(self, node: Any) -> list[ast.stmt]:
        node.subject = self.expression(node.subject)
        for case in node.cases:
            case.guard = self.expression(case.guard)
            case.body = self.block(case.body)
        return [node]

    def _global(self, node: Any) -> list[ast.stmt]:
        return [node] if self.in_class_body else [_at(ast.Pass(), node)]

    _nonlocal = _global

    def _annassign(self, node: ast.AnnAssign) -> list[ast.stmt]:
        node.value = self.expression(node.value)
        if isinstance(node.target, ast.Name) or node.value is None or self.in_class_body:
            return [node]
        return self._assign(ast.copy_location(ast.Assign([node.target], node.value), node), visited=True)

    # --- items and attributes

    def _assign(self, node: ast.Assign, visited: bool = False) -> list[ast.stmt]:
        if not visited:
            node.value = self.expression(node.value)
        if self.in_class_body or not any(_has_place(target) for target in node.targets):
            node.targets = [self.expression(target) for target in node.targets]
            return [node]
        if len(node.targets) == 1 and isinstance(node.targets[0], (ast.Attribute, ast.Subscript)):
            return [_at(self._write(node.value, node.targets[0]), node)]
        kept = self.temporary()
        made: list[ast.stmt] = [ast.Assign([_store(kept)], node.value)]
        for target in node.targets:
            writes: list[ast.stmt] = []
            made += [ast.Assign([self._plain_target(target, writes)], _load(kept)), *writes]
        return [_at(item, node) for item in made]

    def _plain_target(self, target: Any, writes: list[ast.stmt]) -> Any:
        """The target with variables in place of items and attributes, which `writes` then assigns."""
        if isinstance(target, (ast.Attribute, ast.Subscript)):
            kept = self.temporary()
            writes.append(self._write(_load(kept), target))
            return _store(kept)
        if isinstance(target, ast.Starred):
            return ast.Starred(self._plain_target(target.value, writes), ast.Store())
        if isinstance(target, (ast.Tuple, ast.List)):
            return type(target)([self._plain_target(item, writes) for item in target.elts], ast.Store())
        return target

    def _write(self, value: Any, target: Any) -> ast.stmt:
        where = self.expression(target.value)
        if isinstance(target, ast.Attribute):
            return ast.Expr(_call(RUNTIME, "set_attribute", value, where, mangled(target.attr, self.class_name)))
        return ast.Expr(_call(RUNTIME, "set_item", value, where, _as_index(self.expression(target.slice))))

    def _augassign(self, node: ast.AugAssign) -> list[ast.stmt]:
        node.value = self.expression(node.value)
        target: Any = node.target
        if isinstance(target, ast.Name) or self.in_class_body:
            return [node]
        where, key, kept = self.temporary(), self.temporary(), self.temporary()
        made: list[ast.stmt] = [ast.Assign([_store(where)], self.expression(target.value))]
        if isinstance(target, ast.Attribute):
            read: ast.expr = ast.Attribute(_load(where), target.attr, ast.Load())
            write = _call(RUNTIME, "set_attribute", _load(kept), _load(where), mangled(target.attr, self.class_name))
        else:
            made.append(ast.Assign([_store(key)], _as_index(self.expression(target.slice))))
            read = ast.Subscript(_load(where), _load(key), ast.Load())
            write = _call(RUNTIME, "set_item", _load(kept), _load(where), _load(key))
        made += [ast.Assign([_store(kept)], read), ast.AugAssign(_store(kept), node.op, node.value), ast.Expr(write)]
        return [_at(item, node) for item in made]


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _is_do_not_convert(node: ast.expr) -> bool:
    target: Any = node.func if isinstance(node, ast.Call) else node
    return (target.attr if isinstance(target, ast.Attribute) else getattr(target, "id", None)) == "do_not_convert"


def _has_place(target: ast.expr) -> bool:
    """Whether there is an item or attribute among the targets of an assignment."""
    if isinstance(target, (ast.Tuple, ast.List)):
        return any(_has_place(item) for item in target.elts)
    return _has_place(target.value) if isinstance(target, ast.Starred) else isinstance(target, (ast.Attribute, ast.Subscript))


def _as_index(node: Any) -> ast.expr:
    """What is between brackets, as an expression."""
    if isinstance(node, ast.Slice):
        parts = [part or ast.Constant(None) for part in (node.lower, node.upper, node.step)]
        return ast.Call(_attribute(RUNTIME, "slice"), parts, [])
    if isinstance(node, ast.Tuple):
        return ast.Tuple([_as_index(item) for item in node.elts], ast.Load())
    return node


def _at(item: Any, where: ast.AST) -> Any:
    """`item` at the line of what it stands for; parts that have lines keep them."""
    return ast.fix_missing_locations(ast.copy_location(item, where))


def rewritten(node: Any, class_name: str | None, deepest: int = 1000) -> Any:
    """A copy of a function definition or lambda, rewritten; without decorators, defaults and annotations, which are not run again.

    `deepest`: `if` statements inside more constructs than this keep to plain conditions.
    """
    node = stripped(node)
    rewriter = Rewriter(class_name, deepest=deepest)
    if isinstance(node, ast.Lambda):
        node.body = rewriter.expression(node.body)
    else:
        rewriter.function(node)
    return ast.fix_missing_locations(node)


def stripped(node: Any) -> Any:
    """A copy of a definition without what does not run when the function is called."""
    node = copy.deepcopy(node)
    for argument in ast.walk(node.args):
        if isinstance(argument, ast.arg):
            argument.annotation = None
    node.args.defaults = [ast.copy_location(ast.Constant(None), item) for item in node.args.defaults]
    node.args.kw_defaults = [item and ast.copy_location(ast.Constant(None), item) for item in node.args.kw_defaults]
    if not isinstance(node, ast.Lambda):
        node.decorator_list, node.returns = [], None
    return node
