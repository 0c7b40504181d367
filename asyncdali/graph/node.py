"""Operator instances, which operator calls in a graph function make."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..data_node import DataNode
from ..errors import ArgumentTypeError, OperatorError, OperatorKeyError, OperatorTypeError, OperatorValueError
from ..messages.notices import near, warn
from ..operators.base import REGISTRY, REQUIRED, Arg, Role, Schema, camel_case
from ..types import DALIDataType
from . import context
from .rewrite.marks import MARK

if TYPE_CHECKING:
    from ..options import PipelineOptions
    from .conditionals import Conditionals

_detached_ids = itertools.count()


class OperatorInstance:
    """One node of the graph: an operator with its inputs and arguments, not yet built."""

    def __init__(
        self,
        schema: Schema,
        name: str,
        device: str,
        inputs: Sequence[DataNode],
        argument_inputs: dict[str, DataNode],
        constants: dict[str, Any],
        *,
        explicit_name: bool,
        definition: Definition | None,
        twin_of: OperatorInstance | None = None,
    ):
        self.schema = schema
        self.name = name
        self.device = device
        self.inputs = list(inputs)
        self.argument_inputs = argument_inputs
        self.constants = constants
        self.explicit_name = explicit_name
        self.twin_of = twin_of
        self.homes: Any = None
        """With conditional execution: where each output may be used, and whose samples it has (see ``conditionals``)."""
        self.attachment: Any = None
        """A Python object for the running operator (a source). It is no data of the graph."""
        self.part: Any = None
        """The part of a regrouping that it belongs to (``regrouping.regrouping.DeclaredPart``). None: the pipeline's own graph."""
        self.trace = context.user_trace()
        self._definition = None if definition is None else weakref.ref(definition)
        count = schema.output_count(constants, len(self.inputs))
        out_device = "cpu" if device == "cpu" else "gpu"
        names = [name] if count == 1 else [f"{name}[{k}]" for k in range(count)]
        self.outputs = [DataNode(text, out_device, self, k) for k, text in enumerate(names)]

    @property
    def preserve(self) -> bool:
        return bool(self.constants.get("preserve", False)) or self.schema.no_prune

    def definition(self) -> Definition | None:
        """The definition to which this was added; None: it was made outside of any, or its pipeline is gone."""
        return None if self._definition is None else self._definition()

    @property
    def seed(self) -> int | None:
        return self.constants.get("seed")

    def format_trace(self) -> str:
        return "\n".join(frame.format() for frame in self.trace)


class InvalidDeviceError(OperatorValueError):
    """A device that does not exist. It is a ValueError; DALI reports some of these as RuntimeError."""


# ------------------------------------------------------------------------------------------------------------ argument checks


def _public(schema: Schema) -> str:
    return f"asyncdali.fn.{schema.name}"


def _rename(schema: Schema, given: dict[str, object]) -> dict[str, object]:
    """Replace deprecated argument names, with a warning."""
    result = {}
    for name, value in given.items():
        if name not in schema.deprecated:
            result[name] = value
            continue
        new = schema.deprecated[name]
        if new is None:
            warn(f"argument '{name}' of {_public(schema)} no longer does anything", DeprecationWarning)
            continue
        if new in given:
            raise OperatorTypeError(f"{_public(schema)}: '{name}' is a deprecated name of '{new}'; give only '{new}'")
        warn(f"argument '{name}' of {_public(schema)} is called '{new}' now", DeprecationWarning)
        result[new] = value
    return result


def _is_array(value: object) -> bool:
    return isinstance(value, np.ndarray) or (hasattr(value, "__array__") and hasattr(value, "dtype") and not isinstance(value, np.generic))


def _convert_constant(schema: Schema, arg: Arg, value: object) -> object:
    if arg.compiled and MARK in getattr(value, "__dict__", ()):
        from .rewrite.code import as_written

        value = as_written(value)
    try:
        return arg.convert(value)
    except (TypeError, ValueError, OverflowError) as error:
        kind = OperatorValueError if isinstance(error, ValueError) else ArgumentTypeError
        made = kind(f"{_public(schema)}: argument '{arg.name}' must be {arg.describe()}, got {value!r} ({error})")
        made.operator, made.argument = schema.name, arg.name
        raise made from error


def _no_type(schema: Schema, arg: Arg) -> None:
    """NO_TYPE counts as not given where this means "the input's type". Other arguments need an element type: ValueError."""
    if arg.default is not None or schema.inputs[0] == 0:
        raise OperatorValueError(f"{_public(schema)}: argument '{arg.name}' is NO_TYPE; an element type is needed")


def split_arguments(schema: Schema, given: dict[str, Any]) -> tuple[dict[str, Any], dict[str, DataNode]]:
    """Check keyword arguments; returns (converted constants, argument inputs).

    Raises KeyError for an unknown name, TypeError/ValueError for a value of the wrong kind, ValueError for a GPU argument input.
    """
    constants: dict[str, Any] = {}
    nodes: dict[str, DataNode] = {}
    for name, value in _rename(schema, given).items():
        if value is None:
            continue
        arg = schema.by_name.get(name)
        if arg is None:
            if name == "seed":
                warn(f"{_public(schema)} draws no random numbers: `seed` is ignored", DeprecationWarning)
                continue
            raise OperatorKeyError(f"{_public(schema)} got an unexpected argument '{name}'.{near(name, list(schema.by_name))}")
        if isinstance(value, (list, tuple)) and any(isinstance(item, DataNode) for item in value):
            raise OperatorTypeError(
                f"{_public(schema)}: argument '{name}' is a list that contains DataNodes; give one DataNode with a vector per sample"
            )
        if not isinstance(value, DataNode) and arg.tensor and _is_array(value) and np.asarray(value).size > 1:
            from .constants import input_constant

            value = input_constant(value, "cpu")
        if not isinstance(value, DataNode):
            constants[name] = _convert_constant(schema, arg, value)
            if arg.inert and constants[name] != arg.default:
                _notice(schema, arg)
            if constants[name] is DALIDataType.NO_TYPE:
                _no_type(schema, arg)
                del constants[name]
            continue
        if not arg.tensor:
            raise OperatorTypeError(
                f"{_public(schema)}: argument '{name}' should not be a 'DataNode': it takes one constant, {arg.describe()}"
            )
        if value.device == "gpu":
            raise OperatorValueError(
                f'Invalid device "gpu" for argument \'{name}\' of {_public(schema)}: argument inputs must be on the CPU (use .cpu())'
            )
        nodes[name] = value
    return constants, nodes


_noticed: set[tuple[str, str]] = set()


def _notice(schema: Schema, arg: Arg) -> None:
    """Tell the user once per process that the given argument has no effect."""
    if (schema.name, arg.name) not in _noticed:
        _noticed.add((schema.name, arg.name))
        warn(f"argument '{arg.name}' of {_public(schema)} has no effect. {arg.doc}", UserWarning)


def _choose_device(schema: Schema, given: str | None, inputs: Sequence[DataNode]) -> str:
    if given is None:
        if any(node.device == "gpu" for node in inputs) and "gpu" in schema.devices:
            return "gpu"
        return "cpu" if "cpu" in schema.devices or "gpu" not in schema.devices else "gpu"
    if given not in ("cpu", "gpu", "mixed"):
        raise InvalidDeviceError(f'{_public(schema)}: invalid device "{given}"; valid options are "cpu", "gpu" and "mixed"')
    if given not in schema.devices:
        raise OperatorError(f'{_public(schema)} does not run on device "{given}"; it runs on {", ".join(schema.devices)}')
    return given


def _on_right_device(schema: Schema, device: str, position: int, node: DataNode) -> DataNode:
    """An input on the device that the operator needs. It is moved there if the operator accepts either device; otherwise RuntimeError."""
    want = "gpu" if device == "gpu" and position not in schema.cpu_inputs else "cpu"
    if node.device == want or position in schema.metadata_inputs:
        return node
    if device == "gpu" and position in schema.moved_inputs:
        return node.gpu() if want == "gpu" else node.cpu()
    hint = ".gpu()" if want == "gpu" else ".cpu()"
    raise OperatorError(
        f"{_public(schema)} on device {device!r}: input {position} ({node.name}) is stored on incompatible device "
        f"{node.device!r}, expected {want!r}. Use `{hint}` to move it."
    )


# --------------------------------------------------------------------------------------------------------------- making instances


def make(schema: Schema, inputs: Sequence[Any], arguments: dict[str, Any], old_name: str | None = None) -> Any:
    """An operator call: checks everything that can be checked without running, and adds the instance to the current pipeline.

    `old_name` is the deprecated name of the call, from which automatic instance names are made. Returns the output DataNode; a list for
    several outputs; an empty list for none. With input sets (a list of nodes as an input) it returns lists of these, unless there is only
    one set.
    """
    if old_name in schema.old_defaults:
        arguments = {**schema.old_defaults[old_name], **{key: value for key, value in arguments.items() if value is not None}}
    if any(isinstance(item, list) and any(isinstance(x, DataNode) for x in item) for item in inputs):
        return _make_sets(schema, inputs, arguments, old_name)
    if schema.uploads and _wants_gpu(inputs, arguments):
        on_cpu = [node.cpu() if _on_gpu(node) else node for node in inputs]
        made = make(schema, on_cpu, {**arguments, "device": "cpu"}, old_name)
        return [node.gpu() for node in made] if isinstance(made, list) else made.gpu()
    if schema.composed_of:
        return _make_composed(schema, inputs, arguments)
    if schema.role is Role.INPUT and debug_definition() is not None:
        raise OperatorError(f"{_public(schema)} does not run in debug mode, because one fed batch serves several iterations")
    return _results(make_one(schema, inputs, arguments, None, old_name=old_name))


def _make_composed(schema: Schema, inputs: Sequence[object], arguments: dict[str, object]) -> object:
    """The two operators of `Schema.composed_of`. Name, device and similar arguments are those of the first."""
    constants, nodes = split_arguments(schema, arguments)
    _check_required(schema, constants, nodes)
    first, second = (REGISTRY[name].schema for name in schema.composed_of)
    given = {**constants, **nodes}
    made = make(first, inputs, {name: value for name, value in given.items() if name in first.by_name})
    outputs = made if isinstance(made, list) else [made]
    outputs[0] = make(second, outputs[:1], {name: value for name, value in given.items() if name not in first.by_name})
    return outputs if isinstance(made, list) else outputs[0]


def _on_gpu(node: object) -> bool:
    return isinstance(node, DataNode) and node.device == "gpu"


def _wants_gpu(inputs: Sequence[object], arguments: dict[str, object]) -> bool:
    given = arguments.get("device")
    return given == "gpu" or (given is None and any(map(_on_gpu, inputs)))


def _results(instance: OperatorInstance) -> object:
    if instance.schema.results is not None:
        return instance.schema.results(instance.constants, list(instance.outputs))
    return instance.outputs[0] if len(instance.outputs) == 1 else list(instance.outputs)


def _make_sets(schema: Schema, inputs: Sequence[object], arguments: dict[str, object], old_name: str | None) -> object:
    lengths = {len(item) for item in inputs if isinstance(item, list) and any(isinstance(x, DataNode) for x in item)}
    if len(lengths) != 1:
        raise OperatorValueError(f"{_public(schema)}: all input sets must have the same number of elements, got {sorted(lengths)}")
    instances: list[OperatorInstance] = []
    for k in range(lengths.pop()):
        chosen = [item[k] if isinstance(item, list) and any(isinstance(x, DataNode) for x in item) else item for item in inputs]
        instances.append(make_one(schema, chosen, arguments, instances[0] if instances else None, k, old_name))
    results = [_results(instance) for instance in instances]
    if len(results) == 1:
        return results[0]
    if len(instances[0].outputs) == 1:
        return results
    return [list(column) for column in zip(*results, strict=True)]


def make_one(
    schema: Schema, inputs: Sequence[object], arguments: dict[str, object], twin_of: OperatorInstance | None, set_index: int | None = None,
    old_name: str | None = None,
) -> OperatorInstance:  # fmt: skip
    debugged = debug_definition()
    if debugged is not None:
        inputs, arguments = debugged.with_data(schema, inputs, arguments)
    fewest, most = schema.inputs
    if not fewest <= len(inputs) <= most:
        expected = str(fewest) if fewest == most else f"{fewest} to {most}"
        raise OperatorValueError(f"{_public(schema)} expects {expected} inputs, got {len(inputs)}")
    constants, nodes = split_arguments(schema, arguments)
    given_device = constants.pop("device", None)
    device = _choose_device(schema, given_device, [item for item in inputs if isinstance(item, DataNode)])
    checked = [_as_node(schema, device, position, item) for position, item in enumerate(inputs)]
    checked = [_on_right_device(schema, device, position, node) for position, node in enumerate(checked)]
    _check_required(schema, constants, nodes)
    if debugged is None:
        _refuse_data(schema, (*checked, *nodes.values()))
    definition = context.definition()
    scopes = None if definition is None else definition.scopes
    if scopes is not None:
        checked, nodes = scopes.entered(schema, checked, nodes)
    name = constants.pop("name", None)
    explicit = name is not None
    if set_index:
        name, explicit = None, False  # with several input sets, only the first set's operator gets the given name
    instance = OperatorInstance(
        schema, name or _automatic_name(old_name or schema.name, definition), device, checked, nodes, constants,
        explicit_name=explicit, definition=definition, twin_of=twin_of,
    )  # fmt: skip
    if scopes is not None:
        scopes.made(instance)
    if definition is not None:
        definition.add(instance)
    elif instance.preserve:
        raise OperatorError(
            f"Current Pipeline not set! {_public(schema)} has side effects and can only be made inside a pipeline definition: "
            "in a @pipeline_def function or inside `with pipeline:`"
        )
    return instance


_MOST_OUTPUTS = 1 << 16


def check_restored(
    schema: Schema, device: str, inputs: Sequence[DataNode], arguments: dict[str, DataNode], constants: dict[str, Any]
) -> dict[str, Any]:
    """The constants of a stored operator, in their declared types. Kernels rely on these checks.

    Raises the errors of an operator call: KeyError, TypeError, ValueError or RuntimeError.
    """
    fewest, most = schema.inputs
    if not fewest <= len(inputs) <= most:
        raise ValueError(f"{_public(schema)} has {len(inputs)} inputs")
    both = constants.keys() & arguments.keys()
    if both:
        raise ValueError(f"{_public(schema)} has the arguments {sorted(both)} both as constants and as nodes")
    checked, nodes = split_arguments(schema, {**constants, **arguments})
    if nodes.keys() != arguments.keys():
        raise TypeError(f"{_public(schema)} has arrays as arguments, which must be nodes: {sorted(nodes.keys() - arguments.keys())}")
    _choose_device(schema, device, inputs)
    for position, item in enumerate(inputs):
        if _on_right_device(schema, device, position, item) is not item:
            raise OperatorError(f"{_public(schema)} on device {device!r}: input {position} is stored on device {item.device!r}")
    _check_required(schema, checked, nodes)
    count = schema.output_count(checked, len(inputs))
    if not 0 <= count <= _MOST_OUTPUTS:
        raise ValueError(f"{_public(schema)} has {count} outputs")
    return checked


def debug_definition() -> Definition | None:
    """The definition of the current pipeline if it is in debug mode: operators run when they are called."""
    definition = context.definition()
    return definition if definition is not None and definition.debugged else None


def _refuse_data(schema: Schema, nodes: Sequence[DataNode]) -> None:
    for node in nodes:
        if node.has_data:
            raise OperatorError(
                f"{_public(schema)}: the node {node.name!r} holds data of a pipeline in debug mode; operators work on it only inside of "
                "the function of such a pipeline. Outside use node.get()."
            )


def _automatic_name(called: str, definition: Definition | None) -> str:
    class_name = camel_case(called.rpartition(".")[2])
    if definition is None:
        return f"__{class_name}_detached_{next(_detached_ids)}"
    return f"__{class_name}_{definition.next_id()}"


def _check_required(schema: Schema, constants: dict[str, object], nodes: dict[str, DataNode]) -> None:
    missing = [arg.name for arg in schema.args if arg.default is REQUIRED and arg.name not in constants and arg.name not in nodes]
    if missing:
        raise OperatorError(f"Not all required arguments were specified for {_public(schema)}: {', '.join(missing)}")


def _as_node(schema: Schema, device: str, position: int, item: object) -> DataNode:
    if isinstance(item, DataNode):
        return item
    if isinstance(item, (str, bytes, dict)) or item is None:
        raise OperatorTypeError(
            f"{_public(schema)} expected inputs of type 'DataNode' or convertible to it; input {position} is {type(item).__name__}"
        )
    from .constants import input_constant

    try:
        return input_constant(item, "gpu" if device == "gpu" and position not in schema.cpu_inputs else "cpu")
    except TypeError as error:
        raise OperatorTypeError(
            f"{_public(schema)} expected inputs of type 'DataNode' or convertible to it; input {position}: {error}"
        ) from error


class Definition:
    """The operators of one pipeline, in order."""

    debugged = False
    """Whether operators run when they are added (debug mode)."""

    def __init__(self, options: PipelineOptions) -> None:
        self.options = options
        """Those of the pipeline."""
        self.instances: list[OperatorInstance] = []
        self.scopes: Conditionals | None = None
        """With conditional execution, while the graph is defined: which part of the batch is being traced."""
        self._ids = itertools.count()

    def next_id(self) -> int:
        return next(self._ids)

    def add(self, instance: OperatorInstance) -> None:
        self.instances.append(instance)

    def adopt(self, other: Definition, instances: Sequence[OperatorInstance], part: object) -> None:
        """Take operators out of another definition. They are operators of `part` from now on."""
        taken = {id(item) for item in instances}
        self.instances = [item for item in other.instances if id(item) in taken]
        other.instances[:] = [item for item in other.instances if id(item) not in taken]
        for item in instances:
            item.part, item._definition = part, weakref.ref(self)

    def as_node(self, value: object) -> object:
        """The node of data, for definitions whose operators run immediately. Other objects are returned unchanged."""
        return value

    def with_data(self, schema: Schema, inputs: Sequence[object], arguments: dict[str, Any]) -> tuple[Sequence[Any], dict[str, Any]]:
        """Inputs and arguments with nodes instead of data, for definitions whose operators run immediately."""
        return inputs, arguments

    def source(self, define: Callable[[], list[DataNode]], listed: bool) -> Sequence[DataNode] | DataNode:
        """The nodes of a call of `external_source`, which `define` makes: a list if `listed`, else the only one."""
        made = define()
        return made if listed else made[0]
