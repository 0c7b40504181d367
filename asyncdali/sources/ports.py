"""Inputs of a built pipeline: what each input accepts, and the queue of an input that the program feeds."""

from __future__ import annotations

import functools
import threading
from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np
from asyncdali_workers.interrupts import raised_by_signal
from asyncdali_workers.limits import TooLarge

from ..batch import Batch
from ..errors import operator_error
from ..operators.base import Spec
from ..tensors.data import Allocate, Converter
from ..types import DALIDataType
from .device_data import DeviceData

if TYPE_CHECKING:
    from ..device.cuda.fed_arrays import FedArrays
    from ..graph.plan import PlannedOperator


def _declared(spec: Spec, name: str) -> Any:
    """An argument of the input; None if it has no such argument."""
    return spec.constant(name) if name in spec.schema.by_name else None


class Port:
    """One external input.

    Every batch is compared with the declaration (`dtype`, `ndim`, `layout`) and with the batch before it: the type, number of dimensions
    and layout of an input never change.
    """

    stateful = False
    """Whether checkpoints keep its `position`."""
    position: Any = None

    def __init__(self, planned: PlannedOperator, batch_size: int, allocate: Allocate, arrays: FedArrays | None = None):
        constant = functools.partial(_declared, planned.spec)
        self.planned = planned  # for errors, which name the operator and the user's line
        self.name: str = planned.spec.name
        self.batch_size = batch_size
        self.dtype: DALIDataType | None = constant("dtype")
        self.ndim: int | None = constant("ndim")
        self.layout: str = constant("layout") or ""
        self.blocking = bool(constant("blocking"))
        self.repeat_last = bool(constant("repeat_last"))
        no_copy = bool(constant("no_copy"))
        self._host_data = Converter(allocate, self.dtype, no_copy)
        self._device_data = DeviceData(arrays, no_copy) if arrays is not None and planned.spec.device == "gpu" else None
        self._check_declaration()
        self._seen: tuple[DALIDataType, int, str] | None = None
        self._queue: deque[Batch | Exception] = deque()
        self._last: Batch | None = None
        self._lock = threading.Lock()

    def _check_declaration(self) -> None:
        if self.ndim is not None and self.ndim < 0:
            raise RuntimeError(f"`ndim` cannot be negative, got {self.ndim}")
        if self.ndim is not None and self.layout and len(self.layout) != self.ndim:
            raise RuntimeError(f"layout {self.layout!r} has {len(self.layout)} letters, but `ndim` is {self.ndim}")
        if self.layout:
            self.ndim = len(self.layout)

    # --- checks

    def take_in(self, batch: Batch, layout: str | None = None) -> Batch:
        """First check, before any memory is used: returns the number of samples and whether the layout fits the data. RuntimeError."""
        if len(batch.shapes) > self.batch_size:
            raise RuntimeError(
                f"The data fed to the external input {self.name!r} has {len(batch)} samples; "
                f"the batch size of the pipeline is {self.batch_size} at most"
            )
        layout = layout or self.layout  # an empty layout is no layout, so the declared one holds
        if layout:
            if batch.dtype is not DALIDataType.NO_TYPE and len(layout) != batch.shapes.shape[1]:
                raise RuntimeError(
                    f"The layout {layout!r} given for the external input {self.name!r} describes {len(layout)} dimensions, "
                    f"the samples have {batch.ndim}"
                )
            batch.layout = layout
        return batch

    def check(self, batch: Batch) -> None:
        """Second check: compares with the declaration and with earlier batches. The RuntimeError quotes both."""
        if batch.dtype is DALIDataType.NO_TYPE:  # an empty batch
            self._fill_in(batch)
            return
        seen = (batch.dtype, batch.shapes.shape[1], batch.layout)
        if seen == self._seen:
            return
        problem = self._problem(batch)
        if problem:
            raise RuntimeError(problem)
        self._seen = seen

    def _fill_in(self, batch: Batch) -> None:
        """An empty list of samples has no type or rank, so the known ones of the input are used."""
        dtype, ndim, layout = self._seen or (self.dtype, self.ndim, self.layout)
        if dtype is not None:
            batch.dtype = dtype
        if ndim is not None:
            batch.shapes = np.empty((0, ndim), np.int64)
            batch.layout = layout

    def _problem(self, batch: Batch) -> str:
        if self.dtype is not None and batch.dtype != self.dtype:
            return f"Expected data of type {self.dtype.name} and got {batch.dtype.name}."
        if self.ndim is not None and batch.ndim != self.ndim:
            return f"Expected data with {self.ndim} dimensions and got {batch.ndim} dimensions."
        if self.layout and batch.layout != self.layout:
            return f'Expected data with layout "{self.layout}" and got data with layout "{batch.layout}".'
        if self._seen is None:
            return ""
        dtype, ndim, layout = self._seen
        same = "An external input keeps its type, number of dimensions and layout: the batch before had"
        if batch.dtype != dtype:
            return f"{same} type {dtype.name}, this one has {batch.dtype.name}."
        if batch.ndim != ndim:
            return f"{same} {ndim} dimensions, this one has {batch.ndim}."
        if layout and batch.layout != layout:
            return f'{same} layout "{layout}", this one has "{batch.layout}".'
        return ""

    def converted(self, data: Any, whole: bool, stream: Any = None) -> Batch:
        """Data as a batch.

        `whole`: one object for a batch; otherwise a list of samples. `stream`: the stream on which GPU data is ready.
        """
        if self._device_data is not None:
            batch = self._device_data.batch(data, whole, stream)
            if batch is not None:
                return batch
        try:
            return self._host_data.batch(data) if whole else self._host_data.samples(data)
        except TooLarge as error:
            raise TooLarge(f"the data of the external input {self.name!r} are too large: {error}", error.sample) from None

    # --- fed inputs

    def feed(self, data: object, layout: str | None, stream: object = None) -> None:
        """Queue a batch. Data that is no batch is refused now (OperatorError). Data that does not fit the input fails its iteration."""
        self.queue(self.accepted(data, layout, stream))

    def accepted(self, data: object, layout: str | None, stream: object = None) -> Batch:
        """Data that a program feeds, as a batch for :meth:`queue`. OperatorError for data that is not a batch."""
        try:
            return self.take_in(self.converted(data, True, stream), layout)
        except Exception as error:
            if raised_by_signal(error):
                raise
            raise operator_error(self.planned, error, None, doing="feeding") from error

    def queue(self, batch: Batch) -> None:
        """Queue the result of :meth:`take_in`."""
        with self._lock:
            item: Batch | Exception = batch
            try:
                self.check(batch)
            except RuntimeError as error:
                item = error.with_traceback(None)  # it waits in the queue and must not keep the caller's frames alive
            if self.repeat_last:
                self._queue.clear()
            self._queue.append(item)

    def take_back(self, batch: Batch) -> None:
        """Undo :meth:`queue`, if no iteration has taken the batch."""
        with self._lock:
            if any(item is batch for item in self._queue):
                self._queue.remove(batch)

    def drop(self) -> None:
        """Drop batches that no iteration has taken."""
        with self._lock:
            self._queue.clear()

    def has_data(self) -> bool:
        """Whether an iteration can be fed."""
        return bool(self._queue) or (self.repeat_last and self._last is not None)

    def take(self) -> Batch | Exception:
        """The batch for the next iteration. Returns (does not raise) an IndexError if there is none."""
        with self._lock:
            if self._queue:
                item = self._queue.popleft()
                if self.repeat_last and isinstance(item, Batch):
                    item.reused = True  # the batch is fed repeatedly, so outputs must not be views of it
                    self._last = item
                return item
        if not self.repeat_last:
            return IndexError(
                f"Nothing was fed to the external input {self.name!r} for this iteration. "
                f"Feed data with pipe.feed_input({self.name!r}, ...) before each run (as many batches as the queue is deep before the "
                f"first), "
                "or set blocking=True to wait for it."
            )
        if self._last is not None:
            return self._last
        batch = Batch(np.empty((0, 0), np.int64), DALIDataType.NO_TYPE, contiguous=True, owner=())
        self._fill_in(batch)
        return batch
