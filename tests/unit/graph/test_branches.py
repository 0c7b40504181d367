"""Splits and merges: each sample takes one branch of a conditional."""

from __future__ import annotations

import random

import numpy as np
import pytest
from helpers.pipelines import pipeline_of, values

from asyncdali import fn, pipeline_def, types

SIZE = 6
split, merge, negated = fn._conditional.split, fn._conditional.merge, fn._conditional.not_


def pictures(height=3):
    """Sample j of iteration k is filled with 10 * k + j."""
    return fn.external_source(lambda k: [np.full((height, 4, 3), 10 * k + j, np.uint8) for j in range(SIZE)], layout="HWC")


def condition(pattern):
    """One BOOL per sample: the bits of `pattern`, rotated by one in every iteration."""
    bits = lambda k: np.array([(pattern >> ((j + k) % SIZE)) & 1 for j in range(SIZE)], bool)  # noqa: E731
    return fn.external_source(bits)


def filled(batch):
    """The number that fills each sample."""
    arrays = [np.asarray(sample) for sample in batch.as_cpu()]
    assert all((array == array.reshape(-1)[0]).all() for array in arrays)
    return [int(array.reshape(-1)[0]) for array in arrays]


def bits(pattern, k):
    return [bool((pattern >> ((j + k) % SIZE)) & 1) for j in range(SIZE)]


@pytest.mark.parametrize("pattern", [0, 0b111111, 0b010110])
@pytest.mark.parametrize("made_here", [False, True])
def test_the_parts_of_a_batch_and_the_merged_batch(pattern, made_here):
    """The data is external, or an operator of the same segment computes it."""

    def graph():
        data = fn.flip(pictures()) if made_here else pictures()
        chosen = condition(pattern)
        true, false = split(data, predicate=chosen)
        return true, false, merge(true, false, predicate=chosen), merge(fn.flip(true), false, predicate=chosen)

    pipe = pipeline_of(graph, batch_size=SIZE)
    for k in range(4):
        true, false, whole, mixed = pipe.run()
        everything = [10 * k + j for j in range(SIZE)]
        assert filled(true) == [x for x, taken in zip(everything, bits(pattern, k)) if taken]
        assert filled(false) == [x for x, taken in zip(everything, bits(pattern, k)) if not taken]
        assert filled(whole) == filled(mixed) == everything


class Model:
    """Random nested branches, built as a graph and also computed sample by sample.

    Every leaf adds its own number, in an operator that makes pixels or one that plans.
    """

    def __init__(self, seed, depth):
        self.random = random.Random(seed)
        self.tree = self._tree(depth)

    def _tree(self, depth):
        if depth == 0 or self.random.random() < 0.2:
            return ("leaf", self.random.randrange(50), self.random.choice(["pixels", "python", "nothing"]))
        return ("if", self.random.randrange(64), self._tree(depth - 1), self._tree(depth - 1), self.random.random() < 0.5)

    def graph(self, data, conditions, tree=None):
        tree = tree or self.tree
        if tree[0] == "leaf":
            return self._leaf(data, tree)
        _, pattern, yes, no, after = tree
        true, false = split(data, predicate=conditions[pattern])
        parts = {number: split(node, predicate=conditions[pattern]) for number, node in conditions.items()}
        one = self.graph(true, {number: part[0] for number, part in parts.items()}, yes)
        other = self.graph(false, {number: part[1] for number, part in parts.items()}, no)
        merged = merge(one, other, predicate=conditions[pattern])
        return fn.brightness(merged, brightness_shift=1 / 255) if after else merged

    @staticmethod
    def _leaf(data, leaf):
        _, number, how = leaf
        if how == "pixels":
            return fn.flip(fn.brightness(data, brightness_shift=number / 255))
        if how == "python":
            return fn.python_function(data, function=lambda a: a + np.uint8(number), output_layouts="HWC")
        return data

    def value(self, start, sample_bits, tree=None):
        tree = tree or self.tree
        if tree[0] == "leaf":
            return start + (0 if tree[2] == "nothing" else tree[1])
        _, pattern, yes, no, after = tree
        return self.value(start, sample_bits, yes if sample_bits[pattern] else no) + after

    def patterns(self, tree=None):
        tree = tree or self.tree
        return set() if tree[0] == "leaf" else {tree[1]} | self.patterns(tree[2]) | self.patterns(tree[3])


@pytest.mark.parametrize("seed", range(40))
def test_random_nests(seed):
    model = Model(seed, 1 + seed % 4)
    gpu = seed % 5 == 4 and "python" not in str(model.tree)

    def graph():
        data = fn.flip(pictures())
        return model.graph(data.gpu() if gpu else data, {number: condition(number) for number in model.patterns()})

    pipe = pipeline_of(graph, batch_size=SIZE, num_threads=1 + seed % 3, device_id=0 if gpu else None)
    for k in range(3):
        wanted = [model.value(10 * k + j, {number: bits(number, k)[j] for number in model.patterns()}) for j in range(SIZE)]
        assert filled(pipe.run()[0]) == wanted


def test_large_data_of_branches_is_not_copied():
    """A branch that does not change its data passes on the same memory."""
    seen = []

    def graph():
        data = fn.python_function(pictures(3000), function=lambda a: a, output_layouts="HWC")
        chosen = condition(0b010101)
        true, false = split(data, predicate=chosen)
        look = lambda a: seen.append(a.ctypes.data) or a  # noqa: E731
        return merge(true, false, predicate=chosen), fn.python_function(true, function=look), data

    pipe = pipeline_of(graph, batch_size=SIZE)
    whole, _, data = pipe.run()
    assert [sample.data_ptr() for sample in whole] == [sample.data_ptr() for sample in data]
    assert seen[:3] == [data[j].data_ptr() for j in (0, 2, 4)]


def test_random_numbers_in_a_branch_are_those_of_its_samples():
    def graph():
        chosen = condition(0b001101)
        draws = fn.random.uniform(seed=5)
        true, false = split(draws, predicate=chosen)
        return merge(true, false, predicate=chosen), fn.random.uniform(seed=5, preserve=True)

    pipe = pipeline_of(graph, batch_size=SIZE)
    for _ in range(3):
        ours, plain = values(pipe.run())
        assert ours == plain


def test_a_stateful_operator_counts_the_samples_of_its_branch():
    def graph():
        true, _ = split(pictures(40), predicate=condition(0b011010))
        return fn.random.normal(true, stddev=1.0, seed=9)

    pipe = pipeline_of(graph, batch_size=SIZE, enable_checkpointing=True)
    first = [values(pipe.run()) for _ in range(2)]
    other = pipeline_of(graph, batch_size=SIZE, enable_checkpointing=True, checkpoint=pipe.checkpoint())
    assert values(pipe.run()) == values(other.run())
    assert [len(batch[0]) for batch in first] == [3, 3]


def test_empty_branches_call_no_operator():
    calls = []

    def graph():
        true, false = split(pictures(), predicate=condition(0))
        made = fn.python_function(true, function=lambda a: calls.append(1) or a, output_layouts="HWC")
        return merge(made, false, predicate=condition(0))

    pipe = pipeline_of(graph, batch_size=SIZE)
    assert filled(pipe.run()[0]) == list(range(SIZE))
    assert not calls


def test_branches_of_different_types_fail_only_if_both_have_samples():
    def graph():
        true, false = split(pictures(), predicate=condition(0b000001))
        return merge(fn.cast(true, dtype=types.FLOAT), false, predicate=condition(0b000001))

    pipe = pipeline_of(graph, batch_size=SIZE)
    with pytest.raises(RuntimeError, match=r"Divergent data found in different branches.*type is 'FLOAT'.*'UINT8'"):
        pipe.run()
    pipe = pipeline_of(lambda: (lambda c: merge(
        *[f(part) for f, part in zip([lambda x: fn.cast(x, dtype=types.FLOAT), lambda x: x], split(pictures(), predicate=c))],
            predicate=c))( condition(0b111111)), batch_size=SIZE)  # fmt: skip
    assert pipe.run()[0].dtype == types.FLOAT


def test_errors_name_the_sample_of_the_whole_batch():
    def raising(array):
        if array.flat[0] == 4:
            raise LookupError("four")
        return array

    def graph(broken):
        data = pictures() if not broken else fn.external_source(
            lambda: [np.frombuffer(b"P5 1 1 255 \0" if j != 4 else b"nothing", np.uint8) for j in range(SIZE)])  # fmt: skip
        true, _ = split(data, predicate=condition(0b011001))
        return fn.decoders.image(true) if broken else fn.python_function(true, function=raising)

    for broken in (False, True):
        with pytest.raises(RuntimeError, match=r"iteration 0, sample 4"):
            pipeline_of(lambda broken=broken: graph(broken), batch_size=SIZE).run()


def test_conditions():
    with pytest.raises(RuntimeError, match=r"restricted to scalar \(0-d tensors\)"):
        pipeline_of(lambda: split(pictures(), predicate=fn.external_source(lambda: np.ones((SIZE, 1), bool)))[0], batch_size=SIZE).run()
    numbers = lambda: fn.external_source(lambda: np.float32([0, 0.5, 2, 0, -1, 0]))  # noqa: E731
    assert filled(pipeline_of(lambda: split(pictures(), predicate=numbers())[0], batch_size=SIZE).run()[0]) == [1, 2, 4]
    assert values(pipeline_of(lambda: negated(numbers()), batch_size=SIZE).run())[0] == [True, False, False, True, False, True]


def test_logical_operands():
    valid = fn._conditional.validate_logical
    assert values(pipeline_of(lambda: valid(condition(1), expression_name="or"), batch_size=SIZE).run())[0] == bits(1, 0)
    for data in (lambda: np.int32([1] * SIZE), lambda: np.ones((SIZE, 1), bool)):
        node = lambda data=data: valid(fn.external_source(data), expression_name="or", expression_side="right")  # noqa: E731
        pipe = pipeline_of(node, batch_size=SIZE)
        with pytest.raises(RuntimeError, match=r"`or` is restricted to scalar.*right side"):
            pipe.run()


def test_image_derived_conditions():
    """A condition that is computed from pixels needs a separate segment."""

    def graph():
        data = fn.flip(pictures())
        odd = fn.python_function(data, function=lambda a: np.bool_(a.flat[0] % 2))
        true, false = split(data, predicate=odd)
        return merge(fn.brightness(true, brightness_shift=100 / 255), fn.flip(false), predicate=odd)

    pipe = pipeline_of(graph, batch_size=SIZE)
    assert filled(pipe.run()[0]) == [0, 101, 2, 103, 4, 105]


OWNERSHIP = {
    "made here": lambda true, false, chosen, other: merge(fn.flip(true), false, predicate=chosen),
    "nothing done": lambda true, false, chosen, other: merge(true, false, predicate=chosen),
    "another view": lambda true, false, chosen, other: fn.reshape(merge(fn.flip(true), false, predicate=chosen), shape=[-1], layout=""),
    "nested": lambda true, false, chosen, other: merge(
        merge(*(f(part) for f, part in zip((fn.flip, fn.copy), split(true, predicate=split(other, predicate=chosen)[0]))),
              predicate=split(other, predicate=chosen)[0]), false, predicate=chosen),
    "one branch": lambda true, false, chosen, other: false,
    "split again": lambda true, false, chosen, other: split(merge(fn.flip(true), false, predicate=chosen), predicate=other)[0],
}  # fmt: skip


@pytest.mark.parametrize("mask", [0b001101, 0, 0b111111])
@pytest.mark.parametrize("kind", OWNERSHIP)
def test_samples_that_stay_where_the_user_keeps_them_are_copied(kind, mask):
    """A user may overwrite the memory of a source. Samples in this memory are copied, and no others."""
    memory = np.zeros((SIZE, 100, 40, 3), np.uint8)

    def source(k):
        memory[...] = (10 * k + np.arange(SIZE, dtype=np.uint8))[:, None, None, None]
        return memory

    def graph():
        data = fn.external_source(source, batch=True, no_copy=True, layout="HWC")
        chosen = condition(mask)
        true, false = split(data, predicate=chosen)
        made = OWNERSHIP[kind](true, false, chosen, condition(0b011010))
        return made, made, data

    pipe = pipeline_of(graph, batch_size=SIZE, prefetch_queue_depth=1, num_threads=2)
    held = [pipe.run() for _ in range(4)]
    for k, (one, other, data) in enumerate(held):
        everything = [10 * k + j for j in range(SIZE)]
        wanted = {"one branch": [not b for b in bits(mask, k)], "split again": bits(0b011010, k)}.get(kind, [True] * SIZE)
        assert filled(data) == everything
        assert filled(one) == filled(other) == [x for x, taken in zip(everything, wanted) if taken]
    inside = range(memory.ctypes.data, memory.ctypes.data + memory.nbytes)
    assert not any(sample.data_ptr() in inside for outputs in held for batch in outputs for sample in batch)


def test_samples_of_a_merged_batch_change_places_twice():
    """Permutations pass on samples without a copy. The samples of a merged batch have addresses only after the merge."""
    data = np.arange(6 * 300 * 300 * 3, dtype=np.uint8).reshape(6, 300, 300, 3)

    @pipeline_def(batch_size=6, num_threads=2, device_id=None, seed=7, enable_conditionals=True)
    def graph():
        images = fn.external_source(lambda k: data, batch=True, layout="HWC")
        if fn.external_source(lambda k: np.array([True, False] * 3), batch=True):
            made = fn.flip(images)
        else:
            made = images
        if fn.external_source(lambda k: np.array([True, True, False, False, True, False]), batch=True):
            moved = fn.permute_batch(made, indices=fn.batch_permutation(seed=3))
        else:
            moved = fn.permute_batch(made, indices=fn.batch_permutation(seed=4))
        return made, moved, fn.permute_batch(moved, indices=[5, 4, 3, 2, 1, 0])

    pipeline = graph()
    for _ in range(3):
        made, moved, back = ([np.array(sample) for sample in batch] for batch in pipeline.run())
        np.testing.assert_array_equal(back, moved[::-1])
        assert sorted(map(bytes, made)) == sorted(map(bytes, moved)) == sorted(map(bytes, np.concatenate([data[::2, :, ::-1], data[1::2]])))
