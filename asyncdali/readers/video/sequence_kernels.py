"""Puts decoded frames together to sequences."""

from __future__ import annotations

import numpy as np

from ...compiled.intrinsics import copy_bytes, load_i64, store_i64
from ...compiled.step import compiled, inlined, step
from .sequence_tables import COPY_FRAMES, FRAME_SHAPE, JOIN_FRAMES, NUMBER_FRAMES, SEQUENCE_SHAPE

at, numbering, joining = COPY_FRAMES.at, NUMBER_FRAMES.at, JOIN_FRAMES.at
pixels, sequence = FRAME_SHAPE.at, SEQUENCE_SHAPE.at

_SPREAD = 0x9E3779B97F4A7C15 - (1 << 64)
"""Multiplier of Fibonacci hashing (Knuth, The Art of Computer Programming, volume 3, section 6.4)."""


@compiled(2, brief=True)
def number_frames(context, samples):
    """Number the frames of the sequences in the order of their first use. Returns how many there are."""
    length, stride = load_i64(context + numbering.length), load_i64(context + numbering.stride)
    order, uses, bits = load_i64(context + numbering.order), load_i64(context + numbering.uses), load_i64(context + numbering.bits)
    slots, last = load_i64(context + numbering.slots), (np.int64(1) << bits) - 1
    for k in range(last + 1):
        store_i64(slots + 8 * k, -1)
    count = 0
    for sample in range(samples):
        first = load_i64(load_i64(context + numbering.starts) + 8 * load_i64(load_i64(context + numbering.indices) + 8 * sample))
        for j in range(length):
            frame = first + j * stride
            slot = ((frame * _SPREAD) >> (64 - bits)) & last
            number = load_i64(slots + 8 * slot)
            while number >= 0 and load_i64(order + 8 * number) != frame:
                slot = (slot + 1) & last
                number = load_i64(slots + 8 * slot)
            if number < 0:
                number = count
                store_i64(slots + 8 * slot, number)
                store_i64(order + 8 * number, frame)
                count += 1
            store_i64(uses + 8 * (length * sample + j), number)
    return count


@compiled(2, brief=True)
def join_frames(context, samples):
    """Write the shapes, the addresses of the frames and their bytes for each sequence. Returns the place in `uses` of the first frame whose
    shape is not that of its sequence, or -1."""
    length, uses, shapes = load_i64(context + joining.length), load_i64(context + joining.uses), load_i64(context + joining.shapes)
    for sample in range(samples):
        first = shapes + pixels.size * load_i64(uses + 8 * length * sample)
        height, width = load_i64(first + pixels.height), load_i64(first + pixels.width)
        channels = load_i64(first + pixels.channels)
        for j in range(length * sample, length * (sample + 1)):
            number = load_i64(uses + 8 * j)
            shape = shapes + pixels.size * number
            same = load_i64(shape + pixels.height) == height and load_i64(shape + pixels.width) == width
            if not same or load_i64(shape + pixels.channels) != channels:
                return j
            store_i64(load_i64(context + joining.frames) + 8 * j, load_i64(load_i64(context + joining.addresses) + 8 * number))
        extents = load_i64(context + joining.extents) + sequence.size * sample
        store_i64(extents + sequence.frames, length)
        store_i64(extents + sequence.height, height)
        store_i64(extents + sequence.width, width)
        store_i64(extents + sequence.channels, channels)
        store_i64(load_i64(context + joining.sizes) + 8 * sample, height * width * channels)
    return -1


@inlined
def _copy(context, sample):
    length, size = load_i64(context + at.length), load_i64(load_i64(context + at.sizes) + 8 * sample)
    frames, target = load_i64(context + at.frames) + 8 * length * sample, load_i64(load_i64(context + at.outputs) + 8 * sample)
    for k in range(length):
        copy_bytes(target + k * size, load_i64(frames + 8 * k), size)


@step
def copy_frames(context, sample, thread):
    """Copy the frames of a sequence one behind another."""
    _copy(context, sample)
    return 0


@compiled(2, brief=True)
def copy_sequences(context, count):
    """The same for `count` small sequences."""
    for sample in range(count):
        _copy(context, sample)
    return 0
