"""The two calling styles, generated from an operator's schema: functions for ``fn``, classes for ``ops``."""

from __future__ import annotations

import importlib
import inspect
import itertools
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ..compat.ops_attributes import DaliAttributes
from ..errors import OperatorValueError
from ..messages.notices import warn
from ..operators import extensions
from ..operators.base import REGISTRY, REQUIRED, Schema, Spec, camel_case
from ..operators.modules import OLD_NAMES, OPERATORS
from . import node

NAMED_INPUTS = 8
"""Operators with more inputs than this are documented with ``*inputs``."""


def docstring(schema: Schema) -> str:
    """The documentation of an operator, from its declaration."""
    lines = [inspect.cleandoc(schema.doc), "", f"Devices: {', '.join(schema.devices)}."]
    fewest, most = schema.inputs
    lines.append(f"Inputs: {fewest if fewest == most else f'{fewest} to {most}'}.")
    args = [arg for arg in schema.by_name.values() if not arg.name.startswith("_")]
    if args:
        lines += ["", "Args:"]
    for arg in args:
        lines.append(f"    {arg.name} ({arg.describe()}; {arg.describe_default()}): {arg.doc}")
    return "\n".join(lines)


def signature(schema: Schema) -> inspect.Signature:
    """Python signature: inputs positional, arguments keyword-only."""
    kinds = inspect.Parameter
    parameters = [kinds(f"input_{k}", kinds.POSITIONAL_ONLY) for k in range(schema.inputs[0])]
    if schema.inputs[1] > NAMED_INPUTS:
        parameters.append(kinds("inputs", kinds.VAR_POSITIONAL))
    else:
        parameters += [kinds(f"input_{k}", kinds.POSITIONAL_ONLY, default=None) for k in range(schema.inputs[0], schema.inputs[1])]
    ordered = sorted(schema.by_name.values(), key=lambda arg: arg.default is not REQUIRED)
    for arg in ordered:
        default = kinds.empty if arg.default is REQUIRED else arg.default
        parameters.append(kinds(arg.name, kinds.KEYWORD_ONLY, default=default))
    return inspect.Signature(parameters)


def make_function(schema: Schema, name: str) -> Callable[..., Any]:
    """``fn.<name>(*inputs, **arguments)``. If `name` is not the schema's, it is a deprecated name."""
    old = name if name != schema.name else None

    def operator(*inputs: object, **arguments: object) -> Any:
        if old is not None:
            warn(f"fn.{old} is deprecated; use fn.{schema.name}", DeprecationWarning)
        return node.make(schema, inputs, arguments, old)

    operator.__name__ = operator.__qualname__ = name.rsplit(".", 1)[-1]
    operator.__module__ = "asyncdali.fn" + (f".{schema.module}" if schema.module else "")
    operator.__doc__ = docstring(schema)
    operator.schema = schema  # type: ignore[attr-defined]
    operator.__signature__ = signature(schema)  # type: ignore[attr-defined]
    return operator


def make_class(schema: Schema, name: str | None = None) -> type:
    """``ops.<Name>(**arguments)``, an object that is called with inputs (and further arguments).

    `name` is the operator's name, or a deprecated one.
    """
    declared = schema  # in the class body `schema` is the property
    old = name if name not in (None, schema.name) else None
    dali_name = schema_name(old or schema.name)

    class OperatorObject(DaliAttributes):
        __doc__ = docstring(declared)
        _schema = declared
        _named_arguments = tuple({"function", "num_outputs"} & declared.by_name.keys())
        _underscored_arguments = tuple({"output_layouts"} & declared.by_name.keys())

        def __init__(self, *given: object, **arguments: object):
            arguments = _named(schema, given, arguments)
            if old is not None:
                warn(f"ops.{class_path(old)} is deprecated; use ops.{class_path(schema.name)}", DeprecationWarning)
            self._given = {key: value for key, value in arguments.items() if value is not None}
            node.split_arguments(schema, self._given)

        schema_name = dali_name

        @property
        def schema(self) -> Schema:
            """The operator's declaration."""
            return declared

        @property
        def spec(self) -> Spec:
            """The declaration with the arguments of this object, before inputs are known."""
            given, _ = node.split_arguments(declared, self._given)
            name = given.get("name") or ""
            return Spec(declared, name, self.device, given, (), declared.inputs[0], declared.output_count(given, declared.inputs[0]))

        @property
        def device(self) -> str:
            """The given device, or "cpu"."""
            return str(self._given.get("device", "cpu"))

        @property
        def preserve(self) -> bool:
            """Whether the operator runs even if nothing uses its outputs."""
            return bool(self._given.get("preserve", False)) or declared.no_prune

        def __call__(self, *inputs: object, **arguments: object) -> Any:
            arguments = {key: value for key, value in arguments.items() if value is not None}
            twice = self._given.keys() & arguments.keys()
            if twice:
                both = ", ".join(sorted(twice))
                raise OperatorValueError(f"ops.{schema.class_name}: {both} given both when it was made and when it was called")
            made = node.make(schema, inputs, {**self._given, **arguments}, old)
            self._called = arguments
            return made

    module, _, own_name = class_path(old or schema.name).rpartition(".")
    OperatorObject.__name__ = OperatorObject.__qualname__ = own_name
    OperatorObject.__module__ = f"asyncdali.ops.{module}".rstrip(".")
    return OperatorObject


def _named(schema: Schema, given: tuple[Any, ...], arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments of an operator object, including those given by position. TypeError as for any call in Python."""
    names = schema.positional[: len(given)]
    if len(names) < len(given):
        most = len(schema.positional)
        raise TypeError(f"ops.{schema.class_name} takes {most or 'no'} positional argument{'' if most == 1 else 's'}, got {len(given)}")
    twice = [name for name in names if name in arguments]
    if twice:
        raise TypeError(f"ops.{schema.class_name}: {twice[0]!r} is given by position and by name")
    return {**dict(zip(names, given)), **arguments}


def class_path(name: str) -> str:
    """The name of an operator's class in ``ops``: "decoders.image_crop" -> "decoders.ImageCrop"."""
    module, _, last = name.rpartition(".")
    return f"{module}.{camel_case(last)}".lstrip(".")


def schema_name(name: str) -> str:
    """DALI's name of an operator's declaration: "readers.file" -> "readers__File"."""
    *path, last = name.split(".")
    hidden = "_" if last.startswith("_") else ""
    return "__".join([*path, hidden + camel_case(last)])


class Compose:
    """``ops.Compose([first, second, ...])``: a sequence of operators. It is called like the first one and returns the last one's result.

    All outputs of an operator are inputs of the next one; they move to the GPU if that one runs there. Keyword arguments of the call go to
    the first operator. The list may contain other callables that take nodes: functions of ``fn``, or another Compose.
    """

    def __init__(self, op_list: Iterable[Callable[..., object]]):
        self._operators = list(op_list)
        wrong = [item for item in self._operators if not callable(item)]
        if wrong:
            raise TypeError(f"ops.Compose takes a list of operators, but the list contains {wrong[0]!r}")

    def __call__(self, *inputs: object, **arguments: object) -> Any:
        if not self._operators:
            if arguments:
                raise TypeError(f"an empty ops.Compose takes no arguments, got {', '.join(sorted(arguments))}")
            return inputs[0] if len(inputs) == 1 else list(inputs)
        given = list(inputs)
        result: Any = None
        for operator in self._operators:
            if getattr(operator, "device", None) == "gpu":
                stay = getattr(getattr(operator, "schema", None), "cpu_inputs", ())
                given = [item if k in stay else _on_gpu(item) for k, item in enumerate(given)]
            result = operator(*given, **arguments)
            arguments = {}
            # With input sets, one output is also a list of nodes.
            sets = any(isinstance(item, list) and len(item) > 1 for item in given)
            several = isinstance(result, list) and (not sets or any(isinstance(item, list) for item in result))
            given = result if several else [result]
        return result


def _on_gpu(item: object) -> object:
    """A node (or each node of an input set) on the GPU."""
    from ..data_node import DataNode

    if isinstance(item, list):
        return [_on_gpu(node) for node in item]
    return item.gpu() if isinstance(item, DataNode) else item


def _submodule(parent: types.ModuleType, path: str) -> types.ModuleType:
    """The (nested) submodule `path` of `parent`, importable by name. It is made if it does not exist."""
    module = parent
    for part in path.split("."):
        full = f"{module.__name__}.{part}"
        child = sys.modules.get(full)
        if child is None:
            child = types.ModuleType(full, f"Operators {full.removeprefix('asyncdali.')}.*")
            child.__getattr__, child.__dir__ = access(child)  # type: ignore[method-assign]
            sys.modules[full] = child
        setattr(module, part, child)
        module = child
    return module


def populate(root: types.ModuleType) -> None:
    """Make the submodules of ``fn`` or ``ops``. Operators are imported at their first use (:func:`access`)."""
    for path in {name.rpartition(".")[0]: None for name in _own_names(root)}:
        if path:
            _submodule(root, path)


def _own_names(module: types.ModuleType) -> Iterator[str]:
    """Names of asyncdali's operators in ``fn`` or ``ops``, deprecated names too. None is imported."""
    hidden = module.__name__.split(".")[1] == "ops"
    return (name for name in (*OPERATORS, *OLD_NAMES) if not (hidden and name.startswith("_")))


def _other_names() -> Iterator[str]:
    """Names of operators of other packages, and of the program. The metadata of packages is read at the first step."""
    yield from (name for name in sorted(extensions.names()) if not name.startswith("_"))


def _made(style: str, name: str) -> Any:
    """The function or class of an operator, also of another package. None: the operator has no class."""
    kind = extensions.find(OLD_NAMES.get(name, name))
    assert kind is not None
    written = kind.schema.hand_written
    if style == "ops":
        return None if written else make_class(kind.schema, name)
    if written:
        return getattr(importlib.import_module(f"asyncdali.{written}"), name.rpartition(".")[2])
    return make_function(kind.schema, name)


def access(module: types.ModuleType) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a module of ``fn`` or ``ops``. Operators are imported at their first use.

    The metadata of other packages is read when asyncdali has no operator of the name.
    """
    _, style, *parts = module.__name__.split(".")
    prefix = "".join(part + "." for part in parts)
    spelled = camel_case if style == "ops" else str

    def __getattr__(name: str) -> Any:
        if name == "__all__":
            return [name for name in __dir__() if not name.startswith("_")]
        for known in () if name.startswith("__") else itertools.chain(_own_names(module), _other_names()):
            own, _, deeper = known.removeprefix(prefix).partition(".")
            if known.startswith(prefix) and (own if deeper else spelled(own)) == name:
                made = _submodule(module, name) if deeper else _made(style, known)
                if made is not None:
                    return vars(module).setdefault(name, made)
        raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}", name=name)

    def __dir__() -> list[str]:
        own = [known for known in _own_names(module) if known.rpartition(".")[0] == ".".join(parts)]
        if style == "ops":
            own = [known for known in own if not REGISTRY[OLD_NAMES.get(known, known)].schema.hand_written]
        return sorted({*vars(module), *(spelled(known.rpartition(".")[2]) for known in own)})

    return __getattr__, __dir__
