"""The loader of one rank, whose engines are those of a :class:`~asyncdali.ray.Fleet`."""

from __future__ import annotations

import logging
import threading
import uuid
import weakref
from collections.abc import Callable, Iterator
from time import monotonic
from typing import Any

import ray
from asyncdali_workers.interrupts import uninterrupted
from asyncdali_workers.pickling import dumps_by_value

from .. import fleet as fleets
from ..fleet import RankLoader
from ..fleet.ranks import parts_of
from ..fleet.remote import Actors
from .fleet import Fleet, answer
from .prepare import prepare

log = logging.getLogger("asyncdali")

REPORTS = 1.0
"""Seconds between two reports of a rank."""
ADVICE = "The fleet starts engines again: `fleet.statistics()['failures']` says why they ended"
ENDED = "The fleet has ended (`Fleet.close`, Ray's shutdown, or the loss of its manager's node). Make a new Fleet and a new loader"
_OF_THE_LOADER = ("uneven", "last_batch_policy", "reader_name", "hedge_compare", "reconnect_timeout", "buffer_bytes", "allow_unchecked")
_OF_THE_FLEET = ("engines", "token", "hedge_after", "prefetch_queue_depth")


def loader(
    train: Callable[..., Any], *, fleet: Fleet, rank: int = 0, world_size: int = 1, checkpoint: bytes | None = None, **options: Any
) -> FleetLoader:
    """Rank `rank`'s share of the batches of a pipeline, made by the engines of `fleet`.

    Arguments, results and errors are those of :func:`asyncdali.fleet.loader`. `train` goes to the engines by cloudpickle, so it may be a
    function of the program's main file. The engines' nodes need its other modules and the data.

    Raises:
        RuntimeError: no engine could start. The error names the failures.
    """
    if not isinstance(fleet, Fleet):
        raise TypeError(f"`fleet` must be an asyncdali.ray.Fleet, got {type(fleet).__name__}")
    wrong = [name for name in _OF_THE_FLEET if name in options]
    if wrong:
        raise ValueError(f"{', '.join(wrong)} cannot be given with a fleet: see `hedge_after` and `lookahead` of Fleet")
    if not callable(train):
        raise TypeError(f"`train` must be a function that returns a pipeline (pipeline_def), got {type(train).__name__}")
    own = {name: options.pop(name) for name in _OF_THE_LOADER if name in options}
    trainer = f"{rank}-{uuid.uuid4().hex}"
    threads = {} if fleet.threads is None else {"num_threads": fleet.threads}
    program = dumps_by_value((train, {**options, **threads}))
    try:
        joining = fleet.manager.join.remote(trainer, program, fleet.start_timeout)
        prepare()  # runs while the engines start
        version, addresses, token = answer(joining)
        made = fleets.loader(
            train, rank=rank, world_size=world_size, checkpoint=checkpoint, engines=addresses, token=token, hedge_after=fleet.hedge_after,
            prefetch_queue_depth=fleet.lookahead, **own, **options,
        )  # fmt: skip
    except BaseException:
        _leave(fleet.manager, trainer)
        raise
    return FleetLoader(made, fleet, trainer, version, addresses)


class FleetLoader(RankLoader):
    """The result of :func:`loader`. It follows the fleet: engines that start are used, engines that retire get no more requests.

    A program may keep :attr:`pipeline` and drop the loader: the trainer leaves the fleet when the pipeline is dropped.
    """

    def __init__(self, made: RankLoader, fleet: Fleet, trainer: str, version: int, addresses: list[str]):
        parts = parts_of(made)
        super().__init__(*parts)
        assert parts.actors is not None
        self._manager, self._trainer = fleet.manager, trainer
        self._known = version, addresses
        self._follower: threading.Thread | None = None
        parts.actors.advice = ADVICE
        # The pipeline holds these, and may outlive this loader. The manager ends with its last handle, which the finaliser keeps.
        self._leave = weakref.finalize(parts.actors, _drop, fleet.manager, trainer)
        self._reported = monotonic()
        self._iterations = 0
        self._waited = self._waited_before = self._busy_before = 0.0

    def __enter__(self) -> FleetLoader:
        super().__enter__()
        self._follow()
        return self

    def __iter__(self) -> Iterator[Any]:
        """As :meth:`RankLoader.__iter__`. The time that the loop waits decides how many engines the fleet has."""
        batches = super().__iter__()
        self._follow()
        return self._measured(batches)

    def _measured(self, batches: Iterator[object]) -> Iterator[object]:
        while True:
            begin = monotonic()
            try:
                batch = next(batches)
            except StopIteration:
                return
            end = monotonic()
            self._waited += end - begin
            self._iterations += 1
            if end - self._reported >= REPORTS and ray.is_initialized():  # after a shutdown of Ray, `remote` would start Ray again
                self._manager.report.remote(self._trainer, self._report(end))
            yield batch

    def _report(self, time: float) -> dict[str, object]:
        engines = self.engines()
        busy = sum(engine["busy_seconds"] for engine in engines)
        elapsed = max(time - self._reported, 1e-9)
        report = {
            "rank": self.rank, "iterations": self._iterations, "waited_seconds": self._waited,
            "waiting": min(1.0, (self._waited - self._waited_before) / elapsed), "busy": max(0.0, busy - self._busy_before) / elapsed,
            "engines": engines,
        }  # fmt: skip
        self._reported, self._waited_before, self._busy_before = time, self._waited, busy
        return report

    def _follow(self) -> None:
        """Begin to follow the fleet's engines."""
        if self._follower is None:
            assert self._actors is not None
            given = (self._manager, self._trainer, *self._known, weakref.ref(self._actors))
            with uninterrupted():  # `close` joins the thread, which therefore must run
                self._follower = threading.Thread(target=_follow, args=given, name="asyncdali-fleet", daemon=True)
                self._follower.start()

    def close(self) -> None:
        """Leave the fleet, stop threads; batches stay valid. Idempotent."""
        if self._leave.alive and ray.is_initialized():
            self._leave.detach()
            report = self._report(monotonic()) if self._follower is not None else None
            _leave(self._manager, self._trainer, report)
        super().close()
        if self._follower is not None:
            self._follower.join(10.0)


def _leave(manager: Any, trainer: str, report: dict[str, Any] | None = None) -> None:
    if not ray.is_initialized():
        return
    try:
        ray.get(manager.leave.remote(trainer, report), timeout=10.0)
    except ray.exceptions.RayError as error:
        log.info("the fleet ended before this loader: %s", error)


def _drop(manager: Any, trainer: str) -> None:
    """As :func:`_leave`, without waiting: any thread may drop a pipeline."""
    if ray.is_initialized():
        manager.leave.remote(trainer)


def _follow(manager: Any, trainer: str, version: int, addresses: list[str], reference: weakref.ref[Actors]) -> None:
    """Report new and retired engines to the trainer's side until it leaves. It can be freed, because no strong reference is held."""
    known = set(addresses)
    while True:
        try:
            news = ray.get(manager.changes.remote(trainer, version))
        except (Exception, SystemExit) as error:  # the manager has ended, or Ray is shut down, which raises SystemExit
            log.info("the fleet reports no more changes: %s", error)
            news = None
        actors = reference()
        if actors is None:
            return
        if news is None:
            actors.advice = ENDED
            return
        version, addresses = news
        for address in set(addresses) - known:
            actors.add(address)
        for address in known - set(addresses):
            actors.remove(address)
        known = set(addresses)
        del actors
