"""experimental.numba_function: a function that Numba compiles, run on samples without the interpreter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...batch import Batch, storage_dtype
from ...types import DALIDataType
from ..base import REQUIRED, Arg, Arguments, Environment, Iteration, Operator, Planned, Schema, Spec, Step, context_table, register

MAX_ARRAYS = 6
_D = DALIDataType
_TYPES = [
    _D.BOOL, _D.UINT8, _D.UINT16, _D.UINT32, _D.UINT64, _D.INT8, _D.INT16, _D.INT32, _D.INT64, _D.FLOAT, _D.FLOAT64,
]  # fmt: skip
"""Element types; Numba does not compute with FLOAT16."""


class _NumbaOperator(Operator):
    """What both forms share: declared types, shapes from `setup_fn`."""

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        self._in_types: list[DALIDataType] = spec.constant("in_types")
        self._out_types: list[DALIDataType] = spec.constant("out_types")
        self._ins_ndim: list[int] = spec.constant("ins_ndim")
        self._outs_ndim: list[int] = spec.constant("outs_ndim")
        self._check_declaration()
        from .numba_function_kernels import jitted

        setup = spec.constant("setup_fn")
        self._run = jitted(spec.constant("run_fn"), "run_fn")
        self._setup: Callable[..., Any] | None = None if setup is None else jitted(setup, "setup_fn", boundscheck=True)

    def _check_declaration(self) -> None:
        for types, ndims, what in ((self._in_types, self._ins_ndim, "in"), (self._out_types, self._outs_ndim, "out")):
            if len(types) != len(ndims):
                raise ValueError(f"`{what}_types` has {len(types)} entries, `{what}s_ndim` has {len(ndims)}; give one per {what}put")
            if len(types) > MAX_ARRAYS or not types:
                raise ValueError(f"numba_function takes 1 to {MAX_ARRAYS} {what}puts, got {len(types)}")
            if min(ndims) < 0:
                raise ValueError(f"`{what}s_ndim` cannot be negative, got {ndims}")
            unknown = [dtype.name for dtype in types if dtype not in _TYPES]
            if unknown:
                known = ", ".join(dtype.name for dtype in _TYPES)
                raise ValueError(f"`{what}_types`: functions compiled by Numba take {known}; got {unknown[0]}")
        if len(self._in_types) != self.spec.input_count:
            raise ValueError(f"`in_types` has {len(self._in_types)} entries, the operator has {self.spec.input_count} inputs")
        if self.spec.constant("setup_fn") is None and (
            len(self._in_types) != len(self._out_types) or self._in_types != self._out_types or self._ins_ndim != self._outs_ndim
        ):
            raise ValueError("without `setup_fn` outputs have the shapes and types of the inputs: the declarations must be equal")

    def infer(self, dtypes: list[DALIDataType | None]) -> list[DALIDataType | None]:
        return list(self._out_types)

    def _check_inputs(self, inputs: list[Batch]) -> None:
        for k, (batch, dtype, ndim) in enumerate(zip(inputs, self._in_types, self._ins_ndim)):
            if batch.dtype != dtype or batch.ndim != ndim:
                raise ValueError(
                    f"input {k} is declared as {dtype.name} with {ndim} dimensions (`in_types`, `ins_ndim`); "
                    f"it is {batch.dtype.name} with {batch.ndim}"
                )

    def _outputs(self, inputs: list[Batch], count: int) -> list[Batch]:
        if self._setup is None:
            shapes = [batch.shapes.copy() for batch in inputs]
        else:
            shapes = [np.zeros((count, ndim), np.int64) for ndim in self._outs_ndim]
            try:
                self._setup(tuple(shapes), tuple(np.array(batch.shapes, np.int64) for batch in inputs))
            except Exception as error:
                raise RuntimeError(f"`setup_fn` raised {type(error).__name__}: {error}") from error
            for k, shape in enumerate(shapes):
                if shape.size and shape.min() < 0:
                    raise ValueError(f"`setup_fn` gave output {k} a negative extent: {shape.min()}")
        return [Batch(shape, dtype) for shape, dtype in zip(shapes, self._out_types)]


_ARGS = (
    Arg("run_fn", "any", REQUIRED, "``run_fn(out0, ..., in0, ...)``: fills its outputs, arrays of one sample each."),
    Arg("out_types", "dtype_list", REQUIRED, "Element types of the outputs."),
    Arg("in_types", "dtype_list", REQUIRED, "Element types of the inputs."),
    Arg("outs_ndim", "int_list", REQUIRED, "Numbers of dimensions of the outputs."),
    Arg("ins_ndim", "int_list", REQUIRED, "Numbers of dimensions of the inputs."),
    Arg("setup_fn", "any", None, "``setup_fn(outs, ins)``: sets ``outs[output][sample][dimension]``; by default as the inputs."),
    Arg("batch_processing", "bool", False, "The function is called once per batch, with a list of arrays for each output and input."),
)


@register
class NumbaFunction(_NumbaOperator):
    """See the schema."""

    schema = Schema(
        name="experimental.numba_function",
        doc="""Runs a function that Numba can compile on each sample, in the pipeline's threads, without the interpreter.

        Inputs and outputs are declared by type and number of dimensions. `setup_fn` computes the shapes of the outputs, once per batch.
        An exception in `run_fn` fails the iteration and names the sample.""",
        inputs=(1, MAX_ARRAYS),
        outputs=lambda constants: len(constants["out_types"]),
        devices=("cpu",),
        args=_ARGS,
        positional=("run_fn", "out_types", "in_types", "outs_ndim", "ins_ndim", "setup_fn", "device", "batch_processing"),
    )

    @property
    def _whole(self) -> bool:
        return bool(self.spec.constant("batch_processing"))

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        if not self._whole:
            from .numba_function_kernels import step_of

            kinds = [storage_dtype(dtype) for dtype in (*self._out_types, *self._in_types)]
            self._step = step_of(self._run, kinds, [*self._outs_ndim, *self._ins_ndim])

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        self._check_inputs(inputs)
        inputs = [batch.writable() for batch in inputs]
        outputs = self._outputs(inputs, arguments.count)
        if self._whole:
            return self._run_on_batch(inputs, outputs)
        parts: list[Any] = []
        for batch in (*outputs, *inputs):
            parts += [batch.addresses, np.ascontiguousarray(batch.shapes)]
        context, keep = context_table(parts)
        explain = self._explain
        return Planned(outputs, [Step(self._step.address, context, explain, keep=[*keep, inputs])])

    @staticmethod
    def _explain(code: int, text: str, sample: int) -> str:
        return "`run_fn` raised an exception (Numba does not say which: run it on this sample in Python)"

    def _run_on_batch(self, inputs: list[Batch], outputs: list[Batch]) -> Planned:
        from numba.typed import List

        for batch in outputs:
            batch.place(self.environment.allocate(int(batch.sizes().sum())))
        if len(inputs[0]):
            try:
                self._run(*(List([batch.sample(k) for k in range(len(batch))]) for batch in (*outputs, *inputs)))
            except Exception as error:
                raise RuntimeError(f"`run_fn` raised {type(error).__name__}: {error}") from error
        return Planned(outputs)
