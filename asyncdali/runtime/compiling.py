"""A second process that compiles kernels, while a pipeline is built with an empty cache.

Compiling takes seconds and one processor, because the compiler is a Python program. The second process makes the plan's operators from
the last to the first, this process from the first to the last. Both keep compiled kernels in the cache on disk and look there before
they compile. If the second process fails, this process compiles what is missing.

If this process dies, the kernel (parent-death signal) ends the second process. During a compilation of several seconds the second
process would not notice a closed pipe.

``ASYNCDALI_COMPILE_AHEAD=0`` turns the second process off.
"""

from __future__ import annotations

import contextlib
import enum
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from asyncdali_workers.interrupts import uninterrupted

from .._processes import python_command
from ..compiled.later import DIE_WITH_PARENT, leave_out
from ..graph.plan import PlannedOperator
from ..operators.base import Environment, Operator, Spec

_PROGRAM = f"""
{DIE_WITH_PARENT}
from asyncdali.runtime import compiling
compiling.serve(sys.stdin.buffer)
"""
_FIRST_MISSES = 2  # start the process at the second missing kernel: one kernel is not worth a process
_PIPE = 60_000  # bytes that a pipe takes before its reader runs


@contextlib.contextmanager
def compiling_ahead(operators: Sequence[PlannedOperator]) -> Iterator[None]:
    """While the block runs, a second process helps as soon as kernels are missing in the cache."""
    helper = Helper(operators)
    if not helper.wanted:
        yield
        return
    from ..compiled.cache import missed

    try:
        missed.append(helper.miss)
        yield
    finally:
        with uninterrupted():
            while helper.miss in missed:
                missed.remove(helper.miss)
            helper.close()


class Helper:
    """The second process. The second missing kernel starts it."""

    def __init__(self, operators: Sequence[PlannedOperator]):
        self._operators = operators
        self._misses = 0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def wanted(self) -> bool:
        """Whether there is work and a processor for a second process."""
        switched_on = os.environ.get("ASYNCDALI_COMPILE_AHEAD", "1") != "0"
        return switched_on and len(self._operators) > 1 and len(os.sched_getaffinity(0)) > 1 and not getattr(sys, "frozen", False)

    def miss(self) -> None:
        """A kernel is not in the cache."""
        self._misses += 1
        if self._misses == _FIRST_MISSES:
            with contextlib.suppress(OSError), uninterrupted():  # compile here if no process can be started
                self._start()

    def _start(self) -> None:
        from ..compiled.cache import for_child

        process = self._process = subprocess.Popen(
            python_command(_PROGRAM, str(os.getpid())),
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=for_child(),
        )  # fmt: skip
        assert process.stdin is not None
        process.stdin.write(described(self._operators))
        process.stdin.flush()

    def close(self) -> None:
        """Everything is compiled: end the process, whatever it is doing."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        with contextlib.suppress(OSError):
            process.stdin.close()  # type: ignore[union-attr]
        with uninterrupted():  # otherwise no thread waits for the process
            threading.Thread(target=process.wait, name="asyncdali-compiling", daemon=True).start()


# --- input of the other process


def described(operators: Sequence[PlannedOperator]) -> bytes:
    """Operators from last to first, without duplicates and without their places in the graph, as many as fit into a pipe."""
    found: dict[bytes, None] = {}
    size = 0
    for planned in reversed(operators):
        if not _may_be_made_elsewhere(planned):
            continue
        spec = planned.spec
        text = pickle.dumps((planned.kind, spec.device, spec.constants, spec.argument_inputs, spec.input_count, spec.output_count))
        size += 0 if text in found else len(text)
        if size > _PIPE:
            break
        found[text] = None
    return b"".join(found)


def _may_be_made_elsewhere(planned: PlannedOperator) -> bool:
    return planned.kind.only_compiles and all(map(_plain, planned.spec.constants.values()))


def _plain(value: Any) -> bool:
    """Whether a value contains no object of the user's: another process unpickles it."""
    if isinstance(value, (list, tuple)):
        return all(map(_plain, value))
    if isinstance(value, enum.Enum):
        return type(value).__module__.startswith("asyncdali.")
    return value is None or type(value) in (bool, int, float, str)


def serve(descriptions: Any) -> None:
    """Main function of the other process: make operators, to compile their kernels, until none is left or the process is killed."""
    leave_out()
    environment = Environment(1, 1, None, False, lambda size: np.empty(size, np.uint8))
    while True:
        try:
            kind, *rest = pickle.load(descriptions)  # from our own process
        except EOFError:
            return
        with contextlib.suppress(Exception):  # the process that builds the pipeline reports the error
            _make(kind, environment, *rest)


def _make(
    kind: type[Operator], environment: Environment, device: str, constants: dict[str, Any], argument_inputs: tuple[str, ...],
    input_count: int, output_count: int,
) -> None:  # fmt: skip
    spec = Spec(kind.schema, "compiled", device, constants, argument_inputs, input_count, output_count, seed=0)
    kind(spec, environment).infer([None] * input_count)
