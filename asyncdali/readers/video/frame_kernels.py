"""Puts decoded frames together to sequences."""

from __future__ import annotations

from ...compiled.intrinsics import copy_bytes, load_i64
from ...compiled.step import compiled, inlined, step
from .frame_tables import COPY_FRAMES

at = COPY_FRAMES.at


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
