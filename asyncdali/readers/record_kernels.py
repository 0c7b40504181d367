"""Reading records of container files without the interpreter."""

from __future__ import annotations

from numba import types

from ..compiled.intrinsics import load_i32, load_i64
from ..compiled.step import inlined, step

_pread = types.ExternalFunction("pread", types.int64(types.int32, types.int64, types.int64, types.int64))
_advise = types.ExternalFunction("posix_fadvise", types.int32(types.int32, types.int64, types.int64, types.int32))
_errno = types.ExternalFunction("__errno_location", types.int64())

_INTERRUPTED = 4
_WILL_NEED = 3
SHORT_READ = 1 << 20
"""Status: the file ended before the record."""


@inlined
def read_at(descriptor, offset, length, wanted, target):
    """Read up to `length` bytes, at least `wanted`, to `target`; errno, or SHORT_READ."""
    done = 0
    while done < wanted:
        got = _pread(descriptor, target + done, length - done, offset + done)
        if got < 0:
            code = load_i32(_errno())
            if code == _INTERRUPTED:
                continue
            return code
        if got == 0:
            return SHORT_READ
        done += got
    return 0


@step
def read_record(context, sample, thread):
    """Context: descriptors, offsets in the file, bytes to read, bytes needed at least, target addresses; int64[samples] each."""
    at = 8 * sample
    return read_at(
        load_i64(load_i64(context) + at), load_i64(load_i64(context + 8) + at), load_i64(load_i64(context + 16) + at),
        load_i64(load_i64(context + 24) + at), load_i64(load_i64(context + 32) + at),
    )  # fmt: skip


@step
def advise_record(context, sample, thread):
    """Ask the system to read a record into its cache; errors are left to the real read. Context: descriptors, offsets, sizes."""
    at = 8 * sample
    _advise(load_i64(load_i64(context) + at), load_i64(load_i64(context + 8) + at), load_i64(load_i64(context + 16) + at), _WILL_NEED)
    return 0
