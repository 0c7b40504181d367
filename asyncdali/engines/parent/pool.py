"""The engines of a pipeline in the training process. This module starts, watches, replaces and ends engine processes."""

from __future__ import annotations

import contextlib
import functools
import marshal
import os
import pickle
import select
import signal
import socket
import subprocess
import sys
import weakref
from collections.abc import Callable
from typing import Any

from asyncdali_workers.cuda import cuda_initialised
from asyncdali_workers.interrupts import uninterrupted
from asyncdali_workers.processes.child import default_thread_variables, fork
from asyncdali_workers.processes.python import manager_key, required_interpreter, streams
from asyncdali_workers.processes.signals import blocked
from asyncdali_workers.processes.spawning import _module_path
from asyncdali_workers.processes.watching import wait_status
from asyncdali_workers.shared.calls import ENGINES, check_processes, memory
from asyncdali_workers.shared.system import Descriptors, Mapping

from ...device.buffers import BufferPool
from ...graph.plan import Plan
from ...runtime.order.executor import Executor
from ...runtime.order.placement import BesideEngines, OnLoop
from ...runtime.work.segments import BuiltSegment
from ...sources.group import Group
from ...sources.ports import Port
from ...system.descriptors import require_descriptors
from ..child.process import ENGINE, FORKER, forked
from ..child.server import STATUS
from ..child.source_calls import SOURCE_STATUS, SOURCE_STATUS_AT
from ..cut import Cut, make_cut, segments_behind
from ..wire import channel as channels
from ..wire.blocks import OwnBlocks
from ..wire.failures import unpacked
from ..wire.handshake import Description, description, difference
from ..wire.program import Program, dumps
from .engine_process import EngineProcess
from .engine_statistics import statistics
from .loader import Loader
from .receiver import Receiver
from .sources import AHEAD, Call, EnginePuller
from .starting import Start

_BOOT = (
    "import os,sys,marshal;n=int.from_bytes(os.pread({program},8,0),'little');sys.path[:]=marshal.loads(os.pread({program},n,8));"
    "from asyncdali.engines.child.process import boot;boot({role},{program},{channel},{alive},{status})"
)
_DESCRIPTORS = 16
"""Free descriptors needed to start an engine, including those of blocks that are sent."""


class EnginePool:
    """The engines of one pipeline. It is made before the session, which gets it as an argument (``runtime.engine_protocol.Engines``)."""

    reports = True

    def __init__(self, program: Program, count: int, method: str, timeout: float | None, make_calling: object):
        self._program_of: Callable[[], Program | None] = weakref.ref(program)
        """The program. The pipeline's core keeps it: the loop's thread refers to this pool, and must not keep the user's objects alive."""
        self.cut_names = program.cut
        self._sources = bool(program.options.engine_sources)
        self.count = count
        self.timeout = timeout
        self.depth = program.options.depth
        self.seed = program.seed
        self._options = program.options
        self._description: Description = {}
        self.pool: BufferPool | None = None
        self.own = OwnBlocks()
        self.engines: list[EngineProcess] = []
        self.closed = False
        self._method = method
        self._make_calling = make_calling
        self._descriptors = Descriptors()
        self._forker: tuple[socket.socket, int, int | subprocess.Popen[bytes]] | None = None
        self._program = -1  # descriptor of the pickled program
        self._cut: Cut | None = None
        self._loader: Loader | None = None
        self._receiver: Receiver | None = None
        """Beside a GPU, the thread that talks to the engines."""
        self._pin: Callable[[int, int], Any] | None = None
        self._go = False
        """Whether engines may build. They wait until this process has built and compiled; otherwise each would compile the same kernels."""
        self._plan: Plan | None = None

    # --- start

    def start(self) -> None:
        """Start all engines. They build after this process has built. RuntimeError when a process cannot be forked."""
        require_descriptors(_DESCRIPTORS * (self.count + 1), "engines cannot be started")
        with uninterrupted():  # an exception of a signal's handler right behind a call would leave its descriptors open
            check_processes(ENGINES)
        if self._method == "fork":
            self._check_fork()
        else:
            self._store_program()
        if self._method != "spawn":
            with uninterrupted():
                self._start_forker()
        for number in range(self.count):
            with uninterrupted():
                self.engines.append(self.launch(number))

    def _store_program(self) -> None:
        path = marshal.dumps(_module_path())
        program = self._program_of()
        assert program is not None
        content = pickle.dumps((sys.argv, manager_key(), dumps(program, self._make_calling)))
        with uninterrupted():
            self._program = self._descriptors.add(memory("asyncdali-program", os.MFD_CLOEXEC, ENGINES))
        data = memoryview(len(path).to_bytes(8, "little") + path + content)
        at = 0
        while at < len(data):
            at += os.pwrite(self._program, data[at:], at)

    def _start_forker(self) -> None:
        ours, theirs = channels.pair()
        alive, held = os.pipe2(os.O_CLOEXEC)
        channel = channels.opened(self._descriptors.add(ours.detach()))
        held = self._descriptors.add(held)
        process: int | subprocess.Popen[bytes]
        try:
            if self._method == "fork":
                program = self._program_of()
                if program is None:
                    raise RuntimeError("the pipeline is being closed")
                process = fork(self._descriptors, frozenset(), functools.partial(forked, program, theirs, alive, self._descriptors))
            else:
                process = self._interpreter(FORKER, theirs.fileno(), alive, -1)
        finally:
            theirs.close()
            os.close(alive)
        self._forker = channel, held, process

    def _interpreter(self, role: int, channel: int, alive: int, status: int) -> subprocess.Popen[bytes]:
        code = _BOOT.format(program=self._program, role=role, channel=channel, alive=alive, status=status)
        environment = dict(os.environ)
        default_thread_variables(environment)
        flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
        keep = [descriptor for descriptor in (self._program, channel, alive, status) if descriptor >= 0]
        python = required_interpreter("engines cannot be started")
        with blocked():
            return subprocess.Popen([python, *flags, "-c", code], pass_fds=keep, env=environment, **streams())

    def launch(self, number: int) -> EngineProcess:
        """A new engine, which builds. Messages wait in its socket."""
        require_descriptors(_DESCRIPTORS, f"engine {number} cannot be started")
        ours, theirs = channels.pair()
        alive, held = os.pipe2(os.O_CLOEXEC)
        status = memory("asyncdali-status", os.MFD_CLOEXEC, ENGINES)
        try:
            os.ftruncate(status, 4096)
            page = Mapping(status, 0, 4096)
            STATUS.pack_into(page.bytes.data, 0, -1, 0, -1, -1)
            SOURCE_STATUS.pack_into(page.bytes.data, SOURCE_STATUS_AT, -1, -1, -1)
            channel = channels.opened(self._descriptors.add(ours.detach()))
            engine = EngineProcess(number, channel, self._descriptors.add(held), page, self._descriptors)
            engine.blocks.pin = self._pin
            if self._method == "spawn":
                engine._process = self._interpreter(ENGINE, theirs.fileno(), alive, status)
            else:
                self._fork([theirs.fileno(), alive, status])
        finally:
            theirs.close()
            os.close(alive)
            os.close(status)
        if self._go:
            self._send_go(engine)
        return engine

    def _fork(self, descriptors: list[int]) -> None:
        """Let the forker fork an engine. A forker that has ended is made again: another program may have killed it."""
        try:
            assert self._forker is not None
            channels.send(self._forker[0], b"engine", descriptors)
        except OSError:
            self._end_forker()
            if self._method == "fork":
                self._check_fork()
            self._start_forker()
            assert self._forker is not None
            channels.send(self._forker[0], b"engine", descriptors)

    @staticmethod
    def _check_fork() -> None:
        if cuda_initialised():
            raise RuntimeError(
                "engines cannot be forked once CUDA is initialised in this process. Call start_py_workers() on every pipeline before "
                "any of them is built or run (and before anything else uses CUDA), or give engine_start_method='spawn'"
            )

    def _end_forker(self) -> None:
        if self._forker is not None:
            channel, held, process = self._forker
            self._forker = None
            self._descriptors.close(channel.detach())
            self._descriptors.close(held)
            # Closing its pipe has killed it, unless it did not come so far as to ask for that.
            if isinstance(process, int):
                with contextlib.suppress(ChildProcessError):  # another party has reaped it, and the id may belong to another process
                    if os.waitpid(process, os.WNOHANG)[0] == 0:
                        os.kill(process, signal.SIGKILL)
                        wait_status(process)
            else:
                process.kill()
                process.wait()

    def _send_go(self, engine: EngineProcess) -> None:
        """Let an engine build. From now on its start has a limit."""
        process = 0
        if engine._process is not None:
            process = engine._process.pid
        elif self._forker is not None:
            forker = self._forker[2]
            process = forker if isinstance(forker, int) else forker.pid
        engine.start = Start(self.timeout, engine.process or process)
        with contextlib.suppress(OSError):  # the engine has ended; its socket reports the end
            channels.send(engine.channel, channels.message({"go": 1}), flags=channels.AT_ONCE)

    # --- methods for the session

    def cut(self, plan: Plan, fuse_device: bool, on_cuda: bool) -> None:
        self._cut = make_cut(plan, self.cut_names, self._sources)
        self._plan = plan
        if not self._cut.before:
            raise RuntimeError(
                f"engines={self.count}, but no operator of this pipeline can run in an engine: all of them need a GPU, or only pass "
                "on fed data. Give engines=0."
            )
        if self._cut.inputs and not on_cuda:
            self.pool = BufferPool(self.own.make)  # engines can read the memory of fed data
        plan.segments = segments_behind(self._cut, plan.outputs, fuse_device, on_cuda)

    def puller(self, group: Group, ports: dict[str, Port], batch_size: int) -> EnginePuller | None:
        assert self._cut is not None
        number = next((k for k, item in enumerate(self._cut.groups) if item is group), None)
        return None if number is None else EnginePuller(group, ports, batch_size, number, AHEAD * self.count, self._call)

    def _call(self, call: Call) -> None:
        self.loader.sources.call(call)

    @property
    def loader(self) -> Loader:
        """Sends requests to the engines, once they are ready."""
        assert self._loader is not None
        return self._loader

    def place(self, executor: Executor, segments: list[BuiltSegment]) -> OnLoop | BesideEngines:
        self._placement = self._new_placement(executor, segments)
        return self._placement

    def _new_placement(self, executor: Executor, segments: list[BuiltSegment]) -> OnLoop | BesideEngines:
        if executor.gpu is None:
            return OnLoop(executor)
        with uninterrupted():  # an interrupt would lose its thread
            self._receiver = Receiver(executor.stages.name)
        return BesideEngines(executor, segments, self._receiver)

    def attach(self, executor: Executor, segment: BuiltSegment) -> None:
        assert self._cut is not None
        assert self._plan is not None
        self._go = True
        self._pin = None if executor.gpu is None else executor.gpu.pin
        for engine in self.engines:
            engine.blocks.pin = self._pin
        self._description = description(self._plan, self._options, self.seed, segment.operators)
        for engine in self.engines:
            self._send_go(engine)
        self._wait_until_ready()
        with uninterrupted():
            self._loader = Loader(self, self._cut, self._plan, executor, segment, self._placement)
            segment.remote, segment.instant = self._loader, False

    def refusal(self, engine: EngineProcess, header: dict[str, Any]) -> str:
        """The reason to refuse an engine that is ready: its results would differ from this process. Empty: the engine may work."""
        found = difference(self._description, header.get("is"))
        return found and (
            f"engine {engine.number} differs from this process, so its results may differ: {found}. Start all of them with the same "
            "packages and environment, on processors of one kind"
        )

    def _wait_until_ready(self) -> None:
        poll, waiting = select.poll(), dict[int, EngineProcess]()

        def watch(descriptor: int, engine: EngineProcess) -> None:
            waiting[descriptor] = engine
            poll.register(descriptor, select.POLLIN)

        for engine in self.engines:
            watch(engine.channel.fileno(), engine)
        while waiting:
            for engine in waiting.values():
                self._check_start(engine)
            for descriptor, _ in poll.poll(200):
                engine, known = waiting[descriptor], waiting[descriptor].pidfd
                self._hear_builder(engine)
                if engine.pidfd != known:
                    watch(engine.pidfd, engine)
                if engine.ready:
                    for other in [number for number, item in waiting.items() if item is engine]:
                        del waiting[other]
                        poll.unregister(other)
                    break  # the other events may be of this engine

    @staticmethod
    def _check_start(engine: EngineProcess) -> None:
        assert engine.start is not None
        if engine.start.stuck():
            raise RuntimeError(
                f"engine {engine.number} {engine.start.reason}. `py-spy dump --pid {engine.process or 'ID'}` shows where it waits, as may "
                "a build with engines=0. A larger `engine_timeout` is a longer limit"
            )

    def _hear_builder(self, engine: EngineProcess) -> None:
        """The next message of an engine that is built."""
        with uninterrupted():  # an interrupt would lose descriptors that were received
            try:
                data, descriptors = channels.receive(engine.channel, channels.AT_ONCE)
            except BlockingIOError:  # only the end of its process is reported
                data, descriptors = b"", []
            header = channels.parsed(data)[0] if data else {}
            if "born" in header:
                engine.watched_by(descriptors)
                self.progressed(engine, header["born"])
                return
        if not data:
            raise RuntimeError(
                f"engine {engine.number} ended while it was built. See its output; without output it was killed, for example for lack of "
                "memory (see dmesg)"
            )
        if "failed" in header:
            raise unpacked(header["failed"])
        refusal = self.refusal(engine, header)
        if refusal:
            raise RuntimeError(refusal)
        engine.ready, engine.pid, engine.start = True, header["ready"], None

    @staticmethod
    def progressed(engine: EngineProcess, process: int) -> None:
        """The process of an engine has begun."""
        engine.process = process
        if engine.start is not None:
            engine.start.progressed(process)

    def statistics(self) -> list[dict[str, object]]:
        return [] if self._loader is None else statistics(self._loader)

    def close(self) -> None:
        with uninterrupted():
            if self.closed:
                return
            self.closed = True
            if self._descriptors.forked:
                return  # in a forked child the descriptors belong to the parent
            if self._loader is not None:
                self._loader.close()
            if self._receiver is not None:
                self._receiver.close()
                self._receiver.join(1.0)
            for engine in self.engines:
                engine.close()
            self._end_forker()
            self._descriptors.close_all()
            self.own.close()
