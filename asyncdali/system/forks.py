"""The id of this process, for objects that a forked child must leave alone.

Every buffer and every lease of a batch asks twice. ``os.getpid()`` is a system call: it took 3 % of the interpreter time of a GPU pipeline.
"""

from __future__ import annotations

import os

pid = os.getpid()


def _after_fork() -> None:
    global pid
    pid = os.getpid()


os.register_at_fork(after_in_child=_after_fork)
