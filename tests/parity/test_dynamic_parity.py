"""Dynamic mode beside DALI's: data from Python, indices, arithmetic, texts, operators on tensors and batches.

DALI reads the source of a calling line to find constants, so calls of operators are written out.
"""

from __future__ import annotations

import inspect
import itertools
import operator
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from helpers.images import encode, picture

import asyncdali.dynamic as ours
from asyncdali.imperative.surface import SUBMODULES

theirs = pytest.importorskip("nvidia.dali.experimental.dynamic")
backend = pytest.importorskip("nvidia.dali.backend")

RNG = np.random.default_rng(1)
PICTURES = [RNG.integers(0, 256, shape).astype(np.uint8) for shape in ((11, 9, 3), (7, 12, 3))]
MATRICES = [RNG.standard_normal(shape).astype(np.float32) for shape in ((4, 5), (3, 4))]
SOUND = [RNG.standard_normal(count).astype(np.float32) for count in (2000, 1500)]
ENCODED = [np.frombuffer(encode(picture(40, 30), "PNG"), np.uint8), np.frombuffer(encode(picture(25, 50), "PNG"), np.uint8)]
BOXES = [np.array([[0.1, 0.2, 0.5, 0.6], [0.3, 0.3, 0.9, 0.8]], np.float32), np.array([[0.2, 0.2, 0.4, 0.9]], np.float32)]
KINDS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64", "bool")


def facts(value: Any) -> Any:
    """Type, shape, layout and values of a result."""
    if isinstance(value, (tuple, list)):
        return [facts(item) for item in value]
    arrays = [np.asarray(item) for item in value.tensors] if type(value).__name__ == "Batch" else [np.asarray(value)]
    return type(value).__name__, str(value.dtype), value.shape, value.layout, arrays


def outcome(call: Callable[[Any], Any], module: Any) -> Any:
    try:
        return facts(call(module))
    except Exception as error:
        while error.__cause__ is not None:
            error = error.__cause__  # type: ignore[assignment]
        return error


def check(call: Callable[[Any], Any], what: object, tolerance: float = 0) -> None:
    """The same result, or an error of DALI's class."""
    expected, found = outcome(call, theirs), outcome(call, ours)
    if isinstance(expected, Exception):
        assert isinstance(found, type(expected)), (what, expected, found)
        return
    assert not isinstance(found, Exception), (what, found)
    same(expected, found, what, tolerance)


def same(expected: Any, found: Any, what: object, tolerance: float, relative: float = 1e-5) -> None:
    if isinstance(expected, list):
        assert len(expected) == len(found), what
        for left, right in zip(expected, found, strict=True):
            same(left, right, what, tolerance, relative)
        return
    assert expected[:4] == found[:4], what
    for left, right in zip(expected[4], found[4], strict=True):
        if left.dtype.kind == "f":
            np.testing.assert_allclose(right, left, rtol=relative, atol=max(relative / 10, tolerance), err_msg=str(what))
        else:
            assert np.abs(left.astype(np.float64) - right).max(initial=0) <= tolerance, what


def test_data_of_python() -> None:
    data = [
        3, True, 1.5, [1, 2], [], [[1, 2], [3, 4]], [1, 2.5], [True, 2], 2**31, [2**31], 2**32, np.float64(1.5), np.array([1], np.int16),
        [np.uint8(5)], [np.float64(1.5)], [np.array([1, 2], np.uint16)], "abc", b"abc", None, [[1], [1, 2]], np.array([1j]),
        np.zeros(2, "M8[s]"), range(3), np.zeros((0, 3)), 1e300,
    ]  # fmt: skip
    for item in data:
        for name in ("tensor", "as_tensor"):
            check(lambda ndd: getattr(ndd, name)(item), item)  # noqa: B023
        if not isinstance(item, (str, bytes)):
            check(lambda ndd: ndd.batch([item]) if item is not None else ndd.batch([]), item)  # noqa: B023


def test_indices() -> None:
    rng = random.Random(2)
    for _ in range(80):
        shape = rng.choice([(5,), (4, 6), (3, 4, 5)])
        array = np.arange(np.prod(shape)).reshape(shape)
        key: list[Any] = []
        for extent in shape[: rng.randint(1, len(shape))]:
            low, high = sorted(rng.choices(range(extent + 1), k=2))
            stepped = slice(None, None, rng.choice([1, -1, 2, 3]))
            key.append(rng.choice([rng.randint(-extent, extent - 1), slice(low, high), stepped, slice(low, None)]))
        layout = rng.choice([None, "ABC"[: len(shape)]])
        check(lambda ndd: ndd.tensor(array, layout=layout)[tuple(key)], (shape, key))  # noqa: B023
        check(lambda ndd: ndd.batch([array, array], layout=layout).slice[tuple(key)], (shape, key))  # noqa: B023


def test_arithmetic() -> None:
    operations: list[Callable[[Any, Any], Any]] = [
        lambda a, b: a - b, lambda a, b: a / b, lambda a, b: a % b, lambda a, b: a & b,
    ]  # fmt: skip
    for (left, right), (number, operation) in itertools.product(itertools.product(KINDS, KINDS), enumerate(operations)):
        check(
            lambda ndd: operation(  # noqa: B023
                ndd.tensor([1, 2, 5, 7], dtype=getattr(ndd, left)), ndd.tensor([3, 1, 2, 1], dtype=getattr(ndd, right))  # noqa: B023
            ),
            (left, right, number),
        )
    for kind, number in itertools.product(KINDS, (2, True, 1.5, -1)):
        check(lambda ndd: ndd.batch([[1, 2], [5]], dtype=getattr(ndd, kind)) * number, (kind, number))  # noqa: B023


def test_texts() -> None:
    rng = random.Random(4)
    for _ in range(60):
        ndim, count = rng.randint(0, 4), rng.choice([1, 2, 5, 6, 8, 12, 16, 17, 30])
        shapes = [tuple(rng.randint(1, 5) for _ in range(ndim)) for _ in range(count)]
        arrays = [np.arange(np.prod(shape, dtype=int)).reshape(shape) for shape in shapes]
        assert repr(ours.batch(arrays)) == repr(theirs.batch(arrays)), shapes
        assert repr(ours.tensor(arrays[0])) == repr(theirs.tensor(arrays[0])), shapes


CALLS: dict[str, tuple[Callable[[Any, Any], Any], list[np.ndarray], float]] = {
    "cast": (lambda ndd, x: ndd.cast(x, dtype=ndd.int16), PICTURES, 0),
    "flip": (lambda ndd, x: ndd.flip(x, horizontal=0, vertical=1), PICTURES, 0),
    "crop": (lambda ndd, x: ndd.crop(x, crop=(4, 5), crop_pos_x=0.3), PICTURES, 0),
    "resize": (lambda ndd, x: ndd.resize(x, size=[5, 6]), PICTURES, 1),
    "rotate": (lambda ndd, x: ndd.rotate(x, angle=20.0), PICTURES, 1),
    "slice": (lambda ndd, x: ndd.slice(x, start=[1, 1], end=[4, 4]), PICTURES, 0),
    "pad": (lambda ndd, x: ndd.pad(x, fill_value=3, axes=[0], align=[4]), PICTURES, 0),
    "transpose": (lambda ndd, x: ndd.transpose(x, perm=[2, 0, 1]), PICTURES, 0),
    "crop_mirror_normalize": (lambda ndd, x: ndd.crop_mirror_normalize(x, crop=(4, 5), mean=[1.0, 2.0, 3.0], mirror=1), PICTURES, 1e-4),
    "color_twist": (lambda ndd, x: ndd.color_twist(x, hue=10.0, brightness=1.1, contrast=0.9, saturation=0.8), PICTURES, 1),
    "gaussian_blur": (lambda ndd, x: ndd.gaussian_blur(x, window_size=3), PICTURES, 1),
    "warp_affine": (lambda ndd, x: ndd.warp_affine(x, matrix=[1.0, 0.0, 2.0, 0.0, 1.0, 1.0]), PICTURES, 1),
    "too large crop": (lambda ndd, x: ndd.crop(x, crop=(90, 9)).evaluate(), PICTURES, 0),
    "no such argument": (lambda ndd, x: ndd.flip(x, sideways=1), PICTURES, 0),
    "wrong rank": (lambda ndd, x: ndd.flip(x).evaluate(), MATRICES, 0),
    "sum": (lambda ndd, x: ndd.reductions.sum(x, axes=[0]), MATRICES, 1e-5),
    "mean": (lambda ndd, x: ndd.reductions.mean(x), MATRICES, 1e-5),
    "normalize": (lambda ndd, x: ndd.normalize(x), MATRICES, 1e-5),
    "cat": (lambda ndd, x: ndd.cat(x, x, axis=1), MATRICES, 0),
    "stack": (lambda ndd, x: ndd.stack(x, x), MATRICES, 0),
    "reshape": (lambda ndd, x: ndd.reshape(x, shape=[-1], layout="X"), MATRICES, 0),
    "spectrogram": (lambda ndd, x: ndd.spectrogram(x, nfft=64, window_length=50, window_step=25), SOUND, 1e-3),
    "bb_flip": (lambda ndd, x: ndd.bb_flip(x, ltrb=True), BOXES, 0),
    "random.uniform": (lambda ndd, x: ndd.random.uniform(x, range=[0.0, 2.0], rng=ndd.random.RNG(11)), MATRICES, 0),
    "noise.gaussian": (lambda ndd, x: ndd.noise.gaussian(x, stddev=20.0, rng=ndd.random.RNG(11)), PICTURES, 1),
    "random_resized_crop": (lambda ndd, x: ndd.random_resized_crop(x, size=[5, 5], rng=ndd.random.RNG(11)), PICTURES, 1),
    "random_bbox_crop": (lambda ndd, x: ndd.random_bbox_crop(x, total_num_attempts=9, rng=ndd.random.RNG(3)), BOXES, 1e-6),
}


@pytest.mark.parametrize("name", CALLS)
def test_operators(name: str) -> None:
    call, arrays, tolerance = CALLS[name]
    for _ in range(3):  # planned, made into a template, copied
        check(lambda ndd: call(ndd, ndd.tensor(arrays[0])), name, tolerance)
        check(lambda ndd: call(ndd, ndd.batch(arrays)), name, tolerance)


MASKS = [RNG.integers(0, 3, shape).astype(np.int32) for shape in ((8, 9), (6, 5))]
SHAPES = [np.array([9, 8]), np.array([20, 30])]
DRAWS: dict[str, tuple[Callable[[Any, Any, Any], Any], list[np.ndarray] | None, float]] = {
    "batch_permutation": (lambda ndd, x, rng: ndd.batch_permutation(batch_size=7, rng=rng), None, 0),
    "decoders.image_random_crop": (lambda ndd, x, rng: ndd.decoders.image_random_crop(x, rng=rng), ENCODED, 0),
    "experimental.decoders.image_random_crop": (
        lambda ndd, x, rng: ndd.experimental.decoders.image_random_crop(x, rng=rng), ENCODED, 0
    ),
    "noise.gaussian": (lambda ndd, x, rng: ndd.noise.gaussian(x, stddev=20.0, rng=rng), PICTURES, 0),
    "noise.salt_and_pepper": (lambda ndd, x, rng: ndd.noise.salt_and_pepper(x, prob=0.3, rng=rng), PICTURES, 0),
    "noise.shot": (lambda ndd, x, rng: ndd.noise.shot(x, factor=3.0, rng=rng), PICTURES, 0),
    "random.beta": (lambda ndd, x, rng: ndd.random.beta(alpha=2.0, beta=0.5, shape=[4], batch_size=5, rng=rng), None, 0),
    "random.choice": (lambda ndd, x, rng: ndd.random.choice(10, shape=[4], batch_size=5, rng=rng), None, 0),
    "random.coin_flip": (lambda ndd, x, rng: ndd.random.coin_flip(probability=0.3, shape=[9], batch_size=5, rng=rng), None, 0),
    "random.normal": (lambda ndd, x, rng: ndd.random.normal(mean=1.0, stddev=2.0, shape=[9], batch_size=5, rng=rng), None, 0),
    "random.uniform": (lambda ndd, x, rng: ndd.random.uniform(values=[0.0, 2.0, 3.0], shape=[9], batch_size=5, rng=rng), None, 0),
    "random_bbox_crop": (lambda ndd, x, rng: ndd.random_bbox_crop(x, total_num_attempts=9, rng=rng), BOXES, 0),
    "random_crop_generator": (lambda ndd, x, rng: ndd.random_crop_generator(x, rng=rng), SHAPES, 0),
    "random_resized_crop": (lambda ndd, x, rng: ndd.random_resized_crop(x, size=[5, 5], rng=rng), PICTURES, 1),
    "roi_random_crop": (
        lambda ndd, x, rng: ndd.roi_random_crop(crop_shape=[3, 3], roi_start=[1, 1], roi_end=[6, 7], batch_size=4, rng=rng), None, 0
    ),
    "segmentation.random_mask_pixel": (lambda ndd, x, rng: ndd.segmentation.random_mask_pixel(x, foreground=1, rng=rng), MASKS, 0),
    "segmentation.random_object_bbox": (lambda ndd, x, rng: ndd.segmentation.random_object_bbox(x, rng=rng), MASKS, 0),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", DRAWS)
def test_draws(name: str) -> None:
    """Equal words give equal values, bit for bit: with a batch, again, and with one sample. A resize rounds otherwise."""
    call, arrays, tolerance = DRAWS[name]
    generators = {id(ndd): ndd.random.RNG(11) for ndd in (ours, theirs)}
    for _ in range(3):
        for data in ([arrays, arrays[0]] if arrays else [None]):
            found = []
            for ndd in (theirs, ours):
                value = data if data is None else ndd.batch(data) if isinstance(data, list) else ndd.tensor(data)
                found.append(facts(call(ndd, value, generators[id(ndd)])))
            same(*found, name, tolerance, relative=0)
    assert str(generators[id(ours)].state) == str(generators[id(theirs)].state)


def test_every_random_operator_is_compared() -> None:
    """But for operators that DALI has on a GPU only."""
    taking, on_cpu = set(), backend.RegisteredCPUOps()
    for path in ("", *SUBMODULES):
        module = operator.attrgetter(path)(ours) if path else ours
        for name in dir(module):
            if hasattr(made := getattr(module, name), "schema") and "rng" in inspect.signature(made).parameters:
                full = [*filter(None, path.split("."))]
                if "__".join([*full, made.schema.class_name]) in on_cpu:
                    taking.add(".".join([*full, name]))
    assert taking == set(DRAWS)


def test_generators() -> None:
    for seed in (0, 5, -1, 2**64 + 5):
        mine, reference = ours.random.RNG(seed), theirs.random.RNG(seed)
        assert [mine() for _ in range(9)] == [reference() for _ in range(9)] and str(mine.state) == str(reference.state)
