"""Whose the next iteration is: a call queues one and waits for it; if it is interrupted or cancelled, the next call finds that one.

So no batch is lost and the queue does not grow. Exceptions of the program's own (a source's, StopIteration) are another matter: they take
the iteration with them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..tensors import TensorListCPU, TensorListGPU
    from .session import Session


def take_next(session: Session, launch: Callable[[Session], None], stream: Any) -> tuple[TensorListCPU | TensorListGPU, ...]:
    """Queue one iteration (by `launch`), unless an interrupted or cancelled call has left one, and return the outputs of the oldest.

    There is nothing between the last instruction of ``session.fetch`` and the return at which an interrupt could come.
    """
    launched, waiting, debts = session.producer.launched, len(session.in_flight), session.owed
    owed = debts > 0 and waiting > 0
    try:
        if owed:
            session.owed = debts - 1
        else:
            launch(session)
        return session.fetch(stream)
    except Exception:  # the program's own: it takes the iteration with it
        raise
    except BaseException:
        queued = session.producer.launched - launched
        returned = len(session.in_flight) < waiting + queued  # the iteration has failed with such an exception of its own
        session.owed = debts - owed + (not returned and (owed or queued > 0))
        raise


def _launched_elsewhere(session: Session, launch: Callable[[Session], None]) -> None:
    launch(session)
    session.producer.wait_without_frames()


@asynccontextmanager
async def claim(session: Session, launch: Callable[[Session], None]) -> AsyncIterator[None]:
    """For the block, an iteration is queued that nobody else takes; sources are asked on the pipeline's source thread."""
    if session.owed > 0 and session.in_flight:
        session.owed -= 1
    elif session.producer.sources.pullers:
        asked = session.source_thread.submit(partial(_launched_elsewhere, session, launch))
        try:
            await asyncio.wrap_future(asked)
        except asyncio.CancelledError:
            session.owed += not asked.cancelled()  # it will be queued, for another call
            raise
        finally:
            del asked  # it keeps its error, whose traceback holds this frame
    else:
        launch(session)
    try:
        yield
    except Exception:  # the program's own: it takes the iteration with it
        raise
    except BaseException:
        session.owed += 1
        raise
