"""readers.webdataset: grouping, index files, variants of tar, and damaged archives."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import numpy as np
import pytest
from helpers.containers import write_tar
from helpers.pipelines import values
from helpers.places import TESTS

from asyncdali import Pipeline, fn, types
from asyncdali.__main__ import main
from asyncdali.readers.webdataset import tar

FOREIGN = TESTS / "helpers/reader_files/webdataset.tar"


def reader(paths, ext, batch=1, **arguments):
    pipe = Pipeline(batch_size=batch, num_threads=2, seed=1)
    with pipe:
        made = fn.readers.webdataset(paths=paths, ext=ext, name="R", **arguments)
        pipe.set_outputs(*(made if isinstance(made, list) else [made]))
    pipe.build()
    return pipe


def texts(column):
    return [np.asarray(sample).tobytes() for sample in column]


def test_an_archive_of_webdatasets_own_writer():
    """An archive with pax headers that webdataset 1.0.2 wrote (TarWriter)."""
    pipe = reader(str(FOREIGN), ["txt", "bin", "cls"], 4)
    text, binary, label = pipe.run()
    assert texts(text) == [b"text %d" % k for k in range(4)] and texts(binary) == [bytes(range(k + 1)) for k in range(4)]
    assert texts(label) == [b"0", b"10", b"", b"30"]
    assert text[1].source_info() == f"{FOREIGN}:11776:set/001.txt" and label[2].source_info() == ""
    assert reader(str(FOREIGN), ["cls"], missing_component_behavior="skip").epoch_size("R") == 3
    with pytest.raises(RuntimeError, match=rf'Underful sample detected at tar file at "{FOREIGN}"'):
        reader(str(FOREIGN), ["cls"], missing_component_behavior="ERROR")


def test_pax_names_sizes_and_everything_else(tmp_path):
    """Names that need pax headers, members that are not files, hidden members, and a file after the end of the archive."""
    path = tmp_path / "a.tar"
    names = ["ü" * 150 + ".x", "p/" * 200 + "deep.x", "short.x"]
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT, pax_headers={"comment": "global"}) as archive:
        for k, name in enumerate(names):
            folder = tarfile.TarInfo(f"folder{k}.x")
            folder.type = tarfile.DIRTYPE
            archive.addfile(folder)
            link = tarfile.TarInfo(f"link{k}.x")
            link.type, link.linkname = tarfile.SYMTYPE, "t" * 200
            archive.addfile(link)
            info = tarfile.TarInfo(name)
            info.size, info.mtime, info.pax_headers = k + 5, 0.5, {"size": str(k + 5)}
            archive.addfile(info, io.BytesIO(bytes([k]) * (k + 5)))
        archive.addfile(tarfile.TarInfo(".hidden.x"))
        archive.addfile(tarfile.TarInfo("d/.hidden.x"))
    with open(path, "ab") as file:
        file.write(b"rubbish behind the end")
    [column] = reader(str(path), ["x"], 3).run()
    assert texts(column) == [bytes([k]) * (k + 5) for k in range(3)]
    assert [column[k].source_info().rpartition(":")[2] for k in range(3)] == names
    with tarfile.open(path) as archive:
        assert [(m.name, m.offset_data) for m in archive if m.isreg()][:3] == [(m.name, m.offset) for m in tar.scan(str(path))][:3]


def test_large_numbers_in_headers(tmp_path):
    path = write_tar(tmp_path / "a.tar", [("a.x", b"12345")])
    data = bytearray(Path(path).read_bytes())
    data[124:136] = b"\x80" + bytes(10) + b"\x05"  # base 256
    data[148:156] = b"%06o\0 " % (sum(data[:148]) + 256 + sum(data[156:512]))
    Path(path).write_bytes(data)
    assert texts(reader(path, ["x"]).run()[0]) == [b"12345"]


def test_many_members(tmp_path):
    """More members than one pass of the scan reads."""
    path = write_tar(tmp_path / "a.tar", ((f"{k}.{ext}", b"%d" % k) for k in range(2500) for ext in "xy"))
    pipe = reader(path, ["y", "x"], 1250)
    assert [texts(column) for column in pipe.run()] == [[b"%d" % k for k in range(1250)]] * 2
    assert pipe.epoch_size("R") == 2500


def test_indices_and_the_command(tmp_path, capsys):
    path = write_tar(tmp_path / "a.tar", [("a.x", b"1"), ("a.y", b"22"), ("b.y", b"333")])
    assert main(["wds2idx", path]) == 0
    assert (tmp_path / "a.idx").read_text() == "v1.2 2\nx 512 1 a.x y 1536 2 a.y\ny 2560 3 b.y\n"
    column, other = reader(path, ["y", "x"], 2, index_paths=str(tmp_path / "a.idx")).run()
    assert texts(column) == [b"22", b"333"] and texts(other) == [b"1", b""]
    (tmp_path / "old").write_text("v1.1 1\ny 1536 2\nmore lines are ignored")
    [column] = reader(path, "y", index_paths=[str(tmp_path / "old")]).run()
    assert texts(column) == [b"22"] and column[0].source_info() == f"{path}:1536:"
    blanks = write_tar(tmp_path / "b.tar", [("a b.x", b"1")])
    assert main(["wds2idx", blanks, str(tmp_path / "never")]) == 1 and "blanks" in capsys.readouterr().err
    assert not (tmp_path / "never").exists()
    with pytest.raises(RuntimeError, match="Number of index files"):
        reader([path, path], "y", index_paths=[str(tmp_path / "old")])
    with pytest.raises(RuntimeError, match=r"/no/such"):
        reader(path, "y", index_paths=["/no/such"])


@pytest.mark.parametrize(
    "text, message",
    [("", "line 1 - no version"), ("v9.9 1\nx 512 1", r"line 1 - Unsupported version of the index file \(v9.9\)"),
     ("v1.2\n", "line 1 - no sample count"), ("v1.2 --1\n", "no sample count"),
     ("v1.2 1_0\n", "line 1 - no sample count"), ("v1.2 0\n", "line 1 - sample count must be positive"),
     ("v1.2 " + "9" * 30, "no sample count"), ("v1.2 999999999999", "no extensions provided"), ("v1.2 1\n \n", "line 2 - no extensions"),
     ("v1.2 2\nx 512 1 a.x\n", "line 3 - no ext"),
     ("v1.2 1\nx 512 1", "line 2 - Could not find all"), ("v1.2 1\nx -512 1 a", "line 2 - Could not find all"),
     ("v1.2 1\nx 500 1 a", r"line 2 - tar offset is not a multiple of tar block size \(512\)"),
     ("v1.2 1\nx 51200000 1 a", "a.tar: record 0 at offset 51200000.*not within"),
     ("v1.2 1\nx 512 99999999 a", "a.tar: record 0.*not within"),
     ("v1.2 1\nx 512 999999999999999999 a", "not within")],
)  # fmt: skip
def test_malformed_indices(tmp_path, text, message):
    path = write_tar(tmp_path / "a.tar", [("a.x", b"1")])
    (tmp_path / "index").write_text(text)
    with pytest.raises(RuntimeError, match=message):
        reader(path, "x", index_paths=[str(tmp_path / "index")])


def test_damaged_archives(tmp_path):
    path = Path(write_tar(tmp_path / "a.tar", [("a.x", b"1" * 600), ("b.x", b"2")]))
    good = path.read_bytes()
    header = bytearray(good)
    header[1536 + 5] ^= 1
    sizes = bytearray(good)
    sizes[124:136] = b"7777777777\0 "
    sizes[148:156] = b"%06o\0 " % (sum(sizes[:148]) + 256 + sum(sizes[156:512]))
    cases = [
        (bytes(header), "offset 1536: the checksum"), (bytes(sizes), "offset 0: the file ends within a member"), (good[:1000], "offset 0"),
        (good[:1600], "offset 1536: the file ends within"), (b"", "empty"), (bytes(10240), "no members"), (b"rubbish" * 100, "checksum"),
    ]  # fmt: skip
    for data, message in cases:
        path.write_bytes(data)
        with pytest.raises(RuntimeError, match=message) as caught:
            reader(str(path), "x")
        assert f"Corrupted tar file at {path}" in str(caught.value)
    path.write_bytes(good)
    pipe = reader(str(path), "x")
    os.truncate(path, 1000)
    with pytest.raises(RuntimeError, match=rf"{path}:512:a.x: the file ends before"):
        pipe.run()


def test_types_and_arguments(tmp_path):
    path = write_tar(tmp_path / "a.tar", [("a.x", np.float32([1, 2]).tobytes()), ("b.x", b"123")])
    pipe = reader(path, "x", dtypes=types.FLOAT)
    assert values(pipe.run()) == [[[1.0, 2.0]]]
    with pytest.raises(RuntimeError, match=r"b.x: component size and dtype incompatible: 3 bytes of FLOAT"):
        pipe.run()
    cases = [
        ({"dtypes": [types.FLOAT, types.UINT8]}, "does not match"), ({"dtypes": [types.BOOL]}, "Unsupported output dtype BOOL"),
        ({"missing_component_behavior": "x"}, "missing_component_behavior"), ({"ext": [""]}, "names no extension"),
        ({"ext": ["nothing"], "missing_component_behavior": "skip"}, "no samples with the extensions nothing"),
    ]  # fmt: skip
    for arguments, message in cases:
        with pytest.raises(RuntimeError, match=message):
            reader(path, **{"ext": "x", **arguments})


def test_the_first_of_several_and_folded_extensions(tmp_path):
    path = write_tar(tmp_path / "a.tar", [("a.JPG", b"1"), ("a.png", b"2"), ("a.jpg", b"3")])
    with pytest.warns(UserWarning, match="Multiple components matching output 0"):
        pipe = reader(path, "png;jpg")
    assert texts(pipe.run()[0]) == [b"2"]
    with pytest.warns(UserWarning, match="Multiple components"):
        assert texts(reader(path, "jpg", case_sensitive_extensions=False).run()[0]) == [b"1"]


def test_golden_container_order(tmp_path):
    """shuffle_after_epoch permutes archives and keeps the samples of an archive together."""
    paths = [write_tar(tmp_path / f"{k}.tar", [(f"{r}.x", b"%d" % (10 * k + r)) for r in range(3)]) for k in range(4)]
    pipe = reader(paths, "x", 12, shuffle_after_epoch=True)
    epochs = [[int(text) for text in texts(pipe.run()[0])] for _ in range(3)]
    order = [[3, 1, 0, 2], [0, 1, 2, 3], [2, 3, 1, 0]]
    assert epochs == [[10 * k + r for k in files for r in range(3)] for files in order]
