"""Steps that run for some samples of a batch only: how a conditional is a branch taken per sample.

`rows` arrays map a sample of the iteration to its place in a sub-batch, or to -1 if it is not in it; address 0 stands for "the same place".
"""

from __future__ import annotations

from .intrinsics import call3, copy_bytes, load_i64, store_i64
from .step import inlined, step


@inlined
def place_of(rows, sample):
    """The place of a sample in a (sub-)batch."""
    if rows == 0:
        return sample
    return load_i64(rows + 8 * sample)


@step
def branch_step(context, sample, thread):
    """0 rows, 1 function, 2 context: the step `function`, for samples that are in the sub-batch."""
    place = place_of(load_i64(context), sample)
    if place < 0:
        return 0
    return call3(load_i64(context + 8), load_i64(context + 16), place, thread)


@step
def link_step(context, sample, thread):
    """0 addresses, 1 rows of a batch; 2 addresses, 3 rows of another: the sample of the first is that of the second."""
    to = place_of(load_i64(context + 8), sample)
    source = place_of(load_i64(context + 24), sample)
    if to >= 0 and source >= 0:
        store_i64(load_i64(context) + 8 * to, load_i64(load_i64(context + 16) + 8 * source))
    return 0


@step
def slot_step(context, sample, thread):
    """0 addresses, 1 rows, 2 offset in the thread's scratch: where this thread keeps the sample."""
    place = place_of(load_i64(context + 8), sample)
    if place >= 0:
        store_i64(load_i64(context) + 8 * place, load_i64(thread) + load_i64(context + 16))
    return 0


@step
def own_step(context, sample, thread):
    """0 addresses, 1 rows, 2 targets, 3 sizes (0: leave it): the sample moves to its target."""
    place = place_of(load_i64(context + 8), sample)
    if place < 0:
        return 0
    size = load_i64(load_i64(context + 24) + 8 * place)
    if size > 0:
        address = load_i64(context) + 8 * place
        target = load_i64(load_i64(context + 16) + 8 * place)
        copy_bytes(target, load_i64(address), size)
        store_i64(address, target)
    return 0
