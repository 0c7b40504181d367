"""normalize: data with a given mean and standard deviation, over any axes, per sample or per batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...batch import Batch, storage_dtype
from ...types import DALIDataType
from ..arrays.strided import dense_strides, named_axes, normal_axes
from ..base import (
    Arg,
    Arguments,
    CompiledJob,
    Environment,
    Iteration,
    Operator,
    Planned,
    PythonJob,
    SampleError,
    Schema,
    Spec,
    Step,
    context_table,
    no_explanation,
    register,
)
from .reductions import axis_groups, axis_records

_INPUTS = (
    DALIDataType.UINT8, DALIDataType.UINT16, DALIDataType.UINT32, DALIDataType.INT8, DALIDataType.INT16, DALIDataType.INT32,
    DALIDataType.UINT64, DALIDataType.INT64, DALIDataType.FLOAT,
)  # fmt: skip
_OUTPUTS = (*_INPUTS, DALIDataType.FLOAT16, DALIDataType.FLOAT64)


class _Parameter:
    """Means or factors of a batch: float32 values somewhere, and how samples use them."""

    def __init__(self, addresses: np.ndarray, shapes: np.ndarray, keep: Any):
        self.addresses = addresses
        self.shapes = shapes
        """int64[samples, ndim], 1 along reduced axes."""
        self.keep = keep

    @classmethod
    def empty(cls, shapes: np.ndarray) -> _Parameter:
        """Values yet to be computed, one sample after another."""
        counts = shapes.prod(axis=1)
        values = np.empty(int(counts.sum()) + 1, np.float32)
        return cls(values.ctypes.data + 4 * (np.cumsum(counts) - counts), shapes, values)

    @classmethod
    def of(cls, rows: list[np.ndarray], ndim: int) -> _Parameter:
        """Known values."""
        rows = [np.ascontiguousarray(row, np.float32).reshape(row.shape) for row in rows]
        shapes = np.array([row.shape for row in rows], np.int64).reshape(len(rows), ndim)
        return cls(np.array([row.ctypes.data for row in rows], np.int64), shapes, rows)

    @classmethod
    def shared(cls, value: np.ndarray, count: int) -> _Parameter:
        """The same values for all samples."""
        value = np.ascontiguousarray(value, np.float32).reshape(value.shape)
        return cls(np.full(count, value.ctypes.data), np.tile(np.array(value.shape, np.int64), (count, 1)), value)

    def strides(self) -> np.ndarray:
        """Strides in elements, 0 along axes of extent 1."""
        return np.where(self.shapes == 1, 0, dense_strides(self.shapes, 1))


@register
class Normalize(Operator):
    """See the schema."""

    schema = Schema(
        name="normalize",
        doc="""``(input - mean) / stddev * scale + shift``.

        Mean and standard deviation are computed over `axes` (by default all), unless given: as numbers, or as tensors of the input's rank
        with an extent of 1 along the reduced axes (which then need not be named). With `batch` they are those of the whole batch. Where the
        deviation is 0, so is the quotient. Integers are rounded and saturated.""",
        devices=("cpu", "gpu"),
        args=(
            Arg("axes", "int_list", None, "The axes over which to compute; negative ones count from the back."),
            Arg("axis_names", "layout", None, "The axes by their letters in the layout."),
            Arg("batch", "bool", False, "Whether mean and deviation are those of the batch; other axes must have equal extents."),
            Arg("ddof", "int", 0, "Is taken off the number of elements that the variance is divided by."),
            Arg("dtype", "dtype", DALIDataType.FLOAT, "Element type of the output."),
            Arg("epsilon", "float", 0.0, "Added to the variance."),
            Arg("mean", "float", None, "The mean.", tensor=True),
            Arg("scale", "float", 1.0, "The standard deviation of the output."),
            Arg("shift", "float", 0.0, "The mean of the output."),
            Arg("stddev", "float", None, "The standard deviation.", tensor=True),
        ),
    )
    # Only `batch` looks at the data of all samples before any is done; what is read is declared for the class.
    reads = (0,)

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        if spec.given("axes") and spec.given("axis_names"):
            raise ValueError("`axes` and `axis_names` are mutually exclusive")
        if spec.given("axes") and not spec.constant("axes"):
            raise ValueError("`axes` is empty; at least one axis is needed")
        numbers = [name for name in ("mean", "stddev") if name in spec.constants]
        if len(numbers) == 2 and (spec.given("axes") or spec.given("axis_names")):
            raise ValueError("axes have no meaning when both `mean` and `stddev` are numbers")
        if spec.constant("batch") and spec.argument_inputs:
            raise ValueError(f"`batch` cannot be combined with `{spec.argument_inputs[0]}` as a tensor")
        self._dtype: DALIDataType = spec.constant("dtype")
        if self._dtype not in _OUTPUTS:
            raise ValueError(f"`dtype` {self._dtype.name} is not supported; numbers are")
        self._shift = np.array([spec.constant("shift")], np.float32)
        self._statistics: tuple[_Parameter | None, _Parameter | None] = None, None
        from . import deviation_kernels, reduction_kernels

        self._kernels: Any = deviation_kernels
        self._reductions: Any = reduction_kernels

    def infer(self, dtypes: list[DALIDataType | None]) -> list[DALIDataType | None]:
        if dtypes[0] in _INPUTS:
            name = storage_dtype(dtypes[0]).name
            self._kernels.apply_step(name, storage_dtype(self._dtype).name).compile()
            if not self.spec.given("mean"):
                self._reductions.float_step(name, "value").compile()
            if not self.spec.given("stddev"):
                self._reductions.float_step(name, "deviation").compile()
                self._kernels.factor_step.compile()
        return [self._dtype]

    # --- one iteration

    def prepare(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Iterator[PythonJob | CompiledJob]:
        self._statistics = None, None
        if not self.spec.constant("batch") or not len(inputs[0]):
            return
        source, axes = inputs[0], self._axes(inputs[0], arguments)
        self._check(source)
        shapes = _without(source.shapes, axes)
        wrong = (shapes != shapes[0]).any(axis=1)
        if wrong.any():
            i = int(np.flatnonzero(wrong)[0])
            raise SampleError(
                i, f"with `batch`, samples must agree in extent along axes that are not reduced: {tuple(source.shapes[i].tolist())} and "
                f"{tuple(source.shapes[0].tolist())} in sample 0, reduced axes {axes}"
            )  # fmt: skip
        elements = int(source.shapes[:, axes].prod(axis=1).sum())
        if "mean" in self.spec.constants:
            mean = self._number("mean", source)
        else:
            sums = _Parameter.empty(shapes)
            yield CompiledJob(len(source), [self._sums(source, axes, "value", sums, None)])
            mean = _Parameter.shared(_total(sums, 1 / np.float32(max(elements, 1))), len(source))
        if "stddev" in self.spec.constants:
            self._statistics = mean, None
            return
        sums = _Parameter.empty(shapes)
        yield CompiledJob(len(source), [self._sums(source, axes, "deviation", sums, mean)])
        divisor = elements - self.spec.constant("ddof")
        variance = _total(sums, 1 / np.float32(divisor) if divisor > 0 else np.float32(0))
        self._statistics = mean, _Parameter.shared(self._factors(variance, squared=False), len(source))

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        source = inputs[0]
        self._check(source)
        axes = self._axes(source, arguments)
        output = Batch(source.shapes, self._dtype, source.layout, device=source.device, source_info=source.source_info)
        steps: list[Step] = []
        mean, factor = self._statistics
        self._statistics = None, None
        if mean is None:
            mean = self._given("mean", source, axes, arguments) or self._computed_mean(source, axes, steps)
        if factor is None and self.spec.given("stddev"):
            given = self._given("stddev", source, axes, arguments)
            assert given is not None
            factor = self._inverted(given, source)
        if factor is None:
            factor = self._computed_factor(source, axes, mean, steps)
        steps.append(self._apply(source, output, mean, factor))
        return Planned([output], steps)

    def _check(self, source: Batch) -> None:
        if source.dtype not in _INPUTS:
            raise ValueError(f"an input of type {source.dtype.name} is not supported; integers and FLOAT are")

    def _axes(self, source: Batch, arguments: Arguments) -> list[int]:
        """The reduced axes, in order."""
        if self.spec.given("axis_names"):
            return sorted(named_axes(self.spec.constant("axis_names"), source.layout))
        if self.spec.given("axes"):
            return sorted(normal_axes(self.spec.constant("axes"), source.ndim))
        for name in self.spec.argument_inputs:
            shapes = arguments.batch(name).shapes
            if shapes.shape[1] == source.ndim:
                return [axis for axis in range(source.ndim) if (shapes[:, axis] == 1).all()]
        return list(range(source.ndim))

    # --- parameters that are given

    def _number(self, name: str, source: Batch) -> _Parameter:
        return _Parameter.shared(np.full((1,) * source.ndim, self.spec.constant(name), np.float32), len(source))

    def _given(self, name: str, source: Batch, axes: list[int], arguments: Arguments) -> _Parameter | None:
        """The parameter if the user gave it; SampleError when its shape does not fit."""
        if not self.spec.given(name):
            return None
        if not arguments.is_input(name):
            return self._number(name, source)
        batch = arguments.batch(name)
        wanted = _without(source.shapes, axes)
        if batch.ndim != source.ndim or (batch.shapes != wanted).any():
            fits = np.zeros(len(source), bool) if batch.ndim != source.ndim else (batch.shapes == wanted).all(axis=1)
            i = int(np.flatnonzero(~fits)[0]) if len(fits) else 0
            raise SampleError(
                i, f"`{name}` must have shape {tuple(wanted[i].tolist())} for a sample of shape {tuple(source.shapes[i].tolist())} reduced "
                f"along {axes}, got {tuple(batch.shapes[i].tolist())}"
            )  # fmt: skip
        return _Parameter.of([batch.sample(i) for i in range(len(batch))], source.ndim)

    def _factors(self, values: np.ndarray, squared: bool) -> np.ndarray:
        """``scale / sqrt(variance + epsilon)`` of variances, or of deviations to be squared; 0 for 0."""
        scale, epsilon = np.float32(self.spec.constant("scale")), np.float32(self.spec.constant("epsilon"))
        with np.errstate(all="ignore"):
            if squared and epsilon == 0:
                quotient = np.where(values == 0, np.float32(0), scale / values)
            else:
                total = (values * values if squared else values) + epsilon
                quotient = np.where(total == 0, np.float32(0), scale / np.sqrt(total))
        return quotient.astype(np.float32)

    def _inverted(self, deviations: _Parameter, source: Batch) -> _Parameter:
        keep = deviations.keep
        if isinstance(keep, np.ndarray):
            return _Parameter.shared(self._factors(keep, squared=True), len(source))
        return _Parameter.of([self._factors(row, squared=True) for row in keep], source.ndim)

    # --- parameters that are computed

    def _sums(
        self, source: Batch, axes: list[int], kind: str, out: _Parameter, mean: _Parameter | None, finish: int = 0, ddof: int = 0
    ) -> Step:
        """The step that reduces `source` into `out`."""
        groups = axis_groups(source.ndim, axes)
        records = axis_records(source.shapes, source.itemsize, *groups)
        means, each = (0, 0) if mean is None else (mean.addresses, np.ascontiguousarray(mean.shapes.prod(axis=1) != 1, np.int64))
        table, keep = context_table(
            (source.addresses, out.addresses, records, len(groups[0]), len(groups[1]), finish, ddof, means, each, 0, 0, 0)
        )
        function = self._reductions.float_step(storage_dtype(source.dtype).name, kind)
        return Step(function.address, table, no_explanation, keep=[*keep, out.keep, mean.keep if mean else None])

    def _computed_mean(self, source: Batch, axes: list[int], steps: list[Step]) -> _Parameter:
        mean = _Parameter.empty(_without(source.shapes, axes))
        steps.append(self._sums(source, axes, "value", mean, None, finish=1))
        return mean

    def _computed_factor(self, source: Batch, axes: list[int], mean: _Parameter, steps: list[Step]) -> _Parameter:
        factor, ddof = _Parameter.empty(_without(source.shapes, axes)), self.spec.constant("ddof")
        steps.append(self._sums(source, axes, "deviation", factor, mean, finish=1, ddof=ddof))
        known = np.ascontiguousarray(source.shapes[:, axes].prod(axis=1) > ddof, np.int64)
        numbers = np.array([self.spec.constant("scale"), self.spec.constant("epsilon")], np.float32)
        table, keep = context_table((factor.addresses, factor.shapes.prod(axis=1), known, numbers))
        steps.append(Step(self._kernels.factor_step.address, table, no_explanation, keep=[*keep, factor.keep]))
        return factor

    def _apply(self, source: Batch, output: Batch, mean: _Parameter, factor: _Parameter) -> Step:
        records = np.ascontiguousarray(np.stack([source.shapes, mean.strides(), factor.strides()], axis=1))
        table, keep = context_table(
            (source.addresses, output.addresses, records, source.ndim, mean.addresses, factor.addresses, self._shift)
        )
        function = self._kernels.apply_step(storage_dtype(source.dtype).name, storage_dtype(self._dtype).name)
        return Step(function.address, table, no_explanation, keep=[*keep, mean.keep, factor.keep])


def _without(shapes: np.ndarray, axes: list[int]) -> np.ndarray:
    """Shapes with an extent of 1 along `axes`."""
    reduced = shapes.copy()
    reduced[:, axes] = 1
    return reduced


def _total(sums: _Parameter, scale: Any) -> np.ndarray:
    """The sum of all samples' values (of equal shape), scaled."""
    count = len(sums.shapes)
    values = sums.keep[: count * int(sums.shapes[0].prod())].reshape(count, *sums.shapes[0])
    return (values.sum(axis=0, dtype=np.float32) * np.float32(scale)).astype(np.float32)
