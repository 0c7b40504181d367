"""Raw record throughput of the readers, beside DALI: no decoding, batch 64, 2 threads, warm page cache.

    python -m benchmarks.readers --data DIR [--only tfrecord,caffe] [--rounds 7] [--seconds 0.7]

Containers hold 16 copies of the photographs of DIR (sub-folders of JPEGs). "listing" is another measure: the files per second that
`build()` of readers.file lists and labels, in a tree of --files empty files (1,000 to a directory), and the size in bytes of the table of
files.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import programs
from .cases import _paths, libraries
from .harness import Contender, Table, checksum, interleave, paired_ratio

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

REPEATS = 16
Maker = Callable[[Path, list[bytes]], Callable[[Any], Any]]
"""Write the containers. Returns the function that makes the outputs for a library."""


def _tfrecord(folder: Path, photos: list[bytes]) -> Callable[[Any], Any]:
    from helpers.containers import example, write_tfrecord

    paths = [
        write_tfrecord(folder / f"part{part}.tfrecord", (example(image=data, label=k) for _ in range(4) for k, data in enumerate(photos)))
        for part in range(REPEATS // 4)
    ]

    def outputs(lib: Any) -> Any:
        import importlib

        kinds = importlib.import_module(f"{lib.__name__}.tfrecord")
        features = {"image": kinds.FixedLenFeature((), kinds.string, ""), "label": kinds.FixedLenFeature([1], kinds.int64, -1)}
        made = lib.fn.readers.tfrecord(path=paths, index_path=[f"{path}.idx" for path in paths], features=features, name="R")
        return made["image"], made["label"]

    return outputs


def _caffe(folder: Path, photos: list[bytes]) -> Callable[[Any], Any]:
    from helpers.containers import datum, write_lmdb

    path = write_lmdb(folder / "db", [datum(data, k) for _ in range(REPEATS) for k, data in enumerate(photos)])
    return lambda lib: lib.fn.readers.caffe(path=path, name="R")


def _caffe2(folder: Path, photos: list[bytes]) -> Callable[[Any], Any]:
    import numpy as np
    from helpers.containers import tensors, write_lmdb

    path = write_lmdb(folder / "db", [tensors(data, np.int32([k])) for _ in range(REPEATS) for k, data in enumerate(photos)])
    return lambda lib: lib.fn.readers.caffe2(path=path, name="R")


def _webdataset(folder: Path, photos: list[bytes]) -> Callable[[Any], Any]:
    from helpers.containers import write_tar

    from asyncdali.readers.webdataset.webdataset_index import make_index

    paths = []
    for part in range(REPEATS // 4):
        members = ((f"{r}/{k}.{ext}", data if ext == "jpg" else b"%d" % k) for r in range(4) for k, data in enumerate(photos)
                   for ext in ("jpg", "cls"))  # fmt: skip
        paths.append(write_tar(folder / f"{part}.tar", members))
        make_index(paths[-1], f"{paths[-1]}.idx")
    indices = [f"{path}.idx" for path in paths]
    return lambda lib: lib.fn.readers.webdataset(paths=paths, index_paths=indices, ext=["jpg", "cls"], name="R")


def _mxnet(folder: Path, photos: list[bytes]) -> Callable[[Any], Any]:
    from helpers.containers import recordio

    lines, at = [], 0
    with open(folder / "data.rec", "wb") as file:
        for k, data in enumerate(photos * REPEATS):
            record = recordio(data, float(k))
            lines.append(f"{k}\t{at}\n")
            at += file.write(record)
    (folder / "data.idx").write_text("".join(lines))
    return lambda lib: lib.fn.readers.mxnet(path=str(folder / "data.rec"), index_path=str(folder / "data.idx"), name="R")


def _numpy(folder: Path, photos: list[bytes]) -> Callable[[Any], Any]:
    import numpy as np

    paths = [folder / f"{k}.npy" for k in range(REPEATS * len(photos))]
    for path, data in zip(paths, photos * REPEATS):
        np.save(path, np.frombuffer(data, np.uint8))
    return lambda lib: lib.fn.readers.numpy(files=[str(path) for path in paths], name="R")


def _file(folder: Path, photos: list[bytes]) -> Callable[[Any], Any]:
    # Each path occurs once, as in a data set: DALI keeps the files of its last samples mapped, and opens none that comes again.
    paths = [folder / f"{k}.jpg" for k in range(REPEATS * len(photos))]
    for path, data in zip(paths, photos * REPEATS):
        path.write_bytes(data)
    return lambda lib: lib.fn.readers.file(files=[str(path) for path in paths], name="R")


MAKERS: dict[str, Maker] = {
    "file": _file, "tfrecord": _tfrecord, "caffe": _caffe, "caffe2": _caffe2, "webdataset": _webdataset, "mxnet": _mxnet, "numpy": _numpy,
}  # fmt: skip


def _tree(folder: Path, files: int) -> None:
    """`files` empty files in directories of 1,000, made in random order of their names."""
    for number in range(-(-files // 1000)):
        place = folder / f"n{number:08d}"
        place.mkdir()
        for k in range(min(1000, files - 1000 * number)):
            os.close(os.open(place / f"n{number:08d}_{k * 7919 % 100003:06d}.JPEG", os.O_CREAT | os.O_WRONLY))


def _listing(lib: Any, root: str, files: int) -> Callable[[], int]:
    def step() -> int:
        pipeline = _pipeline(lib, lambda lib: lib.fn.readers.file(file_root=root, name="R"))
        assert pipeline.reader_meta("R")["epoch_size"] == files
        return files

    return step


def _table_bytes(root: str, files: int) -> float:
    """Bytes per file of our table."""
    from asyncdali.readers.files.file_table import scan_classes

    table = scan_classes(root, ["*.jpeg"], None, False)
    return (table.paths.nbytes + table.starts.nbytes + table.labels.nbytes) / files


def _pipeline(lib: Any, outputs: Callable[[Any], Any]) -> Any:
    pipeline = lib.Pipeline(batch_size=64, num_threads=2, device_id=None, seed=1)
    with pipeline:
        made = outputs(lib)
        pipeline.set_outputs(*(made if isinstance(made, (list, tuple)) else [made]))
    pipeline.build()
    return pipeline


def _step(pipeline: Any, touch: bool) -> Callable[[], int]:
    def step() -> int:
        first = pipeline.run()[0]
        if touch:
            for sample in programs.samples_of(first, False):
                checksum(sample)
        return len(first)

    return step


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True)
    parser.add_argument("--only", default=",".join([*MAKERS, "listing"]))
    parser.add_argument("--files", type=int, default=1_000_000, help="of the tree that is listed")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.7)
    parser.add_argument("--touch", action="store_true", help="read a byte of every cache line of the first output, as any consumer does")
    options = parser.parse_args()
    photos = [Path(path).read_bytes() for path in _paths(options.data)[0]][:256]
    title = f"readers, records/s, batch 64, 2 threads{', touched' if options.touch else ''}"
    table = Table(title, ["reader", "asyncdali", "DALI", "ratio"])
    libs = libraries()
    with tempfile.TemporaryDirectory() as scratch:
        for name in options.only.split(","):
            folder = Path(scratch) / name
            folder.mkdir()
            if name == "listing":
                _tree(folder, options.files)
                contenders = [Contender(lib, _listing(module, str(folder), options.files)) for lib, module in libs.items()]
                size = _table_bytes(str(folder), options.files)
                table.notes.append(f"listing: {options.files} files, {size:.0f} bytes per file in our table; target <= 200, >= 1.0 x DALI")
            else:
                outputs = MAKERS[name](folder, photos)
                contenders = [Contender(lib, _step(_pipeline(module, outputs), options.touch)) for lib, module in libs.items()]
            interleave(contenders, options.rounds, options.seconds)
            table.add(name, *(one.median for one in contenders), paired_ratio(contenders[0], contenders[-1]))
    table.notes.append("target: >= 1.0 x DALI each; stretch 1.5")
    table.print()


if __name__ == "__main__":
    main()
