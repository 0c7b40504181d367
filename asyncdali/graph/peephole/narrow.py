"""Engines on other machines send the input of an operator that makes the elements wider, and the training process runs the operator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...operators.base import Trait
from ...types import DALIDataType

if TYPE_CHECKING:
    from ..plan import PlannedOperator

_WIDE = (DALIDataType.FLOAT, DALIDataType.FLOAT64, DALIDataType.INT32, DALIDataType.UINT32, DALIDataType.INT64, DALIDataType.UINT64)


def widens(planned: PlannedOperator) -> bool:
    """Whether the operator's output has about as many elements as its input, and wider ones."""
    return Trait.WIDENS in planned.kind.traits and not planned.kind.stateful and planned.spec.constant("dtype") in _WIDE
