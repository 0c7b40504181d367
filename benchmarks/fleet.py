"""Costs and gains of engines on other machines (docs/fleet.md): ``python -m benchmarks.fleet [training decode frames ray]``.

The engines are two processes of this machine with one thread each. They are used by TCP, as from another machine, and by shared memory.
They and a pipeline with two threads run in turns. ``ray`` is the training pipeline with two actors of a Ray fleet, each with one
processor of its own node, in a cluster of this machine (``ray.cluster_utils.Cluster``); needs ray. The actors are on the trainer's
machine, so they send by shared memory.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from typing import Any
from unittest import mock

import asyncdali
from asyncdali.device.buffers import BufferPool
from asyncdali.fleet import Actor, link, loader, near, read_token
from asyncdali.runtime.order.loop import shared_loop

from . import engines, programs
from .pictures import picture_folder

PROGRAMS = {"training": programs.training, "decode": programs.decode}


def train_of(name: str) -> Any:
    """A function for loaders and actors. The programs build their pipelines, so `pipeline_def` of a stand-in leaves that out."""

    class Lib:
        fn, types = asyncdali.fn, asyncdali.types

        @staticmethod
        def pipeline_def(**defaults: Any) -> Any:
            def decorate(graph: Any) -> Any:
                def make(**options: Any) -> Any:
                    pipe = asyncdali.pipeline_def(graph)(**{**defaults, **options})
                    pipe.build = lambda: None
                    return pipe

                return make

            return decorate

    def train(**options: Any) -> Any:
        pipe = PROGRAMS[name](Lib, picture_folder(None), 64, **options)
        del pipe.build
        return pipe

    return train


def serve(name: str, token: str) -> None:
    """The engine's process."""
    with Actor(train_of(name), token=read_token(token), threads=1) as actor:
        gc.freeze()  # as `asyncdali engine` does
        print(actor.address, flush=True)
        actor.wait()


COUNT, ROUNDS = 20, 12
"""Measured iterations of a turn, and turns."""


def turn(item: Any, pids: list[int]) -> engines.Row:
    """Per iteration: wall seconds, processor seconds of this process, and of the engines.

    The clock starts when iterations come as fast as they are made: the queue is full before the turn, and engines work while it is read.
    All work of the turn is counted, and ends before the next turn begins.
    """
    first = item.pipeline.prefetch_queue_depth + 5
    here, there = time.process_time(), engines.used_by(pids)
    for _ in range(first):
        engines.read(item.pipeline.run())
    began = time.perf_counter()
    for _ in range(COUNT):
        engines.read(item.pipeline.run())
    wall = time.perf_counter() - began
    while any(engine["outstanding"] for engine in item.engines()):  # `statistics` would ask the engines, which costs processor time
        time.sleep(0.005)
    while (queue := item.statistics().queue).ready < queue.in_flight:
        time.sleep(0.005)
    every = COUNT + first
    return wall / COUNT, (time.process_time() - here) / every, (engines.used_by(pids) - there) / every


def measure(name: str) -> None:
    with contextlib.ExitStack() as stack, tempfile.NamedTemporaryFile("w") as file:
        file.write("a token for the benchmark")
        file.flush()
        token = read_token(file.name)
        loaders = {"2 threads": stack.enter_context(loader(train_of(name), threads=2))}
        pids: dict[str, list[int]] = {"2 threads": []}
        for title, connect in (("TCP", lambda *_: None), ("shared", near.connect)):
            addresses = [stack.enter_context(process(name, file.name)) for _ in range(2)]
            with mock.patch.object(near, "connect", connect):
                loaders[title] = stack.enter_context(loader(train_of(name), engines=addresses, token=token, depth=4))
            pids[title] = [engine["pid"] for engine in loaders[title].engines()]
        in_turns(f"{name} pipeline (batch 64), two threads here or two engines with one thread each", loaders, pids)
        print(f"checkpoint: {len(loaders['TCP'].checkpoint())} bytes")


def in_turns(title: str, loaders: dict[str, Any], pids: dict[str, list[int]]) -> None:
    """Measure loaders in turns, and print a table. The first turn is not counted: each engine sees every picture for the first time."""
    rows: dict[str, list[engines.Row]] = {name: [] for name in loaders}
    for number in range(ROUNDS + 1):
        for name in list(loaders)[:: 1 if number % 2 else -1]:
            row = turn(loaders[name], pids[name])
            if number:
                rows[name].append(row)
    engines.table(title, rows, 64)
    used = {name: [row[1] + row[2] for row in each] for name, each in rows.items()}
    for other, name in itertools.combinations(loaders, 2):
        pairs = [a / b - 1 for a, b in zip(used[name], used[other])]
        print(f"{name} beside {other}: {statistics.median(pairs):+.1%} processor time ({min(pairs):+.1%} to {max(pairs):+.1%})")


def ray_fleet() -> None:
    """Two actors of a Ray fleet beside two threads."""
    import ray
    from ray.cluster_utils import Cluster

    from asyncdali.ray import Fleet
    from asyncdali.ray import loader as fleet_loader

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    for _ in range(2):
        cluster.add_node(num_cpus=1)
    try:
        ray.init(address=cluster.address, log_to_driver=False)
        train = train_of("training")
        fleet = Fleet(actors=2, resources={"CPU": 1})
        with loader(train, threads=2) as local, fleet_loader(train, fleet=fleet) as remote:
            fleet.wait()
            while len(remote.engines()) < 2 or not all(engine["connected"] for engine in remote.engines()):
                time.sleep(0.05)
            found = remote.engines()
            nodes = {engine["node"] for engine in fleet.statistics()["engines"]}
            print(f"\nRay {ray.__version__}: actors on {len(nodes)} nodes, by shared memory: {all(engine['near'] for engine in found)}")
            pids = {"2 threads": [], "Ray fleet": [engine["pid"] for engine in found]}
            title = "training pipeline (batch 64), two threads here or two Ray actors with one processor each"
            in_turns(title, {"2 threads": local, "Ray fleet": remote}, pids)
        fleet.close()
    finally:
        ray.shutdown()
        cluster.shutdown()


FRAME = 64 * 224 * 224 * 3
"""Bytes of the training pipeline's batch as it is sent."""


def frames(turns: int = 5) -> None:
    """Print the processor time of sending and receiving one frame by TCP, and nothing else."""
    found = [_frames() for _ in range(turns)]
    here, there = (statistics.median(column) * 1e3 for column in zip(*found))
    print(f"a frame of {FRAME / 1e6:.1f} MB by TCP: {here:.2f} ms here, {there:.2f} ms there, medians of {turns} turns")


def _frames(count: int = 200) -> tuple[float, float]:
    """Processor seconds of one frame, of the receiver and of the sender."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        command = [sys.executable, "-m", "benchmarks.fleet", "send", str(server.getsockname()[1]), str(count)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as sender:
            done, pool, links = threading.Event(), BufferPool(), []
            left = [count]

            def received(*_: Any) -> None:
                left[0] -= 1
                if not left[0]:
                    done.set()
                links[0].send({"k": 1})

            sock = server.accept()[0]
            began = time.process_time()
            shared_loop().call(lambda: links.append(link.Link(sock, pool.allocate, received, lambda reason: done.set())))
            done.wait()
            here = (time.process_time() - began) / count
            there = float(sender.stdout.readline() if sender.stdout else "nan")
            return here, there


def send(port: int, count: int) -> None:
    """The other end: two frames ahead, then one for each answer."""
    data, done, links = near.Shelf().pool.allocate(FRAME), threading.Event(), []  # as in an engine
    data[:] = 1
    left = [count - 2]

    def answered(*_: Any) -> None:
        left[0] -= 1
        if left[0] >= 0:
            one()
        elif left[0] == -2:
            done.set()

    def one() -> None:
        links[0].send({"a": 1}, b"", [[data.data]], [data])

    def go() -> None:
        links.append(link.Link(socket.create_connection(("127.0.0.1", port)), BufferPool().allocate, answered, lambda reason: done.set()))
        one()
        one()

    began = time.process_time()
    shared_loop().call(go)
    done.wait()
    print((time.process_time() - began) / count, flush=True)


@contextlib.contextmanager
def process(name: str, token: str) -> Iterator[str]:
    """The address of an engine's process."""
    command = [sys.executable, "-m", "benchmarks.fleet", "serve", name, token]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as started:
        try:
            yield started.stdout.readline().strip() if started.stdout else ""
        finally:
            started.kill()


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        serve(*sys.argv[2:])
    elif sys.argv[1:2] == ["send"]:
        send(*map(int, sys.argv[2:]))
    else:
        os.environ.setdefault("ASYNCDALI_BENCH_DATA", picture_folder(None))
        for chosen in sys.argv[1:] or [*PROGRAMS, "frames"]:
            if chosen == "frames":
                frames()
            elif chosen == "ray":
                ray_fleet()
            else:
                measure(chosen)
