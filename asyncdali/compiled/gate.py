"""A gate at which one thread waits without the interpreter: until another thread opens the gate, and then until commands are executed.

A Python lock, followed by a wait for a GPU's event, takes the interpreter lock twice. Beside a thread that runs pure Python each time may
take a switch interval of 5 ms.
"""

from __future__ import annotations

from . import kinds
from .intrinsics import call3, load_i64, store_i64
from .job_tables import GATE
from .step import compiled

gate_at = GATE.at
_mutex, _wake, _attribute, _deadline = gate_at.mutex_0, gate_at.wake_0, gate_at.attribute, gate_at.deadline_0
_MONOTONIC = 1
LATE, DONE, FAILED = range(3)
"""Results of :func:`pass_gate`."""
_lock = kinds.ExternalFunction("pthread_mutex_lock", kinds.int32(kinds.int64))
_unlock = kinds.ExternalFunction("pthread_mutex_unlock", kinds.int32(kinds.int64))
_signal = kinds.ExternalFunction("pthread_cond_signal", kinds.int32(kinds.int64))
_wait_until = kinds.ExternalFunction("pthread_cond_timedwait", kinds.int32(kinds.int64, kinds.int64, kinds.int64))
_attribute_make = kinds.ExternalFunction("pthread_condattr_init", kinds.int32(kinds.int64))
_attribute_clock = kinds.ExternalFunction("pthread_condattr_setclock", kinds.int32(kinds.int64, kinds.int32))
_condition_make = kinds.ExternalFunction("pthread_cond_init", kinds.int32(kinds.int64, kinds.int64))


@compiled(1, brief=True)
def make(gate):
    """Prepare a gate of zeros. Its deadlines are times of the monotonic clock."""
    _attribute_make(gate + _attribute)
    _attribute_clock(gate + _attribute, _MONOTONIC)
    _condition_make(gate + _wake, gate + _attribute)
    return 0


@compiled(3, brief=True)
def open_gate(gate, begin, end):
    """Open the gate. The waiting thread then executes the commands from `begin` to `end`."""
    _lock(gate + _mutex)
    store_i64(gate + gate_at.begin, begin)
    store_i64(gate + gate_at.end, end)
    store_i64(gate + gate_at.open, 1)
    _signal(gate + _wake)
    _unlock(gate + _mutex)
    return 0


@compiled(3)
def pass_gate(gate, perform, driver):
    """Wait until the gate is open, then call ``perform(driver, begin, end)``. Returns :data:`DONE` if that gave 0, else :data:`FAILED`;
    :data:`LATE` at the gate's deadline."""
    _lock(gate + _mutex)
    while load_i64(gate + gate_at.open) == 0:
        if _wait_until(gate + _wake, gate + _mutex, gate + _deadline) != 0 and load_i64(gate + gate_at.open) == 0:
            _unlock(gate + _mutex)
            return LATE
    _unlock(gate + _mutex)
    failed = call3(perform, driver, load_i64(gate + gate_at.begin), load_i64(gate + gate_at.end))
    return FAILED if failed else DONE
