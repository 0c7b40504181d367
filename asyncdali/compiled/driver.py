"""The slice driver: runs all steps of a job on one sample after another, in as many threads as enter it."""

from __future__ import annotations

from .intrinsics import call3, fetch_add, load_i64, store_i64
from .step import compiled

# Job table (int64 each), written by `runtime.jobs.CompiledSamples`:
#  0 number of samples          1 address of the shared counter     2 number of steps
#  3 address of step functions  4 address of step contexts          5 number of scratch slots
#  6 address of slot pointer arrays (each an int64[samples])         7 address of slot offsets into the thread's scratch
#  8 address of status[samples] (int64: 0, or (step + 1) << 32 | code)   9 address of error texts   10 bytes per error text
#  11 address of two flags (int64 each): stop (non-zero: take no more samples), failed (set when a status is not 0)


@compiled(2)
def run_job(job, thread):
    """Take samples until none is left; returns how many this thread did."""
    samples = load_i64(job)
    counter = load_i64(job + 8)
    steps = load_i64(job + 16)
    functions = load_i64(job + 24)
    contexts = load_i64(job + 32)
    slots = load_i64(job + 40)
    slot_arrays = load_i64(job + 48)
    slot_offsets = load_i64(job + 56)
    status = load_i64(job + 64)
    texts = load_i64(job + 72)
    text_bytes = load_i64(job + 80)
    stop = load_i64(job + 88)
    scratch = load_i64(thread)
    done = 0
    while load_i64(stop) == 0:
        i = fetch_add(counter, 1)
        if i >= samples:
            break
        for k in range(slots):
            store_i64(load_i64(slot_arrays + 8 * k) + 8 * i, scratch + load_i64(slot_offsets + 8 * k))
        store_i64(thread + 16, texts + i * text_bytes)
        store_i64(thread + 24, text_bytes)
        for k in range(steps):
            code = call3(load_i64(functions + 8 * k), load_i64(contexts + 8 * k), i, thread)
            if code != 0:
                store_i64(status + 8 * i, ((k + 1) << 32) | (code & 0x7FFFFFFF))
                store_i64(stop + 8, 1)
                break
        done += 1
    return done
