"""Names the compression of a file that a reader expected to be uncompressed."""

from __future__ import annotations

from ..remote.remote import read_part

_SIGNATURES = (
    (b"\x1f\x8b", "gzip"), (b"\x28\xb5\x2f\xfd", "zstd"), (b"BZh", "bzip2"), (b"\xfd7zXZ\0", "xz"), (b"\x04\x22\x4d\x18", "lz4"),
    (b"PK\x03\x04", "zip"), (b"7z\xbc\xaf\x27\x1c", "7z"),
    (b"\x78\x01", "zlib"), (b"\x78\x5e", "zlib"), (b"\x78\x9c", "zlib"), (b"\x78\xda", "zlib"),
)  # fmt: skip
"""First bytes of compressed files."""


def named_compression(path: str) -> str:
    """The end of an error's text about a file that has no valid beginning: how it is compressed; "" if it is not."""
    try:
        head = read_part(path, 0, 8)
    except (OSError, RuntimeError):
        return ""
    kind = next((name for signature, name in _SIGNATURES if head.startswith(signature)), None)
    return "" if kind is None else f"; the file is compressed ({kind}): decompress it before it is read"
