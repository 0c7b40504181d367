"""Loops in LLVM's intermediate code."""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

_I64 = ir.IntType(64)


def loop(builder: ir.IRBuilder, count: ir.Value, body: Callable[[ir.Value], None]) -> None:
    """``for i in range(count): body(i)``; `body` may end in another block."""
    function = builder.function
    before, inside, after = builder.block, function.append_basic_block(), function.append_basic_block()
    builder.cbranch(builder.icmp_signed(">", count, _I64(0)), inside, after)
    builder.position_at_end(inside)
    index = builder.phi(_I64)
    index.add_incoming(_I64(0), before)
    body(index)
    following = builder.add(index, _I64(1))
    index.add_incoming(following, builder.block)
    builder.cbranch(builder.icmp_signed("<", following, count), inside, after)
    builder.position_at_end(after)
