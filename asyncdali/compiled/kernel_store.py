"""The folder of compiled kernels: its place, its owner, its size, and how to empty it.

Kernels are machine code, and Numba stores them as pickles. A user who can write a kernel file runs code as the user who loads it. So

* the folder is in the user's cache folder and has mode 0700. It is refused if another user owns it or may write to it (except root, who can
  do anything anyway). A private temporary folder replaces a refused folder;
* a file is read only if its owner and mode pass the same test, and only if the digest at its head matches its contents. The digest finds
  accidents: files truncated by a crash, bad disks, renamed files. A secret key would add nothing, because whoever can write the files can
  read a key beside them.

Files are written under another name and renamed, so several processes may read and write at the same time. This module does not import
Numba.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import functools
import hashlib
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ..messages.notices import warn

SUFFIX = ".kernel"
MOST_BYTES = 512 << 20
"""Largest size of the folder. Kernels that were not used for the longest time are removed first."""
MOST_DAYS = 60
"""Kernels that were not used for this many days are removed."""

_PACKAGE = Path(__file__).parent.parent
_MAGIC = b"asyncdali kernel 1\n"
_DAY = 86400
_UNFINISHED = ".new"
_CLAIM = ".claim"
_TEMPORARY = "asyncdali-kernels-"


@dataclass(frozen=True)
class Usage:
    """The contents of a store."""

    folder: Path
    files: int
    size: int
    """Size in bytes."""
    keys: int
    """Number of sub-folders: one per combination of package version, Python, Numba, LLVM, NumPy and processor."""


class RefusedFolder(Exception):
    """A folder or file is refused. The message gives the reason."""


class Claim:
    """The exclusive right to compile a kernel. The file's lock ends with this process, so a killed process leaves no claim."""

    def __init__(self, descriptor: int | None, path: Path):
        self._descriptor = descriptor
        self._path = path

    def release(self) -> None:
        """Let other processes go on. May be called twice."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is None:
            return
        with contextlib.suppress(OSError):
            os.unlink(self._path)  # before the lock is released, so that a process that has opened the file sees that it is deleted
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)  # closing is not enough: a forked child may have the descriptor, too
        os.close(descriptor)


class Store:
    """Kernel files below `folder`, in one sub-folder per environment."""

    def __init__(self, folder: Path):
        self.folder = folder
        self._saved = False
        self._ready: set[str] = set()

    def load(self, environment: str, name: str, key: bytes) -> memoryview | None:
        """The verified contents of a kernel file; None if there is no usable file. Files that fail the test are removed."""
        path = self.folder / environment / (name + SUFFIX)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError:  # the file does not exist, or is a link
            return None
        contents = None
        try:
            status = os.fstat(descriptor)
            if stat.S_ISREG(status.st_mode):
                _check_owner(path, status)
                with open(descriptor, "rb", closefd=False) as file:
                    contents = _verified(file.read(), key)
                if contents is not None and time.time() - status.st_mtime > _DAY:
                    os.utime(descriptor)  # records the time of its last use
        except (RefusedFolder, OSError):  # a read error, or a read-only file system
            pass
        finally:
            os.close(descriptor)
        if contents is None:
            self.remove(environment, name)
        return contents

    def claim(self, environment: str, name: str) -> Claim | None:
        """Claim the compilation of a kernel. None: another process, or another thread, has claimed it.

        Without a folder that can be written to, every process may compile: the claim is empty."""
        path = self.folder / environment / (name + _CLAIM)
        try:
            self._make(path.parent)
            while True:
                descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    os.close(descriptor)
                    return None
                except OSError:  # a file system without locks
                    os.close(descriptor)
                    return Claim(None, path)
                if os.fstat(descriptor).st_nlink:
                    return Claim(descriptor, path)
                os.close(descriptor)  # the owner has deleted the file of the claim since this process opened it: try again
        except (OSError, RefusedFolder):
            return Claim(None, path)

    def save(self, environment: str, name: str, key: bytes, contents: bytes) -> None:
        """Write or replace a kernel file. Raises OSError, and :class:`RefusedFolder` for a folder that others can write to."""
        folder = self.folder / environment
        self._make(folder)
        try:
            self._write(folder, name, key, contents)
        except FileNotFoundError:  # another process has just cleared the cache
            self._ready.clear()
            self._make(folder)
            self._write(folder, name, key, contents)
        if not self._saved:
            self._saved = True
            self.prune()
            remove_old_caches()

    def _make(self, folder: Path) -> None:
        if folder.name not in self._ready:
            self.check()
            private(folder)
            self._ready.add(folder.name)

    @staticmethod
    def _write(folder: Path, name: str, key: bytes, contents: bytes) -> None:
        descriptor, unfinished = tempfile.mkstemp(_UNFINISHED, name[:40], folder)  # mode 0600
        try:
            with open(descriptor, "wb") as file:
                file.write(_MAGIC + _digest(contents, key) + contents)
            os.replace(unfinished, folder / (name + SUFFIX))
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(unfinished)
            raise

    def remove(self, environment: str, name: str) -> None:
        """Remove a kernel file, if possible."""
        with contextlib.suppress(OSError):
            os.unlink(self.folder / environment / (name + SUFFIX))

    def check(self) -> None:
        """Make the folder if there is none. Raises OSError if that fails, :class:`RefusedFolder` if others can write to the folder."""
        for folder in (self.folder.parent, self.folder):
            private(folder)

    # --- size

    def _files(self) -> Iterator[tuple[Path, os.stat_result]]:
        with contextlib.suppress(OSError):
            for environment in os.scandir(self.folder):
                if environment.is_dir(follow_symlinks=False):
                    for entry in os.scandir(environment):
                        if entry.name.endswith(_CLAIM):
                            continue
                        with contextlib.suppress(OSError):
                            yield Path(entry.path), entry.stat(follow_symlinks=False)

    def usage(self) -> Usage:
        """The number and size of the files."""
        found = list(self._files())
        return Usage(self.folder, len(found), sum(status.st_size for _, status in found), len({path.parent for path, _ in found}))

    def prune(self) -> None:
        """Remove files that were not used for :data:`MOST_DAYS`, then the least recently used ones while the size exceeds
        :data:`MOST_BYTES`."""
        now = time.time()
        found = sorted(self._files(), key=lambda item: item[1].st_mtime, reverse=True)
        size = 0
        for path, status in found:
            size += status.st_size
            days = (now - status.st_mtime) / _DAY
            unfinished = path.suffix == _UNFINISHED and days > 1 / 24  # unfinished for an hour: the writing process was killed
            if size > MOST_BYTES or days > MOST_DAYS or unfinished:
                with contextlib.suppress(OSError):
                    path.unlink()
        for folder in {path.parent for path, _ in found}:
            with contextlib.suppress(OSError):
                folder.rmdir()  # fails unless the folder is empty

    def clear(self) -> None:
        """Remove all kernels and the folder. OSError if a file remains."""
        self._ready.clear()
        if self.folder.exists():
            shutil.rmtree(self.folder)
        with contextlib.suppress(OSError):
            self.folder.parent.rmdir()  # the folder has no other files of ours


def remove_old_caches() -> None:
    """Remove files that version 0.1.0 wrote into the package. The uninstaller does not know them and would leave the package's folder."""
    for pattern in ("*.nbi", "*.nbc"):
        for path in _PACKAGE.rglob(f"__pycache__/{pattern}"):
            with contextlib.suppress(OSError):
                path.unlink()


def _digest(contents: bytes | memoryview, key: bytes) -> bytes:
    digest = hashlib.blake2b(key, digest_size=32)  # several times as fast as SHA-256; a start reads megabytes
    digest.update(contents)
    return digest.digest()


def _verified(data: bytes, key: bytes) -> memoryview | None:
    """The contents in a file's bytes, if they are complete and belong to `key`."""
    start = len(_MAGIC) + 32
    contents = memoryview(data)[start:]
    return contents if data[:start] == _MAGIC + _digest(contents, key) else None


def _check_owner(path: Path, status: os.stat_result) -> None:
    if status.st_uid not in (os.geteuid(), 0):
        raise RefusedFolder(f"{path} belongs to user {status.st_uid}, this process runs as user {os.geteuid()}")
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        mode = f"{stat.S_IMODE(status.st_mode):04o}"
        raise RefusedFolder(f"{path} can be written by other users (mode {mode}; `chmod go-w` repairs the mode)")


def private(folder: Path) -> None:
    """Make a folder with mode 0700, unless it exists. :class:`RefusedFolder` for a folder that others own or can write to."""
    with contextlib.suppress(FileExistsError):
        try:
            os.mkdir(folder, 0o700)
        except FileNotFoundError:
            os.makedirs(folder.parent, 0o700, exist_ok=True)
            with contextlib.suppress(FileExistsError):
                os.mkdir(folder, 0o700)
    status = os.stat(folder)
    if not stat.S_ISDIR(status.st_mode):
        raise RefusedFolder(f"{folder} is not a folder")
    _check_owner(folder, status)


# --- which folder


def chosen_root(chosen: str | None) -> Path:
    """The cache folder: `chosen` (from ``NUMBA_CACHE_DIR``), or the user's. :class:`RefusedFolder` if the user has no home folder."""
    if chosen:
        return Path(chosen).absolute()
    from_desktop = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(from_desktop):
        return Path(from_desktop)
    home = os.path.expanduser("~")
    if not os.path.isabs(home):
        raise RefusedFolder("this user has no home folder")
    return Path(home, ".cache")


def store_in(root: Path) -> Store:
    """The store below a cache folder."""
    return Store(root / "asyncdali" / "kernels")


_stores: dict[Path, tuple[Path, Store]] = {}
"""Cache folder -> the folder that replaces it, and the store there."""


def usable(chosen: str | None) -> tuple[Path, Store]:
    """The cache folder and its store: `chosen`, else the user's, else a temporary one of this process (with one warning).

    OSError if not even a temporary folder can be made.
    """
    try:
        root = chosen_root(chosen)
    except RefusedFolder as refusal:
        root, reason = Path(), str(refusal)
    else:
        if root in _stores:
            return _stores[root]
        store = store_in(root)
        try:
            store.check()
        except (RefusedFolder, OSError) as error:
            reason = str(error)
        else:
            _stores[root] = root, store
            return _stores[root]
    if root not in _stores:
        _stores[root] = _temporary(reason)
    return _stores[root]


def _temporary(reason: str) -> tuple[Path, Store]:
    root = _temporary_root()
    notify(f"{reason}. They are kept in {root} until this process ends")
    store = store_in(root)
    store.check()
    return root, store


@functools.cache
def _temporary_root() -> Path:
    _remove_abandoned(Path(tempfile.gettempdir()))
    root = Path(tempfile.mkdtemp(prefix=f"{_TEMPORARY}{os.getpid()}-"))  # mode 0700
    atexit.register(_remove_temporary, root, os.getpid())
    return root


def _remove_temporary(root: Path, process: int) -> None:
    if os.getpid() == process:  # in a forked child the folder is the parent's
        shutil.rmtree(root, ignore_errors=True)


def _remove_abandoned(folder: Path) -> None:
    """Remove temporary folders of this user's processes that were killed."""
    for path in folder.glob(f"{_TEMPORARY}*"):
        process = path.name[len(_TEMPORARY) :].partition("-")[0]
        with contextlib.suppress(OSError):
            if process.isdigit() and path.lstat().st_uid == os.geteuid() and not Path("/proc", process).exists():
                shutil.rmtree(path, ignore_errors=True)


_notified = False


def notify(reason: str) -> None:
    """Warn, once per process, that kernels are not kept for later processes."""
    global _notified
    if not _notified:
        _notified = True
        warn(
            f"compiled kernels cannot be kept on disk, every process compiles them again (some seconds): {reason}. "
            "Set NUMBA_CACHE_DIR to a folder that belongs to you and that only you can write.",
            RuntimeWarning,
        )
