"""Copied plans (``runtime/templates``): conditions for copying a plan, and equal results of copies."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.pipelines import pipeline_of, values

from asyncdali import fn, types
from asyncdali.batch import Batch
from asyncdali.operators.crop.crop import Crop
from asyncdali.operators.crop.slice import Slice
from asyncdali.operators.random.random import StreamOperator
from asyncdali.runtime import templates
from asyncdali.runtime.templates import keys
from asyncdali.runtime.work import segments
from asyncdali.sampling.random_streams import StreamPosition


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
    whole = results(GRAPHS[name], 10)
    monkeypatch.setattr(segments, "segment_templates", lambda *_: None)
    one_by_one = results(GRAPHS[name], 10)
    monkeypatch.setattr(segments, "operator_templates", lambda built: None)
    assert whole == one_by_one == results(GRAPHS[name], 10)


SHAPES = [(6, 5, 3), (4, 4, 3)]


def crops(shapes, **options):
    """The images of iterations whose shapes are given, and how often the runtime planned their crops."""
    plans = [0]
    plan = Crop.plan

    def counted(self, inputs, arguments, iteration):
        plans[0] += type(inputs[0]) is Batch  # not the plan that becomes a template
        return plan(self, inputs, arguments, iteration)

    def graph():
        images = fn.external_source(lambda k: [np.full(shapes[k], k, np.uint8)] * 2, layout="HWC")
        return fn.crop(images, crop=[3, 4], **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Crop, "plan", counted)
        patch.setattr(Crop, "repeatable", True, raising=False)
        with pipeline_of(graph, batch_size=2, prefetch_queue_depth=1, enable_statistics=False) as pipeline:
            found = [values(pipeline.run()) for _ in shapes]
    assert [np.unique(sample).tolist() for ((sample, *_),) in found] == [[k] for k in range(len(shapes))]
    return plans[0]


def test_a_plan_is_copied_when_its_shapes_occur_again():
    assert crops([SHAPES[0]] * 8) == 1


def test_shapes_in_turn_have_a_template_each():
    assert crops(SHAPES * 4) == 2


def test_shapes_that_never_repeat_have_no_template():
    assert crops([(4 + k, 5, 3) for k in range(8)]) == 8


def test_at_most_four_templates_are_kept():
    """Four of the segment, and four of the operator. The ninth shape is planned each time."""
    shapes = [(4 + k, 5, 3) for k in range(9)]
    assert crops([shape for shape in shapes for _ in range(2)] + shapes) == 9 + 1 + 1


def sliced(anchors, size=1, monkeypatch=None):
    """Slices at anchors that are given for each iteration, and how often the runtime planned them."""
    plans = [0]
    plan = Slice.plan

    def counted(self, inputs, arguments, iteration):
        plans[0] += type(inputs[0]) is Batch
        return plan(self, inputs, arguments, iteration)

    def graph():
        images = fn.external_source(lambda k: [np.arange(6, dtype=np.int32) + 10 * k] * 2)
        start = fn.external_source(lambda k: np.full((2, 1), anchors[k], np.int32), batch=True)
        return fn.slice(images, start=start, shape=[2], axes=[0])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Slice, "plan", counted)
        patch.setattr(Slice, "repeatable", True, raising=False)
        with pipeline_of(graph, batch_size=2, prefetch_queue_depth=1, enable_statistics=False) as pipeline:
            found = [values(pipeline.run()) for _ in anchors]
    assert [iteration[0][0] for iteration in found] == [[10 * k + at, 10 * k + at + 1] for k, at in enumerate(anchors)]
    return plans[0]


def test_plans_are_copied_for_equal_contents_of_argument_inputs():
    assert sliced([1, 1, 1, 3, 1, 2, 2, 2, 1, 2]) == 3


def test_contents_that_never_repeat_are_no_longer_compared(monkeypatch):
    monkeypatch.setattr(templates.tables, "PIPELINE", templates.tables.Limits(4, 4, False))
    assert sliced([0, 1, 2, 3, 1, 1, 1, 1]) == 8


def test_large_contents_have_no_key():
    batch = Batch.from_values(np.zeros((2, 3000), np.uint8))
    assert keys.key_of([batch], []) is not None and keys.key_of([batch], [0]) is None


@pytest.mark.parametrize("seed", [0, 2**63, 2**64 - 1])
@pytest.mark.parametrize("hi", [0, 2**32 - 2, 2**63 - 2, 2**64 - 3])
def test_a_copied_plan_has_the_position_of_its_iteration(seed, hi, monkeypatch):
    """The words of a position move through their whole range."""
    monkeypatch.setattr(StreamOperator, "start", property(lambda self: StreamPosition(seed, hi, 5, 1)))
    copied = results(GRAPHS["a random stream"], 8)
    monkeypatch.setattr(segments, "operator_templates", lambda built: None)
    monkeypatch.setattr(segments, "segment_templates", lambda *_: None)
    assert copied == results(GRAPHS["a random stream"], 8)
