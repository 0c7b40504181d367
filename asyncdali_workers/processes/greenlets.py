"""Refuses modules that gevent or eventlet have replaced.

Their threads are greenlets of one thread. A thread of a pipeline waits in compiled code, so the whole program would wait forever. Their
queues are not made for real threads, their `select` has no epoll, and their sockets and processes belong to one event loop.
"""

from __future__ import annotations

import _thread
import sys
import types

ALWAYS = ("thread", "queue", "select", "subprocess")
"""Modules that every pipeline needs as they are."""
FOR_PROCESSES = ("os", "socket")
"""Modules that worker processes and engines need, too."""


def refuse_greenlets(processes: bool) -> None:
    """RuntimeError if modules are replaced that a pipeline needs. `processes`: it has worker processes or engines."""
    wanted = ALWAYS + (FOR_PROCESSES if processes else ())
    library, found = "gevent", []
    monkey, patcher = sys.modules.get("gevent.monkey"), sys.modules.get("eventlet.patcher")
    if monkey is not None:
        found = [name for name in wanted if monkey.is_module_patched("_thread" if name == "thread" else name)]
    if not found and patcher is not None:
        library, found = "eventlet", [name for name in wanted if patcher.is_monkey_patched(name)]
    if not found and not isinstance(_thread.start_new_thread, types.BuiltinFunctionType):
        library, found = "another library", ["thread"]
    if not found:
        return
    switches = ", ".join(f"{name}=False" for name in wanted if library == "gevent" or name not in ("queue", "subprocess"))
    advice = {
        "gevent": f"Call gevent.monkey.patch_all({switches})", "eventlet": f"Call eventlet.monkey_patch({switches})",
    }.get(library, "Do not replace it")  # fmt: skip
    what = "worker processes or engines" if processes else "threads in compiled code"
    raise RuntimeError(
        f"{library} has replaced {', '.join(found)}, and a pipeline with {what} would wait forever. {advice}, or use the pipeline in a "
        "process of its own"
    )
