"""The slice driver: runs all steps of a job on one sample after another, in as many threads as enter it."""

from __future__ import annotations

from numba import types
from numba.extending import intrinsic

from .intrinsics import I64, call3, fetch_add, load_i64, store_i64
from .step import compiled, inlined

# Job table (int64 each), written by `runtime.jobs.CompiledSamples`:
#  0 number of samples          1 address of the shared counter     2 number of steps
#  3 address of step functions  4 address of step contexts          5 number of scratch slots
#  6 address of slot pointer arrays (each an int64[samples])         7 address of slot offsets into the thread's scratch
#  8 address of status[samples] (int64: 0, or (step + 1) << 32 | code)   9 address of error texts   10 bytes per error text
#  11 address of two flags (int64 each): stop (non-zero: take no more samples), failed (set when a status is not 0)
#  12 address of what is counted, or 0: nothing is
#
# What is counted (int64 each; nanoseconds; zero at first, threads add to it):
#  0 time of all threads in here      1 when the thread of sample 0 entered      2 processor time of all threads, if asked for
#  3 whether processor time is asked for (a system call, the others are not)
#  4 (longest processor time of a sample << 20) | that sample, if asked for: by the other clock it would be whoever was interrupted
#  5.. time in each step: the sum is 0
#
# Reading the clock costs some 25 ns. A thread reads it around every step where that is little (steps of 2.5 us and more on average),
# else for every 16th sample, and in proportion the rest is put down to the steps. Where processor time is asked for, it does for all.

TIMES = 5  # entries before those of the steps
OWN_TIMES = 2  # a thread's record leads to this many words of the clock's, and one per step
_MONOTONIC, _THREAD_TIME = 1, 3
_WORTH = 2500
_clock_gettime = types.ExternalFunction("clock_gettime", types.int32(types.int32, types.int64))


@intrinsic
def _raise_to(typingctx, address, value):
    """Atomic ``*address = max(*address, value)`` on an int64."""

    def codegen(context, builder, signature, args):
        return builder.atomic_rmw("max", builder.inttoptr(args[0], I64.as_pointer()), args[1], "seq_cst")

    return types.int64(types.int64, types.int64), codegen


@inlined
def _clock(which, words):
    """A clock of the system in ns: 1 as ``time.perf_counter_ns``, 3 this thread's processor time. `words`: two int64 to use."""
    _clock_gettime(which, words)
    return load_i64(words) * 1000000000 + load_i64(words + 8)


@inlined
def _count(times, own, steps, entered, cpu, measured):
    """Add this thread's share: the time since it entered goes to the steps in proportion to what was `measured`."""
    if measured == 0:
        return  # there was no sample left for it
    took = _clock(_MONOTONIC, own) - entered
    fetch_add(times, took)
    scale = took / measured
    for k in range(steps):
        fetch_add(times + 8 * (TIMES + k), int(load_i64(own + 8 * (OWN_TIMES + k)) * scale))
    if load_i64(times + 24) != 0:
        fetch_add(times + 16, _clock(_THREAD_TIME, own) - cpu)


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
    times = load_i64(job + 96)
    own = load_i64(thread + 32)
    done = entered = cpu = timed = measured = now = begun = used = 0
    processor = times != 0 and load_i64(times + 24) != 0
    if times != 0:
        for k in range(steps):
            store_i64(own + 8 * (OWN_TIMES + k), 0)
        entered = _clock(_MONOTONIC, own)
        if processor:
            cpu = _clock(_THREAD_TIME, own)
    while load_i64(stop) == 0:
        i = fetch_add(counter, 1)
        if i >= samples:
            break
        for k in range(slots):
            store_i64(load_i64(slot_arrays + 8 * k) + 8 * i, scratch + load_i64(slot_offsets + 8 * k))
        store_i64(thread + 16, texts + i * text_bytes)
        store_i64(thread + 24, text_bytes)
        timing = times != 0 and (processor or timed < 4 or measured > timed * steps * _WORTH or i & 15 == 0)
        if timing:
            if processor:
                used = _clock(_THREAD_TIME, own)
            begun = now = _clock(_MONOTONIC, own)
        if i == 0 and times != 0:
            store_i64(times + 8, entered)
        for k in range(steps):
            code = call3(load_i64(functions + 8 * k), load_i64(contexts + 8 * k), i, thread)
            if timing:
                then = now
                now = _clock(_MONOTONIC, own)
                place = own + 8 * (OWN_TIMES + k)
                store_i64(place, load_i64(place) + now - then)
            if code != 0:
                store_i64(status + 8 * i, ((k + 1) << 32) | (code & 0x7FFFFFFF))
                store_i64(stop + 8, 1)
                break
        if timing:
            timed += 1
            measured += now - begun
            if processor:
                _raise_to(times + 32, ((_clock(_THREAD_TIME, own) - used) << 20) | (i & 0xFFFFF))
        done += 1
    if times != 0:
        _count(times, own, steps, entered, cpu, measured)
    return done
