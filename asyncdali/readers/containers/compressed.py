"""Names the compression of a file that a reader expected to be uncompressed."""

from __future__ import annotations

from ...codecs.compressed import compression_of
from ..remote.remote import read_part


def named_compression(path: str) -> str:
    """The end of an error's text about a file that has no valid beginning: how it is compressed; "" if it is not."""
    try:
        return compression_of(read_part(path, 0, 8))
    except (OSError, RuntimeError):
        return ""
