"""Text files beside the data: lists of names, and indices of containers. A crash while writing leaves the old file or the new one."""

from __future__ import annotations

import codecs

import numpy as np

from ...system.files import replace_file
from ..remote.remote import Opener, open_file, read_whole

_LONGEST = 19
"""Digits of the largest int64."""


def read_bytes(path: str, what: str = "file", open_file: Opener = open_file) -> bytes:
    """The whole file. RuntimeError names a file that cannot be read."""
    try:
        return read_whole(path, open_file)
    except OSError as error:
        raise RuntimeError(f"Could not open {what} {path}: {error.strerror or error}") from error


def read_text(path: str, what: str = "file") -> bytes:
    """A text file without the byte-order mark that Windows programs put in front. RuntimeError names a file that cannot be read."""
    data = read_bytes(path, what)
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) and b"\0" in data:
        raise RuntimeError(f"{what} {path} is encoded as UTF-16 or UTF-32; save it as UTF-8")
    return data.removeprefix(codecs.BOM_UTF8)


def read_lines(path: str) -> list[bytes]:
    """The lines of a file list, without their ends (LF or CRLF). Byte order marks are dropped: lists that were joined have several."""
    return [line.removesuffix(b"\r").removeprefix(codecs.BOM_UTF8) for line in read_text(path, "file list").split(b"\n")]


def parse_pairs(data: bytes, path: str) -> np.ndarray:
    """Pairs of non-negative numbers, int64[pairs, 2]. RuntimeError gives the line of an invalid number."""
    tokens = data.split()
    if not tokens:
        raise RuntimeError(f"Content of index files should not be empty: {path}")
    # One very long token would make numpy's table of tokens huge, so the length is checked first.
    if max(map(len, tokens)) <= _LONGEST and b"".join(tokens).isdigit() and len(tokens) % 2 == 0:
        try:
            return np.array(tokens).astype(np.int64).reshape(-1, 2)
        except (ValueError, OverflowError):
            pass
    raise RuntimeError(_first_wrong(data, path))


def _first_wrong(data: bytes, path: str) -> str:
    for number, line in enumerate(data.splitlines(), 1):
        tokens = line.split()
        bad = any(not token.isdigit() or len(token) > _LONGEST or int(token) >= 2**63 for token in tokens)
        if bad or len(tokens) not in (0, 2):
            shown = line[:100].decode("utf-8", "replace")
            return f'Malformed index file "{path}" line {number}: expected 2 whole numbers, got: {shown}'
    return f'Malformed index file "{path}": expected 2 whole numbers per line'


def write_text(path: str, text: str) -> None:
    """Replace the file atomically."""
    replace_file(path, text.encode("utf-8", "surrogateescape"))
