"""Arithmetic beside DALI's: random expressions over all types and shapes are equal to the last bit."""

# ruff: noqa: RUF005  -- nodes are added to lists here, not concatenated

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from helpers.programs import DALI, OURS, Feed, Program, assert_same, compare, outcome, run
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from asyncdali.batch import from_numpy_dtype, storage_dtype
from asyncdali.operators.expressions import expressions
from asyncdali.operators.expressions.types import FUNCTIONS, OPERATIONS, SIGNED, promote
from asyncdali.types import DALIDataType

pytest.importorskip("nvidia.dali")

TYPES = ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float32", "float64"]
OPERATORS: dict[str, Callable[..., Any]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": operator.truediv, "fdiv": operator.floordiv,
    "mod": operator.mod, "pow": operator.pow, "and": operator.and_, "or": operator.or_, "xor": operator.xor, "lshift": operator.lshift,
    "rshift": operator.rshift, "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt,
    "ge": operator.ge, "neg": operator.neg, "invert": operator.invert,
}  # fmt: skip
F32, F64, BOOL = DALIDataType.FLOAT, DALIDataType.FLOAT64, DALIDataType.BOOL


def apply(name: str, used: Any, operands: list[Any]) -> Any:
    return OPERATORS[name](*operands) if name in OPERATORS else getattr(used.math, name)(*operands)


# ------------------------------------------------------------------------------------------------------------- random programs


@dataclass
class Expression:
    """An expression: its text, its type, and the function that builds it from nodes."""

    text: str
    kind: DALIDataType
    make: Program
    has_node: bool = True


def literal(value: Any, kind: DALIDataType, pinned: bool) -> Expression:
    """A number as a Python literal, or with an explicit type if `pinned`."""

    def make(used: Any, *nodes: Any) -> Any:
        if not pinned:
            return value
        return used.types.Constant(value, dtype=used.types.DALIDataType(int(kind)))

    return Expression(f"{value}:{kind.name}" if pinned else repr(value), kind, make, False)


def combine(name: str, parts: list[Expression]) -> Expression:
    def make(used: Any, *nodes: Any) -> Any:
        return apply(name, used, [part.make(used, *nodes) for part in parts])

    return Expression(f"{name}({', '.join(part.text for part in parts)})", OPERATIONS[name].result([part.kind for part in parts]), make)


INTEGERS = [0, 1, -1, 2, 3, 7, 100, -128, 255, 2**31 - 1, -(2**31)]
REALS = [0.0, -0.0, 0.5, -1.5, 2.0, 3.25, 1e10, float("inf"), float("nan")]


@st.composite
def literals(draw):
    kind = DALIDataType(from_numpy_dtype(draw(st.sampled_from(TYPES))))
    if kind in (F32, F64):
        pinned = kind is F64 or draw(st.booleans())
        return literal(draw(st.sampled_from(REALS)), kind, pinned)
    if kind is BOOL:
        return literal(draw(st.booleans()), kind, draw(st.booleans()))
    limits = np.iinfo(storage_dtype(kind))
    fitting = [value for value in [*INTEGERS, int(limits.min), min(int(limits.max), 2**63 - 1)] if limits.min <= value <= limits.max]
    return literal(draw(st.sampled_from(fitting)), kind, kind is not DALIDataType.INT32 or draw(st.booleans()))


def allowed(name: str, kinds: list[DALIDataType]) -> bool:
    try:
        OPERATIONS[name].result(kinds)
    except RuntimeError:
        return False
    if name == "rsqrt":
        return kinds[0] is F64  # FLOAT: see test_reciprocal_root
    # Comparing negative integers with floats: see test_integers_and_floats_are_compared_by_value.
    return not (OPERATIONS[name].rule == "truth" and any(kind in SIGNED for kind in kinds) and promote(*kinds) in (F32, F64))


def safe_division(name: str, a: Expression, b: Expression, divide_by_zero: bool) -> Expression:
    """A division without overflow: the smallest integer divided by -1 kills DALI's process. Divisors of 0 are errors, so they are rare."""
    kind = promote(a.kind, b.kind)
    if kind in (F32, F64):
        return combine(name, [a, b])
    if kind in SIGNED:
        a = combine("max", [a, literal(-(2 ** (SIGNED[kind] - 1)) + 1, kind, True)])
    if not divide_by_zero:
        if not b.has_node and a.has_node:
            b = combine("or", [literal(1, kind, True), combine("mul", [b, combine("ne", [a, a])])])
        else:
            b = combine("or", [b, literal(1, b.kind, True)])
    return combine(name, [a, b])


@st.composite
def trees(draw, leaves, depth):
    """An expression of at most `depth` nested operations, which contains at least one node."""
    if depth == 0 or draw(st.integers(0, 5)) == 0:
        return draw(st.sampled_from(leaves))
    arity = draw(st.sampled_from([1, 2, 2, 2, 2, 3]))
    parts = [draw(trees(leaves, depth - 1))]
    while len(parts) < arity:
        parts.append(draw(literals()) if draw(st.integers(0, 3)) == 0 else draw(trees(leaves, depth - 1)))
    parts = draw(st.permutations(parts))
    kinds = [part.kind for part in parts]
    names = [name for name, known in OPERATIONS.items() if known.operands == arity and allowed(name, kinds)]
    if not names:
        return parts[0] if parts[0].has_node else parts[1]
    if arity == 1 and draw(st.booleans()):
        names = [name for name in names if name not in FUNCTIONS] or names
    name = draw(st.sampled_from(names))
    if name in ("fdiv", "mod"):
        return safe_division(name, *parts, divide_by_zero=draw(st.integers(0, 19)) == 0)
    return combine(name, parts)


def values(rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    """Small and large numbers, the limits of the type, and special values such as NaN."""
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.startswith("float"):
        special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, 3e38, 16777217.0], dtype)
        plain = rng.normal(0, 10 ** rng.uniform(-1, 3), shape).astype(dtype)
        return np.where(rng.random(shape) < 0.15, rng.choice(special, shape), plain)
    info = np.iinfo(dtype)
    special = np.array([info.min, info.max, 0, 1, info.max - 1], dtype)
    small = rng.integers(max(info.min, -9), 10, shape).astype(dtype)
    large = rng.integers(info.min, info.max, shape, dtype, endpoint=True)
    return np.choose(rng.integers(0, 3, shape), [small, large, rng.choice(special, shape)])


@st.composite
def feeds_and_leaves(draw):
    """Inputs that broadcast to one shape per sample, most of the time.

    All samples have an extent of 1 at the same axes: otherwise DALI reads other samples' memory (see docs/differences.md;
    ``test_expressions.py`` compares with numpy).
    """
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    count, ndim = draw(st.integers(1, 3)), draw(st.integers(0, 4))
    extents = [2, 3, 5, 17] if ndim < 3 else [2, 3, 5]
    ones = rng.random(ndim) < 0.15
    full = [tuple(1 if one else int(rng.choice(extents)) for one in ones) for _ in range(count)]
    if draw(st.integers(0, 9)) == 0 and ndim:
        full = [(*shape[:-1], 0) for shape in full]
    if draw(st.booleans()):
        full = [full[0]] * count
    feeds, leaves = [], []
    for k in range(draw(st.integers(1, 3))):
        dtype = draw(st.sampled_from(TYPES))
        own = draw(st.integers(0, ndim)) if draw(st.booleans()) else ndim
        stretched = rng.random(own) < draw(st.sampled_from([0, 0, 0.4]))
        kept = [tuple(1 if one else extent for one, extent in zip(stretched, shape[ndim - own :])) for shape in full]
        if draw(st.integers(0, 49)) == 0:
            kept = [tuple(extent + 2 for extent in shape) for shape in kept]
        layout = "ABCD"[4 - own :] if draw(st.booleans()) else None
        if layout and draw(st.integers(0, 29)) == 0:
            layout = "XYZW"[:own]
        feeds.append(Feed([values(rng, dtype, shape) for shape in kept], layout))
        leaves.append(leaf(k, dtype))
    return feeds, leaves


def leaf(index: int, dtype: str) -> Expression:
    return Expression(f"x{index}:{dtype}", from_numpy_dtype(np.dtype(dtype)), lambda used, *nodes: nodes[index])


PROGRAMS = 5
"""Programs that share their inputs, and a pipeline."""


@st.composite
def cases(draw):
    feeds, leaves = draw(feeds_and_leaves())
    return feeds, [draw(trees(leaves, draw(st.integers(1, 4)))) for _ in range(PROGRAMS)]


def check(case: Any, planned: bool) -> None:
    """Compare an expression. With `planned`, small batches may be computed while planning."""
    feeds, made = case
    before = expressions.SMALL
    expressions.SMALL = before if planned else -1
    try:
        compare({f"{number}: {expression.text}": expression.make for number, expression in enumerate(made)}, feeds)
    finally:
        expressions.SMALL = before


RELAXED = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]


@settings(max_examples=62, deadline=None, derandomize=True, suppress_health_check=RELAXED, database=None)
@given(cases(), st.booleans())
def test_random_expressions(case, planned):
    check(case, planned)


@pytest.mark.slow
@settings(max_examples=1000, deadline=None, suppress_health_check=RELAXED, database=None, print_blob=True)
@given(cases(), st.booleans())
def test_many_random_expressions(case, planned):
    check(case, planned)


# ------------------------------------------------------------------------------------------------------------ one thing at a time


def pair(a: str, b: str) -> list[Feed]:
    """All combinations of significant values of two types."""
    ends = []
    for dtype in (a, b):
        if dtype == "bool":
            ends.append(np.array([False, True]))
        elif dtype.startswith("float"):
            ends.append(np.array([-np.inf, -7.5, -1, -0.0, 0, 0.5, 2, 16777217, np.inf, np.nan], dtype))
        else:
            info = np.iinfo(dtype)
            ends.append(np.unique(np.array([max(info.min, -7), 0, 1, 2, 3, 33, info.min, info.max], dtype)))
    return [Feed([ends[0].reshape(-1, 1)]), Feed([ends[1]])]


def calling(name: str) -> Program:
    """The program that applies an operation to all inputs."""
    return lambda used, *nodes: apply(name, used, list(nodes))


BINARY = [name for name, known in OPERATIONS.items() if known.operands == 2]


def programs_of_pair(a: str, b: str, names: list[str]) -> dict[str, Program]:
    kinds = [from_numpy_dtype(np.dtype(dtype)) for dtype in (a, b)]
    made = {}
    for name in names:
        expression = leaf(0, a), leaf(1, b)
        if allowed(name, kinds):
            parts = safe_division(name, *expression, divide_by_zero=False) if name in ("fdiv", "mod") else combine(name, list(expression))
            made[parts.text] = parts.make
    return made


@pytest.mark.parametrize("a", TYPES)
def test_pairs_of_types(a):
    """Every pair of types is tested with two operations. The operations differ from pair to pair."""
    for k, b in enumerate(TYPES):
        first = 2 * k + 3 * TYPES.index(a)
        programs = programs_of_pair(a, b, [BINARY[(first + j) % len(BINARY)] for j in range(2)])
        if programs:
            compare(programs, pair(a, b))


@pytest.mark.slow
@pytest.mark.parametrize("a", TYPES)
def test_all_operations_of_all_pairs_of_types(a):
    for b in TYPES:
        compare(programs_of_pair(a, b, BINARY), pair(a, b))


@pytest.mark.parametrize("a", TYPES)
def test_types_of_results(a):
    """The type of the result, or the refusal, of every operation for every pair of types."""
    for b in TYPES:
        kinds = [from_numpy_dtype(np.dtype(dtype)) for dtype in (a, b)]
        feeds = [Feed([np.ones(1, a)]), Feed([np.ones(1, b)])]
        fine, refused = {}, {}
        for name in BINARY:
            try:
                fine[name] = OPERATIONS[name].result(kinds), calling(name)
            except RuntimeError:
                refused[name] = calling(name)
        results = run(DALI, [program for _, program in fine.values()], feeds)
        found = {name: from_numpy_dtype(samples[0].dtype) for name, (samples, _) in zip(fine, results)}
        assert found == {name: kind for name, (kind, _) in fine.items()}, (a, b)
        assert all(outcome(DALI, program, feeds) is RuntimeError for program in refused.values()), (a, b, list(refused))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "uint64"])
def test_functions(dtype):
    """Functions of values of all magnitudes. Floats are compared bit for bit."""
    rng = np.random.default_rng(3)
    feeds = [Feed([values(rng, dtype, (200,))])]
    if dtype.startswith("float"):
        bits = rng.integers(0, 2**32, 8000, np.uint32) if dtype == "float32" else rng.integers(0, 2**64, 8000, np.uint64)
        near = [rng.uniform(-limit, limit, 2000).astype(dtype) for limit in (10, 1.1)]
        feeds = [Feed([np.concatenate([bits.view(dtype), *near])])]
    unary = [name for name, known in OPERATIONS.items() if known.operands == 1 and allowed(name, [from_numpy_dtype(np.dtype(dtype))])]
    compare({name: calling(name) for name in unary}, feeds)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_functions_of_two_numbers(dtype):
    rng = np.random.default_rng(4)
    bits = [rng.integers(0, 2**32 if dtype == "float32" else 2**64, 8000, f"uint{dtype[-2:]}").view(dtype) for _ in range(2)]
    near = [rng.uniform(-4, 4, 2000).astype(dtype), rng.integers(-4, 5, 2000).astype(dtype)]
    feeds = [Feed([np.concatenate([a, b])]) for a, b in zip(bits, near)]
    names = ["pow", "fpow", "atan2", "mod", "fdiv", "min", "max", "lt", "ne"]
    compare({name: calling(name) for name in names}, feeds)


def test_reciprocal_root():
    """For FLOAT, DALI uses the processor's approximation, which is NaN for 0 and infinity. Asyncdali computes 1 / sqrt(x)."""
    numbers = np.random.default_rng(5).uniform(1e-3, 1e6, 5000).astype(np.float32)
    (theirs,), (ours,) = (run(library, [lambda used, x: used.math.rsqrt(x)], [Feed([numbers])]) for library in (DALI, OURS))
    np.testing.assert_allclose(theirs[0][0], ours[0][0], rtol=3e-7)
    np.testing.assert_array_equal(ours[0][0], np.float32(1) / np.sqrt(numbers))


CONSTANTS: list[Program] = [
    lambda used, x, f, b: x + 10,
    lambda used, x, f, b: 10 - x,
    lambda used, x, f, b: x * 1.5,
    lambda used, x, f, b: 2 / x,
    lambda used, x, f, b: f + 16777217,
    lambda used, x, f, b: f * 1e300,
    lambda used, x, f, b: f * float("nan"),
    lambda used, x, f, b: f - float("inf"),
    lambda used, x, f, b: (x + True, x * True, b * True, b & True, True ^ b)[2],
    lambda used, x, f, b: x + True,
    lambda used, x, f, b: x + used.types.Constant(10).uint8(),
    lambda used, x, f, b: used.types.Constant(-10).int64() * x,
    lambda used, x, f, b: x + used.types.Constant(2**40).int64(),
    lambda used, x, f, b: x + used.types.Constant(-(2**63)).int64(),
    lambda used, x, f, b: x + used.types.Constant(2**32 - 1).uint32(),
    lambda used, x, f, b: f + used.types.Constant(0.5).float64(),
    lambda used, x, f, b: x + -(2**31),
    lambda used, x, f, b: x + np.int64(2),
    lambda used, x, f, b: x + np.uint8(2),
    lambda used, x, f, b: x * np.bool_(True),
    lambda used, x, f, b: x + np.float32(0.1),
    lambda used, x, f, b: x + np.array(2, np.uint8),
    lambda used, x, f, b: x + [1],
    lambda used, x, f, b: x + [1, 2.5, 3, 4],
    lambda used, x, f, b: (1, 2, 3, 4) - x,
    lambda used, x, f, b: x + np.array([0.1, 0.2, 0.3, 0.4]),
    lambda used, x, f, b: x + np.array([[1], [2]]),
    lambda used, x, f, b: x + used.types.Constant([1, 2, 3, 4]),
    lambda used, x, f, b: x + used.types.Constant(3, shape=[4]),
    lambda used, x, f, b: used.math.sqrt(np.array([4.0, 2.0])),
    lambda used, x, f, b: used.math.sqrt([4, 2]),
    lambda used, x, f, b: used.math.clamp(x, 0, 3),
    lambda used, x, f, b: used.math.clamp(3, x, 2.5),
    lambda used, x, f, b: used.math.min(x, 2),
    lambda used, x, f, b: used.math.atan2(1, f),
    lambda used, x, f, b: x << 33,
    lambda used, x, f, b: 1 << x,
    lambda used, x, f, b: x**-1,
    lambda used, x, f, b: (-3) ** x,
    lambda used, x, f, b: x**5,
    lambda used, x, f, b: f**2,
    lambda used, x, f, b: x % 3,
    lambda used, x, f, b: -7 // (x | 1),
    lambda used, x, f, b: +x,
    lambda used, x, f, b: abs(-f),
    lambda used, x, f, b: ~b,
    lambda used, x, f, b: x > 1,
    lambda used, x, f, b: used.types.Constant(2) == x,
    lambda used, x, f, b: x != 255,
    lambda used, x, f, b: x > -1,
]


def test_constants():
    arrays = np.array([0, 1, 7, 255], np.uint8), np.array([-2.5, 0, 0.1, 7], np.float32), np.array([True, False, True, False])
    feeds = [Feed([array]) for array in arrays]
    assert compare({str(number): program for number, program in enumerate(CONSTANTS)}, feeds) == 0


REFUSED: list[Program] = [
    lambda used, x, f, b: b + b,
    lambda used, x, f, b: b - True,
    lambda used, x, f, b: -b,
    lambda used, x, f, b: abs(b),
    lambda used, x, f, b: used.math.sqrt(b),
    lambda used, x, f, b: used.math.clamp(b, False, b),
    lambda used, x, f, b: f & x,
    lambda used, x, f, b: ~f,
    lambda used, x, f, b: f << 1,
    lambda used, x, f, b: x // 0,
    lambda used, x, f, b: x % (x - x),
    lambda used, x, f, b: x + 2**31,
    lambda used, x, f, b: x + used.types.Constant(300).uint8(),
    lambda used, x, f, b: x + used.types.Constant(-1).uint8(),
    lambda used, x, f, b: x + None,
    lambda used, x, f, b: x + "a",
    lambda used, x, f, b: x + 1j,
    lambda used, x, f, b: x + {},
    lambda used, x, f, b: x + [x, x],
    lambda used, x, f, b: (x, x) + x,
    lambda used, x, f, b: x + [[1, 2], [3, 4]],
    lambda used, x, f, b: divmod(x, 2),
    lambda used, x, f, b: round(x),
    lambda used, x, f, b: x @ x,
    lambda used, x, f, b: pow(x, 2, 3),
    lambda used, x, f, b: used.math.sqrt(4),
    lambda used, x, f, b: used.math.min(1, 2),
    lambda used, x, f, b: used.types.Constant(2) + 3,
    lambda used, x, f, b: x + used.types.Constant([used.types.INT32]),
    lambda used, x, f, b: x + np.array([2**40, 1]),
    lambda used, x, f, b: x + np.array([1, 2, 3]),
    lambda used, x, f, b: x if x else f,
    lambda used, x, f, b: list(x),
    lambda used, x, f, b: {x: 1},
    lambda used, x, f, b: f + x if f == x else f,
]


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_both_refuse(number):
    feeds = [Feed([np.array([0, 1, 7, 255], np.uint8)]), Feed([np.ones(4, np.float32)]), Feed([np.ones(4, bool)])]
    theirs, ours = (outcome(library, REFUSED[number], feeds) for library in (DALI, OURS))
    assert isinstance(theirs, type)
    assert_same(ours, theirs, str(number))


LAYOUTS = [
    ("HWC", "C", (2, 2, 2), (2,)), ("HWC", "HC", (2, 2, 2), (2, 2)), ("HWC", "WC", (2, 2, 2), (2, 2)),
    ("HWC", None, (2, 2, 2), (3, 2, 2, 2)), ("HWC", None, (2, 2, 2), (2, 2)), ("C", "HWC", (2,), (2, 2, 2)),
    ("HWC", "FHWC", (2, 2, 2), (1, 2, 2, 2)),
    ("HWC", "CHW", (2, 2, 2), (2, 2, 2)), ("HW", "HWC", (2, 2), (2, 2, 2)), ("HWC", "HWC", (2, 2, 2), (1, 1, 2)), ("X", None, (2,), ()),
    (None, "X", (), (2,)), ("WC", None, (2, 2), (1, 2, 2)),
]  # fmt: skip


@pytest.mark.parametrize("first, second, a, b", LAYOUTS)
def test_layouts(first, second, a, b):
    programs: dict[str, Program] = {"add": lambda used, x, y: x + y, "lt": lambda used, x, y: x * 2 - y > 1, "neg": lambda used, x, y: -x}
    compare(programs, [Feed([np.ones(a, np.float32)], first), Feed([np.ones(b, np.float32)], second)])
