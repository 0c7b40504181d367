"""Iterators that return jax arrays."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import jax
import numpy as np
from jax.sharding import Sharding

from ..base_iterator import ArgumentsError, BaseIterator
from ..epochs import LastBatchPolicy
from .arrays import array_of, concatenated, gpu_of, on_device, sharded, stacked


class DALIGenericIterator(BaseIterator):
    """Every `next` returns a dict {name: jax.Array}.

    One pipeline gives arrays [samples, ...]. Several pipelines must have batches of equal shapes. With `sharding` they give one global
    array, concatenated along the first dimension. Without it they give arrays [pipelines, samples, ...], which `jax.pmap` takes.

    Args:
        sharding: distribution of the arrays over devices. A single pipeline's batch is split over it, too.
        pmap_compatible: True: a leading axis also for a single pipeline. False with `devices`: no leading axis.
        devices: the device of each pipeline's part; None: jax's default device.

    Arrays of a pipeline's GPU outputs are views of its memory. Jax's work waits for these outputs; `next` does not.

    Element types are jax's: 64-bit elements become 32-bit ones unless ``jax_enable_x64`` is set. PARTIAL raises ValueError, because jax
    compiles for fixed shapes. Other arguments and errors are those of :class:`~asyncdali.plugin.base_iterator.BaseIterator`.
    """

    def __init__(
        self,
        pipelines: Any,
        output_map: Sequence[str] | None = None,
        size: int = -1,
        reader_name: str | None = None,
        auto_reset: str | bool | None = False,
        last_batch_padded: bool = False,
        last_batch_policy: LastBatchPolicy = LastBatchPolicy.FILL,
        prepare_first_batch: bool = True,
        sharding: Sharding | None = None,
        pmap_compatible: bool | None = None,
        devices: Sequence[Any] | None = None,
    ):
        if sharding is not None and not isinstance(sharding, Sharding):
            raise TypeError(f"sharding must be a jax.sharding.Sharding, got {type(sharding).__name__}")
        if sharding is not None and devices is not None:
            raise ValueError("give `sharding` or `devices`, not both")
        if sharding is not None and pmap_compatible:
            raise ValueError("arrays with a `sharding` have no leading device axis: pmap_compatible=True contradicts it")
        if last_batch_policy is LastBatchPolicy.PARTIAL:
            raise ArgumentsError("JAX iterators do not support LastBatchPolicy.PARTIAL: shapes are fixed; use FILL or DROP")
        self._sharding, self._devices = sharding, None if devices is None else list(devices)
        self._pmap = pmap_compatible
        super().__init__(
            pipelines, output_map, size, reader_name, auto_reset, None, last_batch_padded, last_batch_policy, prepare_first_batch
        )
        if self._devices is not None and len(self._devices) != len(self._pipes):
            raise ValueError(f"there are {len(self._pipes)} pipelines, but {len(self._devices)} devices")

    @staticmethod
    def _stream(device: int) -> int | None:
        gpu = gpu_of(device)
        return None if gpu is None else gpu.get_stream_for_external_ready_events()

    def _converted(self, outputs: tuple[object, ...], keep: int | None) -> dict[str, np.ndarray | jax.Array]:
        return {name: array_of(output, name) for name, output in zip(self.output_map, outputs, strict=True)}

    def _collected(self, converted: list[dict[str, np.ndarray | jax.Array]]) -> dict[str, jax.Array]:
        return {name: self._one([part[name] for part in converted], name) for name in self.output_map}

    def _one(self, parts: list[np.ndarray | jax.Array], name: str) -> jax.Array:
        if any(part.shape != parts[0].shape or part.dtype != parts[0].dtype for part in parts):
            raise RuntimeError(f"output {name!r}: the pipelines' batches differ: {[(part.shape, str(part.dtype)) for part in parts]}")
        if self._sharding is not None:
            return sharded(parts, self._sharding)
        pmap = self._devices is not None if self._pmap is None else self._pmap
        if self._devices is not None:
            return stacked(parts, self._devices) if pmap else concatenated(parts, self._devices)
        return on_device(parts[0], None) if len(parts) == 1 and not pmap else stacked(parts, None)


class DALIGenericPeekableIterator(DALIGenericIterator):
    """A :class:`DALIGenericIterator` with :meth:`peek`. Every batch must have the shapes and types of the first one.

    A checkpoint taken while a peeked batch is waiting has the position before this batch.
    """

    def __init__(self, *args: Any, **kwargs: Any):
        self._lock = threading.RLock()
        self._peeked: dict[str, jax.Array] | None = None
        self._peeked_end = False  # `peek` has met the end of the epoch
        self._before: Any = None  # the position before the peeked batch
        self._spec: dict[str, jax.ShapeDtypeStruct] | None = None
        self._thread: ThreadPoolExecutor | None = None
        super().__init__(*args, **kwargs)

    def __next__(self) -> dict[str, jax.Array]:
        while True:
            self._look()
            # No handler of a signal and no other thread runs between these stores and the return, so no batch is lost or returned twice.
            batch, ended, self._peeked, self._peeked_end, self._before = self._peeked, self._peeked_end, None, False, None
            if batch is not None:
                return batch
            if ended:
                raise StopIteration

    def peek(self) -> dict[str, jax.Array]:
        """The batch that the next call of `next` returns. StopIteration at the end of the epoch; then `next` raises it, too."""
        while True:
            self._look()
            batch, ended = self._peeked, self._peeked_end
            if batch is not None:
                return batch
            if ended:
                raise StopIteration

    def _look(self) -> None:
        """Get the next batch, or the end of the epoch, unless it is here."""
        with self._lock:
            if self._peeked is None and not self._peeked_end:
                place = self._place() if self._checkpointing else None
                try:
                    self._peeked, self._before = super().__next__(), place
                except StopIteration:
                    self._peeked_end, self._before = True, place

    def peek_async(self) -> Future[dict[str, jax.Array] | None]:
        """Run :meth:`peek` on another thread. The future's result is None at the end of the epoch."""
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="asyncdali-peek")
        return self._thread.submit(self._peek_or_none)

    def _peek_or_none(self) -> dict[str, jax.Array] | None:
        try:
            return self.peek()
        except StopIteration:  # a future cannot raise StopIteration
            return None

    @property
    def element_spec(self) -> dict[str, jax.ShapeDtypeStruct]:
        """Shape and type of each array. Peeks if no batch was seen yet."""
        if self._spec is None:
            self.peek()
        assert self._spec is not None
        return self._spec

    @property
    def is_nonpadding(self) -> jax.Array:
        """Which samples of the last batch belong to the epoch: bool[pipelines * samples], on the iterator's sharding if it has one.

        The other samples fill the last batch of an epoch.
        """
        own = self._epochs.own_samples() or [self.batch_size] * len(self._pipes)
        mask = np.concatenate([np.arange(self.batch_size) < count for count in own])
        return jax.numpy.asarray(mask) if self._sharding is None else jax.device_put(mask, self._sharding)

    def _collected(self, converted: list[dict[str, np.ndarray | jax.Array]]) -> dict[str, jax.Array]:
        batch = super()._collected(converted)
        spec = {name: jax.ShapeDtypeStruct(array.shape, array.dtype) for name, array in batch.items()}
        if self._spec is not None and spec != self._spec:
            raise ValueError(f"this batch has {spec}, earlier batches had {self._spec}; all batches must be alike")
        self._spec = spec
        return batch

    def reset(self) -> None:
        """As :meth:`DALIGenericIterator.reset`. An end of the epoch that only `peek` has raised counts, too. A peeked batch belongs to its
        epoch: nothing is reset before this batch is taken."""
        with self._lock:
            if not self._past_peeked_end() or not self._resets_itself:
                super().reset()

    def set_epoch(self, epoch: int) -> None:
        """As :meth:`DALIGenericIterator.set_epoch`. A peeked batch stays if it belongs to that epoch."""
        with self._lock:
            self._past_peeked_end()
            super().set_epoch(epoch)

    def _past_peeked_end(self) -> bool:
        """Whether `peek` has raised an end of the epoch that `next` has not raised. Then `next` does not raise it any more."""
        ended = self._peeked_end
        if ended:
            self._peeked_end, self._before = False, None
        return ended

    def _at_end(self) -> bool:
        return self._peeked is None and not self._peeked_end and super()._at_end()

    def _place(self) -> Any:
        with self._lock:  # a peek may be running on the other thread
            return super()._place() if self._before is None else self._before

    def _forget(self) -> None:
        super()._forget()
        self._peeked, self._peeked_end, self._before = None, False, None


def __getattr__(name: str) -> Any:
    if name == "data_iterator":  # derived from these iterators; programs written for DALI import it from here
        from .factory import data_iterator

        return data_iterator
    if name == "default_num_threads_value":
        raise AttributeError(f"{__name__}.{name} is not in asyncdali: give num_threads to the pipeline", name=name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
