"""Repeated plans (``runtime/replays.py``): conditions for copying a plan, and equal results of copies."""

from __future__ import annotations

from ctypes import c_int64

import numpy as np
import pytest
from helpers.operators import batch_of, make, run_step
from helpers.pipelines import pipeline_of, values

from asyncdali import fn, types
from asyncdali.batch import Batch
from asyncdali.compiled.addresses import address_of
from asyncdali.operators.base import Arguments, Iteration
from asyncdali.runtime import replays as replaying
from asyncdali.runtime import segments
from asyncdali.runtime.replays import Replays
from asyncdali.sampling.random_streams import StreamPosition
from asyncdali.sampling.stream_tables import position_words


class Source:
    """A source of batches with given sizes. The contents differ in every iteration."""

    def __init__(self, *counts, shape=(6, 5, 3), dtype=np.uint8):
        self.counts, self.shape, self.dtype = counts, shape, dtype

    def __call__(self, info):
        count = self.counts[info % len(self.counts)]
        drawn = np.random.default_rng(info).integers(0, 200, (count, *self.shape))
        return drawn.astype(self.dtype)


def fed(*counts, layout="HWC", **options):
    return fn.external_source(source=Source(*counts, **options), batch=True, layout=layout)


GRAPHS = {
    "crop": lambda: fn.crop(fed(4), crop=[3, 3]),
    "crop_mirror_normalize": lambda: fn.crop_mirror_normalize(fed(4), crop=[4, 4], mean=[1.0, 2, 3], std=[2.0], mirror=1),
    "pad": lambda: fn.pad(fed(4), axis_names="HW", shape=[8, 8], fill_value=3),
    "full": lambda: fn.full(fed(4, shape=(), layout=""), shape=[2, 3]),
    "transpose of a cast": lambda: fn.transpose(fn.cast(fed(4), dtype=types.INT16), perm=[2, 0, 1]),
    "normalize": lambda: fn.normalize(fed(4, dtype=np.float32), axes=[0, 1]),
    "slice": lambda: fn.slice(fed(4), start=[1, 2], shape=[3, 2], axes=[0, 1]),
    "subscript": lambda: fed(4)[1:4, ::-1],
    "an index per iteration": lambda: fed(4)[fn.random.uniform(values=[0.0, 1], dtype=types.INT32, seed=3)],
    "expression": lambda: fed(4) * 0.5 + fed(4, dtype=np.float32),
    "matrices that are equal for a time": lambda: fn.warp_affine(fed(4), np.float32([[1, 0.5, 0], [0, 1, 1]]), size=[5, 6]),
    "matrices that change": lambda: fn.warp_affine(fed(4), fn.transforms.scale(scale=fn.random.uniform(range=[1, 2], shape=[2], seed=3))),
    "samples of the batch": lambda: fn.multi_paste(fed(4), in_ids=[3, 0], output_size=[8, 9], out_anchors=np.int32([[0, 0], [1, 2]])),
    "samples of the batch, drawn": lambda: fn.multi_paste(fed(4), in_ids=fn.random.uniform(values=[0.0, 3], shape=[1], dtype=types.INT32)),
    "a large matrix": lambda: fn.mel_filter_bank(fed(4, shape=(257, 4), layout="ft", dtype=np.float32), nfilter=90, sample_rate=16000),
    "spectrogram": lambda: fn.spectrogram(fed(4, shape=(600,), layout="", dtype=np.float32), nfft=64, window_length=64, window_step=32),
    "a random stream": lambda: fn.segmentation.random_mask_pixel(fed(4, dtype=np.int32), foreground=1, threshold=150, seed=4),
    "streams of pixels": lambda: fn.jitter(fn.noise.gaussian(fed(4), stddev=20, seed=4), seed=5),
    "a random stream of a smaller batch": lambda: fn.noise.salt_and_pepper(fed(4, 4, 4, 4, 2, 2, 2, 4, 2), prob=0.3, seed=4),
    "a smaller batch now and then": lambda: fn.one_hot(fed(4, 4, 4, 4, 2, 2, 2, 4, 2, shape=(), layout=""), num_classes=200),
    "sizes that change": lambda: fn.coord_flip(fed(3, 4, 3, 3, 3, 3, 2, 4, 4, 4, shape=(5, 2), layout="", dtype=np.float32)),
}


def results(graph, iterations):
    pipeline = pipeline_of(graph, batch_size=4)
    try:
        return [values(pipeline.run()) for _ in range(iterations)]
    finally:
        pipeline.close()


@pytest.mark.parametrize("name", GRAPHS)
def test_copied_plans_compute_the_same_results(name, monkeypatch):
    repeated = results(GRAPHS[name], 10)
    monkeypatch.setattr(segments, "replays_of", lambda planned, operator: None)
    assert repeated == results(GRAPHS[name], 10)


class Counted:
    """An operator whose plans are counted and may be changed."""

    def __init__(self, operator):
        self.operator, self.spec, self.stateful, self.plans = operator, operator.spec, operator.stateful, 0
        self.split = operator.split
        self.change = lambda planned: planned

    def plan(self, inputs, arguments, iteration):
        self.plans += type(inputs[0]) is Batch  # not the plan that verifies what `plan` reads (runtime/watched.py)
        return self.change(self.operator.plan(inputs, arguments, iteration))


def counted(name="crop", **constants):
    operator = make(name, 2, constants or {"crop": [3, 4]}, {})
    operator.infer([types.UINT8])
    return Counted(operator)


def planned(plans, operator, number, shape=(6, 5, 3), layout="HWC"):
    """The samples of iteration `number`, which the steps of ``plans.plan`` compute."""
    images = [np.random.default_rng([number, k]).integers(0, 255, shape, np.uint8) for k in range(2)]
    plan = plans.plan([batch_of(images, layout)], Arguments(operator.spec, {}, 2), Iteration(number, 2))
    (output,) = plan.outputs
    output.place(np.zeros(int(output.sizes().sum()), np.uint8))
    for step in plan.steps:
        run_step(step, 2)
    return [output.sample(k).tolist() for k in range(2)]


def test_plans_are_copied_after_three_equal_ones():
    operator = counted()
    replays = Replays(operator)
    for number in range(8):
        assert planned(replays, operator, number) == planned(operator.operator, operator, number)
    assert operator.plans == 3


def test_other_shapes_and_layouts_are_planned():
    operator = counted()
    replays = Replays(operator)
    for number in range(4):
        planned(replays, operator, number)
    planned(replays, operator, 4, shape=(8, 5, 3))
    planned(replays, operator, 5, layout="")
    assert operator.plans == 5


def test_shapes_that_never_repeat_store_no_plans():
    operator = counted()
    replays = Replays(operator)
    for number in range(12):
        planned(replays, operator, number, shape=(4 + number, 5, 3))
    assert operator.plans == 12 and replays._pending is None and not replays._plans


def shifted(replays, operator, number, anchor):
    """The samples of iteration `number`, cropped at `anchor`. The anchor of each iteration is in new memory."""
    images = [np.random.default_rng([number, k]).integers(0, 255, (6, 5, 3), np.uint8) for k in range(2)]
    named = Arguments(operator.spec, {"start": Batch.from_values(np.int32([[anchor]] * 2))}, 2)
    plan = replays.plan([batch_of(images, "HWC")], named, Iteration(number, 2))
    (output,) = plan.outputs
    output.place(np.zeros(int(output.sizes().sum()), np.uint8))
    for step in plan.steps:
        run_step(step, 2)
    expected = [image[anchor : anchor + 2].tolist() for image in images]
    assert [output.sample(k).tolist() for k in range(2)] == expected


def slicing():
    operator = make("slice", 2, {"shape": [2], "axes": [0]}, {"start": None})
    operator.infer([types.UINT8])
    return Counted(operator)


def test_plans_are_copied_for_equal_contents_of_argument_inputs():
    operator = slicing()
    replays = Replays(operator, ("start",), (1,))
    for number, anchor in enumerate([1, 1, 1, 1, 1, 3, 1, 2, 2, 2, 2, 1, 2]):
        shifted(replays, operator, number, anchor)
    assert operator.plans == 3 + 1 + 3


def test_contents_that_never_repeat_are_no_longer_compared(monkeypatch):
    monkeypatch.setattr(replaying, "_TRIALS", 4)
    operator = slicing()
    replays = Replays(operator, ("start",), (1,))
    for number, anchor in enumerate([0, 1, 2, 3, 1, 1, 1, 1]):
        shifted(replays, operator, number, anchor)
    assert operator.plans == 8


def test_large_contents_are_not_compared():
    operator = slicing()
    replays = Replays(operator, ("start",), (0, 1))  # the images are compared, too
    for number in range(6):
        images = batch_of([np.zeros((50, 50, 3), np.uint8)] * 2, "HWC")
        named = Arguments(operator.spec, {"start": Batch.from_values(np.int32([[1]] * 2))}, 2)
        replays.plan([images], named, Iteration(number, 2))
    assert operator.plans == 6


def test_addresses_of_samples_follow_the_samples():
    """The plan contains addresses of samples in another order than the batch."""
    operator = counted()

    def change(plan):
        step = plan.steps[0]
        mixed = operator.source.addresses[[1, 0]] + 1
        step.keep = [*step.keep, mixed]
        step.context = np.append(step.context, [address_of(mixed), *mixed.tolist()])
        return plan

    operator.change = change
    replays = Replays(operator)
    for number in range(6):
        operator.source = batch_of([np.full((6, 5, 3), number, np.uint8) for _ in range(2)], "HWC")
        plan = replays.plan([operator.source], Arguments(operator.spec, {}, 2), Iteration(number, 2))
        found = plan.steps[0].context[-3:].tolist()
        held = np.frombuffer((c_int64 * 2).from_address(found[0]), np.int64).tolist()
        assert held == found[1:] == (operator.source.addresses[[1, 0]] + 1).tolist()
    assert operator.plans == 3


def test_addresses_of_samples_that_share_memory_are_not_copied():
    """While two samples share memory, an address may belong to either. Later batches may store the samples apart."""
    operator = counted()

    def change(plan):
        step = plan.steps[0]
        step.context = np.append(step.context, operator.source.addresses[1])
        return plan

    operator.change = change
    replays = Replays(operator)
    for number in range(8):
        operator.source = batch_of([np.full((6, 5, 3), number, np.uint8) for _ in range(2)], "HWC")
        if number < 5:
            operator.source.addresses[1] = operator.source.addresses[0]
        plan = replays.plan([operator.source], Arguments(operator.spec, {}, 2), Iteration(number, 2))
        assert plan.steps[0].context[-1] == operator.source.addresses[1]
    assert operator.plans == 8


def test_a_plan_that_differs_in_a_number_is_not_copied():
    operator = counted()

    def change(plan):
        plan.steps[0].scratch_bytes = operator.plans
        return plan

    operator.change = change
    replays = Replays(operator)
    for number in range(6):
        planned(replays, operator, number)
    assert operator.plans == 6


def drawn(plans, operator, position):
    """The steps of a plan at a position of the stream, as the words of its first table."""
    batch = batch_of([np.ones((4, 5), np.int32)] * 2, "")
    return plans.plan([batch], Arguments(operator.spec, {}, 2), Iteration(0, 2, position=position)).steps[0].context.tolist()


def stream_words(position):
    words = position_words(position)
    return [words[f"position_{part}"] for part in ("key", "hi", "lo", "phase")]


def mask_pixel():
    return Counted(make("segmentation.random_mask_pixel", 2, {"foreground": 1, "seed": 9}, {}))


def test_a_copied_plan_has_the_position_of_its_iteration():
    operator = mask_pixel()
    replays = Replays(operator, moves=True)
    for hi in (0, 2, 4, 6, 1000, 3, 2**32 - 1):
        position = StreamPosition(9, hi)
        assert drawn(replays, operator, position)[-4:] == stream_words(position)
    assert operator.plans == 3


@pytest.mark.parametrize("other", [{"key": 8}, {"lo": 1}, {"phase": 2}, {"hi": 2**32}, {"hi": 2**64 - 1}])
def test_another_stream_is_planned(other):
    operator = mask_pixel()
    replays = Replays(operator, moves=True)
    for hi in range(0, 8, 2):
        drawn(replays, operator, StreamPosition(9, hi))
    position = StreamPosition(**{"key": 9, "hi": 8, **other})
    assert drawn(replays, operator, position)[-4:] == stream_words(position)
    assert operator.plans == 4


@pytest.mark.parametrize("use", [lambda hi: hi // 2, lambda hi: 2 * hi, lambda hi: 7, lambda hi: -hi])
def test_a_plan_that_computes_with_its_position_is_not_copied(use):
    operator = mask_pixel()

    def change(plan):
        step = plan.steps[0]
        step.context[-3] = use(int(step.context[-3]))
        return plan

    operator.change = change
    replays = Replays(operator, moves=True)
    for hi in range(6, 18, 2):
        drawn(replays, operator, StreamPosition(9, hi))
    assert operator.plans == 6


def test_a_plan_with_another_array_is_not_copied():
    operator = counted()
    hidden = []

    def change(plan):
        hidden.append(np.zeros(4, np.int64))  # no plan keeps this array
        step = plan.steps[0]
        step.context = np.append(step.context, hidden[-1].ctypes.data)
        return plan

    operator.change = change
    replays = Replays(operator)
    for number in range(6):
        planned(replays, operator, number)
    assert operator.plans == 6


def test_plans_with_arrays_that_share_memory_are_not_copied():
    operator = counted()

    def change(plan):
        step = plan.steps[0]
        whole = np.zeros(8, np.int64)
        step.keep = [*step.keep, whole, whole[2:]]
        return plan

    operator.change = change
    replays = Replays(operator)
    for number in range(6):
        planned(replays, operator, number)
    assert operator.plans == 6


def test_arrays_that_a_step_wrote_to_are_copied_as_they_were_planned():
    operator = counted()

    def change(plan):
        step = plan.steps[0]
        step.keep = [*step.keep, np.arange(5)]
        return plan

    operator.change = change
    replays = Replays(operator)
    plans = []
    for number in range(5):
        images = [np.full((6, 5, 3), number, np.uint8)] * 2
        plans.append(replays.plan([batch_of(images, "HWC")], Arguments(operator.spec, {}, 2), Iteration(number, 2)))
        for item in plans[-1].steps[0].keep:
            if isinstance(item, np.ndarray) and item.tolist() == [0, 1, 2, 3, 4]:
                item[:] = 77  # a step may write into its table
    assert operator.plans == 3
    block = plans[-1].steps[0].context.base
    assert not (block == 77).any()


@pytest.mark.slow  # compiles nearly all kernels
def test_every_operator_computes_the_same_from_copies(monkeypatch):
    from test_serialize_operators import CALLS

    repeated = {name: results(graph, 6) for name, graph in CALLS.items()}
    monkeypatch.setattr(segments, "replays_of", lambda planned, operator: None)
    for name, graph in CALLS.items():
        np.testing.assert_equal(repeated[name], results(graph, 6), err_msg=name)
