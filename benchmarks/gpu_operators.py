"""``python -m benchmarks.gpu operators [--all]``: single operators on small and large pictures that are in the GPU's memory.

With `--all` the cases are those of ``benchmarks.operators``: every operator of the registry that has a kernel, also on volumes, sequences
and sound.

The columns per operator are: milliseconds per batch as a user sees them (asyncdali, and DALI in turns where it is installed), the device
time of asyncdali, and its share of the card's copy bandwidth (bytes read and written in that time). The device time is measured by
repeating the last batch's launches alone.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np

Graph = Callable[[Any, Any, Any], Any]

OPERATORS: dict[str, Graph] = {
    "resize": lambda fn, types, x: fn.resize(x, size=[224, 224]),
    "shorter side": lambda fn, types, x: fn.resize(x, resize_shorter=256),
    "random_resized_crop": lambda fn, types, x: fn.random_resized_crop(x, size=[224, 224]),
    "crop_mirror_normalize": lambda fn, types, x: fn.crop_mirror_normalize(
        x, crop=[224, 224], mirror=1, mean=[120.0], std=[60.0], dtype=types.FLOAT16
    ),
    "rotate": lambda fn, types, x: fn.rotate(x, angle=13.0, fill_value=0),
    "warp_affine": lambda fn, types, x: fn.warp_affine(x, matrix=[1.1, 0.1, 3.0, -0.1, 0.9, 5.0], fill_value=0),
    "gaussian_blur": lambda fn, types, x: fn.gaussian_blur(x, sigma=1.5, window_size=9),
    "laplacian": lambda fn, types, x: fn.laplacian(x, window_size=3, dtype=types.FLOAT),
    "color_twist": lambda fn, types, x: fn.color_twist(x, brightness=1.1, contrast=0.9, hue=20.0, saturation=1.2),
    "hsv": lambda fn, types, x: fn.hsv(x, hue=20.0, saturation=1.2, value=0.9),
    "brightness_contrast": lambda fn, types, x: fn.brightness_contrast(x, brightness=1.1, contrast=0.9),
    "color_space_conversion": lambda fn, types, x: fn.color_space_conversion(x, image_type=types.RGB, output_type=types.YCbCr),
    "flip": lambda fn, types, x: fn.flip(x, horizontal=1),
    "cast": lambda fn, types, x: fn.cast(x, dtype=types.FLOAT),
    "normalize": lambda fn, types, x: fn.normalize(x, axes=[0, 1]),
    "reductions.mean": lambda fn, types, x: fn.reductions.mean(x, axes=[0, 1]),
    "transpose": lambda fn, types, x: fn.transpose(x, perm=[2, 0, 1]),
    "erase": lambda fn, types, x: fn.erase(x, anchor=[0.2, 0.2], shape=[0.3, 0.3], normalized=True, axes=[0, 1]),
    "pad": lambda fn, types, x: fn.pad(x, axes=[0, 1], align=[256, 256]),
    "noise.gaussian": lambda fn, types, x: fn.noise.gaussian(x, stddev=10.0),
    "arithmetic": lambda fn, types, x: x * 0.5 + 3.0,
    "grid_mask": lambda fn, types, x: fn.grid_mask(x, tile=40, ratio=0.5),
    "slice": lambda fn, types, x: fn.slice(x, start=[7, 5], shape=[200, 203], axes=[0, 1], out_of_bounds_policy="trim_to_shape"),
    "slice, most": lambda fn, types, x: fn.slice(x, rel_start=[0.05, 0.05], rel_shape=[0.9, 0.9], axes=[0, 1]),
    "crop": lambda fn, types, x: fn.crop(x, crop=[200, 200]),
    "cat": lambda fn, types, x: fn.cat(x, x, axis=0),
    "cat, columns": lambda fn, types, x: fn.cat(x, x, axis=1),
    "stack": lambda fn, types, x: fn.stack(x, x),
    "copy": lambda fn, types, x: fn.copy(x),
}


def pictures(large: bool, seed: int = 3) -> list[np.ndarray]:
    """64 pictures with sides of 300 to 600 pixels, or 32 of 1920 x 1080."""
    rng = np.random.default_rng(seed)
    shapes = [(1080, 1920, 3)] * 32 if large else [(*rng.integers(300, 601, 2).tolist(), 3) for _ in range(64)]
    return [rng.integers(0, 256, shape, np.uint8) for shape in shapes]


def pipeline(lib: Any, name: str, fed: list[list[Any]], depth: int = 2) -> Any:
    """The operator on pictures that are fed from GPU memory without a copy: the batches `fed` in turn."""
    turns = itertools.cycle(fed)

    @lib.pipeline_def(batch_size=len(fed[0]), num_threads=4, device_id=0, prefetch_queue_depth=depth, seed=3)
    def graph() -> Any:
        source = lib.fn.external_source(source=lambda: next(turns), device="gpu", no_copy=True, layout="HWC")
        return OPERATORS[name](lib.fn, lib.types, source)

    made = graph()
    made.build()
    return made


_WARM, _LEAST_ITERATIONS, _LEAST_SECONDS = 10, 40, 0.03
"""Iterations before a measurement, and its least length: 20 times the depth, so that batches that lay ready do not count, and long enough
that the turn of the other library does not (its threads are still awake, and the caches are cold: 10 iterations took twice as long)."""


def milliseconds(pipe: Any, iterations: int) -> tuple[float, int]:
    """Milliseconds per batch, including the GPU's work; and the number of runs. `iterations`: the least number that is timed."""
    import cupy

    for _ in range(_WARM):
        pipe.run()
    cupy.cuda.runtime.deviceSynchronize()
    began, count = time.perf_counter(), 0
    while count < max(iterations, _LEAST_ITERATIONS) or time.perf_counter() - began < _LEAST_SECONDS:
        pipe.run()
        count += 1
    cupy.cuda.runtime.deviceSynchronize()
    return (time.perf_counter() - began) / count * 1e3, _WARM + count


class LastLaunches:
    """Wraps a driver and remembers the launches of the last command list that had any."""

    def __init__(self, driver: Any):
        from asyncdali.device.cuda.command_tables import LAUNCH, LAUNCH_COMMAND
        from asyncdali.device.cuda.commands import listed

        self.perform = driver.perform
        self._words: list[list[int]] = []
        word = LAUNCH_COMMAND.word

        self._driver = driver

        def noted(commands: np.ndarray, brief: bool = False) -> None:
            launches = [words for _, words in listed(commands) if words[word.kind] == LAUNCH]
            if launches:
                self._words, self._stream = launches, launches[0][word.stream]
            self.perform(commands, brief)

        self._noted = noted

    def __enter__(self) -> None:
        """Remember launches within the block only, because looking at command lists takes longer than executing them."""
        self._driver.perform = self._noted

    def __exit__(self, *_: object) -> None:
        self._driver.perform = self.perform

    def milliseconds(self, repetitions: int = 15) -> float:
        """Repeat the launches alone and return the median time."""
        import cupy

        if not self._words:
            return 0.0
        launches = np.array([number for words in self._words for number in words], np.int64)
        stream = cupy.cuda.ExternalStream(self._stream)
        times = []
        for _ in range(repetitions):
            begin, end = cupy.cuda.Event(), cupy.cuda.Event()
            begin.record(stream)
            self.perform(launches)
            end.record(stream)
            end.synchronize()
            times.append(cupy.cuda.get_elapsed_time(begin, end))
        self._words = []
        return float(np.median(times))


class _Table:
    """The rows of operators: ours and DALI's in turns, and our launches alone."""

    def __init__(self, dali: Any, iterations: int):
        os.environ["ASYNCDALI_DEVICE"] = "cuda"
        import asyncdali
        from asyncdali.device import select

        from .gpu import copy_bandwidth

        self._libraries = {"ours": asyncdali, **({} if dali is None else {"dali": dali})}
        self._iterations = iterations
        self._bandwidth = copy_bandwidth()
        print(f"card copies {self._bandwidth:.0f} GB/s (read and written)")
        select._driver = select.make_driver()
        self._last = LastLaunches(select._driver)
        self._ratios: list[float] = []

    def begin(self, title: str) -> None:
        """Print the head of a table."""
        print(f"{title}, ms per batch (median of 3)")
        print(f"  {'operator':34} {'ours':>8} {'DALI':>8} {'DALI/ours':>9} {'device':>8} {'bytes':>7} {'of copy':>8}", flush=True)
        self._ratios = []

    def row(self, name: str, make: Callable[[Any], Any], given: int, batches: int = 1) -> None:
        """Measure the pipelines of ``make(library)``, which read `given` bytes of `batches` batches in turn."""
        import cupy

        from asyncdali.operators.python.numba_function_gpu_kernels import NoCompiler

        try:
            pipes, refused = {"ours": make(self._libraries["ours"])}, ""
            if "dali" in self._libraries:
                try:
                    pipes["dali"] = make(self._libraries["dali"])
                except Exception as error:
                    refused = f"  DALI: {type(error).__name__}: {' '.join(str(error).split())[:120]}"
            times: dict[str, list[float]] = {key: [] for key in pipes}
            runs = dict.fromkeys(pipes, 0)
            for _ in range(3):
                for key, pipe in pipes.items():
                    took, count = milliseconds(pipe, self._iterations)
                    times[key].append(took)
                    runs[key] += count
            with self._last:
                for _ in range(batches - runs["ours"] % batches):
                    outputs = pipes["ours"].run()
                pipes["ours"]._core.session.wait_all()
            made = int(outputs[0]._batch.sizes().sum())
            cupy.cuda.runtime.deviceSynchronize()
            device = self._last.milliseconds()
            ours = float(np.median(times["ours"]))
            theirs = float(np.median(times["dali"])) if "dali" in times else 0.0
            if theirs:
                self._ratios.append(theirs / ours)
            moved = (min(given, 2 * made) if name in ("slice", "crop", "crop_mirror_normalize") else given) + made
            part = moved / (device * 1e-3) / 1e9 / self._bandwidth if device else 0.0
            beside = f"{theirs:8.3f} {theirs / ours:9.2f}" if theirs else f"{'-':>8} {'-':>9}"
            print(f"  {name:34} {ours:8.3f} {beside} {device:8.3f} {moved / 1e6:6.0f}M {100 * part:7.0f}%{refused}", flush=True)
            del outputs
            pipes["ours"].close()
        except Exception as error:
            missing = isinstance(error.__cause__, NoCompiler)  # numba-cuda, or one that goes with this NumPy
            reason = f"left out: {error.__cause__}" if missing else f"{type(error).__name__}: {error}"
            print(f"  {name:34} {' '.join(reason.split())[:300]}", flush=True)

    def end(self) -> None:
        """Print the mean of the table."""
        if self._ratios:
            slower = sum(ratio < 1 for ratio in self._ratios)
            mean = float(np.exp(np.mean(np.log(self._ratios))))
            print(f"  geometric mean of DALI / ours: {mean:.2f}; below 1: {slower} of {len(self._ratios)}", flush=True)


def report(dali: Any, iterations: int, only: tuple[str, ...] = (), batches: int = 1) -> None:
    """Print the tables. `dali` is None where DALI is not installed. `batches`: number of different batches that are fed in turn."""
    import cupy

    table = _Table(dali, iterations)
    for large in (False, True):
        fed = [[cupy.asarray(picture) for picture in pictures(large, 3 + k)] for k in range(batches)]
        given = sum(picture.nbytes for picture in fed[0])
        table.begin("32 pictures of 1920 x 1080" if large else "64 pictures with sides of 300 to 600")
        for name in OPERATORS:
            if not only or name in only:
                table.row(name, lambda lib, name=name, fed=fed: pipeline(lib, name, fed), given, batches)
        table.end()


# ------------------------------------------------------------------------------------------------------- all operators of the registry

_LARGE = {"H": 1080, "W": 1920, "D": 96}
_LARGE_SIDE, _LARGE_SECONDS = 192, 60
"""Sides of large volumes, and seconds of long sounds."""


def enlarged(data: np.ndarray, layout: str) -> np.ndarray:
    """A batch of pictures, sequences, volumes or sounds (no layout), repeated along its spatial axes up to the large sizes."""
    if not layout:
        times = _LARGE_SECONDS * 16000 // data.shape[1]
        return np.tile(data, (1, times))
    sides = {**_LARGE, "H": _LARGE_SIDE, "W": _LARGE_SIDE} if "D" in layout else _LARGE
    for axis, name in enumerate(layout, 1):
        if name in sides:
            data = np.concatenate([data] * -(-sides[name] // data.shape[axis]), axis).take(range(sides[name]), axis)
    return np.ascontiguousarray(data)


def registry_cases() -> list[Any]:
    """The cases of ``benchmarks.operators`` whose operators all have kernels for a GPU, and whose inputs can be in its memory."""
    from asyncdali.operators import load_registry

    from .operator_cases import CASES

    known = load_registry()
    names = {alias: found for found in known.values() for alias in (found.schema.name, *found.schema.aliases)}

    def has_kernel(name: str) -> bool:
        kind = names.get(name)
        return kind is not None and kind.on_cuda and "gpu" in kind.schema.devices and not kind.schema.calls_python

    return [case for case in CASES if case.inputs and all(map(has_kernel, case.operators))]


def _fed(case: Any, large: bool) -> list[tuple[list[Any], str]] | None:
    """The inputs of a case in the GPU's memory, with their layouts. None if the case has no large form."""
    import cupy

    from .operator_inputs import batch_of

    kinds = [batch_of(name) for name in case.inputs]
    pixels = [bool(kind.layout) and isinstance(kind.data, np.ndarray) and kind.data.ndim > 3 for kind in kinds]
    sounds = [name in ("sound", "pcm") for name in case.inputs]
    if large and not (any(pixels) or any(sounds)):
        return None
    count = len(kinds[0].data)
    batch = max(count, (32 if large else 64)) if "sequence" not in case.inputs and "volume" not in case.inputs else count
    fed = []
    for kind, is_pixels, is_sound in zip(kinds, pixels, sounds):
        data = enlarged(kind.data, kind.layout if is_pixels else "") if large and (is_pixels or is_sound) else kind.data
        fed.append(([cupy.asarray(data[k % len(data)]) for k in range(batch)], kind.layout))
    return fed


def _case_pipeline(lib: Any, case: Any, fed: list[tuple[list[Any], str]]) -> Any:
    def source(data: list[Any]) -> Callable[[], list[Any]]:
        return lambda: data  # without parameters: a source with one is given the iteration's number

    pipe = lib.Pipeline(batch_size=len(fed[0][0]), num_threads=4, device_id=0, prefetch_queue_depth=2, seed=3)
    with pipe:
        inputs = [lib.fn.external_source(source=source(data), device="gpu", no_copy=True, layout=layout or None) for data, layout in fed]
        made = case.graph(lib, *inputs)
        pipe.set_outputs(*(made if isinstance(made, (list, tuple)) else [made]))
    pipe.build()
    return pipe


def report_all(dali: Any, iterations: int, only: tuple[str, ...] = ()) -> None:
    """Print the tables of all operators that have kernels, at both sizes. `only`: operators, by name."""
    table = _Table(dali, iterations)
    for large in (False, True):
        table.begin("large: 1920 x 1080, volumes of 96 x 192 x 192, sounds of 60 s" if large else "small: 500 x 375")
        for case in registry_cases():
            fed = _fed(case, large) if not only or set(only) & {case.name, *case.operators} else None
            if fed is not None:
                given = sum(item.nbytes for data, _ in fed for item in data)
                table.row(case.name, lambda lib, case=case, fed=fed: _case_pipeline(lib, case, fed), given)
        table.end()
