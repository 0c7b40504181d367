"""Calls of CUDA's driver, one after another, without the interpreter. :mod:`.command_tables` declares the commands."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from ...compiled import kinds
from ...compiled.intrinsics import I64, address, call1, call3, load_i64, local_array, store_i64
from ...compiled.job_tables import JOB
from ...compiled.kinds import intrinsic
from ...compiled.step import compiled
from .command_tables import (
    CALL,
    CALL_COMMAND,
    COPY,
    COPY_COMMAND,
    DRIVER_CALLS,
    LAUNCH,
    LAUNCH_COMMAND,
    LAUNCH_EACH_COMMAND,
    PERFORM,
    QUERY,
    QUERY_COMMAND,
    RECORD,
    RECORD_COMMAND,
    SYNCHRONIZE,
    SYNCHRONIZE_COMMAND,
    WAIT,
    WAIT_COMMAND,
)

calls, performing, job_at = DRIVER_CALLS.at, PERFORM.at, JOB.at
wait, record, copy = WAIT_COMMAND.at, RECORD_COMMAND.at, COPY_COMMAND.at
launch, launch_each, call, synchronize = LAUNCH_COMMAND.at, LAUNCH_EACH_COMMAND.at, CALL_COMMAND.at, SYNCHRONIZE_COMMAND.at
query = QUERY_COMMAND.at
_word = local_array("int64", 1)


def _call_of(*bits: int) -> Any:
    """LLVM IR that calls a C function at an address, with integers of these sizes. The status is an int."""
    sizes = [ir.IntType(size) for size in bits]
    pointer = ir.FunctionType(ir.IntType(32), sizes).as_pointer()

    def codegen(context, builder, signature, args):
        given = [arg if size == 64 else builder.trunc(arg, kind) for arg, size, kind in zip(args[1:], bits, sizes)]
        return builder.zext(builder.call(builder.inttoptr(args[0], pointer), given), I64)

    return kinds.int64(*[kinds.int64] * (1 + len(bits))), codegen


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
def _event_call(typingctx, function, event):
    """cuEventSynchronize, cuEventQuery."""
    return _call_of(64)


@intrinsic
def _call(typingctx, function, a, b, c, d, e, f):
    """A call of a function with at most six integers or addresses."""
    return _call_of(64, 64, 64, 64, 64, 64)


@compiled(3)
def perform(driver, begin, end):
    """Execute the commands from `begin` to `end` with the functions of `driver` (DRIVER_CALLS), up to the first that fails.

    Returns 0; or the status and, above 32 bits, the position of the command in words.
    """
    at = begin
    while at < end:
        place, status = at - begin, 0
        kind = load_i64(at + wait.kind)
        if kind == WAIT:
            event, stream = load_i64(at + wait.event), load_i64(at + wait.stream)
            status = _stream_wait_event(load_i64(driver + calls.cuStreamWaitEvent), stream, event, 0)
            at += wait.size
        elif kind == RECORD:
            event, stream = load_i64(at + record.event), load_i64(at + record.stream)
            status = _event_record(load_i64(driver + calls.cuEventRecord), event, stream)
            at += record.size
        elif kind == COPY:
            target, source, size = load_i64(at + copy.target), load_i64(at + copy.source), load_i64(at + copy.bytes)
            status = _memcpy_async(load_i64(driver + calls.cuMemcpyAsync), target, source, size, load_i64(at + copy.stream))
            at += copy.size
        elif kind == LAUNCH:
            store_i64(at + launch.arguments, at + launch.context)
            status = _launch_kernel(
                load_i64(driver + calls.cuLaunchKernel), load_i64(at + launch.function),
                load_i64(at + launch.blocks_x), load_i64(at + launch.blocks_y), 1, load_i64(at + launch.threads), 1, 1,
                load_i64(at + launch.shared), load_i64(at + launch.stream), at + launch.arguments, 0,
            )  # fmt: skip
            at += launch.size
        elif kind == SYNCHRONIZE:
            status = _event_call(load_i64(driver + calls.cuEventSynchronize), load_i64(at + synchronize.event))
            at += synchronize.size
        elif kind == QUERY:
            status = _event_call(load_i64(driver + calls.cuEventQuery), load_i64(at + query.event))
            at += query.size
        elif kind == CALL:
            status = _call(
                load_i64(at + call.function), load_i64(at + call.argument_a), load_i64(at + call.argument_b),
                load_i64(at + call.argument_c), load_i64(at + call.argument_d), load_i64(at + call.argument_e),
                load_i64(at + call.argument_f),
            )  # fmt: skip
            at += call.size
        else:
            arguments, count = load_i64(at + launch_each.arguments), load_i64(at + launch_each.count)
            for k in range(load_i64(at + launch_each.launches)):
                status = _launch_kernel(
                    load_i64(driver + calls.cuLaunchKernel), load_i64(at + launch_each.function),
                    load_i64(at + launch_each.blocks_x), load_i64(at + launch_each.blocks_y), load_i64(at + launch_each.blocks_z),
                    load_i64(at + launch_each.threads_x), load_i64(at + launch_each.threads_y), load_i64(at + launch_each.threads_z),
                    0, load_i64(at + launch_each.stream), arguments + 8 * k * count, 0,
                )  # fmt: skip
                if status != 0:
                    break
            at += launch_each.size
        if status != 0:
            return (place << 29) | status  # the bits above the status: `place` in words (bytes / 8)
    return 0


@compiled(2)
def perform_job(job, thread):
    """Perform the commands of a job (PERFORM) on a thread of a crew."""
    table = load_i64(job + job_at.contexts)
    function, driver, end = load_i64(table + performing.function), load_i64(table + performing.driver), load_i64(table + performing.end)
    result = call3(function, driver, load_i64(table + performing.begin), end)
    store_i64(table + performing.result, result)
    if result != 0:
        call3(function, driver, end, load_i64(table + performing.settled))
    return 0


@compiled(1)
def current_context(function):
    """The context that cuCtxGetCurrent (`function`) gives; 0: none. One call in place of four of ctypes."""
    place = address(_word())
    store_i64(place, 0)
    call1(function, place)
    return load_i64(place)
