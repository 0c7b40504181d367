"""The text files of a data set: lists of names, indices, annotations and manifests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from asyncdali.__main__ import main

from .readers import COUNT, EVERY_KIND

Texts = tuple[dict[str, Any], list[Path]]


def _listed(folder: Path, pattern: str, line: str) -> Texts:
    """A list of files whose names have blanks, and the folder of the files."""
    for k, path in enumerate(sorted(folder.glob(pattern), key=lambda path: int(path.stem))):
        path.rename(path.with_name(f"a {k}{path.suffix}"))
    ending = pattern[1:]
    (folder / "list.txt").write_text("\n".join(line.format(name=f"a {k}{ending}", label=k) for k in range(COUNT)) + "\n")
    return {"file_root": str(folder), "file_list": str(folder / "list.txt")}, [folder / "list.txt"]


def _indexed(folder: Path, arguments: dict[str, Any]) -> Texts:
    return arguments, [Path(path) for path in arguments["index_path"]]


def _webdataset(folder: Path, arguments: dict[str, Any]) -> Texts:
    indices = [f"{path}.idx" for path in arguments["paths"]]
    for path, index in zip(arguments["paths"], indices, strict=True):
        assert main(["wds2idx", path, index]) == 0
    return {**arguments, "index_paths": indices}, [Path(path) for path in indices]


def _numpy(folder: Path, arguments: dict[str, Any]) -> Texts:
    return _listed(folder, "*.npy", "{name}")


def _fits(folder: Path, arguments: dict[str, Any]) -> Texts:
    return _listed(folder, "*.fits", "{name}")


def _file(folder: Path, arguments: dict[str, Any]) -> Texts:
    for k in range(COUNT):
        (folder / f"c{k // 5}" / f"{k}.jpg").rename(folder / f"{k}.jpg")
    return _listed(folder, "*.jpg", "{name} {label}")


def _coco(folder: Path, arguments: dict[str, Any]) -> Texts:
    return arguments, [folder / "annotations.json"]


def _nemo(folder: Path, arguments: dict[str, Any]) -> Texts:
    return arguments, [folder / "a.json", folder / "b.json"]


def _video(folder: Path, arguments: dict[str, Any]) -> Texts:
    (folder / "list.txt").write_text("".join(f"{path} {k}\n" for k, path in enumerate(arguments["filenames"])))
    return {"file_list": str(folder / "list.txt"), "sequence_length": 3, "step": 1}, [folder / "list.txt"]


TEXTS: dict[str, Callable[[Path, dict[str, Any]], Texts]] = {
    "tfrecord": _indexed, "mxnet": _indexed, "webdataset": _webdataset, "numpy": _numpy, "fits": _fits, "file": _file, "coco": _coco,
    "nemo_asr": _nemo,
}  # fmt: skip
"""By reader: the arguments that name the text files, and the files."""
if "video" in EVERY_KIND:
    TEXTS["video"] = _video


def write_texts(name: str, folder: Path) -> Texts:
    """Ten samples for a reader with text files."""
    return TEXTS[name](folder, EVERY_KIND[name].write(folder))
