"""A regrouping in the graph: its parts and its outputs."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..data_node import DataNode
from ..sources.external_source import ExternalInput
from ..types import DALIDataType
from .contract import Regrouper

if TYPE_CHECKING:
    from ..graph.node import Definition

@dataclass(frozen=True)
class DeclaredPart:
    """The graph of one part.

    nodes       what the regrouping takes from it
    where       the condition; None: all samples are offered
    measures    further outputs that the rule reads, behind the nodes
    definition  its operators, which are no longer operators of the pipeline's own graph
    """

    nodes: tuple[DataNode, ...]
    where: DataNode | None
    definition: Definition
    measures: tuple[DataNode, ...] = ()

    @property
    def outputs(self) -> list[DataNode]:
        """The outputs of its session: the nodes, the measures, and then the condition."""
        return [*self.nodes, *self.measures, *(() if self.where is None else (self.where,))]


class Regrouped:
    """Describes a regrouping as a kind of source; see ``SourceDescription`` in ``sources/kinds.py``."""

    resumable = False
    snapshots = True
    is_async = False
    source = None

    def __init__(self, operator: str):
        self._operator = operator

    def __str__(self) -> str:
        return f"fn.{self._operator}"


@dataclass(eq=False)
class Regrouping:
    """One call of select, mix, batch_by or ready. `nodes` are the names of its operator instances, one per output.

    It stands where a ``sources.group.Group`` stands for data from Python.
    """

    operator: str
    parts: Sequence[DeclaredPart]
    regrouper: Regrouper[Any]
    nodes: list[str] = field(default_factory=list)
    number: int = field(default_factory=itertools.count().__next__)
    """Order of definition in the graph."""
    parallel: bool = False
    indexed: bool = False
    prefetch_queue_depth: int = 1
    cuda_stream: Any = None

    @property
    def description(self) -> Regrouped:
        """The kind of source."""
        return Regrouped(self.operator)

    @property
    def name(self) -> str:
        """The name in messages and checkpoints: that of the first output."""
        return self.nodes[0]

    def start_over(self) -> None:
        """Its parts start over when they are built again."""


class RegroupedInput(ExternalInput):
    """One output of a regrouping. Its batches are fed, as those of sources are."""

    def infer(self, dtypes: list[DALIDataType | None]) -> list[DALIDataType | None]:
        return [None]
