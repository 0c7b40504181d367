"""The compiled listing of directories equals Python's listing."""

from __future__ import annotations

import os

import numpy as np
import pytest

from asyncdali.batch import encoded_origins
from asyncdali.engines.wire.encoding import SourceInfo
from asyncdali.readers.files import file_table, listing
from asyncdali.readers.files.contents import SampleNames
from asyncdali.readers.files.file_table import FileTable, scan_classes
from asyncdali.readers.files.listing import list_files


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """Names of all kinds in random order, links to files, to directories and to missing targets, and empty directories."""
    root = tmp_path_factory.mktemp("tree")
    rng = np.random.default_rng(0)
    letters = "aAbBzZ09_-. ü漢"
    for folder in ("b", "B", "empty", "ü", "many", ".hidden"):
        (root / folder).mkdir()
        for _ in range({"empty": 0, "many": 300}.get(folder, 20)):
            name = "".join(rng.choice(list(letters), int(rng.integers(1, 40)))).strip(" .") or "x"
            (root / folder / (name + str(rng.choice([".jpg", ".JPG", ".jpeg", ".txt", ""])))).touch()
    (root / "b" / "folder.jpg").mkdir()
    for name, target in (("file.jpg", "../many"), ("to_folder.jpg", "folder.jpg"), ("nothing.jpg", "no such"), ("link.jpg", "real.jpg")):
        (root / "b" / name).symlink_to(target)
    (root / "b" / "real.jpg").touch()
    os.symlink("many", root / "linked")
    return root


def listed(root, folders, ends, fold):
    """(path, number of the folder) of each file, listed in Python."""
    def matches(name):
        return not ends or any((name.lower() if fold else name).endswith(end.lower() if fold else end) for end in ends)

    return [(f"{root}/{folder}/{name}", number) for number, folder in enumerate(folders)
            for name in sorted(os.listdir(root / folder), key=os.fsencode)
            if matches(name) and not os.path.isdir(root / folder / name)]  # fmt: skip


def files_of(found):
    return list(zip([text.decode() for text in found.paths.tobytes().split(b"\0")[:-1]], found.folders.tolist(), strict=True))


@pytest.mark.parametrize("ends, fold", [([], False), ([".jpg"], False), ([".jpg", "JPEG"], True), (["ü.txt", ".JPG"], False), ([""], True)])
@pytest.mark.parametrize("entries, size", [(1 << 16, 1 << 22), (7, 1 << 10)])
def test_files_of_directories(tree, monkeypatch, ends, fold, entries, size):
    monkeypatch.setattr(listing, "_ENTRIES", entries)
    monkeypatch.setattr(listing, "_BYTES", size)
    monkeypatch.setattr(listing, "_FOLDERS", 2)
    folders = ["b", "B", "empty", "ü", "many", ".hidden", "linked"]
    found = list_files([str(tree / folder) for folder in folders], ends, fold)
    assert files_of(found) == listed(tree, folders, ends, fold)
    assert [found.paths[start - 1] for start in found.starts[1:]] == [0] * (len(found.starts) - 1)


@pytest.mark.parametrize("filters", [["*.jpg"], ["*.jpg", "*.txt"], ["*"], ["*[ab]*.jpg"], ["?*_*"], ["*.ü"]], ids=str)
def test_classes(tree, filters):
    import fnmatch

    folders = sorted((entry.name for entry in tree.iterdir() if entry.is_dir() and entry.name[0] != "."), key=os.fsencode)
    table = scan_classes(str(tree), filters, None, True)
    wanted = [(path, number) for path, number in listed(tree, folders, [], False)
              if any(fnmatch.fnmatchcase(os.path.basename(path), pattern) for pattern in filters)]  # fmt: skip
    assert [(table.path(k), int(table.labels[k])) for k in range(len(table))] == wanted
    assert [table.name(k) for k in range(len(table))] == [os.path.relpath(path, tree) for path, _ in wanted]


def test_folders_that_cannot_be_listed(tree):
    with pytest.raises(RuntimeError, match="Failed to open .*gone: No such file"):
        list_files([str(tree / "b"), str(tree / "gone")], [], False)
    with pytest.raises(RuntimeError, match=r"Failed to open .*real.jpg: Not a directory"):
        list_files([str(tree / "b" / "real.jpg")], [], False)
    assert files_of(list_files([], [".jpg"], True)) == []


def test_tables_of_names():
    table = FileTable.of(["a/b", "/x", "c://d", "./e"], [1, 2, 3, 4], "root")
    assert [table.path(k) for k in range(4)] == ["root/a/b", "/x", "c://d", "root/./e"] and table.remote
    assert [table.name(k) for k in range(4)] == ["a/b", "/x", "c://d", "./e"]
    for root in ("root", "root/"):
        plain = FileTable.of(["a", "b/c:d"], [0, 1], root)
        assert [plain.path(k) for k in range(2)] == ["root/a", "root/b/c:d"] and not plain.remote
        assert [plain.name(k) for k in range(2)] == ["a", "b/c:d"]
    chosen = table.chosen(np.array([2, 0]))
    assert [chosen.name(k) for k in range(2)] == ["c://d", "a/b"] and chosen.labels.tolist() == [3, 1]


def test_a_table_is_compact(tmp_path):
    """A table takes the bytes of each path and 12 bytes more."""
    (tmp_path / "c").mkdir()
    for k in range(1000):
        (tmp_path / "c" / f"{k:04d}.jpg").touch()
    table = scan_classes(str(tmp_path), ["*.jpg"], None, False)
    longest = len(os.fsencode(table.path(0))) + 1
    assert table.paths.nbytes + table.starts.nbytes + table.labels.nbytes <= 1000 * (longest + 12)


@pytest.mark.parametrize("utf_8", [True, False])
def test_encoded_names_are_those_of_the_samples(monkeypatch, utf_8):
    """Engines send them. A name may be any bytes; a name that is not its path without the folder is kept beside the path."""
    monkeypatch.setattr(file_table, "_UTF_8", utf_8)
    names = ["a/b.jpg", os.fsdecode(b"c\xff/\xc3\xa4"), "", "long" * 200, "a/b.jpg"]
    for listed in (names, [*names, "/elsewhere/d"], [*names, "./e"]):
        for root in ("", "root"):
            table = FileTable.of(listed, [0] * len(listed), root)
            for indices in ([], [2], [4, 0, 1, 3, 3], [len(listed) - 1, 0]):
                found = SampleNames(table.chosen(np.arange(len(listed))), np.array(indices, np.int64))
                assert found.encoded() == encoded_origins([table.name(index) for index in indices])
                assert SourceInfo(found.encoded(), len(indices)).encoded() == found.encoded()
