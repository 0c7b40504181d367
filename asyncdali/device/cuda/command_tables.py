"""Commands for CUDA's driver: one table per kind. Commands are contiguous; the first word of each is its kind."""

from __future__ import annotations

from ...compiled.tables import Field, Table

WAIT, RECORD, COPY, LAUNCH, LAUNCH_EACH, CALL, SYNCHRONIZE, QUERY = range(8)
"""Kinds of commands."""

DRIVER_CALLS = Table(
    "DRIVER_CALLS",
    Field("cuStreamWaitEvent", "address", "of the driver's function"),
    Field("cuEventRecord", "address", "of the driver's function"),
    Field("cuMemcpyAsync", "address", "of the driver's function"),
    Field("cuLaunchKernel", "address", "of the driver's function"),
    Field("cuEventSynchronize", "address", "of the driver's function"),
    Field("cuEventQuery", "address", "of the driver's function"),
)
"""The names of the driver's functions. Streams and events that CuPy makes with CUDA's runtime are also the driver's."""

CALLED = {
    WAIT: "cuStreamWaitEvent", RECORD: "cuEventRecord", COPY: "cuMemcpyAsync", LAUNCH: "cuLaunchKernel", LAUNCH_EACH: "cuLaunchKernel",
    SYNCHRONIZE: "cuEventSynchronize", QUERY: "cuEventQuery",
}  # fmt: skip
"""The driver's function for each kind of command."""

PERFORM = Table(
    "PERFORM",
    Field("function", "address", "of the function that performs commands: function(driver, begin, end) -> result"),
    Field("driver", "address", "first argument of the function"),
    Field("begin", "address", "of the commands"),
    Field("end", "address", "behind the commands"),
    Field("settled", "address", "behind the commands that follow them after a failure, to wait for those before it"),
    Field("result", "int64", "result: 0, or the position of the command that failed, and its status"),
)
"""A list of commands for a thread without the interpreter."""

_KIND = Field("kind", "int64", "number of the command")
_STREAM = Field("stream", "CUstream", "the stream that executes the command")
_EVENT = Field("event", "CUevent", "handle of the event")
_FUNCTION = Field("function", "CUfunction", "the kernel")
_TARGET = Field("target", "address", "where the bytes go")
_SOURCE = Field("source", "address", "where the bytes are")
_BYTES = Field("bytes", "int64", "how many bytes")

WAIT_COMMAND = Table("WAIT_COMMAND", _KIND, _STREAM, _EVENT)
"""The stream waits for the event."""

RECORD_COMMAND = Table("RECORD_COMMAND", _KIND, _STREAM, _EVENT)
"""The event is recorded in the stream."""

COPY_COMMAND = Table("COPY_COMMAND", _KIND, _STREAM, _TARGET, _SOURCE, _BYTES)
"""The stream copies between any memory."""

LAUNCH_COMMAND = Table(
    "LAUNCH_COMMAND",
    _KIND,
    _STREAM,
    _FUNCTION,
    Field("blocks", "int64", "of the grid", "xy"),
    Field("threads", "int64", "of a block"),
    Field("shared", "int64", "bytes of dynamic shared memory"),
    Field("context", "address", "of the kernel's table, its only argument"),
    Field("arguments", "addresses", "of the kernel's arguments: of `context`; written when the command is carried out"),
)
"""The stream launches a kernel over a table."""

LAUNCH_EACH_COMMAND = Table(
    "LAUNCH_EACH_COMMAND",
    _KIND,
    _STREAM,
    _FUNCTION,
    Field("blocks", "int64", "of the grid", "xyz"),
    Field("threads", "int64", "of a block", "xyz"),
    Field("launches", "int64", "number of launches"),
    Field("count", "int64", "arguments of each launch"),
    Field("arguments", "addresses[launches, count]", "of the arguments"),
)
"""The stream launches a kernel several times."""

CALL_COMMAND = Table(
    "CALL_COMMAND",
    _KIND,
    Field("function", "address", "of a function that gives a status"),
    Field("argument", "int64", "the function may take the first ones only", "abcdef"),
)
"""The host calls another library's function."""

SYNCHRONIZE_COMMAND = Table("SYNCHRONIZE_COMMAND", _KIND, _EVENT)
"""The host waits for the event."""

QUERY_COMMAND = Table("QUERY_COMMAND", _KIND, _EVENT)
"""The host asks for the event. The status is not 0 if it has not been reached."""

COMMANDS = {
    WAIT: WAIT_COMMAND, RECORD: RECORD_COMMAND, COPY: COPY_COMMAND, LAUNCH: LAUNCH_COMMAND, LAUNCH_EACH: LAUNCH_EACH_COMMAND,
    CALL: CALL_COMMAND, SYNCHRONIZE: SYNCHRONIZE_COMMAND, QUERY: QUERY_COMMAND,
}  # fmt: skip
"""The tables by kind."""
