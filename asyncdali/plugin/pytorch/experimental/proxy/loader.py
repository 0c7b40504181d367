"""A torch DataLoader whose batches hold a pipeline's outputs."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Iterator
from typing import Any

import torch
import torch.utils.data

from .....pipeline.front import core_of
from .references import Collate
from .server import DALIServer


class DataLoader(torch.utils.data.DataLoader):
    """Torch's DataLoader. Where the data set called the server's proxy, batches hold outputs of the server's pipeline; see the package.

    While a batch is used, the pipeline processes the following batches, up to the depth of its queue. Arguments after `dali_server` are
    torch's. A `collate_fn` gets one reference per output and sample. It must leave the references of an output together in a list, or call
    torch's `default_collate`.

    A server that is not running, because it is not in a `with` block, is started by the first batch. It is stopped with the loader.

    `pin_memory` pins the parts of the data set's items that are not the pipeline's outputs. Without a GPU it does nothing.

    Raises TypeError if `dali_server` is not a DALIServer, ValueError for loaders that make no batches (`batch_size=None`).
    """

    def __init__(self, dali_server: DALIServer, *args: Any, **kwargs: Any):
        if not isinstance(dali_server, DALIServer):
            raise TypeError(f"the first argument is a DALIServer, got {type(dali_server).__name__}")
        if kwargs.get("pin_memory") and not torch.cuda.is_available():
            kwargs["pin_memory"] = False  # torch would warn at every epoch
        kwargs["collate_fn"] = Collate(kwargs.get("collate_fn"))
        super().__init__(*args, **kwargs)
        if self.batch_sampler is None:
            raise ValueError("batch_size=None makes no batches, but the pipeline needs batches; give a number")
        self._server = dali_server

    @property
    def dali_server(self) -> DALIServer:
        """The server."""
        return self._server

    def ensure_server_listening(self) -> None:
        """Start the server unless it is running. A server that the loader started stops when the loader is released."""
        if not self._server.serves:
            weakref.finalize(self, self._server.start_for_loader()).atexit = False  # the pipeline closes itself at exit

    def __iter__(self) -> Iterator[Any]:
        return self._produced(super().__iter__())

    def _produced(self, batches: Iterator[object]) -> Iterator[object]:
        waiting: deque[Any] = deque()
        ahead = max(1, core_of(self._server.pipeline).options.depth - 1)
        ended = False
        try:
            while True:
                for _ in range(2):  # only two: the first batch of an epoch must not wait until the queue is full
                    if ended or len(waiting) > ahead:
                        break
                    try:
                        waiting.append(next(batches))
                    except StopIteration:
                        ended = True
                    else:
                        self.ensure_server_listening()
                        self._server.request(waiting[-1])
                if not waiting:
                    return
                self.ensure_server_listening()
                yield self._server.produce_data(waiting.popleft())
        finally:  # the consumer may have left the loop early
            self._server.forget(list(waiting))
