"""Automatic augmentations: draws, the decorator and its objects, policies, errors, devices."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from helpers import kernels
from helpers.auto_aug import Library, pictures

from asyncdali import fn, pipeline_def, types
from asyncdali.auto_aug import augmentations as a
from asyncdali.auto_aug import auto_augment, rand_augment, trivial_augment
from asyncdali.auto_aug.core import Policy, augmentation, select, signed_bin
from asyncdali.auto_aug.core._args import MissingArgException, UnusedArgException

OURS = Library("asyncdali")


def run(body, batch_size=8, iterations=1, seed=5, **options):
    """The samples of all iterations of a graph with one output."""
    pipe = pipeline_def(body)(**{"batch_size": batch_size, "num_threads": 2, "device_id": None, "seed": seed, **options})
    pipe.build()
    found = []
    for _ in range(iterations):
        (output,) = pipe.run()
        found.extend(np.array(sample) for sample in output.as_cpu())
    return found


def zeros():
    return fn.constant(idata=[0] * 12, shape=[2, 2, 3], dtype=types.UINT8, layout="HWC")


# ------------------------------------------------------------------------------------------------------------------------ draws

RAND_OPS = [[4, 1], [13, 9], [0, 3], [13, 2], [4, 3], [8, 11], [9, 8], [11, 6]]
RAND_SIGNS = [[0, 1], [1, 0], [1, 1], [0, 0], [0, 0], [1, 1], [1, 1], [1, 0]]
TRIVIAL_OPS, TRIVIAL_BINS = [4, 13, 0, 13, 4, 8, 9, 11], [11, 29, 20, 10, 6, 27, 26, 24]


def numbered(count):
    """Signed augmentations that append (number, parameter) to the data. The parameter is one of 31 magnitude bins."""

    def make(number):
        def function(data, parameter):
            return fn.cat(data, fn.cast(fn.stack(parameter * 0 + number, parameter), dtype=types.FLOAT))

        return augmentation(function, mag_range=(0, 30), randomly_negate=True, name=f"a{number}")

    return [make(number) for number in range(count)]


def nothing_yet():
    return types.Constant(np.zeros(0, np.float32), device="cpu")


def test_draws_of_rand_augment():
    """The expected numbers were recorded from DALI, with a pipeline of seed 42."""
    found = run(lambda: rand_augment.apply_rand_augment(numbered(14), nothing_yet(), n=2, m=9), seed=42)
    for sample, ops, signs in zip(found, RAND_OPS, RAND_SIGNS, strict=True):
        assert sample.tolist() == [ops[0], -9 if signs[0] else 9, ops[1], -9 if signs[1] else 9]


def test_draws_of_trivial_augment():
    found = run(lambda: trivial_augment.apply_trivial_augment(numbered(14), nothing_yet()), seed=42)
    signs = [0, 0, 0, 0, 0, 1, 1, 1]
    assert [sample.tolist() for sample in found] == [
        [op, -bin if sign else bin] for op, bin, sign in zip(TRIVIAL_OPS, TRIVIAL_BINS, signs, strict=True)
    ]


def test_draws_of_auto_augment():
    suite = numbered(25)
    policy = Policy("of pairs", 31, [[(suite[k], 0.7, k), (suite[24 - k], 0.3, 2)] for k in range(25)])
    found = run(lambda: auto_augment.apply_auto_augment(policy, nothing_yet()), seed=42)
    draws = [
        [0.3450, 0.0851], [0.9500, 0.6459], [0.0639, 0.2201], [0.9924, 0.1637], [0.3451, 0.2422], [0.6010, 0.7959], [0.6979, 0.6332],
        [0.8537, 0.4526],
    ]  # fmt: skip
    subs, signs = [9, 23, 16, 8, 4, 22, 21, 19], [[0, 0], [0, 1], [0, 0], [0, 0], [0, 1], [1, 1], [1, 1], [1, 1]]
    for sample, (first, second), sub, sign in zip(found, draws, subs, signs, strict=True):
        expected = []
        if first < 0.7:
            expected += [sub, -sub if sign[0] else sub]
        if second < 0.3:
            expected += [24 - sub, -2 if sign[1] else 2]
        assert sample.tolist() == expected


def test_own_augmentations():
    """Recorded from DALI with five augmentations: 3 has no magnitudes, and 0, 2 and 4 are signed."""

    def make(number):
        def function(data, parameter):
            parameter = types.Constant(np.float32(3), device="cpu") if parameter is None else parameter
            return fn.cat(data, fn.stack(parameter * 0 + np.float32(number), parameter))

        return augmentation(function, mag_range=None if number == 3 else (0, 30), randomly_negate=number % 2 == 0)

    found = run(lambda: rand_augment.apply_rand_augment([make(k) for k in range(5)], nothing_yet(), n=2, m=9), seed=42)
    assert [sample.tolist() for sample in found] == [
        [1, 9, 0, -9], [4, -9, 3, 3], [0, -9, 1, 9], [4, 9, 0, 9], [1, 9, 1, 9], [3, 3, 3, 3], [3, 3, 3, 3], [4, -9, 2, 9],
    ]  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------------- devices


def standard(name, images, shape):
    if name == "rand":
        return rand_augment.rand_augment(images, 2, 20, shape=shape)
    if name == "trivial":
        return trivial_augment.trivial_augment_wide(images, shape=shape, fill_value=None)
    return auto_augment.auto_augment(images, name, shape=None if name.startswith("reduced_i") else shape)


NAMES = ("rand", "trivial", "image_net", "svhn", "reduced_cifar10", "reduced_image_net")


def augmented(name, frames, gpu, **options):
    data = pictures(8, frames)

    def body():
        images = fn.external_source(lambda: data, layout="FHWC" if frames else "HWC")
        shape = fn.shapes(images)
        return standard(name, images.gpu() if gpu else images, shape[1:] if frames else shape)

    return run(body, batch_size=8, iterations=2, **options)


def assert_equal(one, other):
    for x, y in zip(one, other, strict=True):
        assert x.dtype == y.dtype
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("frames", [0, 2])
@pytest.mark.parametrize("name", NAMES)
def test_conditionals_and_the_host_device_change_nothing(name, frames):
    plain = augmented(name, frames, gpu=False)
    assert_equal(plain, augmented(name, frames, gpu=False, enable_conditionals=True))
    assert_equal(plain, augmented(name, frames, gpu=True))


@pytest.mark.skipif(kernels.COMPILER is None, reason="no C++ compiler to build kernels for the host")
@pytest.mark.parametrize("frames", [0, 2])
@pytest.mark.parametrize("name", NAMES)
def test_kernels(name, frames):
    """CUDA kernels may round the last bit differently. An operation with a threshold enlarges such a difference."""
    for x, y in zip(augmented(name, frames, gpu=False), augmented(name, frames, gpu=True, device_id=0), strict=True):
        assert x.shape == y.shape
        assert np.mean(np.abs(x.astype(int) - y.astype(int)) > 1) < 0.01


@pytest.mark.parametrize("name", NAMES)
def test_debug_mode(name):
    """With explicit seeds, debug mode draws the same numbers as a graph."""
    data = pictures(8)

    def body():
        images = fn.external_source(lambda: data, layout="HWC")
        if name == "rand":
            return rand_augment.rand_augment(images, 2, 20, seed=7)
        if name == "trivial":
            return trivial_augment.trivial_augment_wide(images, seed=7)
        return auto_augment.auto_augment(images, name, seed=7)

    assert_equal(run(body, iterations=3), run(body, iterations=3, debug=True))


def test_stored_pipelines_and_checkpoints():
    from asyncdali import Pipeline

    def body():
        numbers = fn.random.uniform(range=[0, 255], shape=[9, 8, 3], dtype=types.UINT8)
        return standard("rand", fn.reshape(numbers, layout="HWC"), fn.shapes(numbers))

    make = pipeline_def(body)
    options = {"batch_size": 6, "num_threads": 1, "device_id": None, "seed": 4, "enable_checkpointing": True}
    one = make(**options)
    expected = [[np.array(x) for x in one.run()[0]] for _ in range(4)]
    stored = Pipeline.deserialize(make(**options).serialize())
    assert_equal(expected[0], [np.array(x) for x in stored.run()[0]])
    two = make(**options)
    two.run()
    two.run()
    three = make(**options, checkpoint=two.checkpoint())
    assert_equal(expected[2], [np.array(x) for x in three.run()[0]])


# ------------------------------------------------------------------------------------------------------- the decorator's objects


def test_conditions_in_augmentations_of_the_user():
    @augmentation(mag_range=(0, 10))
    def dims_bright_ones(data, parameter):
        if data[0, 0, 0] > 100:
            data = data - np.uint8(100)
        return data

    values = np.arange(8, dtype=np.uint8) * 30

    def body():
        images = fn.external_source(lambda: [np.full((2, 2, 3), v, np.uint8) for v in values], layout="HWC")
        return rand_augment.apply_rand_augment([dims_bright_ones, a.identity], images, 1, 3)

    ops = [int(op[0] >= 7) for op in RAND_OPS]  # the words of the error
    for enabled in (True, False):
        found = run(body, seed=42, enable_conditionals=enabled)
        for value, op, sample in zip(values, ops, found, strict=True):
            assert sample[0, 0, 0] == (value - 100 if op == 0 and value > 100 else value)


def noting(calls):
    def parameter(magnitude):
        calls.append((type(magnitude), float(magnitude)))
        return magnitude

    return parameter


def node():
    return fn.random.uniform(values=[0, 1], dtype=types.INT32)


@pytest.mark.parametrize(("signed", "bin", "expected"), [
    (False, lambda: 1, [5]),
    (True, lambda: signed_bin(1), [5, -5]),
    (False, node, [0, 5, 10]),
    (True, lambda: signed_bin(node()), [0, 0, 5, -5, 10, -10]),
])  # fmt: skip
def test_parameters_are_computed_from_magnitudes_once_per_bin(signed, bin, expected):
    calls = []
    made = augmentation(lambda data, p: p, mag_range=(0, 10), randomly_negate=signed, mag_to_param=noting(calls))
    run(lambda: made(zeros(), magnitude_bin=bin(), num_magnitude_bins=3))
    assert [value for _, value in calls] == expected
    assert {kind for kind, _ in calls} == {np.float32}


@pytest.mark.parametrize(("parameter", "dtype", "values"), [
    (float, np.float32, 5), (int, np.int32, 5), (lambda m: [m, 0], np.float32, [5, 0]), (lambda m: (int(m), 1), np.int32, [5, 1]),
    (lambda m: np.array([m, 1.5]), np.float32, [5, 1.5]), (lambda m: m > 0, np.bool_, True), (lambda m: np.uint8(m), np.uint8, 5),
    (np.int64, np.int32, 5),
])  # fmt: skip
def test_types_of_parameters(parameter, dtype, values):
    made = augmentation(lambda data, p: p, mag_range=(0, 10), mag_to_param=parameter)
    for bin in (1, lambda: fn.random.uniform(values=[1], dtype=types.INT32)):
        found = run(lambda bin=bin: made(zeros(), magnitude_bin=bin() if callable(bin) else bin, num_magnitude_bins=3))
        assert found[0].dtype == dtype
        assert found[0].tolist() == values


def test_the_device_of_the_parameter():
    for device, expected in (("cpu", "cpu"), ("gpu", "gpu"), ("auto", "gpu"), (None, "cpu")):
        seen = []

        @augmentation(mag_range=(0, 10), param_device=device)
        def look(data, parameter, seen=seen):
            seen.append(parameter.device)
            return data

        run(lambda look=look: look(zeros().gpu(), magnitude_bin=node(), num_magnitude_bins=3))
        assert seen == [expected]
    with pytest.raises(RuntimeError, match="tpu"):
        run(lambda: augmentation(lambda data, p: p, mag_range=(0, 1), param_device="tpu")(zeros(), magnitude_bin=1, num_magnitude_bins=3))


def test_properties_and_copies():
    def named(data, parameter):
        return data

    made = augmentation(named, mag_range=(0, 10))
    assert (made.op, made.mag_range, made.randomly_negate, made.param_device, made.name) == (named, (0, 10), False, "cpu", "named")
    assert made.mag_to_param(np.float32(2)).dtype == np.float32
    assert repr(made) == f"Augmentation({named!r}, mag_range=(0, 10))"
    copy = made.augmentation((1, 2), True, a.warp_x_param, "gpu", "other")
    assert (copy.mag_range, copy.randomly_negate, copy.mag_to_param, copy.param_device) == ((1, 2), True, a.warp_x_param, "gpu")
    assert copy.name == "other"
    again = copy.augmentation(mag_range=None, name=None)
    assert (again.mag_range, again.name, again.randomly_negate) == (None, "named", True)
    with pytest.raises(AttributeError):
        made.op = named

    class Own(type(made)):
        pass

    assert type(made.augmentation(augmentation_cls=Own)) is Own
    assert type(augmentation(named, augmentation_cls=Own).augmentation(name="x")) is Own


@pytest.mark.parametrize(("function", "text"), [
    (3, "decorates a function"), (lambda x: x, "takes 1 positional argument"), (lambda x, *, p: x, "takes 1 positional"),
    (lambda x, *p: x, "takes 1 positional"), (a.rotate, "already"),
])  # fmt: skip
def test_objects_that_cannot_be_decorated(function, text):
    with pytest.raises(TypeError, match=text):
        augmentation(function)


def test_named_arguments():
    seen = []

    @augmentation
    def takes(data, parameter, first, *rest, second=2, **others):
        seen.append((first, rest, second, others))
        return data

    run(lambda: takes(zeros(), first=1, second=5, third=6))
    assert seen == [(1, (), 5, {})]
    with pytest.raises(MissingArgException, match="first") as error:
        run(lambda: takes(zeros(), second=5))
    assert (error.value.augmentation, error.value.missing_args) == (takes, ["first"])
    with pytest.raises(TypeError):
        takes(None, 3, first=1)


@pytest.mark.parametrize(("settings", "call", "kind", "text"), [
    ({"mag_range": (0, 1)}, {}, ValueError, "needs magnitude_bin"),
    ({"mag_range": (0, 1)}, {"magnitude_bin": 1}, ValueError, "needs num_magnitude_bins"),
    ({"mag_range": (0, 1)}, {"num_magnitude_bins": 3}, ValueError, "needs magnitude_bin"),
    ({"mag_range": (0, 1)}, {"magnitude_bin": 1.0, "num_magnitude_bins": 3}, TypeError, "must be an int"),
    ({"mag_range": (0, 1)}, {"magnitude_bin": 3, "num_magnitude_bins": 3}, IndexError, "out of range"),
    ({"mag_range": (0, 1, 2)}, {"magnitude_bin": 1, "num_magnitude_bins": 3}, ValueError, "must be a pair"),
    ({"mag_range": np.arange(4)}, {"magnitude_bin": 1, "num_magnitude_bins": 3}, ValueError, "array of 4 magnitudes"),
    ({"mag_range": (0, 3), "mag_to_param": lambda m: [1] * int(m)}, {"magnitude_bin": node, "num_magnitude_bins": 4}, ValueError, "shape"),
    ({"mag_range": (0, 3), "mag_to_param": lambda m: zeros()}, {"magnitude_bin": 1, "num_magnitude_bins": 4}, TypeError, "DataNode"),
    ({"mag_range": (0, 3), "mag_to_param": lambda m: None}, {"magnitude_bin": 1, "num_magnitude_bins": 4}, TypeError, "must return"),
    ({"mag_range": (0, 3), "mag_to_param": lambda m: "a"}, {"magnitude_bin": 1, "num_magnitude_bins": 4}, TypeError, "must return"),
])  # fmt: skip
def test_calls_that_do_not_fit(settings, call, kind, text):
    made = augmentation(lambda data, p: data, **settings)

    def body():
        given = {**call, **({"magnitude_bin": node()} if call.get("magnitude_bin") is node else {})}
        return made(zeros(), **given)

    with pytest.raises(kind, match=text):
        run(body)


def test_arrays_of_magnitudes():
    made = augmentation(lambda data, p: p, mag_range=np.array([5, 6, 8]))
    assert run(lambda: made(zeros(), magnitude_bin=2))[0] == 8
    assert run(lambda: made(zeros(), magnitude_bin=-3, num_magnitude_bins=3))[0] == 5


def test_signed_bins():
    made = augmentation(lambda data, p: p, mag_range=(0, 10), randomly_negate=True)
    unsigned = made.augmentation(randomly_negate=False)
    assert run(lambda: made(zeros(), magnitude_bin=signed_bin(3, random_sign=1), num_magnitude_bins=11))[0] == -3
    assert run(lambda: unsigned(zeros(), magnitude_bin=signed_bin(3, random_sign=1), num_magnitude_bins=11))[0] == 3
    with pytest.warns(Warning, match="a sign of its own"):
        own = run(lambda: made(zeros(), magnitude_bin=3, num_magnitude_bins=11))
    drawn = run(lambda: made(zeros(), magnitude_bin=signed_bin(3), num_magnitude_bins=11))
    assert_equal(own, drawn)
    assert {float(x) for x in drawn} == {3.0, -3.0}
    vector = run(lambda: signed_bin(3, shape=(2,), seed=1).signed_magnitude_idx)
    second = run(lambda: signed_bin(3, shape=(2,), seed=1)[1].signed_magnitude_idx)
    assert [x[1] for x in vector] == [int(x) for x in second]
    with pytest.raises(ValueError, match="random_sign"):
        signed_bin(3, random_sign=1, seed=3)
    with pytest.raises(TypeError, match="magnitude_bin"):
        signed_bin(3.5)


# ----------------------------------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(("given", "text"), [
    ({"n": 1.0, "m": 3}, "n, the number"), ({"n": -1, "m": 3}, "n, the number"), ({"n": 1, "m": 31}, "m, the magnitude bin"),
    ({"n": 1, "m": 3.0}, "m, the magnitude bin"), ({"n": 1, "m": 3, "num_magnitude_bins": 0}, "num_magnitude_bins"),
    ({"n": 1, "m": 3, "excluded": ["foo"]}, "excluded names 'foo'"), ({"n": 1, "m": 3, "max_translate_abs": (1, 2, 3)}, "pair"),
    ({"n": 1, "m": 3, "max_translate_rel": 0.2}, "needs shapes"),
    ({"n": 1, "m": 3, "max_translate_abs": 2, "shape": np.array([2, 2])}, "cannot be used together with shapes"),
])  # fmt: skip
def test_arguments_of_rand_augment(given, text):
    with pytest.raises(ValueError, match=text):
        run(lambda: rand_augment.rand_augment(zeros(), **given))


def test_arguments_of_the_other_algorithms():
    with pytest.warns(Warning, match="n=0"):
        assert run(lambda: rand_augment.rand_augment(zeros(), 0, 3))[0].shape == (2, 2, 3)
    for call in (lambda: rand_augment.apply_rand_augment([], zeros(), 1, 2), lambda: trivial_augment.apply_trivial_augment([], zeros())):
        with pytest.raises(ValueError, match="empty list"):
            run(call)
    with pytest.raises(UnusedArgException, match="foo") as error:
        run(lambda: trivial_augment.apply_trivial_augment([a.rotate], zeros(), foo=3))
    assert error.value.unused_args == ["foo"]
    with pytest.raises(MissingArgException, match=r"apply_rand_augment.*translate_x.*shape"):
        run(lambda: rand_augment.apply_rand_augment([a.translate_x, a.invert], zeros(), 1, 2))
    with pytest.raises(ValueError, match="policy_name must be one of"):
        run(lambda: auto_augment.auto_augment(zeros(), "foo"))
    with pytest.raises(ValueError, match="has no translations: max_translate_abs"):
        run(lambda: auto_augment.auto_augment(zeros(), "reduced_image_net", max_translate_abs=3))
    with pytest.raises(TypeError, match="use_shape"):
        auto_augment.get_image_net_policy(use_shape=1)
    with pytest.raises(TypeError, match="Policy"):
        run(lambda: auto_augment.apply_auto_augment(3, zeros()))
    with pytest.raises(ValueError, match="has none"):
        run(lambda: auto_augment.apply_auto_augment(Policy("empty", 11, []), zeros()))
    with pytest.raises(TypeError, match="seed"):
        run(lambda: rand_augment.rand_augment(zeros(), 1, 2, seed=node()))


def test_defaults_of_a_suite_that_does_not_warp():
    """The suite has no operation that uses `max_translate_abs`. A default value of an argument does not count as unused."""
    warping = ["shear_x", "shear_y", "translate_x", "translate_y", "rotate"]
    assert len(run(lambda: rand_augment.rand_augment(zeros(), 2, 3, excluded=warping))) == 8


@pytest.mark.parametrize(("bins", "subs", "text"), [
    (0, [], "num_magnitude_bins"), (1.5, [], "num_magnitude_bins"), (11, None, "sub_policies"), (11, [[(a.rotate, 0.5)]], "triple"),
    (11, [[(3, 0.5, 1)]], "not an augmentation"), (11, [[(a.rotate, 1.5, 1)]], "probability"), (11, [[(a.rotate, "a", 1)]], "probability"),
    (11, [[(a.rotate, 0.5, None)]], "needs a magnitude bin"), (11, [[(a.rotate, 0.5, 11)]], r"in \[0, 10\]"),
    (11, [[(a.invert, 0.5, 13)]], r"in \[0, 10\]"), (11, [3], "list or tuple"),
])  # fmt: skip
def test_policies_that_do_not_fit(bins, subs, text):
    with pytest.raises((ValueError, TypeError), match=text):
        Policy("p", bins, subs)


def test_policies():
    with pytest.warns(UserWarning, match="probability is 0"):
        Policy("p", 11, [[(a.rotate, 0, 1)]])
    with pytest.warns(UserWarning, match="magnitude bin 3 is ignored"):
        Policy("p", 11, [[(a.invert, 0.5, 3)]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        policy = Policy("p", 11, [[(a.rotate, 0.5, 3), (a.invert, 1, None)], [], [(a.rotate, 0.2, 1)]])
    assert list(policy.augmentations) == ["invert", "rotate"]
    assert policy.augmentations["rotate"] is a.rotate
    twins = [augmentation(lambda data, p: data, name="same") for _ in range(11)]
    renamed = Policy("p", 11, [[(twin, 0.5, None)] for twin in [*twins, twins[2]]])
    assert [sub[0][0].name for sub in renamed.sub_policies] == [*(f"{k:02}__same" for k in range(11)), "02__same"]


def test_select_applies_the_operation_of_a_number():
    assert run(lambda: select([a.invert, a.identity], 0, zeros()))[0][0, 0, 0] == 255
