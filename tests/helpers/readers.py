"""Ten numbered samples in every storage format, and pipelines of one reader over them."""

from __future__ import annotations

import importlib
import importlib.util
import json
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

import asyncdali

from . import containers, videos

COUNT = 10
PARTS = (4, 3, 3)
"""Samples of the container files."""


@dataclass
class Kind:
    """One format. `write` makes the files and returns the arguments, `call` makes the outputs, `number` reads a sample's number."""

    name: str
    write: Callable[[Path], dict[str, Any]]
    call: Callable[..., Any] | None = None
    number: Callable[[list[np.ndarray]], int] = lambda sample: int(sample[0].tobytes())
    pre_permute: bool = False
    contained: bool = True
    after_epoch: bool = True
    in_dali: bool = True
    """Whether DALI reads it on a machine without a GPU."""
    hostile: dict[str, Any] = field(default_factory=dict)
    """Further arguments that let damage reach more code."""
    seal: Callable[..., bytes] | None = None
    """Corrects the checksums of a damaged file in some cases, so that the damage reaches more code."""

    def outputs(self, lib: Any, arguments: dict[str, Any]) -> list[Any]:
        if self.call is not None:
            made = self.call(lib, arguments)
        else:
            made = getattr(lib.fn.readers, self.name)(**arguments)
        return list(made) if isinstance(made, (list, tuple)) else [made]


def numbered(part: int) -> range:
    """The samples of a container file."""
    return range(sum(PARTS[:part]), sum(PARTS[: part + 1]))


def content(k: int) -> bytes:
    """The payload of sample `k`: its number, with a number of digits that makes the sizes differ."""
    return b"%0*d" % (k + 1, k)


def _write_tfrecord(folder: Path) -> dict[str, Any]:
    paths = [
        containers.write_tfrecord(folder / f"{part}.tfrecord", [containers.example(image=content(k), label=k) for k in numbered(part)])
        for part in range(len(PARTS))
    ]
    return {"path": paths, "index_path": [f"{path}.idx" for path in paths]}


def _seal_tfrecord(path: Path, good: bytes, broken: bytes, rng: np.random.Generator) -> bytes:
    """In half of the cases, frame the current bytes correctly as records at the old boundaries."""
    if path.suffix == ".idx" or rng.random() < 0.5:
        return broken
    out, at = b"", 0
    while at < len(good):
        size = int.from_bytes(good[at : at + 8], "little")
        out += containers.frame(broken[at + 12 : at + 12 + size].ljust(size, b"\0"))
        at += size + 16
    return out


def _call_tfrecord(lib: Any, arguments: dict[str, Any]) -> Any:
    kinds = importlib.import_module(f"{lib.__name__}.tfrecord")
    features = {"image": kinds.FixedLenFeature((), kinds.string, ""), "label": kinds.FixedLenFeature([1], kinds.int64, -1)}
    return list(lib.fn.readers.tfrecord(features=features, **arguments).values())


def _write_caffe(folder: Path) -> dict[str, Any]:
    record = containers.datum
    return {"path": [containers.write_lmdb(folder / str(part), [record(content(k), k) for k in numbered(part)]) for part in range(3)]}


def _write_caffe2(folder: Path) -> dict[str, Any]:
    def record(k: int) -> bytes:
        return containers.tensors(content(k), np.int32([k]))

    return {"path": [containers.write_lmdb(folder / str(part), [record(k) for k in numbered(part)]) for part in range(3)]}


def _write_webdataset(folder: Path) -> dict[str, Any]:
    paths = []
    for part in range(len(PARTS)):
        members = [(f"d/{k:03d}.{ext}", content(k)) for k in numbered(part) for ext in ("img", "cls")]
        paths.append(containers.write_tar(folder / f"{part}.tar", members))
    return {"paths": paths, "ext": ["img", "cls;other"]}


def _seal_tar(path: Path, good: bytes, broken: bytes, rng: np.random.Generator) -> bytes:
    """In most cases, write correct checksums at the old headers."""
    if rng.random() < 0.2 or len(broken) < 512:
        return broken
    out = bytearray(broken)
    for at in range(0, len(out) - 511, 512):
        if out[at + 257 : at + 262] == b"ustar":
            total = sum(out[at : at + 148]) + 256 + sum(out[at + 156 : at + 512])
            out[at + 148 : at + 156] = b"%06o\0 " % total
    return bytes(out)


def _write_mxnet(folder: Path) -> dict[str, Any]:
    """One index through three files; labels of one or two numbers."""
    paths, lines, at = [], [], 0
    for part in range(len(PARTS)):
        path = folder / f"{part}.rec"
        with open(path, "wb") as file:
            for k in numbered(part):
                record = containers.recordio(content(k), [k, k] if part == 1 else float(k))
                file.write(record)
                lines.append(f"{k}\t{at}\n")
                at += len(record)
        paths.append(str(path))
    (folder / "index.idx").write_text("".join(lines))
    return {"path": paths, "index_path": [str(folder / "index.idx")]}


def _write_numpy(folder: Path) -> dict[str, Any]:
    for k in range(COUNT):
        np.save(folder / f"{k}.npy", np.full((k + 1, 2), k, np.int32))
    return {"file_root": str(folder)}


def _write_coco(folder: Path) -> dict[str, Any]:
    """Images listed in reverse; image k has k boxes."""
    images = [{"id": 5 * k, "width": 20, "height": 10, "file_name": f"{k}.jpg"} for k in reversed(range(COUNT))]
    shapes = [[[1, 2, 8, 2, 8, 9]], {"size": [10, 20], "counts": [5, 7, 188]}]
    boxes = [{"image_id": 5 * k, "category_id": 3, "bbox": [1, 2, k + 1, 4], "segmentation": shapes[m % 2]}
             for k in range(COUNT) for m in range(k)]  # fmt: skip
    for k in range(COUNT):
        (folder / f"{k}.jpg").write_bytes(content(k))
    text = json.dumps({"images": images, "annotations": boxes, "categories": [{"id": 3}]})
    (folder / "annotations.json").write_text(text)
    return {"file_root": str(folder), "annotations_file": str(folder / "annotations.json")}


def _write_sequence(folder: Path) -> dict[str, Any]:
    """Streams of 6, 5 and 5 frames: 4, 3 and 3 sequences of 3 frames; the grey level of a frame gives its number."""
    from PIL import Image

    for part, count in enumerate(PARTS):
        stream = folder / str(part)
        stream.mkdir()
        for k in range(count + 2):
            Image.fromarray(np.full((4, 5, 3), sum(PARTS[:part]) + k, np.uint8)).save(stream / f"{k:02d}.png")
    return {"file_root": str(folder), "sequence_length": 3}


def _write_nemo(folder: Path) -> dict[str, Any]:
    """WAV files of Python's own writer; two manifests."""
    import wave

    lines = []
    for k in range(COUNT):
        with wave.open(str(folder / f"{k}.wav"), "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(8000)
            file.writeframes(np.full(10 + k, 100 * k, "<i2").tobytes())
        lines.append(json.dumps({"audio_filepath": str(folder / f"{k}.wav"), "duration": 1.0, "text": f"text {k}"}))
    (folder / "a.json").write_text("\n".join(lines[:6]))
    (folder / "b.json").write_text("\n".join(lines[6:]) + "\n")
    return {"manifest_filepaths": [str(folder / "a.json"), str(folder / "b.json")]}


def _write_fits(folder: Path) -> dict[str, Any]:
    """One image per file, in its second unit."""
    for k in range(COUNT):
        (folder / f"{k}.fits").write_bytes(containers.fits(None, np.full((k + 1, 2), k, np.int16)))
    return {"file_root": str(folder)}


def _write_video(folder: Path) -> dict[str, Any]:
    """Videos of 6, 5 and 5 frames: 4, 3 and 3 sequences of 3 frames; the grey level of a frame gives its number."""
    paths = [videos.write_video(folder / f"{part}.webm", count + 2, videos.STEP * sum(PARTS[:part])) for part, count in enumerate(PARTS)]
    return {"filenames": paths, "labels": [3, 1, 2], "sequence_length": 3, "step": 1, "enable_timestamps": True}


def _call_video(lib: Any, arguments: dict[str, Any]) -> Any:
    return lib.fn.experimental.readers.video(**arguments)


def _call_older_video(lib: Any, arguments: dict[str, Any]) -> Any:
    return lib.fn.readers.video(**arguments)


def _call_fits(lib: Any, arguments: dict[str, Any]) -> Any:
    return lib.fn.experimental.readers.fits(**arguments)


KINDS = {kind.name: kind for kind in [
    Kind("tfrecord", _write_tfrecord, _call_tfrecord, seal=_seal_tfrecord),
    Kind("caffe", _write_caffe, after_epoch=False),
    Kind("caffe2", _write_caffe2, after_epoch=False),
    Kind("mxnet", _write_mxnet),
    Kind("numpy", _write_numpy, number=lambda sample: int(sample[0][0, 0]), pre_permute=True, contained=False),
    Kind("coco", _write_coco, pre_permute=True, contained=False, hostile={"pixelwise_masks": True}),
    Kind("sequence", _write_sequence, number=lambda sample: int(sample[0][0, 0, 0, 0]), pre_permute=True, contained=False,
         after_epoch=False),
    Kind("nemo_asr", _write_nemo, number=lambda sample: round(float(sample[0][0]) * 327.68), pre_permute=True, contained=False),
    Kind("fits", _write_fits, _call_fits, number=lambda sample: int(sample[0][0, 0]), pre_permute=True, contained=False,
         in_dali=False),
    Kind("webdataset", _write_webdataset, seal=_seal_tar),
]}  # fmt: skip
"""Every reader. Video readers only if PyAV is installed."""
if importlib.util.find_spec("av"):
    KINDS["video"] = Kind("video", _write_video, _call_video, number=lambda sample: videos.frame_numbers(sample[0])[0],
                          pre_permute=True, contained=False, after_epoch=False)  # fmt: skip


def _write_file(folder: Path) -> dict[str, Any]:
    for k in range(COUNT):
        (folder / f"c{k // 5}").mkdir(exist_ok=True)
        (folder / f"c{k // 5}" / f"{k}.jpg").write_bytes(content(k))
    return {"file_root": str(folder)}


def _write_named(folder: Path) -> dict[str, Any]:
    for k in range(COUNT):
        (folder / f"{k}.bin").write_bytes(content(k))
    return {"folder": str(folder)}


def _call_named(lib: Any, arguments: dict[str, Any]) -> Any:
    """io.file.read of four files, repeatedly."""
    names = [np.frombuffer(f"{arguments['folder']}/{k}.bin".encode(), np.uint8) for k in range(4)]
    more = {"allow_remote_entries": True} if "://" in arguments["folder"] else {}
    return lib.fn.io.file.read(lib.fn.external_source(lambda: names), **more)


EVERY_KIND = {
    **KINDS,
    "file": Kind("file", _write_file, pre_permute=True, contained=False),
    "io.file.read": Kind("io.file.read", _write_named, _call_named),
}
"""All readers, including those with separate tests of all arguments."""
if "video" in KINDS:
    EVERY_KIND["readers.video"] = replace(KINDS["video"], name="readers.video", call=_call_older_video)

MATRIX = [name for name in EVERY_KIND if name != "io.file.read"]
"""Readers with an order of samples."""


def pipeline(kind: Kind, arguments: dict[str, Any], lib: Any = asyncdali, batch: int = 4, **options: Any) -> Any:
    """A built pipeline of one reader, named R; its outputs and the origin of the first."""
    pipe = lib.Pipeline(batch_size=batch, **{"num_threads": 2, "device_id": None, "seed": 42, **options})
    with pipe:
        made = kind.outputs(lib, {"name": "R", **arguments})
        pipe.set_outputs(*made)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pipe.build()
    return pipe


def delivered(kind: Kind, pipe: Any, runs: int) -> list[list[int]]:
    """The numbers of the samples of some runs."""
    result = []
    for _ in range(runs):
        outputs = pipe.run()
        result.append([kind.number([np.asarray(column[k]) for column in outputs]) for k in range(len(outputs[0]))])
    return result


def lmdb_reader(operator: str, path: Any, batch: int = 1, **arguments: Any) -> Any:
    """A built pipeline of readers.caffe or readers.caffe2, named R."""
    pipe = asyncdali.Pipeline(batch_size=batch, num_threads=2, seed=1)
    with pipe:
        made = getattr(asyncdali.fn.readers, operator)(path=path, name="R", **arguments)
        pipe.set_outputs(*(made if isinstance(made, list) else [made]))
    pipe.build()
    return pipe


def texts(column: Any) -> list[bytes]:
    """The bytes of each sample of an output."""
    return [np.asarray(sample).tobytes() for sample in column]
