"""``python -m benchmarks.gpu WHAT``: pipelines, operators and training on a CUDA device, beside DALI where it is installed.

    pipelines   decode, training, rotate: sweeps of settings, memory, time of kernels
    two-views   decode, then two augmented views of each picture
    operators   single operators over small and large pictures, with the device's time and the part of the copy bandwidth
    busy        training and two views while a thread of the process runs pure Python, by switch interval
    lanes       the part of the JPEG engines, alone and beside a training step; the lock during calls of the driver
    turns       the four pipelines in turns with DALI: default lanes and all lanes
    train       torchvision's ResNet-18 and -50 fed by the torch iterator, beside one batch repeated

Prints tables; needs a GPU, CuPy and, for the engines, nvJPEG. `--photos` is a folder of folders of JPEGs (default: the project's photos).
"""

from __future__ import annotations

import argparse
import importlib
import os
import time
from typing import Any

import numpy as np

from .pictures import picture_folder

BATCH = 256
WHAT = ("pipelines", "two-views", "operators", "busy", "lanes", "turns", "train")
SWEEP = tuple((threads, depth) for threads in (10, 12, 14) for depth in (2, 4, 6, 8))
"""(threads, prefetch depth) of our default split."""
LOADS, DEPTHS = (0.0, 0.65, 0.85, 1.0), (2, 4, 8)
"""Decoder loads and prefetch depths of DALI's sweep. Each runs with half of the threads and with all."""
_PHOTOS = "../shared/data/photos"
MEAN, STD = [0.485 * 255, 0.456 * 255, 0.406 * 255], [0.229 * 255, 0.224 * 255, 0.225 * 255]


def training(lib: Any, photos: str, threads: int, depth: int = 3, **decoder: Any) -> Any:
    """decode(mixed) -> random crop -> resize 224 -> flip -> normalise -> fp16 NCHW."""
    fn, types = lib.fn, lib.types

    @lib.pipeline_def(batch_size=BATCH, num_threads=threads, device_id=0, prefetch_queue_depth=depth, seed=1)
    def graph() -> Any:
        data, labels = fn.readers.file(file_root=photos, random_shuffle=True, name="Reader")
        images = fn.decoders.image_random_crop(data, device="mixed", **decoder)
        images = fn.resize(images, size=[224.0, 224.0])
        return fn.crop_mirror_normalize(
            images, mirror=fn.random.coin_flip(), mean=MEAN, std=STD, dtype=types.FLOAT16, output_layout="CHW"
        ), labels

    return graph()


def two_views(lib: Any, photos: str, threads: int, depth: int = 3, **decoder: Any) -> Any:
    """decode(mixed), then twice: random_resized_crop 224 -> color_twist -> gaussian_blur -> mirror, normalise -> fp16 NCHW."""
    fn, types = lib.fn, lib.types

    @lib.pipeline_def(batch_size=BATCH, num_threads=threads, device_id=0, prefetch_queue_depth=depth, seed=7)
    def graph() -> Any:
        data, labels = fn.readers.file(file_root=photos, random_shuffle=True, name="Reader")
        images = fn.decoders.image(data, device="mixed", **decoder)
        views = []
        for _ in range(2):
            view = fn.random_resized_crop(images, size=[224, 224])
            factors = {name: fn.random.uniform(range=(0.6, 1.4)) for name in ("brightness", "contrast", "saturation")}
            view = fn.color_twist(view, hue=fn.random.uniform(range=(-36.0, 36.0)), **factors)
            view = fn.gaussian_blur(view, sigma=fn.random.uniform(range=(0.1, 2.0)), window_size=23)
            views.append(
                fn.crop_mirror_normalize(view, mirror=fn.random.coin_flip(), mean=MEAN, std=STD, dtype=types.FLOAT16, output_layout="CHW")
            )
        return (*views, labels)

    return graph()


def rotated(lib: Any, photos: str, threads: int, depth: int = 3, **decoder: Any) -> Any:
    """The notebook's pipeline: decode(mixed) -> rotate by a random angle."""
    fn = lib.fn

    @lib.pipeline_def(batch_size=BATCH, num_threads=threads, device_id=0, prefetch_queue_depth=depth, seed=12)
    def graph() -> Any:
        data, labels = fn.readers.file(file_root=photos, random_shuffle=True, name="Reader")
        images = fn.decoders.image(data, device="mixed", **decoder)
        return fn.rotate(images, angle=fn.random.uniform(range=(-30.0, 30.0)), fill_value=0), labels

    return graph()


def decoded(lib: Any, photos: str, threads: int, depth: int = 3, **decoder: Any) -> Any:
    """decode(mixed) alone."""
    fn = lib.fn

    @lib.pipeline_def(batch_size=BATCH, num_threads=threads, device_id=0, prefetch_queue_depth=depth, seed=12)
    def graph() -> Any:
        data, labels = fn.readers.file(file_root=photos, random_shuffle=True, name="Reader")
        return fn.decoders.image(data, device="mixed", **decoder), labels

    return graph()


def speed(pipe: Any, iterations: int, stream: Any = None) -> float:
    """Samples per second after a warm-up."""
    for _ in range(8):
        pipe.run()
    start = time.perf_counter()
    for _ in range(iterations):
        outputs = pipe.run() if stream is None else pipe.run(stream)
    outputs[0].as_cpu() if stream is not None else None
    return BATCH * iterations / (time.perf_counter() - start)


def enough(iterations: int, depth: int) -> int:
    """At least so many iterations that the batches that lie ready when a measurement begins do not count."""
    return max(iterations, 20 * depth)


def held_per_sample(pipe: Any, iterations: int) -> float:
    """Microseconds of interpreter time per sample, an upper bound (asyncdali.tooling.interpreter).

    This is the processor time of all threads of the process, minus the time in compiled functions, which run without the interpreter lock.

    Included are Python's bytecode, numpy, and the cost for threads to sleep, to wake up and to hand over the lock. Included are also calls
    that still go through CuPy: queries and waits for events, and allocations (none in steady state). Excluded are calls from compiled code:
    an iteration's waits, copies, launches and events, and nvJPEG's batches.
    """
    from asyncdali.tooling.interpreter import interpreter_time

    for _ in range(8):
        pipe.run()
    with interpreter_time() as used:
        for _ in range(iterations):
            pipe.run()
    return used.seconds / (iterations * BATCH) * 1e6


class Kernels:
    """The launches of a pipeline's last batch. They are repeated alone, because otherwise decoding would run beside them."""

    def __init__(self, driver: Any):
        import cupy

        from asyncdali.device.cuda.command_tables import LAUNCH, LAUNCH_COMMAND
        from asyncdali.device.cuda.commands import listed

        self._cupy = cupy
        self._kernels: dict[int, tuple[str, Any]] = {}  # names, and the objects that keep the kernels loaded, by handle
        self._last: dict[str, tuple[int, np.ndarray]] = {}  # streams and commands
        load, perform, word = driver.load, driver.perform, LAUNCH_COMMAND.word

        def named(kernel: Any) -> Any:
            function = load(kernel)
            self._kernels[function.ptr] = kernel.entry, function
            return function

        def noted(commands: np.ndarray, brief: bool = False) -> None:
            for _, words in listed(commands):
                if words[word.kind] == LAUNCH:
                    self._last[self._kernels[words[word.function]][0]] = words[word.stream], np.array(words, np.int64)
            perform(commands, brief)

        driver.load, driver.perform = named, noted
        self._perform = perform

    def report(self, repetitions: int = 30) -> None:
        """Time the launches again. Nothing else may run on the GPU."""
        cuda = self._cupy.cuda
        cuda.runtime.deviceSynchronize()
        for name, (handle, launch) in self._last.items():
            stream = cuda.ExternalStream(handle)
            times = []
            for _ in range(repetitions):
                begin, end = cuda.Event(), cuda.Event()
                begin.record(stream)
                self._perform(launch)
                end.record(stream)
                end.synchronize()
                times.append(1e3 * cuda.get_elapsed_time(begin, end))
            print(f"  kernel {name:24} {np.median(times):8.1f} us per batch of {BATCH} (min {min(times):.1f}, {repetitions} launches)")


def copy_bandwidth() -> float:
    """GB/s of a copy within the card; bytes read and written both count."""
    import cupy

    a = cupy.zeros(1 << 30, cupy.uint8)
    b = cupy.empty_like(a)
    stream = cupy.cuda.Stream(non_blocking=True)
    times = []
    for _ in range(3):
        stream.synchronize()
        start = time.perf_counter()
        for _ in range(10):
            cupy.cuda.runtime.memcpyAsync(b.data.ptr, a.data.ptr, 1 << 30, 3, stream.ptr)
        stream.synchronize()
        times.append(time.perf_counter() - start)
    return 20 * (1 << 30) / min(times) / 1e9


def installed_dali() -> Any:
    """DALI with the modules that the benchmarks use, or None."""
    try:
        dali = importlib.import_module("nvidia.dali")
        for part in ("fn", "types", "plugin.pytorch"):
            importlib.import_module(f"nvidia.dali.{part}")
    except ImportError:
        return None
    return dali


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="?", default="pipelines", choices=WHAT)
    parser.add_argument("--photos", help="a folder of folders of JPEGs; by default the project's photos, else pictures that are made")
    parser.add_argument("--iterations", type=int, default=60)
    parser.add_argument("--dali-only", action="store_true", help="pipelines: DALI's sweep alone")
    parser.add_argument("--all", action="store_true", help="operators: all of the registry that have a kernel, not only the usual ones")
    parser.add_argument("--only", default="", help="operators, turns, busy, train: names, separated by commas")
    parser.add_argument("--batches", type=int, default=1, help="operators: different batches that are fed in turn (sizes differ, too)")
    parser.add_argument("--rounds", type=int, default=3, help="two-views, busy, turns, train: measurements of each, in turns")
    parser.add_argument("--engines", type=int, default=0, help="busy: engines of our pipelines, which make the part on the CPU")
    parser.add_argument("--depth", type=int, help="busy, turns: prefetch_queue_depth; default: 6 (DALI in turns: 4)")
    parser.add_argument("--threads", type=int, help="busy, turns, train: num_threads of all; default: by the number of processors")
    options = parser.parse_args()
    options.photos = picture_folder(options.photos or (_PHOTOS if os.path.isdir(_PHOTOS) else None))
    only = tuple(name.strip() for name in options.only.split(",") if name.strip())
    if options.what == "operators":
        from . import gpu_operators

        if options.all:
            gpu_operators.report_all(installed_dali(), options.iterations, only)
        else:
            gpu_operators.report(installed_dali(), options.iterations, only, options.batches)
    elif options.what == "pipelines":
        if not options.dali_only:
            ours(options.photos, options.iterations)
        dalis(options.photos, options.iterations)
    elif options.what == "turns":
        from . import gpu_turns

        gpu_turns.report(installed_dali(), options.photos, options.iterations, options.rounds, only, options.threads, options.depth)
    elif options.what == "lanes":
        from . import gpu_lanes

        gpu_lanes.report(options.photos, options.iterations)
    elif options.what == "busy":
        from . import gpu_training

        gpu_training.busy(
            installed_dali(), options.photos, options.iterations, options.rounds, options.engines, options.depth or 6, only, options.threads
        )
    elif options.what == "train":
        from . import gpu_training

        gpu_training.train(installed_dali(), options.photos, options.iterations, options.rounds, only, options.threads)
    else:
        from . import gpu_training

        gpu_training.two_views_report(installed_dali(), options.photos, options.iterations, options.rounds)


def ours(photos: str, iterations: int) -> None:
    """Speed of our pipelines under several splits, stability of memory, and time of kernels."""
    os.environ["ASYNCDALI_DEVICE"] = "cuda"
    import asyncdali
    from asyncdali.device import select

    threads = len(os.sched_getaffinity(0))
    print(f"{threads} threads")
    for make in (decoded, training, rotated):
        for settings in ({}, {"decoder": "hardware"}, {"decoder": "hybrid"}, {"decoder": "cpu"}, {"hw_decoder_load": 0.85}):
            for count, depth in SWEEP if not settings else ((threads, 3),):
                pipe = make(asyncdali, photos, count, depth, **settings)
                pipe.build()
                rate = speed(pipe, iterations)
                gpu = pipe._core.session.gpu
                before = gpu.pool.allocations, gpu.events.created, gpu.staging.allocated_bytes, gpu.pinned.allocated_bytes
                for _ in range(10):
                    pipe.run()
                after = gpu.pool.allocations, gpu.events.created, gpu.staging.allocated_bytes, gpu.pinned.allocated_bytes
                steady = "steady" if before == after else f"grew {before} -> {after}"
                name = f"{make.__name__:9} {settings or 'default'!s:32} {count:3} threads, depth {depth}"
                print(f"asyncdali {name} {rate:9.0f} img/s  memory {steady}", flush=True)
                pipe.close()
    for make in (decoded, training, rotated):
        pipe = make(asyncdali, photos, threads)
        pipe.build()
        print(f"asyncdali {make.__name__:9} interpreter held {held_per_sample(pipe, iterations):.1f} us per sample at most", flush=True)
        pipe.close()
    print(f"card copies {copy_bandwidth():.0f} GB/s (read and written)")
    for make in (training, rotated):
        select._driver = None  # a separate driver, whose launches are recorded
        select._driver = select.make_driver()
        kernels = Kernels(select._driver)
        pipe = make(asyncdali, photos, threads, decoder="hardware")
        pipe.build()
        for _ in range(4):
            outputs = pipe.run()
        pipe._core.session.wait_all()
        print(f"kernels of {make.__name__} (outputs {outputs[0]._batch.sizes().sum() / 1e6:.0f} MB):")
        kernels.report()
        pipe.close()


def dalis(photos: str, iterations: int) -> None:
    """DALI's best over a sweep of its settings."""
    threads = len(os.sched_getaffinity(0))
    dali = installed_dali()
    if dali is None:
        print("DALI is not installed: no comparison")
        return
    for make in (decoded, training, rotated):
        best = (0.0, "")
        for load in LOADS:
            for count in (threads // 2, threads):
                for depth in DEPTHS:
                    pipe = make(dali, photos, count, depth, hw_decoder_load=load)
                    pipe.build()
                    rate = speed(pipe, iterations)
                    setting = f"load {load}, {count} threads, depth {depth}"
                    print(f"  DALI    {make.__name__:9} {setting:32} {rate:9.0f} img/s", flush=True)
                    best = max(best, (rate, setting))
                    del pipe
        print(f"DALI      {make.__name__:9} best {best[0]:9.0f} img/s with {best[1]}", flush=True)


if __name__ == "__main__":
    main()
