"""Kinds of tar archives: joined, old, with links, sparse members, long attributes; and errors that name the cause."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import re
import shutil
import subprocess
import tarfile
import warnings

import numpy as np
import pytest

from asyncdali import Pipeline, fn
from asyncdali.__main__ import main
from asyncdali.readers.webdataset import tar, webdataset_kernels

PAIRS = [("000.jpg", b"A0"), ("000.cls", b"0"), ("001.jpg", b"A1"), ("001.cls", b"1")]
WANTED = [[b"A0", b"0"], [b"A1", b"1"]]


def archive(members, format=tarfile.GNU_FORMAT):
    """The bytes of an archive of (name, data) and of TarInfo."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=format) as file:
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                file.addfile(member)
                continue
            info = tarfile.TarInfo(member[0])
            info.size = len(member[1])
            file.addfile(info, io.BytesIO(member[1]))
    return out.getvalue()


def link(name, target, kind=tarfile.LNKTYPE):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def samples(path, data, ext=("jpg", "cls"), **arguments):
    """All samples of an archive."""
    path.write_bytes(data)
    pipe = Pipeline(batch_size=1, num_threads=1, seed=1)
    with pipe:
        made = fn.readers.webdataset(paths=str(path), ext=list(ext), name="R", **arguments)
        pipe.set_outputs(*(made if isinstance(made, list) else [made]))
    pipe.build()
    return [[np.asarray(column[0]).tobytes() for column in pipe.run()] for _ in range(pipe.epoch_size("R"))]


FIRST, SECOND = archive(PAIRS), archive([("002.jpg", b"A2"), ("002.cls", b"2")])
CONTENT = FIRST[: 512 * 8]  # four headers and four blocks of data


@pytest.mark.parametrize("zeros", [0, 512, 1024, 10240, 1 << 20])
def test_archives_one_behind_another(tmp_path, zeros):
    """``cat a.tar b.tar > c.tar``, with as many blocks of zeros between as the writer's blocking makes."""
    both = [*WANTED, [b"A2", b"2"]]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert samples(tmp_path / "a.tar", CONTENT + bytes(zeros) + SECOND) == both
        assert samples(tmp_path / "a.tar", CONTENT + bytes(zeros) + SECOND + bytes(zeros)) == both


def test_other_bytes_behind_the_end(tmp_path):
    with pytest.warns(UserWarning, match=r"a.tar: the bytes behind the end of the archive are no members and are not read"):
        assert samples(tmp_path / "a.tar", FIRST + b"x" * 700) == WANTED
    with pytest.warns(UserWarning, match=r"behind the end"):
        assert samples(tmp_path / "a.tar", FIRST + b"x") == WANTED
    damaged = bytearray(SECOND)
    damaged[0] ^= 1
    with pytest.raises(RuntimeError, match=rf"a.tar: offset {len(FIRST)}: the checksum of a header is wrong"):
        samples(tmp_path / "a.tar", FIRST + bytes(damaged))


@pytest.mark.parametrize("format", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT, tarfile.USTAR_FORMAT])
def test_links_have_the_data_of_their_target(tmp_path, format):
    folder = "d" * 60 + "/" + "e" * 60 if format != tarfile.USTAR_FORMAT else "d"  # longer than a header's field
    members = [
        (f"{folder}/0.jpg", b"J"), (f"{folder}/0.cls", b"7"), (f"{folder}/1.jpg", b"K"), link(f"{folder}/1.cls", f"{folder}/0.cls"),
        link(f"{folder}/2.jpg", f"{folder}/1.jpg"), link(f"{folder}/2.cls", "1.cls", tarfile.SYMTYPE),
        link("out/3.jpg", "/etc/hostname", tarfile.SYMTYPE), link("out/3.txt", "../../4", tarfile.SYMTYPE), ("out/3.cls", b"9"),
    ]  # fmt: skip
    wanted = [[b"J", b"7"], [b"K", b"7"], [b"K", b"7"], [b"", b"9"]]
    assert samples(tmp_path / "a.tar", archive(members, format)) == wanted
    assert main(["wds2idx", str(tmp_path / "a.tar")]) == 0
    assert samples(tmp_path / "a.tar", archive(members, format), index_paths=[str(tmp_path / "a.idx")]) == wanted


def test_links_without_a_target(tmp_path):
    broken = archive([("0.jpg", b"J"), link("0.cls", "1.cls")])
    with pytest.warns(UserWarning, match=r"a.tar: '0.cls' is a hard link to '1.cls', which the archive lacks; the link is skipped"):
        assert samples(tmp_path / "a.tar", broken) == [[b"J", b""]]
    with pytest.raises(RuntimeError, match=r"sample 0 \(0.jpg\) has no file with the extension 'cls'"):
        samples(tmp_path / "a.tar", broken, missing_component_behavior="error")
    circle = archive([("0.jpg", b"J"), link("0.cls", "1.cls", tarfile.SYMTYPE), link("1.cls", "0.cls", tarfile.SYMTYPE)])
    assert samples(tmp_path / "a.tar", circle) == [[b"J", b""]]


def old_header(name, data=b"", signed=False):
    """A header of the seventh edition of Unix: no magic word, folders end in a slash. Some writers added signed characters."""
    head = bytearray(512)
    head[: len(name)] = name
    head[100:148] = b"0000644\0" + b"0000000\0" * 2 + b"%011o\0" % len(data) + b"00000000000\0"
    head[148:156] = b" " * 8
    total = sum(byte - 256 if signed and byte > 127 else byte for byte in head)
    head[148:156] = b"%06o\0 " % total
    return bytes(head) + data + bytes(-len(data) % 512)


@pytest.mark.parametrize("signed", [False, True])
def test_the_oldest_format(tmp_path, signed):
    members = [("ü/".encode(), b""), ("ü/0.jpg".encode(), b"J"), ("ü/0.cls".encode(), b"7")]
    data = b"".join(old_header(name, content, signed) for name, content in members)
    assert samples(tmp_path / "a.tar", data + bytes(1024)) == [[b"J", b"7"]]


def test_names_without_a_dot(tmp_path):
    """Each is a sample of its own, whose extension is the name."""
    data = archive([("abc", b"1"), ("abd", b"2"), ("a", b"3"), ("d/e", b"4")])
    assert samples(tmp_path / "a.tar", data, ["abc", "abd", "a"]) == [[b"1", b"", b""], [b"", b"2", b""], [b"", b"", b"3"], [b""] * 3]


@pytest.mark.skipif(shutil.which("tar") is None, reason="needs GNU tar")
@pytest.mark.parametrize("options", ["--format=gnu", *(f"--format=pax --sparse-version={version}" for version in ("0.0", "0.1", "1.0"))])
def test_sparse_members_are_refused(tmp_path, options):
    with open(tmp_path / "0.jpg", "wb") as file:
        file.seek(1 << 20)
        file.write(b"end")
    (tmp_path / "0.cls").write_bytes(b"5")
    made = subprocess.run(["tar", "--sparse", *options.split(), "-cf", "s.tar", "0.jpg", "0.cls"], cwd=tmp_path, check=False, timeout=60)
    if made.returncode:
        pytest.skip("this tar makes no sparse members")
    with pytest.raises(RuntimeError, match=r"s.tar: offset \d+: a sparse member, whose data are not in one piece"):
        samples(tmp_path / "s.tar", (tmp_path / "s.tar").read_bytes())


def with_attributes(attributes):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as file:
        for name, data in PAIRS:
            info = tarfile.TarInfo("x" * 200 + name)
            info.size, info.pax_headers = len(data), attributes
            file.addfile(info, io.BytesIO(data))
    return out.getvalue()


@pytest.mark.parametrize("size", [0, 65_000, 65_536, 70_000, 200_000])
def test_attributes_longer_than_a_window(tmp_path, size):
    """macOS stores resource forks in attributes. The path comes behind them, in another window."""
    attributes = {"LIBARCHIVE.xattr.com.apple.ResourceFork": "q" * size, "a": "b", "mtime": "1700000000.25"}
    assert samples(tmp_path / "a.tar", with_attributes(attributes)) == WANTED
    names = [member.name for member in tar.scan(str(tmp_path / "a.tar"))]
    assert names == ["x" * 200 + name for name, _ in PAIRS]


def test_attributes_at_every_place_of_a_window(tmp_path, monkeypatch):
    """A path whose record begins anywhere in the last bytes of a window."""
    for size in range(webdataset_kernels._WINDOW - 260, webdataset_kernels._WINDOW - 60, 3):
        (tmp_path / "a.tar").write_bytes(with_attributes({"k": "q" * size}))
        assert [member.name[:201] for member in tar.scan(str(tmp_path / "a.tar"))] == ["x" * 200 + "0"] * 4


@pytest.mark.parametrize(
    "text", [b"9999999 path=a\n", b"5 a=\n", b"x path=a\n", b"18446744073709551616 path=a\n", b"30 size=99999999999999999999\n" + b"x" * 9,
             b"11 size=-1\n", b"0 path=a\n"],
)  # fmt: skip
def test_broken_attributes(tmp_path, text):
    good = bytearray(with_attributes({"comment": "c" * 300}))
    good[512 : 512 + len(text)] = text
    with pytest.raises(RuntimeError, match=r"a.tar: offset \d+: the pax attributes of a member are broken"):
        samples(tmp_path / "a.tar", bytes(good))


@pytest.mark.parametrize("behavior", ["error", "skip", "empty"])
@pytest.mark.parametrize("kind, compress", [("gzip", gzip.compress), ("bzip2", bz2.compress), ("xz", lzma.compress)])
def test_compressed_archives_are_named(tmp_path, behavior, kind, compress):
    with pytest.raises(RuntimeError, match=rf"a.tgz: offset 0: .*the file is compressed \({kind}\): unpack it before it is read"):
        samples(tmp_path / "a.tgz", compress(FIRST), missing_component_behavior=behavior)


def test_an_index_of_another_archive(tmp_path):
    """The first and the last file of the index are looked at; other bytes came as samples."""
    good = "v1.2 2\njpg 512 2 000.jpg cls 1536 1 000.cls\njpg 2560 2 001.jpg cls 3584 1 001.cls\n"
    (tmp_path / "i").write_text(good)
    assert samples(tmp_path / "a.tar", FIRST, index_paths=[str(tmp_path / "i")]) == WANTED
    for right, wrong, message in (
        ("jpg 512 ", "jpg 0 ", "line 2 - tar offset is not a multiple of tar block size (512), or 0"),
        ("jpg 512 ", "jpg 1024 ", f"{tmp_path}/i does not fit {tmp_path}/a.tar: no file of the archive begins at offset 1024; make"),
        ("cls 3584 ", "cls 4096 ", f"{tmp_path}/i does not fit {tmp_path}/a.tar: no file of the archive begins at offset 4096; make"),
    ):
        (tmp_path / "i").write_text(good.replace(right, wrong))
        with pytest.raises(RuntimeError, match=re.escape(message)):
            samples(tmp_path / "a.tar", FIRST, index_paths=[str(tmp_path / "i")])


def test_incomplete_samples_are_named(tmp_path):
    with pytest.raises(RuntimeError) as caught:
        samples(tmp_path / "a.tar", archive([*PAIRS, ("d/002.image.jpg", b"I"), ("d/002.cls", b"2")]), missing_component_behavior="error")
    wanted = "sample 2 (d/002.image.jpg, d/002.cls) has no file with the extension 'jpg' of output 0"
    assert f'Underful sample detected at tar file at "{tmp_path}/a.tar": {wanted}' in str(caught.value)
    (tmp_path / "i").write_text("v1.2 2\njpg 512 2 000.jpg cls 1536 1 000.cls\njpg 2560 2 001.jpg\n")
    message = re.escape(f'Underful sample detected at index file at "{tmp_path}/i" line 3: sample 1 (001.jpg) has no file')
    with pytest.raises(RuntimeError, match=message):
        samples(tmp_path / "a.tar", FIRST, index_paths=[str(tmp_path / "i")], missing_component_behavior="error")
    many = archive([(f"a.x{k}", b"1") for k in range(20)])
    with pytest.raises(RuntimeError, match=r"sample 0 \(a.x0, .*a.x7, ...\) has no file"):
        samples(tmp_path / "a.tar", many, missing_component_behavior="error")
