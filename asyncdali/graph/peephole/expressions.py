"""Trees of arithmetic become one operator: one pass over the elements, and no intermediate results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...operators.base import Spec
from ...operators.expressions.expressions import ArithmeticGenericOp
from ...operators.expressions.programs import ExpressionProgram, InputOperand, Instruction, Literal, Operand, ResultOperand, single

if TYPE_CHECKING:
    from ..plan import PlannedOperator

MAX_INSTRUCTIONS = 64
MAX_INPUTS = 32


def fuse_expressions(operators: Sequence[PlannedOperator], outputs: Sequence[int]) -> list[PlannedOperator]:
    """`operators` (in topological order) with every tree of arithmetic operations as one operator.

    An operation joins the tree of its users if all of them are in the same tree and nothing else uses its result.
    """
    users: dict[int, list[PlannedOperator]] = {}
    seen = set(outputs)
    for planned in operators:
        for edge in planned.inputs:
            users.setdefault(edge, []).append(planned)
        seen.update(planned.arguments.values())
    roots: dict[int, PlannedOperator] = {}
    trees: dict[int, _Tree] = {}
    for planned in reversed(operators):
        if planned.kind is not ArithmeticGenericOp:
            continue
        edge = planned.outputs[0]
        homes = {id(roots[id(user)]) if id(user) in roots else 0 for user in users.get(edge, [])}
        tree = trees.get(homes.pop()) if len(homes) == 1 and edge not in seen and not planned.spec.constants.get("preserve") else None
        if tree is None or not tree.take(planned):
            tree = trees[id(planned)] = _Tree(planned)
        roots[id(planned)] = tree.root
    return [_whole(planned, trees) for planned in operators if roots.get(id(planned), planned) is planned]


class _Tree:
    """Operations that will be one operator: the root first, users before their inputs."""

    def __init__(self, root: PlannedOperator):
        self.root = root
        self.members = [root]
        self._inputs = set(root.inputs)

    def take(self, planned: PlannedOperator) -> bool:
        """Add an operation that makes an input of this tree, unless the tree becomes too large or the operation is on another device."""
        inputs = (self._inputs - set(planned.outputs)) | set(planned.inputs)
        if planned.backend != self.root.backend or len(self.members) >= MAX_INSTRUCTIONS or len(inputs) > MAX_INPUTS:
            return False
        self.members.append(planned)
        self._inputs = inputs
        return True


def _whole(planned: PlannedOperator, trees: dict[int, _Tree]) -> PlannedOperator:
    tree = trees.get(id(planned))
    if tree is None:
        return planned
    place: dict[int, Operand] = {}
    inputs: list[int] = []
    instructions: list[Instruction] = []
    for member in reversed(tree.members):
        (own,) = single(member.spec.constants["op"], member.spec.constants["operands"]).instructions
        operands: list[Operand] = []
        for operand in own.operands:
            if isinstance(operand, Literal):
                operands.append(operand)
                continue
            edge = member.inputs[operand.index]
            if edge not in place:
                place[edge] = InputOperand(len(inputs))
                inputs.append(edge)
            operands.append(place[edge])
        place[member.outputs[0]] = ResultOperand(len(instructions))
        instructions.append(Instruction(own.name, tuple(operands), _line(member.trace)))
    spec = planned.spec
    program = ExpressionProgram(tuple(instructions))
    constants = {"program": program, "expression": program.describe()}
    planned.spec = Spec(spec.schema, spec.name, spec.device, constants, (), len(inputs), 1)
    planned.inputs = inputs
    return planned


def _line(trace: str) -> str:
    """The innermost line of the user's program in a trace."""
    return next((text.strip() for text in reversed(trace.splitlines()) if text.startswith("  File ")), "")
