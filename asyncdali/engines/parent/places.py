"""Facts about each request in flight, and about each engine of this machine."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .ordered import NOTHING, Asked
from .search import Search
from .sources import Call

if TYPE_CHECKING:
    from .engine_process import EngineProcess

WINDOW = 2
"""Iterations in flight per engine: an engine plans the second while its threads work on the first."""

WINDOW_OF_GPU = 3
"""The same if the batches are for a GPU: beside a thread that runs pure Python, an answer may be received 5 ms later, and the next request
is sent then. On an H100 the training pipeline kept 0.92 to 0.98 of its rate beside such a thread with two, and 0.95 to 1.00 with three."""


class Request(Asked):
    """An iteration requested from engines of this machine."""

    blocks: Mapping[int, int] = NOTHING  # blocks of this process that the request refers to
    keep: Sequence[Any] = ()  # objects that keep these blocks in use
    engine: EngineProcess | None = None
    home: EnginePlace | None = None  # the engine that has the batches of its sources
    sent = 0.0
    deaths = 0
    died = "", "", 0, -1  # the last death: its reason, what the engine did, operator number, sample
    search: Search | None = None  # the search for the sample at which engines die
    spared = False  # a search has found no sample
    repeats = 0  # how often the whole iteration was repeated since then, after another death


class EnginePlace:
    """One of the engines. The object stays when the process is replaced."""

    def __init__(self, engine: EngineProcess):
        self.engine = engine
        self.outstanding: OrderedDict[tuple[int, int], Request] = OrderedDict()
        self.calls: OrderedDict[int, Call] = OrderedDict()  # calls of sources that are not answered, by token
        self.alone = False  # whether this engine makes an iteration at which an earlier engine died
        self.heard = 0.0  # time of the last answer
        self.starts = 0  # consecutive replacements that ended before they were ready
        self.asked = self.answered = self.restarts = self.busy = self.bytes = 0
