"""DALIDatasetWithInputs: pipelines with external inputs, fed by other data sets."""

from __future__ import annotations

import itertools
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from ...pipeline import Pipeline
from ...pipeline.front import core_of
from ...pipeline.replay.rewinding import restart
from ..feeding import fed_inputs, feed_and_launch
from .calls import call
from .dataset import PipelineDataset, check_device
from .signature import Signature, arrays_of

_WHY = "this iterator cannot be saved: checkpointing is not supported for DALI datasets with inputs"


@dataclass(frozen=True)
class Input:
    """A data set for an input of a pipeline.

    Attributes:
        dataset: its elements are samples, or batches.
        layout: of the samples.
        batch: True: elements are batches [samples, ...]. False: elements are single samples, and the pipeline's batch size of them make a
            batch.
    """

    dataset: tf.data.Dataset
    layout: str | None = None
    batch: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.dataset, tf.data.Dataset):
            raise TypeError(f"an input is a tf.data.Dataset, got {type(self.dataset).__name__}")
        spec = self.dataset.element_spec
        if not isinstance(spec, tf.TensorSpec):
            raise TypeError(f"elements of an input's data set must be single tensors, these are {spec}")


class DALIDatasetWithInputs(PipelineDataset):
    """Batches of a pipeline whose inputs (external sources without a `source`) are fed by data sets, until one of the data sets ends.

    Args:
        pipeline: is run itself, not copied: only one iterator at a time, and each iterator starts the pipeline again. Its sources are read,
            too.
        input_datasets: {name of the input: tf.data.Dataset or :class:`Input`}.
        output_dtypes, output_shapes, fail_on_device_mismatch: as for DALIDataset. Types that the pipeline does not declare are required.

    Iterators cannot be saved. Raises TypeError and ValueError for inputs that are missing, unknown or not data sets.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        output_dtypes: object = None,
        output_shapes: object = None,
        fail_on_device_mismatch: bool = True,
        *,
        input_datasets: Mapping[str, tf.data.Dataset | Input] | None = None,
    ):
        if not isinstance(pipeline, Pipeline):
            raise TypeError(f"DALIDatasetWithInputs is made of a pipeline, got {type(pipeline).__name__}")
        inputs = {name: item if isinstance(item, Input) else Input(item) for name, item in (input_datasets or {}).items()}
        wanted = set(fed_inputs(pipeline))
        if inputs.keys() != wanted:
            missing, unknown = sorted(wanted - inputs.keys()), sorted(inputs.keys() - wanted)
            raise ValueError(f"input_datasets: missing for the inputs {missing}, unknown to the pipeline {unknown}")
        check_device(pipeline, fail_on_device_mismatch)
        signature = Signature(pipeline, output_dtypes, output_shapes, _not_declared)
        self._runs = _Runs(pipeline, inputs, signature)
        with tf.device("/cpu:0"):  # the functions in it are Python's, whatever device the caller uses
            generated = tf.data.Dataset.from_generator(_called(weakref.ref(self._runs)), output_signature=tuple(signature.specs))
            super().__init__(generated.map(lambda *tensors: signature.element(tensors)), _WHY)


def _not_declared() -> list[np.ndarray]:
    raise ValueError(
        "give output_dtypes and output_shapes (or declare output_dtype and output_ndim of the pipeline): this data set does not run the "
        "pipeline to find out types and shapes"
    )


def _called(runs: weakref.ref[_Runs]) -> Callable[[], Iterator[tuple[np.ndarray, ...]]]:
    """The function that TensorFlow gets and never releases. It must not keep the pipeline alive after the data set."""

    def started() -> Iterator[tuple[np.ndarray, ...]]:
        found = runs()
        if found is None:
            raise RuntimeError("the DALIDatasetWithInputs was dropped; keep a reference to it, or to a data set made from it")
        return found()

    return started


class _Runs:
    """Called for each iterator: the batches of the pipeline from its start."""

    def __init__(self, pipeline: Pipeline, inputs: Mapping[str, Input], signature: Signature):
        self._pipeline, self._inputs, self._signature = pipeline, inputs, signature
        self._layouts = {name: item.layout for name, item in inputs.items()}
        self._used = False
        self._lock = threading.Lock()
        self._current: object = None

    def __call__(self) -> Iterator[tuple[np.ndarray, ...]]:
        me = object()
        with self._lock:
            self._current = me
            if self._used:
                restart(self._pipeline)
            self._used = True
        sources = {name: _batches(item, int(self._pipeline.max_batch_size or 1)) for name, item in self._inputs.items()}
        fed: deque[None] = deque()
        ended = False
        while True:
            with call(), self._lock:
                if self._current is not me:
                    raise RuntimeError(
                        "another iterator over this DALIDatasetWithInputs was started; only one can be active, because the data set has "
                        "one pipeline"
                    )
                while not ended and len(fed) < core_of(self._pipeline).options.depth:
                    data = {name: next(source, None) for name, source in sources.items()}
                    if any(batch is None for batch in data.values()):
                        ended = True
                        break
                    feed_and_launch(self._pipeline, data, self._layouts)
                    fed.append(None)
                if not fed:
                    return
                fed.popleft()
                try:
                    outputs = core_of(self._pipeline).built().delivery.fetch()
                except StopIteration:  # one of the pipeline's own sources ended
                    return
            yield tuple(self._signature.checked(arrays_of(outputs)))


def _batches(item: Input, size: int) -> Iterator[Any]:
    """Convert batches to the form that the pipeline takes."""
    elements = item.dataset.as_numpy_iterator()
    if item.batch:
        yield from elements
        return
    while samples := list(itertools.islice(elements, size)):
        yield samples
