"""The link from an iteration's outputs to their provenance. It keeps no pipeline alive."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..runtime.order.moments import Moment
    from ..runtime.session import Session
    from .report import Provenance


class Explanations:
    """Makes the provenance of moments of a session, while the session is there."""

    def __init__(self, session: Session):
        self._session = weakref.ref(session)

    def __call__(self) -> Callable[[Moment], object] | None:
        """The function that makes the provenance of a moment; None: the session is gone."""
        session = self._session()
        return None if session is None else functools.partial(_explained, session)


def _explained(session: Session, moment: Moment) -> Provenance:
    from .report import provenance_of

    return provenance_of(session, moment)
