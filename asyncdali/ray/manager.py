"""The owner of a fleet's engines: one Ray actor. It starts, replaces, adds and retires engines, and knows their addresses.

It runs on the event loop of its Ray actor, and all its state belongs to this loop. Trainers wait for changes (:meth:`Manager.changes`), so
they do not poll. The manager carries no batches: training continues while the manager is busy.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from collections import deque
from typing import Any

import ray

from ..fleet.scaling import wanted
from .engine import EngineActor

ATTEMPTS = 3
"""A loader gives up after this number of failed starts of each engine, if no engine is ready. The manager continues to start engines."""
SLOWEST_RETRY = 30.0
COOLDOWN = 10.0
"""Seconds between two decisions about the number of engines. Older reports do not count: their trainer may have been killed."""
FAILURES = 32
"""Failures that are remembered for statistics."""


class Slot:
    """The place of one engine. It stays when the engine is replaced."""

    def __init__(self, number: int):
        self.number = number
        self.handle: Any = None
        self.state = "starting"
        self.about: dict[str, Any] = {}
        self.failures = 0  # consecutive failed starts
        self.restarts = 0
        self.leaving = False
        self.used = False  # whether trainers may use the engine; a spare one waits
        self.task: asyncio.Task[None] | None = None

    @property
    def usable(self) -> bool:
        """Whether trainers could use the engine."""
        return self.state == "ready" and not self.leaving


class Manager:
    """See the module. Arguments are those of :class:`asyncdali.ray.Fleet`, checked there."""

    def __init__(self, least: int, most: int, spares: int, engine_options: dict[str, object]):
        self._least, self._most = least, most
        self._class = ray.remote(EngineActor).options(**engine_options, max_concurrency=8, max_restarts=0)
        self._token = secrets.token_bytes(32)
        self._program: bytes | None = None
        self._loadable = asyncio.Event()  # set when the program is known
        self._wanted, self._spares = least, spares
        self._slots: dict[int, Slot] = {}
        self._numbers = 0
        self._version = 0
        self._news = asyncio.Condition()
        self._trainers: dict[str, dict[str, Any]] = {}
        self._heard: dict[str, float] = {}  # time of each trainer's last report
        self._left: dict[int, dict[str, Any]] = {}  # last reports, by rank
        self._failures: deque[str] = deque(maxlen=FAILURES)
        self._decided = time.monotonic()
        self._tasks: set[asyncio.Task[Any]] = set()

    # --- engines

    def _adjust(self) -> None:
        """Start or retire engines until the number of engines is the wanted number plus the spares."""
        staying = [slot for slot in self._slots.values() if not slot.leaving]
        count = self._wanted + self._spares
        for _ in range(count - len(staying)):
            slot = self._slots[self._numbers] = Slot(self._numbers)
            self._numbers += 1
            slot.task = self._start(self._keep(slot))
        # Engines that are not ready leave first.
        staying.sort(key=lambda slot: (slot.state == "ready", -slot.number))
        for slot in staying[: max(0, len(staying) - count)]:
            slot.leaving = True
            self._start(self._retire(slot))

    def _start(self, work: Any) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)  # the loop keeps weak references only
        task.add_done_callback(self._tasks.discard)
        return task

    async def _keep(self, slot: Slot) -> None:
        """Keep an engine running in `slot`."""
        while not slot.leaving:
            slot.state = "starting"
            slot.handle = self._class.remote(self._token)
            await self._loadable.wait()
            try:
                slot.about = await slot.handle.load.remote(self._program)
            except Exception as error:
                if not slot.leaving:
                    await self._failed(slot, f"engine {slot.number} could not start: {_reason(error)}")
                    await asyncio.sleep(min(0.5 * 2**slot.failures, SLOWEST_RETRY))
                continue
            slot.state, slot.failures = "ready", 0
            await self._tell()
            try:
                await slot.handle.wait.remote()
            except Exception as error:
                slot.state = "dead"
                slot.restarts += 1
                if not slot.leaving:
                    self._failures.append(f"engine {slot.number} at {slot.about['address']} died: {_reason(error)}")
                    await self._tell()

    async def _failed(self, slot: Slot, text: str) -> None:
        slot.failures += 1
        slot.state = "failed"
        self._failures.append(f"{text} (attempt {slot.failures})")
        await self._tell()

    async def _retire(self, slot: Slot) -> None:
        """End the engine in `slot` when no trainer needs it."""
        await self._tell()
        if slot.state == "ready":
            try:
                await slot.handle.retire.remote()
            except Exception:
                slot.state = "dead"  # the engine had already ended
        if slot.handle is not None:
            ray.kill(slot.handle)
        if slot.task is not None:
            slot.task.cancel()
        self._slots.pop(slot.number, None)
        await self._tell()

    async def _tell(self) -> None:
        async with self._news:
            self._version += 1
            self._news.notify_all()

    def _addresses(self) -> list[str]:
        """Addresses of the engines that trainers use. A spare engine replaces an engine that has ended."""
        usable = sorted((slot for slot in self._slots.values() if slot.usable), key=lambda slot: (not slot.used, slot.number))
        for slot in self._slots.values():
            slot.used = False
        for slot in usable[: self._wanted]:
            slot.used = True
        return [slot.about["address"] for slot in usable[: self._wanted]]

    # --- for trainers

    async def prepare(self) -> None:
        """Start engines before the program is known."""
        self._adjust()

    async def join(self, trainer: str, program: bytes, timeout: float) -> tuple[int, list[str], bytes]:
        """(version, addresses, token), when an engine is ready. The first trainer's program is that of the fleet.

        RuntimeError after `timeout` seconds without an engine, or when starts fail.
        """
        self._trainers.setdefault(trainer, {})
        if self._program is None:
            self._program = program
            self._loadable.set()
        self._adjust()
        try:
            async with self._news:
                await asyncio.wait_for(self._news.wait_for(lambda: self._addresses() or self._hopeless()), timeout)
        except asyncio.TimeoutError:
            raise RuntimeError(f"no engine was ready after {timeout:g} s (start_timeout). {self._known()}") from None
        if not self._addresses():
            raise RuntimeError(f"no engine of the fleet could start. {self._known()}")
        return self._version, self._addresses(), self._token

    def _hopeless(self) -> bool:
        return bool(self._slots) and all(slot.failures >= ATTEMPTS for slot in self._slots.values())

    def _known(self) -> str:
        states = ", ".join(f"engine {slot.number}: {slot.state}" for slot in self._slots.values())
        resources = {name: value for name, value in ray.available_resources().items() if ":" not in name}
        last = f" Last failures: {'; '.join(list(self._failures)[-3:])}" if self._failures else ""
        return f"States: {states}. Resources that Ray has left: {resources}.{last}"

    async def changes(self, trainer: str, version: int) -> tuple[int, list[str]] | None:
        """The addresses when they are newer than `version`. None: the trainer has left."""
        async with self._news:
            await self._news.wait_for(lambda: self._version != version or trainer not in self._trainers)
        return (self._version, self._addresses()) if trainer in self._trainers else None

    async def leave(self, trainer: str, report: dict[str, Any] | None = None) -> None:
        """End the trainer's :meth:`changes`. Its last report is kept for statistics."""
        last = report or self._trainers.get(trainer)
        self._trainers.pop(trainer, None)
        self._heard.pop(trainer, None)
        if last:
            self._left[last["rank"]] = last
        await self._tell()

    async def report(self, trainer: str, report: dict[str, Any]) -> None:
        """Counters of a trainer. They decide how many engines there are."""
        if trainer in self._trainers:
            self._trainers[trainer], self._heard[trainer] = report, time.monotonic()
            self._scale_for_trainers()

    def _scale_for_trainers(self) -> None:
        time_now = time.monotonic()
        slots = list(self._slots.values())
        if self._least == self._most or time_now - self._decided < COOLDOWN or any(slot.state != "ready" or slot.leaving for slot in slots):
            return
        reports = [self._trainers[name] for name, heard in self._heard.items() if time_now - heard < COOLDOWN]
        busy = sum(report["busy"] for report in reports) / self._wanted
        self._wanted = wanted(self._wanted, self._least, self._most, max(report["waiting"] for report in reports), busy)
        self._decided = time_now
        self._adjust()

    # --- for the owner

    async def scale(self, count: int) -> None:
        """Make `count` the number of engines. They start and retire in the background."""
        self._wanted, self._decided = count, time.monotonic()
        self._adjust()
        await self._tell()

    async def settle(self, timeout: float) -> None:
        """Wait until the wanted engines are ready. RuntimeError after `timeout` seconds."""

        def settled() -> bool:
            usable = sum(slot.usable for slot in self._slots.values())
            return len(self._slots) == usable == self._wanted + self._spares

        try:
            async with self._news:
                await asyncio.wait_for(self._news.wait_for(settled), timeout)
        except asyncio.TimeoutError:
            raise RuntimeError(f"the fleet does not have {self._wanted} engines after {timeout:g} s. {self._known()}") from None

    async def statistics(self) -> dict[str, Any]:
        """Engines, trainers and failures."""
        slots = list(self._slots.values())
        ready = [slot for slot in slots if slot.state == "ready"]
        counted = await asyncio.gather(*(slot.handle.statistics.remote() for slot in ready), return_exceptions=True)
        found = {slot.number: counters for slot, counters in zip(ready, counted) if isinstance(counters, dict)}
        engines = [
            {"engine": slot.number, "state": slot.state, "leaving": slot.leaving, "spare": slot.usable and not slot.used,
             "restarts": slot.restarts, **slot.about, **found.get(slot.number, {})}
            for slot in slots
        ]  # fmt: skip
        present = {report["rank"]: report for report in self._trainers.values() if report}
        trainers = [report for _, report in sorted({**self._left, **present}.items())]
        node = ray.get_runtime_context().get_node_id()
        return {"wanted": self._wanted, "node": node, "engines": engines, "trainers": trainers, "failures": list(self._failures)}

    async def stop(self) -> None:
        """End all engines now."""
        self._wanted = self._spares = 0
        for task in list(self._tasks):
            task.cancel()
        for slot in self._slots.values():
            if slot.handle is not None:
                ray.kill(slot.handle)
        self._slots.clear()
        self._trainers.clear()
        self._heard.clear()
        await self._tell()


_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def _reason(error: BaseException) -> str:
    """The error of a user's program, or Ray's, without the stack of the remote process."""
    cause = getattr(error, "cause", None) or error
    text = _COLOURS.sub("", str(cause)).strip()
    missing, node = re.search(r"No module named '([^']+)'", text), re.search(r"\bip=([^,)\s]+)", text)
    if missing is not None:
        where = "an engine's node" if node is None else f"node {node[1]}"
        return f"the Python of {where} has no module {missing[1]!r}. Install the same packages and programs on every node"
    return f"{type(cause).__name__}: {text[:2000]}"
