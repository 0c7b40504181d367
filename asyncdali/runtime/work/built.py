"""Operators of a built pipeline, as jobs and templates know them."""

from __future__ import annotations

from typing import Any, Protocol

from ...graph.plan import PlannedOperator
from ...operators.base import Operator


class Built(Protocol):
    """The part of ``segments.BuiltOperator`` that jobs and templates use."""

    planned: PlannedOperator
    operator: Operator
    inputs: Any
    arguments: Any
    outputs: Any
    sources: Any
    output_device: str
    counters: Any
    gate: Any
    position: Any
