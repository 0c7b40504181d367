"""A step that runs for every frame of a sequence."""

from __future__ import annotations

from .frame_tables import FRAMES, LATE_INPUT
from .intrinsics import call3, load_i64, store_i64
from .step import step

at = FRAMES.at
other = LATE_INPUT.at


@step
def frames_step(context, sample, thread):
    """Run another step, which numbers frames through the batch, for all frames of a sample."""
    first, count = load_i64(load_i64(context + at.firsts) + 8 * sample), load_i64(load_i64(context + at.counts) + 8 * sample)
    source, source_bytes = load_i64(load_i64(context + at.inputs) + 8 * sample), load_i64(load_i64(context + at.input_bytes) + 8 * sample)
    out, out_bytes = load_i64(load_i64(context + at.outputs) + 8 * sample), load_i64(load_i64(context + at.output_bytes) + 8 * sample)
    for frame in range(count):
        place = 8 * (first + frame)
        for k in range(load_i64(context + at.others)):
            late = load_i64(context + at.other_inputs) + k * other.size
            start, size = load_i64(load_i64(late + other.inputs) + 8 * sample), load_i64(load_i64(late + other.bytes) + 8 * sample)
            store_i64(load_i64(late + other.frames) + place, start + frame * size)
        store_i64(load_i64(context + at.input_frames) + place, source + frame * source_bytes)
        store_i64(load_i64(context + at.output_frames) + place, out + frame * out_bytes)
        status = call3(load_i64(context + at.function), load_i64(context + at.context), first + frame, thread)
        if status != 0:
            return status
    return 0
