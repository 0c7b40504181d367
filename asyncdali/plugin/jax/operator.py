"""The operator behind `jax_function`."""

from __future__ import annotations

import jax
import numpy as np

from ...batch import Batch
from ...operators.accepts import CHOSEN, DATA, Output
from ...operators.base import REQUIRED, Arg, Arguments, Iteration, Planned, Schema, Spec, register
from ...operators.python.python_function import WHOLE_BATCH, PythonOperator
from .arrays import on_device, sharded


@register
class JaxFunction(PythonOperator):
    schema = Schema(
        name="_jax.function",
        doc="""Calls a function with a jax array [samples, ...] per input, once per batch; it returns such arrays.""",
        accepts=(DATA,),
        gives=(Output(CHOSEN, CHOSEN, CHOSEN),),
        inputs=(0, 256),
        outputs=lambda constants: constants.get("num_outputs", 1),
        devices=("cpu", "gpu"),
        calls_python=True,
        args=(
            Arg("function", "any", REQUIRED, "The function."),
            Arg("num_outputs", "int", 1, "Number of arrays it returns."),
            Arg("output_layouts", "str_list", None, "Layouts of the outputs; without, that of the input of the same number and rank."),
            Arg("sharding", "any", None, "Sharding of the arrays that the function gets."),
        ),
    )

    @classmethod
    def why_whole(cls, spec: Spec) -> str:
        return WHOLE_BATCH

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        arrays = [self._array(batch, k) for k, batch in enumerate(inputs)]
        answers = self._outputs(self._call(None, arrays), None)
        return Planned([self._result(answer, k, inputs, arguments.count) for k, answer in enumerate(answers)])

    def _array(self, batch: Batch, index: int) -> jax.Array:
        if len(batch) and (batch.shapes != batch.shapes[0]).any():
            raise ValueError(f"input {index} of the function has samples of different shapes: they cannot be one array")
        whole = batch.values if batch.values is not None else np.stack([batch.sample(k) for k in range(len(batch))])
        sharding = self.spec.constant("sharding")
        if sharding is None:
            # A copy: inputs are scratch memory or data of other operators, and arrays that the function keeps would change.
            return on_device(np.array(whole), None)
        return sharded([np.array(whole)], sharding)

    def _result(self, answer: object, index: int, inputs: list[Batch], count: int) -> Batch:
        if not isinstance(answer, (jax.Array, np.ndarray)):
            raise TypeError(f"output {index} of the function must be a jax.Array, got {type(answer).__name__}")
        array = np.asarray(answer)
        if array.ndim == 0 or len(array) != count:
            raise ValueError(f"output {index} of the function has shape {array.shape}; the first extent must be {count}, the batch size")
        batch = self._converter.batch(array)
        layouts = self.spec.constant("output_layouts") or []
        if index < len(layouts):
            if layouts[index] and len(layouts[index]) != batch.ndim:
                raise ValueError(f"layout {layouts[index]!r} does not fit output {index} with samples of {batch.ndim} dimensions")
            batch.layout = layouts[index]
        elif index < len(inputs) and inputs[index].ndim == batch.ndim:
            batch.layout = inputs[index].layout
        return batch
