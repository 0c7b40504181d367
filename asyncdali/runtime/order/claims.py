"""Which caller receives the next iteration.

A call queues the iterations that are missing for the calls that wait (:meth:`Producer.fill`), and takes the oldest iteration. A call that
is interrupted or cancelled takes nothing. Its iteration stays in the queue, so the next call finds the queue long enough, and queues
nothing. No call records what an earlier call left: the length of the queue tells.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from asyncdali_workers.interrupts import uninterrupted

if TYPE_CHECKING:
    from ..session import Session


def take_next(session: Session, launch: Callable[[Session], None], stream: Any, then: Callable[[Any], Any] | None = None) -> Any:
    """Queue what is missing (by `launch`), and return the outputs of the oldest iteration, or what `then` makes of them.

    Callers return its result at once: an exception of a signal's handler behind any other step would lose the iteration.
    """
    calls, caller = session.producer.calls, threading.get_ident()
    try:
        calls.add(caller)
        launch(session)
        return session.delivery.fetch(stream, caller, then)
    except BaseException:
        calls.discard(caller)  # if this is interrupted, too, the thread's next call is the same caller
        raise


def _launched_elsewhere(session: Session, launch: Callable[[Session], None]) -> None:
    launch(session)
    session.producer.wait_without_frames()


class IterationClaim:
    """A coroutine that waits for an iteration, from :meth:`join` to :meth:`leave`, which may both be repeated after an interrupt.

    Meanwhile an iteration is queued that no other call takes.
    """

    def __init__(self, session: Session):
        self._session = session
        self._calls: set[Any] = session.producer.calls

    def join(self) -> None:
        """The coroutine waits."""
        self._calls.add(self)

    def leave(self) -> None:
        """The coroutine does not wait any more."""
        self._calls.discard(self)

    async def queue(self, launch: Callable[[Session], None]) -> None:
        """Queue what is missing (by `launch`). Sources are asked on the pipeline's source thread."""
        session = self._session
        if not session.producer.sources.pullers:
            launch(session)
            return
        with uninterrupted():  # an exception in the middle of `Condition.__enter__` leaves the future's lock held, and its thread waits
            asked = session.source_thread.submit(partial(_launched_elsewhere, session, launch))
            done = asyncio.wrap_future(asked)
        try:
            await done
        except (asyncio.CancelledError, GeneratorExit):
            with uninterrupted():
                asked.cancel()  # if it was begun, the next call takes the iteration
            raise
        finally:
            del asked, done  # the futures keep their error, whose traceback holds this frame
