"""Per-frame arguments: every frame of a sequence is treated as a sample. Also coord_transform."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import kernels
from helpers.operators import batch_of, first_iteration, make, run_step
from helpers.pipelines import pipeline_of, values

from asyncdali import fn, pipeline_def, types
from asyncdali.batch import Batch
from asyncdali.operators.base import Arguments

F32 = np.float32
FRAMES = (3, 1, 2)
VIDEO = [np.random.default_rng(k).integers(0, 256, (count, 5, 6, 3), np.uint8) for k, count in enumerate(FRAMES)]
FACTORS = [np.linspace(0.3, 1.2, count, dtype=F32) + F32(k) / 10 for k, count in enumerate(FRAMES)]
SIZE = len(FRAMES)


def fed(samples, layout=None):
    return fn.external_source(lambda: samples, batch=True, layout=layout)


def arrays(output):
    return [np.array(output.at(k)) for k in range(len(output))]


def one_by_one(function, samples=VIDEO, arguments=FACTORS):
    """The results of `function(data, argument)` for each frame alone, as a sequence."""
    flat = [frame for sample in samples for frame in sample], [value for argument in arguments for value in argument]
    count = len(flat[0])
    pipe = pipeline_of(lambda: function(fed(flat[0], "HWC"), fed(flat[1])), batch_size=count)
    found = iter(arrays(pipe.run()[0]))
    return [np.stack([next(found) for _ in sample]) for sample in samples]


def test_frames_are_samples():
    def function(data, factor):
        return fn.brightness(data, brightness=factor)

    pipe = pipeline_of(lambda: function(fed(VIDEO, "FHWC"), fn.per_frame(fed(FACTORS))), batch_size=SIZE, num_threads=2)
    (output,) = pipe.run()
    assert output.layout() == "FHWC"
    for mine, wanted in zip(arrays(output), one_by_one(function), strict=True):
        np.testing.assert_array_equal(mine, wanted)


def test_intermediate_results_and_the_device():
    """Data between two operators is in scratch memory, where only the addresses of samples are known."""

    def function(data, factor):
        warm = fn.hsv(fn.brightness(data, brightness=factor), hue=factor)
        return fn.rotate(fn.flip(warm), angle=factor, keep_size=True)

    wanted = one_by_one(function)
    for device in ("cpu", "gpu"):

        def graph(device=device):
            data = fed(VIDEO, "FHWC")
            return function(data.gpu() if device == "gpu" else data, fn.per_frame(fed(FACTORS)))

        (output,) = pipeline_of(graph, batch_size=SIZE, num_threads=2).run()
        for mine, other in zip(arrays(output.as_cpu() if device == "gpu" else output), wanted, strict=True):
            np.testing.assert_array_equal(mine, other)


def test_draws_of_a_batch_become_arguments_of_frames():
    def graph():
        count = [np.zeros(frames, F32) for frames in FRAMES]
        return fn.brightness(fed(VIDEO, "FHWC"), brightness=fn.per_frame(fn.random.normal(fed(count), seed=3, mean=1.0)))

    assert [sample.shape for sample in arrays(pipeline_of(graph, batch_size=SIZE).run()[0])] == [sample.shape for sample in VIDEO]


def test_in_branches():
    def function(data, factor):
        return fn.brightness(data, brightness=factor)

    @pipeline_def(batch_size=SIZE, num_threads=2, enable_conditionals=True)
    def graph():
        data, factor = fed(VIDEO, "FHWC"), fn.per_frame(fed(FACTORS))
        if fed([True, False, True]):
            data = fn.flip(function(data, factor))
        return fn.copy(data)

    bright = one_by_one(lambda data, factor: fn.flip(function(data, factor)))
    for k, sample in enumerate(arrays(graph().run()[0])):
        np.testing.assert_array_equal(sample, VIDEO[k] if k == 1 else bright[k])


def test_one_canvas_for_all_frames():
    def graph(angles, **arguments):
        video = [np.zeros((len(angles), 13, 14, 1), np.uint8)]
        return lambda: fn.rotate(fed(video, "FHWC"), angle=fn.per_frame(fed([F32(angles)])), **arguments)

    def shape(*args, **arguments):
        return pipeline_of(graph(*args, **arguments), batch_size=1).run()[0].at(0).shape[1:3]

    assert (shape([0, 0]), shape([3, 90]), shape([3, 3, 90])) == ((13, 14), (14, 16), (15, 16))
    assert shape([3, 90], keep_size=True) == (13, 14)

    def sized():
        size = fn.per_frame(fed([F32([[4, 9], [7, 2]])]))
        return fn.warp_affine(fed([np.ones((2, 5, 5, 1), np.uint8)], "FHWC"), matrix=[1.0, 0, 0, 0, 1, 0], size=size)

    assert pipeline_of(sized, batch_size=1).run()[0].at(0).shape == (2, 7, 9, 1)


def test_transforms_of_frames_warp_frames():
    def graph():
        matrix = fn.transforms.rotation(angle=fn.per_frame(fed([40 * factor for factor in FACTORS])), center=[3.0, 2.5])
        return matrix, fn.warp_affine(fed(VIDEO, "FHWC"), matrix, fill_value=0)

    matrices, warped = pipeline_of(graph, batch_size=SIZE).run()
    assert matrices.layout() == "F**" and [sample.shape for sample in arrays(matrices)] == [(count, 2, 3) for count in FRAMES]
    wanted = one_by_one(lambda data, matrix: fn.warp_affine(data, matrix=matrix, fill_value=0), arguments=arrays(matrices))
    for mine, other in zip(arrays(warped), wanted, strict=True):
        np.testing.assert_array_equal(mine, other)


def test_errors_name_the_sample():
    def graph():
        angles = [np.zeros(count, F32) for count in FRAMES]
        angles[2][1] = np.nan
        return fn.rotate(fed(VIDEO, "FHWC"), angle=fn.per_frame(fed(angles)))

    with pytest.raises(RuntimeError, match=r"(?s)sample 2,.*must be finite"):
        pipeline_of(graph, batch_size=SIZE).run()
    with pytest.raises(RuntimeError, match=r"(?s)sample 0,.*`brightness` has 2 frames, input 0 has 3"):
        pipeline_of(lambda: fn.brightness(fed(VIDEO, "FHWC"), brightness=fn.per_frame(fed(FACTORS[::-1]))), batch_size=SIZE).run()


def plans(name, samples, layout, named, **constants):
    """The outputs of the compiled steps and of the kernels, compiled for the host, for the same plan."""
    for gpu in (False, True):
        operator = make(name, len(samples), constants, named, 1)
        arguments = Arguments(operator.spec, named, len(samples))
        planned = operator.plan([batch_of(samples, layout)], arguments, first_iteration(operator, len(samples)))
        (output,) = planned.outputs
        output.place(np.zeros(int(output.sizes().sum()), np.uint8))
        for step in planned.steps:
            if gpu:
                kernels.run_launches(step.launches())
            else:
                run_step(step, len(samples))
        yield [np.array(output.sample(k)) for k in range(len(samples))]


@pytest.mark.skipif(kernels.COMPILER is None, reason="no C++ compiler to build kernels for the host")
def test_kernels_for_a_gpu():
    frames = [np.random.default_rng(k).integers(0, 256, (2, 4, 5, 3), np.uint8) for k in range(3)]
    factors = Batch.from_values(np.linspace(0.2, 1.5, 6, dtype=F32).reshape(3, 2), "F")
    points = [np.random.default_rng(k).uniform(-50, 300, (2, 4, 3)).astype(F32) for k in range(3)]
    matrices = Batch.from_values(np.random.default_rng(0).uniform(-2, 2, (3, 2, 2, 4)).astype(F32), "F**")
    calls = [
        ("brightness", frames, "FHWC", {"brightness": factors}), ("coord_transform", points, "F**", {"MT": matrices}),
        ("coord_transform", points, "", {}),
    ]  # fmt: skip
    for name, samples, layout, named in calls:
        host, gpu = plans(name, samples, layout, named, **({"M": [1.0, 2.0, 3.0]} if name == "coord_transform" and not named else {}))
        assert any(sample.any() for sample in host)
        for mine, other in zip(host, gpu, strict=True):
            if mine.dtype == np.uint8:
                assert np.abs(mine.astype(int) - other).max() <= 1
            else:
                np.testing.assert_allclose(mine, other, rtol=1e-6)


def test_coord_transform_against_numpy():
    rng = np.random.default_rng(1)
    samples = [rng.uniform(-9, 9, (count, 3)).astype(F32) for count in (4, 0, 7)]
    matrix, offset = rng.uniform(-2, 2, (2, 3)).astype(F32), rng.uniform(-2, 2, 2).astype(F32)

    def graph():
        return fn.coord_transform(fed(samples, "NX"), M=matrix.reshape(-1).tolist(), T=offset.tolist())

    (output,) = pipeline_of(graph, batch_size=3).run()
    assert output.layout() == "NX" and output.dtype == types.FLOAT
    for mine, sample in zip(arrays(output), samples, strict=True):
        np.testing.assert_allclose(mine, sample @ matrix.T + offset, rtol=1e-5, atol=1e-5)


def test_coord_transform_saturates_integers():
    samples = [np.uint8([[100, 7]]), np.uint8([[3, 255]])]
    (output,) = pipeline_of(lambda: fn.coord_transform(fed(samples), M=2.5, T=[-9.0, 0.0], dtype=types.UINT8), batch_size=2).run()
    assert values([output]) == [[[[241, 18]], [[0, 255]]]]
