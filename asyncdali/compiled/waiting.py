"""When a kernel that is not in the cache is compiled, and by which process.

By default a thread compiles a kernel when it needs the kernel. If another process is compiling the same kernel, the thread waits for it.
``build()`` first collects all kernels that are missing (:data:`Policy.COLLECT`) and then shares them with helpers, which never wait for
each other (:data:`Policy.SHARE`).
"""

from __future__ import annotations

import contextlib
import enum
import threading
import time
from collections.abc import Callable, Iterator

from .kernel_store import Claim

_LONGEST_S = 120.0
"""After this time the kernel is compiled here, too. The slowest kernel takes about 10 s of a processor."""
_POLL_S = 0.02


class Policy(enum.Enum):
    """The treatment of a kernel that is not in the cache."""

    NOW = "compile it, or wait for the process that compiles it"
    COLLECT = "do not compile it yet"
    SHARE = "compile it, unless another process does"


class NotCompiled(Exception):
    """A kernel is not compiled here, because of the thread's policy."""


_of_thread = threading.local()


def policy() -> Policy:
    """The policy of this thread."""
    chosen: Policy = getattr(_of_thread, "policy", Policy.NOW)
    return chosen


@contextlib.contextmanager
def using(chosen: Policy) -> Iterator[None]:
    """In the block, this thread uses the policy."""
    before = policy()
    _of_thread.policy = chosen
    try:
        yield
    finally:
        _of_thread.policy = before


def needed() -> contextlib.AbstractContextManager[None]:
    """In the block, a kernel is needed immediately: collected kernels are compiled."""
    return using(Policy.NOW) if policy() is Policy.COLLECT else contextlib.nullcontext()


def claim(attempt: Callable[[], Claim | None]) -> Claim | None:
    """Claim a kernel with `attempt`. None: compile without a claim, because the process that has it takes too long.

    NotCompiled for other policies than NOW: the kernel is to be collected, or another process has the claim.
    """
    chosen = policy()
    if chosen is Policy.COLLECT:
        raise NotCompiled
    found = attempt()
    if found is None and chosen is Policy.SHARE:
        raise NotCompiled
    limit = time.monotonic() + _LONGEST_S
    while found is None and time.monotonic() < limit:
        time.sleep(_POLL_S)
        found = attempt()
    return found
