"""python_function and dl_tensor_python_function: the user's Python in the graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...batch import Batch
from ...errors import SampleError
from ...tensors.data import Converter
from ..base import REQUIRED, Arg, Arguments, Environment, Iteration, Operator, Planned, Schema, Spec, register


class CallbackError(RuntimeError):
    """An exception of the user's function; it is chained."""


_ARGS = (
    Arg("function", "any", REQUIRED, "The function: takes one argument per input, returns one result per output (a tuple if several)."),
    Arg("num_outputs", "int", 1, "Number of outputs; 0 for side effects only."),
    Arg("batch_processing", "bool", False, "The function is called once per batch, with lists of samples, and returns lists."),
    Arg("output_layouts", "str_list", None, "Layouts of the outputs, in order; a list that is too short leaves the rest without."),
)


class _PythonOperator(Operator):
    """Calls the function while planning: one call at a time, samples and iterations in order."""

    barrier = True
    eager = True

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        self._function: Callable[..., Any] = spec.constant("function")
        if not callable(self._function):
            raise TypeError(f"`function` must be callable, got {type(self._function).__name__}")
        self._layouts = [*(spec.constant("output_layouts") or []), *[""] * spec.output_count]
        self._converter = Converter(environment.allocate, None, no_copy=False)

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        with self.environment.calling():
            return self._planned(inputs, arguments.count)

    def _planned(self, inputs: list[Batch], count: int) -> Planned:
        columns = [[self._given(batch.sample(k)) for k in range(len(batch))] for batch in inputs]
        if self.spec.constant("batch_processing"):
            results = self._of_batch(self._call(None, columns))
        else:
            rows = list(zip(*columns, strict=True)) if inputs else [()] * count
            answers = [self._outputs(self._call(k, row), k) for k, row in enumerate(rows)]
            results = [[answer[j] for answer in answers] for j in range(self.spec.output_count)]
        return Planned([self._batch(samples, layout) for samples, layout in zip(results, self._layouts)])

    def _given(self, sample: np.ndarray) -> Any:
        """What the function gets for a sample."""
        return sample

    def _call(self, sample: int | None, arguments: Sequence[Any]) -> Any:
        try:
            return self._function(*arguments)
        except Exception as error:
            failure = CallbackError(f"the Python function raised {type(error).__name__}: {error}")
            failure.__cause__ = error
            if sample is None:
                raise failure from error
            raise SampleError(sample, str(failure)) from failure

    def _outputs(self, answer: Any, sample: int | None) -> Sequence[Any]:
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

    def _of_batch(self, answer: Any) -> list[Any]:
        """The results of a call for the whole batch: a list of samples per output."""
        if self.spec.output_count == 1 and isinstance(answer, (list, np.ndarray)):
            return [answer]
        return list(self._outputs(answer, None))

    def _batch(self, samples: Any, layout: str) -> Batch:
        if self.spec.constant("batch_processing") and not isinstance(samples, (list, tuple)):
            batch = self._converter.batch(samples)
        else:
            batch = self._converter.samples(samples)
        if layout:
            if len(layout) != batch.ndim and len(batch):
                raise ValueError(f"layout {layout!r} has {len(layout)} letters, the results have {batch.ndim} dimensions")
            batch.layout = layout
        return batch


@register
class PythonFunction(_PythonOperator):
    """See the schema."""

    schema = Schema(
        name="python_function",
        doc="""Calls a Python function for each sample (or batch), in order, one call at a time.

        The function gets numpy arrays, which are the pipeline's memory: to be read, not changed. It returns arrays. It is called also if
        nothing uses its outputs. An exception fails the iteration: RuntimeError, with the original chained.""",
        inputs=(0, 256),
        outputs=lambda constants: constants.get("num_outputs", 1),
        devices=("cpu", "gpu"),
        no_prune=True,
        args=_ARGS,
    )


@register
class DLTensorPythonFunction(_PythonOperator):
    """See the schema."""

    schema = Schema(
        name="dl_tensor_python_function",
        doc="""As `python_function`, with DLPack capsules for arrays: data of any library, without copies on the way in.""",
        inputs=(0, 256),
        outputs=lambda constants: constants.get("num_outputs", 1),
        devices=("cpu", "gpu"),
        no_prune=True,
        args=(*_ARGS, Arg("synchronize_stream", "bool", True, "GPU: wait for the data before the function is called.")),
    )

    def _given(self, sample: np.ndarray) -> Any:
        return sample.__dlpack__()
