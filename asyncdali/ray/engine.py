"""One engine, as a Ray actor."""

from __future__ import annotations

import os
import pickle
import time
from typing import Any

import ray

from ..fleet import Actor
from ..fleet.addresses import Address

LEAVING = 30.0
"""Seconds that a retired engine waits for its trainers to disconnect."""


class Engine:
    """Makes iterations for the trainers that know the token. Ray calls its methods on threads of their own.

    Args:
        program: the pickled (train, options). It comes through Ray, like the code of this class.
        token: the fleet's secret.
    """

    def __init__(self, program: bytes, token: bytes):
        train, options = pickle.loads(program)
        listen = Address(ray.util.get_node_ip_address(), 0)
        self._actor = Actor(train, listen=str(listen), token=token, **options)

    def about(self) -> dict[str, Any]:
        """Where this engine is. The call returns when the engine is ready."""
        return {"address": self._actor.address, "pid": os.getpid(), "node": ray.get_runtime_context().get_node_id()}

    def wait(self) -> None:
        """Return when the engine has been retired. Ray fails the call when the engine ends in another way."""
        self._actor.wait()

    def statistics(self) -> dict[str, Any]:
        """See :meth:`asyncdali.fleet.Actor.statistics`."""
        return self._actor.statistics()

    def retire(self) -> None:
        """Stop when all trainers have disconnected. They disconnect when their requests are answered."""
        ends = time.monotonic() + LEAVING
        while self._actor.statistics()["connections"] and time.monotonic() < ends:
            time.sleep(0.1)
        self._actor.close()
