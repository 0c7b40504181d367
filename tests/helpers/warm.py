"""Programs in copies of an interpreter that has imported the package: for tests that need a separate process, but not a fresh one.

An interpreter imports NumPy and the package once, starts no thread, and forks for each program. A program that runs a small pipeline then
takes a third of the processor time that a fresh interpreter takes. Programs that change what an interpreter does when it starts or imports
need ``helpers.pipelines.run_script``.
"""

from __future__ import annotations

import functools
import gc
import importlib
import json
import os
import select
import selectors
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from types import CodeType
from typing import Any

from helpers import processes
from helpers.places import PROJECT

_PATHS = [str(PROJECT / "tests"), str(PROJECT)]
_START = "import sys\nfrom helpers.warm import _serve\nexec(_serve(int(sys.argv[1]), sys.argv[2:]))"
_MODULES = "asyncdali.fn", "asyncdali.ops", "asyncdali.pipeline.processes", "asyncdali.runtime.session", "asyncdali_workers.pool"
_COMPILER = "numba.core.registry", "numba.core.typed_passes"
_REQUEST_BYTES = 1 << 17


def run_warm(text: str, *args: Any, timeout: float = 300, compiler: bool = False, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a copy of the warm interpreter. Returns the finished process, as ``subprocess.run`` does.

    Like ``python -c``: the program's text is the module ``__main__``, and `args` are ``sys.argv[1:]``. The module path has the package
    and these helpers. `compiler`: Numba is imported, too. ValueError for a variable that an interpreter reads when it starts.
    """
    read_at_start = [name for name in environment if name.startswith("PYTHON")]
    if read_at_start:
        raise ValueError(f"{read_at_start[0]} has no effect in an interpreter that runs: use run_script")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(_PATHS), **environment}
    request = {"text": textwrap.dedent(text), "args": list(map(str, args)), "environment": env, "folder": os.getcwd()}
    return _interpreter(os.getpid(), compiler).run(request, timeout)


@functools.cache
def _interpreter(pid: int, compiler: bool) -> _Interpreter:
    """The warm interpreter of this process, which has the id `pid`: a forked child starts its own."""
    return _Interpreter(_MODULES + _COMPILER if compiler else _MODULES)


class _Interpreter:
    """A process that forks for each program, until this process ends."""

    def __init__(self, modules: tuple[str, ...]) -> None:
        self._socket, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _REQUEST_BYTES)
        with other:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _START, str(other.fileno()), *modules], pass_fds=[other.fileno()], stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": os.pathsep.join(_PATHS)},
            )  # fmt: skip
        processes.KEPT.add(self._process.pid)

    def run(self, request: dict[str, Any], timeout: float) -> subprocess.CompletedProcess[str]:
        limit = time.monotonic() + timeout
        (out, out_writer), (err, err_writer) = os.pipe(), os.pipe()
        socket.send_fds(self._socket, [json.dumps(request).encode()], [out_writer, err_writer])
        os.close(out_writer)
        os.close(err_writer)
        pid = self._answer()
        with open(out, "rb", buffering=0) as out_file, open(err, "rb", buffering=0) as err_file:
            texts = {out_file: bytearray(), err_file: bytearray()}
            ended = _read_to_the_end(texts, limit)
            said = [bytes(text).decode() for text in texts.values()]
        ended = ended and bool(select.select([self._socket], [], [], max(0, limit - time.monotonic()))[0])
        if not ended:
            os.kill(pid, signal.SIGKILL)
        status = self._answer()
        if not ended:
            raise subprocess.TimeoutExpired(request["text"], timeout, *said)
        return subprocess.CompletedProcess(request["text"], os.waitstatus_to_exitcode(status), *said)

    def _answer(self) -> int:
        answer = self._socket.recv(100)
        assert answer, "the warm interpreter has ended"
        return int(answer)


def _read_to_the_end(texts: dict[Any, bytearray], limit: float) -> bool:
    """Read until no process has the files open. Returns whether this was before the time `limit`."""
    with selectors.DefaultSelector() as selector:
        for file in texts:
            selector.register(file, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(max(0, limit - time.monotonic()))
            if not ready:
                return False
            for key, _ in ready:
                data = key.fileobj.read(1 << 16)
                texts[key.fileobj] += data
                if not data:
                    selector.unregister(key.fileobj)
    return True


def _serve(number: int, names: list[str]) -> CodeType:
    """Import modules, and serve the socket `number` in the warm interpreter. Returns in the forked children only: the program."""
    for name in names:
        importlib.import_module(name)
    assert threading.active_count() == 1, threading.enumerate()
    gc.collect()
    gc.freeze()  # a collection in a child would copy the pages of all objects
    connection = socket.socket(fileno=number)
    while True:
        data, files, _, _ = socket.recv_fds(connection, _REQUEST_BYTES, 2)
        if not data:
            sys.exit()
        pid = os.fork()
        if pid == 0:
            connection.close()
            return _become(json.loads(data), files)
        for file in files:
            os.close(file)
        connection.send(str(pid).encode())
        connection.send(str(os.waitpid(pid, 0)[1]).encode())


def _become(request: dict[str, Any], files: list[int]) -> CodeType:
    """Take the streams, folder, environment and arguments of a request. Returns its program."""
    for target, file in enumerate(files, 1):
        os.dup2(file, target)
        os.close(file)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    if "numba" in sys.modules:
        sys.modules["numba.core.config"].reload_config()  # what Numba reads from the environment when it is imported
    gc.unfreeze()
    sys.argv[1:] = request["args"]
    for name in ("_serve", "sys"):
        delattr(sys.modules["__main__"], name)
    return compile(request["text"], "<string>", "exec")
