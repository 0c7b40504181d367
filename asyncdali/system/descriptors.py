"""Checks for free file descriptors, before operations that fail badly without them."""

from __future__ import annotations

import errno
import resource
import select

from asyncdali_workers.shared.calls import PIPELINES, needed

LOOP_DESCRIPTORS = 16
"""Descriptors for an event loop. uvloop takes 7 for the first loop of a process (5 for the loop, 2 for signals) and aborts the process if
one is missing; asyncio takes 3. The rest is for libraries that are loaded at the same time."""


def require_descriptors(count: int, failure: str) -> None:
    """Raise RuntimeError, beginning with `failure`, if fewer than `count` file descriptors can be opened."""
    # epoll objects close themselves. A bare descriptor would leak if Ctrl-C came between opening it and storing its number.
    opened: list[select.epoll] = []
    try:
        while len(opened) < count:
            opened.append(select.epoll())
    except OSError as error:
        if error.errno not in (errno.EMFILE, errno.ENFILE):
            with needed("epoll_create1", PIPELINES):
                raise
        own = f"this process may open {resource.getrlimit(resource.RLIMIT_NOFILE)[0]} files"
        limit = own if error.errno == errno.EMFILE else "the limit of the whole system, fs.file-max, is reached"
        raise RuntimeError(
            f"{failure}: {len(opened)} file descriptors are free, at least {count} are needed ({limit}). "
            "Close files, or raise the limit: `ulimit -n`, LimitNOFILE= of a service, or resource.setrlimit."
        ) from error
    finally:
        opened.clear()
