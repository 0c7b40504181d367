"""Runs kernels on the host: the same ``.cu`` files, compiled by the system's C++ compiler, over the same launches."""

from __future__ import annotations

import numpy as np

from asyncdali.extending.testing import COMPILER as COMPILER
from asyncdali.extending.testing import GUARD as GUARD
from asyncdali.extending.testing import host_kernel as host_kernel
from asyncdali.extending.testing import resolve as resolve
from asyncdali.extending.testing import run_launches as run_launches


def overrun() -> None:
    """Let a kernel write behind its memory, which a sanitizer must report."""
    from asyncdali.operators.moves.copy_kernels import make_copy_step

    source, target = np.zeros(5000, np.uint8), np.zeros(4999, np.uint8)
    addresses = [np.array([memory.ctypes.data], np.int64) for memory in (source, target)]
    step = make_copy_step(*addresses, np.array([5000], np.int64))
    assert step.launches is not None
    run_launches(step.launches())
