"""Attributes of iterators with an underscore: programs written for DALI read, set or call them, although DALI does not document them.

Copies of DALI's `__next__` call `_first_batch`, `_get_outputs`, `_schedule_runs`, `_advance_and_check_drop_last` and `_remove_padded`, in
this order.
"""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from ..pipeline.front import core_of
from ..plugin.epochs import LastBatchPolicy, ReaderEpochs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..pipeline import Pipeline
    from ..plugin.epochs import OpenEpochs
    from ..runtime.order.delivery import Mark


class IteratorDaliNames:
    """Base of :class:`~asyncdali.plugin.base_iterator.BaseIterator`."""

    _pipes: list[Pipeline]
    _epochs: OpenEpochs
    _count: int
    _ready: list[Any] | None
    _marks: list[Mark] | None
    _first_value: Any = None
    """A batch that a program set as `_first_batch`, or the prepared batch after a program has read it there."""
    _ever_consumed: bool = False
    """Whether a batch was taken."""

    if TYPE_CHECKING:
        @property
        def size(self) -> int: ...

        batch_size: int
        output_map: list[str]
        _policy: LastBatchPolicy
        _padded: bool
        _resets_itself: bool
        _checkpointing: bool
        _reader_name: str | None
        _used: bool

        def _take(self) -> list[object]: ...
        def _delivered(self, outputs: list[object], keep: list[int] | None) -> object: ...
        def _check_full(self, results: list[object]) -> None: ...
        def _end(self) -> None: ...
        def _place(self) -> tuple[dict[str, Any], list[Mark]]: ...
        def _load_state(self, state: dict[str, object]) -> None: ...

    # --- arguments

    _size = property(lambda self: self.size, doc="As `size`.")
    _num_gpus = property(lambda self: len(self._pipes), doc="The number of pipelines.")
    _output_categories = property(lambda self: set(self.output_map), doc="The names of the outputs.")
    _auto_reset = property(lambda self: "yes" if self._resets_itself else "no", doc='"yes" or "no".')
    _last_batch_policy = property(lambda self: self._policy, doc="As given.")
    _enable_checkpointing = property(lambda self: self._checkpointing, doc="The batch size of the pipelines.")

    @property
    def _last_batch_padded(self) -> bool:
        """Whether the last batch of an epoch is padded, by the reader or by the argument."""
        return self._reader().padded if self._reader_name is not None else self._padded

    # --- with `reader_name`; AttributeError without it

    def _reader(self) -> ReaderEpochs:
        if not isinstance(self._epochs, ReaderEpochs):
            raise AttributeError(f"only a {type(self).__name__} with `reader_name` has shards")
        return self._epochs

    _is_stick_to_shard = property(lambda self: self._reader().sticks, doc="Whether each reader reads the same shard in every epoch.")
    _shards_num = property(lambda self: len(self._reader().shards), doc="The number of shards.")
    _size_no_pad = property(lambda self: sum(self._reader().shards), doc="Samples of the data set.")
    _shards_id = property(lambda self: np.array(self._reader().current_ids()), doc="The shard of each pipeline in this epoch.")
    _shard_sizes_per_gpu_initial = property(lambda self: np.array(self._reader().shards), doc="Samples of all shards.")

    @property
    def _shard_sizes_per_gpu(self) -> np.ndarray:
        """Samples of the current shards of readers that began with shard 0, 1, ... The order covers all shards, unless batches extend
        into the next epoch."""
        reader = self._reader()
        return np.array(reader.current_sizes() if reader.continues else reader.shards)

    @property
    def _counter_per_gpu(self) -> np.ndarray:
        """How many samples of these shards the previous epoch has delivered."""
        return np.array(self._reader().delivered)

    # --- the iterator's position

    @property
    def _counter(self) -> int:
        """Samples taken in this epoch, including the prepared batch. With `reader_name`, those of one pipeline."""
        return self._epochs.counter + (self._epochs.step if self._ready is not None else 0)

    @_counter.setter
    def _counter(self, value: int) -> None:
        self._epochs.counter = int(value) - (self._epochs.step if self._ready is not None else 0)

    @property
    def _ever_scheduled(self) -> bool:
        """Whether the pipelines were started."""
        sessions = [core_of(pipe).session for pipe in self._pipes]
        return any(session is not None and session.producer.launched > 0 for session in sessions)

    @property
    def _first_batch(self) -> object:
        """The prepared batch, as `next` returns it. None if there is none.

        A program may set None after it has taken the batch, or set a batch that `next` returns first.
        """
        if self._first_value is None and self._ready is not None:
            self._first_value = self._delivered(self._ready, copy.copy(self._epochs).advance())
        return self._first_value

    @_first_batch.setter
    def _first_batch(self, batch: object) -> None:
        if self._ready is not None:  # the program took the batch
            self._taken()
            self._epochs.advance()
        self._first_value = batch

    def _taken(self) -> None:
        """Count a batch as delivered to the consumer."""
        self._used = self._ever_consumed = True
        self._count, self._ready, self._marks, self._first_value = self._count + 1, None, None, None

    # --- state

    def _checkpointed_fields(self) -> list[tuple[str, object]]:
        """(name, type) of the attributes that checkpoints contain besides the iterator's own epoch state. Subclasses may override this and
        add their attributes. Values must be JSON data or NumPy arrays."""
        numbers = (np.ndarray, np.int64)
        shards = ["_counter_per_gpu", "_shard_sizes_per_gpu", "_shards_id"] if isinstance(self._epochs, ReaderEpochs) else []
        return [("_counter", np.int64), *((name, numbers) for name in shards), ("_size", None)]

    def _own_fields(self) -> dict[str, object]:
        """The values of the fields that a subclass has added."""
        known = {"_counter", "_counter_per_gpu", "_shard_sizes_per_gpu", "_shards_id", "_size"}
        return {name: _plain(getattr(self, name)) for name, _ in self._checkpointed_fields() if name not in known and hasattr(self, name)}

    def _set_own_fields(self, values: dict[str, object]) -> None:
        kinds = dict(self._checkpointed_fields())
        for name, value in values.items():
            if name in kinds:
                setattr(self, name, _of_kind(value, kinds[name]))

    def _save_state(self) -> str:
        """The iterator's part of a checkpoint, as JSON."""
        fields = {name: _plain(getattr(self, name)) for name, _ in self._checkpointed_fields() if hasattr(self, name)}
        return json.dumps({**fields, "asyncdali": self._place()[0]})

    def _restore_state(self, iterator_data: str) -> None:
        """Load what `_save_state` returned. The pipelines keep their positions. ValueError for a text that is not such a state."""
        try:
            own = json.loads(iterator_data)["asyncdali"]
        except (TypeError, KeyError, json.JSONDecodeError) as error:
            raise ValueError("_restore_state takes the text that _save_state() of an asyncdali iterator returned") from error
        self._load_state(own)

    def _report_no_data_in_pipeline(self) -> NoReturn:
        """Raise RuntimeError: the pipelines have no data for this epoch."""
        raise RuntimeError(
            "there is no data in the pipeline: with last_batch_policy DROP or PARTIAL a batch may be larger than the shard of a reader"
        )

    # --- the steps of `next`

    def _get_outputs(self) -> list[object]:
        """The next outputs of every pipeline, one tuple each: the prepared batch, unless it was taken.

        StopIteration at the end of the epoch, and before a batch that is dropped.
        """
        return self._take()

    def _schedule_runs(self, release_outputs: bool = True) -> None:
        """Queue iterations where the queue is empty. Pipelines queue the next iteration when outputs are taken.

        Outputs stay valid while they are referenced, also with `release_outputs`.
        """
        for pipe in self._pipes:
            core = core_of(pipe)
            if core.session is not None and not core.session.in_flight:
                core.schedule(core.session)

    def _advance_and_check_drop_last(self, dry_run: bool = False, end_iteration: bool = True) -> bool:
        """Count the batch that `_get_outputs` returned. With `dry_run` the counters do not change.

        Returns whether the next batch of the epoch is dropped. `end_iteration` has no effect, because a dropped batch is never returned.
        """
        epochs = self._epochs
        if not dry_run:
            epochs.advance()
        return self._policy is LastBatchPolicy.DROP and epochs.full_batches and self._counter + epochs.step > self.size

    def _remove_padded(self) -> tuple[object, object]:
        """Padding of the batch: which pipelines' batches have samples outside the epoch, and how many samples of their shards were left
        before the batch. Two arrays for PARTIAL with `reader_name`; otherwise (False, -1)."""
        if self._policy is not LastBatchPolicy.PARTIAL or self._reader_name is None:
            return False, -1
        left = np.array(self._reader().left_before_last())
        return left < self.batch_size, left

    def _end_iteration(self) -> NoReturn:
        """End the epoch: StopIteration."""
        self._end()
        raise AssertionError("`_end` always raises")

    def _check_batch_size(self, outs: Sequence[object]) -> None:
        """ValueError if a batch has another size than `batch_size`, where all must have this size."""
        if self._epochs.full_batches:
            self._check_full(list(outs))


def _plain(value: object) -> object:
    """A value as JSON data."""
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value


def _of_kind(value: Any, kind: Any) -> Any:
    """Convert JSON data to the type that `_checkpointed_fields` gives: a type, or (array, element type). None keeps the value."""
    if kind is None:
        return value
    return np.array(value, kind[1]) if isinstance(kind, tuple) else kind(value)
