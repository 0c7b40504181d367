"""Per-frame arguments (``fn.per_frame``, layouts that begin with F) and coord_transform beside DALI's."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

import asyncdali
import asyncdali.fn
import asyncdali.types

dali = pytest.importorskip("nvidia.dali", reason="DALI is not installed")
for _name in ("fn", "types"):
    importlib.import_module(f"nvidia.dali.{_name}")

F32 = np.float32
CASES = 25


class Call:
    """A call of an operator.

    inputs: (samples, layout) of each input.
    arguments: (samples, form) of each argument input; the form is None, "F" (a layout) or "per_frame".
    constants: constant arguments.
    """

    def __init__(self, name, inputs, arguments, **constants):
        self.name, self.inputs, self.arguments, self.constants = name, inputs, arguments, constants

    def run(self, library):
        """(layout, samples) of the output."""
        fn = library.fn
        given = [samples for samples, _ in (*self.inputs, *self.arguments.values())]
        pipe = library.Pipeline(batch_size=len(given[0]), num_threads=2, device_id=None)

        def fed(samples, layout=None):
            return fn.external_source(lambda: samples, batch=True, layout=layout or None)

        with pipe:
            function = fn
            for part in self.name.split("."):
                function = getattr(function, part)
            named = {}
            for key, (samples, how) in self.arguments.items():
                named[key] = fn.per_frame(fed(samples)) if how == "per_frame" else fed(samples, how)
            constants = {key: library.types.DALIDataType(int(value)) if key == "dtype" else value for key, value in self.constants.items()}
            pipe.set_outputs(function(*(fed(*item) for item in self.inputs), **named, **constants))
        pipe.build()
        (output,) = pipe.run()
        return output.layout(), [np.array(output.at(k)) for k in range(len(output))]

    def __repr__(self):
        inputs = [(layout, [sample.shape for sample in samples]) for samples, layout in self.inputs]
        arguments = {key: (how, [np.shape(value) for value in samples]) for key, (samples, how) in self.arguments.items()}
        return f"{self.name} {inputs} {arguments} {self.constants}"


def numbers(rng, frames, low, high, shape=(), dtype=F32):
    """Numbers of an argument: one per frame, one per sample, or one for a sequence of one frame."""
    kind = rng.integers(4)
    counts = [1] * len(frames) if kind == 2 else frames
    if kind == 3:
        return [rng.uniform(low, high, shape).astype(dtype) for _ in frames], None
    return [rng.uniform(low, high, (count, *shape)).astype(dtype) for count in counts], ("F" + "X" * len(shape), "per_frame")[kind % 2]


COLORS = {
    "brightness": {"brightness": (-0.5, 2), "brightness_shift": (-0.5, 0.5)},
    "contrast": {"contrast": (-0.5, 2), "contrast_center": (-1, 300)},
    "brightness_contrast": {"brightness": (0, 2), "contrast": (0, 2)},
    "hue": {"hue": (-720, 720)},
    "saturation": {"saturation": (-0.5, 2)},
    "hsv": {"hue": (-720, 720), "saturation": (0, 2), "value": (0, 2)},
    "color_twist": {"hue": (-720, 720), "saturation": (0, 2), "brightness": (0, 2), "contrast": (0, 2)},
}


def video(rng, channels=3, high=20):
    frames = rng.integers(1, 5, rng.integers(1, 4)).tolist()
    return frames, [rng.integers(0, 256, (count, *rng.integers(3, high, 2), channels), np.uint8) for count in frames]


def color(rng):
    name = str(rng.choice(list(COLORS)))
    frames, samples = video(rng)
    arguments = {key: numbers(rng, frames, *bounds) for key, bounds in COLORS[name].items()}
    return Call(name, [(samples, str(rng.choice(["FHWC", ""])))], arguments)


def rotated(rng):
    frames, samples = video(rng)
    angle = [rng.choice([0, 3, 45, 90, 91, 180, 203], count).astype(F32) for count in frames]
    constants = {"fill_value": 7.0} if rng.random() < 0.5 else {}
    if rng.random() < 0.3:
        constants["keep_size"] = True
    return Call("rotate", [(samples, "FHWC")], {"angle": (angle, "per_frame")}, **constants)


def warped(rng):
    frames, samples = video(rng)
    matrices = [rng.uniform(-0.3, 1, (count, 2, 3)).astype(F32) for count in frames]
    images = [sample[0] for sample in samples]
    kind = rng.integers(4)
    inputs = [(samples, "FHWC")] if kind < 3 else [(images, "HWC")]
    if kind == 0:
        return Call("warp_affine", inputs, {"matrix": (matrices, "per_frame")}, fill_value=3.0)
    if kind == 1:
        return Call("warp_affine", [*inputs, ([matrix[0] for matrix in matrices], "")], {}, fill_value=3.0)
    size = [10.0, 7.0]
    return Call("warp_affine", [*inputs, (matrices, "F**")], {}, fill_value=3.0, inverse_map=False, size=size)


def transform(rng):
    frames = rng.integers(1, 5, rng.integers(1, 4)).tolist()
    name = str(rng.choice(["rotation", "scale", "translation", "shear", "crop"]))
    arguments = {
        "rotation": lambda: {"angle": numbers(rng, frames, -200, 200)},
        "scale": lambda: {"scale": numbers(rng, frames, 0.5, 2, (2,))},
        "translation": lambda: {"offset": numbers(rng, frames, -9, 9, (2,))},
        "shear": lambda: {"shear": numbers(rng, frames, -1, 1, (2,))},
        "crop": lambda: {"from_start": numbers(rng, frames, 0, 0.4, (2,)), "to_end": numbers(rng, frames, 0.5, 1, (2,))},
    }[name]()
    shapes = {np.shape(value)[:1] if how else () for samples, how in arguments.values() for value in samples}
    if rng.random() < 0.5 or len(shapes) > 1:  # DALI repeats a single frame only if an input gives the number of frames.
        before = [rng.uniform(-1, 1, (count, 2, 3)).astype(F32) for count in frames]
        return Call(f"transforms.{name}", [(before, "F**")], arguments)
    return Call(f"transforms.{name}", [], arguments)


def points(rng, sequences=True):
    frames = rng.integers(1, 5, rng.integers(1, 4)).tolist()
    columns, rows = rng.integers(1, 7, 2)
    dtype = rng.choice(["uint8", "uint16", "int16", "int32", "float32"])
    shape = (int(rng.integers(1, 9)), *([2] if rng.random() < 0.2 else []), columns)
    samples = [rng.uniform(-90 if dtype[0] != "u" else 0, 200, (count, *shape)).astype(dtype) for count in frames]
    layout = "F" + "*" * len(shape)
    if not sequences:
        samples, layout, frames = [sample[0] for sample in samples], "", [1] * len(frames)
    kind = rng.integers(4)

    def given(shape):
        made = numbers(rng, frames, -3, 3, shape)
        return made if sequences else ([rng.uniform(-3, 3, shape).astype(F32) for _ in frames], None)

    arguments = {}
    if kind == 0:
        arguments["MT"] = given((rows, columns + 1))
    if kind == 1:
        arguments["M"] = given((rows, columns))
        arguments["T"] = given((rows,))
    if kind == 2:
        arguments["M"] = given(())
    if kind == 3:
        arguments["T"] = given((columns,))
    constants = {"dtype": asyncdali.types.to_dali_type(np.dtype(dtype))} if rng.random() < 0.4 else {}
    return Call("coord_transform", [(samples, layout)], arguments, **constants)


def check(call, limit=0.0):
    """The outputs are equal. If `limit` is not 0, one element in a hundred may differ by more than `limit`."""
    ours, theirs = call.run(asyncdali), call.run(dali)
    assert ours[0] == theirs[0], call
    for mine, yours in zip(ours[1], theirs[1], strict=True):
        assert (mine.shape, mine.dtype) == (yours.shape, yours.dtype), call
        if limit:
            wrong = np.abs(mine.astype(float) - yours) > limit
            assert wrong.sum() <= 6 + 0.01 * wrong.size, (call, wrong.sum())
        else:
            np.testing.assert_array_equal(mine, yours, err_msg=str(call))


@pytest.mark.parametrize("kind, limit", [(color, 0), (rotated, 1.0), (warped, 1.0), (points, 0)])
def test_random_calls(kind, limit):
    rng = np.random.default_rng(11)
    for _ in range(CASES):
        check(kind(rng), limit)


def test_transforms():
    rng = np.random.default_rng(5)
    for _ in range(CASES):
        call = transform(rng)
        ours, theirs = call.run(asyncdali), call.run(dali)
        assert ours[0] == theirs[0], call
        for mine, yours in zip(ours[1], theirs[1], strict=True):
            np.testing.assert_allclose(mine, yours, rtol=2e-5, atol=2e-6, err_msg=str(call))


def test_coord_transform_of_single_samples():
    rng = np.random.default_rng(6)
    for _ in range(CASES):
        check(points(rng, sequences=False))


@pytest.mark.parametrize("constants", [
    {}, {"M": 2.0}, {"M": [1.0, 2.0, 3.0, 4.0]}, {"M": [1.0, 2.0]}, {"T": 3.0}, {"MT": 2.0}, {"MT": [1.0] * 9},
    {"M": [1.0] * 6, "T": [1.0, 2.0, 3.0]},
])  # fmt: skip
def test_constants_of_coord_transform(constants):
    samples = [np.random.default_rng(k).uniform(-9, 9, (5, 2)).astype(F32) for k in range(2)]
    check(Call("coord_transform", [(samples, "NX")], {}, **constants))


FRAMES = (4, 2)
VIDEO = [np.zeros((count, 6, 7, 3), np.uint8) for count in FRAMES]
IMAGES = [sample[0] for sample in VIDEO]
PER_FRAME = [np.ones(count, F32) for count in FRAMES]
TRANSFORMS = [np.ones((count, 2, 3), F32) for count in FRAMES]
POINTS = [np.zeros((3, 2), F32)] * 2
REFUSED = {
    "other number of frames": Call("brightness", [(VIDEO, "FHWC")], {"brightness": (PER_FRAME[::-1], "per_frame")}),
    "images": Call("brightness", [(IMAGES, "HWC")], {"brightness": (PER_FRAME, "per_frame")}),
    "volumes": Call("brightness", [(VIDEO, "DHWC")], {"brightness": (PER_FRAME, "per_frame")}),
    "not marked": Call("brightness", [(VIDEO, "FHWC")], {"brightness": (PER_FRAME, None)}),
    "no frames": Call("brightness", [([VIDEO[0], VIDEO[1][:0]], "FHWC")], {"brightness": ([PER_FRAME[0], PER_FRAME[1][:0]], "F")}),
    "rotated images": Call("rotate", [(IMAGES, "HWC")], {"angle": (PER_FRAME, "per_frame")}),
    "warped images": Call("warp_affine", [(IMAGES, "HWC")], {"matrix": (TRANSFORMS, "per_frame")}),
    "one transform as a sequence": Call("warp_affine", [(VIDEO, "FHWC"), ([matrix[:1] for matrix in TRANSFORMS], "F**")], {}),
    "transforms not marked": Call("transforms.combine", [(TRANSFORMS, ""), (TRANSFORMS, "")], {}),
    "centres of other numbers": Call("transforms.rotation", [], {
        "angle": (PER_FRAME, "F"), "center": ([np.ones((3, 2), F32)] * 2, "FX"),
    }),
    "crop": Call("crop", [(VIDEO, "FHWC")], {"crop_pos_x": (PER_FRAME, "per_frame")}, crop=[3, 3]),
    "flip": Call("flip", [(VIDEO, "FHWC")], {"horizontal": ([np.ones(count, np.int32) for count in FRAMES], "per_frame")}),
    "resize": Call("resize", [(VIDEO, "FHWC")], {"resize_x": (PER_FRAME, "per_frame")}),
    "matrix and both": Call("coord_transform", [(POINTS, "")], {}, M=2.0, MT=2.0),
    "no rows": Call("coord_transform", [(POINTS, "")], {}, M=[1.0] * 5),
    "offset of other length": Call("coord_transform", [(POINTS, "")], {}, T=[1.0] * 3),
    "matrix of one dimension": Call("coord_transform", [(POINTS, "")], {"M": ([np.ones(4, F32)] * 2, None)}),
    "single numbers": Call("coord_transform", [([np.zeros(2, F32)] * 2, "")], {}, M=2.0),
    "type": Call("coord_transform", [(POINTS, "")], {}, dtype=asyncdali.types.INT32),
    "input type": Call("coord_transform", [([np.zeros((3, 2))] * 2, "")], {}, M=2.0),
    "points of other sizes": Call("coord_transform", [([np.zeros((3, 2), F32), np.zeros((3, 3), F32)], "")], {}, M=2.0),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_of_dali_are_refusals_here(name):
    for library in (dali, asyncdali):
        with pytest.raises((RuntimeError, ValueError)):
            REFUSED[name].run(library)
