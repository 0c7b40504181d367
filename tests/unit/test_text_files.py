"""Lists, indices and annotations that Windows programs wrote: a byte-order mark in front, CRLF at the ends of lines."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.readers import COUNT, EVERY_KIND, delivered, pipeline

from asyncdali.__main__ import main

MARK = b"\xef\xbb\xbf"


def _listed(folder: Path, pattern: str, line: str) -> dict[str, str]:
    """A list of files whose names have blanks, and the folder of the files."""
    for k, path in enumerate(sorted(folder.glob(pattern), key=lambda path: int(path.stem))):
        path.rename(path.with_name(f"a {k}{path.suffix}"))
    ending = pattern[1:]
    (folder / "list.txt").write_text("\n".join(line.format(name=f"a {k}{ending}", label=k) for k in range(COUNT)) + "\n")
    return {"file_root": str(folder), "file_list": str(folder / "list.txt")}


def _tfrecord(folder, arguments):
    return arguments, [Path(path) for path in arguments["index_path"]]


def _mxnet(folder, arguments):
    return arguments, [Path(path) for path in arguments["index_path"]]


def _webdataset(folder, arguments):
    indices = [f"{path}.idx" for path in arguments["paths"]]
    for path, index in zip(arguments["paths"], indices, strict=True):
        assert main(["wds2idx", path, index]) == 0
    return {**arguments, "index_paths": indices}, [Path(path) for path in indices]


def _numpy(folder, arguments):
    return _listed(folder, "*.npy", "{name}"), [folder / "list.txt"]


def _fits(folder, arguments):
    return _listed(folder, "*.fits", "{name}"), [folder / "list.txt"]


def _file(folder, arguments):
    for k in range(COUNT):
        (folder / f"c{k // 5}" / f"{k}.jpg").rename(folder / f"{k}.jpg")
    return _listed(folder, "*.jpg", "{name} {label}"), [folder / "list.txt"]


def _coco(folder, arguments):
    return arguments, [folder / "annotations.json"]


def _nemo(folder, arguments):
    return arguments, [folder / "a.json", folder / "b.json"]


def _video(folder, arguments):
    (folder / "list.txt").write_text("".join(f"{path} {k}\n" for k, path in enumerate(arguments["filenames"])))
    return {"file_list": str(folder / "list.txt"), "sequence_length": 3, "step": 1}, [folder / "list.txt"]


TEXTS = {"tfrecord": _tfrecord, "mxnet": _mxnet, "webdataset": _webdataset, "numpy": _numpy, "fits": _fits, "file": _file, "coco": _coco,
         "nemo_asr": _nemo} | ({"video": _video} if "video" in EVERY_KIND else {})  # fmt: skip


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_text_files_of_windows(tmp_path, name):
    kind = EVERY_KIND[name]
    arguments, texts = TEXTS[name](tmp_path, kind.write(tmp_path))
    plain = delivered(kind, pipeline(kind, arguments), 3)
    assert plain[0] == [0, 1, 2, 3]
    for path in texts:
        path.write_bytes(MARK + path.read_bytes().replace(b"\n", b"\r\n"))
    assert delivered(kind, pipeline(kind, arguments), 3) == plain


@pytest.mark.parametrize("name", sorted(set(TEXTS) - {"coco", "nemo_asr"}))
def test_other_encodings_are_named(tmp_path, name):
    kind = EVERY_KIND[name]
    arguments, texts = TEXTS[name](tmp_path, kind.write(tmp_path))
    texts[0].write_bytes(texts[0].read_bytes().decode().encode("utf-16"))
    with pytest.raises(RuntimeError, match=r"is encoded as UTF-16 or UTF-32; save it as UTF-8") as caught:
        pipeline(kind, arguments)
    assert texts[0].name in str(caught.value)
