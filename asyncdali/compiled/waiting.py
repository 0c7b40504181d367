"""When a kernel that is not in the cache is compiled, and by which process.

The problem. A first build needs tens of kernels, and each takes up to 10 s of a processor. Several processes of one machine often start
together and need the same kernels. A process may be killed while it compiles.

What does not work:

- Every process compiles what it needs: eight ranks compile everything eight times.
- One process compiles and the others wait for a message: if that process dies, they wait forever.
- A file that says "being compiled": it stays behind when the process is killed.
- Compiling in the background, with a slower substitute meanwhile: on a busy machine the kernel never arrived, and nothing said so.

The solution. The right to compile a kernel is a lock on a file beside the kernels (:class:`~.kernel_store.Claim`). The kernel drops the
lock when the process ends, so a killed process leaves no claim. By default a thread compiles a kernel when it needs the kernel
(:data:`CompilePolicy.NOW`), or waits for the process that has the claim; after :data:`_LONGEST_S` seconds it compiles the kernel without a
claim. ``build()`` first collects all kernels that are missing (:data:`CompilePolicy.COLLECT`). Then it shares them with helpers, which make
the same operators and never wait for each other (:data:`CompilePolicy.SHARE`): a kernel that another process has claimed is left out, and
loaded later.
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


class CompilePolicy(enum.Enum):
    """The treatment of a kernel that is not in the cache."""

    NOW = "compile it, or wait for the process that compiles it"
    COLLECT = "do not compile it yet"
    SHARE = "compile it, unless another process does"
    LIST = "do not compile it; its address is 0, for operators that are made only to see what they need"


class NotCompiled(Exception):
    """A kernel is not compiled here, because of the thread's policy."""


_of_thread = threading.local()


def policy() -> CompilePolicy:
    """The policy of this thread."""
    chosen: CompilePolicy = getattr(_of_thread, "policy", CompilePolicy.NOW)
    return chosen


@contextlib.contextmanager
def using(chosen: CompilePolicy) -> Iterator[None]:
    """In the block, this thread uses the policy."""
    before = policy()
    _of_thread.policy = chosen
    try:
        yield
    finally:
        _of_thread.policy = before


def needed() -> contextlib.AbstractContextManager[None]:
    """In the block, a kernel is needed immediately: collected kernels are compiled."""
    return using(CompilePolicy.NOW) if policy() is CompilePolicy.COLLECT else contextlib.nullcontext()


def claim(attempt: Callable[[], Claim | None]) -> Claim | None:
    """Claim a kernel with `attempt`. None: compile without a claim, because the process that has it takes too long.

    NotCompiled for other policies than NOW: the kernel is to be collected, or another process has the claim.
    """
    chosen = policy()
    if chosen in (CompilePolicy.COLLECT, CompilePolicy.LIST):
        raise NotCompiled
    found = attempt()
    if found is None and chosen is CompilePolicy.SHARE:
        raise NotCompiled
    limit = time.monotonic() + _LONGEST_S
    while found is None and time.monotonic() < limit:
        time.sleep(_POLL_S)
        found = attempt()
    return found
