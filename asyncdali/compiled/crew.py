"""Worker threads that wait for jobs, do them and go on to the next one without the interpreter.

A thread that sleeps in a queue of Python must take the interpreter lock before it can begin, and again to tell that it is done: with ten
threads and two jobs, forty times per iteration. Beside a thread that runs pure Python each may take a switch interval of 5 ms. Here threads
sleep in a condition variable, and only the one that leaves a job last enters the interpreter.

Jobs are a list linked through their tables (the words ``crew_...`` of JOB). A job leaves the list when its last place is taken, or when
somebody finds no sample left: after the last thread has left, nobody knows its address any more.
"""

from __future__ import annotations

from numba import types

from .intrinsics import call2, load_i64, store_i64
from .job_tables import CREW, FLAGS, JOB, THREAD
from .step import compiled, inlined

END, CALL, GROW, OVER, RECALLED = range(5)
"""What :func:`serve` comes back for, in the three lowest bits of its result; above them the job's address."""

crew_at, job_at, flag, own = CREW.at, JOB.at, FLAGS.at, THREAD.at
_mutex, _wake = crew_at.mutex_0, crew_at.wake_0
_lock = types.ExternalFunction("pthread_mutex_lock", types.int32(types.int64))
_unlock = types.ExternalFunction("pthread_mutex_unlock", types.int32(types.int64))
_wait = types.ExternalFunction("pthread_cond_wait", types.int32(types.int64, types.int64))
_signal = types.ExternalFunction("pthread_cond_signal", types.int32(types.int64))
_broadcast = types.ExternalFunction("pthread_cond_broadcast", types.int32(types.int64))


@inlined
def _remove(crew, job):
    """Take a job off the list, wherever it is; the mutex is held."""
    store_i64(job + job_at.crew_left, 0)
    before, found = 0, load_i64(crew + crew_at.first)
    while found != 0 and found != job:
        before, found = found, load_i64(found + job_at.crew_next)
    if found == 0:
        return
    after = load_i64(job + job_at.crew_next)
    if before == 0:
        store_i64(crew + crew_at.first, after)
    else:
        store_i64(before + job_at.crew_next, after)
    if after == 0:
        store_i64(crew + crew_at.last, before)


@inlined
def _leave(crew, job):
    """After a thread has found no sample left: whether it was the last one. The mutex is held."""
    active = load_i64(job + job_at.crew_active) - 1
    store_i64(job + job_at.crew_active, active)
    store_i64(job + job_at.crew_over, 1)
    if load_i64(job + job_at.crew_left) != 0:
        _remove(crew, job)
    return active == 0


@compiled(3, brief=True)
def offer(crew, job, places):
    """Add a job that `places` threads may take part in. Each thread that comes wakes the next one."""
    _lock(crew + _mutex)
    store_i64(job + job_at.crew_next, 0)
    store_i64(job + job_at.crew_left, places)
    last = load_i64(crew + crew_at.last)
    if last == 0:
        store_i64(crew + crew_at.first, job)
    else:
        store_i64(last + job_at.crew_next, job)
    store_i64(crew + crew_at.last, job)
    waiting = load_i64(crew + crew_at.waiting)
    _unlock(crew + _mutex)
    if waiting != 0:
        _signal(crew + _wake)
    return 0


@compiled(2)
def serve(crew, thread):
    """Do jobs until Python is needed; says what for (see END)."""
    _lock(crew + _mutex)
    recalled = load_i64(crew + crew_at.recalled)
    while True:
        while load_i64(crew + crew_at.first) == 0 and load_i64(crew + crew_at.closed) == 0:
            if load_i64(crew + crew_at.recalled) != recalled:
                break
            store_i64(crew + crew_at.waiting, load_i64(crew + crew_at.waiting) + 1)
            _wait(crew + _wake, crew + _mutex)
            store_i64(crew + crew_at.waiting, load_i64(crew + crew_at.waiting) - 1)
        if load_i64(crew + crew_at.recalled) != recalled:
            _unlock(crew + _mutex)
            return RECALLED
        job = load_i64(crew + crew_at.first)
        if job == 0:
            _unlock(crew + _mutex)
            return END
        call = load_i64(job + job_at.crew_call)
        stopped = call == 0 and load_i64(load_i64(job + job_at.flags) + flag.stop) != 0
        small = load_i64(job + job_at.needs_scratch_bytes) > load_i64(thread + own.scratch_bytes)
        if call == 0 and not stopped and (small or load_i64(job + job_at.needs_times_words) > load_i64(thread + own.times_words)):
            others = load_i64(crew + crew_at.waiting)
            _unlock(crew + _mutex)
            if others != 0:
                _signal(crew + _wake)
            return job | GROW
        left = load_i64(job + job_at.crew_left) - 1
        store_i64(job + job_at.crew_left, left)
        if left == 0:
            _remove(crew, job)
        if call == 0:
            store_i64(job + job_at.crew_active, load_i64(job + job_at.crew_active) + 1)
        more = load_i64(crew + crew_at.first) != 0 and load_i64(crew + crew_at.waiting) != 0
        _unlock(crew + _mutex)
        if more:
            _signal(crew + _wake)
        if call != 0:
            return job | CALL
        if not stopped:  # it may lack memory for that
            call2(load_i64(crew + crew_at.run), job, thread)
        _lock(crew + _mutex)
        if _leave(crew, job):
            _unlock(crew + _mutex)
            return job | OVER


@compiled(3)
def take_part(crew, job, thread):
    """Take part in a job that was offered, or was not, on a thread that is none of the crew's; 1 if it left last, else 0."""
    _lock(crew + _mutex)
    if load_i64(job + job_at.crew_over) != 0:
        _unlock(crew + _mutex)
        return 0
    store_i64(job + job_at.crew_active, load_i64(job + job_at.crew_active) + 1)
    _unlock(crew + _mutex)
    if load_i64(load_i64(job + job_at.flags) + flag.stop) == 0:
        call2(load_i64(crew + crew_at.run), job, thread)
    _lock(crew + _mutex)
    last = _leave(crew, job)
    _unlock(crew + _mutex)
    return 1 if last else 0


@compiled(1, brief=True)
def close(crew):
    """Threads end when no job is left."""
    _lock(crew + _mutex)
    store_i64(crew + crew_at.closed, 1)
    _unlock(crew + _mutex)
    _broadcast(crew + _wake)
    return 0


@compiled(1, brief=True)
def recall(crew):
    """Threads that wait come back to Python once, the others when their job is over."""
    _lock(crew + _mutex)
    store_i64(crew + crew_at.recalled, load_i64(crew + crew_at.recalled) + 1)
    _unlock(crew + _mutex)
    _broadcast(crew + _wake)
    return 0


crews: dict[int, object] = {}
"""Addresses of all crews of the process, and whatever keeps their memory; who makes a crew enters it here."""


def recall_all():
    """Have all worker threads of the process come back to Python: for tools that replace what threads call."""
    for address in list(crews):
        recall(address)
