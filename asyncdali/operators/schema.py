"""The declaration of an operator: its name, inputs, arguments, types, defaults and devices.

``fn``, ``ops``, the type stubs and the reference tables are derived from it.
"""

from __future__ import annotations

import enum
import functools
import numbers
import operator as _op
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from ..types import DALIDataType, DALIImageType, DALIInterpType
from .accepts import Input, Output


class _Required:
    def __repr__(self) -> str:
        return "REQUIRED"


Enumeration = TypeVar("Enumeration", bound=enum.Enum)
REQUIRED: Any = _Required()
"""Default of an argument that must be given."""


def _to_bool(value: object) -> bool:
    if not isinstance(value, (numbers.Number, np.generic)):
        raise TypeError(f"{type(value).__name__} is not a truth value")
    return bool(value)


def _to_float(value: Any) -> float:
    if isinstance(value, (str, bytes)):
        raise TypeError("a string is not a number")
    return float(value)


def _to_str(value: object) -> str:
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).decode()
    if isinstance(value, str) or hasattr(value, "__fspath__"):
        return str(value)
    raise TypeError("expected a string")


def _to_int(value: Any) -> int:
    if isinstance(value, (str, bytes)):
        raise TypeError("a string is not an integer")
    if isinstance(value, float) and not value.is_integer():
        raise TypeError("expected an integer")
    whole = int(value) if isinstance(value, (float, np.floating)) else _op.index(value)
    if not -(2**63) <= whole < 2**63:
        raise ValueError("does not fit into 64 bits")
    return whole


def _member(kind: type[Enumeration], value: object) -> Enumeration:
    """The member of a value. Values of any type that are none are TypeErrors, as in DALI."""
    try:
        return kind(value)
    except ValueError as error:
        raise TypeError(str(error)) from None


def _to_enum(kind: type[enum.Enum]) -> Callable[[object], object]:
    def convert(value: object) -> Any:
        if isinstance(value, str):
            wanted = [item for item in kind.__members__ if item.removeprefix("INTERP_").lower() == value.removeprefix("INTERP_").lower()]
            hint = f": types.{wanted[0]}" if wanted else ""
            raise TypeError(f"expected a member of types.{kind.__name__}{hint}")
        return _member(kind, value)

    return convert


def _to_dtype(value: object) -> DALIDataType:
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        value = int(value)
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        return _member(DALIDataType, int(value))
    from ..types import to_dali_type  # type names, numpy and torch types

    return to_dali_type(value)


_SCALARS: dict[str, Callable[[Any], Any]] = {
    "int": _to_int,
    "float": _to_float,
    "bool": _to_bool,
    "str": _to_str,
    "layout": _to_str,
    "dtype": _to_dtype,
    "image_type": _to_enum(DALIImageType),
    "interp": _to_enum(DALIInterpType),
    "any": lambda value: value,
}


def _is_sequence(value: object) -> bool:
    return isinstance(value, (list, tuple, range)) or (isinstance(value, np.ndarray) and value.ndim == 1)


@dataclass(frozen=True)
class Arg:
    """One keyword argument of an operator.

    kind      "int", "float", "bool", "str", "layout", "dtype", "image_type", "interp", "any", or one of these with "_list"
    default   the value if it is not given; None: the operator decides; REQUIRED: it must be given
    tensor    whether it may be a DataNode (one value per sample)
    stream    whether it changes which samples or values are produced (it is part of the checkpoint's fingerprint)
    compiled  a function that is compiled as the user wrote it, even with conditional execution
    path      "read" or "write": it names files or directories that the operator reads or writes; see :func:`check_access`
    inert     the argument of DALI's operator has no effect here: `doc` says why, and users of the argument get a notice
    choices   all strings that the operator accepts, if they are few; the stubs show them
    only_here DALI's operator does not have it
    """

    name: str
    kind: str
    default: Any = None
    doc: str = ""
    tensor: bool = False
    stream: bool = False
    compiled: bool = False
    path: str = ""
    inert: bool = False
    choices: tuple[str, ...] = ()
    only_here: bool = False

    @property
    def is_list(self) -> bool:
        """Whether the argument takes a list of values."""
        return self.kind.endswith("_list")

    def convert(self, value: Any) -> Any:
        """The value in its declared type. TypeError or ValueError if that is impossible. A list of one value is accepted for a scalar."""
        scalar = _SCALARS[self.kind.removesuffix("_list")]
        value = getattr(value, "value", value) if type(value).__name__ == "ScalarConstant" else value
        if self.is_list:
            items = value if _is_sequence(value) else [value]
            return [scalar(item.item() if isinstance(item, np.generic) else item) for item in items]
        if self.kind != "any":
            if isinstance(value, np.ndarray) and value.size == 1:
                value = value.reshape(-1)[0]
            elif _is_sequence(value) and len(value) == 1:
                value = value[0]
        return scalar(value)

    def describe(self) -> str:
        """The type as shown in the documentation."""
        text = {"dtype": "DALIDataType", "image_type": "DALIImageType", "interp": "DALIInterpType"}.get(
            self.kind.removesuffix("_list"), self.kind.removesuffix("_list")
        )
        text = f"{text} or list of {text}" if self.is_list else text
        return f"{text} or DataNode" if self.tensor else text

    def describe_default(self, quote: str = "") -> str:
        """The default as shown in the documentation: "required", or "default" and an expression between the marks `quote`."""
        if self.default is REQUIRED:
            return "required"
        text = f"types.{self.default.name}" if isinstance(self.default, enum.Enum) else repr(self.default)
        return f"default {quote}{text}{quote}"


COMMON_ARGUMENTS = (
    Arg("name", "str", None, "Name of the operator instance; unique in the pipeline."),
    Arg("device", "str", None, 'Device: "cpu", "gpu" or "mixed"; default: "gpu" if an input is on the GPU, else "cpu".'),
    Arg("preserve", "bool", False, "Run the operator even if nothing uses its outputs."),
    Arg("bytes_per_sample_hint", "int_list", [0], "Expected bytes of a sample, per output or for all: `build()` allocates buffers."),
)
SEED_ARGUMENT = Arg("seed", "int", -1, "Seed of this operator's stream; by default taken from the pipeline's seed.")


_PROPER_NAMES = {
    "bbox": "BBox", "coco": "COCO", "dl": "DL", "mfcc": "MFCC", "mxnet": "MXNet", "rms": "RMS", "roi": "ROI", "ssd": "SSD",
    "tfrecord": "TFRecord",
}  # fmt: skip


@functools.cache
def camel_case(name: str) -> str:
    """The class name of an operator: "image_random_crop" -> "ImageRandomCrop"."""
    return "".join(_PROPER_NAMES.get(part, part[:1].upper() + part[1:]) for part in name.split("_"))


class Role(enum.Enum):
    """The role of an operator in the graph and the runtime, besides computing outputs from inputs."""

    WORK = "computes outputs from inputs"
    TRANSFER = "moves a batch between CPU and GPU"
    INPUT = "hands on a batch that was fed from outside"
    CONSTANT = "gives every sample the same data"
    SPLIT = "divides a batch between the branches of a conditional"
    MERGE = "joins the batches of the branches of a conditional"
    LOGIC = "checks or negates the condition of a conditional"

    @property
    def is_branching(self) -> bool:
        """Whether conditional execution made the operator, not the user."""
        return self in (Role.SPLIT, Role.MERGE, Role.LOGIC)


@dataclass(frozen=True)
class Example:
    """A call with one sample. The documentation shows it, and tests/unit/docs/test_examples.py runs it.

    inputs     one sample per input, as nested lists;  layout  of input 0
    arguments  constant arguments
    outputs    one sample per output
    """

    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]
    arguments: dict[str, Any] = field(default_factory=dict)
    layout: str = ""

    def describe(self) -> str:
        """For the docs."""
        call = ", ".join(f"`{name}={value!r}`" for name, value in self.arguments.items())
        made = " and ".join(map(repr, self.outputs))
        return f"Example: {' and '.join(map(repr, self.inputs)) or 'no input'}{f' with {call}' if call else ''} gives {made}"


@dataclass(frozen=True)
class Schema:
    """The declaration of an operator; see the module docstring.

    inputs         fewest and most positional inputs
    accepts        element types, numbers of dimensions and layouts of the inputs, see :mod:`asyncdali.operators.accepts`. The last one
                   applies to all further inputs. Without any, no input is accepted
    per_frame      arguments that may have a value for each frame of a sequence (a node whose layout begins with F)
    outputs        number of outputs, or a function of the constant arguments (a dict) that returns it
    gives          the outputs' properties; the last one applies to all further outputs
    devices        a subset of "cpu", "gpu", "mixed"
    seeded         whether it takes a seed from the pipeline's table (random operators and readers)
    no_prune       whether it runs even if nothing uses its outputs
    deprecated     {old argument name: new name, or None if it has no effect any more}
    aliases        deprecated names of the whole operator
    old_defaults   {deprecated name of the operator: {argument: its default under that name}}, where it differs
    cpu_inputs     positions of inputs that stay on the CPU on every device of the operator (for example sizes)
    moved_inputs   positions of inputs that may be on either device: the graph copies them to the device that the operator needs
    uploads        with device "gpu" it runs on the CPU: its inputs are copied to the CPU, its outputs to the GPU
    metadata_inputs  positions of inputs of which only shape, type, layout and origin are read: they may be on any device
    role           see :class:`Role`. Operators are distinguished by their role, never by their names
    composed_of    names of two operators that a call makes instead, with the arguments of both. The second one processes the first output
                   of the first one
    looks_across   the operator has no inputs, and its outputs depend on the number of samples: in a branch of a conditional it needs the
                   branch's number
    calls_python   whether it calls functions of the user, which hold the interpreter lock
    library        a module without which it cannot read some formats (``tooling.doctor_checks.LIBRARIES`` says which)
    output_per_optional_input  each given optional input adds one output (for example labels of boxes)
    positional     arguments that its class in ``ops`` also accepts by position
    hand_written   module of its ``fn`` and ``ops`` forms, if they are not derived (they take Python objects)
    input_names    names of the positional inputs, if they are not "input" or "input_<k>"
    graphs_only    dynamic mode has no function for it: it is deprecated, or tells what a value tells
    examples       calls for the documentation and the tests
    sampling_rate  the output that is the sampling rate of the sound in output 0, if there is one
    only_here      DALI does not have the operator
    dali_class     the class in DALI's automatic names of instances, if it is not that of `name`
    results        a function of (constants, outputs) that makes the result of a call, if it is neither a node nor a list of nodes
    """

    name: str
    doc: str
    args: tuple[Arg, ...] = ()
    inputs: tuple[int, int] = (1, 1)
    input_names: tuple[str, ...] = ()
    accepts: tuple[Input, ...] = ()
    per_frame: tuple[str, ...] = ()
    gives: tuple[Output, ...] = ()
    outputs: int | Callable[[dict[str, Any]], int] = 1
    devices: tuple[str, ...] = ("cpu",)
    seeded: bool = False
    no_prune: bool = False
    deprecated: dict[str, str | None] = field(default_factory=dict)
    aliases: tuple[str, ...] = ()
    old_defaults: dict[str, dict[str, Any]] = field(default_factory=dict)
    cpu_inputs: tuple[int, ...] = ()
    moved_inputs: tuple[int, ...] = ()
    uploads: bool = False
    metadata_inputs: tuple[int, ...] = ()
    results: Callable[[dict[str, Any], list[Any]], Any] | None = None
    positional: tuple[str, ...] = ()
    hand_written: str = ""
    output_per_optional_input: bool = False
    role: Role = Role.WORK
    only_here: bool = False
    dali_class: str = ""
    looks_across: bool = False
    calls_python: bool = False
    library: str = ""
    composed_of: tuple[str, ...] = ()
    graphs_only: bool = False
    examples: tuple[Example, ...] = ()
    sampling_rate: int | None = None

    def __post_init__(self) -> None:
        own = self.args + COMMON_ARGUMENTS + ((SEED_ARGUMENT,) if self.seeded else ())
        object.__setattr__(self, "by_name", {arg.name: arg for arg in own})

    by_name: dict[str, Arg] = field(init=False, repr=False, default_factory=dict)

    @property
    def class_name(self) -> str:
        """CamelCase name in ``ops``: "decoders.image_random_crop" -> "ImageRandomCrop"."""
        return camel_case(self.name.rsplit(".", 1)[-1])

    @property
    def module(self) -> str:
        """The submodule of ``fn`` and ``ops`` ("" for the top level)."""
        return self.name.rpartition(".")[0]

    def GetInputDevice(self, index: int, actual_device: str | None = None, operator_device: str | None = None) -> str | None:
        """DALI's name: the device of input `index` if the caller has the data on `actual_device` and the operator runs on
        `operator_device`. None if that depends on a device that is not given. IndexError for an input that the operator does not have.
        """
        if not 0 <= index < self.inputs[1]:
            raise IndexError(f"{self.name} has {self.inputs[1]} inputs; input {index} does not exist")
        if index in self.metadata_inputs:
            return actual_device or operator_device
        if index in self.moved_inputs and operator_device != "cpu":
            if operator_device == "mixed" and actual_device:
                return "cpu"
            return actual_device or operator_device
        return "cpu" if index in self.cpu_inputs else operator_device

    def output_count(self, constants: dict[str, Any], inputs: int) -> int:
        """Number of outputs of an instance with these constant arguments and this many inputs."""
        count = self.outputs if isinstance(self.outputs, int) else self.outputs(constants)
        return count + (inputs - self.inputs[0] if self.output_per_optional_input else 0)
