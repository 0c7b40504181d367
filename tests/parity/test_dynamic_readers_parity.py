"""Readers of dynamic mode beside DALI's: batches, single samples, direct calls, shards, shuffles, ends of epochs, metadata, states.

Captured loops are compared with plain ones, because DALI refuses captured loops with checkpoints.
"""

from __future__ import annotations

import importlib
import itertools
import random
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.readers import COUNT, EVERY_KIND, Kind

import asyncdali.dynamic as ours

theirs = pytest.importorskip("nvidia.dali.experimental.dynamic")

CLASSES = {
    "tfrecord": "readers.TFRecord", "caffe": "readers.Caffe", "caffe2": "readers.Caffe2", "mxnet": "readers.MXNet",
    "numpy": "readers.Numpy", "coco": "readers.COCO", "nemo_asr": "readers.NemoAsr", "webdataset": "readers.Webdataset",
    "video": "experimental.readers.Video", "file": "readers.File",
}  # fmt: skip
"""The classes of the kinds that DALI reads without a GPU. Sequences have none, neither in DALI nor here."""
ALL_CLASSES = CLASSES | {"fits": "experimental.readers.Fits", "readers.video": "readers.Video"}
PROGRAMS = 10
STEPS = 14


@pytest.fixture(scope="module", params=sorted(set(CLASSES) & set(EVERY_KIND)))
def data(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Kind, dict[str, Any]]:
    kind = EVERY_KIND[request.param]
    return kind, kind.write(tmp_path_factory.mktemp(kind.name))


def reader(lib: Any, kind: Kind, arguments: dict[str, Any], **more: Any) -> Any:
    """The reader of a library."""
    given = {**arguments, **more}
    if kind.name == "tfrecord":
        records = importlib.import_module("asyncdali.tfrecord" if lib is ours else "nvidia.dali.tfrecord")
        given["features"] = {"image": records.FixedLenFeature((), records.string, ""),
                             "label": records.FixedLenFeature([1], records.int64, -1)}  # fmt: skip
    made = lib
    for name in ALL_CLASSES[kind.name].split("."):
        made = getattr(made, name)
    return made(**given)


def values(item: Any) -> list[Any]:
    """Names, classes, element types, layouts and contents of an item."""
    named = list(item) if isinstance(item, dict) else []
    columns = list(item.values()) if isinstance(item, dict) else list(item) if isinstance(item, (tuple, list)) else [item]
    seen: list[Any] = [type(item).__name__, named]
    for column in columns:
        samples = list(column.tensors) if type(column).__name__ == "Batch" else [column]
        seen.append((type(column).__name__, str(column.dtype), column.layout, [np.asarray(sample).tolist() for sample in samples]))
    return seen


def order(draw: random.Random, kind: Kind) -> dict[str, Any]:
    """Random arguments of a reader."""
    shards = draw.choice((1, 1, 2, 3))
    found: dict[str, Any] = {"num_shards": shards, "shard_id": draw.randrange(shards), "seed": draw.randrange(100)}
    for name in ("random_shuffle", "stick_to_shard", "pad_last_batch"):
        if draw.random() < 0.4:
            found[name] = True
    if found.get("random_shuffle"):
        found["initial_fill"] = draw.choice((1, 4, 20))
    elif kind.after_epoch and draw.random() < 0.3 and not found.get("stick_to_shard"):
        found["shuffle_after_epoch"] = True
    return found


def stream(given: Any, kind: str, size: int | None) -> Iterator[Any]:
    """Endless items of a reader: of epochs, each with "end" behind it, or of direct calls."""
    while kind == "calls":
        yield values(given() if size is None else given(batch_size=size))
    while True:
        yield from map(values, given.next_epoch() if size is None else given.next_epoch(batch_size=size))
        yield "end"


def items(lib: Any, kind: Kind, arguments: dict[str, Any], use: str, size: int | None, count: int, **more: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = reader(lib, kind, arguments, **more)
        found = list(itertools.islice(stream(made, use, size), count))
        return found, made.get_metadata() if use == "epochs" else None


def test_items(data: tuple[Kind, dict[str, Any]]) -> None:
    kind, files = data
    draw = random.Random(kind.name)
    for _ in range(PROGRAMS):
        arguments = {**files, **order(draw, kind)}
        use, size = draw.choice((("epochs", None), ("epochs", 1), ("epochs", 3), ("epochs", 4), ("epochs", 13), ("calls", 1), ("calls", 4)))
        most = {"max_batch_size": size} if use == "calls" else {}  # in DALI, calls have no other sizes
        count = 2 * COUNT
        expected = items(theirs, kind, arguments, use, size, count, **most)
        assert items(ours, kind, arguments, use, size, count, **most) == expected, (arguments, use, size)


def test_resumed_items(data: tuple[Kind, dict[str, Any]]) -> None:
    """A new reader with the state of another one continues with DALI's next items."""
    kind, files = data
    draw = random.Random(kind.name)
    for _ in range(PROGRAMS):
        arguments = {**files, **order(draw, kind), "enable_checkpointing": True}
        size, before = draw.choice((1, 3, 4)), draw.randrange(1, 12)
        left = []
        for lib in (theirs, ours):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                first, second = (reader(lib, kind, arguments) for _ in range(2))
                taken = stream(first, "epochs", size)
                for _ in range(before):
                    next(taken)
                second.set_state(str(first.get_state()))
                # DALI begins an epoch at the state, so only the order of the items is compared.
                left.append(list(itertools.islice((item for item in stream(second, "epochs", size) if item != "end"), 8)))
        assert left[1] == left[0], (arguments, size, before)


def looped(made: Any, size: int, capture: bool, last_batch: str, count: int) -> list[Any]:
    """The results of a loop's steps, each with the reader's state. "end" stands for the end of an epoch."""
    found: list[Any] = []
    while True:
        for item in made.next_epoch(batch_size=size, capture=capture, last_batch=last_batch):
            columns = list(item.values()) if isinstance(item, dict) else list(item)
            copies = [ours.copy(column) for column in columns]
            found.append((values((*copies, ours.pad(columns[0], fill_value=3))), str(made.get_state())))
            if len(found) >= count:
                return found
        found.append("end")


@pytest.mark.parametrize("name", sorted(set(ALL_CLASSES) & set(EVERY_KIND)))
def test_captured_items(name: str, tmp_path: Path) -> None:
    """A captured loop sees what a plain one sees, also after it was resumed in mid-epoch."""
    kind = EVERY_KIND[name]
    files, draw = kind.write(tmp_path), random.Random(name)
    for last_batch in ("wrap", "partial", "drop"):
        arguments = {**files, **order(draw, kind), "enable_checkpointing": True}
        size = draw.choice((1, 2, 3))  # a shard has at least three samples
        plain = looped(reader(ours, kind, arguments), size, False, last_batch, STEPS)
        assert looped(reader(ours, kind, arguments), size, True, last_batch, STEPS) == plain, (arguments, size, last_batch)
        begin = draw.choice([k for k, step in enumerate(plain[:-2]) if step != "end"])
        resumed = reader(ours, kind, arguments)
        resumed.set_state(plain[begin][1])
        rest = plain[begin + 1 :]
        assert looped(resumed, size, True, last_batch, len(rest)) == rest, (arguments, size, last_batch, begin)
