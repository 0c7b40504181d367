"""python_function and dl_tensor_python_function: the user's Python code in the graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from asyncdali_workers.exceptions import text_of

from ...batch import Batch, from_numpy_dtype
from ...errors import SampleError, because, message_of
from ...tensors.data import Converter, check_ranks, check_types
from ...types import DALIDataType
from ..accepts import ANYTHING, CHOSEN, Output
from ..base import REQUIRED, Arg, Arguments, Environment, Iteration, Operator, Planned, Schema, Spec, register
from ..moves.copy import copied

if TYPE_CHECKING:
    from ...device.cuda.user_arrays import ReturnedArray, UserArrays


class CallbackError(RuntimeError):
    """An exception of the user's function; it is chained."""


WHOLE_BATCH = "its function is called with the whole batch (`batch_processing`)"


def _arguments(batch_processing: bool) -> tuple[Arg, ...]:
    """The arguments of both operators. `batch_processing` has DALI's default."""
    return (
        Arg("function", "any", REQUIRED, "The function: takes one argument per input, returns one result per output (a tuple if several)."),
        Arg("num_outputs", "int", 1, "Number of outputs; 0 for side effects only."),
        Arg(
            "batch_processing", "bool", batch_processing, "Call the function once per batch, with lists of samples; it returns lists.",
        ),
        Arg("output_layouts", "str_list", None, "Layouts of the outputs, in order; a list that is too short leaves the rest without."),
    )


class PythonOperator(Operator):
    """Calls the function during planning: one call at a time, samples and iterations in order."""

    barrier = True
    eager = True
    on_cuda = True
    _waits = False
    """Whether a function's arguments are complete on the GPU when it is called. Otherwise they are ordered on the current stream."""

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        self._function: Callable[..., Any] = spec.constant("function")
        if not callable(self._function):
            raise TypeError(f"`function` must be callable, got {type(self._function).__name__}")
        self._layouts = [*(spec.constant("output_layouts") or []), *[""] * spec.output_count]
        self._converter = Converter(environment.allocate, None, no_copy=False)
        if spec.device == "gpu" and environment.gpu is not None:
            from .python_function_kernels import copy_step

            copy_step.compile()

    @classmethod
    def why_whole(cls, spec: Spec) -> str:
        return WHOLE_BATCH if spec.constant("batch_processing") else ""

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        with self.environment.calling():
            if iteration.stream is None:
                return self._planned(self._results(inputs, arguments.count, self._given))
            assert self.environment.gpu is not None
            arrays = self.environment.gpu.user_arrays(iteration.stream)
            with arrays.current(self._function):
                if self._waits:
                    arrays.wait()
                results = self._results(inputs, arguments.count, lambda batch, k: self._given_on_gpu(arrays, batch, k))
                return self._planned_on_gpu(results, arrays)

    def _planned(self, results: Sequence[object]) -> Planned:
        return Planned([self._laid_out(self._batch(samples), layout) for samples, layout in zip(results, self._layouts)])

    def _planned_on_gpu(self, results: Sequence[object], arrays: UserArrays) -> Planned:
        """Copy the function's results on the stream. Their memory belongs to a framework, which may reuse it immediately."""
        planned = Planned([])
        for samples, layout in zip(results, self._layouts):
            found = self._found(samples, arrays)
            batch = _batch_like(found)
            planned.outputs.append(self._laid_out(batch, layout))
            step = copied(np.array([result.address for result in found], np.int64), batch)
            step.keep = [step.keep, found]
            planned.steps.append(step)
        return planned

    def _found(self, samples: Any, arrays: UserArrays) -> list[ReturnedArray]:
        if self.spec.constant("batch_processing") and not isinstance(samples, (list, tuple)):
            whole = arrays.result(samples)
            if not whole.shape:
                raise ValueError("the Python function returned a scalar; it must return an array whose first axis counts samples")
            return whole.samples()
        found = []
        for k, sample in enumerate(samples):
            try:
                found.append(arrays.result(sample))
            except TypeError as error:
                raise SampleError(k, message_of(error)) from error
        return found

    def _results(self, inputs: list[Batch], count: int, given: Callable[[Batch, int], Any]) -> Sequence[object]:
        """The function's results, one entry per output."""
        columns = [[given(batch, k) for k in range(len(batch))] for batch in inputs]
        if self.spec.constant("batch_processing"):
            results = self._of_batch(self._call(None, columns))
            for number, samples in enumerate(results):
                self._check_count(samples, len(inputs[0]) if inputs else count, number)
            return results
        rows = list(zip(*columns, strict=True)) if inputs else [()] * count
        answers = [self._outputs(self._call(k, row), k) for k, row in enumerate(rows)]
        return [[answer[j] for answer in answers] for j in range(self.spec.output_count)]

    def _given(self, batch: Batch, sample: int) -> np.ndarray:
        """The function's arguments for a sample."""
        return batch.sample(sample)

    def _given_on_gpu(self, arrays: UserArrays, batch: Batch, sample: int) -> object:
        return arrays.array(batch, sample)

    def _call(self, sample: int | None, arguments: Sequence[Any]) -> Any:
        if sample is not None and self.environment.noting is not None:
            self.environment.noting(sample)
        try:
            return self._function(*arguments)
        except Exception as error:
            text = f"the Python function raised {type(error).__name__}: {text_of(error)}"
            if sample is None:
                raise CallbackError(text) from error
            raise SampleError(sample, text) from because(CallbackError(text), error)

    def _outputs(self, answer: object, sample: int | None) -> Sequence[object]:
        """The results of one call, one per output."""
        count = self.spec.output_count
        if count == 0:
            return ()
        if count == 1 and not isinstance(answer, tuple):
            return (answer,)
        if not isinstance(answer, (tuple, list)) or len(answer) != count:
            found = f"{len(answer)} results" if isinstance(answer, (tuple, list)) else f"a {type(answer).__name__}"
            text = f"the Python function returned {found}; the operator has {count} outputs (`num_outputs`)"
            raise TypeError(text) if sample is None else SampleError(sample, text)
        return answer

    def _of_batch(self, answer: object) -> list[object]:
        """The results of a call for the whole batch: a list of samples per output."""
        if self.spec.output_count == 1 and isinstance(answer, (list, np.ndarray)):
            return [answer]
        return list(self._outputs(answer, None))

    @staticmethod
    def _check_count(samples: object, count: int, number: int) -> None:
        """Whether the results of a call for the whole batch are as many as its samples. What has no length is refused as data later."""
        shape = getattr(samples, "shape", None)
        found = shape[0] if shape else len(samples) if isinstance(samples, (list, tuple)) else count
        if found != count:
            raise ValueError(
                f"the Python function returned {found} samples for output {number}, the batch has {count}; with `batch_processing` it must "
                "return one result for each sample"
            )

    def _batch(self, samples: Any) -> Batch:
        if self.spec.constant("batch_processing") and not isinstance(samples, (list, tuple)):
            return self._converter.batch(samples)
        return self._converter.samples(samples)

    @staticmethod
    def _laid_out(batch: Batch, layout: str) -> Batch:
        if layout:
            if len(layout) != batch.ndim and len(batch):
                raise ValueError(f"layout {layout!r} has {len(layout)} letters, the results have {batch.ndim} dimensions")
            batch.layout = layout
        return batch


def _batch_like(found: list[ReturnedArray]) -> Batch:
    """A batch, without memory of its own, over data that lies elsewhere. RuntimeError if samples differ in type or number of dimensions."""
    if not found:
        return Batch(np.empty((0, 0), np.int64), DALIDataType.NO_TYPE)
    check_types(found)
    check_ranks(found)
    return Batch(np.array([result.shape for result in found], np.int64), from_numpy_dtype(found[0].dtype))


@register
class PythonFunction(PythonOperator):
    schema = Schema(
        name="python_function",
        doc="""Calls a Python function for each sample (or batch), in order, one call at a time.

        The function gets numpy arrays over the pipeline's memory, which it must not change. It returns arrays. It is also
        called if nothing uses its outputs. An exception fails the iteration: RuntimeError, with the original chained.

        On a GPU it gets CuPy arrays and returns arrays in GPU memory (CuPy's, DLPack objects, __cuda_array_interface__). CuPy's
        current stream is the pipeline's stream, so the function's work is ordered without waiting. Its results are copied.""",
        accepts=(ANYTHING,),
        gives=(Output(CHOSEN, CHOSEN, CHOSEN),),
        inputs=(0, 256),
        outputs=lambda constants: constants.get("num_outputs", 1),
        devices=("cpu", "gpu"),
        calls_python=True,
        no_prune=True,
        args=_arguments(batch_processing=False),
        positional=("function", "num_outputs", "device", "batch_processing"),
    )


@register
class DLTensorPythonFunction(PythonOperator):
    schema = Schema(
        name="dl_tensor_python_function",
        doc="""Like `python_function`, with DLPack capsules instead of arrays. Inputs are not copied, except records in mapped
        files, because libraries do not respect read-only memory. The function is called once per batch, with lists of capsules,
        unless `batch_processing=False`.

        On a GPU results must be complete on return, or made on CuPy's current stream, which is the pipeline's.""",
        accepts=(ANYTHING,),
        gives=(Output(CHOSEN, CHOSEN, CHOSEN),),
        inputs=(0, 256),
        outputs=lambda constants: constants.get("num_outputs", 1),
        devices=("cpu", "gpu"),
        calls_python=True,
        no_prune=True,
        positional=("function", "num_outputs", "device", "synchronize_stream", "batch_processing"),
        args=(
            *_arguments(batch_processing=True),
            Arg(
                "synchronize_stream",
                "bool",
                True,
                "GPU: wait for the data before the function is called; else they are ordered on CuPy's stream.",
            ),
        ),
    )

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        self._waits = bool(spec.constant("synchronize_stream"))

    def _given(self, batch: Batch, sample: int) -> Any:
        array = batch.sample(sample)
        return (array if array.flags.writeable else array.copy()).__dlpack__()

    def _given_on_gpu(self, arrays: UserArrays, batch: Batch, sample: int) -> object:
        return arrays.capsule(batch, sample)
