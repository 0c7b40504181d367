"""``python -m benchmarks.gpu two-views | busy | train``: whole workloads, beside DALI where it is installed."""

from __future__ import annotations

import functools
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np

from .gpu import BATCH, enough, speed, training, two_views

_DALI_LOADS = (0.65, 0.8)
_INTERVALS = (0.005, 0.001, 0.0002)
_LANES: tuple[dict[str, Any], ...] = ({}, {"decoder": "cpu"}, {"decoder": "shared"}, {"decoder": "hardware"}, {"decoder": "all"})


def _built(make: Callable[..., Any], lib: Any, photos: str, threads: int, depth: int, **decoder: Any) -> Any:
    pipe = make(lib, photos, threads, depth, **decoder)
    pipe.build()
    return pipe


def _close(pipe: Any) -> None:
    if hasattr(pipe, "close"):
        pipe.close()


def our_library() -> Any:
    os.environ["ASYNCDALI_DEVICE"] = "cuda"
    import asyncdali

    return asyncdali


def two_views_report(dali: Any, photos: str, iterations: int, rounds: int) -> None:
    """Pictures per second of two views: ours by lanes and depth, DALI's by load. Run in turns; values are medians."""
    lib, threads = our_library(), len(os.sched_getaffinity(0))
    settings: list[tuple[Any, str, int, int, dict[str, Any]]] = [
        (lib, "asyncdali", max(threads - 4, 1), depth, lanes) for lanes in _LANES for depth in (3, 6)
    ]
    if dali is not None:
        settings += [(dali, "DALI", threads - 2, 4, {"hw_decoder_load": load}) for load in _DALI_LOADS]
    rates: dict[int, list[float]] = {k: [] for k in range(len(settings))}
    for _ in range(rounds):
        for k, (library, _, count, depth, lanes) in enumerate(settings):
            pipe = _built(two_views, library, photos, count, depth, **lanes)
            rates[k].append(speed(pipe, enough(iterations, depth)))
            _close(pipe)
        print("two views, one round: " + " ".join(f"{found[-1]:.0f}" for found in rates.values()), flush=True)
    for k, (_, name, count, depth, lanes) in enumerate(settings):
        print(
            f"two views {name:10} {lanes or 'default'!s:28} {count:3} threads, depth {depth}: {np.median(rates[k]):8.0f} img/s", flush=True
        )
    pipe = _built(two_views, lib, photos, max(threads - 4, 1), 6)
    for _ in range(20):
        pipe.run()
    for operator in pipe.statistics().operators:
        planning = operator.planning_seconds / max(operator.iterations, 1) * 1e6
        print(f"  {operator.operator:24} {operator.backend:6} planning {planning:7.0f} us per batch", flush=True)
    _close(pipe)


@contextmanager
def busy_thread() -> Iterator[Callable[[], int]]:
    """A thread that runs pure Python in the background. Gives a function that returns the number of turns so far."""
    turns, stop = [0], threading.Event()

    def spin() -> None:
        while not stop.is_set():
            for _ in range(1000):
                turns[0] += 1

    thread = threading.Thread(target=spin, daemon=True)
    thread.start()
    try:
        yield lambda: turns[0]
    finally:
        stop.set()
        thread.join()


def _spinning_alone(seconds: float = 0.5) -> float:
    """Turns per second of the busy thread when nothing else runs."""
    with busy_thread() as turns:
        before, began = turns(), time.perf_counter()
        time.sleep(seconds)
        return (turns() - before) / (time.perf_counter() - began)


def with_engines(lib: Any, engines: int) -> Any:
    """The library with pipelines that have engines. They are spawned, because CUDA may be initialised."""
    if not engines:
        return lib
    define = functools.partial(lib.pipeline_def, engines=engines, engine_start_method="spawn")
    return SimpleNamespace(fn=lib.fn, types=lib.types, pipeline_def=define)


def busy(
    dali: Any, photos: str, iterations: int, rounds: int, engines: int = 0, depth: int = 6, only: tuple[str, ...] = (),
    count: int | None = None,
) -> None:  # fmt: skip
    """Training and two views while a thread runs pure Python, by switch interval. Also the share of its turns that this thread keeps.

    A round measures every interval right after the quiet rate, because the rate of a machine that others use changes within seconds.
    """
    lib, threads = with_engines(our_library(), engines), count or max(len(os.sched_getaffinity(0)) - 4, 1)
    alone = _spinning_alone()
    libraries: list[tuple[str, Any, int, dict[str, Any]]] = [(f"asyncdali, depth {depth}", lib, depth, {})]
    if dali is not None:
        libraries.append((f"DALI, depth {depth}", dali, depth, {"hw_decoder_load": 0.65}))
    for make in [make for make in (training, two_views) if not only or make.__name__ in only]:
        for name, library, queued, lanes in libraries:
            pipe = _built(make, library, photos, threads, queued, **lanes)
            found = [_busy_round(pipe, enough(iterations, queued)) for _ in range(rounds)]
            quiet = np.array([rate for rate, _ in found])
            print(f"busy {make.__name__:10} {name:19} quiet {np.median(quiet):8.0f} img/s", flush=True)
            for k, interval in enumerate(_INTERVALS):
                rates, shares = (np.array([beside[k][part] for _, beside in found]) for part in (0, 1))
                print(
                    f"busy {make.__name__:10} {name:19} switch interval {1e3 * interval:4.1f} ms: {np.median(rates):8.0f} img/s "
                    f"({np.median(rates / quiet):.2f} of quiet), the thread keeps {np.median(shares) / alone:.2f} of its turns", flush=True,
                )  # fmt: skip
            _close(pipe)


def _busy_round(pipe: Any, iterations: int) -> tuple[float, list[tuple[float, float]]]:
    """The quiet rate; then, for each switch interval, the rate beside a busy thread and this thread's turns per second."""
    quiet, kept = speed(pipe, iterations), sys.getswitchinterval()
    beside = []
    try:
        for interval in _INTERVALS:
            sys.setswitchinterval(interval)
            with busy_thread() as turns:
                before, began = turns(), time.perf_counter()
                rate = speed(pipe, iterations)
                beside.append((rate, (turns() - before) / (time.perf_counter() - began)))
    finally:
        sys.setswitchinterval(kept)
    return quiet, beside


def network_of(name: str) -> Any:
    """(model, optimiser) of torchvision, bf16, channels last; None where torch or torchvision is not installed."""
    try:
        import torch
        import torchvision
    except ImportError:
        return None
    torch.backends.cudnn.benchmark = True
    model = getattr(torchvision.models, name)().cuda().to(memory_format=torch.channels_last)
    return model, torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)


def _step(network: Any, images: Any, labels: Any) -> None:
    import torch

    model, optimiser = network
    optimiser.zero_grad(set_to_none=True)
    with torch.autocast("cuda", torch.bfloat16):
        loss = torch.nn.functional.cross_entropy(model(images), labels)
    loss.backward()
    optimiser.step()


def one_batch(photos: str) -> Callable[[], tuple[Any, Any]]:
    """Gives the same batch of pictures in every call. A GPU at its power limit is faster with noise or zeros."""
    from asyncdali.plugin.pytorch import DALIGenericIterator

    feed = torch_feed(our_library(), DALIGenericIterator, photos, 1)
    images, labels = (tensor.clone() for tensor in feed())
    feed.close()  # type: ignore[attr-defined]
    return functools.partial(tuple, (images, labels))


def fed_rate(network: Any, batches: Callable[[], tuple[Any, Any]], iterations: int) -> float:
    """Pictures per second of training."""
    import torch

    for _ in range(10):
        _step(network, *batches())
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(iterations):
        _step(network, *batches())
    torch.cuda.synchronize()
    return BATCH * iterations / (time.perf_counter() - began)


def torch_feed(library: Any, iterator: Any, photos: str, threads: int, depth: int = 6, **decoder: Any) -> Callable[[], tuple[Any, Any]]:
    import torch

    pipe = _built(training, library, photos, threads, depth, **decoder)
    made = iterator([pipe], ["data", "label"], auto_reset=True, reader_name="Reader")

    def batches() -> tuple[Any, Any]:
        try:
            batch = next(made)[0]
        except StopIteration:
            batch = next(made)[0]
        images = batch["data"].to(memory_format=torch.channels_last)
        return images, batch["label"].view(-1).long().to("cuda", non_blocking=True)

    batches.close = lambda: _close(pipe)  # type: ignore[attr-defined]
    return batches


def train(dali: Any, photos: str, iterations: int, rounds: int, only: tuple[str, ...] = (), count: int | None = None) -> None:
    """Training steps of ResNet-18, ResNet-50 and ViT-B/16 fed by the torch iterator, in turns, beside one batch repeated."""
    lib, threads = our_library(), count or max(len(os.sched_getaffinity(0)) - 4, 1)
    for name in only or ("resnet18", "resnet50", "vit_b_16"):
        network = network_of(name)
        if network is None:
            print("torch or torchvision is not installed: no training step")
            return
        from asyncdali.plugin.pytorch import DALIGenericIterator

        feeds: dict[str, Callable[[], tuple[Any, Any]]] = {"one batch repeated": one_batch(photos)}
        for lanes in _LANES:
            feeds[f"asyncdali {lanes.get('decoder', 'default')}"] = torch_feed(lib, DALIGenericIterator, photos, threads, **lanes)
        if dali is not None:
            feeds["DALI"] = torch_feed(dali, dali.plugin.pytorch.DALIGenericIterator, photos, threads, hw_decoder_load=0.65)
        rates: dict[str, list[float]] = {key: [] for key in feeds}
        for _ in range(rounds):
            for key, batches in feeds.items():
                rates[key].append(fed_rate(network, batches, iterations))
            print(f"train {name}, one round: " + " ".join(f"{found[-1]:.0f}" for found in rates.values()), flush=True)
        best = float(np.median(rates["one batch repeated"]))
        for key, found in rates.items():
            rate = float(np.median(found))
            print(f"train {name} {key:22} {rate:8.0f} img/s ({rate / best:.2f})", flush=True)
        for batches in feeds.values():
            getattr(batches, "close", lambda: None)()
