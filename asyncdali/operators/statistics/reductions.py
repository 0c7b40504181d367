"""reductions.*: sums, means, extremes and deviations over axes."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from ...batch import Batch, storage_dtype
from ...types import DALIDataType
from ..accepts import ANY_RANK, CHOSEN, LIKE, Input, Output
from ..base import Arg, Arguments, Environment, Iteration, Operator, Planned, SampleError, Schema, Spec, Step, no_explanation, register
from ..moves.pieces import dense_strides, named_axes, normal_axes
from .reductions_launches import Reduction
from .reductions_tables import FINISHES, MAX_AXES

_UNSIGNED = (DALIDataType.UINT8, DALIDataType.UINT16, DALIDataType.UINT32, DALIDataType.UINT64)
_SIGNED = (DALIDataType.INT8, DALIDataType.INT16, DALIDataType.INT32, DALIDataType.INT64)
_TYPES = (*_UNSIGNED, *_SIGNED, DALIDataType.FLOAT)
_INPUTS = (Input(_TYPES, ranks=range(MAX_AXES + 1)), Input((DALIDataType.FLOAT,), name="means", ranks=ANY_RANK))

AXES_ARGS = (
    Arg("axes", "int_list", None, "The axes to reduce; negative ones count from the back. By default all."),
    Arg("axis_names", "layout", None, "The axes by their letters in the layout."),
    Arg("keep_dims", "bool", False, "Whether the axes stay, with an extent of 1."),
)
_DTYPE = Arg("dtype", "dtype", None, "Element type of the output.")


def reduced_axes(spec: Spec, source: Batch) -> list[int]:
    """The axes named by `axes` or `axis_names`, in order; all if neither is given."""
    if spec.given("axis_names"):
        return sorted(named_axes(spec.constant("axis_names"), source.layout))
    if spec.given("axes"):
        return sorted(normal_axes(spec.constant("axes"), source.ndim))
    return list(range(source.ndim))


def axis_groups(ndim: int, axes: list[int]) -> tuple[list[list[int]], list[list[int]]]:
    """(kept, reduced): the axes in groups of neighbours. Each group is one axis in memory."""
    kept: list[list[int]] = []
    reduced: list[list[int]] = []
    for axis in range(ndim):
        groups, goes = (reduced, True) if axis in axes else (kept, False)
        if axis and (axis - 1 in axes) == goes:
            groups[-1].append(axis)
        else:
            groups.append([axis])
    return kept, reduced


def axis_records(shapes: np.ndarray, itemsize: int, kept: list[list[int]], reduced: list[list[int]]) -> np.ndarray:
    """Records of a REDUCTION: extents and strides of the kept groups, then of the reduced ones."""
    strides = dense_strides(shapes, itemsize)
    columns = []
    for groups in (kept, reduced):
        columns += [shapes[:, group].prod(axis=1) for group in groups]
        columns += [strides[:, group[-1]] for group in groups]
    records = np.empty((len(shapes), len(columns)), np.int64)
    for k, column in enumerate(columns):
        records[:, k] = column
    return records


class _Reduction(Operator):
    """Common base of reductions: axes, shapes, layout, records."""

    repeatable = True
    on_cuda = True
    finish: ClassVar[str] = "sum"
    kind: ClassVar[str] = "value"

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        if spec.given("axes") and spec.given("axis_names"):
            raise ValueError("`axes` and `axis_names` are mutually exclusive")
        from . import reductions_kernels

        self._kernels: Any = reductions_kernels

    def infer(self, dtypes: list[DALIDataType | None]) -> list[DALIDataType | None]:
        if dtypes[0] is None:
            return [None]
        if dtypes[0] in _TYPES:
            self._step(dtypes[0], self._output_type(dtypes[0])).compile()
        return [self._output_type(dtypes[0])]

    def _output_type(self, source: DALIDataType) -> DALIDataType:
        """Element type of the output for an input of type `source`; ValueError if there is none."""
        raise TypeError("abstract")

    def _step(self, source: DALIDataType, target: DALIDataType) -> Any:
        name = storage_dtype(source).name
        exact = target != DALIDataType.FLOAT and source != DALIDataType.FLOAT
        return (self._kernels.whole_step if exact else self._kernels.float_step)(name, self.kind)

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        source = inputs[0]
        target = self._output_type(source.dtype)
        axes = reduced_axes(self.spec, source)
        kept = [axis for axis in range(source.ndim) if axis not in axes]
        layout = source.layout
        if arguments.constant("keep_dims"):
            shapes = source.shapes.copy()
            shapes[:, axes] = 1
        else:
            shapes = source.shapes[:, kept]
            layout = "".join(layout[axis] for axis in kept) if layout else ""
        output = Batch(shapes, target, layout, device=source.device, source_info=source.source_info)
        groups = axis_groups(source.ndim, axes)
        means, each = self._means(inputs, source.shapes[:, kept])
        records = axis_records(source.shapes, source.itemsize, *groups)
        ddof = self.spec.constant("ddof") if "ddof" in self.spec.schema.by_name else 0
        no_axes = not axes and (self.spec.given("axes") or self.spec.given("axis_names"))
        reduction = Reduction(
            source.addresses, source.dtype, (output.addresses, 0, 0), target, records, len(groups[0]), len(groups[1]), self.kind,
            FINISHES[self.finish], ddof, (means, 0, 0), each, no_axes,
        )  # fmt: skip
        table, keep = reduction.table(output.addresses, means)
        step = Step(self._step(source.dtype, target).address, table, no_explanation, keep=keep)
        step.launches = reduction.launches
        return Planned([output], [step])

    def _means(self, inputs: list[Batch], kept: np.ndarray) -> tuple[Any, Any]:
        """Addresses of the means, and per sample whether there is one for each output."""
        return 0, 0


class _WithType(_Reduction):
    """Reductions with an argument `dtype`."""

    integers: ClassVar[bool] = False
    """Whether integers give integers by default."""

    def _output_type(self, source: DALIDataType) -> DALIDataType:
        wide = DALIDataType.UINT64 if source in _UNSIGNED else DALIDataType.INT64
        wanted: DALIDataType | None = self.spec.constant("dtype")
        if wanted is None:
            return wide if self.integers and source != DALIDataType.FLOAT else DALIDataType.FLOAT
        allowed = (DALIDataType.FLOAT,) if source == DALIDataType.FLOAT else (source, wide, DALIDataType.FLOAT)
        if wanted not in allowed:
            names = " and ".join(dict.fromkeys(dtype.name for dtype in allowed))
            raise ValueError(f"`dtype` {wanted.name} is not supported for an input of type {source.name}; {names} are")
        return wanted


def _schema(name: str, doc: str, *more: Arg, inputs: int = 1) -> Schema:
    output = Output(LIKE if name in ("max", "min") else CHOSEN, CHOSEN, CHOSEN)
    return Schema(
        name=f"reductions.{name}", doc=doc, accepts=_INPUTS, gives=(output,), inputs=(inputs, inputs),
        input_names=("data", "mean") if inputs == 2 else (), devices=("cpu", "gpu"),
        args=(*AXES_ARGS, *more),
    )  # fmt: skip


@register
class Sum(_WithType):
    schema = _schema(
        "sum",
        "The sum over axes. Integers give UINT64 or INT64 by default; a sum that `dtype` cannot hold wraps around.",
        _DTYPE,
    )
    integers = True


@register
class Mean(_WithType):
    schema = _schema("mean", "The mean over axes, FLOAT by default; an integer `dtype` drops the fraction.", _DTYPE)
    finish = "mean"


@register
class MeanSquare(_WithType):
    schema = _schema("mean_square", "The mean of the squares over axes, FLOAT by default; an integer `dtype` drops the fraction.", _DTYPE)
    finish, kind = "mean", "square"


@register
class RMS(_WithType):
    schema = _schema(
        "rms", "The root of the mean of the squares over axes, FLOAT by default; an integer `dtype` drops the fraction.", _DTYPE
    )
    finish, kind = "root", "square"


class _Extreme(_Reduction):
    kind = "largest"

    def _output_type(self, source: DALIDataType) -> DALIDataType:
        return source

    def _step(self, source: DALIDataType, target: DALIDataType) -> Any:
        return self._kernels.extreme_step(storage_dtype(source).name, self.kind == "largest")


@register
class Max(_Extreme):
    schema = _schema("max", "The largest element over axes; NaN is ignored. Without elements: the type's smallest number.")


@register
class Min(_Extreme):
    schema = _schema("min", "The smallest element over axes; NaN is ignored. Without elements: the type's largest number.")
    kind = "smallest"


class _Deviation(_Reduction):
    """variance and std_dev: the second input are the means."""

    kind = "deviation"

    def _output_type(self, source: DALIDataType) -> DALIDataType:
        return DALIDataType.FLOAT

    def _means(self, inputs: list[Batch], kept: np.ndarray) -> tuple[object, object]:
        means = inputs[1]
        count, wanted = means.shapes.prod(axis=1), kept.prod(axis=1)
        wrong = (count != wanted) & (count != 1)
        if wrong.any():
            i = int(np.flatnonzero(wrong)[0])
            raise SampleError(i, f"{int(wanted[i])} means are needed, or one for all; input 1 has shape {tuple(means.shapes[i].tolist())}")
        return means.addresses, np.ascontiguousarray(count != 1, np.int64)


_DDOF = Arg("ddof", "int", 0, "Subtracted from the number of elements in the divisor.")
_MEANS = "The means are the second input, in the shape that ``reductions.mean`` gives (or one for all)."


@register
class Variance(_Deviation):
    schema = _schema("variance", f"The variance over axes. {_MEANS}", _DDOF, inputs=2)
    finish = "mean"


@register
class StdDev(_Deviation):
    schema = _schema("std_dev", f"The standard deviation over axes. {_MEANS}", _DDOF, inputs=2)
    finish = "root"
