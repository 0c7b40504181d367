"""Which caller receives the next iteration.

A call queues one iteration and waits for it. If the call is interrupted or cancelled, the next call takes that iteration, so no batch is
lost and the queue does not grow. An exception of the program itself (of a source, or StopIteration) consumes its iteration.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from .._deadlocks import Deadlock

if TYPE_CHECKING:
    from ..tensors import TensorListCPU, TensorListGPU
    from .session import Session


def take_next(session: Session, launch: Callable[[Session], None], stream: Any) -> tuple[TensorListCPU | TensorListGPU, ...]:
    """Queue one iteration (by `launch`), unless an interrupted or cancelled call has left one, and return the outputs of the oldest.

    No interrupt can come between the last instruction of ``session.fetch`` and the return.
    """
    launched, waiting, debts = session.producer.launched, len(session.in_flight), session.owed
    owed = debts > 0 and waiting > 0
    try:
        if owed:
            session.owed = debts - 1
        else:
            launch(session)
        return session.fetch(stream)
    except BaseException as error:
        given_up = isinstance(error, Deadlock) and error.ident == threading.get_ident()
        if isinstance(error, Exception) and not given_up:  # an exception of the program consumes the iteration
            raise
        queued = session.producer.launched - launched
        returned = len(session.in_flight) < waiting + queued  # the iteration has failed with an exception of its own
        session.owed = debts - owed + (not returned and (owed or queued > 0))
        raise


def _launched_elsewhere(session: Session, launch: Callable[[Session], None]) -> None:
    launch(session)
    session.producer.wait_without_frames()


class Claim:
    """An iteration that was queued for one caller."""

    def __init__(self, session: Session):
        self._session: Session | None = session

    def leave(self) -> None:
        """The next call takes the iteration."""
        session, self._session = self._session, None
        if session is not None:
            session.owed += 1


@asynccontextmanager
async def claim(session: Session, launch: Callable[[Session], None]) -> AsyncIterator[Claim]:
    """While the block runs, an iteration is queued that no other call takes. Sources are asked on the pipeline's source thread."""
    claimed = Claim(session)
    if session.owed > 0 and session.in_flight:
        session.owed -= 1
    elif session.producer.sources.pullers:
        asked = session.source_thread.submit(partial(_launched_elsewhere, session, launch))
        try:
            await asyncio.wrap_future(asked)
        except (asyncio.CancelledError, GeneratorExit):
            if not asked.cancel():  # it was begun
                claimed.leave()
            raise
        finally:
            del asked  # the future keeps its error, whose traceback holds this frame
    else:
        launch(session)
    try:
        yield claimed
    except Exception:  # an exception of the program consumes the iteration
        raise
    except BaseException:
        claimed.leave()
        raise
