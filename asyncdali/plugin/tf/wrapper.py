"""DALIIterator: batches of a pipeline as tensors, one call at a time. For programs written before data sets."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
from asyncdali_workers.interrupts import raised_by_signal, uninterrupted

from ...pipeline import Pipeline
from ...pipeline.front import core_of
from ...runtime.order.claims import take_next
from ...types import PipelineAPIType
from .calls import call
from .signature import Signature, arrays_of

MIN_TENSORFLOW_VERSION = "2.16"


def serialize_pipeline(pipeline: Pipeline) -> bytes:
    """The bytes of a pipeline; RuntimeError where it holds Python functions."""
    try:
        return pipeline.serialize()
    except RuntimeError as error:
        raise RuntimeError(f"the pipeline cannot be serialized: {error}") from error


class _Iterator:
    """A :func:`DALIIteratorWrapper` with its own pipelines, which end with this object."""

    def __init__(self) -> None:
        self._sources: dict[Any, _Source] = {}

    def __call__(
        self, pipeline: Pipeline | None = None, serialized_pipeline: bytes | None = None, sparse: Sequence[bool] = (),
        shapes: Sequence[Any] = (), dtypes: Sequence[tf.DType] = (), batch_size: int = -1, prefetch_queue_depth: object = 2,
        exec_dynamic: bool | None = None, **kwargs: object,
    ) -> list[Any]:  # fmt: skip
        """See :func:`DALIIteratorWrapper`."""
        if serialized_pipeline is None:
            if pipeline is None:
                raise ValueError("give `pipeline` or `serialized_pipeline`")
            serialized_pipeline = serialize_pipeline(pipeline)
        if not len(shapes) and batch_size <= 0:
            raise ValueError("give `shapes` of the outputs, or `batch_size`")
        if exec_dynamic and isinstance(prefetch_queue_depth, dict):
            raise ValueError("exec_dynamic=True has a single queue, so prefetch_queue_depth must be a number")
        options = {"prefetch_queue_depth": prefetch_queue_depth, **kwargs}
        if exec_dynamic is not None:
            options["exec_dynamic"] = exec_dynamic
        if batch_size > 0:
            options["batch_size"] = batch_size
        return self._running(serialized_pipeline, options).tensors(list(sparse), list(shapes), list(dtypes))

    def _running(self, serialized: bytes, options: dict[str, Any]) -> _Source:
        key = serialized, repr(sorted(options.items()))
        if key not in self._sources:
            self._sources[key] = _Source(Pipeline.deserialize(serialized, **options))
        return self._sources[key]


_shared = _Iterator()


def DALIIteratorWrapper(*args: Any, **kwargs: Any) -> list[Any]:
    """The next batch of a pipeline: a list of tensors, SparseTensors for outputs with `sparse`.

    - pipeline or serialized_pipeline: the pipeline is copied. Equal bytes and options share one copy, which runs until the program ends.
    - sparse, shapes, dtypes: one value per output. Without `shapes`, `batch_size` is needed. Missing dtypes are found out.
    - prefetch_queue_depth, exec_dynamic, further keyword arguments: options of the copy.

    In graph mode each evaluation of the result gives another batch. Raises ValueError for arguments that contradict each other,
    tf.errors.OutOfRangeError at the end of the data.
    """
    return _shared(*args, **kwargs)


class _Source:
    """A pipeline that runs for all iterators over it."""

    def __init__(self, pipeline: Pipeline):
        self._pipeline, self._core = pipeline, core_of(pipeline)
        self._first: list[Any] | None = None  # the next batch, if it is here
        self._lock = threading.RLock()

    def _peek(self) -> list[Any]:
        if self._first is None:
            session, core = self._core.enter("run()", PipelineAPIType.BASIC), self._core
            try:
                self._first = take_next(session, core.fill_awaited, None, arrays_of)  # an interrupt leaves the batch to the next call
            except StopIteration as end:
                raise tf.errors.OutOfRangeError(None, None, "the pipeline has no more data") from end
        return self._first

    def _next(self, made: Callable[[list[Any]], list[Any]]) -> list[Any]:
        """The result of `made` for the next batch. The last step takes the batch: after an interrupt before it, the next call gets it."""
        while True:
            with self._lock:
                batch = self._peek()
            try:
                value = made(batch)
            except Exception as error:
                if not raised_by_signal(error) and self._first is batch:
                    self._first = None
                raise
            if self._first is batch:  # or another thread has taken it
                self._first = None
                return value

    def tensors(self, sparse: list[bool], shapes: list[Any], dtypes: list[Any]) -> list[Any]:
        signature = Signature(self._pipeline, tuple(dtypes) or None, tuple(shapes) or None, self._peek)

        def checked() -> list[Any]:
            with call():
                return self._next(signature.checked)

        def tensors_of(arrays: Sequence[Any]) -> list[Any]:
            return [tf.sparse.from_dense(tensor) if k < len(sparse) and sparse[k] else tensor for k, tensor in enumerate(arrays)]

        def constants(arrays: list[Any]) -> list[Any]:
            with uninterrupted():  # TensorFlow's C code turns an exception of a handler into a SystemError
                return tensors_of([tf.constant(array) for array in signature.checked(arrays)])

        if tf.executing_eagerly():
            return self._next(constants)
        made = tf.numpy_function(checked, [], signature.dtypes)
        for tensor, shape in zip(made, signature.shapes, strict=True):
            tensor.set_shape(shape)
        return tensors_of(made)


def DALIIterator() -> _Iterator:
    """A callable with the arguments of :func:`DALIIteratorWrapper`. Its pipelines end with it."""
    return _Iterator()


def DALIRawIterator() -> _Iterator:
    """The same as :func:`DALIIterator`. No TensorFlow operator is used."""
    return _Iterator()


def dataset_compatible_tensorflow() -> bool:
    """Whether this TensorFlow can run ``DALIDataset``: always True where the plugin can be imported."""
    return True


def dataset_inputs_compatible_tensorflow() -> bool:
    """Whether this TensorFlow can run ``experimental.DALIDatasetWithInputs``: always True."""
    return True


def dataset_distributed_compatible_tensorflow() -> bool:
    """Whether ``DALIDataset`` works in ``tf.distribute`` strategies: always True."""
    return True


def dataset_options() -> tf.data.Options:
    """Options for data sets of pipelines.

    They turn off TensorFlow's default optimizations and autotuning, as the pipeline does this work.
    """
    options = tf.data.Options()
    options.experimental_optimization.apply_default_optimizations = False
    options.autotune.enabled = False
    return options
