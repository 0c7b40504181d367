"""Iterators restored in a separate process: ``python -m helpers.restoring FRAMEWORK FILE`` prints the batches of all saved iterators."""

from __future__ import annotations

import importlib
import pickle
import sys
from dataclasses import dataclass
from typing import Any

from helpers import jax_devices  # noqa: F401  before jax
from helpers.iterators import reader_pipelines, walk


@dataclass(frozen=True)
class Setting:
    """An iterator over readers of random order, and a draw."""

    files: tuple[str, ...]
    policy: str
    shards: int
    ids: tuple[int, ...]
    pad: bool
    stick: bool
    prepare: bool
    auto_reset: bool

    def iterator(self, framework: str, checkpoints: Any = None) -> Any:
        plugin = importlib.import_module(f"asyncdali.plugin.{framework}")
        pipes = reader_pipelines(
            list(self.files), 3, self.shards, self.ids, checkpoints=checkpoints, random=True, random_shuffle=True, initial_fill=4,
            pad_last_batch=self.pad, stick_to_shard=self.stick,
        )  # fmt: skip
        return plugin.DALIGenericIterator(
            pipes, ["number", "draw"], reader_name="reader", auto_reset=self.auto_reset, prepare_first_batch=self.prepare,
            last_batch_policy=plugin.LastBatchPolicy[self.policy],
        )  # fmt: skip


def main() -> None:
    framework, path = sys.argv[1:]
    with open(path, "rb") as file:
        saved = pickle.load(file)
    print([walk(setting.iterator(framework, checkpoints), steps) for setting, checkpoints, steps in saved])


if __name__ == "__main__":
    main()
