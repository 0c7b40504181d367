"""Automatic augmentations written once, for DALI and for us: random policies that record their choices, and images."""

from __future__ import annotations

import importlib
import warnings
from typing import Any

import numpy as np

HASH = 8192
"""Factor between the codes of stages."""


class Library:
    """DALI ("nvidia.dali") or asyncdali ("asyncdali"), by module name."""

    def __init__(self, name: str):
        self.name = name
        self.pipeline_def = importlib.import_module(name).pipeline_def
        for module in ("fn", "types"):
            setattr(self, module, importlib.import_module(f"{name}.{module}"))
        for module in ("rand_augment", "trivial_augment", "auto_augment", "augmentations", "core"):
            setattr(self, module, importlib.import_module(f"{name}.auto_aug.{module}"))

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


def outputs(library: Library, body: Any, batch_size: int, seed: int, iterations: int = 2, **options: Any) -> list[list[np.ndarray]]:
    """The samples of each iteration of the pipeline ``body()``."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")

        @library.pipeline_def(batch_size=batch_size, num_threads=1, device_id=None, seed=seed, enable_conditionals=True, **options)
        def graph():
            return body()

        pipe = graph()
        pipe.build()
    found = []
    for _ in range(iterations):
        (batch,) = pipe.run()
        found.append([np.array(batch.at(k)) for k in range(batch_size)])
    return found


# ------------------------------------------------------------------------------------------------------------- recorded choices


def one(magnitude):
    return magnitude


def pair(magnitude):
    return [magnitude, 0]


def shifted(magnitude):
    return np.float32(1) + magnitude


def recorder(library: Library, number: int, kind: str) -> Any:
    """An operation that adds its number and the bits of its parameter to the data (INT64)."""
    fn, types = library.fn, library.types

    def bits(parameter):
        return fn.cast(fn.reinterpret(parameter, dtype=types.INT32), dtype=types.INT64)

    def none(data, _):
        return data * HASH + number

    def scalar(data, parameter):
        return data * HASH + bits(parameter) * 16 + number

    def vector(data, parameter):
        seen = bits(parameter)
        return data * HASH + (seen[0] + seen[1] * 3) * 16 + number

    def drawing(data, _):
        return data * HASH + fn.random.uniform(range=[0, 100], dtype=types.INT32) * 16 + number

    return {"none": none, "scalar": scalar, "vector": vector, "drawing": drawing}[kind]


def random_suite(rng: np.random.Generator, bins: int) -> list[dict[str, Any]]:
    """Settings of augmentations."""
    suite = []
    for number in range(int(rng.integers(1, 9))):
        kind = str(rng.choice(["none", "drawing", "scalar", "vector"], p=[0.1, 0.2, 0.4, 0.3]))
        settings: dict[str, Any] = {"kind": kind, "number": number, "name": f"operation_{number if rng.random() < 0.8 else 0}"}
        if kind not in ("none", "drawing"):
            low, high = (float(x) for x in rng.uniform(-300, 300, 2))
            settings["mag_range"] = (low, high) if rng.random() < 0.8 else rng.uniform(-9, 9, bins).astype(np.float32)
            settings["randomly_negate"] = bool(rng.random() < 0.5)
            settings["mag_to_param"] = pair if kind == "vector" else [one, shifted][int(rng.integers(2))]
        suite.append(settings)
    return suite


def made(library: Library, settings: dict[str, Any]) -> Any:
    given = {key: value for key, value in settings.items() if key not in ("kind", "number")}
    return library.core.augmentation(recorder(library, settings["number"], settings["kind"]), **given)


def random_program(case: int) -> dict[str, Any]:
    """A random algorithm, with a random suite or one of the standard ones."""
    rng = np.random.default_rng(case)
    algorithm = str(rng.choice(["rand", "trivial", "auto"]))
    bins = int(rng.integers(1, 33))
    program: dict[str, Any] = {
        "algorithm": algorithm,
        "bins": bins,
        "suite": random_suite(rng, bins),
        "seed": int(rng.integers(1 << 31)) if rng.random() < 0.5 else None,
        "pipeline_seed": int(rng.integers(1 << 31)),
        "batch_size": int(rng.integers(1, 12)),
        "frames": int(rng.integers(1, 4)) if rng.random() < 0.5 else 0,
        "standard": str(rng.choice(["", "suite", "shape"])),
        "draws_before": int(rng.integers(0, 3)),
    }
    count = len(program["suite"])
    if algorithm == "rand":
        program |= {"n": int(rng.integers(1, 4)), "m": int(rng.integers(bins)), "monotonic": bool(rng.random() < 0.5)}
    if algorithm == "auto":
        stages = int(rng.integers(1, 4))
        program["policy"] = [
            [(int(rng.integers(count)), float(rng.choice([0.2, 0.5, 0.9, 1.0])), int(rng.integers(bins))) for _ in range(length)]
            for length in rng.integers(0, stages + 1, int(rng.integers(1, 7)))
        ]
        program["name"] = str(rng.choice(["image_net", "svhn", "reduced_cifar10", "reduced_image_net"]))
    return program


def choices(library: Library, program: dict[str, Any]) -> list[list[np.ndarray]]:
    """The choices of a random program, as codes of the operations and parameters, and a draw of a later operator."""
    fn, types = library.fn, library.types

    def body():
        shape = [program["frames"], 1, 1, 1] if program["frames"] else [1, 1, 1]
        data = fn.constant(idata=[0], shape=shape, dtype=types.INT64, layout="FHWC" if program["frames"] else "HWC")
        for _ in range(program["draws_before"]):
            data = data + fn.random.uniform(range=[0, 100], dtype=types.INT32)
        data = applied(library, program, data)
        return fn.cat(data, data * 0 + fn.random.uniform(range=[0, 1 << 20], dtype=types.INT32), axis=-1)

    return outputs(library, body, program["batch_size"], program["pipeline_seed"])


def applied(library: Library, program: dict[str, Any], data: Any) -> Any:
    algorithm, bins, seed = program["algorithm"], program["bins"], program["seed"]
    standard = program["standard"]
    use_shape = standard == "shape"
    if algorithm == "auto":
        return library.auto_augment.apply_auto_augment(_policy(library, program, standard, use_shape), data, seed=seed)
    if algorithm == "rand":
        make = library.rand_augment
        make = make.get_rand_augment_suite if program["monotonic"] else make.get_rand_augment_non_monotonic_suite
        suite = _recording(library, make(use_shape)) if standard else [made(library, item) for item in program["suite"]]
        return library.rand_augment.apply_rand_augment(suite, data, program["n"], program["m"], bins, seed=seed)
    suite = (
        _recording(library, library.trivial_augment.get_trivial_augment_wide_suite(use_shape))
        if standard else [made(library, item) for item in program["suite"]]
    )  # fmt: skip
    return library.trivial_augment.apply_trivial_augment(suite, data, bins, seed=seed)


def _policy(library: Library, program: dict[str, Any], standard: str, use_shape: bool) -> Any:
    if not standard:
        suite = [made(library, item) for item in program["suite"]]
        subs = [[(suite[k], p, None if suite[k].mag_range is None else bin) for k, p, bin in sub] for sub in program["policy"]]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return library.core.Policy("random", program["bins"], subs)
    make = getattr(library.auto_augment, f"get_{program['name']}_policy")
    policy = make() if program["name"] == "reduced_image_net" else make(use_shape)
    names = list(policy.augmentations)
    recording = dict(zip(names, _recording(library, [policy.augmentations[name] for name in names])))
    subs = [[(recording[one.name], p, bin) for one, p, bin in sub] for sub in policy.sub_policies]
    return library.core.Policy(policy.name, policy.num_magnitude_bins, subs)


def _recording(library: Library, suite: Any) -> list[Any]:
    """Operations that record, with the magnitudes and parameters of a suite."""
    return [_as_recorder(library, number, augmentation) for number, augmentation in enumerate(suite)]


def _as_recorder(library: Library, number: int, augmentation: Any) -> Any:
    def parameter(magnitude):
        made = np.asarray(augmentation.mag_to_param(magnitude), np.float32).reshape(-1)
        return made[0] if made.size == 1 else np.array([made @ np.arange(1, made.size + 1, dtype=np.float32), 0], np.float32)

    size = 0 if augmentation.mag_range is None else np.asarray(augmentation.mag_to_param(np.float32(1))).size
    kind = "none" if size == 0 else "scalar" if size == 1 else "vector"
    return library.core.augmentation(
        recorder(library, number, kind), mag_range=augmentation.mag_range, randomly_negate=augmentation.randomly_negate,
        mag_to_param=parameter, name=augmentation.name,
    )  # fmt: skip


# ----------------------------------------------------------------------------------------------------------------------- images


def pictures(count: int, frames: int = 0) -> list[np.ndarray]:
    """Smooth and noisy random pictures of different sizes; videos of `frames` frames."""
    rng = np.random.default_rng(7)
    made = []
    for k in range(count):
        height, width = (int(x) for x in rng.integers(20, 60, 2))
        shape = (max(frames, 1), height, width, 3)
        if k % 2:
            y, x = np.mgrid[:height, :width]
            waves = [np.sin(y * rng.uniform(0.02, 0.2) + x * rng.uniform(0.02, 0.2) + f) for f in range(shape[0] * 3)]
            picture = np.moveaxis(np.reshape(waves, (shape[0], 3, height, width)), 1, -1) * 100 + 128
        else:
            picture = rng.integers(0, 256, shape)
        made.append(np.ascontiguousarray(picture if frames else picture[0]).astype(np.uint8))
    return made
