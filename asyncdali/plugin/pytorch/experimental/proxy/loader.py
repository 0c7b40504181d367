"""A torch DataLoader whose batches hold a pipeline's outputs."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

import torch.utils.data

from .references import Collate
from .server import DALIServer


class DataLoader(torch.utils.data.DataLoader):
    """As torch's, with the outputs of the server's pipeline where the data set called its proxy; see the package.

    A batch is fetched while the one before it is used, so that the pipeline works meanwhile. Arguments after `dali_server` are torch's;
    a `collate_fn` sees a reference per output and sample, and must leave those of an output together in a list.
    """

    def __init__(self, dali_server: DALIServer, *args: Any, **kwargs: Any):
        if not isinstance(dali_server, DALIServer):
            raise TypeError(f"the first argument is a DALIServer, got {type(dali_server).__name__}")
        if kwargs.get("pin_memory"):
            raise ValueError("pin_memory does nothing here: the outputs are the pipeline's memory")
        kwargs["collate_fn"] = Collate(kwargs.get("collate_fn"))
        super().__init__(*args, **kwargs)
        self._server = dali_server

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]
        return self._produced(super().__iter__())

    def _produced(self, batches: Iterator[Any]) -> Iterator[Any]:
        waiting: deque[Any] = deque()
        ahead = max(1, self._server.pipeline._options.depth - 1)
        ended = False
        try:
            while True:
                while not ended and len(waiting) <= ahead:
                    try:
                        batch = next(batches)
                    except StopIteration:
                        ended = True
                        break
                    self._server.request(batch)
                    waiting.append(batch)
                if not waiting:
                    return
                yield self._server.produce_data(waiting.popleft())
        finally:  # the loop may have been left: what else its workers make is not wanted
            workers = [] if self.persistent_workers else [worker.pid for worker in getattr(batches, "_workers", [])]
            self._server.forget(list(waiting), workers)
