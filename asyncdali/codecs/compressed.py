"""Names the compression of data that should not be compressed."""

from __future__ import annotations

_SIGNATURES = (
    (b"\x1f\x8b", "gzip"), (b"\x28\xb5\x2f\xfd", "zstd"), (b"BZh", "bzip2"), (b"\xfd7zXZ\0", "xz"), (b"\x04\x22\x4d\x18", "lz4"),
    (b"PK\x03\x04", "zip"), (b"7z\xbc\xaf\x27\x1c", "7z"),
    (b"\x78\x01", "zlib"), (b"\x78\x5e", "zlib"), (b"\x78\x9c", "zlib"), (b"\x78\xda", "zlib"),
)  # fmt: skip
"""First bytes of compressed files."""


def compression_of(head: bytes) -> str:
    """The end of an error's text about data that begin with `head`, which is no valid beginning; "" if they are not compressed."""
    kind = next((name for signature, name in _SIGNATURES if head.startswith(signature)), None)
    if kind is None:
        return ""
    what = "a zip archive (.npz, for example)" if kind == "zip" else f"compressed ({kind})"
    return f"; the file is {what}: unpack it before it is read"
