"""The end of jobs that are reported together: the thread that ends last executes commands, without the interpreter.

The commands were recorded while the jobs ran. They are executed only if all jobs have succeeded. Then a gate is opened, so a thread that
waits for the commands need not wait until another thread has entered the interpreter.
"""

from __future__ import annotations

from .gate import opened
from .intrinsics import call3, load_i64, load_u8, store_i64
from .job_tables import JOINT
from .step import compiled, inlined
from .tables import WORD

at = JOINT.at
NOT_EXECUTED, EXECUTED, BROKEN = range(3)
"""States of a joint."""


@inlined
def succeeded(joint):
    """Whether all places that the jobs set after a failure are 0, and nothing stops the commands."""
    if load_i64(joint + at.stop) != 0:
        return False
    pair = load_i64(joint + at.zeros)
    for _ in range(load_i64(joint + at.checks)):
        begin = load_i64(pair)
        end = begin + load_i64(pair + WORD)
        while begin < end:
            if load_u8(begin) != 0:
                return False
            begin += 1
        pair += 2 * WORD
    return True


@inlined
def ended(joint):
    """All jobs have ended: execute the commands and open the gate."""
    perform = load_i64(joint + at.perform)
    if perform == 0:
        return
    begin = end = 0
    if succeeded(joint):
        result = call3(perform, load_i64(joint + at.driver), load_i64(joint + at.begin), load_i64(joint + at.end))
        store_i64(joint + at.result, result)
        store_i64(joint + at.state, EXECUTED if result == 0 else BROKEN)
        if result == 0:
            begin, end = load_i64(joint + at.waits), load_i64(joint + at.waits_end)
    opened(load_i64(joint + at.gate), begin, end)


@compiled(1)
def end_here(joint):
    """The same on a thread that has left the joint last by itself."""
    ended(joint)
    return 0
