"""Arithmetic on nodes: one operator per operation in the graph as defined, and one per tree of operations in a plan

If inputs are small and known during planning (draws, labels, constants), the result is computed during planning, for the whole batch. The
same happens if a planned operator of the same segment needs the result (`eager`). Otherwise, the expression is one compiled step.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...batch import Batch, storage_dtype
from ...device.launch import Kernel
from ...errors import Explanation
from ...types import DALIDataType
from ..accepts import ANYTHING, CHOSEN, Output
from ..base import Arg, Arguments, Environment, Planned, SampleError, Schema, Spec, Step, register
from .cuda_code import make_kernel, make_launch
from .eager import EAGER, SMALL, EagerOperator
from .expressions_tables import WALK_HEAD
from .programs import ExpressionProgram, single
from .shapes import walk


@dataclass
class _Dense:
    """How to compute dense batches of certain types and shapes as if the batch were one sample."""

    shape: tuple[int, ...]
    dtype: DALIDataType
    step: Step
    sources: list[np.ndarray]
    target: np.ndarray
    thread: np.ndarray
    scratch: np.ndarray


@register
class ArithmeticGenericOp(EagerOperator):
    on_cuda = True
    schema = Schema(
        name="_arithmetic_generic_op",
        doc="An arithmetic expression.",
        dali_class="_ArithmeticGenericOp",
        accepts=(ANYTHING,),
        gives=(Output(CHOSEN, CHOSEN, CHOSEN),),
        inputs=(1, 64),
        devices=("cpu", "gpu"),
        args=(
            Arg("op", "str", None, "Name of the operation."),
            Arg("operands", "any", None, "Its operands: numbers of inputs, or [value, type] for constants."),
            Arg("program", "any", None, "Instead of these, in a plan: a program of several operations."),
            Arg("expression", "str", None, "In a plan: the program as people write it."),
            EAGER,
        ),
    )

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        program = spec.constant("program")
        self.program: ExpressionProgram = single(spec.constant("op"), spec.constant("operands")) if program is None else program
        self._made: dict[Any, _Dense] = {}
        self._computing = threading.Lock()  # several threads plan while an iteration is made again (runtime/repairs, provenance)
        self._types: dict[tuple[DALIDataType, ...], DALIDataType] = {}
        self._cuda: dict[tuple[tuple[DALIDataType, ...], bool], Kernel] = {}
        from . import expressions_kernels as expressions_kernels
        from . import stored_code

        self._code, self._kernels = stored_code, expressions_kernels

    def infer(self, dtypes: list[DALIDataType | None]) -> list[DALIDataType | None]:
        self._kernels.expression_step.compile()
        known = [dtype for dtype in dtypes if dtype is not None]
        if len(known) < len(dtypes):
            return [None]
        try:
            result = self._result(tuple(known))
        except RuntimeError:  # the first iteration raises the error again, with its place
            return [None]
        self._code.compile_program(self.program, known)
        return [result]

    def _result(self, kinds: tuple[DALIDataType, ...]) -> DALIDataType:
        found = self._types.get(kinds)
        if found is None:
            found = self._types[kinds] = self.program.types(kinds)[-1]
        return found

    # --- one iteration

    def _dense(self, inputs: list[Batch]) -> bool:
        if not all(batch.has_small_values(SMALL) for batch in inputs):
            return False
        shapes: list[tuple[int, ...]] = [_values(batch).shape for batch in inputs]
        if shapes.count(shapes[0]) == len(shapes):
            return True
        ndim = max(map(len, shapes))
        aligned = [(shape[0], *[1] * (ndim - len(shape)), *shape[1:]) for shape in shapes]
        size: int = math.prod(max(extents) for extents in zip(*aligned))
        return size <= SMALL

    def _nothing(self, inputs: list[Batch]) -> Batch:
        unknown = any(batch.dtype is DALIDataType.NO_TYPE for batch in inputs)
        dtype, layout = (DALIDataType.NO_TYPE, "") if unknown else (self._checked(inputs)[1:])
        shape = (0, *[1] * max(batch.ndim for batch in inputs))
        return Batch.from_values(np.empty(shape, storage_dtype(dtype)), layout, dtype)

    def _later(self, inputs: list[Batch], arguments: Arguments) -> Planned:
        kinds, dtype, layout = self._checked(inputs)
        itemsizes = [batch.itemsize for batch in inputs]
        plan = walk([batch.shapes for batch in inputs], itemsizes)
        for repeated, samples in plan.variants:
            plan.records[samples, WALK_HEAD.word.kernel] = self._code.compile_program(self.program, kinds, repeated)
        output = Batch(plan.shapes, dtype, layout, device=inputs[0].device, source_info=_origin(inputs))
        step = self._kernels.make_expression_step(
            plan, [batch.addresses for batch in inputs], output.addresses, itemsizes, output.itemsize, self._explain
        )
        step.launches = lambda: [make_launch(self._cuda_kernel(kinds, plan.rows), plan, inputs, output)]
        return Planned([output], [step])

    def _cuda_kernel(self, kinds: tuple[DALIDataType, ...], rows: bool) -> Kernel:
        found = self._cuda.get((kinds, rows))
        if found is None:
            found = self._cuda[kinds, rows] = make_kernel(self.program, kinds, rows)
        return found

    def _checked(self, inputs: list[Batch]) -> tuple[tuple[DALIDataType, ...], DALIDataType, str]:
        """Types of the inputs, type and layout of the result. Refuses incompatible inputs."""
        kinds = tuple(batch.dtype for batch in inputs)
        dtype = self._result(kinds)
        return kinds, dtype, self.program.layout([batch.layout for batch in inputs], [batch.ndim for batch in inputs])

    def _now(self, inputs: list[Batch]) -> Batch:
        kinds, dtype, layout = self._checked(inputs)
        values = [_values(batch) for batch in inputs]
        result, failed = self._compute(inputs, values, kinds)
        if failed:
            sample = self._first_failing(inputs, values, kinds)
            raise SampleError(sample, self._explain(failed, "", sample))
        batch = Batch.from_values(result, layout, dtype)
        batch.source_info = _origin(inputs)
        return batch

    def _compute(self, inputs: list[Batch], values: list[np.ndarray], kinds: tuple[DALIDataType, ...]) -> tuple[np.ndarray, int]:
        """The results of dense batches, and the status."""
        key = (kinds, *[array.shape for array in values])
        with self._computing:
            dense = self._made.get(key)
            if dense is None:
                if len(self._made) >= 64:  # one for each size of a batch: sizes may vary without end
                    self._made.clear()
                dense = self._made[key] = self._make_dense(inputs, values, kinds)
            result = np.empty(dense.shape, storage_dtype(dense.dtype))
            for source, array in zip(dense.sources, values):
                source[0] = array.ctypes.data
            dense.target[0] = result.ctypes.data
            return result, self._kernels.expression_step(dense.step.context.ctypes.data, 0, dense.thread.ctypes.data)

    def _make_dense(self, inputs: list[Batch], values: list[np.ndarray], kinds: tuple[DALIDataType, ...]) -> _Dense:
        walk([batch.shapes[:1] for batch in inputs], [1] * len(inputs))  # Raises the error for incompatible shapes, in terms of one sample.
        ndim, count = max(array.ndim for array in values), len(values[0])
        aligned = [np.array([(count, *[1] * (ndim - array.ndim), *array.shape[1:])], np.int64) for array in values]
        itemsizes = [batch.itemsize for batch in inputs]
        plan = walk(aligned, itemsizes)
        for repeated, samples in plan.variants:
            plan.records[samples, WALK_HEAD.word.kernel] = self._code.compile_program(self.program, kinds, repeated)
        dtype = self._result(kinds)
        sources, target = [np.zeros(1, np.int64) for _ in inputs], np.zeros(1, np.int64)
        step = self._kernels.make_expression_step(plan, sources, target, itemsizes, storage_dtype(dtype).itemsize, self._explain)
        scratch = np.empty(step.scratch_bytes + 64, np.uint8)
        start = scratch.ctypes.data + -scratch.ctypes.data % 64
        thread = np.array([start, step.scratch_bytes, 0, 0], np.int64)
        return _Dense(tuple(plan.shapes[0].tolist()), dtype, step, sources, target, thread, scratch)

    def _first_failing(self, inputs: list[Batch], values: list[np.ndarray], kinds: tuple[DALIDataType, ...]) -> int:
        """The sample of a small batch that divides by zero."""
        for sample in range(len(inputs[0])):
            if self._compute(inputs, [array[sample : sample + 1] for array in values], kinds)[1]:
                return sample
        return 0

    def _explain(self, code: int, text: str, sample: int) -> str:
        divisions = [item for item in self.program.instructions if item.name in ("fdiv", "mod")]
        where = "".join(dict.fromkeys(self.program.origin(item) for item in divisions))
        return Explanation(f"Integer division by zero{where}", ValueError)


def _values(batch: Batch) -> np.ndarray:
    assert batch.values is not None
    return batch.values


def _origin(inputs: list[Batch]) -> Sequence[str] | None:
    """The origins of the samples, unless inputs with origins disagree."""
    known = [batch.source_info for batch in inputs if batch.source_info is not None]
    return known[0] if known and all(other is known[0] or list(other) == list(known[0]) for other in known[1:]) else None
