"""The driver: runs all steps of a job on one sample after another, in every thread that enters it."""

from __future__ import annotations

from . import kinds
from .intrinsics import I64, call2, call3, fetch_add, load_i64, store_i64, store_u8
from .job_tables import COPY, FLAGS, JOB, OWN_TIMES, THREAD, TIMES
from .kinds import intrinsic
from .step import compiled, inlined

# Reading the clock takes about 25 ns. If steps take 2.5 us or more on average, a thread reads the clock around every step. If they are
# shorter, the thread measures every 16th sample and extrapolates. If processor time is requested, every sample is measured.

at = JOB.at
copied, flag, own_time, record, total = COPY.at, FLAGS.at, OWN_TIMES.at, THREAD.at, TIMES.at
_MONOTONIC, _THREAD_TIME = 1, 3
_WORTH = 2500
_clock_gettime = kinds.ExternalFunction("clock_gettime", kinds.int32(kinds.int32, kinds.int64))


@intrinsic
def _raise_to(typingctx, address, value):
    """Atomic ``*address = max(*address, value)`` on an int64."""

    def codegen(context, builder, signature, args):
        return builder.atomic_rmw("max", builder.inttoptr(args[0], I64.as_pointer()), args[1], "seq_cst")

    return kinds.int64(kinds.int64, kinds.int64), codegen


@inlined
def _clock(which, own):
    """A system clock in ns. Kind 1: as ``time.perf_counter_ns``; kind 3: this thread's processor time. `own`: OWN_TIMES of the thread."""
    _clock_gettime(which, own + own_time.clock_seconds)
    return load_i64(own + own_time.clock_seconds) * 1000000000 + load_i64(own + own_time.clock_nanoseconds)


@inlined
def _count(times, own, steps, entered, cpu, measured):
    """Add this thread's times to the job: the time since it entered is divided among the steps in proportion to `measured`."""
    if measured == 0:
        return  # this thread computed no sample
    took = _clock(_MONOTONIC, own) - entered
    fetch_add(times + total.busy, took)
    scale = took / measured
    for k in range(steps):
        fetch_add(times + total.size + 8 * k, int(load_i64(own + own_time.size + 8 * k) * scale))
    if load_i64(times + total.with_processor) != 0:
        fetch_add(times + total.processor, _clock(_THREAD_TIME, own) - cpu)


@compiled(2)
def run_job(job, thread):
    """Work on samples until none is left. Returns the number of samples that this thread did."""
    samples = load_i64(job + at.samples)
    flags = load_i64(job + at.flags)
    steps = load_i64(job + at.steps)
    functions = load_i64(job + at.functions)
    contexts = load_i64(job + at.contexts)
    slots = load_i64(job + at.slots)
    slot_arrays = load_i64(job + at.slot_arrays)
    slot_offsets = load_i64(job + at.slot_offsets)
    status = load_i64(job + at.status)
    texts = load_i64(job + at.texts)
    text_bytes = load_i64(job + at.text_bytes)
    scratch = load_i64(thread + record.scratch)
    times = load_i64(job + at.times)
    own = load_i64(thread + record.times)
    done = entered = cpu = timed = measured = now = begun = used = 0
    processor = times != 0 and load_i64(times + total.with_processor) != 0
    if times != 0:
        for k in range(steps):
            store_i64(own + own_time.size + 8 * k, 0)
        entered = _clock(_MONOTONIC, own)
        if processor:
            cpu = _clock(_THREAD_TIME, own)
    while load_i64(flags + flag.stop) == 0:
        i = fetch_add(flags + flag.next, 1)
        if i >= samples:
            break
        for k in range(slots):
            store_i64(load_i64(slot_arrays + 8 * k) + 8 * i, scratch + load_i64(slot_offsets + 8 * k))
        store_u8(texts + i * text_bytes, 0)  # an empty text
        store_i64(thread + record.error_text, texts + i * text_bytes)
        store_i64(thread + record.error_bytes, text_bytes)
        timing = times != 0 and (processor or timed < 4 or measured > timed * steps * _WORTH or i & 15 == 0)
        if timing:
            if processor:
                used = _clock(_THREAD_TIME, own)
            begun = now = _clock(_MONOTONIC, own)
        if i == 0 and times != 0:
            store_i64(times + total.begun, entered)
        for k in range(steps):
            code = call3(load_i64(functions + 8 * k), load_i64(contexts + 8 * k), i, thread)
            if timing:
                then = now
                now = _clock(_MONOTONIC, own)
                place = own + own_time.size + 8 * k
                store_i64(place, load_i64(place) + now - then)
            if code != 0:
                store_i64(status + 8 * i, ((k + 1) << 32) | (code & 0x7FFFFFFF))
                store_i64(flags + flag.failed, 1)
                break
        if timing:
            timed += 1
            measured += now - begun
            if processor:
                _raise_to(times + total.slowest, ((_clock(_THREAD_TIME, own) - used) << 20) | (i & 0xFFFFF))
        done += 1
    if times != 0:
        _count(times, own, steps, entered, cpu, measured)
    return done


@compiled(3, brief=True)
def run_copy(copy, bases, thread):
    """Copy a job to the scratch memory of the thread, add the addresses of `bases`, and do all of the job.

    Returns whether a sample has failed. The copy exists during this call only, so handlers of signals may make calls on the same thread."""
    job = load_i64(thread + record.scratch) + load_i64(copy + copied.begin)
    words, source = load_i64(copy + copied.length), load_i64(copy + copied.source)
    for k in range(words):
        store_i64(job + 8 * k, load_i64(source + 8 * k))
    places, count = load_i64(copy + copied.places), load_i64(copy + copied.count)
    for k in range(count):
        word, number = job + 8 * load_i64(places + 16 * k), load_i64(places + 16 * k + 8)
        base = job if number == 0 else load_i64(bases + 8 * number - 8)
        store_i64(word, load_i64(word) + base)
    call2(load_i64(copy + copied.run), job, thread)
    return load_i64(load_i64(job + at.flags) + flag.failed)
