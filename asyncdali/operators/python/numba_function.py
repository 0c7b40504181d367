"""experimental.numba_function: a user's function that Numba compiles and that runs without the interpreter; on a GPU a numba.cuda
kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...batch import Batch, storage_dtype
from ...compiled.tables import laid_out
from ...device.launch import Code, Launch, LaunchPerSample
from ...errors import SampleError, because
from ...messages.notices import warn
from ...types import DALIDataType
from ..accepts import ANY_RANK, CHOSEN, Input, Output
from ..base import (
    REQUIRED,
    Arg,
    Arguments,
    Environment,
    Iteration,
    Operator,
    Planned,
    Schema,
    Spec,
    Step,
    no_explanation,
    register,
)  # fmt: skip
from .python_function import WHOLE_BATCH

MAX_ARRAYS = 6
_MOST_BLOCKS = (2**31 - 1, 65535, 65535)
_MOST_THREADS, _MOST_THREADS_OF_A_BLOCK = (1024, 1024, 64), 1024
_D = DALIDataType
_TYPES = [
    _D.BOOL, _D.UINT8, _D.UINT16, _D.UINT32, _D.UINT64, _D.INT8, _D.INT16, _D.INT32, _D.INT64, _D.FLOAT, _D.FLOAT64,
]  # fmt: skip
"""Element types. FLOAT16 is missing, because Numba cannot compute with it."""


_ARGS = (
    Arg("run_fn", "any", REQUIRED, "``run_fn(out0, ..., in0, ...)``: fills its outputs, arrays of one sample each.", compiled=True),
    Arg("out_types", "dtype_list", REQUIRED, "Element types of the outputs."),
    Arg("in_types", "dtype_list", REQUIRED, "Element types of the inputs."),
    Arg("outs_ndim", "int_list", REQUIRED, "Numbers of dimensions of the outputs."),
    Arg("ins_ndim", "int_list", REQUIRED, "Numbers of dimensions of the inputs."),
    Arg("setup_fn", "any", None, "``setup_fn(outs, ins)``: sets ``outs[output][sample][axis]``; by default as the inputs.", compiled=True),
    Arg("batch_processing", "bool", False, "CPU: the function is called once per batch, with a list of arrays for each output and input."),
    Arg("blocks", "int_list", None, 'GPU: blocks of a launch in x, y and z; must be given with ``device="gpu"``, and with nothing else.'),
    Arg("threads_per_block", "int_list", None, "GPU: threads of a block in x, y and z; as `blocks`."),
)


@register
class NumbaFunction(Operator):
    repeatable = True
    on_cuda = True
    schema = Schema(
        name="experimental.numba_function",
        doc="""Runs a function that Numba can compile on each sample, in the pipeline's threads, without the interpreter.

        Inputs and outputs are declared by type and number of dimensions. `setup_fn` computes the shapes of the outputs, once per batch.
        An exception in `run_fn` fails the iteration and names the sample. It is also called if nothing uses its outputs.

        With ``device="gpu"`` `run_fn` is a kernel for ``numba.cuda`` (``cuda.grid(3)`` and so on; with or without ``cuda.jit``),
        launched for each sample over `blocks` of `threads_per_block`, on the pipeline's stream, without waiting. `setup_fn` still
        runs on the CPU. On the host device the same kernel runs on the CPU.""",
        accepts=(Input(tuple(_TYPES), ranks=ANY_RANK),),
        gives=(Output(CHOSEN, CHOSEN, CHOSEN),),
        inputs=(1, MAX_ARRAYS),
        outputs=lambda constants: len(constants["out_types"]),
        devices=("cpu", "gpu"),
        no_prune=True,
        graphs_only=True,
        args=_ARGS,
        positional=(
            "run_fn", "out_types", "in_types", "outs_ndim", "ins_ndim", "setup_fn", "device", "batch_processing", "blocks",
            "threads_per_block",
        ),
    )

    @classmethod
    def why_whole(cls, spec: Spec) -> str:
        if spec.constant("setup_fn") is not None:
            return "its `setup_fn` is called with the shapes of the whole batch"
        return WHOLE_BATCH if spec.constant("batch_processing") else ""

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        self._in_types: list[DALIDataType] = spec.constant("in_types")
        self._out_types: list[DALIDataType] = spec.constant("out_types")
        self._ins_ndim: list[int] = spec.constant("ins_ndim")
        self._outs_ndim: list[int] = spec.constant("outs_ndim")
        self._check_declaration()
        from .numba_function_kernels import jitted, shape_tables, step_of, typed

        setup = spec.constant("setup_fn")
        self._setup: Callable[..., Any] | None = None if setup is None else jitted(setup, "setup_fn", boundscheck=True)
        if self._setup is not None:
            typed(self._setup, "setup_fn", [shape_tables(len(self._out_types)), shape_tables(len(self._in_types))])
        self._whole = bool(spec.constant("batch_processing"))
        kinds = [storage_dtype(dtype) for dtype in (*self._out_types, *self._in_types)]
        ndims = [*self._outs_ndim, *self._ins_ndim]
        if spec.device == "gpu":
            self._check_launch()
            self._make_kernel(kinds, ndims)
        else:
            self._notice_grid()
            self._run = jitted(spec.constant("run_fn"), "run_fn")
            if not self._whole:
                self._step = step_of(self._run, kinds, ndims)

    @classmethod
    def inputs_read(cls, spec: Spec, on_cuda: bool) -> Sequence[int]:
        """All inputs, if the function runs during planning: for whole batches, and for kernels on the host device."""
        planning = spec.constant("batch_processing") or (spec.device == "gpu" and not on_cuda)
        return range(spec.input_count) if planning else ()

    # --- declaration

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

    def accepts(self) -> tuple[Input, ...]:
        return tuple(
            Input((dtype,), name="declared by `in_types` and `ins_ndim`", ranks=(ndim,))
            for dtype, ndim in zip(self._in_types, self._ins_ndim)
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

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        outputs = self._outputs(inputs, arguments.count)
        if iteration.stream is not None and self.spec.device == "gpu":
            return self._launched(inputs, outputs)
        inputs = [batch.writable() for batch in inputs]
        if self.spec.device == "gpu" or self._whole:
            for batch in outputs:
                batch.reserve(self.environment.allocate)
            return self._run_on_batch(inputs, outputs) if self._whole else self._run_kernel(inputs, outputs)
        parts: list[Any] = []
        for batch in (*outputs, *inputs):
            parts += [batch.addresses, np.ascontiguousarray(batch.shapes)]
        context, keep = laid_out(parts)
        return Planned(outputs, [Step(self._step.address, context, self._explain, keep=[*keep, inputs])])

    @staticmethod
    def _explain(code: int, text: str, sample: int) -> str:
        return "`run_fn` raised an exception (Numba does not say which: run it on this sample in Python)"

    def _run_on_batch(self, inputs: list[Batch], outputs: list[Batch]) -> Planned:
        from numba.typed import List

        if len(inputs[0]):
            try:
                self._run(*(List([batch.sample(k) for k in range(len(batch))]) for batch in (*outputs, *inputs)))
            except Exception as error:
                raise RuntimeError(f"`run_fn` raised {type(error).__name__}: {error}") from error
        return Planned(outputs)

    # --- kernels

    def _check_launch(self) -> None:
        if self._whole:
            raise ValueError("`batch_processing` is for the CPU; with device='gpu' the kernel is launched for each sample")
        limits = {"blocks": _MOST_BLOCKS, "threads_per_block": _MOST_THREADS}
        for name, most in limits.items():
            given = self.spec.constant(name)
            if given is None or len(given) != 3:
                raise ValueError(f"`{name}` must be 3 numbers (x, y, z) with device='gpu', got {given}")
            if any(not 1 <= number <= bound for number, bound in zip(given, most)):
                bounds = ", ".join(map(str, most))
                raise ValueError(f"`{name}`: each number must be at least 1, and at most {bounds} in x, y, z; got {given}")
        threads = self.spec.constant("threads_per_block")
        if np.prod(threads) > _MOST_THREADS_OF_A_BLOCK:
            raise ValueError(f"`threads_per_block`: a block has at most {_MOST_THREADS_OF_A_BLOCK} threads, got {threads}")

    def _notice_grid(self) -> None:
        given = [name for name in ("blocks", "threads_per_block") if self.spec.constant(name) is not None]
        if given:
            told = "` and `".join(given)
            warn(f"numba_function: `{told}` act with device='gpu' only; on the CPU `run_fn` is called once for each sample", UserWarning)

    def _make_kernel(self, kinds: list[np.dtype], ndims: list[int]) -> None:
        from .numba_function_gpu_kernels import compiled, kernel_of

        blocks, threads = (tuple(self.spec.constant(name)) for name in ("blocks", "threads_per_block"))
        self._blocks, self._threads = blocks, threads
        function, options = kernel_of(self.spec.constant("run_fn"), "run_fn")
        gpu = self.environment.gpu
        if gpu is not None:
            capability = gpu.driver.properties(gpu.index)["capability"]
            self._code: Code = compiled(function, options, kinds, ndims, capability)
        else:
            from .numba_function_on_host_kernels import runner

            self._kernel = runner(function, kinds, ndims, blocks, threads)

    def _launched(self, inputs: list[Batch], outputs: list[Batch]) -> Planned:
        def launches() -> list[Launch]:
            from .numba_function_gpu_kernels import launch_arguments

            read = [batch.addresses for batch in inputs]
            given = launch_arguments([*outputs, *inputs])
            return [LaunchPerSample(self._code, read, (1, 1), arguments=given, blocks=self._blocks, threads=self._threads)]

        return Planned(outputs, [Step(0, np.empty(0, np.int64), no_explanation, keep=[inputs], launches=launches)])

    def _run_kernel(self, inputs: list[Batch], outputs: list[Batch]) -> Planned:
        for k in range(len(inputs[0])):
            try:
                self._kernel([batch.sample(k) for batch in (*outputs, *inputs)])
            except Exception as error:
                text = f"`run_fn` raised {type(error).__name__}: {error}"
                raise SampleError(k, text) from because(RuntimeError(text), error)
        return Planned(outputs)
