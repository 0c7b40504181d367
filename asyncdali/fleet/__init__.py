"""One global order for many ranks: each rank makes its samples of every batch (docs/engines.md).

``batch_size`` of the pipeline is the global batch. Rank r gets a fixed slice of it. The batches of all ranks, concatenated, are the batches
of the pipeline alone, for any number of ranks. A checkpoint is the same on every rank.

Engines may be on other machines (docs/fleet.md). The engine's side is ``actor``. The trainer's side is ``remote`` (requests) with
``connections`` and ``places``. Between them: ``proof`` (the token), ``link`` (frames), ``messages`` (checks), ``near`` (shared memory),
``addresses``. ``metrics`` is for Prometheus.

The path of a request::

    rank of a training                                      machine with engines

    ranks.py      which samples of the order
    remote.py     which actor --- link.py, messages.py ---> actor.py ---> engines/child/maker.py
    remote.py     <------------ batches, in payloads ------ actor.py
    patience.py   no answer in time: a second actor gets the same request

    actor.py        An actor: a process that makes iterations for trainers on any machine
    addresses.py    Addresses of actors
    connections.py  The actors of one loader: connections, and what happens when one is lost
    epochs.py       Ends of epochs under a last-batch policy, counted in global batches
    inflow.py       Bytes that arrive on a socket
    link.py         Frames on a stream socket: a header (JSON), a body (small contents), and payloads (large contents, each received into
                    its own memory)
    messages.py     Messages of a connection, which are read whole before anything changes
    metrics.py      Counters as text for Prometheus
    near.py         Engines on the trainer's own machine: large contents stay in shared memory, and only their descriptors travel
    patience.py     The time that a trainer waits for an actor before it also sends the request to a second actor
    places.py       State that a trainer keeps of an actor and of a requested iteration
    proof.py        The proof that both ends of a connection know the fleet's token
    ranks.py        The loader of one rank, in its own process
    remote.py       The trainer's side of actors: requests, answers, and what happens when an actor is slow
    scaling.py      The number of engines that trainers need

May import ``pipeline``, ``engines``, ``runtime``, ``graph.plan``, ``device.buffers``, ``batch``, ``types`` and ``errors``. Only tools
and adapters import this room.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..system.first_use import first_use

if TYPE_CHECKING:
    from ..plugin.epochs import LastBatchPolicy as LastBatchPolicy
    from .actor import Actor as Actor
    from .proof import read_token as read_token
    from .ranks import RankLoader as RankLoader
    from .ranks import loader as loader

_NAMES = {
    "Actor": ".actor", "LastBatchPolicy": "..plugin.epochs", "RankLoader": ".ranks", "loader": ".ranks", "read_token": ".proof",
}  # fmt: skip
"""Imported at their first use. Ray's manager takes `scaling` only, and starts sooner without the others."""

__all__ = [*_NAMES]  # noqa: PLE0604
__getattr__, __dir__ = first_use(__name__, _NAMES)
