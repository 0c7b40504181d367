"""The files of a batch for readers that open them from Python: the remote ones are fetched together."""

from __future__ import annotations

import io
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future

import numpy as np

from ..operators.base import CompiledJob, SampleError
from .base import Draw, ReaderOperator
from .contents import advise
from .files import FileTable
from .remote import Opener, RemoteError, is_remote, open_file, read_files


class BatchFiles:
    """The files that samples of `reader` are made of.

    Args:
        table: all files.
        files: gives the numbers of the files of some samples, int64[samples * n]: n for each, one sample after another.
        recent: so many remote files are kept for batches to come, which may need them again.
    """

    def __init__(self, reader: ReaderOperator, table: FileTable, files: Callable[[np.ndarray], np.ndarray], recent: int = 0):
        self._reader, self._table, self._files = reader, table, files
        self._recent = SharedFiles(recent)

    def hints(self, draw: Draw) -> Iterable[CompiledJob]:
        """What the system is told before local files are read: this batch's with `read_ahead`, later ones' with `prefetch_queue_depth`."""
        if self._table.remote:
            return
        reader = self._reader
        ahead = reader.ahead(draw)
        wanted = [draw.indices] * bool(reader.spec.constant("read_ahead")) + ([] if ahead is None else [ahead])
        if wanted:
            yield from advise(self._table, np.unique(self._files(np.concatenate(wanted))))

    def opener(self, draw: Draw) -> Opener:
        """What opens the files of these samples by their paths, once all remote ones are there. SampleError for one that can't be had."""
        if not self._table.remote:
            return open_file
        contents = self._reader.fetched(draw, self._fetch)
        return lambda path: io.BytesIO(contents[path]) if path in contents else open_file(path)

    def _fetch(self, indices: np.ndarray) -> dict[str, bytes]:
        files = self._files(indices)
        paths = [self._table.path(int(file)) for file in files]
        try:
            return self._recent.read(list(dict.fromkeys(filter(is_remote, paths))))
        except RemoteError as error:
            raise SampleError(paths.index(error.path) * len(indices) // len(paths), str(error)) from error


class SharedFiles:
    """Whole remote files by path: each is fetched once for the batches in flight, and the last `keep` stay for later ones."""

    def __init__(self, keep: int):
        self._keep = keep
        self._lock = threading.Lock()
        self._known: OrderedDict[str, Future[bytes]] = OrderedDict()  # the longest unused first

    def read(self, paths: Sequence[str]) -> dict[str, bytes]:
        """The contents of files, all different, asked for together. RemoteError for one that cannot be read."""
        with self._lock:
            missing = [path for path in paths if path not in self._known]
            self._known.update((path, Future()) for path in missing)
            futures = {path: self._known[path] for path in paths}
            for path in paths:
                self._known.move_to_end(path)
        if missing:
            self._fetch(missing, futures)
        found, again = {}, []
        for path, future in futures.items():
            try:
                found[path] = future.result()
            except Exception:  # of another batch's thread, perhaps about another file
                again.append(path)
        return {**found, **self.read(again)} if again else found

    def _fetch(self, paths: list[str], futures: dict[str, Future[bytes]]) -> None:
        try:
            contents = read_files(paths)
        except BaseException as error:
            with self._lock:
                for path in paths:
                    del self._known[path]
            for path in paths:
                futures[path].set_exception(error)
            raise
        for path, data in zip(paths, contents, strict=True):
            futures[path].set_result(data)
        with self._lock:
            there = [path for path, future in self._known.items() if future.done()]
            for path in there[: max(0, len(there) - self._keep)]:
                del self._known[path]


