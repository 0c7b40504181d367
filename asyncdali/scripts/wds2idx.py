"""wds2idx ARCHIVE [INDEX]: an index of a webdataset archive: "v1.2 N", then a line "ext offset size name ..." per sample."""

from __future__ import annotations

import argparse
import sys
import tarfile
import time
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any

VERSION = "v1.2"


class IndexCreator:
    """Writes the index of an archive: ``with IndexCreator(archive, index) as creator: creator.create_index()``.

    - uri: path of the archive (tar, not compressed).
    - idx_path: path of the index.
    - verbose: whether progress is printed.
    """

    tar_block_size = 512
    index_file_version = VERSION

    def __init__(self, uri: str, idx_path: str, verbose: bool = True):
        self.uri = uri
        self.idx_path = idx_path
        self.verbose = verbose
        self._index: Any = open(idx_path, "w")

    def __enter__(self) -> IndexCreator:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def open(self) -> None:
        """Opens the index again."""
        if self._index.closed:
            self._index = open(self.idx_path, "w")

    def close(self) -> None:
        """Closes the index."""
        self._index.close()

    @staticmethod
    def split_name(path: str) -> tuple[str, str]:
        """(folders and name up to its first dot, what follows the dot).

        A name without a dot is its own extension, and its basename loses the last letter. Existing indices have this form.
        """
        dot = path.find(".", path.rfind("/") + 1)
        return (path[:dot], path[dot + 1 :])

    def create_index(self) -> None:
        """Writes the index. Raises ValueError for an archive without samples, FileNotFoundError without an archive."""
        begin = time.time()
        samples: list[list[str]] = []
        last = None
        count = 0
        for name, offset, size in self._files():
            basename, extension = self.split_name(name)
            if last != basename:
                samples.append([])
                last = basename
            samples[-1].append(f"{extension} {offset} {size} {name}")
            count += 1
            if count % 1000 == 0:
                self._say(begin, count, "collect")
        self._say(begin, count, "collect")
        if not samples:
            raise ValueError(f"Webdataset Tar File empty: {self.uri} has no files")
        self._index.write(f"{VERSION} {len(samples)}\n")
        self._index.writelines(" ".join(parts) + "\n" for parts in samples)
        self._say(begin, count, "done")

    def _files(self) -> Iterator[tuple[str, int, int]]:
        """Name, data offset and size of the files, without folders, links and hidden files."""
        with tarfile.open(self.uri, "r:") as archive:
            for member in archive:
                last = member.name.rsplit("/", 1)[-1]
                if member.isfile() and not last.startswith("."):
                    yield member.name, member.offset_data, member.size

    def _say(self, begin: float, count: int, stage: str) -> None:
        if self.verbose:
            print(f"time: {time.time() - begin:.2f} count: {count} stage: {stage}")


def default_index(archive: str) -> str:
    """The default path of the index: the archive's path up to a dot in its name (not at the first letter), with ".idx"."""
    dot = archive.find(".", archive.rfind("/") + 2)
    return (archive if dot < 0 else archive[:dot]) + ".idx"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="wds2idx", description=__doc__)
    parser.add_argument("archive", help="path of the .tar file")
    parser.add_argument("index", nargs="?", help="path of the index to write; by default beside the archive, ending in .idx")
    given = parser.parse_args(arguments)
    with IndexCreator(given.archive, given.index or default_index(given.archive)) as creator:
        creator.create_index()
    return 0


if __name__ == "__main__":
    sys.exit(main())
