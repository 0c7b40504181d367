"""Loops in LLVM's intermediate code."""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

_I64 = ir.IntType(64)


def loop(builder: ir.IRBuilder, count: ir.Value, body: Callable[[ir.Value], None], lanes: int = 0) -> None:
    """``for i in range(count): body(i)``; `body` may end in another block.

    `lanes`: iterations that LLVM computes at a time. By default it chooses as many float64 as fill a register, if there is any float64.
    """
    function = builder.function
    before, inside, after = builder.block, function.append_basic_block(), function.append_basic_block()
    builder.cbranch(builder.icmp_signed(">", count, _I64(0)), inside, after)
    builder.position_at_end(inside)
    index = builder.phi(_I64)
    index.add_incoming(_I64(0), before)
    body(index)
    following = builder.add(index, _I64(1))
    index.add_incoming(following, builder.block)
    branch = builder.cbranch(builder.icmp_signed("<", following, count), inside, after)
    if lanes:
        branch.set_metadata("llvm.loop", _vectorised(builder.module, lanes))
    builder.position_at_end(after)


def _vectorised(module: ir.Module, lanes: int) -> ir.Value:
    """The metadata of a loop that is vectorised with `lanes`. LLVM asks for a node whose first operand is the node itself."""
    width = module.add_metadata(["llvm.loop.vectorize.width", ir.Constant(ir.IntType(32), lanes)])
    made = module.add_metadata([width, ir.Constant(ir.IntType(32), len(module.metadata))])  # The number makes a node of its own.
    made.operands = (made, width)
    return made
