"""The common base of all framework iterators. It keeps pipelines in step and handles epochs, resets and checkpoints.

A framework's iterator derives from :class:`BaseIterator`. Its `_converted` method converts a pipeline's outputs.
"""

from __future__ import annotations

import copy
import functools
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from asyncdali_workers.interrupts import raised_by_signal, uninterrupted

from .._version import __version__
from ..compat.iterator_attributes import IteratorDaliNames
from ..errors import CheckpointError, set_aside
from ..messages.notices import warn
from ..pipeline.front import core_of
from ..types import PipelineAPIType
from .epochs import CountedEpochs, LastBatchPolicy, OpenEpochs, ReaderEpochs, epoch_of, shard_sizes

if TYPE_CHECKING:
    from ..pipeline import Pipeline
    from ..runtime.order.delivery import Mark
    from ..runtime.order.record import Record
    from ..runtime.session import Session

__all__ = ["ArgumentsError", "BaseIterator", "LastBatchPolicy"]

log = logging.getLogger("asyncdali")

_RESETS = {False: False, None: False, "no": False, True: True, "yes": True}


class ArgumentsError(ValueError, AssertionError):
    """Arguments of an iterator that contradict each other, or that do not fit its pipelines.

    It is an AssertionError too, because DALI raises one and programs catch it.
    """


class BaseIterator(IteratorDaliNames):
    """Base of the iterators over one or several pipelines.

    Args:
        pipelines: a pipeline, or several with equal batch sizes and equal `enable_checkpointing`; they are built.
        output_map: a name for each output. None: the names that the graph function gave (it returned a dict).
        size: samples per epoch, over all pipelines. -1: a single pipeline's sources end the epoch, or see `reader_name`.
        reader_name: the reader, in every pipeline, whose size, shards and padding say where epochs end.
        auto_reset: "yes" or True: the next epoch begins after the end of an epoch. "no", False, None: only after :meth:`reset` or `iter`.
        fill_last_batch: deprecated. True means FILL, False means PARTIAL.
        last_batch_padded: with `size`: the last batch of an epoch is padded, and the next one starts with the next epoch's data.
        last_batch_policy: see :class:`LastBatchPolicy`. It has no effect where sources end the epoch. DROP leaves out the last batch of an
            epoch of select or mix, if the batch is not full.
        prepare_first_batch: fetch the first batch now.

    Raises ValueError for arguments that contradict each other, TypeError for an object that is not a pipeline, and RuntimeError if there is
    no data.
    """

    def __init__(
        self,
        pipelines: Pipeline | Sequence[Pipeline],
        output_map: Sequence[str] | None = None,
        size: int = -1,
        reader_name: str | None = None,
        auto_reset: str | bool | None = False,
        fill_last_batch: bool | None = None,
        last_batch_padded: bool = False,
        last_batch_policy: LastBatchPolicy = LastBatchPolicy.FILL,
        prepare_first_batch: bool = True,
    ):
        self._pipes = _pipelines(pipelines)
        self._resets_itself = _checked_auto_reset(auto_reset)
        self._policy = _checked_policy(last_batch_policy, fill_last_batch)
        _check_size(size, reader_name, last_batch_padded, len(self._pipes))
        self.batch_size = _shared(self._pipes, "max_batch_size", "batch size")
        options = [core_of(pipe).options for pipe in self._pipes]
        self._checkpointing = _shared(options, "enable_checkpointing", "value for `enable_checkpointing`")
        self.output_map = _checked_names(self._pipes, output_map)
        for pipe in self._pipes:  # worker processes are forked before anything else happens
            pipe.start_py_workers()
        self._feeds = [_Feed(pipe, self._stream) for pipe in self._pipes]
        self._padded = last_batch_padded
        self._reader_name, self._given_size = reader_name, size
        self._epochs = self._new_epochs()
        self._check_output_count()
        self._epoch = 0
        self._ended = False
        self._to_reset: list[_Feed] | None = None  # the next epoch has begun, but not in these pipelines. None: in all
        self._end_untold = False  # the next epoch has begun, but `next` has not raised the end of the last one
        self._used = False  # whether a batch of this epoch was requested
        self._count = 0  # iterations that `next` has delivered, or dropped
        self._ready: list[Any] | None = None  # the outputs of iteration `_count`, if they are here
        self._surplus: int | None = None  # iterations that are still to be dropped at the end of the epoch
        self._failure: Exception | None = None  # the error that the prepared batch raised instead
        self._marks: list[Mark] | None = None  # the pipelines' positions before the prepared batch
        self._moments: list[Any] = []  # moments of the batch that `next` returned last
        self._prepare_first_batch = prepare_first_batch
        restored = self._restore()
        if prepare_first_batch:
            self._prepare(restored)

    def _new_epochs(self) -> OpenEpochs:
        """The epoch accountant at the beginning of the first epoch."""
        if self._reader_name is not None:
            return _reader_epochs(self._pipes, self._reader_name, self.batch_size, self._policy)
        if self._given_size > 0:
            return CountedEpochs(self._given_size, len(self._pipes), self.batch_size, self._policy, self._padded)
        return OpenEpochs(len(self._pipes) * self.batch_size)

    def _check_output_count(self) -> None:
        for feed in self._feeds:
            count = feed.output_count()
            if count is not None and count != len(self.output_map):
                raise ValueError(f"output_map has {len(self.output_map)} names ({self.output_map}), the pipeline has {count} outputs")

    # --- methods that a framework defines

    def _converted(self, outputs: tuple[Any, ...], keep: int | None) -> Any:
        """Convert a pipeline's outputs. If `keep` is not None, keep only the first `keep` samples of each output."""
        raise NotImplementedError

    def _collected(self, converted: list[Any]) -> Any:
        """Combine the converted outputs of all pipelines into the value that `next` returns."""
        return converted

    @staticmethod
    def _stream(device: int) -> int | None:
        """Handle of the stream on which the framework currently queues work for GPU `device`. Outputs are ordered on this stream.

        None if the framework has no streams: then `next` waits until the outputs are complete.
        """
        return None

    # --- iteration

    @property
    def size(self) -> int:
        """Samples of an epoch. With a reader: samples of the current epoch per pipeline. -1 where sources end the epoch."""
        return self._epochs.size

    def __len__(self) -> int:
        """Batches of an epoch (of the current one, where they differ). 0 where sources end the epoch."""
        return self._epochs.batches

    def __iter__(self) -> BaseIterator:
        """This iterator. At the end of an epoch the iterator is reset first."""
        self._go_on()
        self._end_untold = False
        if self._ended or self._at_end():
            self.reset()
        return self

    def next(self) -> Any:
        """The next batch; the same as ``next(iterator)``."""
        return self.__next__()

    def __next__(self) -> Any:
        """The next batch of every pipeline. Raises StopIteration at the end of the epoch.

        An operator's error fails this batch in all pipelines; the next call returns the following batch. A source's error leaves all
        positions unchanged; the next call asks the source again.
        """
        if self._first_value is not None and self._ready is None:  # a program has set this batch as the first one
            first, self._first_value = self._first_value, None
            return first
        outputs = self._pending()
        epochs = copy.copy(self._epochs)
        try:
            value = self._delivered(outputs, epochs.advance())
        except BaseException as error:
            if not raised_by_signal(error):  # the batch cannot be converted, so the next call returns the following one
                self._epochs = epochs
                self._taken()
            raise
        moments = [getattr(batch[0], "moment", None) for batch in outputs]
        # An interrupt before this line leaves the batch to the next call. Behind it there is no call, in which a handler could run.
        self._epochs, self._count, self._ready, self._marks, self._first_value = epochs, self._count + 1, None, None, None
        self._moments, self._used, self._ever_consumed = moments, True, True
        return value

    def _take(self) -> list[Any]:
        """The next outputs of every pipeline, which the caller then has. StopIteration at the end of the epoch."""
        outputs = self._pending()
        self._taken()
        return outputs

    def _pending(self) -> list[Any]:
        """The outputs of every pipeline that the next call of :meth:`_taken` takes: the prepared outputs, or those of one new iteration.
        StopIteration at the end of the epoch."""
        if self._to_reset is not None or self._end_untold:  # after an interrupt
            self._go_on()
            if self._end_untold:
                if self._ended:
                    self._begin()
                self._end_untold = False
                raise StopIteration
        if self._ended:
            raise StopIteration
        if self._ready is None and self._failure is None:
            if self._at_end():
                self._end()
            try:
                self._ready = self._fetched()
            except (StopIteration, _Lost) as failure:
                self._failure = failure.with_traceback(None)
                if isinstance(failure, _Lost):
                    set_aside(failure.error)  # the error is kept, and its traceback would keep the pipelines alive
        if self._ready is None:
            self._tell()
        for feed in self._feeds:
            feed.release()
        return self._ready

    def _delivered(self, outputs: list[Any], keep: list[int] | None) -> Any:
        """The value that `next` returns for `outputs`. `keep` is the number of samples of each pipeline that belong to the epoch."""
        if keep is None:
            return self._collected([self._converted(batch, None) for batch in outputs])
        # With a `size`, a pipeline without samples of the epoch is left out of the batch.
        parts = [part for part in zip(outputs, keep, strict=True) if part[1] or self._reader_name is not None]
        return self._collected([self._converted(batch, count) for batch, count in parts])

    def _tell(self) -> NoReturn:
        """Raise the stored error of :meth:`_fetched` when the consumer reaches the failed iteration."""
        failure = self._failure
        try:
            assert failure is not None
            if isinstance(failure, StopIteration):
                self._failure = self._marks = None
                self._end()
            if isinstance(failure, _Lost):
                epochs = copy.copy(self._epochs)
                epochs.advance()  # every pipeline has finished this iteration
                self._epochs, self._used, self._count, self._failure, self._marks = epochs, True, self._count + 1, None, None
                raise failure.error
            self._failure = self._marks = None
            raise failure
        finally:
            del failure  # its traceback refers to this call

    def _fetched(self) -> list[Any]:
        """Run one iteration of every pipeline and return the outputs of each.

        All pipelines stay in step: a result is kept until every pipeline has its result, and the iteration is delivered.

        Raises StopIteration, the errors of sources, and _Lost for a failed iteration.
        """
        try:
            for feed in self._feeds:
                feed.fill(self._count)
        except StopIteration:
            for feed in self._feeds:
                feed.clear()
            raise
        results = [feed.result for feed in self._feeds]
        for result in results:
            if isinstance(result, Exception):
                self._failure = _Lost(result)
                for feed in self._feeds:
                    feed.release()
                try:
                    raise self._failure
                finally:
                    del result, results  # its traceback holds this frame
        if self._epochs.full_batches:
            self._check_full(results)
        elif self._policy is LastBatchPolicy.DROP and all(feed.ends_short(self.batch_size) for feed in self._feeds):
            self._count += 1
            return self._fetched()
        return results

    def _check_full(self, results: list[Any]) -> None:
        for outputs in results:
            for output in outputs:
                if len(output) != self.batch_size:
                    raise ArgumentsError(
                        f"a pipeline returned a batch of {len(output)} samples; with `reader_name` or `size` every batch must have "
                        f"{self.batch_size} (leave out both if sources end the epoch)"
                    )

    def _prepare(self, restored: bool) -> None:
        """Fetch the first batch before it is requested."""
        if self._ended or self._at_end():
            if not restored:
                raise RuntimeError(
                    "There is no data in the pipeline: with these shards, this batch size and last_batch_policy the epoch has no batch."
                )
            return
        if self._checkpointing:
            self._marks = [feed.mark(self._count) for feed in self._feeds]
        lost: BaseException | None = None
        try:
            self._ready = self._fetched()
        except Exception as error:
            if restored:  # `next` raises the error, as in the saved run; raising it here would prevent every restore at this position
                self._failure = error.with_traceback(None)
                if isinstance(error, _Lost):
                    set_aside(error.error)
                return
            if isinstance(error, StopIteration):
                raise RuntimeError("There is no data in the pipeline: its sources ended before the first batch.") from None
            if not isinstance(error, _Lost):
                raise
            lost, self._failure = error.error, None
        if lost is not None:
            try:
                raise lost  # outside the handler, where `error` would become its context: a reference cycle
            finally:
                del lost

    def _at_end(self) -> bool:
        """Whether the epoch is over, although StopIteration was not raised yet."""
        if self._ready is not None or self._failure is not None:
            return False
        if self._epochs.full_batches or not self._used:
            return self._epochs.over()
        return self._epochs.over() or all(feed.drained(self._count) for feed in self._feeds)

    @property
    def is_inside_epoch(self) -> bool:
        """Whether some batches of the current epoch were made, and others were not."""
        return self._used and not self._ended and not self._at_end()

    def _end(self) -> NoReturn:
        """End the epoch: StopIteration."""
        self._marks = None
        if self._surplus is None:
            self._surplus = self._epochs.surplus()
        while self._surplus:
            self._fetched()
            self._surplus, self._count = self._surplus - 1, self._count + 1
        self._surplus, self._ended = None, True
        if self._resets_itself:
            self._end_untold = True
            self._begin()
            self._end_untold = False
        raise StopIteration

    def reset(self) -> None:
        """Begin the next epoch after the end of an epoch. In the middle of an epoch this only logs a warning."""
        self._go_on()
        self._end_untold = False
        if not self._ended:
            if not self._at_end():
                if self._used:
                    log.warning("reset() had no effect: the epoch of the iterator is not finished")
                return
            try:
                self._end()
            except StopIteration:
                if self._resets_itself:
                    return
        self._begin()

    def _begin(self) -> None:
        """Begin the next epoch."""
        with uninterrupted():
            self._epochs.next_epoch()
            self._epoch += 1
            self._ended = self._used = False
            self._to_reset = list(self._feeds)
        self._go_on()

    def _go_on(self) -> None:
        """Finish :meth:`_begin`, after an interrupt, too."""
        if self._to_reset is None:
            return
        while self._to_reset:
            self._to_reset[0].reset()
            del self._to_reset[0]
        for feed in self._feeds:
            feed.start()
        self._to_reset = None

    def set_epoch(self, epoch: int) -> None:
        """Go to the beginning of `epoch` (0 is the first), with the data that an uninterrupted run has there.

        Does nothing if `epoch` is the current one. After the end of the previous epoch it does the same as :meth:`reset`. Any other epoch
        is computed from the pipelines' seeds. Raises ValueError for a negative epoch, RuntimeError for pipelines with external sources.
        """
        if not isinstance(epoch, int) or epoch < 0:
            raise ValueError(f"epoch must be an integer of at least 0, got {epoch!r}")
        if (self._ended or self._at_end()) and epoch == self._epoch + 1:
            self.reset()
        if epoch == self._epoch and not self._ended:
            return
        from ..pipeline.replay.rewinding import seek

        if not self._epochs.full_batches:
            raise RuntimeError("the iterator cannot skip to an epoch if sources end the epochs: restore a checkpoint of that epoch")
        epochs, iterations = self._new_epochs(), 0
        for _ in range(epoch):
            while not epochs.over():
                epochs.advance()
                iterations += 1
            iterations += epochs.surplus()
            epochs.next_epoch()
        for pipe in self._pipes:
            seek(pipe, iterations)
        self._epochs, self._epoch = epochs, epoch
        self._forget()
        self._ended = self._used = False

    def _forget(self) -> None:
        """Drop the fetched batch, which belongs to another position."""
        self._ready = self._failure = self._marks = self._first_value = self._surplus = self._to_reset = None
        self._end_untold = False
        for feed in self._feeds:
            feed.clear()

    def provenance(self) -> list[Any]:
        """For each pipeline, the provenance of the batch that `next` returned last: files, records, draws and windows of each sample.

        See ``Pipeline.provenance``. RuntimeError before the first batch, in debug mode, and if a pipeline is gone.
        """
        if None in self._moments or not self._moments:
            raise RuntimeError("there is no batch whose provenance could be shown: call next() first (debug mode keeps no provenance)")
        return [moment.provenance() for moment in self._moments]

    # --- checkpoints

    def checkpoints(self) -> list[bytes]:
        """A checkpoint per pipeline, at the position after the last batch that `next` returned. It contains the iterator's own state, too.

        To restore, build each pipeline with its checkpoint and make an iterator of the pipelines. ValueError unless `enable_checkpointing`.
        """
        if not self._checkpointing:
            raise ValueError("Cannot access checkpoints with checkpointing disabled: give the pipelines enable_checkpointing=True")
        state, marks = self._place()
        return [feed.session.saving.checkpoint(__version__, mark, state) for feed, mark in zip(self._feeds, marks, strict=True)]

    def _place(self) -> tuple[dict[str, Any], list[Mark]]:
        """The consumer's position: the iterator's own state, and a mark in each pipeline."""
        self._go_on()
        state = {"epoch": self._epoch, "ended": self._ended, "used": self._used, **self._epochs.state()}
        if fields := self._own_fields():
            state["fields"] = fields
        return state, self._marks or [feed.mark(self._count) for feed in self._feeds]

    def state_dict(self) -> dict[str, list[str]]:
        """The state after the last batch that `next` returned, for :meth:`load_state_dict`.

        Values are strings. Errors as :meth:`checkpoints`.
        """
        return {"checkpoints": [data.decode() for data in self.checkpoints()]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue where :meth:`state_dict` was taken, in this or another process. The pipelines are rebuilt with their checkpoints.

        Raises ValueError for an object that is not such a state, CheckpointError for checkpoints of other pipelines.
        """
        if not self._checkpointing:
            raise ValueError("load_state_dict needs pipelines with enable_checkpointing=True")
        saved = state.get("checkpoints") if isinstance(state, dict) else None
        if not isinstance(saved, list) or len(saved) != len(self._pipes):
            raise ValueError(f"expected the state_dict() of an iterator over {len(self._pipes)} pipelines")
        from ..pipeline.replay.rewinding import rewind

        for pipe, data in zip(self._pipes, saved, strict=True):
            rewind(pipe, data.encode() if isinstance(data, str) else data)
        self._forget()
        self._epochs = self._new_epochs()
        self._epoch, self._ended, self._used = 0, False, False
        self._restore()

    def _restore(self) -> bool:
        """Load the iterator's state from the checkpoints that the pipelines were built with. Returns whether there were any."""
        restored = [pipe for pipe in self._pipes if pipe.is_restored_from_checkpoint]
        if not restored:
            return False
        states = [feed.session.delivery.iterator_data for feed in self._feeds]
        if len(restored) != len(self._pipes) or not isinstance(states[0], dict) or any(state != states[0] for state in states):
            log.warning(
                "the pipelines of this iterator were not all restored from checkpoints of one iterator (taken with its checkpoints()): "
                "so its epochs may end after other batches"
            )
            return True
        try:
            self._load_state(states[0])
        except ValueError as error:
            raise CheckpointError(f"the checkpoint is of an iterator with other arguments: {error}") from error
        return True

    def _load_state(self, state: dict[str, Any]) -> None:
        """Return to the position that :meth:`_place` gave. ValueError if that is impossible."""
        if "_counter" in state:  # an iterator of DALI
            self._epoch, self._ended, self._used = 0, False, self._epochs.load_of_dali(state)
            return
        self._epochs.load(state)
        self._epoch = epoch_of(state)
        self._ended, self._used = bool(state.get("ended")), bool(state.get("used"))
        fields = state.get("fields", {})
        if not isinstance(fields, dict):
            raise ValueError(f"the iterator's fields are {fields!r}")
        self._set_own_fields(fields)


class _Lost(Exception):
    """An iteration failed with `error`."""

    def __init__(self, error: Exception):
        super().__init__(str(error))
        self.error = error


class _Feed:
    """Reads one pipeline, one batch at a time. The pipeline's queue stays full while the consumer works."""

    def __init__(self, pipe: Pipeline, stream: Callable[[int], int | None]):
        """`stream`: the consumer's stream on a GPU, see :meth:`BaseIterator._stream`."""
        from ..pipeline.debug.debug_pipeline import DebugPipeline

        self._pipe = pipe
        self._core = core_of(pipe)
        self._stream = stream
        self._debug = isinstance(pipe, DebugPipeline)
        self._kept: tuple[int, Record | None, Any] | None = None  # an iteration: its number for the iterator, its record, and its result
        self._before: Mark | None = None  # the pipeline's position before the result that is kept
        pipe.build()

    @property
    def session(self) -> Session:
        return self._core.built()

    def _consumer(self, session: Session) -> int | None:
        """The stream that outputs are ordered on. None: outputs must be complete."""
        if session.gpu is None or not self._pipe.exec_dynamic:  # only the default executor returns incomplete outputs
            return None
        return self._stream(session.gpu.index)

    def output_count(self) -> int | None:
        """Number of outputs of the pipeline. None if it is unknown before the pipeline runs."""
        return None if self._debug else self._pipe.num_outputs

    def fill(self, number: int) -> None:
        """Fetch iteration `number` of the iterator, if it is not here: its outputs, or its error if it failed.

        Raises StopIteration, and the errors of sources. A source that raised an error has not moved on.
        """
        if self._kept is not None and self._kept[0] == number:
            if self._kept[1] is not None:  # after an interrupt
                self.session.delivery.drop(self._kept[1])
                self._refill(self.session)
            return
        if self._debug:
            self._kept = number, None, self._pipe.run()
            return
        self._core.refuse_in_callbacks("next() of an iterator")
        self._core.use_api(PipelineAPIType.ITERATOR)
        session = self.session
        if not session.in_flight and session.producer.failure is None:
            self._core.fill(session)
        if self._core.options.enable_checkpointing:
            self._before = session.delivery.mark(queues_after=True)
        session.delivery.hand_over(self._consumer(session), functools.partial(self._keep, number))
        self._refill(session)

    def _refill(self, session: Session) -> None:
        """Queue the next iteration, if it is not queued: a source that has ended is to be known before the batch is returned."""
        self._core.fill(session)
        session.producer.wait_without_frames()

    def _keep(self, number: int, record: Record, result: object) -> None:
        self._kept = number, record, result

    @property
    def result(self) -> Any:
        """The result that :meth:`fill` has fetched."""
        assert self._kept is not None
        return self._kept[2]

    def ends_short(self, batch_size: int) -> bool:
        """Whether the result is the last batch of an epoch of select or mix, and is not full."""
        if self._debug or not self._core.processes.streams or not isinstance(self.result, tuple):
            return False
        last = self.session.producer.ended and not self.session.in_flight
        return last and any(len(output) < batch_size for output in self.result)

    def release(self) -> None:
        """Forget the result, but not that it was fetched. May be repeated."""
        if self._kept is not None:
            self._kept = self._kept[0], self._kept[1], None

    def clear(self) -> None:
        """Forget the iteration."""
        self._kept = None

    def drained(self, number: int) -> bool:
        """Whether the sources have ended and there is no iteration `number` of the iterator in this epoch."""
        if self._debug or (self._kept is not None and self._kept[0] == number):
            return False
        return self.session.producer.ended and not self.session.in_flight

    def reset(self) -> None:
        """Begin the next epoch: sources that have ended start again."""
        self._pipe.reset()

    def start(self) -> None:
        """Fill the queue if it is empty."""
        if not self._debug and not self.session.in_flight:
            self._core.use_api(PipelineAPIType.ITERATOR)
            self._refill(self.session)

    def mark(self, number: int) -> Mark:
        """The position of the pipeline's consumer, who has not seen iteration `number` yet."""
        if self._kept is not None and self._kept[0] == number and self._before is not None:
            return self._before
        return self.session.delivery.mark(queues_after=True)


# --- arguments


def _pipelines(pipelines: Any) -> list[Any]:
    from ..pipeline import Pipeline

    found = [pipelines] if isinstance(pipelines, Pipeline) else list(pipelines)
    if not found:
        raise ArgumentsError("an iterator needs at least one pipeline")
    for item in found:
        if not isinstance(item, Pipeline):
            raise TypeError(f"an iterator runs pipelines, got {type(item).__name__}")
    return found


def _checked_auto_reset(value: object) -> bool:
    if not isinstance(value, (bool, str, type(None))) or value not in _RESETS:
        raise ValueError(f"Unsupported value for `auto_reset`: {value!r}; allowed are True, 'yes', False, 'no' and None")
    return _RESETS[value]


def _checked_policy(policy: object, fill_last_batch: bool | None) -> LastBatchPolicy:
    if not isinstance(policy, LastBatchPolicy):
        raise ValueError(f"`last_batch_policy` must be a LastBatchPolicy, got {type(policy).__name__} {policy!r}")
    if fill_last_batch is None:
        return policy
    warn("`fill_last_batch` is called last_batch_policy now: FILL for True, PARTIAL for False", DeprecationWarning)
    return LastBatchPolicy.FILL if fill_last_batch else LastBatchPolicy.PARTIAL


def _check_size(size: object, reader_name: str | None, padded: bool, pipelines: int) -> None:
    if not isinstance(size, int) or isinstance(size, bool) or size == 0:
        raise ArgumentsError(f"size is a number of samples, or -1 if it is not known; got {size!r}")
    if reader_name is not None:
        if size != -1:
            raise ArgumentsError("give `size` or `reader_name`, not both: the reader knows its size")
        if padded:
            raise ArgumentsError("give `last_batch_padded` or `reader_name`, not both: the reader knows whether it pads")
    elif size < 0 and pipelines > 1:
        raise ArgumentsError("several pipelines need `reader_name` or a `size`: their sources could not end an epoch together")


def _shared(owners: Sequence[Any], name: str, what: str) -> Any:
    values = [getattr(owner, name) for owner in owners]
    if len(set(values)) > 1:
        raise ArgumentsError(f"All wrapped pipelines must have the same {what}, got {values}")
    return values[0]


def _checked_names(pipes: Sequence[Pipeline], output_map: Sequence[str] | None) -> list[str]:
    if output_map is None:
        names = pipes[0].output_names
        if names is None or any(pipe.output_names != names for pipe in pipes):
            raise ValueError("output_map is missing; it may be omitted only if the graph function returns a dict")
        return list(names)
    if isinstance(output_map, str) or not all(isinstance(name, str) for name in output_map):
        raise TypeError(f"output_map must be a list of names, got {output_map!r}")
    if len(set(output_map)) != len(output_map):
        raise ArgumentsError(f"output_map names should be distinct, got {list(output_map)}")
    return list(output_map)


def _reader_epochs(pipes: Sequence[Pipeline], reader: str, batch_size: int, policy: LastBatchPolicy) -> ReaderEpochs:
    if any(reader in core.built().reader_metas() for pipe in pipes for core in core_of(pipe).processes.streams.cores()):
        raise ValueError(
            f"the reader {reader!r} is before fn.experimental.select, mix, batch_by or ready, so its size says nothing about the number of "
            "batches. Leave out `reader_name` and `size`: the pipeline itself ends the epochs."
        )
    metas = [pipe.reader_meta(reader) for pipe in pipes]
    for key, what in _SHARED_META.items():
        found = [meta[key] for meta in metas]
        if len(set(found)) > 1:
            raise ArgumentsError(f"the readers {reader!r} of the pipelines differ in {what}: {found}")
    first = metas[0]
    return ReaderEpochs(
        shard_sizes(first["epoch_size"], first["number_of_shards"]), [meta["shard_id"] for meta in metas], batch_size, policy,
        bool(first["pad_last_batch"]), bool(first["stick_to_shard"]),
    )  # fmt: skip


_SHARED_META = {
    "epoch_size": "the size of the data set", "number_of_shards": "the number of shards", "pad_last_batch": "pad_last_batch",
    "stick_to_shard": "stick_to_shard",
}  # fmt: skip


_DaliBaseIterator = BaseIterator
"""The name that programs written for DALI derive from."""
