"""A call of an operator: what is data and what is constant, how many samples, which device, and which brick.

Plain Python numbers, truth values, strings, enumerations, and flat lists of them are constants, as in ``fn``, however they are spelled.
Tensors, Batches, arrays and nested lists are data. A call is a batch call if `batch_size` is given or any data is a Batch; then a Tensor is
repeated for every sample.
"""

from __future__ import annotations

import contextlib
import enum
import functools
import logging
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..batch import Batch as Samples
from ..errors import InputError, call_error
from ..operators.accepts import declared
from ..operators.base import REQUIRED, Arg, Schema
from ..operators.expressions.types import SIGNED, UNSIGNED
from ..sampling.random_streams import drawn_position
from ..tensors import TensorListCPU, TensorListGPU
from ..types import DALIDataType
from . import values as values_module
from .bricks import Brick, results
from .brief import Kind
from .contexts import EvalContext, calling
from .conversion import make_batch, make_tensor
from .cuda import engine_at, gpu_engine
from .devices import Device, device, gpu_number, has_gpu
from .dtypes import DType, of_id, type_id
from .loops import Loop, LoopCall, current_loop
from .modes import EvalMode
from .rng import Place, generator_of, place_for
from .spellings import argument_hint, named_arguments
from .values import Batch, DynamicValue, Held, Tensor, copied, place_of, repeated_part
from .work import DelayedCall, KnownOutput, users_line

log = logging.getLogger("asyncdali")

_SCALARS = (int, float, bool, str, bytes, complex, enum.Enum, np.generic)
_TAKEN = {
    **dict.fromkeys(("float", "float_list"), (DALIDataType.FLOAT,)),
    **dict.fromkeys(("int", "int_list"), (DALIDataType.INT32, DALIDataType.BOOL, *SIGNED, *UNSIGNED)),
}
_NOT_HERE = {"name", "preserve", "bytes_per_sample_hint", "device", "seed"}
"""Arguments of graphs that calls do not have."""


def is_data(value: object) -> bool:
    """Whether an argument is data: a Tensor, a Batch, an array, or nested lists."""
    if isinstance(value, (DynamicValue, TensorListCPU, TensorListGPU)):
        return True
    if isinstance(value, (list, tuple)):
        return any(isinstance(item, (list, tuple, DynamicValue, np.ndarray)) for item in value)
    if isinstance(value, _SCALARS) or value is None or callable(value) or isinstance(value, dict):
        return False
    return hasattr(value, "__array__") or hasattr(value, "__dlpack__")


class OperatorFunction:
    """The declaration of an operator, as calls need it.

    name     as users call it, "reductions.sum"
    path     how errors name it
    """

    def __init__(self, schema: Schema):
        self.schema = schema
        self.name = schema.name
        self.path = f"ndd.{schema.name}"
        self.arguments = {name: arg for name, arg in schema.by_name.items() if name not in _NOT_HERE and not name.startswith("_")}
        self.required = [arg.name for arg in schema.args if arg.default is REQUIRED]
        self.random = schema.seeded
        self.needs_batch = schema.looks_across
        self.fewest, self.most = schema.inputs
        self.casts = {name: _TAKEN[arg.kind] for name, arg in self.arguments.items() if arg.tensor and arg.kind in _TAKEN}
        """By argument: the types that its data may have. Other data is cast to the first one."""
        self.dtypes = {name for name, arg in self.arguments.items() if arg.kind in ("dtype", "dtype_list")}

    def unknown(self, name: str) -> TypeError:
        """The error for an argument that does not exist."""
        if name == "seed" and self.random:
            return TypeError(f"{self.path}: dynamic mode has no `seed`; give rng=ndd.random.RNG(seed), or call ndd.random.set_seed(seed)")
        if name == "rng":
            return TypeError(f"{self.path} draws no random numbers: it has no argument `rng`")
        return TypeError(f"{self.path} got an unexpected argument {name!r}.{argument_hint(name, self.arguments)}")


def checked_size(batch_size: object) -> int:
    """A number of samples. TypeError, ValueError for anything else."""
    if isinstance(batch_size, bool) or not hasattr(batch_size, "__index__"):
        raise TypeError(f"batch_size is an integer, got {batch_size!r}")
    count = operator.index(batch_size)
    if count < 0:
        raise ValueError(f"batch_size cannot be negative, got {count}")
    return count


def call(
    function: OperatorFunction, inputs: Sequence[Any], batch_size: object, wanted_device: object, arguments: dict[str, Any],
    rng: object = None,
) -> Any:  # fmt: skip
    """The results of a call: a Tensor or Batch, a tuple of several, or a dict of named ones."""
    thread = calling.thread
    engine: Any = thread.engine()
    named: dict[str, Any] = {}
    parts = _parts(arguments, named)
    kinds: list[Kind] = []
    mode = EvalMode.current() if thread.modes else EvalMode.eager
    loop = current_loop() if thread.loops else None
    if loop is not None and not (loop.asked or mode is EvalMode.eager):
        loop = None
    drawn = drawn_from = None
    if loop is not None and wanted_device is None and mode is not EvalMode.deferred:
        brick = engine.bricks.known((function, len(inputs), *parts))
        if brick is not None:
            made, drawn_from = _as_expected(loop, function, brick, inputs, named, batch_size, rng)
            if made is not None:
                return made
    if not (wanted_device is not None or named or mode is EvalMode.deferred or thread.loops):
        if function.random and not inputs:
            drawn = function, batch_size, batch_size.__class__, *parts
            known_draw = engine.brief.drawn(drawn)
            if known_draw is not None:
                return known_draw.made(place_for(rng, function.path))
        elif batch_size is rng is None and not function.random:
            made = engine.brief.made(function, parts, inputs, kinds, thread.state)
            if made is not None:
                return made
    schema, values = function.schema, list(inputs)
    while len(values) > function.fewest and values[-1] is None:
        values.pop()
    if not function.fewest <= len(values) <= function.most:
        _wrong_count(function, len(values))
    external = False
    for k, item in enumerate(values):
        if not isinstance(item, DynamicValue):
            if item is None:
                raise TypeError(f"{function.path}: input {k} is None; only the last inputs may be left out")
            values[k] = item = _input(function, k, item)
            external = True
    brick = known = None
    if wanted_device is None and on_cpu(values):
        known = function, len(values), *parts
        brick = engine.bricks.known(known)
    is_checked = brick is not None
    if brick is not None:
        for name, value in named.items():
            if not isinstance(value, DynamicValue):
                named[name] = as_value(value)
        place, number, where = "cpu", 0, None
        count, is_batch = samples_of(function, values, named, batch_size)
    else:
        given, named = named, {}
        constants = _checked_arguments(function, arguments, named)
        place, number = _place(function, values, wanted_device)
        count, is_batch = samples_of(function, values, named, batch_size)
        where = place_of_inputs(function, values, place)
        key = (schema.name, place, number, _key(constants), tuple(named), tuple(where))
        if place != "cpu":
            engine = gpu_engine(number) or engine
        brick = engine.bricks.find(key, functools.partial(_brick, engine, function, place, constants, tuple(named), where))
        if known is not None and place == "cpu" and _is_repeatable(arguments, constants, given, named):
            engine.bricks.remember(known, brick)
    for name, value in named.items():
        kinds_taken = function.casts.get(name)
        if kinds_taken is not None and value._type_id() not in kinds_taken:
            named[name] = values_module.language.converted(value, of_id(kinds_taken[0]))
    if function.random:
        drawn_from = place_for(rng, function.path) if drawn_from is None else drawn_from
    elif rng is not None:
        raise function.unknown("rng")
    data = [*values, *named.values()]
    kind = Batch if is_batch else Tensor
    if mode is EvalMode.deferred and not external and not any(map(is_external, data)):
        compute = functools.partial(_computed, LoopCall(brick, engine, data, count, is_batch, drawn_from), where, number)
        return _later(brick, kind, compute, _known_outputs(brick, values, None if function.needs_batch else count))
    if loop is not None and place == "cpu" and on_cpu(data):
        work = loop.call(LoopCall(brick, engine, data, count, is_batch, drawn_from, generator_of(rng) if function.random else None))
        return results(brick, [kind._later(work, k) for k in range(len(work.declared))])
    placed = _placed(data, where, number, count, is_batch)
    made = finished(brick, brick.run(engine, placed, count, None if drawn_from is None else drawn_position(*drawn_from)))
    if kinds and is_checked:
        engine.brief.remember((function, *parts, *kinds), brick, values, placed, count, is_batch, made)
    elif drawn is not None and is_checked:
        engine.brief.remember_draw(drawn, brick, count, is_batch, made)
    return results(brick, [kind._of(samples) for samples in made])


def _as_expected(
    loop: Loop, function: OperatorFunction, brick: Brick, inputs: Sequence[object], named: dict[str, Any], batch_size: object, rng: object
) -> tuple[Any, Place | None]:  # fmt: skip
    """The results of a call that a captured loop expects; None if it does not. And from where the call draws, if that was taken."""
    if rng is not None and not function.random:
        return None, None
    generator: Any = generator_of(rng) if function.random else None
    data: Any = (*inputs, *named.values())
    expected = loop.expected(brick, data, batch_size, generator)
    if expected is None or not on_cpu(data):
        return None, None
    for name, value in named.items():
        kinds_taken = function.casts.get(name)
        if kinds_taken is not None and value._type_id() not in kinds_taken:
            return None, None
    place = None if generator is None else generator._call()
    work = loop.take(expected, place)
    if work is None:
        return None, place
    kind = Batch if expected.call.is_batch else Tensor
    return results(brick, [kind._later(work, k) for k in range(len(work.declared))]), place


def _computed(given: LoopCall, where: Sequence[str] | None, number: int) -> list[Samples]:
    """The outputs of a call, later. `where`, `number`: see :func:`_placed`."""
    data = _placed(given.data, where, number, given.samples, given.is_batch)
    return finished(given.brick, given.brick.run(given.engine, data, given.samples, given.position))


def _placed(data: Sequence[DynamicValue], where: Sequence[str] | None, number: int, count: int, is_batch: bool) -> list[Samples]:
    """The samples of the inputs of a call. `number`: of the GPU.

    `where`: the devices of the first ones. Others are on the CPU, where all are if it is None."""
    given = []
    for k, value in enumerate(data):
        samples = value._samples()
        wanted = "cpu" if where is None or k >= len(where) else where[k]
        if (samples.device != "cpu") != (wanted != "cpu"):
            samples = moved_samples(samples, wanted if wanted == "cpu" else f"gpu:{number}")
        given.append(repeated_part(samples, count) if is_batch and isinstance(value, Tensor) else samples)
    return given


def _checked_arguments(function: OperatorFunction, arguments: dict[str, Any], named: dict[str, DynamicValue]) -> dict[str, Any]:
    """The constants among the arguments. Data is put into `named`. TypeError, ValueError for arguments that are wrong or missing."""
    constants: dict[str, Any] = {}
    for name, value in arguments.items():
        if value is None:
            continue
        arg = function.arguments.get(name)
        if arg is None:
            raise function.unknown(name)
        if is_data(value):
            if not arg.tensor:
                constants[name] = _plain(function, arg, value)
                continue
            named[name] = value if isinstance(value, DynamicValue) else as_value(value)
        else:
            constants[name] = value.type_id if isinstance(value, DType) else value.item() if isinstance(value, np.generic) else value
            if constants[name] is None or (name in function.dtypes and not isinstance(value, (int, DType))):
                constants[name] = _dtype(function, name, value)
    for name in function.required:
        if name not in constants and name not in named:
            raise TypeError(f"{function.path}: the argument {name!r} is missing")
    return constants


def _is_repeatable(arguments: dict[str, Any], constants: dict[str, Any], given: dict[str, Any], named: dict[str, Any]) -> bool:
    """Whether the key of the arguments as given tells all about them. An array of another library may change, and is equal to itself."""
    return given.keys() == named.keys() and not any(is_data(arguments[name]) for name in constants)


_DATA = (DynamicValue, np.ndarray)


def _parts(arguments: dict[str, Any], data: dict[str, Any]) -> list[Any]:
    """Arguments as parts of a key, which tells 1 from True and 1.0, and 0.0 from -0.0.

    Tensors, Batches and arrays are put into `data`; their names are parts of the key.
    """
    parts: list[Any] = []
    for name, value in arguments.items():
        kind = value.__class__
        if kind is list or kind is tuple:
            kinds = tuple(map(type, value))
            parts += name, tuple(value), kinds
            if float in kinds and not all(value):
                parts.append(tuple([math.copysign(1.0, item) for item in value if item.__class__ is float and not item]))
        elif kind is float:
            parts += name, value or str(value), kind
        elif isinstance(value, _DATA):
            data[name] = value
            parts += name, _DATA
        elif value is not None:
            parts += name, value, kind
    return parts


def _brick(engine: Any, function: OperatorFunction, place: str, constants: dict[str, Any], named: tuple[str, ...], where: list[str]) -> Any:
    """A new brick. Graphs refuse wrong arguments by the operator's name in ``fn``; the user has called another function."""
    try:
        return engine.brick(function.schema, place, constants, named, where)
    except (TypeError, ValueError) as error:
        named_by_graphs, text = f"asyncdali.fn.{function.schema.name}", str(error)
        if text.startswith(named_by_graphs):
            error.args = (function.path + text[len(named_by_graphs) :].replace("DataNode", "Tensor or Batch"), *error.args[1:])
        raise


def _wrong_count(function: OperatorFunction, given: int) -> None:
    expected = str(function.fewest) if function.fewest == function.most else f"{function.fewest} to {function.most}"
    hint = named_arguments(function.required, function.arguments) if given > function.most else ""
    raise TypeError(f"{function.path} takes {expected} input{'' if expected == '1' else 's'}, got {given}{hint}")


_OF_BYTES = ", and ndd.batch([numpy.frombuffer(item, numpy.uint8) for item in list]) is a batch of them"


def as_value(data: object) -> DynamicValue:
    """Data as a Tensor; the tensor list of a pipeline as a Batch."""
    if isinstance(data, (TensorListCPU, TensorListGPU)):
        return make_batch(data, None, None, None)
    return make_tensor(data, None, None, None)


def _input(function: OperatorFunction, position: int, item: object) -> DynamicValue:
    if isinstance(item, (str, dict)):
        hint = "; ndd.io.file.read(path) reads a file, ndd.imread(path) reads and decodes a picture" if isinstance(item, str) else ""
        raise InputError(f"{function.path}: input {position} is a {type(item).__name__}; give a Tensor, a Batch, an array or numbers{hint}")
    if isinstance(item, bytes):
        item = np.frombuffer(item, np.uint8)
    if isinstance(item, (list, tuple)) and item and isinstance(item[0], (bytes, bytearray)):
        raise InputError(f"{function.path}: input {position} is a list of bytes; ndd.decode_batch(list) decodes pictures{_OF_BYTES}")
    return as_value(item)


def _dtype(function: OperatorFunction, name: str, value: object) -> Any:
    if isinstance(value, (list, tuple)):
        return [_dtype(function, name, item) for item in value]
    if isinstance(value, DALIDataType):
        return value
    try:
        return type_id(value)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{function.path}: argument {name!r}: {error}") from None


def _plain(function: OperatorFunction, arg: Arg, value: object) -> Any:
    """Data for an argument that cannot vary: an array of NumPy is as good as a list."""
    if isinstance(value, DynamicValue):
        raise TypeError(
            f"{function.path}: the argument {arg.name!r} is one constant for all samples ({arg.describe()}); give plain Python values"
        )
    return np.asarray(value).tolist() if isinstance(value, np.ndarray) or hasattr(value, "__array__") else value


def _key(constants: dict[str, Any]) -> Any:
    """Constants as a key."""
    parts = _parts(constants, {})
    try:
        hash(tuple(parts))
    except TypeError:
        parts = [tuple(map(_hashed, part)) if isinstance(part, tuple) else _hashed(part) for part in parts]
    return tuple(parts)


def _hashed(value: object) -> Any:
    try:
        hash(value)
    except TypeError:
        return repr(value) if not callable(value) else id(value)
    return value


def _place(function: OperatorFunction, values: Sequence[DynamicValue], wanted: object) -> tuple[str, int]:
    """The device of a call as graphs name it, and the GPU's number."""
    devices = function.schema.devices
    numbers = {gpu_number(item._place) for item in values if item._place != "cpu"} if values else set()
    if len(numbers) > 1:
        raise RuntimeError(f"{function.path}: the inputs are on several GPUs: {', '.join(map(str, sorted(numbers)))}")
    if wanted is None:
        on_gpu = (bool(numbers) and ("gpu" in devices or "mixed" in devices)) or "cpu" not in devices
        number = numbers.pop() if numbers else None
        if on_gpu and number is None and not has_gpu():
            Device("gpu")  # raises the error: there is none
    else:
        if wanted == "mixed":
            raise ValueError(f"{function.path}: dynamic mode has no device 'mixed'; give device='gpu'")
        chosen = device(wanted)
        assert chosen is not None
        on_gpu, number = chosen.device_type == "gpu", chosen.device_id
    if on_gpu:
        if "gpu" not in devices and "mixed" not in devices:
            raise ValueError(f"{function.path} does not run on a GPU; it runs on {', '.join(devices)}")
        number = (Device.current().device_id or 0) if number is None else number
        return ("gpu" if "gpu" in devices else "mixed"), number
    if "cpu" not in devices:
        raise ValueError(f"{function.path} does not run on the CPU; give device='gpu'")
    return "cpu", 0


def on_cpu(values: Sequence[DynamicValue]) -> bool:
    """Whether all values are on the CPU."""
    for value in values:  # noqa: SIM110  # a third of the time of all()
        if value._place != "cpu":
            return False
    return True


def place_of_inputs(function: OperatorFunction, values: Sequence[DynamicValue], place: str) -> list[str]:
    """The device that each positional input must be on."""
    schema = function.schema
    if place != "gpu":
        return ["cpu"] * len(values)
    return ["cpu" if k in schema.cpu_inputs or schema.uploads else "gpu" for k in range(len(values))]


def samples_of(
    function: OperatorFunction, values: Sequence[DynamicValue], named: dict[str, DynamicValue], batch_size: object
) -> tuple[int, bool]:
    """Number of samples, and whether the results are Batches. ValueError if sizes differ."""
    size = None if batch_size is None else checked_size(batch_size)
    what = "batch_size"
    for k, value in enumerate((*values, *named.values())):
        if isinstance(value, Batch):
            count = value.batch_size
            own = f"input {k}" if k < len(values) else f"the argument {list(named)[k - len(values)]!r}"
            if size is not None and count != size:
                raise ValueError(f"{function.path}: {own} has {count} samples, but {what} {'is' if what == 'batch_size' else 'has'} {size}")
            if size is None:
                size, what = count, own
    if size is None and function.needs_batch:
        raise ValueError(f"{function.path} needs `batch_size`: its result depends on the number of samples")
    return (1, False) if size is None else (size, True)


def engine_of(context: EvalContext, place: str, number: int) -> Any:
    """Where a call runs: the context's engine, or that of a GPU."""
    if place == "cpu":
        return context.engine
    return gpu_engine(number) or context.engine


def finished(brick: Brick, made: list[Samples]) -> list[Samples]:
    """Outputs that own their memory. Without samples, the type of decoded arrays is not known: they are bytes."""
    for k, samples in enumerate(made):
        if samples.dtype is DALIDataType.NO_TYPE:
            samples.dtype = DALIDataType.UINT8
        if brick.shares(samples):
            made[k] = copied(samples)
        elif samples.reused_memory is not False:
            made[k] = samples.private()
    return made


def is_external(value: DynamicValue) -> bool:
    """Whether a value wraps memory that the library does not own, so that a program may change it after the call."""
    return value._held is not None and value._held.reused_memory is not False


def _check_ranks(brick: Brick, given: Sequence[KnownOutput]) -> None:
    """The operator's error if it has no layout for the number of dimensions of an input without layout. It needs no samples."""
    for position, item in enumerate(given if brick.schema.accepts else ()):
        if item.ndim is not None and item.layout == "":
            refusal = declared(brick.schema.accepts, position).refusal_of_layout(position, item)
            if refusal:
                raise call_error(brick.path, brick.schema.name, InputError(refusal))


def _known_outputs(brick: Brick, inputs: Sequence[DynamicValue], count: int | None) -> list[KnownOutput]:
    """The facts about the outputs that the operator's declaration tells without computing."""
    known = [KnownOutput(device=brick.output_device, count=count) for _ in brick.plan.outputs]
    given: list[Any] = [value._known() for value in inputs]
    _check_ranks(brick, given)
    if not brick.schema.gives or any(None in (item.dtype, item.ndim, item.layout) for item in given):
        return known
    for k, output in enumerate(known):
        with contextlib.suppress(Exception):  # a wrong input, whose error is raised when it is computed
            found = declared(brick.schema.gives, k).expected(brick.spec, given, brick.schema.accepts)
            output.dtype, output.ndim, output.layout = found.get("type"), found.get("rank"), found.get("layout")
    return known


def _later(brick: Brick, kind: type[DynamicValue], compute: Callable[[], list[Samples]], outputs: Sequence[KnownOutput]) -> Any:
    work = DelayedCall(compute, outputs, users_line())
    EvalContext.current().waits(work)
    return results(brick, [kind._later(work, k) for k in range(len(outputs))])


def moved(value: Held, wanted: Device) -> Held:
    """A copy of a value on a device, made in the current mode."""
    place = place_of(wanted)
    if EvalMode.current() is not EvalMode.deferred or is_external(value):
        return type(value)._of(moved_samples(value._samples(), place))
    known = value._known()
    there = KnownOutput(known.dtype, known.ndim, known.layout, place, count=known.count)
    work = DelayedCall(lambda: [moved_samples(value._samples(), place)], [there], users_line())
    EvalContext.current().waits(work)
    return type(value)._later(work, 0)


def moved_samples(samples: Samples, place: str) -> Samples:
    """A copy of samples on a device."""
    engine = engine_at(samples.device if place == "cpu" else place)
    if engine is not None and samples.device != place:
        if "cpu" not in (samples.device, place):
            samples = moved_samples(samples, "cpu")
        return engine.moved(samples, place)
    made = copied(samples)
    made.device = place
    return made
