"""Worker threads that wait for jobs, and work on them, without the interpreter.

The problem. Ten threads share the samples of a job, and an iteration has two jobs or more. A thread that enters the interpreter must take
the interpreter lock. Beside a thread that runs pure Python, each time may take a switch interval of 5 ms.

What does not work:

- A Python queue: a thread takes the lock before it begins and when it has finished, forty times per iteration.
- A job per thread with a fixed part of the samples: samples differ in size, so the slowest part decides.
- A semaphore per job that Python code waits for: the waiting thread enters the interpreter for every job.

The solution. Threads wait on a condition variable (pthread) in compiled code. Each thread takes the next sample from the job's atomic
counter. Only the last thread to leave a job enters the interpreter, and it reports the end (:data:`OVER`).

Invariants. Jobs are a list, linked through their tables (the words ``crew_...`` of JOB); list and counts change under the crew's mutex. A
job leaves the list when its last place is taken, or when a thread finds no sample left. After the last thread has left, no thread knows the
job's address any more, so its memory may be reused. ``RECALLED`` makes a thread return without a job; a recall is over only when the
threads have left, because a worker that begins to wait just after a recall would sleep in compiled code unseen.
"""

from __future__ import annotations

import numpy as np

from . import kinds
from .intrinsics import call2, fetch_add, load_i64, store_i64
from .job_tables import CREW, FLAGS, JOB, THREAD
from .step import compiled, inlined

END, CALL, GROW, OVER, RECALLED = range(5)
"""Reasons for which :func:`serve` returns, in the three lowest bits of its result. The job's address is above them."""

crew_at, job_at, flag, own = CREW.at, JOB.at, FLAGS.at, THREAD.at
_mutex, _wake, _left = crew_at.mutex_0, crew_at.wake_0, crew_at.left_0
_lock = kinds.ExternalFunction("pthread_mutex_lock", kinds.int32(kinds.int64))
_unlock = kinds.ExternalFunction("pthread_mutex_unlock", kinds.int32(kinds.int64))
_wait = kinds.ExternalFunction("pthread_cond_wait", kinds.int32(kinds.int64, kinds.int64))
_signal = kinds.ExternalFunction("pthread_cond_signal", kinds.int32(kinds.int64))
_broadcast = kinds.ExternalFunction("pthread_cond_broadcast", kinds.int32(kinds.int64))
_read = kinds.ExternalFunction("read", kinds.int64(kinds.int32, kinds.int64, kinds.int64))
_write = kinds.ExternalFunction("write", kinds.int64(kinds.int32, kinds.int64, kinds.int64))


@inlined
def _remove(crew, job):
    """Remove a job from the list. The mutex is held."""
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
    """Called after a thread has found no sample left. Returns whether it was the last one. The mutex is held."""
    active = load_i64(job + job_at.crew_active) - 1
    store_i64(job + job_at.crew_active, active)
    store_i64(job + job_at.crew_over, 1)
    if load_i64(job + job_at.crew_left) != 0:
        _remove(crew, job)
    return active == 0


@inlined
def _append(crew, job, places):
    """Append a job to the list of a crew and wake a thread. The mutex is not held."""
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
    tells = last == 0 and load_i64(crew + crew_at.tells) != 0
    _unlock(crew + _mutex)
    if waiting != 0:
        _signal(crew + _wake)
    if tells:
        _write(np.int32(load_i64(crew + crew_at.descriptor)), crew + crew_at.tells, 8)  # the number 1


@compiled(3, brief=True)
def offer(crew, job, places):
    """Add a job for up to `places` threads. Each thread that comes wakes the next one."""
    _append(crew, job, places)
    return 0


@compiled(2)
def serve(crew, thread):
    """Work on jobs until Python is needed. Returns the reason (see END)."""
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
            return job | (CALL if call == 1 else OVER)
        if not stopped:  # a thread that meets a stopped job may have too little scratch memory for it
            call2(load_i64(crew + crew_at.run), job, thread)
        _lock(crew + _mutex)
        if _leave(crew, job):
            report, joint = load_i64(job + job_at.crew_report), load_i64(job + job_at.crew_joint)
            if load_i64(job + job_at.crew_waits) != 0:
                _broadcast(crew + _left)
            elif joint != 0 and fetch_add(joint, -1) > 1:
                continue  # another job of the joint ends later and reports both; this job may be gone by now
            elif report == 0:
                _unlock(crew + _mutex)
                return job | OVER
            else:
                _unlock(crew + _mutex)
                store_i64(job + job_at.crew_call, 2)
                _append(report, job, 1)
                _lock(crew + _mutex)


@compiled(2, brief=True)
def change(joint, amount):
    """Add to the number of jobs of a joint that have not ended. Returns the new number."""
    return fetch_add(joint, amount) + amount


@compiled(1, brief=True)
def reported(crew):
    """The next job whose end another crew reports, as :func:`serve` returns it; 0 if there is none. It does not wait."""
    _lock(crew + _mutex)
    job = load_i64(crew + crew_at.first)
    if job == 0 or load_i64(job + job_at.crew_call) != 2:
        _unlock(crew + _mutex)
        return 0
    _remove(crew, job)
    _unlock(crew + _mutex)
    return job | OVER


@compiled(1, brief=True)
def forget_told(crew):
    """Make the descriptor of a crew unreadable, until a job is added to an empty list. It does not wait."""
    _read(np.int32(load_i64(crew + crew_at.descriptor)), crew + crew_at.told, 8)
    return 0


@compiled(3)
def take_part(crew, job, thread):
    """Work on a job from a thread outside of the crew, whether it was offered or not, and wait for the threads of the crew to leave it.

    Returns 1 if the caller reports the end, 0 if a thread of the crew has done so. The wait is short: every other thread is at its last
    sample. Without it a thread of the crew would enter the interpreter, too. Only one thread calls this for a job.
    """
    _lock(crew + _mutex)
    if load_i64(job + job_at.crew_over) != 0 and load_i64(job + job_at.crew_active) == 0:
        _unlock(crew + _mutex)
        return 0
    store_i64(job + job_at.crew_waits, 1)
    if load_i64(job + job_at.crew_over) == 0:
        store_i64(job + job_at.crew_active, load_i64(job + job_at.crew_active) + 1)
        _unlock(crew + _mutex)
        if load_i64(load_i64(job + job_at.flags) + flag.stop) == 0:
            call2(load_i64(crew + crew_at.run), job, thread)
        _lock(crew + _mutex)
        _leave(crew, job)
    while load_i64(job + job_at.crew_active) != 0:
        _wait(crew + _left, crew + _mutex)
    _unlock(crew + _mutex)
    return 1


@compiled(1, brief=True)
def close(crew):
    """Make the threads end when no job is left."""
    _lock(crew + _mutex)
    store_i64(crew + crew_at.closed, 1)
    _unlock(crew + _mutex)
    _broadcast(crew + _wake)
    return 0


@compiled(1, brief=True)
def recall(crew):
    """Make each thread return to Python once: waiting threads now, the others after their job."""
    _lock(crew + _mutex)
    store_i64(crew + crew_at.recalled, load_i64(crew + crew_at.recalled) + 1)
    _unlock(crew + _mutex)
    _broadcast(crew + _wake)
    return 0


crews: dict[int, object] = {}
"""Addresses of all crews of the process, with the owners of their memory. The maker of a crew adds it."""


def recall_all() -> None:
    """Make all worker threads of the process return to Python, for tools that replace functions that threads call."""
    for address in list(crews):
        recall(address)
