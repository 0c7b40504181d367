"""The input of a session's construction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TypeAlias

from ..access import Access
from ..data_node import DataNode
from ..graph.node import Definition
from ..graph.plan import reachable
from ..operators.base import Role
from ..options import PipelineOptions
from ..sources.sources import MakePuller, no_puller
from .parts import Part

Calling: TypeAlias = Callable[[], AbstractContextManager[None]]
"""Gives the context that functions of the user are called in; see ``Environment.calling``."""


@dataclass(frozen=True)
class Blueprint:
    """A pipeline as far as :class:`~asyncdali.runtime.session.Session` knows it.

    Attributes:
        options: the pipeline's options, checked.
        outputs: the nodes whose data an iteration returns.
        definition: all operators, in the order in which they were made.
        access: which files the pipeline may open.
        calling: gives :data:`Calling` for the seed that the pipeline uses.
        part: the samples of each iteration that are made; None: all.
        regrouped: makes the pullers of regrouped batches (``regrouping``).
        whole: all outputs of the pipeline, if only a part of them is made: ``graph.plan.build_plan``.
        beside: iterations are planned beside each other, because the consumer takes those that are finished first.
    """

    options: PipelineOptions
    outputs: list[DataNode]
    definition: Definition
    access: Access
    calling: Callable[[int | None], Calling]
    part: Part | None = None
    regrouped: MakePuller = no_puller
    whole: Sequence[DataNode] = ()
    beside: bool = False

    def check_scope(self) -> None:
        """RuntimeError for operators that were defined elsewhere, in a pipeline with checkpoints, which would not have their state."""
        if not self.options.enable_checkpointing:
            return
        order = reachable(self.outputs, self.definition.instances).order
        constants = {id(item) for item in order if item.schema.role is Role.CONSTANT}  # they have no state
        foreign = [item.name for item in order if item.definition() is not self.definition and id(item) not in constants]
        if foreign:
            raise RuntimeError(
                "The pipeline does not support checkpointing because it contains operator(s) that were defined outside the pipeline "
                f"scope: {foreign}"
            )
