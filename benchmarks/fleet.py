"""Costs and gains of engines on other machines (docs/fleet.md): ``python -m benchmarks.fleet [training decode]``.

The engines are two processes of this machine with one thread each. They are used by TCP, as from another machine, and by shared memory.
They and a pipeline with two threads run in turns.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from typing import Any
from unittest import mock

import asyncdali
from asyncdali.fleet import Actor, loader, near, read_token

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
        print(actor.address, flush=True)
        actor.wait()


def measure(name: str, rounds: int = 5) -> None:
    with tempfile.NamedTemporaryFile("w") as file:
        file.write("a token for the benchmark")
        file.flush()
        command = [sys.executable, "-m", "benchmarks.fleet", "serve", name, file.name]
        processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
        try:
            addresses = [process.stdout.readline().strip() for process in processes if process.stdout]
            token = read_token(file.name)
            loaders = {"2 threads": loader(train_of(name), threads=2)}
            for title, connect in (("TCP", lambda *_: None), ("shared", near.connect)):
                with mock.patch.object(near, "connect", connect):
                    loaders[title] = loader(train_of(name), engines=addresses, token=token, depth=4)
                    loaders[title].pipeline.build()
            pipes = {title: item.pipeline for title, item in loaders.items()}
            for pipe in pipes.values():
                for _ in range(6):
                    pipe.run()
            found = engines.in_turns(pipes, 10, engines.read, rounds)
            engines.table(f"{name} pipeline (batch 64), two threads here or two engines with one thread each", found, 64)
            used = {title: statistics.median(row[1] + row[2] for row in rows) for title, rows in found.items()}
            more = {title: used[title] / used["2 threads"] - 1 for title in ("TCP", "shared")}
            print(", ".join(f"{title}: {share:+.1%} processor time" for title, share in more.items()))
            print(f"checkpoint: {len(loaders['TCP'].checkpoint())} bytes")
            for item in loaders.values():
                item.close()
        finally:
            for process in processes:
                process.kill()
                process.communicate()


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        serve(*sys.argv[2:])
    else:
        os.environ.setdefault("ASYNCDALI_BENCH_DATA", picture_folder(None))
        for chosen in sys.argv[1:] or list(PROGRAMS):
            measure(chosen)
