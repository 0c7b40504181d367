"""Workers that do not inherit this process: each a fresh interpreter ("spawn"), or forked by one fresh interpreter ("forkserver").

Their data is written once into the shared file. A fresh interpreter gets the numbers of its descriptors and reads the rest.
"""

from __future__ import annotations

import marshal
import os
import pickle
import socket
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from ..pickling import SourcePickler, dumps_by_value, dumps_source
from ..shared.control import BOOT, BOOT_SIZE, END, END_LOCK, Control
from ..shared.system import PAGE, Descriptors, locked, up
from ..source import Source
from ..worker.worker import WorkerSetup
from .child import default_thread_variables, users_thread_variables
from .launch import Born, Launcher, ZygoteLauncher
from .python import manager_key, required_interpreter, streams
from .signals import blocked
from .watching import Watch

if TYPE_CHECKING:
    from .launch import Ended, Unavailable

WORKER, ZYGOTE = 0, 1

_BOOT = (
    "import os,sys,marshal;f,o={memory},{offset};n=int.from_bytes(os.pread(f,8,o),'little');"
    "sys.path[:]=marshal.loads(os.pread(f,n,o+8));"
    "from asyncdali_workers.processes.boot import boot;boot({role},f,{offset},{worker},{incarnation},{channel},{held})"
)


def make_launcher(method: str, setup: WorkerSetup, descriptors: Descriptors, control: Control, pickler: object) -> Launcher:
    store(control, boot_data(setup, SourcePickler(pickler)))
    kind = SpawnLauncher if method == "spawn" else ForkServerLauncher
    return kind(setup, descriptors, control)


def boot_data(setup: WorkerSetup, pickler: SourcePickler) -> bytes:
    """All data for a fresh interpreter, as bytes."""
    path = marshal.dumps(_module_path())
    data = {
        "main": _main_module() if pickler.custom else {},
        "argv": list(sys.argv),
        "directory": _directory(),
        "chosen": users_thread_variables(),
        "managers": manager_key(),
        "setup": replace(setup, sources=[]),
        "pickler": dumps_by_value(pickler),
        "sources": [_source_data(source, pickler) for source in setup.sources],
    }
    return len(path).to_bytes(8, "little") + path + pickle.dumps(data)


def _source_data(source: Source | None, pickler: SourcePickler) -> tuple[bytes, bytes]:
    assert source is not None
    rest = replace(source, callback=None)
    return dumps_source(source.callback, source.name, pickler), dumps_source(rest, source.name, SourcePickler(None))


def _module_path() -> list[str]:
    here = _directory()
    return [entry if entry or here is None else here for entry in sys.path]


def _directory() -> str | None:
    try:
        return os.getcwd()
    except FileNotFoundError:
        return None


def _main_module() -> dict[str, str]:
    """How `multiprocessing` finds the main module, for picklers that refer to it by name. None for notebooks, -c and stdin."""
    main = sys.modules["__main__"]
    name = getattr(getattr(main, "__spec__", None), "name", None)
    if name is not None:
        return {"init_main_from_name": name}
    file = getattr(main, "__file__", None)
    return {} if file is None or not os.path.exists(file) else {"init_main_from_path": os.path.abspath(file)}


def store(control: Control, data: bytes) -> None:
    """Write the boot data into the shared file, where it stays for replacements."""
    with locked(control.descriptor, END_LOCK):
        offset = control.header[END]
        control.header[END] = offset + up(len(data), PAGE)
        os.ftruncate(control.descriptor, control.header[END])
    written = 0
    while written < len(data):
        written += os.pwrite(control.descriptor, data[written:], offset + written)
    control.header[BOOT], control.header[BOOT_SIZE] = offset, len(data)


def launch(
    setup: WorkerSetup, control: Control, role: int, worker: int, incarnation: int, channel: int = -1, held: int = -1
) -> subprocess.Popen[bytes]:
    """Start a fresh interpreter. It inherits `channel` and `held`, if they are given."""
    code = _BOOT.format(
        memory=setup.memory, offset=control.header[BOOT], role=role, worker=worker, incarnation=incarnation, channel=channel,
        held=held,
    )  # fmt: skip
    keep = [*setup.descriptors(), *(descriptor for descriptor in (channel, held) if descriptor >= 0)]
    environment = dict(os.environ)
    default_thread_variables(environment)
    flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    python = required_interpreter("worker processes cannot be started")
    with blocked():
        return subprocess.Popen([python, *flags, "-c", code], pass_fds=keep, env=environment, **streams())


def _wait(process: subprocess.Popen[bytes]) -> int:
    """Its exit status in the form of os.waitpid."""
    code = process.wait()
    return -code if code < 0 else code << 8


class SpawnLauncher(Launcher):
    """Each worker is a fresh interpreter; so is each replacement."""

    def __init__(self, setup: WorkerSetup, descriptors: Descriptors, control: Control):
        super().__init__(setup, descriptors)
        self._control = control
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._born: list[Born | Ended | Unavailable] = []

    def start(self, worker: int) -> Born | None:
        return self._launch(worker, 0)

    def _launch(self, worker: int, incarnation: int) -> Born:
        with Watch() as watch:
            process = launch(self.setup, self._control, WORKER, worker, incarnation, held=watch.held)
            self._processes[process.pid] = process
            return Born(worker, process.pid, self.descriptors.add(watch.of(process.pid)))

    def replace(self, worker: int, incarnation: int) -> None:
        self._born.append(self._launch(worker, incarnation))

    def collect(self) -> list[Born | Ended | Unavailable]:
        born, self._born = self._born, []
        return born

    def status(self, pid: int) -> int | None:
        return _wait(self._processes.pop(pid))

    def close(self) -> None:
        for process in self._processes.values():  # replacements that have not been announced yet
            process.kill()
            process.wait()
        self._processes.clear()


class ForkServerLauncher(ZygoteLauncher):
    """One fresh interpreter unpickles the sources and forks all workers."""

    def __init__(self, setup: WorkerSetup, descriptors: Descriptors, control: Control):
        super().__init__(setup, descriptors)
        self._control = control
        self._process: subprocess.Popen[bytes] | None = None

    def _make(self, theirs: socket.socket) -> int:
        self._process = launch(self.setup, self._control, ZYGOTE, 0, 0, theirs.fileno())
        return self._process.pid

    def _reap_zygote(self) -> None:
        if self._process is not None:
            _wait(self._process)
            self._process = None

    def start(self, worker: int) -> Born | None:
        self.replace(worker, 0)
        return None
