"""normalize: data with a given mean and standard deviation, over any axes, per sample or per batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...batch import Batch, storage_dtype
from ...compiled.addresses import Within
from ...compiled.tables import laid_out
from ...device.launch import PACK, Entry, Kernel, Launch, Scratch, element_type, grid_of
from ...types import DALIDataType
from ..accepts import ANY_RANK, Input, Output, argument
from ..base import (
    Arg,
    Arguments,
    CompiledJob,
    Environment,
    Iteration,
    Operator,
    Planned,
    Preparation,
    SampleError,
    Schema,
    Spec,
    Step,
    Trait,
    no_explanation,
    refuse_where,
    register,
)
from ..moves.pieces import dense_strides, named_axes, normal_axes
from .normalize_tables import APPLY, FACTORS, OVER_BATCH
from .place_tables import NOWHERE, Place, placed
from .reductions import axis_groups, axis_records
from .reductions_launches import Reduction

_SOURCE = Path(__file__).with_name("normalize_kernels.cu")
_NO_TYPES = (("IN", "float32"), ("OUT", "float32"))  # Kernels that work on float32 whatever the element types are.
_INPUTS = (
    DALIDataType.UINT8, DALIDataType.UINT16, DALIDataType.UINT32, DALIDataType.INT8, DALIDataType.INT16, DALIDataType.INT32,
    DALIDataType.UINT64, DALIDataType.INT64, DALIDataType.FLOAT,
)  # fmt: skip
_OUTPUTS = (*_INPUTS, DALIDataType.FLOAT16, DALIDataType.FLOAT64)


class _Parameter:
    """Means or factors of a batch: float32 values in memory, and their mapping to samples.

    addresses   int64[samples], in the host's memory
    shapes      int64[samples, ndim], 1 along reduced axes
    place       the values' place on a GPU: 0, a block of memory, offsets int64[samples] in it
    """

    def __init__(self, addresses: np.ndarray | Within, shapes: np.ndarray, keep: Any, place: Place):
        self.addresses = addresses
        self.shapes = shapes
        self.keep = keep
        self.place = place

    @classmethod
    def empty(cls, shapes: np.ndarray) -> _Parameter:
        """Memory for values that are computed later; the samples are contiguous."""
        counts = shapes.prod(axis=1)
        values = np.empty(int(counts.sum()) + 1, np.float32)
        first = np.cumsum(counts) - counts
        return cls(Within(first, values), shapes, values, (0, Scratch(values.nbytes), 4 * first))

    @classmethod
    def of(cls, rows: list[np.ndarray], ndim: int) -> _Parameter:
        """Known values."""
        rows = [np.ascontiguousarray(row, np.float32).reshape(row.shape) for row in rows]
        shapes = np.array([row.shape for row in rows], np.int64).reshape(len(rows), ndim)
        counts = shapes.prod(axis=1)
        together = np.concatenate([row.reshape(-1) for row in rows]) if rows else np.empty(0, np.float32)
        first = np.cumsum(counts) - counts
        return cls(Within(first, together), shapes, rows, (0, together, 4 * first))

    @classmethod
    def shared(cls, value: np.ndarray, count: int) -> _Parameter:
        """The same values for all samples."""
        value = np.ascontiguousarray(value, np.float32).reshape(value.shape)
        shapes = np.tile(np.array(value.shape, np.int64), (count, 1))
        return cls(Within(np.zeros(count, np.int64), value), shapes, value, (0, value, np.zeros(count, np.int64)))

    @classmethod
    def on_gpu(cls, shape: np.ndarray, count: int) -> _Parameter:
        """Values of `shape` that a GPU will compute, the same for all samples."""
        block = Scratch(4 * max(1, int(shape.prod())))
        return cls(np.zeros(count, np.int64), np.tile(shape, (count, 1)), None, (0, block, np.zeros(count, np.int64)))

    def strides(self) -> np.ndarray:
        """Strides in elements, 0 along axes of extent 1."""
        return np.where(self.shapes == 1, 0, dense_strides(self.shapes, 1))

    def grouped_strides(self, groups: list[list[int]]) -> np.ndarray:
        """Strides of groups of neighbouring axes. Within a group, either all elements share one value or each has its own."""
        dense = dense_strides(self.shapes, 1)
        columns = [np.where(self.shapes[:, group].prod(axis=1) == 1, 0, dense[:, group[-1]]) for group in groups]
        return np.stack(columns, axis=1) if columns else np.zeros((len(self.shapes), 0), np.int64)


@register
class Normalize(Operator):
    repeatable = True
    on_cuda = True
    traits = Trait.WIDENS
    schema = Schema(
        name="normalize",
        doc="""``(input - mean) / stddev * scale + shift``.

        Mean and standard deviation are computed over `axes` (by default all), unless given: as numbers, or as tensors of the input's rank
        with an extent of 1 along the reduced axes (which then need not be named). With `batch` they are those of the whole batch.
        If the deviation is 0, the quotient is 0. Integers are rounded and saturated.""",
        accepts=(Input(_INPUTS, ranks=ANY_RANK),),
        gives=(Output(type=argument("dtype")),),
        devices=("cpu", "gpu"),
        args=(
            Arg("axes", "int_list", None, "The axes over which to compute; negative ones count from the back."),
            Arg("axis_names", "layout", None, "The axes by their letters in the layout."),
            Arg("batch", "bool", False, "Whether mean and deviation are those of the batch; other axes must have equal extents."),
            Arg("ddof", "int", 0, "The variance is divided by the number of elements minus this."),
            Arg("dtype", "dtype", DALIDataType.FLOAT, "Element type of the output."),
            Arg("epsilon", "float", 0.0, "Added to the variance."),
            Arg("mean", "float", None, "The mean.", tensor=True),
            Arg("scale", "float", 1.0, "The standard deviation of the output."),
            Arg("shift", "float", 0.0, "The mean of the output."),
            Arg("stddev", "float", None, "The standard deviation.", tensor=True),
        ),
    )

    @classmethod
    def prepares(cls, spec: Spec) -> bool:
        return bool(spec.constant("batch"))

    @classmethod
    def inputs_read(cls, spec: Spec, on_cuda: bool) -> Sequence[int]:
        # With `batch`, means and deviations depend on all samples, so all must be complete. On a GPU, earlier launches have completed them.
        return (0,) if spec.constant("batch") and not on_cuda else ()

    @classmethod
    def why_whole(cls, spec: Spec) -> str:
        return "mean and deviation are those of the batch (`batch`)" if spec.constant("batch") else ""

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        if spec.given("axes") and spec.given("axis_names"):
            raise ValueError("`axes` and `axis_names` are mutually exclusive")
        if spec.given("axes") and not spec.constant("axes"):
            raise ValueError("`axes` is empty; at least one axis is needed")
        numbers = [name for name in ("mean", "stddev") if name in spec.constants]
        if len(numbers) == 2 and (spec.given("axes") or spec.given("axis_names")):
            raise ValueError("`axes` and `axis_names` cannot be given if both `mean` and `stddev` are numbers")
        if spec.constant("batch") and spec.argument_inputs:
            raise ValueError(f"`batch` cannot be combined with `{spec.argument_inputs[0]}` as a tensor")
        self._dtype: DALIDataType = spec.constant("dtype")
        if self._dtype not in _OUTPUTS:
            raise ValueError(f"`dtype` {self._dtype.name} is not supported; numbers are")
        self._shift = np.array([spec.constant("shift")], np.float32)
        self._scale_and_epsilon = np.array([spec.constant("scale"), spec.constant("epsilon")], np.float32)
        self._on_gpu = environment.gpu is not None and spec.device != "cpu"
        from . import normalize_kernels, reductions_kernels

        self._kernels: Any = normalize_kernels
        self._reductions: Any = reductions_kernels

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

    @property
    def may_wait(self) -> bool:
        return False

    def prepare(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Preparation:
        """With `batch`, compute and return (mean, factor) of the batch. None, for one or both, leaves the computation to `plan`."""
        if not self.spec.constant("batch") or not len(inputs[0]) or self._on_gpu:
            return None
        source, axes = inputs[0], self._axes(inputs[0], arguments)
        shapes = self._agreed_shapes(source, axes)
        elements = int(source.shapes[:, axes].prod(axis=1).sum())
        if "mean" in self.spec.constants:
            mean = self._number("mean", source)
        else:
            sums = _Parameter.empty(shapes)
            yield CompiledJob(len(source), [self._sums(source, axes, "value", sums, None)])
            mean = _Parameter.shared(_total(sums, 1 / np.float32(max(elements, 1))), len(source))
        if "stddev" in self.spec.constants:
            return mean, None
        sums = _Parameter.empty(shapes)
        yield CompiledJob(len(source), [self._sums(source, axes, "deviation", sums, mean)])
        variance = _total(sums, self._per_element(elements))
        return mean, _Parameter.shared(self._factors(variance, squared=False), len(source))

    def _per_element(self, elements: int) -> np.float32:
        """The factor of a sum of squared distances."""
        divisor = elements - self.spec.constant("ddof")
        return 1 / np.float32(divisor) if divisor > 0 else np.float32(0)

    @staticmethod
    def _agreed_shapes(source: Batch, axes: list[int]) -> np.ndarray:
        """Shapes of the statistics of a batch; SampleError if they differ."""
        shapes = _without(source.shapes, axes)
        refuse_where(
            (shapes != shapes[0]).any(axis=1),
            lambda i: f"with `batch`, samples must agree in extent along axes that are not reduced: {tuple(source.shapes[i].tolist())} and "
            f"{tuple(source.shapes[0].tolist())} in sample 0, reduced axes {axes}",
        )
        return shapes

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        source = inputs[0]
        axes = self._axes(source, arguments)
        output = Batch(source.shapes, self._dtype, source.layout, device=source.device, source_info=source.source_info)
        steps: list[Step] = []
        mean, factor = iteration.prepared or (None, None)
        if self.spec.constant("batch") and self._on_gpu and len(source):
            mean, factor = self._statistics_on_gpu(source, axes, steps)
        if mean is None:
            mean = self._given("mean", source, axes, arguments) or self._computed_mean(source, axes, steps)
        if factor is None and self.spec.given("stddev"):
            given = self._given("stddev", source, axes, arguments)
            assert given is not None
            factor = self._inverted(given, source)
        if factor is None:
            factor = self._computed_factor(source, axes, mean, steps)
        steps.append(self._apply(source, output, axes, mean, factor))
        return Planned([output], steps)

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
        """The parameter if the user gave it; SampleError if its shape does not fit."""
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
        """``scale / sqrt(variance + epsilon)`` of variances, or of deviations, which are squared first; 0 for 0."""
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
        reduction = Reduction(
            source.addresses, source.dtype, out.place, DALIDataType.FLOAT, records, len(groups[0]), len(groups[1]), kind, finish, ddof,
            NOWHERE if mean is None else mean.place, each,
        )  # fmt: skip
        table, keep = reduction.table(out.addresses, means)
        function = self._reductions.float_step(storage_dtype(source.dtype).name, kind)
        step = Step(function.address, table, no_explanation, keep=keep)
        step.launches = reduction.launches
        return step

    def _computed_mean(self, source: Batch, axes: list[int], steps: list[Step]) -> _Parameter:
        mean = _Parameter.empty(_without(source.shapes, axes))
        steps.append(self._sums(source, axes, "value", mean, None, finish=1))
        return mean

    def _computed_factor(self, source: Batch, axes: list[int], mean: _Parameter, steps: list[Step]) -> _Parameter:
        factor, ddof = _Parameter.empty(_without(source.shapes, axes)), self.spec.constant("ddof")
        steps.append(self._sums(source, axes, "deviation", factor, mean, finish=1, ddof=ddof))
        known = np.ascontiguousarray(source.shapes[:, axes].prod(axis=1) > ddof, np.int64)
        counts = factor.shapes.prod(axis=1)
        table, keep = laid_out(self._factor_entries((factor.addresses, 0, 0), counts, known))
        step = Step(self._kernels.factor_step.address, table, no_explanation, keep=keep)
        step.launches = lambda: [self._factor_launch(factor, counts, known)]
        steps.append(step)
        return factor

    def _factor_launch(self, factor: _Parameter, counts: np.ndarray, known: np.ndarray) -> Launch:
        kernel = Kernel(_SOURCE, "factors", _NO_TYPES)
        return Launch(kernel, self._factor_entries(factor.place, counts, known), grid_of(int(counts.max(initial=0)), len(counts)))

    def _factor_entries(self, variances: Place, counts: np.ndarray, known: np.ndarray) -> tuple[Entry, ...]:
        return FACTORS.entries(
            **placed("variances", variances), counts=counts, known=known, scale_and_epsilon=self._scale_and_epsilon, samples=len(counts)
        )

    def _statistics_on_gpu(self, source: Batch, axes: list[int], steps: list[Step]) -> tuple[_Parameter | None, _Parameter | None]:
        """Mean and factor of the batch (None: a number), and the launches that compute them."""
        shapes = self._agreed_shapes(source, axes)
        elements = int(source.shapes[:, axes].prod(axis=1).sum())
        mean: _Parameter | None = None
        if "mean" not in self.spec.constants:
            mean = self._over_batch(source, axes, shapes, "value", None, 1 / np.float32(max(elements, 1)), steps)
        if "stddev" in self.spec.constants:
            return mean, None
        known_mean = self._number("mean", source) if mean is None else mean
        factor = self._over_batch(source, axes, shapes, "deviation", known_mean, self._per_element(elements), steps)
        one = _Parameter(np.zeros(1, np.int64), factor.shapes[:1], None, factor.place)
        steps.append(_on_gpu_only(lambda: [self._factor_launch(one, one.shapes.prod(axis=1), np.ones(1, np.int64))]))
        return known_mean, factor

    def _over_batch(
        self, source: Batch, axes: list[int], shapes: np.ndarray, kind: str, mean: _Parameter | None, scale: np.float32, steps: list[Step]
    ) -> _Parameter:
        sums, total = _Parameter.empty(shapes), _Parameter.on_gpu(shapes[0], len(source))
        each_sample = self._sums(source, axes, kind, sums, mean)
        count = int(shapes[0].prod())
        context = OVER_BATCH.entries(
            values=sums.place[1], count=count, samples=len(source), scale=np.array([scale], np.float32), result=total.place[1]
        )
        add = Launch(Kernel(_SOURCE, "over_batch", _NO_TYPES), context, grid_of(count, 1))
        assert each_sample.launches is not None
        made = each_sample.launches
        steps.append(_on_gpu_only(lambda: [*made(), add]))
        return total

    def _apply(self, source: Batch, output: Batch, axes: list[int], mean: _Parameter, factor: _Parameter) -> Step:
        records = np.ascontiguousarray(np.stack([source.shapes, mean.strides(), factor.strides()], axis=1))
        table, keep = laid_out(self._apply_entries(source, output, records, (mean.addresses, 0, 0), (factor.addresses, 0, 0)))
        names = storage_dtype(source.dtype).name, storage_dtype(self._dtype).name
        step = Step(self._kernels.apply_step(*names).address, table, no_explanation, keep=[keep, mean.keep, factor.keep])
        step.launches = lambda: [self._apply_launch(source, output, axes, mean, factor)]
        return step

    def _apply_launch(self, source: Batch, output: Batch, axes: list[int], mean: _Parameter, factor: _Parameter) -> Launch:
        groups = sorted(group for half in axis_groups(source.ndim, axes) for group in half)
        extents = [source.shapes[:, group].prod(axis=1) for group in groups]
        columns = np.stack(extents, axis=1) if groups else np.zeros((len(source), 0), np.int64)
        strides = np.stack([mean.grouped_strides(groups), factor.grouped_strides(groups)], axis=1)
        records = np.concatenate([columns[:, None], strides], axis=1)
        names = (("IN", element_type(storage_dtype(source.dtype))), ("OUT", element_type(storage_dtype(self._dtype))))
        context = self._apply_entries(source, output, records, mean.place, factor.place)
        largest = int(columns.prod(axis=1).max(initial=0))
        channels = _repeated(columns, strides)
        kernel = Kernel(_SOURCE, "apply_channels", (*names, ("CHANNELS", channels))) if channels else Kernel(_SOURCE, "apply", names)
        return Launch(kernel, context, grid_of(-(-largest // PACK) + 1, len(source)))

    def _apply_entries(self, source: Batch, output: Batch, records: np.ndarray, means: Place, factors: Place) -> tuple[Entry, ...]:
        """The table of ``apply``; records int64[samples, 3, groups]."""
        return APPLY.entries(
            inputs=source.addresses, outputs=output.addresses, records=records, groups=records.shape[2], **placed("means", means),
            **placed("factors", factors), shift=self._shift, samples=len(source),
        )  # fmt: skip


def _on_gpu_only(launches: Callable[[], list[Launch]]) -> Step:
    """A step that consists of launches only."""
    return Step(0, np.empty(0, np.int64), no_explanation, launches=launches)


def _repeated(columns: np.ndarray, strides: np.ndarray) -> int:
    """The number of elements, at most PACK, after which means and factors repeat in all samples of an APPLY; 0 if there is none.

    `columns`: int64[samples, groups], elements of each group of axes. `strides`: int64[samples, 2, groups], of means and factors.
    """
    if not strides.any():
        return 1
    extents = columns[:, -1]
    if strides[..., :-1].any() or not 2 <= extents[0] <= PACK or (extents != extents[0]).any():
        return 0
    return int(extents[0])


def _without(shapes: np.ndarray, axes: list[int]) -> np.ndarray:
    """Shapes with an extent of 1 along `axes`."""
    reduced = shapes.copy()
    reduced[:, axes] = 1
    return reduced


def _total(sums: _Parameter, scale: Any) -> np.ndarray:
    """The sum of the values of all samples (of equal shape), scaled."""
    count = len(sums.shapes)
    values = sums.keep[: count * int(sums.shapes[0].prod())].reshape(count, *sums.shapes[0])
    total: np.ndarray = values.sum(axis=0, dtype=np.float32) * np.float32(scale)
    return total.astype(np.float32)
