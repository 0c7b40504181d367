"""The key of a template: all that the plans of its operators may depend on."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from ...batch import Batch
from ...operators.base import Operator, Trait
from ..work.built import Built

_MOST_CONTENTS = 1 << 12
"""Larger contents have no key: comparing them would take as long as small plans."""


def key_of(inputs: Sequence[Batch], contents: Sequence[int]) -> Hashable:
    """The data on which a plan depends. None for inputs that a plan may treat differently, and for large `contents`."""
    parts: list[object] = []
    for batch in inputs:
        part = part_of(batch)
        if part is None:
            return None
        parts.append(part)
    for k in contents:
        values = inputs[k].values
        if values is None or values.nbytes > _MOST_CONTENTS:
            return None
        parts.append((values.dtype, values.shape, values.tobytes()))
    return tuple(parts)


def part_of(batch: Batch) -> Hashable:
    """The part of a key that tells about one input. None for an input that has no key."""
    if batch.rows is not None or batch.feed is not None or batch.links:
        return None
    shapes = batch.shapes
    named = batch.source_info is None
    return shapes.shape, shapes.tobytes(), batch.dtype, batch.layout, batch.contiguous, batch.values is None, named


def is_repeatable(kind: type[Operator]) -> bool:
    """Whether the class declares that its `plan` may be copied. A class that defines another `plan` must declare it again."""
    for base in kind.__mro__:
        if "repeatable" in vars(base):
            return kind.repeatable
        if "plan" in vars(base):
            return False
    return False


def has_key(built: Built, on_gpu: bool) -> bool:
    """Whether the operator's plan depends only on constants, on shapes and contents of inputs, and on a position that it only places."""
    operator, spec = built.operator, built.operator.spec
    kind = type(operator)
    if not is_repeatable(kind) or not built.inputs or kind.prepares(spec) or built.planned.is_transfer:
        return False
    if kind.is_eager(on_gpu) or operator.passes_on or operator.barrier or Trait.HANDS_OUT_SAMPLES in operator.traits:
        return False
    if operator.stateful and (on_gpu or not operator.places_position):
        return False
    return spec.device == "gpu" if on_gpu else spec.device == "cpu" and operator.environment.gpu is None


def edges_of(built: Built) -> list[int]:
    """The edges of the inputs and then of the argument inputs."""
    return [*built.inputs, *built.planned.arguments.values()]


def edges_read(built: Built, on_gpu: bool) -> set[int]:
    """The edges whose contents `plan` reads."""
    kind, count = type(built.operator), len(built.inputs)
    read = kind.inputs_read(built.operator.spec, on_gpu)
    addresses_only = 0 if Trait.TAKES_ADDRESSES in kind.traits else None
    return {built.inputs[k] for k in read if k < count and k != addresses_only} | set(built.planned.arguments.values())
