"""Answers ``asyncdali top``: reports of this process's pipelines on a local socket, which exists only while it is wanted.

One thread waits in ``accept``; nothing else costs time before a question comes. The socket lies in a folder that only this user can open,
and its answers go only to processes of this user. A question is one fixed line, and nothing is unpickled.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import socket
import stat
import struct
import threading
import time
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from asyncdali_workers.exceptions import text_of
from asyncdali_workers.interrupts import uninterrupted

from ..._version import __version__
from ...messages.notices import warn

if TYPE_CHECKING:
    from ..session import Session

log = logging.getLogger("asyncdali")

VARIABLE = "ASYNCDALI_TOP"
"""If this environment variable is set, every pipeline of the process is reported from ``build()`` on."""

QUESTION = b"asyncdali top 1\n"
MOST_BYTES = 4 << 20
"""An answer is no longer."""
MOST_PIPELINES, MOST_OPERATORS, MOST_LETTERS = 32, 200, 500
"""Number of pipelines, of operators (those that took the most time) and of letters of a text in an answer."""

_PATIENCE = 5.0
"""Seconds that a peer may take to ask, and to read the answer."""


def folder(base: str | None = None) -> str:
    """The folder with the sockets of this user. It depends on nothing but the user, so each process finds it."""
    user = os.geteuid()
    if base is None:
        base = f"/run/user/{user}"
        if not _is_private(base):
            return f"/tmp/asyncdali-{user}"
    return os.path.join(base, f"asyncdali-{user}")


def _is_private(path: str) -> bool:
    """Whether this is a folder, no link, that only this user can open."""
    try:
        found = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o077


def check_private(path: str) -> None:
    """RuntimeError unless only this user can open the folder: sockets in another one could be those of other users."""
    if not _is_private(path):
        raise RuntimeError(f"{path} is not a folder that only this user can open (its own, with mode 0700). Remove it")


def address_of(pid: int, base: str | None = None) -> str:
    """The socket of a process. Its name has the namespace (a container may have the same folder), and the number of the process there.

    OSError: the process has ended, or this user may not see its namespace.
    """
    space = os.stat("/proc/self/ns/pid").st_ino
    if pid != os.getpid() and os.path.isdir(f"/proc/{pid}"):
        space, pid = os.stat(f"/proc/{pid}/ns/pid").st_ino, numbers_of(pid)[-1]
    return os.path.join(folder(base), f"{space}-{pid}.sock")


def numbers_of(pid: int) -> list[int]:
    """The numbers of a process in the namespaces that it belongs to, from this one to its own. OSError: it has ended."""
    with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
        line = next((line for line in file if line.startswith("NSpid:")), f"NSpid: {pid}")
    return [int(word) for word in line.split()[1:]]


def peer_of(connection: socket.socket) -> tuple[int, int]:
    """The process and the user at the other end, as the system knows them."""
    pid, user, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return pid, user


class _Server:
    """The socket of this process, and the objects that it reports."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._served: dict[int, tuple[weakref.ref[Any], Callable[[Any], dict[str, Any]]]] = {}
        self._numbers = 0
        self._listener: socket.socket | None = None
        self._thread: threading.Thread | None = None
        self._path = ""

    def add(self, owner: Any, report: Callable[[Any], dict[str, Any]]) -> Callable[[], None]:
        with self.lock, uninterrupted():
            for number, (reference, _) in self._served.items():
                if reference() is owner:
                    return lambda: self._drop(number)
            number, self._numbers = self._numbers, self._numbers + 1
            if self._listener is None:
                self._open()
            self._served[number] = weakref.ref(owner), report
        return lambda: self._drop(number)

    def _open(self) -> None:
        path = address_of(os.getpid())
        with contextlib.suppress(FileExistsError):
            os.mkdir(os.path.dirname(path), 0o700)
        check_private(os.path.dirname(path))
        with contextlib.suppress(FileNotFoundError):  # of a dead process that had this number
            os.unlink(path)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            listener.bind(path)
            listener.listen(4)
            self._thread = threading.Thread(target=self._run, args=(listener,), name="asyncdali-top", daemon=True)
            self._thread.start()
        except BaseException:
            listener.close()
            raise
        self._listener, self._path = listener, path

    def _drop(self, number: int) -> None:
        """Report this object no longer. Without objects the socket is closed."""
        with self.lock, uninterrupted():
            self._served.pop(number, None)
            if self._served or self._listener is None:
                return
            listener, thread = self._listener, self._thread
            self._listener = self._thread = None
            with contextlib.suppress(OSError):
                os.unlink(self._path)
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)  # wakes the thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(1.0)  # it may be making a report
        listener.close()

    def forget(self) -> None:
        """In a forked child: the socket and the objects are the parent's."""
        if self._listener is not None:
            self._listener.close()
        self.__init__()  # type: ignore[misc]

    # --- on the thread

    def _run(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                if self._listener is not listener:
                    return
                time.sleep(0.1)  # no free descriptor: later questions may be answered
                continue
            with connection:
                try:
                    self._answer(connection)
                except Exception as error:  # any exception: the peer may have gone
                    log.debug("a question of `asyncdali top` was not answered: %s", error)

    def _answer(self, connection: socket.socket) -> None:
        connection.settimeout(_PATIENCE)
        if peer_of(connection)[1] != os.geteuid() or connection.recv(len(QUESTION)) != QUESTION:
            return
        data = json.dumps(self.report(), default=str).encode()
        if len(data) > MOST_BYTES:
            data = json.dumps({"error": f"the report has {len(data)} bytes, more than {MOST_BYTES}"}).encode()
        connection.sendall(data)

    def report(self) -> dict[str, object]:
        """The answer."""
        with self.lock:
            served = list(self._served.items())
        found = []
        for number, (reference, report) in served:
            owner = reference()
            if owner is None:
                with self.lock:
                    self._served.pop(number, None)
                continue
            try:
                about = report(owner)
            except Exception as error:  # any exception: the pipeline may be closed meanwhile
                about = {"error": text_of(error)}
            found.append({"number": number, **about})
        more = max(0, len(found) - MOST_PIPELINES)
        facts = {"asyncdali": __version__, "pid": os.getpid(), "time": time.monotonic()}
        return {**facts, "pipelines": _short(found[:MOST_PIPELINES]), "more": more}


def _short(value: object) -> object:
    """JSON data with texts of limited length."""
    if isinstance(value, str):
        return value if len(value) <= MOST_LETTERS else f"{value[: MOST_LETTERS - 3]}..."
    if isinstance(value, dict):
        return {str(name): _short(item) for name, item in value.items()}
    return [_short(item) for item in value] if isinstance(value, (list, tuple)) else value


_server = _Server()
os.register_at_fork(after_in_child=_server.forget)


def serve(owner: Any, report: Callable[[Any], dict[str, Any]]) -> Callable[[], None]:
    """Let ``asyncdali top`` read ``report(owner)``, JSON data, while `owner` lives. Returns the function that ends this.

    RuntimeError if the folder of the sockets can be opened by others; OSError if the socket cannot be opened.
    """
    return _server.add(owner, report)


def offer(owner: Any, report: Callable[[Any], dict[str, Any]]) -> Callable[[], None]:
    """:func:`serve`, if the environment asks for it. A refusal becomes a warning, because the work is worth more than its reports."""
    if os.environ.get(VARIABLE, "") in ("", "0"):
        return _nothing
    try:
        return serve(owner, report)
    except (OSError, RuntimeError) as error:
        warn(f"`asyncdali top` cannot read this process, although {VARIABLE} is set: {error}", RuntimeWarning)
        return _nothing


def _nothing() -> None:
    """Ends nothing."""


def report_of_session(session: Session) -> dict[str, Any]:
    """The report of a built pipeline: its size, and its statistics."""
    statistics = session.statistics().as_dict()
    operators = sorted(statistics["operators"], key=lambda item: -sum(item[name] for name in _TIMES))
    statistics["operators"] = operators[:MOST_OPERATORS]
    return {"batch_size": session.options.batch_size, "threads": session.options.num_threads, "statistics": statistics}


_TIMES = ("planning_seconds", "prepare_seconds", "steps_seconds")
