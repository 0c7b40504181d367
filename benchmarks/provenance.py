"""Cost of provenance: one step of a shuffled million-file set, and asking at every step of the training pipeline.

    python -m benchmarks.provenance [--data FOLDER] [--rounds N]

Times are processor time. The pipeline with questions and the one without run in turns, over the same pictures.
"""

from __future__ import annotations

import argparse
import glob
import os
import time
from collections.abc import Callable
from typing import Any

from . import programs
from .harness import Table, median_interval
from .pictures import picture_folder

FILES, STEPS = 1_000_000, (100_000, 100_001, 250_000, 3)


def million(lib: Any, folder: str) -> Any:
    """The training pipeline over a list of a million names: the pictures of `folder`, repeated."""
    fn = lib.fn
    pictures = sorted(glob.glob(os.path.join(folder, "*", "*.jp*g")))
    names = [pictures[k % len(pictures)] for k in range(FILES)]

    @lib.pipeline_def(batch_size=64, num_threads=2, device_id=None, seed=7)
    def graph() -> Any:
        jpegs, labels = fn.readers.file(files=names, labels=[0] * FILES, random_shuffle=True, name="reader")
        images = fn.resize(fn.decoders.image_random_crop(jpegs), size=[224, 224])
        return fn.crop_mirror_normalize(images, mirror=fn.random.coin_flip(), dtype=lib.types.FLOAT), labels

    pipeline = graph()
    pipeline.build()
    pipeline.run()
    return pipeline


QUESTIONS: dict[str, Callable[[Any], object]] = {
    "files": lambda told: [list(taken) for taken in told.readers.values()],
    "files and draws": lambda told: ([list(taken) for taken in told.readers.values()], told.draws),
    "files, draws and windows": lambda told: ([list(taken) for taken in told.readers.values()], told.draws, told.windows),
    "to_dict()": lambda told: told.to_dict(),
    "str()": str,
}
"""Questions about the provenance of a step."""


def first_calls(lib: Any, folder: str) -> Table:
    """Questions about steps of the million-file set. The first one is the first call of the process."""
    table = Table("provenance of one step of a million shuffled files, ms of the asking thread", ["step", "positions, files", "all of it"])
    pipeline = million(lib, folder)
    for step in STEPS:
        began = time.thread_time()
        told = pipeline.provenance(step)
        QUESTIONS["files"](told)
        named = time.thread_time()
        QUESTIONS["to_dict()"](told)
        table.add(step, (named - began) * 1e3, (time.thread_time() - began) * 1e3)
    pipeline.close()
    return table


REGROUPED_STEPS = (1_000, 10_000, 100_000)
"""Steps of all epochs. Those of select end after 14,063 steps."""


def behind(lib: Any) -> Table:
    """Steps behind select and mix of a million shuffled files. Each step is asked of a pipeline of its own: it walks from the beginning."""
    fn = lib.fn
    columns = [f"{step:,} steps" for step in REGROUPED_STEPS]
    table = Table("provenance of a step behind a regrouping, ms of the asking thread", ["graph", *columns, "the step again"])
    names = [f"/data/{k % 1000:03}/{k}.jpg" for k in range(FILES)]  # labels and places need no files

    def reader(first: int, stop: int, name: str) -> Any:
        return fn.readers.file(files=names[first:stop], labels=range(first, stop), random_shuffle=True, initial_fill=10_000, name=name)[1]

    def selected() -> Any:
        label = reader(0, FILES, "A")
        return fn.experimental.select(label, where=label % 10 != 0)

    def mixed(per: str) -> Any:
        parts = [(reader(0, 600_000, "A"), 0.7), (reader(600_000, FILES, "B"), 0.3)]
        return fn.experimental.mix(parts, per=per, stop="never")

    graphs = {"select by label": selected, "mix of batches": lambda: mixed("batch"), "mix of samples": lambda: mixed("sample")}
    for name, graph in graphs.items():
        row = []
        for step in REGROUPED_STEPS:
            pipeline = lib.Pipeline(batch_size=64, num_threads=1, device_id=None, seed=7)
            with pipeline:
                pipeline.set_outputs(graph())
            pipeline.build()
            place = divmod(step, 14_063)[::-1] if graph is selected else (step,)
            for _ in range(2):
                began = time.thread_time()
                pipeline.provenance(*place).sample(0)
                row.append((time.thread_time() - began) * 1e3)
            pipeline.close()
        table.add(name, *row[::2], row[-1])
    return table


def each_step(lib: Any, folder: str, rounds: int) -> Table:
    """Per cent of the training pipeline's processor time that a question at every step takes, in turns of one epoch."""
    table = Table("asking at every step of training, processor time", ["asked", "ms per step", "%", "interval"])
    pipeline = programs.training(lib, folder)
    steps = max(2, pipeline.epoch_size("reader") // 64)
    for name, ask in QUESTIONS.items():
        without, share = [], []
        for _ in range(rounds):
            asked = spent = 0.0
            began = time.process_time()
            for _ in range(steps):
                (images, _) = pipeline.run()
                before = time.thread_time()
                ask(images.provenance())
                asked += time.thread_time() - before
            spent = time.process_time() - began - asked
            without.append(asked / steps * 1e3)
            share.append(100 * asked / spent)
        middle, low, high = median_interval(share)
        table.add(name, sorted(without)[rounds // 2], middle, f"{low:.2f} to {high:.2f}")
    pipeline.close()
    return table


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.provenance", description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="folder of class folders with JPEGs (default: ASYNCDALI_BENCH_DATA, else made ones)")
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    os.environ.setdefault("ASYNCDALI_DEVICE", "host")
    import asyncdali

    folder = picture_folder(options.data)
    first_calls(asyncdali, folder).print()
    behind(asyncdali).print()
    each_step(asyncdali, folder, options.rounds).print()


if __name__ == "__main__":
    main()
