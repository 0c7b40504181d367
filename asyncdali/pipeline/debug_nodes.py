"""Debug mode: nodes that hold data."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..data_node import DataNode
from ..graph.conditionals import where_tests_work
from ..graph.node import OperatorInstance
from ..tensors import TensorListCPU, TensorListGPU
from ..types import DALIDataType

if TYPE_CHECKING:
    from .debug_definition import DebugDefinition


class DataNodeDebug(DataNode):
    """A node with its data, in debug mode. Operations on it are computed immediately.

    Its `source` is a copy of the operator instance of the first iteration. The copy does not refer to output nodes, because they would keep
    their data alive. The node of a branch without samples has no known type, rank or layout.
    """

    __slots__ = ("_batch", "_home")

    has_data = True

    def __init__(self, name: str, source: OperatorInstance, index: int, batch: Any, home: DebugDefinition):
        known = {} if batch.rows is not None and not len(batch) else {
            "ndim": batch.ndim, "dtype": batch.dtype, "layout": batch.layout or None
        }  # fmt: skip
        super().__init__(name, batch.device, source, index, **known)
        self._batch = batch
        self._home = home

    def get(self) -> TensorListCPU | TensorListGPU:
        """The data."""
        return self._home.engine.tensors(self._batch)

    def shape(self, *, dtype: DALIDataType | None = None, device: str | None = None) -> Any:
        """The shape of every sample: a list of tuples. If `dtype` or `device` is given, a node as in a graph."""
        if dtype is None and device is None:
            return self.get().shape()
        return super().shape(dtype=dtype, device=device or "cpu")

    def __str__(self) -> str:
        data = str(self.get()).replace("\n", "\n    ")
        return f'DataNodeDebug(\n    name="{self.name}",\n    data={data})'

    __repr__ = __str__

    def _on(self, device: str) -> DataNode:
        return self if self.device == device else self._home.transferred(self, device)

    def cpu(self) -> DataNode:
        """The same data on the CPU (the node itself if it is there)."""
        return self._on("cpu")

    def __bool__(self) -> Any:
        raise TypeError(
            '"DataNodeDebug" was used in a conditional context: it is a batch and has no truth value. Look at its data with .get(). '
            + where_tests_work()
        )

    def __len__(self) -> Any:
        raise TypeError("a DataNodeDebug has no len(); its number of samples is len(node.get())")


def _takes_data(name: str) -> None:
    """Make a binary operator of nodes accept tensor lists and lists of arrays."""
    plain: Callable[[DataNode, Any], DataNode] = getattr(DataNode, name)

    def operate(self: DataNodeDebug, other: object) -> DataNode:
        return plain(self, self._home.as_node(other))

    operate.__name__, operate.__qualname__ = name, f"DataNodeDebug.{name}"
    setattr(DataNodeDebug, name, operate)


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "lshift", "rshift"):
    _takes_data(f"__{_name}__")
    _takes_data(f"__r{_name}__")
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    _takes_data(f"__{_name}__")
DataNodeDebug.__hash__ = None  # type: ignore[assignment]


def is_array(value: object) -> bool:
    """An array, but not a number or a node."""
    if isinstance(value, (np.generic, DataNode, bool, int, float, str, bytes)) or value is None:
        return False
    return any(hasattr(value, name) for name in ("__array__", "__dlpack__", "__array_interface__", "__cuda_array_interface__"))
