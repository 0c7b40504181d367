"""Machine code of CUDA kernels on disk. The GPU executes files of this cache, so only files of this user are loaded.

The files are in a folder below CuPy's (``CUPY_CACHE_DIR``, else ``~/.cupy/kernel_cache``). The folder is made with mode 0700, and is used
only if it belongs to this user, and only this user may write to it. So no other user can have put a file there. Each file begins with a
digest; a truncated file is compiled again.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from pathlib import Path

from ...system.files import replace_file

_DIGEST = 32


def folder() -> Path:
    """The folder for machine code."""
    return Path(os.environ.get("CUPY_CACHE_DIR") or Path.home() / ".cupy" / "kernel_cache") / "asyncdali"


def read(key: str) -> bytes | None:
    """The stored machine code for `key` (source, options, compiler, GPU). None if there is none that can be trusted."""
    try:
        if not _is_private(folder()):
            return None
        descriptor = os.open(_file(key), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        with open(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return None
            data = file.read()
    except (OSError, RuntimeError):  # RuntimeError: there is no home folder
        return None
    digest, code = data[:_DIGEST], data[_DIGEST:]
    return code if hashlib.sha256(code).digest() == digest else None


def write(key: str, code: bytes) -> None:
    """Store machine code if it could be loaded again. A folder that is not writable is no error."""
    with contextlib.suppress(OSError, RuntimeError):
        place = folder()
        place.parent.mkdir(parents=True, exist_ok=True)
        place.mkdir(mode=0o700, exist_ok=True)
        if _is_private(place):
            replace_file(_file(key), hashlib.sha256(code).digest() + code)


def _file(key: str) -> Path:
    return folder() / f"{hashlib.sha256(key.encode()).hexdigest()}.cubin"


def _is_private(place: Path) -> bool:
    """Whether a path is a directory (no link) that belongs to this user, who alone may write to it."""
    found = os.lstat(place)
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o022
