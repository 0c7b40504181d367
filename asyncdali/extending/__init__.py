"""The building blocks for operators of other packages. docs/own_operators.md is the guide, ``examples/own_operators`` an example.

The names of this module, of :mod:`asyncdali.extending.kernels`, and those in ``__all__`` of :mod:`asyncdali.extending.testing` are stable:
a change of their meaning is announced one minor release ahead, with a DeprecationWarning if possible. Other names of
``asyncdali.operators`` and ``asyncdali.compiled`` may change at any time. This module does not import Numba.

    kernels.py  The building blocks for compiled steps of other packages
    testing.py  Tests of operators without a pipeline and without a GPU

May import `batch`, `compiled`, `device.launch`, `operators` and `sampling`; packages of operators import nothing else of asyncdali.
"""

from __future__ import annotations

from ..batch import Batch, storage_dtype
from ..compiled.tables import INPUTS, OUTPUTS, SAMPLES, Field, Table, laid_out
from ..device.launch import Kernel, Launch, element_type, grid_of
from ..operators.accepts import ANY_LAYOUT, ANY_RANK, ANYTHING, DATA, NUMBERS, Input, Output, argument, listed, matching, of_input
from ..operators.base import (
    REQUIRED,
    Arg,
    Arguments,
    CompiledJob,
    Environment,
    Example,
    Iteration,
    Operator,
    Planned,
    PythonJob,
    SampleError,
    Schema,
    Spec,
    Step,
    no_explanation,
    register,
)
from ..operators.elements import ELEMENTS, ElementOperator
from ..operators.extensions import GROUP, OperatorPackageError
from ..operators.kernel_operator import Cuda, KernelOperator, ThreadScratch, types_of
from ..operators.random.random import StreamOperator
from ..operators.samples import SampleOperator, stored, uniform
from ..sampling.stream_tables import POSITION, sample_positions

__all__ = [
    "Schema", "Arg", "Example", "REQUIRED", "Operator", "StreamOperator", "register", "GROUP", "OperatorPackageError",
    "Spec", "Environment", "Arguments", "Iteration", "Planned", "Step", "PythonJob", "CompiledJob", "SampleError", "no_explanation",
    "ElementOperator", "ELEMENTS", "SampleOperator", "stored", "uniform", "POSITION", "sample_positions",
    "KernelOperator", "Cuda", "ThreadScratch", "types_of",
    "Batch", "storage_dtype",
    "Input", "Output", "listed", "matching", "argument", "of_input", "ANYTHING", "DATA", "NUMBERS", "ANY_RANK", "ANY_LAYOUT",
    "Table", "Field", "INPUTS", "OUTPUTS", "SAMPLES", "laid_out",
    "Launch", "Kernel", "grid_of", "element_type",
]  # fmt: skip
