"""A data set of which a tenth is broken, in twelve ways: one stream however it is made, and the quarantine lists the broken ones.

The slow tests have 5,000 samples in six formats, and three epochs. The others have a few samples of each format.
"""

from __future__ import annotations

import functools
import io
import itertools
import random
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import containers, videos
from PIL import Image

from asyncdali import fn, pipeline_def
from asyncdali.fleet import loader

BATCH = 24
EPOCHS = 3
DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "truncated": lambda data: data[: len(data) // 8],
    "header": lambda data: bytes(20) + data[20:],
    "garbage": lambda data: b"\x13\x57" * 40,
    "short": lambda data: data[:3],
}
"""With a missing file, the ways in which a sample may be broken. Each format has those that its decoder cannot read."""


def jpeg(number: int) -> bytes:
    return _picture(number, "JPEG")


def png(number: int) -> bytes:
    return _picture(number, "PNG")


def _picture(number: int, kind: str) -> bytes:
    out = io.BytesIO()
    noise = np.random.default_rng(number).integers(0, 255, (16, 16, 3), np.uint8)
    Image.fromarray(noise).save(out, kind)
    return out.getvalue()


def sound(number: int) -> bytes:
    """A WAV file of 16-bit samples."""
    data = np.full(40, number, np.int16).tobytes()
    head = b"WAVEfmt " + (16).to_bytes(4, "little") + bytes([1, 0, 1, 0]) + (8000).to_bytes(4, "little") + (16000).to_bytes(4, "little")
    body = head + bytes([2, 0, 16, 0]) + b"data" + len(data).to_bytes(4, "little") + data
    return b"RIFF" + len(body).to_bytes(4, "little") + body


@dataclass
class Format:
    """A storage format: `write` makes the files and returns what `define` needs; `ways` are the kinds of damage."""

    encoded: Callable[[int], bytes]
    ways: tuple[str, ...]
    count: int
    write: Callable[[Path, list[bytes | None]], Any]
    define: Callable[[Any], Any]


def _files(suffix: str) -> Callable[[Path, list[bytes | None]], Any]:
    def write(folder: Path, samples: list[bytes | None]) -> list[str]:
        names = [str(folder / f"{k:05}.{suffix}") for k in range(len(samples))]
        for name, data in zip(names, samples, strict=True):
            if data is not None:
                Path(name).write_bytes(data)
        return names

    return write


def _tfrecord(folder: Path, samples: list[bytes | None]) -> dict[str, Any]:
    records = [containers.example(image=data or b"", label=k) for k, data in enumerate(samples)]
    path = containers.write_tfrecord(folder / "all.tfrecord", records)
    return {"path": path, "index_path": f"{path}.idx"}


def _tar(folder: Path, samples: list[bytes | None]) -> dict[str, Any]:
    members = [member for k, data in enumerate(samples) for member in ((f"{k:05}.jpg", data or b""), (f"{k:05}.cls", b"%d" % k))]
    return {"paths": [containers.write_tar(folder / "all.tar", members)], "ext": ["jpg", "cls"]}


def _read_files(names: list[str]) -> Any:
    return fn.readers.file(files=names, labels=list(range(len(names))), name="reader", random_shuffle=True)


def _pictures(names: list[str]) -> Any:
    data, label = _read_files(names)
    return fn.decoders.image(data), label


def _sounds(names: list[str]) -> Any:
    data, label = _read_files(names)
    return fn.decoders.audio(data)[0], label


def _videos(names: list[str]) -> Any:
    data, label = _read_files(names)
    return fn.decoders.video(data), label


def _records(arguments: dict[str, Any]) -> Any:
    from asyncdali import tfrecord

    features = {"image": tfrecord.FixedLenFeature((), tfrecord.string, ""), "label": tfrecord.FixedLenFeature([1], tfrecord.int64, -1)}
    read = fn.readers.tfrecord(**arguments, features=features, name="reader", random_shuffle=True)
    return fn.decoders.image(read["image"]), read["label"]


def _members(arguments: dict[str, Any]) -> Any:
    data, label = fn.readers.webdataset(**arguments, name="reader", random_shuffle=True)
    return fn.decoders.image(data), label


def film(number: int) -> bytes:
    """One of three videos: writing one takes some milliseconds."""
    with tempfile.TemporaryDirectory() as folder:
        return Path(videos.write_video(Path(folder) / "film.webm", 4, 20 * (number % 3))).read_bytes()


FORMATS = {
    "jpeg": Format(jpeg, ("missing", "empty", "truncated", "header"), 1500, _files("jpg"), _pictures),
    "png": Format(png, ("missing", "truncated", "garbage"), 1000, _files("png"), _pictures),
    "tfrecord": Format(jpeg, ("empty", "garbage", "short"), 1000, _tfrecord, _records),
    "tar": Format(jpeg, ("empty", "header"), 600, _tar, _members),
    "sound": Format(sound, ("missing", "header", "short"), 700, _files("wav"), _sounds),
    "video": Format(functools.cache(film), ("empty", "garbage"), 200, _files("webm"), _videos),
}


class DataSet:
    """A data set on disk, and which of its samples are broken."""

    def __init__(self, name: str, folder: Path, count: int):
        kind = self.kind = FORMATS[name]
        chosen = random.Random(name).sample(range(count), count // 10)
        self.count, self.broken = count, set(chosen)
        encoded = kind.encoded
        samples: list[bytes | None] = [encoded(k) for k in range(count)]
        for way, number in zip(itertools.cycle(kind.ways), chosen):
            samples[number] = None if way == "missing" else DAMAGE[way](encoded(number))
        self.arguments = kind.write(folder, samples)

        @pipeline_def(batch_size=BATCH, num_threads=2, device_id=None, seed=7)
        def define() -> Any:
            return (*self.kind.define(self.arguments), fn.random.uniform())

        self.define = define

    @property
    def runs(self) -> int:
        """Iterations of all epochs."""
        return self.count * EPOCHS // BATCH

    def stream(self, pipe: Any, runs: int | None = None) -> list[list[tuple[int, int, float]]]:
        """(digest of the contents, label, draw) of each sample of each iteration."""
        found = []
        for _ in range(self.runs if runs is None else runs):
            data, labels, draws = pipe.run()
            found.append([
                (hash(np.asarray(one).tobytes()), _number(np.asarray(label)), float(np.asarray(draw)))
                for one, label, draw in zip(data, labels, draws, strict=True)
            ])  # fmt: skip
        return found

    def make(self, **options: Any) -> Any:
        pipe = self.define(on_error="replace", **options)
        pipe.build()
        return pipe

    def made(self, runs: int | None = None, **options: Any) -> list[list[tuple[int, int, float]]]:
        pipe = self.make(**options)
        found = self.stream(pipe, runs)
        if runs is None:
            assert {entry.index for entry in pipe.quarantine()} == self.broken
        pipe.close()
        return found


def _number(label: np.ndarray) -> int:
    """A label, or the text of one."""
    return int(label.tobytes()) if label.dtype == np.uint8 else int(label.item())


def check_full(data: DataSet, stream: list[list[tuple[int, int, float]]]) -> None:
    """Batches are full, without broken samples, and each good sample has its own contents."""
    assert {len(batch) for batch in stream} == {BATCH}
    contents: dict[int, set[int]] = {}
    for digest, label, _ in itertools.chain(*stream):
        contents.setdefault(label, set()).add(digest)
    assert set(contents) == set(range(data.count)) - data.broken
    assert all(len(found) == 1 for found in contents.values())


def check_ranks(data: DataSet, expected: list[list[tuple[int, int, float]]], count: int) -> None:
    """The ranks of a training get the stream of one process."""
    ranks = [loader(data.define, rank=rank, world_size=count, engines=0, on_error="replace") for rank in range(count)]
    parts = [data.stream(rank.pipeline) for rank in ranks]
    assert [list(itertools.chain(*samples)) for samples in zip(*parts, strict=True)] == expected
    for rank in ranks:
        rank.close()


def check_restarts(data: DataSet, expected: list[list[tuple[int, int, float]]], count: int) -> None:
    """One run that is stopped and restored at `count` random steps."""
    steps = sorted(random.Random(3).sample(range(1, data.runs), count))
    made, saved = [], None
    for first, stop in itertools.pairwise([0, *steps, data.runs]):
        pipe = data.make(enable_checkpointing=True, checkpoint=saved)
        made += data.stream(pipe, stop - first)
        saved = pipe.checkpoint()
        pipe.close()
    assert made == expected


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_a_small_set(name, tmp_path):
    data = DataSet(name, tmp_path, 60)
    expected = data.made()
    check_full(data, expected)
    assert data.made(num_threads=1, prefetch_queue_depth=5) == expected
    check_restarts(data, expected, 1)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(FORMATS))
def test_a_set_of_5000(name, tmp_path):
    data = DataSet(name, tmp_path, FORMATS[name].count)
    expected = data.made()
    check_full(data, expected)
    for _ in range(4):
        assert data.made() == expected
    for threads, depth, engines in itertools.product((1, 4), (1, 5), (0, 2)):
        assert data.made(num_threads=threads, prefetch_queue_depth=depth, engines=engines) == expected, (threads, depth, engines)
    for count in (1, 2, 3):
        check_ranks(data, expected, count)
    check_restarts(data, expected, 20)


def test_the_slow_set_has_5000_samples_and_12_kinds_of_damage():
    assert sum(kind.count for kind in FORMATS.values()) == 5000
    assert len({(name, way) for name, kind in FORMATS.items() for way in kind.ways}) >= 12
