"""Operators of Python on Tensors and Batches, and the functions of `math`: types, broadcasting and errors are those of pipelines."""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..batch import Batch as Samples
from ..errors import OperatorOverflowError, OperatorTypeError
from ..operators.base import REGISTRY
from ..operators.expressions.types import OPERATIONS, SIGNED, UNSIGNED
from ..tensors import TensorListCPU, TensorListGPU
from ..types import DALIDataType
from ..types.conversions import STORAGE
from .bricks import Brick
from .brief import Kind
from .calls import OperatorFunction, as_value, finished, is_external, moved_samples, on_cpu, samples_of
from .contexts import EvalContext, calling
from .cuda import gpu_engine
from .devices import gpu_number
from .loops import LoopCall, current_loop
from .modes import EvalMode
from .values import Batch, DynamicValue, Tensor, repeated_part
from .work import DelayedCall, KnownOutput, plainly, users_line

if TYPE_CHECKING:
    from .engine import CallEngine

OPERATION = REGISTRY["_arithmetic_generic_op"].schema
_INTEGERS = {**SIGNED, **UNSIGNED}
_NUMBER_KEYS = {bool, int, float}
_NUMBERS = (bool, int, float, np.bool_, np.integer, np.floating)


class Unusable(TypeError):
    """An operand that arithmetic does not take."""


def _constant(value: object, kind: DALIDataType) -> Tensor:
    return Tensor._of(Samples.from_values(np.array([value], STORAGE[kind]), dtype=kind))


@functools.lru_cache(1024)
def _number(value: Any, own: type, sign: float, others: tuple[DALIDataType, ...]) -> Tensor:
    """A Python number beside operands of these types. Its class `own` tells 1 from True, its sign 0.0 from -0.0.

    It is int32, float32 or bool, as in pipelines. A float beside float64 is float64. An integer beyond 32 bits has the type of an
    operand: an integer of 64 bits, or a float.
    """
    if isinstance(value, (bool, np.bool_)):
        return _constant(bool(value), DALIDataType.BOOL)
    if isinstance(value, (float, np.floating)):
        kind = DALIDataType.FLOAT64 if DALIDataType.FLOAT64 in others else DALIDataType.FLOAT
        return _constant(float(value), kind)
    whole = int(value)
    for kind in (DALIDataType.INT32, *(item for item in others if _INTEGERS.get(item) == 64)):
        bits = _INTEGERS[kind]
        low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if kind in SIGNED else (0, (1 << bits) - 1)
        if low <= whole <= high:
            return _constant(whole, kind)
    for kind in (DALIDataType.FLOAT64, DALIDataType.FLOAT):
        if kind in others:
            return _constant(float(whole), kind)
    raise OperatorOverflowError(f"the integer {whole} does not fit into 32 bits; give ndd.int64({whole})")


def _is_array(item: object) -> bool:
    """Whether an operand has numbers, but is no Python number."""
    if isinstance(item, (np.generic, list, tuple, np.ndarray, TensorListCPU, TensorListGPU)):
        return True
    return item is not None and not isinstance(item, (str, bytes)) and (hasattr(item, "__array__") or hasattr(item, "__dlpack__"))


def _operands(given: tuple[object, ...]) -> list[DynamicValue]:
    """The operands as Tensors and Batches. Unusable for None, texts and the like."""
    found: list[Any] = []
    numbers = False
    for item in given:
        if isinstance(item, DynamicValue):
            found.append(item)
        elif isinstance(item, _NUMBERS) and not isinstance(item, np.generic):
            found.append(item)
            numbers = True
        elif _is_array(item):
            found.append(as_value(item))
        else:
            raise Unusable(f"unsupported operand: {'None' if item is None else type(item).__name__}")
    if numbers:
        kinds = tuple([item._type_id() for item in found if isinstance(item, DynamicValue)])
        for k, item in enumerate(found):
            if not isinstance(item, DynamicValue):
                sign = math.copysign(1.0, item) if item.__class__ is float and not item else 0.0
                found[k] = _number(item, item.__class__, sign, kinds)
    return found


def operation(name: str, *given: object) -> Batch | Tensor:
    """One operation, see ``operators.expressions.types`` for the names. A Batch if one operand is one."""
    thread = calling.thread
    engine: Any = thread.engine()
    numbers: list[Any] = []
    kinds: list[Kind] = []
    mode = EvalMode.current() if thread.modes else EvalMode.eager
    if mode is not EvalMode.deferred and not thread.loops:
        values = [item for item in given if item.__class__ not in _NUMBER_KEYS]
        if len(values) < len(given):
            numbers = _number_parts(given)
        found: Any = engine.brief.made(name, numbers, values, kinds, thread.state)
        if found is not None:
            return found  # type: ignore[no-any-return]
    operands = _operands(given)
    count, is_batch = samples_of(_FUNCTIONS[name], operands, {}, None)
    place = "cpu" if on_cpu(operands) else _place_of(name, operands, given)
    kind, number = ("cpu", 0) if place == "cpu" else ("gpu", gpu_number(place))
    if place != "cpu":
        engine = gpu_engine(number) or engine
    brick = engine.bricks.find(("", name, kind, len(operands)), lambda: _brick(engine, name, kind, len(operands)))
    result = Batch if is_batch else Tensor
    if mode is EvalMode.deferred and not any(map(is_external, _owned(operands, given))):

        def compute() -> list[Samples]:
            return finished(brick, brick.run(engine, _placed(name, operands, place, count, is_batch), count))

        work = DelayedCall(compute, [_known_output(name, operands, place, count)], users_line())
        EvalContext.current().waits(work)
        return result._later(work, 0)
    loop = current_loop() if thread.loops else None
    if loop is not None and place == "cpu" and (loop.asked or mode is EvalMode.eager):
        return result._later(loop.call(LoopCall(brick, engine, operands, count, is_batch)), 0)
    placed = _placed(name, operands, place, count, is_batch)
    made = finished(brick, brick.run(engine, placed, count))
    if kinds:
        own = [item if item is original else None for item, original in zip(operands, given, strict=True)]
        engine.brief.remember((name, *numbers, *kinds), brick, own, placed, count, is_batch, made)
    return result._of(made[0])


def _placed(name: str, operands: Sequence[DynamicValue], place: str, count: int, is_batch: bool) -> list[Samples]:
    """The samples of the operands, at `place`."""
    placed = []
    for item in operands:
        samples = item._samples()
        if samples.device != place:
            samples = moved_samples(samples, place)
        if place == "cpu" and samples.dtype is DALIDataType.FLOAT16:
            raise OperatorTypeError(f"{_FUNCTIONS[name].path}: f16 has no arithmetic on the CPU; cast to ndd.float32")
        placed.append(repeated_part(samples, count) if is_batch and isinstance(item, Tensor) else samples)
    return placed


def _number_parts(given: Sequence[Any]) -> list[Any]:
    """The numbers among operands as parts of a key, which tells 1 from True and 1.0, and 0.0 from -0.0."""
    parts: list[Any] = []
    for k, item in enumerate(given):
        kind = item.__class__
        if kind in _NUMBER_KEYS:
            parts += k, (item or str(item)) if kind is float else item, kind
    return parts


def _owned(operands: Sequence[DynamicValue], given: Sequence[object]) -> list[DynamicValue]:
    """The operands that the program has: no copies of numbers and arrays."""
    return [item for item, original in zip(operands, given, strict=True) if item is original]


def _place_of(name: str, operands: Sequence[DynamicValue], given: Sequence[object]) -> str:
    """The GPU of the operands. ValueError, RuntimeError for several devices."""
    places = sorted({item._place for item in operands if item._place != "cpu"})
    if any(item._place == "cpu" for item in _owned(operands, given)):
        raise ValueError(f"{OPERATIONS[name].symbol}: the operands are on different devices, the CPU and {', '.join(places)}")
    if len(places) > 1:
        raise RuntimeError(f"{OPERATIONS[name].symbol}: the operands are on several GPUs: {', '.join(places)}")
    return places[0]


def _brick(engine: CallEngine, name: str, kind: str, operands: int) -> Brick:
    made: Brick = engine.brick(OPERATION, kind, {"op": name, "operands": list(range(operands))}, (), [kind] * operands)
    return made


def _known_output(name: str, operands: list[DynamicValue], place: str, count: int) -> KnownOutput:
    """The facts about a result that need no computing. Wrong operands give errors when it is computed."""
    known = [item._known() for item in operands]
    made = KnownOutput(device=place, count=count)
    kinds, ranks, layouts = ([getattr(item, what) for item in known] for what in ("dtype", "ndim", "layout"))
    if None not in kinds:
        with contextlib.suppress(Exception):
            made.dtype = OPERATIONS[name].result(kinds)
    if None not in ranks:
        made.ndim = max(ranks)
    if None not in layouts:
        made.layout = max(layouts, key=len)
    return made


class _Named(OperatorFunction):
    """An operation, for checks that name it."""

    def __init__(self, name: str):
        super().__init__(OPERATION)
        self.path = f"ndd {OPERATIONS[name].symbol}"


_FUNCTIONS = {name: _Named(name) for name in OPERATIONS}


def _binary(name: str, swapped: bool = False) -> Callable[[Any, Any], Any]:
    def operate(self: DynamicValue, other: object) -> Any:
        try:
            return operation(name, other, self) if swapped else operation(name, self, other)
        except Unusable:
            return NotImplemented
        except Exception as error:
            raise plainly(error) from None

    return operate


def _unary(name: str) -> Callable[[Any], Any]:
    def operate(self: DynamicValue) -> Any:
        try:
            return operation(name, self)
        except Exception as error:
            raise plainly(error) from None

    return operate


def _define() -> None:
    """Give Tensor and Batch the operators of Python."""
    binary = {"add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "floordiv": "fdiv", "mod": "mod", "pow": "pow"}
    binary.update({name: name for name in ("and", "or", "xor", "lshift", "rshift")})
    made: dict[str, Any] = {}
    for method, name in binary.items():
        made[f"__{method}__"], made[f"__r{method}__"] = _binary(name), _binary(name, swapped=True)
    for name in ("eq", "ne", "lt", "le", "gt", "ge"):
        made[f"__{name}__"] = _binary(name)
    for name in ("neg", "invert", "abs"):
        made[f"__{name}__"] = _unary(name)
    for method, function in made.items():
        function.__name__, function.__qualname__ = method, f"DynamicValue.{method}"
        setattr(DynamicValue, method, function)


_define()
