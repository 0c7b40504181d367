"""Damaged data sets of every reader: samples, or an error about the file. No error of Python or numpy, no crash, no wait without an end."""

from __future__ import annotations

import io
import tarfile
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import containers
from helpers.damage import TEXTS, damaged, damaged_cards, damaged_json, damaged_json_lines, damaged_lines, raw_cause
from helpers.readers import EVERY_KIND, Kind, numbered, pipeline
from helpers.text_files import write_texts

import asyncdali
from asyncdali.readers.containers import containers as mapping
from asyncdali.readers.containers.containers import WORTH_MAPPING

SLOWEST = 60.0
"""Seconds of processor time that one small damaged data set may take, compiling kernels included."""

Damage = Callable[[bytes, np.random.Generator], bytes]


@dataclass
class Case:
    """A data set, the files of it that are damaged, and further arguments, of which each attempt gets one."""

    kind: Kind
    arguments: dict[str, Any]
    files: Sequence[Path]
    damage: Damage
    options: Sequence[dict[str, Any]] = field(default_factory=lambda: [{}])


# --- data sets


def _texts(name: str, damage: Damage, folder: Path) -> Case:
    arguments, texts = write_texts(name, folder)
    return Case(EVERY_KIND[name], arguments, texts, damage)


def _whole(name: str, folder: Path, options: Sequence[dict[str, Any]] = ({},)) -> Case:
    arguments = EVERY_KIND[name].write(folder)
    return Case(EVERY_KIND[name], arguments, sorted(path for path in folder.rglob("*") if path.is_file()), damaged, options)


def _numpy(folder: Path) -> Case:
    """Versions 1 to 3, both orders, scalars, empty arrays; and types that are refused. The arrays of a batch fit together."""
    groups = {
        "plain": [np.arange(6.0).reshape(2, 3), np.asfortranarray(np.arange(12.0).reshape(3, 4)), np.ones((1, 1))],
        "scalars": [np.float32(k) for k in range(3)], "empty": [np.zeros((0, 3), "u8"), np.ones((2, 1), "u8"), np.zeros((3, 0), "u8")],
        "refused": [np.zeros(4, ">f8"), np.zeros(3, [("a", "<i4"), ("b", "<f8")]), np.array(["ab"])],
    }  # fmt: skip
    paths: dict[str, list[str]] = {}
    for name, arrays in groups.items():
        for k, array in enumerate(arrays):
            paths.setdefault(name, []).append(str(folder / f"{name}{k}.npy"))
            with open(paths[name][-1], "wb") as file:
                np.lib.format.write_array(file, np.asarray(array), (1 + k, 0))
    more: list[dict[str, Any]] = [{}, {"roi_start": [0], "roi_end": [1], "roi_axes": [0]}, {"dont_use_mmap": True, "use_o_direct": True},
            {"cache_header_information": True}, {"rel_roi_shape": [0.5], "roi_axes": [0], "out_of_bounds_policy": "pad"}]  # fmt: skip
    options = [{"files": paths["plain"], **arguments} for arguments in more]
    options += [{"files": files} for name, files in paths.items() if name != "plain"]
    return Case(EVERY_KIND["numpy"], {}, [Path(path) for files in paths.values() for path in files], damaged, options)


def _fits(folder: Path) -> Case:
    image = np.arange(12, dtype=np.int16).reshape(3, 4)
    units = [
        containers.fits(None, image), containers.fits(image, image, BSCALE="2.5D-1", BZERO=7, BLANK=3),
        containers.fits(None, image, BZERO=32768),
        containers.fits(None, image.astype(np.float64)), containers.fits(image, image.astype("i8"), PCOUNT=0, GCOUNT=1),
    ]  # fmt: skip
    for k, data in enumerate(units):
        (folder / f"{k}.fits").write_bytes(data)
    options = [{}, {"hdu_indices": [1, 2]}, {"dtypes": [asyncdali.types.UINT8]}]
    return Case(EVERY_KIND["fits"], {"file_root": str(folder)}, sorted(folder.iterdir()), damaged_cards, options)


def _tfrecord(folder: Path) -> Case:
    case = _whole("tfrecord", folder)
    case.options = [{}, {"index_path": None}]
    return case


def _databases(name: str, folder: Path, records: dict[str, list[bytes]], options: dict[str, list[dict[str, Any]]]) -> Case:
    """Several databases, each with its own arguments: the records of a batch must fit together."""
    paths = {part: containers.write_lmdb(folder / part, items) for part, items in records.items()}
    given = [{"path": path, **more} for part, path in paths.items() for more in options.get(part, [{}])]
    return Case(EVERY_KIND[name], {}, [folder / part / "data.mdb" for part in records], damaged, given)


def _caffe(folder: Path) -> Case:
    """Encoded images with and without a label, planes with and without the flag, floats."""
    datum = containers.datum
    return _databases("caffe", folder, {
        "encoded": [datum(b"jpeg", 1, encoded=True), datum(b"a" * 9000, None, (3, 4, 5)), datum(b"", 3)],
        "raw": [datum(bytes(24), 2, (2, 3, 4), False), datum(bytes(6), 3, (1, 2, 3)), datum(bytes(9000), -1, (3, 30, 100))],
        "floats": [datum(b"", 4, (1, 1, 1)) + b"\x35abcd", datum(b"x", 4), datum(b"y", 4)],
    }, {"encoded": [{}, {"label_available": False}], "raw": [{}, {"dont_use_mmap": True}]})  # fmt: skip


def _caffe2(folder: Path) -> Case:
    tensors, numbers = containers.tensors, np.int32([0, 1])
    return _databases("caffe2", folder, {
        "single": [tensors(b"jpeg" * k, np.int32([k])) for k in range(1, 4)],
        "raw": [tensors(np.zeros((2, 3, k), np.uint8), np.float32([k])) for k in range(1, 4)],
        "several": [tensors(b"jpeg", numbers, np.float32([0.5, 1]), np.int32([1, 2, 3, 4])) for _ in range(3)],
    }, {
        "single": [{}, {"label_type": 1, "num_labels": 4}, {"label_type": 2}],
        "several": [{"label_type": 3, "num_labels": 4, "bbox": True}, {"label_type": 2, "additional_inputs": 1, "bbox": True}],
    })  # fmt: skip


def _mxnet(folder: Path) -> Case:
    """Records in one part and in several, with one label and with more."""
    lines, data = [], b""
    for k in range(6):
        lines.append(f"{k}\t{len(data)}\n")
        whole = containers.recordio(bytes(24) + containers.MAGIC * (k % 2) + bytes(9), [k, k] if k % 3 else float(k))[8:]
        data += containers.record_parts(whole, [whole.index(containers.MAGIC)] if k % 2 else [])
    (folder / "a.rec").write_bytes(data)
    (folder / "a.idx").write_text("".join(lines))
    return Case(EVERY_KIND["mxnet"], {"path": str(folder / "a.rec"), "index_path": [str(folder / "a.idx")]}, [folder / "a.rec"], damaged)


def _webdataset(folder: Path) -> Case:
    """Archives of three formats, with long names, links, attributes, and two in one file."""
    paths = []
    for k, form in enumerate((tarfile.GNU_FORMAT, tarfile.PAX_FORMAT, tarfile.USTAR_FORMAT)):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w", format=form) as archive:
            for number in numbered(k):
                for ending in ("img", "cls"):
                    info = tarfile.TarInfo(f"{'d' * (120 if k < 2 else 20)}/{number}.{ending}")
                    info.size = 4
                    info.pax_headers = {"comment": "c" * 40, "size": "4"} if k == 1 else {}
                    archive.addfile(info, io.BytesIO(b"data"))
            for kind in (tarfile.LNKTYPE, tarfile.SYMTYPE):
                link = tarfile.TarInfo(f"x{kind.decode()}.img")
                link.type, link.linkname = kind, info.name
                archive.addfile(link)
        (folder / f"{k}.tar").write_bytes(out.getvalue() * (1 + k % 2))
        paths.append(folder / f"{k}.tar")
    options: list[dict[str, Any]] = [{"missing_component_behavior": how} for how in ("empty", "skip", "error")]
    options += [{"dtypes": [asyncdali.types.INT16, asyncdali.types.UINT8]}, {"case_sensitive_extensions": False}]
    return Case(EVERY_KIND["webdataset"], {"paths": [str(path) for path in paths], "ext": ["img", "cls;other"]}, paths, damaged, options)


COCO = [{}, {"ratio": True, "ltrb": True}, {"polygon_masks": True, "ratio": True}, {"pixelwise_masks": True},
        {"masks": True, "image_ids": True},
        {"include_iscrowd": False, "skip_empty": True}, {"avoid_class_remapping": True}, {"images": ["3.jpg", "7.jpg"]}]  # fmt: skip


def _coco(folder: Path) -> Case:
    case = _texts("coco", damaged_json, folder)
    case.options = COCO
    return case


def _coco_folder(folder: Path) -> Case:
    """A folder of preprocessed annotations."""
    kind = EVERY_KIND["coco"]
    (folder / "saved").mkdir()
    more = {"pixelwise_masks": True, "image_ids": True}
    arguments = {**kind.write(folder), "save_preprocessed_annotations": True, "save_preprocessed_annotations_dir": str(folder / "saved")}
    pipeline(kind, {**arguments, **more}).close()
    saved = {"file_root": str(folder), "preprocessed_annotations": str(folder / "saved")}
    return Case(kind, saved, sorted((folder / "saved").iterdir()), damaged, [{}, more, {"polygon_masks": True}, {"image_ids": True}])


def _nemo(folder: Path) -> Case:
    case = _texts("nemo_asr", damaged_json_lines, folder)
    case.options = [{}, {"min_duration": 0.5, "max_duration": 2.0}, {"sample_rate": 4000}, {"dtype": asyncdali.types.INT16}]
    return case


def _named(folder: Path) -> Case:
    """Names that the pipeline's data give to io.file.read: the lines of a file."""
    arguments = EVERY_KIND["io.file.read"].write(folder)
    (folder / "names").write_text("\n".join(f"{arguments['folder']}/{k}.bin" for k in range(4)))

    def call(lib: Any, arguments: dict[str, Any]) -> Any:
        names = [np.frombuffer(line, np.uint8) for line in (folder / "names").read_bytes().split(b"\n")][:3]
        arguments = {key: value for key, value in arguments.items() if key == "dont_use_mmap"}
        return lib.fn.io.file.read(lib.fn.external_source(lambda: (names * 3)[:3]), **arguments)

    return Case(Kind("io.file.read", lambda folder: {}, call), {}, [folder / "names"], damaged_lines, [{}, {"dont_use_mmap": True}])


CASES: dict[str, Callable[[Path], Case]] = {
    "file: list": partial(_texts, "file", damaged_lines), "numpy: list": partial(_texts, "numpy", damaged_lines), "numpy": _numpy,
    "fits: list": partial(_texts, "fits", damaged_lines), "fits": _fits, "tfrecord": _tfrecord,
    "tfrecord: index": partial(_texts, "tfrecord", damaged_lines), "caffe": _caffe, "caffe2": _caffe2, "mxnet": _mxnet,
    "mxnet: index": partial(_texts, "mxnet", damaged_lines), "webdataset": _webdataset,
    "webdataset: index": partial(_texts, "webdataset", damaged_lines), "coco": _coco, "coco: folder": _coco_folder,
    "sequence": partial(_whole, "sequence"), "nemo_asr": _nemo, "io.file.read": _named,
}  # fmt: skip
if "video" in EVERY_KIND:
    CASES["video: list"] = partial(_texts, "video", damaged_lines)


# --- attempts


def attempt(case: Case, options: dict[str, Any]) -> str:
    """Read everything, and continue after errors."""
    outcome, pipe = "read", None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(5):
            try:
                if pipe is None:
                    pipe = pipeline(case.kind, {**case.arguments, **options}, batch=3)
                for column in pipe.run():
                    for sample in column:
                        np.asarray(sample).sum()
            except RuntimeError as error:
                raw = raw_cause(error)
                assert raw is None, f"{type(raw).__name__}: {raw}"
                assert str(error)
                outcome = "refused"
                if pipe is None:
                    break
        if pipe is not None:
            pipe.close()
    return outcome


def damage(name: str, folder: Path, count: int, monkeypatch: pytest.MonkeyPatch, seed: int = 11) -> dict[str, int]:
    """Damage files and read them. In half of the attempts containers are mapped."""
    case = CASES[name](folder)
    rng = np.random.default_rng(seed)
    originals = {path: path.read_bytes() for path in case.files}
    outcomes = {"read": 0, "refused": 0}
    for number in range(count):
        options = case.options[int(rng.integers(len(case.options)))]
        files = [path for path in case.files if options.get("path", "") in str(path) and str(path) in options.get("files", str(path))]
        path = files[int(rng.integers(len(files)))]
        broken = case.damage(originals[path], rng)
        if case.kind.seal is not None and case.damage is damaged:
            broken = case.kind.seal(path, originals[path], broken, rng)
        path.write_bytes(broken)
        monkeypatch.setattr(mapping, "WORTH_MAPPING", number % 2 * WORTH_MAPPING)
        start = time.process_time()
        try:
            outcomes[attempt(case, options)] += 1
        except Exception as error:
            raise AssertionError(f"{name}, attempt {number}, {options}, {path.name}: {broken[:300]!r}") from error
        assert time.process_time() - start < SLOWEST, (name, number)
        path.write_bytes(originals[path])
    return outcomes


@pytest.mark.parametrize("name", sorted(CASES))
def test_damaged_data_sets(tmp_path, monkeypatch, name):
    outcomes = damage(name, tmp_path, 20, monkeypatch)
    assert outcomes["refused"], outcomes


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(CASES))
def test_many_damaged_data_sets(tmp_path, monkeypatch, name):
    outcomes = damage(name, tmp_path, 2200, monkeypatch)
    print(name, outcomes)
    assert outcomes["refused"] and outcomes["read"], outcomes


def test_the_search_finds_errors_of_python():
    try:
        raise RuntimeError("about a file") from KeyError("x")
    except RuntimeError as error:
        assert isinstance(raw_cause(error), KeyError)
    assert raw_cause(RuntimeError("about a file")) is None and len(TEXTS) > 20
