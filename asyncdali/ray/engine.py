"""One engine, as a Ray actor."""

from __future__ import annotations

import gc
import os
import pickle
import time
from typing import Any

import ray

from .prepare import prepare

LEAVING = 30.0
"""Seconds that a retired engine waits for its trainers to disconnect."""


class EngineActor:
    """Makes iterations for the trainers that know the token. Ray calls its methods on threads of their own.

    An engine starts before its program is known, and imports what every program needs (0.5 s of processor time).
    """

    def __init__(self, token: bytes):
        self._token = token
        self._actor: Any = None
        prepare()

    def load(self, program: bytes) -> dict[str, Any]:
        """Build the pickled (train, options), which comes through Ray like the code of this class. Returns where this engine is."""
        from ..fleet import Actor
        from ..fleet.addresses import Address

        train, options = pickle.loads(program)
        listen = Address(ray.util.get_node_ip_address(), 0)
        self._actor = Actor(train, listen=str(listen), token=self._token, **options)
        gc.freeze()  # as `asyncdali engine` does
        return {"address": self._actor.address, "pid": os.getpid(), "node": ray.get_runtime_context().get_node_id()}

    def wait(self) -> None:
        """Return when the engine has been retired. Ray fails the call when the engine ends in another way."""
        self._actor.wait()

    def statistics(self) -> dict[str, Any]:
        """See :meth:`asyncdali.fleet.Actor.statistics`."""
        statistics: dict[str, Any] = self._actor.statistics()
        return statistics

    def retire(self) -> None:
        """Stop when all trainers have disconnected. They disconnect when their requests are answered."""
        ends = time.monotonic() + LEAVING
        while self._actor.statistics()["connections"] and time.monotonic() < ends:
            time.sleep(0.1)
        self._actor.close()
