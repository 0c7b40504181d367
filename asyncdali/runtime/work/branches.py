"""Partial batches in a running graph: steps that run for the samples of a branch, and addresses that are passed on sample by sample.

The `rows` of a partial batch say where the iteration's samples are in it; see ``Batch.rows``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ...batch import Batch
from ...compiled.addresses import address_of
from ...compiled.branch_tables import BRANCH, LINK, OWN, SLOT
from ...operators.base import Step, no_explanation
from ...types import DALIDataType

if TYPE_CHECKING:
    from .built import Built
    from .segments import BuiltOperator


def rows_of(built: Built, edges: Sequence[Batch]) -> np.ndarray | None:
    """The branch of a conditional that contains an operator; None outside of branches."""
    for edge in built.sources:
        rows: np.ndarray | None = edges[edge].rows
        if rows is not None:
            return rows
    return None


def nothing(rows: np.ndarray) -> Batch:
    """A partial batch without samples, of no type."""
    batch = Batch(np.empty((0, 0), np.int64), DALIDataType.NO_TYPE, contiguous=True, owner=())
    batch.rows = rows
    return batch


def in_branch(inner: Step, rows: np.ndarray) -> Step:
    """A step for the samples of a branch."""
    from ...compiled.branches import branch_step

    table, keep = BRANCH.make(rows=rows, function=inner.function, context=inner.context)

    def explain(code: int, text: str, sample: int) -> str:
        return inner.explain(code, text, int(rows[sample]))

    return replace(inner, function=branch_step.address, context=table, explain=explain, keep=keep, inner=inner)


def resolved(steps: Sequence[tuple[BuiltOperator, Step | Batch]], scratch_places: Mapping[int, int]) -> list[tuple[BuiltOperator, Step]]:
    """Only steps: a batch is represented by the steps that fill in its addresses.

    `scratch_places`: the offsets of partial batches (by id) in the threads' scratch memory.
    """
    result: list[tuple[BuiltOperator, Step]] = []
    for who, item in steps:
        if isinstance(item, Step):
            result.append((who, item))
        elif item.links:
            result.extend((who, _link(item, source)) for source in item.links)
        elif id(item) in scratch_places:
            result.append((who, _slot(item, scratch_places[id(item)])))
    return result


def _link(batch: Batch, source: Batch) -> Step:
    from ...compiled.branches import link_step

    table, keep = LINK.make(addresses=batch.addresses, rows=_rows(batch), source_addresses=source.addresses, source_rows=_rows(source))
    return Step(link_step.address, table, no_explanation, keep=keep)


def _slot(batch: Batch, offset: int) -> Step:
    from ...compiled.branches import slot_step

    table, keep = SLOT.make(addresses=batch.addresses, rows=_rows(batch), offset=offset)
    return Step(slot_step.address, table, no_explanation, keep=keep)


def taken_over(batch: Batch, allocate: Callable[[int], np.ndarray]) -> Step:
    """The step that copies samples of a linked batch whose memory will be reused. Afterwards the batch owns its memory."""
    from ...compiled.branches import own_step

    sizes = np.where(batch.reused_samples(), batch.sizes(), 0)
    memory = allocate(int(sizes.sum()))
    targets = np.cumsum(sizes) - sizes + address_of(memory)
    table, keep = OWN.make(addresses=batch.addresses, rows=_rows(batch), targets=targets, sizes=sizes)
    batch.owner = [memory]
    batch.reused = False
    return Step(own_step.address, table, no_explanation, keep=keep)


def _rows(batch: Batch) -> np.ndarray | int:
    return 0 if batch.rows is None else batch.rows
