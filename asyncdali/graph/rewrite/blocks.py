"""Blocks of statements that are being traced, and the variables, items and attributes that they write."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any

from ...data_node import DataNode
from ...errors import OperatorValueError
from .. import conditionals
from ..conditionals import Conditionals, Scope, frozen, holds_data
from .paths import Fork, Joined, Leaf, Merger, gather, kept, leaves
from .writes import MISSING, Log, WrittenPlace

if TYPE_CHECKING:
    from .runtime import RewrittenCall

UNDEFINED = MISSING


def state_of(frame: FrameType, names: Sequence[str], global_names: Sequence[str]) -> dict[str, object]:
    """The variables of a frame; UNDEFINED if a variable has no value. Containers are copied, because writes in branches are undone."""
    local: Mapping[str, Any] = frame.f_locals
    found = {}
    for name in names:
        value = frame.f_globals.get(name, UNDEFINED) if name in global_names else local.get(name, UNDEFINED)
        found[name] = frozen(value)
    return found


def check_predicate(node: DataNode, what: str) -> None:
    if node.device == "gpu":
        raise ValueError(
            f'Invalid device "gpu" for argument \'predicate\' of {what}: conditions must be on the CPU (compute them there, or use .cpu())'
        )


def check_side(node: DataNode, expression: str, side: str) -> None:
    """Refuse an operand of `and` or `or` on a GPU. The error is a RuntimeError, as in DALI, and a ValueError, as for other conditions."""
    if node.device == "gpu":
        raise OperatorValueError(
            f'Invalid device "gpu" in the logical expression `{expression}`: it is restricted to scalar (0-d tensors) inputs on CPU. '
            f"Got a GPU input as the {side} argument in logical expression: compute it on the CPU, or use .cpu()."
        )


def unsupported(what: str, advice: str) -> TypeError:
    return TypeError(f'"DataNode" was used in a conditional context that cannot depend on data: {what} that depends on a node: {advice}.')


class Block:
    """A block of statements: the scope at its start, and the leaf of the samples that have not left it."""

    def __init__(self, scope: Scope):
        self.scope = scope
        self.root = Leaf(scope)
        self.fall: Leaf | None = self.root
        self.log = Log()

    @property
    def split_up(self) -> bool:
        """Whether some samples have left the block early."""
        return self.fall is not self.root

    def stops_at(self, leaf: Leaf) -> None:
        """The samples at `leaf` leave the block."""
        assert self.fall is not None
        self.fall.then = leaf
        self.fall = None


class Open:
    """Base class of the items of the stack ``Conditionals.open``. `outer`: the enclosing scope."""

    symbolic = False

    def __init__(self, call: RewrittenCall):
        self.call = call
        self.scopes: Conditionals = call.scopes
        self.outer = self.scopes.current
        self.block = Block(self.outer)

    def push(self) -> None:
        self.scopes.open.append(self)

    def pop(self) -> None:
        assert self.scopes.open[-1] is self, "constructs of a rewritten function are left in the order they were entered"
        self.scopes.open.pop()


def write_merged(
    scopes: Conditionals, root: Any, chosen: Callable[[Leaf], bool], log: Log | None = None, own: Any = ()
) -> None:
    """Give items and attributes written in branches their merged values; those in `own` also if all values are equal."""
    ends = [leaf for leaf in leaves(root) if chosen(leaf)]
    places: dict[Any, WrittenPlace] = {}
    for leaf in ends:
        for key, (place, _) in leaf.writes.items():
            places.setdefault(key, place)
    for key, place in places.items():
        default = log.places[key][1] if log is not None and key in log.places else place.read()

        def value(leaf: Leaf, key: Any = key, default: Any = default) -> Any:
            return leaf.writes[key][1] if key in leaf.writes else default

        every = [value(leaf) for leaf in ends]
        same = all(item is every[0] for item in every)
        merges = key in own or not kept(root, key) or not scopes.reaches(every[0], scopes.current)
        if same and (not merges or not holds_data(every[0])):
            if place.read() is not every[0]:
                assign(place, every[0])
            continue

        assign(place, gather(scopes, root, chosen, value, merger_of(scopes, place)).value)


def merger_of(scopes: Conditionals, place: WrittenPlace) -> Merger:
    """Merges the values that an item or attribute has at two leaves."""
    key = place.identity()

    def merge(
        values: tuple[Any, Any], within: tuple[Scope, Scope], predicate: DataNode, home: Scope, where: Fork | Joined
    ) -> Any:  # fmt: skip
        if values[0] is values[1] and where.keeps(key) and scopes.reaches(values[0], home):
            return values[0]
        if values[0] is MISSING or values[1] is MISSING:
            raise one_sided(place.describe(), values[0] is MISSING, 0)
        return scopes.merge(values, within, predicate, home, place.describe())

    return merge


def one_sided(name: str, first_missing: bool, line: int) -> RuntimeError:
    side = "if" if first_missing else "else"
    where = f" at line {line}" if line else ""
    return RuntimeError(
        f"inconsistent outputs of the `if/else`{where}, whose condition is a node: variables that are read later need a value in both "
        f"branches. Variable '{name}' must also be initialized in the `{side}` branch."
    )


# ------------------------------------------------------------------------------------------------------------------ assignments


def _logs() -> Iterator[Log]:
    """The log for an assignment: that of the innermost branch, or of statements that some samples have left."""
    scopes = conditionals.active()
    if scopes is not None:
        for entry in reversed(scopes.open):
            if entry.symbolic or entry.block.split_up:
                yield entry.block.log
                return


def assign(place: WrittenPlace, value: object) -> None:
    """Write to an item or attribute, and record the write in the current branch."""
    for log in _logs():
        log.note(place)
    place.write(value)


def set_item(value: Any, target: Any, key: Any) -> None:
    """``target[key] = value``"""
    for log in _logs():
        log.note(WrittenPlace(target, key, False))
    target[key] = value


def set_attribute(value: Any, target: Any, name: str) -> None:
    """``target.name = value``"""
    for log in _logs():
        log.note(WrittenPlace(target, name, True))
    setattr(target, name, value)


def born(value: Any) -> Any:
    """`value` was just made. If this is in a branch, the branch may write to it freely."""
    for log in _logs():
        log.born[id(value)] = value
    return value
