"""Files behind URLs (s3://, gs://, http://, memory:// ...), through fsspec: whole or in ranges, all of a batch together, with retries.

Local paths are not handled here. A URL begins with a scheme and ``://``.

The answers lie in anonymous files, which the same compiled steps read as local files. Readers that parse files in Python (fits, nemo_asr,
sequence, video: ``readers/files/batch_files.py``) get bytes. A file that several batches in flight need is fetched once. Containers are
read in ranges; a container without an index is fetched whole, because it must be searched. Videos are fetched whole, because a
demultiplexer reads back and forth; the last 16 videos are kept, because the next batch usually needs them again.
"""

from __future__ import annotations

import errno
import io
import os
import re
import stat
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias

from asyncdali_workers import limits
from asyncdali_workers.shared.calls import REMOTE, memory

from ...access import climbs
from ...errors import PipelineClosed
from .downloads import Budget, one_by_one, together
from .requests import check, pause, redirects_allowed, run

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*(::|://)")
_CHUNK = 1 << 22

Opener: TypeAlias = Callable[[str], BinaryIO]
"""A function that opens a file by its path; see :func:`open_file`."""


def is_remote(path: str) -> bool:
    """Whether a path is a URL."""
    return "://" in path and _URL.match(path) is not None


def folder_of(path: str) -> str:
    """The folder of a file: ``s3://bucket`` for ``s3://bucket/list.txt``; "" (the working directory) for ``list.txt``."""
    if not is_remote(path):
        return os.path.dirname(path)
    start, scheme, inner = path.rpartition("://")
    return start + scheme + inner.rpartition("/")[0]


class RedirectRefused(PermissionError):
    """A web server redirected to another host, port or scheme."""


@dataclass
class Retries:
    """Number of attempts, and the waits in between: `first` seconds, then `factor` times as long each time."""

    attempts: int = 4
    first: float = 0.1
    factor: float = 3.0
    sleep: Callable[[float], None] = pause

    def waits(self) -> Iterator[float]:
        """Seconds to wait after each failure except the last."""
        for number in range(self.attempts - 1):
            yield self.first * self.factor**number


retries = Retries()
"""The retries of all remote reads of this process. Its fields may be set."""

_one_at_a_time = threading.Lock()
"""Several threads fetch batches; synchronous file systems need not be thread-safe."""

_FINAL = (
    FileNotFoundError, PermissionError, NotADirectoryError, IsADirectoryError, ImportError, ValueError, NotImplementedError, EOFError,
    limits.TooLarge,
)  # fmt: skip
"""Errors that another attempt cannot fix."""


@dataclass(frozen=True)
class Range:
    """A part of a file, or the whole file (`stop` None)."""

    url: str
    start: int = 0
    stop: int | None = None


class RemoteError(RuntimeError):
    """A failed read: `index` is its number in the request, `path` the file."""

    def __init__(self, index: int, path: str, message: str):
        super().__init__(message)
        self.index, self.path = index, path

    def at(self, index: int) -> RemoteError:
        """The same error with another index."""
        return type(self)(index, self.path, str(self))


class RemoteTooLarge(RemoteError, MemoryError):
    """There is no memory for the data."""


def _filesystem(url: str) -> tuple[Any, str]:
    """(file system, path in it). RuntimeError says which package is missing for this kind of URL."""
    try:
        import fsspec
    except ImportError:
        raise RuntimeError(f"{url}: reading URLs needs `fsspec`, which is not installed: pip install asyncdali[remote]") from None
    try:
        result: tuple[Any, str] = fsspec.core.url_to_fs(url, **_web_options(url))
        return result
    except (ImportError, ValueError) as error:
        raise RuntimeError(f"Could not open {url}: {error}") from error


def _web_options(url: str) -> dict[str, Any]:
    """Options of web file systems for this URL or chain of URLs: without permission they follow no redirect to another server."""
    schemes = {part.partition("://")[0] for part in url.split("::")}
    if redirects_allowed():
        return {}
    return {scheme: {"get_client": _careful_client} for scheme in schemes & {"http", "https"}}


async def _careful_client(**options: Any) -> Any:
    """A session (the user's fsspec configuration, if any) that refuses redirects to another host, port or scheme."""
    import aiohttp
    import fsspec
    from fsspec.implementations import http

    configured = [fsspec.config.conf.get(scheme, {}).get("get_client") for scheme in ("http", "https")]
    make = next(filter(None, configured), http.get_client)
    watch = aiohttp.TraceConfig()
    watch.on_request_redirect.append(_refuse_elsewhere)
    return await make(**{**options, "trace_configs": [*(options.get("trace_configs") or ()), watch]})


async def _refuse_elsewhere(session: Any, context: Any, answer: Any) -> None:
    """Raise RedirectRefused unless a redirect stays on its server. aiohttp calls this before it sends the next request."""
    target = answer.response.headers.get("Location") or answer.response.headers.get("URI") or ""
    try:
        stays = answer.url.join(type(answer.url)(target)).origin() == answer.url.origin()
    except ValueError:  # no address of a server
        stays = False
    if not stays:
        answer.response.close()
        raise RedirectRefused(
            f"the server redirects to {target[:200]!r}, which is another host, port or scheme. If you trust the server, use that "
            "address, or pass allow_redirects=True to the reader"
        )


def _asked(system: AbstractFileSystem, method: str, *arguments: Any, **options: Any) -> Any:
    """The result of a file system's method. If the file system is asynchronous, the wait can be cancelled."""
    if _is_asynchronous(system):
        return run(getattr(system, f"_{method}")(*arguments, **options), system.loop)
    return getattr(system, method)(*arguments, **options)


def _is_asynchronous(system: AbstractFileSystem) -> bool:
    """Not decided by `async_impl`: caching file systems copy the attributes of the file system that they cache."""
    from fsspec.asyn import AsyncFileSystem

    return isinstance(system, AsyncFileSystem)


def _tried(url: str, work: Callable[[], Any], what: str = "read") -> Any:
    """``work()``, repeated while it fails. RuntimeError gives the URL and the number of attempts."""
    waits = retries.waits()
    attempt = 0
    while True:
        check()
        attempt += 1
        try:
            return work()
        except PipelineClosed:
            raise
        except Exception as caught:
            error = _real(caught)
            wait = None if isinstance(error, _FINAL) else next(waits, None)
            if wait is None:
                text = _failed(url, what, attempt, error)
                try:
                    raise RuntimeError(text) from error
                finally:
                    del error  # its traceback holds this frame
            retries.sleep(wait)


def _real(error: Exception) -> BaseException:
    """The real cause of an error: for any problem with the size of a web file, fsspec says that the file does not exist."""
    cause = error.__cause__
    if isinstance(cause, RedirectRefused):
        return cause
    if not isinstance(error, FileNotFoundError) or cause is None or not type(cause).__module__.startswith("aiohttp"):
        return error
    return error if getattr(cause, "status", None) in (404, 410) else cause


def _failed(url: str, what: str, attempts: int, error: BaseException) -> str:
    reason = "No such file or directory" if isinstance(error, FileNotFoundError) else str(error) or type(error).__name__
    return f"Could not {what} {url} ({attempts} attempt{'s' * (attempts > 1)}): {reason}"


def read_ranges(ranges: Sequence[Range]) -> list[bytes]:
    """The contents of these ranges, requested together; failed ones are requested again. RemoteError for the first that cannot be read."""
    found: list[Any] = [None] * len(ranges)
    missing = list(range(len(ranges)))
    waits = retries.waits()
    attempt = 0
    while missing:
        attempt += 1
        for index, data in _ask(ranges, missing, Budget()):
            found[index] = _cut(ranges[index], data)
        missing = [index for index in missing if isinstance(found[index], BaseException)]
        if not missing:
            break
        final = next((index for index in missing if isinstance(found[index], _FINAL)), None)
        wait = None if final is not None else next(waits, None)
        if wait is None:
            index = missing[0] if final is None else final
            url = ranges[index].url
            kind = RemoteTooLarge if isinstance(found[index], limits.TooLarge) else RemoteError
            raise kind(index, url, _failed(url, "read", attempt, found[index])) from found[index]
        retries.sleep(wait)
    return found


def _ask(ranges: Sequence[Range], wanted: Sequence[int], budget: Budget) -> Iterator[tuple[int, Any]]:
    """(index, bytes or error) of each range. Ranges of one file system share one call."""
    systems: dict[int, tuple[Any, list[int], list[str]]] = {}
    for index in wanted:
        system, path = _filesystem(ranges[index].url)
        _, places, paths = systems.setdefault(id(system), (system, [], []))
        places.append(index)
        paths.append(path)
    for system, places, paths in systems.values():
        starts, stops = [ranges[index].start for index in places], [ranges[index].stop for index in places]
        try:
            if _is_asynchronous(system):
                found = run(together(system, paths, starts, stops, budget), system.loop)
            else:
                with _one_at_a_time:
                    check()
                    found = one_by_one(system, paths, starts, stops, budget)
        except PipelineClosed:
            raise
        except Exception as error:  # a file system that does not return errors
            found = [error.with_traceback(None)] * len(places)
        yield from zip(places, found, strict=True)


def _cut(wanted: Range, data: Any) -> Any:
    """The requested bytes; an error if there are fewer."""
    if isinstance(data, BaseException) or wanted.stop is None or len(data) == wanted.stop - wanted.start:
        return data
    return EOFError("the file ends before the record does")


def read_files(paths: Sequence[str]) -> list[bytes]:
    """Whole files, local or remote. RemoteError for the first that cannot be read."""
    remote = [index for index, path in enumerate(paths) if is_remote(path)]
    found: list[bytes] = [b""] * len(paths)
    try:
        for index, data in zip(remote, read_ranges([Range(paths[index]) for index in remote]), strict=True):
            found[index] = data
    except RemoteError as error:
        raise error.at(remote[error.index]) from error
    for index in set(range(len(paths))) - set(remote):
        try:
            found[index] = read_whole(paths[index])
        except OSError as error:
            raise RemoteError(index, paths[index], f"{paths[index]}: {error.strerror}") from error
        except limits.TooLarge as error:
            raise RemoteTooLarge(index, paths[index], str(error)) from error
    return found


def read_file(url: str) -> bytes:
    """One whole file. RuntimeError names it."""
    return read_ranges([Range(url)])[0]


def read_part(path: str, start: int, size: int) -> bytes:
    """A part of a file, local or remote; fewer bytes of a local file that ends earlier. OSError or RuntimeError."""
    if is_remote(path):
        return read_ranges([Range(path, start, start + size)])[0]
    with open_file(path) as file:
        file.seek(start)
        return file.read(size)


def file_size(url: str) -> int:
    """Bytes of a file. RuntimeError names it."""
    system, path = _filesystem(url)
    size = _tried(url, lambda: _asked(system, "info", path)["size"], "open")
    if size is None:
        raise RuntimeError(f"Could not open {url}: the server does not send the size of the file")
    return int(size)


def exists(path: str) -> bool:
    """Whether a file exists, local or remote."""
    if not is_remote(path):
        return os.path.exists(path)
    system, inner = _filesystem(path)
    return bool(_tried(path, lambda: _asked(system, "exists", inner), "open"))


def is_file(path: str) -> bool:
    """Whether a path is a file and no directory, local or remote."""
    if not is_remote(path):
        return os.path.isfile(path)
    system, inner = _filesystem(path)
    return bool(_tried(path, lambda: _asked(system, "isfile", inner), "open"))


@dataclass(frozen=True)
class RemoteEntry:
    """One entry of a remote directory, with the interface of ``os.scandir``'s entries."""

    name: str
    directory: bool

    def is_dir(self) -> bool:
        return self.directory


def entries(url: str) -> list[RemoteEntry]:
    """The entries of a directory; RuntimeError if it cannot be listed."""
    system, path = _filesystem(url)
    listed = _tried(url, lambda: _asked(system, "ls", path, detail=True), "list")
    named = {item["name"].rstrip("/").rsplit("/", 1)[-1]: item["type"] == "directory" for item in listed}
    for name in named:
        if "::" in name or climbs(name, quoted=True):  # joined to the folder's URL, it would lead elsewhere
            raise RuntimeError(f"Could not list {url}: the entry {name!r} is not the name of a file")
    return [RemoteEntry(name, directory) for name, directory in named.items() if name]


def open_file(path: str) -> BinaryIO:
    """Open a file for reading: a local file directly, a remote one after fetching it into memory. OSError or RuntimeError name it."""
    return io.BytesIO(read_file(path)) if is_remote(path) else open(path, "rb", opener=_opened)


def read_whole(path: str, open_file: Opener = open_file) -> bytes:
    """The contents of a file that `open_file` opens. OSError or RuntimeError name it; TooLarge if there is no memory for it."""
    with open_file(path) as file:
        size = 0 if isinstance(file, io.BytesIO) else os.fstat(file.fileno()).st_size
        limits.check_size(size, path)
        return file.read()


def _opened(path: str, flags: int) -> int:
    """A descriptor. A pipe without a writer is empty, and is not waited for. OSError for devices, which may have no end."""
    descriptor = os.open(path, flags | os.O_NONBLOCK)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", path)
    os.set_blocking(descriptor, True)
    return descriptor


@contextmanager
def local_copy(path: str) -> Iterator[str]:
    """A local path with a file's contents while the context lasts: the path itself, or a temporary copy of a remote file."""
    if not is_remote(path):
        yield path
        return
    system, inner = _filesystem(path)
    with tempfile.NamedTemporaryFile(prefix="asyncdali-") as copy:

        def fetch() -> None:
            copy.seek(0)
            copy.truncate()
            with system.open(inner, "rb") as source:
                while chunk := source.read(_CHUNK):
                    check()
                    copy.write(chunk)
            copy.flush()

        _tried(path, fetch)
        yield copy.name


class StandIns:
    """Anonymous files in memory with parts of remote files, at the same offsets. Missing parts take no memory."""

    def __init__(self) -> None:
        self._descriptors: list[int] = []

    def add(self, pieces: Sequence[tuple[int, bytes]]) -> int:
        """A descriptor of a file with these (offset, bytes). TooLarge if there is no memory for them."""
        limits.check_size(sum(len(data) for _, data in pieces), "the remote files of a batch")
        descriptor: int = memory("asyncdali", os.MFD_CLOEXEC, REMOTE)
        self._descriptors.append(descriptor)
        for offset, data in pieces:
            view = memoryview(data)
            while view:
                done = os.pwrite(descriptor, view, offset)
                view, offset = view[done:], offset + done
        return descriptor

    def close(self) -> None:
        while self._descriptors:
            os.close(self._descriptors.pop())
