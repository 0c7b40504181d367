"""Which variables of a function are read after a statement, and which it assigns. Computed on the user's source."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

Names = frozenset[str]
NONE: Names = frozenset()
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
LOOPS = (ast.For, ast.AsyncFor, ast.While)
TRIES: tuple[Any, ...] = (ast.Try, *([ast.TryStar] if hasattr(ast, "TryStar") else []))


def own_nodes(roots: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Nodes of these trees in the same function. Inner functions are visited but not entered (except defaults and decorators)."""
    todo: list[Any] = list(roots)
    while todo:
        node = todo.pop()
        yield node
        if isinstance(node, ast.Lambda):
            todo += [*node.args.defaults, *(item for item in node.args.kw_defaults if item)]
        elif isinstance(node, FUNCTIONS):
            todo += [*node.decorator_list, *node.args.defaults, *(item for item in node.args.kw_defaults if item)]  # type: ignore[union-attr]
        elif isinstance(node, ast.ClassDef):
            todo += [*node.decorator_list, *node.bases, *(item.value for item in node.keywords)]
        else:
            todo += ast.iter_child_nodes(node)


def assigned(roots: Sequence[ast.AST]) -> list[str]:
    """Names that these statements bind in their function, in alphabetical order."""
    found: set[Any] = set()
    inner = _comprehension_targets(roots)
    for node in own_nodes(roots):
        if isinstance(node, ast.Name) and isinstance(node.ctx, (ast.Store, ast.Del)):
            if id(node) not in inner:
                found.add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) or (isinstance(node, ast.ExceptHandler) and node.name):
            found.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            found.update((alias.asname or alias.name).partition(".")[0] for alias in node.names)
        elif isinstance(node, (ast.MatchAs, ast.MatchStar)) and node.name:
            found.add(node.name)
        elif isinstance(node, ast.MatchMapping) and node.rest:
            found.add(node.rest)
    return sorted(found)


def _comprehension_targets(roots: Sequence[ast.AST]) -> set[int]:
    """The ids of name nodes that are targets of comprehensions, which have their own variables."""
    return {
        id(name)
        for node in own_nodes(roots) if isinstance(node, ast.comprehension)
        for name in ast.walk(node.target) if isinstance(name, ast.Name)
    }  # fmt: skip


def read_names(node: ast.AST | None) -> Names:
    """Names that an expression reads, including its lambdas and comprehensions."""
    if node is None:
        return NONE
    return frozenset(name.id for name in ast.walk(node) if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Load))


def names_of_inner_functions(body: Sequence[ast.AST]) -> Names:
    """Variables of this function that functions made in these statements use. They may be read at any time."""
    found = NONE
    for node in own_nodes(body):
        if isinstance(node, FUNCTIONS):
            found |= _free_names(node)
        elif isinstance(node, ast.ClassDef):
            found |= frozenset(name for name in read_names(node)) | names_of_inner_functions(node.body)
        elif isinstance(node, ast.GeneratorExp):
            found |= read_names(node)
    return found


def _free_names(function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> Names:
    """Names that a function uses without binding them."""
    body: list[ast.AST] = [function.body] if isinstance(function, ast.Lambda) else list(function.body)
    own: set[str] = set(assigned(body))
    arguments = function.args
    own.update(item.arg for item in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs))
    own.update(item.arg for item in (arguments.vararg, arguments.kwarg) if item)
    used: set[str] = set()
    outside: set[str] = set()
    for node in own_nodes(body):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            used.add(node.id)
        elif isinstance(node, (ast.Nonlocal, ast.Global)):
            outside.update(node.names)
    return (frozenset(used) | names_of_inner_functions(body)) - (own - outside) | frozenset(outside)


def continues(body: Sequence[ast.AST]) -> bool:
    """Whether these statements contain a ``continue`` of the enclosing loop."""
    for node in body:
        if isinstance(node, ast.Continue):
            return True
        if isinstance(node, (*FUNCTIONS, ast.ClassDef, ast.expr)):
            continue
        inner = node.orelse if isinstance(node, LOOPS) else list(ast.iter_child_nodes(node))
        if continues(inner):
            return True
    return False


class Liveness:
    """``after[id(statement)]``: names read after an `if` or a loop. ``ends[id(loop)]``: names read after the end of a loop's body."""

    def __init__(self, function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        self.after: dict[int, Names] = {}
        self.ends: dict[int, Names] = {}
        body = [ast.Return(function.body)] if isinstance(function, ast.Lambda) else function.body
        declared = [node for node in own_nodes(body) if isinstance(node, (ast.Global, ast.Nonlocal))]
        self.always = names_of_inner_functions(body) | frozenset(name for node in declared for name in node.names)
        self._loops: list[tuple[Names, Names]] = []  # live names at `break` and at `continue` of the enclosing loops
        self._handlers: Names = NONE
        self._finally: Names = NONE
        self._block(body, self.always)

    def _block(self, body: Sequence[ast.stmt], out: Names) -> Names:
        for statement in reversed(body):
            if isinstance(statement, ast.If) and self._loops and continues([statement]):
                # Only some samples run the following statements, so names that are live for the others are live after them.
                out |= self._loops[-1][1]
            out = self._statement(statement, out) | self._handlers
        return out

    def _statement(self, node: ast.stmt, out: Names) -> Names:
        if isinstance(node, ast.If):
            self.after[id(node)] = out
            return read_names(node.test) | self._block(node.body, out) | self._block(node.orelse, out)
        if isinstance(node, LOOPS):
            return self._loop(node, out)
        if isinstance(node, TRIES):
            return self._try(node, out)
        if isinstance(node, (ast.With, ast.AsyncWith)):
            return self._with(node, out)
        if isinstance(node, ast.Match):
            cases = [self._case(case, out) for case in node.cases]
            return read_names(node.subject) | out.union(*cases)
        if isinstance(node, (ast.Return, ast.Raise)):
            return read_names(node) | self._finally | self.always
        if isinstance(node, ast.Break):
            return self._loops[-1][0]
        if isinstance(node, ast.Continue):
            return self._loops[-1][1]
        return self._simple(node, out)

    def _simple(self, node: Any, out: Names) -> Names:
        """Simple statements: names that they certainly assign are not needed before them."""
        uses = read_names(node)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            return (out - {node.name}) | uses | self.always
        kills: set[str] = set()
        for target in _targets(node):
            kills.update(name.id for name in ast.walk(target) if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store))
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            uses |= {node.target.id}
        if isinstance(node, ast.Delete):
            uses |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            kills.update((alias.asname or alias.name).partition(".")[0] for alias in node.names)
        return (out - kills) | uses | self.always

    def _loop(self, node: ast.For | ast.AsyncFor | ast.While, out: Names) -> Names:
        self.after[id(node)] = out
        done = self._block(node.orelse, out)
        targets, uses = NONE, read_names(node.test) if isinstance(node, ast.While) else NONE
        if not isinstance(node, ast.While):
            targets = frozenset(name.id for name in ast.walk(node.target) if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store))
        head = done | uses
        while True:
            self._loops.append((out, head))
            entry = (self._block(node.body, head) - targets) | head
            self._loops.pop()
            if entry == head:
                break
            head = entry
        self.ends[id(node)] = head
        return head if isinstance(node, ast.While) else head | read_names(node.iter) | read_names(node.target)

    def _try(self, node: ast.Try, out: Names) -> Names:
        final = self._block(node.finalbody, out)
        handlers = [(self._block(handler.body, final) - {handler.name}) | read_names(handler.type) for handler in node.handlers]
        caught = NONE.union(*handlers) | (final if node.finalbody else NONE)
        previous, self._handlers = self._handlers, self._handlers | caught
        before, self._finally = self._finally, self._finally | caught
        done = self._block(node.body, self._block(node.orelse, final))
        self._handlers, self._finally = previous, before
        return done | caught

    def _with(self, node: ast.With | ast.AsyncWith, out: Names) -> Names:
        """A context manager may suppress an exception, so the following statements may run after any statement of the body."""
        previous, self._handlers = self._handlers, self._handlers | out
        before, self._finally = self._finally, self._finally | out
        live = self._block(node.body, out)
        self._handlers, self._finally = previous, before
        for item in node.items:
            live |= read_names(item.context_expr) | (read_names(item.optional_vars) if item.optional_vars else NONE)
        return live

    def _case(self, case: ast.match_case, out: Names) -> Names:
        return self._block(case.body, out) | read_names(case.guard) | read_names(case.pattern)


def _targets(node: object) -> list[ast.expr]:
    if isinstance(node, ast.Assign):
        return node.targets
    if isinstance(node, ast.AnnAssign) and node.value is not None:
        return [node.target]
    return []
