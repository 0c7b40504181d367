"""Data from Python, pulled by calling: the ExternalSource of dynamic mode."""

from __future__ import annotations

import contextlib
import inspect
import operator
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn

from ..sources.kinds import SourceKind, get_callback_from_source
from ..system import forks
from ..tensors import TensorListCPU, TensorListGPU
from .calls import checked_size
from .captures import CapturedLoop, already_made, entered
from .contexts import EvalContext
from .conversion import make_batch, make_tensor
from .devices import Device, device
from .dtypes import DType
from .dtypes import dtype as as_dtype
from .spellings import SOURCES, missing_attribute, spelled
from .values import Batch, DynamicValue
from .work import DelayedCall


class _Pulled(NamedTuple):
    """An item of the source, or the error that it raised."""

    values: tuple[DynamicValue, ...]
    error: BaseException | None = None


def _sized(value: DynamicValue, size: int) -> Batch:
    """A Tensor repeated, or a Batch of the right size. ValueError for another size."""
    if isinstance(value, Batch):
        if value.batch_size != size:
            raise ValueError(f"the source gave a Batch of {value.batch_size} samples, batch_size is {size}")
        return value
    return Batch.broadcast(value, size)


def _puller(source: object, cycle: str | bool | None) -> Callable[[], object]:
    """The function that gives the next item. TypeError, ValueError for what is no source."""
    if source is None:
        raise TypeError("the source is None; it must be an iterable, a generator function, or a callable without parameters")
    if callable(source) and not hasattr(type(source), "__iter__") and not _is_plain(source):
        raise ValueError(f"the source {source!r} has parameters; give a callable without parameters")
    pull, description = get_callback_from_source(source, cycle)
    if description.is_async:
        raise TypeError("asynchronous sources work in pipelines (fn.external_source); give a plain iterable or callable")
    if description.kind is SourceKind.CALLABLE and description.has_inputs:
        raise ValueError(f"the source {source!r} has parameters; give a callable without parameters")
    assert pull is not None
    return pull


def _is_plain(source: Callable[..., object]) -> bool:
    """Whether a callable can be called without arguments. One whose signature Python does not know counts as one."""
    try:
        parameters = inspect.signature(source).parameters.values()
    except ValueError:
        return True
    many = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return all(item.default is not inspect.Parameter.empty or item.kind in many for item in parameters)


def _checked_device(given: object) -> Device | None:
    found = device(given)
    if found is None:
        raise TypeError("the device of a source is 'cpu' or 'gpu', got None")
    return found


def _for_each(given: object, count: int, what: str) -> list[object]:
    """One value for each output. ValueError for another number of values."""
    if isinstance(given, (list, tuple)):
        if len(given) != count:
            raise ValueError(f"`{what}` has {len(given)} values for {count} outputs")
        return list(given)
    return [given] * count


class ExternalSource:
    """Data from Python. Calling the object pulls one item.

    Args:
        source: an iterable, an iterator, a generator function, or a callable without parameters.
        num_outputs: values in an item; with more than one, items are tuples or lists of so many.
        cycle: what happens at the end of an iterable. None, "no", False: StopIteration, and again at each call. "quiet", True: it starts
            over. "raise": one StopIteration, then it starts over.
        device: "cpu" or "gpu".
        layout, dtype: of the values; one for all, or a sequence of `num_outputs`.
        no_copy: whether values share the memory of the source's arrays. By default they are copied, so the source may use an array again.

    Raises:
        TypeError: something that is no source.
        ValueError: a callable with parameters, a wrong `cycle`, or `layout` and `dtype` of a wrong number.
    """

    @spelled(
        batch_size="give it to the call, source(batch_size=n), or to captured(n)",
        batch="an item is a Tensor, or a Batch of ndd.as_batch(...)",
        batch_info="the source has no parameters", parallel="the source runs on the calling thread", ndim="use ndd.as_tensor in the source",
        name="leave it out",
    )  # fmt: skip
    def __init__(
        self, source: object, num_outputs: int = 1, *, cycle: str | bool | None = None, device: object = "cpu", layout: object = None,
        dtype: object = None, no_copy: bool = False,
    ):  # fmt: skip
        if isinstance(num_outputs, bool) or not hasattr(num_outputs, "__index__"):
            raise TypeError(f"num_outputs is an integer, got {num_outputs!r}")
        self._count = operator.index(num_outputs)
        if self._count < 1:
            raise ValueError(f"num_outputs is {self._count}; it must be at least 1")
        self._pull = _puller(source, cycle)
        self._device = _checked_device(device)
        self._layouts = _for_each(layout, self._count, "layout")
        self._dtypes: list[DType | None] = [None if kind is None else as_dtype(kind) for kind in _for_each(dtype, self._count, "dtype")]
        self._copies = not no_copy
        self._ahead: list[_Pulled] = []
        self._lock = threading.RLock()
        self._called = False
        self._loop: weakref.ReferenceType[SourceItems] | None = None
        self._recorded = CapturedLoop()
        self._pid = forks.pid

    def __call__(self, *, batch_size: int | None = None) -> Any:
        """The next item: a Tensor (a list is one tensor) or a Batch, or a tuple of them.

        Args:
            batch_size: Tensors are repeated to a Batch of this size; Batches must have it.

        Raises:
            StopIteration: the source has ended.
            ValueError: a Batch of another size, or an item that is no sequence of `num_outputs` values.
            TypeError: an item of Tensors and Batches.
            RuntimeError: a loop over this source goes on.
            Others: errors of the source, unchanged.
        """
        size = None if batch_size is None else checked_size(batch_size)
        with self._lock:
            loop = None if self._loop is None else self._loop()
            if loop is not None and not loop.is_over:
                raise RuntimeError("this source drives a loop; it can be called after the loop")
            self._called = True
            return self._result(self._taken(), size)

    def __getattr__(self, name: str) -> NoReturn:
        missing_attribute(self, name, SOURCES)

    def __iter__(self) -> NoReturn:
        raise TypeError("'ExternalSource' object is not iterable: call source() until StopIteration, or iterate source.captured(n)")

    @spelled(missing="captured(batch_size)")
    def captured(self, batch_size: int, ctx: EvalContext | None = None) -> SourceItems:
        """Iterate the items until StopIteration; what the loop calls is computed one step ahead.

        The source is asked one item ahead, on the thread of the loop. An item that was asked for stays for the next loop or call.

        Args:
            batch_size: samples of each Batch.
            ctx: the current context while an item is pulled.

        Raises:
            RuntimeError: the source was called before, or drives another loop.
        """
        size = checked_size(batch_size)
        if ctx is not None and not isinstance(ctx, EvalContext):
            raise TypeError(f"ctx is an EvalContext, got {type(ctx).__name__}")
        with self._lock:
            if self._called:
                raise RuntimeError("this source was called before, so it cannot drive a loop; make another source")
            loop = None if self._loop is None else self._loop()
            if loop is not None and not loop.is_over:
                raise RuntimeError("this source drives another loop that goes on")
            made = SourceItems(self, size, ctx)
            self._loop = weakref.ref(made)
        return made

    @property
    def captured_calls(self) -> int:
        """Number of calls in captured loops that were computed ahead."""
        return self._recorded.served

    # --- items

    def _taken(self) -> tuple[DynamicValue, ...]:
        """The next item. Raises the error of the source."""
        self._look_ahead(1)
        found = self._ahead.pop(0)
        if found.error is not None:
            try:
                raise found.error
            finally:
                del found
        return found.values

    def _look_ahead(self, count: int) -> None:
        """Ask the source for the next items, so that `count` of them wait. It is not asked beyond an error or its end.

        An interrupt loses nothing: items leave the queue when they are used.
        """
        if len(self._ahead) >= count or (self._ahead and self._ahead[-1].error is not None):
            return
        try:
            made = _Pulled(self._converted(self._pull()))
        except Exception as error:
            made = _Pulled((), error)
        self._ahead.append(made)

    def _converted(self, item: object) -> tuple[DynamicValue, ...]:
        parts: Sequence[object] = [item]
        if self._count > 1:
            if not isinstance(item, (tuple, list)) or len(item) != self._count:
                got = f"{len(item)} values" if isinstance(item, (tuple, list)) else f"a {type(item).__name__}"
                raise ValueError(f"the source must give a tuple or list of {self._count} values, got {got}")
            parts = item
        made = []
        for part, layout, kind in zip(parts, self._layouts, self._dtypes, strict=True):
            is_batch = isinstance(part, (Batch, TensorListCPU, TensorListGPU))
            copies = self._copies and not (isinstance(part, DynamicValue) and part._place != "cpu")
            make = make_batch if is_batch else make_tensor
            made.append(make(part, kind, self._device, layout, copy=copies))
        if len({type(value) for value in made}) > 1:
            raise TypeError("the values of an item must be all Tensors or all Batches")
        return tuple(made)

    def _result(self, values: tuple[DynamicValue, ...], size: int | None) -> object:
        made = tuple(value if size is None else _sized(value, size) for value in values)
        return made[0] if self._count == 1 else made


class SourceItems:
    """The items of a loop over a source."""

    def __init__(self, source: ExternalSource, size: int, context: EvalContext | None):
        self._source, self._size, self._context = source, size, context
        self._pulled: _Pulled | None = None
        self._work: DelayedCall | None = None
        self.is_over = False

    def __iter__(self) -> SourceItems:
        return self

    def __next__(self) -> Any:
        """The next item; StopIteration at the end, and errors of the source."""
        if self.is_over:
            raise StopIteration
        source = self._source
        with source._lock, entered(self._context):
            source._look_ahead(1)
            pulled = source._ahead[0]
            work = self._work if pulled is self._pulled else None
            if pulled.error is None:
                source._look_ahead(2)
            try:
                source._taken()
            except StopIteration:
                self.close()
                raise
            work = self._work_of(pulled) if work is None else work
            self._pulled, self._work = source._ahead[0], None
            if self._pulled.error is None:
                with contextlib.suppress(ValueError):  # a Batch of another size: its own step raises the error
                    self._work = self._work_of(self._pulled)
        if source._pid != forks.pid:  # the threads of the loop are the parent's
            source._pid, source._recorded = forks.pid, CapturedLoop()
        source._recorded.begin(work, self._work)
        made: tuple[Any, ...] = tuple(Batch._later(work, k) for k in range(len(work.declared)))
        return made[0] if source._count == 1 else made

    def _work_of(self, pulled: _Pulled) -> DelayedCall:
        return already_made([_sized(value, self._size)._samples() for value in pulled.values])

    def close(self) -> None:
        """End the loop; the source stays where it is."""
        if not self.is_over:
            self.is_over = True
            self._source._recorded.end()

    def __del__(self) -> None:
        self.close()
