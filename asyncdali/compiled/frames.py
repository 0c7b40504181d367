"""A step that runs for every frame of a sequence."""

from __future__ import annotations

from .intrinsics import call3, load_i64, store_i64
from .step import step


@step
def frames_step(context, sample, thread):
    """The step 0 function, 1 context for all frames of a sample; it knows frames by their numbers in the batch.

    2 number of each sample's first frame, 3 its frames; 4 addresses of input samples, 5 bytes of one of their frames, 6 addresses of
    input frames (written here); 7 to 9 the same of the output.
    """
    first, count = load_i64(load_i64(context + 16) + 8 * sample), load_i64(load_i64(context + 24) + 8 * sample)
    source, source_bytes = load_i64(load_i64(context + 32) + 8 * sample), load_i64(load_i64(context + 40) + 8 * sample)
    out, out_bytes = load_i64(load_i64(context + 56) + 8 * sample), load_i64(load_i64(context + 64) + 8 * sample)
    for frame in range(count):
        place = 8 * (first + frame)
        store_i64(load_i64(context + 48) + place, source + frame * source_bytes)
        store_i64(load_i64(context + 72) + place, out + frame * out_bytes)
        status = call3(load_i64(context), load_i64(context + 8), first + frame, thread)
        if status != 0:
            return status
    return 0
