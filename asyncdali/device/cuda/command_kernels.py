"""Calls of CUDA's driver, one after another, without the interpreter. What they are is in :mod:`.commands`."""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ...compiled.intrinsics import I64, copy_bytes, load_i64, store_i64
from ...compiled.step import compiled

# Commands (int64 each). The first word says which:
WAIT = 0  # stream, event: the stream waits for the event
RECORD = 1  # stream, event
COPY = 2  # stream, target, source, bytes
STAGE = 3  # target, source, bytes: of the host, at once
LAUNCH = 4  # stream, function, blocks in x and y, threads of a block, bytes of shared memory, the kernel's only argument, 0
LAUNCH_EACH = 5  # stream, function, blocks in x, y, z, threads in x, y, z, launches, arguments of each, their addresses (int64 each)

CALL = 6  # address of another function that gives a status, six arguments (of which it may take the first ones)
SYNCHRONIZE = 7  # event: the host waits for it
LENGTHS = (3, 3, 5, 4, 9, 12, 8, 2)
"""How many words each of them has."""

# Addresses of the driver's functions (int64 each)
STREAM_WAIT_EVENT, EVENT_RECORD, MEMCPY_ASYNC, LAUNCH_KERNEL, EVENT_SYNCHRONIZE = range(5)


def _call_of(*bits):
    """Code for calling a C function at an address with integers of these sizes; its status is an int."""
    kinds = [ir.IntType(size) for size in bits]
    pointer = ir.FunctionType(ir.IntType(32), kinds).as_pointer()

    def codegen(context, builder, signature, args):
        given = [arg if size == 64 else builder.trunc(arg, kind) for arg, size, kind in zip(args[1:], bits, kinds)]
        return builder.zext(builder.call(builder.inttoptr(args[0], pointer), given), I64)

    return types.int64(*[types.int64] * (1 + len(bits))), codegen


@intrinsic
def _stream_wait_event(typingctx, function, stream, event, flags):
    """cuStreamWaitEvent."""
    return _call_of(64, 64, 32)


@intrinsic
def _event_record(typingctx, function, event, stream):
    """cuEventRecord."""
    return _call_of(64, 64)


@intrinsic
def _memcpy_async(typingctx, function, target, source, size, stream):
    """cuMemcpyAsync."""
    return _call_of(64, 64, 64, 64)


@intrinsic
def _launch_kernel(typingctx, call, function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream, arguments, extra):
    """cuLaunchKernel."""
    return _call_of(64, 32, 32, 32, 32, 32, 32, 32, 64, 64, 64)


@intrinsic
def _event_synchronize(typingctx, function, event):
    """cuEventSynchronize."""
    return _call_of(64)


@intrinsic
def _call(typingctx, function, a, b, c, d, e, f):
    """A function of at most six integers or addresses."""
    return _call_of(64, 64, 64, 64, 64, 64)


@compiled(3)
def perform(driver, begin, end):
    """Carry out the commands from `begin` to `end`, by the `driver`'s functions; up to the first that fails.

    Returns 0, or its status and, above 32 bits, where it is: in words.
    """
    at = begin
    while at < end:
        place, status = at - begin, 0
        kind, stream, first = load_i64(at), load_i64(at + 8), load_i64(at + 16)
        if kind == WAIT:
            status = _stream_wait_event(load_i64(driver + 8 * STREAM_WAIT_EVENT), stream, first, 0)
            at += 24
        elif kind == RECORD:
            status = _event_record(load_i64(driver + 8 * EVENT_RECORD), first, stream)
            at += 24
        elif kind == COPY:
            status = _memcpy_async(load_i64(driver + 8 * MEMCPY_ASYNC), first, load_i64(at + 24), load_i64(at + 32), stream)
            at += 40
        elif kind == STAGE:
            copy_bytes(stream, first, load_i64(at + 24))
            at += 32
        elif kind == LAUNCH:
            store_i64(at + 64, at + 56)  # the arguments' addresses: of one
            status = _launch_kernel(
                load_i64(driver + 8 * LAUNCH_KERNEL), first, load_i64(at + 24), load_i64(at + 32), 1, load_i64(at + 40), 1, 1,
                load_i64(at + 48), stream, at + 64, 0,
            )  # fmt: skip
            at += 72
        elif kind == SYNCHRONIZE:
            status = _event_synchronize(load_i64(driver + 8 * EVENT_SYNCHRONIZE), stream)
            at += 16
        elif kind == CALL:
            status = _call(stream, first, load_i64(at + 24), load_i64(at + 32), load_i64(at + 40), load_i64(at + 48), load_i64(at + 56))
            at += 64
        else:
            arguments, words = load_i64(at + 88), load_i64(at + 80)
            for k in range(load_i64(at + 72)):
                status = _launch_kernel(
                    load_i64(driver + 8 * LAUNCH_KERNEL), first, load_i64(at + 24), load_i64(at + 32), load_i64(at + 40),
                    load_i64(at + 48), load_i64(at + 56), load_i64(at + 64), 0, stream, arguments + 8 * k * words, 0,
                )  # fmt: skip
                if status != 0:
                    break
            at += 96
        if status != 0:
            return (place << 29) | status  # bytes become words, and go above the status
    return 0
