"""Kernels of arithmetic: random expressions, compiled for the host, equal the compiled steps bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import kernels
from helpers.operators import batch_of, first_iteration, make
from helpers.twins import both

from asyncdali import fn, math, pipeline_def
from asyncdali.batch import storage_dtype
from asyncdali.operators.base import Arguments
from asyncdali.operators.expressions.cuda_code import make_kernel
from asyncdali.operators.expressions.programs import ExpressionProgram, InputOperand, Instruction, Literal, Operand, ResultOperand
from asyncdali.operators.expressions.shapes import walk
from asyncdali.operators.expressions.types import FLOATS, FUNCTIONS, OPERANDS, OPERATIONS
from asyncdali.types import DALIDataType as T

pytestmark = pytest.mark.skipif(kernels.COMPILER is None, reason="no C++ compiler to build kernels for the host")
SLOW = pytest.mark.slow  # each expression is a kernel that must be compiled
KINDS = sorted(OPERANDS)
NAME = "_arithmetic_generic_op"


def program(*items: tuple[str, list[Operand]]) -> ExpressionProgram:
    return ExpressionProgram(tuple(Instruction(name, tuple(operands)) for name, operands in items))


def elements(rng: np.random.Generator, kind: T, shape: tuple[int, ...]) -> np.ndarray:
    """Random elements and critical ones, such as limits of the type and NaN."""
    dtype = storage_dtype(kind)
    if kind is T.BOOL:
        return rng.integers(0, 2, shape).astype(bool)
    if kind in FLOATS:
        some = np.array([0.0, -0.0, 0.5, -1.5, 1e-7, 6e-8, 300.0, 65504.0, -65520.0, np.inf, -np.inf, np.nan, 1.0])
        with np.errstate(over="ignore"):
            return np.where(rng.random(shape) < 0.3, rng.choice(some, shape), rng.normal(0, 20, shape)).astype(dtype)
    info = np.iinfo(dtype)
    edges = np.array([info.min, info.min + 1, info.max, info.max - 1, 0, 1, 2, 7, 31, 33], dtype)
    near = rng.integers(max(info.min, -100), 100, shape).astype(dtype)
    return np.where(rng.random(shape) < 0.4, rng.choice(edges, shape), near)


def literal(rng: np.random.Generator, kind: T) -> Literal:
    value = elements(rng, kind, ()).item()
    return Literal(value, kind)


def random_program(rng: np.random.Generator, kinds: list[T], length: int) -> ExpressionProgram:
    """A random program of instructions over these inputs. Divisors are odd, so never 0."""
    items: list[tuple[str, list[Operand]]] = []
    types: list[T] = []

    def one_of() -> tuple[Operand, T]:
        choice = rng.random()
        if types and choice < 0.5:
            k = int(rng.integers(len(types)))
            return ResultOperand(k), types[k]
        if choice < 0.85:
            k = int(rng.integers(len(kinds)))
            return InputOperand(k), kinds[k]
        made = literal(rng, KINDS[rng.integers(len(KINDS))])
        return made, made.dtype

    def add(name: str, operands: list[Operand], own: list[T]) -> None:
        types.append(OPERATIONS[name].result(own))
        items.append((name, operands))

    while len(items) < length:
        name = str(rng.choice(sorted(OPERATIONS)))
        operands, own = (list(item) for item in zip(*(one_of() for _ in range(OPERATIONS[name].operands))))
        try:
            result = OPERATIONS[name].result(own)
        except RuntimeError:
            continue
        if name in ("fdiv", "mod") and result not in FLOATS:
            add("or", [operands[1], Literal(1, own[1])], [own[1]] * 2)
            operands[1] = ResultOperand(len(items) - 1)
        add(name, operands, own)
    return program(*items)


def assert_same(expected: list[np.ndarray], found: list[np.ndarray]) -> None:
    for a, b in zip(expected, found, strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype
        np.testing.assert_array_equal(b, a)


SHAPES = [
    [(7, 5, 3), (3,)], [(6, 1, 4), (5, 1)], [(1000,), (1000,)], [(33, 3), (1, 3)], [(2, 3, 4, 5), (3, 1, 5)], [(), (7,)], [(0, 3), (1, 3)],
]  # fmt: skip


def check(rng: np.random.Generator, what: ExpressionProgram, kinds: list[T]) -> None:
    """Compare kernel and step for batches of several shapes, whose samples broadcast differently."""
    for shapes in SHAPES:
        # The inputs of the last of three samples have the shapes in reverse order.
        inputs = [[elements(rng, kind, shapes[place]) for place in (k, k, 1 - k)] for k, kind in enumerate(kinds)]
        if len(shapes[0]) == len(shapes[1]):
            assert_same(*both(NAME, inputs[0], more=(inputs[1],), program=what))
        assert_same(*both(NAME, inputs[0][:2], more=(inputs[1][:2],), program=what))


@pytest.mark.parametrize("seed", [0, *[pytest.param(seed, marks=SLOW) for seed in range(1, 60)]])
def test_random_expressions(seed):
    rng = np.random.default_rng(seed)
    kinds = [KINDS[k] for k in rng.integers(0, len(KINDS), 2)]
    check(rng, random_program(rng, kinds, 10), kinds)


@pytest.mark.parametrize("kinds", [(T.UINT8, T.UINT8), *[pytest.param(k, marks=SLOW) for k in ((T.INT16, T.FLOAT), (T.FLOAT, T.FLOAT64))]])
def test_rows_of_any_length_that_begin_anywhere(kinds):
    """Rows are computed in runs of up to 16 elements, which are aligned in the output only. Inputs begin at other places in their lines."""
    rng = np.random.default_rng(3)
    memories = [elements(rng, kind, (4000,)) for kind in kinds]
    lengths = [*range(1, 40), 700, 1501]
    inputs = [[memory[k * (3 + place) :][:length] for k, length in enumerate(lengths)] for place, memory in enumerate(memories)]
    what = program(("add", [InputOperand(0), InputOperand(1)]))
    assert walk([np.array([row.shape for row in rows]) for rows in inputs], [1, 1]).rows
    assert_same(*both(NAME, inputs[0], more=(inputs[1],), program=what))
    one = [row[:1] for row in inputs[1]]  # is read again and again
    assert_same(*both(NAME, inputs[0], more=(one,), program=what))


def whole(kind: T) -> ExpressionProgram:
    """A program in which every operation of integers changes the result."""
    a, b, odd = InputOperand(0), InputOperand(1), ResultOperand(0)
    items: list[tuple[str, list[Operand]]] = [("or", [b, Literal(1, kind)])]
    parts: list[int] = []
    for name, operands in [
        ("add", [a, b]), ("sub", [a, b]), ("mul", [a, b]), ("fdiv", [a, odd]), ("mod", [a, odd]), ("pow", [a, b]), ("and", [a, b]),
        ("xor", [a, b]), ("lshift", [a, b]), ("rshift", [a, b]), ("min", [a, b]), ("max", [a, b]), ("neg", [a]), ("abs", [a]),
        ("invert", [a]), ("clamp", [a, b, Literal(5, kind)]), ("pow", [a, Literal(3, kind)]),
    ]:  # fmt: skip
        parts.append(len(items))
        items.append((name, operands))
    total = parts[0]
    for part in parts[1:]:
        items.append(("mul", [ResultOperand(total), Literal(31, kind)]))
        items.append(("add", [ResultOperand(len(items) - 1), ResultOperand(part)]))
        total = len(items) - 1
    return program(*items)


@pytest.mark.parametrize("kind", [T.INT8, *[pytest.param(k, marks=SLOW) for k in KINDS if k not in FLOATS and k not in (T.BOOL, T.INT8)]])
def test_operations_of_integers(kind):
    rng = np.random.default_rng(int(kind))
    inputs = [[elements(rng, kind, (2000,))] for _ in range(2)]
    assert_same(*both(NAME, inputs[0], more=(inputs[1],), program=whole(kind)))


@pytest.mark.parametrize("kinds", [(T.INT64, T.UINT64), *[pytest.param(k, marks=SLOW) for k in ((T.UINT64, T.INT8), (T.INT16, T.FLOAT16))]])
def test_comparisons(kinds):
    rng = np.random.default_rng(1)
    items: list[tuple[str, list[Operand]]] = []
    for name in ("eq", "ne", "lt", "le", "gt", "ge"):
        items.append((name, [InputOperand(0), InputOperand(1)]))
    total: Operand = Literal(0, T.INT32)
    for k in range(6):
        items.append(("mul", [total, Literal(2, T.INT32)]))
        items.append(("add", [ResultOperand(len(items) - 1), ResultOperand(k)]))
        total = ResultOperand(len(items) - 1)
    inputs = [[elements(rng, kind, (3000,))] for kind in kinds]
    assert_same(*both(NAME, inputs[0], more=(inputs[1],), program=program(*items)))


@pytest.mark.slow
@pytest.mark.parametrize("kind", [T.FLOAT16, T.FLOAT, T.FLOAT64, T.UINT8])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name, kind):
    rng = np.random.default_rng(2)
    with np.errstate(all="ignore"):
        assert_same(*both(NAME, [elements(rng, kind, (500,))], program=program((name, [InputOperand(0)]))))


@pytest.mark.parametrize("kind", [T.INT32, pytest.param(T.UINT16, marks=SLOW), pytest.param(T.INT64, marks=SLOW)])
def test_division_by_zero_gives_zero(kind):
    """On the CPU it is an error of its sample. A kernel cannot raise an error (docs/differences.md)."""
    inputs = [InputOperand(0), InputOperand(1)]
    what = program(("fdiv", inputs), ("mod", inputs), ("add", [ResultOperand(0), ResultOperand(1)]))
    a, b = np.array([7, 9, 8], storage_dtype(kind)), np.array([0, 2, 0], storage_dtype(kind))
    output, step = planned(what, [[a], [b]])
    assert step.launches is not None
    kernels.run_launches(step.launches())
    assert output.sample(0).tolist() == [0, 5, 0]


def planned(what, inputs):
    """The output batch in memory, and the step that fills it."""
    sources = [batch_of(samples) for samples in inputs]
    operator = make(NAME, 1, {"program": what}, {}, len(sources))
    made = operator.plan(sources, Arguments(operator.spec, {}, 1), first_iteration(operator, 1))
    made.outputs[0].place(np.zeros(int(made.outputs[0].sizes().sum()), np.uint8))
    return made.outputs[0], made.steps[0]


def test_constants_without_a_literal():
    values = [float("inf"), float("-inf"), float("nan"), 2.0**-140, -0.0]
    for kind in (T.FLOAT, T.FLOAT64):
        sums = program(*[("add", [InputOperand(0), Literal(value, kind)]) for value in values])
        text = dict(make_kernel(sums, [kind]).defines)["EXPRESSION"]
        assert text.count("_of_bits(") == 3 and "-0x0.0p+0" in text
    what = program(("min", [InputOperand(0), Literal(float("inf"), T.FLOAT)]), ("max", [ResultOperand(0), Literal(float("nan"), T.FLOAT)]))
    assert_same(*both(NAME, [np.array([1.0, np.inf, -np.inf], np.float32)], program=what))


def test_in_a_pipeline(cuda):
    """Operands on the GPU and on the CPU, numbers, arrays, and draws that are known while planning. The results equal the CPU's."""

    def source(info):
        rng = np.random.default_rng(info.idx_in_epoch)
        return rng.integers(0, 255, (*rng.integers(1, 9, 2), 3), np.uint8)

    @pipeline_def(batch_size=3, num_threads=1, device_id=0, seed=4)
    def graph(gpu):
        images = fn.external_source(source, batch=False, layout="HWC")
        images = images.gpu() if gpu else images
        noise = fn.random.uniform(range=(0.5, 1.5), device="gpu" if gpu else "cpu")
        shift = fn.random.uniform(range=(-9.0, 9.0))
        one = math.clamp(images * noise + shift, 0.0, 200.0) / np.array([1.5, 2.0, 3.0], np.float32)
        return one, noise * 2 + shift, (images >> 2) // 3 == 7

    def run(pipe):
        return [[[np.array(sample) for sample in output.as_cpu()] for output in pipe.run()] for _ in range(3)]

    expected, found = run(graph(False)), run(graph(True))
    for a, b in zip(expected, found, strict=True):
        for x, y in zip(a, b, strict=True):
            assert_same(x, y)
