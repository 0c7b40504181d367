"""What conditionals are made of: batches are split by a condition and merged again; no sample is copied.

Samples keep their order. Where data has no memory yet (it is made in the same segment) the parts are linked to it, see ``Batch.links``.
On a GPU everything has its memory while it is planned: a part is a table of addresses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..batch import Batch
from ..types import DALIDataType
from .base import Arg, Arguments, Environment, Iteration, Operator, Planned, Role, Schema, Spec, register

_COPIED = 64 * 1024
"""Bytes below which contents that are known while planning are copied, so that they stay known."""

_PREDICATE = Arg("predicate", "bool", None, "The condition: one number per sample, non-zero is true.", tensor=True)


class SplitInfo(Sequence):
    """The origins of a sub-batch's samples; text is made only for those asked for."""

    def __init__(self, info: Sequence[str], places: np.ndarray):
        self._info = info
        self._places = places

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return SplitInfo(self._info, self._places[index])
        return self._info[int(self._places[index])]


class MergedInfo(Sequence):
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
    """The condition as bool[samples]; RuntimeError unless it is a scalar per sample."""
    if predicate.ndim and len(predicate):
        raise RuntimeError(
            f"Conditions are restricted to scalar (0-d tensors) inputs, that are placed on CPU; got samples with {predicate.ndim} "
            f"dimensions"
        )
    if predicate.values is not None:
        return predicate.values.astype(bool)
    return np.array([predicate.sample(k).item() != 0 for k in range(len(predicate))], bool)


def rows_of(parent: np.ndarray | None, chosen: np.ndarray) -> np.ndarray:
    """The `rows` of the samples that `chosen` (bool, one per sample of a batch with rows `parent`) keeps."""
    if parent is not None:
        inside = parent >= 0
        chosen_above = np.zeros(len(parent), bool)
        chosen_above[inside] = chosen[parent[inside]]
        chosen = chosen_above
    rows = np.full(len(chosen), -1, np.int64)
    rows[chosen] = np.arange(np.count_nonzero(chosen))
    return rows


def part_of(batch: Batch, chosen: np.ndarray) -> Batch:
    """The sub-batch of the chosen samples, over the same memory."""
    places = np.flatnonzero(chosen)
    part = _over(batch.shapes[places], batch, (batch,), lambda: batch.addresses[places])
    reused = batch.reused_memory
    part.reused = reused if isinstance(reused, bool) else _all_or_each(reused[places])
    part.rows = rows_of(batch.rows, chosen)
    if batch.values is not None and (batch.values.nbytes < _COPIED or len(places) == len(batch)):
        if len(places) == len(batch):
            part.values = batch.values
        else:
            part.values, part.reused = batch.values[places], False
        part.owner, part._addresses, part.links, part.contiguous = part.values, None, (), True
    if batch.source_info:
        part.source_info = SplitInfo(batch.source_info, places)
    return part


def _over(shapes: np.ndarray, like: Batch, sources: tuple[Batch, ...], addresses: Any) -> Batch:
    """A batch whose samples are those of other batches; linked unless all of them have their memory."""
    made = Batch(shapes, like.dtype, like.layout, device=like.device)
    if all(source.is_placed for source in sources):
        made._addresses = addresses()
        made.owner = [source.memory_owner for source in sources]
    else:
        made.links = sources
        made.owner = ()
    return made


def _all_or_each(reused: np.ndarray) -> bool | np.ndarray:
    """``Batch.reused``, in short where all samples are alike."""
    return bool(reused.any()) if reused.all() or not reused.any() else reused


@register
class Split(Operator):
    """See the schema."""

    schema = Schema(
        name="_conditional.split",
        doc="Splits a batch by a condition: the samples for which it is true, and the others.",
        inputs=(1, 1),
        outputs=2,
        devices=("cpu", "gpu"),
        args=(_PREDICATE,),
        role=Role.SPLIT,
    )

    on_cuda = True
    hands_out_samples = True
    passes_on = True
    skips_empty = False
    scope_argument = "predicate"

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        from ..compiled import branches
        from ..compiled.step import compile_all

        compile_all(branches)  # the steps of branches are made when running

    def infer(self, dtypes: list[DALIDataType | None]) -> list[DALIDataType | None]:
        return [dtypes[0], dtypes[0]]

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        chosen = truth(arguments.batch("predicate"))
        (batch,) = inputs
        if len(chosen) != len(batch):
            raise RuntimeError(f"the condition has {len(chosen)} samples, the data to be split has {len(batch)}")
        return Planned([part_of(batch, chosen), part_of(batch, ~chosen)])


@register
class Merge(Operator):
    """See the schema."""

    schema = Schema(
        name="_conditional.merge",
        doc="Puts the parts of a batch together again, in the order of the condition.",
        inputs=(2, 2),
        devices=("cpu", "gpu"),
        args=(_PREDICATE,),
        role=Role.MERGE,
    )

    on_cuda = True
    hands_out_samples = True
    passes_on = True
    skips_empty = False
    scope_argument = "predicate"

    def infer(self, dtypes: list[DALIDataType | None]) -> list[DALIDataType | None]:
        return [dtypes[0] if dtypes[0] == dtypes[1] else None]

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        predicate = arguments.batch("predicate")
        chosen = truth(predicate)
        if len(inputs[0]) != np.count_nonzero(chosen) or len(inputs[0]) + len(inputs[1]) != len(chosen):
            raise RuntimeError(
                f"the condition is true for {np.count_nonzero(chosen)} of {len(chosen)} samples; "
                f"the parts to be merged have {len(inputs[0])} and {len(inputs[1])}"
            )
        filled = [batch for batch in inputs if len(batch)]
        _check_alike(filled)
        merged = _merged(inputs, filled, chosen)
        merged.rows = predicate.rows
        return Planned([merged])


def _check_alike(parts: Sequence[Batch]) -> None:
    if len(parts) < 2:
        return
    one, other = parts
    for what, first, second in (
        ("type", one.dtype.name, other.dtype.name), ("number of dimensions", one.ndim, other.ndim), ("layout", one.layout, other.layout),
    ):  # fmt: skip
        if first != second:
            raise RuntimeError(
                "Divergent data found in different branches of `if/else` control flow statement: "
                f"the {what} is {first!r} where the condition is true and {second!r} where it is not."
            )


def _merged(inputs: Sequence[Batch], filled: Sequence[Batch], chosen: np.ndarray) -> Batch:
    like = filled[0] if filled else inputs[0]
    places = (np.flatnonzero(chosen), np.flatnonzero(~chosen))
    shapes = np.empty((len(chosen), like.ndim), np.int64)
    for batch, where in zip(inputs, places):
        if len(batch):
            shapes[where] = batch.shapes

    def addresses() -> np.ndarray:
        found = np.empty(len(chosen), np.int64)
        for batch, where in zip(inputs, places):
            found[where] = batch.addresses
        return found

    merged = _over(shapes, like, tuple(filled), addresses)
    if any(batch.reused_memory is not False for batch in filled):
        reused = np.zeros(len(chosen), bool)
        for batch, where in zip(inputs, places):
            reused[where] = batch.reused_memory
        merged.reused = _all_or_each(reused)
    values = _merged_values(inputs, filled, places, len(chosen))
    if values is not None:
        merged.values, merged.owner, merged._addresses, merged.links = values, values, None, ()
        merged.contiguous, merged.reused = True, False
    if any(batch.source_info for batch in filled):
        order = np.empty(len(chosen), np.int64)
        for where in places:
            order[where] = np.arange(len(where))
        merged.source_info = MergedInfo([batch.source_info for batch in inputs], 1 - chosen.astype(np.int64), order)
    return merged


def _merged_values(inputs: Sequence[Batch], filled: Sequence[Batch], places: Sequence[np.ndarray], count: int) -> np.ndarray | None:
    """Contents that are known while planning stay known."""
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
    doc="Whether a number is zero: one per sample.",
    devices=("cpu",),
    role=Role.LOGIC,
)


@register
class Not(Operator):
    """See the schema."""

    schema = _LOGICAL
    reads = (0,)
    eager = True

    def infer(self, dtypes: list[DALIDataType | None]) -> list[DALIDataType | None]:
        return [DALIDataType.BOOL]

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        made = Batch.from_values(~truth(inputs[0]))
        made.rows = inputs[0].rows
        return Planned([made])


@register
class ValidateLogical(Operator):
    """See the schema."""

    schema = Schema(
        name="_conditional.validate_logical",
        doc="Passes on what is a BOOL scalar per sample: what `and` and `or` accept.",
        args=(
            Arg("expression_name", "str", "and", "The expression: and, or."),
            Arg("expression_side", "str", "left", "The side of it: left, right."),
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
