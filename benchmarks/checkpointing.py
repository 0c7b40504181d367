"""Size and cost of a checkpoint, cost of enabling checkpoints, cost of restoring deep into a large data set."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from typing import Any

from . import programs
from .harness import Contender, Table, interleave

LARGE, AGE = 1_281_167, 1_281_000


def measure(folder: str, rounds: int) -> Table:
    """The table; targets from the project's issue."""
    import asyncdali

    table = Table("checkpoints", ["what", "value", "target"])
    pipeline = programs.notebook(asyncdali, folder, enable_checkpointing=True)
    for _ in range(3):
        pipeline.run()
    times = []
    for _ in range(50):
        pipeline.run()
        start = time.perf_counter()
        data = pipeline.checkpoint()
        times.append(time.perf_counter() - start)
    pipeline.close()
    table.add("checkpoint() of the notebook pipeline, us", statistics.median(times) * 1e6, "<= 200")
    table.add("its size, bytes", len(data), "<= 4096")
    table.add("enabling it, us per iteration", _enabling(rounds), "<= 5")
    for fill, limit in ((1024, 150), (None, 20)):
        extra = _restore_extra(fill)
        name = f"initial_fill={fill}" if fill else "unshuffled"
        table.add(f"restore at {AGE:,} of {LARGE:,}, {name}, ms of build()", extra * 1e3, f"<= {limit}")
    return table


def _enabling(rounds: int) -> float:
    """Extra microseconds per empty iteration with checkpointing enabled: the difference of the 10th percentiles of many short turns.

    On a busy machine, medians of two equal pipelines differ by up to 10 us. Undisturbed turns differ by less than 1 us.
    """
    import asyncdali

    contenders: dict[bool, list[Contender]] = {False: [], True: []}
    for enabled in (False, True, True, False) * 4:
        pipeline = programs.empty(asyncdali, enable_checkpointing=enabled)

        def step(pipeline: Any = pipeline) -> int:
            for _ in range(50):
                pipeline.run()
            return 50

        contenders[enabled].append(Contender(str(enabled), step, pipeline.close))
    everyone = [contender for pair in zip(*contenders.values()) for contender in pair]
    interleave(everyone, max(rounds, 15), 0.05)
    for contender in everyone:
        contender.close()
    off, on = (sorted(1e6 / rate for contender in kind for rate in contender.rates) for kind in contenders.values())
    return on[len(on) // 10] - off[len(off) // 10]


def _restore_extra(fill: int | None) -> float:
    """Seconds that restoring at AGE adds to build() of a reader over LARGE entries (one small file, listed LARGE times).

    Reading the list takes 1 s, plus or minus 0.1 s. So the restoring part of build() is timed separately.
    """
    import asyncdali
    from asyncdali.runtime.saving import Saving

    shuffle = {"random_shuffle": True, "initial_fill": fill} if fill else {}
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "sample.bin")
        with open(path, "wb") as file:
            file.write(b"x")
        listing = os.path.join(folder, "list.txt")
        with open(listing, "w") as text:
            text.write(f"{path} 0\n" * LARGE)

        @asyncdali.pipeline_def(batch_size=8, num_threads=1, device_id=None, seed=3, enable_checkpointing=True)
        def graph() -> Any:
            return asyncdali.fn.readers.file(file_list=listing, name="reader", **shuffle)

        plain = graph()
        saved = _at_age(plain.checkpoint())
        plain.close()
        times = []
        original = Saving.restore

        def timed(self: Any, data: Any) -> object:
            start = time.perf_counter()
            iterator = original(self, data)
            times.append(time.perf_counter() - start)
            return iterator

        Saving.restore = timed  # type: ignore[method-assign]
        try:
            for _ in range(3):
                pipeline = graph(checkpoint=saved)
                pipeline.run()
                pipeline.close()
        finally:
            Saving.restore = original  # type: ignore[method-assign]
        return statistics.median(times)


def _at_age(data: bytes) -> bytes:
    """The checkpoint with its position changed to AGE samples into the first epoch."""
    from asyncdali import checkpoint

    body = checkpoint.decode(data)
    engine, epoch, _ = body["operators"]["reader"]
    return checkpoint.encode(
        checkpoint.graph_json(body["graph"]), {"reader": [engine, epoch, AGE]}, AGE // 8, 0, None, body["library"]
    )
