"""Which caller receives the next iteration.

A call queues the iterations that are missing for the calls that wait (:meth:`Producer.fill`), and takes the oldest iteration. A call that
is interrupted or cancelled takes nothing. Its iteration stays in the queue, so the next call finds the queue long enough, and queues
nothing. No call records what an earlier call left: the length of the queue tells.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .session import Session


def take_next(session: Session, launch: Callable[[Session], None], stream: Any, then: Callable[[Any], Any] | None = None) -> Any:
    """Queue what is missing (by `launch`), and return the outputs of the oldest iteration, or what `then` makes of them."""
    calls, caller = session.producer.calls, threading.get_ident()
    try:
        calls.add(caller)
        launch(session)
        return session.fetch(stream, caller, then)
    except BaseException:
        calls.discard(caller)  # if this is interrupted, too, the thread's next call is the same caller
        raise


def _launched_elsewhere(session: Session, launch: Callable[[Session], None]) -> None:
    launch(session)
    session.producer.wait_without_frames()


class IterationClaim:
    """A coroutine that waits for an iteration."""

    def __init__(self, session: Session):
        self._calls: set[Any] = session.producer.calls
        self._calls.add(self)

    def leave(self) -> None:
        """The coroutine does not wait any more. Idempotent."""
        self._calls.discard(self)


@asynccontextmanager
async def claim(session: Session, launch: Callable[[Session], None]) -> AsyncIterator[IterationClaim]:
    """While the block runs, an iteration is queued that no other call takes. Sources are asked on the pipeline's source thread."""
    claimed = IterationClaim(session)
    try:
        if session.producer.sources.pullers:
            asked = session.source_thread.submit(partial(_launched_elsewhere, session, launch))
            try:
                await asyncio.wrap_future(asked)
            except (asyncio.CancelledError, GeneratorExit):
                asked.cancel()  # if it was begun, the next call takes the iteration
                raise
            finally:
                del asked  # the future keeps its error, whose traceback holds this frame
        else:
            launch(session)
        yield claimed
    finally:
        claimed.leave()
