"""The list of bad samples: in memory, and in a file to which several processes may append."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class BadSample:
    """One bad sample.

    origin     its file or record, if it is known
    operator   the public name of the operator that failed
    error      the first line of the error's cause
    reader     the name of the reader or of the source in the pipeline; "" for data from Python without an index
    index      its index in the reader's data set, or in the source's epoch; -1 for data from Python without an index
    iteration, sample   where it was found
    action     "replace" or "drop"
    data       digest of the reader's data set; None if that cannot be identified
    """

    origin: str | None
    operator: str
    error: str
    reader: str
    index: int
    iteration: int
    sample: int
    action: str
    data: str | None


class Quarantine:
    """Bad samples, each once. With `path`, every one is also appended to a file, as a line of JSON, before its
    iteration is returned.

    A file that exists is read at the start: its samples are left out without being read. Lines of other data sets are ignored.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None):
        self._path = None if path is None else os.fspath(path)
        self._entries: list[BadSample] = []
        self._seen: set[tuple[str, int]] = set()
        self._lock = threading.Lock()

    def load(self, reader: str, data: str | None) -> dict[int, str]:
        """The indices of a reader's bad samples in the file, with what is done with them. ValueError names a line that is no entry."""
        found: dict[int, str] = {}
        if self._path is None or not os.path.exists(self._path):
            return found
        with open(self._path, encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if not line.endswith("\n"):
                    break  # the writer was ended in the middle of it
                entry = _parsed(line, f"{self._path}, line {number}")
                if entry.reader == reader and entry.data is not None and entry.data == data and entry.index >= 0:
                    found[entry.index] = entry.action
                    self._keep(entry)
        return found

    def _keep(self, entry: BadSample) -> bool:
        key = entry.reader, entry.index
        with self._lock:
            if entry.index >= 0 and key in self._seen:
                return False
            self._seen.add(key)
            self._entries.append(entry)
        return True

    def knows(self, entry: BadSample) -> bool:
        """Whether a bad sample of a reader is in the list already."""
        return entry.index >= 0 and (entry.reader, entry.index) in self._seen

    def add(self, entry: BadSample) -> None:
        """Note a bad sample."""
        if self._keep(entry) and self._path is not None:
            line = json.dumps(asdict(entry), ensure_ascii=True) + "\n"
            descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)  # long lines are not written at once
                os.write(descriptor, line.encode())
            finally:
                os.close(descriptor)

    def entries(self) -> list[BadSample]:
        """All bad samples, in the order in which they were found."""
        with self._lock:
            return list(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def digest(self) -> str:
        """A digest of the samples, whatever the order in which they were found."""
        keys = sorted((entry.reader, entry.index) for entry in self.entries())
        return hashlib.blake2b(json.dumps(keys).encode(), digest_size=16).hexdigest()

    def table(self, more: Sequence[BadSample] = ()) -> str:
        """The causes with their numbers, for messages; those of `more` bad samples, too."""
        causes = Counter((entry.operator, entry.error) for entry in (*self.entries(), *more))
        return "\n".join(f"  {count:6} x {operator}: {error}" for (operator, error), count in causes.most_common(10))


def _parsed(line: str, where: str) -> BadSample:
    try:
        data: Any = json.loads(line)
        entry = BadSample(**data)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{where} is no entry of a quarantine: {error}") from None
    kinds = (entry.operator, str), (entry.reader, str), (entry.index, int), (entry.action, str)
    if not all(isinstance(value, kind) for value, kind in kinds) or entry.action not in ("replace", "drop"):
        raise ValueError(f"{where} is no entry of a quarantine: {line.strip()[:200]}")
    return entry
