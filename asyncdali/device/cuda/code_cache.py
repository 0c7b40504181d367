"""Machine code of CUDA kernels on disk. A GPU executes what is loaded from there, so only this user's own files are.

The files lie in a folder of their own below CuPy's (``CUPY_CACHE_DIR``, else ``~/.cupy/kernel_cache``). The folder is made with mode 0700,
and is used only while it belongs to this user and nobody else may write to it: then nobody else can have put a file there. Each file
begins with a digest, so that one that was cut short is compiled anew.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from pathlib import Path

from ..._files import replace_file

_DIGEST = 32


def folder() -> Path:
    """Where machine code is kept."""
    return Path(os.environ.get("CUPY_CACHE_DIR") or Path.home() / ".cupy" / "kernel_cache") / "asyncdali"


def read(key: str) -> bytes | None:
    """The machine code that was stored for `key` (source, options, compiler, GPU); None if there is none that can be trusted."""
    try:
        if not _is_private(folder()):
            return None
        descriptor = os.open(_file(key), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        with open(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return None
            data = file.read()
    except (OSError, RuntimeError):  # RuntimeError: no home
        return None
    digest, code = data[:_DIGEST], data[_DIGEST:]
    return code if hashlib.sha256(code).digest() == digest else None


def write(key: str, code: bytes) -> None:
    """Keep machine code, where it would be read again. A folder that cannot be written is no error."""
    with contextlib.suppress(OSError, RuntimeError):
        place = folder()
        place.parent.mkdir(parents=True, exist_ok=True)
        place.mkdir(mode=0o700, exist_ok=True)
        if _is_private(place):
            replace_file(_file(key), hashlib.sha256(code).digest() + code)


def _file(key: str) -> Path:
    return folder() / f"{hashlib.sha256(key.encode()).hexdigest()}.cubin"


def _is_private(place: Path) -> bool:
    """Whether a directory (not a link to one) belongs to this user, who alone may write to it."""
    found = os.lstat(place)
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o022
