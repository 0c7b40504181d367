"""DataNode: the symbolic handle on one output of an operator in a pipeline's graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn, Protocol

from .messages.absent import refuser

if TYPE_CHECKING:
    from .graph.node import OperatorInstance
    from .types import DALIDataType


class NewAxis:
    """The type of `newaxis`: in ``node[newaxis]`` a new dimension of extent 1; ``newaxis("F")`` also names it in the layout."""

    __slots__ = ("name",)

    def __init__(self, name: str | None = None):
        if name is not None and not isinstance(name, str):
            raise TypeError(f"the name of a new axis is a single character, got {type(name).__name__}")
        if name is not None and len(name) != 1:
            raise ValueError(f"the name of a new axis is a single character, got {name!r}")
        self.name = name

    def __call__(self, name: str | None = None) -> NewAxis:
        return NewAxis(name)

    def __repr__(self) -> str:
        return "newaxis" if self.name is None else f"newaxis({self.name!r})"


newaxis = NewAxis()


class Language(Protocol):
    """The functions behind the methods of nodes. Nodes are below the graph, so the graph provides them (`graph/language.py`)."""

    def operation(self, name: str, *operands: object) -> DataNode:
        """An arithmetic operation, see `graph.arithmetic`."""

    def subscript(self, node: DataNode, item: object) -> DataNode:
        """``node[item]``, see `graph.subscripts`."""

    def here(self, node: DataNode) -> DataNode:
        """The samples of `node` in the branch of an `if` that is being traced."""

    def where_tests_work(self) -> str:
        """The error text for a node whose truth value is requested where that is not supported."""

    def call(self, name: str, node: DataNode, **arguments: object) -> DataNode:
        """``fn.name(node, **arguments)``."""


language: Language = None  # type: ignore[assignment]
"""Set when `asyncdali.graph` is imported, which is before any node exists."""


def _here(node: DataNode) -> DataNode:
    """In a branch of an `if` on nodes: the samples of that branch."""
    return node if node.source.homes is None else language.here(node)


class DataNode:
    """One output of one operator instance, on a device. It holds no data.

    Attributes: ``name``, ``device`` ("cpu" or "gpu"), ``source`` (the operator instance), ``index`` (the output's number), and facts known
    before running: ``ndim``, ``dtype``, ``layout`` (None if unknown).
    """

    __slots__ = ("device", "dtype", "index", "layout", "name", "ndim", "source")
    __array_ufunc__ = None  # numpy must not try to treat nodes as objects
    __hash__ = None  # type: ignore[assignment]
    has_data = False
    """True for nodes of debug mode."""

    if TYPE_CHECKING:
        def __add__(self, other: object, /) -> DataNode: ...
        def __radd__(self, other: object, /) -> DataNode: ...
        def __sub__(self, other: object, /) -> DataNode: ...
        def __rsub__(self, other: object, /) -> DataNode: ...
        def __mul__(self, other: object, /) -> DataNode: ...
        def __rmul__(self, other: object, /) -> DataNode: ...
        def __truediv__(self, other: object, /) -> DataNode: ...
        def __rtruediv__(self, other: object, /) -> DataNode: ...
        def __floordiv__(self, other: object, /) -> DataNode: ...
        def __rfloordiv__(self, other: object, /) -> DataNode: ...
        def __mod__(self, other: object, /) -> DataNode: ...
        def __rmod__(self, other: object, /) -> DataNode: ...
        def __pow__(self, other: object, /) -> DataNode: ...
        def __rpow__(self, other: object, /) -> DataNode: ...
        def __and__(self, other: object, /) -> DataNode: ...
        def __rand__(self, other: object, /) -> DataNode: ...
        def __or__(self, other: object, /) -> DataNode: ...
        def __ror__(self, other: object, /) -> DataNode: ...
        def __xor__(self, other: object, /) -> DataNode: ...
        def __rxor__(self, other: object, /) -> DataNode: ...
        def __lshift__(self, other: object, /) -> DataNode: ...
        def __rlshift__(self, other: object, /) -> DataNode: ...
        def __rshift__(self, other: object, /) -> DataNode: ...
        def __rrshift__(self, other: object, /) -> DataNode: ...
        def __lt__(self, other: object, /) -> DataNode: ...
        def __le__(self, other: object, /) -> DataNode: ...
        def __gt__(self, other: object, /) -> DataNode: ...
        def __ge__(self, other: object, /) -> DataNode: ...
        def __neg__(self, /) -> DataNode: ...
        def __invert__(self, /) -> DataNode: ...
        def __abs__(self, /) -> DataNode: ...

        def __eq__(self, other: object) -> DataNode: ...  # type: ignore[override]  # compares elements, as numpy's does
        def __ne__(self, other: object) -> DataNode: ...  # type: ignore[override]

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
        """The same data on the GPU (the node itself if it is there). Several uses share one copy."""
        return _here(self)._on("gpu")

    def cpu(self) -> DataNode:
        """The same data on the CPU (the node itself if it is there).

        RuntimeError in a pipeline with ``exec_dynamic=False``, whose stages only go from CPU to GPU.
        """
        definition = self.source.definition()
        if self.device == "gpu" and definition is not None and not definition.options.exec_dynamic:
            raise RuntimeError(
                "this pipeline doesn't support transition from GPU to CPU: it was made with exec_dynamic=False "
                "(or with exec_async/exec_pipelined off or separate queue depths). Use exec_dynamic=True."
            )
        return _here(self)._on("cpu")

    def shape(self, *, dtype: DALIDataType | None = None, device: str = "cpu") -> DataNode:
        """Shape of each sample: a 1-D tensor of length ndim, INT64 unless `dtype` is given. `device`: the place of the result."""
        return language.call("_shape", self, dtype=dtype, device=device)

    def property(self, key: str, *, device: str = "cpu") -> DataNode:
        """A property of each sample as 1-D UINT8 (ASCII); empty when unset.

        `key` is ``"layout"`` or ``"source_info"``; `device` is the place of the result. RuntimeError for other keys.
        """
        return language.call("get_property", self, key=key, device=device)

    def source_info(self, *, device: str = "cpu") -> DataNode:
        """The origin of each sample (for example a file name), as 1-D UINT8: ``property("source_info", device=device)``."""
        return self.property("source_info", device=device)

    def __bool__(self) -> NoReturn:
        raise TypeError(
            '"DataNode" was used in a conditional context: it is a symbol for data that exists only when the pipeline runs. '
            + language.where_tests_work()
        )

    __iter__ = None  # iter() raises TypeError, and a node does not pass for a collections.abc.Iterable

    def __len__(self) -> NoReturn:
        raise TypeError("a DataNode has no len(): its batch exists only when the pipeline runs")

    def __getitem__(self, item: object) -> DataNode:
        """Integers, slices, nodes as indices, and ``newaxis``; see ``graph.subscripts``."""
        return language.subscript(self, item)

    def __pos__(self) -> DataNode:
        return self


def _unary(name: str) -> object:
    def operate(self: DataNode) -> DataNode:
        return language.operation(name, self)

    operate.__name__, operate.__qualname__ = f"__{name}__", f"DataNode.__{name}__"
    return operate


def _binary(method: str, name: str, reflected: bool = False) -> object:
    def operate(self: DataNode, other: object) -> DataNode:
        return language.operation(name, other, self) if reflected else language.operation(name, self, other)

    operate.__name__, operate.__qualname__ = f"__{method}__", f"DataNode.__{method}__"
    return operate


def _define_operators() -> None:
    """The methods behind Python's operators. ``operators.expressions.types`` documents the operations."""
    names = {"add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "floordiv": "fdiv", "mod": "mod", "pow": "pow"}
    names.update({name: name for name in ("and", "or", "xor", "lshift", "rshift")})
    for method, name in names.items():
        setattr(DataNode, f"__{method}__", _binary(method, name))
        setattr(DataNode, f"__r{method}__", _binary(f"r{method}", name, reflected=True))
    for name in ("eq", "ne", "lt", "le", "gt", "ge"):
        setattr(DataNode, f"__{name}__", _binary(name, name))
    for name in ("neg", "invert", "abs"):
        setattr(DataNode, f"__{name}__", _unary(name))


_define_operators()


__getattr__ = refuser(__name__, {"not_iterable": "see DataNode.__iter__, which is None: a node cannot be iterated over"})


def on_device(node: DataNode, device: str) -> DataNode:
    """The same data on a device, "cpu" or "gpu" (the node itself if it is there). The graph may ask for copies that users may not."""
    return node._on(device)
