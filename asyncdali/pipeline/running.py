"""Running a pipeline: synchronous, scheduled and asynchronous calls, and feeding data."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..data_node import DataNode
from ..runtime.order.claims import IterationClaim, take_next
from ..types import PipelineAPIType
from .epochs import AsyncEpoch, Epoch
from .front import Front

if TYPE_CHECKING:
    from ..runtime.session import Session
    from ..tensors import TensorListCPU, TensorListGPU
    from .core import Core


class Running(Front):
    """The part of :class:`~asyncdali.Pipeline` that runs it."""

    output_names: tuple[str, ...] | None
    """Names of the outputs, if the graph function returned a dict. :meth:`epoch`, ``async for`` and iterators then return dicts."""

    def enable_api_check(self, enable: bool) -> None:
        """False allows `run`, the scheduled calls and iterators on the same pipeline."""
        self._core.api_check = enable

    def run(self, cuda_stream: object = None, /, **inputs: object) -> tuple[TensorListCPU | TensorListGPU, ...]:
        """Run one iteration and return its outputs.

        Keeps `prefetch_queue_depth` iterations in flight. With `cuda_stream` (a handle, or a stream object of torch, CuPy or CUDA) the call
        does not wait for GPU outputs; they are ordered on that stream instead.

        Raises an operator's error at its iteration (the next call continues with the next iteration), StopIteration when a source has no
        more data (again, until :meth:`reset` begins the next epoch), and RuntimeError if kinds of calls are mixed. Readers never end: an
        epoch of a reader is a number of iterations (:meth:`epoch`, `epoch_size`).
        """
        core = self._core
        session = core.enter("run()", PipelineAPIType.BASIC)
        if cuda_stream is not None:
            _check_stream(cuda_stream, core)
        if inputs:
            _feed_now(core, session, inputs, cuda_stream)
        return take_next(session, core.fill_awaited, cuda_stream)  # type: ignore[no-any-return]  # a variable would be a step

    def schedule_run(self) -> None:
        """Queue one iteration (the first call fills the queue); does not wait when `exec_async`."""
        self._core.refuse_in_callbacks("schedule_run()")
        self._core.use_api(PipelineAPIType.SCHEDULED)
        session = self._core.built()
        self._core.schedule(session)
        session.producer.wait_without_frames()

    def outputs(self, cuda_stream: object = None) -> tuple[TensorListCPU | TensorListGPU, ...]:
        """Release the shared outputs, wait for the oldest scheduled iteration and return its outputs.

        StopIteration if nothing is scheduled; otherwise the errors of :meth:`run`.
        """
        self._core.refuse_in_callbacks("outputs()")
        self.release_outputs()
        return self.share_outputs(cuda_stream)

    def share_outputs(self, cuda_stream: object = None) -> tuple[TensorListCPU | TensorListGPU, ...]:
        """Like :meth:`outputs`, but the shared outputs are kept."""
        self._core.refuse_in_callbacks("share_outputs()")
        self._core.use_api(PipelineAPIType.SCHEDULED)
        _check_stream(cuda_stream, self._core)
        session, shared = self._core.built(), self._core.shared

        def share(outputs: tuple[TensorListCPU | TensorListGPU, ...]) -> tuple[TensorListCPU | TensorListGPU, ...]:
            shared.append(outputs)
            return outputs

        session.producer.fetched()
        return session.delivery.fetch(cuda_stream, then=share)  # type: ignore[no-any-return]  # a variable would be a step

    def release_outputs(self) -> None:
        """Release the shared outputs. They stay valid as long as they are referenced."""
        self._core.refuse_in_callbacks("release_outputs()")
        self._core.use_api(PipelineAPIType.SCHEDULED)
        self._core.shared.clear()

    def empty(self) -> bool:
        """Whether no scheduled iteration is left to be fetched."""
        session = self._core.session
        return session is None or not session.in_flight

    def reset(self) -> None:
        """Start the next epoch after the end of the data. Otherwise do nothing.

        A pipeline with a `checkpoint` is built, because the checkpoint may have been taken at the end of the data.
        """
        core = self._core
        core.refuse_in_callbacks("reset()")
        if core.session is not None or core.options.checkpoint is not None:
            core.built().producer.reset()

    def set_weights(self, weights: Sequence[float], *, at: int, name: str | DataNode | None = None) -> None:
        """Change the weights of ``fn.experimental.mix`` from its batch `at` on. Batches are counted from 0, over all epochs.

        The change is in checkpoints until it is made. `name` is a result of the mix, or its name; it may be left out if the pipeline has
        only one mix. Builds the pipeline.

        ValueError for a batch that is prepared already (the message names the first that is not), and for wrong weights; KeyError for an
        unknown name; RuntimeError without a mix.
        """
        self._core.refuse_in_callbacks("set_weights()")
        self._core.built()
        self._core.processes.streams.set_weights(self._core, weights, at, name.name if isinstance(name, DataNode) else name)

    # --- data from Python

    def feed_input(
        self, data_node: str | DataNode, data: object, layout: str | None = None, cuda_stream: object = None, use_copy_kernel: bool = False
    ) -> None:
        """Queue a batch for an external input without a source. Each iteration takes one batch. Builds the pipeline.

        `data` is a list of arrays, an array whose first axis counts samples, a TensorList, or a DLPack object. It is copied unless the
        input has ``no_copy=True``. Data in the memory of the pipeline's GPU (CuPy, torch, DLPack, TensorGPU, TensorListGPU), for an input
        on the GPU, is copied in the order of `cuda_stream` (a handle or stream object; None or -1: the stream that the data names). If
        there is no stream, the call waits for the copy. `use_copy_kernel` has no effect on the result.

        KeyError for an unknown input; RuntimeError for an input with a source, and for data that is no batch or exceeds the batch size;
        TypeError for a `data_node` that is neither a name nor a node. Data that contradicts the input's dtype, ndim or layout fails its
        iteration.
        """
        self._core.refuse_in_callbacks("feed_input()", hook=False)
        session = self._core.built()
        try:
            session.producer.feed(data_node, data, layout, cuda_stream)
        except Exception as error:
            session.check_open(error)
            raise

    def input_feed_count(self, input_name: str) -> int:
        """Number of batches to feed before the first run, so that no call waits. Feed one batch before each later run.

        Builds the pipeline. KeyError for an unknown input.
        """
        return self._core.built().producer.feed_count(input_name)

    # --- asynchronous front end, and epochs

    async def run_async(self, *, stream: object = None) -> tuple[TensorListCPU | TensorListGPU, ...]:
        """Like :meth:`run`, awaitable in any running event loop. Several tasks may wait at the same time and are served in turn.

        A cancelled await loses no batch. The end of the data is StopAsyncIteration.
        """
        self._core.refuse_in_callbacks("run_async()")
        self._core.use_api(PipelineAPIType.BASIC)
        batch: tuple[TensorListCPU | TensorListGPU, ...] = await self._run_async(stream, None)
        return batch

    async def _run_async(self, stream: object, end: int | None, then: Callable[[Any], Any] | None = None) -> Any:
        """:meth:`run_async`, or what `then` makes of its result. None when the batch would be iteration number `end` of the epoch: the next
        call gets that batch."""
        session = self._core.built()
        _check_stream(stream, self._core)
        turn, claimed, taken = session.delivery.turn(), IterationClaim(session), list[Any]()

        def leave() -> None:
            """Leave the batch to the next call, also if this call has already taken it. May be called twice."""
            if taken:
                session.delivery.give_back(taken[0], taken)
            claimed.leave()
            turn.leave()

        try:
            turn.join()  # before any `await`, so that callers get batches in the order of their calls
            claimed.join()
            await claimed.queue(self._core.fill)
            batch = None
            while True:
                await turn.come()
                if end is not None and session.iteration >= end:
                    break
                session.delivery.arrives()
                if session.in_flight:
                    await session.in_flight[0].wait_async()
                    if stream is None:
                        await session.delivery.device_done()
                if turn.is_mine:  # it is lost if this event loop stood still meanwhile
                    claimed.leave()
                    batch = session.delivery.fetch(stream, None, then, taken)
                    break
            claimed.leave()
            turn.leave()
            return batch
        except BaseException as error:  # also of a signal's handler, after the fetch
            try:
                leave()
            except BaseException:  # another handler has raised meanwhile
                leave()
                raise
            if isinstance(error, StopIteration):
                raise StopAsyncIteration from None
            raise

    def __aiter__(self) -> AsyncEpoch:
        """One epoch: until the sources end, or, for pipelines with readers, until `epoch_size` samples were delivered.

        Yields the results of :meth:`run`; with :attr:`output_names`, dicts by name. An `anext` that is cancelled loses nothing: the next
        one gets the same batch. After the error of an iteration the next `anext` gets the next iteration, as :meth:`run_async` does.
        """
        self._core.refuse_in_callbacks("`async for`")
        session = self._core.built()
        self._core.use_api(PipelineAPIType.BASIC)
        return AsyncEpoch(self, session)

    def epoch(self) -> Epoch:
        """``for batch in pipe.epoch():`` iterates over one epoch, as ``async for batch in pipe`` does. After a `break`, the next loop gets
        the rest of that epoch. After the error of an iteration, `next` gets the next iteration, as :meth:`run` does.

        Batches of readers are full. If a shard is no multiple of the batch, its last batch goes on with the samples that follow (of the
        next shard, or of the next epoch), or repeats its last sample with ``pad_last_batch=True``. The iterators of ``asyncdali.plugin``
        can leave the rest out (`last_batch_policy`). Calls :meth:`reset` behind the end of a source's data.
        """
        self._core.refuse_in_callbacks("epoch()")
        session = self._core.built()
        self._core.use_api(PipelineAPIType.BASIC)
        return Epoch(self, session)

    def _named(self, batch: tuple[object, ...]) -> tuple[object, ...] | dict[str, object]:
        return batch if self.output_names is None else dict(zip(self.output_names, batch, strict=True))


def _feed_now(core: Core, session: Session, inputs: Mapping[str, object], cuda_stream: object) -> None:
    """`run(name=data)` is allowed only if the next queued iteration is the one returned."""
    for name in inputs:
        session.producer.sources.port(name)  # check all names before feeding any
    options = core.options
    if options.exec_pipelined and session.depth > 1:
        raise RuntimeError(
            "Inputs can be given to `run` only with prefetch_queue_depth=1 or exec_pipelined=False: otherwise the outputs returned are not "
            f"those of the data given. This pipeline has prefetch_queue_depth={options.prefetch_queue_depth}, "
            f"exec_pipelined={options.exec_pipelined}."
        )
    for name, data in inputs.items():
        session.producer.feed(name, data, None, cuda_stream)


def _check_stream(stream: object, core: Core) -> None:
    """TypeError for an object that is no stream; RuntimeError without the default executor."""
    if stream is None:
        return
    named = ("__cuda_stream__", "cuda_stream", "ptr", "handle")
    if not isinstance(stream, (int, np.integer, ctypes.c_void_p)) and not any(hasattr(stream, name) for name in named):
        raise TypeError(f"cuda_stream must be a stream handle or a stream object, got {type(stream).__name__}")
    if not core.options.exec_dynamic:
        raise RuntimeError("outputs on a stream need the default executor (exec_dynamic=True)")
