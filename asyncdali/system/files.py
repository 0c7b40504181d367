"""Replaces files atomically: readers see the old content or the new one."""

from __future__ import annotations

import contextlib
import functools
import os
import secrets
import stat

from asyncdali_workers.interrupts import uninterrupted


def replace_file(path: str | os.PathLike[str], data: bytes, durable: bool = False) -> None:
    """Replace the content of `path` by `data`. After a crash the file has the old content or all of the new one.

    A replaced file keeps its permissions, so a private file is private at every moment. A new file gets the permissions of ``open()``: the
    system applies the process's umask, which is neither read nor changed, because it belongs to all threads.

    Args:
        path: file to write; its folder must exist.
        data: whole content.
        durable: also wait until content and name are on the disk.

    Raises:
        OSError: the folder does not exist, or the file cannot be written. The old file is then unchanged.
    """
    path = os.fsdecode(path)
    folder, name = os.path.split(os.path.abspath(path))
    if not os.path.isdir(folder):
        raise FileNotFoundError(2, "No such directory", folder)
    old = _permissions(path)
    temporary = os.path.join(folder, f"{name}.{secrets.token_hex(6)}.part")
    # The opener is not Python code, so Ctrl-C cannot come between opening a descriptor and storing it in the file object.
    # O_EXCL, which is in mode "x", refuses symbolic links as well.
    create = functools.partial(os.open, mode=0o666 if old is None else old & 0o600)
    try:
        with open(temporary, "xb", opener=create) as file:
            if old is not None:
                with contextlib.suppress(OSError):  # a file system without permissions
                    os.fchmod(file.fileno(), old)
            file.write(data)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        os.replace(temporary, path)
    except FileExistsError:  # another program's file has the temporary name: do not delete it
        raise
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    if durable:
        with uninterrupted():  # a folder's descriptor is a bare number
            _sync_folder(folder)


def _permissions(path: str) -> int | None:
    """Read, write and execute permissions of a file; None where there is none."""
    try:
        return stat.S_IMODE(os.stat(path).st_mode) & 0o777
    except FileNotFoundError:
        return None


def _sync_folder(folder: str) -> None:
    """Make the rename durable where the system allows it."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    except OSError:
        pass
    finally:
        os.close(descriptor)
