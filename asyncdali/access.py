"""Limits of the files that the operators of one pipeline may open: none for a program's own graph, some for a graph from outside."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import unquote

_MOST_UNQUOTED = 8


def climbs(name: str, quoted: bool) -> bool:
    """Whether a segment of a path is ``..``. `quoted`: also as a server may decode it (``%2e``, ``%2f``, a backslash as a slash)."""
    if quoted:
        for _ in range(_MOST_UNQUOTED):
            decoded = unquote(name)
            if decoded == name:
                break
            name = decoded
        name = name.replace("\\", "/")
    return ".." in name.split("/")


@dataclass(frozen=True)
class Access:
    """Folders and URLs that may be read, and folders that may be written to; None: all.

    A place is a folder (``/data/train``), a scheme (``s3://``), or the beginning of a URL (``https://host/data``). A chain of file systems
    (``simplecache::s3://bucket``) is allowed only by a place that spells the same chain. Names are compared; links are not followed.
    """

    read: tuple[str, ...] | None = None
    write: tuple[str, ...] | None = None

    @classmethod
    def of(cls, read: Iterable[str | os.PathLike[str]] | None, write: Iterable[str | os.PathLike[str]] | None) -> Access:
        """Make the limits from the user's arguments. TypeError unless it is a list of paths; ValueError for an empty place."""
        return cls(_places(read, "allow"), _places(write, "allow_write"))

    @property
    def limited(self) -> bool:
        """Whether reading is limited."""
        return self.read is not None

    def may_read(self, path: str) -> bool:
        """Whether a file or directory may be opened for reading."""
        return self.read is None or any(_within(path, place) for place in self.read)

    def may_write(self, path: str) -> bool:
        """Whether a file may be created or replaced."""
        return self.write is None or any(_within(path, place) for place in self.write)

    def check_read(self, path: str, what: str) -> None:
        """Raise RuntimeError that names `path`, unless it may be read."""
        if not self.may_read(path):
            raise RuntimeError(
                f"Refused to open {path!r} ({what}): this graph may read {_listed(self.read)}. "
                "If you trust the graph, add the folder or the scheme to `allow` of Pipeline.deserialize."
            )

    def check_write(self, path: str, what: str) -> None:
        """Raise RuntimeError that names `path`, unless it may be written."""
        if not self.may_write(path):
            raise RuntimeError(
                f"Refused to write {path!r} ({what}): this graph may write {_listed(self.write)}. "
                "If you trust the graph, add the folder to `allow_write` of Pipeline.deserialize."
            )


EVERYTHING = Access()
"""The limits of a program's own graph: none."""


def _listed(places: tuple[str, ...] | None) -> str:
    return ", ".join(map(repr, places or ())) or "nothing"


def _places(given: Iterable[str | os.PathLike[str]] | None, name: str) -> tuple[str, ...] | None:
    if given is None:
        return None
    items = [given] if isinstance(given, (str, os.PathLike)) else list(given)
    places = [os.fspath(item) if isinstance(item, (str, os.PathLike)) else item for item in items]
    wrong = next((place for place in places if not isinstance(place, str)), None)
    if wrong is not None:
        raise TypeError(f"`{name}` is a list of folders, schemes (such as 's3://') and beginnings of URLs, got {wrong!r}")
    if "" in places:
        raise ValueError(f"`{name}` contains an empty string; the working directory is '.'")
    return tuple(places)


def _within(path: str, place: str) -> bool:
    if climbs(path, "://" in path):
        return False
    if "://" in place or "://" in path or "::" in path:
        if path.count("::") != place.count("::"):
            return False
        if place.endswith("://"):
            return path.startswith(place)
        return path == place.rstrip("/") or path.startswith(place.rstrip("/") + "/")
    own = os.path.abspath(path)
    folders = {os.path.abspath(place), os.path.realpath(place)}
    return any(own == folder or own.startswith(folder.rstrip("/") + "/") for folder in folders)
