"""DataNode: the symbolic handle on one output of an operator in a pipeline's graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from .graph.node import OperatorInstance
    from .types import DALIDataType


class DataNode:
    """One output of one operator instance, on a device. It holds no data.

    Attributes: ``name``, ``device`` ("cpu" or "gpu"), ``source`` (the operator instance), ``index`` (which output), and what is known
    before running: ``ndim``, ``dtype``, ``layout`` (None when unknown).
    """

    __slots__ = ("device", "dtype", "index", "layout", "name", "ndim", "source")
    __array_ufunc__ = None  # numpy must not try to treat nodes as objects
    __hash__ = None  # type: ignore[assignment]

    def __init__(
        self,
        name: str,
        device: str,
        source: OperatorInstance,
        index: int = 0,
        *,
        ndim: int | None = None,
        dtype: DALIDataType | None = None,
        layout: str | None = None,
    ):
        self.name = name
        self.device = device
        self.source = source
        self.index = index
        self.ndim = ndim
        self.dtype = dtype
        self.layout = layout

    def __repr__(self) -> str:
        known = "".join(f", {key}={getattr(self, key)!r}" for key in ("ndim", "dtype", "layout") if getattr(self, key) is not None)
        return f'DataNode(name="{self.name}", device="{self.device}", source="{self.source.name}", index="{self.index}"{known})'

    def _on(self, device: str) -> DataNode:
        if self.device == device:
            return self
        return DataNode(self.name, device, self.source, self.index, ndim=self.ndim, dtype=self.dtype, layout=self.layout)

    def gpu(self) -> DataNode:
        """The same data on the GPU (itself if it is there); a copy is made once when something needs it."""
        return self._on("gpu")

    def cpu(self) -> DataNode:
        """The same data on the CPU (itself if it is there).

        Raises RuntimeError in a pipeline with ``exec_dynamic=False``, whose stages only go from CPU to GPU.
        """
        pipeline = self.source.pipeline()
        if self.device == "gpu" and pipeline is not None and not pipeline.exec_dynamic:
            raise RuntimeError(
                "this pipeline doesn't support transition from GPU to CPU: it was made with exec_dynamic=False "
                "(or with exec_async/exec_pipelined off or separate queue depths). Use exec_dynamic=True."
            )
        return self._on("cpu")

    def shape(self, *, dtype: DALIDataType | None = None, device: str = "cpu") -> DataNode:
        """Shape of each sample: a 1-D tensor of length ndim, INT64 unless `dtype` says otherwise."""
        from . import fn

        return fn._shape(self, dtype=dtype, device=device)  # type: ignore[attr-defined]

    def property(self, key: str, *, device: str = "cpu") -> DataNode:
        """A property of each sample as 1-D UINT8 (ASCII): ``"layout"`` or ``"source_info"``; empty when unset."""
        from . import fn

        return fn.get_property(self, key=key, device=device)

    def source_info(self, *, device: str = "cpu") -> DataNode:
        """Where each sample came from (a file name, say), as 1-D UINT8; ``property("source_info")``."""
        return self.property("source_info", device=device)

    def __bool__(self) -> NoReturn:
        raise TypeError(
            '"DataNode" was used in a conditional context: it is a symbol for data that exists only when the pipeline runs. '
            "`if`, `and`, `or`, `not` on nodes need `enable_conditionals=True` in the pipeline definition."
        )

    __iter__ = None  # iter() raises TypeError, and a node does not pass for a collections.abc.Iterable

    def __len__(self) -> NoReturn:
        raise TypeError("a DataNode has no len(): its batch exists only when the pipeline runs")

    def __eq__(self, other: object) -> Any:
        raise TypeError(
            "comparing DataNodes builds an arithmetic expression, which this version does not have yet; "
            "compare `node.name` or use `is` to tell nodes apart"
        )


def _unavailable(symbol: str) -> Any:
    def operate(self: DataNode, *others: Any) -> NoReturn:
        raise TypeError(f"`{symbol}` on DataNodes builds an expression, which this version does not have yet")

    return operate


for _symbol, _names in {
    "+": "add radd", "-": "sub rsub neg", "*": "mul rmul", "/": "truediv rtruediv", "//": "floordiv rfloordiv", "%": "mod rmod",
    "**": "pow rpow", "&": "and rand", "|": "or ror", "^": "xor rxor", "~": "invert", "<<": "lshift rlshift", ">>": "rshift rrshift",
    "<": "lt", "<=": "le", ">": "gt", ">=": "ge", "!=": "ne", "[]": "getitem", "abs": "abs",
}.items():  # fmt: skip
    for _name in _names.split():
        setattr(DataNode, f"__{_name}__", _unavailable(_symbol))
