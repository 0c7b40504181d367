"""Turns a request for a batch into tasks: writes the schema into the slot and gives each slice its part. Learns for later batches."""

from __future__ import annotations

import time

from ..counts import Counts
from ..limits import CHECKED, check
from ..shared.records import Task, task_of
from ..shared.system import PAGE
from ..source import Source
from .batches import PoolBatch
from .prediction import Prediction
from .slots import SlotLease, Slots, ensure_committed, shed
from .tickets import Ticket


def lay_out(ticket: Ticket, lease: SlotLease, prediction: Prediction, memory: int) -> None:
    """Write the schema into the slot and make the tasks. Runs on the submitting thread, with the pool's lock held."""
    schema = prediction.schema
    extent = lease.extent
    ticket.schema = schema
    if schema is not None and extent.schema != schema.number:
        shed(memory, extent, schema.end)
        ensure_committed(memory, extent, schema.end)
        schema.write(extent.mapping.bytes)
        extent.schema = schema.number
    number = 0 if schema is None else schema.number
    end = prediction.end
    batch = ticket.source.batch_size
    area = (extent.size - end) // batch
    now = time.monotonic_ns()
    for place, (first, count) in enumerate(ticket.slices):
        start = end + first * area
        task = Task(
            1, ticket.source_index, task_of(ticket.number, place), first, count, ticket.iteration, ticket.epoch, extent.offset,
            extent.size, start, area * count, number, now,
        )  # fmt: skip
        ticket.tasks.append(task)


def note_parts(lease: SlotLease, prediction: Prediction) -> None:
    """For statistics: number of parts of the slot."""
    extent = lease.extent
    extent.parts, extent.per_part = prediction.parts, prediction.per_part
    extent.part_capacity = max(prediction.part_capacity, (prediction.slot_size() - PAGE) // prediction.parts // PAGE * PAGE)


def make_slots(slots: Slots, sources: list[Source], predictions: list[Prediction]) -> None:
    """Make slots for the batches that the sources will have in progress, so the first batches find them. Needs the pool's lock."""
    leases = []
    for prediction, source in zip(predictions, sources):
        size = prediction.slot_size() * source.prefetch
        if size >= CHECKED:
            check(size, f"{source.name}: {source.prefetch} batches of {source.batch_size} samples (see bytes_per_sample_hint)")
        for _ in range(source.prefetch):
            leases.append(slots.lend(prediction.slot_size()))
            note_parts(leases[-1], prediction)
    slots.kept = len(leases)


def learn(ticket: Ticket, batch: PoolBatch, key: list[object] | None, prediction: Prediction, counts: Counts) -> None:
    """Learn from a received batch. Runs on the receiving thread, without the pool's lock. `key`: see `assembled`."""
    needed, size, busy = 0.0, 0, 0
    for answer in ticket.answers.values():
        assert answer is not None and answer.done is not None
        done = answer.done
        size += done.bytes
        busy += done.busy
        if done.needed and done.count:
            needed = max(needed, done.needed / done.count)
    counts.bytes += size
    counts.batches += 1
    prediction.took(busy, batch.count)
    if batch.count:
        prediction.learn(key or [], key is None, needed)
