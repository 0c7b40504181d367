"""The operators of conditionals: they split batches by a condition and merge them again, without copying a sample. A part of a batch has
the samples of one branch. Parts are numbered from 0: for `if`, part 0 has the samples for which the condition is true.

Samples keep their order. If the data has no memory yet (it is computed in the same segment), the parts are linked to it; see
``Batch.links``. On a GPU all data already has memory when it is planned: a part is a table of addresses.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ...batch import Batch
from ...types import DALIDataType
from ..accepts import ANYTHING, CHOSEN, Output
from ..base import REQUIRED, Arg, Arguments, Environment, Iteration, Operator, Planned, Role, Schema, Spec, Trait, register

_COPIED = 64 * 1024
"""Contents up to this size (bytes) that are known during planning are copied, so that they remain known."""

_PREDICATE = Arg("predicate", "bool", None, "The condition: one number per sample, non-zero is true.", tensor=True)


_INDEX = Arg("predicate", "int", None, "The choice: one integer per sample.", tensor=True)
_FLOATS = (DALIDataType.FLOAT16, DALIDataType.FLOAT, DALIDataType.FLOAT64)


class SplitInfo(Sequence[str]):
    """The origins of a partial batch's samples. Text is made on demand."""

    def __init__(self, info: Sequence[str], places: np.ndarray):
        self._info = info
        self._places = places

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return SplitInfo(self._info, self._places[index])
        return self._info[int(self._places[index])]


class MergedInfo(Sequence[str]):
    """The origins of a merged batch's samples."""

    def __init__(self, parts: Sequence[Sequence[str] | None], which: np.ndarray, places: np.ndarray):
        self._parts = parts
        self._which = which
        self._places = places

    def __len__(self) -> int:
        return len(self._which)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return MergedInfo(self._parts, self._which[index], self._places[index])
        info = self._parts[int(self._which[index])]
        return "" if not info else info[int(self._places[index])]


def truth(predicate: Batch) -> np.ndarray:
    """The condition as bool[samples]. RuntimeError unless it is a scalar per sample."""
    if predicate.ndim and len(predicate):
        raise RuntimeError(
            f"Conditions are restricted to scalar (0-d tensors) inputs, that are placed on CPU; got samples with {predicate.ndim} "
            f"dimensions"
        )
    if predicate.values is not None:
        return predicate.values.astype(bool)
    return np.array([predicate.sample(k).item() != 0 for k in range(len(predicate))], bool)


def chosen_index(index: Batch, count: int) -> np.ndarray:
    """A choice by number as int64[samples] from 0 to `count` - 1. Smaller numbers become the first, larger ones the last.

    RuntimeError unless it is an integer scalar per sample.
    """
    if not len(index):
        return np.empty(0, np.int64)
    if index.ndim or index.dtype > DALIDataType.BOOL or index.dtype in _FLOATS:
        raise RuntimeError(
            f"A choice is restricted to integer scalars (0-d tensors), that are placed on CPU; got samples of type {index.dtype.name} with "
            f"{index.ndim} dimensions"
        )
    values = index.values
    if values is None:
        values = np.array([index.sample(k).item() for k in range(len(index))])
    chosen: np.ndarray = np.clip(values, 0, count - 1)
    return chosen.astype(np.int64)


def places_by_part(which: np.ndarray, count: int) -> list[np.ndarray]:
    """The samples of each of `count` parts, in order. `which` is the result of :meth:`_Dividing._which`."""
    order = np.argsort(which, kind="stable")
    return np.split(order, np.cumsum(np.bincount(which, minlength=count))[:-1])


def rows_of(parent: np.ndarray | None, places: np.ndarray, count: int) -> np.ndarray:
    """The `rows` of the samples at `places` of a batch of `count` samples with rows `parent`."""
    rows = np.full(count + 1, -1, np.int64)
    rows[places] = np.arange(len(places))
    return rows[:-1] if parent is None else rows[parent]  # -1 stays -1, because it selects the last entry


def part_of(batch: Batch, places: np.ndarray) -> Batch:
    """The partial batch of the samples at `places`, over the same memory."""
    part = _over(batch.shapes[places], batch, (batch,), lambda: batch.addresses[places])
    reused = batch.reused_memory
    part.reused = reused if isinstance(reused, bool) else _all_or_each(reused[places])
    part.rows = rows_of(batch.rows, places, len(batch))
    if batch.values is not None and (batch.values.nbytes < _COPIED or len(places) == len(batch)):
        if len(places) == len(batch):
            part.move_to(batch.values)
        else:
            part.move_to(batch.values[places])
            part.reused = False
    if batch.source_info:
        part.source_info = SplitInfo(batch.source_info, places)
    return part


def _over(shapes: np.ndarray, like: Batch, sources: tuple[Batch, ...], addresses: Any) -> Batch:
    """A batch of samples of other batches. The batch is linked unless all of the others have memory."""
    placed = all(source.is_placed for source in sources)
    made = Batch(shapes, like.dtype, like.layout, addresses() if placed else None, device=like.device)
    if placed:
        made.owner = [source.memory_owner for source in sources]
    else:
        made.links = sources
        made.owner = ()
    return made


def _all_or_each(reused: np.ndarray) -> bool | np.ndarray:
    """``Batch.reused``, as one value if all samples are equal."""
    return bool(reused.any()) if reused.all() or not reused.any() else reused


class _Dividing(Operator):
    """The common base of splits and merges. The argument `predicate` decides which part each sample belongs to."""

    on_cuda = True
    passes_on = True
    traits = Trait.HANDS_OUT_SAMPLES | Trait.SEES_EMPTY | Trait.PREDICATE_DECIDES

    def _which(self, arguments: Arguments) -> np.ndarray:
        """The number of the part that each sample belongs to, int64[samples]."""
        return 1 - truth(arguments.batch("predicate")).astype(np.int64)

    def _count(self) -> int:
        return 2


class _DividingByIndex(_Dividing):
    def _which(self, arguments: Arguments) -> np.ndarray:
        return chosen_index(arguments.batch("predicate"), self._count())


class _Splitting(_Dividing):
    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        from ...compiled import branches
        from ...compiled.step import compile_all

        compile_all(branches)  # The steps of branches are compiled at run time.

    def infer(self, dtypes: list[DALIDataType | None]) -> list[DALIDataType | None]:
        return [dtypes[0]] * self.spec.output_count

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        which = self._which(arguments)
        (batch,) = inputs
        if len(which) != len(batch):
            raise RuntimeError(f"the condition has {len(which)} samples, but the data have {len(batch)}; they must have the same number")
        return Planned([part_of(batch, places) for places in places_by_part(which, self._count())])


@register
class Split(_Splitting):
    schema = Schema(
        name="_conditional.split",
        doc="Splits a batch by a condition: the samples for which it is true, and the others.",
        accepts=(ANYTHING,),
        gives=(Output(CHOSEN, CHOSEN, CHOSEN),),
        inputs=(1, 1),
        outputs=2,
        devices=("cpu", "gpu"),
        args=(_PREDICATE,),
        role=Role.SPLIT,
    )


@register
class SplitByIndex(_DividingByIndex, _Splitting):
    schema = Schema(
        name="_conditional.split_by_index",
        doc="Splits a batch by a number: the samples for which it is 0, those for which it is 1, and so on.",
        accepts=(ANYTHING,),
        gives=(Output(CHOSEN, CHOSEN, CHOSEN),),
        inputs=(1, 1),
        outputs=lambda constants: int(constants["count"]),
        devices=("cpu", "gpu"),
        args=(_INDEX, Arg("count", "int", REQUIRED, "Number of parts.")),
        role=Role.SPLIT,
        only_here=True,
    )

    def _count(self) -> int:
        return self.spec.output_count


class _Merging(_Dividing):
    def infer(self, dtypes: list[DALIDataType | None]) -> list[DALIDataType | None]:
        return [dtypes[0] if len(set(dtypes)) == 1 else None]

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        which = self._which(arguments)
        places = places_by_part(which, self._count())
        if any(len(batch) != len(where) for batch, where in zip(inputs, places)):
            raise RuntimeError(
                f"the condition sends {_listed(map(len, places))} of {len(which)} samples to the parts; "
                f"the parts to be merged have {_listed(map(len, inputs))}"
            )
        filled = [batch for batch in inputs if len(batch)]
        self._check_alike(inputs)
        merged = _merged(inputs, filled, which, places)
        merged.rows = arguments.batch("predicate").rows
        return Planned([merged])

    def _check_alike(self, parts: Sequence[Batch]) -> None:
        first: tuple[int, Batch] | None = None
        for place, batch in enumerate(parts):
            if not len(batch):
                continue
            if first is None:
                first = place, batch
                continue
            one = first[1]
            for what, a, b in (
                ("type", one.dtype.name, batch.dtype.name), ("number of dimensions", one.ndim, batch.ndim),
                ("layout", one.layout, batch.layout),
            ):  # fmt: skip
                if a != b:
                    raise RuntimeError(
                        f"Divergent data found in different branches of {self._statement}: "
                        f"the {what} is {a!r} {self._where(first[0])} and {b!r} {self._where(place)}."
                    )

    _statement = "`if/else` control flow statement"

    def _where(self, place: int) -> str:
        return "where the condition is true" if place == 0 else "where it is not"


@register
class Merge(_Merging):
    schema = Schema(
        name="_conditional.merge",
        doc="Merges the parts of a batch, in the order of the condition.",
        accepts=(ANYTHING,),
        gives=(Output(CHOSEN, CHOSEN, CHOSEN),),
        inputs=(2, 2),
        devices=("cpu", "gpu"),
        args=(_PREDICATE,),
        role=Role.MERGE,
    )


@register
class MergeByIndex(_DividingByIndex, _Merging):
    schema = Schema(
        name="_conditional.merge_by_index",
        doc="Merges the parts of a batch, in the order of the numbers by which it was split.",
        accepts=(ANYTHING,),
        gives=(Output(CHOSEN, CHOSEN, CHOSEN),),
        inputs=(2, 1 << 16),
        devices=("cpu", "gpu"),
        args=(_INDEX,),
        role=Role.MERGE,
        only_here=True,
    )

    _statement = "a choice by index"

    def _count(self) -> int:
        return self.spec.input_count

    def _where(self, place: int) -> str:
        return f"in choice {place}"


def _listed(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers))


def _merged(inputs: Sequence[Batch], filled: Sequence[Batch], which: np.ndarray, places: Sequence[np.ndarray]) -> Batch:
    like = filled[0] if filled else inputs[0]
    shapes = np.empty((len(which), like.ndim), np.int64)
    for batch, where in zip(inputs, places):
        if len(batch):
            shapes[where] = batch.shapes

    def addresses() -> np.ndarray:
        found = np.empty(len(which), np.int64)
        for batch, where in zip(inputs, places):
            found[where] = batch.addresses
        return found

    merged = _over(shapes, like, tuple(filled), addresses)
    if any(batch.reused_memory is not False for batch in filled):
        reused = np.zeros(len(which), bool)
        for batch, where in zip(inputs, places):
            reused[where] = batch.reused_memory
        merged.reused = _all_or_each(reused)
    values = _merged_values(inputs, filled, places, len(which))
    if values is not None:
        merged.move_to(values)
        merged.reused = False
    if any(batch.source_info for batch in filled):
        order = np.empty(len(which), np.int64)
        for where in places:
            order[where] = np.arange(len(where))
        merged.source_info = MergedInfo([batch.source_info for batch in inputs], which, order)
    return merged


def _merged_values(inputs: Sequence[Batch], filled: Sequence[Batch], places: Sequence[np.ndarray], count: int) -> np.ndarray | None:
    """Contents that are known during planning remain known."""
    if not filled or any(batch.values is None for batch in filled):
        return None
    shapes = {batch.values.shape[1:] for batch in filled if batch.values is not None}
    if len(shapes) > 1 or sum(batch.values.nbytes for batch in filled if batch.values is not None) >= _COPIED:
        return None
    first = filled[0].values
    assert first is not None
    values = np.empty((count, *first.shape[1:]), first.dtype)
    for batch, where in zip(inputs, places):
        if batch.values is not None and len(batch):
            values[where] = batch.values
    return values


_LOGICAL = Schema(
    name="_conditional.not_",
    dali_class="Not_",
    doc="Whether a number is zero: one per sample.",
    accepts=(ANYTHING,),
    gives=(Output(DALIDataType.BOOL, 0, ""),),
    devices=("cpu",),
    role=Role.LOGIC,
)


@register
class Not(Operator):
    schema = _LOGICAL
    reads = (0,)
    eager = True

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        made = Batch.from_values(~truth(inputs[0]))
        made.rows = inputs[0].rows
        return Planned([made])


@register
class ValidateLogical(Operator):
    schema = Schema(
        name="_conditional.validate_logical",
        doc="Checks that the input is one BOOL scalar per sample, as `and` and `or` require.",
        accepts=(ANYTHING,),
        gives=(Output(CHOSEN, CHOSEN, CHOSEN),),
        args=(
            Arg("expression_name", "str", "and", "The expression: and, or."),
            Arg("expression_side", "str", "left", "The side of the expression: left, right."),
        ),
        devices=("cpu",),
        role=Role.LOGIC,
    )

    reads = (0,)
    passes_on = True

    def infer(self, dtypes: list[DALIDataType | None]) -> list[DALIDataType | None]:
        return [DALIDataType.BOOL]

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        (batch,) = inputs
        name, side = arguments.constant("expression_name"), arguments.constant("expression_side")
        if len(batch) and batch.dtype is not DALIDataType.BOOL:
            raise RuntimeError(
                f"Logical expression `{name}` is restricted to scalar (0-d tensors) inputs of boolean type; the {side} side is "
                f"{batch.dtype.name}"
            )
        if len(batch) and batch.ndim:
            raise RuntimeError(
                f"Logical expression `{name}` is restricted to scalar (0-d tensors) inputs of boolean type; "
                f"the {side} side has {batch.ndim} dimensions"
            )
        return Planned([batch])
