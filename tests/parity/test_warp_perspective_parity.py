"""experimental.warp_perspective beside DALI's: transforms, layouts, borders and frames."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.images import picture
from helpers.parity import errors

from asyncdali import Pipeline, fn, types

dali = pytest.importorskip("nvidia.dali")
dali_fn = pytest.importorskip("nvidia.dali.fn")
BORDERS = ("constant", "replicate", "reflect", "reflect_101", "wrap")


def run(make, functions, samples, layout, second=None, per_frame=(), named=None, **constants):
    pipe = make(len(samples), 2, None, prefetch_queue_depth=1)
    with pipe:
        nodes = [functions.external_source(_feeder(samples), layout=layout or None)]
        given = {key: functions.external_source(_feeder(value)) for key, value in (named or {}).items()}
        given = {key: functions.per_frame(node) if key in per_frame else node for key, node in given.items()}
        if second is not None:
            matrix = functions.external_source(_feeder(second))
            nodes.append(functions.per_frame(matrix) if "second" in per_frame else matrix)
        pipe.set_outputs(functions.experimental.warp_perspective(*nodes, **given, **constants))
    pipe.build()
    (output,) = pipe.run()
    return [np.array(output[i]) for i in range(len(samples))], output.layout()


def _feeder(values):
    return lambda: list(values)


def close(*args, **kwargs):
    enums = {"interp_type": lambda value: getattr(dali.types, f"INTERP_{value}")}
    theirs, layout = run(dali.Pipeline, dali_fn, *args, **{key: enums.get(key, lambda x: x)(value) for key, value in kwargs.items()})
    ours, our_layout = run(
        Pipeline, fn, *args, **{key: getattr(types, f"INTERP_{value}") if key == "interp_type" else value for key, value in kwargs.items()}
    )
    assert layout == our_layout
    found = errors(theirs, ours)
    scale = 1 if theirs[0].dtype.kind in "ui" else 1e-2
    assert found.max() <= scale and (found > 0).mean() < (0.01 if scale == 1 else 1.1)


def matrices(rng, count):
    near = rng.normal(0, 1, (count, 3, 3)) * [[0.1, 0.1, 5], [0.1, 0.1, 5], [1e-3, 1e-3, 0]]
    return (np.eye(3) + near).astype(np.float32)


@pytest.mark.parametrize("seed", range(16))
def test_transforms_layouts_and_borders(seed):
    rng = np.random.default_rng(seed)
    dtype = ("uint8", "uint16", "int16", "float32")[seed % 4]
    layout = ("HWC", "HW", "CHW", "FHWC", "FCHW", "")[seed % 6]
    channels = int(rng.integers(1, 5))
    samples = []
    for k, (height, width) in enumerate(rng.integers(20, 50, (3, 2))):
        image = picture(int(height), int(width), channels, k).reshape(height, width, channels).astype(dtype)
        image = {"CHW": image.transpose(2, 0, 1), "HW": image[..., 0]}.get(layout.replace("F", ""), image)
        samples.append(np.ascontiguousarray(np.stack([image, image[::-1]]) if layout.startswith("F") else image))
    constants = {"border_mode": BORDERS[seed % 5], "inverse_map": bool(rng.integers(2)), "pixel_origin": ("corner", "center")[seed % 3 % 2]}
    constants["interp_type"] = ("LINEAR", "NN", "CUBIC")[seed % 3]
    constants["fill_value"] = [float(k) for k in rng.integers(0, 200, channels if layout in ("HWC", "FHWC", "") else 1)]
    named = {"matrix": list(matrices(rng, 3))}
    if seed % 2:
        named["size"] = list(rng.uniform(10, 60, (3, 2)).astype(np.float32))
    close(samples, layout, None, (), named, **constants)


def test_a_transform_for_each_frame():
    rng = np.random.default_rng(3)
    images = [picture(30, 40, 3, k) for k in range(2)]
    clips = [np.stack([image] * 3) for image in images]
    many = [matrices(rng, 3) for _ in range(2)]
    close(clips, "FHWC", many, ("second",))
    close(clips, "FHWC", None, ("matrix",), {"matrix": many})
    close(images, "HWC", many, ("second",), size=[20.0, 33.0])  # the layout makes sequences of images
    close(clips, "FHWC", list(matrices(rng, 2)))
