"""Compiled steps of ``io.file.read``: its paths are data, and files may be read without the system's cache."""

from __future__ import annotations

from ...compiled import kinds
from ...compiled.intrinsics import copy_bytes, load_i64, store_u8
from ...compiled.step import step
from ..containers.record_kernels import lay_out, open_file, read_at
from .file_kernels import SHORT_READ, look_back, open_step, read_step
from .file_tables import COPY_PATHS, READ_DIRECT

__all__ = ["SHORT_READ", "copy_path", "lay_out", "look_back", "open_step", "read_direct_step", "read_step"]

_close = kinds.ExternalFunction("close", kinds.int32(kinds.int32))
direct, copying = READ_DIRECT.at, COPY_PATHS.at


@step
def copy_path(context, sample, thread):
    """The NUL-terminated path of a sample."""
    at = 8 * sample
    length, target = load_i64(load_i64(context + copying.lengths) + at), load_i64(load_i64(context + copying.targets) + at)
    copy_bytes(target, load_i64(load_i64(context + copying.texts) + at), length)
    store_u8(target + length, 0)
    return 0


@step
def read_direct_step(context, sample, thread):
    """Read each file without the system's cache. Status: errno, or SHORT_READ."""
    at = 8 * sample
    fd = open_file(load_i64(context + direct.paths) + load_i64(load_i64(context + direct.starts) + at), 1)
    if fd < 0:
        return -fd
    size = load_i64(load_i64(context + direct.sizes) + at)
    code = read_at(fd, 0, load_i64(load_i64(context + direct.room) + at), size, load_i64(load_i64(context + direct.addresses) + at))
    _close(fd)
    return code
