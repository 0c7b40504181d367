"""DALIDataset: a pipeline of readers as a tf.data.Dataset."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import tensorflow as tf

from ...messages.notices import warn
from ...pipeline import Pipeline
from ...pipeline.front import core_of
from .calls import call
from .cursors import Cursors
from .signature import Signature

_ENDLESS = 2**62


class PipelineDataset(tf.data.Dataset):
    """A data set under another name. If an iterator over it cannot be saved, the iterator says why."""

    def __init__(self, inner: tf.data.Dataset, why_not_saved: str | None):
        self._inner = inner
        self._why_not_saved = why_not_saved
        super().__init__(inner._variant_tensor)

    def _inputs(self) -> list[tf.data.Dataset]:
        return [self._inner]

    @property
    def element_spec(self) -> Any:
        """TensorSpecs of an element."""
        return self._inner.element_spec

    def __iter__(self) -> Any:
        iterator = super().__iter__()
        iterator._asyncdali_dataset = self  # the pipelines live while an iterator reads
        why = self._why_not_saved
        if why is not None and hasattr(iterator, "_serialize_to_tensors"):

            def refuse(*_: object) -> Any:
                raise tf.errors.UnimplementedError(None, None, why)

            iterator._serialize_to_tensors = refuse
        return iterator


class DALIDataset(PipelineDataset):
    """An endless data set of a pipeline's batches: readers start again after their last sample. Use ``take`` or ``steps_per_epoch``.

    Args:
        pipeline: the graph and options are copied, and each iterator runs its own pipeline. External sources raise ValueError (see
            ``experimental.DALIDatasetWithInputs``). Python functions cannot be copied and raise RuntimeError.
        output_dtypes: a tf.DType per output. None: the types that the pipeline declares, or those of its first batch.
        output_shapes: a shape [samples, ...] per output. None: the ranks are found out. Every batch is checked against declared shapes.
        fail_on_device_mismatch: True: a pipeline with outputs on a GPU raises ValueError if the data set is made under
            ``tf.device("/cpu:0")``. False: no such check. Elements are always in the memory of the CPU; TensorFlow copies them to where
            they are used. On a machine without a GPU they come from the host device.
        batch_size, num_threads, device_id, exec_separated, exec_dynamic, prefetch_queue_depth, cpu_prefetch_queue_depth,
            gpu_prefetch_queue_depth: replace the pipeline's own options.
        dtypes, shapes: deprecated names of output_dtypes, output_shapes. Lists become tuples.

    With ``enable_checkpointing``, ``tf.train.Checkpoint`` can save iterators, and they continue exactly in another process: element n is a
    function of (seed, n). This also holds for iterators over data sets derived with ``map``, ``prefetch`` and so on. A seed is required
    (ValueError without it). Without ``enable_checkpointing`` TensorFlow raises an error on saving: UnimplementedError, or
    FailedPreconditionError "PyFunc is stateful" for derived data sets.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        output_dtypes: object = None,
        output_shapes: object = None,
        fail_on_device_mismatch: bool = True,
        *,
        batch_size: int | None = None,
        num_threads: int | None = None,
        device_id: int | None = None,
        exec_separated: bool | None = None,
        exec_dynamic: bool | None = None,
        prefetch_queue_depth: int | None = None,
        cpu_prefetch_queue_depth: int | None = None,
        gpu_prefetch_queue_depth: int | None = None,
        dtypes: object = None,
        shapes: object = None,
    ):
        output_dtypes = _renamed("dtypes", dtypes, "output_dtypes", output_dtypes)
        output_shapes = _renamed("shapes", shapes, "output_shapes", output_shapes)
        if not isinstance(pipeline, Pipeline):
            raise TypeError(f"DALIDataset is made of a pipeline, got {type(pipeline).__name__}")
        overrides = pipeline_overrides(
            pipeline, exec_separated, prefetch_queue_depth, cpu_prefetch_queue_depth, gpu_prefetch_queue_depth,
            batch_size=batch_size, num_threads=num_threads, device_id=device_id, exec_dynamic=exec_dynamic,
        )  # fmt: skip
        if _has_inputs(pipeline):
            raise ValueError("the pipeline has external sources: DALIDataset cannot run them, use experimental.DALIDatasetWithInputs")
        serialized, names = pipeline.serialize(), pipeline.output_names

        def make() -> Pipeline:
            made = Pipeline.deserialize(serialized, allow_write=None, **overrides)  # it is the user's own
            made.output_names = names
            made.build()
            return made

        first = make()
        why = _why_not_saved(first)
        if why is None and core_of(first).options.seed is None:
            raise ValueError("enable_checkpointing needs a pipeline with a `seed`: another process would draw another seed")
        check_device(first, fail_on_device_mismatch)
        cursors = Cursors(make)
        signature = Signature(first, output_dtypes, output_shapes, cursors.peek_first)
        first.close()
        with tf.device("/cpu:0"):  # the functions in it are Python's, whatever device the caller uses
            super().__init__(_positions(cursors, signature, saved=why is None), why)
        # The data set owns the pipelines. A function that TensorFlow calls could not own them, because TensorFlow never releases it.
        weakref.finalize(self, cursors.release).atexit = False  # not needed at exit: the pipelines close themselves


def _renamed(old: str, value: object, new: str, given: object) -> object:
    """The value of an argument that also has a deprecated name. ValueError if both are given."""
    if value is None:
        return given
    if given is not None:
        raise ValueError(f"{old!r} is a deprecated name of {new!r}; give only {new!r}")
    warn(f"the argument {old!r} of DALIDataset is called {new!r} now", Warning)
    return tuple(value) if isinstance(value, list) else value


def _positions(cursors: Cursors, signature: Signature, saved: bool) -> tf.data.Dataset:
    """A stateless map from position to batch, so that an iterator saves only its position."""

    def batch(position: Any) -> list[np.ndarray]:
        with call():
            return signature.checked(cursors.batch(int(position)))

    def element(position: tf.Tensor) -> Any:
        tensors = tf.numpy_function(batch, [position], signature.dtypes, stateful=not saved)
        for tensor, shape in zip(tensors, signature.shapes, strict=True):
            tensor.set_shape(shape)
        return signature.element(tensors)

    # The data set has 2^62 elements. Keras and others need to see that it is infinite.
    endless = tf.data.experimental.assert_cardinality(tf.data.INFINITE_CARDINALITY)
    return tf.data.Dataset.range(_ENDLESS).map(element).apply(endless)


def pipeline_overrides(
    pipeline: Pipeline, exec_separated: bool | None, depth: int | None, cpu_depth: int | None, gpu_depth: int | None, **options: object
) -> dict[str, Any]:
    """The given pipeline options that are not None, to override the pipeline's own."""
    overrides = {name: value for name, value in options.items() if value is not None}
    if exec_separated:
        default = depth or 2
        overrides["prefetch_queue_depth"] = {"cpu_size": cpu_depth or default, "gpu_size": gpu_depth or default}
    elif cpu_depth is not None or gpu_depth is not None:
        raise ValueError("cpu_prefetch_queue_depth and gpu_prefetch_queue_depth are for exec_separated=True")
    elif depth is not None:
        overrides["prefetch_queue_depth"] = depth
    return overrides


def check_device(pipeline: Pipeline, fails: bool) -> None:
    """ValueError (if `fails`) for a pipeline with outputs on a GPU under a ``tf.device`` that names the CPU.

    Without a ``tf.device`` TensorFlow chooses the device, so programs that name none are accepted.
    """
    on_gpu = outputs_on_gpu(pipeline)
    if on_gpu and fails and "CPU" in _device_of_scope().upper():
        raise ValueError(
            f"outputs {on_gpu} of the pipeline are on a GPU, and tf.device puts the data set on the CPU: make it under "
            "`with tf.device(\"/gpu:0\"):` or without tf.device, use .cpu() in the graph, or fail_on_device_mismatch=False"
        )


def _device_of_scope() -> str:
    """The device that ``tf.device`` names; "" without one. A tensor's device is no answer: without a GPU the tensor is on the CPU."""
    if not tf.executing_eagerly():
        return str(tf.no_op().device)
    from tensorflow.python.eager import context  # TensorFlow has no public name for it

    return context.context().device_name or ""


def outputs_on_gpu(pipeline: Pipeline) -> list[int]:
    """Numbers of the outputs on a GPU."""
    return [k for k, node in enumerate(core_of(pipeline).output_nodes()) if node.device == "gpu"]


def _why_not_saved(pipeline: Pipeline) -> str | None:
    if not core_of(pipeline).options.enable_checkpointing:
        return "this iterator cannot be saved: its pipeline has no enable_checkpointing=True"
    if outputs_on_gpu(pipeline):
        return "this iterator cannot be saved: checkpointing is not supported for pipelines with outputs on a GPU"
    return None


def _has_inputs(pipeline: Pipeline) -> bool:
    from ...graph.plan import reachable
    from ...operators.base import Role

    core = core_of(pipeline)
    nodes = reachable(core.output_nodes(), core.definition.instances).order
    return any(item.schema.role is Role.INPUT for item in nodes)
