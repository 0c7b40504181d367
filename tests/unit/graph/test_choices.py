"""A choice by number among functions of the graph. Each function runs for the samples that chose it."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.pipelines import pipeline_of

from asyncdali import fn, pipeline_def, types
from asyncdali.auto_aug.core import select

SIZE = 6


def batches(output):
    return [np.array(sample) for sample in output.as_cpu()]


def pictures(low=3):
    """Pictures of different heights. Sample j of iteration k is filled with 10 * k + j."""
    return fn.external_source(lambda k: [np.full((low + j, 4, 3), 10 * k + j, np.uint8) for j in range(SIZE)], layout="HWC")


def index(pattern):
    return fn.external_source(lambda k: np.roll(np.array(pattern, np.int32), k))


def run(body, iterations=3, **options):
    pipe = pipeline_of(body, batch_size=SIZE, **options)
    found = [[batches(output) for output in pipe.run()] for _ in range(iterations)]
    pipe.close()
    return found


ADD = [lambda x: x + np.uint8(1), lambda x: x * np.uint8(2), lambda x: x, lambda x: fn.flip(x)]


@pytest.mark.parametrize("device", ["cpu", "gpu"])
@pytest.mark.parametrize("pattern", [[0, 1, 2, 3, 0, 1], [0] * 6, [3] * 6, [-5, 9, 2, 2, -1, 3]])
@pytest.mark.parametrize("made_here", [False, True])
def test_each_sample_gets_its_function(pattern, made_here, device):
    """A number out of range selects the first or the last function. Data is external, or the result of an operator in the same segment."""

    def body():
        data = pictures().gpu() if device == "gpu" else pictures()
        data = fn.flip(data) if made_here else data
        return select(ADD, index(pattern), data), data

    for k, (chosen, data) in enumerate(run(body)):
        for number, x, y in zip(np.roll(pattern, k), chosen, data, strict=True):
            expected = [y + 1, y * 2, y, y[:, ::-1]][min(max(number, 0), 3)]
            assert x.dtype == y.dtype
            np.testing.assert_array_equal(x, expected)


def test_a_choice_inside_a_choice_and_a_condition():
    def inner(x, second):
        return select([lambda x: x + np.uint8(100), lambda x: x + np.uint8(200)], second, x)

    @pipeline_def(batch_size=SIZE, num_threads=2, device_id=None, enable_conditionals=True)
    def graph():
        x, first, second = pictures(), index([0, 1, 2, 0, 1, 2]), index([0, 0, 1, 1, 0, 1])
        if second == 1:
            x = select([lambda x: inner(x, second), lambda x: inner(fn.flip(x), first), lambda x: x], first, x)
        else:
            x = x + np.uint8(1)
        return x, first, second

    pipe = graph()
    for k in range(4):
        found, first, second = (batches(output) for output in pipe.run())
        for j in range(SIZE):
            value, a, b = 10 * k + j, int(first[j]), int(second[j])
            expected = value + 1 if b == 0 else value + (200 if a == 0 else 200 if a == 1 else 0)
            assert (found[j] == expected % 256).all(), (k, j)


def test_structures_are_merged():
    def body():
        ops = [lambda x: {"a": x, "b": (x + np.uint8(1), 7)}, lambda x: {"a": fn.flip(x), "b": (x, 8)}]
        made = select(ops, index([0, 1, 0, 1, 0, 1]), pictures())
        return made["a"], made["b"][0], made["b"][1]

    for k, (a, b, c) in enumerate(run(body)):
        numbers = np.roll([0, 1, 0, 1, 0, 1], k)
        assert [int(x) for x in c] == [7 + n for n in numbers]
        assert [int(x[0, 0, 0]) for x in b] == [10 * k + j + 1 - n for j, n in enumerate(numbers)]
        assert [int(x[0, 0, 0]) for x in a] == [10 * k + j for j in range(SIZE)]


def test_different_structures_are_refused():
    with pytest.raises(ValueError, match=r"Divergent data.*`select`.*choice 1"):
        run(lambda: select([lambda x: x, lambda x: (x, x)], index([0] * 6), pictures()))


def test_different_types_are_refused():
    with pytest.raises(RuntimeError, match=r"Divergent data.*'UINT8' in choice 0 and 'FLOAT' in choice 2"):
        run(lambda: select([lambda x: x, lambda x: x, lambda x: fn.cast(x, dtype=types.FLOAT)], index([0, 2, 0, 0, 0, 0]), pictures()))


def test_an_index_must_be_integers():
    with pytest.raises(RuntimeError, match="restricted to integer scalars"):
        run(lambda: select(ADD, fn.random.uniform(range=[0, 3]), pictures()))
    with pytest.raises(RuntimeError, match="restricted to integer scalars"):
        run(lambda: select(ADD, fn.random.uniform(values=[0, 1], dtype=types.INT32, shape=[2]), pictures()))


def test_an_index_on_the_gpu_is_refused():
    with pytest.raises(ValueError, match=r'Invalid device "gpu".*choices must be on the CPU'):
        run(lambda: select(ADD, index([0] * 6).gpu(), pictures()))


def test_a_node_of_one_choice_is_refused_in_others():
    kept = []

    def keeps(x):
        kept.append(x + np.uint8(1))
        return x

    with pytest.raises(RuntimeError, match="only the samples of that branch"):
        run(lambda: select([keeps, lambda x: kept[0]], index([0] * 6), pictures()))


def test_constant_numbers_and_one_function_need_no_choice():
    calls = []

    def noting(number):
        def function(x):
            calls.append(number)
            return x + np.uint8(number)

        return function

    ops = [noting(k) for k in range(3)]

    def body():
        x = pictures()
        return select(ops, 1, x), select(ops, -4, x), select(ops, 9, x), select(ops[:1], index([2] * 6), x)

    (outputs,) = run(body, iterations=1)
    assert calls == [1, 0, 2, 0]
    assert [int(output[2][0, 0, 0]) for output in outputs] == [3, 2, 4, 2]
    with pytest.raises(AssertionError):
        select([], 0)


def test_draws_in_choices_take_the_choice_samples_or_the_whole_batch():
    """An operator without inputs draws for the whole batch, one with inputs for the samples of its choice; checkpoints keep both."""

    def body():
        whole = lambda x: x * 0 + fn.random.uniform(range=[0, 1000], dtype=types.INT32)  # noqa: E731
        some = lambda x: x * 0 + fn.random.uniform(x, range=[0, 1000], dtype=types.INT32)  # noqa: E731
        numbers = fn.external_source(lambda k: np.arange(SIZE, dtype=np.int32))
        return select([whole, some], index([0, 1, 0, 0, 1, 0]), numbers)

    def make(checkpoint=None):
        pipe = pipeline_def(body)(
            batch_size=SIZE, num_threads=1, device_id=None, seed=8, enable_checkpointing=True, checkpoint=checkpoint
        )  # fmt: skip
        pipe.build()
        return pipe

    one = make()
    expected = [np.stack(batches(one.run()[0])) for _ in range(6)]
    two = make()
    for _ in range(3):
        two.run()
    three = make(two.checkpoint())
    for k in range(3, 6):
        np.testing.assert_array_equal(np.stack(batches(three.run()[0])), expected[k])


def test_outside_of_a_pipeline():
    with pytest.raises(RuntimeError, match="Current Pipeline not set"):
        select(ADD, types.Constant(1, device="cpu"), 3)


def test_debug_mode():
    def body():
        return select(ADD, index([0, 1, 2, 3, 0, 1]), pictures())

    graph, debug = run(body), []
    pipe = pipeline_def(body)(batch_size=SIZE, num_threads=2, device_id=None, debug=True)
    pipe.build()
    for _ in range(3):
        debug.append([batches(output) for output in pipe.run()])
    for a, b in zip(graph, debug, strict=True):
        for x, y in zip(a[0], b[0], strict=True):
            np.testing.assert_array_equal(x, y)
