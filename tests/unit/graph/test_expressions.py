"""Arithmetic on nodes: results that differ from DALI's or that DALI lacks, fused expressions, early computation, and errors."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from helpers import operators as harness
from helpers.pipelines import pipeline_of, values

from asyncdali import Pipeline, fn, math, types
from asyncdali.graph.plan import build_plan
from asyncdali.operators.expressions.shapes import walk
from asyncdali.operators.expressions.types import promote
from asyncdali.types import DALIDataType

T = DALIDataType


def feed(*samples: Any, **options: Any) -> Any:
    """A node that gives these samples in every iteration."""
    return fn.external_source(lambda: [np.asarray(sample) for sample in samples], **options)


def compute(graph: Any, **options: Any) -> list[list[np.ndarray]]:
    """The samples of each output of one run."""
    with pipeline_of(graph, **options) as pipeline:
        return [[np.array(sample) for sample in output.as_cpu()] for output in pipeline.run()]


def one(graph: Any, count: int = 1) -> list[np.ndarray]:
    """The samples of the only output."""
    return compute(graph, batch_size=count)[0]


def operators_of(graph: Any) -> list[Any]:
    """The operators of a plan, without sources."""
    pipeline = Pipeline(batch_size=2, num_threads=1)
    with pipeline:
        made = graph()
    outputs = list(made) if isinstance(made, tuple) else [made]
    plan = build_plan(outputs, pipeline._core.definition.instances, pipeline._core.definition, lambda k: 0)
    return [planned for planned in plan.operators if planned.spec.schema.name not in ("external_source", "random.uniform", "_constant")]


# --------------------------------------------------------------------------------------------------------------------- values


def test_samples_that_broadcast_differently():
    """Every sample broadcasts separately, also if rows are short or few. DALI mixes up such samples."""
    rng = np.random.default_rng(1)
    for _ in range(12):
        ndim = int(rng.integers(1, 5))
        full = [tuple(int(extent) for extent in rng.choice([1, 2, 3, 40], ndim)) for _ in range(4)]
        a, b, c = (
            [rng.integers(1, 100, [1 if rng.random() < 0.4 else extent for extent in shape]).astype(kind) for shape in full]
            for kind in (np.int32, np.float32, np.int16)
        )
        found = one(lambda a=a, b=b, c=c: (feed(*a) - feed(*b)) * feed(*c), 4)
        for x, y, z, result in zip(a, b, c, found):
            np.testing.assert_array_equal(result, (x.astype(np.float32) - y) * z.astype(np.float32))


SHORT = [((50, 60, 3), (3,)), ((500, 1), (500, 7)), ((300, 2), (1,)), ((9, 100, 5), (9, 1, 5)), ((40, 4), (40, 1))]


@pytest.mark.parametrize("shape, row", SHORT)
def test_short_rows(shape, row):
    rng = np.random.default_rng(2)
    x, y = rng.integers(0, 255, shape).astype(np.uint8), rng.normal(size=row).astype(np.float32)
    for a, b in ((x, y), (y, x)):
        (found,) = one(lambda a=a, b=b: feed(a) - feed(b) * 2)
        np.testing.assert_array_equal(found, a.astype(np.float32) - b.astype(np.float32) * np.float32(2))


def test_more_dimensions_than_dali_takes():
    a, b = np.arange(16).reshape(2, 1, 2, 1, 2, 1, 2), np.arange(8).reshape(1, 2, 1, 2, 1, 2, 1)
    (found,) = one(lambda: feed(a) * 10 + feed(b))
    np.testing.assert_array_equal(found, a * 10 + b)


def test_float16_results_equal_numpys():
    """DALI refuses FLOAT16. Here each operation is rounded to FLOAT16, also if the other operand is an integer."""
    rng = np.random.default_rng(3)
    x, y = rng.normal(0, 100, 500).astype(np.float16), rng.normal(0, 3, 500).astype(np.float16)
    made = compute(
        lambda: (
            feed(x) + feed(y), feed(x) * feed(y) - feed(x), feed(x) / feed(y), feed(x) < feed(y), feed(x) * 3, math.sqrt(abs(feed(x))),
        ),
        batch_size=1,
    )  # fmt: skip
    expected = [x + y, x * y - x, x / y, x < y, x * np.float16(3), np.sqrt(np.abs(x))]
    for (found,), want in zip(made, expected):
        assert found.dtype == want.dtype
        np.testing.assert_array_equal(found, want)
    assert one(lambda: feed(x) * 0.5)[0].dtype == np.float32
    assert promote(T.FLOAT16, T.INT64) is T.FLOAT16 and promote(T.FLOAT16, T.FLOAT64) is T.FLOAT64


def test_dividing_the_smallest_number_by_minus_one_wraps():
    for dtype in (np.int8, np.int16, np.int32, np.int64):
        smallest = np.iinfo(dtype).min
        x, y = np.array([smallest, -7, smallest], dtype), np.array([-1, -1, 1], dtype)
        (quotient,), (remainder,) = compute(lambda x=x, y=y: (feed(x) // feed(y), feed(x) % feed(y)), batch_size=1)
        assert quotient.tolist() == [smallest, 7, smallest] and remainder.tolist() == [0, 0, 0]


def test_integers_and_floats_are_compared_by_value():
    """DALI treats a negative integer as less than every float."""
    x, y = np.array([-100, -2, 3], np.int32), np.array([-200, -2, 3.5], np.float32)
    assert [row[0].tolist() for row in compute(lambda: (feed(x) < feed(y), feed(x) == feed(y), feed(y) >= feed(x)), batch_size=1)] == [
        [False, False, True], [False, True, False], [False, True, True],
    ]  # fmt: skip
    (large,) = one(lambda: feed(np.array([-(2**62), 5])) < types.Constant(2**64 - 1).uint64())
    assert large.all()


def test_constants_keep_their_types():
    x = np.array([1, 2], np.float64)
    assert one(lambda: feed(x) + types.Constant(0.1).float64())[0].tolist() == [1.1, 2.1]
    assert one(lambda: np.float64(0.1) + feed(x))[0].tolist() == [1.1, 2.1]
    assert one(lambda: feed(x) + 0.1)[0].tolist() == (x + np.float64(np.float32(0.1))).tolist()  # a Python float has type FLOAT
    u8 = np.array([250, 3], np.uint8)
    for made, dtype in ((lambda: np.uint8(10) + feed(u8), np.uint8), (lambda: np.array([1, 2], np.int16) - feed(u8), np.int16),
                        (lambda: 10 + feed(u8), np.int32), (lambda: types.Constant(2**64 - 1).uint64() & feed(u8), np.uint64)):  # fmt: skip
        assert one(made)[0].dtype == dtype


def test_expressions_with_zero_and_negative_zero_do_not_share_code():
    x = np.zeros(3, np.float32)
    made = compute(lambda: (feed(x) * -0.0, feed(x) * 0.0, feed(x) + float("nan"), feed(x) + float("-inf")), batch_size=1)
    assert np.signbit(made[0][0]).all() and not np.signbit(made[1][0]).any()
    assert np.isnan(made[2][0]).all() and (made[3][0] == -np.inf).all()


def test_steps_stay_within_their_memory():
    rng = np.random.default_rng(5)
    samples = [rng.integers(0, 255, shape).astype(np.uint8) for shape in ((3, 5), (40, 2), (1, 1))]
    for operands in ([0, [2, T.UINT8]], [0, [0.5, T.FLOAT]]):
        found = harness.run("_arithmetic_generic_op", samples, op="mul", operands=operands)
        for x, result in zip(samples, found):
            np.testing.assert_array_equal(result, x * np.uint8(2) if operands[1][0] == 2 else x * np.float32(0.5))


def test_large_results_are_not_computed_while_planning():
    """If small inputs give a large result, worker threads compute it, and not the planning thread."""
    a, b = np.arange(300, dtype=np.int32), np.arange(200, dtype=np.int32).reshape(-1, 1)
    (found,) = one(lambda: feed(a) + feed(b))
    np.testing.assert_array_equal(found, a + b)


# --------------------------------------------------------------------------------------------------------------------- fusing


def test_an_expression_is_one_operator():
    def graph():
        x, y = feed(1), feed(2)
        return (x * 0.7 + 3) // 2 > y

    (fused,) = operators_of(graph)
    assert fused.spec.constants["program"].text() == "mul(&0,0x1.6666660000000p-1:FLOAT);add(%0,3:INT32);fdiv(%1,2:INT32);gt(%2,&1)"
    assert len(fused.inputs) == 2
    assert fused.spec.constants["expression"] == "((((a * 0.7) + 3) // 2) > b)"


def test_shared_results_are_computed_once():
    def graph():
        x = feed(1)
        shared = x * 2
        return shared, shared + 1, shared - 1

    assert len(operators_of(graph)) == 3
    found = compute(graph, batch_size=1)
    assert [row[0].tolist() for row in found] == [2, 3, 1]


def test_a_result_used_twice_in_one_expression_is_fused():
    def graph():
        x = feed(np.arange(4))
        y = x + 1
        return y * y - y

    (fused,) = operators_of(graph)
    assert [item.name for item in fused.spec.constants["program"].instructions] == ["add", "mul", "sub"]
    assert one(graph)[0].tolist() == [0, 2, 6, 12]


def test_equal_expressions_are_merged():
    def graph():
        x = feed(np.arange(4))
        return (x + 1) * 2, (x + 1) * 2, (x + 1) * 2.0, (x + True) * 2

    assert len(operators_of(graph)) < 5
    assert values_of(compute(graph, batch_size=1)) == [[2, 4, 6, 8]] * 4


def values_of(outputs: list[list[np.ndarray]]) -> list[Any]:
    return [row[0].tolist() for row in outputs]


def test_deep_expressions_are_cut():
    def graph():
        node = feed(np.arange(3))
        for k in range(300):
            node = node + k % 3
        return node

    assert len(operators_of(graph)) == 5
    assert one(graph)[0].tolist() == [300, 301, 302]


def test_many_inputs_are_cut():
    def graph():
        nodes = [feed(k) for k in range(80)]
        return sum(nodes[1:], nodes[0])

    assert 1 < len(operators_of(graph)) < 6
    assert one(graph)[0] == sum(range(80))


def test_the_cost_of_defining_an_operator_is_constant():
    """Counted function calls: a thousand operators take about twice as many calls as five hundred."""

    def calls(count: int) -> int:
        number = 0

        def count_one(frame, event, argument):
            nonlocal number
            number += event == "call"

        with Pipeline(batch_size=1, num_threads=1):
            node = feed(1)
            sys.setprofile(count_one)
            try:
                for _ in range(count // 2):
                    node = (node + 1) * 2
            finally:
                sys.setprofile(None)
        return number

    calls(2)  # the first definition imports modules
    assert 0 < calls(1000) < 2.1 * calls(500)


# ----------------------------------------------------------------------------------------------- devices, arguments, batch sizes


def test_on_the_gpu_side():
    x, u = np.arange(12, dtype=np.uint8).reshape(3, 4), np.float32(2.5)

    def graph():
        image, factor = feed(x), feed(u)
        both = image.gpu() * factor + 1
        assert both.device == "gpu" and (image * factor).device == "cpu"
        return both, (image.gpu() * 2).cpu() + 1, math.max(factor, image.gpu())[1]

    made = compute(graph, batch_size=1)
    np.testing.assert_array_equal(made[0][0], x * u + np.float32(1))
    np.testing.assert_array_equal(made[1][0], x.astype(np.int32) * 2 + 1)
    np.testing.assert_array_equal(made[2][0], np.maximum(x[1], u).astype(np.float32))


def pipeline_segments(graph: Any) -> list[Any]:
    pipeline = Pipeline(batch_size=3, num_threads=1)
    with pipeline:
        made = graph()
    return build_plan(list(made), pipeline._core.definition.instances, pipeline._core.definition, lambda k: 0).segments


def test_in_argument_inputs():
    """Arithmetic with a random number, as an argument input, needs no separate segment."""

    def graph():
        image = fn.constant(idata=list(range(12)), shape=[2, 2, 3], dtype=T.UINT8, layout="HWC")
        turned = fn.random.uniform(range=(-1.0, 1.0), seed=5) * 90 > 0
        return fn.flip(image, horizontal=turned), turned, image

    assert len(pipeline_segments(graph)) == 1
    for flipped, turned, image in zip(*compute(graph, batch_size=20)):
        np.testing.assert_array_equal(flipped, image[:, ::-1] if turned else image)


def test_values_of_the_pixels_as_arguments():
    """An argument that is computed from pixels is known only after the pixels. The operator that needs it is in the next segment."""

    def graph():
        data = fn.copy(feed(*[np.full(12, 3, np.int32)] * 3))
        return fn.reshape(data, shape=data[:2] * [1, 2] - [1, 0]), data

    assert compute(graph)[0][0].shape == (2, 6)
    assert len(pipeline_segments(graph)) == 2


def test_ragged_arguments_are_computed_before_planning():
    """Worker threads compute an argument before planning if its samples have different shapes."""

    def graph():
        ragged = feed([3, 9], [5, 1, 1], [4]) + 0
        large = feed(*[np.ones((100, 100), np.int32)] * 3) * 4
        data = feed(*[np.zeros(12)] * 3)
        columns = ragged[:1] * 0 + large[0, 1]
        return fn.reshape(data, shape=columns * [1, 0] + [0, 3]), columns

    assert [sample.shape for sample in one(graph, 3)] == [(4, 3)] * 3
    assert len(pipeline_segments(graph)) == 1


def test_batches_of_different_sizes():
    sizes = iter([3, 1, 0, 2, 3])
    batches = [[np.full((2,), k, np.int32) for k in range(size)] for size in sizes]
    given = iter(batches)
    with pipeline_of(lambda: (lambda x: (x * 2 + 1, x[0], x + fn.random.uniform()))(fn.external_source(lambda: next(given)))) as pipeline:
        for batch in batches:
            doubled, first, drawn = pipeline.run()
            assert [np.asarray(sample).tolist() for sample in doubled] == [[2 * k + 1] * 2 for k in range(len(batch))]
            assert len(first) == len(drawn) == len(batch)


def test_serialized():
    def graph():
        x = fn.random.uniform(seed=1, range=(1.0, 2.0))
        clamped = math.clamp(x * -0.0 + float("inf"), 1, x) > True
        return clamped, (x > 1.5) + types.Constant(2**64 - 1).uint64(), x.shape() * 2 + np.array([2])

    pipeline = pipeline_of(graph)
    again = Pipeline.deserialize(pipeline.serialize())
    assert values(pipeline.run()) == values(again.run())


def test_static_types():
    with Pipeline(batch_size=1, num_threads=1):
        u8 = fn.external_source(lambda: [1], dtype=T.UINT8, ndim=3)
        assert ((u8 + 1).dtype, (u8 / 2).dtype, (u8 < 3).dtype, (-u8).dtype) == (T.INT32, T.FLOAT, T.BOOL, T.UINT8)
        assert (u8 + 1).ndim == 3 and (feed(1) + u8).dtype is None and +u8 is u8


# --------------------------------------------------------------------------------------------------------------------- errors


def test_refused_at_the_call():
    with Pipeline(batch_size=1, num_threads=1):
        truth = fn.external_source(lambda: [True], dtype=T.BOOL)
        real = fn.external_source(lambda: [1.0], dtype=T.FLOAT)
        for error, text, use in (
            (RuntimeError, "`\\+` got BOOL and BOOL: operands of arithmetic cannot all be booleans", lambda: truth + True),
            (RuntimeError, "`&` got FLOAT and INT32: operands of bitwise", lambda: real & 1),
            (OverflowError, "Integer constant 1099511627776 out of range for INT32", lambda: real + 2**40),
            (OverflowError, "300 out of range for UINT8", lambda: real + types.Constant(300).uint8()),
            (TypeError, "operand 1 of `\\*` is a NoneType; it must be a DataNode", lambda: real * None),
            (TypeError, "operand 0 of `-` is <DALIDataType.INT32: 6>", lambda: types.INT32 - real),
            (TypeError, "is a list with nested DataNodes", lambda: [real, real] * real),
            (ValueError, "math.sqrt expects at least one DataNode", lambda: math.sqrt(4)),
        ):
            with pytest.raises(error, match=text):
                use()


def test_division_by_zero_names_sample_and_line():
    for count in (1, 5000):  # computed while planning, and by worker threads
        zeros = [np.ones(count, np.int32), np.zeros(count, np.int32), np.ones(count, np.int32)]

        def graph(zeros=zeros, count=count):
            x = feed(*[np.ones(count, np.int32)] * 3)
            quotient = 100 // feed(*zeros)  # here
            return quotient + x

        with pipeline_of(graph) as pipeline, pytest.raises(ValueError, match=r"sample 1,(.|\n)*Integer division by zero") as caught:
            pipeline.run()
        assert __file__ in str(caught.value) and "in graph" in str(caught.value)


def test_errors_when_running_name_the_operation():
    def refused(graph, error, text):
        with pipeline_of(graph) as pipeline, pytest.raises(error, match=text):
            pipeline.run()

    def shapes(a, b):
        return lambda: feed(*a) * 2 + feed(*b)

    good, wide = np.zeros((2, 2)), np.zeros((2, 3))
    refused(shapes([good] * 3, [good, wide, good]), RuntimeError, r"sample 1,(.|\n)*broadcast shapes \(2 x 2\) and \(2 x 3\)")
    refused(shapes([good] * 3, [wide] * 3), RuntimeError, r"broadcast shapes \(2 x 2\) and \(2 x 3\)")
    crossed = lambda: feed(*[good] * 3, layout="HW") - feed(*[good] * 3, layout="WH") * 2  # noqa: E731
    refused(crossed, RuntimeError, "`-`: Layouts of subexpressions 'HW' and 'WH' do not match")
    refused(lambda: feed(*[True] * 3) + feed(*[False] * 3) * 1 + (feed(*[True] * 3) - feed(*[True] * 3)), RuntimeError,
            r"`-` got BOOL and BOOL(.|\n)*written at File")  # fmt: skip


def test_records_of_equal_shapes_are_simple():
    shapes = np.array([[2, 3], [4, 5]], np.int64)
    plan = walk([shapes, shapes.copy()], [1, 4])
    assert plan.groups == 2 and plan.records[:, 2:4].tolist() == [[1, 6], [1, 20]] and plan.variants == [(0, slice(None))]
