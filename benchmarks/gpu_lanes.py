"""``python -m benchmarks.gpu lanes``: the part of a batch for the JPEG engines, alone and beside a training step.

Columns per part: pictures per second of ``decoded`` and ``training`` alone; then ResNet-18 fed by ``training``: pictures per second, the
ratio to one batch repeated, and the milliseconds per step that the loop waits for its batch. The lines below repeat the default part with
two decoder states, with streams of high priority, and with both: nvJPEG launches a kernel per picture, and these kernels queue behind the
kernels of the training step. The last table is the number of commands up to which a call of the driver keeps the interpreter lock
(``_FEW_COMMANDS``), quiet and beside a thread that runs pure Python.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import asyncdali  # noqa: F401  before torch uses CUDA: the import sets the number of connections

from .gpu import decoded, speed, training, two_views
from .gpu_training import busy_thread, fed_rate, network_of, one_batch, our_library, torch_feed

_PARTS: tuple[float | None, ...] = (None, 0.0, 0.3, 0.45, 0.6, 0.7, 0.8, 0.9, 1.0)
_FEW = (0, 16, 64, 256)
_HIGHEST = -5
"""CUDA clamps priorities to those of the device; -5 is the highest of recent devices."""


@contextlib.contextmanager
def _states(count: int) -> Iterator[None]:
    """Decoders that are built inside have `count` states, each with a thread."""
    from asyncdali.device.cuda import nvjpeg

    before, nvjpeg._ENGINE_STATES = nvjpeg._ENGINE_STATES, count
    try:
        yield
    finally:
        nvjpeg._ENGINE_STATES = before


@contextlib.contextmanager
def _high_priority() -> Iterator[None]:
    """Streams that are created inside have the highest priority, and no idle stream is used."""
    from asyncdali.device import select
    from asyncdali.device.cuda import idle

    driver: Any = select._driver
    assert driver is not None  # an earlier pipeline has made it
    idle._idle.pop(driver, None)
    runtime, plain = driver._runtime, driver.stream_create
    driver.stream_create = lambda: int(runtime.streamCreateWithPriority(1, _HIGHEST))  # 1: not ordered with the default stream
    try:
        yield
    finally:
        driver.stream_create = plain
        idle._idle.pop(driver, None)


def _line(name: str, photos: str, threads: int, depth: int, iterations: int, network: Any, repeated: float, **decoder: Any) -> None:
    lib = our_library()
    alone = []
    for make in (decoded, training):
        pipe = make(lib, photos, threads, depth, **decoder)
        pipe.build()
        alone.append(speed(pipe, iterations))
        pipe.close()
    text = f"{name:28} {alone[0]:8.0f} {alone[1]:8.0f}"
    if network is not None:
        from asyncdali.plugin.pytorch import DALIGenericIterator

        feed = torch_feed(lib, DALIGenericIterator, photos, threads, depth, **decoder)
        waited = [0.0, 0]

        def batches() -> Any:
            began = time.perf_counter()
            batch = feed()
            waited[0] += time.perf_counter() - began
            waited[1] += 1
            return batch

        rate = fed_rate(network, batches, iterations)
        feed.close()  # type: ignore[attr-defined]
        text += f" {rate:8.0f} {rate / repeated:6.2f} {1e3 * waited[0] / waited[1]:8.2f}"
    print(text, flush=True)


def _few_commands(make: Callable[..., Any], photos: str, threads: int, depth: int, iterations: int) -> None:
    from asyncdali.device.cuda import commands

    pipe = make(our_library(), photos, threads, depth)
    pipe.build()
    before = commands._FEW_COMMANDS
    try:
        for few in _FEW:
            commands._FEW_COMMANDS = few
            quiet = speed(pipe, iterations)
            with busy_thread() as turns:
                beside, began = turns(), time.perf_counter()
                rate = speed(pipe, iterations)
                kept = (turns() - beside) / (time.perf_counter() - began)
            print(
                f"{make.__name__:10} lock kept for {few:4} commands: quiet {quiet:8.0f}, busy {rate:8.0f} img/s, {kept:.3g} turns/s",
                flush=True,
            )
    finally:
        commands._FEW_COMMANDS = before
        pipe.close()


def report(photos: str, iterations: int, threads: int | None = None, depth: int = 6) -> None:
    """Print the tables. `threads`: of a pipeline; None: four fewer than there are processors."""
    threads = threads or max(len(os.sched_getaffinity(0)) - 4, 1)
    began = time.perf_counter()
    network = network_of("resnet18")
    repeated = fed_rate(network, one_batch(photos), iterations) if network is not None else 0.0
    print(f"{threads} threads, depth {depth}; ResNet-18 with one batch repeated: {repeated:.0f} img/s", flush=True)
    print(f"{'part of the engines':28} {'decoded':>8} {'training':>8} {'ResNet18':>8} {'ratio':>6} {'wait ms':>8}", flush=True)

    def line(name: str, **decoder: Any) -> None:
        _line(name, photos, threads, depth, iterations, network, repeated, **decoder)

    for part in _PARTS:
        line("default" if part is None else f"{part:.2f}", **({} if part is None else {"hw_decoder_load": part}))
    with _states(2):
        line("default, two states")
        line("all on engines, two states", hw_decoder_load=1.0)
    with _high_priority():
        line("default, high priority")
    with _states(2), _high_priority():
        line("default, both")
    for make in (training, two_views):
        _few_commands(make, photos, threads, depth, iterations)
    print(f"{time.perf_counter() - began:.0f} s", flush=True)
