"""The operator contract: how an operator is declared, checked, planned.

An operator is one class in one module. Its class attribute ``schema`` declares everything a user can see (name, inputs, arguments, types,
defaults, devices, documentation); ``fn``, ``ops``, the type stubs and the reference tables are derived from it. An instance lives in
a built pipeline and is asked once per iteration::

    prepare(inputs, arguments, iteration)  yields jobs to run on the samples before planning   (read bytes, odd formats)
    plan(inputs, arguments, iteration)     -> Planned(outputs, steps)                          (vectorised over the batch)

What `prepare` returns is ``iteration.prepared`` in `plan`. Neither changes the operator: any iteration may be planned at any time, in any
order, several at once, or twice.

`plan` runs on one thread, with the shapes of all inputs known; it returns output batches whose memory is not placed yet, and compiled
steps (see ``asyncdali.compiled``) that fill them sample by sample. An output whose contents `plan` computes itself
(``Batch.from_values``) needs no step. Contents of inputs may be read in `plan` only for the inputs named by ``reads``; the graph is
cut into segments so that they are ready.

State is a position, an immutable value that the runtime keeps. A stateful operator tells the first one (``start``), reads
``iteration.position``, and computes with ``after(position, samples)`` the position behind an iteration that produced `samples` samples.
"""

from __future__ import annotations

import enum
import numbers
import operator as _op
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np

from ..access import EVERYTHING, Access
from ..batch import Batch
from ..compiled.memory import address_of
from ..device.launch import Launch
from ..errors import InputError
from ..errors import SampleError as SampleError
from ..types import DALIDataType, DALIImageType, DALIInterpType
from .accepts import Input, Output, check_counts, check_inputs, check_shapes, declared

if TYPE_CHECKING:
    from ..device.cuda.device import CudaDevice, CudaStream
    from .decode.decoder_lanes import GpuImages


class _Required:
    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED: Any = _Required()
"""Default of an argument that must be given."""


# ---------------------------------------------------------------------------------------------------------------- declaration


def _to_bool(value: Any) -> bool:
    if not isinstance(value, (numbers.Number, np.generic)):
        raise TypeError(f"{type(value).__name__} is not a truth value")
    return bool(value)


def _to_float(value: Any) -> float:
    if isinstance(value, (str, bytes)):
        raise TypeError("a string is not a number")
    return float(value)


def _to_str(value: Any) -> str:
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


def _to_enum(kind: type) -> Callable[[Any], Any]:
    def convert(value: Any) -> Any:
        if isinstance(value, str):
            raise TypeError(f"expected a member of types.{kind.__name__}")
        return kind(value)

    return convert


def _to_dtype(value: Any) -> DALIDataType:
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        return DALIDataType(int(value))
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


def _is_sequence(value: Any) -> bool:
    return isinstance(value, (list, tuple, range)) or (isinstance(value, np.ndarray) and value.ndim == 1)


@dataclass(frozen=True)
class Arg:
    """One keyword argument of an operator.

    kind      "int", "float", "bool", "str", "layout", "dtype", "image_type", "interp", "any", or one of these with "_list"
    default   value when absent; None = absent has a meaning of its own; REQUIRED = must be given
    tensor    may be a DataNode (one value per sample)
    stream    the argument changes which samples or values come out (it enters the checkpoint's fingerprint)
    compiled  a function that is compiled as the user wrote it, whatever conditional execution made of it
    path      "read" or "write": names files or directories that the operator reads or writes; see :func:`check_access`
    inert     DALI's operator has the argument and ours has no use for it: `doc` says why, and so does a notice to who gives it
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

    @property
    def is_list(self) -> bool:
        return self.kind.endswith("_list")

    def convert(self, value: Any) -> Any:
        """The value in its declared type; TypeError or ValueError when it has none. A list of one is accepted for a scalar."""
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
        """The type as the documentation prints it."""
        text = {"dtype": "DALIDataType", "image_type": "DALIImageType", "interp": "DALIInterpType"}.get(
            self.kind.removesuffix("_list"), self.kind.removesuffix("_list")
        )
        text = f"{text} or list of {text}" if self.is_list else text
        return f"{text} or DataNode" if self.tensor else text


COMMON_ARGUMENTS = (
    Arg("name", "str", None, "Name of the operator instance; unique in the pipeline."),
    Arg("device", "str", None, 'Where it runs: "cpu", "gpu" or "mixed"; default: "gpu" if an input is on the GPU, else "cpu".'),
    Arg("preserve", "bool", False, "Run it even if nothing uses its outputs."),
    Arg("bytes_per_sample_hint", "int_list", [0], "Expected bytes of a sample, of each output or of all: `build()` makes buffers."),
)
SEED_ARGUMENT = Arg("seed", "int", -1, "Seed of this operator's stream; by default taken from the pipeline's seed.")


_PROPER_NAMES = {
    "bbox": "BBox", "coco": "COCO", "dl": "DL", "mfcc": "MFCC", "mxnet": "MXNet", "rms": "RMS", "roi": "ROI", "ssd": "SSD",
    "tfrecord": "TFRecord",
}  # fmt: skip


def camel_case(name: str) -> str:
    """The class name of an operator: "image_random_crop" -> "ImageRandomCrop"."""
    return "".join(_PROPER_NAMES.get(part, part[:1].upper() + part[1:]) for part in name.split("_"))


class Role(enum.Enum):
    """What an operator is for the graph and the runtime, where that is more than to compute outputs from inputs."""

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
class Schema:
    """The declaration of an operator; see the module docstring.

    inputs         fewest and most positional inputs
    accepts        element types, numbers of dimensions and layouts of the inputs, see :mod:`asyncdali.operators.accepts`; the last one is
                   that of all further inputs, and without any no input is accepted
    per_frame      arguments that may have a value for each frame of a sequence (a node whose layout begins with F)
    outputs        number of outputs, or a function of the constant arguments (a dict) that gives it
    gives          what the outputs are; the last one is that of all further outputs
    devices        of "cpu", "gpu", "mixed"
    seeded         takes a seed from the pipeline's table (random operators and readers)
    no_prune       runs even if nothing uses its outputs
    deprecated     {old argument name: new name, or None if it no longer does anything}
    aliases        deprecated names of the whole operator
    cpu_inputs     positions of inputs that stay on the CPU whatever the operator's device (sizes, say)
    moved_inputs   positions of inputs that may be on either device: a copy to where the operator wants them is part of the graph
    uploads        with device "gpu" it runs on the CPU: its inputs are copied to the CPU, its outputs to the GPU
    metadata_inputs  positions of inputs of which only shape, type, layout and origin are read: they may be on any device
    role           see :class:`Role`; operators are told apart by it, never by their names
    composed_of    names of two operators that a call makes instead, with the arguments of both; the second works on the first output of the
                   first
    looks_across   without inputs, its outputs depend on the number of samples: in a branch of a conditional it asks for those of the branch
    output_per_optional_input  each optional input that is given has one more output (labels that go with boxes)
    positional     arguments that its class in ``ops`` takes by position, too
    hand_written   module of its ``fn`` and ``ops`` forms, where they are not derived (they take Python objects)
    results        what a call gives the user for (constants, outputs), where it is neither a node nor a list of them
    """

    name: str
    doc: str
    args: tuple[Arg, ...] = ()
    inputs: tuple[int, int] = (1, 1)
    accepts: tuple[Input, ...] = ()
    per_frame: tuple[str, ...] = ()
    gives: tuple[Output, ...] = ()
    outputs: int | Callable[[dict[str, Any]], int] = 1
    devices: tuple[str, ...] = ("cpu",)
    seeded: bool = False
    no_prune: bool = False
    deprecated: dict[str, str | None] = field(default_factory=dict)
    aliases: tuple[str, ...] = ()
    cpu_inputs: tuple[int, ...] = ()
    moved_inputs: tuple[int, ...] = ()
    uploads: bool = False
    metadata_inputs: tuple[int, ...] = ()
    results: Callable[[dict[str, Any], list[Any]], Any] | None = None
    positional: tuple[str, ...] = ()
    hand_written: str = ""
    output_per_optional_input: bool = False
    role: Role = Role.WORK
    looks_across: bool = False
    composed_of: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        own = self.args + COMMON_ARGUMENTS + ((SEED_ARGUMENT,) if self.seeded else ())
        object.__setattr__(self, "by_name", {arg.name: arg for arg in own})

    by_name: dict[str, Arg] = field(init=False, repr=False, default_factory=dict)

    def __reduce__(self) -> Any:  # declarations hold functions: a schema is pickled as its name
        return _schema_named, (self.name,)

    @property
    def class_name(self) -> str:
        """CamelCase name in ``ops``: "decoders.image_random_crop" -> "ImageRandomCrop"."""
        return camel_case(self.name.rsplit(".", 1)[-1])

    @property
    def module(self) -> str:
        """The submodule of ``fn`` and ``ops`` ("" for the top level)."""
        return self.name.rpartition(".")[0]

    def output_count(self, constants: dict[str, Any], inputs: int) -> int:
        """Outputs of an instance with these constant arguments and so many inputs."""
        count = self.outputs if isinstance(self.outputs, int) else self.outputs(constants)
        return count + (inputs - self.inputs[0] if self.output_per_optional_input else 0)


def _schema_named(name: str) -> Schema:
    return REGISTRY[name].schema


# -------------------------------------------------------------------------------------------------------------------- runtime


@dataclass(frozen=True)
class Spec:
    """What the graph knows about one operator instance when it is made in ``build()``."""

    schema: Schema
    name: str
    device: str
    constants: dict[str, Any]
    argument_inputs: tuple[str, ...]
    input_count: int
    output_count: int
    seed: int | None = None
    constant_rows: dict[tuple[Any, ...], np.ndarray] = field(init=False, repr=False, compare=False, default_factory=dict)
    """What :meth:`Arguments.vectors` has made of constants."""

    def constant(self, name: str) -> Any:
        """Constant value of an argument, or its declared default."""
        if name in self.constants:
            return self.constants[name]
        return self.schema.by_name[name].default

    def given(self, name: str) -> bool:
        """Whether the user gave the argument (as a constant or as a node)."""
        return name in self.constants or name in self.argument_inputs


@dataclass(frozen=True)
class Environment:
    """What a built pipeline offers its operators."""

    batch_size: int
    num_threads: int
    device_id: int | None
    checkpointing: bool
    allocate: Callable[[int], np.ndarray]
    """``allocate(bytes) -> uint8 array`` of pooled memory; it returns to the pool when the last view is dropped."""
    calling: Callable[[], AbstractContextManager[None]] = nullcontext
    """``with calling():`` around calls of the user's functions."""
    gpu: CudaDevice | None = None
    """The GPU that mixed and gpu operators run on; None on the host device."""
    depth: int = 1
    """Iterations kept in flight."""
    access: Access = EVERYTHING
    """What the operators may open."""
    noting: Callable[[int], None] | None = None
    """Called with the sample for which a function of the user is about to be called: it may end the process. None: nobody wants to know."""
    pictures: list[Any] = field(default_factory=list)
    """Of each image decoder its cache of decoded pictures (operators/decode/picture_cache.py), or None."""


def check_access(spec: Spec, access: Access) -> None:
    """RuntimeError for an argument that names a file or directory which the pipeline may not open."""
    for arg in spec.schema.args:
        if not arg.path or not spec.given(arg.name):
            continue
        value = spec.constant(arg.name)
        for path in value if isinstance(value, list) else [value]:
            if path:
                check = access.check_read if arg.path == "read" else access.check_write
                check(path, f"argument `{arg.name}`")


@dataclass
class Step:
    """A compiled step: address of the function, its context table, scratch it needs, and what must stay alive meanwhile.

    ``explain(code, text, sample)`` turns a non-zero status into a message.
    """

    function: int
    context: np.ndarray
    explain: Callable[[int, str, int], str]
    scratch_bytes: int = 0
    scratch_field: int | None = None
    """Index in `context` that receives the offset of this step's own scratch in the thread's scratch."""
    keep: Sequence[Any] = ()
    inner: Step | None = None
    """The step that this one calls, if it takes another's place."""
    launches: Callable[[], list[Launch]] | None = None
    """The same step for a GPU, over the same tables; asked for once the addresses are known. None: it has no kernel."""
    hardware: GpuImages | None = None
    """The samples that a GPU's decoders take instead."""

    def place_scratch(self, offset: int) -> None:
        """Tell the step where its scratch begins in the thread's."""
        if self.inner is not None:
            self.inner.place_scratch(offset)
        elif self.scratch_field is not None:
            self.context[self.scratch_field] = offset


@dataclass
class Planned:
    """Result of :meth:`Operator.plan`: output batches, and the steps that fill those without contents."""

    outputs: list[Batch]
    steps: list[Step] = field(default_factory=list)


@dataclass
class PythonJob:
    """Work that must be Python: ``work(sample)`` for each of `samples`; the first error is raised with its sample."""

    samples: Sequence[int]
    work: Callable[[int], None]


@dataclass
class CompiledJob:
    """Compiled steps over samples 0..count-1, outside a segment's own pixels (reading files, say).

    `brief`: a matter of microseconds. The thread that plans does it alone, for waking others would take longer.
    """

    count: int
    steps: list[Step]
    brief: bool = False


class Arguments:
    """The values of an operator's arguments in one iteration, constants and argument inputs alike, per sample."""

    __slots__ = ("_inputs", "count", "spec")

    def __init__(self, spec: Spec, inputs: dict[str, Batch], count: int):
        self.spec = spec
        self._inputs = inputs
        self.count = count

    def given(self, name: str) -> bool:
        """Whether the user gave the argument."""
        return self.spec.given(name)

    def is_input(self, name: str) -> bool:
        """Whether it is a DataNode (per-sample values)."""
        return name in self._inputs

    def batch(self, name: str) -> Batch:
        """The batch behind an argument input."""
        return self._inputs[name]

    def constant(self, name: str) -> Any:
        """A constant (or the default) of an argument that is not an argument input."""
        return self.spec.constant(name)

    def scalars(self, name: str, dtype: Any = np.float32) -> np.ndarray:
        """One value per sample: dtype[count]. ValueError when a sample has more than one element."""
        batch = self._inputs.get(name)
        if batch is None:
            value = self.spec.constant(name)
            if isinstance(value, list):
                value = value[0]
            out = np.empty(self.count, dtype)
            out.fill(value)  # a quarter of the time of np.full
            return out
        if batch.values is not None and batch.values.size == self.count:
            return batch.values.reshape(self.count).astype(dtype)
        out = np.empty(self.count, dtype)
        for i in range(self.count):
            value = batch.sample(i)
            if value.size != 1:
                raise SampleError(i, f"argument '{name}' expects one value per sample, got shape {tuple(value.shape)}")
            out[i] = value.reshape(-1)[0]
        return out

    def vectors(self, name: str, length: int | None = None, dtype: Any = np.float32) -> np.ndarray:
        """A vector per sample: dtype[count, length]; one value is repeated `length` times.

        With ``length=None`` all samples must agree on the length. Raises SampleError on another length, and for more than one dimension.
        The rows of a constant are read-only.
        """
        batch = self._inputs.get(name)
        if batch is None:
            return self._rows_of_constant(name, length, dtype)
        if batch.ndim > 1 and self.count:
            raise SampleError(0, f"argument '{name}' expects a vector per sample, got shape {tuple(batch.shapes[0].tolist())}")
        if batch.values is not None:
            rows = batch.values.reshape(self.count, -1).astype(dtype)
            if length is None or rows.shape[1] == length:
                return rows
            if rows.shape[1] == 1:
                return np.repeat(rows, length, 1)
        samples = [np.atleast_1d(batch.sample(i)).reshape(-1).astype(dtype) for i in range(self.count)]
        want = length if length is not None or not samples else len(samples[0])
        return np.stack([self._fit(name, row, want, i) for i, row in enumerate(samples)]) if samples else np.empty((0, 0), dtype)

    def rows(self, name: str, lengths: np.ndarray, default: np.ndarray, dtype: Any = np.float32) -> np.ndarray:
        """A vector per sample, of lengths that differ: dtype[count, most], of which ``lengths[i]`` values of row i count.

        One value is repeated. A sample without values, or all if the argument is not given, has its row of `default`.
        Raises ValueError (SampleError for an argument input) on another length.
        """
        out = np.array(default, dtype)
        if not self.given(name):
            return out
        batch = self._inputs.get(name)
        if batch is None:
            row = np.atleast_1d(np.asarray(self.spec.constant(name), dtype))
            if len(row):
                for length in np.unique(lengths).tolist():
                    out[lengths == length, :length] = self._fit(name, row, length, None)
            return out
        if batch.ndim > 1 and self.count:
            raise SampleError(0, f"argument '{name}' expects a vector per sample, got shape {tuple(batch.shapes[0].tolist())}")
        if batch.values is not None and (lengths == out.shape[1]).all() and batch.values.size == out.size:
            return batch.values.reshape(out.shape).astype(dtype)
        for i, length in enumerate(lengths.tolist()):
            row = np.atleast_1d(batch.sample(i)).astype(dtype)
            if len(row):
                out[i, :length] = self._fit(name, row, length, i)
        return out

    def chosen_axes(self, name: str, ndim: int) -> tuple[np.ndarray, np.ndarray]:
        """Axes that an argument names: int64[count, most] from 0 to ``ndim - 1``, and how many of each row count, int64[count].

        Negative axes count from the back; a sample (or a constant) without values means all axes. Raises ValueError, or SampleError for
        an argument input, for axes that do not exist and for those that occur twice.
        """
        batch = self._inputs.get(name)
        if batch is None:
            given = np.atleast_1d(np.asarray(self.spec.constant(name), np.int64))
            rows = [given if len(given) else np.arange(ndim)] * min(self.count, 1)
        else:
            rows = [np.atleast_1d(batch.sample(i)).reshape(-1).astype(np.int64) for i in range(self.count)]
            rows = [row if len(row) else np.arange(ndim) for row in rows]
        for i, row in enumerate(rows):
            wrong = (row < -ndim) | (row >= ndim)
            message = ""
            if wrong.any():
                message = f"`{name}`: {int(row[wrong][0])} is out of range for {ndim}-D samples; allowed are {-ndim} to {ndim - 1}"
            elif len(np.unique(row % max(ndim, 1))) != len(row):
                message = f"an axis occurs more than once in `{name}`, {row.tolist()}"
            if message:
                raise ValueError(message) if batch is None else SampleError(i, message)
        lengths = np.array([len(row) for row in rows], np.int64)
        axes = np.zeros((len(rows), int(lengths.max(initial=0))), np.int64)
        for row, target in zip(rows, axes, strict=True):
            target[: len(row)] = np.where(row < 0, row + ndim, row)
        if batch is None:
            return np.repeat(axes, self.count, axis=0), np.repeat(lengths, self.count)
        return axes, lengths

    def _rows_of_constant(self, name: str, length: int | None, dtype: Any) -> np.ndarray:
        """A constant as read-only dtype[count, length]. The last array of each constant is kept: making one takes 8 us, finding it 0.3."""
        key = name, length, dtype
        kept = self.spec.constant_rows.get(key)
        if kept is None or len(kept) != self.count:
            row = self._fit(name, np.atleast_1d(np.array(self.spec.constant(name), dtype)), length, None)
            kept = self.spec.constant_rows[key] = np.broadcast_to(row, (self.count, len(row)))
        return kept

    def per_axis(self, name: str, length: int, dtype: Any = np.float32) -> np.ndarray:
        """As :meth:`vectors`; one number per sample is repeated by a stride of 0 instead of a copy."""
        batch = self._inputs.get(name)
        if batch is not None and batch.values is not None and batch.ndim <= 1 and batch.values.size == self.count:
            return np.broadcast_to(batch.values.reshape(self.count, 1).astype(dtype), (self.count, length))
        return self.vectors(name, length, dtype)

    def _fit(self, name: str, row: np.ndarray, length: int | None, sample: int | None) -> np.ndarray:
        if length is None or len(row) == length:
            return row
        if len(row) == 1:
            return np.repeat(row, length)
        message = f"argument '{name}' expects {length} values, got {len(row)}"
        raise ValueError(message) if sample is None else SampleError(sample, message)


@dataclass(slots=True)  # not frozen: there is one for every iteration, and a frozen one takes three times as long to make
class Iteration:
    """What one operator may know about the iteration it plans.

    index       number of the iteration, from 0
    batch_size  samples of the whole batch
    fed         external input -> its batch, or the error to raise in its place
    stream      the GPU's stream that the operator's work is queued on
    position    where a stateful operator is before this iteration
    prepared    what :meth:`Operator.prepare` returned
    """

    index: int
    batch_size: int
    fed: Mapping[str, Any] = field(default_factory=dict)
    stream: CudaStream | None = None
    position: Any = None
    prepared: Any = None


Preparation: TypeAlias = "Generator[PythonJob | CompiledJob, None, Any] | tuple[()]"
"""What :meth:`Operator.prepare` gives: a generator of jobs, or nothing."""
_NOTHING: Preparation = ()


class Operator:
    """Base of all operators; see the module docstring."""

    schema: ClassVar[Schema]
    reads: ClassVar[tuple[int, ...]] = ()
    """Positional inputs whose contents `prepare` or `plan` look at (argument inputs always are)."""
    reads_on_cuda: ClassVar[tuple[int, ...] | None] = None
    """As `reads`, where a GPU does the work; None: the same."""
    eager: ClassVar[bool] = False
    """Outputs have their contents after `plan` (draws, constants, readers)."""
    passes_on: ClassVar[bool] = False
    """Outputs have their contents after `plan` if the inputs have."""
    barrier: ClassVar[bool] = False
    """Must be a segment of its own (user Python)."""
    on_cuda: ClassVar[bool] = False
    """Whether it runs on a CUDA device: all its steps have launches, or it has no steps. A pipeline with one that does not is refused."""

    only_compiles: ClassVar[bool] = True
    """Making an instance compiles kernels and has no effect outside (a reader looks for its files); see ``runtime.compiling``."""
    can_feed: ClassVar[bool] = False
    """Its output may hand on rows while they are made (``row_feeds``)."""
    takes_rows: ClassVar[bool] = False
    """It may take samples of its first input in rows."""
    feeds: bool = False
    """Set in ``build()``: the output's only reader takes rows."""
    hands_out_samples: ClassVar[bool] = False
    """Outputs are samples of the inputs where they lie, in batches of other samples."""

    def __init__(self, spec: Spec, environment: Environment):
        self.spec = spec
        self.environment = environment

    @classmethod
    def inputs_read(cls, spec: Spec, on_cuda: bool) -> Sequence[int]:
        """Positional inputs whose contents `prepare` or `plan` of the instance `spec` look at; `on_cuda`: where a GPU does the work."""
        return cls.reads if not on_cuda or cls.reads_on_cuda is None else cls.reads_on_cuda

    @property
    def output_device(self) -> str:
        """Where the outputs are: "gpu" for mixed and gpu operators."""
        return "cpu" if self.spec.device == "cpu" else "gpu"

    # --- state

    scope_argument: ClassVar[str | None] = None
    """The argument that tells in which branch of a conditional the operator is; by default any input does."""
    skips_empty: ClassVar[bool] = True
    """In a branch of a conditional that no sample takes it is not asked at all."""
    stateful: ClassVar[bool] = False

    @property
    def start(self) -> Any:
        """The position of a fresh pipeline."""
        return None

    def after(self, position: Any, samples: int) -> Any:
        """The position behind an iteration that began at `position` and produced `samples` samples."""
        return None

    def save(self, position: Any) -> Any:
        """A position as JSON data."""
        return None

    def load(self, data: Any) -> Any:
        """The position saved as `data`; ValueError with a readable reason if it is not one."""
        return None

    def settings(self) -> Any:
        """What was decided in ``build()`` and changes results, as JSON data for checkpoints; None: nothing."""
        return None

    def use_settings(self, data: Any) -> None:
        """Decide as the pipeline did whose :meth:`settings` are `data`; ValueError with a readable reason if they are none."""

    # --- build

    def infer(self, dtypes: list[DALIDataType | None]) -> list[DALIDataType | None]:
        """Element types of the outputs for those of the inputs, None where only known when running.

        Called once in ``build()``: kernels that depend on element types are compiled here, not in a pool thread.
        """
        return [None] * self.spec.output_count

    @property
    def instant(self) -> bool:
        """Whether `plan` is a matter of microseconds, needs no jobs and no steps, and runs no user code.

        A segment of nothing else is planned on the loop's own thread: waking another would cost several times as much.
        """
        return False

    def counted(self) -> tuple[tuple[str, int], ...]:
        """What the operator has counted since ``build()``: (name, number) pairs, always the same names in the same order."""
        return ()

    # --- inputs

    def accepts(self) -> tuple[Input, ...]:
        """What this instance accepts as inputs: what the schema declares, or less, where arguments say so."""
        return self.schema.accepts

    def layout_of(self, batch: Batch, position: int = 0) -> str:
        """The layout of an input, or the one that it is taken to have."""
        return batch.layout or declared(self.schema.accepts, position).layout(batch)

    # --- one iteration

    def prepare(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Preparation:
        """Work per sample that has to be done before :meth:`plan`.

        A generator is resumed when the job that it yielded is over; what it returns is ``iteration.prepared`` in `plan`.
        """
        return _NOTHING

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        """Decide the iteration; see the module docstring."""
        raise TypeError(f"operator {self.schema.name} does not implement plan()")

    def stop(self) -> None:
        """The pipeline is being closed: wake whoever waits in this operator. Its threads may be at work still."""

    def close(self) -> None:
        """Release what the operator holds (files, processes), when the threads of the pipeline have ended."""


class Gate:
    """Lets the batches of one operator instance through that it accepts; called before each iteration is prepared.

    Signatures (types, numbers of dimensions, layouts) rarely change. So the one that was accepted last is compared first.
    """

    __slots__ = ("_accepted", "_counts", "_operator", "_scalars", "_shapes")

    def __init__(self, operator: Operator):
        schema = operator.schema
        self._operator = operator
        self._accepted: Any = None
        self._counts = schema.role is not Role.MERGE  # whose inputs are parts of a batch
        self._shapes = any("shape" in accepted.like for accepted in schema.accepts)
        whole = {arg.name for arg in schema.args if arg.tensor and not arg.is_list and arg.name not in schema.per_frame}
        self._scalars = [name for name in operator.spec.argument_inputs if name in whole]

    def check(self, inputs: Sequence[Batch], arguments: Mapping[str, Batch], count: int) -> None:
        """InputError or SampleError for what the operator does not accept; `count`: samples of the first input."""
        signature: Any
        if len(inputs) == 1:
            first = inputs[0]
            signature = (first.dtype, first.shapes.shape[1], first.layout)
        else:
            signature = [(batch.dtype, batch.shapes.shape, batch.layout) for batch in inputs]  # with the number of samples
        if signature != self._accepted:
            if self._counts:
                check_counts(inputs, count)
            check_inputs(self._operator.schema.name, self._operator.accepts(), inputs)
            self._accepted = signature
        if self._shapes:
            check_shapes(inputs)
        for name in self._scalars:
            if arguments[name].layout[:1] == "F":
                _check_one_frame(name, arguments[name])


def _check_one_frame(name: str, batch: Batch) -> None:
    """InputError for an argument that has several values per sample, one for each frame."""
    if batch.ndim and (batch.shapes[:, 0] > 1).any():
        error = InputError(f"The argument `{name}` cannot have a value for each frame here; give one value per sample.")
        error.argument = name
        raise error


REGISTRY: dict[str, type[Operator]] = {}
"""Public operator name -> class."""


STORABLE: dict[str, Any] = {}
"""Class name -> class of the objects, besides numbers, text and arrays, that stored pipelines may hold; see :func:`storable`."""


def storable(cls: Any) -> Any:
    """Class decorator: arguments of operators may hold these objects, and pipelines that have them can be stored.

    ``stored()`` gives a dict of what can be stored, and the class method ``restored(dict)`` makes the object of it, checking all.
    """
    STORABLE[cls.__name__] = cls
    return cls


def register(cls: type[Operator]) -> type[Operator]:
    """Class decorator: enter an operator in the registry."""
    name = cls.schema.name
    if name in REGISTRY and REGISTRY[name].__module__ != cls.__module__:
        raise ValueError(f"operator {name} is declared twice: {REGISTRY[name].__module__} and {cls.__module__}")
    REGISTRY[name] = cls
    return cls


def context_table(values: Iterable[Any]) -> tuple[np.ndarray, list[Any]]:
    """An int64 context table from integers and arrays (their addresses), and the arrays to keep alive."""
    numbers: list[int] = []
    keep: list[Any] = []
    for value in values:
        if isinstance(value, np.ndarray):
            keep.append(value)
            numbers.append(address_of(value))
        else:
            numbers.append(int(value))
    return np.array(numbers, np.int64), keep


def no_explanation(code: int, text: str, sample: int) -> str:
    """Default explanation of a step's status."""
    return text or f"status {code}"
