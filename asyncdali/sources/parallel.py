"""Parallel sources: a pipeline's pool of worker processes, and the puller that sends requests to it."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
from asyncdali_workers import PoolOutput, Source, WorkerPool

from ..batch import Batch, from_numpy_dtype
from ..errors import OperatorError, operator_error, refused
from .group import Group
from .kinds import SourceKind
from .ports import Port
from .prefetch import AheadPuller
from .snapshots import START, Position, checked_position
from .state import decode_state, encode_state

log = logging.getLogger("asyncdali")

_GATHERED = 64 * 1024
"""Smaller batches are copied out of shared memory. A copy is cheaper than a slot that stays occupied while the user keeps the batch."""


class Parallel:
    """The worker processes of one pipeline, before they are started.

    `positions` maps nodes to saved positions from a checkpoint. A source with a state loads its state in its worker.
    """

    def __init__(self, groups: Sequence[Group], options: Any, positions: dict[str, Any]):
        workers = options.py_num_workers
        if isinstance(workers, bool) or not isinstance(workers, int) or workers < 1:
            raise refused(
                OperatorError, "external_source", "parallel",
                "The pipeline has parallel external sources and cannot run in parallel mode without worker processes: "
                f"`py_num_workers` is {workers!r}, it must be an int of at least 1.",
            )
        self.groups = list(groups)
        self._numbers = {id(group): k for k, group in enumerate(self.groups)}
        self.pool = WorkerPool(
            [_source(group, options, positions) for group in self.groups],
            num_workers=workers,
            start_method=options.py_start_method,
            pickler=options.py_callback_pickler,
            worker_timeout=options.worker_timeout,
            max_retries=options.max_retries,
            seed=options.seed,
        )

    def start(self) -> None:
        """Start the workers. Returns when all are ready."""
        self.pool.start()

    def number(self, group: Group) -> int:
        """The pool's description of the source of `group`."""
        return self._numbers[id(group)]

    def close(self) -> None:
        """Stop the workers; batches over their memory stay valid."""
        self.pool.close()

    def shm_statistics(self) -> dict[str, list[int]]:
        """Capacities in bytes of the pieces of shared memory: total, and per sample."""
        found = self.pool.statistics()
        return {key: list(found[key]) for key in ("capacities", "per_sample_capacities")}


def _source(group: Group, options: Any, positions: dict[str, Any]) -> Source:
    what = group.description
    stream = what.kind is not SourceKind.CALLABLE
    stateful = stream and what.snapshots and options.enable_checkpointing
    state, asks = _position(group, positions) if stateful else START
    callback = what.source
    if what.is_async:
        callback = Awaiting(callback)
    return Source(
        callback,
        kind="stream" if stream else ("batch" if group.batch else "samples"),
        batch_size=int(options.batch_size),
        num_outputs=group.num_outputs,
        batch_info=what.batch_info,
        cycle=what.cycle,
        prefetch=group.prefetch_queue_depth,
        bytes_per_sample_hint=group.bytes_per_sample_hint,
        name=group.name,
        snapshot_every=group.snapshot_every if stateful else 0,
        state=state,
        asks=asks,
        encode_state=_state_bytes if stateful else None,
    )


def _position(group: Group, positions: dict[str, object]) -> Position:
    """The position at which a source begins, with its state decoded. The session refuses invalid positions, as for operators."""
    try:
        saved = checked_position(positions.get(group.name), group.snapshot_every)
        return saved._replace(state=None if saved.state is None else decode_state(saved.state))
    except ValueError:
        return START


def _state_bytes(state: object) -> bytes:
    """Runs in the worker: a state in the form that checkpoints store."""
    return json.dumps(encode_state(state)).encode()


class Awaiting:
    """An `async def` callable as a function that a worker can call."""

    def __init__(self, callback: Any):
        self.callback = callback
        self._loop: asyncio.AbstractEventLoop | None = None

    def __call__(self, position: Any) -> Any:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
        try:
            return self._loop.run_until_complete(self.callback(position))
        except StopAsyncIteration:
            raise StopIteration from None
        except RuntimeError as error:
            if isinstance(error.__cause__, StopIteration):
                raise StopIteration from None
            raise

    def __getstate__(self) -> Any:
        return self.callback

    def __setstate__(self, callback: Any) -> None:
        self.callback, self._loop = callback, None


class ParallelPuller(AheadPuller):
    """Sends requests to the pool."""

    kind = "parallel"
    elsewhere = True

    def __init__(self, group: Group, ports: dict[str, Port], batch_size: int, parallel: Parallel):
        super().__init__(group, ports, batch_size)
        self._pool = parallel.pool
        self._number = parallel.number(group)

    def _ask(self, iteration: int) -> object:
        return self._pool.submit(self._number, iteration, self.epoch if self.description.resumable else self._round)

    def _answer(self, asked: Any) -> dict[str, Batch]:
        try:
            answer = self._pool.receive(asked)
        except StopIteration as end:
            self.left_over = end.value or 0
            raise
        self.workers = answer.workers
        if self.snapshots is not None:
            self.snapshots.pulled(None if answer.snapshot is None else json.loads(answer.snapshot))
        batches = {}
        for port, output in zip(self._ports, answer.outputs, strict=True):
            if port is not None:
                try:
                    batches[port.name] = port.take_in(_batch(output))
                except RuntimeError as error:
                    raise operator_error(port.planned, error, self.index) from error
        return batches

    def _cancel(self, asked: Any) -> None:
        self._pool.cancel(asked)

    def _resume(self, position: Position) -> None:
        """The worker was started at that position and goes there at the first request."""
        decode_state(position.state)


def _batch(output: PoolOutput) -> Batch:
    """A batch over the workers' memory, or a copy of a small batch."""
    kind = from_numpy_dtype(output.dtype)
    layout = output.layout or ""
    if output.values is not None:
        values = np.array(output.values) if output.values.nbytes < _GATHERED else output.values
        return Batch.from_values(values, layout, kind)
    batch = Batch(output.shapes, kind, layout, output.addresses, output.owner)
    total = int(batch.sizes().sum())
    if total < _GATHERED:
        small = Batch(output.shapes, kind, layout)
        small.place(np.empty(total, np.uint8))
        for k in range(len(batch)):
            small.sample(k)[...] = batch.sample(k)
        return small
    return batch
