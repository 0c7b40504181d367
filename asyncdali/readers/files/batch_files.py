"""Files of a batch for readers that open them from Python. Remote files of a batch are fetched together."""

from __future__ import annotations

import io
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future

import numpy as np

from ...operators.base import CompiledJob, SampleError
from ..base import Draw, ReaderOperator
from ..remote.remote import Opener, RemoteError, is_remote, open_file, read_files
from .contents import advise
from .file_table import FileTable


class BatchFiles:
    """The files from which samples of `reader` are made.

    Args:
        table: all files.
        files: function that maps samples to the numbers of their files, int64[samples * n]: n per sample, one sample after another.
        recent: number of remote files that are kept for later batches, which may need them again.
    """

    def __init__(self, reader: ReaderOperator, table: FileTable, files: Callable[[np.ndarray], np.ndarray], recent: int = 0):
        self._reader, self._table, self.numbers = reader, table, files
        self._recent = SharedFiles(recent)

    def hints(self, draw: Draw) -> Iterable[CompiledJob]:
        """Hints for the system before local files are read: for this batch with `read_ahead`, for later ones with
        `prefetch_queue_depth`."""
        if self._table.remote:
            return
        reader = self._reader
        ahead = reader.ahead(draw)
        wanted = [draw.indices] * bool(reader.spec.constant("read_ahead")) + ([] if ahead is None else [ahead])
        if wanted:
            yield from advise(self._table, np.unique(self.numbers(np.concatenate(wanted))))

    def opener(self, draw: Draw) -> Opener:
        """A function that opens the files of these samples by path, when all remote ones have arrived. SampleError for a missing file."""
        if not self._table.remote:
            return open_file
        contents = self._reader.fetched(draw, self._fetch)
        return lambda path: io.BytesIO(contents[path]) if path in contents else open_file(path)

    def _fetch(self, indices: np.ndarray) -> dict[str, bytes]:
        files = self.numbers(indices)
        paths = [self._table.path(int(file)) for file in files]
        try:
            return self._recent.read(list(dict.fromkeys(filter(is_remote, paths))))
        except RemoteError as error:
            raise SampleError(paths.index(error.path) * len(indices) // len(paths), str(error)) from error


class SharedFiles:
    """Whole remote files by path. Each is fetched once for the batches in flight; the last `keep` files stay for later batches."""

    def __init__(self, keep: int):
        self._keep = keep
        self._lock = threading.Lock()
        self._known: OrderedDict[str, Future[bytes]] = OrderedDict()  # least recently used first

    def read(self, paths: Sequence[str]) -> dict[str, bytes]:
        """The contents of distinct files, requested together. RemoteError for a file that cannot be read."""
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
            except Exception:  # raised by another batch's thread, perhaps for another file
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


