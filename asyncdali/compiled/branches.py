"""Steps that run for some samples of a batch only. With them, a conditional is a branch taken per sample."""

from __future__ import annotations

from .branch_tables import BRANCH, LINK, OWN, SLOT
from .intrinsics import call3, copy_bytes, load_i64, store_i64
from .job_tables import THREAD
from .step import inlined, step

branch, link, slot, own, record = BRANCH.at, LINK.at, SLOT.at, OWN.at, THREAD.at


@inlined
def place_of(rows, sample):
    """The index of a sample in a (partial) batch."""
    if rows == 0:
        return sample
    return load_i64(rows + 8 * sample)


@step
def branch_step(context, sample, thread):
    """Run another step for the samples of the partial batch."""
    place = place_of(load_i64(context + branch.rows), sample)
    if place < 0:
        return 0
    return call3(load_i64(context + branch.function), load_i64(context + branch.context), place, thread)


@step
def link_step(context, sample, thread):
    """The sample takes its address from another batch."""
    to = place_of(load_i64(context + link.rows), sample)
    source = place_of(load_i64(context + link.source_rows), sample)
    if to >= 0 and source >= 0:
        address = load_i64(load_i64(context + link.source_addresses) + 8 * source)
        store_i64(load_i64(context + link.addresses) + 8 * to, address)
    return 0


@step
def slot_step(context, sample, thread):
    """The sample is in this thread's scratch memory."""
    place = place_of(load_i64(context + slot.rows), sample)
    if place >= 0:
        address = load_i64(thread + record.scratch) + load_i64(context + slot.offset)
        store_i64(load_i64(context + slot.addresses) + 8 * place, address)
    return 0


@step
def own_step(context, sample, thread):
    """The sample is copied to its target."""
    place = place_of(load_i64(context + own.rows), sample)
    if place < 0:
        return 0
    size = load_i64(load_i64(context + own.sizes) + 8 * place)
    if size > 0:
        address = load_i64(context + own.addresses) + 8 * place
        target = load_i64(load_i64(context + own.targets) + 8 * place)
        copy_bytes(target, load_i64(address), size)
        store_i64(address, target)
    return 0
