"""Whose the next iteration is: a call queues one and waits for it; if it is interrupted or cancelled, the next call finds that one.

So no batch is lost and the queue does not grow. Exceptions of the program's own (a source's, StopIteration) are another matter: they take
the iteration with them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .session import Session


@contextmanager
def claim(session: Session, launch: Callable[[], None]) -> Iterator[None]:
    """Queue one iteration (by `launch`) for the block, unless an interrupted or cancelled call has left one."""
    launched = session.producer.launched
    owed = session.owed > 0 and bool(session.in_flight)
    try:
        if owed:
            session.owed -= 1
        else:
            launch()
        yield
    except Exception:
        raise
    except BaseException:
        session.owed += owed or session.producer.launched > launched
        raise


@asynccontextmanager
async def claim_async(session: Session, launch: Callable[[], None]) -> AsyncIterator[None]:
    """As :func:`claim`; sources are asked on the pipeline's source thread."""
    if not session.producer.sources.pullers:
        with claim(session, launch):
            yield
        return
    if session.owed > 0 and session.in_flight:
        session.owed -= 1
    else:
        asked = session.source_thread.submit(launch)
        try:
            await asyncio.wrap_future(asked)
        except asyncio.CancelledError:
            session.owed += not asked.cancelled()  # it will be queued, for another call
            raise
    try:
        yield
    except Exception:
        raise
    except BaseException:
        session.owed += 1
        raise
